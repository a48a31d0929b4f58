"""``workbench audit compare`` as a user meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import Result

from tests.audit.made import OTHER, census, dataset, digest, recorded

Run = Callable[..., Result]


def two(folder: Path) -> tuple[Path, Path]:
    """Monday is fine; on Tuesday a row of the same input lost winners, another one vanished, and a bad one appeared."""
    lines = [line for row in range(4) for line in (census("a", row, layer=row), recorded("a", row, layer=row))]
    monday = dataset(folder / "monday", [lines])
    lost = recorded("a", 1, "lossy", 7, layer=1, selection=digest("another"))
    tuesday = [*lines[:2], census("a", 1, layer=1, risk="at risk"), lost, *lines[4:6]]
    tuesday += [census("b", 0, layer=0, risk="certain"), census("b", 0, OTHER, layer=0)]
    return monday, dataset(folder / "tuesday", [tuesday])


def test_it_says_what_changed(cli: Run, tmp_path: Path) -> None:
    monday, tuesday = two(tmp_path)
    result = cli("audit", "compare", monday, tuesday)
    said = " ".join(result.stdout.split())
    assert result.exit_code == 1
    assert (
        "tuesday is worse: 1 row of both is worse, 1 bad row appeared and 1 recorded selection of the same input "
        "differs and lost winners. 3 rows of both: 3 with the same input; 1 vanished; 1 appeared." in said
    )
    assert "exact lossy 1" in said
    assert "vllm.histogram_256 safe at risk 1" in said
    assert "a 1 1 exact, safe → lossy, at risk" in said
    assert f"path of {tuesday} alone: {OTHER}" in said
    assert max(map(len, result.stdout.splitlines())) <= 100
    back = cli("audit", "compare", tuesday, monday)
    assert back.exit_code == 1  # what varies on the same input and lost is a finding either way
    assert cli("audit", "compare", monday, monday).exit_code == 0


def test_json_is_one_document(cli_json: Callable[..., tuple[int, Any]], tmp_path: Path) -> None:
    code, said = cli_json("audit", "compare", *two(tmp_path))
    found = said["comparison"]
    assert (code, said["command"], said["worse"]) == (1, "audit compare", True)
    assert (found["paired"], found["vanished"], found["appeared_bad"], found["other_selection"]) == (3, 1, 1, 1)
    assert found["examples"]["appeared"][0]["file"] == "b"


def test_bad_input_is_one_line(cli: Run, tmp_path: Path) -> None:
    monday, tuesday = two(tmp_path)
    about = json.loads((tuesday / "audit.json").read_text())
    (tuesday / "audit.json").write_text(json.dumps({**about, "finished": False}))
    for given, said in (
        ((monday, tmp_path / "none"), "no such folder"),
        ((monday, tmp_path), "this is no audit's output folder"),
        ((monday, tuesday), "the audit is not finished"),
        ((monday, dataset(tmp_path / "empty", [])), "have no row in common"),
    ):
        result = cli("audit", "compare", *given)
        assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
        assert said in result.stderr
    assert cli("audit", "compare", monday).exit_code == 2
