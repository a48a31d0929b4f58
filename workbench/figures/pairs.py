"""What stands on what in the pictures: for each ground, a colour of the palette, the colours drawn on it.

Letters have 4.5:1 or more on their ground, marks and lines that carry meaning 3:1, in both themes (WCAG 2.2, success
criteria 1.4.3 and 1.4.11). A picture that draws another pair needs it here.
"""

from __future__ import annotations

from workbench.figures import palette as p

LEAST_OF_LETTERS, LEAST_OF_MARKS = 4.5, 3.0

LETTERS: dict[str, tuple[str, ...]] = {
    p.PAPER: (p.TEXT, p.MUTED, p.THRESHOLD, p.SAFE_TEXT, p.AT_RISK_TEXT, p.CERTAIN_TEXT, p.REFUSED_TEXT),
    p.THRESHOLD: (p.PAPER,),  # buttons and tags of pages
    p.SURFACE: (p.TEXT, *p.CODE.values()),
    **{mark.ground: (p.TEXT,) for mark in (*p.STANDINGS.values(), *p.LOSSES.values())},
}

_CELLS = [*p.STATES.values(), *p.TOKENS.values(), *p.STANDINGS.values(), *p.LOSSES.values()]
_TOLD = [*p.STATES.values(), *p.STANDINGS.values()]  # what may be outlined, since it is told below the picture
MARKS: dict[str, tuple[str, ...]] = {
    p.PAPER: (
        *(p.TEXT, p.MUTED, p.THRESHOLD, p.BIN),
        *(p.SAFE, p.SAFE_TEXT, p.AT_RISK, p.AT_RISK_TEXT, p.CERTAIN, p.CERTAIN_TEXT, p.INVALID),
        *(p.TIES, p.TIES_TEXT, p.REFUSED, p.REFUSED_TEXT),
    ),
    **{mark.ground: (mark.ink,) for mark in _CELLS},
    **{mark.ground: (mark.ink, p.CHOSEN) for mark in _TOLD},
    p.BAND: (p.TEXT, p.MUTED, p.THRESHOLD, p.SAFE_TEXT, p.AT_RISK_TEXT, p.CERTAIN_TEXT),
    p.EMPTY: (p.FEWEST, p.CERTAIN, p.CERTAIN_TEXT),
    p.BIN: (p.CAPACITY,),
    **dict.fromkeys((p.AT_RISK, p.CERTAIN_TEXT, p.INVALID), (p.PAPER,)),  # hatches
    p.CERTAIN: (p.PAPER, p.TEXT),
}
# Marks that let some of their ground through: see ``palette.SHEER``.
SHEER_MARKS: dict[str, tuple[str, ...]] = {
    p.PAPER: (p.THRESHOLD, p.CERTAIN_TEXT, p.INVALID_TEXT, p.TIES_TEXT, p.AT_RISK_TEXT, p.REFUSED_TEXT),
}
