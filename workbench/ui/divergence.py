"""The page of compared runs: one sentence, the timeline, the numbers, and one point in full."""

from __future__ import annotations

from typing import Any

import streamlit as st

from workbench.errors import WorkbenchError
from workbench.figures import palette
from workbench.figures.timeline import ALL, Timeline, timeline, timeline_figure
from workbench.figures.words import plural
from workbench.runs.divergence import Comparison, Divergence
from workbench.runs.divergence_words import place, sentences
from workbench.ui import downloads, state
from workbench.ui.common import callout, code, error_box, letters_on_primary, picture
from workbench.ui.divergence_detail import show_point
from workbench.ui.divergence_runs import Chosen, Offer, chosen_runs, compare, offered, offers, suggestions
from workbench.ui.divergence_tables import show_counts, show_points, show_tokens
from workbench.ui.divergence_view import COMPARED, MOST_RUNS, Compared
from workbench.ui.view import brief

_FORGET: dict[str, Any] = dict.fromkeys(("against", "rank", "request", "point", "digest"))


def divergence_page() -> None:
    """Where captured runs of one prompt part, and whose fault it is there."""
    COMPARED.follow_url()
    st.markdown("#### Where runs of the same prompt part")
    notices = st.empty()
    runs = _pick_runs()
    _show(runs)
    COMPARED.write_url()
    if COMPARED.notices():
        notices.warning("\n\n".join(state.plain(text) for text in COMPARED.notices()), icon=":material/link:")


def _pick_runs() -> list[Offer]:
    on_offer = offers()
    view = COMPARED.current()
    runs = offered(view.runs, on_offer, COMPARED.note)
    if len(runs) < len(view.runs):
        view = COMPARED.settle(runs=tuple(run.key for run in runs), **_FORGET)
    left, right = st.columns([5, 1.4], vertical_alignment="bottom")
    st.session_state["runs"], st.session_state["ranks"] = list(view.runs), view.ranks
    letters_on_primary()
    left.multiselect(
        "Runs, the one that the others are held against first",
        list(on_offer),
        key="runs",
        format_func=lambda key: f"{key}  ({plural(len(on_offer[key].entries), 'file')})" if key[-1] == "/" else key,
        max_selections=MOST_RUNS,
        placeholder="Choose captures, or folders of captures",
        on_change=lambda: COMPARED.change(runs=tuple(st.session_state["runs"]), **_FORGET),
        help="Runs of the same prompt at temperature 0. A folder is one run.",
    )
    right.toggle(
        "Ranks of one run",
        key="ranks",
        on_change=lambda: COMPARED.change(ranks=st.session_state["ranks"], **_FORGET),
        help="Hold the ranks of one run against its lowest rank instead",
    )
    return runs


def _show(runs: list[Offer]) -> None:
    view = COMPARED.current()
    if len(runs) < (1 if view.ranks else 2):
        _empty(runs, view)
        return
    COMPARED.hold_url(True)
    bar = st.empty()
    try:
        chosen = chosen_runs(runs, view.ranks)
        found = compare(chosen, bar)
    except WorkbenchError as error:
        bar.empty()
        error_box(error)
        return
    finally:
        COMPARED.hold_url(False)
    if found is not None:
        _check_digest(chosen)
        _show_found(found, chosen)


def _empty(runs: list[Offer], view: Compared) -> None:
    if view.ranks:
        st.info("Choose the run whose ranks are compared.")
        return
    st.info(
        "Choose a second run, or compare the ranks of this one."
        if runs
        else "Choose two or more runs of the same prompt at temperature 0: the page finds the first point at which "
        "they part, and says whether the selector is at fault there or was given another input."
    )
    found = [] if runs else suggestions()
    if found:
        st.caption("Files that lie together and begin alike:")
    for keys in found:
        folder = keys[0].rpartition("/")[0]
        names = ", ".join(brief(key.rpartition("/")[2].removesuffix(".safetensors")) for key in keys)
        st.button(
            state.plain(f"{folder}: {names}" if folder else names),
            key=f"suggested:{keys}",
            icon=":material/call_split:",
            on_click=COMPARED.change,
            kwargs={**_FORGET, "runs": keys, "ranks": False},
        )


def _check_digest(chosen: Chosen) -> None:
    asked = COMPARED.current().digest
    if asked is not None and asked != chosen.digest:
        COMPARED.note(
            f"The link was made from other content (digest {brief(asked)}) than these files hold now "
            f"({chosen.digest}): the point may be another one."
        )


def _show_found(found: Divergence, chosen: Chosen) -> None:
    number = _pick_comparison(found)
    one = found.comparisons[number]
    headline, *_ = sentences(one)
    callout(headline, _colour(one))
    _finding(found, one)
    part = _pick_part(one)
    key = f"{chosen.digest}:{chosen.ranks}:{number}:{sorted(part.items())}"
    laid = chosen.held.timeline(key, lambda: timeline(one, **part))
    point = _point(one)
    _chart(one, laid, point, key, chosen.digest)
    take = _taken(chosen.digest)
    left, right = st.columns([3, 7])
    with left:
        show_counts(one, laid, point, f"counts:{key}", take)
    with right:  # tokens are what a reader of the runs sees: they come before the points, where there are some
        if one.tokens:
            show_tokens(one)
        else:
            show_points(one, laid, point, f"points:{key}", take)
    if one.tokens:
        show_points(one, laid, point, f"points:{key}", take)
    if point is not None:
        show_point(one, chosen, number, point, laid, take)


