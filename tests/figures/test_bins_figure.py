"""The histogram of bins: what it holds, marks and labels, and how much of it is sent."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from workbench.analysis.profile import RowProfile
from workbench.analysis.risk import Risk, risk
from workbench.figures import palette
from workbench.figures.bins import MAX_RADIUS, bin_window, bins_figure, range_label
from workbench.paths.catalog import get_path

K = 2048


def profile(scores: torch.Tensor, k: int = K) -> RowProfile:
    return RowProfile(scores, "float32", k)


def uniform(count: int) -> torch.Tensor:
    return torch.rand(count, generator=torch.Generator().manual_seed(0)) * 0.245 + 1.0


def normal(count: int) -> torch.Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(0))


def drawn(row: RowProfile, path: str = "vllm.histogram_256", radius: int = 24) -> tuple[go.Figure, Risk]:
    spec = get_path(path)
    assert spec.key_bits is not None
    found = risk(row, spec)
    return bins_figure(bin_window(row, spec.key_bits, radius), found), found


def note(figure: go.Figure, name: str) -> str:
    return str(next(one.text for one in figure.layout.annotations if one.name == name))


def test_breach_is_drawn_from_the_capacity_up_and_named() -> None:
    figure, found = drawn(profile(uniform(16385)))
    bars, past = figure.data
    assert (found.population, found.capacity) == (16385, 4096)
    at = int(np.flatnonzero(np.asarray(bars.customdata) == found.threshold_bin)[0])
    assert bars.y[at] == 4096
    assert past.base[at] == 4096
    assert past.base[at] + past.y[at] == 16385
    assert past.marker.color == palette.OVERFLOW
    assert "breach: 4.00× the capacity" in note(figure, "threshold")
    assert np.isnan(np.delete(past.y, at)).all()


def test_a_breach_by_one_says_that_it_is_one() -> None:
    figure, found = drawn(profile(uniform(4097)))
    assert (found.population, found.capacity) == (4097, 4096)
    assert "would be 1 too many for the capacity; the path refuses the row" in note(figure, "threshold")
    taken = replace(found, refused=(), level="at risk")
    figure = bins_figure(bin_window(profile(uniform(4097)), 8, 24), taken)
    assert "breach: 1 too many for the capacity" in note(figure, "threshold")
    figure = bins_figure(bin_window(profile(uniform(4097)), 8, 24), replace(taken, stored=4095))
    assert "breach: 2 too many for what the blocks take (4,095)" in note(figure, "threshold")


def test_capacity_line_stands_at_the_capacity() -> None:
    figure, _ = drawn(profile(uniform(16385)))
    (line,) = figure.layout.shapes
    assert line.y0 == line.y1 == 4096
    label = next(one for one in figure.layout.annotations if one.name == "capacity")
    assert label.text == "capacity 4,096"
    assert 10**label.y == pytest.approx(4096)
    low, high = figure.layout.yaxis.range
    assert low < math.log10(4096) < high


def test_no_breach_no_overflow() -> None:
    figure, found = drawn(profile(normal(9000)), radius=MAX_RADIUS)
    assert not found.breach
    (bars,) = figure.data
    assert "breach" not in note(figure, "threshold")
    assert sum(number for number in bars.y if not math.isnan(number)) == 9000


def test_threshold_bin_alone_has_its_colour() -> None:
    figure, found = drawn(profile(normal(9000)))
    (bars,) = figure.data
    colours = dict(zip(bars.customdata.tolist(), bars.marker.color, strict=True))
    assert [at for at, colour in colours.items() if colour == palette.THRESHOLD] == [found.threshold_bin]


def test_bin_taken_whole_past_the_buffer_is_no_overflow() -> None:
    row = profile(uniform(16385))
    found = replace(risk(row, get_path("vllm.histogram_256")), buffered=False)
    figure = bins_figure(bin_window(row, 8, 24), found)
    assert len(figure.data) == 1
    assert "taken whole past the buffer" in note(figure, "threshold")


def test_what_a_refused_path_would_do_is_grey() -> None:
    row = profile(uniform(16385))
    found = replace(risk(row, get_path("vllm.histogram_256")), refused=("k is 2048",), level=None)
    figure = bins_figure(bin_window(row, 8, 24), found)
    assert "would be 4.00× the capacity" in note(figure, "threshold")
    assert "breach" not in note(figure, "threshold")
    assert figure.data[1].marker.color == palette.REFUSED
    assert next(one.font.color for one in figure.layout.annotations if one.name == "threshold") == palette.MUTED


def test_what_the_blocks_of_a_cluster_take_has_one_name() -> None:
    row = profile(uniform(16385))
    found = replace(risk(row, get_path("vllm.histogram_256")), stored=1492)
    figure = bins_figure(bin_window(row, 8, 24), found)
    assert "breach: 11.0× what the blocks take (1,492)" in note(figure, "threshold").replace("10.98", "11.0")
    assert note(figure, "capacity") == "the blocks take 1,492, capacity 4,096"


@pytest.mark.parametrize("below", [10, 300, 1200, 2200, 4000])
def test_the_notes_keep_clear_of_the_capacity(below: int) -> None:
    """Of whatever height the threshold bin is, its note lies wholly under the capacity's line or over its label."""
    scores = torch.cat(
        [torch.linspace(1.0, 1.24, below), torch.linspace(4.0, 4.9, 2047), torch.linspace(0.1, 0.12, 99)]
    )
    row = profile(scores)
    figure, found = drawn(row)
    assert not found.breach
    one = next(one for one in figure.layout.annotations if one.name == "threshold")
    low, high = figure.layout.yaxis.range
    line = 18 / 270 * (high - low)
    capacity = math.log10(found.capacity or 0)
    assert one.ay + line <= capacity + 1e-9 or one.ay >= capacity + line
    assert one.ay + line <= high + 1e-9


