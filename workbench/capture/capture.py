"""A capture: rows of one or many calls, read as they are asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
import torch

from workbench.arguments import checked
from workbench.capture.about import CaptureInfo, outside
from workbench.capture.checks import Names, check_indices
from workbench.capture.contradictions import contradictions
from workbench.capture.format import CALL_FIELDS, PAGES, STRINGS
from workbench.capture.mapped import RAW, Mapped
from workbench.capture.row import Call, Row, digest_of, held, raw_bytes
from workbench.capture.source import Source
from workbench.capture.store import MemoryStore, Store
from workbench.capture.tokens import NO_TOKENS, Token, Tokens, memory_tokens
from workbench.capture.values import described, position, shown
from workbench.errors import CaptureError, UsageError
from workbench.rendering import Rendered


class Capture(Rendered):
    """Rows by number, as in ``for row in capture`` or ``capture[3]``; safe to read from several threads.

    Made by ``open_capture`` or ``Capture.from_rows``. A context manager; rows stay usable after it is closed.

    Attributes:
        name: short printable name for messages, reports and links. path: the file, or ``None`` for rows in memory.
        info: what it is. tokens: the tokens that decoding chose, their logits read when asked for; often none.
    """

    def __init__(
        self,
        store: Store,
        info: CaptureInfo,
        *,
        name: str,
        path: Path | None = None,
        sources: Sequence[Source] = (),
        given: Mapping[str, Any] | None = None,
        tokens: Tokens = NO_TOKENS,
    ) -> None:
        self.name, self.path, self.tokens = shown(name), path, tokens
        self.info = replace(info, tokens=len(tokens), vocab=tokens.vocab, logits=tokens.dtype)
        self._store, self._sources = store, sources
        self._given = dict(given or {})
        self._last: tuple[int, Call, torch.Tensor | None] | None = None

    @classmethod
    def from_rows(cls, rows: Iterable[Row], name: str = "memory", tokens: Iterable[Token] = ()) -> Capture:
        """A capture of rows in memory, numbered anew; scores, indices and logits are kept as given.

        Raises:
            CaptureError: there are no rows, what is given are none, or tokens whose logits are not all of one kind.
            UsageError: the name is no string.
        """
        if not isinstance(name, str):
            raise UsageError(f"the name is {described(name)}; a string is needed")
        name = shown(name)
        if not isinstance(rows, Iterable):
            raise CaptureError(f"the rows are {described(rows)}; a list of Row is needed")
        listed = list(rows)
        for number, row in enumerate(listed):
            if not isinstance(row, Row):
                raise CaptureError(f"it is {described(row)}; a Row is needed", row=number)
        store = MemoryStore(listed)
        widths = {row.scores.numel() for row in listed}
        dtypes = sorted({row.dtype for row in listed})
        strings: dict[str, str | None] = {}
        for key in STRINGS:
            values = {getattr(row.call, key) for row in listed}
            strings[key] = values.pop() if len(values) == 1 else None
        info = CaptureInfo(
            path=name,
            format="memory",
            size_bytes=sum(row.scores.numel() * row.scores.element_size() for row in listed),
            rows=store.rows,
            calls=store.calls,
            dtype=", ".join(dtypes),
            layout="padded" if len(widths) == 1 else "ragged",
            width=max(widths),
            length_min=int(store.lengths.min()),
            length_max=int(store.lengths.max()),
            outside=outside(store),
            recorded=any(row.indices is not None for row in listed),
            strings=strings,
            returned=", ".join(
                dict.fromkeys(row.mapped.returned if row.mapped else RAW for row in listed if row.indices is not None)
            )
            or RAW,
        )
        return cls(store, info, name=name, tokens=memory_tokens(tokens, name))

    def __len__(self) -> int:
        return self._store.rows

    def __iter__(self) -> Iterator[Row]:
        for row in range(len(self)):
            yield self[row]

    def __getitem__(self, row: int) -> Row:
        """Read one row; negative numbers count from the end.

        Raises:
            IndexError: there is no such row. TypeError: a row number is an integer.
            CaptureError: its recorded indices are not of this row, or the file changed or cannot be read.
        """
        return self.read(row)

    def read(self, row: int, *, padding: bool = True) -> Row:
        """Read one row, as ``capture[row]``; without ``padding`` only its valid scores, and the other cells of the row
        hold anything.

        Raises:
            IndexError, TypeError, CaptureError: as for ``capture[row]``. UsageError: ``padding`` is no bool.
        """
        row = self._number(row)
        if not isinstance(padding, bool):
            raise UsageError(f"padding is {described(padding)}; it must be True or False")
        store = self._store
        length, start, width = int(store.lengths[row]), store.start(row), store.width(row)
        cells = held(length, start, width)
        if padding or cells == width:
            scores = store.scores(row)
        else:
            valid = store.valid(row)
            scores = valid.new_empty(width)  # cells that nobody touches take no memory
            scores[start : start + cells] = valid
        _, call, batch = self._of_call(store.call_of(row))
        return Row(
            scores=scores,
            length=length,
            start=start,
            call=call,
            indices=store.indices(row),
            batch=batch,
            index=row,
            capture=self.name,
            mapped=store.mapped(row),
        )

    def _of_call(self, number: int) -> tuple[int, Call, torch.Tensor | None]:
        """A call, and the lengths of its rows if the capture holds as many as were launched; the last one is kept,
        since rows are read in their order."""
        last = self._last
        if last is None or last[0] != number:
            call = self.call(number)
            last = self._last = number, call, self._batch(call, number)
        return last

    def _batch(self, call: Call, number: int) -> torch.Tensor | None:
        rows = self._store.rows_of(number)
        if call.rows is None or len(rows) != call.rows:
            return None
        lengths = self._store.lengths
        return lengths[rows.start : rows.stop] if isinstance(rows, range) else lengths[torch.tensor(rows)]

    def _number(self, row: int) -> int:
        row = position(row, "row")
        if not -len(self) <= row < len(self):
            raise IndexError(f"{self.name} has rows 0 to {len(self) - 1}, no row {described(row)}")
        return row % len(self)

    @property
    def store(self) -> Store:
        """Where its rows come from; for what joins captures."""
        return self._store

    @property
    def lengths(self) -> torch.Tensor:
        """Lengths of all rows, [rows] int32 or int64, without reading a score; not to be written to."""
        return self._store.lengths

    @property
    def calls(self) -> Sequence[Call]:
        """All calls, each made when it is asked for."""
        return _Calls(self)

    def call(self, number: int) -> Call:
        """One call by its number."""
        number = position(number, "call")
        if not 0 <= number < self._store.calls:
            raise IndexError(f"{self.name} has calls 0 to {self._store.calls - 1}, no call {described(number)}")
        call = self._store.call(number)
        return replace(call, **self._given) if self._given else call

    def call_values(self, name: str) -> list[int | None]:
        """The distinct values of one integer of all calls, ascending, ``None`` last if unknown for some.

        Raises:
            UsageError: calls have no integer of that name.
        """
        if not isinstance(name, str) or name not in CALL_FIELDS:
            raise UsageError(f"calls have no integer {described(name)}; they have {', '.join(CALL_FIELDS)}")
        if name in self._given:
            return [self._given[name]]
        values = self._store.field(name)
        if values is None:
            return [None]
        found: list[int | None] = np.unique(values.numpy()).tolist()
        return [*found[1:], None] if found[0] == -1 else found

    def call_of(self, row: int) -> int:
        """The number of the call that a row belongs to."""
        return self._store.call_of(self._number(row))

    def rows_of(self, call: int) -> Sequence[int]:
        """The numbers of a call's rows, ascending."""
        self.call(call)
        return self._store.rows_of(call)

    def width_of(self, row: int) -> int:
        """Cells of a row, padding included, without reading it."""
        return self._store.width(self._number(row))

    def start_of(self, row: int) -> int:
        """First valid cell of a row, without reading it."""
        return self._store.start(self._number(row))

    def slots_of(self, row: int) -> int | None:
        """How many indices were recorded for a row, without reading them; ``None`` if not recorded."""
        return self._store.slots(self._number(row))

    def indices_of(self, row: int) -> torch.Tensor | None:
        """Recorded selection of a row without its scores, int32 [k]; ``None`` if not recorded."""
        return self._store.indices(self._number(row))

    def mapped_of(self, row: int) -> Mapped | None:
        """What a row's recorded indices are where they are no positions; ``None`` for positions, or if not recorded."""
        return self._store.mapped(self._number(row))

    def digest_of(self, row: int) -> str:
        """``Row.digest`` of a row; of a file only the valid scores are read."""
        row = self._number(row)
        return digest_of(self._store.valid(row), self._store.start(row), int(self._store.lengths[row]))

    @property
    def digest(self) -> str:
        """Names the content: ``sha256:<hex>`` over files of up to 64 MiB each.

        Larger files give ``sampled:<hex>``, over size, header and 1024 evenly spaced blocks of 4 KiB: enough to name a
        file, no proof that every byte is the same. Of a set, over the digests of all its files.
        """
        if len(self._sources) == 1:
            return self._sources[0].digest()
        parts = [source.digest() for source in self._sources]
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part.encode())
        if not parts:
            for row in self:
                digest.update(f"{row.length} {row.start} {row.dtype} {row.scores.numel()} {row.call}\n".encode())
                digest.update(raw_bytes(row.scores))
                if row.indices is not None:
                    digest.update(raw_bytes(row.indices))
                if row.indices is not None and row.mapped is not None:
                    digest.update(f"{row.mapped.returned} {row.mapped.page_size} {row.mapped.offset}\n".encode())
                    digest.update(b"" if row.mapped.table is None else raw_bytes(row.mapped.table))
            for token in self.tokens:
                digest.update(f"{token.step} {token.token} {self.tokens.dtype} {self.tokens.vocab}\n".encode())
                if token.logits is not None:
                    digest.update(raw_bytes(token.logits))
        kind = "sampled" if any(part.startswith("sampled") for part in parts) else "sha256"
        return f"{kind}:{digest.hexdigest()}"

    @property
    def stamp(self) -> str:
        """Changes whenever one of its files does, as far as sizes and times of change tell, of content and of status;
        empty in memory. The same on every machine that sees the files, as inodes need not be."""
        return " ".join("{}@{}@{}".format(*source.stamp) for source in self._sources)

    def is_unchanged(self) -> bool:
        """Whether its paths still name the files that were opened, unchanged as far as their status tells."""
        return all(source.is_unchanged() for source in self._sources)

    @checked
    def verify(self, progress: Callable[[int, int], None] | None = None) -> list[str]:
        """Read everything; every problem of the data in words, an empty list if there is none.

        Calls that say of themselves what their rows contradict are problems too, though rows can be read.

        Args:
            progress: called with (rows done, rows) after each row.
        """
        problems: list[str] = []
        try:
            self._store.read_others()
        except CaptureError as error:
            return [str(error)]
        problems += contradictions(self._store, self.info.path)
        for number in range(len(self)):
            try:
                row = self[number]
                if isinstance(self._store, MemoryStore):
                    check_memory_row(row)
                if row.mapped is not None and not row.outside and (why := row.mapped.contradiction(row.length)):
                    problems.append(str(CaptureError(why, file=self.info.path, tensor=PAGES, row=number)))
            except CaptureError as error:
                problems.append(str(error))
                if error.row is None:  # the file itself: every further row would say the same
                    return problems
            if progress is not None:
                progress(number + 1, len(self))
        return problems

    def close(self) -> None:
        """Close its files; reading another row is an error then."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        info = self.info
        return f"Capture({self.name!r}, {info.rows} rows of {info.calls} calls, {info.dtype}, {info.layout})"


class _Calls(Sequence[Call]):
    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    def __len__(self) -> int:
        return self._capture.info.calls

    @overload
    def __getitem__(self, number: int) -> Call: ...
    @overload
    def __getitem__(self, number: slice) -> list[Call]: ...
    def __getitem__(self, number: int | slice) -> Call | list[Call]:
        if isinstance(number, slice):
            return [self._capture.call(at) for at in range(*number.indices(len(self)))]
        asked = position(number, "call")
        if not -len(self) <= asked < len(self):
            raise IndexError(f"{self._capture.name} has calls 0 to {len(self) - 1}, no call {asked}")
        return self._capture.call(asked % len(self))


def check_memory_row(row: Row) -> None:
    """What files are checked for on opening and reading, for a row in memory.

    Raises:
        CaptureError: recorded indices out of range, or not k of them; k larger than the row width.
    """

    def bad(reason: str, tensor: str) -> CaptureError:
        return CaptureError(reason, file=row.capture, tensor=tensor, row=row.index)

    width = row.call.width or row.scores.numel()
    if row.k is not None and row.k > width:
        raise bad(
            f"k {row.k} is not in [1, {width}], the row width; give the padded width of the call if it had one", "k"
        )
    if row.indices is None:
        return
    if row.k is not None and row.indices.numel() != row.k:
        raise bad(f"{row.indices.numel()} recorded indices, but k is {row.k}; record all k, -1 padded", "indices")
    length = None if row.outside else row.length
    check_indices(row.indices, row.k, length, row.index, Names(row.capture), row.mapped is not None)
