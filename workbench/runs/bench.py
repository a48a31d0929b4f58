"""Selectors timed side by side on made batches, each selection checked against ``torch.topk`` while it is timed."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import torch

from workbench.analysis.batch_verdict import BatchOracle, BatchVerdict
from workbench.analysis.samples import Ratio, Spread, ratio, spread
from workbench.capture.row import Call, Row
from workbench.engines.launch import Answer, Launch
from workbench.engines.timers import TOPK, CudaTimer, ModelTimer, Taken, TopkTimer
from workbench.engines.timing import Machine, Sampling, Timer, measure_machine
from workbench.errors import UsageError, WorkbenchError
from workbench.paths.catalog import get_path
from workbench.paths.devices import DEVICES, get_device
from workbench.paths.routing import route
from workbench.rendering import Rendered
from workbench.runs.bench_grid import LEAST_SHARE, RAGGED, Cache, Contender, Shape, by_batch
from workbench.runs.launches import LIMIT
from workbench.synthetic.batches import make_batch
from workbench.synthetic.distributions import get_distribution
from workbench.words import listed

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
GIB = 2**30
NO_DEVICE = "the device that routing is asked for is not known; give it (--device)"


@dataclass(frozen=True)
class BenchCell:
    """One contender on one shape. One of ``times_us``, ``refused`` and ``fault`` is there.

    Attributes:
        shape, l2, contender: what was measured. paths: where the rows go, as in ``vllm.filtered``, with the variant in
            brackets where it is not ``stock``; empty where routing does not tell.
        times_us: microseconds of each sample. late: how many of them hold the host's time too.
        score_bytes: bytes of the valid scores of the batch.
        verdict: of the calls before and after the samples. refused: every reason why nothing was called. fault: what a
            call did instead of returning. notes: what must be known of the numbers.
    """

    shape: Shape
    l2: Cache
    contender: Contender
    paths: tuple[str, ...] = ()
    times_us: tuple[float, ...] = ()
    late: int = 0
    score_bytes: int = 0
    verdict: BatchVerdict | None = None
    refused: tuple[str, ...] = ()
    fault: str = ""
    notes: tuple[str, ...] = ()

    @property
    def spread(self) -> Spread | None:
        """Of the samples, in microseconds."""
        return spread(self.times_us) if self.times_us else None

    @property
    def gbs(self) -> float | None:
        """10^9 bytes of scores a second, at the median: as if each score were read once."""
        return self.score_bytes / self.spread.median / 1000 if self.spread and self.spread.median > 0 else None

    @property
    def is_wrong(self) -> bool:
        """Whether a selection was lossy or invalid, or a call did not return."""
        return bool(self.fault) or (self.verdict is not None and self.verdict.wrong > 0)


@dataclass(frozen=True)
class Plan:
    """What is to be measured, and how.

    Attributes:
        shapes, contenders, l2: each shape with each contender and state of the cache is a cell.
        device: as routing knows it, as in ``h200``; empty where it is not known.
        sampling: of each cell, its ``cold`` left aside. distribution, seed, dtype: of the scores.
    """

    shapes: tuple[Shape, ...]
    contenders: tuple[Contender, ...]
    l2: tuple[Cache, ...] = ("warm",)
    device: str = ""
    sampling: Sampling = field(default_factory=Sampling)
    distribution: str = "random"
    seed: int = 0
    dtype: str = "float32"

    @property
    def cells(self) -> int:
        """How many there are."""
        return len(self.shapes) * len(self.contenders) * len(self.l2)


@dataclass(frozen=True)
class Bench(Rendered):
    """What was measured.

    Attributes:
        plan: what was asked for; ``cells`` hold the first of its cells, all of them if ``is_complete``.
        machine: where. about: date, versions, and of each release the library that was loaded.
    """

    plan: Plan
    machine: Machine
    cells: tuple[BenchCell, ...] = ()
    about: dict[str, str] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether every cell of the plan is there."""
        return len(self.cells) == self.plan.cells

    @property
    def wrong(self) -> int:
        """Cells with a wrong selection or a fault."""
        return sum(cell.is_wrong for cell in self.cells)

    @property
    def measured(self) -> int:
        """Cells that were timed."""
        return sum(bool(cell.times_us) for cell in self.cells)

    def beside_op(self) -> dict[int, Ratio]:
        """By the place of a ``cuda`` or ``model`` cell: its time over that of the release's op on the same shape."""
        ops = {
            (cell.shape, cell.l2, cell.contender.op, cell.contender.release): cell.spread
            for cell in self.cells
            if cell.contender.engine == "vendor"
        }
        found = {}
        for at, cell in enumerate(self.cells):
            other = ops.get((cell.shape, cell.l2, cell.contender.op, cell.contender.release))
            if cell.contender.engine in ("cuda", "model") and cell.spread is not None and other is not None:
                one = ratio(cell.spread, other)
                if one is not None:
                    found[at] = one
        return found


