"""One row's scores by their keys: counted, sorted and looked through once for all that select from it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TypeVar, cast

import numpy as np
import torch

from workbench.numeric.histogram import HalfHistogram
from workbench.numeric.kept import Kept
from workbench.numeric.keys import key_width, ordered_keys, signed_keys, where_true

T = TypeVar("T")
_KEPT = 16  # sets of positions and what was made of them; of the largest, 8 bytes a score each


class Ascending:
    """Integer keys in ascending order, asked by rank and by key.

    Args:
        keys: of any integer type, in any order. bias: what a key of them is more than the number that stands for it.
    """

    def __init__(self, keys: torch.Tensor, bias: int = 0) -> None:
        self._bias = bias
        self._most = torch.iinfo(keys.dtype).max
        self._sorted: np.ndarray | torch.Tensor
        # NumPy sorts several times faster, and looks one number up without making a tensor of it.
        self._sorted = np.sort(keys.numpy()) if keys.device.type == "cpu" else keys.sort().values

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self._sorted)

    def at(self, place: int) -> int:
        """The key of a rank, 0 for the least."""
        return int(self._sorted[place]) + self._bias

    def below(self, key: int) -> int:
        """How many keys are less than this one."""
        wanted = key - self._bias
        if wanted > self._most:
            return len(self)
        if isinstance(self._sorted, torch.Tensor):
            return int(torch.searchsorted(self._sorted, wanted))
        return int(np.searchsorted(self._sorted, self._sorted.dtype.type(wanted)))


class RowKeys:
    """A row's scores by their exact ordered keys and by their fp16 keys, each worked out when first asked for.

    Tensors that it gives are shared, and not to be written to.

    Args:
        scores: [n], the valid scores, float32, bfloat16 or float16. nan: how many are NaN, where that was counted.

    Attributes:
        scores: as given.
    """

    def __init__(self, scores: torch.Tensor, nan: int | None = None) -> None:
        self.scores, self._nan = scores, nan
        self._kept: Kept[tuple[torch.Tensor, object]] = Kept(_KEPT)

    @cached_property
    def half(self) -> HalfHistogram:
        """The histogram over fp16 keys, of the scores as float32."""
        return HalfHistogram(self.scores.float(), self._nan)

    @property
    def width(self) -> int:
        """Bits of an exact key."""
        return key_width(self.scores)

    @cached_property
    def nan(self) -> int:
        """How many scores are NaN."""
        return self.half.nan if self.scores.dtype == torch.float32 else int(torch.isnan(self.scores).sum())

    @cached_property
    def _signed(self) -> torch.Tensor:
        return signed_keys(self.scores)

    @cached_property
    def ascending(self) -> Ascending:
        """The exact keys of all scores."""
        return Ascending(self._signed, 1 << (self.width - 1))

    def bins(self, bits: int) -> torch.Tensor:
        """Populations of the 2^bits bins of the exact keys' top bits, int64, ascending by score."""
        top = self._signed.to(torch.int32) >> (self.width - bits)
        return torch.bincount(top.add_(1 << (bits - 1)), minlength=1 << bits)

    def between(self, first: int, last: int) -> torch.Tensor:
        """Positions of the scores whose exact keys are in [first, last], int64, ascending."""
        return self.made_of(self.scores, ("between", first, last), lambda: self._between(first, last))

    def _between(self, first: int, last: int) -> torch.Tensor:
        bias, most = 1 << (self.width - 1), (1 << self.width) - 1
        if last < first or first > most:
            return torch.empty(0, dtype=torch.int64, device=self.scores.device)
        mask = self._signed >= max(first, 0) - bias
        if last < most:
            mask &= self._signed <= last - bias
        return where_true(mask)

    def keys_of(self, indices: torch.Tensor) -> torch.Tensor:
        """Exact keys of the scores at some positions, int64."""
        return self.made_of(indices, "keys", lambda: ordered_keys(self.scores[indices]))

    def ascending_of(self, indices: torch.Tensor) -> Ascending:
        """The same in ascending order."""
        return self.made_of(indices, "ascending", lambda: Ascending(self.keys_of(indices)))

    def made_of(self, indices: torch.Tensor, what: Hashable, make: Callable[[], T]) -> T:
        """What was made of some positions, or of the scores, made if it was not lately.

        Args:
            indices: the tensor itself counts, not what it holds: it is kept along. what: names what is made.
        """
        return cast("T", self._kept.take((id(indices), what), lambda: (indices, make()))[1])

    @property
    def without_nan(self) -> RowKeys:
        """The same scores with -inf in place of every NaN."""
        return self._with("-inf", lambda: torch.where(torch.isnan(self.scores), -torch.inf, self.scores))

    @property
    def greatest_nan(self) -> RowKeys:
        """The same scores with a NaN of the greatest key in place of every NaN."""
        pattern = torch.tensor([torch.iinfo(self._signed.dtype).max], dtype=self._signed.dtype)
        nan = pattern.view(self.scores.dtype).to(self.scores.device)
        return self._with("NaN", lambda: torch.where(torch.isnan(self.scores), nan, self.scores))

    @property
    def without_negative_zero(self) -> RowKeys:
        """The same scores plus zero: zeros have no sign then, and a NaN may have another pattern."""
        zero = 1 << (self.width - 1)  # the key of +0.0
        if not self.nan and self.ascending.below(zero) == self.ascending.below(zero - 1):
            return self
        return self.made_of(self.scores, "+0.0", lambda: RowKeys(self.scores + 0.0))

    def _with(self, name: str, make: Callable[[], torch.Tensor]) -> RowKeys:
        return self if not self.nan else self.made_of(self.scores, name, lambda: RowKeys(make()))

    def slices(self, count: int) -> tuple[RowKeys, ...]:
        """The row in so many slices of equal size, the last ones shorter or empty."""
        size = -(-self.scores.numel() // count)
        return self.made_of(
            self.scores,
            ("slices", count),
            lambda: tuple(RowKeys(self.scores[at * size : (at + 1) * size]) for at in range(count)),
        )

    def forget(self) -> None:
        """Let go of all but the histogram, which is small; what is asked for again is made again."""
        self._kept.clear()
        self.half.forget()
        for name in ("_signed", "ascending"):
            vars(self).pop(name, None)
