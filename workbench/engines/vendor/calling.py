"""One op called on one launch, again and again: its inputs, its poisoned output, and what comes back as positions.

It runs in the worker, on the device that the op runs on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from workbench.engines.launch import Times
from workbench.engines.timing import Sampling, sample
from workbench.engines.vendor.adapters import PAGE, Adapter, Argument, Value
from workbench.engines.worker.wire import Message
from workbench.paths.selection import UNWRITTEN

NO_POSITION = -2  # entries that stand for no position: neither empty nor unwritten, so out of every range
MAKERS = (torch.empty, torch.Tensor.new_empty, torch.empty_like, torch.empty_strided)


def padded(scores: torch.Tensor, stride: int, device: str) -> torch.Tensor:
    """Rows on the device, so far apart, -inf between them: [rows, stride].

    Args:
        scores: [rows, width].
    """
    rows, width = scores.shape
    base = torch.full((rows, stride), float("-inf"), dtype=scores.dtype, device=device)
    base[:, :width].copy_(scores)
    return base


class Inputs:
    """What the arguments of an adapter name, each made when first asked for.

    Args:
        request: ``k``, ``max_seq_len`` and ``width`` of the launch. base: [rows, stride], as ``padded`` makes it.
        lengths, starts: int32 [rows] on the base's device. plan: makes SGLang's plan of lengths.
    """

    def __init__(
        self,
        adapter: Adapter,
        request: Message,
        base: torch.Tensor,
        lengths: torch.Tensor,
        starts: torch.Tensor | None,
        plan: Callable[[torch.Tensor], torch.Tensor] | None,
    ) -> None:
        self.adapter, self.base, self.given, self.starts, self._plan = adapter, base, lengths, starts, plan
        self.k, self.max_seq_len, self.width = request["k"], request["max_seq_len"], request["width"]
        self.rows, self.stride = base.shape
        self.entries = self.k * adapter.pool
        self.lengths = lengths.clone()
        self.scores = base[:, : self.width]
        self._pristine = base.clone() if adapter.writes_scores and starts is not None else None

    @cached_property
    def out(self) -> torch.Tensor:
        """int32 [rows, entries]."""
        return self._ints(self.rows, self.entries)

    @cached_property
    def workspace(self) -> torch.Tensor:
        """uint8 [bytes]."""
        return torch.zeros(self.adapter.workspace, dtype=torch.uint8, device=self.base.device)

    @cached_property
    def zeros(self) -> torch.Tensor:
        """int32 [rows]: offsets that leave positions as they are."""
        return self._ints(self.rows).zero_()

    @cached_property
    def pages(self) -> torch.Tensor:
        """int32 [rows, pages]: the identity, so that entries are positions."""
        pages = torch.arange(-(-self.width // PAGE), dtype=torch.int32, device=self.base.device)
        return pages.repeat(self.rows, 1)

    @cached_property
    def tables(self) -> tuple[torch.Tensor, torch.Tensor]:
        """A table of cells, the identity, and where the rows of each of its rows end.

        A table row for each row is read as decoding, from cell 0 on; with starts, all rows share one, which the op
        reads as prefill (of two for a single row, since one for one would be decoding).
        """
        shared = 1 if self.rows > 1 else 2
        tables = self.rows if self.starts is None else shared
        ends = torch.arange(tables + 1) if self.starts is None else torch.tensor([0, *[self.rows] * tables])
        cells = torch.arange(self.width, dtype=torch.int32, device=self.base.device)
        return cells.repeat(tables, 1), ends.to(self.base.device, torch.int32)

    def prepare(self) -> None:
        """Bring everything that an op may have changed back to what the call is given."""
        self.lengths.copy_(self.given)
        if self._pristine is not None:
            self.base.copy_(self._pristine)
        if not self.adapter.allocates:
            self.out.fill_(UNWRITTEN)
        if self.adapter.workspace:
            self.workspace.zero_()
        if self._plan is not None:
            self.plan = self._plan(self.lengths)

    def value(self, name: Value) -> Any:
        """What an argument stands for."""
        if not isinstance(name, str):
            return name
        zeros_if_none = self.zeros if self.starts is None else self.starts
        made: dict[str, Callable[[], Any]] = {
            "starts": lambda: zeros_if_none,
            "starts if given": lambda: self.starts,
            "ends": lambda: self.lengths + zeros_if_none,
            "token table": lambda: self.tables[0],
            "table ends": lambda: self.tables[1],
            "tokens": lambda: self.entries,
        }
        return made[name]() if name in made else getattr(self, name)

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Of the call, positional and by keyword."""
        plain: list[Argument] = [one for one in self.adapter.arguments if not isinstance(one, tuple)]
        named = dict(one for one in self.adapter.arguments if isinstance(one, tuple))
        if self.starts is None:  # releases that know no starts take calls without them
            named = {key: name for key, name in named.items() if name != "starts if given"}
        return [self.value(one) for one in plain], {key: self.value(name) for key, name in named.items()}  # type: ignore[arg-type]

    def _ints(self, *shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.int32, device=self.base.device)


