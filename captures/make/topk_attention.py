"""Attention of a transformers model that sees k keys only while it decodes, chosen anew in each layer and step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

OfLayer = Callable[["torch.Tensor", int], "torch.Tensor"]
Record = Callable[["torch.Tensor", "torch.Tensor", int], None]
NAME = "topk"


class TopKAttention:
    """An attention function for ``AttentionInterface``: one query at a time is limited, many at once see all keys.

    The heads of a layer share one selection. It is put in ascending order before it is used, so that the order in
    which a selector returns its winners cannot change a sum: what the model then sees is the set alone.

    Args:
        select: from the scores [length] float32 of a layer and the layer's number, the indices of the keys to see.
        change: from the same, the scores that are given to ``select``.
        record: told of each selection: the scores, the ascending indices int32 [k], and the layer.
    """

    def __init__(self, select: OfLayer, change: OfLayer, record: Record) -> None:
        self._select, self._change, self._record = select, change, record

    def __call__(
        self, module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, **options: Any
    ) -> tuple[torch.Tensor, None]:
        """``query`` [1, heads, tokens, size], ``key`` and ``value`` [1, key heads, length, size], after rotation."""
        import torch

        if query.shape[2] > 1:
            from transformers.integrations.sdpa_attention import sdpa_attention_forward

            return sdpa_attention_forward(module, query, key, value, mask, **options)
        layer = module.layer_idx
        heads = grouped(query[0, :, 0], key[0])
        scores = self._change(indexer_scores(heads, key[0]), layer)
        chosen = self._select(scores, layer).sort().values.to(torch.int32)
        if int(chosen[0]) < 0 or int(chosen[-1]) >= scores.numel():
            raise RuntimeError(f"layer {layer}: a selected index is outside the row")
        self._record(scores, chosen, layer)
        weights = (heads @ key[0][:, chosen].transpose(1, 2) * options["scaling"]).softmax(-1)
        return (weights @ value[0][:, chosen]).reshape(1, 1, query.shape[1], -1), None


def grouped(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """The query heads [heads, size] by the key head that they share: [key heads, heads of each, size]."""
    return query.reshape(key.shape[0], -1, query.shape[-1])


def indexer_scores(heads: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Sum over all query heads of relu(q.k / sqrt(size)), float32 [length]."""
    return (heads @ key.transpose(1, 2) / math.sqrt(heads.shape[-1])).relu().sum((0, 1))
