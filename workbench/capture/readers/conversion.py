"""Scores of another dtype, where the caller asks for it: exactly, or not at all."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace

import torch

from workbench.capture.foreign import TensorSet
from workbench.capture.format import SCORES
from workbench.capture.header import TensorInfo
from workbench.capture.row import SCORE_DTYPES
from workbench.capture.source import TORCH_DTYPES, Source
from workbench.capture.values import brief
from workbench.errors import CaptureError, UsageError
from workbench.words import listed

TARGETS = {name: dtype for dtype, name in SCORE_DTYPES.items()}


def convert(tensors: TensorSet, names: Iterable[str], target: str) -> tuple[TensorSet, tuple[str, ...]]:
    """The same tensors with some read as another dtype, and notes in words.

    Every value is compared when it is read: one that the dtype does not hold is an error. A NaN stays one; which of
    many is kept only where nothing is converted.

    Raises:
        UsageError: scores cannot be of this dtype.
    """
    if target not in TARGETS:
        raise UsageError(f"scores cannot be {target!r}; {listed(SCORES, 'or')} is understood")
    infos, owners, told = dict(tensors.tensors), dict(tensors.shards), dict[str, None]()
    for name in dict.fromkeys(names):
        source, info = tensors.get(name)
        if info.dtype == target or info.problem or info.dtype not in TORCH_DTYPES:
            continue
        if info.dtype == "void16" and target != "bfloat16":
            continue  # what two bytes without a type are was not asked
        infos[name] = replace(info, dtype=target)
        owners[name] = Converting(source, info, target)
        if info.dtype == "void16":
            told["scores are two bytes without a type in the file and taken as bfloat16, as asked"] = None
        else:
            told[
                f"scores are {info.dtype} in the file and read as {target}, as asked; a row with a value that {target} "
                "does not hold is refused"
            ] = None
    return replace(tensors, tensors=infos, shards=owners), tuple(told)


class Converting(Source):
    """One tensor of a source as another dtype."""

    def __init__(self, base: Source, info: TensorInfo, target: str) -> None:
        self._base, self._info, self._target = base, info, target
        self.path, self.file, self.size, self.header = base.path, base.file, base.size, base.header

    def tensor(self, info: TensorInfo, first: int = 0, count: int | None = None) -> torch.Tensor:
        """As of any source; refused where a value would change."""
        held = self._base.tensor(self._info, first, count)
        made = held.to(TARGETS[self._target])
        wrong = (made.to(held.dtype) != held) & ~torch.isnan(held)
        if held.dtype == torch.int64:  # the largest overflow on their way back
            wrong |= made.abs() >= 2.0**63
        if bool(wrong.any()):
            at = int(wrong.to(torch.uint8).argmax())
            width = self._info.pitch or self._info.shape[-1]
            cell = (first + at) % width
            raise CaptureError(
                f"cell {cell} is {held[at].item()!r}, which {self._target} does not hold exactly: it would change the "
                "row; round it where it was made",
                file=self.file,
                tensor=brief(info.name),
                row=(first + at) // width if len(self._info.shape) > 1 else 0,
            )
        return made

    def read_others(self, names: Container[str]) -> None:
        """As the source."""
        self._base.read_others(names)

    def digest(self) -> str:
        """Of the file."""
        return self._base.digest()

    def close(self) -> None:
        """As the source."""
        self._base.close()

    def __del__(self) -> None:
        """The source closes itself."""
