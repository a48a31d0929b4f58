"""A benchmark, and two of them, as text for people."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from workbench.cli.layout import Column
from workbench.cli.tables import NONE, counted, lines, number, say, table
from workbench.words import few

if TYPE_CHECKING:
    from workbench.analysis.samples import Ratio
    from workbench.runs.bench import Bench, BenchCell
    from workbench.runs.bench_compare import Comparison
    from workbench.runs.bench_grid import Shape


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
