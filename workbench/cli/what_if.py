"""``workbench what-if``: the risk of a row with another buffer, key, k, length or other scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.cli.exits import BAD, CLEAN, FOUND, NOTHING_JUDGED, complain
from workbench.cli.jsonout import print_json
from workbench.cli.layout import Column
from workbench.cli.options import (
    INT32,
    File,
    Given,
    Json,
    Naming,
    OneRow,
    PathOfRow,
    integer,
    one_row,
    one_thread,
    open_file,
    spread,
)
from workbench.cli.tables import lines, number, probability, say, table
from workbench.errors import UsageError
from workbench.words import MINUS, listed

if TYPE_CHECKING:
    from workbench.analysis.curves import Curve
    from workbench.analysis.risk import Risk
    from workbench.capture import Row
    from workbench.runs.whatif import WhatIf

ALTERED = "What is taken to be another (all of it leaves the file as it is)"


def _other(most: int, help_: str, least: int = 1) -> Any:
    return typer.Option(**integer(least, most), help=help_, rich_help_panel=ALTERED)


def _real(text: str | float) -> float:
    """A number; anything else is said in one short line."""
    try:
        return float(text)
    except ValueError:
        shown = text if len(str(text)) <= 24 else f"{str(text)[:12]}… ({len(str(text))} characters)"
        raise typer.BadParameter(f"{shown!r} is no number") from None


@spread
def what_if(
    file: File,
    naming: Naming,
    given: Given,
    row: OneRow = None,
    path: PathOfRow = None,
    variant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its variant; by default the release's own, else stock.")
    ] = None,
    capacity: Annotated[int | None, _other(INT32, "Scores that the candidate buffer holds.")] = None,
    rank_capacity: Annotated[int | None, _other(INT32, "Scores that one block of a cluster stores.")] = None,
    key_bits: Annotated[int | None, _other(16, "Bits of the coarse key, from the top of the fp16 key.")] = None,
    k: Annotated[int | None, _other(INT32, "Winners wanted; of the row as it is too where the file says none.")] = None,
    length: Annotated[int | None, _other(INT32, "Only the row's first so many scores.", 0)] = None,
    scale: Annotated[
        float | None,
        typer.Option(parser=_real, metavar="X", help="Multiply the scores, in their dtype.", rich_help_panel=ALTERED),
    ] = None,
    shift: Annotated[
        float | None,
        typer.Option(parser=_real, metavar="X", help="Then add to the scores.", rich_help_panel=ALTERED),
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="PARAMETER", help="List the risk against one of these, as in capacity.")
    ] = None,
    json: Json = False,
) -> int:
    """Ask what would become of a row with another buffer, coarse key, k or length, or with other scores.

    Nothing is run: the risk is worked out over every arrival order, of the altered record of the path and the altered
    row. Exit code 1 if the row, as altered, can lose winners; 2 if the path does not take it.

    workbench what-if capture.safetensors --row 3 --capacity 6144
    workbench what-if capture.safetensors --row 3 --path vllm.filtered --scale 0.25
    workbench what-if capture.safetensors --row 3 --against key_bits
    """
    from workbench.analysis.risk import LOSING
    from workbench.runs.whatif import what_if as ask

    with open_file(file, naming, given) as capture:
        at = one_row(row, capture)
        held, notes = given.apply(capture[at]), given.notes(capture)
        where, release = _path(held, given, k, path)
        with one_thread():
            found = ask(
                held,
                where,
                variant=variant or release,
                capacity=capacity,
                rank_capacity=rank_capacity,
                key_bits=key_bits,
                k=k,
                length=length,
                scale=scale,
                shift=shift,
            )
            drawn = None if against is None else found.curve(against.replace("-", "_"))
        about = {"capture": capture.info.path, "row": at}
        if json:
            print_json(_document(found, drawn, about, notes))
        else:
            _print(found, drawn, about, notes)
    if found.after.refused or (found.after.level is None and not found.after.finding):
        complain(NOTHING_JUDGED)
        return BAD
    return FOUND if found.after.level in LOSING or found.after.finding else CLEAN


def _path(row: Row, given: Given, k: int | None, path: str | None) -> tuple[str, str]:
    """The path to ask of, and the variant that the row's release has of it."""
    from workbench.analysis.risk import LOSING
    from workbench.runs.case import Case
    from workbench.runs.inspect import census_of

    case = Case(row, given.op, given.release, given.device, k if row.k is None else None)
    route = case.route
    if path is None:
        if case.unrouted or route is None or route.path is None:
            losing = [risk.path for risk in census_of(case) if risk.level in LOSING]
            such = f"; the row can lose winners on {listed(losing)}" if losing else ""
            either = f"{case.cure}, or " if case.cure else ""
            why = f"which path the row reaches is not known: {case.unrouted}"
            raise UsageError(f"{why}; {either}give a path (--path){such}")
        path = route.path
    own = route.variant if route is not None and route.path == path else None
    return path, own or "stock"


