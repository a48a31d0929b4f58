"""The page of paths: how a selector works in a picture, which scores its bins cannot tell apart, and who has it."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from workbench.errors import UsageError
from workbench.figures import palette
from workbench.figures.number_line import line_figure, resolution_figure, resolution_table
from workbench.figures.path_releases import family_figure, held_beside
from workbench.figures.path_tables import contract_table, limits_table, ops_table, ops_words, variants_table
from workbench.figures.paths import pipeline_figure
from workbench.figures.tables import paths_table
from workbench.paths.catalog import PATHS, get_path
from workbench.paths.spec import Path, Variant
from workbench.paths.steps import Key, key_of, loss_sentence, note_of, steps_of
from workbench.ui import downloads, state
from workbench.ui.common import callout, error_box, picture
from workbench.ui.paths_view import FIRST, NAMES, SCORE, SHOWN, STOCK, read_score, score_text
from workbench.ui.view import brief

_SCORES = ("0.001", "1", "100", "10000", "65504", "65520")
_PROBLEM = "paths-problem"
_ALONE = ""
_CAPACITY = "scores that the candidate buffer holds; – without one, ? where it is not established."


def paths_page() -> None:
    """One path and variant; the catalogue below leads to the others."""
    SHOWN.follow_url()
    st.markdown("#### How a path selects")
    notices = st.empty()
    columns = st.columns([2.6, 2.2, 1.8, 2.4])
    with columns[0]:
        path = _pick_path()
    with columns[1]:
        variant = _pick_variant(path)
    with columns[2]:
        score = _pick_score()
    with columns[3]:
        beside = _pick_beside(path)
    SHOWN.settle(path=path.name, variant=variant.name, score=score)
    if (problem := st.session_state.pop(_PROBLEM, None)) is not None:
        error_box(problem)
    _picture(path, variant)
    _number_line(path, variant, score, beside)
    _releases(path)
    _facts(path, variant)
    _catalogue(path)
    SHOWN.write_url()
    if SHOWN.notices():
        notices.warning("\n\n".join(state.plain(text) for text in SHOWN.notices()), icon=":material/link:")


def _pick_path() -> Path:
    path = get_path(SHOWN.current().path or FIRST)
    st.session_state["paths-path"] = path.name
    st.selectbox("Path", NAMES, key="paths-path", on_change=lambda: _turn(st.session_state["paths-path"]))
    return path


def _turn(name: str) -> None:
    """Show another path: its stock variant, beside the same one unless that is it."""
    beside = SHOWN.current().beside
    SHOWN.change(path=name, variant=None, beside=None if beside == name else beside)


def _pick_variant(path: Path) -> Variant:
    """The variant that is shown; one of the link that the path does not have is said."""
    shown = SHOWN.current().variant
    names = [one.name for one in path.variants]
    if shown is not None and shown not in names:
        SHOWN.note(f"The link's variant {brief(shown)} is none of {path.name}; stock is shown.")
        shown = None
    variant = path.variant(shown or STOCK)
    st.session_state["paths-variant"] = variant.name
    losing = {one.name: "" if one.lossless else " · can lose" for one in path.variants}
    st.selectbox(
        "Variant",
        names,
        key="paths-variant",
        format_func=lambda name: f"{name}{losing[name]}",
        on_change=SHOWN.bound("variant", "paths-variant"),
        help="the path as released, repairs of it, and faults that were reported",
    )
    return variant


def _pick_score() -> float:
    shown = SHOWN.current().score
    score = SCORE if shown is None else shown
    text = score_text(score)
    st.session_state["paths-score"] = text

    def take() -> None:
        try:
            SHOWN.change(score=read_score(st.session_state["paths-score"] or score_text(SCORE)))
        except UsageError as error:
            st.session_state[_PROBLEM] = f"Score: {error}"

    st.selectbox(
        "Score on the number line",
        _SCORES if text in _SCORES else (*_SCORES, text),
        key="paths-score",
        accept_new_options=True,
        on_change=take,
        help="the bin of which score is shown; type any number",
    )
    return score


def _pick_beside(path: Path) -> Path | None:
    """A path whose number line stands below the shown one's."""
    shown = SHOWN.current().beside
    if shown == path.name:
        shown = SHOWN.settle(beside=None).beside
    options = [_ALONE, *(one.name for one in PATHS if one is not path and key_of(one, one.variant(STOCK)) is not None)]
    if shown is not None and shown not in options:
        SHOWN.note(f"{shown} has no bins, so that no number line of it stands beside.")
        shown = SHOWN.settle(beside=None).beside
    st.session_state["paths-beside"] = shown or _ALONE
    st.selectbox(
        "Number line beside",
        options,
        key="paths-beside",
        format_func=lambda name: name or "none",
        on_change=SHOWN.bound("beside", "paths-beside", lambda name: name or None),
        help="the bins of another path, as released, to the same scale",
    )
    return None if shown is None else get_path(shown)


