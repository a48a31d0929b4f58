"""Whether two rows are the same input bit for bit, and if not, what differs and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from workbench.capture.row import Row
from workbench.numeric.keys import bit_patterns, ulp_keys
from workbench.words import real

What = Literal["k", "dtype", "length", "start", "width", "scores"]


@dataclass(frozen=True)
class ScoreDifference:
    """How two score vectors differ, cell by cell.

    Attributes:
        compared: cells that both rows have. cells: those whose bits differ.
        first: the first of them, relative to the start; ``first_a``, ``first_b`` its scores, and ``first_ulps`` their
            distance in ULPs, values of the dtype from one to the other (``None`` where one is NaN).
        max_ulps, max_abs: the greatest distances over cells without NaN; ``None`` if all of them hold one.
        nan: differing cells with a NaN on either side (two NaN of other bits among them).
        signed_zeros: cells that differ in the sign of zero alone, by 0 ULPs.
        dtype: of which ULPs are counted: float32 where the rows differ in dtype, to which both widen exactly.
    """

    compared: int
    cells: int
    first: int
    first_a: float
    first_b: float
    first_ulps: int | None
    max_ulps: int | None
    max_abs: float | None
    nan: int
    signed_zeros: int
    dtype: str


@dataclass(frozen=True)
class InputDifference:
    """What two inputs of a selector differ in.

    Attributes:
        what: the first thing that differs, in the order k, dtype, length, start, width, scores; the width counts only
            where a length that leaves its row makes it the number of valid cells.
        a, b: its values, for all but the scores. also: what else differs.
        scores: of the cells that both rows have; ``None`` where these are the same.
    """

    what: What
    a: int | str | None
    b: int | str | None
    also: tuple[What, ...]
    scores: ScoreDifference | None


def winners(row: Row) -> int | None:
    """k of a row's call, or the recorded slots where the call does not say; ``None`` if neither is known."""
    return row.k if row.k is not None or row.indices is None else row.indices.numel()


def input_difference(a: Row, b: Row) -> InputDifference | None:
    """What two rows differ in as inputs of a selector; ``None`` if they are the same bit for bit.

    Padding outside the valid window does not count, nor does an unknown k.
    """
    k_a, k_b = winners(a), winners(b)
    sides: dict[What, tuple[int | str | None, int | str | None]] = {
        "k": (k_a, k_b) if k_a is not None and k_b is not None else (None, None),
        "dtype": (a.dtype, b.dtype),
        "length": (a.length, b.length),
        "start": (a.start, b.start),
    }
    if (a.length, a.start) == (b.length, b.start) and a.valid.numel() != b.valid.numel():
        sides["width"] = (a.scores.numel(), b.scores.numel())
    scores = score_difference(a.valid, b.valid)
    found: list[What] = [what for what, (one, other) in sides.items() if one != other]
    if scores is not None:
        found.append("scores")
    if not found:
        return None
    first = found[0]
    return InputDifference(first, *sides.get(first, (None, None)), also=tuple(found[1:]), scores=scores)


def score_difference(a: torch.Tensor, b: torch.Tensor) -> ScoreDifference | None:
    """How two vectors of valid scores differ over the cells that both have; ``None`` if they do not.

    Args:
        a, b: [length] float32, bfloat16 or float16; where the dtypes differ, both are widened to float32 (exactly).
    """
    shared = min(a.numel(), b.numel())
    a, b = a[:shared], b[:shared].to(a.device)
    if a.dtype != b.dtype:
        a, b = a.float(), b.float()
    differ = torch.nonzero(bit_patterns(a) != bit_patterns(b)).flatten()
    if not differ.numel():
        return None
    mine, theirs = a[differ], b[differ]
    nan = mine.isnan() | theirs.isnan()
    ulps = (ulp_keys(mine) - ulp_keys(theirs)).abs()
    number = ~nan
    distance = (mine[number].double() - theirs[number].double()).abs()
    return ScoreDifference(
        compared=shared,
        cells=differ.numel(),
        first=int(differ[0]),
        first_a=float(mine[0]),
        first_b=float(theirs[0]),
        first_ulps=None if nan[0] else int(ulps[0]),
        max_ulps=int(ulps[number].max()) if distance.numel() else None,
        max_abs=float(distance.max()) if distance.numel() else None,
        nan=int(nan.sum()),
        signed_zeros=int((ulps[number] == 0).sum()),
        dtype=str(a.dtype).removeprefix("torch."),
    )


def describe(difference: InputDifference) -> str:
    """An input difference in words, as in ``1 of 4096 scores differs, by 1 ULP (1e-07), first at index 7``."""
    parts = [] if difference.what == "scores" else [f"{difference.what} is {difference.a} against {difference.b}"]
    others = [what for what in difference.also if what != "scores"]
    if others:
        parts.append(f"{' and '.join(others)} differ too")
    scores = difference.scores
    if scores is not None:
        parts.append(_of_scores(scores))
    elif difference.what != "k":
        parts.append("the scores that both rows have are the same bit for bit")
    return "; ".join(parts)


def _of_scores(scores: ScoreDifference) -> str:
    verb = "differs" if scores.cells == 1 else "differ"
    text = f"{scores.cells} of {scores.compared} scores {verb}"
    if scores.signed_zeros == scores.cells:
        text += " in the sign of zero alone"
    elif scores.max_ulps is not None and scores.max_abs is not None:
        up_to = "" if scores.cells == 1 else "up to "
        text += f" by {up_to}{scores.max_ulps} {'ULP' if scores.max_ulps == 1 else 'ULPs'} of {scores.dtype}"
        text += f" ({real(scores.max_abs, 4)})"
    if scores.nan:
        text += f", {scores.nan} with a NaN"
    first = f"{real(scores.first_a, 9)} against {real(scores.first_b, 9)}"
    return f"{text}, first at index {scores.first} ({first})"
