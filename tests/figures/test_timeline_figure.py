"""The timeline of compared runs: every point is drawn, by a colour and a symbol, and a click finds it again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch

import workbench as wb
from tests.diverging import LAYERS, STEPS, capture, lossy, make_run, one_ulp, other_order, other_tie, unrecorded
from workbench.analysis.divergence.states import STATES
from workbench.analysis.divergence.tokens import TokenState, TokenStep
from workbench.figures import laid as module
from workbench.figures import palette
from workbench.figures.laid import GRAVITY
from workbench.figures.timeline import Timeline, timeline, timeline_figure, token_mark, token_text
from workbench.runs.divergence import Comparison, Place, Point
from workbench.words import UNKNOWN

AT = (2, 1)


def compared(
    a: list[wb.Row], b: list[wb.Row], tokens: tuple[list[wb.Token], list[wb.Token]] | None = None
) -> Comparison:
    one, other = tokens or ([], [])
    return wb.diverge(capture(a, "a", one), capture(b, "b", other)).comparisons[0]


def traces(figure: Any) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data if trace.type == "scatter"}


def marks(laid: Timeline) -> dict[str, list[tuple[float, float]]]:
    found = traces(timeline_figure(laid))
    return {
        name: list(zip(trace.x.tolist(), trace.y.tolist(), strict=True))
        for name, trace in found.items()
        if name in STATES
    }


def point(step: int | None, layer: int | None, state: Any = "same", **more: Any) -> Point:
    stored = Place("a", 0, more.pop("call", 0))
    return Point(more.pop("request", None), step, layer, more.pop("rank", None), None, 0, 0, state, a=stored, b=stored)


def made(points: list[Point], tokens: list[TokenStep] | None = None) -> Comparison:
    return Comparison("a", "b", tuple(points), tuple(tokens or ()), (), (None, None), ((None, None),) * len(points))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "state"),
    [(lossy, "values vary"), (other_tie, "ties vary"), (other_order, "order varies"), (one_ulp, "input differs")],
)
def test_a_fault_is_drawn_at_its_step_and_layer(change: Any, state: str) -> None:
    found = compared(make_run(), make_run(AT, change))
    laid = timeline(found)
    assert (laid.columns, laid.lanes) == (("0", "1", "2", "3"), ("0", "1", "2"))
    drawn = marks(laid)
    assert drawn[state] == [(2, -1)]
    assert len(drawn["same"]) == STEPS * LAYERS - 1
    number = laid.point_at(2, -1)
    assert number is not None
    assert found.points[number] is found.first
    assert number == laid.first


def test_every_state_has_a_symbol_of_its_own_and_a_colour() -> None:
    assert set(GRAVITY) == set(STATES) == set(palette.STATES) == set(palette.STATE_TEXTS)
    for kinds in (palette.STATES, palette.TOKENS):
        symbols = [mark.symbol for mark in kinds.values()]
        assert len(set(symbols)) == len(symbols)


def test_a_click_finds_every_point_again_where_each_has_a_place() -> None:
    laid = timeline(compared(make_run(), make_run(AT, lossy)))
    assert sorted(laid.point_at(cell.column, -cell.lane) for cell in laid.cells) == list(range(STEPS * LAYERS))  # type: ignore[type-var]
    assert laid.point_at(9, 0) is None
    assert laid.point_at(0, -17) is None


def test_a_cell_of_several_points_shows_the_gravest_and_counts_all() -> None:
    states = ["same", "input differs", "values vary", "same", "ties vary"]
    found = made([point(0, 0, state) for state in states])
    laid = timeline(found)
    (cell,) = laid.cells
    assert (cell.state, cell.point) == ("values vary", 2)
    assert cell.counts == (("values vary", 1), ("ties vary", 1), ("input differs", 1), ("same", 2))
    assert laid.sharing(4) == [0, 1, 2, 3, 4]
    (text,) = traces(timeline_figure(laid))["values vary"].hovertext
    assert text == "step 0, layer 0<br>1 values vary, 1 ties vary, 1 input differs, 2 same"


def test_a_changed_input_never_hides_what_a_selector_did() -> None:
    order = list(GRAVITY)
    assert order[0] == "values vary"
    assert order.index("input differs") > max(order.index(state) for state in ("ties vary", "order varies", "missing"))
    assert order[-1] == "same"


def test_ranks_and_requests_are_shown_apart() -> None:
    points = [point(0, 0, "same", rank=0), point(0, 0, "values vary", rank=1), point(0, 0, "missing", request="all")]
    found = made(points)
    assert [cell.state for cell in timeline(found, rank=0).cells] == ["same"]
    assert [cell.state for cell in timeline(found, rank=1).cells] == ["values vary"]
    assert [cell.state for cell in timeline(found, rank=None).cells] == ["missing"]
    assert [cell.state for cell in timeline(found, request="all").cells] == ["missing"]
    assert [cell.counts for cell in timeline(found, request=None).cells] == [(("values vary", 1), ("same", 1))]
    assert len(timeline(found).places) == 3


def test_what_is_not_known_has_a_place_at_the_end() -> None:
    laid = timeline(made([point(None, 0), point(3, None), point(3, 0), point(1, 0)]))
    assert laid.columns == ("1", "3", UNKNOWN)
    assert laid.lanes == ("0", UNKNOWN)
    assert laid.places == {0: (2, 0), 1: (1, 1), 2: (1, 0), 3: (0, 0)}


def test_without_steps_columns_are_calls_and_it_says_so() -> None:
    rows = [row.with_call(step=None, layer=None) for row in make_run()]
    other = [row.with_call(step=None, layer=None) for row in make_run(AT, lossy)]
    laid = timeline(compared(rows, other))
    assert len(laid.columns) == STEPS * LAYERS
    assert not laid.steps
    assert not laid.layers
    assert laid.notes == ("the captures do not say steps: columns are calls in the order of the run",)
    figure = timeline_figure(laid)
    assert figure.layout.xaxis.title.text == "call, in the order of the run"
    assert marks(laid)["values vary"] == [(AT[0] * LAYERS + AT[1], 0)]


def test_a_call_that_one_run_lacks_is_drawn() -> None:
    laid = timeline(compared(make_run(), [row for row in make_run() if (row.call.step, row.call.layer) != AT]))
    assert marks(laid)["missing"] == [(2, -1)]


@pytest.mark.parametrize(("steps", "layers"), [(1, 1), (1000, 61), (5000, 3), (3, 500), (700, 700)])
def test_large_runs_are_drawn_whole_in_less_than_a_megabyte(steps: int, layers: int) -> None:
    states = list(STATES)
    found = made(
        [point(at, layer, states[(at * 7 + layer) % len(states)]) for at in range(steps) for layer in range(layers)]
    )
    laid = timeline(found)
    counted: Counter[str] = Counter()
    for cell in laid.cells:
        counted.update(dict(cell.counts))
        states_held = [state for state, _ in cell.counts]
        assert states_held == sorted(states_held, key=GRAVITY.index)
    assert counted == Counter(one.state for one in found.points)  # nothing is left out
    assert len(laid.cells) <= module.CELLS
    assert bool(laid.notes) == (steps > module.COLUMNS or layers > module.LANES)
    figure = timeline_figure(laid, chosen=len(found.points) - 1)
    assert len(figure.to_json()) < 1_000_000
    assert figure.layout.height < 760
    assert len(figure.layout.xaxis.ticktext) <= 24
    shown = traces(figure)["shown below"]
    assert list(zip(shown.x, shown.y, strict=True)) == [laid.drawn_at(*laid.places[len(found.points) - 1])]


def test_grouped_steps_are_named_by_their_ends() -> None:
    laid = timeline(made([point(at, 0) for at in range(module.COLUMNS * 2)]))
    assert laid.columns[:2] == ("0–1", "2–3")
    assert laid.notes == ("each column holds 2 steps; a mark shows the gravest state in it",)
    assert traces(timeline_figure(laid))["same"].hovertext[1] == "steps 2–3, layer 0<br>2 same"


def test_the_first_point_and_the_chosen_one_are_outlined() -> None:
    found = compared(make_run(), make_run(AT, lossy))
    figure = traces(timeline_figure(timeline(found), chosen=0))
    assert (list(figure["first point at which they part"].x), list(figure["first point at which they part"].y)) == (
        [2],
        [-1],
    )
    assert (list(figure["shown below"].x), list(figure["shown below"].y)) == ([0], [0])
    same = traces(timeline_figure(timeline(compared(make_run(), make_run()))))
    assert "first point at which they part" not in same


def test_tokens_stand_beneath_the_layers_of_their_step() -> None:
    logits = torch.tensor([1.0, 3.0, 2.0])
    near = torch.tensor([1.0, 3.0, 3.0])
    near[2] = torch.nextafter(near[2], torch.tensor(9.0))
    one = [wb.Token(0, 1, logits), wb.Token(1, 1, logits), wb.Token(2, 1, logits)]
    other = [wb.Token(0, 1, logits), wb.Token(1, 2, near), wb.Token(3, 1, logits)]
    found = compared(make_run(), make_run(), (one, other))
    laid = timeline(found)
    assert [(cell.column, cell.mark) for cell in laid.tokens] == [
        (0, "same"),
        (1, "token differs"),
        (2, "missing"),
        (3, "extra"),
    ]
    assert laid.tokens[0].text == "token 1, the same; margin 1"
    assert "token 1 against 2; their logits up to" in laid.tokens[1].text
    figure = timeline_figure(laid)
    lowest = min(y for trace in traces(figure).values() for y in trace.y)
    assert traces(figure)["token: differs"].y.tolist() == [lowest]
    assert lowest < -(LAYERS - 1)
    assert laid.point_at(1, lowest) is None
    assert figure.layout.yaxis.ticktext[-1] == "token"


def test_a_few_steps_of_many_layers_are_lines_that_end_in_their_tokens() -> None:
    states: list[Any] = ["same", "values vary", *["input differs"] * 28]
    tokens = [TokenStep(None, 0, 0, "same", 7, 7), TokenStep(None, 1, 0, "token differs", 257, 18)]
    found = made([point(0, layer, states[layer]) for layer in range(30)], tokens)
    laid = timeline(found)
    assert laid.turned
    assert not timeline(made(list(found.points[:2]), tokens)).turned
    drawn = traces(timeline_figure(laid, chosen=1))
    assert (drawn["values vary"].x.tolist(), drawn["values vary"].y.tolist()) == ([1], [0])
    assert [laid.point_at(*laid.drawn_at(0, layer)) for layer in range(30)] == list(range(30))
    (place,) = zip(drawn["token: differs"].x, drawn["token: differs"].y, strict=True)
    assert place[0] > 30
    assert place[1] == -1
    assert laid.point_at(*map(float, place)) is None
    figure = timeline_figure(laid)
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("layer", "step")
    assert figure.layout.xaxis.ticktext[-1] == "token"
    assert [note.text for note in figure.layout.annotations] == ["7", "257 | 18"]
    assert figure.layout.height < 200  # so that the tokens' table is on the first screen


@pytest.mark.parametrize(
    ("state", "cause", "greedy", "mark"),
    [
        ("token differs", "tie", True, "token differs by a tie or near-tie"),
        ("token differs", "near-tie", True, "token differs by a tie or near-tie"),
        ("token differs", "near-tie", False, "token differs"),
        ("token differs", "clear", True, "token differs"),
        ("token differs", None, True, "token differs"),
        ("logits differ", None, True, "logits differ"),
        ("same", None, True, "same"),
    ],
)
def test_a_flip_that_a_tie_explains_has_a_mark_of_its_own(
    state: TokenState, cause: Any, greedy: bool, mark: str
) -> None:
    token = TokenStep(None, 0, 0, state, 1, 2, cause=cause, not_greedy=() if greedy else ("a",))
    assert token_mark(token) == mark
    assert token_text(token)


def test_several_tokens_of_a_step_are_counted() -> None:
    tokens = [TokenStep(None, 4, at, "same" if at else "token differs", 1, 2) for at in range(3)]
    (cell,) = timeline(made([point(4, 0)], tokens)).tokens
    assert (cell.mark, cell.text) == ("token differs", "3 tokens: 1 token differs, 2 same")


def test_tokens_without_points_are_drawn_and_nothing_at_all_is_no_error() -> None:
    laid = timeline(made([], [TokenStep(None, 2, 0, "token differs", 1, 2)]))
    assert laid.columns == ("2",)
    assert [cell.column for cell in laid.tokens] == [0]
    assert timeline_figure(laid).data
    assert timeline_figure(timeline(made([]))).layout.height > 0


def test_what_cannot_be_compared_is_calm() -> None:
    rows = [unrecorded(row) for row in make_run()]
    laid = timeline(compared(rows, rows))
    assert set(marks(laid)) == {"not comparable"}
    assert laid.first is None


def test_names_from_files_are_no_part_of_the_picture() -> None:
    rows = [replace(row, call=replace(row.call, request="<b>x</b>", op="<i>")) for row in make_run()]
    text = timeline_figure(timeline(compared(rows, rows))).to_json()
    assert "<b>" not in text
    assert "<i>" not in text
