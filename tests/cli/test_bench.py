"""``workbench bench`` and ``workbench bench compare``: what they print, their JSON, files and exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import Result

from workbench.runs.bench_saved import read_bench

Cli = Callable[..., Result]
CliJson = Callable[..., tuple[int, Any]]
ROOT = Path(__file__).parents[2]
SMALL = ("bench", "--rows", "1,2", "--width", "3000", "-k", "512", "--samples", 3, "--warmups", 1)
MODEL = ("--engine", "model", "--op", "vllm.persistent_topk", "--release", "vllm==0.26.0", "--device", "h200")


def worst(scores: torch.Tensor, lengths: torch.Tensor, k: int) -> torch.Tensor:
    """A selector that keeps the worst."""
    return torch.topk(scores, k, largest=False).indices


def slow(scores: torch.Tensor, lengths: torch.Tensor, k: int) -> torch.Tensor:
    time.sleep(0.15)
    return torch.topk(scores, k).indices


def test_a_table_for_people(cli: Cli) -> None:
    result = cli(*SMALL, *MODEL, "--engine", "torch.topk", "--l2", "both")
    assert result.exit_code == 0, result.stderr
    text = result.stdout
    assert text.startswith("8 of 8 cells were measured, and no selection lost a winner.")
    assert "random scores, float32, seed 0; 3 samples a cell after 1 warm-up call" in text
    assert "2 rows of 3000, k 512, cold L2" in text
    assert re.search(r"model vllm==0\.26\.0 +vllm\.histogram_2048 +exact +\d+", text)
    assert max(map(len, text.splitlines())) <= 100


def test_one_cell_is_told_as_one(cli: Cli) -> None:
    one = ("bench", "--rows", 1, "--width", 600, "--k", 5, "--samples", 1)
    assert cli(*one, "--engine", "torch.topk").stdout.startswith("The one cell was measured, and no selection lost a")
    refused = cli(*one, *MODEL)
    assert refused.stdout.startswith("The one cell was not measured; 1 was refused.")


def test_json_for_machines(cli_json: CliJson) -> None:
    code, document = cli_json(*SMALL, *MODEL)
    assert code == 0
    assert document["command"] == "bench"
    assert document["wrong"] == 0
    assert [cell["rows"] for cell in document["bench"]["cells"]] == [1, 2]
    assert all(len(cell["times_us"]) == 3 for cell in document["bench"]["cells"])


def test_torch_alone_needs_no_op(cli_json: CliJson) -> None:
    code, document = cli_json("bench", "--rows", "1", "--width", "64", "-k", "1,64", "--samples", 1, "--warmups", 0)
    assert code == 0
    assert [cell["verdict"]["kind"] for cell in document["bench"]["cells"]] == ["exact", "exact"]


def test_a_wrong_selection_gives_1(cli: Cli, cli_json: CliJson) -> None:
    name = "tests.cli.test_bench:worst"
    result = cli(*SMALL, "--engine", name)
    assert result.exit_code == 1
    assert "2 are wrong: 2 lossy" in result.stdout
    assert "lossy, 512" in result.stdout
    code, document = cli_json(*SMALL, "--engine", name, "--lengths", "ragged", "--capacity", 4096)
    assert (code, document["wrong"]) == (1, 2)
    assert {cell["width"] for cell in document["bench"]["cells"]} == {4096}
    code, document = cli_json(*SMALL, "--engine", name, "--distribution", "constant")
    assert (code, document["bench"]["cells"][0]["verdict"]["kind"]) == (0, "ties")


def test_nothing_measured_gives_2_and_every_reason(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TOPK_WORKBENCH_VENDOR", str(tmp_path))
    result = cli(*SMALL, *MODEL[2:], "--engine", "vendor,cuda")
    assert result.exit_code == 2
    assert "nothing was measured" in result.stderr
    assert "0 of 4 cells were measured; 4 were refused" in result.stdout
    if not torch.cuda.is_available():
        assert "no CUDA device is visible to torch" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--rows", "1;2"), "--rows '1;2' is no list of numbers"),
        (("--rows", "0"), "rows: 0 is no integer from 1"),
        (("--rows", "99999999999999999999"), "rows: 99999999999999999999 is no integer from 1"),
        (("--width", "-5"), "--width '-5' is no list"),
        (("-k", ""), "--k '' is no list"),
        (("-k", "2147483648"), "k: 2147483648 is no integer"),
        (("--rows", "3,3"), "name one twice"),
        (("--capacity", "10"), "capacity of 10 is below the widest rows"),
        (("--lengths", "odd"), "no kind of lengths"),
        (("--l2", "hot"), "no state of the L2 cache"),
        (("--samples", "0"), "is no integer from 1"),
        (("--distribution", "normal"), "unknown distribution"),
        (("--device", "h900"), "unknown device"),
        (("--engine", "gpu"), "unknown engine 'gpu'"),
        (("--engine", "model"), "model needs an op"),
        (("--engine", "model,"), "a name is empty"),
        (("--engine", "no_such_module:f"), "no module 'no_such_module'"),
        (("--release", "vllm==0.26.0"), "no engine that runs one"),
        ((*MODEL, "--release", "sglang==0.5.21"), "no op of its package"),
        ((*MODEL, "--release", "vllm=0.26.0"), "vllm=0.26.0"),
        (("--boundaries", "--capacity", "99999"), "leave --capacity out"),
        (("-o", "a.csv"), "a benchmark is written as .json"),
        (("-o", "/dev/full"), "a benchmark is written as .json"),
        (("-o", ""), "--output is empty"),
        (("-o", "no/a.json"), "its folder does not exist"),
    ],
)
def test_bad_usage_is_one_line(cli: Cli, options: tuple[str, ...], words: str) -> None:
    result = cli("bench", *options)
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not result.stdout


def test_boundaries_can_be_narrowed(cli_json: CliJson) -> None:
    code, document = cli_json(
        "bench",
        *MODEL,
        "--boundaries",
        "--rows",
        "1",
        "-k",
        "512",
        "--samples",
        1,
        "--warmups",
        0,
        "--width",
        "8191,8192,8193",
    )
    assert code == 0
    cells = document["bench"]["cells"]
    assert [(cell["length"], cell["width"]) for cell in cells] == [(8191, 8192), (8192, 8192), (8193, 8224)]
    assert [cell["paths"] for cell in cells] == [["vllm.histogram_2048"]] * 2 + [["vllm.histogram_256"]]


def test_runs_are_kept_and_compared(cli: Cli, cli_json: CliJson, tmp_path: Path) -> None:
    one, other = tmp_path / "a.json", tmp_path / "b.json"
    assert cli(*SMALL, *MODEL, "-o", one).exit_code == 0
    assert "the file is there already" in cli(*SMALL, *MODEL, "-o", one).stderr
    assert cli(*SMALL, *MODEL, "-o", one, "--force").exit_code == 0
    assert cli(*SMALL, *MODEL, "--engine", "torch.topk", "--seed", 1, "-o", other).exit_code == 0
    result = cli("bench", "compare", one, other)
    assert result.exit_code == 0
    assert "2 cells were measured in both" in result.stdout
    assert "differs: seed: 0 and 1" in result.stdout
    assert "in the second only: 2 cells" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines() if str(tmp_path) not in line) <= 100
    code, document = cli_json("bench", "compare", one, other)
    assert code == 0
    assert len(document["pairs"]) == len(document["only_second"]) == 2
    assert document["pairs"][0]["ratio"]["of_medians"] > 0
    assert document["pairs"][0]["first"]["spread_us"]["count"] == 3
    assert document["differing"] == {"seed": ["0", "1"]}


def test_compare_says_what_it_cannot_read(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    for file, words in ((tmp_path / "a.json", "this is no benchmark"), (tmp_path / "b.json", "No such file")):
        result = cli("bench", "compare", file, file)
        assert result.exit_code == 2
        assert words in result.stderr
    result = cli("bench", "--rows", 1, "compare", "a.json", "b.json")
    assert result.exit_code == 2
    assert "options of bench do not go with compare" in result.stderr


def test_no_cell_in_common_gives_2(cli: Cli, tmp_path: Path) -> None:
    files = []
    for rows in ("1", "2"):
        files.append(tmp_path / f"{rows}.json")
        cli("bench", "--rows", rows, "--width", "64", "-k", "2", "--samples", 1, "-o", files[-1])
    result = cli("bench", "compare", *files)
    assert result.exit_code == 2
    assert "no cell in common" in result.stderr


def test_ctrl_c_leaves_what_is_done(tmp_path: Path) -> None:
    command = ["bench", "--rows", "1,2,3,4", "--width", "64", "-k", "2", "--samples", "4", "--warmups", "0"]
    started = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "workbench",
            *command,
            "--engine",
            "tests.cli.test_bench:slow",
            "-o",
            str(tmp_path / "a.json"),
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 60
    while not (tmp_path / "a.json").exists() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(1.5)  # two of the four cells, each of six calls
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=60)
    assert started.returncode == 130, said
    kept = read_bench(tmp_path / "a.json")
    assert 0 < len(kept.cells) < 4
    assert f"holds the {len(kept.cells)} cell" in said
    assert not kept.is_complete
    assert [one.name for one in tmp_path.iterdir()] == ["a.json"]
    assert json.loads((tmp_path / "a.json").read_text())["complete"] is False


def test_help_teaches(cli: Cli) -> None:
    result = cli("bench", "--help")
    assert result.exit_code == 0
    assert "workbench bench --engine vendor" in result.stdout
    assert "compare" in result.stdout
