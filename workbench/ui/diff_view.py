"""The view of the exact top-k beside a selection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pandas as pd
import streamlit as st

from workbench.errors import WorkbenchError
from workbench.figures import palette
from workbench.figures.diff import KEPT, LEFT_OUT, LOST, Side, compare, diff_figure
from workbench.figures.words import count
from workbench.paths.catalog import PATHS
from workbench.paths.orders import DEFAULT_SEED
from workbench.runs.called import Called, called_sentence
from workbench.runs.inspect import Inspection
from workbench.runs.report import Result
from workbench.runs.sentence import finding, result_sentence
from workbench.ui import downloads, state
from workbench.ui.common import Slots, error_box, pick_path, picture, say_instead, score_texts
from workbench.ui.engines import answer, called_name, pick_engine, why_not
from workbench.ui.loading import Opened, result
from workbench.ui.view import CUDA, MODEL, RECORDED, VENDOR

MODELLED = [path.name for path in PATHS if any(variant.modelled for variant in path.variants)]
SHOWN = 200
_MOST_SEED = 2**31 - 1


def show_diff(
    file: Opened,
    found: Inspection,
    number: int,
    key: str,
    slots: Slots,
    more: Callable[[], None] | None = None,
) -> None:
    """Picture and tables of one selection against the exact one.

    Args:
        key: names what is inspected. slots: where controls go. more: what else is offered to be taken away.
    """
    left, right = slots
    with right:
        engine = pick_engine(found, f"engine:{key}")
    told, beside = st.columns([9.1, 2])
    place = left.empty()
    path = _path(found, key, place) if engine in (MODEL, CUDA) else None
    why = why_not(engine, found, path)
    if not why:
        _name_op(found, engine, key, place)
        if engine in (CUDA, VENDOR):
            with told:
                called = answer(file, found, number, engine, path, f"{engine}:{path}:{key}")
            if called is None:
                return
            if called.worst.selection is not None:
                with told:
                    _say_called(called, called_name(found, engine, path))
                _show(called.worst, found, number, file, f"{key}:{engine}:{path}", None, more)
                return
            why = [called.why_none]
    if why:
        with told:
            st.info(
                "\n".join([f"The model answers, for the {engine} engine gives no selection here:", "", *_lines(why)])
            )
        engine, path = MODEL, path or _path(found, key, place)
    seed = state.current().seed or DEFAULT_SEED
    if engine == MODEL:
        with beside:
            seed = _pick_seed(key, seed)
    try:
        made = result(file, state.current(), number, path, seed, found) if path is not None else found.recorded
    except WorkbenchError as error:
        error_box(error)
        return
    assert made is not None
    with told:
        sentence = result_sentence(made)
        if not finding(found).startswith(sentence):  # else it stands above already
            st.markdown(state.plain(sentence))
        if path is not None and made.selection is not None:
            st.caption(f"Arrival order: random, seed {seed}.")
    if made.selection is not None and made.verdict is not None:
        _show(made, found, number, file, f"{key}:{path}:{seed}", seed if path is not None else None, more)


def _say_called(called: Called, who: str) -> None:
    st.markdown(state.plain(result_sentence(called.worst)))
    st.caption(state.plain(called_sentence(called, who)))
    if called.worst.line.note:
        st.caption(state.plain(f"Note: {called.worst.line.note}."))


def _lines(reasons: Sequence[str]) -> list[str]:
    return [f"- {state.plain(one)}" for one in reasons]


def _path(found: Inspection, key: str, slot: st.delta_generator.DeltaGenerator) -> str:
    with slot:
        path = pick_path(found, MODELLED, f"diff-path:{key}")
    say_instead(MODELLED, path, "which no model runs")
    return path


def _name_op(found: Inspection, engine: str, key: str, slot: st.delta_generator.DeltaGenerator) -> None:
    """In the place of the path, what an engine stands for that runs no path of its own."""
    if engine not in (RECORDED, VENDOR):
        return
    title = f"Op of {found.case.release}" if engine == VENDOR else "Op"
    slot.selectbox(title, [found.case.op or palette.UNKNOWN], key=f"diff-op:{key}", disabled=True)


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


def _show(
    made: Result,
    found: Inspection,
    number: int,
    file: Opened,
    key: str,
    seed: int | None,
    more: Callable[[], None] | None,
) -> None:
    assert made.selection is not None
    assert made.verdict is not None
    row = found.case.row
    comparison = compare(row.valid, found.exact.indices, made.selection.indices, made.verdict)
    saved, origin = _origin(made, number, file, seed)
    picture(diff_figure(comparison), key=f"diff:{key}", config=downloads.picture(saved))
    downloads.offer(saved, f"diff:{key}", {"Every winner": lambda: comparison.table(**origin)}, more=more)
    sides = (
        (comparison.exact, "Exact top-k", LOST, LEFT_OUT),
        (comparison.selection, "Selection", KEPT, "other members taken"),
    )
    shown = [_shown(side[0]) for side in sides]
    for column, table, side in zip(
        st.columns([sum(_widths(one).values()) for one in shown]), shown, sides, strict=True
    ):
        with column:
            _side(table, *side)


def _shown(side: Side) -> pd.DataFrame:
    """The first lines of a side, scores as text."""
    table = side.table(SHOWN)
    table["score"] = score_texts(table["score"])
    table["gap"] = score_texts(table["gap"], 3)
    return table


def _widths(table: pd.DataFrame) -> dict[str, int]:
    """Pixels of each column, in their order."""
    return {
        "status": 16 + 6 * max(map(len, table["status"]), default=6),
        "index": _width(f"{index:,}" for index in table["index"]),
        "score": _width(table["score"]),
        "rank": _width(f"{rank:,}" for rank in table["rank"]),
        "gap": _width(table["gap"]),
    }


def _side(table: pd.DataFrame, side: Side, title: str, word: str, equal: str) -> None:
    total = side.index.size
    also = f", {count(side.equal)} {equal}" if side.equal else ""
    st.markdown(f"**{title}** — {count(side.different)} of {count(total)} {word}{also}")
    text, number = st.column_config.TextColumn, st.column_config.NumberColumn
    width = _widths(table)
    st.dataframe(
        table,
        hide_index=True,
        height=320,
        column_order=list(width),
        column_config={
            "status": text(width=width["status"]),
            "index": number(format="localized", width=width["index"]),
            "score": text(alignment="right", width=width["score"]),
            "rank": number(format="localized", width=width["rank"], help="in the whole row; equal scores share it"),
            "gap": text(alignment="right", width=width["gap"], help="score minus the k-th best score"),
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


def _origin(made: Result, number: int, file: Opened, seed: int | None) -> tuple[str, dict[str, str | int | None]]:
    """A name for files of a selection, and what its table says of how it was made."""
    line = made.line
    what = f"{line.path}-{line.variant}" if line.path and line.engine != RECORDED else ""
    engine = line.engine if line.engine != MODEL else ""
    seeded = "" if seed is None else f"seed{seed}"
    name = downloads.file_name(file.entry.key, f"row{number}", engine, what, f"k{line.k}", seeded)
    return name, {"engine": line.engine, "path": line.path, "variant": line.variant, "k": line.k, "seed": seed}
