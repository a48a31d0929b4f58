"""Rows that a GPU's own stream tells of later: kept as if they had been waited for, whatever happens in between.

The kernels are stood for by what they must do: at the moment of the launch, in the order of the stream, find the
suspect rows and copy them; and say so later.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

import workbench as wb
from tests.kernels import emulated
from tests.kernels.emulated_device import EmulatedDevice
from tests.record.ops import WORKSPACE, bits, matrix, persistent
from workbench.engines.cuda import screen
from workbench.errors import UsageError
from workbench.record import awaited
from workbench.record.interfaces import INTERFACES
from workbench.record.reading import Seen
from workbench.record.screening import gates, suspects
from workbench.record.warned import RecordWarning

H200 = {"release": "vllm==0.26.0", "device": "h200"}


@dataclass(eq=False)
class Later:
    """A screening that is done when the stream is let go on."""

    kept: torch.Tensor | None
    found: list[int]
    stream: Stream
    number: int

    def is_done(self) -> bool:
        return self.number < self.stream.passed

    def rows(self) -> list[int]:
        if not self.is_done():
            self.stream.waits += 1
            self.stream.passed = max(self.stream.passed, self.number + 1)
        return self.found


@dataclass(eq=False)
class Stream:
    """What was queued, and how far the device has come. Attributes: waits: how often the host stood still."""

    queued: int = 0
    passed: int = 0
    waits: int = 0
    fault: type[Exception] | None = None

    def screen(self, scores, lengths, selected, buffers, *, starts=None, offsets=None, keep=True) -> Later:
        if self.fault is not None and (keep or self.fault is not torch.OutOfMemoryError):
            raise self.fault("no")
        assert selected.dtype == lengths.dtype == torch.int32
        assert selected.is_contiguous()
        op = next(one for one in INTERFACES if tuple(gates(one.op, selected.shape[1])) == tuple(buffers))
        seen = Seen(op, scores, scores.stride(0), lengths, starts, selected.shape[1], offsets=offsets)
        found = suspects(seen, selected).nonzero().flatten().tolist()
        kept = torch.full(scores.shape, 0.125) if keep else None
        if kept is not None:
            kept[found] = scores[found]
        self.queued += 1
        return Later(kept, found, self, self.queued - 1)


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    made = Stream()
    monkeypatch.setattr(awaited, "is_fit", lambda seen: seen.table is None)
    monkeypatch.setattr(screen, "screen_rows", made.screen)
    return made


def reused(calls: int, lossy: set[int], limit: int = 400) -> Iterator[bytes | None]:
    """Calls that write over the same tensors each time; of each that is lossy, what its first row then held."""
    scores, output = torch.empty(3, limit), torch.empty(3, 16, dtype=torch.int32)
    lengths = torch.empty(3, dtype=torch.int32)
    for call in range(calls):
        scores.copy_(matrix(3, limit, call))
        lengths.fill_(limit)
        if call in lossy:
            scores[0] = 2000 + torch.arange(limit) + call
        held = bits(scores[0]) if call in lossy else None
        torch.ops._C.persistent_topk(scores, lengths, output, WORKSPACE, 16, limit)
        yield held
        scores.fill_(-1), output.fill_(-1), lengths.fill_(0)


def rows_of(recorder) -> list[wb.Row]:
    found = []
    for path in recorder.files:
        with wb.open(path) as capture:
            found += list(capture)
    return found


def test_kept_are_the_rows_of_the_call_and_nothing_waits(tmp_path: Path, stream: Stream) -> None:
    lossy, expected = {1, 2, 5}, []
    with wb.record(tmp_path) as recorder:
        for call, held in enumerate(reused(8, lossy)):
            recorder.step(call + 1)  # of the calls from now on
            expected += [] if held is None else [held]
        assert (recorder.rows, stream.waits) == (0, 0)
    rows = rows_of(recorder)
    assert [bits(row.scores) for row in rows] == expected
    assert [row.call.step for row in rows] == [1, 2, 5]
    assert [row.call.index for row in rows] == [0, 1, 2]
    assert [(row.length, row.call.width, row.call.stride, row.call.rows) for row in rows] == [(400, 400, 400, 3)] * 3
    for row in rows:
        assert sorted(row.indices.tolist()) == list(range(383, 399)), "as the op returned them: the best is missing"


def calls() -> None:
    """Rows at risk that lost nothing, a plateau, lossy rows with starts, moved positions, other integer types, NaN."""
    crowded = 1 + 0.2 * torch.rand(20000, generator=torch.Generator().manual_seed(4))
    persistent(torch.stack([matrix(1, 20000, 1)[0], crowded, torch.zeros(20000)]), [20000, 20000, 19000], 512)
    scores = matrix(4, 300, 9)
    scores[2, 5:] = 2000 + torch.arange(295)
    lengths = torch.tensor([290, 8, 295, 100], dtype=torch.int64)
    starts = torch.tensor([0, 3, 5, 7], dtype=torch.int32)
    out = torch.full((4, 16), -1, dtype=torch.int32)
    torch.ops.sgl_kernel.fast_topk(scores, out, lengths, starts)
    offsets = torch.arange(4, dtype=torch.int64) * 1000
    torch.ops.sgl_kernel.fast_topk_transform_ragged_fused(scores, lengths, out, offsets, starts)
    torch.topk(scores, 4)
    torch.topk(torch.where(scores > 1, torch.nan, scores), 4)


def mapped_calls() -> None:
    """Cache slots by tables of rows and of requests; pages that stand twice, and rows whose table is not there."""
    scores = matrix(4, 300, 9)
    scores[2] = 2000 + torch.arange(300)
    lengths, starts = torch.tensor([300, 8, 300, 100], dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    out = torch.full((4, 16), -1, dtype=torch.int32)
    tables = torch.randperm(4 * 320, generator=torch.Generator().manual_seed(6)).reshape(4, 320).to(torch.int32)
    bounds = torch.tensor([0, 2, 4], dtype=torch.int32)

    def call(tables: torch.Tensor, bounds: torch.Tensor) -> None:
        torch.ops.sgl_kernel.fast_topk_transform_fused(scores, lengths, out, tables, bounds, starts)

    each = torch.arange(5, dtype=torch.int32)
    call(tables, each)
    call(tables[:2], bounds)
    twice = tables.clone()
    twice[:, 17] = twice[:, 18]
    call(twice, each)
    call(tables[:2], bounds * 2)  # what the op did with the others, nobody can tell
    tables.zero_(), out.zero_(), scores.zero_()


def recorded(folder: Path, make: Callable[[], None] = calls) -> list[tuple[object, ...]]:
    with wb.record(folder, flush=1000, **H200) as recorder:
        make()
    assert recorder._awaited.unfit == recorder.stopped == ""
    return [
        (
            row.call.op,
            bits(row.scores),
            row.length,
            row.start,
            row.indices.tolist(),
            row.mapped and bits(row.mapped.table),
        )
        for row in rows_of(recorder)
    ]


def test_the_same_is_kept_as_by_waiting(tmp_path: Path, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    found = recorded(tmp_path / "later")
    assert stream.queued == 5
    monkeypatch.setattr(awaited, "is_fit", lambda seen: False)
    assert found == recorded(tmp_path / "waited")
    assert [one[0] for one in found] == [
        "vllm.persistent_topk", "sglang.fast_topk_v2", "sglang.fast_topk_transform_ragged_fused",
    ]  # fmt: skip


@pytest.mark.skipif(emulated.COMPILER is None, reason="no C++ compiler of the host (g++ or clang++)")
@pytest.mark.parametrize("parts", [1, 3])
def test_the_same_is_kept_by_the_kernels(
    parts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The kernels themselves, on the CPU."""
    expected = recorded(tmp_path / "waited")
    device = EmulatedDevice(Path(str(request.config.cache.mkdir("emulated-kernels"))), monkeypatch)
    device.parts = parts
    monkeypatch.setattr(awaited, "is_fit", awaited.takes)
    assert recorded(tmp_path / "kernels") == expected
    assert device.launches == 10


