"""How an op must be called for a row to take a path: rows, width, stride and bound that send it there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import torch

from workbench.errors import UsageError
from workbench.paths.devices import DEVICES
from workbench.paths.routing import OPS, get_op, route
from workbench.paths.spec import Path
from workbench.runs.case import Case
from workbench.words import listed

_ROWS = (1, 2, 8, 9, 32, 33, 64, 65, 128)  # both sides of every count of rows that decides a route
_ALIGNED = 8  # scores: every op takes rows that begin at such a multiple


@dataclass(frozen=True)
class Launch:
    """One call that sends every one of ``rows`` equal rows to a path, as the router has it.

    Attributes:
        op, release, device: where that holds. rows, width, stride, max_seq_len: of the call, in rows and scores.
        start: the first cell of the row.
    """

    op: str
    release: str
    device: str
    rows: int
    width: int
    stride: int
    max_seq_len: int
    start: int = 0


def able_ops(path: Path, takes: tuple[str, ...]) -> list[str]:
    """The ops that can send a row to a path, among those that a style can call."""
    return [one.name for one in OPS if one.name in takes and path.name in one.reaches]


def chosen_op(case: Case, path: Path, op: str | None, takes: tuple[str, ...]) -> str:
    """The op that a test calls: the one named, that of the capture, or the only one that reaches the path.

    Args:
        takes: the ops that the style can call.

    Raises:
        UsageError: there is none, or more than one.
    """
    able = able_ops(path, takes)
    named = op if op is not None else case.op if case.op in able else None
    if named is None and len(able) == 1:
        return able[0]
    if named is None:
        raise UsageError(
            f"{listed(able)} can send a row to {path.name}; name one (--op)"
            if able
            else f"no op that this style can call sends a row to {path.name}; it calls {listed(takes)}"
        )
    get_op(named)
    if named not in able:
        such = f"; {listed(able)} {'is' if len(able) == 1 else 'are'}" if able else ""
        raise UsageError(f"{named} is no op that this style can call and that sends a row to {path.name}{such}")
    return named


def find_launch(case: Case, path: Path, op: str) -> Launch:
    """A call of the op that sends the row to the path.

    What the call says of itself is kept where that reaches the path; what it does not say is tried.

    Raises:
        UsageError: no call that was tried does.
    """
    call, start = case.row.call, case.row.start % 4 if op == "sglang.topk_transform_ragged_v2" else 0
    least = start + case.row.length
    scores = torch.cat([case.row.valid.new_zeros(start), case.row.valid])
    known = get_op(op).releases
    releases = [case.release] if case.release in known else list(known)
    named = [one.name for one in DEVICES]
    devices = [case.device.lower()] if case.device and case.device.lower() in named else named
    counts = list(dict.fromkeys([call.rows, *_ROWS] if call.rows else _ROWS))
    widths = list(dict.fromkeys(max(width, least) for width in (call.width or 0, _up(least))))
    for rows, width, release, device in product(counts, widths, releases, devices):
        stride = call.stride if call.stride and call.stride >= width else _up(width)
        bound = call.max_seq_len if call.max_seq_len and call.max_seq_len >= case.row.length else case.row.length
        tried = replace(call, k=case.k, rows=rows, width=width, stride=stride, max_seq_len=bound)
        batch = torch.full((rows,), case.row.length, dtype=torch.int64)
        row = replace(case.row, scores=scores, start=start, call=tried, batch=batch, indices=None)
        if route(row, op, release, device, case.k).path == path.name:
            return Launch(op, release, device, rows, width, stride, bound, start)
    where = f"in {releases[0]}" if len(releases) == 1 else "in the known releases"
    where += f" on {devices[0]}" if len(devices) == 1 else " on the known devices"
    raise UsageError(
        f"no call of {op} {where} that was tried sends this row to {path.name}; name another path, give another "
        "release, device, rows or stride, or use the style pytest"
    )


def _up(number: int) -> int:
    return -(-number // _ALIGNED) * _ALIGNED
