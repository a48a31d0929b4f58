"""Results as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.analysis.risk import Risk
from workbench.figures import palette
from workbench.figures.words import count, holds, probability, signed, value
from workbench.paths.spec import Path

if TYPE_CHECKING:
    import pandas as pd

    from workbench.runs.shrink import Figures, Shrunk


OBSERVED = "observed"
_NONE = count(None)


def outlook_texts(risk: Risk) -> tuple[str, str, str]:
    """Probability of a clean order, mean lost, and least to most lost, as people read them."""
    if risk.observed:
        return OBSERVED, "–", "–"
    mean = "–" if risk.expected_missing is None else value(risk.expected_missing, 5)
    least, most = risk.least_missing, risk.most_missing
    span = "–" if least is None or most is None else f"{count(least)} – {count(most)}"
    return probability(risk.p_clean, possible=risk.level == "at risk"), mean, span


def census_table(risks: Sequence[Risk], reached: str | None = None) -> pd.DataFrame:
    """One line a path; integers nullable, ``why`` holds the reasons of a refusal or what else must be known.

    What was observed and not computed has no probability and no numbers of lost winners.
    """
    import pandas as pd

    computed = [None if risk.observed else risk for risk in risks]

    frame = pd.DataFrame(
        {
            "path": [risk.path for risk in risks],
            "reached": [risk.path == reached for risk in risks],
            "risk": [palette.REFUSED_WORD if risk.refused else risk.told for risk in risks],
            "bin": [risk.threshold_bin for risk in risks],
            "above": [risk.above for risk in risks],
            "need": [risk.need for risk in risks],
            "population": [risk.population for risk in risks],
            "capacity": [risk.capacity for risk in risks],
            "takes": [risk.room for risk in risks],
            "p_clean": [risk and risk.p_clean for risk in computed],
            "expected": [risk and risk.expected_missing for risk in computed],
            "least": [risk and risk.least_missing for risk in computed],
            "most": [risk and risk.most_missing for risk in computed],
            "clean_at_most": [risk and risk.clean_at_most for risk in computed],
            "why": [_why(risk) for risk in risks],
        }
    )
    for name in ("bin", "above", "need", "population", "capacity", "takes", "least", "most"):
        frame[name] = frame[name].astype("Int64")
    for name in ("p_clean", "expected", "clean_at_most"):
        frame[name] = frame[name].astype("Float64")
    return frame


def _why(risk: Risk) -> str:
    if risk.refused:
        return "; ".join(risk.refused)
    if risk.note:
        return risk.note
    if risk.breach and not risk.buffered:
        return "the bin is taken whole, past the buffer"
    if risk.breach and risk.level == "safe":
        return "whatever is dropped has an equal that stays"
    return ""


def shrunk_table(found: Shrunk) -> pd.DataFrame:
    """A row before and after it shrank, as texts, one line a figure that either has."""
    import pandas as pd

    return pd.DataFrame(shrunk_lines(found), columns=["of the row", "before", "after"])


def shrunk_lines(found: Shrunk) -> list[tuple[str, str, str]]:
    """Name, before and after, of each figure that either has."""
    return [
        (name.replace("_", " "), before, after)
        for name, before, after in zip(found.before.named, _texts(found.before), _texts(found.after), strict=True)
        if (before, after) != (_NONE, _NONE)
    ]


def _texts(figures: Figures) -> list[str]:
    clean, mean, _ = outlook_texts(figures.risk)
    order = figures.risk.order_correlation
    texts = {"p_clean": clean, "expected_missing": mean}
    texts["order_correlation"] = _NONE if order is None else signed(order, 2)
    return [
        texts.get(name) or (number if isinstance(number, str) else count(None if number is None else int(number)))
        for name, number in figures.named.items()
    ]


def paths_table(paths: Sequence[Path]) -> pd.DataFrame:
    """The catalogue of paths, one line each."""
    import pandas as pd

    return pd.DataFrame(
        {
            "path": [path.name for path in paths],
            "summary": [path.summary for path in paths],
            "coarse key": [f"{path.key_bits} bits" if path.key_bits else "–" for path in paths],
            "capacity": [holds(path.capacity_of()) for path in paths],
            "k": [path.ks_in_words for path in paths],
            "length": [path.lengths_in_words for path in paths],
            "releases": [path.releases for path in paths],
            "evidence": [path.evidence.value for path in paths],
            "reports": [", ".join(path.references) for path in paths],
        }
    )
