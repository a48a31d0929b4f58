"""One intercepted call as rows: its scores as a matrix, lengths and starts by row, and where its output lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from workbench.capture.format import MAX_WIDTH
from workbench.capture.row import SCORE_DTYPES
from workbench.record.interfaces import TOPK, Interface

EMPTY = -1  # in a slot that holds no index


@dataclass(frozen=True, eq=False)
class Seen:
    """One call of an op, as it was made.

    Attributes:
        interface: of the op. scores: [rows, width], a view of the caller's tensor. stride: between rows, in scores.
        lengths, starts: int [rows] on the scores' device; no starts where every row begins at 0.
        k: winners. next_n, max_seq_len: as in calls. result: what the op writes into; ``None`` where it returns it.
        table, bounds, row_tables, page_size: which make the result one of cache slots. offsets: what its positions are
            moved by. pool, tail: tokens that each score stands for, and of the row, which make it one of tokens.
        fill: what stands in empty slots.
        dim: of the caller's tensor that is selected along; for ``torch.topk``.
    """

    interface: Interface
    scores: torch.Tensor
    stride: int | None
    lengths: torch.Tensor
    starts: torch.Tensor | None
    k: int
    next_n: int | None = None
    max_seq_len: int | None = None
    result: torch.Tensor | None = None
    table: torch.Tensor | None = None
    bounds: torch.Tensor | None = None
    row_tables: torch.Tensor | None = None
    page_size: int = 1
    offsets: torch.Tensor | None = None
    pool: int = 1
    tail: torch.Tensor | None = None
    fill: int = EMPTY
    dim: int = -1

    @property
    def rows(self) -> int:
        """Rows of the batch."""
        return self.scores.shape[0]

    @property
    def width(self) -> int:
        """Padded row width."""
        return self.scores.shape[1]

    @property
    def mapped(self) -> bool:
        """Whether the result holds cache slots."""
        return self.table is not None

    def with_inputs_kept(self) -> Seen:
        """The same with the small inputs copied, so that they stay what they were before the call."""
        names = ("lengths", "starts", "bounds", "row_tables", "offsets", "tail")
        kept = {name: value.clone() for name in names if (value := getattr(self, name)) is not None}
        return self.but(**kept)

    def but(self, **changes: Any) -> Seen:
        """The same with other fields: what ``dataclasses.replace`` makes, which takes ten times as long."""
        made = object.__new__(Seen)
        made.__dict__.update(self.__dict__, **changes)
        return made

    def selected(self, returned: Any) -> torch.Tensor | None:
        """What came back, int [rows, columns], on the scores' device; ``None`` if it is not of that shape."""
        out = self.result
        if out is None and self.interface.returned:
            out = returned if self.interface.returned == "itself" else returned[1]
        if self.interface.op == TOPK and out is not None:
            out = out.movedim(self.dim, -1) if out.dim() else out.reshape(1)
            out = out.reshape(self.rows, self.k)
        if out is None or out.dim() != 2 or out.shape[0] < self.rows or out.shape[1] < self.columns:
            return None
        if out.shape != (self.rows, self.columns):
            out = out[: self.rows, : self.columns]
        return out if self.fill == EMPTY else torch.where(out == self.fill, EMPTY, out)

    @property
    def columns(self) -> int:
        """Of the result: k, or what k pools and an open one take."""
        return self.k * self.pool + (0 if self.tail is None else self.pool - 1)


class UnreadError(Exception):
    """Why a call is not one that a capture can hold, in words."""


def read(interface: Interface, given: Mapping[str, Any]) -> Seen:
    """A call by its arguments.

    Raises:
        UnreadError: it is not recorded, and why.
    """
    scores = _tensor(given, interface.scores)
    if scores is None or scores.layout is not torch.strided or scores.is_meta:
        raise UnreadError("scores that are no dense tensor")
    if type(scores) not in (torch.Tensor, torch.nn.Parameter):
        raise UnreadError(f"scores that are traced and hold no values ({type(scores).__name__})")
    if scores.dtype not in SCORE_DTYPES:
        raise UnreadError(f"scores of {str(scores.dtype)[6:]}")
    return _plain(interface, scores, given) if interface.op == TOPK else _selector(interface, scores, given)


def _plain(interface: Interface, scores: torch.Tensor, given: Mapping[str, Any]) -> Seen:
    """``torch.topk``: every vector along its dimension is a row."""
    if not given["largest"]:
        raise UnreadError("torch.topk of the smallest")
    dim, k = given["dim"], given["k"]
    rows = scores.movedim(dim, -1) if scores.dim() else scores.reshape(1)
    width = rows.shape[-1]
    _check(rows.numel(), width, k)
    matrix = rows.reshape(-1, width)
    stride = _stride(matrix) if rows.dim() == 2 else None
    lengths = torch.full((matrix.shape[0],), width, dtype=torch.int32, device=scores.device)
    return Seen(interface, matrix, stride, lengths, None, k, dim=dim)


