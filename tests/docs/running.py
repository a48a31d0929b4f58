"""Blocks of the documentation, run in a folder that looks like the checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from tests import warm
from tests.docs.blocks import ROOT, Block, Command, commands
from tests.docs.yours import write_yours

LINKED = ("captures", "tests", "docs", "kernels", "pyproject.toml", "workbench")


def make_checkout(folder: Path) -> None:
    """Make a folder look like the checkout to a command, with a user's own files in it; it takes what a page writes."""
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)
    write_yours(folder)


def run_blocks(found: Collection[Block], folder: Path, variables: Mapping[str, str]) -> None:
    """Run blocks in order, in one folder. What the page shows must be what is printed; ``…`` skips lines."""
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)} | dict(variables)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    printed = ""
    for block in found:
        if block.kind == "text":
            _check(block, "the Python above", block.body, printed)
        elif block.kind == "python":
            printed = _run(block, _code(block, folder), folder, environment)
        else:
            for command in commands(block):
                output = _run(block, _started(command), folder, environment | command.variables, _codes(command))
                if command.to is not None:
                    (folder / command.to).write_text(output)
                elif command.shown.strip():
                    _check(block, " ".join(command.words), command.shown, output)


def _code(block: Block, folder: Path) -> list[str]:
    """Python, which pytest runs where it holds tests."""
    if not re.search(r"^def test_", block.body, re.MULTILINE):
        return [sys.executable, "-c", block.body]
    file = folder / f"test_{block.page.stem}_{block.line}.py"
    file.write_text(block.body)
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file.name]


def _started(command: Command) -> list[str]:
    if command.program == "workbench":
        return [sys.executable, "-m", *command.words]
    if command.program == "python":
        return [sys.executable, *command.words[1:]]
    return list(command.words)


def _codes(command: Command) -> tuple[int, ...]:
    """1 is a finding of the workbench or of tests; what ``record`` runs gives its own code."""
    finds = command.words[:2] != ("workbench", "record") and {"workbench", "pytest"} & set(command.words)
    return (0, 1) if finds else (0,)


def _run(
    block: Block, command: list[str], folder: Path, environment: Mapping[str, str], codes: tuple[int, ...] = (0,)
) -> str:
    if command[0] == sys.executable and command[1] in ("-m", "-c"):
        done = warm.run(command, cwd=folder, env=environment)
    else:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in codes, f"{block}: {command}\n{done.stdout}{done.stderr}"
    return done.stdout


def _check(block: Block, what: str, shown: str, output: str) -> None:
    pattern = ".*".join(re.escape(part) for part in re.split(r"^…\n", shown, flags=re.MULTILINE))
    trimmed = "".join(f"{line.rstrip()}\n" for line in output.splitlines())
    assert re.fullmatch(pattern, trimmed, re.DOTALL), f"{block}: {what}\n{output}"
