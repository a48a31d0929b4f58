"""Batches for benchmarks."""

from __future__ import annotations

import pytest
import torch

from workbench.errors import UsageError
from workbench.synthetic.batches import DISTINCT, make_batch
from workbench.synthetic.distributions import make_rows


def test_full_rows_are_those_of_the_distribution_and_repeat() -> None:
    scores, lengths = make_batch("random", rows=DISTINCT + 3, length=100, width=100, seed=4)
    rows = make_rows("random", length=100, k=1, rows=DISTINCT, seed=4)
    assert all(torch.equal(scores[at], rows[at % DISTINCT].scores) for at in range(DISTINCT + 3))
    assert lengths.tolist() == [100] * (DISTINCT + 3)
    assert lengths.dtype == torch.int32


def test_ragged_rows_have_their_share_and_bait_behind() -> None:
    scores, lengths = make_batch("random", rows=200, length=1000, width=1200, least_share=0.8, seed=1)
    assert int(lengths[0]) == int(lengths.max()) == 1000
    assert 800 <= int(lengths.min()) < 850
    assert len(set(lengths.tolist())) > 50
    for row, length in zip(scores, lengths.tolist(), strict=True):
        assert bool(torch.isfinite(row[:length]).all())
        assert bool((row[length:] == torch.inf).all())


def test_same_words_same_bits() -> None:
    one, other = (make_batch("random", rows=5, length=50, width=60, least_share=0.8, seed=9) for _ in range(2))
    assert torch.equal(one[0], other[0])
    assert torch.equal(one[1], other[1])
    assert not torch.equal(one[0], make_batch("random", rows=5, length=50, width=60, least_share=0.8, seed=10)[0])


def test_one_row_of_one_score() -> None:
    scores, lengths = make_batch("random", rows=1, length=1, width=1, least_share=0.8, dtype=torch.bfloat16)
    assert (scores.shape, scores.dtype, lengths.tolist()) == ((1, 1), torch.bfloat16, [1])


def test_what_cannot_be() -> None:
    with pytest.raises(UsageError, match="longer than the width"):
        make_batch("random", rows=1, length=10, width=9)
    with pytest.raises(UsageError, match="unknown distribution"):
        make_batch("normal", rows=1, length=10, width=10)
    with pytest.raises(UsageError, match="at most"):
        make_batch("ascending", rows=1, length=2**24 + 2, width=2**24 + 2)
