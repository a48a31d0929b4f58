"""What single kernel families do on a device beside selecting: several blocks a row, graphs, garbage, bounds."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tests.kernels.expected import check
from tests.kernels.test_families import near_the_padding, sampled_rows, tied_rows
from tests.kernels.test_support import POISON, amax_rows, check_amax, check_table, selections
from workbench.capture.row import Call, Row
from workbench.engines.base import Task
from workbench.engines.cuda import support
from workbench.engines.cuda.compile import build
from workbench.engines.cuda.device import limits_of
from workbench.engines.cuda.engine import CudaEngine
from workbench.engines.cuda.launch import launch
from workbench.engines.cuda.launched import Launched
from workbench.errors import UsageError
from workbench.numeric.keys import value_keys
from workbench.paths.arrival import Arrival
from workbench.paths.blocks import block_count
from workbench.paths.catalog import get_path
from workbench.paths.devices import get_device
from workbench.paths.own_variants import RADIX_FROM, SPLIT_FROM
from workbench.paths.selection import UNWRITTEN, Selection
from workbench.paths.spec import Path

pytest.importorskip("cupy", reason="CuPy is not installed (extras cuda12, cuda13)")

ROOM = 1 << 16  # dropped members of a row that are listed
GUARD = 4096


BUILDS = [  # that are launched here
    ("vllm.per_row", "stock"),
    ("vllm.radix", "stock"),
    ("flashinfer.radix", "deterministic"),
    ("vllm.sampled", "stock"),
    ("sglang.bf16_small", "stock"),
    ("sglang.bf16_small", "approximate_13_bit"),
    ("tilelang.topk_selector", "stock"),
    ("sglang.coop", "stock"),
    ("sglang.rocm_coop", "stock"),
]


@pytest.fixture(scope="session", autouse=True)
def _built(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A cache of these tests' own, filled by all cores."""
    arch = limits_of(0).arch
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(os.cpu_count()) as pool:
        patch.setenv("TOPK_WORKBENCH_KERNELS", str(tmp_path_factory.mktemp("kernels")))
        wanted = [(get_path(name), variant, told) for name, variant in BUILDS for told in (True, False)]
        list(pool.map(lambda one: build(one[0], one[1], arch, telemetry=one[2]), wanted))
        yield


def on_device(lengths: list[int]) -> torch.Tensor:
    return torch.tensor(lengths, dtype=torch.int32, device="cuda")


def agree(
    path: Path,
    variant: str,
    rows: torch.Tensor,
    lengths: list[int],
    k: int,
    starts: list[int] | None = None,
) -> Launched:
    """Launch a batch and hold every row longer than k against the model, the others against what all ops return."""
    count = len(lengths)
    guarded = torch.full((count * k + 2 * GUARD,), UNWRITTEN, dtype=torch.int32, device="cuda")
    output = guarded[GUARD : GUARD + count * k].view(count, k)
    begins = None if starts is None else on_device(starts)
    made = launch(path, variant, rows, on_device(lengths), k, starts=begins, output=output, dropped=ROOM)
    selected, reports, here = made.indices.cpu(), made.reports, rows.cpu()
    assert bool((guarded[:GUARD] == UNWRITTEN).all())
    assert bool((guarded[-GUARD:] == UNWRITTEN).all())
    first = torch.arange(k, dtype=torch.int32)
    for row, (length, start) in enumerate(zip(lengths, starts or [0] * count, strict=True)):
        if length <= k:
            assert torch.equal(selected[row], torch.where(first < length, first, -1)), (row, length)
            continue
        scores = here[row, start : start + length]
        report = reports[row]
        found = Selection(selected[row], report.telemetry)
        try:
            check(path, variant, scores, k, found, report, start=start, width=here.shape[1])
        except AssertionError as error:
            raise AssertionError(f"row {row}, k {k}, length {length}: {error}") from error
    return made


