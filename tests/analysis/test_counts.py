"""A profile that is given its counts says what it says without them, and reads the row for its bins' members alone."""

from __future__ import annotations

import pytest
import torch

from tests.kernels.screened import batches
from workbench.analysis.profile import RowProfile
from workbench.analysis.risk import census
from workbench.capture.row import Call, Row
from workbench.engines.cuda.support_sources import WIDTHS
from workbench.numeric.histogram import RowCounts, Threshold
from workbench.paths.catalog import get_path
from workbench.runs.case import Case


def counts_of(scores: torch.Tensor, k: int) -> RowCounts:
    profile = RowProfile(scores, "float32", k)
    thresholds = {width: profile.threshold(width) for width in WIDTHS} if profile.countable else {}
    past = (scores.abs() > 65504) & scores.isfinite()
    return RowCounts(scores.numel(), thresholds, profile.nan, int((scores == -torch.inf).sum()), int(past.sum()))


@pytest.mark.parametrize("name", batches())
def test_the_risk_is_the_same(name: str) -> None:
    batch = batches()[name]
    for at in range(len(batch.scores)):
        valid = batch.valid(at)
        if valid.numel():
            given = RowProfile(valid, "float32", batch.k, counts=counts_of(valid, batch.k))
            assert str(census(given)) == str(census(RowProfile(valid, "float32", batch.k))), at


def test_the_row_is_not_counted_again() -> None:
    normal, near, *_ = batches()["usual rows"].scores
    for scores, breached in ((normal, False), (near, True)):
        profile = RowProfile(scores, "float32", 512, counts=counts_of(scores, 512))
        risks = census(profile)
        assert any(one.breach for one in risks) == breached
        assert "_counted" not in vars(profile.half), "members of a bin are found by comparing"
        assert breached or "patterns" not in vars(profile.half), "a row that breaches no buffer is not read"


def test_counts_are_believed() -> None:
    """The risk is that of what was counted."""
    scores = torch.arange(5000.0)
    told = RowCounts(5000, {bits: Threshold(1, 2, 4097 - bits % 8, 3) for bits in WIDTHS}, 0, 0, 0)
    profile = RowProfile(scores, "float32", 5, counts=told)
    assert profile.filling(8, get_path("vllm.histogram_256").buffer).breach
    assert not profile.filling(11, get_path("vllm.filtered").buffer).breach
    assert Case(Row(scores, 5000, call=Call(k=5)), counts=told).profile.threshold(8).population == 4097


def test_counts_of_another_row() -> None:
    counts = counts_of(torch.arange(50.0), 5)
    for scores, dtype in ((torch.arange(51.0), "float32"), (torch.arange(50.0).bfloat16(), "bfloat16")):
        with pytest.raises(ValueError, match="counts of 50 float32 scores, for a row of"):
            RowProfile(scores, dtype, 5, counts=counts)
