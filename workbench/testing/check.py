"""The one check of a selection: valid indices and the exact values, without a tolerance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from workbench.analysis.diff import value_diff
from workbench.analysis.verdict import Verdict, judge
from workbench.capture.values import described
from workbench.export.fixture import canonical, patterns
from workbench.numeric.select import exact_topk
from workbench.paths.selection import UNWRITTEN, Selection
from workbench.testing.case import TopkCase
from workbench.words import listed

_SHOWN = 5
_INTS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64)
_INT64 = 2**63 - 1


def assert_topk(selection: Any, case: TopkCase) -> None:
    """Fail unless a selection is valid and holds the k best values; the choice among equal ones and the order are free.

    Args:
        selection: the indices of one call, [k] integers relative to the row's start, -1 past its length; a tensor on
            any device, whatever ``torch.as_tensor`` takes, or a ``Selection``.
        case: what was selected from.

    Raises:
        AssertionError: it is not; the message says what was lost.
        TypeError, ValueError: it is no selection: not [k], or no integers.
    """
    __tracebackhide__ = True
    indices = _indices(selection, case.k)
    scores = case.scores.cpu()
    best = exact_topk(scores, case.k)
    exact = torch.full((case.k,), -1, dtype=torch.int64)
    exact[: best.numel()] = best
    verdict = judge(scores, exact, indices, UNWRITTEN)
    past = int((indices[best.numel() :] != -1).sum())
    if verdict.kind in ("ties", "exact") and not past:
        return
    raise AssertionError("\n".join(_told(case, verdict, scores, exact, indices, past)))


def _indices(selection: Any, k: int) -> torch.Tensor:
    try:
        indices = torch.as_tensor(selection.indices if isinstance(selection, Selection) else selection)
    except (RuntimeError, TypeError, ValueError) as error:
        raise TypeError(
            f"a selection holds integers, and this, {described(selection)}, is no tensor of them: {error}"
        ) from None
    if indices.dtype not in _INTS:
        raise TypeError(f"a selection holds integers, not {indices.dtype}: give the indices, not the values")
    if indices.shape != (k,):
        raise ValueError(f"a selection is of shape [{k}], not {list(indices.shape)}: give one row of the output")
    whole = indices.detach().cpu().to(torch.int64)
    # What int64 cannot hold would turn negative, and the greatest of all into -1, which means an empty slot.
    return whole.masked_fill(whole < 0, _INT64) if indices.dtype == torch.uint64 else whole


def _told(
    case: TopkCase, verdict: Verdict, scores: torch.Tensor, exact: torch.Tensor, indices: torch.Tensor, past: int
) -> Iterator[str]:
    wanted = min(case.k, case.length)
    kind = "invalid" if past else verdict.kind
    yield (
        f"{case.name}: the selection is {kind}; {verdict.missing} of {wanted} winners are missing "
        f"(recall {verdict.recall:.6g}, k {case.k}, {case.length} scores)"
    )
    yield from _invalid(verdict, indices, case.length, wanted, past)
    if verdict.missing:
        entries = value_diff(scores, exact, verdict)
        for status, words in (("lost", "lost"), ("kept", "held in their place")):
            of = [entry for entry in entries if entry.status == status]
            for entry in of[:_SHOWN]:
                bits = _bits(scores[entry.index])
                yield f"  {words}: rank {entry.rank}, index {entry.index}, score {entry.score:.9g} ({bits})"
            if len(of) > _SHOWN:
                yield f"  {words}: {len(of) - _SHOWN} more"
        yield from _first_difference(case, scores, indices)


def _invalid(verdict: Verdict, indices: torch.Tensor, length: int, wanted: int, past: int) -> Iterator[str]:
    counts = {
        "repeat an index": verdict.duplicates,
        "lie outside the row": verdict.out_of_range,
        "were never written": verdict.unwritten,
        "are -1 although scores are left": verdict.short,
        "past the row's length do not hold -1": past,
    }
    found = [f"{count} {words}" for words, count in counts.items() if count]
    if not found:
        return
    yield f"  invalid slots: {listed(found)}"
    outside = (indices < 0) | (indices >= length)
    outside[wanted:] &= indices[wanted:] != -1
    slots = outside.nonzero().flatten().tolist()
    if slots:
        shown = ", ".join(f"slot {slot} holds {described(int(indices[slot]))}" for slot in slots[:_SHOWN])
        yield f"  {shown}{', …' if len(slots) > _SHOWN else ''}"


def _first_difference(case: TopkCase, scores: torch.Tensor, indices: torch.Tensor) -> Iterator[str]:
    """Where the sorted values part first."""
    held = torch.unique(indices[(indices >= 0) & (indices < case.length)])
    got = canonical(scores[held[exact_topk(scores[held], max(held.numel(), 1))]])
    expected = case.expected.cpu()
    for place, best in enumerate(expected):
        returned = _bits(got[place]) if place < got.numel() else "nothing"
        if returned != _bits(best):
            yield f"  sorted, place {place} should be {_bits(best)} and is {returned}"
            return


def _bits(value: torch.Tensor) -> str:
    size = value.element_size()
    pattern = int(patterns(value.reshape(1))[0]) & ((1 << 8 * size) - 1)
    return f"0x{pattern:0{2 * size}x}"
