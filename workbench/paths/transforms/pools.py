"""Pools of tokens: the scores are of pools, the output is of tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from workbench.errors import UsageError
from workbench.paths.faults import Finding
from workbench.paths.transforms.base import EMPTY, LARGEST, Transform, checked, narrow
from workbench.words import few


@dataclass(frozen=True)
class KPool(Transform):
    """Tokens of selected pools, and the tokens of the pool that is still open.

    With ``history = min(length * pool_size, k * pool_size)``, column c below history holds
    ``selection[c // pool_size] * pool_size + c % pool_size``; with ``seq_len`` given, the next ``seq_len % pool_size``
    columns hold ``length * pool_size + i``; the rest is -1. A length of 0 leaves the tail alone, a negative one
    nothing. ``fast_kpool_topk_transform_fused`` and ``transform_kpool`` of SGLang.

    Attributes:
        pool_size: tokens of a pool, above 1 (GLM takes 4).
        seq_len: tokens of the row; with it, ``pool_size - 1`` more columns take the open pool. ``None`` without tail.
    """

    pool_size: int
    seq_len: int | None = None

    def __post_init__(self) -> None:
        for name, value, least in (("pool_size", self.pool_size, 2), ("seq_len", self.seq_len, 0)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise UsageError(f"{name} is {value!r}; an integer of {least} or more is needed")

    @property
    def tail(self) -> int:
        """Tokens of the open pool that are appended."""
        return 0 if self.seq_len is None else self.seq_len % self.pool_size

    def columns(self, k: int) -> int:
        """``k * pool_size``, and ``pool_size - 1`` more where the open pool is appended."""
        return k * self.pool_size + (0 if self.seq_len is None else self.pool_size - 1)

    def apply(self, selection: torch.Tensor, length: int | None) -> torch.Tensor:
        """The tokens of every selected pool, side by side, then the tail; ``length`` counts pools."""
        groups, length = checked(selection), self._pools(length)
        k, size = groups.numel(), self.pool_size
        kept = min(max(length, 0), k)
        if (beyond := groups[kept:] != EMPTY).any():
            slots = few((beyond.nonzero().flatten() + kept).tolist())
            raise UsageError(f"slots {slots} are not -1, and a row of {length} pools has {kept} slots of {k}")
        within = torch.arange(size, device=groups.device)
        marked = groups[:kept, None]
        tokens = torch.where(marked >= 0, marked * size + within, marked).flatten()
        if (over := tokens > LARGEST).any():
            raise UsageError(f"columns {few(over.nonzero().flatten().tolist())} hold tokens that do not fit int32")
        out = torch.full((self.columns(k),), EMPTY, dtype=torch.int64, device=groups.device)
        out[: kept * size] = tokens
        if length >= 0:
            ends = length * size + self.tail
            if ends - 1 > LARGEST:
                raise UsageError(f"a row of {length} pools of {size} has tokens that do not fit int32")
            out[kept * size : kept * size + self.tail] = torch.arange(length * size, ends, device=groups.device)
        return narrow(out)

    def invert(self, mapped: torch.Tensor, length: int | None) -> torch.Tensor:
        """The pools that were selected; every one must be there whole, its tokens in order, and the tail as it was."""
        tokens, length = checked(mapped), self._pools(length)
        size, extra = self.pool_size, self.columns(0)
        k, odd = divmod(tokens.numel() - extra, size)
        if odd or k < 0:
            raise UsageError(f"{tokens.numel()} columns are not k pools of {size} and {extra} more")
        kept = min(max(length, 0), k)
        groups = torch.full((k,), EMPTY, dtype=torch.int64, device=tokens.device)
        firsts = tokens[: kept * size : size]
        groups[:kept] = torch.where(firsts >= 0, firsts // size, firsts)
        told = self.apply(groups, length)
        if (differs := told != tokens).any():
            columns = few(differs.nonzero().flatten().tolist())
            raise UsageError(
                f"columns {columns} are not what whole pools of {size} and a tail of {self.tail} tokens give for a row "
                f"of {length} pools"
            )
        return narrow(groups)

    def length_after(self, length: int | None) -> int | None:
        """Tokens: those of the pools and of the tail."""
        return None if length is None else max(length, 0) * self.pool_size + self.tail

    def findings(self, selection: torch.Tensor, length: int | None) -> tuple[Finding, ...]:
        """A tail that does not follow the pools."""
        pools = self._pools(length)
        if self.seq_len is None or pools < 0 or self.seq_len // self.pool_size == pools:
            return ()
        words = (
            f"the row has {pools} pools of {self.pool_size} and {self.seq_len} tokens, whose open pool begins at token "
            f"{self.seq_len // self.pool_size * self.pool_size}: the appended tail begins at "
            f"{pools * self.pool_size} all the same (derived, not observed)"
        )
        return (Finding(words, runs=True),)

    @staticmethod
    def _pools(length: int | None) -> int:
        if length is None:
            raise UsageError("pools are expanded first: the step before gives no positions of the row")
        return length
