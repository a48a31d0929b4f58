"""The recorder: told of every call, it takes the rows that are to be kept and holds them until they are written."""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections import Counter
from multiprocessing.util import Finalize, register_after_fork
from pathlib import Path
from typing import Any, Self

import torch

from workbench.capture.row import Call
from workbench.errors import CaptureError, UsageError, WorkbenchError
from workbench.record import dispatch, seams
from workbench.record.awaited import Awaited
from workbench.record.belonging import Belonging
from workbench.record.files import FIELDS, Files, Kept
from workbench.record.interfaces import Interface, matches
from workbench.record.judging import is_bad
from workbench.record.options import Options
from workbench.record.reading import Seen
from workbench.record.sampling import draw
from workbench.record.screening import suspects
from workbench.record.surroundings import device_name, rank, release_of
from workbench.record.taken import Taken, row_of, stored
from workbench.record.warned import Warnings
from workbench.words import because

_REASONS, _OTHERS = 40, "other reasons"


class Recorder(Belonging):
    """What ``wb.record`` returns: a context manager that records while it is entered, in every thread of the process.

    Entered again within itself it goes on recording each call once. Several recorders record side by side.

    Attributes:
        folder: where files go. files: those written so far. calls, rows: kept so far.
        seen: how many calls were told of, by op. skipped: how many could not be recorded, by reason.
        stopped: why recording ended before it was left, in words; empty if it did not.
    """

    def __init__(self, options: Options, *, step: Any = None, layer: Any = None) -> None:
        super().__init__(step=step, layer=layer)
        self.options, self.folder = options, Path(options.folder).absolute()  # the program may go elsewhere
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            reason = because(error)
            raise UsageError(f"{options.folder}: the folder cannot be made: {reason}") from None
        self.calls = self.rows = self._bytes = 0
        self.seen: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.stopped = ""
        self._files = Files(self.folder, options.file_bytes, options.flush, self._late)
        self._awaited = Awaited(self._suspected)
        self._entered = 0
        self._lock = threading.RLock()
        self._ends: list[Any] = []
        self._warn = Warnings()
        self._calls_seen, self._logged = 0, False
        limits = [most for most in (options.max_rows, options.first) if most is not None]
        self._most_rows = min(limits) if limits else None
        self._targets = dispatch.wanted(lambda op: matches(op, options.ops))
        self._wanted = frozenset(one.target for one in self._targets)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files written so far."""
        return tuple(self._files.written)

    # Beginning and end.

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Record from now on."""
        with self._lock:
            self._entered += 1
            if self._entered > 1:
                return
        self._files.wake()
        dispatch.listen(self, self._targets)
        seams.listen(self, [one for one in self._targets if not one.dispatched])
        self._at_end()
        register_after_fork(self, Recorder._at_end)

    def close(self) -> None:
        """Write what is held and record no more; the outermost of nested blocks does. Raises nothing."""
        with self._lock:
            self._entered = max(0, self._entered - 1)
            if self._entered:
                return
        self._files.calm()
        dispatch.leave(self)
        seams.leave(self)
        self._finish()
        for end in self._ends:
            end()
        self._ends = []

    def flush(self) -> None:
        """Write what is held, and the log."""
        with dispatch.unrecorded():
            self._awaited.settle(wait=True)
            self._write()
            self._log()

    def _at_end(self) -> None:
        """Write at the end of the process, also of one that multiprocessing forked, which leaves without ``atexit``."""
        finish = self._finish
        atexit.register(finish)
        finalizer = Finalize(None, finish, exitpriority=10)
        self._ends = [lambda: atexit.unregister(finish), finalizer.cancel]

    def _finish(self) -> None:
        try:
            self._files.calm()
            with dispatch.unrecorded():
                self._awaited.settle(wait=True)
                self._write()
                self._log(finished=True)
        except Exception as error:
            self.broken(error)

    def forked(self) -> None:
        """A forked process records on its own, under names of its own; what its parent holds is the parent's."""
        self._lock = threading.RLock()
        self._files.forget()
        self._awaited.forget()
        self._files.wake()
        self.calls = self.rows = self._bytes = self._calls_seen = 0
        self._logged = False
        self.seen, self.skipped = Counter(), Counter()
        self._warn = Warnings()

    # What the dispatcher tells.

    def wants(self, interface: Interface) -> bool:
        """Whether calls of this op are to be told now."""
        return not self.stopped and interface.target in self._wanted

    def before(self, seen: Seen) -> Taken | None:
        """Take what must be taken before the call."""
        options, scores = self.options, seen.scores
        if scores.is_cuda and torch.cuda.is_current_stream_capturing():
            self._skip("captured into a CUDA graph")
            self._warn(
                "a CUDA graph is being captured: what it computes when it is replayed passes Python by and is not "
                "recorded; serve without graphs to record (vLLM: --enforce-eager, SGLang: --disable-cuda-graph)"
            )
            return None
        with self._lock:
            self.seen[seen.interface.op] += 1
            number = self._calls_seen
            self._calls_seen += 1
        self._notice()
        if self._files.due:
            self._write()
        rows = self._chosen(seen, number)
        if rows is not None:
            rows = rows[: self._room(seen)]
            if not rows:
                return None
        kept = seen.with_inputs_kept()
        here = self._here(options.request)
        if rows is None:
            if seen.interface.writes_scores:
                kept = kept.but(scores=scores.clone())
            return Taken(kept, number, here, None)
        whole = scores.cpu() if len(rows) == seen.rows else scores[torch.tensor(rows, device=scores.device)].cpu()
        if whole.data_ptr() == scores.data_ptr():
            whole = whole.clone()
        return Taken(kept, number, here, rows, tuple(whole[at] for at in range(len(rows))))

    def after(self, taken: Taken, returned: Any) -> None:
        """Take what came back, and keep what is to be kept."""
        seen = taken.seen
        out = seen.selected(returned)
        if taken.rows is not None:
            self._keep(self._taken(taken, out, taken.rows, taken.scores))
        elif out is not None and self._awaited.begin(taken, out):
            self._awaited.settle(wait=not self.options.flush)
        else:
            if self._awaited.unfit:
                self._warn(f"rows are screened without kernels of the workbench: {self._awaited.unfit}")
            self._suspected(taken, out, suspects(seen, out).nonzero().flatten().tolist())

    def _suspected(self, taken: Taken, out: torch.Tensor | None, rows: list[int]) -> None:
        """Keep those of a call's suspect rows that are bad."""
        if rows and not self.stopped:
            self._keep(self._taken(taken, out, rows, tuple(taken.seen.scores[at] for at in rows)))

    def _taken(
        self, taken: Taken, out: torch.Tensor | None, rows: list[int], scores: tuple[torch.Tensor, ...]
    ) -> list[Kept]:
        """Rows of a call with what came back, those that are bad where that decides."""
        seen, judged = taken.seen, taken.rows is None
        lengths = seen.lengths[rows].tolist()
        starts = [0] * len(rows) if seen.starts is None else seen.starts[rows].tolist()
        call = self._call(taken)
        kept = []
        for number, row_scores, length, start in zip(rows, scores, lengths, starts, strict=True):
            one = self._row(seen, call, number, row_scores, length, start, None if out is None else out[number])
            if one is None:
                continue
            untold = out is not None and one.row.indices is None  # what came back is nothing that a selection can be
            if not judged or untold or is_bad(one.row):
                kept.append(stored(one, own=not judged, padding=self.options.padding))
        return kept

    def raised(self, taken: Taken) -> None:
        """The op raised: there is nothing that it returned, and nothing is kept."""
        self._skip("the op raised")

    def unread(self, interface: Interface, reason: str) -> None:
        """A call that a capture cannot hold."""
        self._skip(f"{interface.op}: {reason}")
        self._notice()

    def broken(self, error: Exception) -> None:
        """Stop: the disk is full, or this is a defect. Said once, and the program goes on."""
        if isinstance(error, WorkbenchError | OSError):
            reason = str(error)
        elif isinstance(error, torch.OutOfMemoryError):
            self._skip("no memory for copies on the GPU")
            self._warn("the GPU has no memory left for what recording needs; such calls are not recorded")
            return
        else:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        self._stop(f"recording stopped: {reason}; the program goes on")

    # How rows are taken.

    def _chosen(self, seen: Seen, number: int) -> list[int] | None:
        options = self.options
        if options.first is not None:
            return list(range(min(seen.rows, max(0, options.first - self.rows))))
        if options.sample is not None:
            drawn = draw((options.seed, options.rank or rank() or 0, number), seen.rows)
            return (drawn < options.sample).nonzero()[0].tolist()
        return list(range(seen.rows)) if options.rows == "all" else None

    def _room(self, seen: Seen) -> int:
        """How many rows of a call the limits leave room for, and one more, so that the limit is seen to be reached."""
        options, room = self.options, [seen.rows]
        if self._most_rows is not None:
            room.append(self._most_rows - self.rows)
        if options.max_bytes is not None and options.padding:  # without padding rows are smaller, who knows how much
            row = seen.width * seen.scores.element_size()
            room.append((options.max_bytes - self._bytes) // row + 1)
        return max(0, min(room))

    def _rank(self) -> int | None:
        return rank() if self.options.rank is None else self.options.rank

    def _call(self, taken: Taken) -> Call:
        options, seen = self.options, taken.seen
        return Call(
            index=taken.number,
            k=seen.k,
            rows=seen.rows,
            width=seen.width,
            stride=seen.stride,
            next_n=seen.next_n,
            max_seq_len=seen.max_seq_len,
            rank=self._rank(),
            op=seen.interface.op,
            release=options.release or release_of(seen.interface.packages),
            device=options.device or device_name(seen.scores.device),
            model=options.model,
            **taken.here,
        )

    def _row(self, seen: Seen, *parts: Any) -> Kept | None:
        """One row with what the op returned for it; ``None``, and counted, where no capture can hold it."""
        try:
            return row_of(seen, *parts)
        except (CaptureError, UsageError) as error:
            self._skip(f"a row that no capture can hold: {getattr(error, 'reason', error)}")
            return None

    def _keep(self, kept: list[Kept]) -> None:
        if not kept:
            return
        options = self.options
        with self._lock:
            if self.stopped:
                return
            if self._most_rows is not None:
                kept = kept[: self._most_rows - self.rows]
            if options.max_bytes is not None:
                kept = self._within(kept, options.max_bytes)
            self.rows += len(kept)
            self.calls += bool(kept)
            self._bytes += sum(one.size for one in kept)
            self._files.add(kept)
            for name, count, most in (("rows", self.rows, options.max_rows), ("calls", self.calls, options.max_calls)):
                if most is not None and count >= most:
                    self.stopped = f"the limit of {most} {name} is reached"
            if options.first is not None and self.rows >= options.first:
                self.stopped = f"the first {options.first} rows are kept"
        if self._files.due or self.stopped:
            self._write()

    def _within(self, kept: list[Kept], most: int) -> list[Kept]:
        """As many rows, in their order, as the limit of bytes leaves room for."""
        room = most - self._bytes
        for at, one in enumerate(kept):
            room -= one.size
            if room < 0:
                self.stopped = f"the limit of {most} bytes is reached"
                return kept[:at]
        return kept

    # How they go to disk.

    def _write(self) -> None:
        try:
            before = len(self._files.written)
            self._files.write()
            if len(self._files.written) > before:
                self._log()
        except (WorkbenchError, OSError) as error:
            self._lose(*self._files.lost)
            self.broken(error)

    def _lose(self, rows: list[Kept], calls: int) -> None:
        """What was held when writing failed is not kept."""
        self._files.lost = ([], 0)
        with self._lock:
            self.rows -= len(rows)
            self.calls -= calls
            self._bytes -= sum(one.size for one in rows)
        if rows:
            self._skip("a row whose file could not be written", len(rows))

    def _late(self) -> None:
        """Rows have waited, and no call came meanwhile; in a thread of its own."""
        try:
            with dispatch.unrecorded():
                self._write()  # and nothing on the GPU, where another thread may be capturing a graph
        except Exception as error:
            self.broken(error)

    def _notice(self) -> None:
        """Leave a log at the first call, so that a process that is killed was there."""
        if not self._logged:
            self._logged = True
            self._files.rank = self._rank()
            self._log()

    def _skip(self, reason: str, times: int = 1) -> None:
        """Count what is not recorded, by reason; only so many of reasons that never end, such as those with lengths."""
        with self._lock:
            self.skipped[reason if reason in self.skipped or len(self.skipped) < _REASONS else _OTHERS] += times

    def _log(self, finished: bool = False) -> None:
        if not self.seen and not self.skipped:
            return
        values = (
            dict(self.seen),
            self.calls,
            self.rows,
            self._bytes,
            [path.name for path in self._files.written],
            dict(self.skipped),
            self.stopped,
            finished,
        )
        with contextlib.suppress(OSError):
            self._files.log(dict(zip(FIELDS, values, strict=True)))

    def _stop(self, reason: str) -> None:
        with self._lock:
            if self.stopped.startswith("recording stopped"):
                return
            self.stopped = reason
        self._warn(reason)
