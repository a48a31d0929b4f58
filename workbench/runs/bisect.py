"""The first release from which a row loses nothing: by bisection where that can be, else by a scan of all releases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Literal

from workbench.analysis.risk import LOSING
from workbench.analysis.standing import (
    JUDGED,
    LOSING_STATES,
    SURE,
    State,
    chance,
    first_clean,
    is_monotone,
    regressions,
)
from workbench.arguments import checked
from workbench.capture import Capture
from workbench.capture.row import Row
from workbench.engines.launch import OpEngine
from workbench.errors import UsageError
from workbench.rendering import Rendered
from workbench.runs.judges import ModelJudge, make_judge
from workbench.runs.matrix import MODEL, Cell, Judge, Matrix, MatrixRow, tell_row
from workbench.runs.releases import find_releases, ops_given

Method = Literal["bisection", "scan"]


@dataclass(frozen=True, eq=False)
class Bisection(Rendered):
    """What became of a row over the releases of one package.

    Attributes:
        row: the row. engine: what judged it. releases: all that were considered, oldest first.
        cells: of the releases that were run, by release, in the order in which they were run.
        method: how. because: why a scan, in words; empty for a bisection.
        first_clean: the first release from which on the row loses nothing; ``None`` where it loses in the newest one
            that was judged.
        last_losing: the newest release before ``first_clean`` in which it was seen to lose, or can.
        regressions: every release that loses where the one judged before it is clean: (the clean one, the losing one).
        chance: how likely the calls on ``first_clean`` would lose nothing if that release still lost as often as
            ``last_losing`` does; ``None`` where nothing tells.
        calls: asked for of each release. notes: what a reader must know, in words. about: as of a matrix.
    """

    row: MatrixRow
    engine: str
    releases: tuple[str, ...]
    cells: dict[str, Cell]
    method: Method
    because: str
    first_clean: str | None
    last_losing: str | None
    regressions: tuple[tuple[str, str], ...]
    chance: float | None
    calls: int
    notes: tuple[str, ...] = ()
    about: dict[str, str] = field(default_factory=dict)

    @property
    def newest(self) -> Cell | None:
        """The newest release that was run and did not refuse the row; ``None`` if there is none."""
        ran = [self.cells[release] for release in self.releases if release in self.cells]
        return next((cell for cell in reversed(ran) if cell.state not in ("refused", "unknown")), None)

    @property
    def loses(self) -> bool:
        """Whether the row loses, can lose or faults in the newest release that was judged."""
        return self.newest is not None and self.newest.loses

    @property
    def sure(self) -> bool:
        """Whether the calls on ``first_clean`` tell it from a release that still loses now and then."""
        if self.first_clean is None:
            return True
        cell = self.cells[self.first_clean]
        return (cell.risk == "safe" and not cell.observed) or (self.chance is not None and self.chance <= SURE)

    @property
    def not_run(self) -> tuple[str, ...]:
        """Releases that bisection spared."""
        return tuple(release for release in self.releases if release not in self.cells)

    def matrix(self) -> Matrix:
        """The releases that were run, as a matrix of one row."""
        ran = tuple(release for release in self.releases if release in self.cells)
        cells = tuple(self.cells[release] for release in ran)
        return Matrix((self.row,), ran, (cells,), self.calls, dict(self.about), self.notes)


@checked
def bisect_release(
    row: Row,
    releases: str | Sequence[str] | None = None,
    op: str | None = None,
    engine: str | Callable[[str], OpEngine] = MODEL,
    calls: int = 10,
    *,
    scan: bool = False,
    device: str | None = None,
    k: int | None = None,
    seed: int = 0,
    timeout: float | None = None,
    among: Capture | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Bisection:
    """Find the first release from which a row loses nothing.

    What routing and the analysis say of the releases, which costs no run, predicts whether the row loses in a first
    part of them and in none after it. If so, the releases are bisected; a release that contradicts the prediction, ends
    that are alike, or a release that cannot be judged lead to a scan of all.

    Args:
        row: the row. releases, op, engine, device, k: as for ``matrix``; releases of one package.
        calls: of each release. scan: run every release. seed: of the first call, by the model.
        timeout: seconds that one call of the vendor engine may take. among: as for ``run``.
        progress: called with the number of releases run, and of all.

    Raises:
        UsageError: an unknown name, or releases of several packages.
        CaptureError: a row whose k is not known.
    """
    if calls < 1:
        raise UsageError(f"calls is {calls}; it must be at least 1")
    ops = ops_given(op)
    own = (row.call.op,) if row.call.op is not None else ()
    tried = find_releases(releases, ops or own, engine)
    packages = {release.partition("==")[0] for release in tried.releases}
    if len(packages) > 1:
        raise UsageError(f"releases of {len(packages)} packages have no order; give those of one")
    model = ModelJudge(ops, device, k, 0)
    with (
        closing(make_judge(engine, ops, device, k, calls, seed, timeout=timeout, among=among)) as judge,
        closing(model),
    ):
        predicted = [model.outlook(row, release)[0] for release in tried.releases]
        search = _Search(row, tried.releases, predicted, judge, progress)
        method, because = search.run(scan)
        return _told(search, tell_row(row, k), method, because, calls, tried.notes)


class _Search:
    """Runs releases, each at most once."""

    def __init__(
        self,
        row: Row,
        releases: Sequence[str],
        predicted: Sequence[Cell],
        judge: Judge,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self._row, self.releases, self._predicted, self.judge = row, tuple(releases), tuple(predicted), judge
        self._progress = progress
        self.cells: dict[str, Cell] = {}

    def run(self, scan: bool) -> tuple[Method, str]:
        """Run what must be; how, and why a scan."""
        because = "as asked" if scan else self._bisect()
        if not because:
            return "bisection", ""
        for at, release in enumerate(self.releases):
            if release in self.cells and self.cells[release] is self._predicted[at]:
                del self.cells[release]  # told, not run
            self._state(at)
        return "scan", because

    def _state(self, at: int) -> State:
        release = self.releases[at]
        if release not in self.cells:
            self.cells[release] = self.judge(self._row, release)
            if self._progress is not None:
                self._progress(len(self.cells), len(self.releases))
        return self.cells[release].state

    def _bisect(self) -> str:
        """Bisect; why that cannot be, in words, empty if it could."""
        states = [cell.state for cell in self._predicted]
        if not is_monotone(states):
            return "by routing and the analysis the row loses again after a clean release"
        last = len(self.releases) - 1
        first = next((at for at, state in enumerate(states) if state != "refused"), last)
        for at in range(first):  # releases without the op, and others that are known to refuse the row
            self.cells[self.releases[at]] = self._predicted[at]
        if first == last:
            self._state(last)
            return ""
        ends = [self._look(at) for at in (first, last)]
        for end in ends:
            if isinstance(end, str):
                return end
        if ends[0] == ends[1]:
            return f"both ends {'lose' if ends[0] else 'are clean'}"
        if not ends[0]:
            return "the oldest release is clean and the newest loses"
        while last - first > 1:
            middle = (first + last) // 2
            found = self._look(middle)
            if isinstance(found, str):
                return found
            first, last = (middle, last) if found else (first, middle)
        return ""

    def _look(self, at: int) -> bool | str:
        """Whether the row loses in a release, or why a bisection ends there."""
        state, release, predicted = self._state(at), self.releases[at], self._predicted[at].state
        if state not in JUDGED:
            return f"{release} gives no verdict ({state})"
        if predicted in JUDGED and (state in LOSING_STATES) != (predicted in LOSING_STATES):
            did, said = ("loses", "safe") if state in LOSING_STATES else ("is clean", "not safe")
            return f"{release} {did}, though by routing and the analysis the row is {said} there"
        return state in LOSING_STATES


def _told(search: _Search, row: MatrixRow, method: Method, because: str, calls: int, notes: Sequence[str]) -> Bisection:
    ran = [release for release in search.releases if release in search.cells]
    states = [search.cells[release].state for release in ran]
    at = first_clean(states)
    before = [place for place, state in enumerate(states) if state in LOSING_STATES and (at is None or place < at)]
    clean = None if at is None else ran[at]
    losing = ran[before[-1]] if before else None
    return Bisection(
        row,
        search.judge.name,
        search.releases,
        dict(search.cells),
        method,
        because,
        clean,
        losing,
        tuple((ran[one], ran[two]) for one, two in regressions(states)),
        _chance(search.cells, clean, losing),
        calls,
        tuple(notes),
        dict(search.judge.about),
    )


def _chance(cells: dict[str, Cell], clean: str | None, losing: str | None) -> float | None:
    """The chance that the calls on a clean release would lose nothing if it still lost as the losing one does, or as
    the analysis says of it."""
    if clean is None:
        return None
    found = cells[clean]
    known = [found.p_pass] if found.risk in LOSING and found.p_pass is not None else []
    if losing is not None:
        known.append(p_losing(cells[losing]))
    return max((chance(one, found.calls) for one in known), default=None)


def p_losing(cell: Cell) -> float:
    """The probability of a call without a loss in a release that loses: by the analysis, else by the calls that were
    made there (rule of succession)."""
    return (cell.calls - cell.lost_calls + 1) / (cell.calls + 2) if cell.p_pass is None else cell.p_pass