@pytest.mark.skipif(emulated.COMPILER is None, reason="no C++ compiler of the host (g++ or clang++)")
def test_cache_slots_are_screened_by_the_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """What was a page table at the call is one when its rows are looked at, though the program went on."""
    expected = recorded(tmp_path / "waited", mapped_calls)
    device = EmulatedDevice(Path(str(request.config.cache.mkdir("emulated-kernels"))), monkeypatch)
    monkeypatch.setattr(awaited, "is_fit", awaited.takes)
    assert recorded(tmp_path / "kernels", mapped_calls) == expected
    assert device.launches == 12
    assert [one[4] for one in expected[:2]] == [list(range(283, 299))[::-1]] * 2, "the best is missing"


def test_what_the_device_has_passed_is_kept_at_the_next_call(tmp_path: Path, stream: Stream) -> None:
    with wb.record(tmp_path, flush=1000) as recorder:
        for call, _ in enumerate(reused(4, {0, 2})):
            stream.passed = 1
            assert recorder.rows == (0 if call == 0 else 1)
        assert stream.waits == 0
        recorder.flush()
        assert (recorder.rows, len(recorder.files)) == (2, 1)
    assert stream.waits == 3


def test_whoever_wants_every_call_on_disk_at_once_waits(tmp_path: Path, stream: Stream) -> None:
    with wb.record(tmp_path, flush=0) as recorder:
        for call, _ in enumerate(reused(3, {0, 2})):
            assert recorder.rows == (2 if call == 2 else 1)
    assert stream.waits == 3


