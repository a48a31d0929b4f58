"""``workbench doctor``: tables, one document, and its exit codes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from workbench.runs import looks
from workbench.runs.doctor import Fact

Cli = Callable[..., Result]
CliJson = Callable[..., tuple[int, Any]]

KEYS = {"area", "name", "value", "state", "why", "cure", "details"}
DOCUMENT = {"command", "workbench", "sentence", "broken", "facts"}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> list[Fact]:
    """The facts that are found, which a test adds to."""
    facts = [
        Fact("engines", "model", "answers on this machine"),
        Fact("kernels", "CuPy", "not installed", "absent", "kernels run through it", "pip install 'x'"),
    ]
    monkeypatch.setattr(looks, "all_looks", lambda **_: [("engines", "engines", lambda: iter(facts))])
    return facts


def test_what_is_only_absent_is_no_fault(cli: Cli, cli_json: CliJson, few: list[Fact]) -> None:
    result = cli("doctor")
    assert result.exit_code == 0
    assert "CuPy" in result.stdout
    assert "absent: not installed" in result.stdout
    assert "      pip install 'x'" in result.stdout
    assert result.stdout.splitlines()[-1] == "Nothing is broken; engines that can answer here: model."
    code, document = cli_json("doctor")
    assert code == 0
    assert set(document) == DOCUMENT
    assert document["broken"] == 0
    assert all(set(one) == KEYS for one in document["facts"])


def test_what_does_not_work_is_1(cli: Cli, cli_json: CliJson, few: list[Fact]) -> None:
    few.append(Fact("serving", "vllm", "0.26.0", "broken", "ImportError: no library\x1b[31m", "install it again"))
    result = cli("doctor")
    assert result.exit_code == 1
    assert "vllm (broken): ImportError: no library\\x1b[31m" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("vllm is broken; ")
    code, document = cli_json("doctor")
    assert (code, document["broken"]) == (1, 1)
    assert [one["name"] for one in document["facts"] if one["state"] == "broken"] == ["vllm"]


def test_bad_usage_is_2(cli: Cli) -> None:
    for given in (("--timeout", "0"), ("--timeout", "soon"), ("--verbose",), ("nothing",)):
        result = cli("doctor", *given)
        assert result.exit_code == 2
        assert "Traceback" not in result.stderr


def test_help_teaches(cli: Cli) -> None:
    text = cli("doctor", "--help").stdout
    assert "workbench doctor --json > environment.json" in text
    assert "exit code 1 means" in " ".join(text.split())


def test_the_documentation_names_every_key() -> None:
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()
    assert all(f"`{name}`" in page for name in KEYS | DOCUMENT)
