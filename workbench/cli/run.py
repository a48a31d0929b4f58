"""``workbench run``: paths on rows, as a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.callables import opened_callables
from workbench.cli.exits import BAD, CLEAN, FOUND, NOTHING_JUDGED, complain
from workbench.cli.jsonout import print_json
from workbench.cli.layout import Column
from workbench.cli.matrix import Asked, check_timeout, names_several, run_matrix
from workbench.cli.options import (
    CALL,
    MOST_REPEATS,
    File,
    Given,
    Json,
    Naming,
    Order,
    Rows,
    Seed,
    Timeout,
    integer,
    one_thread,
    open_file,
    parse_rows,
    spread,
)
from workbench.cli.order import order_unreliable, order_warning
from workbench.cli.output import SUFFIXES, check_output, write_output
from workbench.cli.tables import NONE, counted, lines, named, number, print_refusals, progress, ranges, say, table
from workbench.errors import UsageError
from workbench.paths.orders import DEFAULT_ORDER, DEFAULT_SEED
from workbench.words import listed

if TYPE_CHECKING:
    from workbench.runs.report import Line, Report

WORST_SHOWN = 10
NOTES_SHOWN = 6
VENDOR, CUDA = "vendor", "cuda"
CALLABLES = "Callables that stand in for the op (--op package.module:function)"


@spread
def run(
    file: File,
    naming: Naming,
    given: Given,
    row: Rows = None,
    paths: Annotated[
        str,
        typer.Option(
            metavar="GLOB|reached|possible",
            help="A glob over paths; or each row on the path that it reaches, or on all that its op could take.",
        ),
    ] = "reached",
    variants: Annotated[str, typer.Option(metavar="GLOB", help="A glob over variants.")] = "stock",
    engine: Annotated[
        list[str] | None,
        typer.Option(
            metavar="model|cuda|recorded|vendor",
            help="How paths or the op are run, several by commas; model where --op names no callable.",
        ),
    ] = None,
    op: Annotated[
        list[str] | None,
        typer.Option(
            help="As in vllm.persistent_topk; or, often, a callable as in package.module:function or "
            "torch.ops.library.op, which runs as an engine.",
            metavar="OP",
            rich_help_panel=CALL,
        ),
    ] = None,
    imports: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            help="Import first, as what registers an op with torch; may be repeated.",
            rich_help_panel=CALLABLES,
        ),
    ] = None,
    cuda: Annotated[
        bool, typer.Option("--cuda", help="Hand them their tensors on the GPU.", rich_help_panel=CALLABLES)
    ] = False,
    repeats: Annotated[
        int, typer.Option(**integer(1, MOST_REPEATS), help="Runs of each; of a path with another arrival order each.")
    ] = 1,
    seed: Seed = DEFAULT_SEED,
    arrival: Order = DEFAULT_ORDER,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help=f"Write all lines: {', '.join(SUFFIXES)}.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Let --output replace a file.")] = False,
    timeout: Timeout = None,
    json: Json = False,
) -> int:
    """Run paths on the rows of a capture beside the exact reference, and report verdicts and risks.

    A range of releases gives a matrix: each row on the path that it takes in each release.

    workbench run capture.safetensors
    workbench run capture.safetensors --paths 'vllm.*' --repeats 20 --output report.csv
    workbench run capture.safetensors --engine recorded
    workbench run capture.safetensors --engine cuda --repeats 10
    workbench run capture.safetensors --release vllm==0.20.2..0.33.0 --repeats 10 --output matrix.json
    workbench run capture.safetensors --engine model,recorded --op my_package.my_module:my_topk --repeats 20
    """
    from workbench.runs.run import run as run_paths

    target = None if output is None else check_output(output, force)
    if names_several(given.release):
        whole = (paths, variants) == ("reached", "stock") and not (imports or cuda)
        asked = Asked(engine, op, repeats, seed, arrival, whole, timeout)
        return run_matrix(file, naming, given, row, asked, target=target, force=force, json=json)
    known, names, callables = _asked(engine, op)
    if not callables and (cuda or imports):
        raise UsageError(
            f"{'--cuda' if cuda else '--import'} is for callables; name one (--op package.module:function)"
        )
    check_timeout(timeout, bool({VENDOR, CUDA} & set(names)) or bool(callables))
    given = replace(given, op=known)
    with opened_callables(callables, imports or [], cuda, timeout) as theirs, open_file(file, naming, given) as capture:
        numbers = parse_rows(row, len(capture))
        with one_thread(), progress(f"running on {capture.name}", len(numbers)) as done:
            report = run_paths(
                (given.apply(capture[at]) for at in numbers),
                paths=paths,
                variants=variants,
                op=given.op,
                release=given.release,
                device=given.device,
                engine=[*names, *theirs],
                repeats=repeats,
                seed=seed,
                arrival=arrival,
                timeout=timeout,
                among=capture,
                progress=done,
            )
        notes, about = given.notes(capture), f"{counted(len(numbers), 'row')} of {capture.info.path}"
    if target is not None:
        write_output(report, target, force)
    if json:
        print_json(report.to_records())
    else:
        _print(report, about, notes)
        if target is not None:
            say(f"{counted(len(report), 'line')} written to {output}")
    if len(report) and not report.judged:
        complain(NOTHING_JUDGED)
        return BAD
    return FOUND if report.loses else CLEAN


def _asked(engine: list[str] | None, op: list[str] | None) -> tuple[str | None, list[str], list[str]]:
    """The op that ``--op`` holds, if any, the engines by name, and the callables that ``--op`` names.

    Raises:
        UsageError: more than one op, or a callable that is named twice.
    """
    from workbench.engines.named import is_callable_name

    texts = list(op or ())
    ops = [text for text in texts if not is_callable_name(text)]
    if len(ops) > 1:
        raise UsageError(f"--op names {len(ops)} ops, {listed(ops)}; a capture is of one, callables may be several")
    callables = [text for text in texts if is_callable_name(text)]
    if twice := [name for name, count in Counter(callables).items() if count > 1]:
        raise UsageError(f"{listed(twice)} {'is' if len(twice) == 1 else 'are'} given twice; give each engine once")
    names = [name.strip() for text in engine or () for name in text.split(",")]
    return ops[0] if ops else None, names or ([] if callables else ["model"]), callables


def _print(report: Report, about: str, notes: Sequence[str]) -> None:
    from workbench.analysis.batch_verdict import KINDS
    from workbench.analysis.risk import LEVELS

    say(f"{counted(len(report), 'line')}, {about}", "bold")
    lines((f"note: {note}" for note in notes), indent="")
    _print_about(report)
    groups: dict[tuple[str | None, str | None, str], list[Line]] = {}
    for line in report:
        groups.setdefault((line.path, line.variant, line.engine), []).append(line)
    verdicts, risks = KINDS, LEVELS
    say("")
    table(
        [
            Column("path", "word"),
            Column("variant", "word"),
            Column("engine", "word"),
            *(Column(name) for name in (*verdicts, "refused", "missing\nin all", *risks)),
        ],
        [
            (*(name or NONE for name in names), *_counts(group, verdicts), *_totals(group), *_risks(group, risks))
            for names, group in groups.items()
        ],
        title="Lines by path and verdict",
    )
    _print_worst(report)
    _print_agreement(report)
    lines(order_warning(line.row for line in report if order_unreliable(line.order_correlation)), indent="")
    print_refusals((_who(line), line.row, line.refused) for line in report if line.refused)
    print_refusals(
        ((_who(line), line.row, line.finding) for line in report if line.finding and _faulty(line)),
        head="did not return",
    )


def _who(line: Line) -> str:
    """What was to run: a path, or an engine that stands for the op."""
    if line.engine in ("model", "recorded"):
        return named(line.path, line.variant) or line.op or line.engine
    return " ".join(filter(None, (line.engine, _release(line))))


def _release(line: Line) -> str | None:
    """The release that was called; that of a callable's line is where the row came from."""
    from workbench.runs.report import OF_THE_PATH

    return line.release if line.engine in OF_THE_PATH else None


