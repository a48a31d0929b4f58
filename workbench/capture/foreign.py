"""Rows of named tensors: of foreign safetensors files, of sharded sets of them, and of dumps that readers know."""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from workbench.capture import store
from workbench.capture.checks import (
    Names,
    check_call_fields,
    check_k,
    check_lengths,
    check_slots,
    check_starts,
    first_true,
)
from workbench.capture.format import CALL_FIELDS, INTS, SCORES
from workbench.capture.header import MAX_HEADER, TensorInfo
from workbench.capture.source import Source
from workbench.capture.store import Block, CallTable, FileStore
from workbench.capture.stored import check_dtype, check_row_count, check_row_width
from workbench.capture.strictjson import strict_json
from workbench.capture.values import brief, shape_text, shown
from workbench.errors import CaptureError, UsageError

CONTIGUOUS = "save it after .contiguous()"
INDEX_SUFFIX = ".safetensors.index.json"
_LISTED = 12
_DIGITS = re.compile(r"([0-9]{1,18})")


@dataclass(frozen=True)
class TensorSet:
    """Tensors by name, over one file, the shards of a set or the files of a folder.

    Attributes:
        file: what was opened, for messages. sources: its files. tensors: all of them, by name.
        shards: the source of each tensor that is not in the first file.
        broken: why tensors that should be there cannot be read, by their names.
    """

    file: str
    sources: list[Source]
    tensors: dict[str, TensorInfo]
    shards: dict[str, Source] = field(default_factory=dict)
    broken: dict[str, CaptureError] = field(default_factory=dict)

    def get(self, name: str) -> tuple[Source, TensorInfo]:
        """One tensor by name, and where it is."""
        if name in self.broken:
            raise self.broken[name]
        if name not in self.tensors:
            raise CaptureError(
                f"there is no such tensor; there are {self.listed()}", file=self.file, tensor=brief(name)
            )
        return self.shards.get(name, self.sources[0]), self.tensors[name]

    def in_order(self) -> list[TensorInfo]:
        """All tensors in natural order of their names."""
        return [self._shown(name) for name in sorted(self.tensors, key=natural)]

    def _shown(self, name: str) -> TensorInfo:
        """A tensor under the name that it has here, which in its own file may be a shorter one."""
        info = self.tensors[name]
        return info if info.name == name else replace(info, name=name)

    def listed(self) -> str:
        """Names, dtypes and shapes of at most a dozen tensors."""
        if not self.tensors:
            return "no tensors"
        names = heapq.nsmallest(_LISTED, self.tensors, key=natural)
        more = f" and {len(self.tensors) - _LISTED} more" if len(self.tensors) > _LISTED else ""
        return ", ".join(str(self._shown(name)) for name in names) + more

    def close(self) -> None:
        """Close every file."""
        for source in self.sources:
            source.close()


def natural(name: str) -> tuple[list[str | int], str]:
    """Sort key under which ``layer.10`` comes after ``layer.9``."""
    parts: list[str | int] = list(_DIGITS.split(name))  # text and digits take turns, so like is compared with like
    parts[1::2] = map(int, parts[1::2])
    return parts, name


def open_single(path: str | bytes | os.PathLike[str]) -> TensorSet:
    """One safetensors file."""
    source = Source(path)
    return TensorSet(source.file, [source], source.header.tensors)


def open_sharded(path: str | bytes | os.PathLike[str]) -> TensorSet:
    """A set of shards by its ``*.safetensors.index.json``.

    Raises:
        CaptureError: the index is none, a shard is missing, damaged or outside the index's folder, or lacks a tensor.
    """
    index = Source(path, header=False)
    sources = [index]
    try:
        weight_map = _weight_map(index)
        shards: dict[str, Source] = {}
        for shard in sorted(set(weight_map.values()), key=natural):
            shards[shard] = Source(_inside(index, shard))
            sources.append(shards[shard])
        tensors: dict[str, TensorInfo] = {}
        owners: dict[str, Source] = {}
        for name, shard in weight_map.items():
            owners[name] = shards[shard]
            info = shards[shard].header.tensors.get(name)
            if info is None:
                raise CaptureError(
                    f"the index says that it is in {brief(shown(shard))}, but it is not; fetch the set again",
                    file=index.file,
                    tensor=brief(name),
                )
            tensors[name] = info
        return TensorSet(index.file, sources, tensors, owners)
    except BaseException:
        for source in sources:
            source.close()
        raise


