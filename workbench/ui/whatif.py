"""The What-if page: another buffer, key, k, length or scores, and what would become of the row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import streamlit as st

from workbench.analysis.curves import Curve, against, curve, own_value
from workbench.analysis.whatif import PARAMETERS, Alteration, Parameter, Setting, unalterable
from workbench.errors import UsageError, WorkbenchError
from workbench.figures.whatif import score_text, standing_colour, whatif_figure, whatif_table
from workbench.figures.words import count
from workbench.paths.catalog import PATHS, get_path
from workbench.runs.whatif import WhatIf
from workbench.runs.whatif_words import LABELS, SHORT, number, standing_word, what_if_sentences
from workbench.ui import downloads, state
from workbench.ui.caches import TEXT
from workbench.ui.common import callout, error_box, pick_path, pick_variant, picture
from workbench.ui.loading import circumstances
from workbench.ui.rowpage import Shown, row_fragment, show_row_page
from workbench.ui.view import View
from workbench.ui.whatif_view import ASKED, READ, Asked

_SETTINGS = 3
_STANDS_OUT = 320  # characters: three lines where a window is 1280 pixels wide
_MARKS = {"safe": "● safe", "at risk": "◆ at risk", "certain": "✕ loses for certain", "fault": "▼ fault"}
_PROBLEM = "what-if-problem"
_TITLES = {"rank_capacity": "Per block"}  # of fields, where the name has no room
_HELP: dict[Parameter, str] = {
    "capacity": "scores that the candidate buffer holds",
    "rank_capacity": "scores that one block of the cluster stores",
    "key_bits": "of the coarse key: the top 1 to 16 bits of the fp16 key",
    "k": "winners wanted",
    "length": "only the row's first so many scores",
    "scale": "the scores are multiplied by it, in their own dtype",
    "shift": "added to the scores after they are scaled, in their own dtype",
}


def page() -> st.Page:
    """The page, for navigation and for links to it."""
    return st.Page(whatif_page, title="What-if", url_path="what-if")


def whatif_page() -> None:
    """What would become of a row if its path, or the row, were another."""
    show_row_page(ASKED, _show)


@st.cache_resource(max_entries=_SETTINGS, show_spinner=False, hash_funcs=TEXT)
def _setting(identity: tuple[object, ...], number: int, path: str, variant: str, _shown: Shown) -> Setting:
    case, spec = _shown.seen.case, get_path(path)
    return Setting(case.row, case.k, spec, spec.variant(variant), case.profile)


def setting_of(shown: Shown, view: View, path: str, variant: str) -> Setting:
    """The row on a path's variant; made once for all sessions that show the same bytes."""
    return _setting((shown.file.entry.key, *circumstances(shown.file, view)), shown.number, path, variant, shown)


@row_fragment
def _show(shown: Shown) -> None:
    """The page's own part; a change in it runs nothing else."""
    left, right = st.columns([3, 2])
    with left:
        path = pick_path(shown.seen, [one.name for one in PATHS], f"what-if-path:{shown.key}")
    with right:
        names = [one.name for one in get_path(path).variants]
        variant = pick_variant(shown.seen, path, names, f"what-if-variant:{shown.key}:{path}")
    setting = setting_of(shown, state.current(), path, variant)
    asked = ASKED.current()
    said, drawn = st.container(), st.container()
    _inputs(setting, shown.key)
    try:
        alteration = _possible(setting, asked)
        with st.spinner("Working it out"):
            found = WhatIf(setting, alteration)
            text, more = _parted(what_if_sentences(found))
        with said:
            callout(text, standing_colour(found.after))
            if more:
                st.caption(state.plain(more))
        with drawn:
            offer = _picture(shown, setting, alteration)
        offer()
        st.dataframe(
            whatif_table(found) if alteration.given else whatif_table(found).drop(columns="altered"),
            hide_index=True,
            height="content",
            column_config={
                name: st.column_config.TextColumn(alignment="right", width=130) for name in ("as it is", "altered")
            },
        )
    except WorkbenchError as error:
        with said:
            error_box(error)
    ASKED.write_url()