def test_only_the_last_bin_is_nan() -> None:
    assert [range_label(at, 8) for at in (0, 2, 253, 254, 255)] == ["no number"] * 4 + ["NaN"]
    assert [range_label(at, 16) for at in (0, 0x03FE, 0xFFFE, 0xFFFF)] == ["no number"] * 3 + ["NaN"]


def test_infinities_and_nan_outside_the_window_stand_apart_with_labels() -> None:
    scores = uniform(9000)
    scores[:2], scores[2:5], scores[5:9] = math.inf, -math.inf, math.nan
    row = profile(scores)
    window = bin_window(row, 12, 8)
    counts = zip(window.labels, window.populations, strict=True)
    named = {label: int(count) for label, count in counts if "inf" in label or label == "NaN"}
    assert named == {"−inf (≤ −65520)": 3, "+inf (≥ 65520)": 2, "NaN": 4}
    figure, _ = drawn(row, "vllm.histogram_4096", 8)
    texts = list(figure.layout.xaxis.ticktext)
    assert {"−inf<br>(≤ −65520)", "+inf<br>(≥ 65520)", "NaN"} <= set(texts)
    assert len(set(window.places.tolist())) == len(window.places)
    assert (np.diff(window.places) > 0).all()
    assert window.lower + window.higher + int(window.populations.sum()) == 9000


def test_threshold_among_the_infinities_and_among_nan() -> None:
    above = profile(torch.arange(70000, 76000, dtype=torch.float32), 512)
    window = bin_window(above, 8, 24)
    assert window.labels[list(window.bins).index(window.threshold)] == "+inf (≥ 65520)"
    scores = uniform(5000)
    scores[:3000] = math.nan
    figure, found = drawn(profile(scores))
    assert found.threshold_bin == 255
    assert "<b>NaN</b>" in figure.layout.xaxis.ticktext


def test_all_scores_minus_infinity() -> None:
    figure, found = drawn(profile(torch.full((5000,), -math.inf)))
    assert found.population == 5000
    assert any("−inf" in text for text in figure.layout.xaxis.ticktext)


def test_clicked_place_names_its_bin() -> None:
    scores = uniform(9000)
    scores[0] = math.inf
    window = bin_window(profile(scores), 12, 8)
    for place, number in zip(window.places, window.bins, strict=True):
        assert window.bin_at(float(place)) == number
    assert window.bin_at(window.places.max() + 1) is None


@pytest.mark.parametrize("path", ["vllm.histogram_256", "vllm.histogram_2048", "vllm.histogram_4096"])
def test_widest_window_of_a_million_scores_is_small(path: str) -> None:
    figure, _ = drawn(profile(normal(1 << 20)), path, 10**6)
    assert len(figure.data[0].x) <= 512
    assert len(figure.to_json()) < 200_000


def test_chosen_bin_is_outlined() -> None:
    row = profile(normal(9000))
    found = risk(row, get_path("vllm.histogram_256"))
    bars = bins_figure(bin_window(row, 8, MAX_RADIUS), found, 180).data[0]
    assert [int(at) for at, width in zip(bars.customdata, bars.marker.line.width, strict=True) if width] == [180]


@pytest.mark.parametrize(
    ("bin_", "bits", "label"),
    [
        (188, 8, "1 … 1.249"),
        (127, 8, "−1.52e−5 … −0"),
        (252, 8, "+inf (≥ 65520)"),
        (3, 8, "−inf (≤ −65520)"),
        (255, 8, "NaN"),
    ],
)
def test_range_labels(bin_: int, bits: int, label: str) -> None:
    assert range_label(bin_, bits) == label
