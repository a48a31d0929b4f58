"""Rows and calls: what one selector saw, and the circumstances it was called in."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

import torch

from workbench.capture.format import CALL_BOUNDS, INT32_BOUNDS, MAX_WIDTH, STRINGS
from workbench.capture.mapped import Mapped
from workbench.capture.values import brief, check_text, described, kind_of, shape_text, whole
from workbench.errors import CaptureError
from workbench.rendering import Rendered

SCORE_DTYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}
_INTS = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8)


@dataclass(frozen=True)
class Call(Rendered):
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

    Raises:
        CaptureError: a number that is no integer (of Python or NumPy) within ``CALL_BOUNDS``, a string that is none.
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

    def __post_init__(self) -> None:
        fields = vars(self)
        try:
            for name, (least, most) in CALL_BOUNDS.items():
                value = fields[name]
                # a capture of millions of calls holds nothing but such ints
                if not (type(value) is int and least <= value <= most) and (value is not None or name == "index"):
                    fields[name] = whole(value, name, least, most)
            for name in STRINGS:
                if fields[name] is not None:
                    check_text(fields[name], name)
        except ValueError as error:
            raise CaptureError(str(error)) from None


def vector_problem(values: object, name: str) -> str | None:
    """Why something is no row of scores (or of logits), in words; ``None`` if it is one."""
    if not isinstance(values, torch.Tensor):
        return f"{name} are {kind_of(values)}; a torch tensor is needed"
    if values.dtype not in SCORE_DTYPES:
        return f"{name} are {values.dtype}; float32, bfloat16 or float16 is needed"
    if values.layout is not torch.strided or values.is_meta:
        kind = "without values (meta)" if values.is_meta else f"of layout {values.layout}"
        return f"{name} are {kind}; a dense tensor with values is needed"
    if values.dim() != 1:
        return f"a row is one-dimensional, not of shape {shape_text(values.shape)}"
    if values.numel() > MAX_WIDTH:
        return f"a row of {values.numel()} is wider than {MAX_WIDTH}, the most that int32 indices address"
    return None


def held(length: int, start: int, width: int) -> int:
    """How many cells a row of ``width`` cells has of the ``length`` from ``start`` on."""
    return min(max(length, 0), width - start)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor on any device as files hold them (little-endian): uint8 on the CPU."""
    return tensor.detach().cpu().contiguous().view(torch.uint8)


def raw_bytes(tensor: torch.Tensor) -> memoryview:
    """``bits`` for hashing and writing."""
    return bits(tensor).numpy().data


