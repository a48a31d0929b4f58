"""What a length outside its row does, by path: read in the sources, never run.

A capture keeps the length that the op was given. Padded slots of a batch hold -1, and a stale length can be past the
row's last cell: what a kernel makes of that is no question of its scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from workbench.capture.row import Row
from workbench.paths.spec import Path, Variant

LARGE_FROM = 32769  # length from which vLLM's persistent kernel takes several blocks a row
BLOCKS_WAIT_ABOVE = 32768  # max_seq_len
ROUNDS = 4
SLOTS = 3
UNSIGNED = 1 << 32


@dataclass(frozen=True)
class Window:
    """The cells that a row's length claims, and those that it has.

    Attributes:
        length: as the op was given it. room: cells from the row's start to the end of its padded width.
        held: those of them that the capture has; fewer than ``room`` where rows were stored without their padding.
        max_seq_len: the host's bound; ``None`` if unknown.
    """

    length: int
    room: int
    held: int
    max_seq_len: int | None = None

    @classmethod
    def of(cls, row: Row) -> Window:
        """The window of a row."""
        cells = row.scores.numel()
        width = max(cells, row.call.width or 0)
        return cls(row.length, width - row.start, cells - row.start, row.call.max_seq_len)

    @property
    def outside(self) -> bool:
        """Whether the length leaves the cells that the capture has."""
        return not 0 <= self.length <= self.held


@dataclass(frozen=True)
class Effect:
    """What a length outside its row does there.

    Attributes:
        words: one sentence, without its stop.
        first: the op returns the indices from 0 up to this one, whatever the scores: 0 leaves every slot -1.
        cells: it selects from so many cells from the row's start on. Without either nothing says what it returns.
        level: what it makes the row's risk; ``None`` where that is not known.
        finding: whether it does harm: it hangs, crashes, or reads or writes outside the row.
    """

    words: str
    first: int | None = None
    cells: int | None = None
    level: Literal["safe", "certain"] | None = None
    finding: bool = False

    @property
    def defined(self) -> bool:
        """Whether what the op returns is known."""
        return self.first is not None or self.cells is not None


Kind = Literal["nothing", "first", "clamped", "reads on", "unsigned", "harm", "unknown"]


@dataclass(frozen=True)
class Reading:
    """How a kernel reads a length that is outside its row.

    Attributes:
        kind: ``nothing``: every slot is -1. ``first``: indices from 0 up, k of them or the length. ``clamped``: to
            max_seq_len. ``reads on``: past the row. ``unsigned``: as vLLM's persistent kernel does. ``harm``: as the
            words say. ``unknown``.
        words: what follows "length -1 is". derived: whether that follows from reading only, where no source text or
            report says it.
    """

    kind: Kind
    words: str = ""
    derived: bool = False


ALL_EMPTY = "every slot is -1"
SIGNED = Reading("nothing", f"compared as signed: {ALL_EMPTY}")
CLAMPED = Reading("nothing", f"clamped to 0: {ALL_EMPTY}")
UNSIGNED_FIRST = Reading("unsigned")
READS_ON = Reading("reads on", "not clamped: the path reads past the row's width, into the next row")
IDENTITY = Reading("first", "taken as it is: every index below it is returned", derived=True)
UNKNOWN = Reading("unknown")  # a reading that is not established, not the word that tables have

# (of a negative length, of one past the row), by path; by the model of a variant where that differs.
READINGS: dict[str, tuple[Reading, Reading]] = {
    "vllm.trivial": (Reading("nothing", f"compared as signed, or clamped to 0 before: {ALL_EMPTY}"), IDENTITY),
    "vllm.histogram_2048": (UNSIGNED_FIRST, UNSIGNED_FIRST),
    "vllm.histogram_256": (UNSIGNED_FIRST, UNSIGNED_FIRST),
    "vllm.radix": (UNSIGNED_FIRST, UNSIGNED_FIRST),
    "vllm.filtered": (SIGNED, READS_ON),
    "vllm.histogram_4096": (SIGNED, READS_ON),
    **{
        f"vllm.cooperative_{ranks}": (
            Reading("nothing", f"clamped to 0: {ALL_EMPTY} (older sources returned 0 to k - 1 as winners)", True),
            Reading(
                "harm",
                "not clamped: blocks share the length and load by the stride, which can overrun shared memory",
                True,
            ),
        )
        for ranks in (2, 4, 8, 16)
    },
    "vllm.per_row": (CLAMPED, READS_ON),
    "vllm.sampled": (CLAMPED, Reading("clamped", "clamped to max_seq_len")),
    "sglang.trivial": (SIGNED, IDENTITY),
    "sglang.fast_topk": (SIGNED, UNKNOWN),
    "sglang.v4_aot": (Reading("first", "cast to unsigned: 0 to k - 1 are returned as winners", True), UNKNOWN),
    "sglang.v1": (Reading("harm", "read as unsigned: a length of about 4e9, which walks off the row"), UNKNOWN),
    "sglang.kpool": (Reading("nothing", f"compared as signed: {ALL_EMPTY}"), UNKNOWN),
    **{
        name: (Reading("harm", "read as unsigned: takes a cluster's path, illegal memory access"), UNKNOWN)
        for name in ("sglang.v2_register", "sglang.v2_streaming", "sglang.v2_cluster_8", "sglang.v2_cluster_16")
    },
}
READINGS_BY_MODEL: dict[str, tuple[Reading, Reading]] = {
    model: (
        Reading(
            "harm", "an end before its start, which is not checked: -1 is written in front of the row's output", True
        ),
        READS_ON,
    )
    for model in ("per_row_prefill", "per_row_prefill_radix")
}


def effect(path: Path, variant: Variant, window: Window, k: int) -> Effect | None:
    """What a row's length does on a path, whatever its scores; ``None`` if it is inside the row.

    Args:
        k: winners wanted.
    """
    length = window.length
    if not window.outside:
        return None
    if window.held < length <= window.room:
        return Effect(f"the capture holds {window.held} of the row's {length} scores, so that it cannot be judged")
    inside_known = variant.modelled or not variant.lossless
    readings = READINGS_BY_MODEL.get(variant.model) or READINGS.get(path.name)
    if readings is None or not inside_known:
        readings = (UNKNOWN, UNKNOWN)
    reading = readings[0 if length < 0 else 1]
    if reading.kind == "unsigned":
        return _persistent(window)
    if reading.kind == "unknown":
        where = "is negative" if length < 0 else f"is past the row's {window.room} cells"
        return Effect(f"length {length} {where}: what {path.name} {variant.name} does with it is not established")
    evidence = f" ({'derived' if reading.derived else 'described'}, not observed)"
    words = f"length {length} is {reading.words}{evidence}"
    if reading.kind == "nothing":
        return Effect(words, first=0, level="safe")
    if reading.kind == "first":
        return Effect(words, first=k if length < 0 else min(k, length), level="certain")
    if reading.kind == "clamped":
        return _clamped(window, f"length {length} is {reading.words}", evidence)
    written_before = variant.model in READINGS_BY_MODEL
    return Effect(words, level="certain" if length < 0 and not written_before else None, finding=True)


def unmet_outside(path: Path, variant: Variant, window: Window, does: Effect, *, k: int, dtype: str) -> list[str]:
    """Conditions of a path that a row outside its window does not meet, by the length that its kernel branches on.

    A negative length is no length of any path: how it is read is told by the effect alone.
    """
    length = does.cells if does.cells is not None else None if window.length < 0 else window.length
    return path.as_variant(variant).unmet(k=k, length=length, dtype=dtype)


def _clamped(window: Window, said: str, evidence: str) -> Effect:
    bound = window.max_seq_len
    if bound is None:
        return Effect(f"{said}, which is not known{evidence}")
    if bound > window.room:
        return Effect(f"{said} {bound}: the path reads past the row's {window.room} cells{evidence}", finding=True)
    if bound > window.held:
        return Effect(f"{said} {bound}, and the capture holds {window.held} of those scores{evidence}")
    return Effect(f"{said} {bound}{evidence}", cells=bound)


def _persistent(window: Window) -> Effect:
    """The persistent kernel reads the length as unsigned, before it chooses a path."""
    length, bound = window.length, window.max_seq_len
    read = length % UNSIGNED
    said = f"length {length} is read as {read}" if length < 0 else f"length {length} is not clamped"
    # A row without a valid score has no winner: whatever is returned for it is wrong.
    level: Literal["certain"] | None = "certain" if length < 0 else None
    hangs = "hangs where a row takes more than one block, since the others have left"
    selects = "selects from all blocks of the row, about its stride, padding included"
    if read < LARGE_FROM:
        what = ": the path reads past the row's width, into the next row"
    elif bound is None:
        what = f": it {hangs} (max_seq_len at most {BLOCKS_WAIT_ABOVE}), else {selects}"
    elif bound <= BLOCKS_WAIT_ABOVE:
        what = f" with max_seq_len {bound}, at most {BLOCKS_WAIT_ABOVE}: it {hangs}"
    else:
        what = f": it {selects}"
    return Effect(f"{said}{what} (described, not observed)", level=level, finding=True)


def reused_histograms(lengths: list[int]) -> tuple[int, ...]:
    """Which rows of one group read a histogram that was not cleared, where the ring is counted by rows.

    vLLM's radix path keeps three histograms and clears the next one in each of its four rounds. Counted by rows of the
    group, not by rows of that path, the ring is out of step after shorter rows (vllm-project/vllm#49139, reported for
    long, short, long). Derived: not observed on a released op.

    Args:
        lengths: of the rows that one group of blocks serves, in order.
    """
    dirty, clean = [], 0
    for at, length in enumerate(lengths):
        if length % UNSIGNED < LARGE_FROM:
            continue
        first = at * ROUNDS % SLOTS
        if at and first != clean and any(one % UNSIGNED >= LARGE_FROM for one in lengths[:at]):
            dirty.append(at)
        clean = (at + 1) * ROUNDS % SLOTS
    return tuple(dirty)
