"""``wb.bench``: a benchmark by what a user names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch

from workbench.arguments import check_timeout, checked
from workbench.engines.callable import CallableEngine
from workbench.engines.named import is_callable_name, named_engine
from workbench.engines.timers import TOPK
from workbench.engines.timing import Sampling, Timer
from workbench.errors import UsageError
from workbench.runs.bench import Bench, Plan, Timers, check_plan, device_of, run_bench
from workbench.runs.bench_grid import ROUTED, Shape, boundaries, caches, contenders, grid
from workbench.runs.bench_routes import edges_for
from workbench.runs.releases import find_releases

RANGE = ".."
ROWS, WIDTHS, KS = (1, 16, 64), (8192, 32768), (2048,)
SAMPLES, WARMUPS = 20, 3
Numbers = int | Sequence[int]
Names = str | Sequence[str]


@dataclass(frozen=True)
class Planned:
    """A plan, and what must be said of how it came about: goes into ``Bench.about``."""

    plan: Plan
    about: dict[str, str]


@checked
def bench(
    op: Names = (),
    release: Names = (),
    engine: str | Callable[..., Any] | Sequence[str | Callable[..., Any]] = TOPK,
    *,
    rows: Numbers | None = None,
    width: Numbers | None = None,
    k: Numbers = KS,
    lengths: str = "full",
    capacity: int | None = None,
    boundaries: bool = False,
    distribution: str = "random",
    dtype: str = "float32",
    seed: int = 0,
    device: str | None = None,
    l2: str = "warm",
    samples: int = SAMPLES,
    warmups: int = WARMUPS,
    timeout: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> Bench:
    """Time selectors side by side on made batches, and check each selection while it is timed.

    Args:
        op: one or several, as in ``vllm.persistent_topk``. release: one or several, or ranges, as in
            ``vllm==0.24.0..0.33.0``: those that are added or installed for ``vendor``, those that routing knows else.
        engine: ``vendor``, ``cuda``, ``model``, ``torch.topk``, ``package.module:function`` (in a process of its own),
            a callable (in this one), or several of these.
        rows, width, k: of the batches, every combination. lengths: ``full``, ``ragged`` (80 to 100 % of the width) or
            ``both``. capacity: a larger padded width. boundaries: row counts and widths on both sides of what decides
            the routes of the ops, in place of those not given.
        distribution, dtype, seed: of the scores. device: that paths are routed for; the GPU here by default.
        l2: ``warm``, ``cold`` or ``both``. samples, warmups: calls of a cell that are timed, and before them.
        timeout: seconds that one call of a callable by name may take. progress: called with the number of cells done.

    Returns:
        The benchmark; ``workbench.runs.bench_saved.write_bench`` keeps it.

    Raises:
        UsageError: what cannot be carried out as asked.
    """
    given = [engine] if isinstance(engine, str) or callable(engine) else engine
    called: dict[str, Timer] = {}
    names = []
    for one in given:
        if isinstance(one, str):
            names.append(one)
            continue
        made = CallableEngine(one)
        if made.name in called:
            raise UsageError(f"{made.name} is given twice; give each engine once")
        called[made.name] = made
        names.append(made.name)
    check_timeout(timeout)
    planned = plan_bench(
        engines=names,
        ops=_texts(op),
        releases=_texts(release),
        rows=_numbers(rows),
        widths=_numbers(width),
        ks=_numbers(k) or KS,
        lengths=lengths,
        capacity=capacity,
        at_boundaries=boundaries,
        distribution=distribution,
        dtype=dtype,
        seed=seed,
        device=device,
        l2=l2,
        samples=samples,
        warmups=warmups,
    )
    with ExitStack() as stack:
        for name in names:
            if name not in called and name != TOPK and is_callable_name(name):
                called[name] = stack.enter_context(named_engine(name, call_s=timeout))
        return run_bench(
            planned.plan,
            Timers(called),
            about=planned.about,
            on_cells=lambda found: None if progress is None else progress(len(found.cells)),
        )


def plan_bench(
    *,
    engines: Sequence[str],
    ops: Sequence[str],
    releases: Sequence[str],
    rows: Sequence[int] = (),
    widths: Sequence[int] = (),
    ks: Sequence[int] = KS,
    lengths: str = "full",
    capacity: int | None = None,
    at_boundaries: bool = False,
    distribution: str = "random",
    dtype: str = "float32",
    seed: int = 0,
    device: str | None = None,
    l2: str = "warm",
    samples: int = SAMPLES,
    warmups: int = WARMUPS,
) -> Planned:
    """What is to be measured, from what was asked for; numbers that are not given are the usual ones.

    Raises:
        UsageError: what cannot be carried out as asked.
    """
    if samples < 1 or warmups < 0:
        raise UsageError(f"samples is {samples} and warmups {warmups}; at least 1 and 0 are needed")
    if device is None:
        device = device_of(torch.cuda.get_device_name()) if torch.cuda.is_available() else ""
    found, notes = _releases(engines, releases)
    who = tuple(contenders(engines, ops, found))
    if at_boundaries and capacity is not None:
        raise UsageError("--boundaries pads each row as little as ops allow; leave --capacity out")
    shapes: Sequence[Shape]
    if at_boundaries:
        shapes = boundaries(ks, edges_for(who, device.lower(), ks, dtype), lengths, rows, widths)
    else:
        shapes = grid(rows or ROWS, widths or WIDTHS, ks, lengths, capacity)
    plan = Plan(tuple(shapes), who, caches(l2), device.lower(), Sampling(samples, warmups), distribution, seed, dtype)
    check_plan(plan)
    return Planned(plan, {"releases": "; ".join(notes)} if notes else {})


def _releases(engines: Sequence[str], releases: Sequence[str]) -> tuple[Mapping[str, Sequence[str]], list[str]]:
    """The releases of each engine that runs ops, those of ranges in order, and what must be said of the ranges."""
    found: dict[str, list[str]] = {}
    notes: dict[str, None] = {}
    for engine in dict.fromkeys(one for one in engines if one in ROUTED) or dict.fromkeys(("",)):
        of_engine = found.setdefault(engine, [])
        for text in releases:
            if RANGE not in text:
                of_engine.append(text)
                continue
            tried = find_releases(text, (), "vendor" if engine == "vendor" else "model")
            of_engine += tried.releases
            notes.update(dict.fromkeys(tried.notes))
    return found, list(notes)


def _texts(given: Names) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _numbers(given: Numbers | None) -> list[int]:
    return [] if given is None else [given] if isinstance(given, int) else list(given)
