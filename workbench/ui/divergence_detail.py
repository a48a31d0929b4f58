"""One point of compared runs in full: its two rows, and what their inputs or selections differ in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pandas as pd
import streamlit as st

from workbench.analysis.divergence.inputs import InputDifference, describe
from workbench.analysis.divergence.selections import Held as Entry
from workbench.analysis.divergence.selections import Judged, SelectionDifference
from workbench.analysis.divergence.states import STATES
from workbench.errors import WorkbenchError
from workbench.figures.timeline import Timeline
from workbench.figures.words import count, plural, value
from workbench.runs.divergence import Comparison, Point
from workbench.runs.divergence_words import outside_words, place, upstream
from workbench.ui import inspector, state
from workbench.ui.common import error_box, figures_row, score_texts
from workbench.ui.divergence_runs import Chosen, Looked
from workbench.ui.view import RECORDED, brief

SHOWN = 200


def show_point(
    one: Comparison, chosen: Chosen, against: int, number: int, laid: Timeline, take: Callable[[int], None]
) -> None:
    """A point, with a choice among those that share its place in the picture."""
    point = one.points[number]
    st.markdown(f"##### {state.plain(f'{place(point)[:1].upper()}{place(point)[1:]}: {point.state}')}")
    _pick_sharing(one, laid, number, take)
    try:
        looked = chosen.held.look(against, number)
    except WorkbenchError as error:
        error_box(error)
        return
    detail = looked.detail
    said = STATES[point.state].meaning if detail.outside is None else outside_words(*detail.outside)
    st.markdown(state.plain(f"{said[:1].upper()}{said[1:]}."))
    if point.reordered and point.state != "reordered":
        st.caption("The runs have it at different places in their order, too.")
    _links(one, point, looked, chosen.files)
    if detail.inputs is not None:
        _inputs(one, point, detail.inputs)
    if detail.selections is not None:
        _selections(one, detail.selections, judges=detail.outside is None)
    if point.differing:
        st.caption(state.plain(f"The calls differ in {', '.join(point.differing)}."))


def _pick_sharing(one: Comparison, laid: Timeline, number: int, take: Callable[[int], None]) -> None:
    sharing = laid.sharing(number)
    if len(sharing) < 2:
        return
    shown = sharing if len(sharing) <= SHOWN else sorted({*sharing[:SHOWN], number})
    st.session_state["sharing"] = number
    st.selectbox(
        f"{plural(len(sharing), 'point')} share this mark"
        + (f"; the first {count(SHOWN)} are listed" if len(shown) < len(sharing) else ""),
        shown,
        key="sharing",
        format_func=lambda at: _label(one.points[at]),
        on_change=lambda: take(st.session_state["sharing"]),
    )


def _label(point: Point) -> str:
    request = "" if point.request is None else f"request {brief(point.request)}, "
    return f"{request}{place(point)}: {point.state}"


def _links(one: Comparison, point: Point, looked: Looked, digests: Mapping[str, str]) -> None:
    """Links into the inspector; with the digest they say all that it says in turn, so that a step back leaves it."""
    sides = zip(st.columns(2), "ab", (one.a, one.b), (point.a, point.b), looked.recorded, looked.k, strict=True)
    for column, side, name, stored, recorded, k in sides:
        with column:
            if stored is None:
                st.markdown(state.plain(f"{side}, {brief(name, 80)}: not there"))
                continue
            params = {"capture": stored.file, "digest": digests[stored.file], "row": f"{stored.row}", "view": "diff"}
            if recorded:
                params["engine"] = RECORDED
            if k is not None:
                params["k"] = f"{k}"
            st.page_link(
                inspector.page(),
                label=state.plain(f"Inspect {side}: row {count(stored.row)} of {brief(stored.file, 80)}"),
                icon=":material/search:",
                query_params=params,
            )


def _inputs(one: Comparison, point: Point, found: InputDifference) -> None:
    st.markdown(state.plain(f"The inputs: {describe(found)}. {upstream(one, point)}"))
    scores = found.scores
    if scores is None:
        return
    figures_row(
        [
            ("Cells that differ", f"{count(scores.cells)} of {count(scores.compared)}", "of those that both rows have"),
            ("First at index", count(scores.first), "relative to the row's start"),
            ("In a", value(scores.first_a, 9), "the score at that index"),
            ("In b", value(scores.first_b, 9), "the score at that index"),
            ("ULPs there", count(scores.first_ulps), f"values of {scores.dtype} from one to the other"),
            ("Most ULPs", count(scores.max_ulps), "over all cells without NaN"),
            ("Greatest", "–" if scores.max_abs is None else value(scores.max_abs), "absolute difference"),
        ]
    )
    more = [(scores.nan, "with a NaN"), (scores.signed_zeros, "in the sign of zero alone")]
    told = [f"{count(cells)} {what}" for cells, what in more if cells]
    if told:
        st.caption(f"Of these cells {', '.join(told)}.")


def _selections(one: Comparison, found: SelectionDifference, *, judges: bool) -> None:
    cut = "–" if found.cut is None else value(found.cut, 9)
    verdicts = [
        (f"Verdict {side}", _verdict(judged), f"{count(judged.missing)} of {count(judged.of)} winners are missing")
        for side, judged in (("a", found.a), ("b", found.b))
    ]
    figures_row(
        [
            *(verdicts if judges else []),
            ("Slots that differ", count(found.slots), "places at which they hold another index"),
            ("First slot", count(found.first_slot), "the first of them"),
            ("Cut", cut, "the k-th best score"),
        ]
    )
    if not found.held:
        return
    for column, side in zip(st.columns(2), "ab", strict=True):
        mine = [entry for entry in found.held if entry.side == side]
        with column:
            st.markdown(f"**{count(len(mine))} {'index' if len(mine) == 1 else 'indices'} only in {side}**")
            _entries(mine, side)


def _verdict(side: Judged) -> str:
    return f"{side.verdict}, {count(side.missing)} lost" if side.missing else side.verdict


def _entries(mine: Sequence[Entry], side: str) -> None:
    shown = sorted(mine, key=lambda entry: (abs(entry.gap), entry.index))[:SHOWN]
    shown = [entry for entry in mine if entry in shown] if len(shown) < len(mine) else list(mine)
    st.dataframe(
        pd.DataFrame(
            {
                "index": [entry.index for entry in shown],
                "score": score_texts(entry.score for entry in shown),
                "gap": score_texts((entry.gap for entry in shown), 4),
            }
        ),
        hide_index=True,
        height="content" if len(shown) <= 8 else 318,
        column_config={
            "index": st.column_config.NumberColumn(format="localized"),
            "score": st.column_config.TextColumn(alignment="right"),
            "gap": st.column_config.TextColumn(
                "from the cut", alignment="right", help="score minus the k-th best score"
            ),
        },
    )
    if len(shown) < len(mine):
        st.caption(f"The {count(len(shown))} of {count(len(mine))} nearest to the cut")
