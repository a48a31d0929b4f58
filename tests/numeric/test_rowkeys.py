"""Keys that selectors share: held against plain sorts and masks."""

import pytest
import torch

from workbench.numeric.histogram import locate
from workbench.numeric.keys import key_width, ordered_keys, signed_keys, value_keys, where_true
from workbench.numeric.rowkeys import Ascending, RowKeys
from workbench.paths.models.digits import parted, search_row
from workbench.paths.models.tape import Tape
from workbench.paths.selection import Pass

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
EDGES = (0.0, -0.0, 1.5, -1.5, 1e-45, -1e-45, torch.inf, -torch.inf, torch.nan, -torch.nan)


def row(dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Every bit pattern may be in it; a third are edges, so that equal ones abound."""
    random = torch.Generator().manual_seed(seed)
    held = {torch.float32: torch.int32, torch.bfloat16: torch.int16, torch.float16: torch.int16}[dtype]
    bounds = torch.iinfo(held)
    scores = torch.randint(bounds.min, bounds.max + 1, (3000,), generator=random).to(held).view(dtype)
    edges = torch.tensor(EDGES, dtype=dtype)
    edges[-1] = (
        torch.tensor([bounds.min + 1 + torch.tensor([torch.inf], dtype=dtype).view(held).item()])
        .to(held)
        .view(dtype)[0]
    )  # NaN with its sign set
    scores[:1000] = edges[torch.randint(len(EDGES), (1000,), generator=random)]
    return scores[torch.randperm(3000, generator=random)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_keys_order_as_bit_patterns_do(dtype: torch.dtype) -> None:
    scores = row(dtype)
    width = key_width(scores)
    bits = scores.view(torch.int32 if width == 32 else torch.int16).tolist()
    wanted = [~one & ((1 << width) - 1) if one < 0 else one + (1 << (width - 1)) for one in bits]
    assert ordered_keys(scores).tolist() == wanted
    assert [one + (1 << (width - 1)) for one in signed_keys(scores).tolist()] == wanted
    plain = [
        2**31 - 1 if s != s else 0 if s == 0 else key - (1 << (width - 1))
        for s, key in zip(scores, wanted, strict=True)
    ]
    assert value_keys(scores).tolist() == plain


@pytest.mark.parametrize("dtype", DTYPES)
def test_ranks_and_positions(dtype: torch.dtype) -> None:
    scores = row(dtype)
    shared, keys = RowKeys(scores), ordered_keys(scores)
    most = (1 << shared.width) - 1
    ascending = keys.sort().values
    assert [shared.ascending.at(place) for place in (0, 7, 2999)] == ascending[[0, 7, 2999]].tolist()
    for key in (0, 1, *ascending[::199].tolist(), most, most + 1):
        assert shared.ascending.below(key) == int((keys < key).sum())
        assert torch.equal(shared.between(key, most), torch.nonzero(keys >= key).flatten())
        assert torch.equal(shared.between(0, key - 1), torch.nonzero(keys < key).flatten())
    few = torch.tensor([5, 3, 2999])
    assert torch.equal(shared.keys_of(few), keys[few])
    assert len(shared.ascending_of(few)) == 3
    assert torch.equal(shared.bins(11), torch.bincount(keys >> (shared.width - 11), minlength=1 << 11))
    assert torch.equal(
        torch.cat([part.scores for part in shared.slices(7)]).view(torch.uint8), scores.view(torch.uint8)
    )
    assert torch.equal(where_true(keys > 9), torch.nonzero(keys > 9).flatten())


def by_counting(keys: torch.Tensor, need: int, digits: tuple[int, ...], width: int) -> tuple[int, list[Pass]]:
    """The search as selectors do it: a histogram a digit, over what shares the prefix."""
    pivot, shift, passes = 0, width, list[Pass]()
    for bits in digits:
        shift -= bits
        digit = (keys >> shift) & ((1 << bits) - 1)
        at = locate(torch.bincount(digit, minlength=1 << bits), need)
        passes.append(Pass(shift, bits, keys.numel(), need, at.bin, at.above, at.population))
        keys, need, pivot = keys[digit == at.bin], at.need, pivot | at.bin << shift
    return pivot, passes


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [1, 2, 500, 1700, 2999, 3000])
def test_a_search_by_ranks_tells_what_histograms_tell(dtype: torch.dtype, k: int) -> None:
    tape = Tape(row(dtype, k))
    keys, width = ordered_keys(tape.scores), tape.row.width
    for digits in ((8, 8, 8, 8), (11, 11, 10), (12, 20)) if width == 32 else ((8, 8), (11, 5), (4, 12)):
        found = search_row(tape, tape.row.ascending, k, digits, width=width)
        pivot, passes = by_counting(keys, k, digits, width)
        assert (found.pivot, found.passes) == (pivot, tuple(passes))
        greater, equal = parted(tape.row, found)
        assert torch.equal(greater, torch.nonzero(keys > pivot).flatten())
        assert torch.equal(equal, torch.nonzero(keys == pivot).flatten())
        assert (found.above, found.need, found.equal) == (greater.numel(), k - greater.numel(), equal.numel())
        begun = search_row(tape, tape.row.ascending, k, digits[:1], width=width)
        again = search_row(tape, tape.row.ascending, k, digits[1:], start=begun, width=width)
        assert vars(again) == vars(found)


def test_rows_in_place_of_another() -> None:
    scores = row(torch.float32)
    shared, nan = RowKeys(scores), torch.isnan(scores)
    assert torch.equal(shared.without_nan.scores, torch.where(nan, -torch.inf, scores))
    greatest = ordered_keys(shared.greatest_nan.scores)
    assert torch.equal(greatest, torch.where(nan, 2**32 - 1, ordered_keys(scores)))
    assert torch.equal(ordered_keys(shared.without_negative_zero.scores), ordered_keys(scores + 0.0))
    clean = RowKeys(scores[~nan & (scores != 0)])
    assert clean.without_nan is clean.greatest_nan is clean.without_negative_zero is clean
    zero = RowKeys(torch.tensor([1.0, -0.0]))
    assert zero.without_negative_zero.scores.signbit().tolist() == [False, False]


def test_what_is_made_of_a_tensor_is_made_once_and_of_no_other() -> None:
    shared = RowKeys(row(torch.float32))
    some, same = torch.arange(9), torch.arange(9)
    first = shared.made_of(some, "what", lambda: [1])
    assert shared.made_of(some, "what", lambda: [2]) is first
    assert shared.made_of(same, "what", lambda: [3]) == [3]
    shared.forget()
    assert shared.made_of(some, "what", lambda: [4]) == [4]
    assert torch.equal(shared.between(0, 2**32 - 1), torch.arange(3000))


def test_keys_without_a_bias() -> None:
    held = Ascending(torch.tensor([7, 0, 7, 3]))
    assert [held.below(key) for key in (0, 1, 7, 8, 2**63)] == [0, 1, 2, 4, 4]