def _faulty(line: Line) -> bool:
    """Whether an engine was called and gave no selection."""
    return line.verdict is None and line.refused is None


def _print_about(report: Report) -> None:
    """What ran, and what must be known of the lines: each once, notes with their rows."""
    ran = dict.fromkeys((line.engine, line.ran) for line in report if line.ran)
    lines((f"{engine}: {text}" for engine, text in ran), "")
    rows: dict[str, list[int]] = {}
    for line in report:
        for note in line.note.split("; ") if line.note else ():
            rows.setdefault(note, []).append(line.row)
    noted = [f"note, row{'' if len(set(of)) == 1 else 's'} {ranges(sorted(of))}: {note}" for note, of in rows.items()]
    lines(noted[:NOTES_SHOWN], "")
    if len(noted) > NOTES_SHOWN:
        say(f"… and {len(noted) - NOTES_SHOWN} more notes; --json lists all")


def _print_agreement(report: Report) -> None:
    """How many rows have calls that agree, or vary in what, for engines that were called several times."""
    from workbench.analysis.repeatability import KINDS

    kinds = {(line.engine, _release(line), line.row): line.repeatability for line in report if line.repeatability}
    if not kinds:
        return
    counts: dict[tuple[str, str | None], Counter[str]] = {}
    for (engine, release, _), kind in kinds.items():
        counts.setdefault((engine, release), Counter())[kind] += 1
    table(
        [Column("engine", "word"), Column("release", "word"), *(Column(kind.replace(" ", "\n")) for kind in KINDS)],
        [(engine, release, *(of[kind] for kind in KINDS)) for (engine, release), of in counts.items()],
        title="Rows by what varies between calls",
    )


