"""The pytest plugin, run by pytest in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import workbench as wb
from tests import warm
from tests.export.conftest import hot, row

ROOT = Path(__file__).parents[2]
TEST = """
import torch
from workbench.testing import assert_topk

def test_exact(topk_case):
    for _ in range(topk_case.repeats):
        assert_topk(torch.topk(topk_case.scores, topk_case.k).indices, topk_case)

def test_lossy(topk_case):
    assert_topk(torch.topk(topk_case.scores, topk_case.k + 1).indices[1:], topk_case)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with two fixtures, one of them in a folder below."""
    wb.export(row(hot(5000)), to=tmp_path / "rows", name="first")
    wb.export(row(hot(6000)), to=tmp_path / "rows" / "deep", name="second")
    for test in (tmp_path / "rows").rglob("test_*.py"):
        test.unlink()
    (tmp_path / "test_it.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def run(folder: Path, *args: str) -> tuple[int, str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "200"}
    command = [sys.executable, "-m", "pytest", "-p", "workbench.testing.plugin", "-p", "no:cacheprovider", "-rs", *args]
    done = warm.run(command, cwd=folder, env=environment)
    return done.returncode, done.stdout + done.stderr


def test_a_test_runs_once_a_file_and_says_what_was_lost(folder: Path) -> None:
    code, said = run(folder, "--topk-fixtures", "rows", "-v")
    assert code == 1
    for name in ("first", "deep/second"):
        assert f"test_it.py::test_exact[{name}] PASSED" in said
        assert f"test_it.py::test_lossy[{name}] FAILED" in said
    assert "first: the selection is lossy; 1 of 2048 winners are missing" in said
    assert "lost: rank 1, index" in said
    assert "workbench/testing/check.py" not in said  # the traceback ends in the test


def test_the_folder_can_stand_in_the_settings(folder: Path) -> None:
    (folder / "pytest.ini").write_text("[pytest]\ntopk_fixtures = rows\n")
    code, said = run(folder, "-k", "exact")
    assert code == 0
    assert "2 passed" in said


def test_without_a_folder_tests_are_skipped_with_the_reason(folder: Path) -> None:
    code, said = run(folder)
    assert code == 0
    assert "2 skipped" in said
    assert "no folder of fixtures is given (--topk-fixtures DIR, or topk_fixtures in the settings)" in said


@pytest.mark.parametrize(("name", "message"), [("none", "no such folder of fixtures"), ("empty", "no fixtures")])
def test_a_folder_without_fixtures_is_an_error(name: str, message: str, folder: Path) -> None:
    (folder / "empty").mkdir()
    code, said = run(folder, "--topk-fixtures", name)
    assert code in (2, 4)
    assert message in said
    assert "Traceback" not in said
    assert "plugin.py" not in said


def test_the_settings_name_a_folder_from_where_they_stand(folder: Path) -> None:
    (folder / "settings").mkdir()
    (folder / "elsewhere").mkdir()
    (folder / "settings" / "pytest.ini").write_text("[pytest]\ntopk_fixtures = ../rows/deep\n")
    where = ("-c", "settings/pytest.ini", "--rootdir", "elsewhere/..")
    code, said = run(folder, *where, "-k", "exact", "test_it.py")
    assert code == 0
    assert "1 passed" in said


def test_files_of_an_export_in_progress_are_no_cases(folder: Path) -> None:
    unfinished = folder / "rows" / ".workbench-export-0123456789ab"
    unfinished.mkdir()
    (folder / "rows" / "first.safetensors").rename(unfinished / "first.safetensors")
    code, said = run(folder, "--topk-fixtures", "rows", "-k", "exact")
    assert code == 0
    assert "1 passed" in said


def test_a_damaged_fixture_fails_its_test_in_one_line(folder: Path) -> None:
    (folder / "rows" / "bad.safetensors").write_bytes(b"12345678{")
    code, said = run(folder, "--topk-fixtures", "rows", "-k", "exact")
    assert code == 1
    assert "2 passed" in said
    assert "rows/bad.safetensors: not a safetensors file" in said


def test_pytest_starts_without_torch() -> None:
    code = (
        "import sys, workbench.testing.plugin; "
        "print([one for one in ('torch', 'numpy', 'safetensors', 'pandas') if one in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_entry_point_names_the_plugin() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert '[project.entry-points.pytest11]\n"workbench.testing.plugin" = "workbench.testing.plugin"\n' in text