def _document(found: WhatIf, drawn: Curve | None, about: dict[str, object], notes: Sequence[str]) -> object:
    from workbench.runs.whatif_words import what_if_sentence

    return {
        "command": "what-if",
        **about,
        "path": found.setting.path.name,
        "variant": found.setting.variant.name,
        "notes": list(notes),
        "sentence": what_if_sentence(found),
        "altered": found.alteration.given,
        "k": [found.setting.k, found.k],
        "length": [found.setting.row.length, found.row.length],
        "before": found.before,
        "after": found.after,
        "enough": found.enough,
        "likely": found.likely,
        "scores": found.scores,
        "fitting_scale": found.fitting_scale,
        "curve": None if drawn is None else {"parameter": drawn.parameter, "at": drawn.at, "risks": drawn.risks},
    }


def _print(found: WhatIf, drawn: Curve | None, about: dict[str, object], notes: Sequence[str]) -> None:
    from workbench.runs.whatif_words import LABELS, what_if_sentence

    say(what_if_sentence(found), "bold")
    say(f"{about['capture']}, row {about['row']}: k {found.setting.k}, length {found.setting.row.length}")
    lines((f"note: {note}" for note in notes), indent="")
    say("")
    both = (found.before, found.after)
    rows: list[tuple[object, ...]] = [
        ("k", found.setting.k, found.k),
        ("length", found.setting.row.length, found.row.length),
        ("beyond fp16", *found.scores.overflowing),
    ]
    for name in ("threshold_bin", "above", "need", "population", "capacity", "stored"):
        rows.append((name.replace("_", " "), *(getattr(risk, name) for risk in both)))
    told = ("risk", "p clean", "mean lost", "least lost", "most lost")
    rows += zip(told, *(_told(risk) for risk in both), strict=True)
    columns = [Column("", "word"), Column("as it is"), *([Column("altered")] if found.alteration.given else [])]
    shown = [one[: len(columns)] for one in rows if one[1:] != (None, None)]
    table(columns, shown)
    if drawn is not None:
        columns = [Column(LABELS[drawn.parameter]), Column("population"), Column("capacity"), Column("risk", "word")]
        columns += [Column("p clean"), Column("mean lost"), Column("least"), Column("most")]
        listed = [_line(at, risk) for at, risk in zip(drawn.at, drawn.risks, strict=True)]
        kept = [at for at, column in enumerate(columns) if column not in columns[:at]]  # the parameter may be capacity
        table([columns[at] for at in kept], [[line[at] for at in kept] for line in listed])


def _told(risk: Risk) -> tuple[object, ...]:
    from workbench.runs.whatif_words import standing_word

    clean = None if risk.p_clean is None else probability(risk.p_clean, risk.level)
    mean = None if risk.expected_missing is None else number(risk.expected_missing)
    return standing_word(risk), clean, mean, risk.least_missing, risk.most_missing


def _line(at: float, risk: Risk) -> list[object]:
    from workbench.runs.whatif_words import number as shown

    return [shown(at).replace("-", MINUS), risk.population, risk.capacity, *_told(risk)]