def check_plan(plan: Plan) -> None:
    """Refuse a plan that cannot be carried out.

    Raises:
        UsageError: an unknown distribution, dtype or device, or no device where a path is to be routed.
    """
    get_distribution(plan.distribution)
    if plan.dtype not in DTYPES:
        raise UsageError(f"unknown dtype {plan.dtype!r}; known: {', '.join(DTYPES)}")
    if plan.device:
        get_device(plan.device)
    elif any(one.engine in ("cuda", "model") for one in plan.contenders):
        raise UsageError(NO_DEVICE)


def device_of(gpu: str) -> str:
    """The device that routing knows for a GPU's name; empty if none."""
    return next((device.name for device in DEVICES if device.name in gpu.lower().split()), "")


class Timers:
    """Makes what times a contender; engines of releases and callables stay open until the end.

    Args:
        opened: by engine and release, what was opened before and is not closed here. open_vendor: opens a release.
    """

    def __init__(
        self, opened: Mapping[str, Timer] | None = None, open_vendor: Callable[[str], Timer] | None = None
    ) -> None:
        self._given = dict(opened or {})
        self._open_vendor = open_vendor
        self._releases: dict[str, Timer] = {}

    def timer(self, contender: Contender, taken: Sequence[Taken], seed: int, device: str = "") -> Timer:
        """Of a contender on a batch whose rows take these paths on a device that routing knows.

        Raises:
            WorkbenchError: what cannot be opened.
        """
        if contender.engine in self._given:
            return self._given[contender.engine]
        if contender.engine == TOPK:
            return TopkTimer()
        if contender.engine == "model":
            return ModelTimer(taken, seed)
        if contender.engine == "cuda":
            return CudaTimer(taken, contender.release or "", device)
        if contender.engine != "vendor" or contender.release is None:
            raise UsageError(f"unknown engine {contender.engine!r}; known: model, cuda, vendor, {TOPK}, or a callable")
        if contender.release not in self._releases:
            self._releases[contender.release] = self._opened(contender.release)
        return self._releases[contender.release]

    def _opened(self, release: str) -> Timer:
        if self._open_vendor is not None:
            return self._open_vendor(release)
        from workbench.engines.registry import vendor_engine

        return vendor_engine(release)

    def close(self) -> None:
        """End the releases' processes."""
        while self._releases:
            self._releases.popitem()[1].close()


def run_bench(
    plan: Plan,
    timers: Timers | None = None,
    *,
    torch_device: str | torch.device | None = None,
    about: Mapping[str, str] | None = None,
    on_cells: Callable[[Bench], None] = lambda bench: None,
) -> Bench:
    """Measure every cell of a plan.

    Cells of one shape follow each other, and shapes of the same scores; within a batch the order is the plan's.

    Args:
        timers: what times the contenders, closed at the end. torch_device: where; a GPU if there is one, else the CPU.
        about: what is to be said of the run besides.
        on_cells: called with what is there after each shape, and once before the first.

    Raises:
        UsageError: as for ``check_plan``. Whatever ``on_cells`` raises ends the run.
    """
    check_plan(plan)
    device = torch.device(torch_device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    machine = measure_machine(device)
    said = {"date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"), **(about or {})}
    cells: list[BenchCell] = []
    on_cells(Bench(plan, machine, (), said))
    with closing(timers or Timers()) as opened:
        for same in by_batch(plan.shapes):
            batch: _Batch | None = None
            for shape in same:
                why = _impossible(shape, DTYPES[plan.dtype])
                if why:
                    made = [BenchCell(shape, l2, one, refused=(why,)) for l2 in plan.l2 for one in plan.contenders]
                else:
                    batch = batch or _Batch(plan, shape, device)
                    made = batch.cells(shape, opened, said)
                cells += made
                on_cells(Bench(plan, machine, tuple(cells), dict(said)))
    return Bench(plan, machine, tuple(cells), said)


def _impossible(shape: Shape, dtype: torch.dtype) -> str:
    """Why nobody is called on a shape, in words; empty if it can be laid."""
    if shape.k > shape.width:
        return f"k is {shape.k}, above the padded width {shape.width}"
    size = shape.rows * shape.width * dtype.itemsize
    if size > LIMIT:
        return f"{size / GIB:.3g} GiB of scores are more than {LIMIT / GIB:.3g} GiB; take fewer rows"
    return ""


