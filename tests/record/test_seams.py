"""Python functions of vLLM and SGLang that select without an op of torch's dispatcher, in packages made here."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import workbench as wb
from tests.kernels import emulated
from tests.kernels.emulated_device import EmulatedDevice
from tests.record import ops
from tests.record.ops import bits, matrix
from workbench.record import awaited

INDEXER = """
import torch
from tests.record import ops
class SparseIndexerTopk(torch.nn.Module):
    def __init__(self, backend):
        super().__init__()
        self.backend = backend
    def forward(self, logits, seq_lens, next_n, topk_indices, topk_tokens, max_seq_len):
        if self.backend == "persistent":
            torch.ops._C.persistent_topk(logits, seq_lens, topk_indices, ops.WORKSPACE, topk_tokens, max_seq_len)
        elif self.backend == "torch":
            topk_indices.copy_(logits.topk(topk_tokens).indices)
        elif self.backend == "broken":
            raise ValueError("no such backend")
        else:
            lengths = (seq_lens.reshape(-1, 1) + torch.arange(1 - next_n, 1)).reshape(-1)
            for row, length in enumerate(lengths.tolist()):
                topk_indices[row] = ops.select(logits[row, :length], topk_tokens)
"""
SELECTORS = """
import torch
from tests.record import ops
def _paged(scores, seq_lens, page_tables, out_page_indices, page_size, out_raw_indices):
    for row in range(scores.shape[0]):
        chosen = ops.select(scores[row, : seq_lens[row]], out_page_indices.shape[1])
        if out_raw_indices is not None:
            out_raw_indices[row] = chosen
        if page_tables is not None:
            safe = chosen.clamp(min=0).long()
            chosen = torch.where(chosen >= 0, page_tables[row][safe // page_size] * page_size + safe % page_size, -1)
        out_page_indices[row] = chosen
def topk_transform_paged(scores, seq_lens, page_tables, out_page_indices, page_size, out_raw_indices=None):
    _paged(scores, seq_lens, page_tables, out_page_indices, page_size, out_raw_indices)
def topk_transform_paged_v2(scores, seq_lens, page_tables, out_page_indices, page_size, metadata, out_raw_indices=None):
    _paged(scores, seq_lens, page_tables, out_page_indices, page_size, out_raw_indices)
def topk_transform_ragged_v2(scores, seq_lens, *, out_offsets, out_indices, row_starts=None):
    for row in range(scores.shape[0]):
        start = int(row_starts[row])
        chosen = ops.select(scores[row, start : start + seq_lens[row]], out_indices.shape[1])
        out_indices[row] = torch.where(chosen >= 0, chosen + out_offsets[row], -1)
        scores[row, start - start % 4 : start] = -torch.inf
def topk_transform_kpool_v2(
    scores, pool_lens, out, pool_size, metadata, token_seq_lens=None, page_table=None, page_size=1, out_offsets=None
):
    ops.pooled(scores, pool_lens, out, pool_size, token_seq_lens, page_table, page_size, out_offsets)
def topk_transform_kpool_ragged_v2(
    scores, pool_lens, out, pool_size, *, row_starts=None, token_seq_lens=None, page_table=None,
    page_table_row_index=None, page_size=1, out_offsets=None,
):
    table = page_table if page_table_row_index is None else page_table[page_table_row_index.long()]
    ops.pooled(scores, pool_lens, out, pool_size, token_seq_lens, table, page_size, out_offsets, row_starts)
    for row, start in enumerate([] if row_starts is None else row_starts.tolist()):
        scores[row, start - start % 4 : start] = -torch.inf
"""
POOLS = """
import torch
from tests.record import ops
def fast_kpool_topk_transform_fused(
    score, lengths, kpool, topk, page_table=None, topk_indices_offset=None, row_starts=None, seq_lens=None,
    page_table_row_index=None,
):
    columns = topk + (kpool - 1 if seq_lens is not None else 0)
    out = torch.full((score.shape[0], columns), -7, dtype=torch.int32)
    table = page_table if page_table_row_index is None else page_table[page_table_row_index.long()]
    ops.pooled(score, lengths, out, kpool, seq_lens, table, 1, topk_indices_offset, row_starts)
    return out
"""
FAST = """
import torch
from tests.record import ops
def fast_topk(score, lengths, topk, row_starts=None):
    out = torch.full((score.shape[0], topk), -7, dtype=torch.int32)
    ops._fast(score, out, lengths, row_starts)
    return out
"""
DEEP = """
import torch
from tests.record import ops
def topk(input, topk, sorted=False, begin=None, end=None, indices_type=torch.int64, sorted_index=False, hint=None,
         output_idx=None, output_idx_offset=None, idx_oob_fill_value=2147483647, value_oob_fill_value=float("-inf"),
         return_value=True, abort_when_nan_found=True):
    if output_idx is None:
        output_idx = torch.empty(input.shape[0], topk, dtype=indices_type)
    ops._deep(input, topk, begin, end, sorted, sorted_index, None, output_idx, output_idx_offset, idx_oob_fill_value,
              value_oob_fill_value, return_value, abort_when_nan_found)
    return None, output_idx
deepselect_topk = topk
def topk_page_transform(input, topk, *, page_table, page_size, end=None, sorted_index=False, output_idx=None,
                        idx_oob_fill_value=-1, abort_when_nan_found=True):
    if output_idx is None:
        output_idx = torch.empty(input.shape[0], topk, dtype=torch.int32)
    for row in range(input.shape[0]):
        chosen = ops.select(input[row] if end is None else input[row, : int(end[row])], topk)
        safe = chosen.clamp(min=0).long()
        slots = page_table[row][safe // page_size] * page_size + safe % page_size
        output_idx[row] = torch.where(chosen >= 0, slots, idx_oob_fill_value)
    return output_idx
"""
CONSUMER = "from sglang.kernels.ops.attention.dsv4.topk import topk_transform_paged as taken\n"
FILES = {
    "vllm/model_executor/layers/indexer_topk.py": INDEXER,
    "sglang/kernels/ops/attention/dsv4/topk.py": SELECTORS,
    "sglang/kernels/ops/attention/dsa/kpool_topk_transform.py": POOLS,
    "sglang/kernels/ops/attention/fast_topk.py": FAST,
    "sglang/kernels/ops/attention/deep_select.py": DEEP,
    "sglang/consumer.py": CONSUMER,
}
KPOOL = "sglang.kernels.ops.attention.dsa.kpool_topk_transform"
QSA, SELECT = "sglang.kernels.ops.attention.fast_topk", "sglang.kernels.ops.attention.deep_select"
VLLM, SGLANG = "vllm.model_executor.layers.indexer_topk", "sglang.kernels.ops.attention.dsv4.topk"


@pytest.fixture(autouse=True)
def packages(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("packages")
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(folder)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] in ("vllm", "sglang")]:
        del sys.modules[name]


@pytest.fixture(params=["all", "bad", "bad, by kernels"])
def rule(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which rows are kept; bad ones are found by passes of torch's or by the kernels, which then run on the CPU."""
    rule, _, kernels = request.param.partition(", ")
    if kernels:
        if emulated.COMPILER is None:
            pytest.skip("no C++ compiler of the host (g++ or clang++)")
        EmulatedDevice(Path(str(request.config.cache.mkdir("emulated-kernels"))), monkeypatch)
        monkeypatch.setattr(awaited, "is_fit", awaited.takes)
        monkeypatch.setattr(importlib.import_module("workbench.record.recorder"), "suspects", None)
    return rule


def indexed(backend: str, next_n: int = 1) -> torch.Tensor:
    indexer = importlib.import_module(VLLM).SparseIndexerTopk(backend)
    out = torch.zeros(4, 8, dtype=torch.int32)
    lengths = torch.tensor([60] * (4 // next_n), dtype=torch.int32)
    indexer(matrix(4, 60, 1), lengths, next_n, out, 8, 60)
    return out


def recorded(recorder) -> list[wb.Row]:
    rows = []
    for path in recorder.files:
        with wb.open(path) as capture:
            rows += list(capture)
    return rows


@pytest.mark.parametrize("loaded", [True, False])
def test_a_method_is_recorded_where_no_op_is_called(tmp_path: Path, loaded: bool) -> None:
    if loaded:
        original = importlib.import_module(VLLM).SparseIndexerTopk.forward
    with wb.record(tmp_path, rows="all") as recorder:
        out = indexed("deep_select", next_n=2)
    rows = recorded(recorder)
    assert {row.call.op for row in rows} == {"vllm.sparse_indexer_topk"}
    assert [row.indices.tolist() for row in rows] == out.tolist()
    assert [row.length for row in rows] == [59, 60, 59, 60]
    assert (rows[0].call.next_n, rows[0].call.max_seq_len) == (2, 60)
    if loaded:
        assert importlib.import_module(VLLM).SparseIndexerTopk.forward is original
    assert not hasattr(importlib.import_module(VLLM).SparseIndexerTopk.forward, "__wrapped__")


def test_an_op_under_a_seam_stands_for_it(tmp_path: Path) -> None:
    with wb.record(tmp_path, rows="all") as recorder:
        indexed("persistent")
        indexed("torch")
    assert {row.call.op for row in recorded(recorder)[:4]} == {"vllm.persistent_topk"}
    assert {row.call.op for row in recorded(recorder)[4:]} == {"vllm.sparse_indexer_topk"}
    with wb.record(tmp_path, rows="all", ops="vllm.sparse*") as recorder:
        indexed("persistent")
    assert {row.call.op for row in recorded(recorder)} == {"vllm.sparse_indexer_topk"}


def test_exceptions_pass(tmp_path: Path) -> None:
    with wb.record(tmp_path, rows="all") as recorder:
        with pytest.raises(ValueError, match="no such backend"):
            indexed("broken")
        indexed("torch")
        torch.topk(torch.arange(9.0), 2)
    assert sorted({row.call.op for row in recorded(recorder)}) == ["torch.topk", "vllm.sparse_indexer_topk"]


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("name", ["topk_transform_paged", "topk_transform_paged_v2"])
def test_paged_functions(tmp_path: Path, name: str, raw: bool) -> None:
    scores, lengths = matrix(2, 256, 2), torch.tensor([256, 100], dtype=torch.int32)
    table = torch.randperm(16, generator=torch.Generator().manual_seed(1)).reshape(2, 8).to(torch.int32)
    table = torch.cat([table, table + 100], 1)[:, ::2]
    out, positions = torch.zeros(2, 12, dtype=torch.int32), torch.zeros(2, 12, dtype=torch.int32)
    more = {"metadata": torch.zeros(3, 2, dtype=torch.int32)} if name.endswith("v2") else {}
    with wb.record(tmp_path, rows="all") as recorder:
        function = getattr(importlib.import_module(SGLANG), name)
        function(scores, lengths, table, out, 32, **more, out_raw_indices=positions if raw else None)
    rows = recorded(recorder)
    assert {row.call.op for row in rows} == {f"sglang.{name}"}
    assert [row.indices.tolist() for row in rows] == [
        ops.select(one[:length], 12).tolist() for one, length in zip(scores, lengths.tolist(), strict=True)
    ]


@pytest.mark.parametrize("rows", ["all", "bad"])
def test_a_function_that_writes_into_its_scores(tmp_path: Path, rows: str) -> None:
    scores = matrix(1, 100, 3) + 2000
    before = scores.clone()
    out = torch.zeros(1, 8, dtype=torch.int32)
    with wb.record(tmp_path, rows=rows) as recorder:
        importlib.import_module(SGLANG).topk_transform_ragged_v2(
            scores,
            torch.tensor([60], dtype=torch.int32),
            out_offsets=torch.tensor([7], dtype=torch.int32),
            out_indices=out,
            row_starts=torch.tensor([6], dtype=torch.int32),
        )
    (row,) = recorded(recorder)
    assert bool(torch.isinf(scores).any())
    assert torch.equal(row.scores, before[0])
    assert (row.start, row.length, row.indices.tolist()) == (6, 60, (out[0] - 7).tolist())


def test_modules_that_took_a_function_before(tmp_path: Path) -> None:
    consumer = importlib.import_module("sglang.consumer")
    original = consumer.taken
    with wb.record(tmp_path, rows="all") as recorder:
        assert consumer.taken is not original
        consumer.taken(matrix(1, 50, 4), torch.tensor([50]), None, torch.zeros(1, 4, dtype=torch.int32), 1)
    assert consumer.taken is original
    assert recorder.rows == 1


def pool_tables(mode: str, rows: int, tokens: int) -> dict[str, torch.Tensor]:
    """What maps tokens to something else, by the arguments of the k-pool functions."""
    shuffled = torch.randperm(rows * tokens, generator=torch.Generator().manual_seed(3)).reshape(rows, tokens)
    if mode == "offset":
        return {"topk_indices_offset": torch.tensor([5, 0, 2**20], dtype=torch.int32)}
    if mode == "rows of a table":
        index = torch.tensor([1, 0, 0], dtype=torch.int32)
        return {"page_table": shuffled[:2].to(torch.int32), "page_table_row_index": index}
    return {"page_table": shuffled.to(torch.int32)} if mode == "table" else {}


@pytest.mark.parametrize("tail", [False, True])
@pytest.mark.parametrize("mode", ["plain", "offset", "table", "rows of a table"])
def test_pools(tmp_path: Path, mode: str, tail: bool, rule: str) -> None:
    """Scores, lengths and k are of pools; the tokens that come back are those of the selected pools, and a tail."""
    scores, lengths = matrix(3, 100, 5), [100, 30, 3]
    scores[0] += 2000  # the best of this row is lost
    given = torch.tensor(lengths, dtype=torch.int32)
    seq_lens = {"seq_lens": given * 4 + torch.tensor([3, 0, 1], dtype=torch.int32)} if tail else {}
    with wb.record(tmp_path, rows=rule, release="sglang==0.5.23", device="h200") as recorder:
        function = importlib.import_module(KPOOL).fast_kpool_topk_transform_fused
        out = function(scores, given, 4, 32, **pool_tables(mode, 3, 404), **seq_lens)
    assert out.shape == (3, 35 if tail else 32)
    found = recorded(recorder)
    kept = [0, 1, 2] if rule == "all" else [0]
    assert recorder.skipped == {}
    assert [(row.call.op, row.k, row.length) for row in found] == [
        ("sglang.kpool_topk_transform", 8, lengths[at]) for at in kept
    ]
    assert [row.indices.tolist() for row in found] == [ops.select(scores[at, : lengths[at]], 8).tolist() for at in kept]


@pytest.mark.parametrize("page_size", [1, 8])
def test_pools_of_the_second_version(tmp_path: Path, page_size: int) -> None:
    scores, lengths = matrix(2, 64, 6), torch.tensor([64, 9], dtype=torch.int32)
    pages = torch.randperm(600, generator=torch.Generator().manual_seed(4)).reshape(2, 300).to(torch.int32)
    out = torch.full((2, 4 * 12 + 3), -7, dtype=torch.int32)
    with wb.record(tmp_path, rows="all") as recorder:
        importlib.import_module(SGLANG).topk_transform_kpool_v2(
            scores, lengths, out, 4, None, lengths * 4 + 2, page_table=pages, page_size=page_size
        )
    found = recorded(recorder)
    assert {(row.call.op, row.k) for row in found} == {("sglang.topk_transform_kpool_v2", 12)}
    assert [row.indices.tolist() for row in found] == [
        ops.select(one[:length], 12).tolist() for one, length in zip(scores, lengths.tolist(), strict=True)
    ]


@pytest.mark.parametrize("tail", [False, True])
@pytest.mark.parametrize("mode", ["plain", "offset", "table", "rows of a table", "pages"])
def test_ragged_pools_of_the_second_version(tmp_path: Path, mode: str, tail: bool, rule: str) -> None:
    """Pools of windows within the scores, whose cells before the window are written."""
    scores, lengths, starts = matrix(3, 120, 9), [100, 30, 3], [6, 0, 3]
    scores[0] += 2000  # the best of this row is lost
    before = scores.clone()
    given = torch.tensor(lengths, dtype=torch.int32)
    maps = {
        name.replace("topk_indices_offset", "out_offsets"): value for name, value in pool_tables(mode, 3, 404).items()
    }
    if mode == "pages":
        maps = {"page_table": pool_tables("table", 3, 64)["page_table"], "page_size": 8}  # type: ignore[dict-item]
    out = torch.full((3, 35 if tail else 32), -7, dtype=torch.int32)
    with wb.record(tmp_path, rows=rule, release="sglang==0.5.23", device="h200") as recorder:
        importlib.import_module(SGLANG).topk_transform_kpool_ragged_v2(
            scores,
            given,
            out,
            4,
            row_starts=torch.tensor(starts, dtype=torch.int32),
            token_seq_lens=given * 4 + torch.tensor([3, 0, 1], dtype=torch.int32) if tail else None,
            **maps,
        )
    assert bool(torch.isinf(scores).any())
    found = recorded(recorder)
    kept = [0, 1, 2] if rule == "all" else [0]
    assert recorder.skipped == {}
    assert [(row.call.op, row.k, row.start, row.length) for row in found] == [
        ("sglang.topk_transform_kpool_ragged_v2", 8, starts[at], lengths[at]) for at in kept
    ]
    assert [bits(row.scores) for row in found] == [bits(before[at]) for at in kept]
    assert [row.indices.tolist() for row in found] == [
        ops.select(before[at, starts[at] : starts[at] + lengths[at]], 8).tolist() for at in kept
    ]
    assert {row.mapped for row in found} == {None}


@pytest.mark.parametrize("mode", ["plain", "table"])
def test_pools_that_are_torn_apart_are_bad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, rule: str
) -> None:
    """Tokens of no whole pool are no selection: the row is kept without one, and counted as bad."""
    whole = ops.pooled

    def torn(scores: torch.Tensor, lengths: torch.Tensor, out: torch.Tensor, *more: object) -> None:
        whole(scores, lengths, out, *more)
        out[1, 2] = out[1, 9]

    monkeypatch.setattr(ops, "pooled", torn)
    with wb.record(tmp_path, rows=rule) as recorder:
        given = torch.tensor([100, 100, 100], dtype=torch.int32)
        importlib.import_module(KPOOL).fast_kpool_topk_transform_fused(
            matrix(3, 100, 5), given, 4, 32, **pool_tables(mode, 3, 404)
        )
    left_out = [row.indices is None for row in recorded(recorder)]
    assert sorted(left_out) == ([False, False, True] if rule == "all" else [True])


def test_a_row_without_a_table_is_left_out(tmp_path: Path, rule: str) -> None:
    """Which tables the others have is known, and recording goes on."""
    scores, given = matrix(3, 100, 5) + 2000, torch.tensor([100, 30, 90], dtype=torch.int32)
    maps = pool_tables("rows of a table", 3, 404)
    maps["page_table_row_index"] = torch.tensor([1, -1, 0], dtype=torch.int32)
    with wb.record(tmp_path, rows=rule) as recorder:
        importlib.import_module(KPOOL).fast_kpool_topk_transform_fused(scores, given, 4, 32, **maps)
    assert recorder.stopped == ""
    assert [row.length for row in recorded(recorder)] == [100, 90]
    assert list(recorder.skipped.values()) == [1]
    assert "row 1 uses page table -1" in "".join(recorder.skipped)


def test_what_screening_sees_of_pools() -> None:
    from workbench.record.positions import _pools

    tokens = torch.tensor([[8, 9, 10, 11, 0, 1, 2, 3], [4, 5, 6, 7, -1, -1, -1, -1], [1, 2, 3, 4, 8, 9, 10, 12]])
    assert _pools(tokens, 4).tolist() == [[0, 2], [1, -1], [-2, -2]]


@pytest.mark.parametrize("starts", [None, [0, 6]])
def test_the_function_of_qsa(tmp_path: Path, starts: list[int] | None) -> None:
    scores = matrix(2, 100, 7)
    with wb.record(tmp_path, rows="all") as recorder:
        out = importlib.import_module(QSA).fast_topk(
            scores,
            torch.tensor([90, 4], dtype=torch.int32),
            8,
            None if starts is None else torch.tensor(starts, dtype=torch.int32),
        )
    found = recorded(recorder)
    assert [(row.call.op, row.k, row.start, row.length) for row in found] == [
        ("sglang.fast_topk", 8, 0, 90),
        ("sglang.fast_topk", 8, 6 if starts else 0, 4),
    ]
    assert [row.indices.tolist() for row in found] == out.tolist()


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("name", ["topk", "deepselect_topk"])
def test_deep_select_of_sglang(tmp_path: Path, name: str, given: bool) -> None:
    """It fills slots past a row with another number than -1, and makes an output where it is given none."""
    scores, end = matrix(2, 100, 8), torch.tensor([100, 5], dtype=torch.int32)
    output = torch.empty(2, 8, dtype=torch.int64) if given else None
    with wb.record(tmp_path, rows="all") as recorder:
        _, out = getattr(importlib.import_module(SELECT), name)(scores, 8, end=end, output_idx=output)
    assert out[1, 5:].tolist() == [2**31 - 1] * 3
    found = recorded(recorder)
    assert [(row.call.op, row.length) for row in found] == [("sglang.deep_select", 100), ("sglang.deep_select", 5)]
    assert [row.indices.tolist() for row in found] == [
        ops.select(one[:length], 8).tolist() for one, length in zip(scores, end.tolist(), strict=True)
    ]


@pytest.mark.parametrize("fill", [-1, 2**31 - 1])
@pytest.mark.parametrize("given", [True, False])
def test_deep_select_through_a_page_table(tmp_path: Path, given: bool, fill: int, rule: str) -> None:
    """Cache slots are looked up in the row's table, and what fills empty slots is no slot."""
    scores, end = matrix(3, 128, 10), torch.tensor([128, 100, 5], dtype=torch.int32)
    scores[1] += 2000  # the best of this row is lost
    pages = torch.randperm(48, generator=torch.Generator().manual_seed(5)).reshape(3, 16).to(torch.int32)
    output = torch.empty(3, 8, dtype=torch.int32) if given else None
    with wb.record(tmp_path, rows=rule, release="sglang==0.5.23", device="h200") as recorder:
        function = importlib.import_module(SELECT).topk_page_transform
        out = function(scores, 8, page_table=pages, page_size=8, end=end, output_idx=output, idx_oob_fill_value=fill)
    assert out[2, 5:].tolist() == [fill] * 3
    found, kept = recorded(recorder), [0, 1, 2] if rule == "all" else [1]
    assert recorder.skipped == {}
    assert {row.call.op for row in found} == {"sglang.topk_page_transform"}
    assert [row.indices.tolist() for row in found] == [ops.select(scores[at, : end[at]], 8).tolist() for at in kept]


def test_slots_that_have_no_one_position_stay_as_they_are(tmp_path: Path) -> None:
    """A page stands twice in a row's table: the file keeps slots and table."""
    scores, pages = matrix(1, 64, 11), torch.tensor([[3, 3, 5, 6, 7, 8, 9, 10]], dtype=torch.int32)
    with wb.record(tmp_path, rows="all") as recorder:
        out = importlib.import_module(SELECT).topk_page_transform(scores, 40, page_table=pages, page_size=8)
    (row,) = recorded(recorder)
    assert row.mapped is not None
    assert row.mapped.page_size == 8
    assert row.indices.tolist() == out[0].tolist()