def same_bits(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    """Equal bit for bit: -0.0 is not 0.0, and a NaN is itself."""
    if one is None or other is None:
        return one is other
    return one.dtype == other.dtype and torch.equal(bits(one), bits(other))


def digest_of(valid: torch.Tensor, start: int, length: int) -> str:
    """``sha256:<hex>`` that names the input of a selector: see ``Row.digest``.

    Args:
        valid: the valid scores, one-dimensional, of a dtype that a row can have.
    """
    digest = hashlib.sha256(f"{SCORE_DTYPES[valid.dtype]} {start} {length}\n".encode())
    digest.update(raw_bytes(valid))
    return f"sha256:{digest.hexdigest()}"


@dataclass(frozen=True, eq=False)
class Row(Rendered):
    """One score vector as one selector call saw it.

    Attributes:
        scores: [width] float32, bfloat16 or float16, on any device; cells outside the valid window are padding.
        length: how many scores are valid, counted from ``start``, as the op was given it: any int32, inside the row or
            not (see ``outside``).
        start: first valid cell.
        call: the call it belongs to.
        indices: recorded selection, int32 [k], relative to ``start``, -1 padded; ``None`` if not recorded.
        mapped: what the indices are where the op returned no positions; ``None`` for positions.
        batch: lengths of all rows of the call as launched, int [rows]; ``None`` if the capture does not hold them all.
        index: number of the row within its capture.
        capture: name of the capture, for messages and reports.

    Raises:
        CaptureError: a type, dtype or shape that is not a row's, a length that is no int32, or a start outside the row.
    """

    scores: torch.Tensor
    length: int
    start: int = 0
    call: Call = field(default_factory=Call)
    indices: torch.Tensor | None = None
    batch: torch.Tensor | None = None
    index: int = 0
    capture: str = ""
    mapped: Mapped | None = None

    def __post_init__(self) -> None:
        fields = vars(self)  # integers of NumPy become ints
        try:
            check_text(self.capture, "capture")
            fields["index"] = whole(self.index, "index", 0, CALL_BOUNDS["index"][1])
        except ValueError as error:
            raise CaptureError(str(error)) from None
        self._check_scores()
        for name, tensor, bounds in (("length", "lengths", INT32_BOUNDS), ("start", "starts", (0, MAX_WIDTH))):
            try:
                fields[name] = whole(fields[name], name, *bounds)
            except ValueError as error:
                raise self._bad(str(error), tensor) from None
        width = self.scores.numel()
        if self.start > width:
            raise self._bad(f"start {self.start} is past the row width {width}", "starts")
        if not isinstance(self.call, Call):
            raise self._bad(f"call is {described(self.call)}; a Call is needed", "call")
        if self.indices is not None:
            self._check_vector(self.indices, "indices", (torch.int32,), "int32 [k]")
        if self.mapped is not None and not isinstance(self.mapped, Mapped):
            raise self._bad(f"mapped is {described(self.mapped)}; a Mapped is needed", "indices")
        if self.batch is not None:
            self._check_vector(self.batch, "batch", _INTS, "integers [rows]")

    def _bad(self, reason: str, tensor: str) -> CaptureError:
        return CaptureError(reason, file=brief(self.capture) or None, tensor=tensor, row=self.index)

    def _check_scores(self) -> None:
        problem = vector_problem(self.scores, "scores")
        if problem is not None:
            raise self._bad(problem, "scores")

    def _check_vector(self, values: object, name: str, dtypes: tuple[torch.dtype, ...], needed: str) -> None:
        if not isinstance(values, torch.Tensor):
            raise self._bad(f"{name} are {kind_of(values)}; a torch tensor, {needed}, is needed", name)
        if values.dtype not in dtypes or values.dim() != 1 or values.layout is not torch.strided:
            raise self._bad(f"{name} are {values.dtype} {shape_text(values.shape)}; {needed} is needed", name)

    @property
    def valid(self) -> torch.Tensor:
        """The valid scores, a view: [length], or as many as the row has of them where its length leaves it."""
        return self.scores[self.start : self.start + held(self.length, self.start, self.scores.numel())]

    @property
    def outside(self) -> bool:
        """Whether the length leaves the row: negative, or past its last cell."""
        return self.length != held(self.length, self.start, self.scores.numel())

    @property
    def digest(self) -> str:
        """Names the input of the selector: ``sha256:<hex>``, worked out anew each time.

        Over the ASCII text ``"{dtype} {start} {length}\\n"`` followed by the bytes of the valid scores, little-endian.
        Bits count and not values (-0.0 is not 0.0, two NaN may differ); padding, the call and the recorded selection
        do not. The length is the one given; where it leaves the row, the bytes are those that the row has.
        ``Capture.digest_of`` gives the same without reading padding.
        """
        return digest_of(self.valid, self.start, self.length)

    @property
    def dtype(self) -> str:
        """``float32``, ``bfloat16`` or ``float16``."""
        return SCORE_DTYPES[self.scores.dtype]

    @property
    def k(self) -> int | None:
        """k of the call; ``None`` if the capture does not say."""
        return self.call.k

    def with_call(self, **changes: object) -> Row:
        """The same row under a call with some fields replaced, as in ``row.with_call(k=512)``.

        Raises:
            CaptureError: a value that the call cannot have.
        """
        return replace(self, call=replace(self.call, **changes))  # type: ignore[arg-type]
