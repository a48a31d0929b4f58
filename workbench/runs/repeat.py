"""Many calls on one row, on the engines that there are: what comes and goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import torch

from workbench.analysis.repeatability import Repeatability, Tally
from workbench.analysis.risk import LOSING, Risk
from workbench.analysis.verdict import judge
from workbench.arguments import checked
from workbench.capture import Capture, Row
from workbench.capture.mapped import Mapped
from workbench.errors import UsageError
from workbench.paths.catalog import get_path
from workbench.paths.orders import DEFAULT_SEED
from workbench.paths.spec import Determinism
from workbench.paths.transforms.recorded import positions, recorded_positions
from workbench.rendering import Rendered
from workbench.runs.case import Case
from workbench.runs.inspect import judged_paths
from workbench.runs.report import Result
from workbench.runs.run import STOCK, run_case

MODEL, RECORDED = "model", "recorded"
ENGINES = (MODEL, RECORDED)


@dataclass(frozen=True)
class Repeated(Rendered):
    """Many calls of one path, or of the op as recorded, on one row.

    Attributes:
        path, variant: ``None`` for recorded calls. engine: ``model`` or ``recorded``.
        refused: why there were no calls; the fields below are then empty.
        repeatability: how much they agree. verdicts: calls of each verdict.
        missing_least, missing_most: values of the exact top-k that a call lacked. of: how many there are.
        missing: what each call lacked, in their order; empty where they are not judged.
        called: what was called, in words; empty where path and variant, or that they are recorded, say it.
        unjudged: why the calls are compared and not judged; empty if they are judged.
        risk: of the row on the path, over every arrival order; ``None`` for recorded calls.
        finding: what the selector does to the row beside selecting wrongly, as hanging on it.
    """

    path: str | None
    variant: str | None
    engine: str
    refused: str | None = None
    repeatability: Repeatability | None = None
    verdicts: dict[str, int] = field(default_factory=dict)
    missing_least: int = 0
    missing_most: int = 0
    of: int = 0
    risk: str | None = None
    finding: str | None = None
    unjudged: str = ""
    missing: tuple[int, ...] = ()
    called: str = ""

    @property
    def loses(self) -> bool:
        """Whether values vary, a call lost winners or returned invalid slots, or the row is not safe."""
        varies = self.repeatability is not None and self.repeatability.kind == "values vary"
        return varies or bool(self.lossy_calls) or self.risk in LOSING or self.finding is not None

    @property
    def lossy_calls(self) -> int:
        """How many calls lost winners or returned invalid slots."""
        return self.verdicts.get("lossy", 0) + self.verdicts.get("invalid", 0)

    @property
    def name(self) -> str:
        """As in ``sglang.fast_topk (stock)``."""
        return self.called or (f"{self.path} ({self.variant})" if self.path else "the recorded op")

    @property
    def sentence(self) -> str:
        """What came of the calls, in a sentence or two."""
        found = self.repeatability
        if found is None:
            return f"{self.name} was not called: {self.refused}."
        text = f"{found.calls} calls of {self.name}: {found.kind}"
        if self.engine == MODEL and keeps_order(self.path, self.variant):
            text += ", as the path promises"
        if found.kind != "same":
            orders, sets, moving = found.orders, found.sets, len(found.members)
            counts = f"{orders} order{_s(orders)}, {sets} set{_s(sets)} of indices, {found.values} of values"
            come = "1 index comes and goes" if moving == 1 else f"{moving} indices come and go"
            text += f" ({counts}; {come}, {found.steady} {'is' if found.steady == 1 else 'are'} always held)"
        if self.unjudged:
            return f"{text}. None is judged: {self.unjudged}."
        lost = self.lossy_calls
        if not lost:
            return f"{text}. No call lost a winner."
        least, most = self.missing_least, self.missing_most
        span = str(most) if least == most else f"{least} to {most}"
        what = "lost winners or returned invalid slots"
        return f"{text}. {lost} of {found.calls} calls {what}: {span} of {self.of} missing."


def _s(count: int) -> str:
    return "" if count == 1 else "s"


@dataclass(frozen=True, eq=False)
class Repeats(Rendered):
    """Many calls on one row.

    Attributes:
        row: the row. k: winners wanted. judged_because: why these paths. lines: one a path and variant, recorded last.
    """

    row: Row
    k: int
    judged_because: str
    lines: tuple[Repeated, ...]

    @property
    def loses(self) -> bool:
        """Whether values vary, winners are lost, or the row is not safe anywhere."""
        return any(line.loses for line in self.lines)

    @property
    def worst(self) -> Repeated | None:
        """The line whose calls agree least, and of those the one that lost most; ``None`` if nothing was called."""
        called = [line for line in self.lines if line.repeatability is not None]
        return max(called, key=_damage, default=None)


def _damage(line: Repeated) -> tuple[int, int, int]:
    found = line.repeatability
    assert found is not None
    order = ("same", "order varies", "ties vary", "values vary")
    return order.index(found.kind), line.missing_most, found.sets


@checked
def repeat(
    row: Row,
    repeats: int = 50,
    *,
    paths: str | None = None,
    variants: str = STOCK,
    engine: str | None = None,
    among: Iterable[Row] | Capture = (),
    op: str | None = None,
    release: str | None = None,
    device: str | None = None,
    k: int | None = None,
    seed: int = DEFAULT_SEED,
    progress: Callable[[int], None] | None = None,
) -> Repeats:
    """Call selectors many times on one row.

    Args:
        row: the row. repeats: calls of each path; call i has the random arrival order of seed + i, but for paths that
            promise the same result on every run: whatever order they keep, all calls have that of the seed.
        paths: a glob of paths; by default the path that the row reaches where op, release and device decide it, else
            every path that it may take. variants: a glob of variants.
        engine: ``model``, or ``recorded``: the recorded selections of all calls on the same input (bit for bit, under
            the same k) among the row itself and ``among``. By default both, recorded ones where there are two or more.
        among: the capture of the row, or other rows.
        op, release, device, k: those of the call where not given.
        progress: called with the number of repeats done.

    Raises:
        UsageError: an unknown name, or fewer than two repeats.
        CaptureError: a row that cannot be read, or whose k is not known.
    """
    if repeats < 2:
        raise UsageError(f"repeats is {repeats}; two calls or more are compared")
    if engine not in (None, *ENGINES):
        why = f"repeats are told of the engine {' or '.join(ENGINES)}, not of {engine!r}"
        raise UsageError(f"{why}; run calls any engine again: workbench run --repeats")
    case = Case(row, op, release, device, k)
    because = "recorded calls on the same input"
    lines: list[Repeated] = []
    if engine != RECORDED:
        judged, because = judged_paths(paths, case)
        lines += _modelled(case, judged, variants, repeats, seed, progress)
    elif paths is not None or variants != STOCK:
        raise UsageError("the recorded engine stands for the op as a whole; leave paths and variants as they are")
    if engine != MODEL:
        recorded = _recorded(case, among)
        if recorded.repeatability is not None or engine == RECORDED:
            lines.append(recorded)
    return Repeats(row, case.k, because, tuple(lines))


class Calls:
    """The calls of one path while they are counted."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.tally = Tally(case.row.valid, case.exact.indices)
        self.verdicts: Counter[str] = Counter()
        self.missing: list[int] = []

    def add(self, indices: torch.Tensor, verdict: str, missing: int) -> None:
        """Count a selection and its verdict."""
        self.tally.add(indices)
        self.verdicts[verdict] += 1
        self.missing.append(missing)

    def line(self, path: str | None, variant: str | None, engine: str, risk: Risk | None) -> Repeated:
        """What they amount to."""
        return Repeated(
            path,
            variant,
            engine,
            repeatability=self.tally.result(),
            verdicts=dict(self.verdicts),
            missing_least=min(self.missing),
            missing_most=max(self.missing),
            of=min(self._case.k, self._case.row.valid.numel()),
            risk=None if risk is None else risk.level,
            missing=tuple(self.missing),
        )


