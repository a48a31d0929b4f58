"""What a kernel must have done with a row: exactly what the model does once it is told which members were dropped.

The arrival order decides nothing but that, as far as values go: with the dropped members last in line, the model must
report the same numbers, pass by pass, and take the same values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch

from workbench.analysis.reference import reference
from workbench.analysis.verdict import judge
from workbench.capture.row import Call, Row
from workbench.engines.cuda.reports import Report
from workbench.engines.cuda.sources import KEPT, KERNELS, kernel_of
from workbench.errors import UsageError
from workbench.numeric.bounds import coarse_bin_lower_bound
from workbench.numeric.keys import value_keys
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import find_paths
from workbench.paths.model import run_model
from workbench.paths.models.recovery import SNIFF
from workbench.paths.selection import UNWRITTEN, Cost, Selection, Share, Telemetry
from workbench.paths.shared import BYTES
from workbench.paths.spec import Path, TieBreak, Variant
from workbench.synthetic.adversarial import CUT_BYTES, Recipe, make_adversarial, usual_k

CASES = [
    (path, variant.name)
    for path in find_paths()
    for variant in path.variants
    if path.family != "identity" and kernel_of(path, variant.name) is not None
]
TRIVIAL = [(path, "stock") for path in find_paths() if path.family == "identity"]  # rows that no other case is given
NAMES = [f"{path.name}-{variant}" for path, variant in CASES]


def check(
    path: Path,
    variant: str,
    scores: torch.Tensor,
    k: int,
    made: Selection,
    report: Report,
    start: int = 0,
    width: int | None = None,
) -> None:
    """Hold one row's selection and report against the model and, where it loses nothing, against the reference.

    Args:
        scores: [length] of the kernel's dtype on the CPU, longer than k. made: with the members that were dropped all
            listed. width: padded columns of the launch.
    """
    indices, told = made.indices, report.telemetry
    length, chosen = scores.numel(), path.variant(variant)
    assert report.dropped == told.dropped.numel() == told.dropped.unique().numel()
    model = run_model(_bounded(path), scores, k, _last(told.dropped, length), variant, start=start, width=width)
    assert model.telemetry is not None
    assert _numbers(told) == _numbers(model.telemetry)
    assert bool(told.cost.fallback) == bool(model.telemetry.cost.fallback)
    assert set(told.dropped.tolist()) == set(model.telemetry.dropped.tolist())
    if told.histogram is not None and model.telemetry.histogram is not None:
        assert torch.equal(told.histogram, model.telemetry.histogram)
    assert _odd(indices, length) == _odd(model.indices, length)
    assert torch.equal(_values(scores, indices), _values(scores, model.indices))
    if (chosen.contract or path.contract).tie_break is TieBreak.PREFER_SMALLER_INDEX:
        assert torch.equal(indices, model.indices)
    ranked = told.buffered and told.stored <= path.ranked_ties
    if ranked or (told.cost.fallback and kernel_of(path, variant) == KERNELS["unique_key"]):
        assert torch.equal(indices.sort().values, model.indices.sort().values)  # equal scores by their indices
    if chosen.lossless and not bool(torch.isnan(scores).any()):
        exact = reference(Row(scores, length, call=Call(width=length)), k).indices
        assert judge(scores, exact, indices, UNWRITTEN).kind in ("exact", "ties")


def _bounded(path: Path) -> Path:
    """The path as its kernel runs it, where the original writes past its buffer."""
    return replace(
        path, variants=tuple(replace(one, model="stash") if one.model == "unguarded" else one for one in path.variants)
    )


def _last(dropped: torch.Tensor, length: int) -> Arrival:
    """The arrival order in which these positions come last."""
    if not dropped.numel():
        return Arrival()
    last = torch.zeros(length, dtype=torch.bool)
    last[dropped[dropped < length]] = True  # cells past the row's end arrive after its last score in any case
    order = torch.cat([torch.nonzero(~last).flatten(), torch.nonzero(last).flatten()])
    return Arrival("explicit", order=tuple(order.tolist()))


def _numbers(telemetry: Telemetry) -> Telemetry:
    """What can be compared: a search for no winners is no pass, what it cost is not measured on a device."""
    passes = tuple(one for one in telemetry.passes if one.need)
    none = torch.empty(0)
    kept = {"shares": _shares(telemetry), "dropped": None}
    return replace(telemetry, passes=passes, histogram=None, dropped=none, cost=Cost()).__dict__ | kept


def _shares(telemetry: Telemetry) -> tuple[Share, ...]:
    """Where a search of the row stands in for what the buffer did not take, whose members it holds is open."""
    shares = telemetry.shares
    stored = sum(one.stored for one in shares)
    if telemetry.dropped.numel() or stored == sum(one.population for one in shares):
        return shares
    assert all(one.stored <= one.population for one in shares)
    return tuple(replace(one, stored=stored) for one in shares)


def _odd(indices: torch.Tensor, length: int) -> list[int]:
    return sorted(indices[(indices < 0) | (indices >= length)].tolist())


def _values(scores: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """What was selected, sorted; an index that comes again stands for garbage, and which one does is open."""
    inside = indices[(indices >= 0) & (indices < scores.numel())].unique().to(torch.int64)
    return value_keys(scores[inside]).sort().values


def dtype_of(path: Path, variant: str) -> torch.dtype:
    """Of the scores that the kernel takes."""
    kernel = kernel_of(path, variant)
    assert kernel is not None
    assert kernel.dtype is not None
    return getattr(torch, kernel.dtype)


def rows_for(path: Path, variant: str, quick: bool = True) -> Iterator[tuple[str, torch.Tensor, int]]:
    """Rows that a variant takes, with the winners wanted: usual ones, its buffer's edge, and every kind of number."""
    for name, scores, k in _rows_for(path, variant, quick):
        yield name, scores.to(dtype_of(path, variant)), k


