"""Spans of a call say what the router says, length by length."""

from __future__ import annotations

import random
from itertools import product

import pytest

from workbench.capture.row import Call
from workbench.paths.conditions import ALL_LENGTHS, Setup
from workbench.paths.ops import OPS
from workbench.paths.plan import heuristic
from workbench.paths.spans import LONGEST, RESIDUES, Asked, planned, spans_of, with_threshold

WIDTHS, ROWS = (4096, 12288, 16384, 40000, 131072, 262144), (1, 4, 16, 31, 40, 100, 600)


def calls(op: str, release: str) -> list[Asked]:
    """Calls of every size, some of which the op refuses."""
    found = []
    for at, (rows, width) in enumerate(product(ROWS, WIDTHS)):
        k, bound = (512, 2048)[at % 2], (width, width, 8192, None)[at % 4]
        call = Call(k=k, rows=rows, width=width, stride=width, max_seq_len=bound, next_n=1)
        device = ("h200", "b200", "l20", "mi300x")[at // 7 % 4]
        found.append(Asked(op, release, device, call, "bfloat16" if op.endswith("bf16_small") else "float32"))
    return found


@pytest.mark.parametrize("op", [op.name for op in OPS])
def test_spans_are_the_routes_of_every_length(op: str) -> None:
    """On both sides of where they meet, and anywhere between: the conditions name every length that decides."""
    chance = random.Random(3)
    releases = next(one for one in OPS if one.name == op).releases
    for asked in [one for release in (releases[0], releases[-1]) for one in calls(op, release)]:
        start = chance.randrange(RESIDUES)
        spans = spans_of(asked, start)
        assert [one.least for one in spans] == [0, *(one.most + 1 for one in spans[:-1])]
        assert spans[-1].most == LONGEST
        for one in spans:
            between = [chance.randint(one.least, one.most) for _ in range(4)]
            usual = [length for length in (chance.randint(1, 300_000),) if one.least <= length <= one.most]
            for length in (one.least, one.most, *between, *usual):
                route = asked.route(length, start)
                assert (route.path, route.variant) == (one.path, one.variant), (asked, length)
                assert bool(one.why) == (route.path is None)


def test_a_span_beyond_the_contract_says_why() -> None:
    call = Call(k=512, rows=4, width=65536, stride=65536, max_seq_len=32768, next_n=1)
    last = spans_of(Asked("vllm.persistent_topk", "vllm==0.26.0", "h200", call))[-1]
    assert (last.least, last.path) == (32769, None)
    assert "reported to hang" in last.why


def test_a_plan_on_the_device() -> None:
    """Whatever it chooses there, the routes are those of a capture that holds all lengths."""
    call = Call(k=512, rows=100, width=262144, stride=262144, max_seq_len=262144, next_n=1)
    asked = Asked("sglang.topk_transform_paged_v2", "sglang==0.5.21", "h200", call)
    plan = planned(asked)
    assert plan[0] == (65536, 30)
    assert any(ALL_LENGTHS in one.why for one in spans_of(asked))
    for threshold, _ in plan:
        spans = spans_of(with_threshold(asked, threshold))
        assert [one.path for one in spans][-2:] == ["sglang.v2_streaming", "sglang.v2_cluster_8"]
        assert spans[-1].least == threshold + 1
        assert heuristic([threshold + 1] * 10, ((threshold, 10),)) == threshold
    for other in (
        Asked(asked.op, asked.release, "h200", Call(k=512, rows=30, width=262144, stride=262144, max_seq_len=9)),
        Asked(asked.op, asked.release, "h200", call, setup=Setup(static_threshold=70000)),
        Asked("vllm.persistent_topk", "vllm==0.26.0", "h200", call),
    ):
        assert planned(other) == ()


def test_negative_lengths() -> None:
    call = Call(k=512, rows=4, width=65536, stride=65536, max_seq_len=65536, next_n=1)
    persistent = Asked("vllm.persistent_topk", "vllm==0.26.0", "h200", call)
    assert not persistent.leaves_empty(-1)
    assert "read as 4294967295" in persistent.told(-1)
    assert "is not clamped" in persistent.told(65537)
    per_row = Asked("vllm.top_k_per_row_decode", "vllm==0.26.0", "h200", call)
    assert per_row.leaves_empty(-1)
    assert persistent.told(65536) == ""