def _weight_map(index: Source) -> dict[str, str]:
    if index.size > MAX_HEADER:
        raise CaptureError(f"{index.size} bytes are too many for an index; {MAX_HEADER} is the most", file=index.file)
    content = strict_json(index.read(0, index.size), "the index", index.file)
    weight_map = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(weight_map, dict) or not all(isinstance(shard, str) for shard in weight_map.values()):
        raise CaptureError(
            "not an index of a sharded set: weight_map must map tensor names to file names", file=index.file
        )
    if not weight_map:
        raise CaptureError("the index names no tensors; fetch the set again", file=index.file)
    return weight_map


def _inside(index: Source, shard: str) -> Path:
    """The path of a shard, which the index may only name below its own folder.

    A link that stands there may lead elsewhere: caches of model hubs are laid out that way, and whoever can place
    a link can place the file.
    """
    folder = index.path.parent
    relative = Path(shard)
    if "\0" in shard or relative.is_absolute() or ".." in relative.parts or not relative.parts:
        raise CaptureError(
            f"shard {brief(shown(shard))!r} is not a path below the folder of the index; put all shards there",
            file=index.file,
        )
    path = folder / relative
    if not os.path.lexists(path):
        raise CaptureError(f"shard {brief(shown(shard))} is missing; fetch the whole set", file=index.file)
    return path


@dataclass(frozen=True)
class MappedNames:
    """What maps the recorded indices of a call: tensors by name, as far as they are there.

    Attributes:
        returned: as ``Mapped`` has it. page_size: of the table. table: int32 [tables, pages]. uses: [rows], the table
            of each row. begins: [rows], where in its table the pages of each row begin. offsets: [rows].
    """

    returned: str
    page_size: int | None = None
    table: str | None = None
    uses: str | None = None
    begins: str | None = None
    offsets: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All its tensors."""
        return tuple(name for name in (self.table, self.uses, self.begins, self.offsets) if name is not None)


@dataclass(frozen=True)
class Group:
    """The tensors of one call by name, and what integers of ``CALL_FIELDS`` are known of it."""

    scores: str
    lengths: str | None = None
    starts: str | None = None
    indices: str | None = None
    ints: Mapping[str, int] = field(default_factory=dict)
    mapped: MappedNames | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All its tensors."""
        own = tuple(name for name in (self.scores, self.lengths, self.starts, self.indices) if name is not None)
        return own if self.mapped is None else own + self.mapped.names


def find_groups(
    names: Iterable[str], scores: str, lengths: str | None, starts: str | None, indices: str | None
) -> list[Group] | None:
    """The named tensors of each call; ``None`` if nothing matches the pattern.

    Raises:
        UsageError: the names cannot be understood.
    """
    others = {"lengths": lengths, "starts": starts, "indices": indices}
    everything = set(names)
    if "*" not in scores or scores in everything:
        for role, name in others.items():
            if name is not None and "*" in name and name not in everything:
                raise UsageError(f"{role} {name!r} has a *, but scores {scores!r} has none that could fill it")
        return [Group(scores, lengths, starts, indices)]
    for role, name in {"scores": scores, **others}.items():
        if name is not None and name.count("*") > 1:
            raise UsageError(f"{role} {name!r} has more than one *; one is understood")
    before, after = scores.split("*")
    groups = []
    for name in sorted(everything, key=natural):
        if name.startswith(before) and name.endswith(after) and len(name) >= len(before) + len(after):
            text = name[len(before) : len(name) - len(after)]
            filled = {role: other and other.replace("*", text) for role, other in others.items()}
            groups.append(Group(name, filled["lengths"], filled["starts"], filled["indices"]))
    return groups or None


