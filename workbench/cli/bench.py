"""``workbench bench``: selectors timed side by side, and ``workbench bench compare``: two such runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.exits import BAD, CLEAN, EXIT_CODES, FOUND, complain
from workbench.cli.jsonout import print_json
from workbench.cli.layout import Column
from workbench.cli.options import INT32, SEEDS, Dtype, Json, integer, one_thread
from workbench.cli.output import CURE
from workbench.cli.tables import NONE, counted, lines, number, progress, say, table
from workbench.errors import UsageError
from workbench.words import few

if TYPE_CHECKING:
    from workbench.analysis.samples import Ratio
    from workbench.engines.timing import Timer
    from workbench.runs.bench import Bench, BenchCell, Plan
    from workbench.runs.bench_compare import Comparison
    from workbench.runs.bench_grid import Shape
    from workbench.runs.bench_saved import BenchFile

ROWS, WIDTHS, KS = (1, 16, 64), (8192, 32768), (2048,)
NOTHING_MEASURED = "nothing was measured: every cell was refused"
BATCH = "The batches (every combination)"
WHO = "Who is timed"
HOW = "How"
MOST_SAMPLES = 100_000
_NUMBERS = re.compile(r"[0-9]{1,10}(,[0-9]{1,10})*")


def bench(
    context: typer.Context,
    rows: Annotated[
        str | None, typer.Option(metavar="N,N…", help="Rows in the batch [1,16,64].", rich_help_panel=BATCH)
    ] = None,
    width: Annotated[
        str | None,
        typer.Option(metavar="N,N…", help="Scores of the longest row [8192,32768].", rich_help_panel=BATCH),
    ] = None,
    k: Annotated[
        str | None, typer.Option("-k", "--k", metavar="N,N…", help="Winners wanted [2048].", rich_help_panel=BATCH)
    ] = None,
    lengths: Annotated[
        str,
        typer.Option(
            metavar="full|ragged|both", help="ragged: rows of 80 to 100 % of the width.", rich_help_panel=BATCH
        ),
    ] = "full",
    capacity: Annotated[
        int | None,
        typer.Option(**integer(1, INT32), help="A larger padded width, of all batches.", rich_help_panel=BATCH),
    ] = None,
    boundaries: Annotated[
        bool,
        typer.Option(
            "--boundaries", help="Rows and widths on both sides of what decides routes.", rich_help_panel=BATCH
        ),
    ] = False,
    distribution: Annotated[
        str, typer.Option(metavar="NAME", help="Of the scores, as in make.", rich_help_panel=BATCH)
    ] = "random",
    dtype: Annotated[Dtype, typer.Option(help="Of the scores.", rich_help_panel=BATCH)] = Dtype.FLOAT32,
    seed: Annotated[
        int, typer.Option(**integer(0, SEEDS), help="Of scores and ragged lengths.", rich_help_panel=BATCH)
    ] = 0,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="vendor, cuda, model, torch.topk, or package.module:function; may be repeated.",
            rich_help_panel=WHO,
        ),
    ] = None,
    op: Annotated[
        list[str] | None,
        typer.Option(metavar="OP", help="As in vllm.persistent_topk; may be repeated.", rich_help_panel=WHO),
    ] = None,
    release: Annotated[
        list[str] | None,
        typer.Option(metavar="RELEASE", help="As in vllm==0.26.0; may be repeated.", rich_help_panel=WHO),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICE",
            help="That paths are routed for, as in h200; by default the GPU here.",
            rich_help_panel=WHO,
        ),
    ] = None,
    l2: Annotated[
        str,
        typer.Option(
            "--l2", metavar="warm|cold|both", help="cold: a large buffer is written first.", rich_help_panel=HOW
        ),
    ] = "warm",
    samples: Annotated[
        int, typer.Option(**integer(1, MOST_SAMPLES), help="Timed calls of a cell.", rich_help_panel=HOW)
    ] = 20,
    warmups: Annotated[
        int, typer.Option(**integer(0, MOST_SAMPLES), help="Calls before them.", rich_help_panel=HOW)
    ] = 3,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE.json", help="Where the run is written.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    json: Json = False,
) -> int:
    """Time selectors side by side on made batches: released ops, the workbench's kernels and models, torch.topk, your
    own functions. Each selection is checked against torch.topk while it is timed; a wrong one gives exit code 1.

    workbench bench --engine vendor --engine cuda --op vllm.persistent_topk --release vllm==0.26.0 --l2 both -o a.json
    workbench bench --engine model --op vllm.persistent_topk --release vllm==0.26.0 --device h200 --rows 1 --width 8192
    workbench bench compare a.json b.json
    """
    if context.invoked_subcommand is not None:
        given = [name for name in context.params if "COMMANDLINE" in str(context.get_parameter_source(name))]
        if given:
            raise UsageError(f"options of bench do not go with {context.invoked_subcommand}; leave {few(given)} out")
        return CLEAN
    from workbench.runs.bench import Plan, Timers, run_bench
    from workbench.runs.bench_grid import boundaries as edges
    from workbench.runs.bench_grid import caches, contenders, grid
    from workbench.runs.bench_saved import to_document
    from workbench.runs.bench_words import bench_sentence

    engines = _names(engine) or ["torch.topk"]
    if boundaries and capacity is not None:
        raise UsageError("--boundaries pads each row as little as ops allow; leave --capacity out")
    if boundaries:
        shapes = edges(_integers("--k", k, KS), lengths, _integers("--rows", rows, ()), _integers("--width", width, ()))
    else:
        shapes = grid(
            _integers("--rows", rows, ROWS),
            _integers("--width", width, WIDTHS),
            _integers("--k", k, KS),
            lengths,
            capacity,
        )
    plan = _planned(
        Plan(tuple(shapes), tuple(contenders(engines, _names(op), _names(release))), caches(l2)),
        device,
        samples,
        warmups,
        distribution,
        seed,
        dtype.value,
    )
    file = None if output is None else _output(output, force)
    opened = _callables(engines)
    held: list[Bench] = []

    def keep(found: Bench) -> None:
        held[:] = [found]
        if file is not None:
            file.keep(found)
        done(len(found.cells))

    try:
        with one_thread(), progress(f"{counted(len(shapes), 'batch', 'batches')}", plan.cells) as done:
            found = run_bench(plan, Timers(opened), on_cells=keep)
    except BaseException as error:
        if file is not None and held and not isinstance(error, UsageError):  # such a one says what the file holds
            file.keep(held[0], now=True)
            complain(f"{output} holds the {counted(len(held[0].cells), 'cell')} of {plan.cells} that are done")
        raise
    if file is not None:
        file.keep(found, now=True)
    if json:
        print_json(
            {
                "command": "bench",
                "sentence": bench_sentence(found),
                "wrong": found.wrong,
                "bench": to_document(found),
            }
        )
    else:
        print_bench(found)
        if output is not None:
            say(f"The run is written to {output}")
    if not found.measured and not found.wrong:
        complain(NOTHING_MEASURED)
        return BAD
    return FOUND if found.wrong else CLEAN


def compare(
    first: Annotated[str, typer.Argument(metavar="A.json", help="A run, as bench --output wrote it.")],
    second: Annotated[str, typer.Argument(metavar="B.json", help="Another one.")],
    json: Json = False,
) -> int:
    """Hold two runs against each other: of every cell that both measured, the second one's median over the first one's.

    The exit code is 1 if a selection is wrong in the second run that is right in the first one; times decide nothing.

    workbench bench compare a.json b.json
    """
    from workbench.runs.bench_compare import compare as compare_runs
    from workbench.runs.bench_saved import read_bench
    from workbench.runs.bench_words import compare_sentence

    found = compare_runs(read_bench(first), read_bench(second))
    if json:
        print_json(
            {
                "command": "bench compare",
                "sentence": compare_sentence(found),
                "worse": found.worse,
                "differing": found.differing,
                "pairs": [
                    {
                        **_plain(pair.first),
                        "first": _outcome(pair.first),
                        "second": _outcome(pair.second),
                        "ratio": pair.ratio,
                    }
                    for pair in found.pairs
                ],
                "only_first": [_plain(cell) for cell in found.only_first],
                "only_second": [_plain(cell) for cell in found.only_second],
            }
        )
    else:
        print_comparison(found, first, second)
    if not found.pairs:
        complain(f"{first} and {second} have no cell in common")
        return BAD
    return FOUND if found.worse else CLEAN


def print_bench(found: Bench) -> None:
    """The sentence, the machine, a table for each batch and state of the cache, and why cells were not measured."""
    from workbench.runs.bench_words import bench_sentence

    say(bench_sentence(found), "bold")
    machine = found.machine
    say(
        f"{machine.name}: reads {number(machine.read_gbs)} GB/s; a call that does nothing takes "
        f"{number(machine.floor_us, 3)} µs; {', '.join(f'{name} {value}' for name, value in machine.about.items())}"
    )
    plan = found.plan
    say(
        f"{plan.distribution} scores, {plan.dtype}, seed {plan.seed}; "
        f"{counted(plan.sampling.samples, 'sample')} a cell after {counted(plan.sampling.warmups, 'warm-up call')}"
    )
    lines((f"{name}: {value}" for name, value in found.about.items() if name != "date"), indent="")
    say("")
    beside = found.beside_op()
    shown = [(at, cell) for at, cell in enumerate(found.cells) if not cell.refused and not cell.fault]
    for (shape, l2), group in groupby(shown, key=lambda one: (one[1].shape, one[1].l2)):
        _print_group(found, f"{_shape_words(shape)}, {l2} L2", list(group), beside)
    _print_reasons(found)
    notes: dict[str, int] = {}
    for cell in found.cells:
        for note in cell.notes:
            notes[note] = notes.get(note, 0) + 1
    lines((f"note, {counted(count, 'cell')}: {note}" for note, count in notes.items()), indent="")


def _print_group(found: Bench, title: str, cells: Sequence[tuple[int, BenchCell]], beside: dict[int, Ratio]) -> None:
    has_ratio = any(at in beside for at, _ in cells)
    columns = [
        Column("engine", "word"),
        Column("op or path", "word"),
        Column("verdict", "word"),
        Column("µs"),
        Column("p10–p90"),
        Column("GB/s"),
        Column("of read"),
        *([Column("× op")] if has_ratio else []),
    ]
    rows = []
    for at, cell in cells:
        spread, gbs = cell.spread, cell.gbs
        assert spread is not None
        assert cell.verdict is not None
        lost = f", {cell.verdict.missing_most}" if cell.verdict.kind == "lossy" else ""
        share = gbs / found.machine.read_gbs if gbs is not None and found.machine.read_gbs else None
        ratio = f"{beside[at].of_medians:.2f}" if at in beside else NONE
        rows.append(
            (
                " ".join(filter(None, (cell.contender.engine, cell.contender.release))),
                _what(cell),
                cell.verdict.kind + lost,
                _time(spread.median),
                f"{_time(spread.p10)}–{_time(spread.p90)}",
                number(gbs, 3),
                NONE if share is None else f"{100 * share:.0f} %",
                *([ratio] if has_ratio else []),
            )
        )
    table(columns, rows, title=title)


def _what(cell: BenchCell) -> str:
    """The op that was called, with the paths its rows take; or the paths that ran."""
    paths = ", ".join(cell.paths)
    if cell.contender.engine != "vendor":
        return paths or NONE
    return f"{cell.contender.op}" + (f" ({paths})" if paths else "")


def _shape_words(shape: Shape) -> str:
    padded = f", padded to {shape.width}" if shape.width != shape.length else ""
    kind = " (ragged)" if shape.lengths == "ragged" else ""
    return f"{counted(shape.rows, 'row')} of {shape.length}{kind}{padded}, k {shape.k}"


def _print_reasons(found: Bench) -> None:
    """Why cells were not measured: each reason once, with its contender and shapes."""
    told: dict[tuple[str, str, str], list[str]] = {}
    for cell in found.cells:
        why = cell.fault or "; ".join(cell.refused)
        if why:
            shapes = told.setdefault(("fault" if cell.fault else "refused", str(cell.contender), why), [])
            words = _shape_words(cell.shape)
            if words not in shapes:
                shapes.append(words)
    if told:
        columns = [Column("", "word"), Column("who", "text"), Column("batches", "text"), Column("why", "text")]
        table(columns, [(state, who, few(shapes, 2), why) for (state, who, why), shapes in told.items()])


def print_comparison(found: Comparison, first: str, second: str) -> None:
    """The sentence, what differs besides, a line for each cell of both, and the cells of one."""
    from workbench.runs.bench_words import compare_sentence

    say(compare_sentence(found), "bold")
    say(f"{second} over {first}")
    lines(
        (f"differs: {name}: {one or NONE} and {other or NONE}" for name, (one, other) in found.differing.items()),
        indent="",
    )
    say("")
    columns = [
        Column("batch", "text"),
        Column("L2", "word"),
        Column("who", "text"),
        Column("first µs"),
        Column("second µs"),
        Column("ratio"),
        Column("from–to"),
    ]
    rows = []
    for pair in found.pairs:
        ratio = pair.ratio
        rows.append(
            (
                _shape_words(pair.first.shape),
                pair.first.l2,
                str(pair.first.contender),
                _measured(pair.first),
                _measured(pair.second),
                NONE if ratio is None else f"{ratio.of_medians:.2f}",
                NONE if ratio is None else f"{ratio.low:.2f}–{ratio.high:.2f}",
            )
        )
    if rows:
        table(columns, rows)
    for name, cells in (("first", found.only_first), ("second", found.only_second)):
        if cells:
            words = [f"{_shape_words(cell.shape)}, {cell.l2} L2, {cell.contender}" for cell in cells]
            say(f"in the {name} only: {counted(len(words), 'cell')}: {few(words)}")


def _measured(cell: BenchCell) -> str:
    if cell.spread is None:
        return "refused" if cell.refused else "fault"
    wrong = f", {cell.verdict.kind}" if cell.is_wrong and cell.verdict is not None else ""
    return f"{_time(cell.spread.median)}{wrong}"


def _time(microseconds: float) -> str:
    """Three digits and more, never as a power of ten."""
    digits = 0 if microseconds >= 100 else 1 if microseconds >= 10 else 2
    return f"{microseconds:.{digits}f}"


def _plain(cell: BenchCell) -> dict[str, object]:
    return {**vars(cell.shape), "l2": cell.l2, **vars(cell.contender)}


def _outcome(cell: BenchCell) -> dict[str, object]:
    verdict = None if cell.verdict is None else cell.verdict.kind
    return {"spread_us": cell.spread, "verdict": verdict, "refused": cell.refused, "fault": cell.fault}


def _integers(name: str, text: str | None, otherwise: Sequence[int]) -> list[int]:
    """Integers with commas."""
    if text is None:
        return list(otherwise)
    if not _NUMBERS.fullmatch(text):
        raise UsageError(f"{name} {text!r} is no list of numbers; write it as in 1,16,64")
    return [int(part) for part in text.split(",")]


def _names(texts: Sequence[str] | None) -> list[str]:
    """Names, given one by one or with commas."""
    found = [part.strip() for text in texts or () for part in text.split(",")]
    if "" in found:
        raise UsageError("a name is empty: leave out the comma that stands alone")
    return found


def _planned(
    plan: Plan,
    device: str | None,
    samples: int,
    warmups: int,
    distribution: str,
    seed: int,
    dtype: str,
) -> Plan:
    """The plan with everything else that was asked for, checked."""
    from dataclasses import replace

    import torch

    from workbench.engines.timing import Sampling
    from workbench.runs.bench import check_plan, device_of

    if device is None:
        device = device_of(torch.cuda.get_device_name()) if torch.cuda.is_available() else ""
    made = replace(
        plan,
        device=device.lower(),
        sampling=Sampling(samples, warmups),
        distribution=distribution,
        seed=seed,
        dtype=dtype,
    )
    check_plan(made)
    return made


def _output(output: str, force: bool) -> BenchFile:
    from workbench.cli.output import check_output
    from workbench.runs.bench_saved import SUFFIX, BenchFile

    if output and not output.endswith(SUFFIX):
        raise UsageError(f"{output}: a benchmark is written as {SUFFIX}; end its name so")
    target = check_output(output, force)
    return BenchFile(str(target), overwrite=force, cure=CURE)


def _callables(engines: Sequence[str]) -> dict[str, Timer]:
    from workbench.engines.named import is_callable_name, named_engine
    from workbench.engines.timers import TOPK

    return {name: named_engine(name) for name in engines if name != TOPK and is_callable_name(name)}


COMMANDS: dict[str, Callable[..., int]] = {"compare": compare}


def build(help_of: Callable[[Callable[..., int]], str]) -> typer.Typer:
    """The group, which is a command itself; its help is laid out by ``help_of``."""
    group = typer.Typer(rich_markup_mode="rich", epilog=EXIT_CODES)
    group.callback(invoke_without_command=True, help=help_of(bench))(bench)
    for name, command in COMMANDS.items():
        group.command(name, help=help_of(command), epilog=EXIT_CODES)(command)
    return group
