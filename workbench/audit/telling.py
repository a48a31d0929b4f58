"""Which lines tell of a loss, a risk or a harm: one rule, for what an audit writes and for all that reads it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from workbench.paths.catalog import PATHS
from workbench.runs.run import SYSTEMS

_SERVED = frozenset(path.name for path in PATHS if path.system in SYSTEMS)


@dataclass(frozen=True, eq=False)
class Telling:
    """What lines tell of, arrays of bool [n].

    Attributes:
        lost: a recorded selection that is lossy or invalid. risky: a risk that counts and is not ``safe``.
        harmful: a finding that counts.
    """

    lost: np.ndarray
    risky: np.ndarray
    harmful: np.ndarray

    @property
    def bad(self) -> np.ndarray:
        """bool [n]: any of these."""
        found: np.ndarray = self.lost | self.risky | self.harmful
        return found


def telling(
    recorded: np.ndarray, counts: np.ndarray, lost: np.ndarray, risky: np.ndarray, finding: np.ndarray
) -> Telling:
    """What lines tell of, all bool [n].

    Args:
        recorded: lines of recorded selections. counts: as ``counting_lines`` has it. lost: with a verdict of ``LOST``.
            risky: with a risk of ``LOSING``. finding: with a finding.
    """
    return Telling(recorded & lost, counts & risky, finding & (counts | recorded))


def counting_lines(census: np.ndarray, known: np.ndarray, reached: np.ndarray, may: np.ndarray) -> np.ndarray:
    """bool [n]: lines of which what they say of the path is the row's own: of the census, on the path that the op sends
    the row to, or on each that it may where that is not known.

    Args:
        census: lines of it. known: with ``reached``. reached: what that says, any value where it is not known.
            may: whether the path counts for rows of which it is not known which they reach.
    """
    found: np.ndarray = census & ((known & reached) | (~known & may))
    return found


def may_count(paths: Iterable[str], served: bool) -> np.ndarray:
    """bool [paths + 1]: which paths count for rows that may take any, the last value being for no path.

    Rows with an op have lines that are not known to be reached for paths of the op alone. For those without one every
    path of a serving system counts, or where others were asked for (``served`` is false), each of these.
    """
    return np.array([*(not served or name in _SERVED for name in paths), False])
