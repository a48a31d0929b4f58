"""The documentation: its tables follow from the code, its links lead somewhere, its commands and code run."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.docs import parsing, tables
from tests.docs.blocks import KINDS, PAGES, ROOT, TAGS, Block, blocks, commands, page_id
from tests.docs.running import make_checkout, run_blocks

LINK = re.compile(r"\]\((?!https?:|#)(?P<target>[^)#]+)")
TAGGED = [block for page in PAGES for block in blocks(page) if block.tags]


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


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_block_says_what_it_is(page: Path) -> None:
    """No block is left to itself: it is run here, or in ``tests/gpu``, or a tag says why not."""
    for block in blocks(page):
        assert block.kind in KINDS, f"{block}: a block is {' or '.join(KINDS)}, not {block.kind!r}"
        assert block.tags <= set(TAGS), f"{block}: tags are {', '.join(TAGS)}"
    kinds = [(block.kind, block.tags) for block in blocks(page)]
    for before, (kind, tags) in pairwise([("", frozenset()), *kinds]):
        assert kind != "text" or (before == ("python", frozenset()) and not tags), f"{page_id(page)}: text of no code"


def here(page: Path) -> list[Block]:
    return [block for block in blocks(page) if not block.tags]


@pytest.mark.parametrize("page", [page for page in PAGES if here(page)], ids=page_id)
def test_commands_and_code_run(page: Path, tmp_path: Path) -> None:
    """Every block of a page in order, in one folder. Shown output must be the real one; ``…`` skips lines."""
    make_checkout(tmp_path)
    # The user's own store is none of a page's business.
    run_blocks(here(page), tmp_path, {"TOPK_WORKBENCH_VENDOR": str(tmp_path / "vendor")})


@pytest.mark.parametrize("block", TAGGED, ids=str)
def test_what_is_not_run_everywhere_is_called_rightly(block: Block) -> None:
    parsing.check(block)


@pytest.mark.parametrize(
    ("kind", "body", "told"),
    [
        ("console", "$ workbench inspect rows --no-such-option 1", "No such option"),
        ("console", "$ workbench inspct rows", "No such command"),
        ("console", "$ workbench bench compare a.json", "Missing parameter: second"),
        ("console", "$ workbench repeat rows --repeats many", "is no integer from 2"),
        ("console", "$ TOPK_WORKBENCH_RECORD=data,row=bad vllm serve MODEL", "'row=bad' is no option"),
        ("console", "$ python3 -m tests.no_such_module", "no module"),
        ("console", "$ torchrun decode.py\n$ rm -r rows", "rm: only workbench"),
        ("console", "$ pip install 'topk-workbench[no-such]'", "no extra"),
        ("console", "$ make no-such", "no target"),
        ("console", "workbench inspect rows", "a command begins with"),
        ("python", "from workbench.engines.cuda.launch import lunch", "lunch"),
        ("python", "from workbench.engines.cuda.census import count_rows\ncount_rows(1, 2)", "missing a required"),
    ],
)
def test_a_wrong_call_is_found(kind: str, body: str, told: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(told)):
        parsing.check(Block(ROOT / "README.md", 1, (kind, "gpu"), f"{body}\n"))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_commands_and_options_that_prose_names_are_there(page: Path) -> None:
    assert parsing.unknown_in(page.read_text()) == []


def test_prose_that_names_what_is_not_there_is_found() -> None:
    wrong = "`workbench inspct FILE`, `workbench run --nonesuch`, `workbench bench --nonesuch 1`"
    right = "`workbench run FILE --json`, `workbench audit report`, `workbench bench --boundaries`"
    assert parsing.unknown_in(f"{wrong}, {right}") == re.findall("`(.*?)`", wrong)


def test_a_command_is_read_as_a_shell_reads_it() -> None:
    body = "$ A=1 workbench run 'a b' \\\n    --json > out.json  # says why\n$ workbench info c\nshown\n"
    first, second = commands(Block(ROOT / "README.md", 1, ("console",), body))
    assert (first.words, first.variables) == (("workbench", "run", "a b", "--json"), {"A": "1"})
    assert (first.to, first.shown, second.shown) == ("out.json", "", "shown\n")


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
