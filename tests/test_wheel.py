"""The built wheel in an empty environment, away from the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*command: str | Path, cwd: Path, codes: tuple[int, ...] = (0,)) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode in codes, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    (built,) = out.glob("*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_holds_what_is_no_module(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in ("_kernels/ordered_keys.cuh", "_app.py", "ui/served.js", "ui/navigation.css", "py.typed"):
        assert f"workbench/{wanted}" in names
    assert (
        len([name for name in names if name.startswith("workbench/_captures/") and name.endswith(".safetensors")]) > 4
    )
    assert wheel.stat().st_size < 16_000_000  # nearly all of it samples, which the app shows where no file is given
    assert [name for name in names if "__pycache__" in name or name.startswith("tests/")] == []


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "env", cwd=tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel, cwd=tmp_path)
    command = tmp_path / "env" / "bin" / "workbench"
    assert "vllm.filtered" in run(command, "paths", cwd=tmp_path)
    code = "from workbench.resources import *; print(samples_dir(), kernels_dir(), app_entry(), sep='\\n')"
    samples, kernels, entry = map(Path, run(python, "-c", code, cwd=tmp_path).splitlines())
    assert ROOT not in samples.parents
    assert list(kernels.glob("*.cuh"))
    assert entry.is_file()
    sample = samples / "smollm2-lm-head.safetensors"
    found = json.loads(run(command, "inspect", sample, "--json", cwd=tmp_path, codes=(1,)))
    assert found
    # The app's own requirements are there: its pages import.
    run(python, "-c", "import workbench.ui", cwd=tmp_path)
