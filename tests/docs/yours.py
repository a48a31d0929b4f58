"""Stand-ins for what the documentation calls a user's own: a program, selectors, dumps, runs, a capture."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.diverging import lossy, make_run
from workbench.capture import Call, Row, write_capture

DECODE = """
import torch

library = torch.library.Library("sgl_kernel", "DEF")
library.define("fast_topk(Tensor score, Tensor indices, Tensor lengths, Tensor? row_starts) -> ()")


def fast_topk(score, indices, lengths, row_starts):  # loses the best score of every row
    indices.copy_(score.topk(2049).indices[:, 1:])


library.impl("fast_topk", fast_topk, "CPU")
for _ in range(3):
    lengths = torch.full((2,), 9000, dtype=torch.int32)
    torch.ops.sgl_kernel.fast_topk(torch.randn(2, 9000), torch.empty(2, 2048, dtype=torch.int32), lengths, None)
"""
MINE = """
import torch


def exact(scores, k):
    return torch.topk(scores, k).indices


def fast(scores, k):  # loses the best
    return torch.topk(scores, k + 1).indices[1:]
"""


def write_yours(folder: Path) -> None:
    """Put them into a folder, under the names that the pages use."""
    (folder / "decode.py").write_text(DECODE)
    (folder / "mine.py").write_text(MINE)
    random = torch.Generator().manual_seed(0)
    torch.save(
        {"logits": torch.randn(2, 262144, generator=random), "seq_lens": torch.tensor([262144, 5000])},
        folder / "dump.pt",
    )
    (folder / "dump").mkdir()
    torch.save({"logits": torch.randn(2, 9000, generator=random), "k": 512}, folder / "dump" / "step0.pt")
    for name, run in (("run-a", make_run(rank=0)), ("run-b", make_run((2, 1), lossy))):
        (folder / name).mkdir()
        write_capture(folder / name / "rank0.safetensors", run)
    write_capture(folder / "run-a" / "rank1.safetensors", make_run(rank=1))
    call = Call(
        k=512,
        rows=2,
        width=9000,
        stride=9000,
        max_seq_len=9000,
        op="vllm.persistent_topk",
        release="vllm==0.26.0",
        device="h200",
    )
    rows = [Row(torch.rand(9000, generator=random) * 0.245 + 1, 9000, call=call) for _ in range(2)]
    write_capture(folder / "capture.safetensors", rows)
