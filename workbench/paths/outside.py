"""Routes of rows whose length leaves them: kernels branch on what they read, which may be another number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from workbench.arguments import checked
from workbench.capture.row import Row
from workbench.paths import route_vllm, vllm
from workbench.paths.catalog import get_path
from workbench.paths.conditions import Condition, Setup
from workbench.paths.devices import get_device
from workbench.paths.lengths import LARGE_FROM, Effect, Window, effect, reused_histograms
from workbench.paths.routing import Route
from workbench.paths.routing import route as route_inside
from workbench.words import listed

PERSISTENT = "vllm.persistent_topk"
RADIX = "vllm.radix"
ONE_BLOCK = ("vllm.histogram_2048", "vllm.histogram_256")  # paths of the persistent kernel up to 32768


@checked
def route(
    row: Row,
    op: str | None = None,
    release: str | None = None,
    device: str | None = None,
    k: int | None = None,
    *,
    setup: Setup | None = None,
    static_threshold: int | None = None,
) -> Route:
    """The path that an op sends a row to, whatever its length.

    A negative length goes where the op's kernel reads it: the kernel that the host chose is asked for with a row of a
    length that every kernel selects from, and then how it reads the length as given.

    Args, result and errors are those of ``workbench.paths.routing.route``.
    """

    def inside(asked: Row) -> Route:
        return route_inside(asked, op, release, device, k, setup=setup, static_threshold=static_threshold)

    found = inside(row)
    wanted = row.k if k is None else k
    if not row.outside or wanted is None:
        return found
    if row.length < 0:
        return _negative(row, wanted, inside)
    if found.refused and row.length >= LARGE_FROM and _kernel_op(found) == PERSISTENT:
        return _waiting(found, row, wanted, inside)
    return found


def effect_on(row: Row, found: Route, k: int) -> Effect | None:
    """What a row's length does on the path of its route; ``None`` inside the row, or without a path."""
    if found.path is None or found.variant is None:
        return None
    path = get_path(found.path)
    return effect(path, path.variant(found.variant), Window.of(row), k)


def _kernel_op(found: Route) -> str:
    """The op whose kernel runs: the one that an engine's own choice settled on, where it is one."""
    return found.calls or found.op


def _stand_in(row: Row, k: int) -> Row:
    """A row of the same call with a length that every kernel selects from, for asking which one the host chose."""
    length = max(vllm.COOPERATIVE_SHORT_UP_TO, k) + 1
    scores = torch.empty(1, dtype=row.scores.dtype).expand(length + row.start)
    return Row(scores, length, row.start, row.call, batch=row.batch, index=row.index, capture=row.capture)


def _negative(row: Row, k: int, inside: Callable[[Row], Route]) -> Route:
    stand_in = _stand_in(row, k)
    found = inside(stand_in)
    reasons = tuple(reason for reason in found.reasons if f"length {stand_in.length}" not in reason.text)
    does = effect_on(row, found, k)
    if does is None or found.path is None:
        return replace(found, reasons=reasons)
    reasons += (Condition(does.words, True),)
    if does.first == 0:
        trivial = get_path(f"{get_path(found.path).system}.trivial")
        own = found.variant in [variant.name for variant in trivial.variants]
        return replace(found, path=trivial.name, variant=found.variant if own else "stock", reasons=reasons)
    large = _kernel_op(found) == PERSISTENT and found.path in ONE_BLOCK
    return replace(found, path=RADIX if large else found.path, reasons=reasons)


def _waiting(found: Route, row: Row, k: int, inside: Callable[[Row], Route]) -> Route:
    """The persistent kernel does not refuse a length above max_seq_len: it takes its path and waits."""
    kernel = inside(_stand_in(row, k))
    if kernel.path not in ONE_BLOCK:
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
    blocks, _, resident = route_vllm.persistent_grid(rows, stride, get_device(device))
    return max(1, min(resident // blocks, rows))
