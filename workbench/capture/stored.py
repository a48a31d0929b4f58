"""Reading format version 1: from a header to a checked store of rows."""

from __future__ import annotations

import torch

from workbench.capture.checks import (
    Names,
    check_call_fields,
    check_call_numbers,
    check_k,
    check_offsets,
    check_slots,
    check_starts,
    first_true,
    widest_per_call,
)
from workbench.capture.format import (
    CALL_FIELDS,
    INTS,
    MAPPING_TENSORS,
    MAX_ROWS,
    MAX_WIDTH,
    METADATA_KEY,
    MOVED,
    PAGES,
    TENSORS,
    Said,
)
from workbench.capture.header import TensorInfo
from workbench.capture.mapped import PAGE_TABLE, RAW, checked_page_size
from workbench.capture.source import Source
from workbench.capture.store import Block, CallTable, FileStore, Mapping, RowGroups
from workbench.capture.values import brief, shape_text
from workbench.errors import CaptureError
from workbench.words import listed

# Scores of other dtypes that can be asked for, and as what.
CONVERTIBLE = {"float64": "float32", "int64": "float32", "int32": "float32", "int16": "float32", "void16": "bfloat16"}


def open_stored(source: Source, said: Said, k: int | None) -> FileStore:
    """The rows of a capture file; ``k``, if given, stands for every call's in the check against the row width.

    Raises:
        CaptureError: a tensor is missing, of a wrong dtype or shape, or holds what no capture can hold.
    """
    file = source.file
    found = {spec.name: find_tensor(source, spec.name, spec.dtypes, spec.required) for spec in TENSORS}
    scores, lengths_info = found["scores"], found["lengths"]
    assert scores is not None
    assert lengths_info is not None
    rows = extent_of(lengths_info, None, file)
    if rows == 0:
        raise CaptureError("the capture holds no rows; a capture holds one or more", file=file, tensor="lengths")
    check_row_count(rows, file, "lengths")
    names = Names(file)
    offsets = _offsets(source, scores, found["offsets"], rows)
    widths: torch.Tensor | int
    if offsets is None:
        if len(scores.shape) != 2 or scores.shape[0] != rows:
            raise CaptureError(
                f"scores are of shape {shape_text(scores.shape)}; [{rows}, width] is needed for {rows} lengths, "
                "or [total] with offsets",
                file=file,
                tensor="scores",
            )
        widths = scores.shape[1]
        if widths == 0:
            raise CaptureError("rows are 0 scores wide: there is nothing to select from", file=file, tensor="scores")
    else:
        widths = check_offsets(offsets, scores.shape[0], names)
    check_row_width(widths, file, "scores")
    lengths = source.tensor(lengths_info)
    starts = read_vector(source, found["starts"], rows)
    check_starts(starts, widths, names)

    call = read_vector(source, found["call"], rows)
    table = CallTable(*_calls(source, call, rows), said.strings)
    if call is not None:
        check_call_numbers(call, table.calls, names)
    check_call_fields(table.fields, file)
    unknown = torch.full((1,), -1).expand(table.calls)
    recorded_k = table.fields.get("k", unknown)
    asked = recorded_k if k is None else torch.full((1,), k).expand(table.calls)
    check_k(asked, table.fields.get("width"), widest_per_call(widths, call, table.calls), names)
    indices = found["indices"]
    if indices is not None:
        if len(indices.shape) != 2 or indices.shape[0] != rows:
            raise CaptureError(
                f"indices are of shape {shape_text(indices.shape)}; [{rows}, k_max] is needed",
                file=file,
                tensor="indices",
            )
        check_row_width(indices.shape[1], file, "indices")
        check_slots(recorded_k, call, indices.shape[1], names)
    block = Block(
        source=source,
        scores=scores,
        first=0,
        rows=rows,
        width=widths if isinstance(widths, int) else None,
        names=names,
        offsets=offsets,
        starts=starts,
        indices=indices,
        mapping=None if indices is None or said.returned == RAW else _mapping(source, said, rows),
    )
    return FileStore([block], lengths, table, RowGroups(call, rows), [source])


def _mapping(source: Source, said: Said, rows: int) -> Mapping:
    """How the recorded indices were mapped, as far as the file holds it."""
    file = source.file
    found = {spec.name: find_tensor(source, spec.name, spec.dtypes, False) for spec in MAPPING_TENSORS}
    if said.returned != PAGE_TABLE:
        moved = read_vector(source, found[MOVED], rows)
        row = None if moved is None else first_true(moved < 0)
        if moved is not None and row is not None:
            raise CaptureError(
                f"offset {int(moved[row])} is negative; 0 or more is needed", file=file, tensor=MOVED, row=row
            )
        return Mapping(said.returned, offsets=moved)
    try:
        page_size = None if said.page_size is None else checked_page_size(said.page_size)
    except ValueError as error:
        raise CaptureError(f"metadata {METADATA_KEY!r}: {error}; write the file again", file=file) from None
    table = found[PAGES]
    if table is not None and (len(table.shape) != 2 or table.shape[0] not in (1, rows) or table.shape[1] == 0):
        raise CaptureError(
            f"shape is {shape_text(table.shape)}; [{rows}, pages], or [1, pages] for all rows, is needed",
            file=file,
            tensor=PAGES,
        )
    if table is not None:
        check_row_width(table.shape[1], file, PAGES)
    if table is not None and page_size is None:
        raise CaptureError(
            f"a page table says nothing without page_size; say it in the metadata {METADATA_KEY!r}",
            file=file,
            tensor=PAGES,
        )
    return Mapping(said.returned, table, page_size)