def _counts(group: Sequence[Line], verdicts: Sequence[str]) -> list[int]:
    counts = Counter(line.verdict for line in group)
    return [counts[verdict] for verdict in verdicts]


def _totals(group: Sequence[Line]) -> tuple[int, int]:
    return sum(line.refused is not None for line in group), sum(line.missing or 0 for line in group)


def _risks(group: Sequence[Line], risks: Sequence[str]) -> list[int]:
    counts = Counter(line.risk for line in group)
    return [counts[risk] for risk in risks]


def _print_worst(report: Report) -> None:
    from workbench.analysis.risk import LOSING
    from workbench.runs.inspect import damage
    from workbench.runs.law_words import law_notes
    from workbench.runs.report import Result, line_loses

    found = [line for line in report if line_loses(line)]
    refused = sum(line.refused is not None for line in report)
    if refused:
        every = refused == len(report)
        which = f"{'The only' if len(report) == 1 else f'All {refused}'}" if every else f"{refused} of {len(report)}"
        noun, verb = "line" if len(report) == 1 else "lines", "was" if refused == 1 else "were"
        say(f"{which} {noun} {verb} refused: nothing ran there.")
        if found:
            say("")
    if not found:
        if refused == len(report) and any(line.risk in LOSING for line in report):
            say("The risk is that of the op's path, by the analysis.")
        elif refused == len(report):
            say("Nothing is known to be at risk.")
        elif any(line.risk in LOSING for line in report):
            say("No selection is lossy or invalid. The risk is that of the op's path, which callables stand in for.")
        else:
            say("No line is lossy, invalid or at risk.")
        say("")
        return
    several = len({line.engine for line in report}) > 1
    worst = sorted(found, key=lambda line: damage(Result(line)), reverse=True)[:WORST_SHOWN]
    table(
        [
            Column("row"),
            Column("path", "word"),
            Column("variant", "word"),
            *([Column("engine", "word")] if several else []),
            Column("repeat"),
            Column("verdict", "word"),
            Column("missing"),
            Column("recall"),
            Column("max\ngap"),
            Column("risk", "word"),
            Column("expected\nmissing"),
        ],
        [
            (
                line.row,
                line.path,
                line.variant,
                *([line.engine] if several else []),
                line.repeat,
                "refused" if line.refused is not None else "fault" if _faulty(line) else line.verdict,
                line.missing,
                number(line.recall, 5),
                number(line.max_score_gap),
                line.risk,
                number(line.expected_missing),
            )
            for line in worst
        ],
        title="Lines that lose, can lose or do harm"
        if len(worst) == len(found)
        else f"Worst {len(worst)} of {len(found)} lines that lose, can lose or do harm",
    )
    lines(law_notes((line.path, line.risk, line.clean_at_most) for line in worst), indent="")
