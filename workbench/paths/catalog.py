"""Every path the workbench knows, one record each. Adding a constant or a release is one line here."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

from workbench.errors import UsageError
from workbench.paths.spec import (
    Buffer,
    Contract,
    Determinism,
    Evidence,
    OutputOrdering,
    Path,
    TieBreak,
    Variant,
)

BYTES = (8, 8, 8, 8)
PERSISTENT_KS = (512, 1024, 2048)

# Row lengths at which vLLM's persistent kernel changes path.
HISTOGRAM_2048_UP_TO = 8192
HISTOGRAM_256_UP_TO = 32768
HISTOGRAM_4096_UP_TO = 32768

_NAN_TOP = "NaN falls into a bin of its own above +inf, whatever its sign"
_NAN_SIGNED = "NaN with its sign set ranks below -inf, other NaN above +inf"

STOCK = Variant(
    "stock", False, True, Evidence.OBSERVED, "as released: what does not fit the buffer is dropped silently"
)
STOCK_EXACT = Variant("stock", True, True, Evidence.OBSERVED, "as released: no candidate buffer, nothing is dropped")
V0_33_0 = Variant(
    "v0.33.0",
    True,
    False,
    Evidence.OBSERVED,
    "vllm==0.33.0 lost no winner on any observed row; what it does inside is not established",
)

_VLLM_REPORTS = ("vllm-project/vllm#51782", "vllm-project/vllm#52149", "vllm-project/vllm#55314")

_TRIVIAL = Path(
    name="vllm.trivial",
    summary="rows no longer than k: every index in order, then -1",
    family="identity",
    source="persistent_topk.cuh, length <= k",
    releases="all",
    up_to="k",
    contract=Contract(Determinism.GPU_TO_GPU, TieBreak.PREFER_SMALLER_INDEX, OutputOrdering.UNSORTED, "kept"),
    variants=(replace(STOCK_EXACT, note="as released: all of the row is returned"), V0_33_0),
)

PATHS: tuple[Path, ...] = (
    _TRIVIAL,
    Path(
        name="vllm.histogram_2048",
        summary="one block, 11-bit fp16 bins, then exact bytes over a buffer of 3708 candidates",
        family="stash",
        source="persistent_topk.cuh, histogram_2048_topk",
        releases="vllm 0.20.2 to 0.32.0, at most 32 rows",
        references=_VLLM_REPORTS,
        key_bits=11,
        buffer=Buffer(3708, whole_bin=True),
        digits=BYTES,
        ks=PERSISTENT_KS,
        longer_than="k",
        up_to=HISTOGRAM_2048_UP_TO,
        arrival_unit="warp",
        contract=Contract(nan=_NAN_TOP),
        variants=(STOCK, V0_33_0),
    ),
    Path(
        name="vllm.histogram_256",
        summary="one block, 8-bit fp16 bins, then exact bytes over a buffer of 4096 candidates",
        family="stash",
        source="persistent_topk.cuh, histogram_256_topk",
        releases="vllm 0.20.2 to 0.32.0, at most 32 rows",
        references=_VLLM_REPORTS,
        key_bits=8,
        buffer=Buffer(4096),
        digits=BYTES,
        ks=PERSISTENT_KS,
        longer_than=HISTOGRAM_2048_UP_TO,
        up_to=HISTOGRAM_256_UP_TO,
        contract=Contract(nan=_NAN_TOP),
        variants=(STOCK, V0_33_0),
    ),
    Path(
        name="vllm.histogram_4096",
        summary="one block, row in registers, 12-bit fp16 bins, a tie buffer of k candidates",
        family="register",
        source="topk_histogram_4096.cuh, histogram_4096_topk",
        releases="vllm 0.24.0 to 0.32.0, more than 32 rows",
        references=_VLLM_REPORTS,
        key_bits=12,
        buffer=Buffer("k"),
        digits=BYTES,
        ks=PERSISTENT_KS,
        longer_than="k",
        up_to=HISTOGRAM_4096_UP_TO,
        ranked_ties=32,
        contract=Contract(nan=_NAN_TOP),
        variants=(STOCK, V0_33_0),
    ),
    Path(
        name="vllm.filtered",
        summary="one block a row, 8-bit fp16 bins, then exact bytes over a buffer of 16384 candidates",
        family="stash",
        source="persistent_topk.cuh, FilteredTopK",
        releases="vllm 0.20.2 to 0.23.0 at every length above k, 0.24.0 to 0.32.0 above 32768; more than 32 rows",
        references=_VLLM_REPORTS,
        key_bits=8,
        buffer=Buffer(16384),
        digits=BYTES,
        ks=PERSISTENT_KS,
        longer_than="k",
        contract=Contract(nan=_NAN_TOP),
        variants=(STOCK, V0_33_0),
    ),
    Path(
        name="vllm.radix",
        summary="several blocks a row, exact 8-bit digits, no candidate buffer",
        family="radix",
        source="persistent_topk.cuh, radix_topk",
        releases="vllm from 0.20.2, at most 32 rows",
        references=("vllm-project/vllm#49139", "vllm-project/vllm#51593"),
        digits=BYTES,
        ks=PERSISTENT_KS,
        longer_than=HISTOGRAM_256_UP_TO,
        contract=Contract(nan=_NAN_SIGNED),
        variants=(STOCK_EXACT, V0_33_0),
    ),
    Path(
        name="vllm.sampled",
        summary="a cut-off from 4096 sampled scores, at most 8192 survivors, otherwise an exact pass over the row",
        family="opaque",
        source="sampled_topk.cuh",
        releases="vllm 0.31.0 and 0.32.0, more than 64 rows and a long max_seq_len",
        references=("vllm-project/vllm#56346",),
        ks=PERSISTENT_KS,
        longer_than="k",
        contract=Contract(nan="not observed"),
        variants=(
            Variant("stock", True, False, Evidence.OBSERVED, "as released: counts past its capacity, then falls back"),
            V0_33_0,
        ),
    ),
    Path(
        name="vllm.per_row",
        summary="fp16 then exact digits, re-scanning the row until the final bin fits",
        family="opaque",
        source="sampler.cu, top_k_per_row_decode",
        releases="vllm, all",
        references=("vllm-project/vllm#49896",),
        longer_than="k",
        contract=Contract(nan="counts disagree between passes and slots can stay unwritten (vllm-project/vllm#49896)"),
        variants=(Variant("stock", True, False, Evidence.OBSERVED, "as released: lost no winner on any observed row"),),
    ),
    replace(
        _TRIVIAL,
        name="sglang.trivial",
        source="topk.cu, length <= k",
        variants=(replace(STOCK_EXACT, note="as released: all of the row is returned"),),
    ),
    Path(
        name="sglang.fast_topk",
        summary="one block a row, 8-bit fp16 bins, then exact bytes over a buffer of 4096 candidates",
        family="stash",
        source="sgl-kernel topk.cu, fast_topk",
        releases="sglang-kernel 0.4.2 to 0.4.6",
        references=("sgl-project/sglang#36807", "sgl-project/sglang#37625"),
        key_bits=8,
        buffer=Buffer(4096),
        digits=BYTES,
        ks=(2048,),
        longer_than="k",
        contract=Contract(nan=_NAN_TOP),
        variants=(STOCK,),
    ),
)

_BY_NAME = {path.name: path for path in PATHS}


def find_paths(pattern: str = "*") -> tuple[Path, ...]:
    """The paths whose names match a glob, in catalogue order.

    Raises:
        UsageError: nothing matches; the message lists the names.
    """
    found = tuple(path for path in PATHS if fnmatchcase(path.name, pattern))
    if not found:
        raise UsageError(f"no path matches {pattern!r}; known paths: {', '.join(_BY_NAME)}")
    return found


def get_path(name: str) -> Path:
    """The path of that exact name, or UsageError."""
    if name not in _BY_NAME:
        find_paths(name)  # the same message as for a glob
        raise UsageError(f"{name!r} names more than one path; give one name")
    return _BY_NAME[name]
