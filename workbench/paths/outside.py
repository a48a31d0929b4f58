"""Routes of rows whose length leaves them: kernels branch on what they read, which may be another number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from workbench.capture.row import Row
from workbench.paths import route_vllm, vllm
from workbench.paths.catalog import get_path
from workbench.paths.conditions import Condition
from workbench.paths.devices import get_device
from workbench.paths.lengths import LARGE_FROM, Effect, Window, effect, reused_histograms
from workbench.paths.routing import Route
from workbench.paths.routing import route as route_inside
from workbench.words import listed

PERSISTENT = "vllm.persistent_topk"
RADIX = "vllm.radix"


def route(
    row: Row,
    op: str | None = None,
    release: str | None = None,
    device: str | None = None,
    k: int | None = None,
    **setup: Any,
) -> Route:
    """The path that an op sends a row to, whatever its length.

    A negative length goes where the op's kernel reads it: the kernel that the host chose is asked for with a row of a
    length that every kernel selects from, and then how it reads the length as given.

    Args and errors are those of ``workbench.paths.routing.route``.
    """
    found = route_inside(row, op, release, device, k, **setup)
    wanted = row.k if k is None else k
    if not row.outside or wanted is None:
        return found
    if row.length >= 0:
        held_up = found.op == PERSISTENT and found.refused and row.length >= LARGE_FROM
        return _on_radix(found, row, op, release, device, k, setup) if held_up else found
    return _negative(row, wanted, op, release, device, k, setup)


def effect_on(row: Row, found: Route, k: int) -> Effect | None:
    """What a row's length does on the path of its route; ``None`` inside the row, or without a path."""
    if found.path is None or found.variant is None:
        return None
    path = get_path(found.path)
    return effect(path, path.variant(found.variant), Window.of(row), k)


def _kernel(row: Row, k: int, where: tuple[Any, ...], setup: dict[str, Any]) -> tuple[Route, int]:
    """Where the op would send a row that needs selecting, and that row's length."""
    length = max(vllm.COOPERATIVE_SHORT_UP_TO, k) + 1
    scores = torch.empty(1, dtype=row.scores.dtype).expand(length + row.start)
    stand_in = Row(scores, length, row.start, row.call, batch=row.batch, index=row.index, capture=row.capture)
    return route_inside(stand_in, *where, **setup), length


def _negative(
    row: Row,
    wanted: int,
    op: str | None,
    release: str | None,
    device: str | None,
    k: int | None,
    setup: dict[str, Any],
) -> Route:
    found, asked = _kernel(row, wanted, (op, release, device, k), setup)
    reasons = tuple(reason for reason in found.reasons if f"length {asked}" not in reason.text)
    if found.path is None or found.variant is None:
        return replace(found, reasons=reasons)
    path = get_path(found.path)
    does = effect(path, path.variant(found.variant), Window.of(row), wanted)
    assert does is not None
    reasons += (Condition(does.words, True),)
    if does.first == 0:
        trivial = f"{path.system}.trivial"
        variants = [variant.name for variant in get_path(trivial).variants]
        return replace(
            found, path=trivial, variant=found.variant if found.variant in variants else "stock", reasons=reasons
        )
    large = found.op == PERSISTENT and found.path in ("vllm.histogram_2048", "vllm.histogram_256")
    return replace(found, path=RADIX if large else found.path, reasons=reasons)


def _on_radix(
    found: Route,
    row: Row,
    op: str | None,
    release: str | None,
    device: str | None,
    k: int | None,
    setup: dict[str, Any],
) -> Route:
    """The persistent kernel does not refuse a length above max_seq_len: it takes the path and waits."""
    kernel, _ = _kernel(row, row.k or k or 1, (op, release, device, k), setup)
    if kernel.path not in ("vllm.histogram_2048", "vllm.histogram_256"):
        return found
    return replace(found, path=RADIX, variant=kernel.variant, refused="")


def uncleared_rows(row: Row, found: Route) -> str:
    """Which rows of a row's call read a histogram that was not cleared, in words; empty if none, or if not known.

    It needs the lengths of all rows of the call, its stride and the device. It is a remark and no finding: which
    release counts the ring by rows of the radix path is not established.
    """
    if found.path != RADIX or row.batch is None or row.call.stride is None:
        return ""
    lengths = row.batch.tolist()
    groups = _groups(len(lengths), row.call.stride, found.device)
    dirty = sorted(group + at * groups for group in range(groups) for at in reused_histograms(lengths[group::groups]))
    if not dirty:
        return ""
    which = f"row {dirty[0]} reads a histogram" if len(dirty) == 1 else f"rows {listed(dirty)} read histograms"
    return (
        f"Of the {len(lengths)} rows of the call, counted from 0, {which} that shorter rows before left uncleared, in "
        "releases that count the ring by all rows (vllm-project/vllm#49139; which release ended that is not "
        "established; derived, not observed)."
    )


def _groups(rows: int, stride: int, device: str) -> int:
    """How many groups of blocks the persistent kernel's launcher makes for a call."""
    has = get_device(device)
    limit = next((limit for most, limit in route_vllm.FEW_ROWS_BYTES if rows <= most), has.optin_bytes)
    vector = 4 if stride % 4 == 0 else 2 if stride % 2 == 0 else 1
    budget = min(has.optin_bytes, limit) - route_vllm.HEADER_BYTES
    chunk = max(budget // 4 // vector * vector, vector * route_vllm.BLOCK_THREADS)
    blocks = _ceil(stride, chunk)
    used = _ceil(_ceil(stride, blocks), vector) * vector
    shared = max(route_vllm.HEADER_BYTES + 4 * used, route_vllm.LEAST_BYTES)
    resident = has.resident_blocks(route_vllm.BLOCK_THREADS, shared) * has.sms
    return max(1, min(resident // blocks, rows))


def _ceil(number: int, divisor: int) -> int:
    return (number + divisor - 1) // divisor
