"""The picture of a matrix row × release."""

from __future__ import annotations

import pytest

import workbench as wb
from tests.fakes import Releases, clean, faults, loses, refuses
from tests.figures.standing import Laid, text_boxes
from tests.runs.test_matrix import small
from workbench.figures import palette
from workbench.figures.releases import MOST_RELEASES, MOST_ROWS, cell_at, is_numbered, places_shown, releases_figure

DOES = {"0.1": loses(3), "0.2": faults("<b>a hang</b>"), "0.3": refuses("no"), "0.4": clean}


def made(rows: int = 3) -> wb.Matrix:
    fake = Releases(DOES)
    return wb.matrix([small(at, index=at) for at in range(rows)], fake.names, engine=fake, repeats=2)


def test_every_cell_is_a_mark_of_its_state_that_leads_back_to_it() -> None:
    matrix = made()
    figure = releases_figure(matrix, (1, 0))
    marks = {trace.name: trace for trace in figure.data if trace.type == "scatter" and trace.name}
    assert set(marks) == {"loses", "fault", "refused", "clean", "shown below"}
    for state in ("loses", "fault", "refused", "clean"):
        places = [cell_at(matrix, float(x), float(y)) for x, y in zip(marks[state].x, marks[state].y, strict=True)]
        assert len(places) == 3
        for place in places:
            assert place is not None
            assert matrix.cells[place[0]][place[1]].state == state
    outline = marks["shown below"]
    assert cell_at(matrix, outline.x[0], outline.y[0]) == (1, 0)
    assert cell_at(matrix, 4, 0) is None
    assert cell_at(matrix, 0, 1) is None


def test_symbols_tell_states_apart_without_colour() -> None:
    symbols = [mark.symbol for mark in palette.STANDINGS.values()]
    assert len(set(symbols)) == len(symbols)
    figure = releases_figure(made())
    drawn = {trace.name: trace.marker.symbol for trace in figure.data if trace.type == "scatter" and trace.name}
    assert drawn["loses"] == palette.STANDINGS["loses"][1]
    assert figure.layout.showlegend


def test_an_outline_passes_between_a_mark_and_its_number() -> None:
    figure = releases_figure(made(), (1, 0))
    laid, (outline,) = Laid(figure), [trace for trace in figure.data if trace.name == "shown below"]
    bottom = laid.axes["y"].at(outline.y[0]) + outline.marker.size / 2
    at = [box for text, box in text_boxes(figure) if text and box[0] < laid.axes["x"].at(0.0) < box[1]]
    assert len(at) == 3
    assert min(box[2] - bottom for box in at if box[2] > laid.axes["y"].at(outline.y[0])) > 0
    assert all(box[3] <= laid.axes["y"].at(-lane - 0.5) for lane, box in enumerate(sorted(at, key=lambda one: one[2])))


def test_numbers_are_values_missing_and_text_of_faults_is_no_markup() -> None:
    figure = releases_figure(made())
    texts = [trace.text for trace in figure.data if trace.type == "scatter" and trace.mode == "text"]
    assert texts == [("3", "3", "3")]
    (fault,) = [trace for trace in figure.data if trace.name == "fault"]
    assert "&lt;b>a hang&lt;/b>" in fault.hovertext[0]
    assert fault.hovertext[0].startswith("row 0 in vllm==0.2: fault")


@pytest.mark.parametrize(("rows", "releases"), [(200, 13), (1, 1), (5, 90)])
def test_any_size_is_bounded(rows: int, releases: int) -> None:
    row, cells = made(1).rows[0], made(1).cells[0]
    names = tuple(f"vllm==0.{at}" for at in range(releases))
    matrix = wb.Matrix(
        (row,) * rows, names, tuple(tuple(cells[at % 4] for at in range(releases)) for _ in range(rows)), 2
    )
    shown = places_shown(matrix)
    assert len(shown[0]) == min(rows, MOST_ROWS)
    assert len(shown[1]) == min(releases, MOST_RELEASES)
    figure = releases_figure(matrix)
    assert figure.layout.height < 800
    assert is_numbered(matrix) == (rows < 14 and releases < 20)
    assert list(figure.layout.xaxis.ticktext) == [name.partition("==")[2] for name in names[-MOST_RELEASES:]]