def open_groups(
    tensors: TensorSet, groups: Sequence[Group], k: int | None, strings: dict[str, str | None]
) -> tuple[FileStore, tuple[str, ...]]:
    """Rows of named tensors, each group one call, and notes in words; ``k``, if given, stands over the groups' own.

    Raises:
        CaptureError: a tensor is not there, of a wrong dtype or shape, or holds what no capture can hold.
    """
    check_row_count(len(groups), tensors.file, "scores")
    blocks: list[Block] = []
    all_lengths: list[torch.Tensor] = []
    first = 0
    for number, group in enumerate(groups):
        for name, value in group.ints.items():  # of a dump's own, so that they may be of any size
            if not -(2**63) <= value < 2**63:
                raise CaptureError(
                    f"{name} has {value.bit_length()} bits; an int64 is needed",
                    file=tensors.file,
                    tensor=name,
                    call=number,
                )
        block, block_lengths = _block(tensors, group, first)
        asked = torch.tensor([group.ints.get("k", -1) if k is None else k])
        check_k(asked, None, block.width or 0, block.names, number)
        if block.k_max is not None:
            check_slots(asked, None, block.k_max, block.names, number)
        blocks.append(block)
        all_lengths.append(block_lengths)
        first += block.rows
        check_row_count(first, block.source.file, group.scores)
    fields = _fields(groups, k)
    check_call_fields(fields, tensors.file)
    table = CallTable(len(blocks), fields, strings)
    joined = all_lengths[0] if len(all_lengths) == 1 else torch.cat([part.to(torch.int64) for part in all_lengths])
    return FileStore(blocks, joined, table, None, tensors.sources), _notes(blocks, groups)


def _fields(groups: Sequence[Group], k: int | None) -> dict[str, torch.Tensor]:
    """The integers of all calls."""
    known = {name for group in groups for name in group.ints} | ({"k"} if k is not None else set())
    fields = {}
    for name in CALL_FIELDS:
        if name in known:
            values = [group.ints.get(name, -1) for group in groups]
            fields[name] = torch.tensor([k] * len(groups) if name == "k" and k is not None else values)
    return fields


def _notes(blocks: list[Block], groups: Sequence[Group]) -> tuple[str, ...]:
    notes = []
    without = sum(group.lengths is None for group in groups)
    if without == len(groups):
        notes.append("no lengths were named: every row is taken at its full width")
    elif without:
        notes.append(f"{without} of {len(groups)} calls have no lengths: their rows are taken at their full width")
    if any(block.indices is not None and block.indices.dtype == "int64" for block in blocks):
        notes.append("recorded indices are int64 in the file; rows give the same values as int32")
    return tuple(notes)


def _block(tensors: TensorSet, group: Group, first: int) -> tuple[Block, torch.Tensor]:
    source, info = tensors.get(group.scores)
    check_dtype(info, SCORES, source.file)

    def bad(reason: str) -> CaptureError:
        return CaptureError(f"shape is {shape_text(info.shape)}{reason}", file=source.file, tensor=brief(info.name))

    if len(info.shape) not in (1, 2):
        raise bad("; [rows, width], or [width] for one row, is needed")
    rows, width = (1, info.shape[0]) if len(info.shape) == 1 else (info.shape[0], info.shape[1])
    if rows == 0 or width == 0:
        raise bad(": there are no scores; name a tensor that holds some")
    check_row_count(rows, source.file, info.name)
    check_row_width(width, source.file, info.name)
    names = _names(tensors, group)
    starts = None if group.starts is None else _per_row(tensors, group.starts, rows)
    if group.lengths is not None:
        lengths = _per_row(tensors, group.lengths, rows)
    else:
        lengths = torch.full((1,), width, dtype=torch.int64).expand(rows)
    check_lengths(lengths, names, first)
    check_starts(starts, width, names, first)
    late = None if starts is None or group.lengths is not None else first_true(starts > 0)
    if late is not None and starts is not None:
        raise names.error(
            "starts",
            f"start {int(starts[late])} without a length: name the lengths too, which count from the start",
            row=first + late,
        )
    indices_source, indices = (None, None) if group.indices is None else _indices(tensors, group.indices, rows)
    block = Block(
        source=source,
        scores=info,
        first=first,
        rows=rows,
        width=width,
        names=names,
        starts=starts,
        indices=indices,
        indices_source=indices_source,
        mapping=None if indices is None or group.mapped is None else _mapping(tensors, group.mapped, rows),
    )
    return block, lengths


