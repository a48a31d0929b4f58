"""The conditions of a route, as they are asked and answered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from workbench.capture.row import Row
from workbench.words import listed


@dataclass(frozen=True)
class Condition:
    """One condition of a route, in words, and whether it holds; ``None`` if the capture does not say enough."""

    text: str
    met: bool | None


class UnknownFieldError(Exception):
    """A field of the call decides and is not known."""


class RefusedError(Exception):
    """The op does not take the call."""


class Questions:
    """Conditions asked of one row and its call.

    Args:
        row: the row. k: in place of the call's where given.

    Attributes:
        asked: the conditions so far, in order.
    """

    def __init__(self, row: Row, k: int | None) -> None:
        self.row, self.asked, self._k = row, list[Condition](), k

    def field(self, name: str, why: str) -> int:
        """A field of the call that is needed to go on.

        Raises:
            UnknownFieldError: the call does not say.
        """
        value = self._k if name == "k" and self._k is not None else getattr(self.row.call, name)
        if value is None:
            self.cannot_tell(f"{name} is unknown, and {why}")
            raise UnknownFieldError(name)
        return int(value)

    def cannot_tell(self, text: str) -> None:
        """Note a condition that the capture does not say enough for."""
        self.asked.append(Condition(text, None))

    def holds(self, met: bool, text: str) -> bool:
        """Note a condition; it may hold or not."""
        self.asked.append(Condition(text, met))
        return met

    def bound_reaches(self, least: int, consequence: str) -> bool:
        """Whether max_seq_len is at least ``least``; the row's own length bounds it from below by the op's contract."""
        bound, length = self.row.call.max_seq_len, self.row.length
        if bound is not None:
            return self.holds(bound >= least, f"max_seq_len {bound} ≥ {least} ({consequence})")
        if length >= least:
            return self.holds(True, f"max_seq_len is unknown but not below length {length} ≥ {least} ({consequence})")
        return self.field("max_seq_len", f"{least} or more decides ({consequence})") >= least

    def require(self, met: bool, text: str, refusal: str) -> None:
        """Note a condition that must hold.

        Raises:
            RefusedError: it does not.
        """
        if not self.holds(met, text):
            raise RefusedError(refusal)

    def k_among(self, ks: Iterable[int]) -> int:
        """k, which the op takes only from ``ks``."""
        allowed = listed(ks, "or")
        k = self.field("k", f"the op takes {allowed} only")
        self.require(k in ks, f"k {k} is {allowed}", f"the op takes k {allowed} only, not k {k}")
        return k

    def k_up_to(self, most: int) -> int:
        """k, which the op takes up to ``most``."""
        k = self.field("k", f"the op takes at most {most}")
        self.require(k <= most, f"k {k} ≤ {most}", f"the op takes k up to {most}, not k {k}")
        return k

    def dtype(self, *dtypes: str) -> None:
        """The row's dtype, which must be one of ``dtypes``."""
        is_, takes = self.row.dtype, listed(dtypes, "or")
        self.require(is_ in dtypes, f"scores are {is_}, the op takes {takes}", f"the op takes {takes}, not {is_}")

    def nothing_to_select(self, k: int) -> bool:
        """Whether the row is no longer than k."""
        length = self.row.length
        return self.holds(length <= k, f"length {length} ≤ k {k}: nothing to select")
