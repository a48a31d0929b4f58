"""The view of a row's coarse bins around the threshold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import streamlit as st

from workbench.analysis.bins import bin_contents
from workbench.analysis.profile import RowProfile
from workbench.analysis.risk import Risk
from workbench.figures.bins import BinWindow, bin_window, bins_figure, range_label
from workbench.figures.tables import outlook_texts
from workbench.figures.words import count, plural, signed, value
from workbench.numeric.histogram import Threshold
from workbench.paths.catalog import PATHS, get_path
from workbench.runs.inspect import Inspection
from workbench.runs.law_words import law_sentence
from workbench.ui import downloads, state
from workbench.ui.common import Slots, figures_row, pick_path, picture, say_instead, score_texts
from workbench.ui.view import RADII

COARSE = [path.name for path in PATHS if path.key_bits is not None]
DEFAULT_RADIUS = 24
MEMBERS = 100


def show_bins(found: Inspection, key: str, slots: Slots, more: Callable[[], None] | None = None) -> None:
    """Histogram, numbers and the contents of one bin.

    Args:
        key: names what is inspected. slots: where controls go. more: what else is offered to be taken away.
    """
    left, right = slots
    with left:
        name = pick_path(found, COARSE, f"bins-path:{key}")
    profile, risk = found.case.profile, next(risk for risk in found.census if risk.path == name)
    if not profile.countable:
        st.info(state.plain(_why_no_bins(profile)))
        return
    with right:
        radius = _pick_radius(key)
    bits = get_path(name).key_bits
    assert bits is not None
    window = bin_window(profile, bits, radius)
    chosen = state.current().bin
    if chosen is not None and chosen >= 1 << bits:
        st.warning(f"There is no bin {chosen}: {name} has bins 0 to {(1 << bits) - 1}.")
        chosen = None
    _said_of_the_path(found, name, risk)
    chart = f"bins:{key}:{name}:{radius}"
    saved = downloads.file_name(found.row.capture, f"row{found.row.index}", name, "bins")
    picture(
        bins_figure(window, risk, chosen),
        key=chart,
        config=downloads.picture(saved),
        on_select=_clicked(chart, window),
        selection_mode="points",
    )
    _numbers(risk, profile.threshold(bits))
    downloads.offer(saved, chart, {"Bins": window.table}, more=more)
    _contents(profile, bits, window.threshold if chosen is None else chosen, window.threshold)


def _said_of_the_path(found: Inspection, name: str, risk: Risk) -> None:
    say_instead(COARSE, name, "which has no coarse bins")
    said = []
    if found.reached is not None and found.reached != name:
        without = "" if found.reached in COARSE else ", which has no coarse bins"
        said.append(f"The op sends this row to {found.reached}{without}; shown is what {name} would see.")
    if risk.refused:
        said.append(f"{name} does not take this row ({'; '.join(risk.refused)}); its bins are shown all the same.")
    if found.row.outside:
        held, length = found.row.valid.numel(), found.row.length
        said.append(f"Shown are the {plural(held, 'score')} that the row has; its length is {count(length)}.")
    if said:
        st.caption(state.plain(" ".join(said)))


def _why_no_bins(profile: RowProfile) -> str:
    if profile.window.outside and profile.length <= profile.k:
        return (
            f"The row's length is {profile.window.length}: {plural(profile.length, 'score')} of the row lie inside it, "
            f"which is not above k, {profile.k}, so there is no threshold bin."
        )
    if profile.length <= profile.k:
        return (
            f"The row holds {plural(profile.length, 'score')} and k is {profile.k}: all of it is selected, "
            "so there is no threshold bin."
        )
    return f"Coarse bins are those of float32 scores; this row is {profile.dtype}, which no coarse path takes."


def _pick_radius(key: str) -> int:
    widget = f"around:{key}"
    st.session_state[widget] = state.current().around or DEFAULT_RADIUS
    st.selectbox(
        "Bins to either side", RADII, key=widget, on_change=state.bound("around", widget), help="of the threshold bin"
    )
    return int(st.session_state[widget])


def _clicked(chart: str, window: BinWindow) -> Any:
    def take() -> None:
        points = st.session_state[chart].selection.points
        if points:
            state.change(bin=window.bin_at(float(points[0]["x"])))

    return take


def _numbers(risk: Risk, at: Threshold) -> None:
    clean, mean, span = outlook_texts(risk)
    numbers = [
        ("Above", count(at.above), "scores in higher bins: all are winners"),
        ("Need", count(at.need), "winners that must come out of the threshold bin"),
        ("Population", count(at.population), "scores in the threshold bin"),
        ("Capacity", count(risk.capacity), "scores that the buffer holds"),
    ]
    if risk.room != risk.capacity:
        numbers.append(("Takes", count(risk.room), "scores of this bin that the blocks take: one overflows first"))
    numbers += [
        ("p clean", clean, "probability that a random arrival order loses nothing"),
        ("Mean lost", mean, "values missing on average over random arrival orders"),
        ("Least – most", span, "values missing over every arrival order"),
    ]
    figures_row(numbers)
    if risk.note:
        st.caption(state.plain(f"{risk.path} ({risk.variant}): {risk.note}."))
    if law := law_sentence(risk.path, risk.level, risk.clean_at_most):
        st.caption(state.plain(law))
    if risk.order_correlation is not None and abs(risk.order_correlation) > 0.5:
        st.caption(
            f"Within this bin the scores follow their position (rank correlation {signed(risk.order_correlation, 2)}): "
            "real arrival follows position too, so the mean over random orders does not describe it. Least and most "
            "hold."
        )


def _contents(profile: RowProfile, bits: int, bin_: int, threshold: int) -> None:
    held = bin_contents(profile, bits, bin_, MEMBERS)
    what = "threshold bin" if bin_ == threshold else "bin"
    title = f"What {what} {bin_} holds: {range_label(bin_, bits)} as fp16"
    if held is None:
        st.markdown(f"**{state.plain(title)}** — no scores")
        return
    st.markdown(f"**{state.plain(title)}** — click a bar to look into another bin")
    left, right = st.columns([2, 3])
    share = f"{held.most_common_count / held.population:.2%}"
    facts = [
        ("scores", count(held.population)),
        ("distinct values", count(held.distinct)),
        ("greatest", value(held.greatest, 9)),
        ("least", value(held.least, 9)),
        ("most common", value(held.most_common, 9)),
        ("held by", f"{plural(held.most_common_count, 'score')} ({share})"),
    ]
    left.dataframe(
        pd.DataFrame(facts, columns=["of the bin", "value"]),
        hide_index=True,
        column_config={"value": st.column_config.TextColumn(alignment="right")},
    )
    shown = held.indices.numel()
    right.dataframe(
        pd.DataFrame({"index": held.indices.cpu().numpy(), "score": score_texts(held.values.tolist())}),
        hide_index=True,
        height=212,
        column_config={
            "index": st.column_config.NumberColumn(format="localized"),
            "score": st.column_config.TextColumn(alignment="right"),
        },
    )
    right.caption(
        f"The {count(shown)} best of {count(held.population)} scores"
        if shown < held.population
        else "All of its scores"
    )