def _rows_for(path: Path, variant: str, quick: bool) -> Iterator[tuple[str, torch.Tensor, int]]:
    path = path.as_variant(path.variant(variant))
    generator = torch.Generator().manual_seed(11)
    low = path.longer_than if isinstance(path.longer_than, int) else 0
    most_k = usual_k(path)
    for k in dict.fromkeys((most_k, min(path.ks) if path.ks is not None else 1)):
        room = path.buffer.slots(k) if path.buffer is not None else 0
        length = min(max(low, room, 3 * k) + 1001, path.up_to if isinstance(path.up_to, int) else 1 << 20)
        normal = torch.randn(length, generator=generator)
        odd = normal.clone()
        odd[::3], odd[1::3] = 0.0, -0.0
        odd[2], odd[5] = math.inf, -math.inf
        yield "normal", normal, k
        yield "least length", normal[: max(low, k) + 1], k
        yield "one bin", 1 + 0.2 * torch.rand(length, generator=generator), k
        yield "constant", torch.full((length,), 0.75), k
        equal = normal.clone()
        equal[normal.topk(k + 9).indices[max(0, k - 7) :]] = 0.75 + float(normal.topk(k).values[-1])
        yield "few equal at the cut", equal, k
        yield "zeros of both signs", odd, k
        yield "relu", torch.relu(normal - 2), k
        yield "past fp16", torch.arange(70000, 70000 - length, -1, dtype=torch.float32), k
        yield "subnormal", torch.rand(length, generator=generator) * 1e-7, k
        yield "negative, coarse", -(1 + torch.rand(length, generator=generator)).to(torch.bfloat16).float(), k
        yield "minus infinity", torch.where(normal > 2.5, normal, -math.inf), k
        signs = torch.where(torch.arange(length) % length < k // 2 + 1, 0.0, -0.0)
        yield "threshold at -0.0", signs[torch.randperm(length, generator=generator)], k
        for ties in (20, 48, 96):  # ranked, with idle lanes beside them from 33 on
            infinite = torch.full((length,), math.nan)
            infinite[: length - ties] = torch.randn(length - ties, generator=generator)
            few = torch.where(torch.isnan(infinite), -math.inf, infinite)[-(k + 12) :]
            if ties > 12 and few.numel() > k and ties <= k + 12:
                yield f"{ties} of minus infinity", few[torch.randperm(few.numel(), generator=generator)], k
        yield "on a bound", _on_bounds(path, length)[torch.randperm(length, generator=generator)], k
        yield "NaN", torch.where(normal > 1.5, torch.where(normal > 2, -math.nan, math.nan), normal), k
        if not quick:
            yield "long", torch.randn(_longest(path), generator=generator), k
            yield "long, one bin", 1 + 0.2 * torch.rand(_longest(path), generator=generator), k
    yield from _adversarial(path, most_k)
    yield from _of_ranks(path, most_k, quick)


def _on_bounds(path: Path, length: int) -> torch.Tensor:
    """Scores at the midpoints where bins of the path meet, negative ones too, and their neighbours."""
    bits = path.key_bits or BYTES[0]
    bins = torch.arange(length) % 6 + (0x43FF >> (16 - bits)) - 3  # about -1
    bounds = torch.tensor([coarse_bin_lower_bound(int(one), bits, "midpoint") for one in bins[:6]])[bins - bins.min()]
    return torch.where(torch.arange(length) % 7 == 0, torch.nextafter(bounds, torch.tensor(9.0)), bounds)


def _longest(path: Path) -> int:
    return path.up_to if isinstance(path.up_to, int) else 200_000


def _adversarial(path: Path, k: int) -> Iterator[tuple[str, torch.Tensor, int]]:
    if path.buffer is None or path.key_bits is None:
        return
    room = path.buffer.slots(k)
    recipes = [Recipe(population, above=min(k - 1, 37)) for population in (room, room + 1, room + 500)]
    recipes += [Recipe(2 * room, above=0, cut_byte=byte) for byte in CUT_BYTES]
    recipes += [Recipe(2 * room, positions="clustered", values=values) for values in ("forward", "reversed")]
    for recipe in recipes:
        try:
            (row,) = make_adversarial(path, recipe, k=k)
        except UsageError:  # a bin that such a path cannot have
            continue
        yield str(recipe), row.valid, k


def _of_ranks(path: Path, k: int, quick: bool) -> Iterator[tuple[str, torch.Tensor, int]]:
    """Rows whose threshold bin lies with one block of a cluster; and slices that no block keeps whole."""
    if path.buffer is None or path.buffer.ranks is None:
        return
    ranks, generator = path.buffer.ranks, torch.Generator().manual_seed(3)
    low = path.longer_than if isinstance(path.longer_than, int) else 0
    length = max(low + 1, ranks.count * (path.buffer.slots(k) + 2 * ranks.unit)) + 3
    owners = ranks.owners(torch.arange(length), length)
    for rank in (0, ranks.count - 1):
        own = torch.nonzero(owners == rank).flatten()
        for count in (ranks.capacity, ranks.capacity + 1, own.numel()):
            scores = -1 - torch.rand(length, generator=generator)
            scores[own[:count]] = 1 + 0.05 * torch.rand(min(count, own.numel()), generator=generator)
            scores[owners != rank] -= torch.randint(0, 2, (length,), generator=generator)[owners != rank]
            yield f"{count} of the bin with block {rank} of {ranks.count}", scores, k
    for name, dtype in (("fp16", torch.float16), ("bfloat16", torch.bfloat16)):
        short = (-1.23 + 0.05 * torch.rand(length, generator=generator)).to(dtype).float()
        yield f"{name} scores in one bin", short, k
        others = -2 + torch.rand(SNIFF, generator=generator)
        yield f"{name} scores behind others", torch.cat([others, short]), k
        yield f"{name} scores before another", torch.cat([short, short[:1] + 1e-6]), k
    if not quick or ranks.count <= 4:
        length = ranks.count * KEPT + 4001
        yield "slices longer than what is kept", torch.randn(length, generator=generator), k
        yield "long slices, one bin", 1 + 0.2 * torch.rand(length, generator=generator), k


def takes(path: Path, variant: Variant, scores: torch.Tensor, k: int) -> bool:
    """Whether the variant takes such a row."""
    dtype = str(scores.dtype).removeprefix("torch.")
    return not path.as_variant(variant).unmet(k=k, length=scores.numel(), dtype=dtype)
