"""The colours of the workbench, once for all pictures, pages and badges. Told apart with every common colour blindness.

Marks have 3:1 or more on white; text, chips and marks on tinted cells darker shades of the same hues, 4.5:1 or more on
white. Figures are drawn for white paper; ``DARK`` tells what each colour becomes on a dark page (see ``themes``), and
``pairs`` what stands on what.
"""

from __future__ import annotations

from typing import NamedTuple

from workbench.analysis.risk import NOT_MODELLED
from workbench.words import UNKNOWN as UNKNOWN

SAFE, SAFE_TEXT = "#009E73", "#007848"
AT_RISK, AT_RISK_TEXT = "#C48800", "#9A6D00"
CERTAIN, CERTAIN_TEXT = "#B83A00", "#741D00"
LOSSY, LOSSY_TEXT = CERTAIN, CERTAIN_TEXT
INVALID = INVALID_TEXT = "#6D1A5C"
TIES, TIES_TEXT = "#2E93D1", "#0B63B8"
REFUSED, REFUSED_TEXT = "#87919D", "#667085"

THRESHOLD = "#0072B2"
CAPACITY = "#0E141B"
OVERFLOW = CERTAIN
BIN = "#8391A1"
CHOSEN = "#0E141B"

TEXT = "#0E141B"
MUTED = "#5F6B7A"
GRID = "#E6EAEF"
PAPER = "#FFFFFF"
DARK_TEXT, DARK_PAPER = "#E6EAEF", "#14181D"
SURFACE, DARK_SURFACE = "#F4F6F8", "#1E242B"  # of the app, beneath its sidebar, its fields and code
FADED = 0.6  # of its texts' colour, that the app gives to captions
EMPTY, FEWEST = "#EEF1F5", "#B57600"  # cells without bad rows, and with the fewest
SHEER = 0.8  # opacity of many marks, so that places with more of them are darker and one alone is seen all the same
EDGE = "#80808073"  # lines of tables, on whatever paper
FONT = "'Source Sans', 'Source Sans 3', 'Source Sans Pro', system-ui, sans-serif"

