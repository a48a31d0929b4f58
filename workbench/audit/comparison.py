"""What changed between two audits, as of two dumps, two releases or two runs of the same prompt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from workbench.analysis.risk import LEVELS
from workbench.audit.comparing import PLACE, Rows, Side, severity, windows
from workbench.audit.dataset import MOST_ROW, Dataset, Words
from workbench.audit.summing import FAR, VERDICTS
from workbench.audit.tally import BIT
from workbench.errors import UsageError
from workbench.words import UNKNOWN

SHOWN = 20
_AT_RISK, _LOST = LEVELS.index("at risk"), 2


@dataclass(frozen=True)
class Change:
    """Rows that went from one state to another. ``path``: on which; ``None`` for the rows themselves."""

    path: str | None
    before: str
    after: str
    rows: int


@dataclass(frozen=True)
class Example:
    """A row that is told of, by its place in the second audit. ``was``: its place in the first, where it is another."""

    file: str
    row: int
    what: str
    layer: int | None = None
    step: int | None = None
    rank: int | None = None
    was: str = ""


@dataclass(frozen=True)
class Sets:
    """Names that only one of the two has: the first ones, and how many there are."""

    first: tuple[str, ...] = ()
    first_of: int = 0
    second: tuple[str, ...] = ()
    second_of: int = 0


@dataclass(frozen=True)
class Comparison:
    """Two audits held against each other.

    Rows are paired by file and number, where layer, step and rank agree; rows left over by equal scores.

    Attributes:
        first, second: names of the audits. rows: of each.
        paired: rows of both. moved: of them, those that stand elsewhere in the second.
        same_input: pairs with bit-identical scores; changed_input: with others.
        same_selection: pairs of the same input with the same recorded selection, as a set.
        ties_vary: with another one, though neither lost a value. other_selection: with another one, of which one lost.
        vanished, appeared: rows that only the first, only the second has; vanished_bad, appeared_bad: bad ones of them.
        worse, better: pairs whose recorded verdict or risk is so in the second, new errors and harm included.
        risks, verdicts: pairs by what they were and are. paths: pairs whose risk on a path changed.
        only_paths, only_files: that one of the audits alone has.
        examples: of rows that are worse, of selections that differ on the same input, and of bad rows that appeared.
    """

    first: str
    second: str
    rows: tuple[int, int]
    paired: int
    moved: int
    same_input: int
    changed_input: int
    same_selection: int
    ties_vary: int
    other_selection: int
    vanished: int
    appeared: int
    vanished_bad: int
    appeared_bad: int
    worse: int
    better: int
    risks: tuple[Change, ...]
    verdicts: tuple[Change, ...]
    paths: tuple[Change, ...]
    only_paths: Sets
    only_files: Sets
    examples: Mapping[str, tuple[Example, ...]]

    @property
    def is_worse(self) -> bool:
        """Whether the second has something that is worse, or selections that vary on the same input and lose."""
        return bool(self.worse or self.appeared_bad or self.other_selection)


def compare(
    first: Dataset, second: Dataset, shown: int = SHOWN, progress: Callable[[int, int], None] | None = None
) -> Comparison:
    """Hold two audits against each other.

    Args:
        shown: examples of each kind. progress: called with the windows done, and of how many.

    Raises:
        UsageError: one of them is not finished. CaptureError: what is read is not what an audit writes.
    """
    for one in (first, second):
        if not one.finished:
            raise UsageError(f"{one.name}: the audit is not finished; start it again to go on, then compare")
    files, paths = Words(), Words()
    sides = Side(first, files, paths), Side(second, files, paths)
    spans = list(windows(sides[0].extents, sides[1].extents))
    pairing = _Pairing(files.texts, shown)
    for at, (low, high) in enumerate(spans):
        digests = Words()
        before, after = (side.rows(low, high, digests) for side in sides)
        pairing.add(before, after, digests.texts)
        if progress is not None:
            progress(at + 1, len(spans))
    for one, name in ((first, "first"), (second, "second")):
        one.check_rows(pairing.counts[name])
    pairing.match()
    return pairing.comparison(first, second, sides, paths.texts)


# Rows without a like at their own place, until they are looked for by their scores.
_LEFT = np.dtype(
    [
        ("scores", "S16"),
        ("selection", "S16"),
        ("key", np.int64),
        ("place", np.int64, 3),
        ("risk", np.int64),
        ("verdict", np.int64),
        ("bits", np.int64),
    ]
)


class _Pairing:
    def __init__(self, files: list[str], shown: int) -> None:
        self._files, self._shown = files, shown
        self.counts: Counter[str] = Counter()
        self.risks = np.zeros((len(LEVELS) + 1, len(LEVELS) + 1), dtype=np.int64)
        self.verdicts = np.zeros((len(VERDICTS) + 1, len(VERDICTS) + 1), dtype=np.int64)
        self.paths: Counter[tuple[int, int, int]] = Counter()
        self.of_paths: tuple[set[int], set[int]] = (set(), set())
        self.left: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        self.examples: dict[str, list[Example]] = {"worse": [], "other selection": [], "appeared": []}

    def add(self, before: Rows, after: Rows, digests: list[str]) -> None:
        """Pair the rows of a window by their places."""
        self.counts.update(first=len(before), second=len(after))
        _, at, to = np.intersect1d(before.key, after.key, assume_unique=True, return_indices=True)
        same = (before.place[at] == after.place[to]).all(axis=1)
        at, to = at[same], to[same]
        self._pair(_taken(before, at, digests), _taken(after, to, digests), moved=False)
        self._pair_paths(before, after, at, to)
        for rows, paired, left in ((before, at, self.left[0]), (after, to, self.left[1])):
            alone = np.setdiff1d(np.arange(len(rows)), paired, assume_unique=True)
            if len(alone):
                left.append(_taken(rows, alone, digests))

    def _pair_paths(self, before: Rows, after: Rows, at: np.ndarray, to: np.ndarray) -> None:
        """Risks of paired rows, path by path."""
        for seen, rows in zip(self.of_paths, (before, after), strict=True):
            seen.update(np.unique(rows.path).tolist())
        keys = []
        size = 1 + max(before.path.max(initial=0), after.path.max(initial=0))
        for rows, chosen in ((before, at), (after, to)):
            number = np.full(len(rows) + 1, -1)
            number[chosen] = np.arange(len(chosen))
            keys.append((number[rows.lines], rows.path, rows.level))
        kept = [number >= 0 for number, _, _ in keys]
        flat = [number[one] * size + path[one] for (number, path, _), one in zip(keys, kept, strict=True)]
        common, left, right = np.intersect1d(flat[0], flat[1], assume_unique=True, return_indices=True)
        was, now = keys[0][2][kept[0]][left], keys[1][2][kept[1]][right]
        changed = np.flatnonzero(was != now)
        changes, counts = np.unique(
            np.stack([common[changed] % size, was[changed], now[changed]], axis=1), axis=0, return_counts=True
        )
        for change, count in zip(changes.tolist(), counts.tolist(), strict=True):
            self.paths[tuple(change)] += count

    def _pair(self, was: np.ndarray, now: np.ndarray, moved: bool) -> None:
        """Count pairs of rows, each as an array of ``_LEFT``."""
        told = (was["scores"] != b"") & (now["scores"] != b"")
        same = told & (was["scores"] == now["scores"])
        both = same & (was["verdict"] >= 0) & (now["verdict"] >= 0)
        equal = was["selection"] == now["selection"]
        lost = (severity(was["verdict"]) >= _LOST) | (severity(now["verdict"]) >= _LOST)
        worse, better = _worse(was, now), _better(was, now)
        self.counts.update(
            paired=len(was),
            moved=len(was) if moved else 0,
            same_input=int(same.sum()),
            changed_input=int((told & ~same).sum()),
            same_selection=int((both & equal).sum()),
            ties_vary=int((both & ~equal & ~lost).sum()),
            other_selection=int((both & ~equal & lost).sum()),
            worse=int(worse.sum()),
            better=int((better & ~worse).sum()),
        )
        np.add.at(self.risks, (was["risk"], now["risk"]), 1)  # -1, for none, is the last
        np.add.at(self.verdicts, (was["verdict"], now["verdict"]), 1)
        for kind, chosen in (("worse", worse), ("other selection", both & ~equal & lost)):
            for at in np.flatnonzero(chosen)[: self._shown - len(self.examples[kind])].tolist():
                self.examples[kind].append(self._example(now[at], _what(was[at], now[at]), was[at]))

    def match(self) -> None:
        """Pair what is left over by equal scores, in the order of places."""
        was, now = (np.concatenate(left) if left else np.empty(0, dtype=_LEFT) for left in self.left)
        _, code = np.unique(np.concatenate([was["scores"], now["scores"]]), return_inverse=True)
        names = [_numbered(one, code) for one, code in ((was, code[: len(was)]), (now, code[len(was) :]))]
        _, at, to = np.intersect1d(names[0], names[1], assume_unique=True, return_indices=True)
        kept = was["scores"][at] != b""  # rows that could not be read have no like
        at, to = at[kept], to[kept]
        self._pair(was[at], now[to], moved=True)
        for one, paired, name in ((was, at, "vanished"), (now, to, "appeared")):
            alone = np.sort(one[np.setdiff1d(np.arange(len(one)), paired, assume_unique=True)], order="key")
            bad = alone["bits"] & BIT["bad"] != 0
            self.counts.update({name: len(alone), f"{name}_bad": int(bad.sum())})
            if name == "appeared":
                shown = alone[bad][: self._shown]
                self.examples[name] = [self._example(row, _state(row)) for row in shown]

    def _example(self, row: np.void, what: str, was: np.void | None = None) -> Example:
        file, number = divmod(int(row["key"]), MOST_ROW)
        places = [None if one == -FAR else int(one) for one in row["place"]]
        before = ""
        if was is not None and was["key"] != row["key"]:
            other, at = divmod(int(was["key"]), MOST_ROW)
            before = f"row {at} of {self._files[other]}"
        return Example(self._files[file], number, what, **dict(zip(PLACE, places, strict=True)), was=before)

    def comparison(self, first: Dataset, second: Dataset, sides: tuple[Side, Side], paths: list[str]) -> Comparison:
        """What was counted."""
        count = self.counts
        names = [{self._files[int(at)] for at in np.unique(side.extents.first // MOST_ROW)} for side in sides]
        changes = sorted(
            (Change(paths[path], _level(was), _level(now), rows) for (path, was, now), rows in self.paths.items()),
            key=lambda one: (-one.rows, one.path or "", one.before, one.after),
        )
        numbers = ("same_input", "changed_input", "same_selection", "ties_vary", "other_selection", "vanished")
        numbers += ("appeared", "vanished_bad", "appeared_bad", "worse", "better", "paired", "moved")  # type: ignore[assignment]
        return Comparison(
            first=first.name,
            second=second.name,
            rows=(count["first"], count["second"]),
            **{name: count[name] for name in numbers},
            risks=_changes(self.risks, LEVELS),
            verdicts=_changes(self.verdicts, VERDICTS),
            paths=tuple(changes),
            only_paths=_sets(*({paths[at] for at in seen} for seen in self.of_paths)),
            only_files=_sets(*names),
            examples={kind: tuple(held) for kind, held in self.examples.items()},
        )


def _taken(rows: Rows, at: np.ndarray, digests: list[str]) -> np.ndarray:
    """Some rows as an array of ``_LEFT``."""
    found = np.zeros(len(at), dtype=_LEFT)
    short = np.array([*(_short(one) for one in digests), b""], dtype="S16")
    found["scores"], found["selection"] = short[rows.scores[at]], short[rows.selection[at]]
    for name in ("key", "place", "risk", "verdict", "bits"):
        found[name] = getattr(rows, name)[at]
    return found


def _short(digest: str) -> bytes:
    """The first 16 bytes of a digest, which tell rows apart well enough."""
    import hashlib

    try:
        return bytes.fromhex(digest.removeprefix("sha256:")[:32])
    except ValueError:
        return hashlib.sha256(digest.encode()).digest()[:16]


def _numbered(rows: np.ndarray, code: np.ndarray) -> np.ndarray:
    """A number for each row: its digest's, and how many of the same stand before it, so that equals pair off."""
    order = np.lexsort([rows["key"], code])
    held = code[order]
    fresh = np.concatenate([[True], held[1:] != held[:-1]])[: len(held)]
    places = np.arange(len(held))
    found = np.empty(len(held), dtype=np.int64)
    found[order] = (held << 32) + places - np.maximum.accumulate(np.where(fresh, places, 0))
    return found


