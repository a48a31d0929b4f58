"""``workbench paths``: the selection algorithms that the workbench knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.exits import CLEAN
from workbench.cli.jsonout import plain, print_json
from workbench.cli.options import Json
from workbench.cli.tables import NONE, Column, facts, say, table

if TYPE_CHECKING:
    from workbench.paths.spec import Path


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
    spec = plain(path)
    assert isinstance(spec, dict)
    return {"name": path.name, "system": path.system, **spec}


def _print_many(found: tuple[Path, ...]) -> None:
    columns = [
        Column("path", "word"),
        Column("key bits"),
        Column("capacity"),
        Column("k", "text"),
        Column("lengths", "text"),
        Column("dtypes", "text"),
        Column("variants", "text"),
    ]
    table(
        columns,
        [
            (
                path.name,
                path.key_bits,
                _capacity(path),
                _ks(path),
                _lengths(path),
                ", ".join(path.dtypes),
                ", ".join(variant.name for variant in path.variants),
            )
            for path in found
        ],
    )
    say("capacity: scores of the threshold bin that the buffer holds. One path in full: workbench paths NAME")


def _print_one(path: Path) -> None:
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
            ("key bits", path.key_bits),
            ("capacity", f"{_capacity(path)}, a bin of winners only included" if whole else _capacity(path)),
            ("digits", ", ".join(map(str, path.digits)) or NONE),
            ("k", _ks(path)),
            ("lengths", _lengths(path)),
            ("dtypes", ", ".join(path.dtypes)),
            ("arrival unit", path.arrival_unit),
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


def _capacity(path: Path) -> str | None:
    return None if path.buffer is None else str(path.buffer.capacity)


def _ks(path: Path) -> str:
    return "any" if path.ks is None else ", ".join(map(str, path.ks))


def _lengths(path: Path) -> str:
    above = None if path.longer_than is None else f"above {path.longer_than}"
    up_to = None if path.up_to is None else f"up to {path.up_to}"
    return ", ".join(part for part in (above, up_to) if part) or "any"
