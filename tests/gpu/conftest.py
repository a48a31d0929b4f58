"""Tests that need a CUDA device; without one they are skipped with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    reason = "no CUDA device is visible to torch"
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            if not torch.cuda.is_available():
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def own_cache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kernels that this session compiles, those that its tests name all at once; errors are told where one is used."""
    from workbench.engines.cuda.compile import build
    from workbench.engines.cuda.device import limits_of

    given = (item.callspec.params for item in request.session.items if hasattr(item, "callspec"))
    wanted = {(one["path"].name, one["variant"]): one["path"] for one in given if {"path", "variant"} <= one.keys()}
    arch = limits_of(torch.cuda.current_device()).arch
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOPK_WORKBENCH_KERNELS", str(tmp_path_factory.mktemp("kernels")))
        with ThreadPoolExecutor() as pool:
            for (_, variant), path in wanted.items():
                for telemetry in (True, False):
                    pool.submit(build, path, variant, arch, telemetry=telemetry)
        yield
