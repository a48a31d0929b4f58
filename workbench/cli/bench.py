"""``workbench bench``: selectors timed side by side."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.aliases import Command
from workbench.cli.bench_compare import compare
from workbench.cli.bench_tables import print_bench
from workbench.cli.callables import opened_callables
from workbench.cli.exits import BAD, CLEAN, EXIT_CODES, FOUND, complain
from workbench.cli.flags import Group
from workbench.cli.jsonout import print_json
from workbench.cli.options import INT32, SEEDS, Dtype, Json, integer, one_thread
from workbench.cli.output import CURE
from workbench.cli.tables import counted, progress, say
from workbench.errors import UsageError
from workbench.words import few

if TYPE_CHECKING:
    from workbench.runs.bench import Bench
    from workbench.runs.bench_saved import BenchFile

NOTHING_MEASURED = "nothing was measured: every cell was refused"
BATCH = "The batches (every combination)"
WHO = "Who is timed"
HOW = "How"
MOST_SAMPLES = 100_000
_NUMBERS = re.compile(r"[0-9]{1,40}(,[0-9]{1,40})*")


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
        typer.Option(
            metavar="RELEASE",
            help="As in vllm==0.26.0, or a range, vllm==0.24.0..0.33.0; may be repeated.",
            rich_help_panel=WHO,
        ),
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
    workbench bench --engine vendor --op vllm.persistent_topk --release vllm==0.24.0..0.33.0 --boundaries --rows 32,33
    workbench bench compare a.json b.json
    """
    if context.invoked_subcommand is not None:
        given = [name for name in context.params if "COMMANDLINE" in str(context.get_parameter_source(name))]
        if given:
            raise UsageError(f"options of bench do not go with {context.invoked_subcommand}; leave {few(given)} out")
        return CLEAN
    from workbench.runs.bench import Timers, run_bench
    from workbench.runs.bench_front import KS, plan_bench
    from workbench.runs.bench_saved import to_document
    from workbench.runs.bench_words import bench_sentence

    engines = _names(engine) or ["torch.topk"]
    planned = plan_bench(
        engines=engines,
        ops=_names(op),
        releases=_names(release),
        rows=_integers("--rows", rows),
        widths=_integers("--width", width),
        ks=_integers("--k", k) or KS,
        lengths=lengths,
        capacity=capacity,
        at_boundaries=boundaries,
        distribution=distribution,
        dtype=dtype.value,
        seed=seed,
        device=device,
        l2=l2,
        samples=samples,
        warmups=warmups,
    )
    plan = planned.plan
    file = None if output is None else _output(output, force)
    held: list[Bench] = []

    def keep(found: Bench) -> None:
        held[:] = [found]
        if file is not None:
            file.keep(found)
        done(len(found.cells))

    try:
        with (
            opened_callables(_callables(engines)) as theirs,
            one_thread(),
            progress(f"{counted(len(plan.shapes), 'batch', 'batches')}", plan.cells) as done,
        ):
            found = run_bench(plan, Timers({one.name: one for one in theirs}), about=planned.about, on_cells=keep)
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


def _integers(name: str, text: str | None) -> list[int]:
    """Integers with commas; none where nothing is given."""
    if text is None:
        return []
    if not _NUMBERS.fullmatch(text):
        raise UsageError(f"{name} {text!r} is no list of numbers; write it as in 1,16,64")
    return [int(part) for part in text.split(",")]


def _names(texts: Sequence[str] | None) -> list[str]:
    """Names, given one by one or with commas."""
    found = [part.strip() for text in texts or () for part in text.split(",")]
    if "" in found:
        raise UsageError("a name is empty: leave out the comma that stands alone")
    return found


def _output(output: str, force: bool) -> BenchFile:
    from workbench.cli.output import check_output
    from workbench.runs.bench_saved import SUFFIX, BenchFile

    if output and not output.endswith(SUFFIX):
        raise UsageError(f"{output}: a benchmark is written as {SUFFIX}; end its name so")
    target = check_output(output, force)
    return BenchFile(str(target), overwrite=force, cure=CURE)


def _callables(engines: Sequence[str]) -> list[str]:
    from workbench.engines.named import is_callable_name
    from workbench.engines.timers import TOPK

    return [name for name in dict.fromkeys(engines) if name != TOPK and is_callable_name(name)]


COMMANDS: dict[str, Callable[..., int]] = {"compare": compare}


def build(help_of: Callable[[Callable[..., int]], str]) -> typer.Typer:
    """The group, which is a command itself; its help is laid out by ``help_of``."""
    group = typer.Typer(cls=Group, rich_markup_mode="rich", epilog=EXIT_CODES)
    group.callback(invoke_without_command=True, help=help_of(bench))(bench)
    for name, command in COMMANDS.items():
        group.command(name, cls=Command, help=help_of(command), epilog=EXIT_CODES)(command)
    return group
