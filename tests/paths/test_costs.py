"""What selectors were measured to take: the table is that of the measured results, and nothing is made up between."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workbench.paths.costs import MEASURED_OF, MEDIANS_US, NEAR, Cost, cost_of

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "bench-kernels-h200.json"
FILTERED = ("vllm.persistent_topk", "vllm.filtered")
TORCH = ("torch.topk", "torch.topk")


def test_the_table_is_that_of_the_measured_results() -> None:
    found = json.loads(RESULTS.read_text())
    assert found["machine"]["name"] == "NVIDIA H200"
    measured: dict[tuple[str, str], dict[tuple[int, int], dict[int, float]]] = {}
    for cell in found["cells"]:
        if cell["state"] != "measured" or cell["l2"] != "warm" or cell["engine"] == "cuda":
            continue
        if cell["engine"] == "torch.topk":
            key = TORCH
        else:
            (path,) = cell["paths"]
            key = (cell["op"], path)
            assert cell["release"] == MEASURED_OF[cell["op"].split(".")[0]]
        measured.setdefault(key, {}).setdefault((cell["rows"], cell["length"]), {})[cell["k"]] = cell["median_us"]
    assert measured == MEDIANS_US


def test_a_ratio_is_that_of_the_nearest_shape() -> None:
    found = cost_of(TORCH, FILTERED, 64, 131072, 2048)
    ratio = MEDIANS_US[TORCH][64, 131072][2048] / MEDIANS_US[FILTERED][64, 131072][2048]
    assert found == Cost(ratio, ratio, ((64, 131072),), ("torch.topk", "vllm.persistent_topk"))
    every_k = cost_of(TORCH, FILTERED, 64, 131072, 1024)
    assert every_k is not None
    assert every_k.least < every_k.most
    near = cost_of(TORCH, FILTERED, 70, 150000, 2048)
    assert near is not None
    assert near.shapes == ((64, 131072),)
    anywhere = cost_of(TORCH, FILTERED, None, 131072, 2048)
    assert anywhere is not None
    assert {rows for rows, _ in anywhere.shapes} == {64, 128, 1024}


@pytest.mark.parametrize(
    ("then", "now", "rows", "length"),
    [
        (TORCH, FILTERED, 64, int(262144 * NEAR) + 1),
        (TORCH, FILTERED, int(1024 * NEAR) + 1, 131072),
        (TORCH, FILTERED, 64, 4096),
        (TORCH, FILTERED, 64, 0),
        (TORCH, TORCH, 64, 131072),
        (("vllm.top_k_per_row_decode", "vllm.per_row"), FILTERED, 64, 131072),
        (TORCH, ("sglang.topk_transform_paged_v2", "sglang.v2_streaming"), 64, 131072),
    ],
)
def test_what_was_not_measured_has_no_ratio(
    then: tuple[str, str], now: tuple[str, str], rows: int, length: int
) -> None:
    assert cost_of(then, now, rows, length, 2048) is None


def test_ratios_of_several_rows_are_a_span() -> None:
    one, two = (cost_of(TORCH, FILTERED, 64, length, 2048) for length in (131072, 262144))
    assert one is not None
    assert two is not None
    both = one.beside(two)
    assert (both.least, both.most) == (min(one.least, two.least), max(one.most, two.most))
    assert both.shapes == ((64, 131072), (64, 262144))
    assert one.beside(None) is one