class _Batch:
    """The scores of shapes that differ in k only."""

    def __init__(self, plan: Plan, shape: Shape, device: torch.device) -> None:
        self._plan, self._device = plan, device
        self._scores, self._lengths = make_batch(
            plan.distribution,
            rows=shape.rows,
            length=shape.length,
            width=shape.width,
            least_share=LEAST_SHARE if shape.lengths == RAGGED else 1.0,
            seed=plan.seed,
            dtype=DTYPES[plan.dtype],
            device=device,
        )
        self._valid = int(self._lengths.sum()) * self._scores.element_size()

    def cells(self, shape: Shape, timers: Timers, about: dict[str, str]) -> list[BenchCell]:
        """Every contender in every state of the cache."""
        oracle = BatchOracle(self._scores, self._lengths, shape.k)
        host = self._lengths.cpu()
        made = []
        for l2 in self._plan.l2:
            for contender in self._plan.contenders:
                cell = BenchCell(shape, l2, contender, score_bytes=self._valid)
                cell, taken = self._routed(cell, host)
                if not cell.refused:
                    cell = self._timed(cell, taken, timers, oracle, about)
                made.append(cell)
        return made

    def _routed(self, cell: BenchCell, lengths: torch.Tensor) -> tuple[BenchCell, list[Taken]]:
        """A cell with its paths, and the path of each row."""
        contender = cell.contender
        if contender.op is None or not self._plan.device:
            return cell, []
        try:
            taken = self._taken(cell, lengths)
        except WorkbenchError as error:
            if contender.engine == "vendor":  # it runs whether routing knows the release or not
                return replace(cell, notes=(f"its paths are not known: {error}",)), []
            return replace(cell, refused=(str(error),)), []
        return replace(cell, paths=tuple(dict.fromkeys(map(_spelled, taken)))), taken

    def _taken(self, cell: BenchCell, lengths: torch.Tensor) -> list[Taken]:
        """The path of each row.

        A route depends on a row's length, and past a bound on its number: the first and the last row of each length
        tell for those between them if they go the same way, and are all asked if not.
        """
        shape, contender = cell.shape, cell.contender
        call = Call(
            k=shape.k, rows=shape.rows, width=shape.width, stride=shape.width, max_seq_len=shape.max_seq_len, next_n=1
        )
        places: dict[int, list[int]] = {}
        for at, length in enumerate(lengths.tolist()):
            places.setdefault(length, []).append(at)
        taken: dict[int, Taken] = {}

        def ask(at: int, length: int) -> Taken:
            row = Row(self._scores[at], length, call=call, index=at, batch=lengths)
            found = route(row, contender.op, contender.release, self._plan.device)
            if found.path is None or found.variant is None:
                raise UsageError(found.refused or f"the route depends on {listed(found.unknown)}")
            return Taken(get_path(found.path), found.variant)

        for length, rows in places.items():
            first, last = ask(rows[0], length), ask(rows[-1], length)
            taken.update((at, first if first == last else ask(at, length)) for at in rows)
        return [taken[at] for at in range(shape.rows)]

    def _timed(
        self, cell: BenchCell, taken: list[Taken], timers: Timers, oracle: BatchOracle, about: dict[str, str]
    ) -> BenchCell:
        shape = cell.shape
        launch = Launch(
            op=cell.contender.op or "",
            k=shape.k,
            scores=self._scores,
            lengths=self._lengths,
            max_seq_len=shape.max_seq_len,
            slots=tuple(range(shape.rows)),
        )
        sampling = replace(self._plan.sampling, cold=cell.l2 == "cold")
        try:
            answer = timers.timer(cell.contender, taken, self._plan.seed, self._plan.device).timed(launch, sampling)
        except WorkbenchError as error:
            return replace(cell, refused=(str(error),))
        except torch.OutOfMemoryError as error:
            return replace(cell, refused=(f"the device has not enough memory: {str(error).splitlines()[0]}",))
        _tell(about, cell.contender, answer)
        return _answered(cell, answer, oracle)


def _answered(cell: BenchCell, answer: Answer, oracle: BatchOracle) -> BenchCell:
    notes = (*cell.notes, *answer.notes)
    if answer.indices is None or answer.times is None:
        fault = answer.fault or ("" if answer.refused else "neither a selection nor a reason came back")
        return replace(cell, refused=answer.refused, fault="" if answer.refused else fault, notes=notes)
    late = answer.times.late
    if late:
        samples = len(answer.times.seconds)
        notes = (*notes, f"{late} of {samples} samples hold time of the host: the call waits there for the device")
    return replace(
        cell,
        times_us=tuple(round(seconds * 1e6, 3) for seconds in answer.times.seconds),
        late=late,
        verdict=oracle.judge(answer.indices),
        notes=notes,
    )


def _tell(about: dict[str, str], contender: Contender, answer: Answer) -> None:
    """Note which library a release was, by its file's name and the start of its digest."""
    if contender.release is not None and "library" in answer.about:
        name, digest = answer.about["library"].rpartition("/")[2], answer.about.get("sha256", "")[:12]
        about[f"{contender.release} {contender.op}"] = f"{name} {digest}".rstrip()


def _spelled(taken: Taken) -> str:
    return taken.path.name if taken.variant == "stock" else f"{taken.path.name} ({taken.variant})"
