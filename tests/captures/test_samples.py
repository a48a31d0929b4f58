"""The sample captures: readable, small, named, each with the script that made it, and holding what README.md says."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from workbench.capture import open_capture
from workbench.runs.inspect import inspect_row

SAMPLES = Path(__file__).resolve().parents[2] / "captures"
MODULES = ("shared.py", "topk_attention.py")  # what the scripts import
SCRIPTS = sorted(path for path in (SAMPLES / "make").glob("*.py") if path.name not in MODULES)
NAMES = sorted(path.name for path in SAMPLES.glob("*.safetensors"))
README = (SAMPLES / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def shared() -> ModuleType:
    spec = importlib.util.spec_from_file_location("captures_make_shared", SAMPLES / "make" / "shared.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def bins(name: str, bits: int, shared: ModuleType) -> list[np.ndarray]:
    """The members of each row's threshold bin."""
    with open_capture(SAMPLES / name) as capture:
        return [shared.threshold_bin(row.valid.numpy(), row.k, bits).members for row in capture]


def test_the_samples_are_those_that_the_readme_lists() -> None:
    assert len(NAMES) == 8
    assert sorted(set(re.findall(r"`([a-z0-9-]+\.safetensors)`", README))) == NAMES


def test_all_samples_together_are_small() -> None:
    assert sum((SAMPLES / name).stat().st_size for name in NAMES) <= 12_000_000


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_opens_verifies_and_says_where_it_comes_from(name: str) -> None:
    with open_capture(SAMPLES / name) as capture:
        assert capture.verify() == []
        script = re.search(r"captures/make/(\w+\.py)", capture.info.source or "")
        assert script is not None, "the source names no script"
        assert (SAMPLES / "make" / script[1]).is_file()
        assert f"python captures/make/{script[1]}" in README
        if name.startswith("public-"):
            assert "https://github.com/" in (capture.info.source or "")
            assert capture.info.strings["op"] is not None
            assert capture.info.strings["device"] is not None
        else:
            assert capture.info.strings["model"] is not None
            # these rows were never given to an op
            assert {capture.info.strings[name] for name in ("op", "release", "device")} == {None}
        assert {row.dtype for row in capture} == {"float32"}
        assert all(row.k is not None and row.length > row.k for row in capture)
        assert not any(bool(row.valid.isnan().any()) for row in capture)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_script_explains_itself_without_the_extra(script: Path) -> None:
    done = subprocess.run([sys.executable, str(script), "--help"], capture_output=True, text=True, check=True)
    assert "--out DIR" in done.stdout
    assert "example: python captures/make/" in done.stdout


def test_the_indexer_rows_overflow_with_exact_zeros_only(shared: ModuleType) -> None:
    members = bins("smollm2-indexer.safetensors", 11, shared)
    over = [one for one in members if one.size > 3708]
    assert 2 * len(over) > len(members)
    assert all(bool((one == 0).all()) for one in over)


def test_some_lm_head_rows_hold_more_than_4096_scores_in_the_bin_of_fast_topk_and_some_do_not(
    shared: ModuleType,
) -> None:
    populations = [one.size for one in bins("smollm2-lm-head.safetensors", 8, shared)]
    assert min(populations) < 4096 < max(populations)


def test_the_v100_row_is_the_reported_one() -> None:
    with open_capture(SAMPLES / "public-vllm-v100.safetensors") as capture:
        (row,) = capture
        assert (row.call.k, row.call.rows, row.call.width, row.call.stride) == (512, 1, 806736, 806736)
        assert row.valid.tolist() == list(range(806736, 806736 - 4096, -1))
        assert bool(torch.isneginf(row.scores[4096:]).all())
        assert row.scores.numel() == 806736


def test_the_public_reports_are_what_their_script_writes(tmp_path: Path) -> None:
    script = SAMPLES / "make" / "public_reports.py"
    found = {**os.environ, "PYTHONPATH": str(SAMPLES.parent)}  # the workbench under test, installed or not
    subprocess.run([sys.executable, str(script), "--out", str(tmp_path)], capture_output=True, check=True, env=found)
    written = sorted(tmp_path.glob("*.safetensors"))
    assert [path.name for path in written] == [name for name in NAMES if name.startswith("public-")]
    for path in written:
        assert path.read_bytes() == (SAMPLES / path.name).read_bytes(), path.name


def test_a_missing_package_is_named_with_its_cure(shared: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        shared.need("numpy", "a_package_that_is_not_there")
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "'a_package_that_is_not_there' is not installed" in said
    assert "capture-demo" in said


def test_the_indexer_rows_overflow_and_lose_only_tie_members() -> None:
    with open_capture(SAMPLES / "smollm2-indexer.safetensors") as capture:
        found = [inspect_row(row) for row in capture]
    assert not any(one.finding for one in found)
    overflow = [one for one in found if any(risk.breach and risk.buffered and not risk.refused for risk in one.census)]
    assert len(overflow) == 15
    assert {one.worst.line.verdict for one in overflow} == {"ties"}


def test_lm_head_rows_break_sglang_s_selector() -> None:
    with open_capture(SAMPLES / "smollm2-lm-head.safetensors") as capture:
        found = [inspect_row(row, paths="sglang.fast_topk") for row in capture]
    assert [one.worst.line.verdict for one in found] == ["lossy", "exact", "lossy", "lossy", "lossy", "exact"]
