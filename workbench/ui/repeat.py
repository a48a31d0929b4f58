"""The page of repeated calls on one row: what every call selects, what comes and goes, and what each call lacked."""

from __future__ import annotations

import math
from collections.abc import Callable

import streamlit as st

from workbench.errors import CaptureError
from workbench.figures import palette
from workbench.figures.of_repeats import repeated_colour
from workbench.figures.repeat import SHOWN, frequency_figure, held_figure, members_table, missing_figure, missing_table
from workbench.figures.words import count, plural, probability
from workbench.paths.catalog import get_path
from workbench.runs.repeat import MODEL, RECORDED, Repeated
from workbench.ui import downloads, inspector, state
from workbench.ui.background import follow, show_background
from workbench.ui.common import (
    callout,
    error_box,
    figures_row,
    path_of,
    pick_path,
    pick_variant,
    picture,
    say_instead,
    score_texts,
)
from workbench.ui.diff_view import MODELLED
from workbench.ui.engines import called_name, pick_engine, why_not
from workbench.ui.library import local
from workbench.ui.repeat_made import Held, held, is_quick, recorded
from workbench.ui.repeat_view import CALLS, LEAST, MOST, REPEAT
from workbench.ui.rowpage import Shown, row_link, show_row_page
from workbench.ui.view import CUDA

AT_ONCE_S = 0.05  # of calls before the page is drawn: fewer seconds of them need no second look
_GROWS = 4  # times as many calls are made before more are drawn


def page() -> st.Page:
    """Repeated calls as a page."""
    return st.Page(repeat_page, title="Repeat", url_path="repeat")


def repeat_page() -> None:
    """Whether many calls on one row agree."""
    show_row_page(REPEAT, _show)


def _show(shown: Shown) -> None:
    chosen = state.current().engine or MODEL
    line = _recorded(shown) if chosen == RECORDED else None
    why = _why_not(shown, chosen, line)
    engine = MODEL if why else chosen
    REPEAT.settle(engine=engine if why else None)
    path, variant, calls = _controls(shown, engine)
    if why:
        st.caption(
            state.plain(f"The model answers, for the {chosen} engine has no calls to compare: {'; '.join(why)}.")
        )
    if engine == MODEL:
        assert path is not None
        _by_model(shown, held(shown, MODEL, path, variant), calls)
    elif line is not None:
        _draw(shown, line, f"recorded:{shown.key}")
    else:
        _by_engine(shown, engine, path, variant, calls)


def _recorded(shown: Shown) -> Repeated:
    with st.spinner("Looking for calls on the same input", show_time=True):
        return recorded(shown)


def _why_not(shown: Shown, engine: str, line: Repeated | None) -> list[str]:
    """Why there is nothing of an engine to compare. ``line``: what recorded calls amount to, of that engine."""
    if line is None:
        return why_not(engine, shown.seen, path_of(shown.seen, MODELLED))
    return [] if line.repeatability is not None else [line.refused or "there are none"]


def _controls(shown: Shown, engine: str) -> tuple[str | None, str | None, int]:
    """Path, variant, engine and the number of calls, in a line."""
    left, middle, right, last = st.columns([4.2, 2.6, 2, 2])
    with right:
        pick_engine(shown.seen, f"repeat-engine:{shown.key}", engine)
    path = variant = None
    if engine in (MODEL, CUDA):
        path, variant = _pick_path(shown, left, middle)
    else:
        left.selectbox(
            "Op", [shown.seen.case.op or palette.UNKNOWN], key=f"repeat-op:{engine}:{shown.key}", disabled=True
        )
    calls = REPEAT.current().calls or CALLS
    st.session_state["repeat-calls"] = calls
    with last:
        st.number_input(
            "Calls",
            min_value=LEAST,
            max_value=MOST,
            key="repeat-calls",
            disabled=engine == RECORDED,
            on_change=REPEAT.bound("calls", "repeat-calls"),
            help="Calls of the model have the arrival orders 0, 1, 2 and so on. Of recorded calls there are as many "
            "as the capture holds.",
        )
    return path, variant, calls