def _picture(path: Path, variant: Variant) -> None:
    steps = steps_of(path, variant)
    colour = palette.SAFE_TEXT if variant.lossless else palette.LOSSY_TEXT
    callout(loss_sentence(path, variant), colour if steps else palette.REFUSED_TEXT)
    if not steps:
        st.info("What it does inside is not established, so that there is no picture of it.")
        return
    camera = downloads.picture(downloads.file_name(path.name, variant.name, "steps"))
    picture(pipeline_figure(steps, note_of(variant)), key=f"steps:{path.name}:{variant.name}", config=camera)


def _number_line(path: Path, variant: Variant, score: float, beside: Path | None) -> None:
    st.markdown("##### Which scores share a bin")
    keys: dict[str, Key] = {}
    for one, chosen in ((path, variant), *(() if beside is None else ((beside, beside.variant(STOCK)),))):
        made = key_of(one, chosen)
        if made is not None:
            keys[one.name] = made
    if path.name not in keys:
        st.markdown(state.plain(_no_bins(path, variant)))
    if not keys:
        return
    key = f"{path.name}:{variant.name}:{score}:{'' if beside is None else beside.name}"
    saved = downloads.file_name(path.name, variant.name, "at", score_text(score))
    picture(line_figure(keys, score), key=f"line:{key}", config=downloads.picture(f"{saved}-bins"))
    left, right = st.columns([1, 1])
    with left:
        camera = downloads.picture(f"{saved}-resolution")
        picture(resolution_figure(keys, score), key=f"resolution:{key}", config=camera)
    with right:
        table = resolution_table(keys, score)
        st.dataframe(table, hide_index=True, height="content", key=f"bins:{key}")
        st.caption(_ABOUT_BINS[any(one.kind == "half" for one in keys.values())])


_ABOUT_BINS = {
    True: "A score lies in the bin that its value rounded to fp16 falls into. Scores of one bin are told apart only by "
    "what follows: where the buffer does not hold them, the order in which they arrive decides.",
    False: "Scores of one bin share the first digit of the exact key and are told apart by the digits that follow.",
}


def _no_bins(path: Path, variant: Variant) -> str:
    name = f"{path.name} ({variant.name})"
    if not steps_of(path, variant):
        return f"{name}: which bins it has, if any, is not established."
    return f"{name} has no bins: it compares scores as they are, or takes all of them."


def _releases(path: Path) -> None:
    st.markdown("##### Releases and capacity")
    held = held_beside(path)
    if not held:
        st.markdown(state.plain(f"No known release has it: {path.unreached or path.releases}."))
        return
    camera = downloads.picture(downloads.file_name(path.name, "releases"))
    picture(family_figure(held, path.name), key=f"releases:{path.name}", config=camera)
    absent = "" if any(one.path == path.name for one in held) else f"No known release has {path.name}. "
    st.caption(
        state.plain(
            f"{absent}Below each mark the capacity: {_CAPACITY} A release has a path where some call was found that "
            "one of its ops sends there."
        )
    )


def _facts(path: Path, variant: Variant) -> None:
    left, right = st.columns([1, 1])
    with left:
        st.markdown("##### Contract, in CUB's words")
        _table(contract_table(path, variant))
    with right:
        st.markdown("##### Which rows it takes, and its source")
        _table(limits_table(path, variant))
    st.markdown("##### Ops that take it, and when")
    st.markdown(state.plain(ops_words(path, variant)))
    ops = ops_table(path, variant)
    if not len(ops):
        ops = ops_table(path)
    if len(ops):
        st.dataframe(ops, hide_index=True, height="content", key=f"ops:{path.name}:{variant.name}")
    st.markdown("##### Variants")
    _table(variants_table(path))
    st.caption(state.plain(f"The same as text: docs/paths.md, and workbench paths {path.name}."))
    tables = {
        "Contract": lambda: contract_table(path, variant),
        "Limits": lambda: limits_table(path, variant),
        "Ops": lambda: ops,
        "Variants": lambda: variants_table(path),
        "All paths": lambda: paths_table(PATHS),
    }
    downloads.offer(downloads.file_name(path.name, variant.name), f"path:{path.name}:{variant.name}", tables)


def _table(frame: pd.DataFrame) -> None:
    """A table whose lines wrap, its cells as they are."""
    st.table(frame.map(state.plain).set_index(frame.columns[0]))


def _catalogue(path: Path) -> None:
    st.markdown("##### All paths")
    table = paths_table(PATHS).drop(columns=["releases", "reports"])
    table.insert(2, "variants", [len(one.variants) for one in PATHS])
    text, number = st.column_config.TextColumn, st.column_config.NumberColumn
    widths = {"path": 160, "summary": 330, "coarse key": 78, "capacity": 96, "k": 104, "length": 100, "evidence": 170}
    key = f"catalogue:{path.name}"

    def take() -> None:
        selection = st.session_state[key].selection
        places = [cell[0] for cell in selection.cells] or selection.rows
        if places:
            _turn(PATHS[places[0]].name)

    st.dataframe(
        table,
        key=key,
        hide_index=True,
        height=420,
        on_select=take,
        selection_mode=["single-row", "single-cell"],
        column_config={name: text(width=width) for name, width in widths.items()} | {"variants": number(width=64)},
    )
    st.caption(state.plain(f"A click on a line shows that path above. Capacity: {_CAPACITY}"))