def _selector(interface: Interface, scores: torch.Tensor, given: Mapping[str, Any]) -> Seen:
    if scores.dim() != 2:
        raise UnreadError(f"scores of {scores.dim()} dimensions")
    rows = _number(given, interface.rows)
    scores = _strided(scores, rows, [_number(given, name) for name in interface.strides])
    result = _tensor(given, interface.raw)
    table = _tensor(given, interface.table) if result is None else None
    if result is None:
        result = _tensor(given, interface.output)
    pool, tail = _number(given, interface.pool) or 1, _vector(given, interface.tail, scores)
    tokens = _number(given, interface.k)
    if tokens is None and result is not None and result.dim() == 2:
        tokens = result.shape[1] - (0 if tail is None else pool - 1)
    if tokens is None:
        raise UnreadError("no k")
    k, odd = divmod(tokens, pool)
    if odd or pool < 1:
        raise UnreadError("a k that is no whole number of pools")
    _check(scores.numel(), scores.shape[1], k)
    next_n = _number(given, interface.next_n)
    starts = _vector(given, interface.starts, scores)
    if interface.ends:
        ends = _vector(given, interface.ends, scores)
        if ends is None:
            ends = torch.full((scores.shape[0],), scores.shape[1], dtype=torch.int32, device=scores.device)
        lengths: torch.Tensor | None = ends if starts is None else ends - starts
    else:
        lengths, next_n = _lengths(interface, given, scores, next_n)
    if lengths is None or lengths.numel() != scores.shape[0]:
        raise UnreadError("lengths that are not one a row")
    bound = _number(given, interface.max_seq_len)
    return Seen(
        interface,
        scores,
        _stride(scores),
        lengths,
        starts,
        k,
        next_n=next_n if next_n is None or next_n >= 1 else None,
        max_seq_len=bound if bound is None or bound >= 0 else None,
        result=result,
        table=table,
        bounds=_tensor(given, interface.bounds) if table is not None else None,
        row_tables=_vector(given, interface.row_tables, scores) if table is not None else None,
        page_size=_number(given, interface.page_size) or 1,
        offsets=_vector(given, interface.offsets, scores),
        pool=pool,
        tail=tail if pool > 1 else None,
        fill=EMPTY if (fill := _number(given, interface.fill)) is None else fill,
    )


def _stride(matrix: torch.Tensor) -> int | None:
    """Scores between rows, where rows lie one after the other and each in one piece."""
    between, within = matrix.stride()
    return between if between >= matrix.shape[1] and (within == 1 or matrix.shape[1] == 1) else None


def _check(numel: int, width: int, k: int) -> None:
    if not numel:
        raise UnreadError("no scores")
    if not 1 <= k <= width or width > MAX_WIDTH:
        raise UnreadError("a k that is not within the row's width")


def _strided(scores: torch.Tensor, rows: int | None, strides: list[int | None]) -> torch.Tensor:
    """The rows that the op is told of, at the distances that it is told."""
    if rows is not None and not 1 <= rows <= scores.shape[0]:
        raise UnreadError("more rows than the scores have")
    scores = scores if rows is None else scores[:rows]
    if strides and None not in strides and tuple(strides) != scores.stride():
        try:
            return scores.as_strided(scores.shape, strides, scores.storage_offset())  # type: ignore[arg-type]
        except RuntimeError:
            raise UnreadError("strides that leave the scores' memory") from None
    return scores


def _lengths(
    interface: Interface, given: Mapping[str, Any], scores: torch.Tensor, next_n: int | None
) -> tuple[torch.Tensor | None, int | None]:
    """Lengths by row, and tokens a request where they tell."""
    lengths = _tensor(given, interface.lengths)
    if lengths is None:
        return None, next_n
    flat = lengths.reshape(-1)
    by_row = lengths.dim() == 2 and flat.numel() == scores.shape[0]
    if interface.lengths_of == "rows":
        return flat, lengths.shape[1] if by_row else next_n
    tokens = next_n or 1
    if tokens == 1 or (by_row and lengths.shape[1] > 1):
        return flat[: scores.shape[0]], next_n
    # the last of a request's rows sees all of its scores, each row before it one fewer
    ahead = torch.arange(1 - tokens, 1, dtype=flat.dtype, device=flat.device)
    return (flat[:, None] + ahead).reshape(-1)[: scores.shape[0]], next_n


def _pick(given: Mapping[str, Any], names: str) -> Any:
    if not names or names in given:
        return given[names] if names else None
    return next((given[name] for name in names.split("|") if name in given), None)


def _tensor(given: Mapping[str, Any], names: str) -> torch.Tensor | None:
    value = _pick(given, names)
    return value.detach() if isinstance(value, torch.Tensor) and not value.is_meta else None


def _vector(given: Mapping[str, Any], name: str, scores: torch.Tensor) -> torch.Tensor | None:
    """One integer a row."""
    values = _tensor(given, name)
    if values is None:
        return None
    flat = values.reshape(-1)
    if flat.numel() < scores.shape[0]:
        raise UnreadError(f"{name} that are not one a row")
    return flat[: scores.shape[0]]


def _number(given: Mapping[str, Any], name: str) -> int | None:
    value = _pick(given, name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