def _modelled(
    case: Case, paths: str, variants: str, repeats: int, seed: int, progress: Callable[[int], None] | None
) -> Iterator[Repeated]:
    calls: dict[tuple[str | None, str | None], Calls] = {}
    last: dict[tuple[str | None, str | None], Result] = {}
    for number in range(repeats):  # all paths under one arrival order, which is then worked out once
        for made in run_case(case, paths=paths, variants=variants, seed=seed + number):
            name = (made.line.path, made.line.variant)
            result = last[name] = last[name] if name in last and keeps_order(*name) else made
            if result.selection is not None and result.verdict is not None:
                one = calls.setdefault(name, Calls(case))
                one.add(result.selection.indices, result.verdict.kind, result.verdict.missing)
        if not calls:  # whoever refuses the row once refuses it always
            break
        if progress is not None:
            progress(number + 1)
    for (path, variant), result in last.items():
        if (path, variant) in calls:
            yield calls[path, variant].line(path, variant, MODEL, result.risk)
        else:
            level = None if result.risk is None else result.risk.level
            told = result.line.finding
            yield Repeated(path, variant, MODEL, refused=result.line.refused, risk=level, finding=told)


def keeps_order(path: str | None, variant: str | None) -> bool:
    """Whether a path promises the same result on every run, under an order of its own that nothing tells."""
    if path is None or variant is None:
        return False
    spec = get_path(path)
    contract = spec.variant(variant).contract or spec.contract
    return contract.determinism is Determinism.RUN_TO_RUN


