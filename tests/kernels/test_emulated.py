"""The kernels' logic without a GPU: their sources run on the CPU, thread by thread, and do what the models do."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path as File

import pytest
import torch

from tests.kernels import emulated
from tests.kernels.emulated import fewer_threads
from tests.kernels.expected import CASES, NAMES, check, dtype_of, rows_for, takes
from tests.kernels.returned import check_returned, emissions
from workbench.engines.cuda.oplaunch import LEAST, NOBODY
from workbench.engines.cuda.sources import ranks_of
from workbench.paths.catalog import get_path
from workbench.paths.own_variants import SPLIT_FROM
from workbench.paths.selection import UNWRITTEN
from workbench.paths.spans import LONGEST, RESIDUES
from workbench.paths.spec import Path

pytestmark = pytest.mark.skipif(emulated.COMPILER is None, reason="no C++ compiler of the host (g++ or clang++)")
SHARED, WORKSPACE = "the shared memory", "the workspace"
SLOW = (4, 16)  # blocks of a cluster; two, and three for eight, are quick
each_case = pytest.mark.parametrize(
    ("path", "variant"),
    [
        pytest.param(path, variant, marks=pytest.mark.slow if ranks is not None and ranks.count in SLOW else ())
        for path, variant in CASES
        for ranks in [ranks_of(path, variant)]
    ],
    ids=NAMES,
)
ROOM = 1 << 16  # dropped members that are listed


@pytest.fixture(scope="session")
def folder(request: pytest.FixtureRequest) -> File:
    """Where the libraries are, kept between runs; those of all kernels if all are tested."""
    where = File(str(request.config.cache.mkdir("emulated-kernels")))
    here = (item for item in request.session.items if item.path == File(__file__) and hasattr(item, "callspec"))
    params = (item.callspec.params for item in here)
    wanted = {(one["path"].name, one["variant"]) for one in params if {"path", "variant"} <= one.keys()}
    asked = [case for case in CASES if (case[0].name, case[1]) in wanted]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda case: emulated.build(where, fewer_threads(case[0]), case[1]), asked))
    return where


@each_case
def test_does_what_the_model_does(path: Path, variant: str, folder: File) -> None:
    path = fewer_threads(path)
    library = emulated.build(folder, path, variant)
    for seed, (name, scores, k) in enumerate(rows_for(path, variant)):
        if not takes(path, path.variant(variant), scores, k):
            continue
        rows = torch.nn.functional.pad(scores, (0, 5), value=1e30)[None]
        ((made, report, _),) = emulated.select(library, path, variant, rows, [scores.numel()], k, seed=seed, room=ROOM)
        try:
            check(path, variant, scores, k, made, report, width=rows.shape[1])
        except AssertionError as error:
            raise AssertionError(f"{name}, k {k}, length {scores.numel()}: {error}") from error


@each_case
def test_ragged_short_and_idle_rows(path: Path, variant: str, folder: File) -> None:
    """Windows that begin anywhere, on any alignment; rows no longer than k, or idle; whatever the launch returns."""
    path = fewer_threads(path)
    library = emulated.build(folder, path, variant)
    k, generator = min(path.ks) if path.ks else 37, torch.Generator().manual_seed(5)
    low = max(k, path.longer_than if isinstance(path.longer_than, int) else 0)
    lengths = [0, -1, 1, k - 1, k, low + 1, low + 2, low + 3, low + 300, low + 301]
    starts = [3, 0, 2, 1, 5, 0, 1, 2, 3, 7]
    rows = torch.randn(len(lengths), low + 310, generator=generator)
    rows[-2] = torch.where(rows[-2] > 2, torch.nan, rows[-2])
    rows = rows.to(dtype_of(path, variant))
    asked = [("positions", None, [None] * len(lengths)), *emissions(lengths)]
    for seed, (name, emission, mapped) in enumerate(asked):
        found = emulated.select(
            library, path, variant, rows, lengths, k, starts=starts, seed=seed, room=ROOM, emission=emission,
            beside=emission is not None,
        )  # fmt: skip
        for row, (length, start, (made, report, _)) in enumerate(zip(lengths, starts, found, strict=True)):
            try:
                if (how := mapped[row]) is not None:
                    check_returned(made, how, length)
                if length <= k:
                    first = torch.arange(k, dtype=torch.int32)
                    assert torch.equal(made.indices, torch.where(first < length, first, -1))
                    assert report.telemetry.threshold_bin is None
                else:
                    scores, width = rows[row, start : start + length], rows.shape[1]
                    check(path, variant, scores, k, made, report, start=start, width=width)
            except AssertionError as error:
                raise AssertionError(f"{name}, row {row}, length {length}: {error}") from error


@each_case
def test_a_launch_takes_the_rows_of_its_lengths(path: Path, variant: str, folder: File) -> None:
    """Given all rows of a call it serves its own, by length and by where they start, and leaves the others alone."""
    path = fewer_threads(path)
    library = emulated.build(folder, path, variant)
    k, generator = min(path.ks) if path.ks else 37, torch.Generator().manual_seed(6)
    low = max(k, path.longer_than if isinstance(path.longer_than, int) else 0)
    lengths = [-1, 0, k, low + 1, low + 2, low + 3, low + 9, low + 1, low + 2, 0, -1, low + 2, low + 8, low + 9]
    starts = [0, 0, 0, 0, 0, 0, 0, 1, 5, 1, 1, 2, 2, 2]
    takes = [(k, low + 2), (LEAST, low + 1), (low, LONGEST), NOBODY]
    rows = torch.randn(len(lengths), low + 10, generator=generator).to(dtype_of(path, variant))
    out, seen = torch.full((len(lengths), k), 7_777_777, dtype=torch.int32), set()
    spans = torch.tensor(takes, dtype=torch.int32)
    found = emulated.select(
        library, path, variant, rows, lengths, k, starts=starts, seed=3, room=ROOM, spans=spans, out=out
    )
    for row, (length, start) in enumerate(zip(lengths, starts, strict=True)):
        first, last = takes[start % RESIDUES]
        mine = first <= length <= last and start + length <= rows.shape[1]
        seen.add((start % RESIDUES, mine))
        made, report, histogram = found[row]
        assert torch.equal(made.indices, out[row])
        if not mine:
            assert bool((out[row] == 7_777_777).all()), (length, start)
            assert report.telemetry.threshold_bin is None
            assert not histogram.any()
        elif length <= k:
            first_k = torch.arange(k, dtype=torch.int32)
            assert torch.equal(out[row], torch.where(first_k < length, first_k, -1))
        else:
            scores = rows[row, start : start + length]
            check(path, variant, scores, k, made, report, start=start, width=rows.shape[1])
    assert seen == {(residue, mine) for residue in range(3) for mine in (True, False)}


@pytest.mark.parametrize(
    "name",
    ["vllm.histogram_256", "vllm.histogram_4096", "sglang.v2_register", "vllm.cooperative_2", "sglang.v2_cluster_8"],
)
def test_a_build_without_telemetry_selects_the_same(name: str, folder: File) -> None:
    path = fewer_threads(get_path(name))
    for _, scores, k in list(rows_for(path, "stock"))[:4]:
        if not takes(path, path.variant("stock"), scores, k):
            continue
        told, quiet = (
            emulated.select(
                emulated.build(folder, path, "stock", telemetry=telemetry),
                path,
                "stock",
                scores[None],
                [scores.numel()],
                k,
            )[0]
            for telemetry in (True, False)
        )
        assert quiet[1].telemetry.threshold_bin is None
        assert not quiet[2].any()
        assert torch.equal(told[0].indices.sort().values, quiet[0].indices.sort().values) or told[1].dropped


def test_a_row_that_the_registers_do_not_hold_stays_unwritten(folder: File) -> None:
    path = fewer_threads(get_path("vllm.histogram_4096"))
    library = emulated.build(folder, path, "stock")
    rows = torch.randn(1, 32769)
    ((made, _, _),) = emulated.select(library, path, "stock", rows, [32769], 512)
    assert (made.indices == UNWRITTEN).all()


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ("if (threadIdx.x > 0) __syncthreads();", "different barriers"),
        ("reinterpret_cast<unsigned char*>(&shared)[sizeof(Shared) + 8] = 1;", "past the shared memory"),
    ],
)
def test_the_emulation_finds_faults(
    broken: str, told: str, folder: File, tmp_path: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no use if a kernel with a fault passes it."""
    path = fewer_threads(get_path("vllm.histogram_256"))
    for source in emulated.kernels_dir().iterdir():
        (tmp_path / source.name).write_text(source.read_text())
    kernel = tmp_path / "stash.cu"
    text = kernel.read_text()
    kernel.write_text(text.replace("Recorder recorder(call", f"{broken} Recorder recorder(call"))
    assert kernel.read_text() != text
    monkeypatch.setattr(emulated, "kernels_dir", lambda: tmp_path)
    library = emulated.build(tmp_path / "built", path, "stock", runtime=folder)
    with pytest.raises(AssertionError, match=told):
        emulated.select(library, path, "stock", torch.randn(1, 9000), [9000], 512)


