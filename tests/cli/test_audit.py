"""``workbench audit``."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import Result

from tests.audit.making import content, dump
from workbench.audit.asked import Asked, located
from workbench.audit.journal import Journal
from workbench.audit.plan import dumped, make_plan

Cli = Callable[..., Result]
CliJson = Callable[..., tuple[int, Any]]
HERE = ("--executor", "serial")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def healthy(captures: Path, tmp_path: Path) -> Path:
    """A folder whose rows lose nothing on the path that they take."""
    folder = tmp_path / "healthy"
    folder.mkdir()
    (folder / "a.safetensors").write_bytes((captures / "healthy.safetensors").read_bytes())
    return folder


def test_exit_code_is_0_where_nothing_is_lost(cli: Cli, healthy: Path, tmp_path: Path) -> None:
    result = cli("audit", healthy, "-o", tmp_path / "out", *HERE)
    assert result.exit_code == 0, result.stderr
    said = " ".join(result.stdout.split())
    assert said.startswith("None of 2 rows loses winners")
    assert "2 rows, 1 call and 1 file of" in said
    assert "worst" not in said
    assert f"workbench audit report {tmp_path / 'out'} shows more" in said


def test_exit_code_is_1_where_a_row_may_lose(cli: Cli, captures: Path, tmp_path: Path) -> None:
    result = cli(
        "audit", captures / "broken.safetensors", captures / "healthy.safetensors", "-o", tmp_path / "o", *HERE
    )
    assert result.exit_code == 1
    assert "1 of 3 rows loses winners or can: 1 " in result.stdout
    assert "Bad rows, the worst first" in result.stdout


ROUTED = ("--op", "vllm.persistent_topk", "--release", "vllm==0.26.0", "--device", "h200")


def test_the_end_is_the_beginning_of_the_report(cli: Cli, tmp_path: Path) -> None:
    """The same sentence, the same worst rows, and of the paths those that have bad rows."""
    out = tmp_path / "out"
    audited = cli("audit", ROOT / "captures", "-o", out, *HERE, *ROUTED).stdout
    reported = cli("audit", "report", out, "--top", 5).stdout
    end, rest = audited.split("By path\n")
    assert reported.startswith(end)
    assert "The 5 worst of " in end
    losing = [line for line in reported.split("By path\n")[1].split("\n\n")[0].splitlines()[2:] if " 82 " in line]
    names = [line.split()[0] for line in rest.split("\n\n")[0].splitlines()[2:]]
    assert names == [line.split()[0] for line in losing][: len(names)] == ["vllm.histogram_2048"]


@pytest.mark.parametrize(
    ("given", "cure"),
    [
        ((), "with --op, --release and --device, which stand over"),
        (("--op", "vllm.persistent_topk"), "with --release and --device, which stand over"),
        (ROUTED, None),
    ],
)
def test_where_the_route_is_not_known_a_cure_is_told(
    cli: Cli, tmp_path: Path, given: tuple[str, ...], cure: str | None
) -> None:
    capture = ROOT / "captures/public-vllm-v100.safetensors"
    if cure is not None:  # a dump says nothing of its call
        capture = tmp_path / "dump.safetensors"
        save_file({"scores": torch.randn(2, 5000, generator=torch.Generator().manual_seed(0))}, capture)
        given = (*given, "--k", "512", "--scores", "scores")
    said = " ".join(cli("audit", capture, "-o", tmp_path / "out", *HERE, *given).stdout.split())
    assert ("on some path that they may reach, since their route is not known" in said) == (cure is not None)
    assert (f"is not known: audit into another folder {cure}" in said) == (cure is not None)


def test_a_broken_file_is_told_by_exit_code_2_and_ends_nothing(cli_json: CliJson, cli: Cli, healthy: Path) -> None:
    (healthy / "b.safetensors").write_text("damaged")
    code, document = cli_json("audit", healthy, "-o", healthy.parent / "out", *HERE)
    assert code == 2
    assert (document["audited"]["files"], document["audited"]["failed_files"], document["audited"]["rows"]) == (2, 1, 2)
    again = cli("audit", healthy, "-o", healthy.parent / "out", *HERE)
    assert again.exit_code == 2
    assert "the manifest says why" in again.stderr


def test_json_is_what_python_returns(cli_json: CliJson, captures: Path, tmp_path: Path) -> None:
    code, document = cli_json("audit", captures / "mixed.safetensors", "-o", tmp_path / "out", *HERE)
    assert code == 1
    assert document["command"] == "audit"
    assert document["audited"]["found_rows"] == 1
    assert document["audited"]["resumed"] is False
    assert document["sentence"].startswith("1 of ")


def test_files_that_appeared_are_told(cli: Cli, healthy: Path, tmp_path: Path) -> None:
    cli("audit", healthy, "-o", tmp_path / "out", *HERE)
    (healthy / "new.safetensors").write_text("")
    again = cli("audit", healthy, "-o", tmp_path / "out", *HERE)
    assert again.exit_code == 0
    assert "1 file appeared since the audit was planned (new.safetensors)" in again.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what is said without a GPU")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere", "-o", "out"), "nowhere: there is no such file or folder"),
        (("{}", "-o", "out", "--executor", "cloud"), "there is no executor 'cloud'"),
        (("{}", "-o", "out", "--op", "none"), "unknown op 'none'"),
        (("{}", "-o", "out", "--paths", "none"), "no path matches"),
        (("{}", "-o", "out", "--max-memory", "much"), "max_memory is 'much'"),
        (("{}", "-o", "out", "--workers", "0"), "--workers"),
        (("{}", "-o", "out", "--address", "a:1"), "an address is for the executor ray"),
        (("{}/..", "-o", "{}"), "and no audit; choose another folder"),
        (("empty", "-o", "out"), "empty: holds no capture and no dump"),
        (("{}", "-o", "out", "--scores", "a*b*c", "--lengths", ""), "more than one *"),
        (("{}", "-o", "out", "--gpus"), "no CUDA device"),
        (("{}", "-o", "out", "--gpus", *HERE), "no CUDA device"),
        (("{}", "-o", "none/out"), "none/out: cannot be written: No such file or directory"),
        (("{}",), "--out"),
        (("-o", "out"), "DIR"),
        ((), "DIR"),
    ],
)
def test_what_cannot_be_is_said_in_one_line_and_nothing_is_made(
    cli: Cli, healthy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    result = cli("audit", *(argument.format(healthy) for argument in arguments))
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_damaged_output_is_told_with_its_cure_by_exit_code_2(cli: Cli, healthy: Path, tmp_path: Path) -> None:
    """What a finished audit lost; and what an unfinished one holds that no worker made."""
    out, unfinished = tmp_path / "out", tmp_path / "unfinished"
    assert cli("audit", healthy, "-o", out, *HERE).exit_code == 0
    shutil.copytree(out, unfinished)
    (out / "records" / "part-000000.parquet").unlink()
    lost = cli("audit", healthy, "-o", out, *HERE)
    assert (lost.exit_code, lost.stdout) == (2, "")
    assert re.fullmatch(r"workbench: .*out: its .* and its records of 0; audit the folder again, .*\n", lost.stderr)

    about = json.loads((unfinished / "audit.json").read_text())
    del about["found"]
    (unfinished / "audit.json").write_text(json.dumps({**about, "finished": False}))
    (unfinished / "records" / "part-000000.parquet").unlink()
    (unfinished / "unfinished").mkdir()
    plan = make_plan(Asked(*located(healthy)))
    (unfinished / "unfinished" / "plan.jsonl").write_text(dumped(plan))
    Journal(unfinished / "unfinished" / "part-000000.frames").add(0, b"no lines")
    forged = cli("audit", healthy, "-o", unfinished, *HERE)
    assert (forged.exit_code, forged.stdout) == (2, "")
    assert forged.stderr.count("\n") == 1
    assert "part-000000.frames: damaged since it was written, and removed; the same command" in forged.stderr
    assert cli("audit", healthy, "-o", unfinished, *HERE).exit_code == 0


def test_too_little_memory_is_told_with_how_much_is_needed(cli: Cli, healthy: Path, tmp_path: Path) -> None:
    result = cli("audit", healthy, "-o", tmp_path / "out", "--max-memory", "100MiB")
    assert result.exit_code == 2
    assert "max_memory is 100 MiB; one worker and rows of 20000 scores need 1029 MiB" in result.stderr


def test_help_teaches_with_examples(cli: Cli) -> None:
    result = cli("audit", "--help")
    assert "audit [OPTIONS]" in result.stdout
    assert "workbench audit dumps/ -o audited" in result.stdout


def test_processes_give_the_same_bytes_as_one(captures: Path, cli: Cli, tmp_path: Path) -> None:
    """With the defaults of the command, and with how much it may take."""
    folder = dump(tmp_path / "dump", 4)
    for out, how in (("a", HERE), ("b", ("--workers", 2)), ("c", ("--max-memory", "1500MiB", "--workers", 3))):
        assert cli("audit", folder, "-o", tmp_path / out, *how).exit_code in (0, 1)
    assert content(tmp_path / "a") == content(tmp_path / "b") == content(tmp_path / "c")


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_stopped_by_a_signal_it_goes_on(cli: Cli, tmp_path: Path, stop: signal.Signals) -> None:
    folder = dump(tmp_path / "dump", 8, count=250, length=500)
    command = [sys.executable, "-m", "workbench", "audit", str(folder), "-o", str(tmp_path / "out"), "--workers", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not list((tmp_path / "out").glob("unfinished/*.frames")) and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(stop)
        _, said = process.communicate(timeout=60)
    assert process.returncode == (130 if stop is signal.SIGINT else -stop)
    if stop is signal.SIGINT:
        assert "the same command goes on from there" in said
        assert "Traceback" not in said
    assert not _children_of(command)
    assert cli("audit", folder, "-o", tmp_path / "out", *HERE).exit_code in (0, 1)
    assert cli("audit", folder, "-o", tmp_path / "clean", *HERE).exit_code in (0, 1)
    assert content(tmp_path / "out") == content(tmp_path / "clean")


def _children_of(command: list[str]) -> list[str]:
    """Processes that still run the command."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.fsencode(command[-3]) in (process / "cmdline").read_bytes():
                found.append(process.name)
        except OSError:
            continue
    return found


def test_an_empty_folder_of_the_user_stays(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "empty").mkdir()
    assert cli("audit", tmp_path / "empty", "-o", tmp_path / "out").exit_code == 2
    assert [path.name for path in (tmp_path / "out").iterdir() if path.name != ".lock"] == []


def test_an_output_within_the_audited_folder_is_no_part_of_it(cli_json: CliJson, healthy: Path) -> None:
    _, document = cli_json("audit", healthy, "-o", healthy / "out", *HERE)
    assert document["audited"]["files"] == 1
    code, again = cli_json("audit", healthy, "-o", healthy / "second", *HERE)
    assert (code, again["audited"]["files"]) == (0, 1)
