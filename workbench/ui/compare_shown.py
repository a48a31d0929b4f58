"""One cell of compared paths in full, and all of them as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import streamlit as st

from workbench.analysis.risk import NOT_MODELLED
from workbench.figures.compare import shown_texts, span_text
from workbench.figures.words import count, plural, probability
from workbench.paths.catalog import get_path
from workbench.runs.compare import NOT_CALLED, Compared, Place
from workbench.runs.compare_words import spot_sentence
from workbench.runs.law_words import law_notes
from workbench.runs.matrix import Cell
from workbench.runs.matrix_words import clean_notes, why_words
from workbench.runs.run import STOCK
from workbench.ui import inspector, state
from workbench.ui.common import figures_row
from workbench.ui.compare_view import COMPARE
from workbench.ui.engines import answer
from workbench.ui.rowpage import Shown, row_link
from workbench.ui.view import CUDA, MODEL, VENDOR
from workbench.words import few

_WIDE = 760  # pixels of all columns in a window of 1280, beside the sidebar and the boxes
_LETTER, _PADDING = 5.3, 17  # pixels of a letter of a table, and of a cell beside its text
_MOST = 12  # reasons in full


def show_cell(shown: Shown, found: Compared, place: Place, key: str) -> None:
    """The numbers of one cell, why it is refused where it is, and the way to its row."""
    cell = found.cells[place]
    title = f"{cell.path} ({cell.variant})" if cell.path and cell.variant else place[0]
    if found.axis == "releases":
        title = f"{place[0]} of {place[1]}"
    elif found.axis == "engines":
        title = f"{title} · {place[1]}"
    st.markdown(f"##### {state.plain(title)}: {cell.state}")
    if cell.unknown == NOT_CALLED and cell.engine in (CUDA, VENDOR):
        path = cell.path if cell.engine == CUDA else None
        named = f"compare:{place}:{key}"
        if answer(shown.file, shown.seen, shown.number, cell.engine, path, named) is not None:
            st.rerun()  # what stands above it tells of the calls as well
        return
    reasons = cell.refused.split("; ") if cell.refused and not cell.fault else []
    if reasons:
        who = title if found.axis == "releases" else cell.engine if cell.engine != MODEL else cell.path
        told = [
            f"{state.plain(who or place[0])} does not take the row:",
            "",
            *(f"- {state.plain(one)}" for one in reasons),
        ]
        st.markdown("\n".join(told))
    else:
        st.markdown(state.plain(spot_sentence(found, place)))
    _figures(shown, found, cell)
    for note in _notes(cell):
        st.caption(state.plain(f"{note[:1].upper()}{note[1:]}{'' if note.endswith('.') else '.'}"))
    if cell.path is not None:
        fields: dict[str, object] = {"path": cell.path}
        fields |= {"variant": cell.variant} if cell.variant != STOCK else {}
        fields |= {"op": place[0], "release": place[1]} if found.axis == "releases" else {}
        fields |= {"engine": cell.engine, "view": "diff"} if found.axis == "engines" else {}
        as_sent = f", as {title} sends it" if found.axis == "releases" else ""
        label = f"Inspect row {count(shown.number)} on {cell.path}{as_sent}"
        row_link(inspector.page(), label, ":material/search:", **fields)


def _figures(shown: Shown, found: Compared, cell: Cell) -> None:
    risk = None
    if cell.path is not None and cell.variant is not None:
        path = get_path(cell.path)
        risk = shown.seen.case.risk(path, path.variant(cell.variant))
    level = risk.told if risk is not None and risk.observed else cell.risk or "–"
    clean = probability(cell.p_clean, possible=cell.risk == "at risk")
    of_calls = [
        ("Verdict", cell.verdict or "–", "of the worst call"),
        ("Calls that lost", f"{count(cell.lost_calls)} of {count(cell.calls)}", ""),
        ("Missing a call", span_text(cell), f"values of the exact top {count(found.of)} that a call lacks"),
    ]
    figures_row(
        [
            *(of_calls if cell.calls else []),
            ("Risk", level, "over every arrival order, by the analysis"),
            ("p clean", clean, "that a random arrival order loses nothing"),
            ("Population", count(risk.population if risk else None), "scores in the threshold bin"),
            ("Capacity", count(risk.room if risk else None), "how many of this bin the buffer takes"),
        ]
    )


def _notes(cell: Cell) -> list[str]:
    """What must be known of a cell besides what is said already, and what its variant is."""
    notes = [note for note in cell.notes if note not in cell.why and (cell.why or cell.state != "unknown")]
    notes += clean_notes(cell)
    if cell.path is not None and cell.variant is not None:
        variant = get_path(cell.path).variant(cell.variant)
        modelled = "" if variant.modelled else "; not modelled"
        notes.append(f"variant {cell.variant}: {variant.note.removesuffix('.')} ({variant.evidence.value}{modelled})")
    return notes


def show_table(found: Compared, chosen: Place, key: str) -> None:
    """Every cell with its numbers, those of calls where some were made, and why it has none, beneath in full where that
    is long; a click on one shows it."""
    places, table = found.places(), found.to_pandas()
    cells = [found.cells[place] for place in places]
    for name, texts in zip(
        ("missing", "p_clean", "expected_missing"), zip(*map(shown_texts, cells), strict=True), strict=True
    ):
        table[name] = texts
    routed = found.axis == "releases"
    table["on"], table["why"] = [_on(cell) for cell in cells], [_reason(cell, routed) for cell in cells]
    widget = f"compared:{key}"
    st.session_state[widget] = {"selection": {"rows": [places.index(chosen)] if chosen in places else []}}

    def take() -> None:
        selection = st.session_state[widget].selection
        at = [cell[0] for cell in selection.cells] or selection.rows
        if at and places[at[0]] != chosen:  # the browser may tell of the line that was marked for it: no choice
            COMPARE.change(on=places[at[0]][0], at=places[at[0]][1])

    st.markdown(f"**{plural(len(places), 'cell')}** — a click on one shows it above")
    widths = {"op": 186, "release": 132} if routed else {"on": 222}
    widths |= {"engine": 62} if found.axis == "engines" else {}
    widths |= {"state": 66}
    widths |= {"verdict": 56, "missing": 62} if any(cell.calls for cell in cells) else {}
    widths |= {"p_clean": 60, "expected_missing": 68}
    widths["why"] = _WIDE - sum(widths.values())
    text, right = st.column_config.TextColumn, {"alignment": "right"}
    more: dict[str, dict[str, object]] = {
        "on": {"label": "path"},
        "missing": {**right, "help": "values missing a call, on average"},
        "p_clean": {**right, "label": "p clean"},
        "expected_missing": {**right, "label": "mean lost", "help": "by a random arrival order"},
        "why": {"label": "path, and why" if routed else "why"},
    }
    st.dataframe(
        table,
        key=widget,
        hide_index=True,
        placeholder="–",
        height="content" if len(places) <= 13 else 480,
        on_select=take,
        selection_mode=["single-row", "single-cell"],
        column_order=list(widths),
        column_config={name: text(width=width, **more.get(name, {})) for name, width in widths.items()},  # type: ignore[arg-type]
    )
    _in_full(cells, table["why"], (widths["why"] - _PADDING) / _LETTER)
    for note in law_notes((cell.path, cell.risk, cell.clean_at_most) for cell in cells):
        st.caption(state.plain(f"{note}."))


def _in_full(cells: Sequence[Cell], shown: Iterable[str], room: float) -> None:
    """The reasons that the table cuts, each once, and of which cells. ``room``: characters of a line of the table."""
    found: dict[str, list[str]] = {}
    for cell, text in zip(cells, shown, strict=True):
        if len(text) > room or text.startswith(NOT_MODELLED):
            name = f"{cell.op} of {cell.release}" if cell.release else _on(cell)
            found.setdefault(why_words(cell) or "; ".join(cell.notes), []).append(name)
    if found:
        told = [f"- {state.plain(f'{few(names, 2)}: {why}')}" for why, names in [*found.items()][:_MOST]]
        more = len(found) - len(told)
        told += [f"- {plural(more, 'reason')} more, each shown above by a click on its cell"] if more else []
        st.caption("Reasons in full:\n\n" + "\n".join(told))


def _on(cell: Cell) -> str:
    return f"{cell.path} ({cell.variant})" if cell.path and cell.variant else "–"


def _reason(cell: Cell, routed: bool) -> str:
    """Why a cell has no verdict, or what must be known; in short where nothing models it. ``routed``: after the path
    that its release takes."""
    why = cell.why or "; ".join(cell.notes)
    if why.startswith(NOT_MODELLED):
        why = why.partition("; ")[0]  # in full beneath
    return (f"{_on(cell)}: {why}" if why else _on(cell)) if routed and cell.path else why
