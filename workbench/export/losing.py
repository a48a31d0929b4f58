"""What a test of a row has to do to catch the loss: how often it calls, and an arrival order that loses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.analysis.risk import Risk
from workbench.analysis.verdict import LOST, Verdict, judge
from workbench.engines.base import Task
from workbench.engines.model import ModelEngine
from workbench.errors import UsageError
from workbench.export.fixture import MOST_CALLS, calls_needed
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import get_path
from workbench.paths.orders import DEFAULT_ORDER, DEFAULT_SEED, RANDOM
from workbench.paths.selection import UNWRITTEN, Selection
from workbench.paths.spec import Path, Variant
from workbench.runs.case import Case
from workbench.words import listed

_DIGITS = 10**6  # p_clean is kept with six digits, rounded up, so that machines agree on it
_TRIES = 64


@dataclass(frozen=True)
class Calls:
    """What it takes to see a row lose on a path.

    Attributes:
        risk: of the row there. p_clean: at most so likely does a random order lose nothing. repeats: calls that a test
            makes, so that it misses a selector that loses with a probability below ``MISSED``.
    """

    risk: Risk
    p_clean: float
    repeats: int


@dataclass(frozen=True)
class Losing:
    """A row on a path that loses some of its winners.

    Attributes:
        case, path, variant, risk: the row and its risk there.
        p_clean: at most so likely does a random order lose nothing. repeats: calls that a test makes.
        order: an arrival order that loses; verdict: of the model under it.
    """

    case: Case
    path: Path
    variant: Variant
    risk: Risk
    p_clean: float
    repeats: int
    order: Arrival
    verdict: Verdict

    @property
    def named(self) -> str:
        """The path and its variant, as in ``vllm.filtered (stock)``."""
        return f"{self.path.name} ({self.variant.name})"

    def select(self, order: Arrival, variant: Variant | None = None) -> Selection:
        """What the model of the path, or of another of its variants, returns under an arrival order."""
        return _select(self.case, self.path, variant or self.variant, order)

    def exact_variants(self) -> Iterator[Variant]:
        """The variants of the path that take the row, are modelled and claim to lose nothing of it."""
        for variant in self.path.variants:
            if variant.lossless and not self.case.profile.nan and not _refusals(self.case, self.path, variant):
                yield variant


def chosen_path(case: Case, path: str | None, variant: str | None) -> tuple[Path, Variant]:
    """The path and variant that a test is about: those named, else those that the op takes.

    Raises:
        UsageError: none is named and none is reached, or there is no such path or variant.
    """
    taken = case.route
    if path is None:
        if case.unrouted or taken is None or taken.path is None:
            either = f"{case.cure}, or " if case.cure else ""
            raise UsageError(f"{case.unrouted}; {either}name the path (--path, as in vllm.filtered)")
        path = taken.path
    chosen = get_path(path)
    if variant is None:
        variant = taken.variant if taken is not None and taken.path == path and taken.variant else "stock"
    known = [one.name for one in chosen.variants]
    if variant not in known:
        raise UsageError(f"{chosen.name} has no variant {variant!r}; it has {listed(known)}")
    return chosen, chosen.variant(variant)


def losing(case: Case, path: Path, variant: Variant) -> Losing:
    """What a test of a row on a path has to do.

    Raises:
        UsageError: as for ``calls_of_a_test``, or the model loses nothing after all.
    """
    calls = calls_of_a_test(case, path, variant)
    order, verdict = _losing_order(case, path, variant, calls.repeats)
    return Losing(case, path, variant, calls.risk, calls.p_clean, calls.repeats, order, verdict)


def calls_of_a_test(case: Case, path: Path, variant: Variant) -> Calls:
    """How often a test of a row on a path must call, by the risk; where a path's scores arrive warp by warp, by the
    bound that random orders of warps give.

    Raises:
        UsageError: no test can catch a loss there; the message says why.
    """
    found = case.risk(path, variant)
    named = f"{path.name} ({variant.name})"
    if reasons := not_run(case, path, variant):
        raise UsageError(f"{named} is not run on this row, so that no test can be checked: {'; '.join(reasons)}")
    if case.row.outside:
        raise UsageError(
            f"the row's length {case.row.length} leaves it, and a fixture holds the scores of a row that is whole: no "
            f"test can be made of what {named} does with such a length"
        )
    if found.level is None:
        raise UsageError(f"the risk of this row on {named} is not known, so that no test can be checked: {found.note}")
    if found.level == "safe":
        why = "its threshold bin overflows, but with equal scores only" if found.breach and found.buffered else ""
        raise UsageError(
            f"{named} loses nothing of this row, whatever the arrival order: there is nothing for a test to catch"
            + (f" ({why})" if why else "")
        )
    least = 0 if found.level == "certain" else 1  # a probability can be too small for a float
    p_clean = min(1.0, max(least, math.ceil(found.most_clean * _DIGITS)) / _DIGITS)
    calls = calls_needed(p_clean)
    if calls > MOST_CALLS:
        rare = "hardly any random arrival order loses" if calls == math.inf else f"a test would need {calls} calls"
        raise UsageError(
            f"{named} loses too seldom on this row: {rare} (p_clean {found.most_clean:.9g}), and {MOST_CALLS} are the "
            "most; shrink the row first (workbench shrink), or choose one that is certain to lose"
        )
    return Calls(found, p_clean, int(calls))


def random_order(path: Path, seed: int) -> Arrival:
    """The random arrival order of a seed, in the path's own unit."""
    return Arrival(RANDOM, path.arrival_unit, seed)


def _judged(case: Case, path: Path, variant: Variant, order: Arrival) -> Verdict:
    return judge(case.row.valid, case.exact.indices, _select(case, path, variant, order).indices, UNWRITTEN)


def _losing_order(case: Case, path: Path, variant: Variant, calls: int) -> tuple[Arrival, Verdict]:
    """The first order that loses: the default one, so that a fixture counts what ``inspect`` shows, else by position,
    which no random generator decides, else by seed."""
    unit = path.arrival_unit
    orders = [Arrival(DEFAULT_ORDER, unit, DEFAULT_SEED), Arrival("index", unit), Arrival("reverse", unit)]
    orders += [random_order(path, seed) for seed in range(max(calls, _TRIES))]
    for order in orders:
        verdict = _judged(case, path, variant, order)
        if verdict.kind in LOST:
            return order, verdict
    raise UsageError(
        f"the model of {path.name} ({variant.name}) lost nothing in {len(orders)} arrival orders, so that no test can "
        "be checked"
    )


def _task(case: Case, path: Path, variant: Variant, order: Arrival) -> Task:
    return Task(case.row, case.k, order, path, variant.name, case.profile)


def not_run(case: Case, path: Path, variant: Variant) -> list[str]:
    """Why the model of a path does not run a row, so that no test of it can be checked; empty where it does."""
    return list(case.risk(path, variant).refused) or _refusals(case, path, variant)


def _refusals(case: Case, path: Path, variant: Variant) -> list[str]:
    return ModelEngine().refusals(_task(case, path, variant, Arrival()))


def _select(case: Case, path: Path, variant: Variant, order: Arrival) -> Selection:
    return ModelEngine().select(_task(case, path, variant, order))
