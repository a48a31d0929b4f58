"""Rows under every change that is tried: counted as they are read, told as remedies in the end."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby, product

import torch

from workbench.analysis.altered import ALTERATIONS
from workbench.analysis.risk import LOSING, Risk
from workbench.analysis.verdict import LOST
from workbench.capture.row import Row
from workbench.paths.catalog import find_paths, get_path
from workbench.paths.conditions import Setup
from workbench.paths.costs import MEASURED_ON, Cost, cost_of
from workbench.paths.devices import DEVICES
from workbench.paths.ops import get_op
from workbench.paths.spec import Path
from workbench.runs.case import Case
from workbench.runs.changes import Change, changes_of, repairs_of
from workbench.runs.remedy import LOSING_OUTCOMES, Counted, Outcome
from workbench.runs.run import STOCK, SYSTEMS, run_case
from workbench.runs.taken import Pair, Taken, Where, taken
from workbench.words import listed

KEPT = 4096  # routes that are remembered: rows of one call go the same ways
FEW = 3  # reasons that are kept of a change


@dataclass
class Tally:
    """How rows stand under one change, so far.

    Attributes:
        outcomes: rows by outcome. paths: rows by path and variant. touched: rows that the change does anything to.
        ops: whose kernels ran. cost: beside what rows take now, and for how many rows it was measured.
        reasons: why rows are refused or cannot be told. needs: what decides and is not known.
        first_bad: the first row that is not safe. print: of all rows' standings, in order.
    """

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    paths: Counter[Pair] = field(default_factory=Counter)
    touched: int = 0
    ops: dict[str, None] = field(default_factory=dict)
    cost: Cost | None = None
    priced: int = 0
    reasons: dict[str, None] = field(default_factory=dict)
    needs: dict[str, None] = field(default_factory=dict)
    first_bad: tuple[str, int] | None = None
    _print: hashlib._Hash = field(default_factory=hashlib.sha256)

    @property
    def counted(self) -> Counted:
        """The rows by outcome."""
        return Counted(**{name.replace(" ", "_"): count for name, count in self.outcomes.items()})

    @property
    def digest(self) -> bytes:
        """Equal for changes under which every row stands alike, and safe ones do on the same paths."""
        return self._print.digest()

    def add(self, row: Row, stands: Stands, touched: bool = True) -> None:
        """Count a row."""
        self.outcomes[stands.outcome] += 1
        self.paths.update(stands.pairs)
        self.touched += touched
        self.ops |= dict.fromkeys(stands.ops)
        for kept, more in ((self.reasons, stands.reasons), (self.needs, stands.needs)):
            for one in more:
                if len(kept) < FEW:
                    kept[one] = None
        if self.first_bad is None and stands.outcome != "safe":
            self.first_bad = (row.capture, row.index)
        on = sorted(stands.pairs) if stands.outcome == "safe" else ()  # how a path loses a row is all one
        self._print.update(f"{stands.outcome} {on}\n".encode())


@dataclass(frozen=True)
class Stands:
    """How one row stands: its outcome, the paths that it takes or may take, whose kernels those are, and why it is
    refused or cannot be told."""

    outcome: Outcome
    pairs: tuple[Pair, ...] = ()
    ops: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


class Standing:
    """The rows of one op: how they stand as they are, and under every change.

    Args:
        op: as given or captured and known; ``None`` where it is not. release, device: given for all rows. k: the same.
        setup: of the engine.
    """

    def __init__(
        self, op: str | None, release: str | None, device: str | None, k: int | None, setup: Setup | None
    ) -> None:
        self.op, self._release, self._device, self._k, self._setup = op, release, device, k, setup
        self.changes: tuple[Change, ...] = ()
        self.now, self.tallies = Tally(), list[Tally]()
        self.releases, self.devices = dict[str, None](), dict[str, None]()
        self.sample: tuple[Row, int, tuple[Where, ...]] | None = None
        self.recorded = self.lost = 0
        self.needs: dict[str, None] = {}
        self.notes: dict[str, None] = {}
        self._routes: dict[tuple[object, ...], Taken] = {}

    def add(self, row: Row, known: Case | None = None) -> None:
        """Judge a row under every change, and count it. ``known``: the same row, of which what it knows is shared.

        Raises:
            CaptureError: k is not known.
        """
        case = Case(row, self.op, self._release, self._device, self._k, like=known)
        releases, devices = self._circumstances(case)
        device = devices[0] if len(devices) == 1 else None
        if not self.changes:
            self.changes = changes_of(self.op, device, case.k, self._setup, case.release)
            self.tallies = [Tally() for _ in self.changes]
        own = (
            [Where(self.op, release, device, self._setup) for release in releases for device in devices]
            if self.op
            else []
        )
        now = self._stands(case, own)
        self.now.add(row, now)
        if self.sample is None and (own or self.op is None):
            on = device if device is not None else MEASURED_ON.lower()
            named = releases or [""]  # without an op, changes alone name one, each with its release
            self.sample = (row, case.k, tuple(Where(self.op or "", one, on, self._setup) for one in named))
        if row.indices is not None:
            self._count_recorded(case)
        altered: dict[str, Stands] = {}
        for change, tally in zip(self.changes, self.tallies, strict=True):
            found = self._under(change, case, own, devices, now, altered)
            tally.add(row, found or now, found is not None)
            if found is not None and change.kind in ("backend", "op"):
                self._price(tally, case, now, found)

    def _circumstances(self, case: Case) -> tuple[list[str], list[str]]:
        """The releases and devices that a row may be of, as far as routing knows them; what is not known is noted."""
        op = None if self.op is None else get_op(self.op)
        names = [device.name for device in DEVICES]
        device = None if case.device is None else case.device.lower()
        if case.release is not None:
            self.releases[case.release] = None
        if case.device is not None:
            self.devices[case.device] = None
        if op is None:
            whose = "every engine" if case.release is None else "that engine"
            note = f"the op is not known, so ops of {whose} are listed; those that the engine cannot call do not apply"
            self.notes[note] = None
            self.needs[f"the op{_said(case.op)}, as vllm.persistent_topk"] = None
        elif case.release not in op.package_releases:
            self.needs[f"the release{_said(case.release)}, as {op.releases[-1]}"] = None
        if device not in names:
            self.needs[f"the device{_said(case.device)}, as h200"] = None
            self.notes[f"which lengths a change holds for is told of an {MEASURED_ON}, the device not being known"] = (
                None
            )
        releases = [] if op is None else [case.release] if case.release in op.package_releases else list(op.releases)
        return [one for one in releases if one is not None], [device] if device in names else names

    def _count_recorded(self, case: Case) -> None:
        (found,) = run_case(case, engine="recorded")
        if found.line.verdict is not None:
            self.recorded += 1
            self.lost += found.line.verdict in LOST

    def _under(
        self,
        change: Change,
        case: Case,
        own: list[Where],
        devices: list[str],
        now: Stands,
        altered: dict[str, Stands],
    ) -> Stands | None:
        """How a row stands under a change; ``None`` where the change leaves it as it is."""
        if change.release:
            op = change.op or self.op
            assert op is not None
            setup = change.setup if op != self.op else _both(self._setup, change.setup)
            return self._stands(case, [Where(op, change.release, device, setup) for device in devices])
        if change.repair:
            return self._repaired(change.repair, case, now)
        if change.alteration:
            return self._altered(change.alteration, case, now)
        if change.k is not None:
            if change.k >= case.k:
                return None
            smaller = Case(case.row.with_call(k=change.k), self.op, None, None, change.k, like=case)
            return self._stands(smaller, own)
        assert change.rows is not None
        return self._called(change.rows, case, own)

    def _repaired(self, name: str, case: Case, now: Stands) -> Stands | None:
        """Where a path has the repair, and the repair takes the row."""
        pairs: list[Pair] = []
        touched = False
        for path_name, variant in now.pairs:
            path = get_path(path_name)
            fits = [one for one in repairs_of(path) if one.name == name and variant == STOCK]
            takes = bool(fits) and not case.risk(path, fits[0]).refused
            pairs.append((path_name, name if takes else variant))
            touched |= takes
        return _outcome(case, Taken(tuple(pairs)), now.ops) if touched else None

    def _altered(self, name: str, case: Case, now: Stands) -> Stands | None:
        if case.row.dtype != "float32":
            return Stands("unknown", now.pairs, now.ops, ("only float32 scores are altered",))
        made = ALTERATIONS[name](case.row.valid, case.k)
        if not made.possible:
            return Stands("unknown", now.pairs, now.ops, (made.told,))
        if made.scores is None or not now.pairs:
            return None
        other = Case(replace(case.row, scores=_in_place(case.row, made.scores)), self.op, None, None, case.k)
        return _outcome(other, Taken(now.pairs), now.ops)

    def _called(self, rows: tuple[int, int | None], case: Case, own: list[Where]) -> Stands | None:
        """With other numbers of rows in the call: at both ends, between which routing does not change."""
        least, most = rows
        if (
            case.row.call.rows is not None
            and least <= case.row.call.rows
            and (most is None or case.row.call.rows <= most)
        ):
            return None
        found = []
        for count in {least, most or least}:
            other = replace(case.row, batch=None).with_call(rows=count)
            found.append(self._stands(Case(other, self.op, None, None, case.k), own, case))
        return _together(found)

    def _stands(self, case: Case, places: list[Where], judge: Case | None = None) -> Stands:
        """How a row stands in any of several places. ``judge``: of the same scores, which risks are kept of."""
        judge = case if judge is None else judge
        if not places:
            paths = [
                path for path in _served() if not path.unmet(k=case.k, length=case.row.length, dtype=case.row.dtype)
            ]
            return _outcome(judge, Taken(tuple((path.name, STOCK) for path in paths)), ())
        found = {}
        for place in places:
            where = self._taken(case, place)
            found[where] = _outcome(judge, where, (where.calls,) if where.calls else (place.op,))
        return _together(list(found.values()))

    def _taken(self, case: Case, where: Where) -> Taken:
        row, call = case.row, case.row.call
        number = row.index if (call.rows or 0) > 1 << 13 else 0  # of prefill calls, from some number on
        batch = None if row.batch is None else row.batch.numpy().tobytes()
        width = row.scores.numel()
        numbers = (call.rows, call.width, call.stride, call.max_seq_len, call.next_n)
        key = (where, case.k, row.length, row.start, width, row.dtype, numbers, batch, number)
        if key not in self._routes:
            if len(self._routes) >= KEPT:
                self._routes.clear()
            self._routes[key] = taken(row, where, case.k)
        return self._routes[key]

    def _price(self, tally: Tally, case: Case, now: Stands, then: Stands) -> None:
        """What the change costs for a row, where both sides were measured."""
        if now.outcome == "refused" or not (now.pairs and now.ops and then.pairs and then.ops):
            return
        found = None
        for (op, path), (other_op, other_path) in product(_sides(now), _sides(then)):
            one = cost_of((other_op, other_path), (op, path), case.row.call.rows, case.row.length, case.k)
            if one is None:
                return
            found = one.beside(found)
        if found is not None:
            tally.cost, tally.priced = found.beside(tally.cost), tally.priced + 1

    def grouped(self) -> Iterator[tuple[list[Change], Tally]]:
        """The changes that were tried, those of one family under which all rows stand alike together."""
        pairs = list(zip(self.changes, self.tallies, strict=True))
        for _, same in groupby(enumerate(pairs), lambda one: _group_key(one[0], one[1])):
            held = [pair for _, pair in same]
            yield [change for change, _ in held], held[0][1]


def _group_key(place: int, pair: tuple[Change, Tally]) -> tuple[object, ...]:
    change, tally = pair
    if not change.family:
        return (place,)
    package = change.release.partition("==")[0]
    return change.kind, change.family, package, tally.digest, bool(tally.touched)


def _sides(stands: Stands) -> list[tuple[str, str]]:
    return [(op, path) for op in stands.ops for path, _ in stands.pairs]


def _both(own: Setup | None, told: Setup | None) -> Setup | None:
    """An engine's setup with what it is told on top."""
    if own is None or told is None:
        return told if own is None else own
    return replace(own, **{name: getattr(told, name) for name in ("backend", "topk_v2", "fused")})


