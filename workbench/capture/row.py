"""Rows and calls: what one selector saw, and the circumstances it was called in."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch

from workbench.errors import CaptureError

SCORE_DTYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}


@dataclass(frozen=True)
class Call:
    """One selector call. ``None`` means that the capture does not say.

    Attributes:
        index: number of the call within its capture.
        k: how many winners were asked for.
        rows: rows in the batch as the engine launched it (a capture may hold fewer of them).
        width: padded row width, in scores. stride: distance between rows, in scores.
        next_n: tokens scored per request (1 without speculative decoding).
        max_seq_len: the host-side bound passed to the op.
        layer, step, rank: where in the model and the run the call happened.
        op, release, device, model, request: strings as in ``vllm.persistent_topk``, ``vllm==0.26.0``, ``h200``.
    """

    index: int = 0
    k: int | None = None
    rows: int | None = None
    width: int | None = None
    stride: int | None = None
    next_n: int | None = None
    max_seq_len: int | None = None
    layer: int | None = None
    step: int | None = None
    rank: int | None = None
    op: str | None = None
    release: str | None = None
    device: str | None = None
    model: str | None = None
    request: str | None = None


@dataclass(frozen=True, eq=False)
class Row:
    """One score vector as one selector call saw it.

    Attributes:
        scores: [width] float32, bfloat16 or float16, on any device; cells outside the valid window are padding.
        length: how many scores are valid, counted from ``start``.
        start: first valid cell.
        call: the call it belongs to.
        indices: recorded selection, int32 [k], relative to ``start``, -1 padded; ``None`` if not recorded.
        batch: lengths of all rows of the call as launched, int [rows]; ``None`` if the capture does not hold them all.
        index: number of the row within its capture.
        capture: name of the capture, for messages and reports.

    Raises:
        CaptureError: a dtype or shape that is not a row's, or a window that leaves the row.
    """

    scores: torch.Tensor
    length: int
    start: int = 0
    call: Call = field(default_factory=Call)
    indices: torch.Tensor | None = None
    batch: torch.Tensor | None = None
    index: int = 0
    capture: str = ""

    def __post_init__(self) -> None:
        def bad(reason: str, tensor: str) -> CaptureError:
            return CaptureError(reason, file=self.capture or None, tensor=tensor, row=self.index)

        if self.scores.dtype not in SCORE_DTYPES:
            raise bad(f"scores are {self.scores.dtype}; float32, bfloat16 or float16 is needed", "scores")
        if self.scores.dim() != 1:
            raise bad(f"a row is one-dimensional, not of shape {list(self.scores.shape)}", "scores")
        width = self.scores.numel()
        if self.start < 0:
            raise bad(f"start {self.start} is negative", "starts")
        if self.length < 0:
            raise bad(f"length {self.length} is negative", "lengths")
        if self.start + self.length > width:
            raise bad(f"start {self.start} + length {self.length} is past the row width {width}", "lengths")

    @property
    def valid(self) -> torch.Tensor:
        """The valid scores, [length]; a view."""
        return self.scores[self.start : self.start + self.length]

    @property
    def dtype(self) -> str:
        """``float32``, ``bfloat16`` or ``float16``."""
        return SCORE_DTYPES[self.scores.dtype]

    @property
    def k(self) -> int | None:
        """k of the call; ``None`` if the capture does not say."""
        return self.call.k

    def with_call(self, **changes: object) -> Row:
        """The same row under a call with some fields replaced, as in ``row.with_call(k=512)``."""
        return replace(self, call=replace(self.call, **changes))  # type: ignore[arg-type]
