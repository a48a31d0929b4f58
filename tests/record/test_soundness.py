"""What holds under threads, processes, compilers, other recorders and exceptions; the program is left alone."""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import workbench as wb
from tests.record import ops
from tests.record.ops import bits, matrix, persistent
from workbench.capture.folders import capture_files
from workbench.record.warned import RecordWarning

ROOT = Path(__file__).parents[2]


def rows_in(folder: Path) -> list[wb.Row]:
    found = []
    for path in capture_files(folder):
        with wb.open(path) as capture:
            assert capture.verify() == []
            found += list(capture)
    return found


def check_loop(rows: list[wb.Row], seeds: set[int]) -> None:
    """The rows of ``decode_loop`` under these seeds, each once, bit for bit."""
    expected = {}
    for seed in seeds:
        for step in range(4):
            scores = matrix(2, 200, seed * 100 + step)
            for row in range(2):
                expected[bits(scores[row])] = (step, ops.select(scores[row, : 200 - step], 16).tolist())
    found = {bits(row.scores): (row.call.step, row.indices.tolist()) for row in rows}
    assert found == expected
    assert len(rows) == len(expected)


def decode_loop(seed: int, recorder=None) -> None:
    for step in range(4):
        with recorder.at(step=step) if recorder is not None else contextlib.nullcontext():
            persistent(matrix(2, 200, seed * 100 + step), [200 - step] * 2, 16)


def test_every_thread_is_recorded(tmp_path: Path) -> None:
    ready = threading.Barrier(5)

    def work(seed: int) -> None:
        ready.wait()
        with torch.inference_mode(seed % 2 == 0):
            decode_loop(seed, recorder)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()  # before the recorder is entered
    with wb.record(tmp_path, rows="all", ops="vllm.*", flush=0) as recorder:
        ready.wait()
        for thread in threads:
            thread.join()
    check_loop(rows_in(tmp_path), set(range(4)))
    assert recorder.calls == 16


def test_threads_that_call_while_recorders_come_and_go(tmp_path: Path) -> None:
    end, failures, calls = threading.Event(), [], [0]

    def work(seed: int) -> None:
        scores = matrix(2, 50, seed)
        expected = torch.topk(scores, 4).indices
        while not end.is_set():
            calls[0] += 1
            if not torch.equal(torch.topk(scores, 4).indices, expected):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(60):
        with wb.record(tmp_path, rows="first:2", ops="torch.topk"):
            time.sleep(0.002)
    end.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert calls[0] > 100


def test_nothing_stays_in_place(tmp_path: Path) -> None:
    _python(
        f"""
        import torch, workbench as wb
        has = lambda: torch._C._dispatch_has_kernel_for_dispatch_key("aten::topk", "BackendSelect")
        assert not has()
        with wb.record({str(tmp_path)!r}):
            assert has()
        assert not has()
        """
    )


def test_what_a_thread_kept_in_place_goes_at_the_next_occasion(tmp_path: Path) -> None:
    _python(f"""
        import threading, torch, workbench as wb
        from workbench.record import dispatch
        end = threading.Event()
        thread = threading.Thread(target=end.wait); thread.start()
        with wb.record({str(tmp_path)!r}): pass
        assert "aten::topk" in dispatch.in_place()
        assert torch.topk(torch.arange(9.0), 2).indices.tolist() == [8, 7]
        end.set(); thread.join()
        with wb.record({str(tmp_path)!r}): pass
        assert dispatch.in_place() == ()
    """)


def test_ops_that_are_registered_later(tmp_path: Path) -> None:
    _python(f"""
        import torch, workbench as wb
        from tests.record import ops
        with wb.record({str(tmp_path)!r}, rows="all") as recorder:
            ops.register()
            ops.persistent(ops.matrix(1, 50, 1), [50], 4)
        assert dict(recorder.seen) == {{"vllm.persistent_topk": 1}}, recorder.seen
    """)


