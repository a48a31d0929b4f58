"""What would keep the winners of rows: remedies, each with how it stands on every row, what it rests on and costs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal, get_args

from workbench.analysis.risk import LOSING
from workbench.paths.catalog import get_path
from workbench.paths.costs import Cost
from workbench.rendering import Rendered

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["release", "backend", "op", "repair", "call", "input"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Outcome = Literal["safe", "at risk", "certain", "depends", "refused", "unknown"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
State = Literal["keeps every winner", "helps", "does not help", "not known"]
STATES: tuple[State, ...] = get_args(State)
Evidence = Literal["observed", "described", "model"]
EVIDENCE: tuple[Evidence, ...] = get_args(Evidence)  # the strongest first
LOSING_OUTCOMES: tuple[Outcome, ...] = (*LOSING, "depends")


@dataclass(frozen=True)
class Counted:
    """How many rows stand how.

    Attributes:
        safe, at_risk, certain: no arrival order loses a winner, some do, all do (or the selector does other harm).
        depends: where the row goes depends on what is not known, and some of the paths that it may take can lose.
        refused: the op does not take the row. unknown: it cannot be told.
    """

    safe: int = 0
    at_risk: int = 0
    certain: int = 0
    depends: int = 0
    refused: int = 0
    unknown: int = 0

    @property
    def rows(self) -> int:
        """All of them."""
        return sum(getattr(self, one.name) for one in fields(self))

    @property
    def losing(self) -> int:
        """Rows that lose or can lose winners."""
        return self.at_risk + self.certain + self.depends

    @property
    def named(self) -> dict[Outcome, int]:
        """By outcome, without those that no row has."""
        counts = {outcome: int(getattr(self, outcome.replace(" ", "_"))) for outcome in OUTCOMES}
        return {outcome: count for outcome, count in counts.items() if count}


@dataclass(frozen=True)
class Remedy(Rendered):
    """One change under which rows may keep their winners.

    Attributes:
        kind: ``release`` (the same op in other releases), ``backend`` (an option of the engine), ``op`` (another op, by
            a change of code), ``repair`` (a variant of the paths), ``call`` (other circumstances of the call), or
            ``input`` (had the scores or k been others).
        what: what to do, in one line, spelled as it is given. how: how that is done, or which condition must change.
        given: the very text to give, a command or an option; empty where none is known.
        releases: that it holds in, oldest first and without gaps; empty where it is of no release.
        rows: how the rows stand under it. paths: that they take then, with how many rows each, as
            ``(path, variant, rows)``; a row that may take several is counted on each.
        evidence: what it rests on: ``observed`` on released ops, ``described`` in sources or reports, or the ``model``
            of what rows would do that were never given to an op so.
        lossless: whether every path that rows of any length take then loses nothing, so that it keeps other rows'
            winners as well; ``None`` where that is not known.
        cost: beside what the rows take now, where that was measured.
        caveats: what else must be known. first_bad: the first row that is not safe, as ``(capture, row)``.
        refusals: why rows are refused or cannot be told, each once.
        state: whether it keeps every winner, or helps some rows.
    """

    kind: Kind
    what: str
    how: str
    rows: Counted
    state: State
    evidence: Evidence
    given: str = ""
    releases: tuple[str, ...] = ()
    paths: tuple[tuple[str, str, int], ...] = ()
    lossless: bool | None = None
    cost: Cost | None = None
    caveats: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    first_bad: tuple[str, int] | None = None

    @property
    def name(self) -> str:
        """Tells it from the other remedies of its part: kind and what."""
        return f"{self.kind}: {self.what}"

    @property
    def share(self) -> float:
        """The share of rows whose every winner it keeps, 0 to 1."""
        return self.rows.safe / self.rows.rows if self.rows.rows else 0.0

    @property
    def unmodelled(self) -> tuple[str, ...]:
        """Of the paths that rows take then, those that no model runs, so that nothing was judged there."""
        return tuple(path for path, variant, _ in self.paths if not get_path(path).variant(variant).modelled)

    @property
    def keeps(self) -> bool:
        """Whether it keeps every winner of all rows."""
        return self.state == "keeps every winner"


@dataclass(frozen=True)
class Part(Rendered):
    """The rows of one op.

    Attributes:
        op: as captured or given; ``None`` where it is not known, and rows are judged on every path of any op.
        releases, devices: that the rows are of, as far as they are said.
        now: how the rows stand as they are. paths: that they take, as for a remedy.
        recorded: rows with a recorded selection. lost: of them, those whose selection is lossy or invalid.
        needs: what must be known to tell more, in words. notes: what else must be known. remedies: the best first.
    """

    op: str | None
    releases: tuple[str, ...]
    devices: tuple[str, ...]
    now: Counted
    paths: tuple[tuple[str, str, int], ...] = ()
    recorded: int = 0
    lost: int = 0
    needs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()

    @property
    def at_risk(self) -> bool:
        """Whether a row loses or can lose winners, or lost some as it was recorded."""
        return bool(self.now.losing or self.lost)

    @property
    def keeping(self) -> tuple[Remedy, ...]:
        """The remedies that keep every winner."""
        return tuple(one for one in self.remedies if one.keeps)


@dataclass(frozen=True)
class Advice(Rendered):
    """What would keep the winners of some rows: a part for each op that they are of, in the order they were met."""

    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        """How many rows there were."""
        return sum(part.now.rows for part in self.parts)

    @property
    def at_risk(self) -> bool:
        """Whether a row loses or can lose winners, or lost some as it was recorded."""
        return any(part.at_risk for part in self.parts)

    @property
    def judged(self) -> bool:
        """Whether it is known of any row how it stands as it is."""
        return any(part.now.rows - part.now.refused - part.now.unknown or part.recorded for part in self.parts)

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """Those of all parts."""
        return tuple(remedy for part in self.parts for remedy in part.remedies)

    def to_records(self) -> list[dict[str, object]]:
        """One dictionary a remedy, with the op of its rows."""
        return [_record(part, remedy) for part in self.parts for remedy in part.remedies]

    def to_pandas(self) -> pd.DataFrame:
        """One line a remedy, columns as in ``to_records``."""
        import pandas as pd

        frame = pd.DataFrame(self.to_records(), columns=COLUMNS)
        for name in ("cost_least", "cost_most"):
            frame[name] = frame[name].astype("float64")
        frame["lossless"] = frame["lossless"].astype("boolean")
        return frame


COLUMNS = [
    *("op", "kind", "what", "how", "given", "state", "releases", "rows"),
    *(one.name for one in fields(Counted)),
    *("evidence", "lossless", "cost_least", "cost_most", "paths", "caveats"),
]


def _record(part: Part, remedy: Remedy) -> dict[str, object]:
    cost = remedy.cost
    return {
        "op": part.op,
        "kind": remedy.kind,
        "what": remedy.what,
        "how": remedy.how,
        "given": remedy.given,
        "state": remedy.state,
        "releases": ", ".join(remedy.releases),
        "rows": remedy.rows.rows,
        **vars(remedy.rows),
        "evidence": remedy.evidence,
        "lossless": remedy.lossless,
        "cost_least": None if cost is None else cost.least,
        "cost_most": None if cost is None else cost.most,
        "paths": "; ".join(f"{path} ({variant}): {rows}" for path, variant, rows in remedy.paths),
        "caveats": "; ".join((*remedy.caveats, *remedy.refusals)),
    }
