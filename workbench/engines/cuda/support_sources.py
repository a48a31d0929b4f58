"""Sources that are no selectors, and the options that build them; their numbers come from the paths as well."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.engines.cuda.sources import Value, defined
from workbench.paths import blocks
from workbench.paths.catalog import PATHS

# Bits of the coarse keys of all paths: bins of the finest are parts of those of every other.
WIDTHS = tuple(sorted({path.key_bits for path in PATHS if path.key_bits is not None}))
CENSUS_INTS = 4 * len(WIDTHS) + 4  # that a census tells of a row
CENSUS_CELLS = (1 << WIDTHS[-1]) + 4  # of the workspace of a row that several blocks share
GATE_INTS = 5  # of a buffer that rows are held against
PICKED_INTS = 3  # that the first step of screening tells the second of a row
RESIDENT = 3  # blocks of a census that a multiprocessor has at once
SEEN_SLOTS = 2 * 4096  # of a table of what a selection holds: of up to half as many
_CENSUS: dict[str, Value] = {
    "THREADS": 512,
    "COPIES": 1,
    "LOADS": 4,
    "SPREAD": 1,
    "FINE_BITS": WIDTHS[-1],
    "KEY_WIDTHS": WIDTHS,
    "CENSUS_CELLS": CENSUS_CELLS,
    "CENSUS_INTS": CENSUS_INTS,
}

# What is no selector: by the name of its file.
SUPPORT: dict[str, Mapping[str, Value]] = {
    "block_amax.cu": {"THREADS": 512, "KEYS_A_THREAD": 2, "BLOCK": blocks.BLOCK},
    "candidate_blocks.cu": {"THREADS": 1024, "BLOCK": blocks.BLOCK, "BITMAP": blocks.BITMAP},
    "census.cu": {**_CENSUS, "RESIDENT": RESIDENT},
    "picked.cu": {**_CENSUS, "PICKED_INTS": PICKED_INTS, "SEEN_SLOTS": SEEN_SLOTS},
    "positions.cu": {"THREADS": 1024, "SEEN_SLOTS": SEEN_SLOTS},
    "probe.cu": {},
    "screen.cu": {**_CENSUS, "GATE_INTS": GATE_INTS, "PICKED_INTS": PICKED_INTS, "RESIDENT": RESIDENT},
}


def support_options(source: str, **other: Value) -> tuple[str, ...]:
    """The options that build a source of ``SUPPORT``, some of them other ones."""
    return defined({**SUPPORT[source], **other})
