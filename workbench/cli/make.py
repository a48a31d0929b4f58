"""``workbench make``: rows of a named distribution, or rows that fill a path's buffer and more."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.cli.exits import CLEAN
from workbench.cli.jsonout import print_json
from workbench.cli.layout import Column
from workbench.cli.options import INT32, Json, RowsSeed, integer, one_thread
from workbench.cli.tables import counted, lines, number, probability, say, table
from workbench.errors import UsageError
from workbench.targets import check_target

if TYPE_CHECKING:
    from workbench.analysis.risk import Risk
    from workbench.capture import Row

CURE = "give --force"
AGAINST = "Rows against a path"
SHOWN = 10
_POPULATION = re.compile(r"([+-]?)([0-9]{1,10})")


class Positions(Enum):
    """Where the bin lies in the row."""

    SCATTERED = "scattered"
    CLUSTERED = "clustered"


class Values(Enum):
    """How the bin's scores run along the row."""

    SHUFFLED = "shuffled"
    FORWARD = "forward"
    REVERSED = "reversed"


def make(
    file: Annotated[str | None, typer.Argument(metavar="FILE", help="The capture to write, *.safetensors.")] = None,
    distribution: Annotated[
        str | None, typer.Option(metavar="NAME", help="A named distribution; --list shows them.")
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="List the distributions and write nothing.")] = False,
    length: Annotated[int | None, typer.Option(**integer(1, INT32), help="Scores a row.")] = None,
    k: Annotated[int | None, typer.Option(**integer(1, INT32), help="Winners wanted.")] = None,
    rows: Annotated[int, typer.Option(**integer(1, INT32), help="Rows of the call.")] = 1,
    seed: RowsSeed = 0,
    path: Annotated[
        str | None, typer.Option(metavar="PATH", help="The path whose buffer to fill.", rich_help_panel=AGAINST)
    ] = None,
    variant: Annotated[str, typer.Option(metavar="NAME", help="Of the path.", rich_help_panel=AGAINST)] = "stock",
    population: Annotated[
        str | None,
        typer.Option(
            metavar="N|+N|-N",
            help="Scores in the threshold bin; with a sign, over or under what the buffer holds; +1 by default.",
            rich_help_panel=AGAINST,
        ),
    ] = None,
    above: Annotated[
        int | None,
        typer.Option(
            **integer(0, INT32),
            help="Scores in higher bins; by default as few as leave the cut-off in the bin.",
            rich_help_panel=AGAINST,
        ),
    ] = None,
    cut_byte: Annotated[
        int | None,
        typer.Option(
            **integer(0, 24),
            help="24, 16, 8 or 0: the byte of the exact key that alone parts winners from losers.",
            rich_help_panel=AGAINST,
        ),
    ] = None,
    positions: Annotated[
        Positions | None,
        typer.Option(help="Where the bin lies in the row; scattered by default.", rich_help_panel=AGAINST),
    ] = None,
    values: Annotated[
        Values | None,
        typer.Option(help="How its scores run along the row; shuffled by default.", rich_help_panel=AGAINST),
    ] = None,
    op: Annotated[str | None, typer.Option(metavar="OP", help="What the call is to say it was.")] = None,
    release: Annotated[str | None, typer.Option(metavar="RELEASE", help="As in vllm==0.26.0.")] = None,
    device: Annotated[str | None, typer.Option(metavar="DEVICE", help="As in h200.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")] = False,
    json: Json = False,
) -> int:
    """Make score rows: of a distribution that upstream tests use, or with one score too many for a path's buffer.

    The same options give the same bytes on every machine. Of one seed, row r is the same however many rows are made.

    workbench make --list
    workbench make normal.safetensors --distribution random --length 262144 --rows 33
    workbench make tight.safetensors --path vllm.histogram_256 --population +1 --values reversed
    """
    if listing:
        return _list(json)
    if file is None:
        raise UsageError("name the capture to write, or give --list")
    check_target(FilePath(file), file, overwrite=force, cure=CURE)
    from workbench.capture import Call, write_capture
    from workbench.paths.devices import get_device
    from workbench.paths.releases import parse_release
    from workbench.paths.routing import get_op
    from workbench.synthetic.make import make as make_rows

    known = None if op is None else get_op(op)
    if release is not None:
        release = str(parse_release(release, known.package if known else release.partition("==")[0]))
    if device is not None:
        device = get_device(device).name
    asked: dict[str, Any] = {"above": above, "cut_byte": cut_byte, "positions": positions, "values": values}
    recipe = {name: getattr(value, "value", value) for name, value in asked.items() if value is not None}
    if population is not None or path is not None:
        recipe["population"] = _population(population or "+1", path, variant, k, positions)
    made = make_rows(
        distribution,
        path=path,
        variant=variant,
        length=length,
        k=k,
        rows=rows,
        seed=seed,
        call=Call(op=op, release=release, device=device),
        **recipe,
    )
    with one_thread():
        risks = [] if path is None else _risks(made, path, variant)
    source = f"workbench make, seed {seed}: " + (
        f"distribution {distribution}" if path is None else f"against {path} {variant}, {_in_words(recipe)}"
    )
    info = write_capture(file, made, source=source, overwrite=force)
    first = made[0]
    if json:
        print_json(
            {
                "command": "make",
                "file": file,
                "source": source,
                "rows": info.rows,
                "length": first.length,
                "k": first.k,
                "risks": risks,
            }
        )
    else:
        _print(file, made, source, risks)
    return CLEAN