def _parted(sentences: Sequence[str]) -> tuple[str, str]:
    """As many sentences as stand out in a few lines, the first in any case, and the others."""
    ends = list(accumulate(sentences, lambda end, one: end + 1 + len(one), initial=-1))[1:]
    many = max(1, sum(end <= _STANDS_OUT for end in ends))
    return " ".join(sentences[:many]), " ".join(sentences[many:])


def _possible(setting: Setting, asked: Asked) -> Alteration:
    """What of it the path's model can take; the rest is said, and left out."""
    alteration = asked.alteration
    for parameter in PARAMETERS:
        why = unalterable(setting.path, setting.variant, parameter)
        if why and getattr(asked, parameter) is not None:
            st.warning(state.plain(f"The {LABELS[parameter]} is left as it is: {why}."), icon=":material/block:")
            alteration = alteration.with_(parameter, None)
    return alteration


def _offered(setting: Setting) -> list[Parameter]:
    """The parameters that have an input: those of a cluster's blocks only where there is one."""
    ranks = (setting.variant.buffer or setting.path.buffer) if setting.path.buffer is not None else None
    return [name for name in PARAMETERS if name != "rank_capacity" or (ranks is not None and ranks.ranks is not None)]


def _inputs(setting: Setting, key: str) -> None:
    """A field for each parameter, whose placeholder is the value as it is; what cannot be altered says why."""
    offered = _offered(setting)
    for column, parameter in zip(st.columns(len(offered)), offered, strict=True):
        with column:
            _input(setting, parameter, f"what-if-{parameter}:{key}")
    problem = st.session_state.pop(_PROBLEM, None)
    if problem:
        error_box(problem)
    _shortcuts(setting, key)


def _input(setting: Setting, parameter: Parameter, key: str) -> None:
    asked = ASKED.current()
    own, why = own_value(setting, parameter, asked.alteration), unalterable(setting.path, setting.variant, parameter)
    value = getattr(asked, parameter)
    st.session_state[key] = "" if value is None else number(value)

    def take() -> None:
        text = st.session_state[key].strip().replace(",", "")
        try:
            new = READ[parameter](text) if text else None
            ASKED.change(**{parameter: None if new == own_value(setting, parameter, asked.alteration) else new})
        except UsageError as error:
            st.session_state[_PROBLEM] = f"{LABELS[parameter]}: {error}"

    st.text_input(
        "k" if parameter == "k" else _TITLES.get(parameter, LABELS[parameter].capitalize()),
        key=key,
        placeholder="–" if own is None else count(int(own)) if float(own).is_integer() else number(own),
        disabled=bool(why) and value is None,
        help=state.plain(f"{_HELP[parameter]}{f'; cannot be altered: {why}' if why else ''}"),
        on_change=take,
    )


def _shortcuts(setting: Setting, key: str) -> None:
    """Values that are likely to be asked for, each a button."""
    asked = ASKED.current()
    offers: list[tuple[str, dict[str, object], str]] = []
    try:
        others = _bare(setting, asked)
        enough = setting.enough(others)
        if enough is not None and (enough.capacity, enough.rank_capacity) != (asked.capacity, asked.rank_capacity):
            label = f"Least safe buffer: {count(enough.capacity)}"
            fields: dict[str, object] = {"capacity": enough.capacity}
            if enough.rank_capacity is not None:
                label += f", {count(enough.rank_capacity)} a block"
                fields["rank_capacity"] = enough.rank_capacity
            offers.append((label, fields, "all else as altered"))
        fits = WhatIf(setting, Alteration()).fitting_scale
        if fits != 1 and asked.scale != fits:
            offers.append((f"All within 65504: scale {number(fits)}", {"scale": fits}, "the greatest power of two"))
    except WorkbenchError:
        pass  # said above, of what is asked
    if asked.alteration.given:
        offers.append(("As it is", dict.fromkeys(PARAMETERS), "nothing altered"))
    with st.container(horizontal=True):
        for at, (label, fields, about) in enumerate(offers):
            st.button(
                state.plain(label),
                key=f"what-if-offer:{at}:{key}",
                help=about,
                on_click=lambda fields=fields: ASKED.change(**fields),
                type="tertiary" if label == "As it is" else "secondary",
            )