def _mapping(tensors: TensorSet, names: MappedNames, rows: int) -> store.Mapping:
    """How the recorded indices of a call were mapped."""
    offsets, uses, begins = (
        None if name is None else _per_row(tensors, name, rows) for name in (names.offsets, names.uses, names.begins)
    )
    for name, values in ((names.offsets, offsets), (names.uses, uses), (names.begins, begins)):
        if values is not None and (at := first_true(values < 0)) is not None:
            source, info = tensors.get(name or "")
            raise CaptureError(
                f"entry {at} is {int(values[at])}; 0 or more is needed", file=source.file, tensor=brief(info.name)
            )
    if names.table is None:
        return store.Mapping(names.returned, page_size=names.page_size, offsets=offsets)
    source, table = tensors.get(names.table)
    check_dtype(table, ("int32",), source.file)

    def bad(reason: str) -> CaptureError:
        return CaptureError(reason, file=source.file, tensor=brief(table.name))

    if len(table.shape) != 2 or 0 in table.shape:
        raise bad(f"shape is {shape_text(table.shape)}; [tables, pages] is needed")
    check_row_width(table.shape[1], source.file, table.name)
    most = rows if uses is None else int(uses.max()) + 1
    if most > table.shape[0]:
        raise bad(f"there are {table.shape[0]} tables; rows use {most}")
    if begins is not None and int(begins.max()) >= table.shape[1]:
        raise bad(f"a table has {table.shape[1]} pages; those of a row begin at {int(begins.max())}")
    return store.Mapping(names.returned, table, names.page_size, None, uses, begins, source)


def _names(tensors: TensorSet, group: Group) -> Names:
    """Where the parts of one call are.

    k is in no file: its messages name the scores that it is asked of.
    """
    placed = {"k": group.scores, "lengths": group.lengths, "starts": group.starts, "indices": group.indices}
    known = {part: name for part, name in placed.items() if name is not None}
    return Names(tensors.file, **known, files={part: tensors.get(name)[0].file for part, name in known.items()})


def _indices(tensors: TensorSet, name: str, rows: int) -> tuple[Source, TensorInfo]:
    """Recorded selections, [rows, k]; of one row also [k]."""
    source, info = tensors.get(name)
    check_dtype(info, INTS, source.file)
    shape = info.shape
    if not ((len(shape) == 2 and shape[0] == rows) or (len(shape) == 1 and rows == 1)):
        raise CaptureError(
            f"shape is {shape_text(shape)}; [{rows}, k] is needed for {rows} rows",
            file=source.file,
            tensor=brief(name),
        )
    check_row_width(shape[-1], source.file, name)
    return source, info


def _per_row(tensors: TensorSet, name: str, rows: int) -> torch.Tensor:
    """Lengths or starts, [rows] or [rows, 1]; of one row also without dimensions."""
    source, info = tensors.get(name)
    check_dtype(info, INTS, source.file)
    if info.pitch is not None:
        raise CaptureError(f"lies in a wider tensor; {CONTIGUOUS}", file=source.file, tensor=brief(name))
    if info.shape not in ((rows,), (rows, 1)) and not (rows == 1 and info.shape == ()):
        raise CaptureError(
            f"shape is {shape_text(info.shape)}; [{rows}] or [{rows}, 1] is needed for {rows} rows of scores",
            file=source.file,
            tensor=brief(name),
        )
    return source.tensor(info)
