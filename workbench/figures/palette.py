"""The colours of the workbench, once for all pictures and badges. Told apart with every common colour blindness."""

from __future__ import annotations

SAFE = "#009E73"
AT_RISK = "#E69F00"
CERTAIN = "#D55E00"
LOSSY = "#D55E00"
INVALID = "#882255"
TIES = "#56B4E9"
REFUSED = "#9AA3AE"

THRESHOLD = "#0072B2"
CAPACITY = "#1F2933"
OVERFLOW = "#D55E00"
BIN = "#B8C4D1"
CHOSEN = "#1F2933"

TEXT = "#1F2933"
MUTED = "#5F6B7A"
GRID = "#E6EAEF"
PAPER = "#FFFFFF"
FONT = "'Source Sans', 'Source Sans 3', 'Source Sans Pro', system-ui, sans-serif"

UNKNOWN = "unknown"
REFUSED_WORD = "refused"
NOT_RUN = "not run"  # taken by the path, but without a model

RISKS = {"safe": SAFE, "at risk": AT_RISK, "certain": CERTAIN, REFUSED_WORD: REFUSED, UNKNOWN: REFUSED}
VERDICTS = {
    "exact": SAFE,
    "ties": TIES,
    "lossy": LOSSY,
    "invalid": INVALID,
    NOT_RUN: REFUSED,
    REFUSED_WORD: REFUSED,
    UNKNOWN: REFUSED,
}


def risk_colour(level: str | None) -> str:
    """The colour of a risk level; unknown levels are grey."""
    return RISKS.get(level or UNKNOWN, REFUSED)
