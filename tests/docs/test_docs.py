"""The documentation: its tables follow from the code, its links lead somewhere, its commands and code run."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests import warm
from tests.docs import tables

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "captures" / "README.md"]
BLOCK = re.compile(r"^```(?P<kind>console|python)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)(?P<target>[^)#]+)")


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(match["kind"], match["body"]) for match in BLOCK.finditer(page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_tables_follow_from_the_code(page: Path) -> None:
    text = page.read_text()
    assert tables.filled(text) == text, "run: python -m tests.docs.tables"


def test_every_table_stands_somewhere() -> None:
    named = {match["name"] for page in PAGES for match in tables.REGION.finditer(page.read_text())}
    assert named == set(tables.TABLES)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_nothing_is_left_of_a_merge(page: Path) -> None:
    assert not re.search(r"^(<{7}|>{7}|={7}$)", page.read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page: Path) -> None:
    for match in LINK.finditer(page.read_text()):
        assert (page.parent / match["target"]).exists(), match["target"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that looks like the checkout to a command, and takes what a page writes."""
    for name in ("captures", "tests", "docs", "pyproject.toml", "workbench"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=page_id)
def test_commands_and_code_run(page: Path, checkout: Path) -> None:
    """Every block of a page in order, in one folder. Shown output must be the real one; ``…`` skips lines."""
    for kind, body in blocks(page):
        if kind == "python":
            _run([sys.executable, "-c", body], checkout)
            continue
        for command, shown in _commands(body):
            if "pytest" in command:
                continue  # this very suite runs it
            output = _run([sys.executable, "-m", "workbench", *command[1:]], checkout, codes=(0, 1))
            if shown:
                pattern = ".*".join(re.escape(part) for part in re.split(r"^…\n", shown, flags=re.MULTILINE))
                assert re.fullmatch(pattern, _trimmed(output), re.DOTALL), f"{command}\n{output}"


def _commands(body: str) -> list[tuple[list[str], str]]:
    found = []
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        line, _, shown = part.partition("\n")
        command = shlex.split(line)
        assert command[0] == "workbench" or "pytest" in command, f"{line}: only workbench commands are shown"
        found.append((command, shown))
    return found


def _trimmed(output: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in output.splitlines())


def _run(command: list[str], folder: Path, codes: tuple[int, ...] = (0,)) -> str:
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    environment["TOPK_WORKBENCH_VENDOR"] = str(folder / "vendor")  # the user's own store is none of a page's business
    done = warm.run(command, cwd=folder, env=environment)
    assert done.returncode in codes, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_every_command_is_documented() -> None:
    from workbench.cli.main import app

    text = "".join(page.read_text() for page in PAGES)
    for command in app.registered_commands:
        name = command.name or command.callback.__name__.replace("_", "-")
        assert f"workbench {name}" in text, name
    for group in app.registered_groups:
        for command in group.typer_instance.registered_commands:
            named = "" if command.name == group.name else f" {command.name}"  # it goes by the group's name
            assert f"workbench {group.name}{named}" in text, command.name
