"""What is recorded of each op: inputs and outputs bit for bit, and all that is known of the call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import workbench as wb
from tests.record import ops
from tests.record.ops import bits, matrix, persistent
from workbench.paths.transforms import PageTable, Ragged, Raw, Transform
from workbench.record.judging import is_bad
from workbench.record.positions import row_positions

DEEP = (
    *("sorted_value", "sorted_index", "output_value", "output_idx", "output_idx_offset", "idx_oob_fill_value"),
    *("value_oob_fill_value", "return_value", "abort_when_nan_found"),
)


def opened(recorder, problem: str = "") -> list[wb.Row]:
    rows = []
    for path in recorder.files:
        with wb.open(path) as capture:
            assert all(problem and problem in one for one in capture.verify())
            rows += list(capture)
    return rows


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_inputs_and_outputs_bit_for_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    scores = matrix(4, 300, 1, dtype)
    scores[0, 0], scores[1, 1], scores[2, 2] = -0.0, float("inf"), float("-inf")
    lengths = [300, 10, 17, 0]
    with wb.record(tmp_path, rows="all", step=3, layer=4, model="m", request="r") as recorder:
        output = persistent(scores, lengths, 16)
    rows = opened(recorder)
    assert [bits(row.scores) for row in rows] == [bits(one) for one in scores]
    assert [row.indices.tolist() for row in rows] == output.tolist()
    assert [row.length for row in rows] == lengths
    call = rows[0].call
    assert (call.op, call.k, call.rows, call.width, call.stride) == ("vllm.persistent_topk", 16, 4, 300, 300)
    assert (call.max_seq_len, call.step, call.layer, call.model, call.request) == (300, 3, 4, "m", "r")
    assert (call.device, call.release, call.rank, call.next_n) == ("cpu", None, None, None)
    assert rows[0].batch.tolist() == lengths


def test_views_that_are_not_contiguous(tmp_path: Path) -> None:
    wide = matrix(6, 640, 2)
    scores = wide[::2, 16:316]
    with wb.record(tmp_path, rows="all") as recorder:
        output = persistent(scores, [300, 200, 100], 8, "cooperative_topk")
    rows = opened(recorder)
    assert [bits(row.scores) for row in rows] == [bits(one) for one in scores]
    assert [row.indices.tolist() for row in rows] == output.tolist()
    assert (rows[0].call.op, rows[0].call.width, rows[0].call.stride) == ("vllm.cooperative_topk", 300, 1280)


def test_inputs_are_those_of_before_the_call(tmp_path: Path) -> None:
    """A caller that reuses its buffers after every call changes nothing that was taken."""
    scores, expected = matrix(2, 100, 3), []
    with wb.record(tmp_path, rows="all", flush=1000) as recorder:
        for step in range(3):
            expected.append(scores.clone())
            persistent(scores, [100, 100], 4)
            scores.copy_(matrix(2, 100, 10 + step))
    rows = opened(recorder)
    assert [bits(row.scores) for row in rows] == [bits(one) for scores in expected for one in scores]


def test_prefill_has_starts(tmp_path: Path) -> None:
    scores = matrix(3, 400, 4)
    starts = torch.tensor([0, 50, 399], dtype=torch.int32)
    ends = torch.tensor([400, 90, 400], dtype=torch.int32)
    indices = torch.zeros(3, 8, dtype=torch.int32)
    with wb.record(tmp_path, rows="all") as recorder:
        torch.ops._C.top_k_per_row_prefill(scores, starts, ends, indices, 3, 400, 1, 8)
    rows = opened(recorder)
    assert [(row.start, row.length) for row in rows] == [(0, 400), (50, 40), (399, 1)]
    assert [row.indices.tolist() for row in rows] == indices.tolist()
    assert rows[1].call.op == "vllm.top_k_per_row_prefill"


def test_decode_gives_each_row_of_a_request_its_length(tmp_path: Path) -> None:
    scores = matrix(8, 200, 5)  # two rows more than are launched
    lengths = torch.tensor([200, 30, 1], dtype=torch.int32)
    indices = torch.zeros(8, 4, dtype=torch.int32)
    with wb.record(tmp_path, rows="all") as recorder:
        torch.ops._C.top_k_per_row_decode(scores, 2, lengths, indices, 6, 200, 1, 4)
    rows = opened(recorder)
    assert [row.length for row in rows] == [199, 200, 29, 30, 0, 1]
    assert (rows[0].call.next_n, rows[0].call.rows) == (2, 6)
    assert [row.indices.tolist() for row in rows] == indices[:6].tolist()


def test_decode_reads_rows_at_the_strides_it_is_told(tmp_path: Path) -> None:
    scores = matrix(4, 200, 6)
    indices = torch.zeros(2, 4, dtype=torch.int32)
    with wb.record(tmp_path, rows="all") as recorder:
        torch.ops._C.top_k_per_row_decode(scores, 1, torch.tensor([200, 200], dtype=torch.int32), indices, 2, 400, 1, 4)
    assert [bits(row.scores) for row in opened(recorder)] == [bits(scores[0]), bits(scores[2])]


def test_ragged_outputs_become_positions(tmp_path: Path) -> None:
    scores, k = matrix(2, 3000, 7), 2048
    lengths = torch.tensor([2900, 100], dtype=torch.int32)
    starts = torch.tensor([40, 3], dtype=torch.int32)
    plain, moved = torch.zeros(2, k, dtype=torch.int32), torch.zeros(2, k, dtype=torch.int32)
    with wb.record(tmp_path, rows="all", ops="sglang.*") as recorder:
        torch.ops.sgl_kernel.fast_topk(scores, plain, lengths, starts)
        torch.ops.sgl_kernel.fast_topk_transform_ragged_fused(
            scores, lengths, moved, torch.tensor([1000, 5], dtype=torch.int32), starts
        )
    rows = opened(recorder)
    called = ["sglang.fast_topk_v2", "sglang.fast_topk_transform_ragged_fused"]
    assert [row.call.op for row in rows] == [op for op in called for _ in range(2)]
    assert [row.indices.tolist() for row in rows] == plain.tolist() * 2
    assert [(row.start, row.length) for row in rows[:2]] == [(40, 2900), (3, 100)]
    assert bool((moved[0] >= 1000).all())


@pytest.mark.parametrize("tables", [3, 2])
def test_page_table_outputs_become_positions(tmp_path: Path, tables: int) -> None:
    scores, k = matrix(3, 2500, 8), 2048
    lengths = torch.tensor([2500, 2400, 7], dtype=torch.int32)
    pages = torch.stack([torch.randperm(5000, generator=torch.Generator().manual_seed(at))[:2500] for at in range(3)])
    table = pages[:tables].to(torch.int32)
    bounds = torch.tensor([0, 1, 2, 3] if tables == 3 else [0, 2, 3], dtype=torch.int32)
    out, plain = torch.zeros(3, k, dtype=torch.int32), torch.zeros(3, k, dtype=torch.int32)
    torch.ops.sgl_kernel.fast_topk(scores, plain, lengths, None)
    with wb.record(tmp_path, rows="all") as recorder:
        torch.ops.sgl_kernel.fast_topk_transform_fused(scores, lengths, out, table, bounds, None)
    assert [row.indices.tolist() for row in opened(recorder)] == plain.tolist()


def fused(table: torch.Tensor, seed: int, out: torch.Tensor | None = None) -> torch.Tensor:
    """Calls the op that looks its selection up in page tables, each row in its own; what it returned."""
    rows = len(table)
    out = torch.zeros(rows, 2048, dtype=torch.int32) if out is None else out
    bounds = torch.arange(rows + 1, dtype=torch.int32)
    lengths = torch.full((rows,), 2500, dtype=torch.int32)
    torch.ops.sgl_kernel.fast_topk_transform_fused(matrix(rows, 2500, seed), lengths, out, table, bounds, None)
    return out


def test_what_a_table_with_repeated_pages_gives_is_kept_as_it_is(tmp_path: Path) -> None:
    once = torch.arange(2500, dtype=torch.int32).flip(0)
    twice = once.clone()
    twice[7] = twice[3]
    with wb.record(tmp_path, rows="all") as recorder:
        out = fused(torch.stack([once, twice, twice]), 9)
    assert len(recorder.files) == 2, "positions and cache slots are in files of their own"
    rows = opened(recorder, "a page stands twice in the table")
    assert [row.mapped is None for row in rows] == [True, False, False]
    for at in (1, 2):
        mapped = rows[at].mapped
        assert mapped is not None
        assert (mapped.returned, mapped.page_size) == ("page table", 1)
        assert mapped.table is not None
        assert torch.equal(mapped.table, twice)
        assert torch.equal(rows[at].indices, out[at])
    told, *untold = wb.run(rows, engine="recorded")
    assert told.verdict == "exact"
    assert all(line.verdict is None and "stands at places 3 and 7" in line.refused for line in untold)


@pytest.mark.parametrize(
    ("transform", "returned", "length", "kept"),
    [
        (PageTable(torch.arange(10), 64), [65, 3, -1], 100, None),
        (PageTable(torch.arange(10), 64), [65, 101, -1], 100, "page table"),  # on the last page, past the length
        (PageTable(torch.arange(10), 64), [65, 300, -1], 100, "page table"),  # on a page past the length
        (PageTable(torch.arange(10), 64), [65, 9000, -1], 100, "page table"),  # on a page of no row
        (PageTable(torch.arange(10), 64), [65, -5, -1], 100, "the indices are left out"),
        (Ragged(50), [50, 149, -1], 100, None),
        (Ragged(50), [50, 150, -1], 100, "offset"),
        (Ragged(50), [50, 49, -1], 100, "offset"),
        (Ragged(50), [50, -777, 49], 100, "the indices are left out"),
        (Raw(), [0, 100, -1], 100, None),
        (Raw(), [0, -5, -1], 100, "the indices are left out"),
    ],
)
def test_outputs_are_positions_where_these_can_be_told(
    transform: Transform, returned: list[int], length: int, kept: str | None
) -> None:
    out = torch.tensor(returned, dtype=torch.int32)
    indices, mapped, why = row_positions(transform, out, length)
    assert (indices is None) == bool(why)
    assert kept is None or (mapped.returned if mapped else why).startswith(kept)
    if mapped is None and indices is not None:
        assert indices.tolist() == transform.invert(out, length).tolist()
    elif mapped is not None:
        assert indices is not None
        assert indices.tolist() == returned
        row = wb.Row(torch.zeros(600), length, call=wb.Call(k=3), indices=indices, mapped=mapped)
        (line,) = wb.run(row, engine="recorded")
        assert line.refused or (line.verdict, line.out_of_range) == ("invalid", 1)


def test_a_bad_row_is_kept_by_what_its_cache_slots_stand_for() -> None:
    row = wb.Row(
        *(torch.randn(2500), 2500),
        call=wb.Call(k=2048, op="sglang.fast_topk_transform_fused"),
        indices=torch.arange(2048, dtype=torch.int32),
        mapped=wb.Mapped("page table", torch.arange(2500, dtype=torch.int32).flip(0), 1),
    )
    assert is_bad(row)
    untold = replace(row, mapped=wb.Mapped("page table", torch.zeros(2500, dtype=torch.int32), 1))
    assert is_bad(untold) == is_bad(replace(row, indices=None, mapped=None)), "what cannot be told decides nothing"


def test_torch_topk_along_any_dimension(tmp_path: Path) -> None:
    cube = matrix(6, 50, 10).reshape(2, 3, 50)
    with wb.record(tmp_path, rows="all", ops="torch.topk") as recorder:
        last = cube.topk(5)
        first = torch.topk(cube.transpose(0, 2), 4, dim=0)
        vector = torch.topk(cube[0, 0], 3, sorted=False)
        torch.topk(cube, 5, largest=False)
        torch.topk(cube.double(), 5)
        torch.topk(cube.long(), 5)
        torch.topk(cube, 0)
    rows = opened(recorder)
    assert [row.k for row in rows] == [5] * 6 + [4] * 6 + [3]
    assert [row.indices.tolist() for row in rows[:6]] == last.indices.reshape(6, 5).tolist()
    assert bits(torch.stack([row.scores for row in rows[:6]])) == bits(cube)
    by_column = first.indices.movedim(0, -1).reshape(6, 4)
    assert [row.indices.tolist() for row in rows[6:12]] == by_column.tolist()
    assert [bits(row.scores) for row in rows[6:12]] == [bits(one) for one in cube.transpose(0, 1).reshape(6, 50)]
    assert rows[12].indices.tolist() == vector.indices.tolist()
    assert recorder.skipped == {
        "torch.topk: torch.topk of the smallest": 1,
        "torch.topk: scores of float64": 1,
        "torch.topk: scores of int64": 1,
        "torch.topk: a k that is not within the row's width": 1,
    }


def test_torch_topk_into_given_tensors(tmp_path: Path) -> None:
    scores = matrix(2, 50, 13)
    out = (torch.empty(0), torch.empty(0, dtype=torch.int64))
    with wb.record(tmp_path, rows="all") as recorder:
        torch.topk(scores, 3, out=out)
    assert [row.indices.tolist() for row in opened(recorder)] == out[1].tolist()


def test_out_of_range_indices_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A capture cannot hold them, so that the row is kept without, in a file that says so."""
    scores, lengths = torch.full((1, 100), 3.0), torch.tensor([50], dtype=torch.int32)
    output = torch.zeros(1, 4, dtype=torch.int32)
    monkeypatch.setattr(ops, "select", lambda row, k: torch.tensor([1, 2, 3, 77], dtype=torch.int32))
    with wb.record(tmp_path, rows="bad") as recorder:
        torch.ops.sgl_kernel.fast_topk(scores, output, lengths, None)
    (path,) = recorder.files
    with wb.open(path) as capture:
        assert (capture[0].indices, capture[0].length) == (None, 50)
        assert "outside their rows" in capture.info.source


