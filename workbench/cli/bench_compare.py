"""``workbench bench compare``: two runs held against each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.bench_tables import print_comparison
from workbench.cli.exits import BAD, CLEAN, FOUND, complain
from workbench.cli.jsonout import print_json
from workbench.cli.options import Json

if TYPE_CHECKING:
    from workbench.runs.bench import BenchCell


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


def _plain(cell: BenchCell) -> dict[str, object]:
    return {**vars(cell.shape), "l2": cell.l2, **vars(cell.contender)}


def _outcome(cell: BenchCell) -> dict[str, object]:
    verdict = None if cell.verdict is None else cell.verdict.kind
    return {"spread_us": cell.spread, "verdict": verdict, "refused": cell.refused, "fault": cell.fault}
