"""What a length outside its row does, by path and by op: read in the sources, never run."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.errors import UsageError
from workbench.words import listed

LARGE_FROM = 32769  # length from which vLLM's persistent kernel takes several blocks a row
BLOCKS_WAIT_ABOVE = 32768  # max_seq_len
ROUNDS = 4
SLOTS = 3
UNSIGNED = 1 << 32

ALL_EMPTY = "every slot is -1"
READS_ON = "not clamped: reads past the row's width, into the next row"
UNSTATED = "not established"


@dataclass(frozen=True)
class LengthRule:
    """How a path reads a length.

    Attributes:
        negative: what a negative length does. too_long: what a length above the row's width does.
        derived: whether that follows from reading only, where a source text does not say it.
    """

    negative: str
    too_long: str = UNSTATED
    derived: bool = False


PERSISTENT = LengthRule("persistent", "persistent")  # these depend on the call, see _persistent
RULES: dict[str, LengthRule] = {
    "vllm.histogram_2048": PERSISTENT,
    "vllm.histogram_256": PERSISTENT,
    "vllm.radix": PERSISTENT,
    "vllm.filtered": LengthRule(f"compared as signed: {ALL_EMPTY}", READS_ON),
    "vllm.histogram_4096": LengthRule(f"compared as signed: {ALL_EMPTY}", READS_ON),
    **{
        f"vllm.cooperative_{ranks}": LengthRule(
            f"clamped to 0: {ALL_EMPTY} (older sources returned 0 to k - 1 as winners)",
            "not clamped: blocks share the length and load by the stride, which can overrun shared memory",
            derived=True,
        )
        for ranks in (2, 4, 8, 16)
    },
    "vllm.per_row": LengthRule(f"clamped to 0: {ALL_EMPTY}", READS_ON),
    "vllm.top_k_per_row_prefill": LengthRule(
        "an end before its start is not checked: -1 is written in front of the row's output", READS_ON, derived=True
    ),
    "vllm.sampled": LengthRule(f"clamped to 0: {ALL_EMPTY}", "clamped to max_seq_len"),
    "sglang.fast_topk": LengthRule(f"compared as signed: {ALL_EMPTY}"),
    "sglang.v4_aot": LengthRule("cast to unsigned: 0 to k - 1 are returned as winners", derived=True),
    "sglang.v1": LengthRule("read as unsigned: a length of about 4e9, which walks off the row"),
    "sglang.kpool": LengthRule(ALL_EMPTY),
    **{
        name: LengthRule("read as unsigned: takes a cluster's path, illegal memory access")
        for name in ("sglang.v2_register", "sglang.v2_streaming", "sglang.v2_cluster_8", "sglang.v2_cluster_16")
    },
}

# Which rules an op follows, and when.
OPS: dict[str, tuple[tuple[str, str], ...]] = {
    "vllm.persistent_topk": (
        ("at most 32 rows", "vllm.radix"),
        ("more than 32 rows", "vllm.filtered"),
        ("more than 64 rows and a long max_seq_len", "vllm.sampled"),
    ),
    "vllm.cooperative_topk": (("", "vllm.cooperative_8"),),
    "vllm.top_k_per_row_decode": (("", "vllm.per_row"),),
    "sglang.fast_topk_v2": (("", "sglang.fast_topk"),),
    "sglang.topk_transform_paged": (("", "sglang.v1"),),
    "sglang.topk_transform_paged_v2": (("", "sglang.v2_register"),),
    "sglang.topk_transform_ragged_v2": (("", "sglang.v2_register"),),
    "sglang.kpool_topk_transform": (("", "sglang.kpool"),),
}


def what_happens(op_or_path: str, length: int, width: int, max_seq_len: int | None = None) -> str:
    """What a length does to its row, in words; empty if it is inside the row.

    Args:
        op_or_path: name of an op or a path. length: as the device holds it, int32. width: of the row, in scores.
        max_seq_len: the host's bound; ``None`` if unknown.

    Raises:
        UsageError: nothing is known of the op or path.
    """
    rules = OPS.get(op_or_path) or ((("", op_or_path),) if op_or_path in RULES else ())
    if not rules:
        raise UsageError(f"nothing is known of lengths on {op_or_path!r}; known: {listed([*OPS, *RULES])}")
    if 0 <= length <= width:
        return ""
    told = []
    for when, name in rules:
        rule = RULES[name]
        text = _persistent(length, max_seq_len) if rule is PERSISTENT else _plain(rule, length)
        told.append(f"{when}: {text}" if when else text)
    return "; ".join(told)


def _plain(rule: LengthRule, length: int) -> str:
    text = rule.negative if length < 0 else rule.too_long
    return f"{text} (derived)" if rule.derived else text


def _persistent(length: int, max_seq_len: int | None) -> str:
    """The persistent kernel reads the length as unsigned, before it chooses a path."""
    read = length % UNSIGNED
    said = f"length {length} is read as {read}" if length < 0 else f"length {length} is not clamped"
    if read < LARGE_FROM:
        return f"{said}: reads past the row's width, into the next row"
    selects = "selects from all blocks of the row, about its stride, padding included"
    hangs = "hangs where a row takes more than one block, since the others have left"
    if max_seq_len is None:
        return f"{said}: {hangs} (max_seq_len at most {BLOCKS_WAIT_ABOVE}), else {selects}"
    if max_seq_len <= BLOCKS_WAIT_ABOVE:
        return f"{said} with max_seq_len {max_seq_len}, at most {BLOCKS_WAIT_ABOVE}: {hangs}"
    return f"{said}: {selects}"


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
        if length < LARGE_FROM:
            continue
        first = at * ROUNDS % SLOTS
        if at and first != clean and any(one >= LARGE_FROM for one in lengths[:at]):
            dirty.append(at)
        clean = (at + 1) * ROUNDS % SLOTS
    return tuple(dirty)
