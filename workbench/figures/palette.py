"""The colours of the workbench, once for all pictures and badges. Told apart with every common colour blindness.

Marks have 3:1 or more on white; text and chips darker shades of the same hues, 4.5:1 or more. Figures are drawn
for white paper; ``DARK`` tells what each colour becomes on a dark page (see ``themes``).
"""

from __future__ import annotations

SAFE, SAFE_TEXT = "#009E73", "#007A4D"
AT_RISK, AT_RISK_TEXT = "#C48800", "#9A6D00"
CERTAIN, CERTAIN_TEXT = "#B83A00", "#741D00"
LOSSY, LOSSY_TEXT = CERTAIN, CERTAIN_TEXT
INVALID = INVALID_TEXT = "#6D1A5C"
TIES, TIES_TEXT = "#2E93D1", "#0B63B8"
REFUSED, REFUSED_TEXT = "#87919D", "#667085"

THRESHOLD = "#0072B2"
CAPACITY = "#1F2933"
OVERFLOW = CERTAIN
BIN = "#8391A1"
CHOSEN = "#1F2933"

TEXT = "#1F2933"
MUTED = "#5F6B7A"
GRID = "#E6EAEF"
PAPER = "#FFFFFF"
DARK_TEXT, DARK_PAPER = "#E6EAEF", "#14181D"
INK = DARK_PAPER  # letters on bright fills, in both themes
VEIL = "rgba(255,255,255,0.85)"  # behind letters that stand on marks
EMPTY, FEWEST = "#EEF1F5", "#F9DDB1"  # cells without bad rows, and with the fewest
FONT = "'Source Sans', 'Source Sans 3', 'Source Sans Pro', system-ui, sans-serif"

# What each colour becomes on a dark page; what is not here (fills with INK on them, say) stays as it is.
DARK = {
    PAPER: DARK_PAPER,
    TEXT: DARK_TEXT,
    MUTED: "#A3AFBD",
    GRID: "#2A323B",
    VEIL: "rgba(20,24,29,0.85)",
    EMPTY: "#232A32",
    FEWEST: "#5A3F12",
    SAFE: "#009E73",
    SAFE_TEXT: "#2FC497",
    AT_RISK: "#E69F00",
    AT_RISK_TEXT: "#E9B44C",
    CERTAIN: "#D55E00",
    CERTAIN_TEXT: "#FF8A5C",
    INVALID: "#C048F0",
    TIES: "#56B4E9",
    TIES_TEXT: "#63B3F5",
    REFUSED: "#9AA3AE",
    REFUSED_TEXT: "#9AA6B5",
    THRESHOLD: "#3D9BE0",
    BIN: "#66727F",
}

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
