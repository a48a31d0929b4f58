"""Tokens chosen at decoding steps, with the LM-head rows they were chosen from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import overload

import torch

from workbench.capture.checks import first_true
from workbench.capture.format import LOGITS, STEPS, TOKEN_TENSORS, TOKENS
from workbench.capture.header import TensorInfo
from workbench.capture.row import SCORE_DTYPES, vector_problem
from workbench.capture.source import Source
from workbench.capture.stored import check_row_count, check_row_width, extent_of, find_tensor, read_vector
from workbench.capture.values import described, position, shape_text, whole
from workbench.errors import CaptureError
from workbench.rendering import Rendered

_INT64 = 2**63 - 1


@dataclass(frozen=True, eq=False)
class Token(Rendered):
    """What one decoding step chose.

    Attributes:
        step: the decoding step, 0 or more; the ``step`` of the calls that led to it. Several tokens may be of one
            step, as the requests of a batch are.
        token: the token chosen; ``None`` if not recorded.
        logits: the row of the LM head that it was chosen from, [vocab] float32, bfloat16 or float16, on any device;
            ``None`` if not recorded.

    Raises:
        CaptureError: a step or token that is no integer of 0 or more, a token outside the vocabulary of the logits,
            or logits of another type, dtype or shape.
    """

    step: int
    token: int | None = None
    logits: torch.Tensor | None = None

    def __post_init__(self) -> None:
        fields = vars(self)
        for name, tensor in (("step", STEPS), ("token", TOKENS)):
            if name == "step" or self.token is not None:
                try:
                    fields[name] = whole(fields[name], name, 0, _INT64)
                except ValueError as error:
                    raise CaptureError(str(error), tensor=tensor) from None
        if self.logits is None:
            return
        problem = vector_problem(self.logits, LOGITS)
        if problem is None and not self.logits.numel():
            problem = "logits are of shape [0]; [vocab] is needed"
        if problem is not None:
            raise CaptureError(problem, tensor=LOGITS)
        if self.token is not None and self.token >= self.logits.numel():
            raise CaptureError(_outside(self.logits.numel()).format(self.token), tensor=TOKENS)


class Tokens(Sequence[Token]):
    """The tokens of a capture in the order of the file; logits are read when their token is asked for.

    Attributes:
        steps: the step of each, int64 [tokens]. chosen: the token of each, int64 [tokens], -1 = unknown.
        vocab, dtype: extent and dtype of every LM-head row; ``None`` where no logits are held.
    """

    def __init__(
        self,
        steps: torch.Tensor,
        chosen: torch.Tensor,
        vocab: int | None = None,
        dtype: str | None = None,
        read: Callable[[int], torch.Tensor] | None = None,
    ) -> None:
        self.steps, self.chosen, self.vocab, self.dtype, self._read = steps, chosen, vocab, dtype, read

    def __len__(self) -> int:
        return int(self.steps.numel())

    @overload
    def __getitem__(self, number: int) -> Token: ...
    @overload
    def __getitem__(self, number: slice) -> list[Token]: ...
    def __getitem__(self, number: int | slice) -> Token | list[Token]:
        """Read one token, or several.

        Raises:
            IndexError: there is no such token. CaptureError: the file changed, is closed or cannot be read.
        """
        if isinstance(number, slice):
            return [self[at] for at in range(*number.indices(len(self)))]
        at = position(number, "token")
        if not -len(self) <= at < len(self):
            raise IndexError(f"there are {len(self)} tokens, numbered from 0; no token {at}")
        at %= len(self)
        chosen = int(self.chosen[at])
        return Token(
            int(self.steps[at]), None if chosen == -1 else chosen, None if self._read is None else self._read(at)
        )

    def __repr__(self) -> str:
        return f"Tokens({len(self)}, vocab {self.vocab}, {self.dtype})"


NO_TOKENS = Tokens(torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64))


def memory_tokens(tokens: Iterable[Token], file: str) -> Tokens:
    """Tokens in memory, logits as given; ``Tokens`` of a file stay lazy. ``file`` is for messages.

    Raises:
        CaptureError: they are none, or logits that one tensor cannot hold: of some tokens only, of several dtypes or
            of several vocabularies.
    """
    if isinstance(tokens, Tokens):
        return tokens
    if not isinstance(tokens, Iterable):
        raise CaptureError(f"the tokens are {described(tokens)}; a list of Token is needed", file=file)
    listed = list(tokens)
    for number, token in enumerate(listed):
        if not isinstance(token, Token):
            raise CaptureError(f"token {number} is {described(token)}; a Token is needed", file=file)
    kinds = [_kind(token) for token in listed]
    for number, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise CaptureError(
                f"token {number} has {kind}, token 0 {kinds[0]}; all logits are of one dtype and one vocabulary, "
                "or none are given",
                file=file,
                tensor=LOGITS,
            )
    steps = torch.tensor([token.step for token in listed], dtype=torch.int64)
    chosen = torch.tensor([-1 if token.token is None else token.token for token in listed], dtype=torch.int64)
    logits = [token.logits for token in listed if token.logits is not None]
    if not logits:
        return Tokens(steps, chosen)
    return Tokens(steps, chosen, logits[0].numel(), SCORE_DTYPES[logits[0].dtype], logits.__getitem__)


def _kind(token: Token) -> str:
    logits = token.logits
    return "no logits" if logits is None else f"{SCORE_DTYPES[logits.dtype]} logits over {logits.numel()}"


def stored_tokens(source: Source) -> Tokens:
    """The tokens of a capture file, checked; none where it has no ``token_steps``.

    Raises:
        CaptureError: a tensor of a wrong dtype or shape, or integers that no token can have.
    """
    file = source.file
    steps_info, tokens_info, logits_info = (
        find_tensor(source, spec.name, spec.dtypes, spec.required) for spec in TOKEN_TENSORS
    )
    if steps_info is None:
        for info in (tokens_info, logits_info):
            if info is not None:
                raise CaptureError(
                    f"a tensor {STEPS!r} [tokens] is needed beside it, to say at which step each was chosen",
                    file=file,
                    tensor=info.name,
                )
        return NO_TOKENS
    count = extent_of(steps_info, None, file)
    if count == 0:
        raise CaptureError("it describes no token; one or more is needed", file=file, tensor=STEPS)
    check_row_count(count, file, STEPS)
    vocab = None if logits_info is None else _vocab(logits_info, count, file)
    steps = source.tensor(steps_info)
    _refuse(steps, steps < 0, "step {} is negative; 0 or more is needed", STEPS, file)
    chosen = read_vector(source, tokens_info, count)
    if chosen is None:
        chosen = torch.full((1,), -1, dtype=torch.int64).expand(count)
    _refuse(chosen, chosen < -1, "token {} is negative; 0 or more is needed, or -1 where it is unknown", TOKENS, file)
    if logits_info is None or vocab is None:
        return Tokens(steps, chosen)
    _refuse(chosen, chosen >= vocab, _outside(vocab), TOKENS, file)
    held, width = logits_info, vocab
    return Tokens(steps, chosen, vocab, held.dtype, lambda number: source.tensor(held, number * width, width))


def _vocab(logits: TensorInfo, count: int, file: str) -> int:
    if len(logits.shape) != 2 or logits.shape[0] != count or logits.shape[1] == 0:
        raise CaptureError(
            f"shape is {shape_text(logits.shape)}; [{count}, vocab] is needed for {count} tokens",
            file=file,
            tensor=LOGITS,
        )
    check_row_width(logits.shape[1], file, LOGITS)
    return logits.shape[1]


def _refuse(values: torch.Tensor, wrong: torch.Tensor, reason: str, tensor: str, file: str) -> None:
    at = first_true(wrong)
    if at is not None:
        raise CaptureError(f"entry {at}: {reason.format(int(values[at]))}", file=file, tensor=tensor)


def _outside(vocab: int) -> str:
    return f"token {{}} is outside the {vocab} entries of its logits"