def test_without_padding(tmp_path: Path) -> None:
    scores = matrix(3, 100, 11)
    with wb.record(tmp_path, rows="all", padding=False) as recorder:
        persistent(scores, [100, 40, -1], 4)
    rows = opened(recorder)
    assert [row.scores.numel() for row in rows] == [100, 40, 100]
    assert bits(rows[1].scores) == bits(scores[1, :40])
    assert rows[1].call.width == 100


def test_steps_layers_and_requests(tmp_path: Path) -> None:
    scores = matrix(1, 50, 12)
    with wb.record(tmp_path, rows="all", layer=lambda: 9) as recorder:
        for step in range(2):
            recorder.step(step)
            persistent(scores, [50], 4)
            with recorder.at(layer=1, request="a"), recorder.at(step=7):
                persistent(scores, [50], 4)
        recorder.layer(None)
        persistent(scores, [50], 4)
    found = [(row.call.step, row.call.layer, row.call.request) for row in opened(recorder)]
    assert sorted(found, key=str) == sorted(
        [(0, 9, None), (7, 1, "a"), (1, 9, None), (7, 1, "a"), (1, None, None)], key=str
    )


@pytest.mark.parametrize(
    ("view", "stride"),
    [
        (lambda wide: wide, 100),
        (lambda wide: wide[::2], 200),
        (lambda wide: wide[:1].expand(4, 100), None),  # one row, four times
        (lambda wide: wide[:, :1].expand(4, 100), None),  # one score a row
        (lambda wide: wide.reshape(100, 4).T, None),  # columns that lie together
        (lambda wide: wide.flatten().as_strided((4, 100), (7, 1)), None),  # rows that overlap
    ],
)
def test_a_stride_is_one_between_rows_that_lie_apart(tmp_path: Path, view, stride: int | None) -> None:
    scores = view(matrix(4, 100, 14))
    with wb.record(tmp_path, rows="all") as recorder:
        chosen = torch.topk(scores, 3).indices
        out = persistent(scores, [100] * len(scores), 3)
    rows = opened(recorder)
    assert [row.call.stride for row in rows] == [stride] * (2 * len(scores))
    assert [bits(row.scores) for row in rows] == [bits(one) for one in scores] * 2
    assert [row.indices.tolist() for row in rows] == [*chosen.tolist(), *out.tolist()]