def _bare(setting: Setting, asked: Asked) -> Alteration:
    """What is altered besides the buffer, as far as the path takes it."""
    alteration = asked.alteration.with_("capacity", None).with_("rank_capacity", None)
    if unalterable(setting.path, setting.variant, "key_bits"):
        alteration = alteration.with_("key_bits", None)
    return alteration


def _picture(on: Shown, setting: Setting, alteration: Alteration) -> Callable[[], None]:
    """The risk against one parameter, and a slider along it.

    Returns:
        What draws the button that saves it.
    """
    key = on.key
    offered = against(setting)
    chosen = ASKED.current().against
    shown: Parameter = chosen if chosen in offered else offered[0]
    if chosen is not None and chosen not in offered:
        why = unalterable(setting.path, setting.variant, chosen)
        st.caption(state.plain(f"There is no curve against the {LABELS[chosen]}: {why}. Shown is the {LABELS[shown]}."))
    with st.spinner("Working out the curve"):
        drawn = curve(setting, shown, alteration)
    own = own_value(setting, shown, alteration)
    altered = getattr(alteration, shown)
    chart = f"what-if-chart:{key}:{setting.path.name}:{shown}"

    def take() -> None:
        points = [one for one in st.session_state[chart].selection.points if "customdata" in one]
        if points:
            picked = points[0]["customdata"]
            _alter(shown, float(picked[0] if isinstance(picked, Sequence) else picked), own)

    saved = downloads.file_name(
        on.file.entry.key, f"row{on.number}", setting.path.name, setting.variant.name, f"by-{shown.replace('_', '-')}"
    )
    picture(
        whatif_figure(drawn, own, altered),
        key=chart,
        config=downloads.picture(saved),
        on_select=take,
        selection_mode="points",
    )
    widget = f"what-if-against:{key}:{setting.path.name}"
    st.session_state[widget] = shown
    left, right = st.columns([6, 4])
    left.segmented_control(
        "Risk against",
        list(offered),
        key=widget,
        format_func=SHORT.__getitem__,
        on_change=ASKED.bound("against", widget),
        required=True,
        wrap=False,
    )
    with right:
        _slider(shown, drawn.at, own, altered, f"what-if-slide:{key}:{setting.path.name}:{shown}")
    return lambda: downloads.offer(saved, chart, {"Curve": drawn.to_pandas}, beside=_marks(drawn))


def _marks(drawn: Curve) -> str:
    """How the marks are read: those of a fault where there is one; open squares are of what is not judged."""
    words = {standing_word(risk) for risk in drawn.risks}
    told = [text for word, text in _MARKS.items() if word != "fault" or word in words]
    told += ["□ refused or not known"] if words - set(_MARKS) else []
    return f"Each mark is a risk worked out, no fit: {', '.join(told)}. Click one to turn to it."


def _slider(parameter: Parameter, values: Sequence[float], own: float | None, altered: float | None, key: str) -> None:
    """A slider over the values of the curve."""
    if len(values) < 2:
        return
    place = altered if altered is not None else own
    st.session_state[key] = place if place in values else values[0]
    st.select_slider(
        f"Move the {LABELS[parameter]}",
        values,
        key=key,
        format_func=lambda value: count(int(value)) if float(value).is_integer() else score_text(value),
        on_change=lambda: _alter(parameter, st.session_state[key], own),
    )


def _alter(parameter: Parameter, value: float, own: float | None) -> None:
    whole = parameter not in ("scale", "shift")
    ASKED.change(**{parameter: None if value == own else int(value) if whole else float(value)})