def replays(path: Path, variant: str, width: int, k: int, lengths: list[int]) -> None:
    """A launch that is captured in a graph and replayed, with other lengths and then with the scores negated."""
    rows = torch.randn(len(lengths), width, device="cuda", generator=torch.Generator("cuda").manual_seed(6))
    now = on_device([width] * len(lengths))
    output = torch.full((len(lengths), k), UNWRITTEN, dtype=torch.int32, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        launch(path, variant, rows, now, k, output=output, telemetry=False)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch(path, variant, rows, now, k, output=output, telemetry=False)
    for turn, given in enumerate((lengths, [width] * len(lengths), lengths[::-1])):
        if turn == 1:
            rows.neg_()
        now.copy_(on_device(given))
        output.fill_(UNWRITTEN)
        graph.replay()
        for row, length in enumerate(given):
            wanted, found = min(k, max(length, 0)), output[row].cpu()
            assert int((found >= 0).sum()) == wanted, (turn, row, length)
            if wanted:
                scores = rows[row, :length].cpu()
                best = value_keys(scores).sort(descending=True).values[:wanted]
                taken = value_keys(scores[found[found >= 0].long()]).sort(descending=True).values
                assert torch.equal(best, taken), (turn, row, length)


@pytest.mark.parametrize("width", [RADIX_FROM - 1, RADIX_FROM, SPLIT_FROM - 1, SPLIT_FROM])
def test_per_row_sorts_by_the_padded_width(width: int) -> None:
    path, scores = get_path("vllm.per_row"), near_the_padding(width >= SPLIT_FROM)
    rows = torch.zeros(len(scores), width)
    rows[:, 1:901] = torch.stack(list(scores.values()))
    for k in (1, 300, 500, 899):
        made = agree(path, "stock", rows.cuda(), [900] * len(rows), k, [1] * len(rows))
        assert made.geometry.blocks_a_row == (10 if width >= SPLIT_FROM else 1)


def test_the_engine_knows_the_padded_width_of_the_call() -> None:
    """A row of which a capture holds only what is valid is sorted as the op sorted it."""
    scores = near_the_padding()["-inf"]
    for width, odd in ((900, False), (RADIX_FROM, True)):
        task = Task(Row(scores, 900, call=Call(width=width)), 500, Arrival(), get_path("vllm.per_row"), "stock")
        assert CudaEngine().refusals(task) == []
        indices = CudaEngine().select(task).indices
        assert bool(((indices < 0) | (indices >= 900)).any()) == odd


@pytest.mark.parametrize("k", [512, 2048, 3000])
def test_per_row_slices(k: int) -> None:
    generator = torch.Generator().manual_seed(8)
    rows = torch.randn(6, 250_003, generator=generator)
    rows[1] = 1 + rows[1].abs() / 4096
    rows[2] = 0.5
    lengths = [250_000, 250_000, 131_072, k, k + 1, 0]
    agree(get_path("vllm.per_row"), "stock", rows.cuda(), lengths, k, [3, 0, 1, 2, 3, 0])


@pytest.mark.parametrize("width", [9000, 60_000, 210_000])
def test_per_row_in_a_graph(width: int) -> None:
    replays(get_path("vllm.per_row"), "stock", width, 512, [0, 1, 511, 512, 513, 8193, width - 1, width])


@pytest.mark.parametrize(("name", "variant"), [("vllm.radix", "stock"), ("flashinfer.radix", "deterministic")])
@pytest.mark.parametrize(("rows", "width"), [(1, 1_000_001), (4, 131_072), (8, 262_144), (32, 65_538), (200, 40_000)])
def test_groups_of_blocks_share_rows(name: str, variant: str, rows: int, width: int) -> None:
    """More rows than groups too, short and idle rows between long ones."""
    path, k, generator = get_path(name), 2048, torch.Generator().manual_seed(9)
    scores = torch.randn(rows, width, generator=generator)
    scores[rows // 2] = torch.relu(scores[rows // 2])
    lengths = torch.randint(k + 1, width - 3, (rows,), generator=generator)
    lengths[1::5], lengths[2::7], lengths[3::9] = k, 0, 1
    starts = torch.randint(0, 4, (rows,), generator=generator)
    made = agree(path, variant, scores.cuda(), lengths.tolist(), k, starts.tolist())
    groups = made.geometry.blocks // made.geometry.blocks_a_row
    assert 1 <= groups <= rows
    if variant == "deterministic":
        again = launch(path, variant, scores.cuda(), on_device(lengths.tolist()), k, starts=on_device(starts.tolist()))
        assert torch.equal(made.indices.sort(1).values, again.indices.sort(1).values)


def test_a_row_that_no_group_holds() -> None:
    scores = torch.zeros(1, 4_000_000, device="cuda")
    with pytest.raises(UsageError, match=r"takes \d+ blocks that wait for each other, .* runs \d+"):
        launch(get_path("vllm.radix"), "stock", scores, on_device([4_000_000]), 2048)


@pytest.mark.parametrize("rows", [3, 9, 300])
def test_radix_in_a_graph(rows: int) -> None:
    lengths = [0, 32769, 1, 2047, 2048, 2049, 40_000, 32768, 39_999][:rows]
    replays(get_path("vllm.radix"), "stock", 40_000, 2048, lengths * (max(rows, 9) // 9))


@pytest.mark.parametrize("length", [65_535, 65_536, 98_304, 300_001])
def test_sampled_survivors(length: int) -> None:
    path, scores = get_path("vllm.sampled"), sampled_rows(8192, length)
    rows = torch.stack(list(scores.values()))
    for k in (512, 2048):
        made = agree(
            path, "stock", torch.nn.functional.pad(rows, (3, 2)).cuda(), [length] * len(rows), k, [3] * len(rows)
        )
        if length == 300_001:
            ways = {report.telemetry.buffered for report in made.reports}
            assert ways == {True, False}


def test_sampled_in_a_graph() -> None:
    replays(get_path("vllm.sampled"), "stock", 98_307, 512, [0, 1, 511, 512, 513, 98_303, 98_304, 98_307])


def test_bf16_rows() -> None:
    """Every length up to what the registers hold, on any alignment; bits that hold NaN, and -0.0 at the cut."""
    path, k, generator = get_path("sglang.bf16_small"), 2048, torch.Generator().manual_seed(10)
    rows = torch.randn(40, 16_391, generator=generator)
    rows[3], rows[4] = torch.relu(rows[3] - 2), -torch.relu(rows[4] - 2)
    rows[5, ::7] = torch.nan
    rows[6, ::7] = -torch.nan
    lengths = torch.randint(k + 1, 16_384, (40,), generator=generator)
    lengths[:4], starts = torch.tensor([16_384, k + 1, k, 0]), torch.arange(40) % 8
    for variant in ("stock", "approximate_13_bit"):
        agree(path, variant, rows.bfloat16().cuda(), lengths.tolist(), k, starts.tolist())


def test_what_nothing_bounds_is_bounded() -> None:
    scores = 1 + 0.2 * torch.rand(3, 50_000, generator=torch.Generator().manual_seed(1))
    made = agree(get_path("tilelang.topk_selector"), "stock", scores.cuda(), [50_000, 4096, 4097], 512)
    assert [report.dropped for report in made.reports] == [50_000 - 4096, 0, 1]


def test_scores_of_another_dtype_are_refused() -> None:
    lengths = on_device([9000])
    for name, scores, told in (
        ("sglang.bf16_small", torch.zeros(1, 9000), "scores must be bfloat16"),
        ("flashinfer.filtered", torch.zeros(1, 9000).bfloat16(), "scores must be float32"),
    ):
        with pytest.raises(UsageError, match=told):
            launch(get_path(name), "stock", scores.cuda(), lengths, 512)


@pytest.mark.parametrize("name", ["sglang.coop", "sglang.rocm_coop"])
def test_ties_that_fill_the_buffer_of_a_device(name: str) -> None:
    path, length = get_path(name), 700_001
    room = path.as_variant(path.variant("stock")).buffer.slots(1)
    rows = [row for ties in (100, room, room + 1, 3 * room) for row in tied_rows(ties, length).values()]
    for k in (60, 1500):
        made = agree(path, "stock", torch.stack(rows).cuda(), [length] * len(rows), k)
        assert made.geometry.blocks == torch.cuda.get_device_properties(0).multi_processor_count
    batch = torch.randn(9, 50_003, generator=torch.Generator().manual_seed(11))
    batch[1, ::5] = torch.nan
    lengths = [50_000, 50_000, 0, 1, 2047, 2048, 2049, 33_000, 49_999]
    agree(path, "stock", batch.cuda(), lengths, 2048, [0, 1, 2, 3, 0, 1, 2, 3, 0])


def test_coop_in_a_graph() -> None:
    replays(get_path("sglang.coop"), "stock", 70_000, 2048, [0, 1, 2047, 2048, 2049, 32_769, 69_999, 70_000])


@pytest.mark.parametrize("skip", [0, 7, 8])
def test_block_amax(skip: int) -> None:
    rows, lengths = amax_rows()
    keys = block_count(rows.shape[1])
    out = torch.full((len(lengths), keys + 3), POISON, device="cuda")
    for apart in (rows.cuda(), torch.nn.functional.pad(rows, (4, 1)).cuda()[:, 4:-1]):
        check_amax(rows, lengths, skip, support.block_amax(apart, on_device(lengths), skip, out.clone()).cpu())
    assert support.block_amax(rows.cuda(), on_device(lengths)).shape == (len(lengths), keys)
    long = torch.randn(3, 1_000_000, generator=torch.Generator().manual_seed(1))
    check_amax(
        long,
        [1_000_000, 999_993, 0],
        0,
        support.block_amax(
            long.cuda(), on_device([1_000_000, 999_993, 0]), out=torch.full((3, 125_000), POISON, device="cuda")
        ).cpu(),
    )


@pytest.mark.parametrize("k", [40, 2048])
def test_candidate_blocks(k: int) -> None:
    cases = selections(k)
    ids = torch.stack([one for one, _ in cases]).cuda()
    lengths = on_device([length for _, length in cases])
    for table, outside in (
        support.candidate_blocks(ids, lengths),
        support.candidate_blocks(c := ids.clone(), lengths, c),
    ):
        for row, (selected, length) in enumerate(cases):
            check_table(selected, length, table[row].cpu(), int(outside[row]))


def test_resident_clusters() -> None:
    """As the driver answers for a device whose numbers are on record."""
    name = torch.cuda.get_device_properties(0).name
    if torch.cuda.get_device_capability(0) < (9, 0):
        with pytest.raises(UsageError, match=r"needs 9\.0"):
            support.resident_clusters(8, 2)
        return
    eight, sixteen = support.resident_clusters(8, 2), support.resident_clusters(16, 1)
    assert 0 < sixteen < eight
    if "H200" in name:
        assert (eight, sixteen) == (get_device("h200").clusters_8, get_device("h200").clusters_16)


def test_what_the_kernels_beside_the_selectors_refuse() -> None:
    lengths, scores = on_device([64]), torch.zeros(1, 64, device="cuda")
    for call, told in (
        (lambda: support.block_amax(scores.half(), lengths), "scores must be float32"),
        (lambda: support.block_amax(scores, lengths[:0]), "lengths must be int32"),
        (lambda: support.block_amax(scores, lengths, out=scores[:, :7]), "out has 7 keys a row; 8 are needed"),
        (lambda: support.candidate_blocks(scores, lengths), "selected must be int32"),
        (lambda: support.candidate_blocks(on_device([0] * 2049)[None], lengths), "k is 2049"),
        (lambda: support.resident_clusters(0, 1), "1 or more are needed"),
        (lambda: support.resident_clusters(8, 4096), "do not fit a multiprocessor"),
    ):
        with pytest.raises(UsageError, match=told):
            call()


@pytest.mark.parametrize("name", ["vllm.trivial", "sglang.trivial", "flashinfer.trivial"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rows_no_longer_than_k(name: str, dtype: torch.dtype) -> None:
    lengths, k = [0, -1, 1, 511, 512, 513], 512
    scores = torch.full((len(lengths), 520), torch.nan, dtype=dtype, device="cuda")
    made = launch(get_path(name), "stock", scores, on_device(lengths), k).indices.cpu()
    first = torch.arange(k, dtype=torch.int32)
    for row, length in enumerate(lengths):
        assert torch.equal(made[row], torch.where(first < length, first, -1) if length <= k else first * 0 + UNWRITTEN)