def _worse(was: np.ndarray, now: np.ndarray) -> np.ndarray:
    """bool [n]: rows that are worse now: by their recorded verdict, their risk, or an error or harm that is new."""
    verdict = severity(now["verdict"])
    fresh = now["bits"] & ~was["bits"]
    found: np.ndarray = (
        ((verdict >= _LOST) & (verdict > severity(was["verdict"])))
        | ((now["risk"] >= _AT_RISK) & (now["risk"] > was["risk"]))
        | (fresh & (BIT["harmful"] | BIT["errors"]) != 0)
    )
    return found


def _better(was: np.ndarray, now: np.ndarray) -> np.ndarray:
    """bool [n]: rows that are better now, as ``_worse`` has it; what is not known any more is not better."""
    verdict = severity(was["verdict"])
    gone, judged = was["bits"] & ~now["bits"], now["risk"] >= 0
    found: np.ndarray = (
        ((verdict >= _LOST) & (verdict > severity(now["verdict"])) & (now["verdict"] >= 0))
        | ((was["risk"] >= _AT_RISK) & (was["risk"] > now["risk"]) & judged)
        | ((gone & BIT["harmful"] != 0) & judged)
        | (gone & BIT["errors"] != 0)
    )
    return found


def _what(was: np.void, now: np.void) -> str:
    return f"{_state(was)} → {_state(now)}"


def _state(row: np.void) -> str:
    """A row in a few words: its recorded verdict and its risk."""
    if row["bits"] & BIT["errors"]:
        return "error"
    told = [VERDICTS[row["verdict"]]] if row["verdict"] >= 0 else []
    told += [_level(int(row["risk"]))] if row["risk"] >= 0 else []
    told += ["harmful"] if row["bits"] & BIT["harmful"] else []
    return ", ".join(told) or UNKNOWN


def _level(code: int) -> str:
    return UNKNOWN if code < 0 else LEVELS[code]


def _changes(counts: np.ndarray, names: tuple[str, ...]) -> tuple[Change, ...]:
    every = [*names, UNKNOWN]
    return tuple(Change(None, every[was], every[now], int(counts[was, now])) for was, now in np.argwhere(counts))


def _sets(first: set[str], second: set[str]) -> Sets:
    only = sorted(first - second), sorted(second - first)
    return Sets(tuple(only[0][:SHOWN]), len(only[0]), tuple(only[1][:SHOWN]), len(only[1]))
