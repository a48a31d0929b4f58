"""Which CUDA source runs a variant of a path, and the build options that the path's record becomes.

Every number that a kernel needs comes from the record of the path or from the module of its model: the sources in
``kernels/`` hold none of them. A family is one file there and one line a model in ``KERNELS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from workbench.engines.cuda.grid import (
    ARRIVED,
    COOP_BINS,
    COOP_COUNTERS,
    H200,
    RADIX_BINS,
    RADIX_COUNTERS,
    Grid,
    GridOf,
    Shape,
    chunks,
    group_cells,
    one_block,
    slices,
    whole_device,
)
from workbench.engines.cuda.reports import MOST_PASSES, report_ints
from workbench.errors import UsageError
from workbench.paths.catalog import get_variant
from workbench.paths.models import bf16, per_row, prefixes, recovery, rescans, sampled, sglang_v2
from workbench.paths.own_variants import RADIX_FROM, SPLIT_FROM
from workbench.paths.selection import Telemetry
from workbench.paths.sglang import ROCM_TIES
from workbench.paths.sglang_variants import V2_TIES
from workbench.paths.shared import BYTES
from workbench.paths.spans import RESIDUES
from workbench.paths.spec import Buffer, Path, Ranks, Variant
from workbench.paths.walk import walk_of

MOST_K = 2048  # where a path takes any k, its buffer of k candidates is built for so many
ALWAYS_LONGER = 2**31 - 1  # a width that no row reaches
RESIDENT_SLOTS = 8192  # of a buffer, two indices each: a multiprocessor has room for two of them
KEPT = 32768  # scores of its slice that a block of a cluster keeps in shared memory
Value = int | str | tuple[int, ...]


@dataclass(frozen=True)
class Kernel:
    """The source of a model.

    Attributes:
        file: in ``kernels/``. options: what the model adds to the options of its path, by name.
        key_bits: bits of its bins, where they are not the path's; of the exact key if ``exact_bins``.
        buffers: whether candidates go through the path's buffer. holds_k: whether that has room for k in any case.
        needs: the least compute capability. grid: the blocks of a launch. waits: whether
            blocks of a group wait for each other, so that the launch must be cooperative. dtype: of the scores;
            ``None`` where none is read, so that bins, buffer and digits are no options of it. hands_on: whether the
            blocks of a cluster hand the members that they stored on through a workspace. resident: blocks of a
            multiprocessor that registers are kept for, if the row is not in registers and buffers leave the room.
    """

    file: str
    options: Mapping[str, Value] = field(default_factory=dict)
    key_bits: int | None = None
    exact_bins: bool = False
    buffers: bool = True
    holds_k: bool = False
    buffer_times: int = 1
    unbinned: bool = False
    needs: tuple[int, int] = (7, 0)
    grid: GridOf = one_block
    waits: bool = False
    dtype: str | None = "float32"
    hands_on: bool = False
    resident: int = 1

    def takes(self, dtype: str) -> bool:
        """Whether it takes scores of a dtype that its path takes."""
        return self.dtype is None or self.dtype == dtype


def _stash(model: str, rescan: tuple[int, ...] = BYTES, **options: Value) -> Kernel:
    resident = 1 if model == "unique_key" else 2  # which spills registers then
    return Kernel("stash.cu", {"MODEL": model, "RESCAN_DIGITS": rescan, **options}, resident=resident)


def _wide(model: str, **options: Value) -> Kernel:
    kernel = _stash(model, rescans.WIDE[1:], **options)
    return replace(kernel, key_bits=rescans.WIDE[0], exact_bins=True)


def _register(model: str, **options: Value) -> Kernel:
    return Kernel("register.cu", {"MODEL": model, "RESCAN_DIGITS": rescans.WIDE, **options})


def _cooperative(**options: Value) -> Kernel:
    return Kernel("cooperative.cu", {"KEPT": KEPT, **options}, hands_on=True)


def _v2(name: str, file: str = "v2.cu") -> Kernel:
    rules = sglang_v2.RULES[name]
    return Kernel(
        file,
        {
            "BOUND": rules.bound,
            "FALLBACK": {"true": "counted"}.get(rules.fallback, rules.fallback),
            "LEAST_PADDING": int(rules.padding == "-FLT_MAX"),
            "RESCAN_DIGITS": sglang_v2.DIGITS if rules.fallback == "digits" else BYTES,
        },
        holds_k=rules.fallback != "none",
        resident=2 if file == "v2.cu" else 1,
    )


def _per_row(radix_from: int, split_from: int = ALWAYS_LONGER) -> Kernel:
    options: dict[str, Value] = {
        "RADIX_FROM": radix_from,
        "SORT_THREADS": per_row.THREADS,
        "MERGE_THREADS": per_row.MERGE_THREADS,
        "ZEROED": ARRIVED,
    }
    return Kernel("per_row.cu", options, grid=slices(split_from))


def _sampled() -> Kernel:
    (special,) = sampled.CAPACITIES_FROM
    options: dict[str, Value] = {
        "SAMPLE_RUN": sampled.RUN,
        "FINE_BITS": sampled.BITS,
        "SPECIAL_K": special,
        "CAPACITIES_SPECIAL": sampled.CAPACITIES_FROM[special],
        "CAPACITIES": sampled.CAPACITIES_ELSE,
    }
    return Kernel("sampled.cu", options, key_bits=sampled.FILTERED_BITS, buffer_times=2, unbinned=True)


def _bf16(model: str, key_bits: int | None = None) -> Kernel:
    return Kernel("bf16_small.cu", {"MODEL": model}, key_bits=key_bits, buffers=False, dtype="bfloat16")


def _radix(by_index: int = 0) -> Kernel:
    options: dict[str, Value] = {
        "BY_INDEX": by_index,
        "GROUP_BINS": RADIX_BINS,
        "GROUP_CELLS": group_cells(RADIX_BINS),
        "ZEROED": RADIX_COUNTERS,
    }
    return Kernel("radix.cu", options, buffers=False, grid=chunks, waits=True)


def _coop(ties: int, prefix: tuple[int, ...], rest: tuple[int, ...] = (0,), nan_is_least: int = 0) -> Kernel:
    options: dict[str, Value] = {
        "PREFIX_DIGITS": prefix,
        "REST_DIGITS": rest,
        "NAN_IS_LEAST": nan_is_least,
        "GROUP_BINS": COOP_BINS,
        "GROUP_CELLS": group_cells(COOP_BINS),
        "ZEROED": COOP_COUNTERS,
    }
    return Kernel("coop.cu", options, unbinned=True, grid=whole_device(ties), waits=True)


# By the model of a variant, or the family of its path, as ``workbench.paths.model.MODELS``.
KERNELS: dict[str, Kernel] = {
    "identity": Kernel("trivial.cu", buffers=False, dtype=None),
    "stash": _stash("stash"),
    "detect_rescan": _stash("detect_rescan"),
    "collect_then_rescan": _stash("collect_then_rescan"),
    "wide_rescan": _wide("wide_rescan"),
    "wide_rescan_sampled": _wide(
        "wide_rescan_sampled",
        SAMPLE=rescans.SAMPLE,
        SAMPLED_FROM=rescans.SAMPLED_FROM,
        SAMPLED_ROOM=rescans.SAMPLED_ROOM,
        SAMPLED_MOST=rescans.MOST_TARGETED,
        SAMPLED_LARGE_K=rescans.LARGE_K,
    ),
    "ordered_radix": replace(_stash("ordered_radix"), buffers=False),
    "cutoff_first": _stash("cutoff_first"),
    "filtered_rescan": _stash("filtered_rescan"),
    "unique_key": _stash("unique_key"),
    "kpool_0.5.23": _stash("unique_key"),
    "resume_index": _stash("resume_index", RESUMES=1),
    "register": _register("register_ties"),
    "register_recovery": _register(
        "register_recovery",
        RANKED_TIES=recovery.RANKED_TIES,
        OFFSET_DIGITS=recovery.DIGITS,
        OFFSET_BITS=recovery.OFFSET_BITS,
        BELOW_BIN=recovery.BELOW_BIN,
    ),
    "ordered_register": replace(_register("ordered_register"), buffers=False),
    **{name: _v2(name) for name in sglang_v2.RULES if name not in ("v2_clamped_tie_count", "v2_cluster_0.5.23")},
    "unguarded": _stash("stash"),  # what does not fit is dropped here, where the original writes past its buffer
    "flashinfer_filtered": _stash("flagged"),
    "flashinfer_filtered_by_index": _stash("flagged_by_index"),
    "sampled": _sampled(),
    "bf16_exact": _bf16("exact"),
    "bf16_approximate": _bf16("approximate", bf16.LOSSY_BITS),
    "coop": _coop(V2_TIES, prefixes.COOP_DIGITS, nan_is_least=1),
    "rocm_coop": _coop(ROCM_TIES, prefixes.ROCM_DIGITS, prefixes.REST),
    "radix": _radix(),
    "flashinfer_radix": _radix(),
    "flashinfer_radix_by_index": _radix(by_index=1),
    "per_row": _per_row(RADIX_FROM, SPLIT_FROM),
    "per_row_radix": _per_row(0),
    "per_row_split": _per_row(0, 0),
    "per_row_prefill": _per_row(ALWAYS_LONGER),
    "per_row_prefill_radix": _per_row(0),
}

# Likewise, where the blocks of a cluster fill the buffer.
CLUSTER_KERNELS: dict[str, Kernel] = {
    "register": _cooperative(),
    "cluster_recovery": _cooperative(
        RESCAN_DIGITS=rescans.WIDE,
        OFFSET_DIGITS=recovery.DIGITS,
        OFFSET_BITS=recovery.OFFSET_BITS,
        BELOW_BIN=recovery.BELOW_BIN,
        SNIFF=recovery.SNIFF,
    ),
    **{name: _v2(name, "v2_cluster.cu") for name in sglang_v2.RULES if name != "v2_0.5.23"},
}


def kernel_of(path: Path, variant: str) -> Kernel | None:
    """What runs a variant of a path; ``None`` if the workbench has no kernel for it yet.

    Raises:
        UsageError: the path has no such variant.
    """
    chosen = get_variant(path, variant)
    if not chosen.modelled:
        return None
    kernels = KERNELS if ranks_of(path, variant) is None else CLUSTER_KERNELS
    kernel = kernels.get(chosen.model or path.family)
    return kernel if kernel is not None and any(map(kernel.takes, path.dtypes)) else None


def build_options(
    path: Path, variant: str, *, telemetry: bool = True, maps: bool = False, sm_threads: int = H200.sm_threads
) -> tuple[str, ...]:
    """The options that build the kernel of a variant, ``-DWORKBENCH_NAME=value`` each, by name.

    Args:
        path: its record, as it is or scaled down. telemetry: whether the build tells of its inside.
        maps: whether it can return something else than positions, which takes registers. sm_threads: that a
            multiprocessor has at once.

    Raises:
        UsageError: the path has no such variant, or the variant no kernel.
    """
    kernel = _kernel(path, variant)
    ranks, path = ranks_of(path, variant), path.as_variant(get_variant(path, variant))
    walk = walk_of(path)
    called: dict[str, Value] = {
        "THREADS": walk.threads,
        "RESIDENT": _resident(path, kernel, walk.threads, sm_threads) if not telemetry and not maps else 1,
        "TELEMETRY": int(telemetry),
        "MAPS": int(maps),
        "MOST_PASSES": MOST_PASSES,
        "REPORT_INTS": report_ints(0 if ranks is None else ranks.count),
        "RANKS": 0 if ranks is None else ranks.count,
        "RESIDUES": RESIDUES,
    }
    if kernel.dtype is None:
        return defined({**called, **kernel.options})
    values: dict[str, Value] = {
        **called,
        "LOAD": walk.load,
        "ITEMS": _items(path, walk.threads),
        "KEY_BITS": kernel.key_bits or path.key_bits or BYTES[0],
        "EXACT_BINS": int(kernel.exact_bins),
        "DIGITS": path.digits,
        "RANKED_TIES": path.ranked_ties,
        **_buffer(path, kernel),
        **_ranks(path, ranks),
        **kernel.options,
    }
    return defined(values)


def grid_of(path: Path, variant: str, shape: Shape) -> Grid:
    """The blocks of a launch; UsageError if the variant has no kernel."""
    kernel, ranks = _kernel(path, variant), ranks_of(path, variant)
    if ranks is None:
        return kernel.grid(shape)
    buffer = path.as_variant(get_variant(path, variant)).buffer
    assert buffer is not None
    return Grid(ranks.count, cells=2 * buffer.slots(shape.k) if kernel.hands_on else 0)  # an index and a key each


def ranks_of(path: Path, variant: str) -> Ranks | None:
    """The blocks of the cluster that shares a row; ``None`` where blocks form none."""
    buffer = path.as_variant(get_variant(path, variant)).buffer
    return None if buffer is None else buffer.ranks


def report_ints_of(path: Path, variant: str) -> int:
    """How long the report of one row is."""
    ranks = ranks_of(path, variant)
    return report_ints(0 if ranks is None else ranks.count)


def source_of(path: Path, variant: str) -> str:
    """The name of the file in ``kernels/`` that runs a variant; UsageError if there is none."""
    return _kernel(path, variant).file


def telemetry_of(path: Path, variant: str, k: int) -> Telemetry:
    """What the reports of a kernel begin with: bits of its bins and slots of its buffer."""
    kernel, path = _kernel(path, variant), path.as_variant(get_variant(path, variant))
    if path.buffer is None or not kernel.buffers:
        return Telemetry(key_bits=kernel.key_bits or path.key_bits)
    capacity = kernel.buffer_times * path.buffer.slots(k)
    return Telemetry(key_bits=kernel.key_bits or path.key_bits, capacity=capacity)


def unbinned_of(path: Path, variant: str, k: int) -> Telemetry:
    """What a report without bins begins with: slots of the buffer, if the row can go through it all the same."""
    kernel, path = _kernel(path, variant), path.as_variant(get_variant(path, variant))
    return Telemetry(capacity=path.buffer.slots(k)) if kernel.unbinned and path.buffer is not None else Telemetry()


def _kernel(path: Path, variant: str) -> Kernel:
    kernel = kernel_of(path, variant)
    if kernel is None:
        raise UsageError(without_kernel(path, variant))
    return kernel


def without_kernel(path: Path, variant: str) -> str:
    """In words, that a variant has no kernel, and why."""
    chosen: Variant = get_variant(path, variant)
    why = "" if chosen.modelled else ": what it does inside is not established"
    return f"{path.name} {variant} has no CUDA kernel{why}"


def _items(path: Path, threads: int) -> int:
    """Scores of the row that a thread keeps in registers: 0 where the path reads the row again."""
    if path.row_passes != 1 or not isinstance(path.up_to, int):
        return 0
    return -(-path.up_to // threads)


def _resident(path: Path, kernel: Kernel, threads: int, sm_threads: int) -> int:
    """Blocks of a multiprocessor that registers are kept for."""
    slots = path.buffer.slots(_most_k(path)) if path.buffer is not None and kernel.buffers else 0
    several = _items(path, threads) == 0 and slots <= RESIDENT_SLOTS and sm_threads >= kernel.resident * threads
    return kernel.resident if several else 1


def _buffer(path: Path, kernel: Kernel) -> dict[str, Value]:
    """The buffer's size (0 where it follows k), the least and the most that it then is, and how it is filled."""
    buffer = path.buffer if path.buffer is not None and kernel.buffers else Buffer(1)
    most_k = _most_k(path)
    fixed = buffer.capacity if isinstance(buffer.capacity, int) else 0
    return {
        "CAPACITY": fixed,
        "CAPACITY_LEAST": 0 if fixed else buffer.slots(0),
        "CAPACITY_MOST": max(kernel.buffer_times * buffer.slots(most_k), most_k if kernel.holds_k else 1),
        "WHOLE_BIN": int(buffer.whole_bin),
        "LEAVES_UNWRITTEN": int(buffer.leaves_unwritten),
    }


def _most_k(path: Path) -> int:
    return max(path.ks) if path.ks is not None else path.k_up_to or MOST_K


def _ranks(path: Path, ranks: Ranks | None) -> dict[str, Value]:
    """How the blocks of a cluster share the row and its buffer."""
    if ranks is None:
        return {}
    return {
        "RANK_CAPACITY": ranks.capacity,
        "RANK_UNIT": ranks.unit,
        "LAYOUT": ranks.layout,
        "MOST_K": _most_k(path),
    }


def defined(values: Mapping[str, Value]) -> tuple[str, ...]:
    """Numbers as build options, by name."""
    return tuple(f"-DWORKBENCH_{name}={_spelled(values[name])}" for name in sorted(values))


def _spelled(value: Value) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
