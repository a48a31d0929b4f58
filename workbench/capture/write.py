"""Writing captures: to a temporary file beside the target, read back bit for bit, then put in place."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import torch

from workbench.capture.about import CaptureInfo
from workbench.capture.capture import Capture, check_memory_row
from workbench.capture.foreign import INDEX_SUFFIX
from workbench.capture.format import (
    CALL_FIELDS,
    LOGITS,
    MAPPING_TENSORS,
    METADATA_KEY,
    MOVED,
    PAGES,
    STEPS,
    STRINGS,
    TENSORS,
    TOKEN_TENSORS,
    TOKENS,
    dump_strings,
)
from workbench.capture.mapped import RAW, Mapped
from workbench.capture.mappings import common_mapping, same_mapping
from workbench.capture.opening import open_capture
from workbench.capture.row import Call, Row, raw_bytes, same_bits
from workbench.capture.source import Source
from workbench.capture.tokens import Token, Tokens, memory_tokens
from workbench.capture.values import check_text, described, path_text, shown
from workbench.errors import CaptureError, UsageError
from workbench.targets import check_target, put_in_place
from workbench.words import because

_NAMES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16", "int16": "I16", "int32": "I32", "int64": "I64"}
_SIZES = {"F32": 4, "BF16": 2, "F16": 2, "I16": 2, "I32": 4, "I64": 8}
_INT32 = 2**31 - 1
_FURTHER = (torch.int16, torch.int32, torch.int64)
CURE = "allow overwriting"


def write_capture(
    path: str | bytes | os.PathLike[str],
    rows: Iterable[Row] | Capture,
    *,
    op: str | None = None,
    release: str | None = None,
    device: str | None = None,
    model: str | None = None,
    request: str | None = None,
    source: str | None = None,
    tokens: Iterable[Token] | None = None,
    overwrite: bool = False,
    tensors: Mapping[str, torch.Tensor] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> CaptureInfo:
    """Write rows to a capture file, with all that is known of their calls and their recorded selections.

    The rows are stored as they are, padding included: padded if all are equally wide, else ragged. What was written
    is read back and compared bit for bit before the file appears under its name; on any error nothing appears.

    Args:
        rows: a capture is copied row by row; other iterables are collected first. Rows of one capture (by name) with
            equal calls are of one call.
        op, release, device, model, request: go before what the calls say. A file holds each once, so calls that
            differ in one of them need it given, or a file each.
        source: how the capture was made, free text.
        tokens: what decoding chose, with or without LM-head rows (of one dtype and one vocabulary). By default those
            of the capture that is copied.
        overwrite: replace a file that is already there.
        tensors, metadata: what else the file shall hold, under names that the format does not use; readers of captures
            leave it alone. Tensors are int16, int32 or int64.

    Returns:
        What was written, as ``open_capture(path).info``.

    Raises:
        CaptureError: no rows, rows that one file cannot hold without loss, or a file that cannot be written.
        UsageError: the file is there already, is no regular file, or would be read as something else; a string is none.
    """
    target = Path(path_text(path))
    file = shown(path)
    capture = rows if isinstance(rows, Capture) else Capture.from_rows(rows, name="rows to write")
    given = {"op": op, "release": release, "device": device, "model": model, "request": request}
    _check_texts({**given, "source": source})
    if not isinstance(overwrite, bool):
        raise UsageError(f"overwrite is {described(overwrite)}; True or False is needed")
    for name, extra in (("tensors", tensors), ("metadata", metadata)):
        if extra is not None and not isinstance(extra, Mapping):
            raise UsageError(f"{name} is {described(extra)}; a mapping is needed")
    check_target(target, file, overwrite=True, cure=CURE)
    for name in (target.name, Path(os.path.realpath(target)).name):
        if name.endswith(INDEX_SUFFIX):
            raise UsageError(f"{file}: *{INDEX_SUFFIX} names the index of a sharded set; use *.safetensors")
    check_target(target, file, overwrite=overwrite, cure=CURE)
    held = capture.tokens if tokens is None else memory_tokens(tokens, "tokens to write")
    plan = _plan(capture, given, capture.info.source if source is None else source, held)
    plan = replace(plan, further=_further(tensors or {}), metadata=_metadata(metadata or {}))
    try:
        with put_in_place(target, file, overwrite=overwrite, cure=CURE) as temporary:
            with temporary.open("wb") as out:
                _write(out, plan, capture)
                out.flush()
                os.fsync(out.fileno())
            info = _read_back(temporary, plan, capture, file)
    except OSError as error:
        raise CaptureError(f"cannot be written: {because(error)}", file=file) from None
    return replace(info, path=file)


@dataclass(frozen=True)
class _Plan:
    """Everything of the file but scores, indices, page tables and logits, which are written row by row.

    Attributes:
        mapping: of the first row; its page table, [pages], stands for all of them where ``shared``.
    """

    dtype: str
    shape: list[int]
    ints: dict[str, torch.Tensor]
    k_max: int | None
    calls: list[Call]
    strings: dict[str, str | None]
    source: str | None
    tokens: Tokens
    further: dict[str, torch.Tensor] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    mapping: Mapped | None = None
    shared: bool = False

    @property
    def integers(self) -> dict[str, torch.Tensor]:
        """The tensors that are written at once, further ones last."""
        return {**self.ints, **self.further}

    def entries(self, rows: int) -> list[tuple[str, str, list[int]]]:
        """(name, dtype, shape) of every tensor in the order of the file."""
        entries = [(name, _NAMES[str(ints.dtype)[6:]], list(ints.shape)) for name, ints in self.integers.items()]
        if self.k_max is not None:
            entries.append(("indices", "I32", [rows, self.k_max]))
        if self.mapping is not None and self.mapping.table is not None:
            entries.append((PAGES, "I32", [1 if self.shared else rows, self.mapping.table.numel()]))
        if self.tokens.dtype is not None and self.tokens.vocab is not None:
            entries.append((LOGITS, _NAMES[self.tokens.dtype], [len(self.tokens), self.tokens.vocab]))
        entries.append(("scores", _NAMES[self.dtype], self.shape))
        # the widest elements first, so that every tensor is aligned for readers that map the file
        return sorted(entries, key=lambda entry: -_SIZES[entry[1]])

    def header(self, rows: int) -> bytes:
        returned, page_size = (RAW, None) if self.mapping is None else (self.mapping.returned, self.mapping.page_size)
        said = dump_strings(self.strings, self.source, returned, page_size)
        metadata = {METADATA_KEY: said, **self.metadata}
        content: dict[str, object] = {"__metadata__": metadata}
        end = 0
        for name, dtype, shape in self.entries(rows):
            begin, count = end, 1
            for extent in shape:
                count *= extent
            end += count * _SIZES[dtype]
            content[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        text += b" " * (-len(text) % 8)
        return len(text).to_bytes(8, "little") + text


def _check_texts(strings: dict[str, str | None]) -> None:
    for name, value in strings.items():
        if value is not None:
            try:
                check_text(value, name)
            except ValueError as error:
                raise UsageError(str(error)) from None


def _further(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors besides those of the format, checked."""
    taken = {spec.name for spec in (*TENSORS, *MAPPING_TENSORS, *TOKEN_TENSORS)} | set(CALL_FIELDS)
    for name, tensor in tensors.items():
        if name in taken:
            raise UsageError(f"tensor {name!r} is the format's own; choose another name")
        if tensor.dtype not in _FURTHER:
            raise UsageError(f"tensor {name!r} is {tensor.dtype}; int16, int32 or int64 is needed")
    return dict(tensors)


