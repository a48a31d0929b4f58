"""The cluster kernels on a device, in what test_cuda_engine.py does not look at: blocks, ranks and repeats."""

from __future__ import annotations

from dataclasses import asdict

import pytest
import torch

from tests.gpu.test_cuda_engine import GUARD, ROOM, run
from tests.kernels.expected import CASES, check
from workbench.engines.cuda.device import limits_of
from workbench.engines.cuda.launch import launch, needs_of
from workbench.engines.cuda.sources import KEPT, ranks_of
from workbench.paths.catalog import get_path
from workbench.paths.devices import forms_clusters
from workbench.paths.selection import UNWRITTEN, Selection
from workbench.paths.spec import Path

pytest.importorskip("cupy", reason="CuPy is not installed (extras cuda12, cuda13)")

CLUSTERS = [case for case in CASES if ranks_of(*case) is not None]
IDS = [f"{path.name}-{variant}" for path, variant in CLUSTERS]
each_cluster = pytest.mark.parametrize(("path", "variant"), CLUSTERS, ids=IDS)
pytestmark = pytest.mark.usefixtures("own_cache", "clusters")
K = 2048
SLICE = 20000


@pytest.fixture
def clusters() -> None:
    if not forms_clusters(limits_of(torch.cuda.current_device()).capability):
        pytest.skip("the device forms no clusters: compute capability 9.0 or later, but not 12")


def known_rows(path: Path, variant: str, count: int = 4) -> torch.Tensor:
    """Rows whose threshold bin lies with the last block of the cluster, with more members than that stores."""
    ranks = ranks_of(path, variant)
    assert ranks is not None
    length, generator = ranks.count * SLICE, torch.Generator().manual_seed(8)
    scores = torch.randn(count, length, generator=generator) - 20
    own = torch.nonzero(ranks.owners(torch.arange(length), length) == ranks.count - 1).flatten()
    members = own[torch.randperm(own.numel(), generator=generator)[: max(ranks.capacity, K) + 200]]
    scores[:, members] = 1 + 0.05 * torch.rand(count, members.numel(), generator=generator)
    return scores


@each_cluster
def test_geometry(path: Path, variant: str) -> None:
    """A cluster a row, more rows than the device holds at once."""
    ranks, device = ranks_of(path, variant), torch.cuda.current_device()
    assert ranks is not None
    assert needs_of(path, variant, device, rows=300, width=17000, k=512) == []
    rows = torch.randn(300, 17000, device="cuda")
    lengths = torch.full((300,), 17000, dtype=torch.int32, device="cuda")
    made = launch(path, variant, rows, lengths, 512, telemetry=False)
    geometry = made.geometry
    print(f"{path.name} {variant} {asdict(geometry)}")
    assert (geometry.blocks, geometry.blocks_a_row) == (300 * ranks.count, ranks.count)
    assert geometry.spilled_bytes == 0
    assert geometry.resident_clusters is not None
    assert 0 < geometry.resident_clusters * ranks.count <= 2 * limits_of(device).sms
    assert torch.equal(rows.gather(1, made.indices.long()).sort().values, rows.topk(512).values.sort().values)


@each_cluster
def test_what_each_block_stores(path: Path, variant: str) -> None:
    """Every rank's numbers, where one of them has the whole bin; the selection is the model's given what is dropped."""
    ranks = ranks_of(path, variant)
    assert ranks is not None
    scores = known_rows(path, variant)
    made = run(path, variant, scores, [scores.shape[1]] * 4, K, dropped=ROOM)
    for row, report in enumerate(made.reports):
        told = report.telemetry
        assert [one.population for one in told.shares] == [0] * (ranks.count - 1) + [max(ranks.capacity, K) + 200]
        assert sum(one.stored for one in told.shares) == told.stored
        assert sum(one.dropped for one in told.shares) == report.dropped
        check(path, variant, scores[row], K, Selection(made.indices[row].cpu(), told), report)


@pytest.mark.parametrize("count", [2, 4, 8, 16])
def test_slots_that_nobody_writes(count: int) -> None:
    """All winners in one block's slice, more of them than it stores: the rest of the output keeps what it held."""
    path = get_path(f"vllm.cooperative_{count}")
    scores = known_rows(path, "stock")
    guarded = torch.full((4 * K + 2 * GUARD,), UNWRITTEN, dtype=torch.int32, device="cuda")
    output = guarded[GUARD:-GUARD].view(4, K)
    run(path, "stock", scores, [scores.shape[1]] * 4, K, output=output, telemetry=False)
    assert ((output == UNWRITTEN).sum(1) == 1024).all()
    assert bool((guarded[:GUARD] == UNWRITTEN).all())
    assert bool((guarded[-GUARD:] == UNWRITTEN).all())


@each_cluster
def test_slices_of_every_length(path: Path, variant: str) -> None:
    """From rows that leave blocks without a score to slices that no block keeps whole, at every alignment."""
    ranks, k = ranks_of(path, variant), 512
    assert ranks is not None
    whole = ranks.count * KEPT
    lengths = [k + 1, k + 2, k + 3, 4 * ranks.count * 129, whole - 1, whole, whole + 1, whole + 4001]
    starts = [0, 1, 2, 3, 1, 0, 3, 2]
    generator = torch.Generator("cuda").manual_seed(4)
    rows = torch.randn(len(lengths), max(lengths) + 8, generator=generator, device="cuda")
    first = torch.tensor(starts, dtype=torch.int32, device="cuda")
    made = run(path, variant, rows, lengths, k, starts=first, telemetry=False).indices.long()
    for row, (length, start) in enumerate(zip(lengths, starts, strict=True)):
        scores = rows[row, start : start + length]
        assert torch.equal(scores[made[row]].sort().values, scores.topk(k).values.sort().values)
        assert made[row].unique().numel() == k


def test_repeats_differ_where_a_block_overflows() -> None:
    """What arrives first is the device's to decide, in each block."""
    path = get_path("vllm.cooperative_8")
    scores = known_rows(path, "stock", 1).expand(40, -1).contiguous()
    made = run(path, "stock", scores, [scores.shape[1]] * 40, K, dropped=ROOM)
    assert {report.dropped for report in made.reports} == {K + 200 - 1024}
    assert len({tuple(report.telemetry.dropped.sort().values.tolist()) for report in made.reports}) > 1
