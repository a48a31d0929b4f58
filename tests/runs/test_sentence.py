"""The sentence of an inspected row agrees with the table below it."""

from __future__ import annotations

import math

import torch

from workbench.capture import Call, Row
from workbench.runs.inspect import damage, inspect_row
from workbench.runs.sentence import finding, result_sentence


def crowd(nan: int = 0) -> torch.Tensor:
    """12000 of 20000 scores in one bin of every path that has bins."""
    generator = torch.Generator().manual_seed(4)
    scores = torch.randn(20000, generator=generator)
    scores[:12000] = (3.003 + 1e-7 * torch.arange(12000))[torch.randperm(12000, generator=generator)]
    scores[15000 : 15000 + nan] = math.nan
    return scores


def row(scores: torch.Tensor, **more: torch.Tensor) -> Row:
    return Row(scores, scores.numel(), call=Call(k=2048), **more)


def test_a_path_that_would_trap_does_not_hide_those_that_lose() -> None:
    said = finding(inspect_row(row(crowd(nan=3000))))
    assert said.startswith("sglang.deep_select (stock) was not run: NaN is checked for")
    assert "other judged paths that take this row, " in said
    assert "none can lose" not in said


def test_the_worst_path_is_the_one_that_the_table_begins_with() -> None:
    scores = crowd()
    recorded = scores.topk(2048).indices.to(torch.int32)
    recorded[1500:] = scores.topk(20000).indices[-548:].to(torch.int32)
    inspection = inspect_row(row(scores, indices=recorded))
    worst = max(inspection.results, key=damage)
    assert f"can lose winners, {worst.line.path} most:" in finding(inspection)


def test_averages_are_whole_numbers_from_a_thousand_on() -> None:
    inspection = inspect_row(row(crowd()), paths="vllm.histogram_4096")
    mean = inspection.results[0].line.expected_missing
    assert mean is not None
    assert mean > 1000
    assert f"a random one loses {mean:.0f} on average" in finding(inspection)


def test_one_winner_is_one() -> None:
    inspection = inspect_row(Row(torch.tensor([2.0, 1.0]), 2, call=Call(k=1)), paths="torch.topk")
    assert "exactly the reference's 1 winner, " in result_sentence(inspection.results[0])
