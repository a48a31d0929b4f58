"""The view of the exact top-k beside a selection."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

import streamlit as st

from workbench.errors import WorkbenchError
from workbench.figures.diff import KEPT, LEFT_OUT, LOST, Comparison, Side, compare, diff_figure
from workbench.figures.words import count
from workbench.paths.catalog import PATHS
from workbench.runs.inspect import Inspection
from workbench.runs.report import Result
from workbench.runs.sentence import finding, result_sentence
from workbench.ui import state
from workbench.ui.common import PLOT, Slots, error_box, pick_path, say_instead, score_texts
from workbench.ui.library import Entry
from workbench.ui.loading import result
from workbench.ui.view import RECORDED

MODELLED = [path.name for path in PATHS if any(variant.modelled for variant in path.variants)]
SHOWN = 200
_MOST_SEED = 2**31 - 1


def show_diff(entry: Entry, found: Inspection, number: int, key: str, slots: Slots) -> None:
    """Picture and tables of one selection against the exact one; controls go into the slots.

    ``key`` names what is inspected.
    """
    options = MODELLED if found.recorded is None else [RECORDED, *MODELLED]
    left, right = slots
    with left:
        path = pick_path(found, options, f"diff-path:{key}")
    say_instead(
        options, path, "which has no selection here" if state.current().path == RECORDED else "which no model runs"
    )
    seed = state.current().seed or 0
    if path != RECORDED:
        with right:
            seed = _pick_seed(key, seed)
    try:
        made = result(entry, state.current(), number, path, seed, found)
    except WorkbenchError as error:
        error_box(error)
        return
    sentence = result_sentence(made)
    if not finding(found).startswith(sentence):  # else it stands above already
        st.markdown(state.plain(sentence))
    if path != RECORDED and made.selection is not None:
        st.caption(f"Arrival order: random, seed {seed}.")
    if made.selection is not None and made.verdict is not None:
        _show(made, found, number, entry, f"{key}:{path}:{seed}", None if path == RECORDED else seed)


def _pick_seed(key: str, seed: int) -> int:
    widget = f"seed:{key}"
    st.session_state[widget] = seed
    st.number_input(
        "Arrival order (seed)",
        min_value=0,
        max_value=_MOST_SEED,
        key=widget,
        on_change=state.bound("seed", widget),
        help="The model draws a random arrival order from this seed; another seed is another call on the same row.",
    )
    return int(st.session_state[widget])


def _show(made: Result, found: Inspection, number: int, entry: Entry, key: str, seed: int | None) -> None:
    assert made.selection is not None
    assert made.verdict is not None
    row = found.case.row
    comparison = compare(row.valid, found.exact.indices, made.selection.indices, made.verdict)
    st.plotly_chart(diff_figure(comparison), key=f"diff:{key}", theme=None, config=PLOT)
    left, right = st.columns(2)
    with left:
        _side(comparison.exact, "Exact top-k", LOST, LEFT_OUT)
    with right:
        _side(comparison.selection, "Selection", KEPT, "other members taken")
    _download(comparison, made, number, entry, key, seed)


def _side(side: Side, title: str, word: str, equal: str) -> None:
    total = side.index.size
    also = f", {count(side.equal)} {equal}" if side.equal else ""
    st.markdown(f"**{title}** — {count(side.different)} of {count(total)} {word}{also}")
    table = side.table(SHOWN)
    table["score"] = score_texts(table["score"])
    table["gap"] = score_texts(table["gap"], 3)
    text, number = st.column_config.TextColumn, st.column_config.NumberColumn
    st.dataframe(
        table,
        hide_index=True,
        height=320,
        column_order=["status", "index", "score", "rank", "gap"],
        column_config={
            "status": text(width=16 + 6 * max(map(len, table["status"]), default=6)),
            "rank": number(
                format="localized",
                width=_width(f"{rank:,}" for rank in table["rank"]),
                help="in the whole row; equal scores share it",
            ),
            "index": number(format="localized", width=_width(f"{index:,}" for index in table["index"])),
            "score": text(alignment="right", width=_width(table["score"])),
            "gap": text(alignment="right", width=_width(table["gap"]), help="score minus the k-th best score"),
        },
    )
    st.caption(
        f"{count(min(SHOWN, total))} of {count(total)} shown, differences first"
        if total > SHOWN
        else f"All {count(total)}"
    )


def _width(texts: Iterable[str]) -> int:
    """Pixels that a column needs so that none of its texts is cut: aligned to the right they would lose their start."""
    return 20 + 7 * max([5, *map(len, texts)])


def _download(comparison: Comparison, made: Result, number: int, entry: Entry, key: str, seed: int | None) -> None:
    line = made.line
    stem = PurePosixPath(entry.key).name.removesuffix(".safetensors")
    parts = [stem, f"row{number}", RECORDED if seed is None else f"{line.path}-{line.variant}", f"k{line.k}"]
    if seed is not None:
        parts.append(f"seed{seed}")
    origin = {"engine": line.engine, "path": line.path, "variant": line.variant, "k": line.k, "seed": seed}
    st.download_button(
        "Download all as CSV",
        lambda: comparison.csv(**origin),
        file_name=f"{'-'.join(parts)}.csv",
        mime="text/csv",
        key=f"csv:{key}",
        on_click="ignore",
    )
