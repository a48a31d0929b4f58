"""One pass over an audit's records: every line is looked at once, as part of an array."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

import numpy as np

from workbench.analysis.risk import LEVELS, LOSING
from workbench.analysis.verdict import LOST, Kind
from workbench.audit.dataset import ENGINES, MOST_ROW, Lines, Words
from workbench.audit.tally import BIT, Counter, GridCounter, Seen, Tally, tally_rows
from workbench.audit.telling import Telling, counting_lines, may_count, telling
from workbench.audit.work import CENSUS, RECORDED

BY = ("op", "release", "layer", "step", "rank", "file")
VERDICTS: tuple[str, ...] = get_args(Kind)
KNOWN = {"engine": ENGINES, "verdict": VERDICTS, "risk": LEVELS}
COLUMNS = (
    *("call", "op", "release", "layer", "step", "rank", "nan", "neg_inf", "fp16_overflow", "ties", "engine", "path"),
    *("reached", "refused", "verdict", "missing", "risk", "expected_missing", "population", "capacity", "finding"),
    "error",
)
FAR = 1 << 53  # layers, steps and ranks lie nearer to 0
_AT_RISK, _CERTAIN = LEVELS.index("at risk"), LEVELS.index("certain")
_INVALID, _LOSSY = VERDICTS.index("invalid"), VERDICTS.index("lossy")
_LOST, _LOSING = [VERDICTS.index(one) for one in LOST], [LEVELS.index(one) for one in LOSING]


class Vocabulary:
    """The texts of columns by their numbers, the same throughout a pass.

    Args:
        served: whether only paths of serving systems count where it is not known which a row takes, as they do unless
            others were asked for.
    """

    def __init__(self, served: bool = True) -> None:
        self._served = served
        self.words = {name: Words() for name in ("file", "op", "release", "path", *KNOWN)}
        for name, known in KNOWN.items():
            for text in known:
                self.words[name].number(text)

    def __getitem__(self, name: str) -> list[str]:
        return self.words[name].texts

    def may_count(self) -> np.ndarray:
        """bool [paths + 1]: which paths count for rows that may take any, the last value being for no path."""
        return may_count(self["path"], self._served)

    def codes(self, lines: Lines, name: str) -> np.ndarray:
        """int64 [n]: a column by its numbers. ValueError: a text that it cannot hold."""
        found = lines.codes(name, self.words[name])
        if name in KNOWN and len(self[name]) > len(KNOWN[name]):
            raise ValueError(f"a line has the {name} {self[name][-1][:60]!r}")
        return found


@dataclass(frozen=True, eq=False)
class Judged:
    """What lines say of their rows, arrays of [n].

    Attributes:
        path, verdict, risk: int64, numbers of the vocabulary, in the order of ``VERDICTS`` and ``LEVELS``; -1 for none.
        census, recorded: bool, which engine. error, refused, finding: bool, whether there is one.
        reached: bool, that the op sends the row to the path.
        counts: bool, that what the line says of the path is the row's own, as ``counting_lines`` has it.
    """

    path: np.ndarray
    verdict: np.ndarray
    risk: np.ndarray
    census: np.ndarray
    recorded: np.ndarray
    error: np.ndarray
    refused: np.ndarray
    finding: np.ndarray
    reached: np.ndarray
    counts: np.ndarray

    @cached_property
    def telling(self) -> Telling:
        """What the lines tell of."""
        lost, risky = np.isin(self.verdict, _LOST), np.isin(self.risk, _LOSING)
        return telling(self.recorded, self.counts, lost, risky, self.finding)

    def row_bits(self, lines: Lines) -> np.ndarray:
        """int64 [rows]: the flags of each row, as in ``tally.BIT``; of ``certain`` and ``at_risk`` the graver."""
        judged = self.recorded & (self.verdict >= 0)
        told = judged | (self.census & ((self.risk >= 0) | self.finding)) | self.error
        of_lines = {
            "invalid": self.recorded & (self.verdict == _INVALID),
            "lossy": self.recorded & (self.verdict == _LOSSY),
            "certain": self.counts & (self.risk == _CERTAIN),
            "at_risk": self.counts & (self.risk == _AT_RISK),
            "harmful": self.telling.harmful,
            "errors": self.error,
            "recorded": judged,
            "unjudged": told,  # turned round below: of a row, not of a line
        }
        bits = np.zeros(len(lines), dtype=np.int64)
        for name, flag in of_lines.items():
            bits |= np.where(flag, BIT[name], 0)
        rows = lines.each_row(bits) ^ BIT["unjudged"]
        rows &= ~np.where(rows & BIT["certain"] != 0, BIT["at_risk"], 0)
        bad = sum(BIT[name] for name in ("invalid", "lossy", "certain", "at_risk", "harmful"))
        found: np.ndarray = rows | np.where(rows & bad != 0, BIT["bad"], 0)
        return found


def judged(lines: Lines, vocabulary: Vocabulary) -> Judged:
    """What lines say. ValueError: they are not what an audit writes."""
    path, verdict, risk, engine = (vocabulary.codes(lines, name) for name in ("path", "verdict", "risk", "engine"))
    error, reached = lines.known("error"), lines.numbers("reached")
    census, recorded = (~error & (engine == ENGINES.index(name)) for name in (CENSUS, RECORDED))
    if not (error | census | recorded).all():
        raise ValueError("a line names no engine and has no error")
    if (census & (path < 0)).any():
        raise ValueError("a line of the census names no path")
    for name in {"missing", "nan", "neg_inf", "fp16_overflow", "ties"} & set(lines.table.column_names):
        if (lines.numbers(name) < 0).any():
            raise ValueError(f"a line has the count {name} {lines.numbers(name).min()}")
    _check_paths(lines, path, census)
    counts = counting_lines(census, lines.known("reached"), reached, vocabulary.may_count()[path])
    return Judged(
        *(path, verdict, risk, census, recorded, error),
        *(lines.known("refused"), lines.known("finding"), reached & census, counts),
    )


def _check_paths(lines: Lines, path: np.ndarray, census: np.ndarray) -> None:
    """ValueError: a row has a path twice."""
    at = np.flatnonzero(census)
    row = np.repeat(np.arange(len(lines.starts)), np.diff(lines.starts, append=len(lines)))[at]
    keys = row * (int(path.max(initial=0)) + 1) + path[at]
    ascending = np.diff(keys) > 0  # as audits write them; else they are sorted first
    if not ascending.all() and len(np.unique(keys)) < len(keys):
        keys.sort()
        twice = int(row[np.argmax(np.diff(keys) == 0)]) if len(row) else 0
        raise ValueError(f"row {lines.numbers('row')[lines.starts[twice]]} has a path twice")


class Summing:
    """The counts of a pass.

    Args:
        worst: how many of the worst rows, and of those with an error, are kept. served: as for ``Vocabulary``.

    Attributes:
        rows: told of. seen_rows, seen_calls: which, so that none counts twice. total: of all rows.
        by: rows by each of ``BY``. grid: layers × steps. shares: in the order of ``summary.Shares``.
        verdicts: recorded selections in the order of ``VERDICTS``. risks: rows by the gravest risk that counts, first
            those without, then in the order of ``LEVELS``. routed: rows judged on the path that they reach;
            unrouted: on those that they may reach, since it is not known.
    """

    def __init__(self, worst: int, served: bool = True) -> None:
        self.vocabulary = Vocabulary(served)
        self.rows = 0
        self.seen_rows, self.seen_calls = Seen(), Seen()
        self.total = Tally()
        self.by: dict[str, Counter[Any]] = {name: Counter() for name in BY}
        self.grid = GridCounter()
        self.shares = np.zeros(6, dtype=np.int64)
        self.verdicts = np.zeros(len(VERDICTS), dtype=np.int64)
        self.risks = np.zeros(len(LEVELS) + 1, dtype=np.int64)
        self.routed = self.unrouted = 0
        self._paths: dict[int, np.ndarray] = {}
        self.worst, self.errors = Worst(worst), Worst(worst)

    def add(self, lines: Lines) -> None:
        """Count lines of whole rows. ValueError: they are not what an audit writes."""
        seen = judged(lines, self.vocabulary)
        bits = seen.row_bits(lines)
        files = self.vocabulary.codes(lines, "file")
        self._meet(lines, files)
        self._count_rows(lines, files, bits)
        self._count_shares(lines)
        fresh = tally_rows(bits)
        self.total = Tally(*(getattr(self.total, name) + getattr(fresh, name) for name in vars(fresh)))
        self._count_paths(seen)
        self.verdicts += np.bincount(seen.verdict[seen.recorded & (seen.verdict >= 0)], minlength=len(VERDICTS))
        gravest = np.maximum.reduceat(np.where(seen.counts, seen.risk, -1), lines.starts)
        self.risks += np.bincount(gravest + 1, minlength=len(self.risks))
        told = seen.counts & (seen.risk >= 0)
        self.routed += int(np.logical_or.reduceat(told & seen.reached, lines.starts).sum())
        self.unrouted += int(np.logical_or.reduceat(told & ~seen.reached, lines.starts).sum())
        names = self.vocabulary["file"]
        self.worst.add(lines, np.flatnonzero(seen.telling.bad), _damage(lines, seen), files, names)
        self.errors.add(lines, np.flatnonzero(seen.error), (), files, names)

    def _meet(self, lines: Lines, files: np.ndarray) -> None:
        at = lines.starts
        calls, called = lines.numbers("call")[at], lines.known("call")[at]
        if calls.min() < 0 or calls.max() >= MOST_ROW:
            raise ValueError("a line has a call that no file holds")
        self.rows += len(at)
        self.seen_rows.add(np.unique(files[at] * MOST_ROW + lines.numbers("row")[at]))
        self.seen_calls.add(np.unique((files[at] * MOST_ROW + calls)[called]))

    def _count_rows(self, lines: Lines, files: np.ndarray, bits: np.ndarray) -> None:
        at = lines.starts
        held: dict[str, np.ndarray] = {}
        for name in BY:
            texts = self.vocabulary[name] if name in self.vocabulary.words else None
            if texts is None:
                values, known = lines.numbers(name)[at], lines.known(name)[at]
                if (values <= -FAR).any() or (values >= FAR).any():
                    raise ValueError(f"a line has a {name} that is out of all bounds")
            else:
                values = (files if name == "file" else self.vocabulary.codes(lines, name))[at]
                known = values >= 0
            held[name] = np.where(known, values, -FAR)
            found, inverse = np.unique(held[name], return_inverse=True)
            self.by[name].add(
                [None if one == -FAR else one if texts is None else texts[one] for one in found.tolist()], inverse, bits
            )
        both = (held["layer"] != -FAR) & (held["step"] != -FAR)
        self.grid.add(held["layer"][both], held["step"][both], (bits & BIT["bad"] != 0)[both])

    def _count_shares(self, lines: Lines) -> None:
        at = lines.starts
        read, cut = lines.known("nan")[at], lines.known("ties")[at]
        found = [read, *(lines.numbers(name)[at] > 0 for name in ("nan", "neg_inf", "fp16_overflow"))]
        found += [cut, cut & (lines.numbers("ties")[at] > 1)]
        self.shares += [int(one.sum()) for one in found]

    def _count_paths(self, seen: Judged) -> None:
        kinds = [
            seen.census,
            seen.census & seen.refused,
            *(seen.census & ~seen.refused & (seen.risk == at) for at in range(len(LEVELS))),
            seen.census & ~seen.refused & (seen.risk < 0),
            seen.reached,
            seen.telling.risky,
            seen.telling.harmful & seen.census,
            seen.recorded & (seen.verdict >= 0),
            seen.recorded & (seen.verdict == _LOSSY),
            seen.recorded & (seen.verdict == _INVALID),
        ]
        size = len(self.vocabulary["path"]) + 1
        counts = np.stack([np.bincount(seen.path[kind] + 1, minlength=size) for kind in kinds])
        for path in np.flatnonzero(counts.any(axis=0)).tolist():
            self._paths[path] = self._paths.get(path, np.zeros(len(kinds), dtype=np.int64)) + counts[:, path]

    def paths(self) -> Iterator[tuple[str | None, list[int]]]:
        """Each path, ``None`` for those that are not known, with its counts in the order of ``summary.PathTally``."""
        names = [None, *self.vocabulary["path"]]
        return ((names[at], counts.tolist()) for at, counts in self._paths.items())


def _damage(lines: Lines, seen: Judged) -> tuple[np.ndarray, ...]:
    """How bad lines are, the gravest first when each is sorted downwards, as ``runs.inspect.damage`` has it."""
    population, capacity = lines.numbers("population"), lines.numbers("capacity")
    full = np.where(capacity > 0, population / np.maximum(capacity, 1), 0.0)
    expected = np.nan_to_num(lines.numbers("expected_missing"), nan=0.0)
    return (
        (seen.finding & (seen.verdict < 0)).astype(np.int64),
        (seen.verdict == _INVALID).astype(np.int64),
        lines.numbers("missing"),
        expected,
        full,
    )


class Worst:
    """The worst rows of a pass, each by its worst line; of equals those that come first by file and row.

    Args:
        most: how many are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: list[tuple[tuple[Any, ...], tuple[int, int]]] = []

    def add(
        self, lines: Lines, at: np.ndarray, damage: tuple[np.ndarray, ...], files: np.ndarray, names: list[str]
    ) -> None:
        """Look at some lines. ``at``: which. ``damage``: of all lines, greater is worse. ``files``: numbers in
        ``names``."""
        if len(self._held) == self._most and damage and len(at):
            at = at[_not_below([one[at] for one in damage], [-value for value in self._held[-1][0][: len(damage)]])]
        if not len(at) or not self._most:
            return
        rows = lines.numbers("row")
        places = {names[one]: one for one in np.unique(files[at]).tolist()}
        rank = np.zeros(len(names), dtype=np.int64)
        rank[[places[name] for name in sorted(places)]] = np.arange(len(places))
        order = np.lexsort([at, rows[at], rank[files[at]], *(-one[at] for one in reversed(damage))])
        met: set[tuple[int, int]] = set()
        for line in at[order].tolist():
            key = (int(files[line]), int(rows[line]))
            if key in met:
                continue
            met.add(key)
            found = (*(-one[line].item() for one in damage), names[key[0]], key[1])
            self._held.append((found, (lines.record, lines.first + line)))
            if len(met) == self._most:
                break
        self._held = sorted(self._held)[: self._most]

    def places(self) -> list[tuple[int, int]]:
        """Where their lines are, (record file, line within it), the worst first."""
        return [place for _, place in self._held]


def _not_below(keys: list[np.ndarray], least: list[Any]) -> np.ndarray:
    """bool [n]: which are at least as great as ``least``, the first key going before the others."""
    kept, equal = np.zeros(len(keys[0]), dtype=bool), np.ones(len(keys[0]), dtype=bool)
    for key, bound in zip(keys, least, strict=True):
        kept |= equal & (key > bound)
        equal &= key == bound
    return kept | equal
