"""What ops make of a selection, and the way back."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import UsageError
from workbench.paths.routing import OPS
from workbench.paths.selection import UNWRITTEN
from workbench.paths.transforms import (
    MODES,
    KPool,
    PageTable,
    Ragged,
    Raw,
    Transform,
    WithoutMinusInf,
    dual,
    short_row,
    table_of,
)

INT_MAX = 2**31 - 1


def i32(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def same(found: torch.Tensor, *values: int) -> bool:
    return found.dtype == torch.int32 and found.tolist() == list(values)


@st.composite
def selections(draw: st.DrawFn, length: int, most: int = 12) -> torch.Tensor:
    """Distinct indices below length with holes, in any order."""
    held = draw(st.lists(st.integers(0, length - 1), max_size=most, unique=True)) if length else []
    return torch.tensor(
        draw(st.permutations(held + draw(st.sampled_from([[], [-1], [-1, -1, UNWRITTEN]])))), dtype=torch.int32
    )


@given(st.data())
def test_page_table_is_the_shift_and_mask_formula_and_inverts(data: st.DataObject) -> None:
    bits, length = data.draw(st.integers(0, 7)), data.draw(st.integers(0, 900))
    pages = -(-length // (1 << bits))
    tail = data.draw(st.lists(st.integers(0, 3), max_size=4))  # padding, pages of others: may repeat anything
    physical = data.draw(st.permutations(range(5, 5 + pages))) if pages < 40 else list(range(5, 5 + pages))[::-1]
    table = torch.tensor([*physical, *tail], dtype=torch.int32)
    selection = data.draw(selections(length))
    step = PageTable(table, 1 << bits)
    mapped = step.apply(selection, length)
    expected = [i if i < 0 else (int(table[i >> bits]) << bits) | (i & ((1 << bits) - 1)) for i in selection.tolist()]
    assert same(mapped, *expected)
    assert same(step.invert(mapped, length), *selection.tolist())


@given(st.data())
def test_offsets_and_raw_go_there_and_back(data: st.DataObject) -> None:
    length = data.draw(st.integers(0, 300))
    selection = data.draw(selections(length))
    offset = data.draw(st.integers(0, 5000))
    for step, moved in ((Ragged(offset), offset), (Raw(), 0)):
        mapped = step.apply(selection, length)
        assert same(mapped, *(i if i < 0 else i + moved for i in selection.tolist()))
        assert same(step.invert(mapped, length), *selection.tolist())
        assert step.columns(selection.numel()) == mapped.numel()


def kpool_by_formula(groups: list[int], length: int, pool: int, seq_len: int | None) -> list[int]:
    k = len(groups) * pool
    columns = k + (pool - 1 if seq_len is not None else 0)
    history = min(length * pool, k)
    tail = 0 if seq_len is None else seq_len % pool
    out = [-1] * columns
    for column in range(columns):
        if length < 0:
            continue
        if column < history:
            group = groups[column // pool]
            out[column] = group * pool + column % pool if group >= 0 else group
        elif column < history + tail:
            out[column] = length * pool + column - history
    return out


@given(st.data())
def test_kpool_is_its_formula_column_by_column(data: st.DataObject) -> None:
    pool, k = data.draw(st.integers(2, 5)), data.draw(st.integers(1, 9))
    length = data.draw(st.integers(-1, 30))
    kept = min(max(length, 0), k)
    held = data.draw(st.permutations(range(max(length, 0))))[:kept]
    groups = [*held, *[-1] * (k - kept)]
    if kept and data.draw(st.booleans()):
        groups[data.draw(st.integers(0, kept - 1))] = data.draw(st.sampled_from([-1, UNWRITTEN]))
    seq_len = data.draw(st.none() | st.integers(0, 5).map(lambda more: max(length, 0) * pool + more % pool))
    step = KPool(pool, seq_len)
    mapped = step.apply(i32(*groups), length)
    assert same(mapped, *kpool_by_formula(groups, length, pool, seq_len))
    assert mapped.numel() == step.columns(k)
    assert same(step.invert(mapped, length), *groups)
    if length >= 0:
        tokens = step.length_after(length)
        assert tokens is not None
        assert int(mapped.max()) < max(tokens, 1)
        if seq_len is not None:
            assert tokens == seq_len


@given(st.data())
def test_pools_then_pages_or_offset_are_the_steps_in_turn_and_invert(data: st.DataObject) -> None:
    pool, k, length = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 6)), data.draw(st.integers(0, 20))
    groups = short_row(length, k) if length <= k else i32(*data.draw(st.permutations(range(length)))[:k])
    seq_len = length * pool + data.draw(st.integers(0, pool - 1))
    second: Transform = data.draw(
        st.sampled_from([Raw(), Ragged(1000), PageTable(torch.randperm(64, dtype=torch.int32) + 9, 8)])
    )
    both = KPool(pool, seq_len).then(second)
    mapped = both.apply(groups, length)
    assert torch.equal(mapped, second.apply(KPool(pool, seq_len).apply(groups, length), seq_len))
    assert both.columns(k) == mapped.numel() == k * pool + pool - 1
    assert torch.equal(both.invert(mapped, length), groups)
    # What a longer row keeps of its last tokens does not depend on the selection.
    assert int((mapped >= 0).sum()) == min(length, k) * pool + seq_len % pool


def test_short_rows_and_length_0() -> None:
    assert same(short_row(3, 5), 0, 1, 2, -1, -1)
    assert same(short_row(0, 2), -1, -1)
    assert same(short_row(-4, 2), -1, -1)
    assert same(short_row(2, 2), 0, 1)
    with pytest.raises(UsageError, match="length 3 is above k, 2"):
        short_row(3, 2)
    table = i32(7, 9)
    assert same(PageTable(table, 2).apply(short_row(3, 5), 3), 14, 15, 18, -1, -1)
    assert same(PageTable(i32(), 64).apply(short_row(0, 3), 0), -1, -1, -1)
    assert same(PageTable(i32(), 64).invert(i32(-1, -1), 0), -1, -1)
    assert same(Ragged(10).apply(short_row(2, 3), 2), 10, 11, -1)
    assert same(KPool(4, seq_len=3).apply(short_row(0, 2), 0), 0, 1, 2, *[-1] * 8)  # the tail alone
    assert same(KPool(4).apply(short_row(1, 2), 1), 0, 1, 2, 3, -1, -1, -1, -1)
    assert same(Raw().apply(i32(), 0))


def test_a_page_past_the_table_is_an_error_that_names_it_or_lost_silently() -> None:
    selection = i32(5, 130, -1, 63, 128)
    with pytest.raises(
        UsageError, match=r"slots 1 and 4 hold index 130 and 128, past the 2 pages of 64 .* whole table"
    ):
        PageTable(i32(3, 4), 64).apply(selection, 200)
    consumer = PageTable(i32(3, 4), 64, past_table="empty")
    assert same(consumer.apply(selection, 200), 3 * 64 + 5, -1, -1, 3 * 64 + 63, -1)
    (finding,) = consumer.findings(selection, 200)
    assert "slots 1 and 4 hold index 130 and 128" in finding.words
    assert "lost silently (described, not observed)" in finding.words
    assert consumer.findings(i32(5, -1), 200) == ()
    assert PageTable(i32(3, 4), 64).findings(selection, 200) == ()


def test_an_unused_page_and_a_slot_past_int32_are_errors() -> None:
    with pytest.raises(UsageError, match="slot 1 holds index 64, where the page table has -1: no page is there"):
        PageTable(i32(3, -1), 64).apply(i32(0, 64), 100)
    top = PageTable(i32(INT_MAX >> 6), 64)
    assert same(top.apply(i32(63), 64), INT_MAX)
    for table in (i32((INT_MAX >> 6) + 1), torch.tensor([2**60])):
        with pytest.raises(UsageError, match="does not fit int32"):
            PageTable(table, 64).apply(i32(0), 64)
    with pytest.raises(UsageError, match="does not fit int32"):
        Ragged(INT_MAX).apply(i32(1), 2)
    with pytest.raises(UsageError, match="hold tokens that do not fit int32"):
        KPool(4).apply(i32(INT_MAX), 1)
    with pytest.raises(UsageError, match="tokens that do not fit int32"):
        KPool(4, seq_len=3).apply(i32(0), 2**30)


def test_repeated_pages_cannot_be_inverted_where_an_entry_lies_on_one() -> None:
    table = PageTable(i32(8, 3, 8, 5), 4)
    with pytest.raises(UsageError, match="slot 1 holds cache slot 33: page 8 stands at places 0 and 2"):
        table.invert(i32(20, 33), 16)
    assert same(table.invert(i32(20, 15, -1), 16), 12, 7, -1)
    assert same(table.invert(i32(33), 8), 1)  # the row ends before the second one
    assert same(table.invert(i32(33), 7), 1)
    with pytest.raises(UsageError, match=r"cache slot 20, of page 5, not among the 2 pages of a row of length 8"):
        table.invert(i32(20), 8)
    with pytest.raises(UsageError, match="not among the 0 pages"):
        PageTable(i32(), 4).invert(i32(0), None)


def test_what_is_no_offset_or_no_pool_is_not_inverted() -> None:
    with pytest.raises(UsageError, match="slot 0 holds index 9, before the row's offset 10"):
        Ragged(10).invert(i32(9, 10, -1), 4)
    pools = KPool(4, seq_len=14)
    good = pools.apply(i32(2, 0), 3)
    assert same(good, 8, 9, 10, 11, 0, 1, 2, 3, 12, 13, -1)
    for at, value in ((1, 8), (4, 1), (8, -1), (10, 14)):
        bad = good.clone()
        bad[at] = value
        with pytest.raises(UsageError, match="are not what whole pools of 4"):
            pools.invert(bad, 3)
    with pytest.raises(UsageError, match="12 columns are not k pools of 4 and 3 more"):
        pools.invert(torch.zeros(12, dtype=torch.int32), 3)
    with pytest.raises(UsageError, match="2 columns are not k pools"):
        pools.invert(i32(-1, -1), 0)


def test_kpool_refuses_what_it_would_drop_and_tells_a_tail_that_does_not_follow() -> None:
    with pytest.raises(UsageError, match="slots 2 are not -1, and a row of 2 pools has 2 slots of 3"):
        KPool(4).apply(i32(0, 1, 5), 2)
    (finding,) = KPool(4, seq_len=15).findings(i32(0, 1), 2)
    assert "2 pools of 4 and 15 tokens, whose open pool begins at token 12" in finding.words
    assert "begins at 8 all the same" in finding.words
    assert KPool(4, seq_len=11).findings(i32(0, 1), 2) == ()
    assert KPool(4).findings(i32(0, 1), 2) == ()
    with pytest.raises(UsageError, match="pools are expanded first"):
        PageTable(i32(0), 64).then(KPool(4)).apply(i32(0), 1)


def test_minus_inf_vanishes_where_the_unfused_selection_looks_at_it() -> None:
    scores = torch.tensor([-torch.inf, 1.0, -torch.inf, torch.nan])
    step = WithoutMinusInf(scores)
    selection = i32(1, 0, 3, 2, -1, UNWRITTEN)
    assert same(step.apply(selection, 4), 1, -1, 3, -1, -1, UNWRITTEN)
    (finding,) = step.findings(selection, 4)
    assert finding.words.startswith("2 selected scores are -inf and become -1")
    assert step.findings(i32(1, 3), 4) == ()
    assert same(step.then(Ragged(5)).apply(selection, 4), 6, -1, 8, -1, -1, UNWRITTEN)
    assert [f.words for f in step.then(Ragged(5)).findings(selection, 4)] == [finding.words]
    assert same(step.then(Ragged(5)).invert(i32(6, -1, 8), 4), 1, -1, 3)
    with pytest.raises(UsageError, match="slot 0 holds index 4, and the row has 4 scores"):
        step.apply(i32(4), 4)
    with pytest.raises(UsageError, match="looked up by position"):
        Ragged(5).then(step).apply(i32(0), 4)
    half = WithoutMinusInf(scores.to(torch.bfloat16))
    assert same(half.apply(i32(0, 1), 4), -1, 1)


def test_dual_output_is_one_selection_twice() -> None:
    mapped, raw = dual(PageTable(i32(9, 4), 2), i32(3, 0, -1), 4)
    assert same(mapped, 9, 18, -1)
    assert same(raw, 3, 0, -1)
    with pytest.raises(UsageError, match="makes 8 columns of 2"):
        dual(KPool(4), i32(0, 1), 2)


def test_a_candidate_table_maps_columns_to_positions_and_then_to_slots() -> None:
    blocks, table = i32(1, 4), i32(3, 0, 6)  # blocks of 8 of a row, pages of 16
    columns = i32(15, 0, -1)
    assert same(PageTable(blocks, 8).apply(columns, 16), 39, 8, -1)
    slots = PageTable(blocks, 8).then(PageTable(table, 16)).apply(columns, 16)
    assert same(slots, 6 * 16 + 7, 3 * 16 + 8, -1)
    assert same(PageTable(blocks, 8).then(PageTable(table, 16)).invert(slots, 16), 15, 0, -1)


def test_which_table_a_row_uses() -> None:
    tables = torch.arange(6, dtype=torch.int32).view(3, 2)
    assert same(table_of(tables, 1), 2, 3)
    assert same(table_of(tables, 0, row_to_table=i32(2, 0)), 4, 5)
    prefill = [table_of(tables, row, cu_seqlens_q=i32(0, 2, 2, 5))[0].item() for row in range(5)]
    assert prefill == [0, 0, 4, 4, 4]  # the second request has no rows
    for row, how, words in (
        (3, {}, "row 3 uses page table 3, and the call has 3"),
        (-1, {}, "row -1 is not among those"),
        (2, {"row_to_table": i32(2, 0)}, "row 2 is not among those"),
        (0, {"row_to_table": i32(-1)}, "uses page table -1"),
        (5, {"cu_seqlens_q": i32(0, 2, 2, 5)}, "uses page table 3"),
        (0, {"cu_seqlens_q": i32(0, 2)}, "must ascend from 0 and hold 4"),
        (0, {"cu_seqlens_q": i32(0, 3, 2, 5)}, "must ascend"),
        (0, {"cu_seqlens_q": i32(0, 1, 2, 3), "row_to_table": i32(0)}, "give one"),
    ):
        with pytest.raises(UsageError, match=words):
            table_of(tables, row, **how)


@pytest.mark.parametrize("size", [0, 3, -2, 48, 2.0, True])
def test_page_sizes_are_powers_of_two(size: int) -> None:
    with pytest.raises(UsageError, match="a power of two"):
        PageTable(i32(0), size)


def test_what_cannot_be_a_transform_or_a_selection_is_said() -> None:
    for build, words in (
        (
            lambda: PageTable(torch.zeros(2, 2, dtype=torch.int32)),
            r"\[pages\] of one row; this is torch.int32 \[2, 2\]",
        ),
        (lambda: PageTable(torch.zeros(2)), "torch.float32"),
        (lambda: PageTable(i32(0), 1, "clamp"), "past_table is 'clamp'"),
        (lambda: Ragged(-1), "offset is -1"),
        (lambda: Ragged(1.5), "offset is 1.5"),
        (lambda: KPool(1), "pool_size is 1"),
        (lambda: KPool(4, -1), "seq_len is -1"),
        (lambda: Raw().apply(torch.tensor([0.0]), 1), "torch.float32"),
        (lambda: Raw().apply(torch.zeros(1, 1, dtype=torch.int32), 1), r"\[1, 1\]"),
        (lambda: Raw().apply(i32(0, -2), 1), "slot 1 holds index -2, which is no index"),
        (lambda: Raw().apply(torch.tensor([2**31]), 1), "which is no index"),
    ):
        with pytest.raises(UsageError, match=words):
            build()


def test_every_op_says_what_it_returns_and_every_way_has_an_op() -> None:
    names = [mode.name for mode in MODES]
    for op in OPS:
        assert op.transforms, f"{op.name} does not say what it returns"
        assert set(op.transforms) <= set(names), op.name
    assert {name for op in OPS for name in op.transforms} == set(names)
