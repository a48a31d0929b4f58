"""A pool of one process a GPU: each sees its own device and no other."""

from __future__ import annotations

import torch

from tests.audit.executors.tasks import Devices
from workbench.audit.executors.front import make_executor


def test_each_worker_has_a_gpu_of_its_own() -> None:
    mine = [str(torch.cuda.get_device_properties(at).uuid) for at in range(torch.cuda.device_count())]
    with make_executor("processes", gpus=True) as executor:
        assert executor.workers == len(mine)
        results = dict(executor.run(Devices(), range(20 * len(mine))))
    assert {found[0] for found, _ in results.values()} == set(mine)
    assert all(len(found) == 1 for found, _ in results.values())
    assert {unit: total for unit, (_, total) in results.items()} == {unit: 1000.0 * unit for unit in results}
    with make_executor("processes", len(mine) + 1, gpus=True) as executor:  # two share the first
        assert len(dict(executor.run(Devices(), range(4)))) == 4
