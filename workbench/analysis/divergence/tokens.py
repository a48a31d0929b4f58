"""One decoding step of two runs: whether the tokens part, and whether a tie or a near-tie explains it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from workbench.analysis.diff import score_gap
from workbench.capture import Token
from workbench.capture.row import SCORE_DTYPES
from workbench.numeric.keys import bit_patterns, ulp_keys, value_keys

NEAR_ULPS = 4  # a margin that a few roundings of the last layer can turn over
TokenState = Literal["same", "logits differ", "token differs", "missing", "extra", "not comparable"]
PARTING_TOKENS = ("token differs", "missing", "extra", "logits differ")


@dataclass(frozen=True)
class Margin:
    """The two best logits of a step.

    Attributes:
        best, second: their tokens, the smaller one first among equals. best_logit, second_logit: their values.
        margin: the difference. ulps: the values of the dtype that lie between, ``None`` where one is NaN.
        tied: how many tokens share the best logit.
    """

    best: int
    second: int
    best_logit: float
    second_logit: float
    margin: float
    ulps: int | None
    tied: int


@dataclass(frozen=True)
class TokenStep:
    """One token of two runs.

    Attributes:
        request, step, place: which token; ``place`` counts the tokens of one step.
        state: ``same``; ``logits differ`` (the same token from logits that are not bit-identical); ``token differs``;
            ``missing`` or ``extra`` (only one run has it); ``not comparable``.
        token_a, token_b: as recorded, else the one best logit; ``None`` if neither tells.
        identical: whether the logits are bit-identical, ``None`` where one side has none.
        a, b: the two best logits of each side, ``None`` without logits.
        flip_ulps: where the tokens differ, the values of the dtype between the two tokens' logits, on the side where
            that is most; ``None`` where no side has logits, one is NaN, or the sides differ in dtype.
        flip_margin: the difference of those two logits.
        moved: where the tokens differ, by how much the logits of the two moved between the runs, the greater one.
        cause: where the tokens differ, ``tie`` (flip_ulps is 0), ``near-tie`` (at most ``near_ulps``) or ``clear``;
            ``None`` too where the logits lie farther apart on both sides of zero: there ULPs count every small number.
        not_greedy: the sides whose recorded token is not among the best logits.
        dtypes, vocabularies: of the logits of each side, ``None`` where it has none.
    """

    request: str | None
    step: int
    place: int
    state: TokenState
    token_a: int | None
    token_b: int | None
    identical: bool | None = None
    a: Margin | None = None
    b: Margin | None = None
    flip_ulps: int | None = None
    moved: float | None = None
    cause: Literal["tie", "near-tie", "clear"] | None = None
    not_greedy: tuple[Literal["a", "b"], ...] = ()
    flip_margin: float | None = None
    dtypes: tuple[str | None, str | None] = (None, None)
    vocabularies: tuple[int | None, int | None] = (None, None)

    @property
    def dtype(self) -> str | None:
        """Of all logits that there are; ``None`` without any, or where the sides differ."""
        found = {dtype for dtype in self.dtypes if dtype is not None}
        return found.pop() if len(found) == 1 else None

    @property
    def parts(self) -> bool:
        """Whether the runs part here."""
        return self.state in PARTING_TOKENS


def margin_of(logits: torch.Tensor) -> Margin | None:
    """The two best logits of a row, float32, bfloat16 or float16 [vocab]; ``None`` for a vocabulary of one."""
    if logits.numel() < 2:
        return None
    keys = value_keys(logits)
    top = keys.max()
    ties = torch.nonzero(keys == top).flatten()
    if ties.numel() > 1:
        best, second = ties[:2].tolist()
    else:
        best = int(ties[0])
        rest = keys.clone()
        rest[best] = torch.iinfo(keys.dtype).min
        second = int((rest == rest.max()).nonzero()[0])
    high, low = float(logits[best]), float(logits[second])
    return Margin(best, second, high, low, score_gap(high, low), _ulps(logits, best, second), ties.numel())


def token_step(
    a: Token | None,
    b: Token | None,
    *,
    request: str | None = None,
    place: int = 0,
    near_ulps: int = NEAR_ULPS,
) -> TokenStep:
    """Compare one token of two runs; one of them may be ``None``, for a run that does not have it.

    Args:
        near_ulps: the greatest margin, in ULPs of the logits' dtype, that counts as a near-tie.
    """
    present = a if a is not None else b
    assert present is not None
    margin_a, margin_b = (None if side is None or side.logits is None else margin_of(side.logits) for side in (a, b))
    token_a, token_b = _chosen(a, margin_a), _chosen(b, margin_b)
    if a is None or b is None:
        state: TokenState = "extra" if a is None else "missing"
        return TokenStep(request, present.step, place, state, token_a, token_b, None, margin_a, margin_b)
    identical = _identical(a.logits, b.logits)
    known = token_a is not None and token_b is not None
    flipped = known and token_a != token_b
    flip = _flip(a, b, token_a, token_b) if token_a is not None and token_b is not None and flipped else None
    ulps, margin, across = (None, None, False) if flip is None else flip
    if flipped:
        state = "token differs"
    elif identical is False:
        state = "logits differ"
    else:
        state = "same" if known or identical else "not comparable"
    return TokenStep(
        request,
        present.step,
        place,
        state,
        token_a,
        token_b,
        identical,
        margin_a,
        margin_b,
        flip_ulps=ulps,
        flip_margin=margin,
        moved=_moved(a, b, (token_a, token_b)) if flipped else None,
        cause=_cause(ulps, across, near_ulps),
        not_greedy=tuple(name for name, side in (("a", a), ("b", b)) if _not_greedy(side)),  # type: ignore[misc]
        dtypes=(_dtype(a), _dtype(b)),
        vocabularies=(_vocabulary(a), _vocabulary(b)),
    )


def _chosen(token: Token | None, margin: Margin | None) -> int | None:
    if token is None or token.token is not None:
        return None if token is None else token.token
    return margin.best if margin is not None and margin.tied == 1 else None


def _not_greedy(token: Token) -> bool:
    if token.token is None or token.logits is None:
        return False
    keys = value_keys(token.logits)
    return bool(keys[token.token] != keys.max())


def _identical(a: torch.Tensor | None, b: torch.Tensor | None) -> bool | None:
    if a is None or b is None:
        return None
    return a.dtype == b.dtype and torch.equal(bit_patterns(a), bit_patterns(b.to(a.device)))


def _dtype(token: Token) -> str | None:
    return None if token.logits is None else SCORE_DTYPES[token.logits.dtype]


def _vocabulary(token: Token) -> int | None:
    return None if token.logits is None else token.logits.numel()


def _cause(ulps: int | None, across: bool, near_ulps: int) -> Literal["tie", "near-tie", "clear"] | None:
    if ulps is None:
        return None
    if ulps <= near_ulps:
        return "tie" if ulps == 0 else "near-tie"
    return None if across else "clear"


def _flip(a: Token, b: Token, one: int, other: int) -> tuple[int, float, bool] | None:
    """How far the logits of two tokens lie apart, on the side where that is most: ULPs, difference, across zero."""
    sides = [side.logits for side in (a, b) if side.logits is not None and max(one, other) < side.logits.numel()]
    if len({logits.dtype for logits in sides}) != 1:  # none, or ULPs that are not the same
        return None
    found = []
    for logits in sides:
        ulps, first, second = _ulps(logits, one, other), float(logits[one]), float(logits[other])
        if ulps is None:
            return None
        found.append((ulps, abs(score_gap(first, second)), min(first, second) < 0 < max(first, second)))
    return max(found)


def _moved(a: Token, b: Token, tokens: tuple[int | None, int | None]) -> float | None:
    """The greatest change of these tokens' logits from one run to the other."""
    if a.logits is None or b.logits is None or a.logits.numel() != b.logits.numel():
        return None
    where = [token for token in tokens if token is not None]
    changes = [abs(score_gap(float(a.logits[at]), float(b.logits[at]))) for at in where]
    return math.nan if any(math.isnan(change) for change in changes) else max(changes)


def _ulps(logits: torch.Tensor, one: int, other: int) -> int | None:
    both = logits[[one, other]]
    if bool(both.isnan().any()):
        return None
    keys = ulp_keys(both).tolist()
    return abs(int(keys[0]) - int(keys[1]))
