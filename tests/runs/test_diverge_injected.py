"""A fault injected at a known step and layer of the captured SmolLM2 run is found there, and by its kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import workbench as wb
from workbench.runs.divergence import Comparison

RUN = Path(__file__).resolve().parents[2] / "captures" / "greedy-ties" / "exact.safetensors"
PLACES = [(0, 4), (0, 28), (1, 9), (1, 17)]  # of layers whose cut is a plateau of zeros
Change = Callable[[wb.Row], list[wb.Row]]


def reselected(row: wb.Row, indices: list[int]) -> list[wb.Row]:
    return [replace(row, indices=torch.tensor(indices, dtype=torch.int32))]


def held(row: wb.Row) -> list[int]:
    assert row.indices is not None
    return row.indices.tolist()


def unheld_zero(row: wb.Row) -> int:
    """A member of the tie at the cut that was not selected."""
    chosen = set(held(row))
    return next(at for at in range(row.length) if row.valid[at] == 0 and at not in chosen)


def one_ulp(row: wb.Row) -> list[wb.Row]:
    scores = row.scores.clone()
    at = int(row.valid.argmax())
    scores[at] = torch.nextafter(scores[at], torch.tensor(torch.inf))
    return [replace(row, scores=scores)]


def lossy(row: wb.Row) -> list[wb.Row]:
    """The best winner gives way to a zero."""
    best = int(row.valid.argmax())
    return reselected(row, sorted([at for at in held(row) if at != best] + [unheld_zero(row)]))


def tie_swap(row: wb.Row) -> list[wb.Row]:
    """One zero gives way to another."""
    zero = next(at for at in held(row) if row.valid[at] == 0)
    return reselected(row, sorted([at for at in held(row) if at != zero] + [unheld_zero(row)]))


def order_only(row: wb.Row) -> list[wb.Row]:
    first, second, *rest = held(row)
    return reselected(row, [second, first, *rest])


def missing(row: wb.Row) -> list[wb.Row]:
    return []


FAULTS: dict[str, tuple[Change, str, str]] = {
    "changed input": (one_ulp, "input differs", "scores differs by 1 ULP of float32"),
    "lossy selection": (lossy, "values vary", "lost 1 of 512 winners"),
    "tie swap": (tie_swap, "ties vary", "2 indices differ between equal scores (0)"),
    "order only": (order_only, "order varies", "the same 512 indices in another order (2 slots differ"),
    "missing call": (missing, "missing", "has this row"),
}


def compared(tmp_path: Path, at: tuple[int, int], change: Change) -> tuple[Comparison, int]:
    """The run against a copy on disk with one call changed; how many calls the run has."""
    with wb.open(RUN) as capture:
        rows = [
            changed for row in capture for changed in (change(row) if (row.call.step, row.call.layer) == at else [row])
        ]
        wb.write(tmp_path / "other.safetensors", rows, tokens=capture.tokens)
        total = len(capture)
    with wb.diverge(RUN, tmp_path / "other.safetensors") as found:
        return found.comparisons[0], total


@pytest.mark.parametrize("at", PLACES, ids=str)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_where_it_was_injected(tmp_path: Path, fault: str, at: tuple[int, int]) -> None:
    change, state, said = FAULTS[fault]
    found, total = compared(tmp_path, at, change)
    first = found.first
    assert first is not None
    assert (first.step, first.layer, first.state) == (*at, state)
    assert found.counts["same"] == total - 1
    assert sum(found.counts.values()) == total
    assert f"step {at[0]}, layer {at[1]}, row 0" in found.finding
    assert said in found.finding
    assert ("at fault" in found.finding) == (state == "values vary")
    assert {token.state for token in found.tokens} == {"same"}


def test_the_run_does_not_part_from_a_copy_of_itself(tmp_path: Path) -> None:
    found, total = compared(tmp_path, (0, 0), lambda row: [row])
    assert not found.parts
    assert found.counts["same"] == total
