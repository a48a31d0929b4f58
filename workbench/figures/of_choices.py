"""What else could be done with a row, in parts: other paths, altered numbers, remedies; and what is here to do it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from workbench.analysis.curves import Curve, against, own_value
from workbench.analysis.whatif import Parameter
from workbench.figures import palette
from workbench.figures.compare import compared_figure, shown_texts
from workbench.figures.parts import (
    LINES,
    Cell,
    Folded,
    Kind,
    Note,
    Part,
    Picture,
    Said,
    Table,
    facts,
    first_lines,
    text_table,
)
from workbench.figures.remedies import holds_for, remedies_figure, remedies_table, shown
from workbench.figures.tables import outlook_texts
from workbench.figures.whatif import standing_colour, whatif_figure, whatif_table
from workbench.figures.words import count, plural
from workbench.runs.advise_words import advice_sentence, cost_text, evidence_text, kept_text, part_sentence, stands_text
from workbench.runs.compare import Compared
from workbench.runs.compare_words import compared_sentence
from workbench.runs.doctor import AREAS, Doctor, Fact
from workbench.runs.law_words import law_notes
from workbench.runs.remedy import Advice, Remedy
from workbench.runs.remedy import Part as OfOp
from workbench.runs.whatif import WhatIf
from workbench.runs.whatif_words import LABELS, altered_words, number, standing_word, what_if_sentence

if TYPE_CHECKING:
    import plotly.graph_objects as go


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
    if not places:
        return parts
    shown = (found.cells[place] for place in places[:LINES])
    laws = law_notes((cell.path, cell.risk, cell.clean_at_most) for cell in shown)
    return [*parts, first_lines("", columns, lines, len(places), "cell"), *map(Note, laws)]


def compared_pictures(found: Compared) -> list[Picture]:
    """The picture of what has a cell."""
    return [Picture(f"The row by {found.axis}", lambda: compared_figure(found))] if found.cells else []


def what_if_parts(found: WhatIf) -> list[Part]:
    """A row as it is and as altered: the sentence and the numbers side by side."""
    said = Said(what_if_sentence(found), standing_colour(found.after))
    return [
        said,
        *_curve_picture(found),
        text_table(f"Altered: {altered_words(found.alteration)}", whatif_table(found), ("word", "number", "number")),
    ]


def _curve_picture(found: WhatIf) -> list[Picture]:
    """The risk against what is altered first."""
    return [Picture(f"Risk against the {LABELS[name]}", draw) for name, draw in [*what_if_views(found).items()][:1]]


def what_if_views(found: WhatIf) -> dict[str, Callable[[], go.Figure]]:
    """The risk against each parameter that has a curve on this path, by name: those that are altered first."""
    names = sorted(against(found.setting), key=lambda name: name not in found.alteration.given)
    return {name: partial(_against, found, name) for name in names}


def _against(found: WhatIf, parameter: Parameter) -> go.Figure:
    own = own_value(found.setting, parameter, found.alteration)
    return whatif_figure(found.curve(parameter), own, getattr(found.alteration, parameter))


def curve_parts(found: Curve) -> list[Part]:
    """The risk against one parameter."""
    name = LABELS[found.parameter]
    columns: tuple[tuple[str, Kind], ...] = (
        *((name, "number"), ("risk", "word"), ("population", "number"), ("capacity", "number")),
        *(("p clean", "number"), ("mean lost", "number"), ("least – most", "number"), ("why not", "text")),
    )
    rows = [
        (
            *(number(at), standing_word(one)),
            *(one.population, one.capacity, *outlook_texts(one), "; ".join(one.refused) or one.note or None),
        )
        for at, one in zip(found.at, found.risks, strict=True)
    ]
    said = f"Risk against the {name}: {plural(len(found.at), 'value')} from {number(found.at[0])} to "
    said += f"{number(found.at[-1])}."
    if found.enough is not None and found.enough.rank_capacity is None:
        said += f" Safe from {count(found.enough.capacity)} on."
    picture = Picture(f"Risk against the {name}", lambda: whatif_figure(found, None, None))
    laws = map(Note, law_notes((one.path, one.level, None) for one in found.risks))
    return [Said(said), picture, Folded("The values", (Table("", columns, tuple(rows)), *laws))]


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


def part_parts(part: OfOp) -> list[Part]:
    """What would keep the winners of one op's rows."""
    colour = palette.LOSSY_TEXT if part.at_risk else palette.SAFE_TEXT if part.now.safe else palette.REFUSED_TEXT
    return [Said(part_sentence(part), colour), *_of_op(part)]


def remedy_parts(remedy: Remedy) -> list[Part]:
    """One change under which rows may keep their winners."""
    colour = palette.SAFE_TEXT if remedy.keeps else palette.AT_RISK_TEXT if remedy.rows.safe else palette.REFUSED_TEXT
    told: dict[str, Cell] = {"kind": remedy.kind, "how": remedy.how}
    if remedy.given:
        told["give"] = remedy.given
    if remedy.releases:
        told["releases"] = ", ".join(remedy.releases)
    told |= {
        "rows kept": kept_text(remedy.rows),
        "the others": stands_text(remedy.rows) or "–",
        "paths then": "; ".join(f"{path} ({variant}): {count(rows)}" for path, variant, rows in remedy.paths) or "–",
        "holds for": holds_for(remedy),
        "evidence": evidence_text(remedy),
        "time": cost_text(remedy.cost),
    }
    notes = (*remedy.caveats, *remedy.refusals)
    return [Said(f"{remedy.what}: {remedy.state}.", colour), facts("", told), *(Note(note) for note in notes)]


def _of_op(part: OfOp) -> list[Part]:
    parts: list[Part] = [Note(text) for text in (*(f"to tell more, give {need}" for need in part.needs), *part.notes)]
    parts += advice_pictures(part)
    return [*parts, text_table("Remedies", remedies_table(part))] if part.remedies else parts


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
