"""The project's own regression tests: every selector that claims to lose nothing, on rows that break others.

python -m tests.test_fixtures          # writes tests/fixtures anew from the sample captures
"""

from __future__ import annotations

from pathlib import Path

import pytest

import workbench as wb
from workbench.engines.base import Task
from workbench.engines.model import ModelEngine
from workbench.export.fixture import read_fixture, write_fixture
from workbench.export.losing import chosen_path, losing
from workbench.export.writing import make_fixture
from workbench.paths.arrival import Arrival
from workbench.resources import samples_dir
from workbench.runs.case import Case
from workbench.testing import TopkCase, assert_topk

FOLDER = Path(__file__).parent / "fixtures"
# Sample, row, path: each breaks that path.
RECIPES = (
    ("public-vllm-v100", 0, "vllm.histogram_2048"),
    ("public-vllm-b300", 0, "vllm.histogram_256"),
    ("public-vllm-b300", 1, "vllm.filtered"),
    ("public-vllm-b300", 1, "vllm.cooperative_4"),
    ("smollm2-lm-head", 0, "sglang.fast_topk"),
)
EXACT = [(path, variant) for path in wb.paths() for variant in path.variants if variant.lossless and variant.modelled]


def write(folder: Path, sample: str, row: int, path: str) -> Path:
    """The fixture of one recipe."""
    with wb.open(samples_dir() / f"{sample}.safetensors") as capture:
        case = Case(capture[row])
        fixture = make_fixture(losing(case, *chosen_path(case, path, None)))
    target = folder / f"{fixture.name}.safetensors"
    write_fixture(target, fixture, f"captures/{sample}.safetensors, row {row}")
    return target


@pytest.mark.parametrize(("sample", "row", "path"), RECIPES)
def test_fixtures_come_out_byte_for_byte(sample: str, row: int, path: str, tmp_path: Path) -> None:
    made = write(tmp_path, sample, row, path)
    assert made.read_bytes() == (FOLDER / made.name).read_bytes(), "run: python -m tests.test_fixtures"


def test_every_fixture_has_a_recipe() -> None:
    paths = [path for _, _, path in RECIPES]
    assert sorted(read_fixture(file).path for file in FOLDER.glob("*.safetensors")) == sorted(paths)


def test_exact_selectors_lose_nothing(topk_case: TopkCase) -> None:
    row = wb.Row(topk_case.scores, topk_case.length, call=topk_case.call)
    ran = 0
    for path, variant in EXACT:
        for order in (Arrival("index", path.arrival_unit), Arrival("random", path.arrival_unit, 1)):
            task = Task(row, topk_case.k, order, path, variant.name)
            if not ModelEngine().refusals(task):
                assert_topk(ModelEngine().select(task), topk_case)
                ran += 1
    assert ran > 40
    assert_topk(wb.reference(row), topk_case)


def test_the_selector_that_a_fixture_breaks_is_caught(topk_case: TopkCase) -> None:
    path = next(one for one in wb.paths(topk_case.path))
    row = wb.Row(topk_case.scores, topk_case.length, call=topk_case.call)
    with pytest.raises(AssertionError, match="is lossy"):  # noqa: PT012
        for seed in range(topk_case.repeats):
            order = Arrival("random", path.arrival_unit, seed)
            assert_topk(ModelEngine().select(Task(row, topk_case.k, order, path, topk_case.variant)), topk_case)


if __name__ == "__main__":
    for old in FOLDER.glob("*.safetensors"):
        old.unlink()
    for recipe in RECIPES:
        print(write(FOLDER, *recipe))
