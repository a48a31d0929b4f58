"""A row's risk against one parameter: what lies in the threshold bin, the chance of a clean order, what is lost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.analysis.curves import Curve
from workbench.analysis.risk import LOSING, Risk
from workbench.analysis.whatif import Parameter
from workbench.figures import palette
from workbench.figures.frame import axis, new_figure
from workbench.figures.scales import Scale, chance_scale, mean_scale
from workbench.figures.tables import outlook_texts
from workbench.figures.words import MINUS, count, plain, value, wrapped
from workbench.runs.whatif import WhatIf
from workbench.runs.whatif_words import LABELS, number, standing_word

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

TITLES: dict[Parameter, str] = {
    "capacity": "capacity of the buffer, scores (log)",
    "rank_capacity": "capacity of one block, scores (log)",
    "key_bits": "coarse key, bits",
    "k": "k, winners wanted (log)",
    "length": "length, scores",
    "scale": "scale, times the scores (log)",
    "shift": "shift, added to the scores",
}
LOG: tuple[Parameter, ...] = ("capacity", "rank_capacity", "k", "scale")
BLOCKS = "the blocks take"
MARKS = {"safe": "circle", "at risk": "diamond", "certain": "x", "fault": palette.STANDINGS["fault"].symbol}
_NEAR = 4  # times, that lines lie apart whose names would meet
_FEW = 10  # whole numbers of an axis, below which each has its tick
_LINE_STYLE = {"color": palette.MUTED, "width": 1.5}
_LINE = 17  # pixels of a line of labels above the picture, and of a title
_DOMAINS = ((0.7, 1.0), (0.34, 0.62), (0.0, 0.26))
_WIDE, _LETTER = 620, 7.3  # pixels of the axis where a page is narrow, and of a letter of a label
_HEIGHT = 340  # so that sentence, picture and controls share a screen


_SHOWN = ("scores in the threshold bin (log)", "p clean (log, both ways)", "winners lost on average (log)")


def whatif_figure(curve: Curve, now: float | None, altered: float | None) -> go.Figure:
    """Three pictures above each other over one parameter; the places of 0 and 1 stand apart from their log scales.

    Args:
        now: the parameter's value as it is. altered: as it is taken to be; ``None`` where it is not altered.
    """
    import plotly.graph_objects as go

    labels = _laid_out(_labels(curve, now, altered), curve)
    top = 6 + _LINE * (1 + max((one.line + 1 for one in labels), default=0))
    figure = new_figure(_HEIGHT + top, left=66, right=20, top=top, bottom=50)
    at = np.array(curve.at, dtype=float)
    chances, means = chance_scale(curve.risks), mean_scale(curve.risks)
    _population(figure, curve, at)
    _span(figure, curve, at, means)
    lanes = (
        ("y2", [_place_of(one.p_clean, chances, one.level == "at risk") for one in curve.risks]),
        ("y3", [_place_of(one.expected_missing, means, one.level in LOSING) for one in curve.risks]),
    )
    for lane, of_each in lanes:
        places = np.array(of_each)
        figure.add_trace(go.Scatter(x=at, y=places, yaxis=lane, mode="lines", line=_LINE_STYLE, hoverinfo="skip"))
        _marks(figure, curve, at, places, lane)
    _axes(figure, curve, chances, means)
    _titles(figure)
    _stand(figure, labels, curve)
    return figure


def _place_of(number: float | None, scale: Scale, possible: bool) -> float:
    """Where a number is drawn. ``possible``: what is 0 is too small for a float."""
    if number is None:
        return math.nan
    return scale.least if number == 0 and possible else scale.place(number)


def _population(figure: go.Figure, curve: Curve, at: np.ndarray) -> None:
    import plotly.graph_objects as go

    held = np.array([np.nan if one.population is None else one.population for one in curve.risks], dtype=float)
    room = np.array([np.nan if one.capacity is None else one.capacity for one in curve.risks], dtype=float)
    stored = np.array([np.nan if one.stored is None else one.stored for one in curve.risks], dtype=float)
    if np.isnan(held).all():
        figure.add_annotation(
            xref="paper",
            x=0.5,
            yref="paper",  # an axis that nothing is drawn on has no domain
            y=sum(_DOMAINS[0]) / 2,
            text="this path has no buffer that fills",
            showarrow=False,
            font={"color": palette.MUTED},
        )
        return
    lines = [
        ("capacity", room, {"color": palette.CAPACITY, "width": 1.5, "dash": "dash"}),
        ("population", held, {"color": palette.THRESHOLD, "width": 2}),
    ]
    if (stored < np.minimum(held, room)).any():  # a block of a cluster overflows before the whole buffer
        lines.insert(0, (BLOCKS, stored, {"color": palette.AT_RISK_TEXT, "width": 1.5, "dash": "dot"}))
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.abs(np.log(held / room))
    seen = np.flatnonzero(~np.isnan(apart) & (held > 0))
    for name, numbers, line in lines:
        figure.add_trace(go.Scatter(x=at, y=_positive(numbers), mode="lines", name=name, line=line, hoverinfo="skip"))
        if seen.size:  # named where the two lie further apart, but for a capacity that rises with the parameter
            left = apart[seen[0]] >= apart[seen[-1]] and not (name != "population" and room[seen[0]] != room[seen[-1]])
            end = seen[0] if left else seen[-1]
            if numbers[end] > 0:
                inner = numbers[min(end + 1, len(at) - 1)] if left else numbers[max(end - 1, 0)]
                other = room[end] if name == "population" else held[end]
                below = name == BLOCKS or inner > numbers[end]  # the line comes from above
                below = below or numbers[end] < other < _NEAR * numbers[end]  # where the other one has its name
                place = _axis_place(curve.parameter, at[end])
                _named(figure, name, (place, numbers[end]), str(line["color"]), left, below)
    _marks(figure, curve, at, _positive(held), "y")


def _positive(numbers: np.ndarray) -> np.ndarray:
    return np.where(numbers > 0, numbers, np.nan)


def _named(figure: go.Figure, name: str, end: tuple[float, float], colour: str, left: bool, below: bool) -> None:
    """The name of a line at one of its ends."""
    figure.add_annotation(
        x=end[0],
        y=math.log10(end[1]),
        yref="y",
        text=name,
        showarrow=False,
        xanchor="left" if left else "right",
        yanchor="top" if below else "bottom",
        font={"color": colour, "size": 12},
        name=f"line {name}",
    )


def _axis_place(parameter: Parameter, at: float) -> float:
    """Where annotations have a value: log axes take its logarithm."""
    return math.log10(at) if parameter in LOG else float(at)


def _marks(figure: go.Figure, curve: Curve, at: np.ndarray, places: np.ndarray, lane: str) -> None:
    """The values that were looked at: colour and symbol by how the row stands, open where none is known."""
    import plotly.graph_objects as go

    words = [standing_word(one) for one in curve.risks]
    figure.add_trace(
        go.Scatter(
            x=at,
            y=places,
            yaxis=lane,
            mode="markers",
            name={"y": "population", "y2": "p_clean", "y3": "mean lost"}[lane],
            marker={
                "size": 8,
                "symbol": [MARKS.get(word, "square-open") for word in words],
                "color": [standing_colour(one) for one in curve.risks],
                "opacity": 1,
            },
            customdata=np.array(curve.at, dtype=float),
            hovertext=[_hover(curve.parameter, *pair) for pair in zip(curve.at, curve.risks, strict=True)],
            hovertemplate="%{hovertext}<extra></extra>",
            selected={"marker": {"opacity": 1}},
            unselected={"marker": {"opacity": 1}},
        )
    )


def _hover(parameter: Parameter, at: float, risk: Risk) -> str:
    text = f"<b>{LABELS[parameter]} {_number(at)}</b>"
    if risk.population is not None:
        text += f"<br>population {count(risk.population)}, capacity {count(risk.capacity)}"
    if risk.refused:
        return text + "".join(f"<br>refused: {plain(reason)}" for reason in risk.refused)
    if risk.finding:
        return "<br>".join([text, *map(plain, wrapped(f"fault: {risk.finding}"))])
    clean, mean, span = outlook_texts(risk)
    return f"{text}<br>{standing_word(risk)}<br>p clean {clean}<br>mean lost {mean}, least – most {span}"


def standing_colour(risk: Risk) -> str:
    """The colour of ``standing_word``: of its level, or of a fault as pictures of releases have it."""
    word = standing_word(risk)
    return palette.STANDING_TEXTS[word] if word == "fault" else palette.risk_colour(word)


def _number(at: float) -> str:
    return f"{int(at):,}" if float(at).is_integer() and abs(at) < 2**53 else number(at).replace("-", MINUS)


def _span(figure: go.Figure, curve: Curve, at: np.ndarray, scale: Scale) -> None:
    """From the least to the most that any arrival order loses, as a band behind the mean."""
    import plotly.graph_objects as go

    told = [one for one in range(len(at)) if curve.risks[one].most_missing is not None]
    if not told:
        return
    least = [scale.place(curve.risks[one].least_missing or 0) for one in told]
    most = [scale.place(curve.risks[one].most_missing or 0) for one in told]
    figure.add_trace(
        go.Scatter(
            x=np.concatenate([at[told], at[told][::-1]]),
            y=np.array([*least, *reversed(most)]),
            yaxis="y3",
            mode="lines",
            name="least to most",
            fill="toself",
            fillcolor=palette.BAND,
            line={"width": 0},
            hoverinfo="skip",
        )
    )


@dataclass(frozen=True)
class _Label:
    """What is marked by a line through all three pictures: value, text, the line's style; and where the text stands: in
    which line above the picture, and whether it ends at its line there."""

    at: float
    text: str
    style: dict[str, Any]
    line: int = 0
    ends: bool = False


def _labels(curve: Curve, now: float | None, altered: float | None) -> list[_Label]:
    found: list[_Label] = []
    if now is not None:
        style = {"color": palette.CAPACITY, "width": 1.5, "dash": "dash"}
        found.append(_Label(now, f"as it is: {_number(now)}", style))
    if altered is not None and altered != now:
        found.append(_Label(altered, f"altered: {_number(altered)}", {"color": palette.THRESHOLD, "width": 2}))
    if curve.enough is not None and curve.enough.rank_capacity is None:
        least = curve.enough.capacity
        style = {"color": palette.SAFE_TEXT, "width": 1.5, "dash": "dot"}
        found.append(_Label(least, f"safe from {count(least)}", style))
    return found


def _laid_out(labels: Sequence[_Label], curve: Curve) -> list[_Label]:
    """Each on the lowest line on which it meets no other one."""
    low, high = _ends(curve)
    taken: list[tuple[int, float, float]] = []
    found = []
    for label in sorted(labels, key=lambda one: one.at):
        place = _WIDE * (_axis_place(curve.parameter, label.at) - low) / ((high - low) or 1)
        wide = _LETTER * len(label.text) + 10
        for line, ends in ((line, ends) for line in range(len(labels)) for ends in (True, False)):
            left, right = (place - wide, place) if ends else (place, place + wide)
            inside = left >= -20 and right <= _WIDE + 40
            if (inside or line == len(labels) - 1) and all(
                one != line or right <= start or end <= left for one, start, end in taken
            ):
                break
        taken.append((line, left, right))
        found.append(replace(label, line=line, ends=ends))
    return found


def _ends(curve: Curve) -> tuple[float, float]:
    """Where the axis begins and ends, but for what it leaves free there."""
    return _axis_place(curve.parameter, curve.at[0]), _axis_place(curve.parameter, curve.at[-1])


def _stand(figure: go.Figure, labels: Sequence[_Label], curve: Curve) -> None:
    for one in labels:
        figure.add_shape(
            type="line", xref="x", x0=one.at, x1=one.at, yref="paper", y0=0, y1=1, line=one.style, layer="above"
        )
        figure.add_annotation(
            x=_axis_place(curve.parameter, one.at),
            xanchor="right" if one.ends else "left",
            yref="paper",
            y=1,
            yanchor="bottom",
            yshift=_LINE * (1 + one.line),
            text=f"<b>{one.text}</b>",
            showarrow=False,
            font={"color": one.style["color"], "size": 12.5},
            name=one.text.split(":")[0],
        )


def _axes(figure: go.Figure, curve: Curve, chances: Scale, means: Scale) -> None:
    """One axis of the parameter beneath three of what it decides."""
    log = curve.parameter in LOG
    ends = _ends(curve)
    pad = 0.02 * (ends[1] - ends[0]) or 0.5
    more: dict[str, Any] = {"type": "log"} if log else {}
    if curve.parameter == "key_bits" or (curve.parameter == "length" and ends[1] - ends[0] < _FEW):
        more |= {"dtick": 1, "tick0": ends[0], "tickformat": ",d"}  # there are none between whole numbers
    if log:
        more |= _ticks_of(curve.at) if len(curve.at) <= _FEW // 2 else _log_ticks(curve.parameter, *ends)
    figure.update_layout(xaxis=axis(TITLES[curve.parameter], anchor="y3", range=[ends[0] - pad, ends[1] + pad], **more))
    upper = axis("", type="log", domain=_DOMAINS[0], dtick=1, exponentformat="power", range=_counts_range(curve.risks))
    figure.update_layout(
        yaxis={**upper, "tickformat": "~s"},
        yaxis2=axis("", domain=_DOMAINS[1], anchor="x", **_ticked(chances)),
        yaxis3=axis("", domain=_DOMAINS[2], anchor="x", **_ticked(means)),
    )


def _counts_range(risks: Sequence[Risk]) -> list[float]:
    """Of the upper picture, with room for the names of its lines above and below them."""
    counts = [number for one in risks for number in (one.population, one.capacity, one.stored) if number]
    low, high = (math.log10(end) for end in (min(counts), max(counts))) if counts else (0.0, 1.0)
    if high - low < 1:  # in the middle, where names have room
        low, high = (low + high) / 2 - 0.5, (low + high) / 2 + 0.5
    span = high - low
    return [low - 0.22 * span, high + 0.26 * span]


def _titles(figure: go.Figure) -> None:
    """What each picture shows, above it: at its side there is no room for that."""
    for (_, top), text in zip(_DOMAINS, _SHOWN, strict=True):
        figure.add_annotation(
            xref="paper",
            x=0,
            xanchor="left",
            yref="paper",
            y=top,
            yanchor="bottom",
            text=text,
            showarrow=False,
            font={"size": 12, "color": palette.MUTED},
            bgcolor=palette.PAPER,
            borderpad=1,
            name=f"title {text}",
        )


def _ticked(scale: Scale) -> dict[str, Any]:
    places, texts = zip(*scale.ticks, strict=True)
    return {"range": [scale.low, scale.high], "tickvals": list(places), "ticktext": list(texts)}


def _ticks_of(values: Sequence[float]) -> dict[str, Any]:
    """Those of the values themselves, where a path takes few, as of k."""
    return {"tickvals": list(values), "ticktext": [_number(one) for one in values]}


def _log_ticks(parameter: Parameter, low: float, high: float) -> dict[str, Any]:
    """Powers of two of a scale; else 1, 2 and 5 where few decades are shown."""
    if parameter == "scale":
        powers = range(math.floor(low / math.log10(2)), math.ceil(high / math.log10(2)) + 1)
        every = max(1, len(powers) // 9)
        shown = [power for power in powers if power % every == 0]
        texts = [f"{2**power:,}" if power >= 0 else f"1/{2**-power:,}" for power in shown]
        return {"tickvals": [2.0**power for power in shown], "ticktext": texts}
    steps = (1, 2, 5) if high - low < 3 else (1,)
    shown = [step * 10**decade for decade in range(math.floor(low), math.ceil(high) + 1) for step in steps]
    return {"tickvals": shown, "ticktext": [count(one) for one in shown]}


def whatif_table(found: WhatIf) -> pd.DataFrame:
    """The row and its risk as it is and as altered, as texts, one line a figure that either has."""
    import pandas as pd

    before, after = found.before, found.after
    lines = [
        ("k", count(found.setting.k), count(found.k)),
        ("length", count(found.setting.row.length), count(found.row.length)),
        ("beyond fp16", *(count(number) for number in found.scores.overflowing)),
    ]
    lines += [
        (name.replace("_", " "), *(count(getattr(risk, name)) for risk in (before, after)))
        for name in ("threshold_bin", "above", "need", "population", "capacity", "stored")
    ]
    lines.append(("risk", *map(standing_word, (before, after))))
    texts = zip(("p clean", "mean lost", "least – most"), outlook_texts(before), outlook_texts(after), strict=True)
    lines += list(texts)
    none = count(None)
    shown = [line for line in lines if line[1:] != (none, none)]
    return pd.DataFrame(shown, columns=["of the row", "as it is", "altered"])


def score_text(number: float) -> str:
    """A scale, a shift or a score as people read it."""
    return value(number, 9)
