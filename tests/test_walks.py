"""Walks against what released ops lost of rows that are not ordered by value."""

from __future__ import annotations

from tests.walks import losses, off

BY_CHANCE = {"sglang.v2_cluster_16"}  # the order of its blocks, which nothing tells, decides most of what it loses


def test_walks_tell_what_a_row_lost_better_than_random_orders() -> None:
    found = losses()
    assert {path for path in found if off(found[path], "walks") > off(found[path], "random") / 3} <= {
        *BY_CHANCE,
        "vllm.cooperative_8",
    }
    assert all(off(lost, "walks") < 0.6 * off(lost, "random") for lost in found.values())
    assert sum(map(len, found.values())) == 140
