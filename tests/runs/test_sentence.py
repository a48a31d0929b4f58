"""The sentence of an inspected row agrees with the table below it."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import torch

from workbench.capture import Call, Row
from workbench.runs.inspect import damage, inspect_row
from workbench.runs.sentence import finding, result_sentence, spread_words


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


PLACE = {"op": "vllm.persistent_topk", "release": "vllm==0.26.0", "device": "h200"}


def said_in_two_places(scores: torch.Tensor) -> list[str]:
    """What arrival orders lose of 512 winners, beside a model's loss and beside a recorded selection without one."""
    width = scores.numel()
    call = Call(k=512, rows=1, width=width, stride=width, max_seq_len=width, **PLACE)  # type: ignore[arg-type]
    recorded = Row(scores, width, call=call, indices=scores.topk(512).indices.to(torch.int32))
    return [finding(inspect_row(one)) for one in (Row(scores, width, call=call), recorded)]


def test_a_mean_says_which_orders_it_is_over_wherever_it_stands() -> None:
    """Of ``vllm.histogram_2048`` scores arrive warp by warp, of ``vllm.histogram_256`` one by one."""
    generator = torch.Generator().manual_seed(6)

    def shuffled(crowded: int, width: int) -> torch.Tensor:
        return torch.cat([torch.arange(806736.0 - crowded, 806736.0), torch.zeros(width - crowded)])[
            torch.randperm(width, generator=generator)
        ]

    model, recorded = said_in_two_places(shuffled(4096, 4096))
    assert re.search(r" \(one that is random score by score loses 48.5 on average, any one 0 to 388\)", model)
    assert re.search(r"; an order that is random score by score loses 48.5 on average, any order 0 to 388\.", recorded)
    model, recorded = said_in_two_places(shuffled(5000, 20000))
    assert re.search(r" \(a random one loses 92.6 on average, any one 0 to 512\)", model)
    assert re.search(r"; a random order loses 92.6 on average, any order 0 to 512\.", recorded)
    model, recorded = said_in_two_places(torch.arange(806736.0, 806736.0 - 4096, -1))
    assert " (any one loses 0 to 388)" in model
    assert "; any order loses 0 to 388." in recorded


def test_where_every_order_loses_as_much_no_mean_is_told() -> None:
    (result,) = inspect_row(row(crowd()), paths="vllm.histogram_256").results
    assert result.risk is not None
    assert spread_words(replace(result.risk, least_missing=7, most_missing=7), "order") == "every order loses 7"
    assert spread_words(replace(result.risk, least_missing=None, most_missing=None)) == ""


def test_one_winner_is_one() -> None:
    inspection = inspect_row(Row(torch.tensor([2.0, 1.0]), 2, call=Call(k=1)), paths="torch.topk")
    assert "exactly the reference's 1 winner, " in result_sentence(inspection.results[0])
