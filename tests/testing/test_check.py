"""``assert_topk``: what passes, what fails, and what the message says."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import workbench as wb
from tests.export.conftest import hot, row
from workbench.testing import TopkCase, assert_topk, load_case


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> TopkCase:
    return load_case(wb.export(row(hot(5000, above=10)), to=tmp_path_factory.mktemp("case"), name="hot").fixture)


def best(case: TopkCase) -> torch.Tensor:
    return torch.topk(case.scores, case.k).indices


def message(selection: Any, case: TopkCase) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_topk(selection, case)
    return str(caught.value)


def test_a_case_is_what_was_exported(case: TopkCase) -> None:
    assert (case.name, case.k, case.length, case.path, case.variant) == (
        "hot",
        2048,
        20_000,
        "vllm.histogram_256",
        "stock",
    )
    assert (case.risk, case.repeats, case.call.op) == ("at risk", 1, "vllm.persistent_topk")
    assert torch.equal(case.expected, case.scores.sort(descending=True).values[:2048])
    assert repr(case) == "TopkCase('hot', 20000 scores, k 2048, torch.float32 on cpu)"


def test_a_case_moves_to_a_device(case: TopkCase) -> None:
    moved = case.to("meta")
    assert (moved.scores.device.type, moved.expected.device.type, moved.k) == ("meta", "meta", case.k)
    assert case.to(torch.device("cpu")).scores.device.type == "cpu"


@pytest.mark.parametrize(
    "form",
    [
        lambda found: found,
        lambda found: found.int(),
        lambda found: found.flip(0),
        lambda found: found.tolist(),
        lambda found: found.numpy().astype(np.int32),
        lambda found: found.numpy().astype(np.uint32),
        lambda found: found.numpy().astype(np.uint64),
        lambda found: found.to(torch.uint16),
        lambda found: wb.Selection(found.int()),
    ],
)
def test_the_best_pass_in_every_form(form: Any, case: TopkCase) -> None:
    assert_topk(form(best(case)), case)


def test_ties_pass() -> None:
    scores = torch.tensor([1.0, 0.0, -0.0, 0.0, 5.0])
    case = TopkCase("ties", scores, 3, torch.tensor([5.0, 1.0, 0.0]), "p", "stock", "certain", 1, wb.Call(k=3))
    for last in (1, 2, 3):
        assert_topk([4, 0, last], case)


def test_a_lost_winner_is_named_with_rank_score_and_bits(case: TopkCase) -> None:
    found = best(case)
    kept = torch.cat([found[2:], torch.topk(case.scores, case.k + 2).indices[-2:]])
    said = message(kept, case)
    lines = said.splitlines()
    assert (
        lines[0] == "hot: the selection is lossy; 2 of 2048 winners are missing (recall 0.999023, k 2048, 20000 scores)"
    )
    assert lines[1] == f"  lost: rank 1, index {int(found[0])}, score 109 (0x42da0000)"
    assert lines[2] == f"  lost: rank 2, index {int(found[1])}, score 108 (0x42d80000)"
    assert lines[3].startswith("  held in their place: rank 2049, index ")
    assert lines[5] == "  sorted, place 0 should be 0x42da0000 and is 0x42d60000"


def test_many_lost_winners_are_counted(case: TopkCase) -> None:
    said = message(torch.topk(case.scores, 2 * case.k).indices[case.k :], case)
    assert "2048 of 2048 winners are missing" in said
    assert "  lost: 2043 more" in said
    assert len(said.splitlines()) < 20


def test_invalid_slots_are_named(case: TopkCase) -> None:
    found = best(case)
    found[5], found[6], found[7], found[8], found[9] = found[4], 20_000, -1, -777, -2
    said = message(found, case)
    assert said.startswith("hot: the selection is invalid; 5 of 2048 winners are missing")
    assert "invalid slots: 1 repeat an index, 2 lie outside the row, 1 were never written and 1 are -1" in said
    assert "slot 6 holds 20000, slot 7 holds -1, slot 8 holds -777, slot 9 holds -2" in said


def test_slots_past_the_length_hold_minus_one() -> None:
    scores = torch.tensor([3.0, 2.0])
    case = TopkCase("short", scores, 4, torch.tensor([3.0, 2.0]), "p", "stock", "certain", 1, wb.Call(k=4))
    assert_topk([0, 1, -1, -1], case)
    assert "are -1 although scores are left" in message([0, -1, -1, -1], case)
    assert "past the row's length do not hold -1" in message([0, 1, 0, -1], case)
    assert "past the row's length do not hold -1" in message([-1, -1, 1, 0], case)


def test_an_unsigned_index_is_never_minus_one() -> None:
    case = TopkCase("short", torch.tensor([3.0]), 2, torch.tensor([3.0]), "p", "stock", "certain", 1, wb.Call(k=2))
    for dtype in (np.uint32, np.uint64):
        assert "past the row's length do not hold -1" in message(np.array([0, np.iinfo(dtype).max], dtype), case)


def test_nothing_at_all_is_a_loss_of_all(case: TopkCase) -> None:
    said = message([-1] * case.k, case)
    assert "2048 of 2048 winners are missing" in said
    assert "and is nothing" in said


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_scores_show_four_digits(dtype: torch.dtype) -> None:
    scores = torch.tensor([3.0, 2.0, 1.0, float("nan")], dtype=dtype)
    case = TopkCase("narrow", scores, 2, scores[[3, 0]], "p", "stock", "certain", 1, wb.Call(k=2))
    assert_topk([3, 0], case)
    bits = {torch.bfloat16: "0x7fc0", torch.float16: "0x7e00"}[dtype]
    assert f"should be {bits}" in message([0, 1], case)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda found: found[:-1], ValueError),
        (lambda found: found[None], ValueError),
        (lambda found: found.float(), TypeError),
        (lambda found: found > 0, TypeError),
        (lambda found: 7, ValueError),
        (lambda found: None, TypeError),
        (lambda found: object(), TypeError),
        (lambda found: "7" * len(found), TypeError),
        (lambda found: [*found.tolist()[:-1], 2**70], TypeError),
        (lambda found: [found.tolist(), [1]], TypeError),
    ],
)
def test_what_is_no_selection_is_an_error_of_the_test(change: Any, error: type[Exception], case: TopkCase) -> None:
    with pytest.raises(error, match="a selection"):
        assert_topk(change(best(case)), case)


def test_a_copied_case_is_the_same(case: TopkCase) -> None:
    assert_topk(best(case), copy.deepcopy(case))


def test_a_damaged_fixture_is_an_error_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"12345678")
    with pytest.raises(wb.CaptureError, match="not a safetensors file"):
        load_case(tmp_path / "a.safetensors")
