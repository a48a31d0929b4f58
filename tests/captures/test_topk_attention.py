"""The adapter that limits attention to the selected keys, without a model."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

MAKE = Path(__file__).resolve().parents[2] / "captures" / "make"
LENGTH, HEADS, KEY_HEADS, SIZE, LAYER = 40, 6, 2, 8, 5


@pytest.fixture(scope="module")
def adapter() -> ModuleType:
    spec = importlib.util.spec_from_file_location("captures_make_topk_attention", MAKE / "topk_attention.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def states() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One query, and the keys and values that it may see."""
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(1, HEADS, 1, SIZE, generator=generator)
    key, value = (torch.randn(1, KEY_HEADS, LENGTH, SIZE, generator=generator) for _ in range(2))
    return query, key, value


def attend(
    adapter: ModuleType, states: tuple[torch.Tensor, ...], indices: list[int], told: list[object]
) -> torch.Tensor:
    attention = adapter.TopKAttention(
        lambda scores, layer: torch.tensor(indices),
        lambda scores, layer: scores + layer,
        lambda scores, chosen, layer: told.append((scores, chosen, layer)),
    )
    out, _ = attention(SimpleNamespace(layer_idx=LAYER), *states, None, scaling=SIZE**-0.5)
    return out


def test_scores_are_sums_over_heads_of_what_is_positive(adapter: ModuleType, states: tuple[torch.Tensor, ...]) -> None:
    query, key, _ = states
    wanted = [
        sum(max(0.0, float(query[0, head, 0] @ key[0, head // 3, at]) / SIZE**0.5) for head in range(HEADS))
        for at in range(LENGTH)
    ]
    found = adapter.indexer_scores(adapter.grouped(query[0, :, 0], key[0]), key[0])
    torch.testing.assert_close(found, torch.tensor(wanted))


@pytest.mark.parametrize("indices", [list(range(LENGTH)), [3, 1, 7], [39]])
def test_attention_sees_the_selected_keys_alone(
    adapter: ModuleType, states: tuple[torch.Tensor, ...], indices: list[int]
) -> None:
    query, key, value = states
    mask = torch.zeros(LENGTH, dtype=torch.bool)
    mask[indices] = True
    wide = [part.repeat_interleave(HEADS // KEY_HEADS, 1) for part in (key, value)]
    wanted = torch.nn.functional.scaled_dot_product_attention(query, *wide, attn_mask=mask[None])
    found = attend(adapter, states, indices, [])
    torch.testing.assert_close(found, wanted.transpose(1, 2))


def test_the_order_of_a_selection_changes_no_bit_and_is_recorded_ascending(
    adapter: ModuleType, states: tuple[torch.Tensor, ...]
) -> None:
    told: list[tuple[torch.Tensor, torch.Tensor, int]] = []
    out = [attend(adapter, states, indices, told) for indices in ([9, 4, 30, 2], [2, 30, 4, 9])]
    assert torch.equal(*out)
    for scores, chosen, layer in told:
        assert chosen.tolist() == [2, 4, 9, 30]
        assert chosen.dtype == torch.int32
        assert layer == LAYER
        assert float(scores.min()) >= LAYER  # the changed scores are those that are recorded


@pytest.mark.parametrize("indices", [[-1, 2], [LENGTH, 2]])
def test_an_index_outside_the_row_is_refused(
    adapter: ModuleType, states: tuple[torch.Tensor, ...], indices: list[int]
) -> None:
    with pytest.raises(RuntimeError, match="layer 5: a selected index is outside the row"):
        attend(adapter, states, indices, [])
