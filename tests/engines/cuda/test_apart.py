"""Kernels that can hang run in a process of their own: what they do there is a finding, and this process goes on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

import workbench as wb
from tests.engines.conftest import gone
from workbench.capture.row import Call, Row
from workbench.cli.main import app
from workbench.engines import timers
from workbench.engines.cuda import engine
from workbench.engines.cuda.apart import Apart, can_hang
from workbench.engines.cuda.sources import kernel_of
from workbench.engines.launch import Launch
from workbench.engines.timers import CudaTimer, Taken
from workbench.engines.timing import Sampling
from workbench.engines.worker import host
from workbench.paths.catalog import find_paths, get_path
from workbench.paths.spec import Path
from workbench.paths.transforms import PageTable
from workbench.runs.case import Case
from workbench.runs.report import Line
from workbench.runs.run import run_case

Play = Callable[[str], None]
pytestmark = pytest.mark.usefixtures("forked_workers")
WIDTH = 33000


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    """Kernels are played by a worker on the CPU, as was said before it was started."""
    monkeypatch.setattr(host, "CHILD", "tests.engines.cuda.fake_child")
    monkeypatch.setattr(engine, "unavailable", list)
    monkeypatch.setattr(engine, "needs_of", lambda *given, **more: [])
    monkeypatch.setattr(engine, "_device_of", lambda scores: torch.device("cpu"))
    processes = Apart()
    monkeypatch.setattr(engine, "APART", processes)
    yield lambda how: monkeypatch.setenv("FAKE_KERNEL", how)
    processes.close()


def row() -> Row:
    scores = torch.randn(WIDTH, generator=torch.Generator().manual_seed(1))
    call = Call(k=512, rows=1, width=WIDTH, stride=WIDTH, max_seq_len=WIDTH, op="vllm.persistent_topk")
    return Row(scores, WIDTH - 8, 3, call)


def lines(**more: object) -> list[Line]:
    return wb.run(row(), release="vllm==0.26.0", device="h200", engine="cuda", **more).lines


def test_which_kernels_can_hang() -> None:
    """Those whose blocks wait for others: several blocks a row, but for slices that never do."""
    found = {
        path.name
        for path in find_paths()
        for variant in path.variants
        if kernel_of(path, variant.name) is not None and can_hang(path, variant.name)
    }
    clusters = {f"vllm.cooperative_{count}" for count in (2, 4, 8, 16)}
    assert found == {
        *clusters,
        *("vllm.radix", "flashinfer.radix", "sglang.coop", "sglang.rocm_coop"),
        *("sglang.v2_cluster_8", "sglang.v2_cluster_16"),
    }


def test_a_selection_comes_back(play: Play) -> None:
    play("")
    made = lines(repeats=3)
    assert [(line.path, line.verdict, line.finding) for line in made] == [("vllm.radix", "exact", None)] * 3
    (worker,) = engine.APART._workers.values()
    first = worker.pid
    lines()
    assert worker.pid == first is not None
    engine.APART.close()
    assert gone(first)


def test_a_row_that_was_mapped_is_mapped_there_and_turned_back(play: Play) -> None:
    play("")
    table = torch.randperm(1000, generator=torch.Generator().manual_seed(2))[: -(-WIDTH // 64)].to(torch.int32)
    given = replace(row(), mapped=wb.Mapped("page table", table, page_size=64))
    case = Case(given, None, "vllm==0.26.0", "h200")
    (result,) = run_case(case, engine="cuda")
    assert (result.line.path, result.line.verdict, result.line.finding) == ("vllm.radix", "exact", None)
    assert result.selection is not None
    returned = PageTable(table, 64).apply(result.selection.indices, given.length)
    assert torch.equal(result.selection.returned, returned)
    assert not torch.equal(returned, result.selection.indices)


def test_what_it_does_instead_is_a_finding(play: Play) -> None:
    """One line for all repeats, no verdict, and a process that goes on: the next row gets a fresh one."""
    for how, timeout, told in (
        ("hang", 1.0, "did not return within 1 s: it hangs, or takes longer than that"),
        ("abort", None, ": the process ended by signal 6 (SIGABRT); it printed last: the driver said this"),
        ("fault", None, ": CUDA error: an illegal memory access was encountered"),
    ):
        play(how)
        (line,) = lines(repeats=5, timeout=timeout)
        assert line.finding is not None
        assert line.finding.startswith("the kernel of vllm.radix stock")
        assert line.finding.endswith(told)
        assert (line.verdict, line.refused) == (None, None)
    play("")
    (line,) = lines()
    assert line.verdict == "exact"


def test_the_command_line_tells_it(play: Play, tmp_path: os.PathLike[str]) -> None:
    play("hang")
    file = f"{tmp_path}/one.safetensors"
    wb.write(file, [row()])
    asked = ["run", file, "--engine", "cuda", "--release", "vllm==0.26.0", "--device", "h200", "--timeout", "1"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 1
    said = result.stdout
    assert "did not return" in said
    assert "the kernel of vllm.radix stock did not return within 1 s" in " ".join(said.split())


@pytest.mark.parametrize(
    "path", [get_path("vllm.histogram_2048"), get_path("sglang.v2_cluster_8").scaled(3)], ids=["one block", "scaled"]
)
def test_other_kernels_run_here(path: Path, play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """One block a row, and records that no other process knows."""
    asked = []

    def launched(path: Path, *given: object, **more: object) -> None:
        asked.append(path)
        raise NotImplementedError

    monkeypatch.setattr(engine, "launch", launched)
    with pytest.raises(NotImplementedError):
        engine.CudaEngine().select(engine.Task(row(), 512, wb.Arrival(), path, "stock"))
    assert asked == [path]


def test_one_thread_at_a_time_asks(play: Play) -> None:
    play("")
    found: list[str | None] = []
    threads = [threading.Thread(target=lambda: found.append(lines()[0].verdict)) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == ["exact"] * 4
    assert len(engine.APART._workers) == 1


def batch(lengths: list[int]) -> tuple[Launch, CudaTimer]:
    """A launch of the persistent op, and what times it, whichever paths its rows take."""
    scores = torch.randn(len(lengths), WIDTH, generator=torch.Generator().manual_seed(2))
    launch = Launch("vllm.persistent_topk", 512, scores, torch.tensor(lengths, dtype=torch.int32), WIDTH, slots=(0, 1))
    names = ["vllm.histogram_256" if length <= 32768 else "vllm.radix" for length in lengths]
    return launch, CudaTimer([Taken(get_path(name), "stock") for name in names], "vllm==0.26.0", "h200")


@pytest.mark.parametrize("lengths", [[WIDTH, WIDTH - 5], [WIDTH, 30000]], ids=["one path", "several"])
def test_they_are_timed_there_too(lengths: list[int], play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timers, "APART", engine.APART)
    monkeypatch.setattr(CudaTimer, "_refusals", lambda self, launch: [])
    play("")
    launch, timer = batch(lengths)
    answer = timer.timed(launch, Sampling(4, 2))
    assert (answer.refused, answer.fault) == ((), "")
    assert answer.times is not None
    assert len(answer.times.seconds) == 4
    assert answer.indices is not None
    for row, length in enumerate(lengths):
        best = launch.scores[row, :length].topk(512).indices.sort().values
        assert torch.equal(answer.indices[0, row].sort().values.long(), best)
    assert bool(answer.notes) == (lengths[1] == 30000)
    if lengths[1] == 30000:
        return
    engine.APART.close()
    play("fault")
    assert timer.timed(launch, Sampling(4, 2)).fault.startswith("the kernels: CUDA error: an illegal memory access")
