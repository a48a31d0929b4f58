"""Python functions of vLLM and SGLang that select without an op of torch's dispatcher, in packages made here."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import workbench as wb
from tests.record import ops
from tests.record.ops import matrix

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
"""
CONSUMER = "from sglang.kernels.ops.attention.dsv4.topk import topk_transform_paged as taken\n"
FILES = {
    "vllm/model_executor/layers/indexer_topk.py": INDEXER,
    "sglang/kernels/ops/attention/dsv4/topk.py": SELECTORS,
    "sglang/consumer.py": CONSUMER,
}
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
