"""An audit as one HTML page that can be mailed: pictures and tables, nothing fetched from anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from workbench.audit.summary import Summary
from workbench.audit.tables import GROUPED, Cell, Table, group_table, tables
from workbench.audit.words import about_words, audit_sentence, fault_words
from workbench.figures import palette
from workbench.figures.audit import captions, grid_figure, paths_figure, paths_shown
from workbench.figures.words import count, probability

if TYPE_CHECKING:
    import plotly.graph_objects as go

# Nothing but what is in the page itself, whatever a script in it would want.
POLICY = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:"
_STYLE = f"""
body {{ font: 15px/1.45 {palette.FONT}; color: {palette.TEXT}; background: {palette.PAPER}; max-width: 1180px;
  margin: 2rem auto; padding: 0 1.2rem; }}
h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1.1rem; margin: 2rem 0 0.4rem; }}
p.told {{ border-left: 5px solid; padding: 0.1rem 0 0.1rem 0.8rem; font-size: 1.12rem; }}
p.small, td.none {{ color: {palette.MUTED}; }}
div.wide {{ overflow-x: auto; }} div.beside {{ display: flex; flex-wrap: wrap; column-gap: 4rem; }}
table {{ border-collapse: collapse; font-size: 0.92rem; }}
th, td {{ padding: 0.2rem 0.9rem 0.2rem 0; text-align: left; vertical-align: top; }}
th {{ border-bottom: 1px solid {palette.MUTED}; font-weight: 600; }}
td {{ border-bottom: 1px solid {palette.GRID}; overflow-wrap: anywhere; }}
td.number, th.number {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
td.word {{ white-space: nowrap; }}
@media print {{ body {{ margin: 0; max-width: none; }} }}
"""
MARKED = {**palette.VERDICTS, **palette.RISKS, "harmful": palette.INVALID_TEXT, "error": palette.INVALID_TEXT}


def audit_page(found: Summary) -> str:
    """The page: HTML of a whole document, with plotly's own script in it where there is a picture."""
    title = f"Audit of {found.folder}"
    body = "\n".join(_body(found, title))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n{_script(found)}</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _pictures(found: Summary) -> list[tuple[str, go.Figure, str]]:
    about_paths, about_grid = captions(found)
    pictures = [("Bad rows by path", paths_figure(found), about_paths)] if paths_shown(found) else []
    grid = grid_figure(found)
    return pictures + ([("Bad rows by layer and step", grid, about_grid)] if grid is not None else [])


def _script(found: Summary) -> str:
    if not _pictures(found):
        return ""
    from plotly.offline import get_plotlyjs

    return f"<script>{get_plotlyjs()}</script>\n"


def _body(found: Summary, title: str) -> Iterator[str]:
    yield f"<h1>{escape(title)}</h1>"
    yield f'<p class="told" style="border-color:{audit_colour(found)}">{escape(audit_sentence(found))}</p>'
    if fault := fault_words(found):
        yield f"<p><b>{escape(fault[:1].upper() + fault[1:])}</b>: see below.</p>"
    yield f'<p class="small">{escape(about_words(found))}.</p>'
    for at, (name, figure, about) in enumerate(_pictures(found)):
        yield f"<h2>{escape(name)}</h2>"
        yield figure.to_html(
            full_html=False, include_plotlyjs=False, div_id=f"picture-{at}", config={"displayModeBar": False}
        )
        yield f'<p class="small">{escape(about)}</p>'
    groups = [group_table(name, found).title for name in GROUPED]
    for beside, listed in groupby(tables(found), lambda table: table.title in groups):
        yield f'<div class="{"beside" if beside else "below"}">'
        for table in listed:
            yield from _table(table)
        yield "</div>"
    yield '<p class="small">Made by <i>workbench audit report</i>.</p>'


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


def _table(table: Table) -> Iterator[str]:
    yield f'<section><h2>{escape(table.title)}</h2>\n<div class="wide"><table>'
    yield "<tr>" + "".join(f'<th class="{kind}">{escape(name)}</th>' for name, kind in table.columns) + "</tr>"
    for row in table.rows:
        cells = (_cell(name, kind, cell) for (name, kind), cell in zip(table.columns, row, strict=True))
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</table></div>"
    if table.more:
        yield f'<p class="small">{escape(table.more)}.</p>'
    yield "</section>"


def _cell(name: str, kind: str, cell: Cell) -> str:
    said = cell_text(name, cell)
    marked = f' style="color:{MARKED[said]};font-weight:600"' if name == "finding" and said in MARKED else ""
    return f'<td class="{kind}"{marked}>{escape(said)}</td>'


def cell_text(name: str, cell: Cell) -> str:
    """A cell as people read it; numbers that name something, as a row or a layer, have no separators."""
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return probability(cell, possible=True)
    if isinstance(cell, int):
        return str(cell) if name in ("row", "layer", "step", "rank") else count(cell)
    return cell
