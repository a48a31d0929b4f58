"""What else could be done with a row, in parts: other paths, altered numbers, remedies; and what is here to do it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.figures import palette
from workbench.figures.compare import compared_figure, shown_texts
from workbench.figures.of_inspection import colour_of
from workbench.figures.parts import LINES, Folded, Kind, Note, Part, Picture, Said, Table, facts, first_lines
from workbench.figures.remedies import remedies_figure, remedies_table, shown
from workbench.figures.whatif import whatif_table
from workbench.runs.advise_words import advice_sentence, part_sentence
from workbench.runs.compare import Compared
from workbench.runs.compare_words import compared_sentence
from workbench.runs.doctor import AREAS, Doctor, Fact
from workbench.runs.remedy import Advice
from workbench.runs.remedy import Part as OfOp
from workbench.runs.whatif import WhatIf
from workbench.runs.whatif_words import altered_words, what_if_sentence

if TYPE_CHECKING:
    import pandas as pd


def compared_parts(found: Compared) -> list[Part]:
    """A row on many paths: the sentence, the picture, the cells."""
    judged = any(cell.state not in ("refused", "unknown") for cell in found.cells.values())
    colour = palette.LOSSY_TEXT if found.loses else palette.SAFE_TEXT if judged else palette.REFUSED_TEXT
    places = found.places()
    by = {"variants": "variant", "engines": "engine", "releases": "release"}[found.axis]
    lines = [
        (line, column, cell.state, cell.verdict or "", *shown_texts(cell), cell.why or "; ".join(cell.notes))
        for line, column in places[:LINES]
        for cell in (found.cells[line, column],)
    ]
    columns: tuple[tuple[str, Kind], ...] = (
        *(("line", "word"), (by, "word"), ("state", "word"), ("verdict", "word")),
        *(("missing a call", "word"), ("p clean", "word"), ("mean lost", "word"), ("why", "text")),
    )
    parts: list[Part] = [Said(compared_sentence(found), colour), *compared_pictures(found)]
    return [*parts, first_lines("", columns, lines, len(places), "cell")] if places else parts


def compared_pictures(found: Compared) -> list[Picture]:
    """The picture of what has a cell."""
    return [Picture(f"The row by {found.axis}", lambda: compared_figure(found))] if found.cells else []


def what_if_parts(found: WhatIf) -> list[Part]:
    """A row as it is and as altered: the sentence and the numbers side by side."""
    after = found.after
    level = None if after.refused else after.level
    said = Said(what_if_sentence(found), colour_of(None, level))
    return [said, _texts(f"Altered: {altered_words(found.alteration)}", whatif_table(found))]


def advice_parts(found: Advice) -> list[Part]:
    """What would keep the winners: the sentence, and a picture and the remedies for each op."""
    colour = palette.LOSSY_TEXT if found.at_risk else palette.SAFE_TEXT if found.judged else palette.REFUSED_TEXT
    parts: list[Part] = [Said(advice_sentence(found), colour)]
    for part in found.parts:
        some = tuple(_of_op(part))
        parts += (
            some if len(found.parts) == 1 else [Folded(part.op or "unknown op", (Note(part_sentence(part)), *some))]
        )
    return parts


def _of_op(part: OfOp) -> list[Part]:
    parts: list[Part] = [Note(text) for text in (*part.needs, *part.notes)]
    parts += advice_pictures(part)
    return [*parts, _texts("Remedies", remedies_table(part))] if part.remedies else parts


def advice_pictures(part: OfOp) -> list[Picture]:
    """The picture of what has a remedy to draw."""
    if not shown(part):
        return []
    return [Picture(f"Remedies of {part.op or 'unknown op'}", lambda: remedies_figure(part))]


def doctor_parts(found: Doctor) -> list[Part]:
    """What is here: the sentence, what is broken with its cure, then all of it by area."""
    colour = palette.LOSSY_TEXT if found.broken else palette.SAFE_TEXT
    parts: list[Part] = [Said(found.sentence, colour)]
    parts += [Note(f"{one.name}: {_fact(one)}" + (f" ({one.cure})" if one.cure else "")) for one in found.broken]
    return parts + [
        Folded(title, (facts("", {one.name: _fact(one) for one in found.area(area)}),))
        for area, title in AREAS.items()
        if found.area(area)
    ]


def _fact(one: Fact) -> str:
    told = "; ".join(text for text in (one.value, one.why) if text)
    return told if one.state == "fine" else f"{one.state}: {told}"


def _texts(title: str, frame: pd.DataFrame) -> Table:
    """A table of texts."""
    rows = [tuple(str(cell) for cell in line) for line in frame.itertuples(index=False)]
    return first_lines(title, tuple((str(name), "text") for name in frame.columns), rows[:LINES], len(rows))