def test_an_output_over_its_own_scores(tmp_path: Path) -> None:
    """Scores are those of before the call also where the op writes its result over them."""
    scores = matrix(2, 100, 15)
    expected, out = scores.clone(), scores.view(torch.int32)[:, 96:]
    with wb.record(tmp_path, rows="all") as recorder:
        torch.ops._C.persistent_topk(scores, torch.tensor([90, 90], dtype=torch.int32), out, ops.WORKSPACE, 4, 100)
    rows = opened(recorder)
    assert [bits(row.scores) for row in rows] == [bits(one) for one in expected]
    assert [row.indices.tolist() for row in rows] == out.tolist()


@pytest.mark.parametrize("fill", [-1, 2**31 - 1])
@pytest.mark.parametrize("moved", [False, True])
def test_deep_select(tmp_path: Path, fill: int, moved: bool) -> None:
    """As vLLM calls it: keywords or not, an output that is wider than k, another number in the slots past a row."""
    scores, end = matrix(3, 256, 16), torch.tensor([256, 40, 3], dtype=torch.int32)
    out = torch.full((4, 16), -7, dtype=torch.int32)
    offset = torch.tensor([100, 0, 7], dtype=torch.int32) if moved else None
    more = (False, False, None, out, offset, fill, float("-inf"), False, False)
    with wb.record(tmp_path, rows="all") as recorder:
        torch.ops.deep_select.topk(scores, 12, None, end, *more)
        torch.ops.deep_select.topk(scores, topk=12, begin=None, end=None, **dict(zip(DEEP, more, strict=True)))
    rows = opened(recorder)
    assert [(row.call.op, row.k, row.length) for row in rows] == [
        ("vllm.deep_select", 12, length) for length in (256, 40, 3, 256, 256, 256)
    ]
    assert [row.indices.tolist() for row in rows] == [
        ops.select(one[:length], 12).tolist()
        for length in (256, None)
        for one, length in zip(scores, end.tolist() if length else [256] * 3, strict=True)
    ]
    (line,) = wb.run(rows[0], engine="recorded", paths="reached", release="vllm==0.33.0", device="b200")
    assert (line.verdict, line.path) == ("exact", "sglang.deep_select")
