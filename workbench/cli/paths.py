"""``workbench paths``: the selection algorithms that the workbench knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.exits import CLEAN
from workbench.cli.jsonout import plain, print_json
from workbench.cli.layout import Column
from workbench.cli.options import Dtype, Json
from workbench.cli.tables import NONE, facts, say, table

if TYPE_CHECKING:
    from workbench.paths.spec import Path, Ranks


def paths(
    pattern: Annotated[str, typer.Argument(metavar="GLOB", help="Which paths, as in 'vllm.*'.")] = "*",
    json: Json = False,
) -> int:
    """List the paths: selection algorithms behind the ops of serving engines.

    The exact name of one path shows its whole record.

    workbench paths
    workbench paths 'vllm.histogram_*'
    workbench paths vllm.filtered
    """
    from workbench.paths.catalog import find_paths

    found = find_paths(pattern)
    if json:
        print_json([_document(path) for path in found])
    elif len(found) == 1 and found[0].name == pattern:
        _print_one(found[0])
    else:
        _print_many(found)
    return CLEAN


def _document(path: Path) -> object:
    from workbench.paths.walk import walk_of

    spec = plain(path)
    assert isinstance(spec, dict)
    return {"name": path.name, "system": path.system, "reached_by": _ops(path), **spec, "walk": plain(walk_of(path))}


def _ops(path: Path) -> list[str]:
    """The ops that take a path on some release and device."""
    from workbench.paths.ops import OPS

    return [op.name for op in OPS if path.name in op.reaches]


def _print_many(found: tuple[Path, ...]) -> None:
    table(
        [
            Column("path", "word"),
            Column("key\nbits"),
            Column("capacity"),
            Column("blocks ×\nstored"),
            Column("k", "word"),
            Column("length", "word"),
            Column("dtype", "word"),
            Column("variants"),
        ],
        [
            (
                path.name,
                path.key_bits,
                _capacity(path),
                None if path.buffer is None or path.buffer.ranks is None else _blocks(path.buffer.ranks),
                path.ks_in_words,
                path.lengths_in_words,
                "any" if len(path.dtypes) == len(Dtype) else ", ".join(path.dtypes),
                len(path.variants),
            )
            for path in found
        ],
    )
    say(
        f"capacity: scores that the candidate buffer holds; {NONE} without one, ? where that is not established. "
        "blocks × stored: blocks of a cluster that share a row, and scores of its part that each stores. "
        "variants: the stock path, repairs and faults."
    )
    say("One path in full: workbench paths NAME")


def _print_one(path: Path) -> None:
    from workbench.paths.walk import walk_of

    walk = walk_of(path)
    contract, whole = path.contract, path.buffer is not None and path.buffer.whole_bin
    facts(
        [
            ("path", path.name),
            ("summary", path.summary),
            ("family", path.family),
            ("source", path.source),
            ("releases", path.releases),
            ("references", ", ".join(path.references) or NONE),
            ("evidence", path.evidence.value),
            ("reached by", ", ".join(_ops(path)) or f"no op: {path.unreached}"),
            ("key bits", path.key_bits),
            ("capacity", f"{_capacity(path)}, a bin of winners only included" if whole else _capacity(path)),
            *(("blocks", text) for text in _ranks(path)),
            ("digits", ", ".join(map(str, path.digits)) or NONE),
            ("k", path.ks_in_words),
            ("lengths", path.lengths_in_words),
            ("dtypes", ", ".join(path.dtypes)),
            ("arrival unit", path.arrival_unit),
            ("walk", f"{walk.threads} threads a block, loads of {walk.load}"),
            ("ranked ties", path.ranked_ties or NONE),
            ("determinism", contract.determinism.value),
            ("tie break", contract.tie_break.value),
            ("output ordering", contract.output_ordering.value),
            ("NaN", contract.nan or NONE),
        ]
    )
    say("")
    table(
        [Column("variant", "word"), Column("lossless", "word"), Column("model", "word"), Column("what it is", "text")],
        [
            (
                variant.name,
                "yes" if variant.lossless else "no",
                "yes" if variant.modelled else "no",
                f"{variant.note} ({variant.evidence.value})",
            )
            for variant in path.variants
        ],
    )


def _capacity(path: Path) -> str:
    capacity = path.capacity_of()
    return NONE if capacity is None else str(capacity)


def _blocks(ranks: Ranks) -> str:
    return f"{ranks.count} × {ranks.capacity}"


def _ranks(path: Path) -> list[str]:
    """How the blocks of a cluster fill the buffer; nothing for a path of one block."""
    if path.buffer is None or path.buffer.ranks is None:
        return []
    ranks = path.buffer.ranks
    parts = f"{ranks.layout} parts in units of {ranks.unit} scores"
    filled = "in the order of the blocks" if ranks.in_order else "as scores arrive"
    return [f"{ranks.count}, {parts}; each stores {ranks.capacity} of its part, the whole buffer fills {filled}"]
