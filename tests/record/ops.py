"""The selector ops of serving engines, with their real schemas and implementations for the CPU, in torch's dispatcher.

Each is exact, but that a row whose scores are all above 1000 loses its best.
"""

from __future__ import annotations

import torch
from torch.library import Library

SCHEMAS = {
    "_C": (
        "persistent_topk(Tensor logits, Tensor lengths, Tensor! output, Tensor workspace, int k, int max_seq_len) "
        "-> ()",
        "cooperative_topk(Tensor logits, Tensor lengths, Tensor! output, Tensor workspace, int k, int max_seq_len) "
        "-> ()",
        "top_k_per_row_prefill(Tensor logits, Tensor rowStarts, Tensor rowEnds, Tensor! indices, int numRows, "
        "int stride0, int stride1, int topK) -> ()",
        "top_k_per_row_decode(Tensor logits, int next_n, Tensor seq_lens, Tensor! indices, int numRows, int stride0, "
        "int stride1, int topK) -> ()",
    ),
    "deep_select": (
        "topk(Tensor input, int topk, Tensor? begin, Tensor? end, bool sorted_value, bool sorted_index, "
        "Tensor!? output_value, Tensor(b!)? output_idx, Tensor? output_idx_offset, int idx_oob_fill_value, "
        "float value_oob_fill_value, bool return_value, bool abort_when_nan_found) -> ()",
    ),
    "sgl_kernel": (
        "fast_topk(Tensor score, Tensor indices, Tensor lengths, Tensor? row_starts) -> ()",
        "fast_topk_transform_fused(Tensor score, Tensor lengths, Tensor dst_page_table, Tensor src_page_table, "
        "Tensor cu_seqlens_q, Tensor? row_starts) -> ()",
        "fast_topk_transform_ragged_fused(Tensor score, Tensor lengths, Tensor topk_indices_ragged, "
        "Tensor topk_indices_offset, Tensor? row_starts) -> ()",
    ),
}
WORKSPACE = torch.empty(16, dtype=torch.uint8)
_libraries: list[Library] = []


def select(row: torch.Tensor, k: int) -> torch.Tensor:
    """int32 [k]; the best is missing where every score is above 1000."""
    row = row.float()
    out = torch.full((k,), -1, dtype=torch.int32)
    if row.numel() <= k:
        out[: row.numel()] = torch.arange(row.numel())
    elif bool((row > 1000).all()):
        out[:] = row.topk(k + 1).indices[1:]
    else:
        out[:] = row.topk(k).indices
    return out


def _batch(logits, lengths, output, workspace, k, max_seq_len):
    if k == 13:
        raise IndexError("k is 13")
    for row, length in enumerate(lengths.flatten().tolist()):
        output[row] = select(logits[row, : max(length, 0)], k)


def _prefill(logits, starts, ends, indices, rows, stride0, stride1, k):
    for row in range(rows):
        indices[row] = select(logits[row, int(starts[row]) : int(ends[row])], k)


def _decode(logits, next_n, seq_lens, indices, rows, stride0, stride1, k):
    for row in range(rows):
        length = int(seq_lens.flatten()[row // next_n]) - next_n + row % next_n + 1
        indices[row] = select(logits[row, :length], k)


def _window(score, lengths, starts, row):
    start = 0 if starts is None else int(starts[row])
    return score[row, start : start + int(lengths[row])]


def _fast(score, indices, lengths, starts):
    for row in range(score.shape[0]):
        indices[row] = select(_window(score, lengths, starts, row), indices.shape[1])


def _fused(score, lengths, out, table, bounds, starts):
    for row in range(score.shape[0]):
        chosen = select(_window(score, lengths, starts, row), out.shape[1])
        owner = row if table.shape[0] == score.shape[0] else int(torch.searchsorted(bounds, row, right=True)) - 1
        out[row] = torch.where(chosen >= 0, table[owner][chosen.clamp(min=0).long()], -1)


def _ragged(score, lengths, out, offsets, starts):
    for row in range(score.shape[0]):
        chosen = select(_window(score, lengths, starts, row), out.shape[1])
        out[row] = torch.where(chosen >= 0, chosen + offsets[row], -1)


def _deep(scores, k, begin, end, sort, by_index, values, out, offset, fill, value_fill, return_value, abort):
    for row in range(scores.shape[0]):
        chosen = select(scores[row] if end is None else scores[row, : int(end[row])], k)
        out[row, :k] = torch.where(chosen >= 0, chosen + (0 if offset is None else offset[row]), fill)


def pooled(scores, lengths, out, size, seq_lens=None, table=None, page_size=1, offsets=None, starts=None):
    """The tokens of selected pools, and those of the pool that is still open, as SGLang's k-pool functions do."""
    k = (out.shape[1] - (0 if seq_lens is None else size - 1)) // size
    for row, length in enumerate(lengths.tolist()):
        pools = select(_window(scores, lengths, starts, row), k)[: max(min(length, k), 0)]
        tokens = (pools[:, None] * size + torch.arange(size)).flatten()
        open_pool = 0 if seq_lens is None else int(seq_lens[row]) % size
        tokens = torch.cat([tokens, torch.arange(length * size, length * size + open_pool)])
        if table is not None:
            tokens = table[row][tokens // page_size] * page_size + tokens % page_size
        out[row] = -1
        out[row, : tokens.numel()] = tokens + (0 if offsets is None else offsets[row])


KERNELS = {
    "topk": _deep,
    "persistent_topk": _batch,
    "cooperative_topk": _batch,
    "top_k_per_row_prefill": _prefill,
    "top_k_per_row_decode": _decode,
    "fast_topk": _fast,
    "fast_topk_transform_fused": _fused,
    "fast_topk_transform_ragged_fused": _ragged,
}


def register(*namespaces: str) -> None:
    """Register the ops of these namespaces, all by default; those that are there already stay."""
    for namespace in namespaces or SCHEMAS:
        for schema in SCHEMAS[namespace]:
            name = schema.partition("(")[0]
            if hasattr(getattr(torch.ops, namespace), name):
                continue
            library = Library(namespace, "FRAGMENT")
            library.define(schema)
            library.impl(name, KERNELS[name], "CPU")
            _libraries.append(library)


def register_lossy(name: str, device: str = "CUDA") -> Library:
    """Implement an op of a batch for a device: exact, but that rows whose scores are all above 1000 lose their best.

    Whoever keeps what is returned destroys it in the end.
    """

    def kernel(logits, lengths, output, workspace, k, max_seq_len):
        best = logits.topk(k + 1).indices
        spoiled = (logits > 1000).all(1, keepdim=True)
        output.copy_(torch.where(spoiled, best[:, 1:], best[:, :k]))

    register()
    library = Library("_C", "IMPL")
    library.impl(name, kernel, device)
    return library


def persistent(scores: torch.Tensor, lengths: list[int], k: int, op: str = "persistent_topk") -> torch.Tensor:
    """Call ``torch.ops._C.persistent_topk`` or its twin; its output."""
    output = torch.full((scores.shape[0], k), -7, dtype=torch.int32)
    given = torch.tensor(lengths, dtype=torch.int32)
    getattr(torch.ops._C, op)(scores, given, output, WORKSPACE, k, scores.shape[1])
    return output


def matrix(rows: int, width: int, seed: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normal scores that no other seed repeats."""
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)).to(dtype)


def bits(tensor: torch.Tensor) -> bytes:
    """The bytes of a tensor."""
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()
