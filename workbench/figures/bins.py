"""The histogram of coarse bins around the threshold, with the capacity of the buffer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from workbench.analysis.bins import bin_label
from workbench.analysis.profile import RowProfile
from workbench.analysis.risk import Risk
from workbench.figures import palette
from workbench.figures.frame import axis, new_figure
from workbench.figures.words import count, fill_text, value
from workbench.numeric.histogram import GREATEST_NUMBER, LEAST_NUMBER

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

MAX_RADIUS = 254  # with the threshold bin and three special bins, 512 bars
_WIDTH, _CHARACTER = 640, 6.4  # pixels that the axis has, and that a digit of its labels takes
_HEIGHT, _LINE = 270, 19  # pixels of the population axis, and of a line of text
_APART = 0.07  # distance between the window and a special bin shown apart, in widths of the window


@dataclass(frozen=True, eq=False)
class BinWindow:
    """The bins that a picture shows.

    Attributes:
        bits: of the coarse key. threshold: the threshold bin.
        bins: int64 [n], bin numbers; populated infinities and NaN outside the window stand apart at the edges.
        places: float64 [n], where each stands on the axis: its number, or apart. populations: int64 [n].
        labels: each bin's range in words.
        special: bool [n], whether the bin holds an infinity or NaN.
        lower, higher: scores in bins that are not shown, infinities and NaN left out since those are always shown.
    """

    bits: int
    threshold: int
    bins: np.ndarray
    places: np.ndarray
    populations: np.ndarray
    labels: tuple[str, ...]
    special: np.ndarray
    lower: int
    higher: int

    def table(self) -> pd.DataFrame:
        """The bins with their ranges and populations, one a line."""
        import pandas as pd

        return pd.DataFrame({"bin": self.bins, "range": self.labels, "population": self.populations})

    def bin_at(self, place: float) -> int | None:
        """The bin that stands at a place of the axis."""
        at = np.flatnonzero(np.isclose(self.places, place))
        return int(self.bins[at[0]]) if at.size else None


def range_label(bin_: int, bits: int) -> str:
    """A bin's range of fp16 values in words, infinities and NaN by name; keys that no score has are no number."""
    return bin_label(bin_, bits, value)


def bin_window(profile: RowProfile, bits: int, radius: int) -> BinWindow:
    """The bins around a row's threshold bin under a coarse key.

    Args:
        profile: of a row that is countable. bits: of the coarse key. radius: bins to either side, at most 254.
    """
    populations = profile.half.bins(bits).cpu().numpy()
    threshold = profile.threshold(bits).bin
    lowest, highest, nan = LEAST_NUMBER >> (16 - bits), GREATEST_NUMBER >> (16 - bits), (1 << bits) - 1
    radius = max(1, min(radius, MAX_RADIUS))
    centre = min(max(threshold, lowest), highest)
    first, last = max(lowest, centre - radius), min(highest, centre + radius)
    apart = max(3, math.ceil(_APART * (last - first + 1)))
    bins, places = list(range(first, last + 1)), [float(at) for at in range(first, last + 1)]
    if first > lowest and populations[lowest]:
        bins.insert(0, lowest)
        places.insert(0, float(first - apart))
    if last < highest and populations[highest]:
        bins.append(highest)
        places.append(float(last + apart))
    if populations[nan]:
        bins.append(nan)
        places.append(max(places[-1], last) + apart)
    numbers = np.array(bins, dtype=np.int64)
    return BinWindow(
        bits=bits,
        threshold=threshold,
        bins=numbers,
        places=np.array(places),
        populations=populations[numbers],
        labels=tuple(range_label(at, bits) for at in bins),
        special=np.isin(numbers, [lowest, highest, nan]),
        lower=int(populations[lowest + 1 : first].sum()),
        higher=int(populations[last + 1 : highest].sum()),
    )