def _recorded(case: Case, among: Iterable[Row] | Capture) -> Repeated:
    if case.row.indices is None:
        return Repeated(None, None, RECORDED, refused="the capture holds no recorded selection")
    slots = case.row.indices.numel()
    if slots != case.k:  # as the recorded engine says it
        return Repeated(None, None, RECORDED, refused=f"the recorded selection has {slots} slots, k is {case.k}")
    try:
        recorded_positions(case.row)
    except UsageError as error:
        return _as_mapped(case, among, str(error))
    calls = Calls(case)
    try:
        for indices in _selections(case, among, positions):
            verdict = judge(case.row.valid, case.exact.indices, indices)
            calls.add(indices, verdict.kind, verdict.missing)
    except UsageError as error:
        return Repeated(None, None, RECORDED, refused=f"of another call on the same input: {error}")
    found = calls.line(None, None, RECORDED, None)
    if found.repeatability is None or found.repeatability.calls > 1:
        return found
    return Repeated(None, None, RECORDED, refused="the capture holds no second call on the same input")


Read = Callable[[torch.Tensor, Mapped | None, int | None], torch.Tensor]


def _as_mapped(case: Case, among: Iterable[Row] | Capture, why: str) -> Repeated:
    """Calls whose positions cannot be told: whether they returned the same entries, without a look at the scores."""
    nothing = case.row.valid[:0]
    tally = Tally(nothing, torch.zeros(0, dtype=torch.int64, device=nothing.device))
    for indices in _selections(case, among, lambda indices, *_: indices):
        tally.add(indices)
    found = tally.result()
    if found.calls < 2:
        return Repeated(None, None, RECORDED, refused=why)
    if found.sets > 1:
        told = f"{found.calls} calls hold {found.sets} different sets of them, as other pages of the same positions do"
        return Repeated(None, None, RECORDED, refused=f"{why}; {told}")
    return Repeated(None, None, RECORDED, repeatability=found, unjudged=why)


def _selections(case: Case, among: Iterable[Row] | Capture, read: Read) -> Iterator[torch.Tensor]:
    """The recorded selections of the row and of every other one with the same input; scores are read last.

    Args:
        read: makes of recorded indices, of what they are and of the row's length what is compared.

    Raises:
        UsageError: ``read`` cannot.
    """
    row, digest = case.row, case.row.digest
    assert row.indices is not None
    slots, device = row.indices.numel(), row.indices.device
    length = None if row.outside else row.length  # of all others too, whose input is the same
    yield read(row.indices, row.mapped, length)
    if not isinstance(among, Capture):
        others = list(among)
        itself_at = _place_of(row, others)
        for number, other in enumerate(others):
            held = other.indices
            if number != itself_at and held is not None and held.numel() == slots and other.digest == digest:
                yield read(held, other.mapped, length).to(device)
        return
    for number in torch.nonzero(among.lengths == row.length).flatten().tolist():
        if among.slots_of(number) != slots or among.digest_of(number) != digest:
            continue
        indices = among.indices_of(number)
        assert indices is not None
        if (among.name, number) == (row.capture, row.index) and _agree(indices, row.indices):
            continue
        yield read(indices, among.mapped_of(number), length).to(device)


def _place_of(row: Row, among: list[Row]) -> int | None:
    """Where a row stands among others: as the same object, else as one that was read again from the same place."""
    for number, other in enumerate(among):
        if other is row:
            return number
    if not row.capture:
        return None
    for number, other in enumerate(among):
        if (other.capture, other.index) == (row.capture, row.index) and _agree(other.indices, row.indices):
            return number
    return None


def _agree(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    """Whether two recorded selections are one: captures of one name need not be the same file."""
    return one is not None and other is not None and torch.equal(one.cpu(), other.cpu())
