"""Reports: one line for each row, path, variant, engine and repeat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import PurePath
from typing import TYPE_CHECKING

from workbench.analysis.risk import LOSING, Risk
from workbench.analysis.verdict import LOST, Verdict
from workbench.paths.selection import Selection
from workbench.rendering import Rendered

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Line:
    """One line of a report; ``None`` means unknown or not applicable.

    ``reached`` tells whether the op sends this row to this path. ``refused`` holds every reason why the engine did not
    run the row there; the verdict's fields are then ``None``. The other fields are those of ``Verdict``, ``Risk`` and,
    for engines that can tell, ``Cost``. ``finding`` says what the selector does to the row beside selecting wrongly, or
    what a real one did instead of returning. ``repeatability`` is over all calls of an engine on the row that a run
    made (``same``, ``order varies``, ``ties vary``, ``values vary``), ``note`` what a reader of the line must know, and
    ``ran`` what was called, on what: these are of engines that stand for a whole op alone.
    """

    capture: str
    row: int
    op: str | None
    release: str | None
    path: str | None
    variant: str | None
    engine: str
    repeat: int
    reached: bool | None
    k: int
    length: int
    dtype: str
    refused: str | None = None
    verdict: str | None = None
    missing: int | None = None
    recall: float | None = None
    max_score_gap: float | None = None
    duplicates: int | None = None
    out_of_range: int | None = None
    unwritten: int | None = None
    short: int | None = None
    threshold_bin: int | None = None
    population: int | None = None
    capacity: int | None = None
    above: int | None = None
    need: int | None = None
    risk: str | None = None
    p_clean: float | None = None
    expected_missing: float | None = None
    order_correlation: float | None = None
    clean_at_most: float | None = None
    row_passes: int | None = None
    bytes_read: int | None = None
    staged: int | None = None
    fallback: str | None = None
    finding: str | None = None
    repeatability: str | None = None
    note: str | None = None
    ran: str | None = None


COLUMNS = tuple(field.name for field in fields(Line))
OF_THE_PATH = ("model", "recorded", "vendor")  # engines whose selection is of the line's path; no callable's is
DIGITS = 12  # of a file's sha256 that are shown
_OF_VERDICT = ("missing", "recall", "max_score_gap", "duplicates", "out_of_range", "unwritten", "short")
_OF_RISK = (
    "threshold_bin",
    "population",
    "capacity",
    "above",
    "need",
    "p_clean",
    "expected_missing",
    "order_correlation",
    "clean_at_most",
)


def verdict_fields(verdict: Verdict) -> dict[str, object]:
    """The fields of a line that a verdict fills."""
    return {"verdict": verdict.kind} | {name: getattr(verdict, name) for name in _OF_VERDICT}


def risk_fields(risk: Risk) -> dict[str, object]:
    """The fields of a line that a risk fills."""
    return {"risk": risk.level, "finding": risk.finding or None} | {name: getattr(risk, name) for name in _OF_RISK}


def cost_fields(selection: Selection) -> dict[str, object]:
    """The fields of a line that the cost of a selection fills; none where the engine cannot tell."""
    return {} if selection.telemetry is None else dict(vars(selection.telemetry.cost))


@dataclass(frozen=True, eq=False)
class Result(Rendered):
    """A line with what it was made from, for pictures: not kept in tables."""

    line: Line
    selection: Selection | None = None
    verdict: Verdict | None = None
    risk: Risk | None = None

    @property
    def faulty(self) -> bool:
        """Whether an engine was called and gave no selection."""
        return self.selection is None and self.line.refused is None


class Report(Rendered):
    """The lines of a run, in the order of rows, engines, paths, variants and repeats.

    Attributes:
        lines: one for each. about: what ran, by release or by engine, as in ``{"gpu": "NVIDIA H200"}``.
    """

    def __init__(self, lines: list[Line], about: dict[str, dict[str, str]] | None = None) -> None:
        self.lines, self.about = lines, about or {}

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[Line]:
        return iter(self.lines)

    @property
    def judged(self) -> bool:
        """Whether any line tells what is lost: a verdict, a finding, or a risk that counts."""
        return any(line.verdict or line.finding or (line.risk and _risk_counts(line)) for line in self.lines)

    @property
    def loses(self) -> bool:
        """Whether any line is lossy or invalid, or any row is not safe where it was judged."""
        return any(line_loses(line) for line in self.lines)

    def to_pandas(self) -> pd.DataFrame:
        """One line a row, path, variant, engine and repeat; columns as in ``Line``, integers nullable."""
        import pandas as pd

        frame = pd.DataFrame([vars(line) for line in self.lines], columns=list(COLUMNS))
        for field in fields(Line):
            if str(field.type).startswith("int"):
                frame[field.name] = frame[field.name].astype("Int64")
            elif str(field.type).startswith("bool"):
                frame[field.name] = frame[field.name].astype("boolean")
            elif str(field.type).startswith("float"):
                frame[field.name] = frame[field.name].astype("float64")
        return frame

    def to_records(self) -> list[dict[str, object]]:
        """The lines as dictionaries, in order."""
        return [dict(vars(line)) for line in self.lines]


def line_loses(line: Line) -> bool:
    """Whether a line is a finding: a lossy or invalid selection, a risk that is not ``safe``, or what it is told of.

    A callable stands in for the op: the risk of the op's path is not its own, and does not count. Nor does it where a
    real op was to be called and was not.
    """
    risky = line.risk in LOSING and _risk_counts(line)
    return risky or line.verdict in LOST or line.finding is not None


def _risk_counts(line: Line) -> bool:
    return line.engine in OF_THE_PATH and (line.engine != "vendor" or line.refused is None)


def ran_text(about: Mapping[str, str]) -> str:
    """What an engine tells of itself, in short: release, library, torch and GPU, as far as it does."""
    release = about.get("release", "") + (f" ({about['from']})" if "from" in about else "")
    torch = f"torch {about['torch']}" if "torch" in about else ""
    return ", ".join(filter(None, (release, library_text(about), torch, about.get("gpu", ""))))


def library_text(about: Mapping[str, str]) -> str:
    """The library that was called: its file's name and the start of its digest, since folders differ by machine; empty
    if it is not told."""
    return f"{PurePath(about.get('library', '')).name} {about.get('sha256', '')[:DIGITS]}".strip()