# What each colour becomes on a dark page; what is not here stays as it is.
DARK = {
    PAPER: DARK_PAPER,
    SURFACE: DARK_SURFACE,
    TEXT: DARK_TEXT,
    MUTED: "#A3AFBD",
    GRID: "#2A323B",
    EMPTY: "#232A32",
    FEWEST: "#A8650F",
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


# Words of code by their kind; others have the colour of the text.
CODE = {
    "keyword": TIES_TEXT,
    "string": SAFE_TEXT,
    "number": CERTAIN_TEXT,
    "boolean": CERTAIN_TEXT,
    "comment": MUTED,
}
# The app's own theme, which .streamlit/config.toml holds.
APP = {
    "light": {
        "primaryColor": THRESHOLD,
        "backgroundColor": PAPER,
        "secondaryBackgroundColor": SURFACE,
        "codeBackgroundColor": SURFACE,
        "textColor": TEXT,
        "borderColor": "#D9DFE6",
    },
    "dark": {
        "primaryColor": DARK[THRESHOLD],
        "backgroundColor": DARK_PAPER,
        "secondaryBackgroundColor": DARK_SURFACE,
        "codeBackgroundColor": DARK_SURFACE,
        "textColor": DARK_TEXT,
        "borderColor": "#36404B",
    },
}


def tint(colour: str, share: float = 0.28, paper: str = PAPER) -> str:
    """A shade of a colour near that of the paper."""
    parts = ([int(one[at : at + 2], 16) for at in (1, 3, 5)] for one in (paper, colour))
    return "#" + "".join(f"{round(ground + (part - ground) * share):02X}" for ground, part in zip(*parts, strict=True))


_BAND = 0.13  # of its colour, that a band behind marks has
BAND = tint(CERTAIN, _BAND)
DARK |= {tint(light): tint(dark, paper=DARK_PAPER) for light, dark in DARK.items()}
DARK[BAND] = tint(DARK[CERTAIN], _BAND, DARK_PAPER)


class Mark(NamedTuple):
    """How a kind of mark is drawn: its colour, its symbol, and the ground of its cell where it stands in one."""

    ink: str
    symbol: str
    ground: str


def _mark(hue: str, ink: str, symbol: str) -> Mark:
    return Mark(ink, symbol, tint(hue))


REFUSED_WORD = "refused"
NOT_RUN = "not run"  # taken by the path, but without a model

MARKS = {"safe": SAFE, "at risk": AT_RISK, "certain": CERTAIN}
RISKS = {
    "safe": SAFE_TEXT,
    "at risk": AT_RISK_TEXT,
    "certain": CERTAIN_TEXT,
    REFUSED_WORD: REFUSED_TEXT,
    NOT_MODELLED: REFUSED_TEXT,
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
UNPAIRED, UNPAIRED_TEXT = INVALID, INVALID_TEXT
CALM, CALM_TEXT = BIN, REFUSED_TEXT
STATES: dict[str, Mark] = {
    "values vary": _mark(LOSSY, LOSSY_TEXT, "x"),
    "missing": _mark(UNPAIRED, UNPAIRED_TEXT, "triangle-down"),
    "extra": _mark(UNPAIRED, UNPAIRED_TEXT, "triangle-up"),
    "duplicate": _mark(UNPAIRED, UNPAIRED_TEXT, "cross"),
    "ties vary": _mark(TIES, TIES_TEXT, "circle"),
    "order varies": _mark(ORDER, ORDER_TEXT, "bowtie-open"),
    "reordered": _mark(UNPAIRED, UNPAIRED_TEXT, "hourglass"),
    "input differs": _mark(UPSTREAM, UPSTREAM_TEXT, "diamond"),
    "not comparable": _mark(CALM, CALM_TEXT, "line-ew-open"),
    "same": _mark(CALM, CALM_TEXT, "square"),
}
TOKENS: dict[str, Mark] = {
    "token differs": _mark(CHOSEN, CHOSEN, "star"),
    "token differs by a tie or near-tie": _mark(CHOSEN, CHOSEN, "star-open"),
    "missing": _mark(UNPAIRED, UNPAIRED_TEXT, "triangle-down"),
    "extra": _mark(UNPAIRED, UNPAIRED_TEXT, "triangle-up"),
    "logits differ": _mark(UPSTREAM, UPSTREAM_TEXT, "diamond-open"),
    "not comparable": _mark(CALM, CALM_TEXT, "line-ew-open"),
    "same": _mark(CALM, CALM_TEXT, "square"),
}
# Where a row stands in a release.
STANDINGS: dict[str, Mark] = {
    "fault": _mark(INVALID, INVALID_TEXT, "triangle-down"),
    "loses": _mark(LOSSY, LOSSY_TEXT, "x"),
    "can lose": _mark(AT_RISK, AT_RISK_TEXT, "diamond"),
    "clean": _mark(SAFE, SAFE_TEXT, "circle"),
    "refused": _mark(REFUSED, REFUSED_TEXT, "line-ew-open"),
    "unknown": _mark(REFUSED, REFUSED_TEXT, "circle-open"),
}
# Whether a release's variants of a path lose winners.
LOSSES: dict[str, Mark] = {
    "keeps every winner": _mark(SAFE, SAFE_TEXT, "circle"),
    "can lose winners": _mark(LOSSY, LOSSY_TEXT, "x"),
}
# How a remedy does.
REMEDIES: dict[str, Mark] = {
    "keeps every winner": _mark(SAFE, SAFE_TEXT, "circle"),
    "helps": _mark(AT_RISK, AT_RISK_TEXT, "diamond"),
    "does not help": _mark(LOSSY, LOSSY_TEXT, "x"),
    "not known": _mark(REFUSED, REFUSED_TEXT, "circle-open"),
}
STANDING_TEXTS = {name: mark.ink for name, mark in STANDINGS.items()}
STATE_TEXTS = {name: mark.ink for name, mark in STATES.items()}


def risk_colour(level: str | None) -> str:
    """The colour of a risk level as text or chip; unknown levels are grey."""
    return RISKS.get(level or UNKNOWN, REFUSED_TEXT)


def mark_colour(level: str | None) -> str:
    """The colour of a risk level as a mark; unknown levels are grey."""
    return MARKS.get(level or UNKNOWN, REFUSED)
