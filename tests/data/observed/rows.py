"""Score rows of the observed cases, rebuilt to the bit from seeds: chosen kinds at random places, or scores in order.

``rows.json`` lists the shapes and the digest of every batch. NumPy and the standard library only.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

POISON_BEFORE = 9.0  # cells before the start of a window

Draw = Callable[[np.random.Generator, int], np.ndarray]


def _neighbours(first: int) -> Draw:
    """Consecutive bit patterns from ``first``, shuffled."""
    return lambda rng, n: (np.uint32(first) + rng.permutation(n).astype(np.uint32)).view(np.float32)


def _all(bits: int) -> Draw:
    return lambda rng, n: np.full(n, bits, np.uint32).view(np.float32)


def _payloads(first: int) -> Draw:
    return lambda rng, n: (np.uint32(first) + rng.integers(0, 0x7FFFFE, n, dtype=np.uint32)).view(np.float32)


PARTS: dict[str, Draw] = {
    "high": lambda rng, n: rng.uniform(1.0, 2.0, n).astype(np.float32),
    "low": lambda rng, n: rng.uniform(-2.0, -1.0, n).astype(np.float32),
    "normal": lambda rng, n: rng.standard_normal(n).astype(np.float32),
    "one": _neighbours(0x3F800001),  # above 1.0: one coarse bin
    "const": _all(0x3F800000),
    "pz": _all(0x00000000),
    "nz": _all(0x80000000),
    "psub": _neighbours(0x00000001),
    "nsub": _neighbours(0x80000001),
    "ptiny": _neighbours(0x20000000),  # about 1e-19: a zero in fp16
    "ntiny": _neighbours(0xA0000000),
    "pnan": _all(0x7FC00000),
    "nnan": _all(0xFFC00000),
    "pnan_payload": _payloads(0x7F800001),
    "nnan_payload": _payloads(0xFF800001),
    "pinf": _all(0x7F800000),
    "ninf": _all(0xFF800000),
    "pmax": _all(0x7F7FFFFF),
    "nmax": _all(0xFF7FFFFF),
    "edge": _neighbours(0x477FE000),  # from 65504, 4096 of them below 65520
    "over": _neighbours(0x477FF000),  # from 65520: +inf in fp16
    "nedge": _neighbours(0xC77FE000),
    "nover": _neighbours(0xC77FF001),
}
REST = -1  # the count of a part that fills the row

Parts = list[tuple[str, int]]


def _zeros(k: int) -> dict[str, Parts]:
    """Signed zeros, and what fp16 takes for them, around the cut: k - 100 higher scores unless said otherwise."""
    high = ("high", k - 100)
    low = ("low", REST)

    def after(*parts: tuple[str, int]) -> Parts:
        return [high, *parts, low]

    mixed = ((100, 2000), (100, 1948), (101, 2000), (1000, 1100), (2000, 3000))
    return {
        "z_nz200_pz50": after(("pz", 50), ("nz", 200)),
        "z_nz200": after(("nz", 200)),
        "z_nz100_exact": after(("nz", 100)),
        "z_nz101": after(("nz", 101)),
        **{f"z_nz{n}_pz50": after(("pz", 50), ("nz", n)) for n in (1998, 2048, 2049, 4000)},
        "z_pz200_nz200": after(("pz", 200), ("nz", 200)),
        "z_pz2048": after(("pz", 2048)),
        "z_pz2049": after(("pz", 2049)),
        **{f"z_pz{p}_nz{n}": after(("pz", p), ("nz", n)) for p, n in mixed},
        "z_all_nz": [("nz", REST)],
        "z_half": [("pz", 4000), ("nz", REST)],
        "z_relu_nz": [("high", 100), ("nz", REST)],
        "z_relu_nz_pz10": [("high", 100), ("pz", 10), ("nz", REST)],
        "z_relu_pz": [("high", 100), ("pz", REST)],
        "z_km1_nz": [("high", k - 1), ("nz", REST)],
        "z_nz50_ntiny200": after(("nz", 50), ("ntiny", 200)),
        "z_nz200_ntiny200": after(("nz", 200), ("ntiny", 200)),
        "z_psub150_pz100_nz100": after(("psub", 150), ("pz", 100), ("nz", 100)),
        "z_psub50_pz20_nz200": after(("psub", 50), ("pz", 20), ("nz", 200)),
        "z_psub3000_nz500": after(("psub", 3000), ("nz", 500)),
        "z_nsub3000_nz50": after(("nz", 50), ("nsub", 3000)),
        "z_nsub3000_nz500": after(("nz", 500), ("nsub", 3000)),
        "z_ptiny3000": after(("ptiny", 3000)),
        "z_psub": [("psub", REST)],
        "z_nsub": [("nsub", REST)],
    }


def _infinities(k: int) -> dict[str, Parts]:
    """Infinities, the greatest numbers, and what fp16 takes for infinite; three plain kinds."""
    high, none = ("high", k - 100), ("ninf", REST)
    return {
        "i_all_ninf": [none],
        **{f"i_finite{n}": [("high", n), none] for n in (1, 3, 100, k - 1, k, k + 1)},
        "i_100_nmax50": [("high", 100), ("nmax", 50), none],
        **{f"i_nmax{n}": [high, ("nmax", n), none] for n in (50, 2000, 3000)},
        "i_nmax101_low": [high, ("low", 50), ("nmax", 51), none],
        "i_all_nmax": [("nmax", REST)],
        "i_nover3000": [high, ("nover", 3000), none],
        "i_nover500_ninf40": [("high", k - 20), ("nover", 500), ("ninf", 40), ("low", 0), ("nmax", REST)],
        "i_nedge150_nover3000": [high, ("nedge", 150), ("nover", 3000), none],
        "i_ninf40": [("high", k - 20), ("ninf", 40), ("nmax", 5), ("low", 0), none],
        "i_pinf3": [("pinf", 3), ("normal", REST)],
        "i_pinf_km1": [("pinf", k - 1), ("high", REST)],
        "i_pinf_k5": [("pinf", k + 5), ("high", REST)],
        "i_pinf_k2000": [("pinf", k + 2000), ("high", REST)],
        "i_all_pinf": [("pinf", REST)],
        "i_over1900": [("over", 1900 if k <= 1900 else 2100), ("low", REST)],
        "i_over4000": [("over", 4000), ("high", REST)],
        "i_pinf100_over4000_edge500": [("pinf", 100), ("over", 4000), ("edge", 500), ("high", REST)],
        "i_edge4000": [("edge", 4000), ("high", REST)],
        "i_over100_edge4000": [("over", 100), ("edge", 4000), ("high", REST)],
        "i_pmax3000_pinf5": [("pmax", 3000), ("pinf", 5), ("high", REST)],
        "b_one1000": [high, ("one", 1000), ("low", REST)],
        "b_one6000": [("one", 6000), ("low", REST)],
        "b_normal": [("normal", REST)],
    }


def _nans(k: int) -> dict[str, Parts]:
    """NaN of both signs: few, about k of them, and on top of rows that overflow a buffer."""
    normal = ("normal", REST)
    around = (k - 1, k, k + 1, k + 100)
    return {
        "n_p3": [("pnan", 3), normal],
        "n_n3": [("nnan", 3), normal],
        "n_p3_n3": [("pnan", 3), ("nnan", 3), normal],
        **{f"n_p{n}": [("pnan", n), normal] for n in around},
        **{f"n_n{n}": [("nnan", n), normal] for n in around},
        "n_half": [("pnan", k // 2), ("nnan", k // 2 + 100), normal],
        "n_payload": [("pnan_payload", 10), ("nnan_payload", 10), normal],
        "n_p3_one6000": [("pnan", 3), ("one", 6000), ("low", REST)],
        "n_n3_one6000": [("nnan", 3), ("one", 6000), ("low", REST)],
        "n_p40_one1500": [("pnan", 40), ("one", 2100), ("low", REST)],
        "n_p3_pinf5": [("pnan", 3), ("pinf", 5), normal],
        "n_p3_pinf_k": [("pnan", 3), ("pinf", k), normal],
        "n_p3_finite3": [("pnan", 3), ("high", 3), ("ninf", REST)],
        "n_n3_finite3": [("nnan", 3), ("high", 3), ("ninf", REST)],
        "n_p3_const": [("pnan", 3), ("const", REST)],
        "n_n50_zeros": [("nnan", 50), ("high", k - 150), ("pz", 50), ("nz", REST)],
        "n_p50_zeros": [("pnan", 50), ("high", k - 150), ("pz", 50), ("nz", REST)],
        "n_p_all": [("pnan", REST)],
        "n_n_all": [("nnan", REST)],
    }


ORDERS = ("desc_int", "asc_int", "desc_bin", "asc_bin", "perm_bin", "asc", "desc")


def parts(kind: str, k: int) -> Parts:
    """What a row of a kind holds, for a call with this k: names of ``PARTS`` with counts, ``REST`` for what is left."""
    return (_zeros(k) | _infinities(k) | _nans(k))[kind]


def _mixed(rng: np.random.Generator, length: int, held: Parts) -> np.ndarray:
    row, where, at = np.empty(length, np.float32), rng.permutation(length), 0
    for name, count in held:
        n = length - at if count == REST else count
        row[where[at : at + n]] = PARTS[name](rng, n)
        at += n
    return row


def _in_order(rng: np.random.Generator, length: int, kind: str) -> np.ndarray:
    position = np.arange(length)
    top = 806736.0  # all of these integers lie above 65520
    near = (np.uint32(0x3F800001) + position.astype(np.uint32)).view(np.float32)
    made = {
        "desc_int": lambda: top - position,
        "asc_int": lambda: top - length + 1 + position,
        "asc": lambda: np.linspace(0.0, 1.0, length),
        "desc": lambda: np.linspace(1.0, 0.0, length),
        "asc_bin": lambda: near,
        "desc_bin": lambda: near[::-1],
        "perm_bin": lambda: near[rng.permutation(length)],
    }
    return np.ascontiguousarray(made[kind](), dtype=np.float32)


@dataclass(frozen=True)
class Shape:
    """The shape of a batch.

    Attributes:
        k: winners that its rows were made for; 0 for rows in order, which are the same for every k.
        lengths: valid scores of each row. width: cells of a row. pad: what stands after a row. start: its first cell.
    """

    k: int
    lengths: tuple[int, ...]
    width: int
    pad: str
    start: int

    def seed(self, kind: str) -> int:
        """The seed of the first row; row r has this one plus r."""
        named = (kind, self.k, self.lengths, self.width, self.pad, self.start)
        return zlib.crc32(repr(named).encode()) % 1_000_000_000


def build(shape: Shape, kind: str) -> np.ndarray:
    """A batch, float32 [rows, width]."""
    batch = np.full((len(shape.lengths), shape.width), float(shape.pad), np.float32)
    batch[:, : shape.start] = POISON_BEFORE
    for index, length in enumerate(shape.lengths):
        rng = np.random.Generator(np.random.PCG64(shape.seed(kind) + index))
        ordered = kind in ORDERS
        made = _in_order(rng, length, kind) if ordered else _mixed(rng, length, parts(kind, shape.k))
        batch[index, shape.start : shape.start + length] = made
    return batch


def to_bfloat16(scores: np.ndarray) -> np.ndarray:
    """The bits of bfloat16 scores, uint16: to nearest, ties to even; NaN keeps its sign, unlike in torch."""
    bits = scores.view(np.uint32)
    near = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    nan = np.isnan(scores)
    near[nan] = ((bits[nan] >> 16) | 0x40).astype(np.uint16)
    return near
