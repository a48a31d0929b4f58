"""What every transform is: one row's selection in, what the op returns out, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from workbench.errors import UsageError
from workbench.paths.faults import Finding
from workbench.paths.selection import UNWRITTEN
from workbench.words import few

EMPTY = -1
LARGEST = torch.iinfo(torch.int32).max


class Transform(ABC):
    """One step between a selection and what the op returns; ``then`` puts another after it."""

    @abstractmethod
    def apply(self, selection: torch.Tensor, length: int | None) -> torch.Tensor:
        """What the op writes for one row.

        Args:
            selection: int32 or int64 [k], indices of the row, -1 padded.
            length: valid scores of the row (groups, where the scores are of pools); ``None`` where a step before
                left positions behind.

        Returns:
            int32 [``columns(k)``] on the device of the selection.

        Raises:
            UsageError: a slot that cannot be mapped, named with its value and the cure.
        """

    @abstractmethod
    def invert(self, mapped: torch.Tensor, length: int | None) -> torch.Tensor:
        """The selection that ``apply`` turned into ``mapped``, int32.

        Raises:
            UsageError: there is none, or more than one.
        """

    def columns(self, k: int) -> int:
        """Output columns for a selection of k."""
        return k

    def length_after(self, length: int | None) -> int | None:
        """The length of what the outputs index, for the step after; ``None`` where they are no positions of the row."""
        return length

    def findings(self, selection: torch.Tensor, length: int | None) -> tuple[Finding, ...]:
        """What happens to this selection that its outputs do not show, in words."""
        return ()

    def then(self, *others: Transform) -> Sequence:
        """This transform and the others after it, in order."""
        return Sequence((self, *others))


@dataclass(frozen=True)
class Sequence(Transform):
    """Transforms one after another, as k-pool expansion and then a page table."""

    steps: tuple[Transform, ...]

    def apply(self, selection: torch.Tensor, length: int | None) -> torch.Tensor:
        """All steps in order; each is given the length that the one before leaves."""
        for step, before in zip(self.steps, self._lengths(length), strict=True):
            selection = step.apply(selection, before)
        return selection

    def invert(self, mapped: torch.Tensor, length: int | None) -> torch.Tensor:
        """All steps backwards."""
        for step, before in reversed(list(zip(self.steps, self._lengths(length), strict=True))):
            mapped = step.invert(mapped, before)
        return mapped

    def columns(self, k: int) -> int:
        """Output columns of the last step."""
        for step in self.steps:
            k = step.columns(k)
        return k

    def length_after(self, length: int | None) -> int | None:
        """What the last step leaves."""
        for step in self.steps:
            length = step.length_after(length)
        return length

    def findings(self, selection: torch.Tensor, length: int | None) -> tuple[Finding, ...]:
        """Those of every step."""
        found: tuple[Finding, ...] = ()
        for step, before in zip(self.steps, self._lengths(length), strict=True):
            found += step.findings(selection, before)
            selection = step.apply(selection, before)
        return found

    def then(self, *others: Transform) -> Sequence:
        """These steps and the others after them."""
        return Sequence((*self.steps, *others))

    def _lengths(self, length: int | None) -> list[int | None]:
        lengths = []
        for step in self.steps:
            lengths.append(length)
            length = step.length_after(length)
        return lengths


def checked(selection: torch.Tensor) -> torch.Tensor:
    """The selection as int64; UsageError unless it is a vector of indices, -1 or ``UNWRITTEN``."""
    if selection.dim() != 1 or selection.dtype not in (torch.int32, torch.int64):
        raise UsageError(f"a selection is int32 or int64 [k]; this is {selection.dtype} {list(selection.shape)}")
    indices = selection.to(torch.int64)
    if (bad := ((indices < EMPTY) & (indices != UNWRITTEN)) | (indices > LARGEST)).any():
        raise UsageError(f"{held_in(bad, indices)}, which is no index (0 to {LARGEST}), -1 or {UNWRITTEN} (unwritten)")
    return indices


def narrow(values: torch.Tensor) -> torch.Tensor:
    return values.to(torch.int32)


def held_in(where: torch.Tensor, values: torch.Tensor, what: str = "index") -> str:
    """Which slots hold what, as in ``slots 3 and 9 hold index 5000 and 7000``."""
    slots = where.nonzero().flatten().tolist()
    one = len(slots) == 1
    return f"slot{'' if one else 's'} {few(slots)} hold{'s' if one else ''} {what} {few(values[where].tolist())}"
