import torch
from fake_selector import select, write


def through(pages, page_size, found):
    taken = pages.gather(1, (found // page_size).clamp(0).long()) * page_size + found % page_size
    return torch.where(found < 0, found, taken)


def topk_transform_paged(scores, seq_lens, page_tables, out_page_indices, page_size, out_raw_indices=None):
    assert scores.dtype == torch.float32
    assert page_tables.shape == (scores.shape[0], -(-scores.shape[1] // page_size))
    assert out_page_indices.shape[1] <= 1024
    found = select(scores, seq_lens, out_page_indices.shape[1])
    write(out_page_indices, through(page_tables, page_size, found))


def plan_topk_v2(seq_lens, static_threshold=-1):
    plan = torch.cat([seq_lens, torch.tensor([static_threshold])])
    return torch.stack([plan, plan], 1).to(torch.int32)


def topk_transform_paged_v2(scores, seq_lens, page_tables, out_page_indices, page_size, metadata, out_raw=None):
    assert scores.stride(0) % 4 == 0
    assert torch.equal(metadata[:-1, 0], seq_lens), "the plan is of these lengths"
    assert int(metadata[-1, 0]) in (-1, 65536)
    found = select(scores, seq_lens, out_page_indices.shape[1])
    metadata.zero_()
    write(out_page_indices, through(page_tables, page_size, found))


def topk_transform_ragged_v2(scores, seq_lens, *, out_offsets, out_indices, row_starts=None):
    assert scores.stride(0) % 4 == 0
    found = select(scores, seq_lens, out_indices.shape[1], row_starts)
    for at, start in enumerate([] if row_starts is None else row_starts.tolist()):
        scores[at, start - start % 4 : start + 1] = torch.nan  # one more than the op does, so that a test sees it
    write(out_indices, torch.where(found < 0, found, found + out_offsets[:, None]))


def topk_transform_bf16_small(scores, seq_lens, page_table, out_page_indices, page_size):
    assert scores.dtype == torch.bfloat16
    assert scores.stride(0) % 8 == 0
    assert scores.shape[1] <= 16384
    write(out_page_indices, through(page_table, page_size, select(scores, seq_lens, out_page_indices.shape[1])))
