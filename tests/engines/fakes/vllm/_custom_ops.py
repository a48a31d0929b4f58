import torch
from fake_selector import register, select, write

WITH_WORKSPACE = "Tensor logits, Tensor lengths, Tensor! output, Tensor workspace, int k, int max_seq_len"


def with_workspace(logits, lengths, output, workspace, k, max_seq_len):
    assert k in (512, 1024, 2048)
    assert output.shape == (logits.shape[0], k)
    assert workspace.dtype == torch.uint8
    assert workspace.numel() >= 1 << 20
    assert not bool(workspace.any()), "the workspace is zeroed before each call"
    workspace.fill_(7)
    write(output, select(logits, lengths, k))


def decode(logits, next_n, seq_lens, indices, num_rows, stride0, stride1, top_k):
    assert (next_n, num_rows) == (1, logits.shape[0])
    assert (stride0, stride1) == logits.stride()
    write(indices, select(logits, seq_lens, top_k))


def prefill(logits, row_starts, row_ends, indices, num_rows, stride0, stride1, top_k):
    assert num_rows == logits.shape[0]
    assert (stride0, stride1) == logits.stride()
    write(indices, select(logits, row_ends - row_starts, top_k, row_starts))


LIBRARY = register(
    "_C",
    ("persistent_topk", WITH_WORKSPACE, with_workspace),
    ("cooperative_topk", WITH_WORKSPACE, with_workspace),
    (
        "top_k_per_row_decode",
        "Tensor logits, int next_n, Tensor seq_lens, Tensor! indices, int numRows, int stride0, int stride1, int topK",
        decode,
    ),
    (
        "top_k_per_row_prefill",
        "Tensor logits, Tensor rowStarts, Tensor rowEnds, Tensor! indices, int numRows, int stride0, int stride1, "
        "int topK",
        prefill,
    ),
)
