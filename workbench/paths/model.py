"""Run the model of a path."""

from __future__ import annotations

from dataclasses import replace

import torch

from workbench.errors import UsageError
from workbench.numeric.keys import value_keys
from workbench.numeric.rowkeys import RowKeys
from workbench.paths.arrival import Arrival
from workbench.paths.models import (
    baselines,
    bf16,
    buffered,
    ordered,
    per_row,
    plain,
    prefixes,
    recovery,
    rescans,
    sampled,
    sglang_repairs,
    sglang_v2,
    streaming,
)
from workbench.paths.models.tape import Model, Tape
from workbench.paths.selection import UNWRITTEN, Selection
from workbench.paths.spec import OutputOrdering, Path

# By family, and by the name that a variant gives.
MODELS: dict[str, Model] = {
    "identity": plain.identity,
    "radix": plain.radix,
    "stash": buffered.stock,
    "register": buffered.stock,
    "detect_rescan": rescans.detect_rescan,
    "collect_then_rescan": rescans.collect_then_rescan,
    "wide_rescan": rescans.wide_rescan,
    "wide_rescan_sampled": rescans.wide_rescan_sampled,
    "register_recovery": recovery.register_recovery,
    "cluster_recovery": recovery.cluster_recovery,
    "ordered_radix": ordered.ordered_radix,
    "ordered_register": ordered.ordered_register,
    "cutoff_first": sglang_repairs.cutoff_first,
    "filtered_rescan": sglang_repairs.filtered_rescan,
    "resume_index": sglang_repairs.resume_index,
    "unique_key": sglang_repairs.unique_key,
    "kpool_0.5.23": sglang_repairs.unique_key,
    **sglang_v2.MODELS,
    "per_row": per_row.per_row,
    "per_row_prefill": per_row.compared,
    "per_row_prefill_radix": per_row.by_radix,
    "per_row_radix": per_row.by_radix,
    "per_row_split": per_row.split,
    "sampled": sampled.sampled,
    "bf16_exact": bf16.exact,
    "bf16_approximate": bf16.approximate,
    "coop": prefixes.coop,
    "rocm_coop": prefixes.rocm_coop,
    "deep_select": streaming.deep_select,
    "torch_topk": baselines.torch_topk,
    "unguarded": baselines.unguarded,
    "flashinfer_radix": baselines.radix,
    "flashinfer_radix_by_index": baselines.radix_by_index,
    "flashinfer_filtered": baselines.filtered,
    "flashinfer_filtered_by_index": baselines.filtered_by_index,
}


def run_model(
    path: Path,
    scores: torch.Tensor,
    k: int,
    arrival: Arrival,
    variant: str = "stock",
    *,
    width: int | None = None,
    start: int = 0,
    row: RowKeys | None = None,
) -> Selection:
    """Run one path's model; of a path that promises sorted output the winners come best first.

    Args:
        path: its spec. scores: [length], the valid scores, of a dtype the path takes; length must be at least 1.
        k: winners wanted. arrival: the order in which scores reach the buffer.
        variant: a variant of the path that is modelled. width, start: padded columns of the row (its length where
            not known), and its first valid cell.
        row: the keys of these scores, where several selections share them.

    Raises:
        UsageError: the path or the variant has no model.
    """
    chosen = path.variant(variant)
    model = MODELS.get(chosen.model or path.family)
    if model is None or not chosen.modelled:
        raise UsageError(f"{path.name} {variant} has no model yet")
    contract = chosen.contract or path.contract
    tape = Tape(scores, arrival, width, start, row)
    made = model(path.as_variant(chosen), tape, k)
    if contract.output_ordering is not OutputOrdering.UNSORTED:
        best_first = value_keys(scores[made.indices]).sort(descending=True, stable=True).indices
        made = replace(made, indices=made.indices[best_first])
    out = torch.full((k,), -1, dtype=torch.int32, device=scores.device)
    out[: made.indices.numel()] = made.indices.to(torch.int32)
    out[made.indices.numel() : made.indices.numel() + made.unwritten] = UNWRITTEN
    return Selection(out, replace(made.telemetry, cost=tape.cost))
