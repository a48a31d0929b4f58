"""An op's kernels for one call share its rows as routing says, whatever the lengths are when it runs."""

from __future__ import annotations

import random

import pytest
import torch

from workbench.capture.row import Call
from workbench.engines.cuda.oplaunch import LEAST, NOBODY, Parts, parts_of
from workbench.engines.cuda.planned import Planned
from workbench.engines.cuda.sources import kernel_of
from workbench.errors import UsageError
from workbench.paths.catalog import get_path
from workbench.paths.ops import OPS
from workbench.paths.plan import BLACKWELL_CAPS, HOPPER_CAPS, OLD_CAPS, Caps, heuristic
from workbench.paths.spans import RESIDUES, Asked, spans_of, with_threshold

PERSISTENT, V2 = "vllm.persistent_topk", "sglang.topk_transform_paged_v2"


def asked(op: str, release: str, rows: int, width: int, k: int = 512, bound: int | None = None) -> Asked:
    call = Call(k=k, rows=rows, width=width, stride=width, max_seq_len=bound or width, next_n=1)
    return Asked(op, release, "h200", call, "bfloat16" if op.endswith("bf16_small") else "float32")


def takers(parts: Parts, length: int, residue: int = 0, choice: int = 0) -> list[tuple[str, str]]:
    """Whose rows of this length are."""
    between = [(one, one.takes[choice][residue]) for one in parts.kernels]
    return [(one.path, one.variant) for one, (first, last) in between if first <= length <= last]


@pytest.mark.parametrize("op", [op.name for op in OPS])
def test_every_row_is_one_kernels_and_that_of_its_route(op: str) -> None:
    made = 0
    for release in next(one for one in OPS if one.name == op).releases:
        for rows, width, k in ((1, 131072, 512), (16, 40000, 2048), (40, 262144, 1024), (100, 16384, 256)):
            call = asked(op, release, rows, width, k)
            try:
                parts = parts_of(call)
            except UsageError:
                continue
            made += 1
            choices = [with_threshold(call, threshold) for threshold, _ in parts.plan] or [call]
            for at, choice in enumerate(choices):
                for residue in range(RESIDUES):
                    spans = spans_of(choice, residue, width)
                    edges = {one.least for one in spans} | {one.most for one in spans} | {width}
                    for length in sorted({edge + side for edge in edges for side in (-1, 0, 1)} - {-1, width + 1}):
                        (taker,) = takers(parts, length, residue, at)
                        route = choice.route(length, residue)
                        assert taker == (route.path, route.variant) or (
                            length <= k and taker == takers(parts, k + 1, residue, at)[0]
                        )
                    assert bool(takers(parts, -1, residue, at)) == call.leaves_empty(-1)
                    assert not takers(parts, width + 1, residue, at)
            assert all(kernel_of(get_path(one.path), one.variant) is not None for one in parts.kernels)
    assert made or op in NOT_LAUNCHED


NOT_LAUNCHED = {
    "sglang.deepseek_v4_topk_transform_512": "built for ROCm",
    "sglang.deep_select": "no kernel",
    "sglang.topk_page_transform": "no kernel",
    "vllm.deep_select": "no kernel",
    "sglang.dsa_topk_transform": "its layout is not known",
    "flashinfer.top_k_ragged_transform": "which path is not known",
}


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (asked("vllm.cooperative_topk", "vllm==0.26.0", 33, 65536), "at most 32 rows"),
        (asked(PERSISTENT, "vllm==0.26.0", 4, 65536, 100), "takes k 512, 1024 or 2048 only"),
        (asked(PERSISTENT, "vllm==0.33.0", 4, 65536), "vllm.histogram_2048 v0.33.0 has no CUDA kernel"),
        (asked("sglang.dsa_topk_transform", "sglang==0.5.21", 4, 65536), "the route depends on layout"),
        (asked("vllm.top_k_per_row_prefill", "vllm==0.26.0", 20000, 4096), "the route depends on the number of the"),
        (asked("sglang.deep_select", "sglang==0.5.21", 4, 65536), "sglang.deep_select stock has no CUDA kernel"),
    ],
)
def test_what_cannot_be_launched(call: Asked, told: str) -> None:
    with pytest.raises(UsageError) as error:
        parts_of(call)
    assert told in str(error.value)


def test_kernels_that_no_row_takes_are_left_out() -> None:
    call = asked(PERSISTENT, "vllm==0.26.0", 4, 65536)
    assert [one.path for one in parts_of(call).kernels] == ["vllm.histogram_2048", "vllm.histogram_256", "vllm.radix"]
    assert [one.path for one in parts_of(call, [9000, 40000, 9001]).kernels] == ["vllm.histogram_256", "vllm.radix"]
    assert parts_of(call).kernels[0].takes == (((0, 8192),) * RESIDUES,)


def test_a_row_that_nothing_waits_for_is_left() -> None:
    """Beyond max_seq_len the persistent kernel hangs; the launch leaves such rows as they are."""
    parts = parts_of(asked(PERSISTENT, "vllm==0.26.0", 4, 65536, bound=32768))
    assert [takers(parts, length) for length in (32768, 32769, 65536)] == [[("vllm.histogram_256", "stock")], [], []]


def test_short_calls_select_nothing() -> None:
    parts = parts_of(asked("sglang.fast_topk_v2", "sglang-kernel==0.4.6", 4, 2000, 2048))
    assert [(one.path, one.takes[0][0]) for one in parts.kernels] == [("sglang.trivial", (LEAST, 2000))]


def test_starts_decide_by_their_place() -> None:
    """A ragged row takes the registers if it fits from the aligned cell before it on."""
    parts = parts_of(asked("sglang.topk_transform_ragged_v2", "sglang==0.5.21", 4, 65536))
    registers, streaming = parts.kernels
    assert [last for _, last in registers.takes[0]] == [16384, 16383, 16382, 16381]
    assert [first for first, _ in streaming.takes[0]] == [16385, 16384, 16383, 16382]


def test_every_choice_of_the_plan() -> None:
    parts = parts_of(asked(V2, "sglang==0.5.21", 100, 262144))
    assert [one.path for one in parts.kernels] == ["sglang.v2_register", "sglang.v2_streaming", "sglang.v2_cluster_8"]
    cluster = parts.kernels[-1]
    assert [choice[0] for choice in cluster.takes] == [
        (threshold + 1, 262144) if threshold < 262144 else NOBODY for threshold, _ in parts.plan
    ]


@pytest.mark.parametrize("caps", [OLD_CAPS, HOPPER_CAPS, BLACKWELL_CAPS])
def test_the_plan_on_the_device_is_the_plans_heuristic(caps: Caps) -> None:
    chance = random.Random(1)
    tables = torch.arange(len(caps) * 6, dtype=torch.int32).view(len(caps), 3, 2)
    lengths, active = torch.zeros(150, dtype=torch.int32), torch.empty((3, 2), dtype=torch.int32)
    plan, seen = Planned(lengths, caps, tables, active), set()
    for _ in range(200):
        most = chance.choice([1000, 70000, 150000, 300000, 1_000_000])
        some = chance.randint(0, 150)
        lengths.copy_(torch.tensor([chance.randint(0, most) if at < some else 0 for at in range(150)]))
        plan()
        chosen = heuristic(lengths.tolist(), caps)
        seen.add(chosen)
        assert torch.equal(active, tables[[threshold for threshold, _ in caps].index(chosen)])
    assert len(seen) > 3
