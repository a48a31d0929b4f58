"""Calls whose screening is queued on a GPU: what it finds is looked at later, so that no call makes the host wait.

Suspect rows are copied on the device, in the order of its stream, before whoever made the call can write over them; so
are the selections and the page tables. At a later call, and at the end, those that the device has been through are
judged. What is waited for may take so many bytes on the device; a call that finds no room first settles the oldest, and
one that is larger than all of it waits for its own answer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch

from workbench.engines.cuda import positions, screen
from workbench.errors import UsageError
from workbench.record.positions import owners_of
from workbench.record.reading import Seen
from workbench.record.screening import gates
from workbench.record.taken import Taken

ROOM = 256 * 2**20  # bytes of scores and selections
INT32 = torch.iinfo(torch.int32)

Take = Callable[[Taken, torch.Tensor, list[int]], None]


@dataclass(frozen=True, eq=False)
class _Waiting:
    taken: Taken
    out: torch.Tensor
    screened: screen.Screened
    size: int


class Awaited:
    """The calls of a recorder that wait to be looked at, oldest first.

    Args:
        take: given a call, what it returned and the suspect rows, judges these and keeps what is to be kept; the scores
            of those rows are what the call was given.
    """

    def __init__(self, take: Take) -> None:
        self._take = take
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self._settling = threading.RLock()
        self._unfit = ""

    @property
    def unfit(self) -> str:
        """Why kernels that should run do not, in words; empty while they do."""
        return self._unfit

    def forget(self) -> None:
        """This is a new process: what waits is the old one's."""
        self._waiting, self._bytes = deque(), 0
        self._lock, self._settling = threading.Lock(), threading.RLock()

    def begin(self, taken: Taken, out: torch.Tensor) -> bool:
        """Screen a call that was made; whether this is the way to do so, else nothing was done.

        Args:
            out: [rows, k], what it returned.
        """
        seen = taken.seen
        if self._unfit or not is_fit(seen):
            return False
        size = 4 * (seen.rows * (seen.width + seen.columns) + (0 if seen.table is None else seen.table.numel()))
        while self._bytes + size > ROOM and self._waiting:
            self.settle(most=1, wait=True)
        try:
            queued = self._queue(taken, out, size, keep=size <= ROOM)
        except UsageError as error:
            self._unfit = str(error)
            return False
        if queued.screened.kept is None:
            self.settle(wait=True)  # in the order of the calls
            self._look(queued)
            return True
        with self._lock:
            self._waiting.append(queued)
            self._bytes += size
        return True

    def _queue(self, taken: Taken, out: torch.Tensor, size: int, keep: bool) -> _Waiting:
        seen = taken.seen
        out = _int32(out).clone(memory_format=torch.contiguous_format)
        lengths = _int32(seen.lengths)
        starts, offsets = (None if one is None else _int32(one) for one in (seen.starts, seen.offsets))
        buffers = gates(seen.interface.op, seen.k)
        selected = out
        if seen.table is not None or seen.pool > 1:
            selected, offsets = _positions(seen, out, lengths, offsets), None

        def queued(keep: bool) -> tuple[screen.Screened, torch.Tensor | None]:
            table = seen.table.clone() if keep and seen.table is not None else seen.table
            screened = screen.screen_rows(
                seen.scores, lengths, selected, buffers, starts=starts, offsets=offsets, keep=keep
            )
            return screened, table

        try:
            screened, table = queued(keep)
        except torch.OutOfMemoryError:
            screened, table = queued(False)
        if screened.kept is not None:  # the caller's tensors are the caller's again
            seen = seen.but(scores=screened.kept, table=table, result=None)
            taken = Taken(seen, taken.number, taken.here, taken.rows, taken.scores)
        return _Waiting(taken, out, screened, size)

    def settle(self, *, wait: bool = False, most: int | None = None) -> None:
        """Look at calls that the device has been through, oldest first.

        Args:
            wait: whether for those as well that it has not. most: how many.
        """
        if not self._waiting or not self._settling.acquire(blocking=wait):
            return  # another thread is at it
        try:
            while most is None or most > 0:
                with self._lock:
                    if not self._waiting or not (wait or self._waiting[0].screened.is_done()):
                        return
                    oldest = self._waiting.popleft()
                    self._bytes -= oldest.size
                self._look(oldest)
                most = None if most is None else most - 1
        finally:
            self._settling.release()

    def _look(self, one: _Waiting) -> None:
        rows = one.screened.rows()
        if rows:
            self._take(one.taken, one.out, rows)


def is_fit(seen: Seen) -> bool:
    """Whether the kernels take a call here."""
    return seen.scores.is_cuda and takes(seen) and not screen.lacks(seen.scores.device.index)


def takes(seen: Seen) -> bool:
    """Whether the kernels take such a call, wherever it is."""
    scores, table = seen.scores, seen.table
    return (
        scores.dtype == torch.float32
        and scores.stride(1) == 1
        and seen.k <= screen.MOST_K
        and seen.k * seen.pool <= positions.MOST_ENTRIES
        and (table is None or _is_table(table, seen))
    )


def _is_table(table: torch.Tensor, seen: Seen) -> bool:
    """Whether page tables are as the ops take them, which all ask for the same."""
    return (
        table.dtype == torch.int32
        and table.dim() == 2
        and (table.stride(1) == 1 or table.shape[1] == 1)
        and table.device == seen.scores.device
        and seen.page_size >= 1
    )


def _positions(seen: Seen, out: torch.Tensor, lengths: torch.Tensor, offsets: torch.Tensor | None) -> torch.Tensor:
    owners = owners_of(seen)
    return positions.positions_of(
        out,
        lengths,
        seen.width,
        seen.k,
        table=seen.table,
        owners=None if owners is None else _int32(owners),
        page_size=seen.page_size,
        offsets=offsets,
        pool=seen.pool,
    )


def _int32(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers, contiguous; of those that int32 does not hold, its least and greatest, which no row has."""
    if tensor.dtype != torch.int32:
        tensor = tensor.clamp(INT32.min, INT32.max).to(torch.int32)
    return tensor.contiguous()
