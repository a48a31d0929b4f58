"""``workbench run`` with callables as engines."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.cli.conftest import KNOWN, WIDTH, spread_out
from workbench.capture import Row, write_capture
from workbench.cli.main import app

Cli = Callable[..., Result]
CliJson = Callable[..., tuple[int, Any]]

MINE = """
import torch

class Ways:
    @staticmethod
    def best(scores, lengths, k):
        return good(scores, lengths, k)


def good(scores, lengths, k):
    cells = torch.arange(scores.shape[1])
    masked = scores.masked_fill(cells >= lengths[:, None], -torch.inf)
    return torch.sort(masked, descending=True, stable=True).indices[:, :k]


def random(scores, lengths, k):
    return torch.stack([torch.randperm(int(n))[:k] for n in lengths])


def fails(scores, lengths, k):
    raise ValueError("no way")


def returns_values(scores, lengths, k):
    return torch.topk(scores, k).values


value = 3
"""
LOUD = """
import torch

print("a word while it is imported")


def loud(scores, lengths, k):
    print("a word while it runs")
    return torch.topk(scores, k)
"""
OPS = """
import torch

library = torch.library.Library("workbench_test_callables", "DEF")
library.define("topk(Tensor scores, Tensor lengths, int k) -> Tensor")
library.impl("topk", lambda scores, lengths, k: torch.topk(scores, k).indices, "CPU")
"""
OP = "torch.ops.workbench_test_callables.topk"


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the user's module ``their_topk``, the current one."""
    modules = {
        "their_topk": MINE,
        "their_loud": LOUD,
        "their_ops": OPS,
        "their_broken": "import absent_module_of_theirs",
        "their_exit": "raise SystemExit(0)",
    }
    for name, text in modules.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    yield tmp_path
    for name in modules:
        sys.modules.pop(name, None)


def test_a_callable_gets_the_same_verdicts(cli_json: CliJson, captures: Path, mine: Path) -> None:
    code, lines = cli_json("run", captures / "mixed.safetensors", "--op", "their_topk:good", "--repeats", 2)
    assert code == 0
    assert [(line["row"], line["repeat"], line["verdict"]) for line in lines] == [
        (row, repeat, "exact") for row in range(3) for repeat in range(2)
    ]
    assert {line["engine"] for line in lines} == {"their_topk:good"}
    assert [line["risk"] for line in lines[::2]] == ["safe", "at risk", "safe"]
    assert {line["op"] for line in lines} == {"vllm.persistent_topk"}
    assert {line["repeatability"] for line in lines} == {"same"}