def test_limits_count_what_is_kept(tmp_path: Path, stream: Stream) -> None:
    with wb.record(tmp_path, max_rows=2) as recorder:
        for _ in reused(6, set(range(6))):
            pass
    assert recorder.rows == 2
    assert [row.call.index for row in rows_of(recorder)] == [0, 1]
    assert "limit of 2 rows" in recorder.stopped
    assert not recorder._awaited._waiting


def test_memory_on_the_device_is_bounded(tmp_path: Path, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest call is waited for where another has no room, and a call that never fits waits for itself."""
    size = 4 * 3 * (400 + 16)
    monkeypatch.setattr(awaited, "ROOM", 2 * size)
    with wb.record(tmp_path / "a") as recorder:
        expected = [held for held in reused(5, {0, 1, 4}) if held]
        assert stream.waits == 3
        assert recorder._awaited._bytes == 2 * size
    assert [bits(row.scores) for row in rows_of(recorder)] == expected
    monkeypatch.setattr(awaited, "ROOM", size - 1)
    stream.waits = 0
    with wb.record(tmp_path / "b") as recorder:
        expected = [held for held in reused(5, {0, 1, 4}) if held]
        assert (stream.waits, recorder.rows) == (5, 3)
    assert [bits(row.scores) for row in rows_of(recorder)] == expected


def test_a_device_without_memory_for_copies(tmp_path: Path, stream: Stream) -> None:
    stream.fault = torch.OutOfMemoryError
    with wb.record(tmp_path) as recorder:
        expected = [held for held in reused(3, {1}) if held]
        assert stream.waits == 3
    assert [bits(row.scores) for row in rows_of(recorder)] == expected


def test_kernels_that_cannot_be_built(tmp_path: Path, stream: Stream) -> None:
    stream.fault = UsageError
    words = "without kernels of the workbench: no"
    with pytest.warns(RecordWarning, match=words) as told, wb.record(tmp_path) as recorder:
        expected = [held for held in reused(3, {1}) if held]
    assert len(told) == 1
    assert [bits(row.scores) for row in rows_of(recorder)] == expected


def test_many_threads(tmp_path: Path, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaited, "ROOM", 10 * 4 * 3 * (400 + 16))
    expected: list[bytes] = []

    def work(first: int) -> None:
        for call in range(20):
            scores = matrix(3, 400, first + call)
            if call % 4 == 0:
                scores[1] = 2000 + first + torch.arange(400) + call
                expected.append(bits(scores[1]))
            persistent(scores, [400] * 3, 16)
            scores.zero_()
            stream.passed = max(stream.passed, stream.queued - 5)

    with wb.record(tmp_path) as recorder:
        threads = [threading.Thread(target=work, args=(1000 * at,)) for at in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert sorted(bits(row.scores) for row in rows_of(recorder)) == sorted(expected)
    assert (recorder._awaited._bytes, recorder.stopped) == (0, "")


def test_a_forked_process_leaves_to_its_parent_what_waits(tmp_path: Path, stream: Stream) -> None:
    with wb.record(tmp_path) as recorder:
        calls = reused(2, {0, 1})
        first = next(calls)
        child = os.fork()
        if child == 0:
            found = len(recorder._awaited._waiting)
            recorder.close()
            os._exit(found + recorder.rows)
        assert os.waitpid(child, 0)[1] == 0
        expected = [first, next(calls)]
    assert [bits(row.scores) for row in rows_of(recorder)] == expected


def test_which_calls_the_kernels_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "lacks", lambda device: ())
    scores, lengths = torch.zeros(2, 8), torch.full((2,), 8)
    seen = Seen(INTERFACES[0], scores, 8, lengths, None, 4)
    assert not awaited.is_fit(seen), "on the CPU"

    class OnDevice(torch.Tensor):
        is_cuda, device = True, torch.device("cuda", 0)

    there = replace(seen, scores=scores.as_subclass(OnDevice))
    assert awaited.is_fit(there)
    assert awaited.is_fit(replace(there, offsets=lengths))
    pages = torch.zeros(2, 8, dtype=torch.int32).as_subclass(OnDevice)
    assert awaited.is_fit(replace(there, table=pages))
    assert not awaited.is_fit(replace(there, table=pages.long().as_subclass(OnDevice)))
    assert not awaited.is_fit(replace(there, table=pages.t()))
    assert not awaited.is_fit(replace(there, table=pages.as_subclass(torch.Tensor))), "it is on the CPU"
    assert awaited.is_fit(replace(there, k=1024, pool=4))
    assert not awaited.is_fit(replace(there, k=1025, pool=4))
    assert not awaited.is_fit(replace(there, k=screen.MOST_K + 1))
    assert not awaited.is_fit(replace(there, scores=there.scores.double().as_subclass(OnDevice)))
    assert not awaited.is_fit(replace(there, scores=torch.zeros(8, 2).t().as_subclass(OnDevice)))
    monkeypatch.setattr(screen, "lacks", lambda device: ("CuPy is not installed",))
    assert not awaited.is_fit(there)
