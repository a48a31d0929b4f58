"""``workbench record``: what it prints and exits with. It hands its streams on, so that it is run as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from tests import warm

Cli = Callable[..., Result]
ROOT = Path(__file__).parents[2]
CALLS = "import torch; torch.topk(torch.arange(9.0), 2); torch.topk(torch.arange(9), 2); print('out')"


def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "workbench", "record", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    return warm.run(command, env=environment)


def test_what_was_recorded_is_said_on_stderr(tmp_path: Path) -> None:
    done = run("--to", str(tmp_path), "--rows", "all", "--", sys.executable, "-c", CALLS)
    assert (done.returncode, done.stdout) == (0, "out\n")
    assert done.stderr.splitlines() == [
        f"workbench: saw 1 call in 1 process; kept 1 row of 1 call in 1 file in {tmp_path}",
        "workbench: not recorded, 1 time: torch.topk: scores of int64",
    ]


def test_json_alone_stands_on_stdout(tmp_path: Path) -> None:
    to = str(tmp_path)
    done = run("--to", to, "--rows", "all", "--max-rows", "1", "--json", "--", sys.executable, "-c", CALLS)
    found = json.loads(done.stdout)
    (file,) = found.pop("files")
    assert Path(file).parent == tmp_path
    assert found == {
        "command": "record",
        "folder": to,
        "exit_code": 0,
        "processes": 1,
        "unfinished": 0,
        "seen": {"torch.topk": 1},
        "calls": 1,
        "rows": 1,
        "skipped": {},
        "stopped": ["the limit of 1 rows is reached"],
    }
    assert done.stderr == "out\n"


def test_help_tells_its_own_exit_codes_and_options_of_the_program_stay_its_own(cli: Cli, tmp_path: Path) -> None:
    said = " ".join(cli("record", "--help").stdout.split())
    assert "the program's own" in said
    assert "a loss, a risk or a divergence found" not in said
    shown = run("--to", str(tmp_path), "--", sys.executable, "-c", "import sys; print(sys.argv[1:])", "--path")
    assert shown.stdout == "['--path']\n"


@pytest.mark.parametrize(
    ("program", "code"),
    [("raise SystemExit(7)", 7), ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137)],
)
def test_the_programs_exit_code(tmp_path: Path, program: str, code: int) -> None:
    done = run("--to", str(tmp_path), "--", sys.executable, "-c", program)
    assert done.returncode == code
    assert "no call was seen" in done.stderr


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 15)", "os._exit(0)"])
def test_a_program_that_is_killed_was_seen_all_the_same(tmp_path: Path, end: str) -> None:
    done = run("--to", str(tmp_path), "--rows", "all", "--", sys.executable, "-c", f"{CALLS}; import os; {end}")
    assert done.returncode != 0 or "_exit" in end
    assert done.stderr.splitlines() == [
        "workbench: saw 1 call in 1 process; kept 0 rows of 0 calls",
        "workbench: 1 process did not come to the end (killed, or running still): what was held then is not in the "
        "files, and not all calls are counted",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rows", "worst"], "rows is 'worst'; it is bad, all, first:N or sample:P"),
        (["--ops", "cuda.*"], "no op matches 'cuda.*'"),
        (["--max-bytes", "many"], "max_bytes is 'many'; write bytes"),
        (["--max-rows", "0"], "'0' is no integer"),
        (["--model", "a,b"], "a comma cannot be carried"),
    ],
)
def test_bad_usage(cli: Cli, tmp_path: Path, arguments: list[str], words: str) -> None:
    done = cli("record", "--to", tmp_path / "new", *arguments, "--", sys.executable, "-c", "print('ran')")
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_more_bad_usage(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = ("--", sys.executable, "-c", "")
    assert "no such program" in cli("record", "--to", tmp_path, "--", "no-such-program").stderr
    assert "COMMAND" in cli("record", "--to", tmp_path).stderr
    (tmp_path / "file").write_text("")
    assert "cannot be made" in cli("record", "--to", tmp_path / "file", *nothing).stderr
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    assert "unset it" in cli("record", "--to", tmp_path, *nothing).stderr


def test_signals_are_handed_on(tmp_path: Path) -> None:
    program = f"import pathlib, time; pathlib.Path({str(tmp_path / 'up')!r}).touch(); time.sleep(60)"
    command = [sys.executable, "-m", "workbench", "record", "--to", str(tmp_path), "--", sys.executable, "-c", program]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL)
    while not (tmp_path / "up").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 128 + signal.SIGTERM
