import torch
from fake_selector import HOW, select


def fast_kpool_topk_transform_fused(
    score, lengths, kpool, topk, page_table=None, topk_indices_offset=None, row_starts=None, seq_lens=None
):
    groups = select(score, lengths, topk // kpool, row_starts)
    tokens = groups[..., None] * kpool + torch.arange(kpool, dtype=torch.int32)
    found = torch.where(groups[..., None] < 0, -1, tokens + topk_indices_offset[:, None, None]).flatten(1)
    if HOW == "own memory":
        return found
    out = score.new_empty((score.shape[0], topk), dtype=torch.int32)
    keep = topk - (6 if HOW == "leaves slots" else 0)
    out[:, :keep] = found[:, :keep]
    if HOW == "breaks groups":
        out[:, 1] = out[:, 5]
    return out
