"""What is said of a benchmark, and of two, in sentences."""

from __future__ import annotations

from workbench.runs.bench import Bench
from workbench.runs.bench_compare import Comparison
from workbench.words import listed


def bench_sentence(bench: Bench) -> str:
    """Whether the selections were right, and what was not measured."""
    cells = bench.cells
    counts = {
        "lossy": sum(cell.verdict is not None and cell.verdict.kind == "lossy" for cell in cells),
        "invalid": sum(cell.verdict is not None and cell.verdict.kind == "invalid" for cell in cells),
        "without a selection": sum(bool(cell.fault) for cell in cells),
    }
    refused = sum(bool(cell.refused) for cell in cells)
    every = bench.plan.cells
    said = f"{bench.measured} of {every} cells were measured" if every != 1 else "The one cell was measured"
    if every == 1 and not bench.measured:
        said = "The one cell was not measured"
    if bench.wrong:
        kinds = listed(f"{count} {what}" for what, count in counts.items() if count)
        said += f"; {bench.wrong} {'is' if bench.wrong == 1 else 'are'} wrong: {kinds}"
    elif bench.measured:
        said += ", and no selection lost a winner"
    if refused:
        said += f"; {refused} {'was' if refused == 1 else 'were'} refused"
    if not bench.is_complete:
        said += f"; the run ended early, {bench.plan.cells - len(cells)} were not tried"
    return f"{said}."


def compare_sentence(found: Comparison) -> str:
    """How many cells match, and which way their times went."""
    timed = [pair.ratio for pair in found.pairs if pair.ratio is not None]
    faster = sum(one.differs and one.of_medians < 1 for one in timed)
    slower = sum(one.differs and one.of_medians > 1 for one in timed)
    both = "1 cell was" if len(timed) == 1 else f"{len(timed)} cells were"
    said = (
        f"{both} measured in both: in the second {slower} took longer, {faster} less time, "
        f"{len(timed) - slower - faster} {'is' if len(timed) - slower - faster == 1 else 'are'} not told apart"
    )
    if found.worse:
        said += f"; {found.worse} {'is' if found.worse == 1 else 'are'} wrong in the second alone"
    return f"{said}."
