"""What the records of several systems have in common."""

from __future__ import annotations

from workbench.paths.spec import Contract, Determinism, Evidence, OutputOrdering, Path, TieBreak, Variant

BYTES = (8, 8, 8, 8)

NAN_TOP = "NaN falls into a bin of its own above +inf, whatever its sign"
NAN_SIGNED = "NaN with its sign set ranks below -inf, other NaN above +inf"
NAN_UNKNOWN = "not observed"

STOCK = Variant(
    "stock", False, True, Evidence.OBSERVED, "as released: what does not fit the buffer is dropped silently"
)
STOCK_EXACT = Variant("stock", True, True, Evidence.OBSERVED, "as released: no candidate buffer, nothing is dropped")


def observed_exact(release: str, since: str) -> Variant:
    """The variant of a release that lost nothing on any record, though what it does inside is not established."""
    note = f"{release}{since} lost no winner on any observed row; what it does inside is not established"
    return Variant(f"v{since}", True, False, Evidence.OBSERVED, note)


def exact_inside_unknown(note: str) -> Variant:
    """``stock`` of a path without a model that lost nothing on any record."""
    return Variant("stock", True, False, Evidence.OBSERVED, f"as released: {note}")


def trivial(system: str, source: str, *variants: Variant) -> Path:
    """The path of rows no longer than k, which every op has."""
    return Path(
        name=f"{system}.trivial",
        summary="rows no longer than k: every index in order, then -1",
        family="identity",
        source=source,
        releases="all",
        up_to="k",
        dtypes=("float32", "bfloat16", "float16"),
        contract=Contract(Determinism.GPU_TO_GPU, TieBreak.PREFER_SMALLER_INDEX, OutputOrdering.UNSORTED, "kept"),
        variants=(
            Variant("stock", True, True, Evidence.OBSERVED, "as released: all of the row is returned"),
            *variants,
        ),
    )
