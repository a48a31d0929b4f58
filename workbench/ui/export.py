"""The page that makes a test of a row: can the loss be caught, the smallest row like it, and the files."""

from __future__ import annotations

from pathlib import PurePosixPath

import streamlit as st

from workbench.analysis.risk import LOSING
from workbench.errors import UsageError
from workbench.export.launch import able_ops
from workbench.export.losing import calls_of_a_test, not_run
from workbench.export.packed import Packed
from workbench.export.render import reason
from workbench.export.writing import STYLES, TRACE, ops_of
from workbench.figures.words import count, plural
from workbench.paths.catalog import PATHS, get_path
from workbench.paths.spec import Path, Variant
from workbench.runs.case import Case
from workbench.runs.inspect import Inspection
from workbench.runs.shrink import Shrunk
from workbench.ui import state
from workbench.ui.background import show_background
from workbench.ui.common import callout, code, colour_of, error_box, letters_on_primary, pick_path, pick_variant
from workbench.ui.controls import belongs
from workbench.ui.export_view import EXPORT
from workbench.ui.loading import circumstances, variant_of
from workbench.ui.presses import drop_press, is_pressed, press
from workbench.ui.rowpage import Shown, row_fragment, show_row_page
from workbench.ui.shrink_view import PRESSED, is_shrinking, show_shrink
from workbench.ui.work import Exporting, exporting
from workbench.words import few

EVERY = [path.name for path in PATHS]
_LINES, _CODE = 20, 460  # a test with more lines scrolls in so many pixels
AT_ONCE_S = 0.5  # of an export before it is drawn how far it is
_PRESSED = "export"  # names the press of Export
_AS_CAPTURED, _SHRUNK = "as captured", "shrunk"
_LANGUAGES = {".py": "python", ".json": "json", ".jsonl": "json"}


def page() -> st.Page:
    """The page, for navigation."""
    return st.Page(export_page, title="Export", url_path="export")


def export_page() -> None:
    """A row as a fixture and a test that fails on what loses winners of it."""
    show_row_page(EXPORT, _show)


@row_fragment
def _show(shown: Shown) -> None:
    """The page's own part; a change in it runs nothing else."""
    found = shown.seen
    levels = {risk.path: risk.level or "" for risk in found.census}
    left, right = st.columns([3, 2])
    with left:
        name = pick_path(found, EVERY, f"export-path:{shown.key}", levels.__getitem__)
    with right:
        names = [one.name for one in get_path(name).variants]
        named = pick_variant(found, name, names, f"export-variant:{shown.key}:{name}")
    path, variant = get_path(name), get_path(name).variant(named)
    said, able = _outlook(found.case, path, variant)
    risk = found.case.risk(path, variant)
    callout(
        said if able else said + _elsewhere(found, path, variant), colour_of(None, None if risk.refused else risk.level)
    )
    if not risk.refused and risk.level in LOSING and not found.row.outside:
        shrunk = show_shrink(shown, name, named)
        _export(shown, path, variant, able, shrunk)
    drop_press(_PRESSED)
    drop_press(PRESSED)
    EXPORT.write_url()


def _outlook(case: Case, path: Path, variant: Variant) -> tuple[str, bool]:
    """Whether a test of a row can be made, in a sentence or two."""
    try:
        calls = calls_of_a_test(case, path, variant)
    except UsageError as error:
        return f"No test can be made of this row: {error}.", False
    lead = "is certain to lose winners" if calls.risk.level == "certain" else "is at risk"
    why = reason(calls.risk.level or "", calls.p_clean, calls.repeats, path.arrival_unit)
    return (
        f"On {path.name} ({variant.name}) this row {lead}; a test of it makes {plural(calls.repeats, 'call')}. {why}",
        True,
    )


def _elsewhere(found: Inspection, path: Path, variant: Variant) -> str:
    """What to do where nothing can be exported; empty where the refusal says it."""
    risk = found.case.risk(path, variant)
    if found.row.outside or (not risk.refused and risk.level in LOSING):
        return ""
    losing = [one.path for one in found.census if one.level in LOSING and one.path != path.name]
    if not losing:
        return " No other path is known to lose winners of this row."
    run = [name for name in losing if not not_run(found.case, get_path(name), _own(found, name))]
    if not run:
        return f" The row can lose winners on {few(losing)}, but that is not run on this row either."
    return f" The row can lose winners on {few(run)}: choose such a path above."


def _own(found: Inspection, name: str) -> Variant:
    """The variant of a path that is shown first."""
    return get_path(name).variant(variant_of(found, name))


def _export(shown: Shown, path: Path, variant: Variant, able: bool, shrunk: tuple[Shrunk, Case] | None) -> None:
    """The export of the row as captured, of which a test can be made where ``able``, or of the shrunk one."""
    st.markdown("##### Export")
    view, case, op = state.current(), shown.seen.case, state.current().op
    row: tuple[object, ...] = (circumstances(shown.file, view), shown.number)
    key = f"{shown.key}:{path.name}:{variant.name}"
    which = f"which:{key}"
    if shrunk is None and not is_shrinking(shown, path.name, variant.name):
        st.session_state.pop(which, None)  # the row that will be shrunk is shown first
    if shrunk is not None and _pick_row(case.row.length, shrunk[0], which) == _SHRUNK:
        case, op = shrunk[1], None
        row, key = (*row, shrunk[0].seed, shrunk[0].tried), f"{key}:{shrunk[0].tried}"
        said, able = _outlook(case, path, variant)
        (st.caption if able else st.markdown)(state.plain(said))
    if not able:
        if shrunk is None:
            # Shrinking keeps what goes wrong: what is not run for that is not run of the smaller row.
            st.caption("Nothing to export." if not_run(case, path, variant) else "Nothing to export yet.")
        return
    style = _pick_style(key)
    case, op = _pick_op(case, path, style, op, key)
    held = exporting(row, case, path.name, variant.name, style, op)
    made = _made(shown, held, f"{key}:{style}:{op}", which if shrunk is None else None)
    if isinstance(made, str):
        error_box(made)
    elif made is not None:
        _files(made, f"{key}:{style}:{op}")


