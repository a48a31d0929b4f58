"""Recording on a CUDA device: rows bit for bit, bad rows judged there, and a graph capture that is left alone."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import workbench as wb
from tests.record import ops
from tests.record.ops import bits, matrix


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    """An exact op for the device beside those for the CPU, that loses the best of rows above 1000."""
    library = ops.register_lossy("persistent_topk")
    yield
    library._destroy()


def call(scores: torch.Tensor, k: int = 16) -> torch.Tensor:
    output = torch.zeros(scores.shape[0], k, dtype=torch.int32, device="cuda")
    lengths = torch.full((scores.shape[0],), scores.shape[1], dtype=torch.int32, device="cuda")
    torch.ops._C.persistent_topk(scores, lengths, output, ops.WORKSPACE.cuda(), k, scores.shape[1])
    return output


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_bit_for_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    scores = matrix(6, 400, 1, dtype).cuda()[::2, 4:]
    with wb.record(tmp_path, rows="all", ops="vllm.*") as recorder:
        output = call(scores)
        scores.zero_()
    (path,) = recorder.files
    with wb.open(path) as capture:
        assert [bits(row.scores) for row in capture] == [bits(one) for one in matrix(6, 400, 1, dtype)[::2, 4:]]
        assert [row.indices.tolist() for row in capture] == output.tolist()
        assert capture[0].call.device not in (None, "cpu", "cuda")


def test_bad_rows_are_found_on_the_device(tmp_path: Path) -> None:
    expected = []
    with wb.record(tmp_path, ops="vllm.*") as recorder:
        for seed in range(4):
            scores = matrix(8, 400, seed)
            if seed == 2:
                scores[3] = 2000 + torch.arange(400)
                expected.append(bits(scores[3]))
            call(scores.cuda())
    with wb.open(recorder.files[0]) as capture:
        assert [bits(row.scores) for row in capture] == expected


def test_a_graph_is_captured_and_replayed_as_ever(tmp_path: Path) -> None:
    scores = matrix(4, 400, 5).cuda()
    torch.topk(scores, 8)
    with warnings.catch_warnings(record=True) as told, wb.record(tmp_path, rows="all") as recorder:
        warnings.simplefilter("default")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            first = torch.topk(scores, 8).indices
            second = torch.topk(scores, 4).indices
        graph.replay()
        torch.cuda.synchronize()
    assert len([one for one in told if "a CUDA graph is being captured" in str(one.message)]) == 1
    assert recorder.rows == 0
    assert recorder.skipped == {"captured into a CUDA graph": 2}
    assert torch.equal(first[:, :4], second)