def _said(name: str | None) -> str:
    return "" if name is None else f" ({name} is not known here)"


def _served() -> list[Path]:
    """Every path that a known op takes, without the baselines."""
    return [path for path in find_paths() if path.system in SYSTEMS and not path.unreached]


def _in_place(row: Row, valid: torch.Tensor) -> torch.Tensor:
    """A row's cells with other valid scores."""
    cells = row.scores.clone()
    cells[row.start : row.start + valid.numel()] = valid
    return cells


def _outcome(case: Case, where: Taken, ops: tuple[str, ...]) -> Stands:
    """How a row stands where it goes."""
    if where.refused and not where.pairs:
        return Stands("refused", ops=ops, reasons=(where.refused,))
    needs = where.unknown
    if not where.pairs:
        return Stands("unknown", ops=ops, needs=needs, reasons=(f"it depends on {listed(needs)}",) if needs else ())
    risks = [case.risk(get_path(path), get_path(path).variant(variant)) for path, variant in where.pairs]
    pairs = [(risk.path, risk.variant) for risk in risks if not risk.refused]
    if not pairs:
        return Stands("refused", where.pairs, ops, tuple("; ".join(risk.refused) for risk in risks), needs)
    found = [_level(risk) for risk in risks if not risk.refused]
    notes = tuple(risk.note for risk in risks if _level(risk) == "unknown" and risk.note)
    return Stands(_worst(found), tuple(pairs), ops, notes, needs)


def _level(risk: Risk) -> Outcome:
    if risk.finding:
        return "certain"
    return risk.level or "unknown"


def _worst(found: list[Outcome]) -> Outcome:
    """What several outcomes amount to, of a row that may have any of them."""
    kinds = set(found)
    if len(kinds) == 1:
        return found[0]
    if kinds <= set(LOSING):
        return "at risk"
    return "depends" if kinds & set(LOSING_OUTCOMES) else "unknown"


def _together(found: list[Stands]) -> Stands:
    """A row that may be in any of several places; those that refuse it are left out where others take it."""
    takes = [one for one in found if one.outcome != "refused"] or found
    if len(takes) == 1:
        return takes[0]

    def every(name: str) -> tuple[object, ...]:
        return tuple(dict.fromkeys(item for one in takes for item in getattr(one, name)))

    outcome = _worst([one.outcome for one in takes])
    return Stands(outcome, every("pairs"), every("ops"), every("reasons"), every("needs"))  # type: ignore[arg-type]