def _list(json: bool) -> int:
    from workbench.synthetic.distributions import DISTRIBUTIONS

    if json:
        print_json([{"name": one.name, "summary": one.summary, "source": one.source} for one in DISTRIBUTIONS])
    else:
        table(
            [Column("distribution", "word"), Column("scores", "text"), Column("used by", "text")],
            [(one.name, one.summary, one.source) for one in DISTRIBUTIONS],
        )
    return CLEAN


def _population(text: str, path: str | None, variant: str, k: int | None, positions: Positions | None) -> int:
    """A population, as a number or over or under the buffer's room."""
    found = _POPULATION.fullmatch(text)
    if found is None:
        raise UsageError(
            f"--population {text!r} is no population; write 5000, or +1 for one more than the buffer holds"
        )
    sign, digits = found.groups()
    if not sign or path is None:
        return int(digits)
    from workbench.synthetic.adversarial import room, usual_k
    from workbench.synthetic.make import as_variant

    spec = as_variant(path, variant)
    clustered = positions is Positions.CLUSTERED
    return room(spec, usual_k(spec) if k is None else k, clustered=clustered) + int(sign + digits)


def _in_words(recipe: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in recipe.items())


def _risks(made: list[Row], path: str, variant: str) -> list[Risk]:
    from workbench.analysis.profile import RowProfile
    from workbench.analysis.risk import risk
    from workbench.paths.catalog import get_path

    spec = get_path(path)
    own = spec.variant(variant)
    return [
        risk(RowProfile(row.valid, row.dtype, row.k or 0, width=row.call.width, start=row.start), spec, own)
        for row in made
    ]


def _print(file: str, made: list[Row], source: str, risks: list[Risk]) -> None:
    first = made[0]
    say(f"Wrote {counted(len(made), 'row')} of length {first.length}, k {first.k}, to {file}.")
    say(source)
    if not risks:
        return
    from workbench.runs.law_words import law_notes

    table(
        [
            Column("row"),
            Column("population"),
            Column("capacity"),
            Column("above"),
            Column("need"),
            Column("risk", "word"),
            Column("p clean"),
            Column("expected\nmissing"),
        ],
        [
            (
                at,
                one.population,
                one.room,
                one.above,
                one.need,
                one.level,
                probability(one.p_clean, one.level),
                number(one.expected_missing),
            )
            for at, one in enumerate(risks[:SHOWN])
        ],
        title="" if len(risks) <= SHOWN else f"First {SHOWN} of {len(risks)} rows",
    )
    lines(law_notes((one.path, one.level, one.clean_at_most) for one in risks[:SHOWN]), indent="")
