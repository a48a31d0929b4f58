"""How many workers fit into a bound on memory, from what was measured of one."""

from __future__ import annotations

from workbench.errors import UsageError

MIB = 2**20
DRIVER = 512 * MIB  # of the process that plans and writes; 330 MiB were measured
WORKER = 512 * MIB  # of a worker before its row; 450 MiB were measured
PER_SCORE = 224  # bytes a score of the longest row: where all scores are equal, or rise along the row


def workers_within(max_memory: int, longest: int, alone: bool) -> int:
    """How many workers may start at most.

    Args:
        max_memory: bytes. longest: scores of the longest row. alone: whether the worker is this process itself.

    Raises:
        UsageError: not even one; the message says how much is needed.
    """
    each = WORKER + PER_SCORE * longest
    fixed = DRIVER - WORKER if alone else DRIVER
    count = (max_memory - fixed) // each
    if count < 1:
        needed = -(-(fixed + each) // MIB)
        raise UsageError(
            f"max_memory is {max_memory // MIB} MiB; one worker and rows of {longest} scores need {needed} MiB"
        )
    return count