RACES = [  # a barrier, a fence or an atomic that is left out, and where that is seen: once on each kind of memory
    ("v2_cluster.cu", "__syncthreads();  // all have read it", "", "sglang.v2_cluster_8 stock", SHARED),
    ("v2.cu", "__syncthreads();  // all have read the count", "", "sglang.v2_register flt_max_padding", SHARED),
    ("register.cu", "raise(&shared.outside)", "shared.outside = 1", "vllm.histogram_4096 recovery", SHARED),
    ("per_row.cu", "    __threadfence();\n    shared.last", "    shared.last", "vllm.per_row stock", WORKSPACE),
    ("per_row.cu", "    __threadfence();\n  }", "  }", "vllm.per_row stock", WORKSPACE),
    ("group.cuh", "__threadfence();\n      atomicAdd(arr", "atomicAdd(arr", "vllm.radix stock", WORKSPACE),
    ("coop.cu", "  group.wait();\n", "", "sglang.coop stock", WORKSPACE),
    (
        "histogram.cuh",
        "  __syncthreads();\n  return counts.loc",
        "  return counts.loc",
        "vllm.histogram_256 stock",
        SHARED,
    ),
    ("block.cuh", "__syncthreads();  // an earlier sum", "//", "vllm.histogram_4096 deterministic", SHARED),
    (
        "cluster.cuh",
        "cluster_sync();\n  const int share",
        "__syncthreads();\n  const int share",
        "vllm.cooperative_2 stock",
        SHARED,
    ),
    (
        "search.cuh",
        "atomicAdd(&counts.of[(key >> shift) & mask], 1)",
        "++counts.of[(key >> shift) & mask]",
        "vllm.histogram_256 detect_rescan",
        SHARED,
    ),
]


