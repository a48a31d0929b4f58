"""SGLang's v2 plan: which rows of a call a cluster takes, and how wide that cluster is.

Widths decide on the host. Where more rows come than clusters are resident, the plan kernel chooses one length threshold
for the call, so that the clusters can take the rows above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.paths.devices import Device

MOST_ROWS = 512
FEW_ROWS = 15

# Lengths and how many rows above each a device's clusters take.
HOPPER_CAPS = ((65536, 30), (98304, 45), (131072, 60), (196608, 80), (262144, 112), (393216, 128))
BLACKWELL_CAPS = (
    (32768, 48),
    (65536, 48),
    (98304, 48),
    (131072, 66),
    (163840, 99),
    (196608, 132),
    (262144, 198),
    (393216, 231),
    (524288, 264),
)


@dataclass(frozen=True)
class ClusterLimits:
    """What a device's clusters take.

    Attributes:
        few_rows_floor, floor: widths above which clusters are used, for at most ``FEW_ROWS`` rows and for more.
        clusters_16, clusters_8: how many clusters of that width are resident at once, which the launcher probes.
        caps: of the plan. measured: whether the probe's answers were read off a device.
    """

    few_rows_floor: int
    floor: int
    clusters_16: int
    clusters_8: int
    caps: tuple[tuple[int, int], ...]
    measured: bool


_HOPPER = ClusterLimits(32768, 65536, 7, 30, HOPPER_CAPS, measured=True)
_BLACKWELL = ClusterLimits(24576, 30720, 7, 33, BLACKWELL_CAPS, measured=False)


def cluster_limits(device: Device) -> ClusterLimits | None:
    """The limits of a device; ``None`` where clusters are not compiled (before 9.0 and from 11.0 on)."""
    major = device.capability[0]
    return _HOPPER if major == 9 else _BLACKWELL if major == 10 else None


def width_floor(limits: ClusterLimits, rows: int) -> int:
    """The width above which a call of so many rows uses clusters."""
    return limits.few_rows_floor if rows <= FEW_ROWS else limits.floor


def plan_threshold(lengths: Sequence[int], limits: ClusterLimits, static_threshold: int = -1) -> int | None:
    """The length above which the plan sends a row to a cluster; ``None`` if it sends none.

    Args:
        lengths: of every row of the call. static_threshold: not negative: taken as it is.
    """
    if static_threshold >= 0:
        return static_threshold
    chosen = None
    for threshold, cap in reversed(limits.caps):
        if sum(length > threshold for length in lengths) > cap:
            break
        chosen = threshold
    return chosen
