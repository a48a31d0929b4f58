"""Models of a row that lies on a device select what they select of it on the CPU, by keys of their own or shared."""

from __future__ import annotations

import pytest

from tests.kernels.screened import batches
from workbench.errors import WorkbenchError
from workbench.numeric.rowkeys import RowKeys
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import find_paths
from workbench.paths.model import run_model

ROWS = [(name, at) for name, batch in batches().items() for at in range(len(batch.scores)) if batch.valid(at).numel()]


@pytest.mark.parametrize(("name", "at"), ROWS)
def test_a_row_on_the_device(name: str, at: int) -> None:
    batch = batches()[name]
    here = batch.valid(at).contiguous()
    there = here.cuda()
    shared = RowKeys(here), RowKeys(there)
    wrong = []
    for path in find_paths():
        for variant in path.variants:
            one = path.as_variant(variant)
            if not variant.modelled or one.unmet(k=batch.k, length=here.numel(), dtype="float32"):
                continue
            for kind in ("index", "reverse"):
                found = []
                for scores, row in zip((here, there), shared, strict=True):
                    try:
                        made = run_model(path, scores, batch.k, Arrival(kind), variant.name, row=row)
                        found.append((made.indices.tolist(), made.telemetry.cost))
                    except (RuntimeError, WorkbenchError) as error:
                        found.append((str(error), None))
                if found[0] != found[1]:
                    wrong.append(f"{path.name} {variant.name} {kind}: {str(found)[:200]}")
    assert not wrong, "\n".join(wrong)