def _pick_comparison(found: Divergence) -> int:
    view = COMPARED.current()
    total = len(found.comparisons)
    if view.against is not None and view.against >= total:
        COMPARED.note(f"The link names comparison {view.against}, but there are {plural(total, 'comparison')}, from 0.")
        view = COMPARED.settle(against=None, point=None)
    number = found.comparisons.index(found.earliest) if view.against is None else view.against
    if total == 1:
        return number

    def label(at: int) -> str:
        one = found.comparisons[at]
        first = one.first
        said = (
            "does not part" if not one.parts else "tokens part" if first is None else f"{first.state} at {place(first)}"
        )
        return f"{one.b}: {said}"

    st.session_state["against"] = number
    st.selectbox(
        f"Held against {brief(found.comparisons[0].a, 120)}",
        list(range(total)),
        key="against",
        format_func=label,
        on_change=lambda: COMPARED.change(**{**_FORGET, "against": st.session_state["against"]}),
    )
    return number


def _colour(one: Comparison) -> str:
    first = one.first
    if first is not None:
        return palette.STATE_TEXTS[first.state]
    return palette.CHOSEN if one.parts else palette.SAFE_TEXT if one.compared else palette.REFUSED_TEXT


def _finding(found: Divergence, one: Comparison) -> None:
    whole = found.finding if one is found.earliest else one.finding
    with st.expander("The finding as a paragraph, to paste into a bug report", icon=":material/content_copy:"):
        code(whole, wrap_lines=True)
    told = [f"Here a is {brief(one.a, 120)} and b is {brief(one.b, 120)}"]
    told += [f"{note[:1].upper()}{note[1:]}" for note in one.notes]
    st.caption(state.plain(" ".join(f"{text}." for text in told)))


def _pick_part(one: Comparison) -> dict[str, Any]:
    """Which rank and request are shown, with a selector for each that there are several of."""
    values: dict[str, list[Any]] = {
        "rank": sorted({point.rank for point in one.points}, key=lambda rank: (rank is None, rank or 0)),
        "request": list(
            dict.fromkeys([point.request for point in one.points] + [token.request for token in one.tokens])
        ),
    }
    several = [name for name in values if len(values[name]) > 1]
    columns = st.columns([2] * len(several) + [6]) if several else []
    return {name: _pick_one(where, name, values[name]) for name, where in zip(several, columns, strict=False)}


def _pick_one(where: st.delta_generator.DeltaGenerator, name: str, values: list[Any]) -> Any:
    texts = ["" if value is None else f"{value}" for value in values]  # as the URL carries them
    chosen = getattr(COMPARED.current(), name)
    if chosen is not None and chosen not in texts:
        COMPARED.note(f"The link's {name} {brief(chosen)} is not in these runs.")
        COMPARED.settle(**{name: None})
        chosen = None
    every = len(texts)
    st.session_state[name] = every if chosen is None else texts.index(chosen)

    def take() -> None:
        at = st.session_state[name]
        COMPARED.change(**{name: None if at == every else texts[at]})

    where.selectbox(
        name.capitalize(),
        [every, *range(every)],
        key=name,
        format_func=lambda at: f"all {every}" if at == every else brief(texts[at]) or "unknown",
        on_change=take,
    )
    return ALL if chosen is None else values[texts.index(chosen)]


def _point(one: Comparison) -> int | None:
    """The point that is shown in full: the one chosen, else the first at which they part."""
    view = COMPARED.current()
    if view.point is not None and view.point >= len(one.points):
        COMPARED.note(f"The link names point {view.point}; there are {plural(len(one.points), 'point')}, from 0.")
        view = COMPARED.settle(point=None)
    if view.point is not None:
        return view.point
    return next((number for number, point in enumerate(one.points) if point.parts), None)


def _taken(digest: str) -> Any:
    return lambda number: COMPARED.change(point=number, digest=digest)


def _chart(one: Comparison, laid: Timeline, point: int | None, key: str, digest: str) -> None:
    if not laid.cells and not laid.tokens:
        st.info("There is no point to draw.")
        return
    chart = f"timeline:{key}:{point}"

    def take() -> None:
        clicked = st.session_state[chart].selection.points
        number = laid.point_at(float(clicked[0]["x"]), float(clicked[0]["y"])) if clicked else None
        if number is not None:
            COMPARED.change(point=number, digest=digest)

    saved = downloads.file_name(one.a, "against", one.b)
    picture(
        timeline_figure(laid, point),
        key=chart,
        config=downloads.picture(saved),
        on_select=take,
        selection_mode="points",
    )
    beside = " ".join(f"{note[:1].upper()}{note[1:]}." for note in (*laid.notes, "click a mark to see it below"))
    tables = {"Points": Divergence((one.a, one.b), (one,)).to_pandas}
    downloads.offer(saved, f"{key}:{point}", tables, beside=beside)
