"""Calls that are made a few at a time amount to what ``repeat`` makes of as many."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import workbench as wb
from tests.runs.test_repeat import crowded, only
from workbench.runs.case import Case
from workbench.runs.repeating import Repeating
from workbench.runs.run import run_case


def case(row: wb.Row) -> Case:
    return Case(row)


def test_they_amount_to_what_repeat_finds() -> None:
    row = crowded()
    one = Repeating(case(row), "vllm.histogram_256", "stock")
    assert (len(one), one.over, one.line().repeatability) == (0, False, None)
    for calls in (2, 5):
        while len(one) < calls:
            one.step()
        assert one.line() == only(wb.repeat(row, calls))
    assert one.line(3) == only(wb.repeat(row, 3))  # fewer are summed up without being made again
    assert len(one) == 5
    line = one.line()
    assert len(line.missing) == 5
    assert (min(line.missing), max(line.missing)) == (line.missing_least, line.missing_most)


def test_what_each_call_lacked_is_told_in_order() -> None:
    row = crowded()
    line = only(wb.repeat(row, 4))
    report = wb.run(row, repeats=4)
    assert list(line.missing) == [one.missing for one in report]


def test_a_refused_row_is_called_no_more() -> None:
    row = replace(crowded(), call=wb.Call(k=300, rows=1))  # of which the path makes none
    one = Repeating(case(row), "vllm.histogram_256", "stock")
    one.step()
    assert one.over
    line = one.line()
    assert line.repeatability is None
    assert line.refused
    assert line.sentence.startswith("vllm.histogram_256 (stock) was not called: ")


def test_a_path_that_keeps_its_order_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from workbench.runs import repeating

    made = []
    run_case = repeating.run_case

    def noted(*args: object, **more: object) -> object:
        made.append(more["seed"])
        return run_case(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(repeating, "run_case", noted)
    monkeypatch.setattr(repeating, "keeps_order", lambda *_: True)
    one = Repeating(case(crowded()), "vllm.histogram_256", "stock")
    for _ in range(4):
        one.step()
    assert made == [0]
    found = one.line().repeatability
    assert found is not None
    assert (found.kind, found.calls) == ("same", 4)


def test_indices_are_counted_by_their_side_of_the_cut() -> None:
    row = crowded()
    found = only(wb.repeat(row, 6)).repeatability
    assert found is not None
    held = torch.zeros(row.length, dtype=torch.int64)
    for seed in range(6):
        (made,) = run_case(Case(row), paths="vllm.histogram_256", seed=seed)
        held[made.selection.indices.long()] += 1
    exact = wb.reference(row).indices.long()
    cut = row.valid[exact[-1]]
    for side, counts in (
        (row.valid > cut, found.above),
        (row.valid == cut, found.ties),
        (row.valid < cut, found.below),
    ):
        of = held[side]
        wanted = (int((of == 6).sum()), int(((of > 0) & (of < 6)).sum()), int((of == 0).sum()))
        assert (counts.every, counts.some, counts.none) == wanted
    order = torch.sort(row.valid, descending=True, stable=True).indices.tolist()
    for member in found.members[:50]:
        assert order[member.rank - 1] == member.index