def bins_figure(window: BinWindow, risk: Risk, chosen: int | None = None) -> go.Figure:
    """Populations of coarse bins on a log scale, the threshold bin against the capacity of the buffer.

    Args:
        window: the bins. risk: of the row on the path (its capacity, and whether the bin goes through the buffer).
        chosen: a bin to outline.

    Returns:
        A figure whose bars stand at ``window.places``; ``window.bin_at`` turns a clicked place into a bin.
    """
    import plotly.graph_objects as go

    figure = new_figure(380, top=30, bottom=80)
    overflow = risk.room if risk.breach and risk.buffered else None
    at_threshold = window.bins == window.threshold
    shown = np.where(at_threshold & (overflow is not None), overflow or 0, window.populations).astype(float)
    hover = np.array(
        [
            f"bin {b}: {label}<br>{count(int(n))} scores"
            for b, label, n in zip(window.bins, window.labels, window.populations, strict=True)
        ]
    )
    colours = np.where(at_threshold, palette.THRESHOLD, palette.BIN)
    outline = np.where(window.bins == (-1 if chosen is None else chosen), 2.5, 0.0)
    bars = {"hovertext": hover, "hovertemplate": "%{hovertext}<extra></extra>", "customdata": window.bins}
    figure.add_trace(
        go.Bar(
            x=window.places,
            y=np.where(shown > 0, shown, np.nan),
            width=0.86,
            marker={"color": colours, "line": {"color": palette.CHOSEN, "width": outline}},
            name="bins",
            **bars,
        )
    )
    if overflow is not None:
        excess = np.where(at_threshold, window.populations - overflow, np.nan)
        figure.add_trace(
            go.Bar(
                x=window.places,
                y=excess,
                base=np.where(at_threshold, float(overflow), np.nan),
                width=0.86,
                marker={
                    "color": palette.REFUSED if risk.refused else palette.OVERFLOW,
                    "line": {"color": palette.CHOSEN, "width": outline},
                },
                name="past the capacity",
                **bars,
            )
        )
    note, colour = _threshold_text(window, risk)
    low, high, lift = _heights(window, risk, note)
    _axes(figure, window, low, high)
    if risk.room is not None:
        _capacity_line(figure, risk, at_left=_side(window) == 1)
    _threshold_note(figure, window, note, colour, lift)
    _rest_notes(figure, window)
    figure.update_layout(barmode="overlay", bargap=0)
    return figure


def _heights(window: BinWindow, risk: Risk, note: str) -> tuple[float, float, float]:
    """Ends of the population axis and where the threshold's note begins, as powers of ten: above the bars beside it,
    and above the capacity's line and label if it would lie across them."""
    top = float(max(window.populations.max(initial=1), risk.room or 1))
    # half a score at the bottom, so that a bin of one score has a height
    low, high = math.log10(0.5), math.log10(top) + 0.55
    share = (note.count("<br>") + 1) * _LINE / _HEIGHT  # of the axis, that the note takes
    span = window.places.max() - window.places.min()
    beside = np.abs(window.places - _place(window)) < 0.25 * span
    lift = math.log10(max(window.populations[beside].max(initial=1), 1)) + 0.12
    line = _LINE / _HEIGHT * (high - low)
    if risk.room and lift - line < math.log10(risk.room) < lift + share * (high - low):
        lift = math.log10(risk.room) + line
    return low, max(high, (lift - low * share) / (1 - share)), lift


def _place(window: BinWindow) -> float:
    return float(window.places[window.bins == window.threshold][0])


def _axes(figure: go.Figure, window: BinWindow, low: float, high: float) -> None:
    places, texts = _ticks(window)
    figure.update_xaxes(
        **axis(
            "range of fp16 values that a bin holds",
            tickvals=places,
            ticktext=texts,
            tickangle=0,
            showgrid=False,
            ticks="outside",
            ticklen=4,
            range=[window.places.min() - 0.8, window.places.max() + 0.8],
        )
    )
    figure.update_yaxes(
        **axis(
            "scores per bin (log)",
            type="log",
            range=[low, high],
            tickvals=[10**at for at in range(math.floor(high) + 1)],
            tickformat=",d",
        )
    )


