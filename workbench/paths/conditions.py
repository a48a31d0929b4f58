"""The conditions of a route, as they are asked and answered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from workbench.arguments import check_fields
from workbench.capture.row import Row
from workbench.errors import UsageError
from workbench.words import listed

if TYPE_CHECKING:
    from workbench.paths.devices import Device
    from workbench.paths.plan import Plan

LAYOUTS = ("paged", "prefill", "ragged")
POOL_NAMES = ("clusters_8", "clusters_16")

# What a capture that lacks rows of a call does not tell.
ALL_LENGTHS = "the lengths of all rows of the call"
ROW_NUMBER = "the number of the row within its call"


@dataclass(frozen=True)
class Condition:
    """One condition of a route, in words, and whether it holds; ``None`` if the capture does not say enough.

    Attributes:
        edges: (field, number): the answer can change between this number and the next, of the row's length or of a
            field of its call, as in ``("length", 8192)``. Every length that decides a route stands in one.
    """

    text: str
    met: bool | None
    edges: tuple[tuple[str, int], ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Setup:
    """How the engine was set up, as far as that decides a route; no capture records it.

    Attributes:
        backend: of an engine's own choice, as its option spells it; ``None`` for the engine's default.
        layout: of SGLang's scores: ``paged`` (decode: each row has its own row of the page table and starts at 0),
            ``prefill`` (paged, with row starts), ``ragged``; ``None`` if not known.
        topk_v2, fused: SGLang's SGLANG_OPT_USE_TOPK_V2 and SGLANG_DSA_FUSE_TOPK.
        static_threshold: what SGLang's plan is given; negative for its heuristic.
        clusters_8, clusters_16: how many clusters of so many blocks SGLang's launcher found resident at once; ``None``
            for what was measured on the device.

    Raises:
        UsageError: a field of another type, a layout that is none, a threshold or a number of clusters out of range.
    """

    backend: str | None = None
    layout: str | None = None
    topk_v2: bool = True
    fused: bool = True
    static_threshold: int = -1
    clusters_8: int | None = None
    clusters_16: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.layout is not None and self.layout not in LAYOUTS:
            raise UsageError(f"unknown layout {self.layout!r}; known layouts: {', '.join(LAYOUTS)}")
        numbers = {name: getattr(self, name) for name in POOL_NAMES} | {"static_threshold": self.static_threshold}
        for name, value in numbers.items():
            least = -1 if name == "static_threshold" else 0
            if value is not None and value < least:
                raise UsageError(f"{name} is {value}; an integer of {least} or more is needed")

    @property
    def given(self) -> tuple[str, ...]:
        """Names of what is not the default."""
        return tuple(one.name for one in fields(self) if getattr(self, one.name) != one.default)


class UnknownFieldError(Exception):
    """A field of the call decides and is not known."""


class RefusedError(Exception):
    """The op does not take the call."""


class Questions:
    """Conditions asked of one row and its call.

    Args:
        row: the row. k: in place of the call's where given. setup: of the engine.

    Attributes:
        asked: the conditions so far, in order. plan: SGLang's plan for the call, where an op has one.
        calls: the op that an engine's choice settled on.
        bound_by: the field of the call that the op is given as max_seq_len.
    """

    def __init__(self, row: Row, k: int | None, setup: Setup | None = None) -> None:
        self.row, self.asked, self._k = row, list[Condition](), k
        self.setup = Setup() if setup is None else setup
        self.plan: Plan | None = None
        self.calls, self.bound_by = "", "max_seq_len"

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

    def known(self, name: str) -> int | None:
        """A field of the call, or ``None``."""
        try:
            return self.field(name, "")
        except UnknownFieldError:
            self.asked.pop()
            return None

    def cannot_tell(self, text: str, **edges: int) -> None:
        """Note a condition that the capture does not say enough for, with its edges as for ``holds``."""
        self.asked.append(Condition(text, None, tuple(edges.items())))

    def stop(self, text: str, what: str) -> UnknownFieldError:
        """Note a condition that cannot be told and decides; the error to raise, which names ``what`` is not known."""
        self.cannot_tell(text)
        return UnknownFieldError(what)

    def on_cuda(self, device: Device) -> None:
        """The op exists in CUDA builds only."""
        self.require(
            device.platform == "cuda", f"{device.name} runs CUDA", f"the op is CUDA only; {device.name} runs ROCm"
        )

    def holds(self, met: bool, text: str, **edges: int) -> bool:
        """Note a condition; it may hold or not.

        Args:
            edges: by the field that is compared, the last number before the answer changes: see ``Condition``.
        """
        self.asked.append(Condition(text, met, tuple(edges.items())))
        return met

    def bound_reaches(self, least: int, consequence: str) -> bool:
        """Whether max_seq_len is at least ``least``; the row's own length bounds it from below by the op's contract."""
        bound, length = self.row.call.max_seq_len, self.row.length
        if bound is not None:
            text = f"max_seq_len {bound} ≥ {least} ({consequence})"
            return self.holds(bound >= least, text, **{self.bound_by: least - 1})
        if length >= least:
            text = f"max_seq_len is unknown but not below length {length} ≥ {least} ({consequence})"
            return self.holds(True, text, length=least - 1)
        given = self.bound_by == "max_seq_len"
        unknown = "max_seq_len is unknown" if given else f"max_seq_len is the {self.bound_by}, which is unknown"
        edge = "length" if given else self.bound_by
        self.cannot_tell(f"{unknown}, and {least} or more decides ({consequence})", **{edge: least - 1})
        raise UnknownFieldError(self.bound_by)

    def require(self, met: bool, text: str, refusal: str, **edges: int) -> None:
        """Note a condition that must hold, with its edges as for ``holds``.

        Raises:
            RefusedError: it does not.
        """
        if not self.holds(met, text, **edges):
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
        return self.holds(length <= k, f"length {length} ≤ k {k}: nothing to select", length=k)
