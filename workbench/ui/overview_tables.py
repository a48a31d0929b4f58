"""The tables of an audit as Streamlit shows them."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from workbench.audit.schema import arrow_schema
from workbench.audit.summary import Summary
from workbench.audit.tables import Table
from workbench.figures.audit_page import MARKED, cell_text
from workbench.ui import downloads, state

_NAMES = ("row", "layer", "step", "rank")  # numbers that name something


def show_table(table: Table) -> None:
    """A table as high as its lines, up to a dozen."""
    narrow = len(table.columns) < 8 and all(kind != "text" for _, kind in table.columns)
    st.dataframe(
        frame(table),
        hide_index=True,
        height="content" if len(table.rows) <= 12 else 440,
        placeholder="–",
        width="content" if narrow else "stretch",
        column_config=column_config(table),
    )
    if table.more:
        st.caption(state.plain(f"{table.more}."))


def offer_tables(found: Summary, key: str) -> None:
    """A button that gives the paths, and the worst rows as the records have them. ``key``: of the audit."""
    tables = {"Worst rows": lambda: _worst(found), "Paths": lambda: pd.DataFrame([vars(path) for path in found.paths])}
    downloads.offer(file_stem(found), key, tables)


def file_stem(found: Summary) -> str:
    """How files that are taken away of an audit or of a scan begin."""
    return downloads.file_name(found.name, found.kind)


def _worst(found: Summary) -> pd.DataFrame:
    import pyarrow as pa

    table = pa.Table.from_pylist([dict(line) for line in found.worst], schema=arrow_schema())
    lines: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    return lines


def frame(table: Table) -> pd.DataFrame:
    """A table's lines: whole numbers stay numbers, so that columns sort; all else as people read it."""
    found: dict[str, Any] = {}
    for at, (name, _) in enumerate(table.columns):
        cells = [row[at] for row in table.rows]
        whole = all(cell is None or isinstance(cell, int) for cell in cells)
        found[name] = pd.Series(cells, dtype="Int64") if whole else [cell_text(name, cell) for cell in cells]
    return pd.DataFrame(found)


def chips(lines: pd.DataFrame, name: str) -> pd.DataFrame:
    """Lines whose column ``name`` is shown as coloured chips."""
    found = lines.copy()
    found[name] = [[cell] for cell in lines[name]]
    return found


def column_config(table: Table, chips: str = "") -> dict[str, Any]:
    """How its columns are shown. ``chips``: the one of coloured chips."""
    whole = frame(table).dtypes == "Int64"
    config: dict[str, Any] = {}
    for name, kind in table.columns:
        if name == chips:
            config[name] = st.column_config.MultiselectColumn(options=list(MARKED), color=list(MARKED.values()))
        elif whole[name]:
            config[name] = st.column_config.NumberColumn(format="%d" if name in _NAMES else "localized")
        elif kind == "number":
            config[name] = st.column_config.TextColumn(alignment="right")
    return config
