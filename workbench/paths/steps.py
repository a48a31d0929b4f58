"""What a path does to a row, step by step, as data: the picture of a path and the sentence about it follow from here.

The numbers are those of the path's record, or of the module of its model. One table says which steps a model has; a
model that is not in it goes the way of its family.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from workbench.numeric.keys import KEY_BITS
from workbench.paths.models import bf16, per_row, prefixes, rescans
from workbench.paths.shared import STOCK
from workbench.paths.spec import OutputOrdering, Path, TieBreak, Variant

Kind = Literal["row", "sample", "stream", "prefix", "key", "bins", "digits", "buffer", "out"]
HALF_BITS = 16
SIGN_AND_EXPONENT = 6  # bits of an fp16 number before its fraction
SHORT = ("bfloat16", "float16")
_ORDINALS = ("1st", "2nd", "3rd", "4th")
_GOES_ON = "one bin goes on"


@dataclass(frozen=True)
class Key:
    """What scores are binned by.

    Attributes:
        kind: ``half``, the score rounded to fp16, or ``exact``, the score's own bits; both with the sign folded in.
        bits: how many of its top bits count. width: of how many.
    """

    kind: Literal["half", "exact"]
    bits: int
    width: int

    @property
    def in_words(self) -> str:
        """As in ``8-bit fp16 bins``."""
        return f"{self.bits}-bit {'fp16' if self.kind == 'half' else 'exact'} bins"


@dataclass(frozen=True)
class Step:
    """One step of a selector.

    Attributes:
        kind: what it is. facts: its numbers, in words.
        bits: of the key's top bits (``key``), or of each digit. first: bits above them. of: all bits of the key.
        parts: blocks that share a buffer. capacity: of it.
        loses: whether winners can be lost here. drops: whether that is what the buffer does not hold.
        overflow: what happens to a bin that the buffer does not hold, where it is not dropped, in words.
    """

    kind: Kind
    facts: tuple[str, ...] = ()
    bits: tuple[int, ...] = ()
    first: int = 0
    of: int = KEY_BITS
    parts: int = 1
    capacity: int | str | None = None
    loses: bool = False
    drops: bool = False
    overflow: str = ""


@dataclass(frozen=True)
class _Way:
    """The steps of a model, and what of it is not in the path's record.

    Attributes:
        key: in place of the path's coarse key. digits, prefix: in place of the path's digits, and before the buffer.
        loses_at: where a variant that can lose winners loses them.
    """

    kinds: tuple[Kind, ...]
    loses_at: Kind = "buffer"
    key: Key | None = None
    digits: tuple[int, ...] | None = None
    prefix: tuple[int, ...] = ()


_BUFFERED = _Way(("row", "key", "bins", "buffer", "digits", "out"))
_EXACT = _Way(("row", "digits", "out"), "digits")
_WIDE = replace(_BUFFERED, key=Key("exact", rescans.WIDE[0], KEY_BITS), digits=rescans.WIDE[1:])
_PER_ROW = _Way(("row", "key", "bins", "digits", "buffer", "out"), digits=per_row.DIGITS)
_FAMILIES: dict[str, _Way] = {
    "identity": _Way(("row", "out"), "row"),
    "stash": _BUFFERED,
    "register": _BUFFERED,
    "radix": _EXACT,
}
_MODELS: dict[str, _Way] = {
    "wide_rescan": _WIDE,
    "wide_rescan_sampled": _WIDE,
    "ordered_radix": _EXACT,
    "ordered_register": _Way(("row", "key", "bins", "digits", "out")),
    "v2_exact_fallback": replace(_BUFFERED, loses_at="bins"),
    "v2_old_lower_bound": replace(_BUFFERED, loses_at="bins"),
    "v2_flt_max_padding": replace(_BUFFERED, loses_at="row"),
    "negative_length": replace(_EXACT, loses_at="row"),
    **dict.fromkeys(
        ("per_row", "per_row_prefill", "per_row_prefill_radix", "per_row_radix", "per_row_split"), _PER_ROW
    ),
    "sampled": _Way(("row", "sample", "buffer", "digits", "out")),
    "bf16_exact": _EXACT,
    "bf16_approximate": _Way(("row", "key", "bins", "out"), "bins", key=Key("half", bf16.LOSSY_BITS, HALF_BITS)),
    "coop": _Way(("row", "prefix", "buffer", "digits", "out"), prefix=prefixes.COOP_DIGITS),
    "rocm_coop": _Way(("row", "prefix", "buffer", "digits", "out"), prefix=prefixes.ROCM_DIGITS),
    "deep_select": _Way(("row", "stream", "out")),
    "torch_topk": _EXACT,
    "flashinfer_radix": _EXACT,
    "flashinfer_radix_by_index": _EXACT,
    "flashinfer_filtered": _BUFFERED,
    "flashinfer_filtered_by_index": _BUFFERED,
}


def _way(path: Path, variant: Variant) -> _Way | None:
    """The steps of a variant; ``None`` where what it does inside is not established."""
    own = _MODELS.get(variant.model)
    if own is not None:
        return own
    return _FAMILIES.get(path.family) if variant.modelled or variant.model else None


def key_of(path: Path, variant: Variant) -> Key | None:
    """What a variant bins scores by first; ``None`` where it has no bins, or none that are established."""
    way = _way(path, variant)
    if way is None:
        return None
    if "key" in way.kinds:
        return way.key or (None if path.key_bits is None else Key("half", path.key_bits, HALF_BITS))
    digits = way.prefix or (_digits(path, way) if "digits" in way.kinds[:2] else ())
    width = HALF_BITS if all(one in SHORT for one in path.dtypes) else KEY_BITS
    return Key("exact", digits[0], width) if digits else None


def _digits(path: Path, way: _Way) -> tuple[int, ...]:
    return path.digits if way.digits is None else way.digits


def steps_of(path: Path, variant: Variant) -> tuple[Step, ...]:
    """What a variant does to a row, in order; empty where what it does inside is not established."""
    way = _way(path, variant)
    if way is None:
        return ()
    own = path.as_variant(variant)
    steps = [step for kind in way.kinds for step in _steps(kind, own, variant, way)]
    if not variant.lossless:
        at = [one.kind for one in steps].index(way.loses_at)
        drops = way.loses_at == "buffer" and way.kinds == _BUFFERED.kinds
        steps[at] = replace(steps[at], loses=True, drops=drops, overflow="")
    return tuple(steps)


def _steps(kind: Kind, path: Path, variant: Variant, way: _Way) -> list[Step]:
    """One step; of a row that is searched by digits alone one for each of them."""
    if kind != "digits" or way.kinds != _EXACT.kinds:
        return [_step(kind, path, variant, way)]
    digits = _digits(path, way)
    return [
        Step(
            "digits",
            (f"{_ORDINALS[at]} digit: {bits} bits", f"{1 << bits:,} bins", _GOES_ON),
            (bits,),
            first=sum(digits[:at]),
            of=sum(digits),
        )
        for at, bits in enumerate(digits)
    ]


def _step(kind: Kind, path: Path, variant: Variant, way: _Way) -> Step:
    buffer, key = path.buffer, key_of(path, variant)
    match kind:
        case "row":
            ranks = None if buffer is None else buffer.ranks
            shared = () if ranks is None else (f"{ranks.count} blocks share the row: {_layout(path)}",)
            limits = (f"k {path.ks_in_words}", f"length {path.lengths_in_words}", _alternatives(path.dtypes))
            return Step("row", (*limits, *shared))
        case "key":
            assert key is not None
            made = "rounded to fp16" if key.kind == "half" else "the score's own bits"
            return Step(
                "key", (made, "sign folded in", f"top {key.bits} of {key.width} bits"), (key.bits,), of=key.width
            )
        case "bins":
            assert key is not None
            return Step("bins", (f"{1 << key.bits:,} bins", binade_words(key), "higher bins win at once"), (key.bits,))
        case "prefix":
            return Step(
                "prefix",
                (
                    "digits of the exact key",
                    f"{' + '.join(map(str, way.prefix))} bits",
                    "until the rest fits the buffer",
                ),
                way.prefix,
            )
        case "digits":
            digits = _digits(path, way)
            few = f"up to {path.ranked_ties} members: by value, then index"
            ranked = (few,) if path.ranked_ties and "buffer" in way.kinds else ()
            first = max(0, KEY_BITS - sum(digits)) if key is not None and key.kind == "exact" else 0
            said = ("digits of the exact key", f"{' + '.join(map(str, digits))} bits", *ranked)
            return Step("digits", said, digits, first=first if "key" in way.kinds else 0)
        case "sample":
            return Step("sample", ("a cut-off from sampled scores", "what lies above it survives"))
        case "stream":
            return Step("stream", ("the k best so far are kept", "their least is the threshold for what follows"))
        case "buffer":
            return _buffer(path, variant, way)
        case "out":
            return Step("out", _out(path, variant))


def _buffer(path: Path, variant: Variant, way: _Way) -> Step:
    buffer = path.buffer
    assert buffer is not None
    facts = [f"holds {_number(buffer.capacity)}"]
    if buffer.ranks is not None:
        facts.append(f"each of {buffer.ranks.count} blocks stores {buffer.ranks.capacity:,}")
    if "digits" in way.kinds and way.kinds.index("digits") < way.kinds.index("buffer"):
        facts.append("sorted in the end")
    elif buffer.whole_bin:
        facts.append("a bin of winners only, too")
    parts = 1 if buffer.ranks is None else buffer.ranks.count
    return Step(
        "buffer",
        tuple(facts),
        parts=parts,
        capacity=buffer.capacity,
        overflow=note_of(variant) if variant.lossless else "",
    )


def _out(path: Path, variant: Variant) -> tuple[str, ...]:
    if path.family == "identity":
        return ("every index in order, then -1",)
    contract = variant.contract or path.contract
    order = {
        OutputOrdering.UNSORTED: "unsorted",
        OutputOrdering.SORTED: "sorted by score",
        OutputOrdering.STABLE_SORTED: "sorted, equal scores by index",
    }[contract.output_ordering]
    ties = {
        TieBreak.UNSPECIFIED: "ties: unspecified",
        TieBreak.PREFER_SMALLER_INDEX: "ties: smaller index",
        TieBreak.PREFER_LARGER_INDEX: "ties: larger index",
    }[contract.tie_break]
    return "k indices", order, ties


def _layout(path: Path) -> str:
    assert path.buffer is not None
    assert path.buffer.ranks is not None
    ranks = path.buffer.ranks
    return "a slice each" if ranks.layout == "contiguous" else f"runs of {ranks.unit} in turn"


def _alternatives(dtypes: tuple[str, ...]) -> str:
    return "any dtype" if len(dtypes) == 3 else " or ".join(dtypes)


def binade_words(key: Key) -> str:
    """How much of a binade (a factor of two) one bin spans, as in ``1/4 of a binade each``."""
    inside = key.bits - (SIGN_AND_EXPONENT if key.kind == "half" else 9)
    if inside > 0:
        return f"1/{1 << inside} of a binade each"
    return "a binade each" if inside == 0 else f"{1 << -inside} binades each"


def note_of(variant: Variant) -> str:
    """What a variant is, without saying that it is as released."""
    return variant.note.removeprefix("as released: ")


def loss_sentence(path: Path, variant: Variant) -> str:
    """Where a variant loses winners, or why it does not, in one sentence."""
    note, name = f"{note_of(variant)}.", f"{path.name} ({variant.name})"
    lossy = next((one for one in steps_of(path, variant) if one.loses), None)
    if lossy is None:
        known = "keeps every winner of a row without NaN: " if steps_of(path, variant) else ""
        return f"{name} {known}{note}" if known else f"{name}: {note}"
    if lossy.kind == "buffer" and variant.note == STOCK.note:
        key, holds = key_of(path, variant), _number(lossy.capacity)
        assert key is not None
        return (
            f"{name} drops winners silently where the threshold bin, one of its {key.in_words}, holds more scores than "
            f"its buffer ({holds})."
        )
    return f"{name} can lose winners: {note}"


def _number(value: int | str | None) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value}"
