"""What walks say of rows that released ops lost winners of, beside the observed loss and that of random orders."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cache

from tests import truth
from tests.test_truth import risks
from workbench.analysis.profile import RowProfile
from workbench.analysis.risk import ORDERED
from workbench.analysis.walks import walked_missing
from workbench.paths.catalog import get_path

WALKS = 8
BATCHES = {"s034-uniform": "vllm.filtered"}  # cases of many rows, for paths that no op sends a single row down


@dataclass(frozen=True)
class Loss:
    """Mean loss of a call: as observed over all releases that share the path, of random orders, and of walks."""

    case: str
    observed: float
    random: float
    walks: float


@cache
def losses() -> dict[str, list[Loss]]:
    """By path: every case of one row (of few, where there is no other) that can lose and is not ordered by value."""
    found = defaultdict(list)
    for case_id, case in truth.cases().items():
        if truth.ordered(case_id) or (case["rows"] > 1 and case_id not in BATCHES):
            continue
        calls = defaultdict(list)
        ops = {}
        for record, rows in risks(case_id).items():
            able = tuple((number, row) for number, row in enumerate(rows) if row.most_missing)
            if able and able[0][1].path == BATCHES.get(case_id, able[0][1].path):
                calls[able] += record.missing_total
                ops[able] = record.op
        for able, missing in calls.items():
            assert not any(abs(row.order_correlation or 0) > ORDERED for _, row in able)
            lost = sum(_walked(case_id, number, ops[able], row) for number, row in able)
            random = sum(row.expected_missing for _, row in able)
            found[able[0][1].path].append(Loss(case_id, sum(missing) / len(missing), random, lost))
    return dict(found)


def _walked(case_id, number, op, found) -> float:
    row, path = truth.given_to(op, _rows(case_id)[number]), get_path(found.path)
    profile = RowProfile(row.valid, row.dtype, row.k)
    return sum(walked_missing(profile, path, path.variant(found.variant), walks=WALKS)) / WALKS


@cache
def _rows(case_id):
    return truth.rows(case_id)


def off(lost: list[Loss], by: str) -> float:
    """By how many winners one of the models is off: root mean square over the cases."""
    return math.sqrt(sum((one.observed - getattr(one, by)) ** 2 for one in lost) / len(lost))
