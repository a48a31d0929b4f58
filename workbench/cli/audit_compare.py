"""``workbench audit compare``: two audits held against each other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.exits import BAD, CLEAN, FOUND, complain
from workbench.cli.jsonout import print_json
from workbench.cli.layout import Column
from workbench.cli.options import Json, integer
from workbench.cli.tables import progress, say, table
from workbench.words import UNKNOWN, few

if TYPE_CHECKING:
    from workbench.audit.comparison import Change, Comparison, Example, Sets

MOST = 10_000
_TITLES = {
    "worse": "Rows that are worse",
    "other selection": "Same input, another recorded selection, winners lost",
    "appeared": "Bad rows that appeared",
}


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="The output folder of an audit.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    top: Annotated[int, typer.Option("--top", **integer(1, MOST), help="Rows of a kind that are listed.")] = 10,
    json: Json = False,
) -> int:
    """Say what changed between two audits: rows that vanished or appeared, rows of the same input with another recorded
    selection, rows of another input, and how verdicts and risks moved. Rows are paired by file and number where layer,
    step and rank agree, the rest by equal scores. The exit code is 1 if the second has something that is worse.

    workbench audit compare monday/ tuesday/
    """
    from workbench.audit.compare_words import comparison_sentence
    from workbench.audit.comparison import compare as compare_audits
    from workbench.audit.dataset import Dataset

    with progress("comparing", 1_000_000) as done:
        found = compare_audits(Dataset(first), Dataset(second), top, lambda at, of: done(1_000_000 * at // max(of, 1)))
    sentence = comparison_sentence(found)
    if json:
        print_json({"command": "audit compare", "sentence": sentence, "worse": found.is_worse, "comparison": found})
    else:
        say(sentence, "bold")
        say("")
        print_comparison(found)
    if not found.paired:
        complain(f"{found.first} and {found.second} have no row in common")
        return BAD
    return FOUND if found.is_worse else CLEAN


def print_comparison(found: Comparison) -> None:
    """The counts, then what moved, then examples."""
    counts = [
        ("rows of the first", found.rows[0]),
        ("rows of the second", found.rows[1]),
        ("of both", found.paired),
        ("  found elsewhere, by their scores", found.moved),
        ("  same input", found.same_input),
        ("    same recorded selection", found.same_selection),
        ("    another one, no value lost (ties vary)", found.ties_vary),
        ("    another one, winners lost", found.other_selection),
        ("  changed input", found.changed_input),
        ("vanished", found.vanished),
        ("  bad", found.vanished_bad),
        ("appeared", found.appeared),
        ("  bad", found.appeared_bad),
        ("worse", found.worse),
        ("better", found.better),
    ]
    table([Column("rows", "text"), Column("count")], counts, title=f"{found.first} and {found.second}")
    _changes(
        "Recorded verdicts of rows of both",
        [one for one in found.verdicts if {one.before, one.after} != {UNKNOWN}],
    )
    _changes("Risk of rows of both, on the path that they reach or may", found.risks)
    _changes("Risk by path, where it changed", found.paths)
    for kind, examples in found.examples.items():
        _examples(_TITLES[kind], examples)
    _only("path", found.only_paths, found)
    _only("file", found.only_files, found)


def _changes(title: str, changes: Iterable[Change]) -> None:
    listed = list(changes)
    if not listed:
        return
    with_path = any(one.path is not None for one in listed)
    table(
        [*([Column("path", "word")] if with_path else []), Column("was", "word"), Column("is", "word"), Column("rows")],
        [(*([one.path] if with_path else []), one.before, one.after, one.rows) for one in listed],
        title=title,
    )


def _examples(title: str, examples: Iterable[Example]) -> None:
    listed = list(examples)
    if not listed:
        return
    places = [name for name in ("layer", "step", "rank") if any(getattr(one, name) is not None for one in listed)]
    moved = any(one.was for one in listed)
    table(
        [
            Column("file", "text"),
            Column("row"),
            *(Column(name) for name in places),
            Column("what", "text"),
            *([Column("was", "text")] if moved else []),
        ],
        [
            (
                one.file,
                one.row,
                *(getattr(one, name) for name in places),
                one.what,
                *([one.was or None] if moved else []),
            )
            for one in listed
        ],
        title=title,
    )


def _only(noun: str, sets: Sets, found: Comparison) -> None:
    for name, held, of in ((found.first, sets.first, sets.first_of), (found.second, sets.second, sets.second_of)):
        if of:
            shown = few([*held[:5], *[""] * (of - len(held[:5]))], 5) if of > 6 else few(held, 6)
            say(f"{noun if of == 1 else noun + 's'} of {name} alone: {shown}")
