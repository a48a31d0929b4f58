"""The models and the risk against what released ops returned for rows at the edges of float32, and for rows in order.

As in ``tests/test_truth.py``, and the model besides: it makes the kinds of invalid slots that were seen, and loses what
the risk says. A few batches of each kind of row and path run always; the rest are slow.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest

from tests import observed
from workbench.analysis.profile import RowProfile
from workbench.analysis.risk import ORDERED, Risk, risk
from workbench.analysis.verdict import Verdict, judge
from workbench.capture.row import Row
from workbench.numeric.select import exact_topk
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import get_path
from workbench.paths.model import run_model
from workbench.paths.routing import route
from workbench.paths.selection import UNWRITTEN

DEVICE = "h200"
GARBAGE = ("dup", "out_of_range")
# Garbage of the per-row selector that hit a winner by chance: at most so much of what it lost.
LUCK = 0.03
# Rows whose bin of -inf is cut among scores of -FLT_MAX. In ten slices of a row, these compete with padding that is
# equal to them, and warps that see padding alone come first. In a cluster, each rank alone sees more of the bin than
# the whole buffer holds, so that the first ranks to come fill it: what is lost hangs on the few scores of those.
LOWEST_KINDS = ("i_nmax2000", "i_nmax3000")
# What is lost hardly changes from call to call, so that four rows are four draws and no more.
FOUR_DRAWS = {("k512-4x16000", "z_nsub3000_nz50")}


@dataclass(frozen=True, eq=False)
class Seen:
    """What the workbench says of one batch on one op."""

    record: observed.Record
    taken: frozenset[tuple[str, str]]
    risks: tuple[Risk, ...]
    verdicts: tuple[tuple[Risk, Verdict], ...]

    @property
    def ordered(self) -> bool:
        """Whether the scores of a breached bin rise or fall along a row."""
        return any(abs(row.order_correlation or 0) > ORDERED for row in self.risks)


@cache
def by_batch() -> dict[tuple[str, str], list[observed.Record]]:
    found = defaultdict(list)
    for record in observed.records():
        found[record.batch].append(record)
    return dict(found)


def taken_by(record: observed.Record, row: Row) -> tuple[str, str]:
    """The path and variant of a row."""
    asked = {"static_threshold": 0} if record.static_threshold == 0 else {}
    one = route(row, record.op, record.release, DEVICE, **asked)
    assert one.path, f"{record}: a row has no route"
    return one.path, one.variant


def looked_at(batch: tuple[str, str]) -> Iterator[Seen]:
    """What the workbench says of a batch, op by op."""
    rows: dict[int, list[Row]] = {}
    profiles: dict[tuple[int, int, str], RowProfile] = {}
    known: dict[tuple[int, int, str, str, str], tuple[Risk, list[Verdict]]] = {}
    for record in by_batch()[batch]:
        if record.k not in rows:
            rows[record.k] = observed.rows(*batch, record.k)
        risks, verdicts, taken = [], [], set()
        for row in (observed.given_to(record.op, one) for one in rows[record.k]):
            path, variant = taken_by(record, row)
            taken.add((path, variant))
            of = record.k, row.index, row.dtype
            if of not in profiles:
                profiles[of] = RowProfile(row.valid, row.dtype, row.k, width=row.call.width, start=row.start)
            if (*of, path, variant) not in known:
                spec = get_path(path)
                claimed = risk(profiles[of], spec, spec.variant(variant))
                judged = row.index < 2 or record.kind.startswith("n_")  # NaN makes single slots of a batch invalid
                made = [verdict_of(row, path, variant)] if judged and spec.variant(variant).modelled else []
                known[*of, path, variant] = claimed, made
            claimed, made = known[*of, path, variant]
            risks.append(claimed)
            verdicts += [(claimed, one) for one in made]
        yield Seen(record, frozenset(taken), tuple(risks), tuple(verdicts))


def verdict_of(row: Row, path: str, variant: str) -> Verdict:
    spec = get_path(path)
    arrival = Arrival("random", spec.arrival_unit, seed=row.index)
    made = run_model(spec, row.valid, row.k, arrival, variant, width=row.call.width, start=row.start)
    return judge(row.valid, exact_topk(row.valid, row.k), made.indices, UNWRITTEN)


def check(batch: tuple[str, str]) -> None:
    for seen in looked_at(batch):
        check_risk(seen)
        check_model(seen)


def check_risk(seen: Seen) -> None:
    record, rows = seen.record, seen.risks
    told = (record, seen.taken)
    assert all(row.level is not None and not row.refused for row in rows), told
    assert record.bad_rows <= sum(row.level != "safe" for row in rows), told
    least, most = sum(row.least_missing for row in rows), sum(row.most_missing for row in rows)
    luck = LUCK * least if any(fault in GARBAGE for fault, _ in record.faults) else 0
    assert least - luck <= record.least, told
    assert record.most <= most, told
    if seen.ordered:
        return
    if math.prod(row.p_clean for row in rows) < 0.01:
        assert record.bad_rows > 0, told
    uneven = any(path == "vllm.per_row" or "cluster" in path for path, _ in seen.taken)
    expected = sum(row.expected_missing for row in rows)
    if not (uneven and record.kind in LOWEST_KINDS) and record.batch not in FOUR_DRAWS:
        assert abs(record.mean - expected) <= max(5, 0.25 * expected), (told, expected)


def check_model(seen: Seen) -> None:
    record, made = seen.record, Counter()
    for claimed, verdict in seen.verdicts:
        assert claimed.least_missing <= verdict.missing <= claimed.most_missing, (record, seen.taken)
        counts = (verdict.duplicates, verdict.out_of_range, verdict.unwritten, verdict.short)
        made.update({fault: count for fault, count in zip(observed.FAULTS, counts, strict=True) if count})
    if seen.verdicts:
        assert set(made) == {fault for fault, _ in record.faults}, (record, seen.taken)


def chosen() -> list[tuple[str, str]]:
    """Of every shape one small batch, so that all kinds are among them."""
    kinds = defaultdict(list)
    for shape, kind in by_batch():
        kinds[shape].append(kind)
    return [(shape, sorted(some)[(7 * at) % len(some)]) for at, (shape, some) in enumerate(sorted(kinds.items()))]


QUICK = frozenset(chosen())


@pytest.mark.parametrize("shape", sorted({shape for shape, _ in QUICK}))
def test_one_batch_of_every_shape(shape: str) -> None:
    check(next(batch for batch in QUICK if batch[0] == shape))


@pytest.mark.slow
@pytest.mark.parametrize("shape", sorted({shape for shape, _ in QUICK}))
def test_all_other_batches(shape: str) -> None:
    for batch in by_batch():
        if batch[0] == shape and batch not in QUICK:
            check(batch)


@pytest.mark.slow
def test_every_batch_is_rebuilt_to_the_bit() -> None:
    for batch in observed.batches():
        observed.scores(*batch)


def test_what_the_records_hold() -> None:
    records = observed.records()
    assert len(records) == 10051
    assert {batch for record in records for batch in [record.batch]} == set(observed.batches())
    faults = {fault for record in records for fault, _ in record.faults}
    assert faults == {"dup", "out_of_range", "unwritten", "short"}
    numbers = [record for record in records if not record.kind.startswith("n_")]
    exact = {"sglang.topk_transform_paged", "sglang.topk_transform_ragged_v2", "sglang.kpool_topk_transform"}
    assert not any(record.most for record in numbers if record.release == "sglang==0.5.23" and record.op in exact)


def test_the_masks_of_lost_winners_agree_with_the_counts() -> None:
    masked = [record for record in observed.records() if record.lost is not None]
    assert len(masked) > 400
    for record in masked:
        lost = observed.lost(record)
        if record.missing and lost.shape[1] == 1:  # distinct values: a lost winner is a lost value
            assert lost.sum((1, 2)).tolist() == list(record.missing), record
