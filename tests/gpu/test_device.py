"""Reference, risk and models on the tensor's own device give what they give on the CPU."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from workbench.analysis.diff import value_diff
from workbench.analysis.profile import RowProfile
from workbench.analysis.reference import reference
from workbench.analysis.risk import census
from workbench.analysis.verdict import judge
from workbench.capture.row import Call, Row
from workbench.engines.base import Task
from workbench.engines.model import ModelEngine
from workbench.numeric.keys import half_keys
from workbench.paths.arrival import Arrival
from workbench.paths.blocks import block_amax, two_level
from workbench.paths.catalog import find_paths
from workbench.paths.model import run_model
from workbench.paths.transforms import KPool, PageTable, Ragged, WithoutMinusInf

K = 2048
CALL = Call(width=65536)


def rows() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    normal = torch.randn(40000, generator=generator)
    special = normal.clone()
    special[:5000:7] = 0.0
    special[1:5000:7] = -0.0
    special[10], special[11], special[12], special[13] = math.inf, -math.inf, math.nan, -math.nan
    return {
        "normal": normal,
        "special": special,
        "one bin": 1 + 0.2 * torch.rand(20000, generator=generator),
        "zeros": torch.relu(normal - 3),
        "past fp16": torch.arange(80000, 60000, -1, dtype=torch.float32),
        "nan": torch.full((6000,), math.nan),
        "short": torch.rand(100, generator=generator),
    }


@pytest.mark.parametrize("name", rows())
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_reference(name: str, dtype: torch.dtype) -> None:
    scores = rows()[name].to(dtype)
    row = Row(scores, scores.numel(), call=CALL)
    here = reference(replace(row, scores=scores.cuda()), K).indices
    assert here.is_cuda
    assert torch.equal(here.cpu(), reference(row, K).indices)


@pytest.mark.parametrize("name", rows())
def test_two_levels_and_transforms(name: str) -> None:
    scores = rows()[name]
    here, there = (two_level(one, K, blocks=700) for one in (scores, scores.cuda()))
    for part in ("blocks", "positions", "selected", "lost"):
        assert getattr(there, part).is_cuda
        assert torch.equal(getattr(there, part).cpu(), getattr(here, part))
    assert (there.bound, there.findings) == (here.bound, here.findings)
    keys = block_amax(scores.cuda()).values
    assert torch.equal(keys.cpu().view(torch.int32), block_amax(scores).values.view(torch.int32))
    selection = here.selected.to(torch.int32)
    table = torch.randperm(2000, generator=torch.Generator().manual_seed(5)).to(torch.int32)
    for step in (PageTable(table, 64), Ragged(77), WithoutMinusInf(scores), KPool(4).then(PageTable(table, 256))):
        length = scores.numel()
        mapped = step.apply(selection.cuda(), length)
        assert mapped.is_cuda
        assert torch.equal(mapped.cpu(), step.apply(selection, length))
        assert torch.equal(step.invert(mapped, length).cpu(), step.invert(step.apply(selection, length), length))


@pytest.mark.parametrize("name", rows())
def test_census_models_and_verdicts(name: str) -> None:
    scores = rows()[name]
    there = scores.cuda()
    assert census(RowProfile(there, "float32", K)) == census(RowProfile(scores, "float32", K))
    exact = reference(Row(scores, scores.numel(), call=CALL), K).indices
    engine, row = ModelEngine(), Row(scores, scores.numel(), call=CALL)
    for path, variant in ((one, each.name) for one in find_paths() for each in one.variants):
        arrival = Arrival("random", path.arrival_unit, 5)
        if engine.refusals(Task(row, K, arrival, path, variant)):
            continue
        on_cpu = run_model(path, scores, K, arrival, variant)
        on_gpu = run_model(path, there, K, arrival, variant)
        assert on_gpu.indices.is_cuda
        assert torch.equal(on_gpu.indices.cpu(), on_cpu.indices), (path.name, variant)
        verdict, expected = judge(there, exact.cuda(), on_gpu.indices), judge(scores, exact, on_cpu.indices)
        assert (verdict.kind, verdict.missing) == (expected.kind, expected.missing)
        # As text, since a NaN in an entry equals nothing.
        assert str(value_diff(there, exact.cuda(), verdict)) == str(value_diff(scores, exact, expected))


def test_half_keys_over_all_binades() -> None:
    bits = torch.arange(0, 2**32, 65521, dtype=torch.int64).to(torch.int32)
    scores = bits.view(torch.float32)
    assert torch.equal(half_keys(scores.cuda()).cpu(), half_keys(scores))
