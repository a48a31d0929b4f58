import torch
from fake_selector import select


def top_k_ragged_transform(
    input,  # noqa: A002
    offsets,
    lengths,
    k,
    deterministic=False,
):
    assert input.is_contiguous()
    found = select(input, lengths, k)
    out = torch.empty(input.shape[0], k, dtype=torch.int32, device=input.device)
    return out.copy_(torch.where(found < 0, found, found + offsets[:, None]))
