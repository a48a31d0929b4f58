"""What launches return in place of positions, on a device: every family, every mapping, every kind of short row."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import workbench as wb
from tests.kernels.expected import check, dtype_of
from tests.kernels.returned import check_returned, emissions
from workbench.engines.cuda.compile import build
from workbench.engines.cuda.device import limits_of
from workbench.engines.cuda.launch import launch
from workbench.paths.catalog import get_path
from workbench.paths.own_variants import SPLIT_FROM
from workbench.paths.selection import UNWRITTEN, Selection
from workbench.paths.spec import Path

pytest.importorskip("cupy", reason="CuPy is not installed (extras cuda12, cuda13)")
BUILDS = [  # of each source, and what leaves slots that no score fills
    ("vllm.histogram_256", "stock"),
    ("flashinfer.filtered", "stock"),
    ("vllm.histogram_4096", "deterministic"),
    ("sglang.v2_register", "stock"),
    ("sglang.v2_register", "flt_max_padding"),
    ("vllm.sampled", "stock"),
    ("sglang.bf16_small", "stock"),
    ("vllm.per_row", "stock"),
    ("vllm.radix", "stock"),
    ("sglang.coop", "stock"),
    ("vllm.cooperative_4", "stock"),
    ("sglang.v2_cluster_8", "stock"),
]


@pytest.fixture(scope="module", autouse=True)
def _built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of these tests' own, filled by all cores."""
    arch = limits_of(0).arch
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(os.cpu_count()) as pool:
        patch.setenv("TOPK_WORKBENCH_KERNELS", str(tmp_path_factory.mktemp("kernels")))
        list(pool.map(lambda one: build(get_path(one[0]), one[1], arch, maps=True), BUILDS))
        yield


GUARD = 64  # slots before and behind every row's that nobody may write


def guarded(rows: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Slots with others between them, and their view."""
    every = torch.full((rows, k + 2 * GUARD), UNWRITTEN, dtype=torch.int32, device="cuda")
    return every, every[:, GUARD : GUARD + k]


@pytest.mark.parametrize(
    ("path", "variant"),
    [(get_path(name), variant) for name, variant in BUILDS],
    ids=[" ".join(one) for one in BUILDS],
)
@pytest.mark.parametrize("wide", [False, True])
def test_every_row_is_mapped_and_nothing_else_is_written(path: Path, variant: str, wide: bool) -> None:
    if wide and path.name != "vllm.per_row":
        pytest.skip("only this path takes another way where the padded width is great")
    k, generator = min(path.ks) if path.ks else 100, torch.Generator().manual_seed(5)
    low = max(k, path.longer_than if isinstance(path.longer_than, int) else 0)
    lengths = [0, -1, 1, k - 1, k, low + 1, low + 2, low + 3, low + 300, low + 301]
    starts = [3, 0, 2, 1, 5, 0, 1, 2, 3, 7]
    rows = torch.randn(len(lengths), low + 310, generator=generator)
    rows[-2] = torch.where(rows[-2] > 2, torch.nan, rows[-2])
    rows = rows.to(dtype_of(path, variant))
    width = SPLIT_FROM if wide else rows.shape[1]
    there, begins = (torch.tensor(one, dtype=torch.int32, device="cuda") for one in (lengths, starts))
    for name, emission, mapped in emissions(lengths, "cuda"):
        (every, output), (beside, positions) = guarded(len(lengths), k), guarded(len(lengths), k)
        made = launch(
            *(path, variant, rows.cuda(), there, k),
            starts=begins,
            output=output,
            positions=positions,
            emission=emission,
            width=width,
            dropped=1 << 16,
        )
        alone = launch(path, variant, rows.cuda(), there, k, starts=begins, emission=emission, width=width)
        reports, entries, indices = made.reports, output.cpu(), positions.cpu()
        for one in (every, beside):
            assert bool((one[:, :GUARD] == UNWRITTEN).all()), name
            assert bool((one[:, GUARD + k :] == UNWRITTEN).all()), name
        for row, (length, start) in enumerate(zip(lengths, starts, strict=True)):
            found = Selection(indices[row], reports[row].telemetry, entries[row])
            check_returned(found, mapped[row], length)
            if length <= k:
                first = torch.arange(k, dtype=torch.int32)
                assert torch.equal(found.indices, torch.where(first < length, first, -1)), (name, length)
                assert torch.equal(alone.indices[row].cpu(), entries[row])
            else:
                scores = rows[row, start : start + length]
                check(path, variant, scores, k, found, reports[row], start=start, width=width)


@pytest.mark.parametrize("name", ["sglang.v2_register", "sglang.v2_cluster_8", "vllm.radix"])
def test_a_run_maps_as_the_captured_call_did(name: str) -> None:
    path, k = get_path(name), 512
    length = 66_000 if name != "sglang.v2_register" else 9000
    scores = torch.randn(length, generator=torch.Generator().manual_seed(3))
    table = torch.randperm(4000, generator=torch.Generator().manual_seed(4))[: -(-length // 64)].to(torch.int32)
    for mapped in (wb.Mapped("page table", table, page_size=64), wb.Mapped("offset", offset=70_000)):
        row = wb.Row(scores, length, call=wb.Call(k=k, width=length), mapped=mapped)
        (line,) = wb.run(row, paths=path.name, engine="cuda")
        assert line.verdict == "exact", line