def test_processes_forked_within(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    with wb.record(tmp_path, rows="all", ops="vllm.*", flush=1000) as recorder:
        decode_loop(0, recorder)  # held while the others are forked, and written by this process alone
        children = [context.Process(target=decode_loop, args=(seed, recorder)) for seed in (1, 2)]
        for child in children:
            child.start()
        for child in children:
            child.join()
        assert [child.exitcode for child in children] == [0, 0]
    check_loop(rows_in(tmp_path), {0, 1, 2})
    assert len({path.name.split("-")[1] for path in capture_files(tmp_path)}) == 3


def spawned(folder: str, seed: int) -> None:
    ops.register()
    with wb.record(folder, rows="all", ops="vllm.*", flush=0, rank=seed) as recorder:
        threads = [threading.Thread(target=decode_loop, args=(10 * seed + at, recorder)) for at in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def test_a_decode_loop_in_several_processes_and_threads(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=spawned, args=(str(tmp_path), seed)) for seed in (1, 2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0]
    rows = rows_in(tmp_path)
    check_loop(rows, {10, 11, 20, 21})
    assert {row.call.rank for row in rows} == {1, 2}
    assert {path.name.partition("-")[0] for path in capture_files(tmp_path)} == {"rank1", "rank2"}


def test_recorders_side_by_side_and_within_each_other(tmp_path: Path) -> None:
    with wb.record(tmp_path / "outer", rows="all", ops="vllm.*") as outer:
        persistent(matrix(1, 50, 1), [50], 4)
        with wb.record(tmp_path / "inner", rows="all", ops="vllm.*"):
            persistent(matrix(1, 50, 2), [50], 4)
            with outer:  # once more: each call still once
                persistent(matrix(1, 50, 3), [50], 4)
        persistent(matrix(1, 50, 4), [50], 4)
    assert [bits(row.scores) for row in rows_in(tmp_path / "outer")] == [bits(matrix(1, 50, at)) for at in (1, 2, 3, 4)]
    assert [bits(row.scores) for row in rows_in(tmp_path / "inner")] == [bits(matrix(1, 50, at)) for at in (2, 3)]


def test_a_recorder_can_be_entered_again(tmp_path: Path) -> None:
    recorder = wb.record(tmp_path, rows="all", ops="vllm.*")
    for seed in (1, 2):
        with recorder:
            persistent(matrix(1, 50, seed), [50], 4)
    assert [bits(row.scores) for row in rows_in(tmp_path)] == [bits(matrix(1, 50, at)) for at in (1, 2)]


def test_what_an_op_does_within_is_its_own_business(tmp_path: Path) -> None:
    """The op's implementation here calls torch.topk, and so may callbacks of the user's."""

    def step() -> int:
        torch.topk(torch.arange(5.0), 2)
        return 1

    with wb.record(tmp_path, rows="all", step=step) as recorder:
        persistent(matrix(1, 50, 1), [50], 4)
    assert dict(recorder.seen) == {"vllm.persistent_topk": 1}


def test_exceptions_of_the_op_pass_as_they_are(tmp_path: Path) -> None:
    with wb.record(tmp_path, rows="all") as recorder:
        with pytest.raises(IndexError, match=r"^k is 13$"):
            persistent(matrix(1, 50, 1), [50], 13)
        with pytest.raises(RuntimeError, match="out of range"):
            torch.topk(matrix(1, 5, 1), 6)
        persistent(matrix(1, 50, 2), [50], 4)
    assert recorder.skipped["the op raised"] == 1
    assert recorder.rows == 1


@pytest.mark.filterwarnings("error")
def test_a_call_that_makes_no_sense_ends_nothing(tmp_path: Path) -> None:
    """What the op refuses, or takes and the recorder does not understand, is counted; the next call is recorded."""
    with wb.record(tmp_path, rows="all") as recorder:
        for dim in (7, -9):
            with pytest.raises(IndexError, match="out of range"):
                torch.topk(matrix(3, 5, 1), 2, dim=dim)
        torch.topk(torch.randn(0, 5), 2)
        torch.topk(torch.randn(3, 0), 0)
        torch.topk(torch.tensor(3.0), 0)
        with pytest.raises(NotImplementedError):
            torch.topk(matrix(3, 5, 1).to_sparse(), 2)
        torch.topk(matrix(3, 5, 1), 2)
    assert not recorder.stopped
    assert recorder.rows == 3
    assert sum(count for reason, count in recorder.skipped.items() if "arguments that cannot be read" in reason) == 2


def test_reasons_without_end_are_not_held_without_end(tmp_path: Path) -> None:
    with wb.record(tmp_path, rows="all") as recorder:
        for start in range(-200, 0):
            given = torch.tensor([start], dtype=torch.int32)
            out = torch.zeros(1, 4, dtype=torch.int32)
            torch.ops.sgl_kernel.fast_topk(matrix(1, 300, 1), out, torch.tensor([0], dtype=torch.int32), given)
    assert len(recorder.skipped) < 50
    assert sum(recorder.skipped.values()) == 200


@pytest.mark.parametrize("where", ["before", "after", "callback"])
def test_a_defect_of_the_recorder_reaches_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def broken(*_: object) -> int:
        raise RuntimeError("a defect")

    step = broken if where == "callback" else None
    with wb.record(tmp_path, rows="all", step=step) as recorder:
        if where != "callback":
            monkeypatch.setattr(recorder, {"before": "_chosen", "after": "_row"}[where], broken)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("default")
            for _ in range(3):
                output = persistent(matrix(1, 50, 1), [50], 4)
    (one,) = told
    assert one.category is RecordWarning
    assert str(one.message) == "workbench: recording stopped: RuntimeError: a defect; the program goes on"
    assert output.tolist() == [ops.select(matrix(1, 50, 1)[0], 4).tolist()]


@pytest.mark.parametrize("action", ["default", "error", "ignore"])
def test_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    synced, left = os.fsync, [2]

    def full(descriptor: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        synced(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter(action)
        with wb.record(tmp_path, rows="all", ops="vllm.*", flush=0) as recorder:
            for call in range(6):
                output = persistent(matrix(2, 50, call), [50, 50], 4)
                assert output.tolist() == [ops.select(one, 4).tolist() for one in matrix(2, 50, call)]
    words = "recording stopped: .*No space left on device; the program goes on"
    texts = [str(one.message) for one in told] + capsys.readouterr().err.splitlines()
    assert len(texts) == (0 if action == "ignore" else 1)
    assert all(re.search(words, text) for text in texts)
    assert "No space left" in recorder.stopped
    assert [bits(row.scores) for row in rows_in(tmp_path)] == [bits(one) for one in matrix(2, 50, 0)]
    assert not list(tmp_path.glob(".*")), "nothing half written is left"


def test_what_could_not_be_written_is_not_counted_as_kept(tmp_path: Path) -> None:
    """A file that may not grow beyond a bound, as on a full disk; one of two files of a write fails."""
    _python(f"""
        import resource, torch, warnings, workbench as wb
        warnings.simplefilter("ignore")
        resource.setrlimit(resource.RLIMIT_FSIZE, (40000, 40000))
        with wb.record({str(tmp_path)!r}, rows="all", ops="torch.*", flush=1000) as recorder:
            torch.topk(torch.randn(2, 1000), 3)
            torch.topk(torch.randn(3, 50000).half(), 3)
        assert (recorder.rows, recorder.calls, len(recorder.files)) == (2, 1, 1), recorder.rows
        assert recorder.skipped["a row whose file could not be written"] == 3
        assert "File too large" in recorder.stopped
    """)
    assert len(rows_in(tmp_path)) == 2


def test_a_program_that_goes_to_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with wb.record("rows", rows="all", flush=0, ops="vllm.*") as recorder:
        persistent(matrix(1, 50, 1), [50], 4)
        monkeypatch.chdir(tmp_path / "elsewhere")
        persistent(matrix(1, 50, 2), [50], 4)
    assert not recorder.stopped
    assert len(rows_in(tmp_path / "rows")) == 2


def test_a_folder_that_vanishes(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    with warnings.catch_warnings(record=True) as told, wb.record(folder, rows="all", flush=0) as one:
        warnings.simplefilter("always")
        folder.rmdir()
        assert torch.topk(torch.arange(9.0), 2).indices.tolist() == [8, 7]
    (warning,) = told
    assert "its folder does not exist" in str(warning.message)
    assert (one.rows, one.stopped[:17]) == (0, "recording stopped")
    assert not folder.exists()


@pytest.mark.parametrize("limit", [{"rows": "first:7"}, {"max_rows": 7}, {"max_calls": 3}, {"max_bytes": 7 * 212}])
def test_limits_hold_under_threads(tmp_path: Path, limit: dict[str, object]) -> None:
    ready = threading.Barrier(6)

    def work(seed: int) -> None:
        ready.wait()
        for _ in range(5):
            torch.topk(matrix(4, 50, seed), 3)

    with wb.record(tmp_path, ops="torch.topk", flush=0, **{"rows": "all", **limit}) as recorder:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(rows_in(tmp_path)) == recorder.rows == (12 if "max_calls" in limit else 7)


def test_a_call_beyond_the_limit_of_bytes_is_not_copied_whole(tmp_path: Path) -> None:
    _python(f"""
        import resource, torch, workbench as wb
        scores = torch.randn(64, 500_000)
        torch.topk(scores, 4)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with wb.record({str(tmp_path)!r}, rows="all", max_bytes="5MB", ops="torch.*") as recorder:
            torch.topk(scores, 4)
        assert recorder.rows == 2, recorder.rows
        assert recorder.stopped == "the limit of 5000000 bytes is reached"
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000, "in KiB, of 128 MB"
    """)


def test_a_process_that_is_killed_while_it_writes(tmp_path: Path) -> None:
    """Every finished file reads back whole; what was held, at most a file and a call, is lost."""
    script = f"""
        import itertools, torch, workbench as wb
        from tests.record import ops
        ops.register()
        with wb.record({str(tmp_path)!r}, rows="all", ops="vllm.*", file_bytes=20000, flush=1000) as recorder:
            for call in itertools.count():
                recorder.step(call)
                ops.persistent(ops.matrix(4, 300, call), [300] * 4, 16)
                print(call, flush=True)
    """
    for delay in (0.0, 0.003, 0.011):
        process = _start(script)
        assert process.stdout is not None
        last = 0
        while last < 40:
            last = int(process.stdout.readline())
        time.sleep(delay)
        process.kill()
        rest = process.stdout.read().split()
        last = int(rest[-1]) if rest and rest[-1].isdigit() else last
        assert process.wait() == -signal.SIGKILL
        rows = rows_in(tmp_path)
        assert [bits(row.scores) for row in rows] == [
            bits(one) for call in range(len(rows) // 4) for one in matrix(4, 300, call)
        ]
        a_file = 20000 // (4 * (1200 + 64)) + 1
        assert len(rows) // 4 >= last - 2 * a_file
        for path in tmp_path.iterdir():
            path.unlink()


def test_an_exit_without_leaving_the_block(tmp_path: Path) -> None:
    _python(f"""
        import sys, workbench as wb
        from tests.record import ops
        ops.register()
        wb.record({str(tmp_path)!r}, rows="all", ops="vllm.*", flush=1000).start()
        ops.persistent(ops.matrix(1, 50, 1), [50], 4)
        sys.exit(0)
    """)
    assert [bits(row.scores) for row in rows_in(tmp_path)] == [bits(matrix(1, 50, 1))]


def test_held_rows_are_written_after_a_while(tmp_path: Path) -> None:
    with wb.record(tmp_path, rows="first:2", ops="vllm.*", flush=0.05) as recorder:
        persistent(matrix(1, 50, 1), [50], 4)
        assert not recorder.files
        time.sleep(0.06)
        persistent(matrix(1, 50, 2), [50], 4)
        assert len(recorder.files) >= 1


def test_held_rows_are_written_though_no_call_comes(tmp_path: Path) -> None:
    """A server that has answered waits, and is then killed: that is when its rows are wanted."""
    process = _start(f"""
        import time, torch, workbench as wb
        from workbench.record import dispatch
        with wb.record({str(tmp_path / "left")!r}, rows="all", ops="torch.*", flush=1000):
            torch.topk(torch.arange(9.0), 2)
        assert dispatch.in_place() == ()
        wb.record({str(tmp_path / "rows")!r}, rows="all", ops="torch.*", flush=0.1).start()
        torch.topk(torch.arange(9.0), 2)
        print("held", flush=True)
        time.sleep(60)
    """)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    until = time.monotonic() + 20
    while not list((tmp_path / "rows").glob("*.safetensors")) and time.monotonic() < until:
        time.sleep(0.05)
    process.kill()
    process.communicate()
    assert [row.indices.tolist() for row in rows_in(tmp_path / "rows")] == [[8, 7]]


def test_dispatch_modes_and_default_devices_of_the_program(tmp_path: Path) -> None:
    class Counting(TorchDispatchMode):
        names: list[str] = []  # noqa: RUF012

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

    scores, lengths, out = matrix(1, 50, 1), torch.tensor([50], dtype=torch.int32), torch.zeros(1, 4, dtype=torch.int32)
    with wb.record(tmp_path, rows="all", flush=0, ops="vllm.*") as recorder:
        with Counting():
            torch.ops._C.persistent_topk(scores, lengths, out, ops.WORKSPACE, 4, 50)
        assert Counting.names == ["_C.persistent_topk.default"]
        with torch.device("meta"):
            torch.ops._C.persistent_topk(scores, lengths, out, ops.WORKSPACE, 4, 50)
        previous = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            torch.ops._C.persistent_topk(scores, lengths, out, ops.WORKSPACE, 4, 50)
        finally:
            torch.set_default_dtype(previous)
    assert recorder.stopped == ""
    assert [bits(row.scores) for row in rows_in(tmp_path)] == [bits(scores)] * 3


def test_gradients_pass_through(tmp_path: Path) -> None:
    scores = matrix(2, 20, 1).requires_grad_()
    with wb.record(tmp_path, rows="all", ops="torch.topk"):
        torch.topk(scores, 3).values.sum().backward()
    assert scores.grad is not None
    assert scores.grad.sum() == 6
    (row, _) = rows_in(tmp_path)
    assert bits(row.scores) == bits(scores.detach()[0])


def test_what_has_no_values_is_not_recorded(tmp_path: Path) -> None:
    from torch._subclasses import FakeTensorMode

    with wb.record(tmp_path, rows="all") as recorder:
        assert torch.topk(torch.empty(3, 9, device="meta"), 2).indices.shape == (3, 2)
        with FakeTensorMode():
            assert torch.topk(torch.empty(3, 9), 2).indices.shape == (3, 2)
    assert not recorder.rows
    assert sum(recorder.skipped.values()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compiled_programs(tmp_path: Path, backend: str) -> None:
    @torch.library.register_fake("_C::persistent_topk", allow_override=True)
    def fake(logits, lengths, output, workspace, k, max_seq_len):
        return None

    def program(scores, lengths, output):
        torch.ops._C.persistent_topk(scores * 2, lengths, output, ops.WORKSPACE, 4, 50)
        return output + 1, torch.topk(scores, 3).indices

    compiled = torch.compile(program, backend=backend, fullgraph=True)
    scores, lengths = matrix(2, 50, 1), torch.tensor([50, 50], dtype=torch.int32)
    with wb.record(tmp_path, rows="all") as recorder:
        for _ in range(2):
            output = torch.zeros(2, 4, dtype=torch.int32)
            moved, plain = compiled(scores, lengths, output)
    assert dict(recorder.seen) == {"vllm.persistent_topk": 2, "torch.topk": 2}
    rows = [row for row in rows_in(tmp_path) if row.call.op == "vllm.persistent_topk"]
    assert [row.indices.tolist() for row in rows] == (moved - 1).tolist() * 2
    assert [bits(row.scores) for row in rows] == [bits(one) for one in scores * 2] * 2
    assert torch.equal(plain, torch.topk(scores, 3).indices)


def _start(script: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def _python(script: str) -> None:
    process = _start(script)
    process.communicate()
    assert process.returncode == 0
