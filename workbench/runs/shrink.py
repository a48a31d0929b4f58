"""Shrink a row: the smallest one that still shows the same fault on the same path."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from workbench.analysis.risk import LOSING, Risk
from workbench.analysis.shrinking.candidate import Candidate, Subject
from workbench.analysis.shrinking.fault import MOST_CLEAN, Fault, Predicate, look, scattered
from workbench.analysis.shrinking.shrink import shrinking
from workbench.arguments import checked
from workbench.capture.row import Row
from workbench.errors import CaptureError, UsageError
from workbench.paths.catalog import PATHS, get_path, get_variant
from workbench.paths.routing import route
from workbench.paths.spec import Path, Variant
from workbench.rendering import Rendered
from workbench.runs.case import Case
from workbench.runs.fitting import alone, fitted, reaches
from workbench.runs.run import STOCK
from workbench.runs.saved import Saved
from workbench.words import listed

SAVE_EVERY = 5.0  # seconds between two checkpoints
_OF_ROW = ("length", "k", "distinct")
_OF_RISK = ("population", "capacity", "above", "need", "level", "p_clean", "expected_missing", "order_correlation")


@dataclass(frozen=True, eq=False)
class Figures:
    """What there is to a row: its size and its risk on the path.

    Attributes:
        length, k. distinct: different scores, by bit pattern. risk: on the path and variant.
    """

    length: int
    k: int
    distinct: int
    risk: Risk

    @property
    def named(self) -> dict[str, int | float | str | None]:
        """What is told of a row before and after, by name, in the order of tables."""
        return {name: getattr(self, name) for name in _OF_ROW} | {name: getattr(self.risk, name) for name in _OF_RISK}


@dataclass(frozen=True, eq=False)
class Shrunk(Rendered):
    """A row and what became of it.

    Attributes:
        row: the smallest row, start 0 and without padding, under a call that fits it; the row as given without a fault.
        path, variant: their names. fault: what both rows show; ``None`` if the row shows nothing there.
        before, after: figures of the two. tried, kept: candidates. seconds: that it took, this time.
        is_minimum: whether no pass found anything simpler; else shrinking was stopped.
        seed: of choices among equals. most_clean: the bound held on p_clean; ``None`` without a fault.
        route_held: whether the op sends the smallest row to the path, as it does the one given.
        notes: what a reader must know besides.
    """

    row: Row
    path: str
    variant: str
    fault: Fault | None
    before: Figures
    after: Figures
    tried: int
    kept: int
    seconds: float
    is_minimum: bool
    seed: int
    most_clean: float | None
    route_held: bool
    notes: tuple[str, ...]


class Shrinking:
    """A row while it shrinks: iterate to go on, a step a candidate, and stop after any.

    Args:
        row: the row. path: its name; by default the one that the op sends the row to.
        variant: its name; ``stock`` stands for the release's own where the path is not given.
        op, release, device, k: those of the call where not given. seed: of choices among equals.
        most_clean: the p_clean up to which a smaller row will do; a row that is clean more often must not get worse.
        start: a smaller row to go on from, of the same row, path and variant.

    Attributes:
        fault: of the row; ``None`` if it shows none. path, variant: on which. smallest: the smallest row so far.
        tried, kept: candidates so far. is_minimum: whether the end was reached.

    Raises:
        UsageError: an unknown name, no path where none is known, or a ``start`` that does not show the fault.
        CaptureError: k is not known, the row's length leaves it, the path does not take the row, or the risk is not
            known.
    """

    def __init__(
        self,
        row: Row,
        path: str | None = None,
        variant: str = STOCK,
        *,
        op: str | None = None,
        release: str | None = None,
        device: str | None = None,
        k: int | None = None,
        seed: int = 0,
        most_clean: float = MOST_CLEAN,
        start: Row | None = None,
    ) -> None:
        if not 0 <= most_clean < 1:
            raise UsageError(f"most_clean is {most_clean}; a probability from 0 to below 1 is needed")
        case = Case(row, op, release, device, k)
        if row.outside:
            raise CaptureError(
                f"the row's length {row.length} leaves it, and what that does is no question of its scores: nothing to "
                "shrink (workbench inspect says what happens)",
                file=row.capture or None,
                row=row.index,
            )
        self._asked = row
        self._row = row.with_call(k=case.k, op=case.op, release=case.release, device=case.device)
        self.path, self.variant = _chosen(case, path, variant)
        self.tried = self.kept = 0
        self.is_minimum = False
        self.notes: tuple[str, ...] = ()
        self._taken = self._route(case)
        self._subject = Subject(self.path, self.variant, row.dtype, seed)
        given = Candidate(self._subject, row.valid.cpu(), case.k)
        seen = look(given)
        self._check(seen.risk)
        self.fault, self.before = seen.fault, _figures(given, seen.risk)
        self._given = self._smallest = given
        self._most_clean = most_clean
        self._holds: Predicate | None = None
        if self.fault is None:
            self.is_minimum = True
            return
        self._subject = replace(self._subject, binned=self.fault.binned(self.variant))
        self._given = self._smallest = Candidate(self._subject, given.scores, given.k)
        self._holds = Predicate(seen, most_clean, self._fits)
        if start is not None:
            self._go_on(start)

    @property
    def holds(self) -> Predicate:
        """The predicate; only where there is a fault."""
        assert self._holds is not None
        return self._holds

    @property
    def smallest(self) -> Row:
        """The smallest row so far; the one given as long as nothing was kept."""
        if self._smallest is self._given:
            return self._row
        made = self._fitted(self._smallest)
        assert made is not None
        return made

    def __iter__(self) -> Iterator[int]:
        """Shrink, a candidate at a time; gives the length of the smallest row so far."""
        if self.fault is None:
            return
        while not self.is_minimum:
            self._scatter()
            # From its own call and fault the smallest row must have nothing left to find, as for whoever shrinks it
            # again: more may be found there, as a call with a smaller width can reach the path with fewer scores.
            before = self._smallest
            for step in shrinking(before, self.holds):
                self.tried += 1
                self.kept += step.kept
                self._smallest = step.smallest
                yield self._smallest.length
            if self._smallest is before:
                self.is_minimum = True
                return
            self._row = self.smallest
            self._given = self._smallest
            self._holds = Predicate(look(self._smallest), self._most_clean, self._fits)

    def result(self, seconds: float = 0.0) -> Shrunk:
        """What has become of the row so far."""
        return Shrunk(
            row=self.smallest,
            path=self.path.name,
            variant=self.variant.name,
            fault=self.fault,
            before=self.before,
            after=_figures(self._smallest, look(self._smallest).risk),
            tried=self.tried,
            kept=self.kept,
            seconds=seconds,
            is_minimum=self.is_minimum,
            seed=self._subject.seed,
            most_clean=None if self._holds is None else self._holds.most_clean,
            route_held=self._taken is not None,
            notes=self.notes,
        )

    def saved(self, output: str | os.PathLike[str], overwrite: bool = False) -> Saved:
        """The file to keep the smallest row in; its ``start`` is one to go on from.

        Raises:
            UsageError: another file is there and must not be replaced, or the path cannot be written.
        """
        return Saved(
            output,
            self._asked,
            self.before.k,
            self.path.name,
            self.variant.name,
            self._subject.seed,
            self._most_clean,
            overwrite,
        )

    def _scatter(self) -> None:
        made = scattered(self._smallest, look(self._smallest))
        if made is None:
            return
        self.notes += ("scores rose or fell along the threshold bin, they stand at random now: the risk holds of that",)
        self.tried, self.kept = self.tried + 1, self.kept + 1
        self._smallest = made
        self._holds = Predicate(look(made), self._most_clean, self._fits)

    def _fits(self, candidate: Candidate) -> bool:
        return self._fitted(candidate) is not None

    def _fitted(self, candidate: Candidate) -> Row | None:
        return fitted(self._row, candidate.scores, candidate.k, self._taken)

    def _route(self, case: Case) -> tuple[str, str] | None:
        """The path and variant that every smaller row must still reach; ``None`` where the row does not reach them."""
        own = (self.path.name, self.variant.name)
        if case.route is None or not reaches(case.route, own):
            return None
        if reaches(route(alone(self._row)), own):
            return own
        self.notes = (
            "the route depends on the other rows of the call, which a row alone does not have: it is not held",
        )
        return None

    def _check(self, found: Risk) -> None:
        """Raise CaptureError where the risk does not tell."""
        name = f"{self.path.name} ({self.variant.name})"
        reason = f"{name} does not take it: {listed(found.refused)}" if found.refused else ""
        if not reason and found.level is None:
            reason = f"its risk on {name} is not known: {found.note}"
        if reason:
            raise CaptureError(reason, file=self._row.capture or None, row=self._row.index)

    def _go_on(self, start: Row) -> None:
        """Begin with a smaller row, under its own call."""
        candidate = Candidate(self._subject, start.valid.cpu(), start.k or 0)
        self._row = replace(self._row, scores=start.scores, length=start.length, start=start.start, call=start.call)
        if self._given.simpler_than(candidate) or not self.holds(candidate):
            raise UsageError("the row to go on from is no smaller row with the same fault; start anew")
        self._given = self._smallest = candidate


@checked
def shrink(
    row: Row,
    path: str | None = None,
    variant: str = STOCK,
    *,
    op: str | None = None,
    release: str | None = None,
    device: str | None = None,
    k: int | None = None,
    seed: int = 0,
    most_clean: float = MOST_CLEAN,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    time_limit: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> Shrunk:
    """The smallest row that still shows the same fault on the same path.

    The fault class is kept (see ``Fault``), held by the risk over every arrival order: nothing is run in the hope that
    it loses. The result is a local minimum, the same for the same row and seed, and shrinking it again leaves it alone.

    Args:
        row: the row, of any dtype that the path takes; work is done on the CPU.
        path, variant, op, release, device, k, seed, most_clean: as for ``Shrinking``.
        output: a capture to write the smallest row to. It is written again and again while the row shrinks, and holds
            the smallest row so far if the time is up or the work is interrupted; the same call then goes on from it.
        overwrite: replace another file of that name. time_limit: in seconds.
        progress: called with how many scores are gone, after each candidate.

    Raises:
        UsageError, CaptureError: as for ``Shrinking``, or the output cannot be written.
    """
    started, saved_at = time.monotonic(), time.monotonic()
    common = {"op": op, "release": release, "device": device, "k": k, "seed": seed, "most_clean": most_clean}
    work = Shrinking(row, path, variant, **common)  # type: ignore[arg-type]
    saved = None
    if output is not None and work.fault is not None:
        saved = work.saved(output, overwrite)
        if saved.start is not None:
            work = Shrinking(row, path, variant, start=saved.start, **common)  # type: ignore[arg-type]
    try:
        for length in work:
            now = time.monotonic()
            if progress is not None:
                progress(work.before.length - length)
            if saved is not None and now - saved_at > SAVE_EVERY:
                saved.write(work.smallest, finished=False)
                saved_at = now
            if time_limit is not None and now - started > time_limit:
                break
    except BaseException:
        if saved is not None:
            saved.write(work.smallest, finished=False)
        raise
    if saved is not None:
        saved.write(work.smallest, finished=work.is_minimum)
    result = work.result(time.monotonic() - started)
    if saved is not None and saved.start is not None:
        result = replace(result, notes=(*result.notes, "went on from the smallest row of an earlier run"))
    return result


def _chosen(case: Case, path: str | None, variant: str) -> tuple[Path, Variant]:
    if path is not None:
        chosen = get_path(path)
    elif not case.unrouted and case.route is not None and case.route.path is not None:
        chosen = get_path(case.route.path)
        if variant == STOCK and case.route.variant is not None:
            variant = case.route.variant
    else:
        raise UsageError(f"{case.unrouted}; {f'{case.cure}, or ' if case.cure else ''}{_unsafe(case)}")
    return chosen, get_variant(chosen, variant)


def _unsafe(case: Case) -> str:
    """On which paths a row is not safe, to choose from."""
    found = [case.risk(path, path.variant(STOCK)) for path in PATHS]
    names = [f"{one.path} ({one.level})" for one in found if one.level in LOSING]
    if not names:
        return "give a path (--path); this row is safe on every path that takes it"
    return f"give a path (--path); this row is not safe on {listed(names)}"


def _figures(candidate: Candidate, found: Risk) -> Figures:
    return Figures(candidate.length, candidate.k, candidate.distinct.numel(), found)
