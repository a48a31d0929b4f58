import torch
from fake_selector import select


def fast_topk(score, lengths, topk, row_starts=None):
    assert topk in (512, 2048)
    indices = score.new_empty((score.shape[0], topk), dtype=torch.int32)
    indices.copy_(select(score, lengths, topk, row_starts))
    return indices
