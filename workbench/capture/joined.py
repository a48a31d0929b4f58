"""Rows of several captures as one, read from where they are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

import torch

from workbench.capture.about import CaptureInfo
from workbench.capture.capture import Capture
from workbench.capture.format import CALL_FIELDS, STRINGS
from workbench.capture.mapped import RAW, Mapped
from workbench.capture.row import Call
from workbench.capture.store import Store
from workbench.errors import UsageError


def join(captures: Sequence[Capture], seen: Callable[[int], None] = lambda row: None) -> Capture:
    """One capture of the rows and calls of several, in their order; they must stay open.

    Args:
        seen: called with the number of a row each time that its scores are read.

    Raises:
        UsageError: several, of which one holds tokens: their steps are of different runs.
    """
    if len(captures) > 1 and any(capture.tokens for capture in captures):
        names = [capture.name for capture in captures if capture.tokens]
        raise UsageError(f"{names[0]} holds tokens, whose steps are those of one run; take it alone")
    store = _Joined(captures, seen)
    infos = [capture.info for capture in captures]
    strings: dict[str, str | None] = {}
    for name in STRINGS:
        values = {info.strings.get(name) for info in infos}
        strings[name] = values.pop() if len(values) == 1 else None
    info = CaptureInfo(
        path=captures[0].info.path if len(captures) == 1 else f"{len(captures)} captures",
        format=infos[0].format if len(infos) == 1 else "joined",
        size_bytes=sum(info.size_bytes for info in infos),
        rows=store.rows,
        calls=store.calls,
        dtype=", ".join(sorted({name for info in infos for name in info.dtype.split(", ")})),
        layout=infos[0].layout if len(infos) == 1 else "many tensors",
        width=max(info.width for info in infos),
        length_min=min(info.length_min for info in infos),
        length_max=max(info.length_max for info in infos),
        outside=sum(info.outside for info in infos),
        recorded=any(info.recorded for info in infos),
        strings=strings,
        source=infos[0].source if len(infos) == 1 else None,
        returned=", ".join(dict.fromkeys(info.returned for info in infos if info.recorded)) or RAW,
    )
    return Capture(store, info, name=captures[0].name if len(captures) == 1 else info.path, tokens=captures[0].tokens)


class _Joined:
    """The rows of several captures by running numbers."""

    def __init__(self, captures: Sequence[Capture], seen: Callable[[int], None]) -> None:
        self._captures, self._seen = captures, seen
        self._rows = [0, *accumulate(len(capture) for capture in captures)]
        self._calls = [0, *accumulate(capture.info.calls for capture in captures)]
        self.rows, self.calls = self._rows[-1], self._calls[-1]
        self.lengths = _cat([capture.lengths.to(torch.int64) for capture in captures])

    def _row(self, row: int) -> tuple[Store, int]:
        at = bisect_right(self._rows, row) - 1
        return self._captures[at].store, row - self._rows[at]

    def start(self, row: int) -> int:
        store, at = self._row(row)
        return store.start(at)

    def starts(self) -> torch.Tensor:
        return _cat([capture.store.starts() for capture in self._captures])

    def width(self, row: int) -> int:
        store, at = self._row(row)
        return store.width(at)

    def scores(self, row: int) -> torch.Tensor:
        store, at = self._row(row)
        scores = store.scores(at)
        self._seen(row)
        return scores

    def valid(self, row: int) -> torch.Tensor:
        store, at = self._row(row)
        return store.valid(at)

    def indices(self, row: int) -> torch.Tensor | None:
        store, at = self._row(row)
        return store.indices(at)

    def mapped(self, row: int) -> Mapped | None:
        store, at = self._row(row)
        return store.mapped(at)

    def slots(self, row: int) -> int | None:
        store, at = self._row(row)
        return store.slots(at)

    def call_of(self, row: int) -> int:
        at = bisect_right(self._rows, row) - 1
        return self._calls[at] + self._captures[at].store.call_of(row - self._rows[at])

    def call(self, number: int) -> Call:
        at = bisect_right(self._calls, number) - 1
        call = self._captures[at].call(number - self._calls[at])
        return Call(**{**vars(call), "index": number})

    def rows_of(self, number: int) -> Sequence[int]:
        at = bisect_right(self._calls, number) - 1
        return [row + self._rows[at] for row in self._captures[at].store.rows_of(number - self._calls[at])]

    def call_numbers(self) -> torch.Tensor:
        parts = zip(self._captures, self._calls, strict=False)
        return _cat([capture.store.call_numbers() + first for capture, first in parts])

    def widths(self) -> torch.Tensor:
        return _cat([capture.store.widths() for capture in self._captures])

    def field(self, name: str) -> torch.Tensor | None:
        if name not in CALL_FIELDS:
            return None
        values = [getattr(self.call(number), name) for number in range(self.calls)]
        return torch.tensor([-1 if value is None else value for value in values], dtype=torch.int64)

    def read_others(self) -> None:
        for capture in self._captures:
            capture.store.read_others()

    def close(self) -> None:
        """The captures close themselves."""


def _cat(parts: list[torch.Tensor]) -> torch.Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
