"""Whose law a chance and a mean of the analysis are: of scores that arrive one by one, which not every path's do."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.analysis.risk import LOSING
from workbench.paths.catalog import PATHS
from workbench.paths.walk import WARP
from workbench.words import probability

IN_WARPS = f"in warps of {WARP}"
LAW = f"of scores one by one; this path's arrive {IN_WARPS}"
_TOGETHER = frozenset(path.name for path in PATHS if path.arrival_unit != "element")

Told = tuple[str | None, str | None, float | None]  # path, level of the risk, and ``clean_at_most`` where it is known


def arrives_together(path: str | None) -> bool:
    """Whether a path's scores are known to arrive several at once."""
    return path in _TOGETHER


def random_order(path: str | None, order: str = "order") -> str:
    """The arrival order that a mean is over, as in ``a random order loses 15.9 on average``. ``order``: its noun, or
    ``one``."""
    some = order if order == "one" else f"an {order}"
    return f"{some} that is random score by score" if arrives_together(path) else f"a random {order}"


def law_note(path: str | None, level: str | None, clean_at_most: float | None = None) -> str:
    """Whose law ``p_clean`` and ``expected_missing`` are, without a full stop; empty where they are the path's own, or
    where nothing is lost.

    Args:
        level: of the risk. clean_at_most: as of ``workbench.analysis.risk.Risk``, where it is to be told.
    """
    if level not in LOSING or not arrives_together(path):
        return ""
    told = f"{'chance and mean are' if level == 'at risk' else 'the mean is'} {LAW}"
    if clean_at_most is None:
        return told
    return f"{told}, a random order of which loses nothing with a probability of {at_most(clean_at_most)}"


def law_sentence(path: str | None, level: str | None, clean_at_most: float | None = None) -> str:
    """``law_note`` as a sentence of its own; empty where that is."""
    told = law_note(path, level, clean_at_most)
    return f"{told[0].upper()}{told[1:]}." if told else ""


def law_notes(told: Iterable[Told]) -> list[str]:
    """``law_note`` of each path of a table, as a sentence without its full stop; with the bound where there is one."""
    known: dict[tuple[str | None, str | None], set[float | None]] = {}
    for path, level, bound in told:
        known.setdefault((path, level), set()).add(bound)
    notes = (
        (path, law_note(path, level, *(bounds if len(bounds) == 1 else ()))) for (path, level), bounds in known.items()
    )
    return [f"On {path} {note}" for path, note in notes if note]


def at_most(clean_at_most: float) -> str:
    """A bound on a chance, as in ``at most 0.2190``."""
    return f"at most {probability(clean_at_most)}"