def _made(shown: Shown, held: Exporting, key: str, which: str | None) -> Packed | str | None:
    """An export that this session asked for, with its progress and a stop; ``None`` until it is there.

    ``which``: what says which row is shown, where the captured one is the only one as yet: a press is of that one.
    """
    asked = f"exported:{key}"
    going = held.going
    if is_pressed(_PRESSED, shown):
        st.session_state[asked] = True
        held.start()
        drop_press(_PRESSED)
    problem = going.problem()
    if problem is None and st.session_state.get(asked):
        if held.made is None and going.busy:
            going.wait(AT_ONCE_S)
        if held.made is not None:
            return held.made
        if going.busy:
            show_background(shown.file, going, f"export:{key}")
            return None
        problem = going.problem()
    stopped = st.session_state.pop(asked, False) and problem is None
    letters_on_primary()

    def ask() -> None:
        if which is not None:
            st.session_state[which] = _AS_CAPTURED
        press(_PRESSED, shown)

    # One button for whatever is chosen: a press is heard though the page was drawn anew on the way, as when a row has
    # just been shrunk.
    st.button("Export", key=f"export:{shown.key}", type="primary", icon=":material/science:", on_click=ask)
    said = "The test is run before it is shown: it must pass on what loses nothing and fail on the loss."
    st.caption(f"Stopped: the test was not run to its end, and nothing of it is kept. {said}" if stopped else said)
    if problem is not None:
        error_box(problem)
    return None


def _pick_row(length: int, shrunk: Shrunk, which: str) -> str:
    """``which``: keeps what was chosen while the row shrinks on, when there is nothing to choose."""
    widget, lengths = f"row-of:{which}", {_AS_CAPTURED: length, _SHRUNK: shrunk.row.length}
    st.session_state[widget] = st.session_state.setdefault(which, _SHRUNK)
    st.segmented_control(
        "Row",
        list(lengths),
        key=widget,
        format_func=lambda name: f"{name}, {plural(lengths[name], 'score')}",
        on_change=lambda: st.session_state.update({which: st.session_state[widget]}),
        required=True,
    )
    return str(st.session_state[widget])


def _pick_style(key: str) -> str:
    widget = f"style:{key}"
    st.session_state[widget] = EXPORT.current().style or STYLES[0]
    st.segmented_control("Style", STYLES, key=widget, on_change=EXPORT.bound("style", widget), required=True)
    return str(st.session_state[widget])


def _pick_op(case: Case, path: Path, style: str, op: str | None, key: str) -> tuple[Case, str | None]:
    """The op that a test calls, where the style can call several that send rows to the path; the row under it."""
    able = able_ops(path, ops_of(style))
    if len(able) < 2:
        return case, op
    widget = f"op:{key}:{style}"
    st.session_state.setdefault(widget, case.op if case.op in able else able[0])
    st.selectbox("Op that the test calls", able, key=widget, width=320)
    chosen = str(st.session_state[widget])
    if chosen == case.op:
        return case, op
    view = state.current()
    release = view.release if belongs(view.release, chosen) else None
    return Case(case.row, chosen, release, view.device, case.k), chosen


def _files(made: Packed, key: str) -> None:
    done = made.exported
    st.markdown(state.plain(f"Proved: {', '.join(done.proved)}."))
    names = list(made.contents)
    for name in names[1:]:
        st.caption(state.plain(name))
        text = made.contents[name].decode()
        language = _LANGUAGES[PurePosixPath(name).suffix]
        code(
            text,
            language,
            height=_CODE if text.count("\n") > _LINES else "content",
            wrap_lines=language == "json",
        )
    if done.run:
        st.caption("Run it with")
        code(done.run)
    size = f"The fixture is {PurePosixPath(names[0]).name}, {count(len(made.contents[names[0]]))} bytes"
    trace = done.style == TRACE
    st.caption(state.plain(f"{size}; the files belong at these places of a trace set." if trace else f"{size}."))
    with st.container(horizontal=True):
        st.download_button(
            "All files (.zip)" if trace else "Both (.zip)",
            made.zipped,
            file_name=f"{PurePosixPath(names[0]).stem}-{done.style}.zip",
            mime="application/zip",
            key=f"zip:{key}",
            on_click="ignore",
            icon=":material/download:",
            type="primary",
        )
        if not trace:
            _download("Fixture (.safetensors)", names[0], made, key)
            _download("Test (.py)", names[1], made, key)


def _download(title: str, name: str, made: Packed, key: str) -> None:
    st.download_button(
        title,
        lambda: made.contents[name],
        file_name=PurePosixPath(name).name,
        mime="application/octet-stream",
        key=f"{title}:{key}",
        on_click="ignore",
        icon=":material/download:",
    )
