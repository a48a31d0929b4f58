"""The colours of the workbench, once for all pictures and badges. Told apart with every common colour blindness.

Marks are bright; text and chips have darker shades of the same hues, 4.5:1 or more on white and under white letters.
"""

from __future__ import annotations

SAFE, SAFE_TEXT = "#009E73", "#007A4D"
AT_RISK, AT_RISK_TEXT = "#E69F00", "#9A6D00"
CERTAIN, CERTAIN_TEXT = "#D55E00", "#8E2400"
LOSSY, LOSSY_TEXT = CERTAIN, CERTAIN_TEXT
INVALID = INVALID_TEXT = "#6D1A5C"
TIES, TIES_TEXT = "#56B4E9", "#0B63B8"
REFUSED, REFUSED_TEXT = "#9AA3AE", "#667085"

THRESHOLD = "#0072B2"
CAPACITY = "#1F2933"
OVERFLOW = "#D55E00"
BIN = "#B8C4D1"
CHOSEN = "#1F2933"

TEXT = "#1F2933"
MUTED = "#5F6B7A"
GRID = "#E6EAEF"
PAPER = "#FFFFFF"
DARK_TEXT, DARK_PAPER = "#E6EAEF", "#14181D"  # of pages; pictures stay on white
FONT = "'Source Sans', 'Source Sans 3', 'Source Sans Pro', system-ui, sans-serif"

UNKNOWN = "unknown"
REFUSED_WORD = "refused"
NOT_RUN = "not run"  # taken by the path, but without a model

MARKS = {"safe": SAFE, "at risk": AT_RISK, "certain": CERTAIN}
RISKS = {
    "safe": SAFE_TEXT,
    "at risk": AT_RISK_TEXT,
    "certain": CERTAIN_TEXT,
    REFUSED_WORD: REFUSED_TEXT,
    UNKNOWN: REFUSED_TEXT,
}
VERDICTS = {
    "exact": SAFE_TEXT,
    "ties": TIES_TEXT,
    "lossy": LOSSY_TEXT,
    "invalid": INVALID_TEXT,
    NOT_RUN: REFUSED_TEXT,
    REFUSED_WORD: REFUSED_TEXT,
    UNKNOWN: REFUSED_TEXT,
}

# States of points at which runs are compared, and of tokens: colours by kind of state, each with a symbol of its own.
ORDER, ORDER_TEXT = TIES, TIES_TEXT
UPSTREAM, UPSTREAM_TEXT = AT_RISK, AT_RISK_TEXT
UNPAIRED = INVALID
CALM, CALM_TEXT = BIN, REFUSED_TEXT
STATES: dict[str, tuple[str, str]] = {
    "values vary": (LOSSY, "x"),
    "missing": (UNPAIRED, "triangle-down"),
    "extra": (UNPAIRED, "triangle-up"),
    "duplicate": (UNPAIRED, "cross"),
    "ties vary": (TIES, "circle"),
    "order varies": (ORDER, "circle-open"),
    "reordered": (UNPAIRED, "hourglass"),
    "input differs": (UPSTREAM, "diamond"),
    "not comparable": (CALM, "square-open"),
    "same": (CALM, "square"),
}
TOKENS: dict[str, tuple[str, str]] = {
    "token differs": (CHOSEN, "star"),
    "token differs by a tie or near-tie": (CHOSEN, "star-open"),
    "missing": (UNPAIRED, "triangle-down"),
    "extra": (UNPAIRED, "triangle-up"),
    "logits differ": (UPSTREAM, "diamond-open"),
    "not comparable": (CALM, "square-open"),
    "same": (CALM, "square"),
}
# Where a row stands in a release.
STANDINGS: dict[str, tuple[str, str]] = {
    "fault": (INVALID, "triangle-down"),
    "loses": (LOSSY, "x"),
    "can lose": (AT_RISK, "diamond"),
    "clean": (SAFE, "circle"),
    "refused": (REFUSED, "square-open"),
    "unknown": (REFUSED, "circle-open"),
}
STANDING_TEXTS = {
    "fault": INVALID_TEXT,
    "loses": LOSSY_TEXT,
    "can lose": AT_RISK_TEXT,
    "clean": SAFE_TEXT,
    "refused": REFUSED_TEXT,
    "unknown": REFUSED_TEXT,
}
STATE_TEXTS = {
    "values vary": LOSSY_TEXT,
    "ties vary": TIES_TEXT,
    "order varies": ORDER_TEXT,
    "input differs": UPSTREAM_TEXT,
    **dict.fromkeys(("missing", "extra", "duplicate", "reordered"), INVALID_TEXT),
    **dict.fromkeys(("same", "not comparable"), CALM_TEXT),
}


def risk_colour(level: str | None) -> str:
    """The colour of a risk level as text or chip; unknown levels are grey."""
    return RISKS.get(level or UNKNOWN, REFUSED_TEXT)


def mark_colour(level: str | None) -> str:
    """The colour of a risk level as a mark; unknown levels are grey."""
    return MARKS.get(level or UNKNOWN, REFUSED)
