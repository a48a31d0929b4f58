"""Whether one row is bad: what came back is lossy or invalid, or a path that it may be on can lose winners of it."""

from __future__ import annotations

from contextlib import suppress

from workbench.analysis.risk import LOSING
from workbench.analysis.verdict import LOST, judge
from workbench.capture.row import Row
from workbench.errors import UsageError
from workbench.paths.catalog import get_path
from workbench.paths.transforms.recorded import recorded_positions
from workbench.record.interfaces import TOPK
from workbench.runs.case import Case


def is_bad(row: Row) -> bool:
    """What ``workbench inspect`` finds in a row, without running models; on the device that holds it.

    The path that the row reaches is asked where op, release and device tell it, else every path that the op could take.
    """
    case = Case(row)
    if row.indices is not None and not row.outside:
        with suppress(UsageError):  # positions that cannot be told are not judged
            found = judge(row.valid, case.exact.indices, recorded_positions(row).to(row.scores.device))
            if found.kind in LOST:
                return True
    if row.call.op == TOPK:
        return False
    taken = case.route
    if taken is not None and (taken.refused or not taken.unknown):
        if taken.path is None or taken.variant is None:
            return False
        path = get_path(taken.path)
        risks = [case.risk(path, path.variant(taken.variant))]
    else:
        possible = case.possible
        if possible is None:
            return False
        risks = [case.risk(path, path.variant("stock")) for path in possible]
    return any(bool(risk.finding) or risk.level in LOSING for risk in risks)
