"""The steps of a path say what its model does: its bins, its digits, its buffer, and where a variant loses."""

from __future__ import annotations

import pytest
import torch

from workbench.paths.arrival import Arrival
from workbench.paths.catalog import PATHS, get_path
from workbench.paths.model import run_model
from workbench.paths.spec import Path, Variant
from workbench.paths.steps import binade_words, key_of, loss_sentence, steps_of

EVERY = [(path, variant) for path in PATHS for variant in path.variants]
NAMES = [f"{path.name}-{variant.name}" for path, variant in EVERY]
K = 512


def row_for(path: Path, variant: Variant, k: int) -> torch.Tensor:
    """A row that the path takes, of scores in many bins."""
    own = path.as_variant(variant)
    longer = own.longer_than if isinstance(own.longer_than, int) else k
    length = longer + 900
    dtype = getattr(torch, own.dtypes[0])
    return torch.randn(length, generator=torch.Generator().manual_seed(5)).to(dtype)


@pytest.mark.parametrize(("path", "variant"), EVERY, ids=NAMES)
def test_the_loss_is_marked_once_where_a_variant_can_lose_and_nowhere_else(path: Path, variant: Variant) -> None:
    steps = steps_of(path, variant)
    if not steps:
        assert not variant.modelled
        assert not variant.model
        assert "not established" in loss_sentence(path, variant)
        return
    assert (steps[0].kind, steps[-1].kind) == ("row", "out")
    assert sum(one.loses for one in steps) == (not variant.lossless)
    said = loss_sentence(path, variant)
    assert ("keeps every winner" in said) == variant.lossless
    assert path.name in said
    buffers = [one for one in steps if one.kind == "buffer"]
    buffer = path.as_variant(variant).buffer
    for one in buffers:
        assert buffer is not None
        assert one.capacity == buffer.capacity
        assert one.parts == (1 if buffer.ranks is None else buffer.ranks.count)


MODELLED = [(path, variant) for path, variant in EVERY if variant.modelled and path.family != "identity"]


@pytest.mark.parametrize(
    ("path", "variant"), MODELLED, ids=[f"{path.name}-{variant.name}" for path, variant in MODELLED]
)
def test_bins_and_digits_are_those_of_the_model(path: Path, variant: Variant) -> None:
    """Held against what the model tells of a run."""
    key, steps = key_of(path, variant), steps_of(path, variant)
    k = K if path.ks is None or K in path.ks else path.ks[0]
    made = run_model(path, row_for(path, variant, k), k, Arrival(), variant.name)
    told = made.telemetry
    if any(one.kind == "key" for one in steps):
        assert key is not None
        assert told.key_bits == key.bits
        return
    passes = [one.bits for one in told.passes]
    digits = [bits for one in steps if one.kind in ("prefix", "digits") for bits in one.bits]
    if key is not None:
        assert passes
        assert key.bits == passes[0]
        if not any(one.kind == "prefix" for one in steps):  # which ends early, once the rest fits
            assert passes == digits[: len(passes)]
    else:
        assert any(one.kind in ("sample", "stream") for one in steps)


def test_what_does_not_fit_is_drawn_dropped_only_where_it_is() -> None:
    path = get_path("vllm.histogram_256")
    (stock,) = [one for one in steps_of(path, path.variant("stock")) if one.loses]
    assert (stock.kind, stock.drops, stock.overflow) == ("buffer", True, "")
    (repaired,) = [one for one in steps_of(path, path.variant("detect_rescan")) if one.kind == "buffer"]
    assert not repaired.drops
    assert "four 8-bit passes" in repaired.overflow
    sorted_ = get_path("vllm.per_row")
    (lossy,) = [one for one in steps_of(sorted_, sorted_.variant("decode_radix")) if one.loses]
    assert (lossy.kind, lossy.drops) == ("buffer", False)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("vllm.histogram_256", "1/4 of a binade each"),
        ("sglang.v2_register", "1/64 of a binade each"),
        ("vllm.radix", "2 binades each"),
    ],
)
def test_bins_are_told_in_binades(path: str, said: str) -> None:
    key = key_of(get_path(path), get_path(path).variant("stock"))
    assert key is not None
    assert binade_words(key) == said
