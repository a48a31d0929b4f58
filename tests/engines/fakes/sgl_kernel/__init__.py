import torch
from fake_selector import register, select, write

K = 2048


def fast_topk(score, indices, lengths, row_starts):
    write(indices, select(score, lengths, K, row_starts))


def fused(score, lengths, dst_page_table, src_page_table, cu_seqlens_q, row_starts):
    rows, ends = score.shape[0], cu_seqlens_q.tolist()
    tables = src_page_table.shape[0]
    assert len(ends) == tables + 1
    assert ends[-1] == rows
    decodes = tables == rows  # older releases read no starts then
    found = select(score, lengths, K, None if decodes else row_starts)
    table_of = [next(at for at in range(tables) if ends[at] <= row < ends[at + 1]) for row in range(rows)]
    mapped = src_page_table[table_of].gather(1, found.clamp(0).long())
    write(dst_page_table, torch.where(found < 0, found, mapped))


def ragged_fused(score, lengths, topk_indices_ragged, topk_indices_offset, row_starts):
    found = select(score, lengths, K, row_starts)
    write(topk_indices_ragged, torch.where(found < 0, found, found + topk_indices_offset[:, None]))


LIBRARY = register(
    "sgl_kernel",
    ("fast_topk", "Tensor score, Tensor indices, Tensor lengths, Tensor? row_starts", fast_topk),
    (
        "fast_topk_transform_fused",
        "Tensor score, Tensor lengths, Tensor dst_page_table, Tensor src_page_table, Tensor cu_seqlens_q, "
        "Tensor? row_starts",
        fused,
    ),
    (
        "fast_topk_transform_ragged_fused",
        "Tensor score, Tensor lengths, Tensor topk_indices_ragged, Tensor topk_indices_offset, Tensor ? row_starts",
        ragged_fused,
    ),
)
