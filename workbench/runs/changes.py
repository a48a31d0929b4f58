"""What is tried as a remedy for the rows of one op, as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from workbench.analysis.altered import ALTERATIONS
from workbench.capture.row import Call
from workbench.errors import UsageError
from workbench.paths.catalog import get_path
from workbench.paths.conditions import Setup
from workbench.paths.ops import OPS, Op, get_op
from workbench.paths.options import LED_TO, alike, options_of
from workbench.paths.releases import parse_release
from workbench.paths.spans import Asked, edges_of
from workbench.paths.spec import Path, Variant
from workbench.runs.remedy import Kind
from workbench.words import listed

KS = (1024, 512)  # smaller k that are tried
EXACT_FALLBACK = "v2_exact_fallback"  # a repair but for signed zeros, which it says of itself
_STRIDE = 32  # scores that widths are rounded up to where routing is asked: every op takes such


@dataclass(frozen=True)
class Change:
    """One thing that is tried.

    Attributes:
        kind, what, how: as of a remedy. release: the one that it is tried in; empty for the row's own.
        op, setup: what rows are given to then; the row's own where not given.
        repair: the variant that paths have then. alteration: of the scores, a name of ``ALTERATIONS``. k: of the call.
        rows: of the call, from and to; ``None`` for any number.
        family: changes of one family, in their order, are told as one where rows stand alike under them.
        notes: what must be known of it.
    """

    kind: Kind
    what: str
    how: str = ""
    release: str = ""
    op: str = ""
    setup: Setup | None = None
    repair: str = ""
    alteration: str = ""
    k: int | None = None
    rows: tuple[int, int | None] | None = None
    family: str = ""
    notes: tuple[str, ...] = ()


def changes_of(
    op: str | None, device: str | None, k: int, setup: Setup | None, release: str | None = None
) -> tuple[Change, ...]:
    """Everything that is tried for rows of an op, those of one family next to each other.

    Args:
        op: ``None`` where it is not known: then every op of the release's engine is tried, of all engines where neither
            is known. device, release: of the rows, if it is known.
    """
    if op is None:
        return (*_every_op(release), *_inputs())
    known = get_op(op)
    return (
        *_releases(known),
        *_options(known),
        *_ops(known),
        *_repairs(known),
        *_calls(known, device, k, setup),
        *_inputs(),
        *(Change("input", f"k {one}", "a model that selects fewer", k=one) for one in KS),
    )


def _releases(op: Op) -> Iterator[Change]:
    for release in op.package_releases:
        yield Change("release", release, f"install {release}", release, family="release")


def _options(op: Op) -> Iterator[Change]:
    for option in options_of(op.name):
        engine = get_op(option.engine)
        layout = LED_TO[option.engine][op.name]
        setup = option.setup if layout is None else replace(option.setup, layout=layout)
        for release in engine.releases:
            if parse_release(release).version >= option.since:
                yield Change(
                    "backend",
                    option.spelled,
                    f"start the engine with {option.spelled}",
                    release,
                    op=engine.name,
                    setup=setup,
                    family=option.spelled,
                    notes=(option.note,) if option.note else (),
                )


def _ops(op: Op) -> Iterator[Change]:
    for name in alike(op.name):
        other = get_op(name)
        how = f"call {other.source} where {op.source} is called: no option that does so is known"
        for release in other.releases:
            yield Change("op", name, how, release, op=name, family=name)


def _every_op(release: str | None) -> Iterator[Change]:
    """The ops of the engine that a release is of; of all where that is not known."""
    package = None if release is None else release.partition("==")[0]
    engines = {_engine_of(op) for op in OPS if op.package == package}
    for op in OPS:
        if engines and _engine_of(op) not in engines:
            continue
        for release in op.releases:
            yield Change("op", op.name, f"select by {op.source}", release, op=op.name, family=op.name)


def _engine_of(op: Op) -> str:
    return op.name.partition(".")[0]


def repairs_of(path: Path) -> tuple[Variant, ...]:
    """The variants of a path that repair it and are no release's own; only what fills a buffer has any."""
    if path.buffer is None:
        return ()
    return tuple(
        one
        for one in path.variants
        if one.name != "stock" and not _is_release(one.name) and (one.lossless or one.model == EXACT_FALLBACK)
    )


def _is_release(name: str) -> bool:
    return name[:1] == "v" and name[1:2].isdigit()


def _repairs(op: Op) -> Iterator[Change]:
    found: dict[str, list[tuple[Path, Variant]]] = {}
    for path in map(get_path, op.reaches):
        for variant in repairs_of(path):
            found.setdefault(variant.name, []).append((path, variant))
    for name, where in found.items():
        threads = list(dict.fromkeys(thread for _, variant in where for thread in variant.references))
        notes = tuple(dict.fromkeys(variant.note for _, variant in where if not variant.lossless))
        how = f"build the op with it{f' ({listed(threads)})' if threads else ''}"
        yield Change("repair", f"repair {name}", how, repair=name, family=f"repair {name}", notes=notes)


def _calls(op: Op, device: str | None, k: int, setup: Setup | None) -> Iterator[Change]:
    """Numbers of rows between two of which routing changes, over the releases of an op."""
    edges: set[int] = set()
    for release in op.releases:
        asked = Asked(op.name, release, device or "h200", Call(k=k), setup=setup)
        try:
            edges |= set(edges_of(asked, _STRIDE)[0])
        except UsageError:
            continue
    ends = [0, *sorted(edges)]
    for least, most in zip(ends, [*ends[1:], None], strict=True):
        if edges:
            yield Change("call", "", rows=(least + 1, most), family="rows")


def _inputs() -> Iterator[Change]:
    for name in ALTERATIONS:
        yield Change("input", name, alteration=name)