@pytest.mark.parametrize(
    ("source", "sound", "broken", "case", "where"),
    RACES,
    ids=[f"{one[0]}-{at}" for at, one in enumerate(RACES)],
)
def test_the_emulation_finds_races(
    source: str,
    sound: str,
    broken: str,
    case: str,
    where: str,
    folder: File,
    tmp_path: File,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever order the threads ran in."""
    name, variant = case.split()
    path = fewer_threads(get_path(name))
    for one in emulated.kernels_dir().iterdir():
        text = one.read_text()
        (tmp_path / one.name).write_text(text.replace(sound, broken) if one.name == source else text)
        assert one.name != source or sound in text
    monkeypatch.setattr(emulated, "kernels_dir", lambda: tmp_path)
    library = emulated.build(tmp_path / "built", path, variant, runtime=folder)
    length = max(9001, path.longer_than + 1 if isinstance(path.longer_than, int) else 0)
    rows = torch.randn(3, length, generator=torch.Generator().manual_seed(1))
    rows[1] = torch.where(rows[1] > 3, rows[1], -torch.inf)
    rows[2] = 1 + rows[2].abs() / 100  # all of them ties
    wide = torch.nn.functional.pad(rows, (0, SPLIT_FROM)) if source == "per_row.cu" else rows
    with pytest.raises(AssertionError, match=rf"a race in {where}.* in \w+\.cuh?:\d+"):
        emulated.select(library, path, variant, wide, [length, length, length], 512)


@pytest.mark.parametrize(
    ("sound", "broken", "told"),
    [
        ("cluster_sync();  // the first block is not to end", "__syncthreads();  //", "a block that may have ended"),
        ("cluster_sync();  // all have read them", "__syncthreads();", "a block that may have ended|a race in"),
        ("shared.equal = 0;", "shared.equal = 0 * load_from(&shared.ties, LEADER);", "a block that had not begun"),
        ("load_from(&shared.written, LEADER)", "load_from(&shared.written + sizeof(Shared), LEADER)", "reached past"),
        ("cluster_sync();  // the first block's ties", "if (rank == 1) cluster_sync();  //", "different barriers"),
    ],
)
def test_the_emulation_finds_faults_between_blocks(
    sound: str, broken: str, told: str, folder: File, tmp_path: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, variant = fewer_threads(get_path("sglang.v2_cluster_8")), "exact_fallback"
    for source in emulated.kernels_dir().iterdir():
        text = source.read_text()
        (tmp_path / source.name).write_text(text.replace(sound, broken) if source.name == "v2_cluster.cu" else text)
    assert broken in (tmp_path / "v2_cluster.cu").read_text()
    monkeypatch.setattr(emulated, "kernels_dir", lambda: tmp_path)
    library = emulated.build(tmp_path / "built", path, variant, runtime=folder)
    rows = torch.randn(12, 9000, generator=torch.Generator().manual_seed(1))
    rows[:8] = 1 + rows[:8].abs() / 100  # all of them ties

    def run() -> None:
        for seed in range(12):  # one order of the threads may hide it
            emulated.select(library, path, variant, rows, [9000] * 12, 512, seed=seed)

    with pytest.raises(AssertionError, match=told):
        run()


def test_a_library_that_does_not_compile_is_told(tmp_path: File, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stash.cu").write_text("this is no C++")
    monkeypatch.setattr(emulated, "kernels_dir", lambda: tmp_path)
    with pytest.raises(subprocess.CalledProcessError):
        emulated.build(tmp_path / "built", get_path("vllm.histogram_256"), "stock")
