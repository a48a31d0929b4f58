"""Models of one row share its keys: what one leaves behind changes nothing for the next."""

import pytest
import torch

from workbench.capture import Call, Row
from workbench.engines.base import Task
from workbench.engines.model import ModelEngine
from workbench.numeric.rowkeys import RowKeys
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import find_paths
from workbench.paths.model import run_model
from workbench.paths.selection import Selection

LENGTH, K = 9000, 512
NAN = torch.tensor([torch.nan, -torch.nan]).abs() * torch.tensor([1.0, -1.0])


def rows() -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(3)
    normal = torch.randn(LENGTH, generator=random)
    where, other = torch.rand(2, LENGTH, generator=random)
    crowd = torch.where(where < 0.5, 3 + other * 0.003, normal)
    return {
        "normal": normal,
        "crowd": crowd,
        "ties": (normal * 2).round(),
        "zeros": torch.where(where < 0.02, normal.abs(), torch.where(other < 0.5, 0.0, -0.0)),
        "denormal": normal * 1e-41,
        "infinities": torch.where(where < 0.3, torch.where(other < 0.5, torch.inf, -torch.inf), normal),
        "half NaN": torch.where(where < 0.5, NAN[(other < 0.5).long()], normal),
        "few NaN": torch.where(where < 0.02, NAN[(other < 0.5).long()], crowd),
        "bfloat16": crowd.bfloat16(),
        "float16, NaN": torch.where(where < 0.5, torch.nan, normal).half(),
    }


def told(made: Selection) -> list[object]:
    """All that a selection holds, in a form that can be compared."""
    inside = made.telemetry
    assert inside is not None
    fields = {name: one.tolist() if isinstance(one, torch.Tensor) else one for name, one in vars(inside).items()}
    return [made.indices.tolist(), fields]


@pytest.mark.parametrize("name", rows())
def test_models_that_share_keys_return_what_each_returns_alone(name: str) -> None:
    scores = rows()[name]
    shared, before = RowKeys(scores), scores.clone()
    row, engine, ran = Row(scores, LENGTH, call=Call(k=K, rows=64, width=LENGTH)), ModelEngine(), 0
    for kind in ("random", "reverse"):
        for path in find_paths():
            for variant in path.variants:
                arrival = Arrival(kind, path.arrival_unit, 5)
                if engine.refusals(Task(row, K, arrival, path, variant.name)):
                    continue
                alone = run_model(path, scores, K, arrival, variant.name)
                assert told(run_model(path, scores, K, arrival, variant.name, row=shared)) == told(alone), variant.name
                ran += 1
    assert ran > 9
    assert torch.equal(scores.view(torch.uint8), before.view(torch.uint8))