def _ticks(window: BinWindow) -> tuple[list[float], list[str]]:
    """Places and two-line labels, as many as are readable: special bins with scores, the threshold, every n-th bin."""
    lines = [label.replace(" … ", "<br>… ").replace(" (", "<br>(") for label in window.labels]
    longest = max(len(line) for label in lines for line in label.split("<br>"))
    span = window.places.max() - window.places.min() + 1.6
    step = max(1, math.ceil(span * (longest * _CHARACTER + 10) / _WIDTH))
    at_threshold = window.bins == window.threshold
    always = (window.special & (window.populations > 0)) | at_threshold
    regular = (window.bins - window.threshold) % step == 0
    near = (np.abs(window.places[:, None] - window.places[always][None, :]) < step).any(axis=1)
    ticked = np.flatnonzero(always | (regular & ~near & (window.places == window.bins)))
    texts = [f"<b>{lines[at]}</b>" if at_threshold[at] else lines[at] for at in ticked]
    return window.places[ticked].tolist(), texts


def _capacity_line(figure: go.Figure, risk: Risk, *, at_left: bool) -> None:
    capacity = risk.room or 1
    text = f"capacity {count(risk.capacity)}"
    if risk.room != risk.capacity:  # a rank of a cluster overflows before the whole buffer is full
        text = f"the blocks take {count(risk.room)}, {text}"
    figure.add_hline(y=capacity, line={"color": palette.CAPACITY, "width": 1.5, "dash": "dash"})
    figure.add_annotation(
        xref="paper",
        x=0.005 if at_left else 1,
        xanchor="left" if at_left else "right",
        y=math.log10(capacity),
        yanchor="bottom",
        text=text,
        showarrow=False,
        font={"color": palette.CAPACITY, "size": 13},
        bgcolor=palette.PAPER,
        name="capacity",
    )


def _threshold_text(window: BinWindow, risk: Risk) -> tuple[str, str]:
    """What is said of the threshold bin, and in which colour; on a refused path nothing of it happens."""
    population = int(window.populations[window.bins == window.threshold][0])
    text = f"threshold bin {window.threshold}: {count(population)} scores"
    if not (risk.room and risk.breach):
        return text, palette.MUTED if risk.refused else palette.THRESHOLD
    over, room = fill_text(population, risk.room), "the capacity"
    if risk.room != risk.capacity:
        room = f"what the blocks take ({count(risk.room)})"
    over += f" {room}" if over.endswith("×") else f" for {room}"
    if risk.refused:
        return f"{text}<br>would be {over}; the path refuses the row", palette.MUTED
    if not risk.buffered:
        return f"{text}<br>{over}, but taken whole past the buffer", palette.THRESHOLD
    saved = ", yet no value is lost" if risk.level == "safe" else ""
    return f"{text}<br><b>breach: {over}</b>{saved}", palette.CERTAIN_TEXT


def _threshold_note(figure: go.Figure, window: BinWindow, text: str, colour: str, lift: float) -> None:
    """The note above the neighbouring bars, with a line down to its own."""
    place = _place(window)
    population = int(window.populations[window.bins == window.threshold][0])
    figure.add_annotation(
        x=place,
        y=math.log10(max(population, 0.6)),
        axref="x",
        ayref="y",
        ax=place,
        ay=lift,
        yanchor="bottom",
        xanchor={-1: "left", 0: "center", 1: "right"}[_side(window)],
        text=text,
        showarrow=True,
        arrowhead=0,
        arrowwidth=1,
        arrowcolor=colour,
        font={"color": colour, "size": 13},
        bgcolor=palette.PAPER,
        name="threshold",
    )


def _side(window: BinWindow) -> int:
    """Where the threshold bin stands: -1 in the left quarter, 1 in the right one, else 0."""
    low, high = window.places.min(), window.places.max()
    share = (_place(window) - low) / (high - low)
    return -1 if share < 0.25 else 1 if share > 0.75 else 0


def _rest_notes(figure: go.Figure, window: BinWindow) -> None:
    """What lies outside the window, above the plot at the side where it lies."""
    notes = (
        (window.lower, 0, "left", f"← {count(window.lower)} scores in lower bins"),
        (window.higher, 1, "right", f"{count(window.higher)} scores in higher bins →"),
    )
    for number, x, anchor, text in notes:
        if number:
            figure.add_annotation(
                xref="paper",
                yref="paper",
                x=x,
                y=1,
                xanchor=anchor,
                yanchor="bottom",
                yshift=8,
                text=text,
                showarrow=False,
                font={"color": palette.MUTED, "size": 12},
            )
