"""The report that a kernel writes of a row, in the layout of ``kernels/telemetry.cuh``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from workbench.paths.selection import Cost, Pass, Share, Telemetry

FIELDS = ("threshold_bin", "above", "population", "need", "buffered", "stored", "dropped", "fallback", "passes")
PASS_FIELDS = ("shift", "bits", "seen", "need", "digit", "above", "kept")
SHARE_FIELDS = ("population", "stored", "dropped")
FELL_BACK = "the variant's recovery"
MOST_PASSES = 8  # four bytes of the key and four of the index
REPORT_INTS = len(FIELDS) + MOST_PASSES * len(PASS_FIELDS)  # of one block's row


def report_ints(ranks: int) -> int:
    """How long a report is of a row that so many blocks of a cluster share, 0 for one block."""
    return REPORT_INTS + ranks * len(SHARE_FIELDS)


@dataclass(frozen=True)
class Report:
    """The inside of one selection on the device.

    Attributes:
        telemetry: without its histogram and ``dropped`` where they were not asked for.
        dropped: how many members of the threshold bin the buffer did not take, listed or not.
    """

    telemetry: Telemetry
    dropped: int


def read_report(
    ints: Sequence[int],
    begun: Telemetry,
    histogram: torch.Tensor | None = None,
    dropped: torch.Tensor | None = None,
    unbinned: Telemetry | None = None,
) -> Report:
    """Read one row's report.

    Args:
        ints: as many as ``report_ints`` says. begun: what is known before the launch: key bits and capacity.
        histogram: int32 [bins]. dropped: int32 [room], the dropped members that were listed.
        unbinned: what a selection that counted no bins begins with, if there is anything.
    """
    head = dict(zip(FIELDS, ints, strict=False))
    passes = tuple(Pass(**one) for one in _records(ints[len(FIELDS) : REPORT_INTS], PASS_FIELDS)[: head["passes"]])
    cost = Cost(fallback=FELL_BACK if head["fallback"] else "")
    if not head["population"]:  # no bins: a selector of exact digits, or a row no longer than k
        begun = unbinned if unbinned is not None and passes else Telemetry()
        told = replace(begun, buffered=bool(head["buffered"]), stored=head["stored"], passes=passes, cost=cost)
        return Report(told, 0)
    listed = head["dropped"] if dropped is None else min(head["dropped"], dropped.numel())
    telemetry = replace(
        begun,
        histogram=None if histogram is None else histogram.to(torch.int64),
        threshold_bin=head["threshold_bin"],
        above=head["above"],
        population=head["population"],
        need=head["need"],
        capacity=head["stored"] if begun.capacity is None and head["stored"] else begun.capacity,  # just what it took
        buffered=bool(head["buffered"]),
        stored=head["stored"],
        passes=passes,
        cost=cost,
        shares=tuple(Share(**one) for one in _records(ints[REPORT_INTS:], SHARE_FIELDS)),
    )
    if dropped is not None:
        telemetry = replace(telemetry, dropped=dropped[:listed].to(torch.int64))
    return Report(telemetry, head["dropped"])


def _records(ints: Sequence[int], fields: tuple[str, ...]) -> list[dict[str, int]]:
    """Numbers that lie one record after the other."""
    starts = range(0, len(ints), len(fields))
    return [dict(zip(fields, ints[at : at + len(fields)], strict=True)) for at in starts]
