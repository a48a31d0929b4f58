"""compute-sanitizer is given every kernel."""

from __future__ import annotations

from pathlib import Path

from tests.gpu.small_cases import SUPPORT_CASES
from tests.kernels.expected import CASES, TRIVIAL
from workbench.engines.cuda.sources import kernel_of
from workbench.engines.cuda.support_sources import SUPPORT

KERNELS = Path(__file__).parents[2] / "kernels"


def test_every_source_has_a_case() -> None:
    beside = [name for names in SUPPORT_CASES for name in names]
    assert sorted(beside) == sorted(SUPPORT)
    selectors = {kernel.file for case in (*CASES, *TRIVIAL) if (kernel := kernel_of(*case)) is not None}
    assert {one.name for one in KERNELS.glob("*.cu")} == selectors | set(beside)