def _pick_path(
    shown: Shown, left: st.delta_generator.DeltaGenerator, middle: st.delta_generator.DeltaGenerator
) -> tuple[str, str]:
    with left:
        path = pick_path(shown.seen, MODELLED, f"repeat-path:{shown.key}")
        say_instead(MODELLED, path, "which no model runs")
    options = [variant.name for variant in get_path(path).variants if variant.modelled]
    with middle:
        return path, pick_variant(shown.seen, path, options, f"repeat-variant:{path}:{shown.key}")


def _by_model(shown: Shown, calls: Held, wanted: int) -> None:
    """Calls of the model, drawn as they come."""
    key = f"{calls.calls.path}:{calls.calls.variant}:{shown.key}"
    stopped = f"repeat-stopped:{key}"

    def lacks() -> bool:
        return len(calls.calls) < wanted and not calls.calls.over

    follow(calls.going, "repeat")
    problem = calls.going.problem()  # told before it is tried again
    if problem is None and lacks() and not st.session_state.get(stopped):
        calls.go_on(wanted)
        calls.going.wait(AT_ONCE_S)
        problem = calls.going.problem()
    if problem is not None:
        error_box(local(problem, shown.file.entry) if isinstance(problem, CaptureError) else problem)
        return
    made, at_work = len(calls.calls), lacks() and not st.session_state.get(stopped)
    number = _drawn(made) if at_work else wanted

    def stop() -> None:
        st.session_state[stopped] = True
        calls.going.stop()

    with calls.going.aside():
        if at_work:
            more = lambda: not lacks() or _drawn(len(calls.calls)) != number  # noqa: E731
            show_background(shown.file, calls.going, f"repeat:{key}", stop, more)
        elif lacks():
            _offer_rest(made, wanted, key, lambda: st.session_state.update({stopped: False}))
        if min(number, made) >= LEAST or calls.calls.over:
            _draw(shown, calls.line(number), f"model:{key}", whole=not at_work)


def _offer_rest(made: int, wanted: int, key: str, go_on: Callable[[], None]) -> None:
    left, right = st.columns([6, 1.15], vertical_alignment="center")
    left.progress(made / wanted, f"Stopped: {count(made)} of {plural(wanted, 'call')} are made, and kept")
    right.button("Go on", key=f"repeat-on:{key}", icon=":material/play_arrow:", width="stretch", on_click=go_on)


def _drawn(made: int) -> int:
    """How many of the calls made so far are drawn while more are made: 4, 16, 64 and so on, since pictures of most rows
    are large, and one that was sent before is not sent again; 0 of fewer."""
    return _GROWS ** int(math.log(made + 0.5, _GROWS)) if made >= _GROWS else 0


def _by_engine(shown: Shown, engine: str, path: str | None, variant: str | None, wanted: int) -> None:
    """Calls of a kernel or of a released op: made when they are asked for, and kept."""
    calls = held(shown, engine, path, variant)
    key = f"{engine}:{path}:{variant}:{shown.key}"
    who = called_name(shown.seen, engine, path)
    problem = calls.going.problem()
    if calls.going.busy:
        calls.going.wait(AT_ONCE_S)
    if calls.going.busy:
        show_background(shown.file, calls.going, f"repeat:{key}")
    elif len(calls.calls) < wanted:
        st.button(
            f"Call {who} {plural(wanted - len(calls.calls), 'time')}",
            key=f"repeat-call:{key}",
            icon=":material/bolt:",
            on_click=lambda: calls.call(shown, wanted),
        )
        if (problem := problem or calls.going.problem()) is not None:
            error_box(local(problem, shown.file.entry) if isinstance(problem, CaptureError) else problem)
    if len(calls.calls) or calls.calls.over:
        _draw(shown, calls.line(wanted), key)


