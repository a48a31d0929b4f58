"""The page of remedies: what would keep every winner of a row or of a capture, and what that is known to cost."""

from __future__ import annotations

import streamlit as st

from workbench.errors import WorkbenchError
from workbench.figures import palette
from workbench.figures.remedies import MOST, holds_for, label_of, remedies_figure, remedies_table, remedy_at
from workbench.figures.words import count, plural
from workbench.runs.advise_words import cost_sentence, cost_text, part_sentence, stands_text
from workbench.runs.remedy import Advice, Part, Remedy
from workbench.ui import downloads, inspector, remedies_made, state
from workbench.ui.background import show_background
from workbench.ui.common import callout, code, error_box, figures_row, picture
from workbench.ui.remedies_view import CAPTURE, REMEDIES, ROW
from workbench.ui.rowpage import Shown, row_fragment, row_link, show_row_page
from workbench.ui.view import brief

_CONTROLS = {"the op": "Op", "the release": "Release", "the device": "Device"}  # of a row's circumstances
_SCOPES = {ROW: "This row", CAPTURE: "All rows of the capture"}


def page() -> st.Page:
    """The page, for navigation and for links to it."""
    return st.Page(remedies_page, title="Remedies", url_path="remedies")


def remedies_page() -> None:
    """What would keep every winner."""
    show_row_page(REMEDIES, _show)


@row_fragment
def _show(shown: Shown) -> None:
    """The page below the row's circumstances; a change in it runs nothing else."""
    several = len(shown.file.capture) > 1
    scope = (REMEDIES.current().scope or ROW) if several else ROW
    if several:
        _pick_scope(scope)
    key = f"{scope}:{shown.key if scope == ROW else shown.key.rpartition(':')[0]}"
    try:
        found = remedies_made.of_row(shown) if scope == ROW else _of_capture(shown, key)
    except WorkbenchError as error:
        error_box(error)
        return
    if found is not None and found.parts:
        _part(shown, _pick_part(found, key), scope, key)
    REMEDIES.write_url()


def _pick_scope(scope: str) -> None:
    st.session_state["remedies-scope"] = scope
    st.segmented_control(
        "For",
        list(_SCOPES),
        key="remedies-scope",
        format_func=_SCOPES.__getitem__,
        on_change=lambda: REMEDIES.change(scope=st.session_state["remedies-scope"], part=None),
        required=True,
        wrap=False,
    )


def _of_capture(shown: Shown, key: str) -> Advice | None:
    """Advice on all rows, once it is asked for; with progress and a stop."""
    held, rows = remedies_made.of_capture(shown), len(shown.file.capture)
    if held.going.busy:
        show_background(shown.file, held.going, f"remedies:{key}")
        return None
    if held.done < rows and remedies_made.is_quick(shown.file.capture):
        for _ in remedies_made.count_rows(shown, held):
            pass
    elif held.done < rows:
        _offer(shown, rows, held, key)
    return held.advice() if held.done else None


def _offer(shown: Shown, rows: int, held: remedies_made.Made, key: str) -> None:
    """A button that has all rows judged, where they are not too many."""
    if rows > remedies_made.MOST_ROWS:
        st.info(
            f"{count(rows)} rows are more than the {count(remedies_made.MOST_ROWS)} that are judged here: "
            "`workbench advise FILE` takes any number."
        )
        return
    st.button(
        f"Judge {plural(rows - held.done, 'row')} under every remedy",
        key=f"remedies-judge:{key}",
        icon=":material/play_arrow:",
        help=f"{count(held.done)} of {count(rows)} are judged",
        on_click=lambda: held.going.start(lambda: remedies_made.count_rows(shown, held)),
    )
    if (problem := held.going.problem()) is not None:
        error_box(problem)


def _pick_part(found: Advice, key: str) -> Part:
    """The rows of one op, chosen where there are several."""
    parts, chosen = found.parts, REMEDIES.current().part or 0
    if chosen >= len(parts):
        REMEDIES.note(f"The link names op {chosen} of the capture; it has {len(parts)}, from 0.")
        REMEDIES.settle(part=None)
        chosen = 0
    if len(parts) > 1:
        widget = f"remedies-part:{key}"
        st.session_state[widget] = chosen
        st.selectbox(
            "Rows of",
            range(len(parts)),
            key=widget,
            format_func=lambda at: f"{parts[at].op or 'an unknown op'} · {plural(parts[at].now.rows, 'row')}",
            on_change=lambda: REMEDIES.change(part=st.session_state[widget], remedy=None),
        )
    return parts[chosen]


def _part(shown: Shown, part: Part, scope: str, key: str) -> None:
    callout(part_sentence(part), _colour(part))
    held = [_need(need) for need in part.needs]
    held += [f"{note[:1].upper()}{note[1:]}." for note in part.notes]
    if held:
        st.caption(state.plain(" ".join(held)))
    if not part.remedies:
        st.info("Nothing is known here that would change what these rows take.")
        return
    chosen = _chosen(part)
    _chart(shown, part, chosen, scope, key)
    _remedy(shown, part, chosen, scope)
    _table(part, chosen, key)


