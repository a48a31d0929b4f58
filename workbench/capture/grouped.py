"""Rows of named tensors that belong together: each group of them is one call."""

from __future__ import annotations

from collections.abc import Sequence

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
from workbench.capture.foreign import CONTIGUOUS, Group, MappedNames, TensorSet
from workbench.capture.format import CALL_FIELDS, INTS, SCORES
from workbench.capture.header import TensorInfo
from workbench.capture.source import Source
from workbench.capture.store import Block, CallTable, FileStore
from workbench.capture.stored import check_dtype, check_row_count, check_row_width
from workbench.capture.values import brief, shape_text
from workbench.errors import CaptureError


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
