"""The engines of a run by what a caller names: names, callables and engines as they are, one or several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from typing import Any, TypeAlias

from workbench.arguments import check_timeout
from workbench.capture import Capture
from workbench.capture.row import Call, Row
from workbench.capture.values import described
from workbench.engines.callable import CallableEngine
from workbench.engines.launch import OpEngine, is_op_engine
from workbench.engines.registry import ENGINES, vendor_engine
from workbench.engines.vendor.adapters import ADAPTERS, PACKAGES
from workbench.errors import UsageError
from workbench.runs.launched import RowEngine, run_launched
from workbench.runs.report import Line, Report
from workbench.words import listed

VENDOR = "vendor"
NAMES = (*ENGINES, VENDOR)
NO_RELEASE = "an unknown release"
EngineLike: TypeAlias = str | OpEngine | Callable[..., Any]


def run_engines(
    rows: Iterable[Row],
    engine: EngineLike | Sequence[EngineLike],
    on_row: Callable[[str, bool, Row], list[Line]],
    repeats: int,
    *,
    whole_op: bool,
    op: str | None,
    release: str | None,
    device: str | None,
    k: int | None,
    timeout: float | None,
    among: Capture | None,
    progress: Callable[[int], None] | None,
) -> Report:
    """Run one or several engines on rows; the report has the lines of a row together, in the order of the engines.

    Args:
        on_row: gives the lines of a row, from the name of an engine that takes rows and whether it is the only one.
        whole_op: whether paths and variants are left as they are. The others are those of ``workbench.runs.run.run``.
    """
    among = rows if among is None and isinstance(rows, Capture) else among
    each = iter(rows)
    first = list(islice(each, 1))
    each = chain(first, each)
    called = release_called(first[0].call, op, release) if first else release
    check_timeout(timeout)
    with _opened(engine, called, timeout) as engines:
        ways: list[OpEngine | RowEngine] = [
            partial(on_row, one, len(engines) == 1) if isinstance(one, str) else one for one in engines
        ]
        names = [one.name for one in engines if not isinstance(one, str)]
        if names:
            if not whole_op and len(names) == len(ways):
                words = "engine stands" if len(names) == 1 else "engines stand"
                raise UsageError(
                    f"the {listed(names)} {words} for the op as a whole; leave paths and variants as they are"
                )
            if VENDOR in names and release is None:
                each = _of_one_release(each, op, called)
            return run_launched(
                each, ways, repeats, op=op, release=release, device=device, k=k, among=among, progress=progress
            )
        lines: list[Line] = []
        for done, row in enumerate(each, 1):
            for way in ways:
                assert callable(way)
                lines += way(row)
            if progress is not None:
                progress(done)
        return Report(lines)


def release_called(call: Call, op: str | None = None, release: str | None = None) -> str | None:
    """The release that the vendor engine calls: the one given, else the call's if it has the op, else ``None``, which
    is what is installed.

    Args:
        op, release: as given, over what the call says.
    """
    if release is not None or call.release is None:
        return release
    adapter = ADAPTERS.get(op or call.op or "")
    package = None if adapter is None else PACKAGES[adapter.package]
    own = call.release.partition("==")[0]
    return call.release if package is None or own in (package.name, *package.distributions) else None


def _of_one_release(rows: Iterable[Row], op: str | None, release: str | None) -> Iterator[Row]:
    for row in rows:
        other = release_called(row.call, op)
        if other != release:
            raise UsageError(
                f"the rows are of {release or NO_RELEASE} and {other or NO_RELEASE}; give the release that the vendor "
                "engine runs (--release)"
            )
        yield row


@contextmanager
def _opened(
    engine: EngineLike | Sequence[EngineLike], release: str | None, timeout: float | None
) -> Iterator[list[str | OpEngine]]:
    """The engines in order: names of those that take rows, and engines that stand for a whole op.

    Those that are made here are closed afterwards.

    Raises:
        UsageError: an unknown name, what is no engine, none at all, or one given twice.
    """
    given: list[Any] = list(engine) if isinstance(engine, list | tuple) else [engine]
    if not given:
        raise UsageError(f"no engine is given; known engines: {', '.join(NAMES)}")
    found: list[str | OpEngine] = []
    made: list[OpEngine] = []
    try:
        for one in given:
            if (isinstance(one, str) and one in ENGINES) or is_op_engine(one):
                found.append(one)
            else:
                made.append(_made(one, release, timeout))
                found.append(made[-1])
        names = Counter(one if isinstance(one, str) else f"{one.name} {one.release or ''}".strip() for one in found)
        if twice := [name for name, count in names.items() if count > 1]:
            raise UsageError(f"{listed(twice)} {'is' if len(twice) == 1 else 'are'} given twice; give each engine once")
        yield found
    finally:
        for each in made:
            each.close()


def _made(one: object, release: str | None, timeout: float | None) -> OpEngine:
    if one == VENDOR:
        return vendor_engine(release, call_s=timeout)
    if isinstance(one, str):
        raise UsageError(f"unknown engine {one!r}; known engines: {', '.join(NAMES)}")
    if callable(one):
        return CallableEngine(one)
    raise UsageError(f"an engine is a name ({', '.join(NAMES)}) or a callable; this is {described(one)}")
