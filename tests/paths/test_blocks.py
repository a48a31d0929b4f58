"""The two-level indexer: block maxima, the table of kept blocks, and what the two levels lose."""

from __future__ import annotations

import math
import struct
from collections import Counter
from random import Random

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from workbench.errors import UsageError
from workbench.numeric.keys import value_keys
from workbench.numeric.select import exact_topk
from workbench.paths.arrival import Arrival
from workbench.paths.blocks import (
    BITMAP,
    BLOCK,
    PADDING,
    block_amax,
    candidate_blocks,
    candidate_length,
    candidate_pages,
    most_missing,
    two_level,
)
from workbench.paths.catalog import get_path
from workbench.paths.model import run_model
from workbench.paths.transforms import PageTable

values = st.floats(width=32) | st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan])


def bits(value: float) -> bytes:
    return b"nan" if math.isnan(value) else struct.pack("<f", value)


def fmax(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    if a == b:
        return a if math.copysign(1, a) > 0 else b
    return max(a, b)


def naive_amax(scores: list[float], length: int, skip_up_to: int, out: list[float]) -> list[float]:
    count = (length + 7) // 8
    if count <= skip_up_to:
        return out
    for at in range(count):
        key = scores[at * 8]
        for score in scores[at * 8 : at * 8 + 8]:
            key = fmax(key, score)
        out[at] = math.inf if at == count - 1 else key
    return out


@given(st.lists(values, max_size=60), st.integers(0, 5), st.data())
@example([math.nan] * 17, 0, None)
@example([-0.0, 0.0] * 8, 0, None)
@example([], 0, None)
def test_block_amax_is_the_loop(scores: list[float], skip_up_to: int, data: st.DataObject | None) -> None:
    length = len(scores) if data is None else data.draw(st.integers(0, len(scores)))
    poison = -12345.0
    made = block_amax(torch.tensor(scores, dtype=torch.float32), length, skip_up_to)
    out = made.into(torch.full((9,), poison))
    expected = naive_amax(scores, length, skip_up_to, [poison] * 9)
    assert [bits(one) for one in out.tolist()] == [bits(one) for one in expected]
    assert made.skipped == (0 < (length + 7) // 8 <= skip_up_to)


def test_a_block_of_nan_keeps_nan_and_one_number_beats_it() -> None:
    scores = torch.full((24,), math.nan)
    scores[9] = -5.0
    keys = block_amax(scores).values
    assert math.isnan(keys[0])
    assert keys[1:].tolist() == [-5.0, math.inf]
    assert math.isnan(block_amax(-scores.abs()).values[0])


def test_a_strided_row_and_one_block() -> None:
    row = torch.arange(80.0)
    assert block_amax(row[::2]).values.tolist() == [14.0, 30.0, 46.0, 62.0, math.inf]
    assert block_amax(row[:8]).values.tolist() == [math.inf]
    assert row.tolist() == [*range(80)]


def test_amax_refuses_what_the_kernel_does_not_take() -> None:
    for given_, words in (
        ((torch.zeros(8, dtype=torch.bfloat16),), "torch.bfloat16"),
        ((torch.zeros(2, 8),), r"\[2, 8\]"),
        ((torch.zeros(8), 9), "length is 9, outside 0 to 8"),
        ((torch.zeros(8), -1), "read as unsigned by the kernel: -1 to -7 give no blocks"),
    ):
        with pytest.raises(UsageError, match=words):
            block_amax(*given_)
    with pytest.raises(UsageError, match="float32 of at least 3 is needed"):
        block_amax(torch.zeros(17)).into(torch.zeros(2))


def naive_table(selected: list[int], length: int) -> list[int]:
    k, count = len(selected), -(-length // 8)
    ids = list(range(count)) if count <= k else sorted({one for one in selected if one >= 0})
    return ids + [PADDING] * (k - len(ids))


@given(st.data())
def test_candidate_blocks_are_the_sorted_set(data: st.DataObject) -> None:
    length = data.draw(st.integers(0, 400))
    count = -(-length // 8)
    selected = data.draw(st.lists(st.integers(-1, max(count - 1, 0)), min_size=1, max_size=20))
    kept = torch.tensor(selected, dtype=torch.int32)
    table = candidate_blocks(kept, length)
    assert table.ids is not None
    assert table.ids.dtype == torch.int32
    assert table.ids.tolist() == naive_table(selected, length)
    assert table.kept.tolist() == [one for one in table.ids.tolist() if one != PADDING]
    assert kept.tolist() == selected
    words = " ".join(finding.words for finding in table.findings)
    held = [one for one in selected if one >= 0]
    broken = count > len(selected)
    assert ("collapse" in words) == (broken and len(set(held)) < len(held))
    assert ("hold no block" in words) == (broken and -1 in selected)
    assert ("is not among them" in words) == (broken and count - 1 not in held)
    assert all("derived, not observed" in finding.words for finding in table.findings)


def test_repeated_blocks_come_back_short() -> None:
    table = candidate_blocks(torch.tensor([99, 7, 7, 7, 3, 3]), 800)
    assert table.ids is not None
    assert table.ids.tolist() == [3, 7, 99, PADDING, PADDING, PADDING]
    (finding,) = table.findings
    assert "repeated block ids (3 and 7) collapse" in finding.words
    assert "short by 3" in finding.words


def test_ids_past_the_bitmap_are_a_finding_and_never_run() -> None:
    for top in (BITMAP, 2**31 - 1):
        table = candidate_blocks(torch.tensor([5, top], dtype=torch.int32), (BITMAP + 5) * BLOCK)
        assert table.ids is None
        assert table.kept.numel() == 0
        (finding,) = table.findings
        assert (finding.level, finding.runs) == ("certain", False)
        assert f"block ids {top} are past the 131072 of the shared bitmap" in finding.words
    last = candidate_blocks(torch.tensor([5, BITMAP - 1]), BITMAP * BLOCK)
    assert last.ids is not None
    assert last.ids.tolist() == [5, BITMAP - 1]
    assert last.findings == ()
    # A row whose blocks all fit never reads what was selected.
    assert candidate_blocks(torch.tensor([BITMAP, -1, 3]), 17).kept.tolist() == [0, 1, 2]


def test_ids_past_the_row_and_bad_sizes() -> None:
    table = candidate_blocks(torch.tensor([50, 4]), 40)
    assert table.kept.tolist() == [4, 50]
    assert "block ids 50 are past the row's 5 blocks" in table.findings[0].words
    for selected, length in ((torch.zeros(2049, dtype=torch.int32), 8), (torch.zeros(0, dtype=torch.int32), 8)):
        with pytest.raises(UsageError, match="k from 1 to 2048"):
            candidate_blocks(selected, length)
    with pytest.raises(UsageError, match="length -1"):
        candidate_blocks(torch.tensor([1]), -1)
    with pytest.raises(UsageError, match=r"torch\.float32"):
        candidate_blocks(torch.zeros(2), 8)


@given(st.data())
def test_pages_of_blocks(data: st.DataObject) -> None:
    page_size, length = data.draw(st.sampled_from([8, 16, 64, 128])), data.draw(st.integers(1, 600))
    count, k = -(-length // 8), data.draw(st.integers(1, 40))
    pages = torch.randperm(-(-length // page_size), dtype=torch.int32) + 3
    chosen = [*data.draw(st.permutations(range(count)))[:k]]
    table = candidate_blocks(torch.tensor(chosen + [-1] * (k - len(chosen))), length)
    assert table.ids is not None
    per = page_size // 8
    found = candidate_pages(table.ids, pages, page_size)
    expected = [one if one == PADDING else int(pages[one // per]) * per + one % per for one in table.ids.tolist()]
    assert found.tolist() == expected
    assert found.dtype == torch.int32
    # A consumer's column lies in the slot that its position has.
    columns = torch.arange(candidate_length(length, k)) if count - 1 in chosen else torch.arange(0)
    positions = PageTable(table.ids, BLOCK).apply(columns, None)
    assert torch.equal(
        PageTable(found, BLOCK).apply(columns, None), PageTable(pages, page_size).apply(positions, length)
    )
    assert bool((positions < length).all())


def test_pages_need_a_table_and_a_page_of_blocks() -> None:
    ids = torch.tensor([0, 9], dtype=torch.int32)
    with pytest.raises(UsageError, match="slot 1 holds index 9, past the 1 pages of 8"):
        candidate_pages(ids, torch.zeros(1, dtype=torch.int32), 64)
    for size in (4, 24):
        with pytest.raises(UsageError, match="a power of two of at least 8"):
            candidate_pages(ids, torch.zeros(4, dtype=torch.int32), size)


def naive_missing(scores: torch.Tensor, second: torch.Tensor, k: int, positions: list[int]) -> int:
    keys = value_keys(second).tolist()
    best = Counter(sorted(keys, reverse=True)[:k])
    best.subtract(Counter(sorted((keys[at] for at in positions), reverse=True)[:k]))
    return sum(count for count in best.values() if count > 0)


# Few values, so that ties, -inf and rivals of the newest block's +inf are common.
rows = st.lists(st.sampled_from([-math.inf, -1.0, -0.0, 0.0, 1.0, 2.0, 3.0, math.inf]), min_size=1, max_size=90)


@settings(max_examples=400)
@given(rows, st.integers(1, 14), st.integers(1, 12))
@example([3.0, *[0.0] * 7, *[0.0] * 8], 1, 1)
@example([math.inf, *[0.0] * 7] * 4 + [math.inf], 2, 2)
def test_two_levels_lose_no_more_than_the_bound(scores: list[float], k: int, blocks: int) -> None:
    row = torch.tensor(scores)
    made = two_level(row, k, blocks)
    assert made.missing == naive_missing(row, row, k, made.positions.tolist())
    assert made.missing <= most_missing(k, row.numel(), blocks) == made.bound
    if blocks > k or -(-len(scores) // 8) <= blocks:  # ties to the smaller index at both levels: its very index set
        assert made.missing == 0
        assert sorted(made.selected.tolist()) == sorted(exact_topk(row, k).tolist())
    assert set(made.selected.tolist()) <= set(made.positions.tolist())
    assert made.positions.numel() == candidate_length(row.numel(), blocks)


@given(rows, st.integers(1, 14), st.integers(1, 12), st.randoms(use_true_random=False))
def test_the_bound_holds_however_ties_between_blocks_fall(scores: list[float], k: int, blocks: int, by: Random) -> None:
    row = torch.tensor(scores)

    def shuffled(keys: torch.Tensor, n: int) -> torch.Tensor:
        order = torch.tensor(by.sample(range(keys.numel()), keys.numel()))
        return order[exact_topk(keys[order], n)]

    made = two_level(row, k, blocks, shuffled)
    assert made.missing == naive_missing(row, row, k, made.positions.tolist())
    assert made.missing <= most_missing(k, row.numel(), blocks)


@pytest.mark.parametrize(("k", "blocks"), [(1, 1), (4, 4), (9, 4), (2048, 2048), (2048, 600)])
def test_the_bound_is_reached(k: int, blocks: int) -> None:
    """One winner a block, none in the newest."""
    row = torch.zeros((k + 1) * BLOCK)
    row[: k * BLOCK : BLOCK] = torch.arange(1, k + 1, dtype=torch.float32)
    made = two_level(row, k, blocks)
    assert made.missing == made.bound == k - blocks + 1
    assert made.lost is not None
    assert row[made.lost].tolist() == list(range(k - blocks + 1, 0, -1))
    assert two_level(row, k, min(k + 1, 2048)).missing == (1 if k == 2048 else 0)


def test_with_fewer_blocks_than_winners_ties_may_differ_though_no_value_is_lost() -> None:
    row = torch.zeros(80)
    row[64:72] = 1.0  # eight winners in block 8; none of the zeros of the first blocks is kept
    made = two_level(row, 10, blocks=2)
    assert made.blocks.tolist() == [8, 9]
    assert made.missing == 0
    assert sorted(made.selected.tolist()) == [*range(64, 74)]  # the reference takes positions 0 and 1


def test_nan_and_other_scores_have_no_bound() -> None:
    row = torch.zeros(80)
    row[:8] = torch.tensor([math.nan, *[-1.0] * 7])
    made = two_level(row, 1, blocks=3)
    assert (made.missing, made.bound) == (1, None)
    assert "1 scores are NaN" in made.findings[0].words
    every = two_level(row, 1, blocks=10)
    assert (every.missing, every.bound, every.findings) == (0, 0, ())
    consumer = torch.arange(80, dtype=torch.bfloat16).flip(0)
    source = torch.arange(80, dtype=torch.float32)
    other = two_level(source, 8, blocks=9, consumer=consumer)
    assert (other.missing, other.bound) == (8, None)
    assert other.lost is not None
    assert other.lost.tolist() == [*range(8)]


def test_a_selector_that_drops_blocks_loses_their_tokens() -> None:
    """3000 block maxima share one 12-bit bin, and its tie buffer holds 2048."""
    row = torch.zeros(3100 * BLOCK)
    row[: 3000 * BLOCK : BLOCK] = 1 + torch.arange(3000) * 2.0**-20
    path = get_path("sglang.v2_register")

    def select(keys: torch.Tensor, n: int) -> torch.Tensor:
        return run_model(path, keys, n, Arrival("index")).indices

    made = two_level(row, 512, select=select)
    assert made.missing == 512
    assert made.bound is None
    assert two_level(row, 512).missing == 0
    small = two_level(row[: 2048 * BLOCK], 512, select=lambda keys, n: pytest.fail("every block is kept"))
    assert (small.missing, small.bound) == (0, 0)


def test_rivals_of_infinity_can_drop_the_newest_block_and_cut_the_last() -> None:
    row = torch.zeros(33)
    row[7:32:8] = math.inf
    row[32] = 5.0
    made = two_level(row, 6, blocks=4)
    assert made.blocks.tolist() == [0, 1, 2, 3]
    (finding,) = made.findings
    assert "the newest block, 4, is not among them: of the last kept block only 1 of 8 scores count" in finding.words
    assert made.positions.numel() == candidate_length(33, 4) == 25
    assert made.missing == 2  # the +inf at the end of block 3, and the 5 of the newest
    assert made.bound == 3


def test_past_the_bitmap_nothing_is_claimed() -> None:
    row = torch.zeros((BITMAP + 2) * BLOCK)
    made = two_level(row, 4, blocks=2)
    assert (made.missing, made.lost, made.blocks.numel()) == (None, None, 0)
    assert [finding.level for finding in made.findings] == ["certain"]


def test_two_level_says_what_does_not_fit() -> None:
    row = torch.zeros(64)
    for given_, words in (
        ((row, 0), "k is 0"),
        ((row, True), "k is True"),
        ((row, 1, 0), "blocks 0"),
        ((row, 1, 2049), "blocks 2049"),
        ((row, 1, 2, None, torch.zeros(63)), r"torch.float32 \[63\]"),
        ((row, 1, 2, None, torch.zeros(64, dtype=torch.float64)), "torch.float64"),
        ((row.to(torch.float16), 1), "torch.float16"),
        ((row, 1, 2, lambda keys, n: torch.arange(5)), r"\[5\] block ids"),
    ):
        with pytest.raises(UsageError, match=words):
            two_level(*given_)
    empty = two_level(torch.zeros(0), 3)
    assert (empty.missing, empty.bound, empty.selected.numel()) == (0, 0, 0)


def test_candidate_length() -> None:
    assert [candidate_length(n, 2) for n in (0, 1, 8, 9, 16, 17, 24)] == [0, 1, 8, 9, 16, 9, 16]
    assert candidate_length(1 << 20) == 16384
