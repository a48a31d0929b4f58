"""The view of every path's threshold bin against its buffer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pandas as pd
import streamlit as st

from workbench.analysis.risk import LOSING, Risk
from workbench.figures import palette
from workbench.figures.capacity import capacity_figure, in_order
from workbench.figures.tables import census_table, outlook_texts
from workbench.figures.words import plural
from workbench.runs.compare import BASELINES
from workbench.runs.compare import SYSTEMS as COMPARED
from workbench.runs.inspect import Inspection
from workbench.runs.law_words import law_notes
from workbench.runs.sentence import judged_risks
from workbench.ui import downloads, state
from workbench.ui.common import picture
from workbench.words import listed

_PATH = 190  # pixels of the column of paths


def show_capacity(found: Inspection, key: str, more: Callable[[], None] | None = None) -> None:
    """All paths on one axis, and the numbers beneath.

    Args:
        key: names what is inspected. more: what else is offered to be taken away.
    """
    risks = in_order(found.census, found.reached)
    taken = [risk for risk in risks if not risk.refused]
    over = [risk for risk in taken if risk.breach]
    losing = [risk for risk in taken if risk.level in LOSING]
    unknown = [risk for risk in taken if risk.level is None]
    text = f"{len(taken)} of {len(risks)} paths take this row{_by_kind(found, taken)}. On {len(over) or 'none'} its "
    text += f"threshold bin holds more than the buffer, and {len(losing) or 'none'} can lose winners"
    text += f", unknown for {len(unknown)}." if unknown else "."
    beside = [risk.path for risk in losing if _is_baseline(risk)]
    if beside:
        one = len(beside) == 1
        text += f" Among them {'is' if one else 'are'} {state.plain(listed(beside))}, "
        text += "a baseline." if one else "baselines."
    if found.reached is not None:
        text += f" The op sends it to **{state.plain(found.reached)}** (▸)."
    else:
        text += f" Which one it would reach is unknown: {state.plain(found.case.unrouted)}."
    if 0 < len(taken) < len(risks):
        text += f" The {len(risks) - len(taken)} that refuse it are listed below."
    st.markdown(text)
    saved = downloads.file_name(found.row.capture, f"row{found.row.index}", "capacity")
    figure = capacity_figure(taken or risks, found.reached)
    picture(figure, key=f"capacity:{key}", config=downloads.picture(saved))
    downloads.offer(saved, f"capacity:{key}", {"Risk by path": lambda: census_table(risks, found.reached)}, more=more)
    _risks(taken, found.reached)
    _refused([risk for risk in risks if risk.refused])


def _by_kind(found: Inspection, taken: Sequence[Risk]) -> str:
    """How many of the paths that take the row are judged, as the sentence on the row counts them, and what the others
    are: ``: 18 judged, 2 baselines and 1 not modelled``."""
    judged = {risk.path for risk in judged_risks(found.results)}
    kinds = Counter(
        "judged"
        if risk.path in judged
        else "not modelled"
        if risk.observed
        else "baseline"
        if _is_baseline(risk)
        else "not judged"
        for risk in taken
    )
    named = [kind for kind in ("judged", "not judged", "baseline", "not modelled") if kinds[kind]]
    told = [plural(kinds[kind], kind) if kind == "baseline" else f"{kinds[kind]} {kind}" for kind in named]
    return f": {listed(told)}" if told else ""


def _is_baseline(risk: Risk) -> bool:
    return risk.path.split(".")[0] in COMPARED[BASELINES]


def _refused(risks: Sequence[Risk]) -> None:
    """The paths that do not take the row, and why."""
    if not risks:
        return
    st.markdown(f"**Refused by {plural(len(risks), 'path')}**")
    st.dataframe(
        pd.DataFrame([(risk.path, "; ".join(risk.refused)) for risk in risks], columns=["path", "why"]),
        hide_index=True,
        height="content",
        column_config={"path": st.column_config.TextColumn(width=_PATH)},
    )


def _risks(risks: Sequence[Risk], reached: str | None) -> None:
    """The numbers of the paths that take the row; what must be said of some of them beneath."""
    if not risks:
        return
    table = census_table(risks, reached)
    table["risk"] = [[level] for level in table["risk"]]
    texts = [outlook_texts(risk) for risk in risks]
    for name, column in zip(("p_clean", "expected", "span"), zip(*texts, strict=True), strict=True):
        table[name] = column
    text_column = st.column_config.TextColumn
    st.dataframe(
        table.drop(columns=["least", "most", "clean_at_most", "reached", "why"]),
        hide_index=True,
        height="content",
        placeholder="–",
        column_order=["path", "risk", "p_clean", "expected", "span", "bin", "above", "need"],
        column_config={
            "path": text_column(width=_PATH),
            "risk": st.column_config.MultiselectColumn(
                options=list(palette.RISKS), color=list(palette.RISKS.values()), width=88
            ),
            **{name: st.column_config.NumberColumn(format="localized", width=62) for name in ("bin", "above", "need")},
            "p_clean": text_column("p clean", alignment="right", width=70),
            "expected": text_column("mean lost", alignment="right", width=78),
            "span": text_column("least – most", alignment="right", width=100),
        },
    )
    for path, why in zip(table["path"], table["why"], strict=True):
        if why:
            st.caption(state.plain(f"{path}: {why}"))
    for note in law_notes((risk.path, risk.level, risk.clean_at_most) for risk in risks):
        st.caption(state.plain(f"{note}."))
