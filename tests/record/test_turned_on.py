"""Recording turned on by the environment: in programs, in what they start, and in engines by their plugins."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import workbench as wb
from workbench.capture.folders import capture_files
from workbench.errors import UsageError
from workbench.record import autostart
from workbench.record.options import VARIABLE, Options

ROOT = Path(__file__).parents[2]
PROGRAM = """
import multiprocessing, sys, threading, torch

def work(seed):
    scores = torch.randn(2, 100, generator=torch.Generator().manual_seed(seed))
    torch.topk(scores, 5)

if __name__ == "__main__":
    work(0)
    thread = threading.Thread(target=work, args=(1,)); thread.start(); thread.join()
    for seed, method in enumerate(("spawn", "fork")):
        child = multiprocessing.get_context(method).Process(target=work, args=(2 + seed,))
        child.start(); child.join()
    print("done")
    sys.exit(3)
"""


def run(command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_program_and_what_it_starts(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    to = tmp_path / "rows"
    done = run(
        f"{sys.executable} -m workbench record --to {to} --rows all --model m -- {sys.executable} {program}".split()
    )
    assert (done.returncode, done.stdout) == (3, "done\n"), done.stderr
    assert "saw 4 calls in 3 processes; kept 8 rows of 4 calls in 3 files" in done.stderr
    rows = [row for path in capture_files(to) for row in wb.open(path)]
    assert len(rows) == 8
    assert {row.call.model for row in rows} == {"m"}


def entry_points() -> dict[str, dict[str, str]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]


@pytest.mark.parametrize("group", ["vllm.general_plugins", "sglang.srt.plugins"])
def test_engines_turn_it_on(tmp_path: Path, group: str) -> None:
    """As an engine does in each of its processes, several times in some: load the entry point and call it."""
    ((name, value),) = entry_points()[group].items()
    assert EntryPoint(name, value, group).load().__name__ == "start"
    script = f"""
import torch
from importlib.metadata import EntryPoint
for _ in range(2):
    EntryPoint({name!r}, {value!r}, {group!r}).load()()
torch.topk(torch.arange(9.0), 2)
"""
    done = run([sys.executable, "-c", script], **{VARIABLE: f"{tmp_path},rows=all,rank=2"})
    assert done.returncode == 0, done.stderr
    (path,) = capture_files(tmp_path)
    with wb.open(path) as capture:
        assert (len(capture), capture[0].call.rank) == (1, 2)


def test_it_does_nothing_unless_it_is_asked_for() -> None:
    script = """
import sys
from workbench.record.autostart import start
start()
assert "torch" not in sys.modules and "workbench.record.recorder" not in sys.modules
"""
    assert run([sys.executable, "-c", script], **{VARIABLE: ""}).returncode == 0


@pytest.mark.parametrize(
    "text",
    [
        "{},rows=worst",
        "{},colour=red",
        "/dev/null/x,rows=all",
        ",",
        "{},rows=all,max_rows=3,rows=bad",
        "rows=all",
        "rows=all,max_rows=3",
        "{},flush=nan",
        "{},rows=sample:nan",
        "{},max_bytes=1e9",
        "{},,rows=all",
    ],
)
def test_a_variable_that_cannot_be_leaves_the_program_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    monkeypatch.setenv(VARIABLE, text.format(tmp_path))
    monkeypatch.setattr(autostart, "_started", {})
    autostart.start()
    autostart.start()
    told = capsys.readouterr().err
    assert told.startswith("workbench: nothing is recorded: ")
    assert told.count("\n") == 1


def test_options_travel_as_text(tmp_path: Path) -> None:
    options = Options.checked(
        folder=tmp_path, rows="sample:0.5", max_bytes="2MiB", padding=False, flush=0, ops="vllm.*|torch.topk"
    )
    assert Options.parse(options.text()) == options
    assert Options.parse(f"{tmp_path},rows=first:3,max_bytes=1GiB").max_bytes == 2**30
    with pytest.raises(UsageError, match="comma"):
        Options.checked(folder=tmp_path, model="a,b").text()


def test_a_python_without_the_workbench(tmp_path: Path) -> None:
    """torch is imported there as ever, and one line says why nothing is recorded."""
    from workbench.record.children import recording

    with recording(Options.checked(folder=tmp_path), {}) as environment:
        folder = environment["PYTHONPATH"]
        hidden = f"import sys; sys.modules['workbench'] = None; sys.path.insert(0, {folder!r}); "
        done = run([sys.executable, "-c", f"{hidden}import torch; print('goes on')"], **environment)
        assert (done.returncode, done.stdout) == (0, "goes on\n")
        assert "has no topk-workbench" in done.stderr
    assert not Path(folder).exists()
