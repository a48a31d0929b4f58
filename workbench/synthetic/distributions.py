"""Named distributions of score rows, as upstream tests and bug reports use them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch

from workbench.capture.format import MAX_WIDTH
from workbench.capture.row import Call, Row
from workbench.errors import UsageError
from workbench.numeric.keys import OVERFLOW
from workbench.paths.models.sampled import sample_places
from workbench.synthetic.streams import Stream, between, floats, normal, stream
from workbench.words import listed

ONE = 0x3F800000  # bit pattern of 1.0
LOW_BITS = 0x3F900000  # of 1.125, with the ten lowest bits free
LEAST_OVER = 1 << 16  # the least of the integers of over_fp16
WHOLE = 1 << 24  # float32 holds every integer up to it
WINNERS = 100
SAMPLE = 4096


@dataclass(frozen=True)
class Distribution:
    """A way to fill a row.

    Attributes:
        name: as it is asked for. summary: one sentence. source: the upstream test or report that uses it.
        fill: (stream, length) to float32 [length]. longest: scores a row may have; past them float32 would round.
    """

    name: str
    summary: str
    source: str
    fill: Callable[[Stream, int], np.ndarray]
    longest: int = MAX_WIDTH


def _some(random: Stream, length: int, count: int) -> np.ndarray:
    """At most ``count`` positions of a row."""
    return random.permutation(length)[:count]


def _ten_low_bits(random: Stream, length: int) -> np.ndarray:
    return floats(LOW_BITS | random.randint(0, 1 << 10, length))


def _ascending(random: Stream, length: int) -> np.ndarray:
    return np.arange(length).astype(np.float32)


def _descending(random: Stream, length: int) -> np.ndarray:
    return _ascending(random, length)[::-1].copy()


def _constant(random: Stream, length: int) -> np.ndarray:
    return np.ones(length, np.float32)


def _many_ties(random: Stream, length: int) -> np.ndarray:
    return (random.randint(0, 10, length) / 10).astype(np.float32)


def _small_differences(random: Stream, length: int) -> np.ndarray:
    return (1.0 + 1e-6 * random.standard_normal(length)).astype(np.float32)


def _sampled_peaks(random: Stream, length: int) -> np.ndarray:
    row = normal(random, length)
    peaks = np.unique(sample_places(length, SAMPLE).numpy())
    peaks = peaks[peaks < length]
    row[peaks] = between(random, 8.0, 9.0, peaks.size)
    return row


def _cluster(random: Stream, length: int) -> np.ndarray:
    return between(random, 1.0, 1.01, length)


def _negative_cluster(random: Stream, length: int) -> np.ndarray:
    return between(random, -0.9, -0.89, length)


def _relu_zeros(random: Stream, length: int) -> np.ndarray:
    row, at = np.zeros(length, np.float32), _some(random, length, WINNERS)
    row[at] = between(random, 0.5, 6.0, at.size)
    return row


def _signed_zeros(random: Stream, length: int) -> np.ndarray:
    row = np.where(random.random_sample(length) < 0.5, np.float32(0.0), np.float32(-0.0))
    at = _some(random, length, WINNERS)
    row[at] = between(random, 1.0, 2.0, at.size)
    return row


def _infinite_ties(random: Stream, length: int) -> np.ndarray:
    row, at = np.full(length, -np.inf, np.float32), _some(random, length, WINNERS)
    row[at] = normal(random, at.size)
    return row


def _around_fp16_max(random: Stream, length: int) -> np.ndarray:
    return between(random, OVERFLOW - 64, OVERFLOW + 64, length)


def _over_fp16(random: Stream, length: int) -> np.ndarray:
    return (LEAST_OVER + np.arange(length, dtype=np.float64)[::-1]).astype(np.float32)


DISTRIBUTIONS: tuple[Distribution, ...] = (
    Distribution("random", "standard normal", "vLLM and SGLang kernel tests", normal),
    Distribution("10LSBits", "1.125 with ten random low bits: one coarse bin", "vLLM kernel tests", _ten_low_bits),
    Distribution("ascending", "0, 1, 2, … along the row", "vLLM kernel tests", _ascending, WHOLE + 1),
    Distribution("descending", "…, 2, 1, 0 along the row", "vLLM kernel tests", _descending, WHOLE + 1),
    Distribution("constant", "1.0 throughout", "vLLM and SGLang kernel tests", _constant),
    Distribution("many_ties", "ten levels from 0.0 to 0.9", "vLLM kernel tests", _many_ties),
    Distribution("small_differences", "1 + 1e-6 × standard normal", "vLLM kernel tests", _small_differences),
    Distribution(
        "sampled_peaks",
        "standard normal, but 8 to 9 at the 4096 positions that vllm.sampled samples",
        "vLLM kernel tests",
        _sampled_peaks,
    ),
    Distribution("cluster", "uniform in [1.0, 1.01): one coarse bin", "vllm-project/vllm#51782", _cluster),
    Distribution(
        "negative_cluster", "uniform in [-0.9, -0.89): one 8-bit bin", "SGLang k-pool tests", _negative_cluster
    ),
    Distribution(
        "relu_zeros", f"{WINNERS} scores of 0.5 to 6 among exact zeros", "sgl-project/sglang#30645", _relu_zeros
    ),
    Distribution(
        "signed_zeros", f"{WINNERS} scores of 1 to 2 among zeros of both signs", "SGLang v2 tests", _signed_zeros
    ),
    Distribution(
        "infinite_ties", f"{WINNERS} normal scores among ties of -inf", "sgl-project/sglang#38829", _infinite_ties
    ),
    Distribution(
        "around_fp16_max",
        "uniform in [65456, 65584): some round to 65504 in fp16, some to +inf",
        "boundary of fp16 keys",
        _around_fp16_max,
    ),
    Distribution(
        "over_fp16",
        "descending integers to 65536: all +inf in fp16",
        "vllm-project/vllm#51782",
        _over_fp16,
        WHOLE - LEAST_OVER + 1,
    ),
)


def get_distribution(name: str) -> Distribution:
    """The distribution of that name; UsageError lists the known ones."""
    for one in DISTRIBUTIONS:
        if one.name == name:
            return one
    raise UsageError(f"unknown distribution {name!r}; known: {listed(one.name for one in DISTRIBUTIONS)}")


def make_rows(
    distribution: str, *, length: int, k: int, rows: int = 1, seed: int = 0, call: Call | None = None
) -> list[Row]:
    """Rows of a named distribution; the same name, length, seed and row number give the same bits everywhere.

    Args:
        length: scores a row. k: winners wanted, at most ``length``. rows: how many. seed: from 0 to 2^63 - 1.
        call: what else the rows' call is to say.

    Raises:
        UsageError: an unknown distribution, or a number that is out of range.
    """
    chosen = get_distribution(distribution)
    check_counts(length, k, rows)
    if length > chosen.longest:
        raise UsageError(
            f"{distribution} has rows of at most {chosen.longest} scores: past them float32 cannot hold its integers, "
            f"and length is {length}"
        )
    made = (chosen.fill(stream(seed, row), length) for row in range(rows))
    return as_rows(made, k, rows, call)


def check_counts(length: int, k: int, rows: int) -> None:
    """Refuse sizes that no row or batch has.

    Raises:
        UsageError: which number, and what it may be.
    """
    for name, value, most in (("length", length, MAX_WIDTH), ("k", k, length), ("rows", rows, MAX_WIDTH)):
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            bound = f"the length, {length}" if name == "k" else str(most)
            raise UsageError(f"{name} {value!r} is no integer from 1 to {bound}")


def as_rows(scores: Iterable[np.ndarray], k: int, rows: int, call: Call | None) -> list[Row]:
    """Rows of one call that says what it holds.

    Args:
        scores: float32 arrays, each [length].
    """
    made: list[Row] = []
    for number, row in enumerate(scores):
        of = vars(call or Call()) | {"k": k, "rows": rows, "width": row.size, "stride": row.size}
        if of["max_seq_len"] is None:
            of["max_seq_len"] = row.size
        made.append(Row(torch.from_numpy(row), row.size, call=Call(**of), index=number, capture="synthetic"))
    return made
