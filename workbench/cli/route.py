"""``workbench route``: which path an op sends rows to, with every condition that decided it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.cli.exits import CLEAN, FOUND
from workbench.cli.jsonout import print_json
from workbench.cli.layout import Column
from workbench.cli.options import (
    CALL,
    INT32,
    Dtype,
    Engine,
    Given,
    Json,
    Naming,
    Rows,
    integer,
    open_file,
    parse_rows,
    spread,
)
from workbench.cli.tables import MARKS, counted, lines, ranges, say, table
from workbench.errors import UsageError
from workbench.words import UNKNOWN

if TYPE_CHECKING:
    import torch

    from workbench.capture import Capture, Row
    from workbench.paths.lengths import Effect
    from workbench.paths.plan import Plan
    from workbench.paths.routing import Route


@dataclass(frozen=True)
class _Routed:
    """A row, its route, and what its length does there where it leaves the row."""

    row: Row
    k: int | None
    route: Route
    does: Effect | None

    @property
    def told(self) -> str:
        return "" if self.does is None else self.does.words


@spread
def route(
    naming: Naming,
    given: Given,
    engine: Engine,
    file: Annotated[str | None, typer.Argument(metavar="FILE", help="A capture; without one, give the call.")] = None,
    row: Rows = None,
    length: Annotated[
        int | None,
        typer.Option(**integer(-INT32 - 1, INT32), help="Valid scores, where no FILE is given.", rich_help_panel=CALL),
    ] = None,
    dtype: Annotated[
        Dtype | None, typer.Option(help="Of the scores, where no FILE is given: float32.", rich_help_panel=CALL)
    ] = None,
    known: Annotated[bool, typer.Option("--list", help="Name the known ops, releases and devices.")] = False,
    json: Json = False,
) -> int:
    r"""Say which path an op sends rows to, and every condition that decided it.

    workbench route capture.safetensors
    workbench route capture.safetensors --row 3 --max-seq-len 131072
    workbench route --op vllm.persistent_topk --release vllm==0.26.0 \
        --device h200 --k 2048 --length 20000 --rows 40
    workbench route --op vllm.sparse_indexer_topk --release vllm==0.32.0 \
        --device b200 --k 2048 --length 20000 --rows 40 --stride 20224 --width 20224
    workbench route --list

    A row whose length leaves it, as -1 in a padded slot, is told what its kernel makes of that; where that is harm, the
    exit code is 1.
    """
    if known:
        return _list(json)
    if file is None:
        if row:
            raise UsageError("--row chooses rows of a FILE; name the file, or describe the row by --length")
        routed = [_described(naming, given, engine, length, dtype)]
        notes: list[str] = []
        name = None
    else:
        if length is not None or dtype is not None:
            raise UsageError("--length and --dtype describe a row without a FILE; those of a capture are in it")
        with open_file(file, naming, given) as capture:
            routed = list(_routes(capture, given, engine, parse_rows(row, len(capture))))
            notes, name = given.notes(capture), capture.info.path
    if json:
        routes = [_document(one, in_file=file is not None) for one in routed]
        print_json({"command": "route", "capture": name, "notes": notes, "routes": routes})
        return _exit(routed)
    lines((f"note: {note}" for note in notes), indent="")
    if len(routed) == 1 or row:
        for one in routed:
            print_route(one.route, about=_about(one, name))
            lines([f"Outside the row: {one.told}."] if one.told else [], indent="")
    else:
        _print_groups(routed, str(name))
    return _exit(routed)


def _exit(routed: list[_Routed]) -> int:
    return FOUND if any(one.does is not None and one.does.finding for one in routed) else CLEAN


def print_route(found: Route, about: str) -> None:
    """Print where one row goes and its conditions, met, not met or unknown."""
    say(f"{about}: {_where(found)}", "bold")
    calls = f", calls {found.calls}" if found.calls else ""
    say(f"{found.op}, {found.release}, {found.device}{calls}")
    if found.reasons:
        say(f"Conditions as they are asked ({MARKS[True]} holds, {MARKS[False]} does not, {MARKS[None]} unknown):")
    for reason in found.reasons:
        lines([reason.text], indent=f"  {MARKS[reason.met]} ")
    if found.plan is not None:
        say(f"The call's plan: {_plan(found.plan)}")


def _plan(plan: Plan) -> str:
    """SGLang's plan of a call in words."""
    if not plan.written:
        return f"{'not written' if plan.written is False else UNKNOWN}: {plan.why}"
    if plan.threshold is None:
        return f"written, with a threshold that is {UNKNOWN}: {plan.why}"
    rows = "" if plan.rows is None else f"; {counted(len(plan.rows), 'row')} of the call above it"
    return f"written, threshold {plan.threshold} by {plan.why}{rows}"


def _described(naming: Naming, given: Given, engine: Engine, length: int | None, dtype: Dtype | None) -> _Routed:
    """The route of a row that is described and not read."""
    named = [name for name, value in vars(naming).items() if value is not None]
    if named:
        raise UsageError(f"--{named[0]} names a tensor of a FILE; name the file too")
    needed = {"--op": given.op, "--release": given.release, "--device": given.device, "--k": given.k}
    absent = [option for option, value in (needed | {"--length": length}).items() if value is None]
    if absent:
        raise UsageError(f"without a FILE, {', '.join(absent)} must be given; for names see: workbench route --list")
    assert length is not None
    row = _stand_in(length, given.width or max(length, 0), (dtype or Dtype.FLOAT32).value)
    return _routed(row, given, engine)


