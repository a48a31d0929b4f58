"""What the driver is told and asked of clusters, without a driver."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from workbench.capture.row import Call, Row
from workbench.engines.base import Task
from workbench.engines.cuda import clusters, engine, launch
from workbench.engines.cuda.compile import Built, Facts
from workbench.engines.cuda.device import Limits
from workbench.engines.registry import get_engine
from workbench.errors import UsageError
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import get_path

KERNEL = SimpleNamespace(kernel=SimpleNamespace(ptr=4711))


class Driver:
    """Answers as the driver does: an error code, the number through the pointer."""

    def __init__(self, code: int, count: int) -> None:
        self.code, self.count = code, count
        self.seen: tuple[Any, ...] = ()
        self.cuOccupancyMaxActiveClusters = self.ask

    def ask(self, found: Any, function: Any, config: Any) -> int:
        told = ctypes.cast(config, ctypes.POINTER(clusters.LaunchConfig)).contents
        dimension = told.attributes.contents
        cluster = (told.count, dimension.id, list(dimension.value)[:3])
        self.seen = (function.value, list(told.grid), list(told.block), told.shared_bytes, told.stream, cluster)
        ctypes.cast(found, ctypes.POINTER(ctypes.c_int)).contents.value = self.count
        return self.code


def test_how_many_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(0, 7)
    monkeypatch.setattr(clusters, "_driver", lambda: driver)
    assert clusters.clusters_at_once(KERNEL, 16, 1024, 155824) == 7
    assert driver.seen == (4711, [16, 1, 1], [1024, 1, 1], 155824, None, (1, 4, [16, 1, 1]))
    # As the header of the driver lays them out, on 64 bits.
    assert (ctypes.sizeof(clusters.LaunchConfig), ctypes.sizeof(clusters.Attribute)) == (56, 72)
    driver.code = 719
    told = "the driver does not say how many clusters of 16 blocks of 1024 threads and 155824 bytes are resident: "
    with pytest.raises(UsageError, match=f"{told}error 719"):
        clusters.clusters_at_once(KERNEL, 16, 1024, 155824)
    monkeypatch.setattr(clusters, "_driver", SimpleNamespace)  # from before clusters
    with pytest.raises(UsageError, match=f"{told}.*cuOccupancyMaxActiveClusters"):
        clusters.clusters_at_once(KERNEL, 16, 1024, 155824)


@pytest.mark.parametrize(("blocks", "asked"), [(2, []), (8, []), (16, [(4711, 14, 1)])])
def test_more_than_eight_blocks_are_asked_for(blocks: int, asked: list[tuple[int, int, int]]) -> None:
    calls: list[tuple[int, int, int]] = []
    cupy = SimpleNamespace(
        cuda=SimpleNamespace(driver=SimpleNamespace(funcSetAttribute=lambda *given: calls.append(given)))
    )
    clusters.allow_size(cupy, KERNEL, blocks)
    assert calls == asked


@pytest.mark.parametrize(
    ("limits", "fit", "told"),
    [
        (
            Limits("NVIDIA GB10", (12, 1), 48, 99 * 1024),
            3,
            "has compute capability 12.1, the kernel needs clusters of 16",
        ),
        (
            Limits("NVIDIA A100", (8, 0), 108, 163 * 1024),
            3,
            "has compute capability 8.0, the kernel needs clusters of 16",
        ),
        (Limits("NVIDIA H200", (9, 0), 132, 1000), 3, "a block needs 155840 bytes of shared memory"),
        (
            Limits("NVIDIA H200", (9, 0), 10, 232448),
            0,
            "NVIDIA H200 has no room for a cluster of 16 blocks with 155840",
        ),
        (Limits("NVIDIA H200", (9, 0), 132, 232448), 7, None),
    ],
)
def test_what_a_device_has_no_clusters_for(
    limits: Limits, fit: int, told: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    built = Built(tmp_path / "x.cubin", Facts(155840, 64, 0))
    monkeypatch.setattr(engine, "unavailable", list)
    monkeypatch.setattr(engine, "_device_of", lambda scores: torch.device("cuda", 0))
    monkeypatch.setattr(launch, "limits_of", lambda index: limits)
    monkeypatch.setattr(launch, "build", lambda *given, **more: built)
    monkeypatch.setattr(launch, "_clusters", lambda *given: fit)
    launch._needs.cache_clear()
    row = Row(torch.zeros(20000), 20000, call=Call(width=20000))
    refusals = get_engine("cuda").refusals(Task(row, 512, Arrival(), get_path("vllm.cooperative_16"), "stock"))
    launch._needs.cache_clear()
    assert (told is None) == (refusals == [])
    assert told is None or told in refusals[0]
