"""An audit as one HTML page that can be mailed: pictures and tables, nothing fetched from anywhere."""

from __future__ import annotations

from itertools import groupby

from workbench.audit.summary import Summary
from workbench.audit.tables import GROUPED, group_table, tables
from workbench.audit.words import about_words, audit_sentence, fault_words
from workbench.figures import palette
from workbench.figures.audit import captions, grid_figure, paths_figure, paths_shown
from workbench.figures.html import MARKED
from workbench.figures.page import page
from workbench.figures.parts import Beside, Note, Part, Picture, Said, cell_text

__all__ = ["MARKED", "audit_colour", "audit_page", "audit_parts", "cell_text"]


def audit_page(found: Summary) -> str:
    """The page: HTML of a whole document, with plotly's own script in it where there is a picture."""
    return page(f"Audit of {found.folder}", audit_parts(found), "workbench audit report")


def audit_parts(found: Summary) -> list[Part]:
    """What an audit found: the sentence, pictures, tables."""
    fault = fault_words(found)
    parts: list[Part] = [Said(audit_sentence(found), audit_colour(found))]
    parts += [Note(f"{fault[:1].upper()}{fault[1:]}: see below.")] if fault else []
    parts += [Note(f"{about_words(found)}."), *_pictures(found)]
    grouped = [group_table(name, found).title for name in GROUPED]
    for small, some in groupby(tables(found), lambda table: table.title in grouped):
        told = tuple(some)
        parts += [Beside(told)] if small else told
    return parts


def _pictures(found: Summary) -> list[Picture]:
    about_paths, about_grid = captions(found)
    pictures = []
    if paths_shown(found):
        pictures.append(Picture("Bad rows by path", lambda: paths_figure(found), about_paths))
    grid = grid_figure(found) if found.grid is not None else None
    if grid is not None:
        pictures.append(Picture("Bad rows by layer and step", lambda: grid, about_grid))
    return pictures


def audit_colour(found: Summary) -> str:
    """The colour of what was found, the gravest."""
    total = found.total
    if total.invalid or total.harmful:
        return palette.INVALID_TEXT
    if total.lossy or total.certain:
        return palette.LOSSY_TEXT
    if total.at_risk:
        return palette.AT_RISK_TEXT
    if found.unfinished is not None or found.faulty or total.unjudged == total.rows:
        return palette.REFUSED_TEXT
    return palette.SAFE_TEXT
