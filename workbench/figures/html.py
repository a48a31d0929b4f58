"""Parts as HTML and as text. All that comes out of files is escaped; tables need no script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape

from workbench.figures import palette
from workbench.figures.parts import Beside, Folded, Note, Part, Picture, Said, Table, cell_text
from workbench.figures.themes import on_dark

# Words that are drawn as chips.
MARKED = {
    **palette.VERDICTS,
    **palette.RISKS,
    **palette.STANDING_TEXTS,
    **palette.STATE_TEXTS,
    "harmful": palette.INVALID_TEXT,
    "error": palette.INVALID_TEXT,
}
# Where a page around a piece of HTML says that it is dark: JupyterLab, VS Code, Colab.
_DARK_PAGES = ('[data-jp-theme-light="false"]', ".vscode-dark", 'html[theme="dark"]')
_CHIPS = ("finding", "verdict", "risk", "state", "standing")  # columns of such words


def dark_style(within: str) -> str:
    """The colours of pieces on a dark page. ``within``: a selector of what is around them."""
    return f"""{within} .wb.wb.wb .said {{ border-left-color: var(--dark); }}
{within} .wb.wb.wb .chip {{ color: {palette.DARK_PAPER}; background: var(--dark); }}
"""


# The class thrice, so that it stands over what a notebook says of tables. Text has the colour of what is around it.
STYLE = f"""
.wb.wb.wb {{ font: 14px/1.45 {palette.FONT}; max-width: 1180px; }}
.wb.wb.wb .said {{ border-left: 5px solid var(--light); padding: 0.1rem 0 0.1rem 0.8rem; margin: 0.4rem 0 0.6rem;
  font-size: 1.12em; overflow-wrap: anywhere; }}
.wb.wb.wb .said span, .wb.wb.wb .said {{ color: inherit; }}
.wb.wb.wb .small {{ opacity: 0.75; margin: 0.3rem 0; overflow-wrap: anywhere; }}
.wb.wb.wb .title {{ font-weight: 600; font-size: 1em; margin: 0.9rem 0 0.3rem; overflow-wrap: anywhere; }}
.wb.wb.wb .wide {{ overflow-x: auto; }}
.wb.wb.wb .beside {{ display: flex; flex-wrap: wrap; column-gap: 4rem; }}
.wb.wb.wb table {{ border-collapse: collapse; border: 0; margin: 0; font-size: 0.95em; table-layout: auto; }}
.wb.wb.wb tr {{ background: none; }}
.wb.wb.wb th, .wb.wb.wb td {{ padding: 0.2rem 1rem 0.2rem 0; text-align: left; vertical-align: top; border: 0;
  border-bottom: 1px solid {palette.EDGE}; background: none;
  max-width: 46rem; white-space: normal; overflow-wrap: anywhere; }}
.wb.wb.wb th {{ font-weight: 600; }}
.wb.wb.wb .number {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
.wb.wb.wb .word {{ white-space: nowrap; }} .wb.wb.wb .text {{ min-width: 9rem; }}
.wb.wb.wb .chip {{ color: {palette.PAPER}; background: var(--light); border-radius: 3px; padding: 0.05rem 0.4rem;
  font-weight: 600; -webkit-print-color-adjust: exact; print-color-adjust: exact; }}
.wb.wb.wb details {{ margin: 0.7rem 0; }} .wb.wb.wb summary {{ cursor: pointer; font-weight: 600; }}
{"".join(map(dark_style, _DARK_PAGES))}"""


def fragment(parts: Iterable[Part], draw: Callable[[Picture], str] = lambda picture: "", heading: str = "div") -> str:
    """Parts as HTML of the class ``wb``, which ``STYLE`` is for.

    Args:
        draw: a picture as HTML; left out where it gives nothing. heading: the element of titles.
    """
    return f'<div class="wb">\n{"".join(_pieces(parts, draw, heading))}</div>\n'


def _pieces(parts: Iterable[Part], draw: Callable[[Picture], str], heading: str) -> Iterator[str]:
    for part in parts:
        match part:
            case Said(text, colour):
                yield f'<div class="said" style="{_both(colour)}"><span>{escape(text)}</span></div>\n'
            case Note(text):
                yield f'<div class="small">{escape(text)}</div>\n'
            case Picture(title, _, about):
                if drawn := draw(part):
                    beneath = f'<div class="small">{escape(about)}</div>' if about else ""
                    yield f"<section>{_title(title, heading)}\n{drawn}\n{beneath}</section>\n"
            case Table():
                yield table_html(part, heading)
            case Beside(tables):
                yield f'<div class="beside">{"".join(table_html(one, heading) for one in tables)}</div>\n'
            case Folded(title, inside):
                body = "".join(_pieces(inside, draw, heading))
                yield f"<details><summary>{escape(title)}</summary>\n{body}</details>\n"


def _both(colour: str) -> str:
    """A colour, and what it becomes on a dark page."""
    return f"--light:{colour};--dark:{on_dark(colour)}"


def _title(text: str, heading: str) -> str:
    return f'<{heading} class="title">{escape(text)}</{heading}>' if text else ""


def table_html(table: Table, heading: str = "div") -> str:
    """A table with its title, and what it leaves out beneath."""
    lines = [f'<section>{_title(table.title, heading)}\n<div class="wide"><table>\n']
    if any(name for name, _ in table.columns):
        heads = (f'<th class="{kind}">{escape(name)}</th>' for name, kind in table.columns)
        lines.append(f"<thead><tr>{''.join(heads)}</tr></thead>\n")
    lines.append("<tbody>\n")
    for row in table.rows:
        cells = zip(table.columns, row, strict=True)
        lines.append(f"<tr>{''.join(_cell(name, kind, cell_text(name, cell)) for (name, kind), cell in cells)}</tr>\n")
    lines.append("</tbody></table></div>")
    if table.more:
        lines.append(f'<div class="small">{escape(table.more[:1].upper() + table.more[1:])}.</div>')
    return "".join([*lines, "</section>\n"])


def _cell(name: str, kind: str, said: str) -> str:
    word, comma, rest = said.partition(",")
    if name in _CHIPS and word in MARKED:
        chip = f'<span class="chip" style="{_both(MARKED[word])}">{escape(word)}</span>'
        return f'<td class="{kind}">{chip}{escape(comma + rest)}</td>'
    return f'<td class="{kind}">{escape(said)}</td>'


def as_text(parts: Iterable[Part]) -> str:
    """Parts as plain text; pictures are left out."""
    return "\n\n".join(filter(None, (_text(part) for part in parts)))


def _text(part: Part) -> str:
    match part:
        case Said(text) | Note(text):
            return text
        case Table():
            return _table_text(part)
        case Beside(tables):
            return as_text(tables)
        case Folded(title, inside):
            return "\n\n".join(filter(None, [title, as_text(inside)]))
    return ""


def _table_text(table: Table) -> str:
    names = [name for name, _ in table.columns]
    cells = [[cell_text(name, cell) for name, cell in zip(names, row, strict=True)] for row in table.rows]
    lines = [names, *cells] if any(names) else cells
    widths = [max((len(line[at]) for line in lines), default=0) for at in range(len(names))]
    kinds = [kind for _, kind in table.columns]

    def aligned(line: Sequence[str]) -> str:
        placed = zip(line, widths, kinds, strict=True)
        return "  ".join(t.rjust(width) if kind == "number" else t.ljust(width) for t, width, kind in placed).rstrip()

    return "\n".join(filter(None, [table.title, *map(aligned, lines), table.more]))
