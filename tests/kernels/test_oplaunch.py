"""An op's kernels on one batch, run on the CPU: together they serve every row, made again and again."""

from __future__ import annotations

from pathlib import Path as File
from typing import Any

import pytest
import torch

from tests.kernels import emulated
from tests.kernels.emulated import fewer_threads
from workbench.engines.cuda import oplaunch
from workbench.engines.cuda.oplaunch import OpLaunch
from workbench.paths.conditions import Setup
from workbench.paths.plan import heuristic
from workbench.paths.selection import UNWRITTEN
from workbench.paths.spec import Path

pytestmark = pytest.mark.skipif(emulated.COMPILER is None, reason="no C++ compiler of the host (g++ or clang++)")
K = 512


@pytest.fixture
def launched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kernels are run on the CPU; the paths of those that were, in order."""
    folder, said = File(str(request.config.cache.mkdir("emulated-kernels"))), list[str]()

    def prepare(path: Path, variant: str, scores: torch.Tensor, lengths: torch.Tensor, k: int, **more: Any) -> object:
        small, starts = fewer_threads(path), more["starts"]
        library = emulated.build(folder, small, variant)

        def run() -> None:
            said.append(path.name)
            emulated.select(
                *(library, small, variant, scores, lengths.tolist(), k),
                starts=None if starts is None else starts.tolist(),
                seed=len(said),
                spans=more["spans"],
                out=more["output"],
            )

        return run

    monkeypatch.setattr(oplaunch, "prepare", prepare)
    return said


def check(made: OpLaunch, scores: torch.Tensor, lengths: list[int], starts: list[int], left: set[int]) -> None:
    """The best of every row, and -1; of rows that are left, nothing."""
    for row, (length, start) in enumerate(zip(lengths, starts, strict=True)):
        slots = made.output[row]
        if length in left or length > scores.shape[1] - start:
            assert bool((slots == UNWRITTEN).all()), (row, length)
            continue
        wanted = min(K, max(length, 0))
        own = scores[row, start : start + max(length, 0)]
        assert int((slots >= 0).sum()) == wanted, (row, length)
        assert bool((slots[slots < 0] == -1).all()), (row, length)
        picked = own[slots[slots >= 0].long()]
        assert torch.equal(picked.sort().values, own.topk(wanted).values.sort().values), (row, length)


@pytest.mark.parametrize(
    ("op", "release", "width", "lengths", "left"),
    [
        ("vllm.persistent_topk", "vllm==0.26.0", 32800, [0, 511, 512, 513, 8192, 8193, 32768, 32769, 32800], {-1}),
        ("vllm.cooperative_topk", "vllm==0.26.0", 16400, [0, 1, 512, 513, 16384, 16385, 16400], set()),
        ("sglang.topk_transform_ragged_v2", "sglang==0.5.21", 16404, [0, 513, 16382, 16383, 16384, 16385], {-1}),
    ],
)
def test_rows_are_served_whatever_lengths_they_have_by_then(
    op: str, release: str, width: int, lengths: list[int], left: set[int], launched: list[str]
) -> None:
    lengths = [*lengths, -1, width + 1]
    rows = len(lengths)
    scores = torch.randn(rows, width, generator=torch.Generator().manual_seed(2))
    ragged = "ragged" in op
    starts = [row % 4 if ragged else 0 for row in range(rows)]
    now = torch.tensor(lengths, dtype=torch.int32)
    begins = torch.tensor(starts, dtype=torch.int32) if ragged else None
    made = OpLaunch(op, release, "h200", scores, now, K, starts=begins)
    for turn in range(3):
        if turn == 1:
            scores.neg_()
        assert made() is made.output
        check(made, scores, now.tolist(), starts, left)
        now.copy_(now.roll(1))
    assert launched == 3 * [one.path for one in made.parts.kernels]
    told = made.told(lengths, starts)
    assert [int(one.split()[1].rstrip(":")) for one in told] == [
        row for row, length in enumerate(lengths) if length in left or length > width - starts[row]
    ]
    assert all(len(one) > 20 for one in told)


def test_the_plan_is_made_anew_each_time(launched: list[str]) -> None:
    """With few rows above its threshold the cluster takes them; it is another kernel, and the same winners."""
    rows, width, clusters = 34, 66000, 30
    scores = torch.randn(1, width, generator=torch.Generator().manual_seed(4)).repeat(rows, 1)
    now = torch.full((rows,), 600, dtype=torch.int32)
    made = OpLaunch("sglang.topk_transform_paged_v2", "sglang==0.5.21", "h200", scores, now, K)
    assert [one.path for one in made.parts.kernels][-1] == "sglang.v2_cluster_8"
    for long in (2, clusters, clusters + 1):
        now[: rows - long] = 600
        now[rows - long :] = 65537 if long > 2 else 66000
        chosen = heuristic(now.tolist(), made.parts.plan)
        assert (chosen == 65536) == (long <= clusters)
        made(poison=True)
        first = max(rows - 2, 0)
        for row in (0, first, rows - 1):
            own = scores[row, : int(now[row])]
            assert torch.equal(own[made.output[row].long()].sort().values, own.topk(K).values.sort().values)
        taken = made.parts.kernels[-1].takes[[one for one, _ in made.parts.plan].index(chosen)][0]
        assert (taken[0] <= int(now[-1]) <= taken[1]) == (long <= clusters)
    fixed = Setup(static_threshold=65600)
    assert not OpLaunch(
        "sglang.topk_transform_paged_v2", "sglang==0.5.21", "h200", scores, now, K, setup=fixed
    ).parts.plan
