"""The package as its users and its rooms see it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import workbench as wb
from workbench.resources import app_entry, kernels_dir, samples_dir

ROOT = Path(__file__).parent.parent
HEAVY = ("cupy", "streamlit", "plotly", "pandas", "pyarrow", "ray", "vllm", "sglang", "rich", "typer")


def test_all_is_sorted_and_complete() -> None:
    public = {name for name in vars(wb) if not name.startswith("_")} - {"annotations"}
    modules = {name for name in public if type(getattr(wb, name)).__name__ == "module"}
    assert list(wb.__all__) == sorted(wb.__all__)
    assert public - modules == set(wb.__all__)


def test_looking_at_a_file_imports_nothing_heavy() -> None:
    code = f"import sys, workbench; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_import_stays_under_half_a_second_beyond_torch() -> None:
    code = "import torch, time; start = time.perf_counter(); import workbench; print(time.perf_counter() - start)"
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(times) < 0.5


def imports(source: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append(node.module or "")
    return found


def test_rooms_never_import_the_package_root() -> None:
    sources = list((ROOT / "workbench").rglob("*.py"))
    assert len(sources) > 30
    assert [path for path in sources if "workbench" in imports(path)] == []


def test_the_app_entry_is_thin() -> None:
    own = [name for name in imports(ROOT / "app.py") if name.startswith("workbench")]
    assert own
    assert all(name.startswith("workbench.ui") for name in own)


def test_resources_are_found_in_the_checkout() -> None:
    assert kernels_dir() == ROOT / "kernels"
    assert list(kernels_dir().glob("*.cuh"))
    assert list(samples_dir().glob("*.safetensors"))
    assert app_entry() == ROOT / "app.py"


@pytest.mark.parametrize("path", sorted((ROOT / "workbench").rglob("*.py")), ids=lambda path: path.name)
def test_modules_stay_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400