def _metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    if METADATA_KEY in metadata:
        raise UsageError(f"metadata {METADATA_KEY!r} is the format's own; choose another name")
    _check_texts(dict(metadata))
    return dict(metadata)


def _plan(capture: Capture, given: dict[str, str | None], source: str | None, tokens: Tokens) -> _Plan:
    """Check that one file can hold the rows without loss, and lay it out."""
    count = len(capture)
    calls = list(capture.calls)
    strings = {name: _common(calls, name, given[name], capture) for name in STRINGS}
    _check_texts(strings)
    for row in capture if capture.info.format == "memory" else ():
        check_memory_row(row)
        if row.dtype != capture[0].dtype:
            raise _bad(
                capture,
                f"scores are {row.dtype}, those of row 0 {capture[0].dtype}; write them to two files",
                row.index,
            )
    if "," in capture.info.dtype:
        raise _bad(capture, f"scores are of several dtypes ({capture.info.dtype}); write a file for each")
    widths = [capture.width_of(row) for row in range(count)]
    starts = [capture.start_of(row) for row in range(count)]
    padded = min(widths) == max(widths) > 0
    ints: dict[str, torch.Tensor] = {}
    if not padded:
        ints["offsets"] = torch.cat(
            [torch.zeros(1, dtype=torch.int64), torch.tensor(widths, dtype=torch.int64).cumsum(0)]
        )
    ints["lengths"] = capture.lengths.to(torch.int32)  # any length is an int32, whatever holds it
    if any(starts):
        ints["starts"] = torch.tensor(starts, dtype=torch.int32)
    if len(calls) > 1:
        ints["call"] = torch.tensor([capture.call_of(row) for row in range(count)], dtype=torch.int32)
    for name in CALL_FIELDS:
        values = [getattr(call, name) for call in calls]
        # k says how many calls there are even where nothing is known of them
        if any(value is not None for value in values) or (name == "k" and len(calls) > 1):
            stored = [-1 if value is None else value for value in values]
            ints[name] = torch.tensor(stored, dtype=torch.int32 if max(stored) <= _INT32 else torch.int64)
    if tokens:
        ints[STEPS] = tokens.steps
        if bool((tokens.chosen != -1).any()):
            ints[TOKENS] = tokens.chosen
    mapping, shared, moved = common_mapping(capture)
    if moved:
        ints[MOVED] = torch.tensor(moved, dtype=torch.int32)
    shape = [count, widths[0]] if padded else [sum(widths)]
    return _Plan(
        capture.info.dtype,
        shape,
        ints,
        _k_max(capture, calls),
        calls,
        strings,
        source,
        tokens,
        mapping=mapping,
        shared=shared,
    )


