"""Commands and code of the documentation that need a GPU (blocks tagged ``gpu``), each by itself in a checkout."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, Block, blocks, commands
from tests.docs.running import make_checkout, run_blocks
from workbench.vendor import store

RELEASE = re.compile(r"((?:vllm|sglang-kernel)==)([\d.]+?)(?:\.\.([\d.]+))?$")
CAPTURED = "vllm==0.26.0"  # what the capture of ``yours`` names, where a command names no release


def lacking(block: Block) -> list[str]:
    """What this machine does not have of what a block needs: programs, and releases that ``vendor add`` fetches."""
    found = []
    if "cuda" in block.body and importlib.util.find_spec("cupy") is None:
        found.append("CuPy (extras cuda12, cuda13)")
    if block.kind == "python":
        return found
    stored = {one.release for one in store.entries()}
    for command in commands(block):
        if command.program not in ("workbench", "python") and shutil.which(command.program) is None:
            found.append(command.program)
        if "vendor" in command.words:
            named = [match for match in map(RELEASE.match, command.words) if match]
            wanted = {package + end for package, *ends in map(re.Match.groups, named) for end in ends if end}
            found += sorted((wanted or {CAPTURED}) - stored)
    return found


@pytest.mark.parametrize("block", [block for page in PAGES for block in blocks(page) if "gpu" in block.tags], ids=str)
def test_commands_and_code_run(block: Block, tmp_path: Path) -> None:
    if lacks := lacking(block):
        pytest.skip(f"not on this machine: {', '.join(lacks)}")
    make_checkout(tmp_path)
    run_blocks([block], tmp_path, {})
