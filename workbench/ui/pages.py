"""The pages of the app and what they share."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from workbench.figures.tables import paths_table
from workbench.paths.catalog import PATHS
from workbench.paths.spec import Path
from workbench.ui import compare, inspector, overview, state, whatif
from workbench.ui.divergence import divergence_page
from workbench.ui.releases import releases_page

SIDEBAR = 429  # pixels, so that the row list shows its columns
_KEY = "paths"


def paths_page() -> None:
    """The catalogue of paths; a click on one lists its variants."""
    state.leave_page()
    st.markdown("#### Paths that the workbench knows")
    table = paths_table(PATHS).drop(columns=["releases", "reports"])  # a click shows them in full
    table.insert(2, "variants", [len(path.variants) for path in PATHS])
    text, number = st.column_config.TextColumn, st.column_config.NumberColumn
    widths = {"path": 160, "summary": 330, "coarse key": 78, "capacity": 96, "k": 104, "length": 100, "evidence": 170}
    chosen = st.dataframe(
        table,
        key=_KEY,
        hide_index=True,
        height=560,
        on_select="rerun",
        selection_mode=["single-row", "single-cell"],
        column_config={name: text(width=width) for name, width in widths.items()} | {"variants": number(width=64)},
    )
    places = [cell[0] for cell in chosen.selection.cells] or chosen.selection.rows
    if places:
        _variants(PATHS[places[0]])
    else:
        st.caption("Choose a path to see its releases, reports and variants.")


def _variants(path: Path) -> None:
    st.markdown(f"##### {state.plain(path.name)}")
    st.markdown(state.plain(f"{path.summary} {path.source}; {path.releases}."))
    if path.references:
        st.markdown(state.plain(f"Reports: {', '.join(path.references)}."))
    st.table(_table(path))


def _table(path: Path) -> pd.DataFrame:
    """One line a variant."""
    shown: Sequence[tuple[str, str, str, str]] = [
        (
            state.plain(one.name),
            "yes" if one.lossless else "no",
            one.evidence.value if one.modelled else f"{one.evidence.value}; not modelled",
            state.plain(one.note),
        )
        for one in path.variants
    ]
    return pd.DataFrame(shown, columns=["variant", "lossless", "evidence", "note"]).set_index("variant")


def _inspect() -> None:
    """The page that the app opens on, unless audits alone were given."""
    if overview.opens_first():
        st.switch_page(overview.page())
    inspector.inspect_page()


def navigation() -> list[st.Page]:
    """All pages; the first is the one that the app opens on."""
    return [
        inspector.page(_inspect),
        overview.page(),
        compare.page(),
        whatif.page(),
        st.Page(divergence_page, title="Divergence", icon=":material/call_split:", url_path="divergence"),
        st.Page(releases_page, title="Releases", icon=":material/history:", url_path="releases"),
        st.Page(paths_page, title="Paths", icon=":material/route:", url_path="paths"),
    ]
