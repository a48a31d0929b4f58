"""The view of every path's threshold bin against its buffer."""

from __future__ import annotations

import streamlit as st

from workbench.figures import palette
from workbench.figures.capacity import capacity_figure, in_order
from workbench.figures.tables import census_table, outlook_texts
from workbench.runs.inspect import Inspection
from workbench.ui import state
from workbench.ui.common import PLOT


def show_capacity(found: Inspection, key: str) -> None:
    """All paths on one axis, and the numbers beneath. ``key`` names what is inspected."""
    risks = in_order(found.census, found.reached)
    taken = [risk for risk in risks if not risk.refused]
    over = [risk for risk in taken if risk.breach]
    losing = [risk for risk in taken if risk.level in ("at risk", "certain")]
    text = (
        f"{len(taken)} of {len(risks)} paths take this row; on {len(over)} its threshold bin holds more than the buffer"
    )
    unknown = [risk for risk in taken if risk.level is None]
    text += f", and {len(losing)} can lose winners{f', unknown for {len(unknown)}' if unknown else ''}."
    if found.reached is not None:
        text += f" The op sends it to **{state.plain(found.reached)}** (▸)."
    else:
        text += f" Which one it would reach is unknown: {state.plain(found.case.unrouted)}."
    if 0 < len(taken) < len(risks):
        text += f" The {len(risks) - len(taken)} that refuse it are in the table only."
    st.markdown(text)
    st.plotly_chart(capacity_figure(taken or risks, found.reached), key=f"capacity:{key}", theme=None, config=PLOT)
    table = census_table(risks, found.reached)
    table["risk"] = [[level] for level in table["risk"]]
    texts = [outlook_texts(risk) for risk in risks]
    for name, column in zip(("p_clean", "expected", "span"), zip(*texts, strict=True), strict=True):
        table[name] = column
    text_column = st.column_config.TextColumn
    st.dataframe(
        table.drop(columns=["least", "most", "reached"]),
        hide_index=True,
        height="content",
        placeholder="–",
        column_order=["path", "risk", "p_clean", "expected", "span", "bin", "above", "need", "why"],
        column_config={
            "risk": st.column_config.MultiselectColumn(options=list(palette.RISKS), color=list(palette.RISKS.values())),
            **{name: st.column_config.NumberColumn(format="localized", width=62) for name in ("bin", "above", "need")},
            "p_clean": text_column("p clean", alignment="right", width=70),
            "expected": text_column("mean lost", alignment="right", width=78),
            "span": text_column("least – most", alignment="right", width=100),
            "why": text_column("why", width="large"),
        },
    )
