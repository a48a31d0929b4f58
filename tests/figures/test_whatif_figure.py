"""The picture of a what-if: where numbers without a logarithm stand, what is marked, what the table holds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import workbench as wb
from workbench.analysis.curves import Curve
from workbench.analysis.risk import Risk
from workbench.figures import palette
from workbench.figures.scales import DEEPEST
from workbench.figures.whatif import BLOCKS, whatif_figure, whatif_table


def row(population: int = 5000, length: int = 20000, above: int = 100) -> wb.Row:
    """Distinct neighbours of 1.0 over a low floor, some scores above them."""
    near = (torch.arange(1, population + 1, dtype=torch.int32) + 0x3F800000).view(torch.float32)
    scores = torch.cat([near, torch.full((above,), 9.0), torch.full((length - population - above,), -3.0)])
    return wb.Row(scores, length, call=wb.Call(k=512))


def traces(figure: Any, name: str) -> Any:
    return next(one for one in figure.data if one.name == name and one.mode == "markers")


def ticks(axis: Any) -> dict[str, float]:
    return dict(zip(axis.ticktext, axis.tickvals, strict=True))


@pytest.fixture(scope="module")
def found() -> wb.WhatIf:
    return wb.what_if(row(), "vllm.histogram_256", capacity=6144)


def test_each_mark_is_a_risk_of_the_curve(found: wb.WhatIf) -> None:
    curve = found.curve("capacity")
    figure = whatif_figure(curve, 4096, 6144)
    marks = traces(figure, "population")
    assert list(marks.x) == list(curve.at)
    assert set(marks.y) == {5000}
    assert set(zip(marks.marker.symbol, marks.marker.color, strict=True)) == {
        ("x", palette.CERTAIN_TEXT),
        ("diamond", palette.AT_RISK_TEXT),
        ("circle", palette.SAFE_TEXT),
    }
    means = traces(figure, "mean lost")
    for at, place, risk in zip(curve.at, means.y, curve.risks, strict=True):
        if risk.expected_missing:
            assert place == pytest.approx(
                math.log10(412 * (1 - at / 5000)) if at >= 412 else math.log10(risk.expected_missing)
            )


def test_chances_are_drawn_on_both_logs_and_0_and_1_apart(found: wb.WhatIf) -> None:
    curve = found.curve("capacity")
    figure = whatif_figure(curve, 4096, 6144)
    chances, named = traces(figure, "p_clean"), ticks(figure.layout.yaxis2)
    tiny = next(place for text, place in named.items() if text.startswith("≤"))
    assert tiny == -DEEPEST
    assert named["0"] < tiny < named["0.5"] == 0 < named["1"]
    seen = set()
    for place, risk in zip(chances.y, curve.risks, strict=True):
        assert risk.p_clean is not None
        if risk.level == "certain":
            expected = named["0"]
        elif risk.level == "safe":
            expected = named["1"]
        elif risk.p_clean < 1e-12:
            expected = tiny
        else:
            expected = math.log10(risk.p_clean / (1 - risk.p_clean))
        assert place == pytest.approx(expected)
        seen.add(risk.level)
    assert seen == {"safe", "at risk", "certain"}
    low, high = figure.layout.yaxis2.range
    assert low < min(chances.y) <= max(chances.y) < high


def test_a_chance_too_small_for_a_float_is_not_drawn_as_none() -> None:
    risks = (
        Risk(
            "vllm.filtered",
            "stock",
            level="at risk",
            p_clean=0.0,
            expected_missing=3.0,
            least_missing=0,
            most_missing=9,
        ),
        Risk(
            "vllm.filtered",
            "stock",
            level="certain",
            p_clean=0.0,
            expected_missing=3.0,
            least_missing=1,
            most_missing=9,
        ),
    )
    figure = whatif_figure(Curve("k", (1, 2), risks), 1, None)
    named = ticks(figure.layout.yaxis2)
    assert list(traces(figure, "p_clean").y) == [-DEEPEST, named["0"]]


def test_what_is_and_what_is_altered_are_marked_by_text_and_line(found: wb.WhatIf) -> None:
    figure = whatif_figure(found.curve("capacity"), 4096, 6144)
    lines = {shape.x0: shape.line.dash for shape in figure.layout.shapes}
    assert lines == {4096: "dash", 6144: None, 5000: "dot"}
    placed = {one.name: one.x for one in figure.layout.annotations}
    assert placed["altered"] == pytest.approx(math.log10(6144))
    assert {"line population", "line capacity"} <= placed.keys()
    assert not {"altered"} & {one.name for one in whatif_figure(found.curve("capacity"), 4096, 4096).layout.annotations}


def test_sentence_picture_and_controls_have_room_on_one_screen(found: wb.WhatIf) -> None:
    figure = whatif_figure(found.curve("capacity"), 4096, 6144)
    assert figure.layout.height <= 420
    placed = {one.name: (one.yshift, one.x, one.xanchor) for one in figure.layout.annotations}
    heights = [placed[name][0] for name in ("as it is", "altered", "safe from 5,000")]
    assert len(set(heights)) < 3  # not a line for each
    far = whatif_figure(found.curve("capacity"), 512, None)
    assert {one.yshift for one in far.layout.annotations if one.name in ("as it is", "safe from 5,000")} == {17}


def test_blocks_that_overflow_first_have_a_line_of_their_own() -> None:
    clusters = wb.what_if(row(), "vllm.cooperative_8", capacity=6144)
    figure = whatif_figure(clusters.curve("capacity"), 1024, 6144)
    line = next(one for one in figure.data if one.name == BLOCKS)
    assert max(line.y) == 2048
    single = whatif_figure(wb.what_if(row(), "vllm.histogram_256").curve("capacity"), 4096, None)
    assert BLOCKS not in {one.name for one in single.data}


@pytest.mark.parametrize("parameter", ["capacity", "key_bits", "k", "length", "scale", "shift"])
def test_every_curve_has_its_axis_and_stays_small(found: wb.WhatIf, parameter: str) -> None:
    curve = found.curve(parameter)
    figure = whatif_figure(curve, curve.at[0], None)
    low, high = figure.layout.xaxis.range
    assert (figure.layout.xaxis.type == "log") == (parameter in ("capacity", "k", "scale"))
    places = np.log10(curve.at) if figure.layout.xaxis.type == "log" else np.array(curve.at)
    assert low < places.min() <= places.max() < high
    assert len(figure.to_json()) < 200_000
    assert figure.layout.xaxis.title.text


def test_paths_without_a_buffer_and_rows_that_are_refused_are_still_drawn() -> None:
    exact = wb.what_if(row(5000, 40000), "vllm.radix")
    figure = whatif_figure(exact.curve("scale"), 1.0, None)
    (told,) = [one for one in figure.layout.annotations if one.text == "this path has no buffer that fills"]
    assert told.yref == "paper"  # where the lines would be: plotly knows no axis that has none
    assert figure.layout.yaxis.domain[0] < told.y < figure.layout.yaxis.domain[1]
    short = wb.what_if(row(5000, 8000), "vllm.histogram_256")
    figure = whatif_figure(short.curve("capacity"), 4096, None)
    marks = traces(figure, "population")
    assert set(marks.marker.symbol) == {"square-open"}
    assert "refused: length 8000 is not above 8192" in marks.hovertext[0]


def test_the_table_holds_the_row_before_and_after() -> None:
    found = wb.what_if(row(), "vllm.histogram_256", capacity=4999, length=8200)
    frame = whatif_table(found).set_index("of the row")
    assert frame.loc["length"].tolist() == ["20,000", "8,200"]
    assert frame.loc["capacity"].tolist() == ["4,096", "4,999"]
    assert frame.loc["population"].tolist() == ["5,000", "5,000"]
    assert frame.loc["risk"].tolist() == ["at risk", "at risk"]
    assert frame.loc["p clean"].tolist()[1] == f"{1 - 412 / 5000:.4f}"
    refused = whatif_table(wb.what_if(row(), "vllm.histogram_256", k=7)).set_index("of the row")
    assert refused.loc["risk"].tolist() == ["at risk", "refused"]


def test_ticks_are_chances_and_counts_as_tables_have_them(found: wb.WhatIf) -> None:
    """A chance is a probability, no per cent, and stands where it is drawn; powers of ten are spelled in one way."""
    wide = (0.003, 0.2, 0.5, 0.9992)
    risks = tuple(
        Risk("vllm.filtered", "stock", level="at risk", p_clean=chance, expected_missing=mean, most_missing=90_000)
        for chance, mean in zip(wide, (90_000.0, 0.5, 0.02, 0.004), strict=True)
    )
    figure = whatif_figure(Curve("k", (1, 2, 3, 4), risks), 1, None)
    for text, place in ticks(figure.layout.yaxis2).items():
        if text not in ("0", "1"):
            assert 10**place / (1 + 10**place) == pytest.approx(float(text), abs=1e-9)
    for text, place in ticks(figure.layout.yaxis3).items():
        assert text == "0" or 10**place == pytest.approx(float(text.replace(",", "")))
    for curve in (found.curve("capacity"), found.curve("key_bits"), Curve("k", (1, 2, 3, 4), risks)):
        drawn = whatif_figure(curve, 1, None)
        texts = [*drawn.layout.yaxis2.ticktext, *drawn.layout.yaxis3.ticktext]
        assert not [one for one in texts if "%" in one or "e4" in one or "e-" in one]


def test_lines_that_lie_close_stand_in_the_middle_of_their_picture() -> None:
    full = wb.what_if(row(4097), "vllm.histogram_256")
    low, high = whatif_figure(full.curve("key_bits"), 8, None).layout.yaxis.range
    assert low + 0.3 * (high - low) < math.log10(4097) < low + 0.7 * (high - low)


def test_a_length_has_no_fractions() -> None:
    refused = wb.what_if(row(4000, 4197), "vllm.filtered", capacity=10)
    drawn = whatif_figure(refused.curve("length"), 4197, None).layout.xaxis
    short = wb.what_if(wb.Row(torch.arange(4197.0), 4197, call=wb.Call(k=512)), "vllm.cooperative_8")
    assert short.curve("length").at == (4197,)
    axis = whatif_figure(short.curve("length"), 4197, None).layout.xaxis
    assert (axis.dtick, axis.tick0, axis.tickformat) == (1, 4197, ",d")
    assert drawn.dtick is None


def test_a_k_that_a_path_takes_has_its_tick(found: wb.WhatIf) -> None:
    assert ticks(whatif_figure(found.curve("k"), 512, None).layout.xaxis) == {"512": 512, "1,024": 1024, "2,048": 2048}
