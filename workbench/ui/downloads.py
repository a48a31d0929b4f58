"""What can be taken away from a page: pictures as PNG or SVG, tables as CSV and Parquet.

A picture is saved by the browser, by the camera above it: ``config=downloads.picture(NAME)`` gives it one.
``offer`` is one button that opens on the tables of a view, and on the format of pictures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.figures.files import csv_bytes, parquet_bytes
from workbench.ui import state

if TYPE_CHECKING:
    import pandas as pd

FORMATS = {"png": "PNG", "svg": "SVG"}
_FORMAT = "picture-format"  # of the session
_SCALE = {"png": 2, "svg": 1}  # pixels of the image for one of the page
_SUFFIX = re.compile(r"\.safetensors(\.index\.json)?$")


def file_name(*parts: object) -> str:
    """A name for a file, of what it holds: the parts that are there, as far as file systems take them. What names a
    capture may be a path, of which the last part counts."""
    texts = [_SUFFIX.sub("", str(part).rsplit("/", 1)[-1]) for part in parts if part not in (None, "")]
    kept = (re.sub(r"[^\w.=+-]+", "-", text).strip("-.")[:60] for text in texts)
    return "-".join(filter(None, kept)) or "topk-workbench"


def picture(name: str) -> dict[str, Any]:
    """The ``config`` of a picture that can be saved under a name, in the format that the session has chosen."""
    kind = _chosen_format()
    options = {"format": kind, "filename": name, "scale": _SCALE[kind]}
    return {
        "displaylogo": False,
        "modeBarButtons": [["toImage"]],
        "scrollZoom": False,
        "toImageButtonOptions": options,
    }


def _chosen_format() -> str:
    kind = st.session_state.get(_FORMAT, "png")
    return kind if kind in FORMATS else "png"


def offer(
    name: str,
    key: str,
    tables: Mapping[str, Callable[[], pd.DataFrame]],
    *,
    pictures: bool = True,
    more: Callable[[], None] | None = None,
    beside: str = "",
) -> None:
    """A button that opens on what can be taken away of a view.

    Args:
        name: of files, without an ending, as ``file_name`` makes it. key: names what is shown.
        tables: what makes each, by its title; called when it is taken. A table keeps its numbers: neither text nor
            rounded. pictures: whether the view has any. more: draws what else the view offers, above the tables.
        beside: text in the same line, on how the picture is read.
    """
    with st.container(horizontal=True, vertical_alignment="center"):
        if beside:
            st.caption(state.plain(beside))
        taken = st.popover("Save", icon=":material/download:", type="tertiary", key=f"save:{key}", width="content")
    with taken:
        if more is not None:
            more()
        for title, make in tables.items():
            _table(title, make, name if len(tables) == 1 else f"{name}-{_end(title)}", f"{title}:{key}")
        if pictures:
            _pick_format(key)


def _end(title: str) -> str:
    """How the name of a file of one table among several ends: in small letters and hyphens, as all names here do."""
    return file_name(title.lower())


def _table(title: str, make: Callable[[], pd.DataFrame], name: str, key: str) -> None:
    st.markdown(f"**{state.plain(title)}**")
    with st.container(horizontal=True):
        for kind, mime, write in (
            ("csv", "text/csv", csv_bytes),
            ("parquet", "application/vnd.apache.parquet", parquet_bytes),
        ):
            st.download_button(
                "CSV" if kind == "csv" else "Parquet",
                partial(_written, write, make),
                file_name=f"{name}.{kind}",
                mime=mime,
                key=f"{kind}:{key}",
                on_click="ignore",
                icon=":material/download:",
            )


def _written(write: Callable[[pd.DataFrame], bytes], make: Callable[[], pd.DataFrame]) -> bytes:
    return write(make())


def _pick_format(key: str) -> None:
    st.markdown("**Pictures**")
    widget = f"picture-format:{key}"
    st.session_state[widget] = _chosen_format()
    st.segmented_control(
        "Format of pictures",
        list(FORMATS),
        key=widget,
        format_func=FORMATS.__getitem__,
        on_change=lambda: st.session_state.update({_FORMAT: st.session_state[widget]}),
        required=True,
        label_visibility="collapsed",
    )
    st.caption("The camera above a picture, seen when the pointer is on it, saves it.")
