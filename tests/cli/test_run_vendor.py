"""``workbench run`` and ``bisect-release`` by released ops, over packages that keep the contracts of the real ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import Result

from tests.cli.conftest import KNOWN, WIDTH, neighbours, spread_out
from tests.engines.conftest import Behave, behave, gone, installed  # noqa: F401
from workbench.capture import Row, write_capture

Cli = Callable[..., Result]
CliJson = Callable[..., tuple[int, Any]]
VENDOR = ("--engine", "vendor")
SGLANG = replace(KNOWN, op="sglang.topk_transform_paged_v2", release="sglang==0.5.23", k=512)


@pytest.fixture
def packages(behave: Behave, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Behave:  # noqa: F811
    """The packages, whose ops run on the CPU, and a store that holds nothing."""
    monkeypatch.setattr("workbench.engines.vendor.engine.DEVICE", "cpu")
    monkeypatch.setenv("TOPK_WORKBENCH_VENDOR", str(tmp_path / "store"))
    behave("exact")
    return behave


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No package and an empty store."""
    monkeypatch.setenv("TOPK_WORKBENCH_VENDOR", str(tmp_path / "store"))
    monkeypatch.setattr("workbench.engines.vendor.sources.installed", lambda distributions: None)


@pytest.fixture
def sglang(tmp_path: Path) -> Path:
    """A row that overflows on the path of SGLang's op that is built when it is called."""
    path = tmp_path / "sglang.safetensors"
    write_capture(path, [Row(neighbours(5000), WIDTH, call=SGLANG)])
    return path


def test_the_release_is_the_one_given_else_the_captures_else_what_is_installed(
    cli: Cli, cli_json: CliJson, captures: Path, tmp_path: Path, packages: Behave
) -> None:
    file = captures / "broken.safetensors"  # of vllm==0.26.0
    code, (line,) = cli_json("run", file, *VENDOR)
    assert (code, line["release"], line["verdict"]) == (1, "vllm==0.26.0", "exact")  # at risk all the same
    assert line["ran"].startswith("vllm==0.26.0+cu129 (installed), _custom_ops.py ")
    assert line["ran"].endswith(f", torch {torch.__version__}")
    given = cli("run", file, *VENDOR, "--release", "vllm==0.33.0")
    assert given.exit_code == 2
    assert "fetch them: workbench vendor add vllm==0.33.0" in " ".join(given.stdout.split())
    write_capture(tmp_path / "none.safetensors", [Row(spread_out(), WIDTH, call=replace(KNOWN, release=None))])
    code, (line,) = cli_json("run", tmp_path / "none.safetensors", *VENDOR)
    assert (code, line["release"], line["path"]) == (0, "vllm==0.26.0", "vllm.histogram_256")
    other = ("--op", "sglang.fast_topk_v2")  # which the capture's release has nothing to do with
    _, (line,) = cli_json("run", file, *VENDOR, *other)
    assert (line["release"], line["path"], line["verdict"]) == ("sglang-kernel==0.4.6", "sglang.fast_topk", "exact")


def test_what_ran_is_printed_once(cli: Cli, captures: Path, packages: Behave) -> None:
    text = cli("run", captures / "mixed.safetensors", *VENDOR, "--repeats", 2).stdout
    assert text.count("_custom_ops.py") == text.count("+cu129") == 1
    assert "\nvendor: vllm==0.26.0+cu129 (installed), _custom_ops.py " in text


def test_an_unknown_op_or_nothing_installed_is_refused(cli: Cli, captures: Path, tmp_path: Path, nothing: None) -> None:
    text = cli("run", captures / "anonymous.safetensors", *VENDOR, "--rows", 1).stdout
    assert "the op is not known; give it (--op)" in text
    write_capture(tmp_path / "none.safetensors", [Row(spread_out(), WIDTH, call=replace(KNOWN, release=None))])
    result = cli("run", tmp_path / "none.safetensors", *VENDOR)
    assert result.exit_code == 2
    assert "vllm is not installed" in result.stdout
    assert "workbench vendor add vllm==VERSION" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("hangs", "call 1 of 3 of vllm.persistent_topk did not return within 2 s"),
        ("crashes", "call 1 of 3 of vllm.persistent_topk: the process ended by signal 11 (SIGSEGV)"),
        ("raises", "persistent_topk would oversubscribe the device"),
    ],
)
def test_a_fault_is_a_finding_and_the_run_goes_on(
    cli_json: CliJson, captures: Path, packages: Behave, how: str, said: str
) -> None:
    packages(how)
    code, lines = cli_json("run", captures / "healthy.safetensors", *VENDOR, "--repeats", 3, "--timeout", 2)
    assert code == 1
    assert [(line["row"], line["verdict"]) for line in lines] == [(0, None), (1, None)]
    assert all(said in line["finding"] for line in lines)


