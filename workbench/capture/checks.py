"""What must hold of lengths, starts, offsets, calls and recorded indices. Vectorised; nothing is corrected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from workbench.capture.format import CALL_BOUNDS, INT32_BOUNDS
from workbench.capture.values import brief
from workbench.errors import CaptureError


@dataclass(frozen=True)
class Names:
    """Where each part of a capture is, for messages.

    Attributes:
        file: where all is that ``files`` does not place. files: by part, as in ``{"lengths": "other.safetensors"}``.
        lengths, starts, offsets, indices, call, k: the tensor of each part.
    """

    file: str
    lengths: str = "lengths"
    starts: str = "starts"
    offsets: str = "offsets"
    indices: str = "indices"
    call: str = "call"
    k: str = "k"
    files: Mapping[str, str] = field(default_factory=dict)

    def error(self, part: str, reason: str, *, row: int | None = None, call: int | None = None) -> CaptureError:
        """An error about one part."""
        tensor: str = getattr(self, part)
        return CaptureError(reason, file=self.files.get(part, self.file), tensor=brief(tensor), row=row, call=call)


def first_true(mask: torch.Tensor) -> int | None:
    """Index of the first true element."""
    return int(mask.to(torch.uint8).argmax()) if bool(mask.any()) else None


def check_offsets(offsets: torch.Tensor, total: int, names: Names) -> torch.Tensor:
    """Widths [rows] int64 of ragged rows, from ``offsets`` [rows + 1].

    Raises:
        CaptureError: they do not begin at 0, run backwards, or do not end at ``total``.
    """

    def bad(reason: str, row: int | None = None) -> CaptureError:
        return names.error("offsets", f"{reason}; write the file again", row=row)

    if int(offsets[0]) != 0:
        raise bad(f"the first offset is {int(offsets[0])}, not 0")
    # compared rather than subtracted: a difference of two int64 can wrap around
    row = first_true(offsets[1:] < offsets[:-1])
    if row is not None:
        raise bad(f"offset {int(offsets[row + 1])} comes after {int(offsets[row])}", row)
    if int(offsets[-1]) != total:
        raise bad(f"the last offset is {int(offsets[-1])}, but there are {total} scores")
    return offsets[1:] - offsets[:-1]


def check_starts(starts: torch.Tensor | None, widths: torch.Tensor | int, names: Names, first: int = 0) -> None:
    """Every row's start must lie within its width, or just behind it; ``first`` is the number of the first row.

    Raises:
        CaptureError: for the first row where it does not.
    """
    if starts is None:
        return
    row = first_true(starts < 0)
    if row is not None:
        raise names.error("starts", f"start {int(starts[row])} is negative; 0 or more is needed", row=first + row)
    row = first_true(starts > widths)
    if row is not None:
        width = int(widths if isinstance(widths, int) else widths[row])
        raise names.error("starts", f"start {int(starts[row])} is past the row width {width}", row=first + row)


def check_lengths(lengths: torch.Tensor, names: Names, first: int = 0) -> None:
    """Every length must be an int32, as ops take it, whatever the dtype of its tensor.

    Raises:
        CaptureError: for the first row where it is not.
    """
    least, most = INT32_BOUNDS
    row = first_true((lengths < least) | (lengths > most)) if lengths.dtype == torch.int64 else None
    if row is not None:
        raise names.error("lengths", f"length {int(lengths[row])} is no int32, which ops take", row=first + row)


def outside_rows(lengths: torch.Tensor, starts: torch.Tensor, widths: torch.Tensor) -> torch.Tensor:
    """Which rows have a length that leaves them, bool [rows]."""
    return (lengths < 0) | (lengths.to(torch.int64) > widths - starts)


def check_call_numbers(call: torch.Tensor, calls: int, names: Names) -> None:
    """Every row's call must be one of ``calls``.

    Raises:
        CaptureError: for the first row where it is not.
    """
    row = first_true((call < 0) | (call >= calls))
    if row is not None:
        raise names.error(
            "call", f"call {int(call[row])} is not one of the {calls} that the file describes, counted from 0", row=row
        )


def check_call_fields(fields: dict[str, torch.Tensor], file: str) -> None:
    """Per-call integers must be -1 (unknown) or within ``CALL_BOUNDS``.

    Raises:
        CaptureError: for the first call where one is not.
    """
    for name, values in fields.items():
        least, most = CALL_BOUNDS[name]
        wrong = (values < least) & (values != -1)
        if most < torch.iinfo(values.dtype).max:
            wrong |= values > most
        call = first_true(wrong)
        if call is not None:
            value = int(values[call])
            needed = f"at most {most}" if value > most else f"{least} or more"
            raise CaptureError(
                f"{name} is {value}; {needed} is needed, or -1 where it is unknown", file=file, tensor=name, call=call
            )


def widest_per_call(widths: torch.Tensor | int, call: torch.Tensor | None, calls: int) -> torch.Tensor | int:
    """The widest row of each call, [calls] int64 (0 for a call without rows); one int where all are equal."""
    if isinstance(widths, int):
        return widths
    if call is None:
        return int(widths.max())
    widest = torch.zeros(calls, dtype=torch.int64)
    return widest.scatter_reduce(0, call.to(torch.int64), widths.to(torch.int64), "amax")


def check_k(
    k: torch.Tensor, width: torch.Tensor | None, widest: torch.Tensor | int, names: Names, first: int = 0
) -> None:
    """k [calls] must not be larger than its call's ``width``, or than its ``widest`` row where that is unknown.

    ``first`` is the number of the first call.

    Raises:
        CaptureError: for the first call where it is.
    """
    bound = torch.as_tensor(widest, dtype=torch.int64).expand(k.shape)
    if width is not None:
        bound = torch.where(width >= 0, width.to(torch.int64), bound)
    # a call without rows and without a width has nothing to be compared with
    call = first_true((k > bound) & (bound > 0))
    if call is not None:
        raise names.error(
            "k",
            f"k {int(k[call])} is larger than the row width {int(bound[call])}; give a smaller k, or the padded "
            "width of the call if rows were stored without their padding",
            call=first + call,
        )


def check_slots(k: torch.Tensor, call: torch.Tensor | None, k_max: int, names: Names, first: int = 0) -> None:
    """Recorded selections must have room for the k of every call that has rows; ``first`` numbers the first call.

    Raises:
        CaptureError: for the first call where they have not.
    """
    short = k > k_max
    if call is not None and bool(short.any()):
        present = torch.zeros(k.shape, dtype=torch.bool)
        present[call.to(torch.int64)] = True
        short &= present
    number = first_true(short)
    if number is not None:
        raise names.error(
            "indices",
            f"{k_max} recorded slots a row are fewer than k {int(k[number])}; record all k of them",
            call=first + number,
        )


def check_indices(
    indices: torch.Tensor, k: int | None, length: int | None, row: int, names: Names, mapped: bool = False
) -> torch.Tensor:
    """One row's recorded selection: the first ``k`` of ``indices`` (all if ``None``), as int32.

    Args:
        length: of the row; ``None`` where it leaves the row, since an op may then return anything.
        mapped: whether they are no positions, so that the length does not bound them.

    Raises:
        CaptureError: an index outside [-1, length) or no int32, or one other than -1 past k.
    """
    slot = first_true((indices < INT32_BOUNDS[0]) | (indices > INT32_BOUNDS[1]))
    if slot is not None:
        raise names.error("indices", f"recorded index {int(indices[slot])} in slot {slot} is no int32", row=row)
    if mapped and length is not None and (slot := first_true(indices < -1)) is not None:
        raise names.error(
            "indices",
            f"recorded entry {int(indices[slot])} in slot {slot} is negative; only -1 is, which pads",
            row=row,
        )
    slot = None if length is None or mapped else first_true((indices < -1) | (indices >= length))
    if slot is not None:
        raise names.error(
            "indices",
            f"recorded index {int(indices[slot])} in slot {slot} is outside the row's {length} valid scores "
            "(indices count from the start of the row, -1 pads)",
            row=row,
        )
    if k is None or k == indices.numel():
        return indices.to(torch.int32)
    slot = first_true(indices[k:] != -1)
    if slot is not None:
        raise names.error(
            "indices",
            f"slot {k + slot} holds index {int(indices[k + slot])}, but k is {k}: slots past k must be -1",
            row=row,
        )
    return indices[:k].to(torch.int32)
