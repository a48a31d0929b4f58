"""Arrival orders by name, and the one under which models are run where none is asked for.

One place, so that figures of the same row agree: what ``inspect`` shows, what ``run`` counts in its first repeat, and
what an exported test was proved on.
"""

from __future__ import annotations

from typing import Final, Literal

OrderKind = Literal["index", "reverse", "random", "walk", "explicit"]
RANDOM: Final = "random"
DEFAULT_ORDER: Final = RANDOM
DEFAULT_SEED: Final = 0
