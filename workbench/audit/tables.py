"""The tables of a summary, the same on the command line, on a page that is mailed, and in the app."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from workbench.audit.summary import Grouped, PathTally, Summary
from workbench.audit.words import line_state, share_words
from workbench.runs.law_words import law_notes
from workbench.words import UNKNOWN, average

GROUPED = ("layer", "step", "rank", "file", "op", "release")
Kind = Literal["number", "word", "text"]
Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """Lines under titles.

    Attributes:
        title: of the whole. columns: (title, kind) of each. rows: cells; numbers as they are, ``None`` for unknown.
        more: what is left out, in words; empty for nothing.
    """

    title: str
    columns: tuple[tuple[str, Kind], ...]
    rows: tuple[tuple[Cell, ...], ...]
    more: str = ""


def tables(found: Summary) -> list[Table]:
    """All tables that hold a line, the most telling first."""
    every = [worst_table(found), paths_table(found), *(group_table(name, found) for name in GROUPED)]
    every += [shares_table(found), files_table(found), errors_table(found)]
    return [one for one in every if one.rows]


def found_tables(found: Summary) -> list[Table]:
    """The few lines that a glance needs: the worst rows, and the paths that have bad ones."""
    return [one for one in (worst_table(found), found_paths_table(found)) if one.rows]


def worst_table(found: Summary) -> Table:
    """The worst rows."""
    told = [name for name in ("layer", "step", "rank") if any(line[name] is not None for line in found.worst)]
    columns: list[tuple[str, Kind]] = [("file", "text"), ("row", "number")]
    told += ["k"] if len({line["k"] for line in found.worst}) > 1 else []
    columns += [*((name, "number") for name in told), ("length", "number"), ("path", "word"), ("finding", "word")]
    rows = [
        (
            line["file"],
            line["row"],
            *(line[name] for name in told),
            *(line["length"], path_text(line), line_state(line), missing_text(line), line["p_clean"]),
        )
        for line in found.worst
    ]
    bad = found.total.bad
    title = f"The {len(rows):,} worst of {bad:,} bad rows" if len(rows) < bad else "Bad rows, the worst first"
    laws = law_notes((line["path"], line["risk"], None) for line in found.worst)
    return Table(title, (*columns, ("missing", "number"), ("p_clean", "number")), tuple(rows), "; ".join(laws))


def path_text(line: Mapping[str, Any]) -> str | None:
    """A line's path, with its variant where that is not ``stock``."""
    path, variant = line["path"], line["variant"]
    return path if path is None or variant in (None, "stock") else f"{path} ({variant})"


def missing_text(line: Mapping[str, Any]) -> Cell:
    """Winners missing: counted in a recorded selection, else expected on average, as in ``~12.5``."""
    if line["missing"] is not None:
        return int(line["missing"])
    return None if line["expected_missing"] is None else f"~{average(line['expected_missing'])}"


def paths_table(found: Summary) -> Table:
    """Paths that any row reaches, that made a recorded selection, or on which a row is not safe."""
    told = [path for path in found.paths if is_told(path)]
    rest = len(found.paths) - len(told)
    more = f"{rest} more {'path is' if rest == 1 else 'paths are'} safe on every row that they take, or take none"
    return _paths_table(told, more if rest else "")


def found_paths_table(found: Summary) -> Table:
    """Paths that have bad rows."""
    return _paths_table([path for path in found.paths if path.is_found], "")


def _paths_table(told: Sequence[PathTally], more: str) -> Table:
    names = ("rows", "refused", "safe", "at risk", "certain", "reached", "losing", "recorded")
    rows = [
        (
            path.path or UNKNOWN,
            *(path.rows, path.refused, path.safe, path.at_risk, path.certain, path.reached, path.losing),
            *(path.recorded, path.lossy, path.invalid, path.harmful),
        )
        for path in told
    ]
    columns = _numbers("path", "word", *names, "lossy", "invalid", "harmful")
    return _without_zeros("By path", columns, rows, more, ("harmful", "invalid"))


def is_told(path: PathTally) -> bool:
    """Whether a path is worth a line."""
    return any(path.gravity) or bool(path.recorded)


def group_table(name: str, found: Summary) -> Table:
    """Bad rows by a column; without a line where all rows have the same value there, or none is bad."""
    grouped: Grouped = found.groups[name]
    bad = [group for group in grouped.groups if group.tally.bad] if grouped.of > 1 else []
    more = f", the gravest {len(bad):,} of {len(bad) + grouped.more_bad:,} with bad rows" if grouped.more_bad else ""
    kind: Kind = "text" if name == "file" else "word" if name in ("op", "release") else "number"
    rows = [
        (
            UNKNOWN if group.value is None else group.value,
            *(group.tally.rows, group.tally.bad, group.tally.invalid, group.tally.lossy, group.tally.certain),
            *(group.tally.at_risk, group.tally.harmful, group.tally.errors),
        )
        for group in bad
    ]
    columns = _numbers(name, kind, "rows", "bad", "invalid", "lossy", "certain", "at risk", "harmful", "errors")
    return _without_zeros(f"By {name}{more}", columns, rows, "", ("invalid", "lossy", "harmful", "errors"))


def _numbers(name: str, kind: Kind, *numbers: str) -> tuple[tuple[str, Kind], ...]:
    return ((name, kind), *((number, "number") for number in numbers))


def _without_zeros(
    title: str,
    columns: Sequence[tuple[str, Kind]],
    rows: Sequence[tuple[Cell, ...]],
    more: str,
    optional: Sequence[str],
) -> Table:
    """A table without those of its ``optional`` columns that hold nothing."""
    kept = [at for at, (name, _) in enumerate(columns) if name not in optional or any(row[at] for row in rows)]
    return Table(title, tuple(columns[at] for at in kept), tuple(tuple(row[at] for at in kept) for row in rows), more)


def shares_table(found: Summary) -> Table:
    """Rows with scores that selectors treat apart."""
    shares = found.shares
    told = (
        ("NaN", shares.nan, shares.rows),
        ("-inf", shares.neg_inf, shares.rows),
        ("finite scores beyond 65504, which fp16 cannot hold", shares.fp16_overflow, shares.rows),
        ("other scores that equal the k-th best", shares.ties, shares.cut),
    )
    rows = tuple((about, part, share_words(part, of), of) for about, part, of in told) if shares.rows else ()
    columns = _numbers("rows with", "text", "rows", "share", "of")
    return Table("Scores that selectors treat apart", columns, rows)


def files_table(found: Summary) -> Table:
    """Files that were not audited, or not all of them."""
    rows = [(line.file, line.state, line.error) for line in found.files.faulty]
    title = f"Files that could not be {'scanned' if found.kind == 'scan' else 'audited'} whole"
    return _first(title, (("file", "text"), ("state", "word"), ("why", "text")), rows, found.files.of)


def errors_table(found: Summary) -> Table:
    """Rows that could not be read or judged."""
    rows = [(line["file"], line["row"], line["error"]) for line in found.errors]
    title = "Rows that could not be read or judged"
    return _first(title, (("file", "text"), ("row", "number"), ("why", "text")), rows, found.total.errors)


def _first(title: str, columns: tuple[tuple[str, Kind], ...], rows: Sequence[tuple[Cell, ...]], of: int) -> Table:
    return Table(f"{title}, the first {len(rows):,} of {of:,}" if of > len(rows) else title, columns, tuple(rows))