def unread_mapping(source: Source, said: Said) -> tuple[str, ...]:
    """A note on tensors that could hold a mapping and are left alone, since the metadata does not name it."""
    reads = {RAW: (), PAGE_TABLE: (PAGES,)}.get(said.returned, (MOVED,))
    left = [spec.name for spec in MAPPING_TENSORS if spec.name in source.header.tensors and spec.name not in reads]
    return (f"{listed(left)} not read: recorded indices are said to be {said.returned}",) if left else ()


def check_row_count(rows: int, file: str, tensor: str) -> None:
    """Refuse more rows (or calls) than can be kept track of."""
    if rows > MAX_ROWS:
        raise CaptureError(
            f"{rows} are more than the {MAX_ROWS} that one capture may hold; split it", file=file, tensor=brief(tensor)
        )


def check_row_width(widths: torch.Tensor | int, file: str, tensor: str) -> None:
    """Refuse rows that int32 indices cannot address."""
    width = widths if isinstance(widths, int) else int(widths.max())
    if width > MAX_WIDTH:
        raise CaptureError(
            f"a row of {width} is wider than {MAX_WIDTH}, the most that int32 indices address",
            file=file,
            tensor=brief(tensor),
        )


def check_dtype(info: TensorInfo, dtypes: tuple[str, ...], file: str) -> None:
    """Refuse a tensor of another dtype, or one that cannot be read as it lies; nothing is converted."""
    if info.problem:
        raise CaptureError(info.problem, file=file, tensor=brief(info.name))
    if info.dtype not in dtypes:
        reason = f"dtype is {info.dtype}; {' or '.join(dtypes)} is needed"
        raise CaptureError(f"{reason}{cure(info.dtype, dtypes)}", file=file, tensor=brief(info.name))


def cure(dtype: str, dtypes: tuple[str, ...]) -> str:
    """What to do about a tensor of another dtype; empty where nothing simple helps."""
    if dtypes is INTS:
        return "; save it as int32" if dtype in ("int8", "uint8", "int16", "uint16", "uint32", "uint64") else ""
    target = CONVERTIBLE.get(dtype)
    if target is None:
        return ""
    return f"; ask for them as {target} (as_dtype=, --as), which is refused where it would change a value"


def find_tensor(source: Source, name: str, dtypes: tuple[str, ...], required: bool) -> TensorInfo | None:
    """A tensor of the format, its dtype checked; ``None`` if it is not there and need not be."""
    info = source.header.tensors.get(name)
    if info is None:
        if required:
            raise CaptureError("the capture has no such tensor; write the file again", file=source.file, tensor=name)
        return None
    check_dtype(info, dtypes, source.file)
    return info


def extent_of(info: TensorInfo, extent: int | None, file: str) -> int:
    """The extent of a tensor of one dimension; refused if it is not the one asked for."""
    if len(info.shape) != 1 or (extent is not None and info.shape[0] != extent):
        needed = "one dimension" if extent is None else f"[{extent}]"
        raise CaptureError(f"shape is {shape_text(info.shape)}; {needed} is needed", file=file, tensor=info.name)
    return info.shape[0]


def read_vector(source: Source, info: TensorInfo | None, extent: int) -> torch.Tensor | None:
    """A whole tensor of one dimension and this extent; ``None`` if it is not there."""
    if info is None:
        return None
    extent_of(info, extent, source.file)
    return source.tensor(info)


def _offsets(source: Source, scores: TensorInfo, offsets: TensorInfo | None, rows: int) -> torch.Tensor | None:
    if len(scores.shape) == 1 and offsets is None:
        raise CaptureError(
            "scores have one dimension, so offsets [rows + 1] are needed too", file=source.file, tensor="scores"
        )
    if offsets is None:
        return None
    if len(scores.shape) != 1:
        raise CaptureError(
            f"offsets go with scores [total], not with scores {shape_text(scores.shape)}",
            file=source.file,
            tensor="offsets",
        )
    return read_vector(source, offsets, rows + 1)


def _calls(source: Source, call: torch.Tensor | None, rows: int) -> tuple[int, dict[str, torch.Tensor]]:
    """How many calls the file describes, and their integers."""
    infos = {name: find_tensor(source, name, INTS, False) for name in CALL_FIELDS}
    present = {name: info for name, info in infos.items() if info is not None}
    extents = {name: extent_of(info, None, source.file) for name, info in present.items()}
    if not present:
        # without descriptions a call number past the rows could only be a mistake
        calls = 1 if call is None else min(int(call.max()) + 1, rows)
        return max(calls, 1), {}
    if len(set(extents.values())) > 1:
        listed = ", ".join(f"{name} {extent}" for name, extent in extents.items())
        raise CaptureError(f"tensors of the calls differ in how many they describe: {listed}", file=source.file)
    name, calls = next(iter(extents.items()))
    if calls == 0:
        raise CaptureError("it describes no call; one or more is needed", file=source.file, tensor=name)
    if call is None and calls > 1:
        raise CaptureError(
            f"it describes {calls} calls, so a tensor 'call' [rows] is needed to say which rows are whose",
            file=source.file,
            tensor=name,
        )
    check_row_count(calls, source.file, name)
    return calls, {name: source.tensor(info) for name, info in present.items()}
