"""The picture of one row on many paths: what its marks stand for, and which cell a click means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.runs.test_compare import bad
from workbench.figures import palette
from workbench.figures.compare import compared_figure, least_width, number_text, place_at, shown_texts
from workbench.runs.case import Case
from workbench.runs.compare import Compared, by_releases, by_variants, run_cell
from workbench.runs.matrix import Cell


@pytest.fixture(scope="module")
def case() -> Case:
    return Case(bad())


@pytest.fixture(scope="module")
def found(case: Case) -> Compared:
    return by_variants(case, {})


def marks(found: Compared) -> dict[str, set[tuple[str, str]]]:
    """The cells that the marks of each state stand at."""
    figure = compared_figure(found)
    shown: dict[str, set[tuple[str, str]]] = {}
    for trace in figure.data:
        if trace.type == "scatter" and trace.name in palette.STANDINGS:
            places = [place_at(found, float(x), float(y)) for x, y in zip(trace.x, trace.y, strict=True)]
            assert None not in places
            shown[trace.name] = set(places)  # type: ignore[arg-type]
            assert trace.marker.symbol == palette.STANDINGS[trace.name][1]
    return shown


@pytest.mark.parametrize("axis", ["variants", "releases"])
def test_every_cell_has_a_mark_of_its_state(case: Case, axis: str) -> None:
    found = by_variants(case, {}) if axis == "variants" else by_releases(case, {})
    wanted: dict[str, set[tuple[str, str]]] = {}
    for place, cell in found.cells.items():
        wanted.setdefault(cell.state, set()).add(place)
    assert marks(found) == wanted
    assert len({mark.symbol for mark in palette.STANDINGS.values()}) == len(palette.STANDINGS)


def test_axes_name_paths_and_columns(found: Compared) -> None:
    figure = compared_figure(found)
    assert list(figure.layout.xaxis.ticktext) == list(found.columns)
    assert figure.layout.yaxis.ticktext[0] == "<b>▸ vllm.histogram_4096</b>"
    assert [note.text for note in figure.layout.annotations if note.name == "columns"] == ["variant →"]
    assert figure.layout.xaxis.side == "top"  # on the first screen, however many paths there are
    assert figure.layout.height < 900


def test_the_chosen_cell_is_outlined(found: Compared) -> None:
    place = ("vllm.histogram_4096", "recovery")
    (mark,) = [trace for trace in compared_figure(found, place).data if trace.name == "shown below"]
    assert place_at(found, mark.x[0], mark.y[0]) == place
    assert not [trace for trace in compared_figure(found, ("no", "such")).data if trace.name == "shown below"]


def test_clicks_beside_the_cells_mean_nothing(found: Compared) -> None:
    for x, y in ((-1, 0), (0, 1), (1000, 0), (0, -1000)):
        assert place_at(found, x, y) is None
    line = found.lines.index("torch.topk")
    assert place_at(found, 0, -line) == ("torch.topk", "stock")
    assert place_at(found, found.columns.index("recovery"), -line) is None


def test_numbers_tell_calls_from_what_is_expected(case: Case, found: Compared) -> None:
    cell = found.cells["vllm.histogram_4096", "stock"]
    assert number_text(cell) == f"≈{cell.expected_missing:,.0f}"
    made = run_cell(case, cell, 2)
    assert number_text(made) == f"{made.missing_mean:,.0f}"
    assert number_text(found.cells["torch.topk", "stock"]) == ""
    few = replace(found, lines=("vllm.histogram_4096",), columns=("stock",))
    notes = compared_figure(replace(few, cells={("vllm.histogram_4096", "stock"): made})).layout.annotations
    assert [note.text for note in notes if note.name != "columns"] == [number_text(made)]


def test_reasons_are_text(found: Compared) -> None:
    cell = Cell("", "model", None, "vllm.filtered", "stock", refused="<b>no</b>")
    few = replace(found, lines=("vllm.filtered",), columns=("stock",), cells={("vllm.filtered", "stock"): cell})
    hover = [
        text
        for trace in compared_figure(few).data
        if trace.type == "scatter" and trace.hovertext is not None
        for text in trace.hovertext
    ]
    assert len(hover) == 1
    assert "&lt;b>no&lt;/b>" in hover[0]


def test_little_goes_to_the_browser(found: Compared, case: Case) -> None:
    assert len(compared_figure(found).to_json()) < 60_000
    assert len(compared_figure(by_releases(case, {})).to_json()) < 90_000


def test_no_chance_is_nothing_where_every_order_loses_and_tiny_where_some_do_not(found: Compared) -> None:
    cell = next(iter(found.cells.values()))
    assert shown_texts(replace(cell, risk="certain", p_clean=0.0))[1] == "0"
    assert shown_texts(replace(cell, risk="at risk", p_clean=0.0))[1] == "<1e−300"


@pytest.mark.parametrize("axis", ["variants", "releases"])
def test_the_picture_has_a_width_below_which_names_would_meet(case: Case, axis: str) -> None:
    found = by_variants(case, {}) if axis == "variants" else by_releases(case, {})
    margin = compared_figure(found).layout.margin
    assert 14 * len(found.columns) <= least_width(found) - margin.l - margin.r
    assert least_width(found) <= 795  # of a window of 1280 pixels, beside the sidebar
    one = found.only(system="flashinfer")
    assert least_width(one) < least_width(found)