def test_a_row_that_just_in_time_kernels_break_runs_where_sglang_is_installed(
    cli: Cli, cli_json: CliJson, sglang: Path, packages: Behave
) -> None:
    packages("lossy")
    code, lines = cli_json("run", sglang, *VENDOR, "--repeats", 2)
    assert code == 1
    assert [(line["release"], line["verdict"], line["missing"]) for line in lines] == [
        ("sglang==0.5.23", "lossy", 1)
    ] * 2
    code, found = cli_json("bisect-release", sglang, *VENDOR, "--calls", 2)
    assert (code, found["newest"], found["loses"]) == (1, "sglang==0.5.23", True)
    assert found["about"]["sglang==0.5.23"].startswith("topk.py ")
    text = cli("run", sglang, *VENDOR, "--release", "sglang==0.5.18..0.5.23", "--repeats", 2).stdout
    assert "Row 0 loses winners in sglang==0.5.23, 2 calls each." in text
    assert "of sglang==0.5.18..0.5.23 only sglang==0.5.23 is installed here" in text


def test_where_it_is_not_the_reason_and_the_install_line_are_printed(cli: Cli, sglang: Path, nothing: None) -> None:
    for options in ((), ("--release", "sglang==0.5.21")):
        result = cli("run", sglang, *VENDOR, *options)
        version = "0.5.21" if options else "0.5.23"
        assert result.exit_code == 2
        told = " ".join(result.stdout.split())
        assert f"sglang=={version} is not installed; install it where the workbench runs: pip install sglang==" in told
    for options in ((), ("--release", "sglang==0.5.21..0.5.23")):
        result = cli("bisect-release", sglang, *VENDOR, *options)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "installed where the workbench runs; install it: pip install sglang" in result.stderr
        assert "vendor add" not in result.stderr


def test_a_row_is_called_among_the_others_of_its_call(cli_json: CliJson, tmp_path: Path, packages: Behave) -> None:
    calls = [replace(KNOWN, index=at, step=at, rows=3) for at in range(2)]
    rows = [Row(spread_out(seed=at), WIDTH - at, call=calls[at // 3]) for at in range(5)]
    write_capture(tmp_path / "c.safetensors", rows)  # the second call lacks a row
    code, lines = cli_json("run", tmp_path / "c.safetensors", *VENDOR, "--row", 1, "--row", 4)
    assert (code, [line["verdict"] for line in lines]) == (0, ["exact", "exact"])
    assert [line["note"] and line["note"][:11] for line in lines] == [None, "laid alone,"]
    for command in (("run", "--release", "vllm==0.26.0..0.26.0", "--repeats", 1), ("bisect-release", "--calls", 1)):
        _, found = cli_json(command[0], tmp_path / "c.safetensors", *VENDOR, "--row", 1, *command[1:])
        cells = found["cells"] if "cells" in found else found["matrix"]["cells"][0]
        assert [cell.get("notes") or [] for cell in cells] == [[]]


def test_a_timeout_is_for_what_can_hang(cli: Cli, captures: Path) -> None:
    for command in (("run",), ("bisect-release",), ("run", "--release", "vllm==0.26.0..0.33.0")):
        result = cli(command[0], captures / "broken.safetensors", *command[1:], "--timeout", 3)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "--timeout is for the vendor and cuda engines and for callables" in result.stderr
    for text in ("0", "-1", "nan", "inf", "1e9", "soon"):
        result = cli("run", captures / "broken.safetensors", *VENDOR, "--timeout", text)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "is no number of seconds above 0" in result.stderr


@pytest.mark.parametrize("hangs", ["op", "module"])
def test_an_interrupt_leaves_nothing_behind(captures: Path, tmp_path: Path, hangs: str) -> None:
    hang = "open('hangs', 'w').close(); time.sleep(600)"
    (tmp_path / "mine.py").write_text(f"import time\n\ndef op(*_):\n    {hang}\n")
    (tmp_path / "module.py").write_text(f"import time\n{hang}\n")
    name = "mine:op" if hangs == "op" else "module:f"
    heeds = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # whatever started the tests
    code = f"{heeds}\nfrom workbench.cli.main import main; main()"
    command = [sys.executable, "-c", code, "run", str(captures / "healthy.safetensors"), "--op", name]
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": root}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        until = time.monotonic() + 60
        while not (tmp_path / "hangs").exists() and time.monotonic() < until:
            time.sleep(0.1)
        assert (found := children(program.pid))
        program.send_signal(signal.SIGINT)
        stdout, stderr = program.communicate(timeout=20)
    assert (program.returncode, stdout) == (130, b"")
    assert stderr.endswith(b"workbench: interrupted\n")
    assert all(gone(pid) for pid in found)


def children(parent: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{parent}/task").iterdir():
        found += [int(pid) for pid in (task / "children").read_text().split()]
    return found
