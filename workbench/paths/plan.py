"""SGLang's v2: from which width on it uses clusters, and its plan, by release and architecture.

Widths decide on the host. Where a call has more rows than clusters are resident, the plan kernel chooses one length
threshold for the call, and the clusters take the rows above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.arguments import checked
from workbench.errors import UsageError
from workbench.paths.devices import Device, get_device
from workbench.paths.releases import Release, parse_release
from workbench.rendering import Rendered

MOST_ROWS = 512
FEW_ROWS = 15

Caps = tuple[tuple[int, int], ...]

# Lengths, and how many rows above each the clusters take; by the text's age and the architecture it was tuned on.
OLD_CAPS: Caps = ((65536, 30), (98304, 48), (131072, 60), (196608, 80), (262144, 112), (393216, 128))
HOPPER_CAPS: Caps = ((65536, 30), (98304, 45), (131072, 60), (196608, 80), (262144, 112), (393216, 128))
BLACKWELL_CAPS: Caps = (
    (32768, 48),
    (131072, 66),
    (163840, 99),
    (196608, 132),
    (262144, 198),
    (393216, 231),
    (524288, 264),
)


@dataclass(frozen=True)
class Arch:
    """What v2 was tuned to on one architecture.

    Attributes:
        few_rows_floor, floor: widths above which clusters are used, for at most ``FEW_ROWS`` rows and for more.
        caps: of the plan.
    """

    few_rows_floor: int
    floor: int
    caps: Caps

    def width_floor(self, rows: int) -> int:
        """The width above which a call of so many rows uses clusters."""
        return self.few_rows_floor if rows <= FEW_ROWS else self.floor


@dataclass(frozen=True)
class Text:
    """v2 as a release has it; read in the packages.

    Attributes:
        archs: by the major number of the compute capability; clusters are not built elsewhere.
        least_threshold: below which the plan's threshold is raised to this.
        zero_is_heuristic: whether a static threshold of 0 asks for the heuristic; else it is taken as it is.
        always_plans: whether a plan is written for every call; else only where it decides something.
        clusters_8: the number of clusters that is built in; ``None`` where the launcher asks the driver.
        widest: blocks of the widest cluster. sliced: whether each block of a cluster reads one slice of the row.
        streams_elsewhere: whether devices without clusters are known to run the other kernels.
    """

    archs: dict[int, Arch]
    least_threshold: int
    zero_is_heuristic: bool = False
    always_plans: bool = False
    clusters_8: int | None = None
    widest: int = 16
    sliced: bool = False
    streams_elsewhere: bool = True


_OLD = Text(
    {major: Arch(32768, 65536, OLD_CAPS) for major in (9, 10)},
    least_threshold=65536,
    zero_is_heuristic=True,
    always_plans=True,
    clusters_8=30,
    widest=8,
    sliced=True,
    streams_elsewhere=False,
)
_NEW = Text({9: Arch(32768, 65536, HOPPER_CAPS), 10: Arch(24576, 30720, BLACKWELL_CAPS)}, least_threshold=32768)
TEXTS = {(0, 5, 18): _OLD, (0, 5, 21): _NEW}  # each until the next


def text_of(release: Release) -> Text:
    """v2 as a known release of sglang has it."""
    return next(text for since, text in reversed(TEXTS.items()) if release.version >= since)


@dataclass(frozen=True)
class Plan(Rendered):
    """What ``plan_topk_v2`` makes of a call.

    Attributes:
        written: whether it writes its buffer; ``None`` where that is not known.
        threshold: the length above which clusters take a row; ``None`` where no plan is written or it is not known.
        rows: numbers of the rows that clusters take by it, in order; ``None`` where not known.
        why: one sentence.
    """

    written: bool | None
    threshold: int | None
    rows: tuple[int, ...] | None
    why: str


@checked
def plan_topk_v2(
    lengths: Sequence[int] | None,
    release: str,
    device: str,
    static_threshold: int = -1,
    clusters_8: int | None = None,
    rows: int | None = None,
) -> Plan:
    """SGLang's ``plan_topk_v2``: which rows of a call go to the clusters.

    It does not know the width of the call: the launch uses the plan only where the width is above its own floor.

    Args:
        lengths: of every row of the call, 0 or more; ``None`` if not known.
        release: as in ``sglang==0.5.21``. device: as in ``h200``.
        static_threshold: negative for the heuristic; otherwise taken as it is, except that 0 asks for the heuristic
            too in 0.5.18.
        clusters_8: clusters of 8 blocks that are resident at once; ``None`` for what was measured on the device.
        rows: how many rows the call has, where ``lengths`` is not known.

    Raises:
        UsageError: an unknown release or device, a negative length, neither lengths nor rows, or another number of
            clusters than a release has built in.
    """
    if lengths is not None and any(length < 0 for length in lengths):
        raise UsageError("a length is negative; the plan reads it as unsigned, and the kernels leave the row")
    if rows is not None and rows < 0:
        raise UsageError(f"rows is {rows}; a call has 0 or more")
    if clusters_8 is not None and clusters_8 < 0:
        raise UsageError(f"clusters_8 is {clusters_8}; 0 or more is needed")
    count = len(lengths) if lengths is not None else rows
    if count is None:
        raise UsageError("give the lengths of the call's rows, or at least how many rows it has")
    known, chip = parse_release(release, "sglang"), get_device(device)
    return make_plan(lengths, count, text_of(known), chip, static_threshold, clusters_8)


def make_plan(
    lengths: Sequence[int] | None,
    rows: int,
    text: Text,
    device: Device,
    static_threshold: int = -1,
    clusters_8: int | None = None,
) -> Plan:
    """As ``plan_topk_v2``, of what is looked up already."""
    arch = arch_of(text, device)
    if arch is None:
        return Plan(False, None, (), f"{device.arch} has no clusters, the buffer is left as it is")
    pool = pool_of(text, device, clusters_8)
    if not text.always_plans:
        if rows > MOST_ROWS:
            return Plan(False, None, (), f"{rows} rows are more than {MOST_ROWS}, the buffer is left as it is")
        if pool is None and rows <= most_clusters(device, 8, 2):
            return Plan(None, None, None, f"how many clusters are resident is not measured on {device.name}")
        if pool is not None and (pool == 0 or rows <= pool):
            enough = "no cluster is resident" if pool == 0 else f"{rows} rows are at most the {pool} resident clusters"
            return Plan(False, None, (), f"{enough}, the buffer is left as it is")
    if static_threshold > 0 or (static_threshold == 0 and not text.zero_is_heuristic):
        asked, why = static_threshold, f"static threshold {static_threshold}"
    elif lengths is None:
        return Plan(True, None, None, "it counts the lengths of all rows, which are not all known")
    else:
        asked, why = heuristic(lengths, arch.caps), "the heuristic"
    threshold = max(asked, text.least_threshold)
    if threshold != asked:
        why += f", raised to {threshold}"
    taken = None if lengths is None else tuple(at for at, length in enumerate(lengths) if length > threshold)
    return Plan(True, threshold, taken, why)


def heuristic(lengths: Sequence[int], caps: Caps) -> int:
    """The least threshold such that, from the top down, no cap was exceeded; the greatest where its own cap is."""
    chosen = caps[-1][0]
    for threshold, cap in reversed(caps):
        if sum(length > threshold for length in lengths) > cap:
            break
        chosen = threshold
    return chosen


def heuristic_range(rows: int, caps: Caps) -> tuple[int, int]:
    """The least and the greatest threshold that the heuristic can choose for so many rows, whatever their lengths."""
    return caps[0][0], heuristic([caps[-1][0] + 1] * rows, caps)


def arch_of(text: Text, device: Device) -> Arch | None:
    """What a text was tuned to on a device; ``None`` where it has no clusters there."""
    return text.archs.get(device.capability[0]) if device.platform == "cuda" else None


def pool_of(text: Text, device: Device, clusters_8: int | None) -> int | None:
    """How many clusters of 8 blocks are resident: built in, given or measured; ``None`` if not known.

    Raises:
        UsageError: another number is given than the one that is built in.
    """
    if text.clusters_8 is not None:
        if clusters_8 not in (None, text.clusters_8):
            raise UsageError(f"the release has {text.clusters_8} clusters of 8 blocks built in, not {clusters_8}")
        return text.clusters_8
    return device.clusters_8 if clusters_8 is None else clusters_8


def most_clusters(device: Device, blocks: int, occupancy: int) -> int:
    """How many clusters a device holds at most, by its multiprocessors; the driver may answer fewer."""
    return device.sms * occupancy // blocks