def _common(calls: list[Call], name: str, given: str | None, capture: Capture) -> str | None:
    """The one value of a string over all calls, or the given one."""
    if given is not None:
        return given
    values = list(dict.fromkeys(getattr(call, name) for call in calls))
    if len(values) > 1:
        shown_values = " and ".join("unknown" if value is None else repr(value) for value in values[:2])
        raise _bad(
            capture, f"calls differ in {name} ({shown_values}); a file holds one: give it, or write a file for each"
        )
    value: str | None = values[0]
    return value


def _k_max(capture: Capture, calls: list[Call]) -> int | None:
    """Recorded slots a row in the file; ``None`` if nothing is recorded."""
    slots = [capture.slots_of(row) for row in range(len(capture))]
    recorded = [count for count in slots if count is not None]
    if not recorded:
        return None
    k_max = max(recorded)
    for row, count in enumerate(slots):
        if count is None:
            raise _bad(capture, "no recorded indices, but other rows have them; write them to two files", row)
        k = calls[capture.call_of(row)].k
        if count != (k_max if k is None else k):
            needed = f"{k_max} as in other rows, since its k is unknown" if k is None else f"k = {k}"
            raise _bad(capture, f"{count} recorded indices; {needed} are needed, -1 padded", row)
    return k_max


def _bad(capture: Capture, reason: str, row: int | None = None) -> CaptureError:
    return CaptureError(reason, file=capture.name, row=row)


def _write(out: BinaryIO, plan: _Plan, capture: Capture) -> None:
    out.write(plan.header(len(capture)))
    for name, _, _ in plan.entries(len(capture)):
        for tensor in _parts(name, plan, capture):
            _put(out, tensor)


def _parts(name: str, plan: _Plan, capture: Capture) -> Iterator[torch.Tensor]:
    """One tensor of the file, a row at a time where it may be large."""
    if name == "indices":
        for row in range(len(capture)):
            slots = torch.full((plan.k_max or 0,), -1, dtype=torch.int32)
            indices = capture.indices_of(row)
            if indices is not None:
                slots[: indices.numel()] = indices.cpu()
            yield slots
    elif name == PAGES:
        for row in range(1 if plan.shared else len(capture)):
            mapped = capture.mapped_of(row)
            if mapped is not None and mapped.table is not None:
                yield mapped.table
    elif name == LOGITS:
        yield from (token.logits for token in plan.tokens if token.logits is not None)
    elif name == "scores":
        yield from (row.scores for row in capture)
    else:
        yield plan.integers[name]


def _put(out: BinaryIO, tensor: torch.Tensor) -> None:
    if tensor.numel():
        out.write(raw_bytes(tensor))


def _read_back(temporary: Path, plan: _Plan, capture: Capture, file: str) -> CaptureInfo:
    """Compare the file with the rows.

    Raises:
        CaptureError: it does not hold them.
    """
    try:
        with open_capture(temporary) as copy:
            expected = [replace(call, **plan.strings) for call in plan.calls]  # type: ignore[arg-type]
            if len(copy) != len(capture) or list(copy.calls) != expected:
                raise CaptureError("calls read back differ from those written; write it again", file=file)
            for row in capture:
                other = copy[row.index]
                if not (
                    same_bits(row.scores, other.scores)
                    and same_bits(row.indices, other.indices)
                    and (row.indices is None or same_mapping(row.mapped, other.mapped))
                    and (row.length, row.start) == (other.length, other.start)
                    and row.call.index == other.call.index
                ):
                    raise CaptureError(
                        "reads back different from what was written; write it again", file=file, row=row.index
                    )
            if len(copy.tokens) != len(plan.tokens):
                raise CaptureError("tokens read back differ from those written; write it again", file=file)
            for at, (token, written) in enumerate(zip(copy.tokens, plan.tokens, strict=True)):
                if (token.step, token.token) != (written.step, written.token) or not same_bits(
                    token.logits, written.logits
                ):
                    raise CaptureError(f"token {at} reads back different; write it again", file=file)
            _read_back_further(temporary, plan, file)
            return copy.info
    except CaptureError as error:
        if error.file in (file, capture.name):
            raise
        raise CaptureError(error.reason, file=file, tensor=error.tensor, row=error.row, call=error.call) from None


def _read_back_further(temporary: Path, plan: _Plan, file: str) -> None:
    source = Source(temporary)
    try:
        infos, metadata = source.header.tensors, source.header.metadata
        same = all(same_bits(tensor.flatten(), source.tensor(infos[name])) for name, tensor in plan.further.items())
        if not same or any(metadata.get(name) != text for name, text in plan.metadata.items()):
            raise CaptureError("reads back different from what was written; write it again", file=file)
    finally:
        source.close()