def _routes(capture: Capture, given: Given, engine: Engine, numbers: list[int]) -> Iterator[_Routed]:
    """Routes of a capture's rows; scores are read only where rows differ in dtype."""
    batches: dict[int, torch.Tensor | None] = {}
    for number in numbers:
        if "," in capture.info.dtype:
            yield _routed(capture[number], given, engine)
            continue
        at = capture.call_of(number)
        call = capture.call(at)
        if at not in batches:
            held = capture.rows_of(at)
            batches[at] = capture.lengths[list(held)] if len(held) == call.rows else None
        length, start = int(capture.lengths[number]), capture.start_of(number)
        known = {"call": call, "batch": batches[at], "index": number}
        row = _stand_in(length, capture.width_of(number), capture.info.dtype, start=start, **known)
        yield _routed(row, given, engine)


def _stand_in(length: int, width: int, dtype: str, start: int = 0, **known: Any) -> Row:
    """A row of which only what decides its route is real."""
    import torch

    from workbench.capture import Row

    scores = torch.zeros(1, dtype=getattr(torch, dtype)).expand(width)
    return Row(scores, length, start, **known)


def _routed(row: Row, given: Given, engine: Engine) -> _Routed:
    from workbench.paths import outside

    row = given.apply(row)
    k = row.k if given.k is None else given.k
    found = outside.route(row, given.op, given.release, given.device, k, setup=engine.setup)
    return _Routed(row, k, found, None if k is None else outside.effect_on(row, found, k))


def _where(found: Route) -> str:
    from workbench.paths.conditions import ALL_LENGTHS, ROW_NUMBER

    if found.path is not None:
        return f"{found.path} ({found.variant})"
    if found.refused:
        return f"refused: {found.refused}"
    options = [f"--{name.replace('_', '-')}" for name in found.unknown if hasattr(Given, name) or hasattr(Engine, name)]
    if options:
        cure = f"give {', '.join(options)}"
    elif set(found.unknown) <= {ALL_LENGTHS, ROW_NUMBER}:
        cure = "a capture that holds all of them tells"
    else:
        cure = "nothing that can be given tells"
    return f"unknown: it depends on {', '.join(found.unknown)}; {cure}"


def _about(one: _Routed, capture: str | None) -> str:
    k = UNKNOWN if one.k is None else one.k
    if capture is None:
        return f"A row of length {one.row.length}, k {k}"
    return f"Row {one.row.index} (call {one.row.call.index}, length {one.row.length}, k {k})"


def _print_groups(routed: list[_Routed], name: str) -> None:
    groups: dict[str, list[_Routed]] = {}
    for one in routed:
        groups.setdefault(_where(one.route), []).append(one)
    first = routed[0].route
    say(f"{counted(len(routed), 'row')} of {name} under {first.op}, {first.release}, {first.device}", "bold")
    say("")
    table(
        [
            Column("path", "text"),
            Column("rows"),
            Column("which", "text"),
            Column("lengths", "word"),
            Column("k", "word"),
        ],
        [
            (where, len(group), ranges(one.row.index for one in group), _span(group, "length"), _span(group, "k"))
            for where, group in groups.items()
        ],
    )
    told: dict[str, list[int]] = {}
    for one in routed:
        if one.told:
            told.setdefault(one.told, []).append(one.row.index)
    lines((f"Outside {_rows(numbers)}: {words}." for words, numbers in told.items()), indent="")
    say("Every condition of a row: workbench route FILE --row N")


def _rows(numbers: list[int]) -> str:
    return f"row{'' if len(numbers) == 1 else 's'} {ranges(numbers)}"


def _span(group: list[_Routed], what: str) -> str:
    values = {one.row.length if what == "length" else one.k for one in group}
    known = sorted(value for value in values if value is not None)
    if not known:
        return UNKNOWN
    return str(known[0]) if len(known) == 1 else f"{known[0]} to {known[-1]}"


def _document(one: _Routed, in_file: bool) -> dict[str, object]:
    return {
        "row": one.row.index if in_file else None,
        "call": one.row.call.index if in_file else None,
        "k": one.k,
        "length": one.row.length,
        "outside": one.told or None,
        **asdict(one.route),
    }


def _list(json: bool) -> int:
    from workbench.paths.devices import DEVICES
    from workbench.paths.routing import OPS
    from workbench.paths.spec import Evidence

    if json:
        ops = [
            {
                "name": op.name,
                "source": op.source,
                "releases": op.releases,
                "reaches": op.reaches,
                "returns": op.transforms,
                "evidence": op.evidence,
            }
            for op in OPS
        ]
        print_json({"command": "route", "ops": ops, "devices": DEVICES})
        return CLEAN
    table(
        [Column("op", "word"), Column("package", "word"), Column("since", "word"), Column("route", "word")],
        [
            (op.name, op.package, op.since or "all", "observed" if op.evidence is Evidence.OBSERVED else "described")
            for op in OPS
        ],
    )
    table([Column("op", "word"), Column("upstream name", "word")], [(op.name, op.source) for op in OPS])
    table(
        [Column("op", "word"), Column("what it returns", "text")],
        [(op.name, ", ".join(op.transforms)) for op in OPS],
    )
    releases = {op.package: op.package_releases for op in OPS}
    table(
        [Column("package", "word"), Column("releases whose routing is known", "text")],
        [(package, ", ".join(known)) for package, known in releases.items()],
    )
    table(
        [
            Column("device", "word"),
            Column("architecture", "word"),
            Column("SMs"),
            Column("opt-in shared\nmemory (bytes)"),
            Column("clusters of\n8 and 16"),
            Column("numbers", "word"),
        ],
        [
            (
                device.name,
                device.gfx or ".".join(map(str, device.capability)),
                device.sms,
                device.optin_bytes,
                None if device.clusters_8 is None else f"{device.clusters_8}, {device.clusters_16}",
                "measured" if device.measured else "as published",
            )
            for device in DEVICES
        ],
    )
    return CLEAN
