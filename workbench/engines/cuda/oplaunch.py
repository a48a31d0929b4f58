"""An op's selection of a batch, as its launcher makes it: the call is fixed, lengths are read on the device.

What the host decides when it launches an op (from k, rows, width, stride and max_seq_len) is decided once. What each
row decides by its length is decided on the device whenever the launch is made: the kernel of each path is launched over
all rows and leaves those that are not its own. So a graph that captured the launch serves other lengths as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from workbench.capture.row import SCORE_DTYPES, Call
from workbench.engines.cuda.emission import Emission
from workbench.engines.cuda.launch import poisoned_like, prepare
from workbench.engines.cuda.planned import Planned
from workbench.engines.cuda.reports import Report
from workbench.engines.cuda.sources import kernel_of, without_kernel
from workbench.errors import UsageError
from workbench.paths.catalog import get_path
from workbench.paths.conditions import Setup
from workbench.paths.ops import get_op
from workbench.paths.selection import UNWRITTEN
from workbench.paths.spans import RESIDUES, Asked, Span, planned, spans_of, with_threshold
from workbench.words import listed

LEAST = -(2**31)
NOBODY = (1, 0)  # a first and a last length between which none lies


@dataclass(frozen=True)
class Part:
    """One kernel of an op.

    Attributes:
        path, variant: that it runs. takes: of each choice of the plan (one where there is none), and of each
            ``start % RESIDUES``, the first and the last length of its rows.
    """

    path: str
    variant: str
    takes: tuple[tuple[tuple[int, int], ...], ...]


@dataclass(frozen=True)
class Parts:
    """An op's kernels for one call.

    Attributes:
        kernels: in the order of the lengths that they take.
        plan: thresholds that the plan chooses from on the device, and how many rows above each it allows.
    """

    kernels: tuple[Part, ...]
    plan: tuple[tuple[int, int], ...] = ()


def parts_of(asked: Asked, lengths: Iterable[int] | None = None) -> Parts:
    """The kernels that an op runs on a call, from its routing.

    Rows no longer than k go with the kernel of the rows just above, as upstream. A negative length gives -1 in every
    slot where the op is described to do that; elsewhere its rows are left, as are those longer than their cells.

    Args:
        lengths: those that occur, where they are known: kernels that no row takes are left out.

    Raises:
        UsageError: the op does not take the call, what decides is not known, or a path has no kernel.
    """
    plan = planned(asked)
    choices = [with_threshold(asked, threshold) for threshold, _ in plan] or [asked]
    width = asked.call.width or 0
    bound = width if asked.call.max_seq_len is None else asked.call.max_seq_len
    least = LEAST if asked.leaves_empty(-1) else 0
    found: dict[tuple[str, str], list[list[tuple[int, int]]]] = {}
    for at, choice in enumerate(choices):
        for residue in range(RESIDUES):
            for span in _merged(spans_of(choice, residue, max(width, 1))):
                if span.path is None or span.variant is None:
                    if span.least <= bound:
                        raise UsageError(span.why)
                    continue  # outside the op's contract
                takes = found.setdefault((span.path, span.variant), [[NOBODY] * RESIDUES for _ in range(len(choices))])
                assert takes[at][residue] == NOBODY, "a path takes the lengths of one span"
                takes[at][residue] = (least if span.least == 0 else span.least, span.most)
    parts = [Part(*name, tuple(map(tuple, takes))) for name, takes in found.items()]
    if lengths is not None:
        occur = set(lengths)
        parts = [one for one in parts if any(_takes(one, length) for length in occur)]
    parts.sort(key=lambda one: min(span for choice in one.takes for span in choice if span != NOBODY))
    lacking = [
        without_kernel(get_path(one.path), one.variant)
        for one in parts
        if kernel_of(get_path(one.path), one.variant) is None
    ]
    if lacking:
        raise UsageError("; ".join(lacking))
    return Parts(tuple(parts), plan)


def _takes(part: Part, length: int) -> bool:
    return any(first <= length <= last for choice in part.takes for first, last in choice)


def _merged(spans: Sequence[Span]) -> list[Span]:
    """Rows that need no selection go with those just above, whose kernel serves them too."""
    if len(spans) > 1 and spans[0].trivial and spans[1].path is not None:
        return [replace(spans[1], least=0), *spans[2:]]
    return list(spans)


def unreturned(op: str, emission: Emission | None) -> list[str]:
    """Why a launch that stands for an op does not return this in place of positions, in words."""
    if emission is None:
        return []
    wanted, has = "offset" if emission.tables is None else "page table", get_op(op).transforms
    if wanted in has:
        return []
    if any(one.startswith("k-pool") for one in has):
        return [f"{op} returns the tokens of the pools that it selects; kernels return these pools, and expand none"]
    return [f"{op} returns {listed(has, 'or')}, no {wanted}"]


class OpLaunch:
    """An op on one batch, ready to be made as often as wanted, eagerly or in a CUDA graph.

    Everything is allocated, compiled and loaded when it is constructed. A call of it queues on torch's current stream
    and never waits for the device: what ``scores``, ``lengths`` and ``starts`` hold by then is what it selects from,
    whoever wrote it, the host or an earlier node of the graph.

    Args:
        op, release: as routing knows them, as in ``vllm.persistent_topk`` and ``vllm==0.26.0``. device: likewise, as in
            ``h200``: whose launcher decides.
        scores: [rows, width] on a CUDA device; the distance between rows is the call's stride.
        lengths: int32 [rows] there. starts: likewise; ``None`` where every row begins at 0.
        k: winners wanted. max_seq_len: the host-side bound, which is the width where not given.
        output: int32 [rows, k] there, rows any distance apart; a new one by default.
        emission: what stands there in place of positions, if the op can return it. Its tables are read whenever the
            launch is made, as lengths are. positions: int32 like ``output``, to be written with the positions beside
            it; ``True`` for a new one.
        telemetry: whether the builds that tell of their inside are taken.
        setup: of the engine.
        occurring: the lengths that occur, where they are known and stay: kernels that no row takes are left out.

    Attributes:
        output: positions within the rows' windows, or what stands for them by ``emission``; -1 in empty slots, and
            ``UNWRITTEN`` in slots that no kernel wrote: all those of a row that ``told`` explains.
        positions: likewise, of positions beside the output; ``None`` if not asked for.
        parts: the kernels, and what each takes.

    Raises:
        UsageError: as for ``parts_of`` and ``launch``, or the op returns no such thing as the ``emission``.
    """

    def __init__(
        self,
        op: str,
        release: str,
        device: str,
        scores: torch.Tensor,
        lengths: torch.Tensor,
        k: int,
        *,
        max_seq_len: int | None = None,
        starts: torch.Tensor | None = None,
        output: torch.Tensor | None = None,
        emission: Emission | None = None,
        positions: torch.Tensor | bool = False,
        telemetry: bool = False,
        setup: Setup | None = None,
        occurring: Iterable[int] | None = None,
    ) -> None:
        if scores.dim() != 2 or not scores.numel() or scores.dtype not in SCORE_DTYPES:
            raise UsageError(
                f"scores are {scores.dtype} {list(scores.shape)}; rows of floating-point scores are needed"
            )
        rows, width = scores.shape
        bound = width if max_seq_len is None else max_seq_len
        stride = scores.stride(0) if rows > 1 else max(scores.stride(0), width)
        if stride < 1 or bound < 1:
            raise UsageError(f"the stride is {stride} and max_seq_len {bound}; both must be at least 1")
        call = Call(k=k, rows=rows, width=width, stride=stride, max_seq_len=bound, next_n=1)
        self._asked = Asked(op, release, device, call, SCORE_DTYPES[scores.dtype], setup)
        self.parts = parts_of(self._asked, occurring)
        if reasons := unreturned(op, emission):
            raise UsageError("; ".join(reasons))
        there = scores.device
        if output is None:
            output = torch.empty((rows, k), dtype=torch.int32, device=there)
        self.output = output
        self.positions = poisoned_like(output) if positions is True else None if positions is False else positions
        self._lengths, self._starts, self._telemetry = lengths, starts, telemetry
        tables = torch.tensor([one.takes for one in self.parts.kernels], dtype=torch.int32, device=there)
        tables = (
            tables.view(len(self.parts.kernels), max(len(self.parts.plan), 1), RESIDUES, 2).transpose(0, 1).contiguous()
        )
        self._active = tables[0].clone()
        self._kernels = [
            prepare(
                get_path(one.path),
                one.variant,
                scores,
                lengths,
                k,
                starts=starts,
                output=output,
                emission=emission,
                positions=False if self.positions is None else self.positions,
                spans=self._active[at],
                telemetry=telemetry,
            )
            for at, one in enumerate(self.parts.kernels)
        ]
        self._plan = Planned(lengths, self.parts.plan, tables, self._active) if self.parts.plan else None

    def __call__(self, poison: bool = True) -> torch.Tensor:
        """Queue it on torch's current stream.

        Args:
            poison: whether output and positions are filled with ``UNWRITTEN`` before.

        Returns:
            ``output``.
        """
        if poison:
            self.output.fill_(UNWRITTEN)
            if self.positions is not None:
                self.positions.fill_(UNWRITTEN)
        if self._plan is not None:
            self._plan()
        for kernel in self._kernels:
            kernel()
        return self.output

    @property
    def reports(self) -> list[Report | None]:
        """The inside of each row's selection by the last launch: ``None`` of a row that no kernel took, and no list
        without telemetry. Waits for it; lengths and starts must be as it found them."""
        if not self._telemetry:
            return []
        told = [one.launched.reports for one in self._kernels]
        starts = [0] * len(self.output) if self._starts is None else self._starts.tolist()
        active, found = self._active.tolist(), list[Report | None]()
        for row, (length, start) in enumerate(zip(self._lengths.tolist(), starts, strict=True)):
            spans = [of_kernel[start % RESIDUES] for of_kernel in active]
            takers = [at for at, (first, last) in enumerate(spans) if first <= length <= last]
            inside = length <= (self._asked.call.width or 0) - start
            found.append(told[takers[0]][row] if takers and inside else None)
        return found

    def told(self, lengths: Sequence[int], starts: Sequence[int] | None = None) -> list[str]:
        """What the op does with rows that a launch leaves as they are, each row's number first; never run here.

        Args:
            lengths, starts: of the rows, on the host.
        """
        found = []
        for row, length in enumerate(lengths):
            start = 0 if starts is None else starts[row]
            takes = (span for one in self.parts.kernels for choice in one.takes for span in choice)
            inside = length <= (self._asked.call.width or 0) - start
            if not inside or not any(first <= length <= last for first, last in takes):
                found.append(f"row {row}: {self._asked.told(length, start, row)}")
        return found