def _need(need: str) -> str:
    """What would tell more, by the control that takes it where there is one."""
    control = next((control for name, control in _CONTROLS.items() if need.startswith(name)), None)
    if control is None:
        return f"To tell more, the capture would have to say {need}."
    return f"To tell more, choose {need}, in {control} above."


def _colour(part: Part) -> str:
    if part.now.certain:
        return palette.CERTAIN_TEXT
    if part.at_risk:
        return palette.AT_RISK_TEXT
    return palette.SAFE_TEXT if part.now.safe == part.now.rows else palette.REFUSED_TEXT


def _chosen(part: Part) -> Remedy:
    """The remedy that is shown in full: the one chosen, else the first."""
    wanted = REMEDIES.current().remedy
    found = next((one for one in part.remedies if one.name == wanted), None)
    if wanted is not None and found is None:
        REMEDIES.note(f"The link's remedy, {brief(wanted)}, is none of these rows'.")
        REMEDIES.settle(remedy=None)
    return found or part.remedies[0]


def _chart(shown: Shown, part: Part, chosen: Remedy, scope: str, key: str) -> None:
    chart = f"remedies:{key}:{chosen.name}"

    def take() -> None:
        clicked = st.session_state[chart].selection.points
        remedy = remedy_at(part, float(clicked[0]["y"])) if clicked else None
        if remedy is not None:
            REMEDIES.change(remedy=remedy.name)

    row = f"row{shown.number}" if scope == ROW else None
    saved = downloads.file_name(shown.file.entry.key, row, part.op, "remedies")
    picture(
        remedies_figure(part, chosen),
        key=chart,
        config=downloads.picture(saved),
        on_select=take,
        selection_mode="points",
    )
    if len(part.remedies) > MOST:
        st.caption(f"The first {MOST} of {count(len(part.remedies))} are drawn; the table holds all.")
    beside = "Click a mark to see it below."
    downloads.offer(saved, f"remedies:{key}", {"Remedies": Advice((part,)).to_pandas}, beside=beside)


def _remedy(shown: Shown, part: Part, remedy: Remedy, scope: str) -> None:
    """One remedy in full: how to apply it, what it rests on, and what must be known."""
    st.markdown(f"##### {state.plain(f'{remedy.what}: {remedy.state}')}")
    st.markdown(state.plain(f"{remedy.how[:1].upper()}{remedy.how[1:]}."))
    if remedy.given:
        code(remedy.given)
    figures_row(
        [
            ("Rows kept", f"{count(remedy.rows.safe)} of {count(remedy.rows.rows)}", stands_text(remedy.rows)),
            ("As it is", f"{count(part.now.safe)} of {count(part.now.rows)}", stands_text(part.now)),
            ("Holds for", holds_for(remedy), "whether rows of every length keep their winners in such calls"),
            ("Evidence", remedy.evidence, "observed on released ops, described in sources, or by the model alone"),
            ("Time", cost_text(remedy.cost), "over that of now, medians on an H200"),
        ]
    )
    st.caption(state.plain(cost_sentence(remedy.cost)))
    for text in (*remedy.caveats, *remedy.refusals):
        st.markdown(state.plain(f"{text[:1].upper()}{text[1:]}."))
    if remedy.paths:
        taken = ", ".join(f"{path} ({variant}): {plural(rows, 'row')}" for path, variant, rows in remedy.paths[:6])
        more = f" and {len(remedy.paths) - 6} more" if len(remedy.paths) > 6 else ""
        st.caption(state.plain(f"Paths then: {taken}{more}."))
    if remedy.first_bad is not None and scope == CAPTURE:
        number = remedy.first_bad[1]
        row_link(
            inspector.page(),
            f"Inspect row {count(number)}, the first that is not kept",
            ":material/search:",
            row=number,
        )


def _table(part: Part, chosen: Remedy, key: str) -> None:
    """Every remedy; a click shows it in full."""
    many = len(part.remedies)
    st.markdown(f"**{count(many)} {'remedy' if many == 1 else 'remedies'}**, the best first")
    table, names = f"remedies-table:{key}", [one.name for one in part.remedies]
    st.session_state[table] = {"selection": {"rows": [names.index(chosen.name)]}}

    def take() -> None:
        selection = st.session_state[table].selection
        places = [cell[0] for cell in selection.cells] or selection.rows
        if places:
            REMEDIES.change(remedy=names[places[0]])

    text, several = st.column_config.TextColumn, part.now.rows > 1
    # Those up to the time fit beside the sidebar in a window of 1280 pixels: 760 of them, 795 with the boxes. Of one
    # row the state tells how many are kept.
    widths = {"remedy": 246, "state": 116, "rows kept": 72} if several else {"remedy": 316, "state": 118}
    widths |= {"holds for": 84, "evidence": 152, "time": 90, "kind": 62, "the others": 150}
    shown = remedies_table(part)
    shown["remedy"] = [label_of(one, 44 if several else 56) for one in part.remedies]  # as the picture has them
    st.dataframe(
        shown,
        key=table,
        hide_index=True,
        height="content" if len(names) <= 14 else 500,
        on_select=take,
        selection_mode=["single-row", "single-cell"],
        column_order=list(widths),
        column_config={name: text(width=width) for name, width in widths.items()},
    )