class Poisoning(TorchFunctionMode):
    """Fills int32 tensors that are made without content, so that an op's own output is poisoned as well.

    Attributes:
        filled: where their memory begins.
    """

    def __init__(self) -> None:
        super().__init__()
        self.filled: set[int] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func in MAKERS and made.dtype == torch.int32:
            made.fill_(UNWRITTEN)
            self.filled.add(made.data_ptr())
        return made


def called(op: Callable[..., Any], inputs: Inputs, calls: int, device: str) -> Iterator[tuple[torch.Tensor, bool]]:
    """Call an op so many times, and wait for each.

    Yields:
        Its entries, int32 [rows, entries], and whether they had been poisoned.

    Raises:
        TypeError: it returned something else than such entries.
    """
    adapter = inputs.adapter
    for _ in range(calls):
        inputs.prepare()
        plain, named = inputs.arguments()
        synchronize(device)  # some ops read their plan before it is written
        if not adapter.allocates:
            op(*plain, **named)
            entries, poisoned = inputs.out, True
        else:
            with Poisoning() as poisoning:
                entries = op(*plain, **named)
            poisoned = isinstance(entries, torch.Tensor) and entries.data_ptr() in poisoning.filled
        synchronize(device)
        _check(adapter, inputs, entries)
        yield entries, poisoned


def timed(
    op: Callable[..., Any], inputs: Inputs, sampling: Sampling, device: str, on_sample: Callable[[int], None]
) -> Times:
    """Time calls of an op: each is given what ``called`` gives it, and only the call itself is timed.

    Args:
        on_sample: called with the number of each sample before it is taken.
    """
    given: tuple[list[Any], dict[str, Any]] = [], {}

    def prepare() -> None:
        nonlocal given
        inputs.prepare()
        given = inputs.arguments()
        synchronize(device)  # some ops read their plan before it is written

    return sample(lambda: op(*given[0], **given[1]), prepare, sampling, torch.device(device), on_sample)


def _check(adapter: Adapter, inputs: Inputs, entries: Any) -> None:
    wanted = (inputs.rows, inputs.entries)
    if not isinstance(entries, torch.Tensor) or entries.dtype != torch.int32 or tuple(entries.shape) != wanted:
        found = (
            f"{entries.dtype} {list(entries.shape)}" if isinstance(entries, torch.Tensor) else type(entries).__name__
        )
        raise TypeError(f"{adapter.op} returned {found}, not int32 {list(wanted)}")


def positions(entries: torch.Tensor, pool: int) -> torch.Tensor:
    """Entries as positions within the rows' windows.

    Tables are identities and offsets zero, so that entries are positions, where no pool stands between: then the
    entries of a group are its tokens in order, all of them -1, or all unwritten; others stand for no position.

    Args:
        entries: int32 [rows, k * pool].

    Returns:
        int32 [rows, k].
    """
    if pool == 1:
        return entries
    groups = entries.view(entries.shape[0], -1, pool)
    first = groups[..., 0]
    inside = torch.arange(pool, dtype=entries.dtype, device=entries.device)
    whole = (groups == first[..., None] + inside).all(-1) & (first >= 0) & (first % pool == 0)
    kept = torch.where(whole, first.div(pool, rounding_mode="floor"), NO_POSITION)
    kept = torch.where((groups == -1).all(-1), -1, kept)
    return torch.where((groups == UNWRITTEN).any(-1), UNWRITTEN, kept)


def synchronize(device: str) -> None:
    """Wait for the device; what went wrong there shows here."""
    if device != "cpu":
        torch.cuda.synchronize()
