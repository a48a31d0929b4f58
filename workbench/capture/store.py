"""Where the rows of a capture come from: tensors in files, read row by row, or rows in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from workbench.capture.checks import Names, check_indices
from workbench.capture.format import CALL_FIELDS
from workbench.capture.header import TensorInfo
from workbench.capture.mapped import RAW, Mapped
from workbench.capture.row import Call, Row, held
from workbench.capture.source import Source
from workbench.errors import CaptureError


class Store(Protocol):
    """Rows and calls by number; numbers are in range (the capture checks them)."""

    @property
    def rows(self) -> int: ...
    @property
    def calls(self) -> int: ...
    @property
    def lengths(self) -> torch.Tensor:
        """[rows], int32 or int64."""
        ...

    def start(self, row: int) -> int: ...
    def starts(self) -> torch.Tensor:
        """The first valid cell of every row, int64 [rows]; not to be written to."""
        ...

    def width(self, row: int) -> int: ...
    def scores(self, row: int) -> torch.Tensor:
        """[width], a new tensor where it comes from a file."""
        ...

    def valid(self, row: int) -> torch.Tensor:
        """As ``Row.valid``, without reading the row's padding."""
        ...

    def indices(self, row: int) -> torch.Tensor | None:
        """Recorded selection, int32 [k]; ``None`` if not recorded."""
        ...

    def mapped(self, row: int) -> Mapped | None:
        """What the recorded indices are; ``None`` for positions, or if nothing is recorded."""
        ...

    def slots(self, row: int) -> int | None:
        """How many indices were recorded, without reading them; ``None`` if not recorded."""
        ...

    def call_of(self, row: int) -> int: ...
    def call(self, number: int) -> Call: ...
    def rows_of(self, number: int) -> Sequence[int]: ...
    def call_numbers(self) -> torch.Tensor:
        """The call of every row, int64 [rows]; not to be written to."""
        ...

    def widths(self) -> torch.Tensor:
        """The cells of every row, int64 [rows]; not to be written to."""
        ...

    def field(self, name: str) -> torch.Tensor | None:
        """One integer of every call, int32 or int64 [calls], -1 = unknown; ``None`` if unknown for all."""
        ...

    def read_others(self) -> None:
        """Read what no row reads, to raise if it cannot be read."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class CallTable:
    """What a file says of its calls: per-call integers [calls], -1 = unknown, and strings that all calls share."""

    calls: int
    fields: dict[str, torch.Tensor] = field(default_factory=dict)
    strings: dict[str, str | None] = field(default_factory=dict)

    def ints(self, number: int) -> dict[str, int | None]:
        """The integers of one call by name, ``None`` where unknown."""
        found: dict[str, int | None] = dict.fromkeys(CALL_FIELDS)
        for name, values in self.fields.items():
            value = int(values[number])
            found[name] = None if value == -1 else value
        return found

    def call(self, number: int) -> Call:
        """One call."""
        return Call(index=number, **self.ints(number), **self.strings)  # type: ignore[arg-type]


class RowGroups:
    """Which rows belong to which call, from ``call`` [rows]; without it all rows are of call 0."""

    def __init__(self, call: torch.Tensor | None, rows: int) -> None:
        self._call, self._rows = call, rows
        self._sorted = call is None or bool((call[1:] >= call[:-1]).all())

    def call_of(self, row: int) -> int:
        """The call of a row."""
        return 0 if self._call is None else int(self._call[row])

    def numbers(self) -> torch.Tensor:
        """The call of every row, int64 [rows]."""
        if self._call is None:
            return torch.zeros(1, dtype=torch.int64).expand(self._rows)
        return self._call.to(torch.int64)

    def rows_of(self, number: int) -> Sequence[int]:
        """The rows of a call: a range where they lie together, else a list."""
        if self._call is None:
            return range(self._rows) if number == 0 else range(0)
        if not self._sorted:
            return [int(row) for row in (self._call == number).nonzero().flatten()]
        begin = int(torch.searchsorted(self._call, number))
        end = int(torch.searchsorted(self._call, number, right=True))
        return range(begin, end)


@dataclass(frozen=True)
class Mapping:
    """How the recorded indices of a file were mapped.

    Attributes:
        returned: as ``Mapped`` has it. table: [tables, pages], in ``source`` where that is not the scores'.
        page_size: of it. offsets: int [rows].
        uses: [rows], the table of each row; without it row r uses table r, or the only one. begins: [rows], the place
            in its table at which each row's pages begin; without it, 0.
    """

    returned: str
    table: TensorInfo | None = None
    page_size: int | None = None
    offsets: torch.Tensor | None = None
    uses: torch.Tensor | None = None
    begins: torch.Tensor | None = None
    source: Source | None = None

    def of(self, source: Source, at: int) -> Mapped:
        """That of one row."""
        table = None
        if self.table is not None:
            tables, pages = self.table.shape
            used = int(self.uses[at]) if self.uses is not None else at if tables > 1 else 0
            begin = 0 if self.begins is None else int(self.begins[at])
            first = used * (self.table.pitch or pages) + begin
            table = (self.source or source).tensor(self.table, first, pages - begin)
        return Mapped(self.returned, table, self.page_size, None if self.offsets is None else int(self.offsets[at]))


@dataclass(frozen=True)
class Block:
    """One scores tensor of a file with the rows that it holds.

    Attributes:
        source, scores: where. first: number of its first row in the capture. rows: how many.
        width: of every row, if padded. offsets: [rows + 1], if ragged.
        starts: [rows] or ``None``. indices: [rows, k_max] or ``None``, in ``indices_source``.
        names: for messages. mapping: how the indices were mapped; ``None`` for positions.
    """

    source: Source
    scores: TensorInfo
    first: int
    rows: int
    width: int | None
    names: Names
    offsets: torch.Tensor | None = None
    starts: torch.Tensor | None = None
    indices: TensorInfo | None = None
    indices_source: Source | None = None
    mapping: Mapping | None = None

    @property
    def k_max(self) -> int | None:
        """Recorded slots a row."""
        return None if self.indices is None else self.indices.shape[-1]

    def span(self, row: int) -> tuple[int, int]:
        """First element and width of a row, counted within the block."""
        if self.offsets is None:
            assert self.width is not None
            return row * (self.scores.pitch or self.width), self.width
        begin = int(self.offsets[row])
        return begin, int(self.offsets[row + 1]) - begin

    def widths(self) -> torch.Tensor:
        """The cells of every row, int64 [rows]."""
        if self.offsets is None:
            return torch.tensor([self.width], dtype=torch.int64).expand(self.rows)
        return self.offsets[1:] - self.offsets[:-1]


class FileStore:
    """Rows of checked blocks. ``groups`` for a file with a ``call`` tensor; without, each block is one call."""

    def __init__(
        self,
        blocks: list[Block],
        lengths: torch.Tensor,
        table: CallTable,
        groups: RowGroups | None,
        sources: list[Source],
    ) -> None:
        self.blocks, self.table, self.sources, self._groups = blocks, table, sources, groups
        self._firsts = [block.first for block in blocks]
        self.lengths = lengths
        self.rows = int(lengths.numel())
        self.calls = table.calls

    def _find(self, row: int) -> tuple[Block, int]:
        block = self.blocks[bisect_right(self._firsts, row) - 1]
        return block, row - block.first

    def start(self, row: int) -> int:
        block, at = self._find(row)
        return 0 if block.starts is None else int(block.starts[at])

    def starts(self) -> torch.Tensor:
        none = torch.zeros(1, dtype=torch.int64)
        parts = [none.expand(b.rows) if b.starts is None else b.starts.to(torch.int64) for b in self.blocks]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def width(self, row: int) -> int:
        block, at = self._find(row)
        return block.span(at)[1]

    def scores(self, row: int) -> torch.Tensor:
        block, at = self._find(row)
        return block.source.tensor(block.scores, *block.span(at))

    def valid(self, row: int) -> torch.Tensor:
        block, at = self._find(row)
        (begin, width), start = block.span(at), self.start(row)
        return block.source.tensor(block.scores, begin + start, held(int(self.lengths[row]), start, width))

    def slots(self, row: int) -> int | None:
        k_max = self._find(row)[0].k_max
        if k_max is None:
            return None
        k = self._recorded_k(row)
        return k_max if k is None else k

    def indices(self, row: int) -> torch.Tensor | None:
        block, at = self._find(row)
        k_max = block.k_max
        if block.indices is None or k_max is None:
            return None
        stored = (block.indices_source or block.source).tensor(
            block.indices, at * (block.indices.pitch or k_max), k_max
        )
        length, start, (_, width) = int(self.lengths[row]), self.start(row), block.span(at)
        bound = length if length == held(length, start, width) else None
        return check_indices(stored, self._recorded_k(row), bound, row, block.names, block.mapping is not None)

    def mapped(self, row: int) -> Mapped | None:
        block, at = self._find(row)
        return None if block.mapping is None else block.mapping.of(block.source, at)

    @property
    def returned(self) -> str:
        """What the recorded indices are, as in ``page table``."""
        kinds = (block.mapping.returned if block.mapping else RAW for block in self.blocks if block.indices)
        return ", ".join(dict.fromkeys(kinds)) or RAW

    def _recorded_k(self, row: int) -> int | None:
        return self.table.ints(self.call_of(row))["k"]

    def call_of(self, row: int) -> int:
        if self._groups is not None:
            return self._groups.call_of(row)
        return bisect_right(self._firsts, row) - 1

    def call(self, number: int) -> Call:
        return self.table.call(number)

    def rows_of(self, number: int) -> Sequence[int]:
        if self._groups is not None:
            return self._groups.rows_of(number)
        block = self.blocks[number]
        return range(block.first, block.first + block.rows)

    def call_numbers(self) -> torch.Tensor:
        if self._groups is not None:
            return self._groups.numbers()
        return torch.repeat_interleave(torch.tensor([block.rows for block in self.blocks]))

    def widths(self) -> torch.Tensor:
        parts = [block.widths() for block in self.blocks]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def field(self, name: str) -> torch.Tensor | None:
        return self.table.fields.get(name)

    def read_others(self) -> None:
        read = {(block.source, block.scores.name) for block in self.blocks}
        read |= {(block.indices_source or block.source, block.indices.name) for block in self.blocks if block.indices}
        mappings = [(block.source, block.mapping) for block in self.blocks if block.mapping is not None]
        tables = [(mapping.source or source, mapping.table) for source, mapping in mappings]
        read |= {(source, table.name) for source, table in tables if table is not None}
        for source in {block.source for block in self.blocks} | {source for source, _ in read}:
            source.read_others({name for owner, name in read if owner is source})

    def close(self) -> None:
        for source in self.sources:
            source.close()


class MemoryStore:
    """Rows that are in memory; scores and indices are kept as given, on their device."""

    def __init__(self, rows: Sequence[Row]) -> None:
        if not rows:
            raise CaptureError("there are no rows; a capture holds one or more")
        self._rows_given = list(rows)
        numbers, given = number_calls(rows)
        self._calls = [Call(**{**vars(call), "index": number}) for number, call in enumerate(given)]
        self._groups = RowGroups(torch.tensor(numbers, dtype=torch.int64), len(numbers))
        self.lengths = torch.tensor([row.length for row in rows], dtype=torch.int64)
        self.rows = len(rows)
        self.calls = len(self._calls)

    def start(self, row: int) -> int:
        return self._rows_given[row].start

    def starts(self) -> torch.Tensor:
        return torch.tensor([row.start for row in self._rows_given], dtype=torch.int64)

    def width(self, row: int) -> int:
        return self._rows_given[row].scores.numel()

    def scores(self, row: int) -> torch.Tensor:
        return self._rows_given[row].scores

    def valid(self, row: int) -> torch.Tensor:
        return self._rows_given[row].valid

    def slots(self, row: int) -> int | None:
        indices = self._rows_given[row].indices
        return None if indices is None else indices.numel()

    def indices(self, row: int) -> torch.Tensor | None:
        return self._rows_given[row].indices

    def mapped(self, row: int) -> Mapped | None:
        given = self._rows_given[row]
        return None if given.indices is None else given.mapped

    def call_of(self, row: int) -> int:
        return self._groups.call_of(row)

    def call(self, number: int) -> Call:
        return self._calls[number]

    def rows_of(self, number: int) -> Sequence[int]:
        return self._groups.rows_of(number)

    def call_numbers(self) -> torch.Tensor:
        return self._groups.numbers()

    def widths(self) -> torch.Tensor:
        return torch.tensor([row.scores.numel() for row in self._rows_given], dtype=torch.int64)

    def field(self, name: str) -> torch.Tensor | None:
        values = [getattr(call, name) for call in self._calls]
        return torch.tensor([-1 if value is None else value for value in values], dtype=torch.int64)

    def read_others(self) -> None:
        """There is nothing else."""

    def close(self) -> None:
        """Nothing is open."""


def number_calls(rows: Sequence[Row]) -> tuple[list[int], list[Call]]:
    """Each row's call number, and the calls by number.

    Rows are of one call if they name the same capture and equal calls. Calls keep their numbers where these are
    0, 1, 2, … once each; otherwise they are numbered as they first appear.
    """
    order: dict[tuple[str, Call], int] = {}
    for row in rows:
        order.setdefault((row.capture, row.call), len(order))
    calls = [call for _, call in order]
    if sorted(call.index for call in calls) == list(range(len(calls))):
        order = {key: key[1].index for key in order}
        calls.sort(key=lambda call: call.index)
    return [order[row.capture, row.call] for row in rows], calls
