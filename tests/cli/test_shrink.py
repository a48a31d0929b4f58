"""`workbench shrink`: one sentence, a table, a capture that is never half-written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import workbench as wb
from workbench.capture import Call, Row, write_capture
from workbench.resources import samples_dir


def test_the_reached_path_is_shrunk(cli, captures: Path, tmp_path: Path) -> None:
    target = tmp_path / "small.safetensors"
    result = cli("shrink", captures / "broken.safetensors", "-o", target)
    assert result.exit_code == 1
    text = " ".join(result.stdout.split())
    assert "shrank from 20000 scores to 8193, k from 2048 to 512, and shows the same fault on" in text
    assert "vllm.histogram_256 (stock): at risk, 4097 scores share the threshold bin 188" in text
    assert "population 5000 4097" in text
    assert f"Written to {target}." in text
    assert all(len(line) <= 100 for line in result.stdout.splitlines() if str(target) not in line)
    assert cli("inspect", target).exit_code == 1
    again = cli("shrink", target)
    assert again.exit_code == 1
    assert "is as small as it gets: 8193 scores, k 512" in again.stdout.replace("\n", " ")
    assert "--output FILE" in again.stdout


def test_a_chance_too_small_for_a_number_is_not_called_0(cli) -> None:
    result = cli(
        *("shrink", samples_dir() / "smollm2-lm-head.safetensors", "--row", 2, "--path", "sglang.fast_topk"),
    )
    (line,) = [line.split() for line in result.stdout.splitlines() if line.startswith("p clean")]
    assert line == ["p", "clean", "<1e−300", "0.5001"]


def test_json(cli_json, captures: Path) -> None:
    code, found = cli_json("shrink", captures / "anonymous.safetensors", "--row", 1, "--path", "sglang.fast_topk")
    assert code == 1
    assert (found["command"], found["row"], found["path"], found["variant"]) == (
        "shrink",
        1,
        "sglang.fast_topk",
        "stock",
    )
    assert found["fault"] == {
        "level": "at risk",
        "overflow": "buffer",
        "verdict": "lossy",
        "nan": False,
        "ordered": 0,
        "note": "",
    }
    assert (found["before"]["length"], found["after"]["length"], found["after"]["distinct"]) == (20000, 4097, 2)
    assert found["after"]["risk"]["population"] == found["after"]["risk"]["capacity"] + 1
    assert (found["is_minimum"], found["route_held"], found["output"]) == (True, False, None)
    assert found["call"]["k"] == 2048


def test_no_fault_gives_0_and_no_file(cli, cli_json, captures: Path, tmp_path: Path) -> None:
    target = tmp_path / "small.safetensors"
    for name, row in (("healthy", 1), ("tied", 0)):
        result = cli("shrink", captures / f"{name}.safetensors", "--row", row, "-o", target)
        assert result.exit_code == 0
        assert "shows no fault on vllm.histogram_256 (stock)" in result.stdout.replace("\n", " ")
        assert cli_json("shrink", captures / f"{name}.safetensors", "--row", row)[1]["fault"] is None
    assert not target.exists()


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("mixed", [], "the capture has rows 0 to 2; choose one with --row"),
        ("mixed", ["--row", 3], "there is no row 3"),
        ("mixed", ["--row", -1], "is no integer"),
        ("anonymous", ["--row", 1], "give a path (--path); this row is not safe on vllm.histogram_256 (at risk)"),
        ("broken", ["--path", "vllm.nothing"], "no path matches 'vllm.nothing'"),
        ("broken", ["--path", "vllm.*"], "more than one path"),
        (
            "broken",
            ["--path", "vllm.histogram_2048"],
            "broken.safetensors, row 0: vllm.histogram_2048 (stock) does not",
        ),
        ("broken", ["--variant", "nothing"], "no variant 'nothing'; known: stock"),
        ("broken", ["--time-limit", 0], "is no integer from 1"),
        ("broken", ["--k", 30000], "k 30000 is larger than the row width"),
        ("half", ["--row", 0, "--path", "sglang.v1"], "scores are bfloat16"),
        ("damaged", [], "damaged.safetensors"),
        ("nowhere", [], "nowhere.safetensors"),
    ],
)
def test_bad_input_is_one_line(cli, captures: Path, name: str, options: list[object], said: str) -> None:
    result = cli("shrink", captures / f"{name}.safetensors", *options)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_files_are_not_replaced_unasked(cli, captures: Path, tmp_path: Path) -> None:
    source = captures / "broken.safetensors"
    target = tmp_path / "small.safetensors"
    assert cli("shrink", source, "-o", target).exit_code == 1
    first = target.read_bytes()
    refused = cli("shrink", source, "-o", target)
    assert refused.exit_code == 2
    assert "there already" in refused.stderr
    assert cli("shrink", source, "-o", target, "--force").exit_code == 1
    assert target.read_bytes() == first
    before = source.read_bytes()
    assert "the capture that is read" in cli("shrink", source, "-o", source, "--force").stderr
    assert source.read_bytes() == before
    assert cli("shrink", source, "-o", tmp_path / "no" / "x.safetensors").exit_code == 2
    assert cli("shrink", source, "-o", tmp_path).exit_code == 2


def test_ctrl_c_leaves_a_whole_capture_and_the_same_command_goes_on(tmp_path: Path) -> None:
    """A row that takes some seconds, stopped as soon as its first checkpoint is there to see."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(1 << 21, generator=generator) / 100 + 4.05
    source, target = tmp_path / "row.safetensors", tmp_path / "small.safetensors"
    write_capture(source, [Row(scores, scores.numel(), call=Call(k=2048))])
    command = [sys.executable, "-m", "workbench", "shrink", str(source), "--path", "vllm.filtered", "-o", str(target)]
    code = "import workbench.runs.shrink as s, sys; s.SAVE_EVERY = 0.0; from workbench.cli.main import main; main()"
    started = subprocess.Popen([sys.executable, "-c", code, *command[3:]], stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not target.exists() and time.monotonic() < until and started.poll() is None:
        time.sleep(0.01)
    os.kill(started.pid, signal.SIGINT)
    said = started.communicate(timeout=60)[1]
    assert started.returncode == 130, said
    assert said.splitlines()[-1] == "workbench: interrupted"
    assert "the same command goes on from it" in said
    assert sorted(one.name for one in tmp_path.iterdir()) == ["row.safetensors", "small.safetensors"]
    left = wb.open(target)
    assert left.verify() == []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "went on from the smallest row of an earlier run" in done.stdout
    assert wb.open(target)[0].length == 16385