def test_a_release_that_cannot_run_is_refused_and_nothing_is_judged(
    cli: Cli, captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = cli("run", captures / "broken.safetensors", "--engine", "vendor", "--release", "vllm==0.30.0")
    assert result.exit_code == 2
    assert "vendor vllm==0.30.0" in result.stdout
    assert "nothing was judged" in result.stderr


def test_what_it_prints_is_no_part_of_the_report(cli: Cli, captures: Path, mine: Path) -> None:
    result = cli("run", captures / "healthy.safetensors", "--op", "their_loud:loud", "--json")
    assert "a word" not in result.stdout
    assert "a word while it is imported" in result.stderr
    assert "a word while it runs" in result.stderr


def test_several_engines_side_by_side(cli: Cli, cli_json: CliJson, captures: Path, mine: Path) -> None:
    args = ("--engine", "model,recorded", "--op", "their_topk:Ways.best", "--op", "their_topk:random", "--repeats", 3)
    code, lines = cli_json("run", captures / "broken.safetensors", *args)
    assert code == 1
    assert [line["engine"] for line in lines] == ["model"] * 3 + ["recorded"] + ["their_topk:Ways.best"] * 3 + [
        "their_topk:random"
    ] * 3
    assert [line["verdict"] for line in lines][4:7] == ["exact"] * 3
    text = cli("run", captures / "broken.safetensors", *args).stdout
    assert "Rows by what varies between calls" in text
    assert max(map(len, text.splitlines())) <= 100


def test_an_op_beside_a_callable_keeps_its_meaning(cli_json: CliJson, captures: Path, mine: Path) -> None:
    args = ("--op", "vllm.top_k_per_row_decode", "--op", "their_topk:good")
    _, lines = cli_json("run", captures / "broken.safetensors", *args)
    assert [(line["op"], line["path"]) for line in lines] == [("vllm.top_k_per_row_decode", "vllm.per_row")]


def test_an_op_of_torch_by_name(cli: Cli, cli_json: CliJson, captures: Path, mine: Path) -> None:
    unknown = cli("run", captures / "healthy.safetensors", "--op", "torch.ops.workbench_nothing.topk")
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    assert "--import" in unknown.stderr
    code, lines = cli_json("run", captures / "healthy.safetensors", "--op", OP, "--import", "their_ops")
    assert code == 0
    assert {(line["engine"], line["verdict"]) for line in lines} == {(OP, "exact")}


def test_rows_that_are_laid_alone_say_so(cli: Cli, cli_json: CliJson, captures: Path, mine: Path) -> None:
    file = captures / "healthy.safetensors"
    args = ("run", file, "--rows", 7, "--row", 0, "--op", "their_topk:good")
    code, lines = cli_json(*args)
    assert code == 0
    assert lines[0]["note"].startswith("laid alone, in 7 equal copies of which the first is judged")
    assert "note, row 0: laid alone, in 7 equal copies" in cli(*args).stdout


def test_unknown_rows_are_refused_with_the_option(cli: Cli, captures: Path, mine: Path) -> None:
    result = cli("run", captures / "anonymous.safetensors", "--op", "their_topk:good")
    assert result.exit_code == 2
    assert "give it (--rows)" in result.stdout
    assert "nothing was judged" in result.stderr
    assert cli("run", captures / "anonymous.safetensors", "--op", "their_topk:good", "--rows", 1).exit_code == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [("fails", "raised ValueError: no way"), ("returns_values", "returned float32 [1, 2048]")],
)
def test_a_fault_is_a_finding(cli: Cli, cli_json: CliJson, captures: Path, mine: Path, name: str, said: str) -> None:
    args = ("run", captures / "healthy.safetensors", "--op", f"their_topk:{name}", "--repeats", 9)
    code, lines = cli_json(*args)
    assert code == 1
    assert len(lines) == 2
    assert all(said in line["finding"] and line["verdict"] is None for line in lines)
    text = cli(*args).stdout
    assert said in text
    assert "did not return" in text


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--op", "their_topk:nothing"), "their_topk has no 'nothing'; it has "),
        (("--op", "their_topk:value"), "their_topk:value is no callable: it is of type int"),
        (("--op", "their_absent:f"), "there is no module 'their_absent' in the current folder"),
        (("--op", "their_broken:f"), "importing their_broken failed: No module named 'absent_module_of_theirs'"),
        (("--op", "their_exit:f"), "importing their_exit failed: SystemExit: 0"),
        (("--op", "a:b:c"), "'a:b:c' names no callable; write it as in package.module:function"),
        (("--op", ":"), "names no callable"),
        (("--op", "their_topk.py:good"), "'their_topk.py' names a file; write its module, their_topk"),
        (("--op", "torch.ops.aten"), "names no op of torch"),
        (("--op", "their_topk:good", "--op", "their_topk:good"), "their_topk:good is given twice"),
        (("--op", "vllm.persistent_topk", "--op", "sglang.fast_topk_v2"), "--op names 2 ops"),
        (("--op", "their_topk:good", "--paths", "vllm.*"), "leave paths and variants as they are"),
        (("--import", "their_topk"), "--import is for callables"),
        (("--cuda",), "--cuda is for callables"),
        (("--engine", "model,nope"), "unknown engine 'nope'; known engines: model, cuda, recorded, vendor"),
        (("--engine", "model,"), "unknown engine ''"),
        (("--engine", "vendor", "--release", ""), "release"),
    ],
)
def test_what_cannot_be_is_one_line(captures: Path, mine: Path, args: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(app, ["run", str(captures / "healthy.safetensors"), *args], catch_exceptions=False)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr.splitlines()[-1]


def test_an_output_file_holds_the_lines_of_all_engines(cli: Cli, captures: Path, mine: Path) -> None:
    target = mine / "r.json"
    args = ("--engine", "model", "--op", "their_topk:good", "--output", target)
    assert cli("run", captures / "healthy.safetensors", *args).exit_code == 0
    assert [line["engine"] for line in json.loads(target.read_text())] == ["model", "their_topk:good"] * 2


def test_a_call_that_is_wholly_captured_is_one_launch(cli_json: CliJson, mine: Path) -> None:
    call = KNOWN.__class__(**{**vars(KNOWN), "rows": 2})
    write_capture(mine / "c.safetensors", [Row(spread_out(seed=at), WIDTH - at, call=call) for at in range(2)])
    code, lines = cli_json("run", mine / "c.safetensors", "--op", "their_topk:good")
    assert (code, [line["note"] for line in lines]) == (0, [None, None])