def _draw(shown: Shown, line: Repeated, key: str, whole: bool = True) -> None:
    """What calls amount to: the sentence, the pictures, the numbers. ``whole``: and the table of indices."""
    found = line.repeatability
    if found is None:
        callout(line.sentence, repeated_colour(line))
        _beside(shown, line)
        return
    callout(line.sentence, repeated_colour(line))
    numbers = [
        ("Repeatability", found.kind, "what varies from call to call, the coarsest first: values, ties, order"),
        ("Orders", count(found.orders), "different sequences of indices"),
        ("Sets", count(found.sets), "different sets of indices"),
        ("Multisets", count(found.values), "different multisets of values"),
        ("Unstable", count(len(found.members)), "indices that some calls select and others do not"),
        ("Steady", count(found.steady), "indices that every call selects"),
    ]
    if line.risk is not None:
        numbers.append(("Risk", line.risk, "over every arrival order, by the analysis"))
    figures_row(numbers, [1.3, *[1] * (len(numbers) - 1)])
    if not line.unjudged:
        saved = downloads.file_name(
            shown.file.entry.key, f"row{shown.number}", line.path or line.engine, line.variant, f"{found.calls}-calls"
        )
        st.markdown("**What calls select**")
        picture(held_figure(found), key=f"held:{key}", config=downloads.picture(f"{saved}-held"))
        k = shown.seen.case.k
        if found.members:
            st.markdown("**How often each index is selected that comes and goes**")
            camera = downloads.picture(f"{saved}-frequency")
            picture(frequency_figure(found, k), key=f"frequency:{key}", config=camera)
        if line.lossy_calls:
            st.markdown("**Values missing, call by call**")
            camera = downloads.picture(f"{saved}-missing")
            picture(missing_figure(line.missing, line.of), key=f"missing:{key}", config=camera)
        if whole:
            _table(line)
            _offer(line, saved, key)
    _beside(shown, line)


def _table(line: Repeated) -> None:
    found = line.repeatability
    assert found is not None
    if not found.members:
        return
    table = members_table(found)
    table["score"] = score_texts(table["score"])
    table["from the cut"] = score_texts(table["from the cut"], 3)
    table["share"] = [probability(share) if share < 1e-3 else f"{100 * share:.3g} %" for share in table["share"]]
    many = (
        f", the {count(SHOWN)} nearest to the cut" if len(found.members) > SHOWN else ", the nearest to the cut first"
    )
    st.markdown(f"**{plural(len(found.members), 'index').replace('indexs', 'indices')} that come and go**{many}")
    text, number = st.column_config.TextColumn, st.column_config.NumberColumn
    st.dataframe(
        table,
        hide_index=True,
        height="content" if len(table) <= 10 else 388,
        placeholder="–",
        column_config={
            **{name: number(format="localized") for name in ("index", "rank", "in ULPs")},
            "selected by": number(f"selected by, of {count(found.calls)}", format="localized"),
            **{name: text(alignment="right") for name in ("score", "from the cut", "share")},
        },
    )


def _offer(line: Repeated, saved: str, key: str) -> None:
    """What can be taken away: every index that comes and goes, and what each call lacked."""
    found = line.repeatability
    assert found is not None
    tables = {"Indices that come and go": lambda: members_table(found, None)} if found.members else {}
    tables["Calls"] = lambda: missing_table(line.missing)
    downloads.offer(saved, f"repeat:{key}", tables)


def _beside(shown: Shown, line: Repeated) -> None:
    """What the capture recorded of the same input, where that is not what is shown, and the way to the inspector."""
    if line.engine != RECORDED and shown.seen.recorded is not None:
        if is_quick(shown.file.capture):
            also = recorded(shown)
            if also.repeatability is not None:
                st.caption(state.plain(f"As recorded: {also.sentence} The engine recorded shows them."))
        else:
            st.caption("The engine recorded compares the recorded calls on the same input, where there are several.")
    row_link(inspector.page(), "Inspect this row", ":material/search:", path=line.path)
