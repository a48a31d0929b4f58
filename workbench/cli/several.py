"""Several inspected rows: how they fared in one sentence, and a line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from workbench.cli.layout import Column
from workbench.cli.order import order_warning
from workbench.cli.seen import Seen
from workbench.cli.tables import NONE, counted, lines, named, number, print_refusals, ranges, say, table

if TYPE_CHECKING:
    from workbench.capture import Capture
    from workbench.runs.report import Line


def show(capture: Capture, seen: list[Seen], notes: list[str]) -> None:
    """Print them for people."""
    from workbench.runs.law_words import law_notes

    ks, calls = {row.k for row in seen}, {row.call for row in seen}
    shared = [f"k {ks.copy().pop()}"] if len(ks) == 1 else []
    shared += [f"call {calls.copy().pop()}"] if len(calls) == 1 else []
    say(heading(seen), "bold")
    say(", ".join([capture.info.path, capture.info.dtype, *shared]))
    lines((f"note: {note}" for note in notes), indent="")
    _print_judged(seen)
    say("")
    columns = _columns(seen, several_ks=len(ks) > 1, several_calls=len(calls) > 1)
    table([column for column, _ in columns], zip(*(cells for _, cells in columns), strict=True))
    lines(order_warning(row.row for row in seen if row.order_unreliable), indent="")
    lines(law_notes((row.worst.path, row.worst.risk, None) for row in seen if row.worst), indent="")
    told = dict.fromkeys((row.call, row.of_the_call) for row in seen if row.of_the_call)
    lines((f"Call {call}: {words}" for call, words in told), indent="")
    print_refusals(
        (named(one.path, one.variant) or "the op", row.row, one.reasons) for row in seen for one in row.refused
    )
    if capture.info.rows > 1:
        say("One row in full: workbench inspect FILE --row N")


def _print_judged(seen: list[Seen]) -> None:
    groups: dict[tuple[str, str], list[Seen]] = {}
    for row in seen:
        groups.setdefault((row.judged, row.judged_because), []).append(row)
    for (judged, because), rows in groups.items():
        numbers = [row.row for row in rows]
        which = f" in {'row' if len(numbers) == 1 else 'rows'} {ranges(numbers)}" if len(groups) > 1 else ""
        what = f"{judged}, {because}" if because == "as asked" else because
        shown = sorted({f"{line.op}, {line.release}" for row in rows for line in _lines(row) if line.op})
        say(f"Judged{which}: {what}" + (f" ({'; '.join(shown)})" if judged == "reached" and shown else ""))
    if any(row.paths_judged > 1 for row in seen):
        say("Where several paths are judged, the worst one is shown.")


def _columns(seen: list[Seen], several_ks: bool, several_calls: bool) -> list[tuple[Column, Sequence[object]]]:
    """The columns that say something about these rows, with their cells."""
    several_paths = any(row.paths_judged > 1 for row in seen)
    recorded = any(row.recorded is not None for row in seen)
    columns: list[tuple[bool, Column, Sequence[object]]] = [
        (True, Column("row"), [row.row for row in seen]),
        (several_calls, Column("call"), [row.call for row in seen]),
        (several_ks, Column("k"), [row.k for row in seen]),
        (True, Column("length"), [row.length for row in seen]),
        (
            True,
            Column("path", "word"),
            [named(row.worst.path, row.worst.variant) if row.worst else None for row in seen],
        ),
        (
            True,
            Column("verdict", "word"),
            [_verdict(row.worst, row.refused) for row in seen],
        ),
        (True, Column("missing"), [row.worst.missing if row.worst else None for row in seen]),
        (True, Column("risk", "word"), [row.worst.risk if row.worst else None for row in seen]),
        (True, Column("expected\nmissing"), [_expected(row.worst) for row in seen]),
        (True, Column("population /\ncapacity"), [_fill(row.worst) for row in seen]),
        (several_paths, Column("paths\nat risk"), [_at_risk(row) for row in seen]),
        (recorded, Column("recorded", "word"), [_recorded(row.recorded) for row in seen]),
    ]
    return [(column, cells) for wanted, column, cells in columns if wanted]


def _expected(line: Line | None) -> str:
    return number(None if line is None else line.expected_missing)


def _verdict(line: Line | None, refused: object = ()) -> str | None:
    if line is None:
        return "refused" if refused else None
    return "refused" if line.refused is not None else line.verdict


def _fill(line: Line | None) -> str:
    if line is None or line.population is None or line.capacity is None:
        return NONE
    return f"{line.population} / {line.capacity}"


def _at_risk(row: Seen) -> str:
    return f"{row.paths_at_risk} of {row.paths_judged}" if row.paths_judged else NONE


def _recorded(line: Line | None) -> str | None:
    verdict = _verdict(line)
    return f"{verdict}, {line.missing}" if line is not None and line.missing else verdict


def heading(seen: list[Seen]) -> str:
    """How the inspected rows fared, in one sentence."""
    kinds = Counter(_fate(row) for row in seen)
    parts = [counted(kinds["invalid"], "has invalid slots", "have invalid slots")] if kinds["invalid"] else []
    if kinds["lossy"]:
        parts.append(f"{kinds['lossy']} lost winners ({_most(seen)})")
    if kinds["at risk"]:
        parts.append(counted(kinds["at risk"], "lost none but is at risk", "lost none but are at risk"))
    if kinds["not run, at risk"]:
        parts.append(counted(kinds["not run, at risk"], "was not run but is at risk", "were not run but are at risk"))
    if kinds["harm"]:
        harm = "would hang, trap or leave {} memory"
        parts.append(counted(kinds["harm"], harm.format("its"), harm.format("their")))
    if kinds["clean"]:
        parts.append(f"{kinds['clean']} lost none")
    if kinds["not run"]:
        parts.append(counted(kinds["not run"], "was not run", "were not run"))
    models = kinds["lossy"] + kinds["invalid"] and not any(row.recorded for row in seen)
    return (
        f"Of {counted(len(seen), 'row')}, {', '.join(parts)}{', by the models in one arrival order' if models else ''}."
    )


def _fate(row: Seen) -> str:
    if row.worst is not None and row.worst.refused is not None and row.worst.finding is not None:
        return "harm"
    if "invalid" in row.verdicts:
        return "invalid"
    if "lossy" in row.verdicts:
        return "lossy"
    ran = bool(row.verdicts - {None})
    if row.finding:
        return "at risk" if ran else "not run, at risk"
    return "clean" if ran else "not run"


def _most(seen: list[Seen]) -> str:
    lost, row, k = max((line.missing or 0, -row.row, row.wanted) for row in seen for line in _lines(row))
    return f"most in row {-row}: {lost} of {k}"


def _lines(row: Seen) -> Iterator[Line]:
    yield from (line for line in (row.worst, row.recorded) if line is not None)
