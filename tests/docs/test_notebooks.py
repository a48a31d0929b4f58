"""The notebooks as files: ``make test`` runs their cells (``pytest --nbmake``)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
LINK = re.compile(r"\]\((?!https?:|#)(?P<target>[^)#]+)")


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


@pytest.fixture
def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["cells"]
    return found


def test_the_guides_are_there() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["bad-row", "greedy-divergence", "regression-test", "what-would-fix-it"]
    page = (ROOT / "docs" / "notebooks.md").read_text()
    assert all(f"(notebooks/{path.name})" in page for path in NOTEBOOKS)


def test_it_is_kept_without_outputs_and_names_no_machine(path: Path, cells: list[dict[str, Any]]) -> None:
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert json.loads(path.read_text())["metadata"] == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    assert not re.search(r"/(home|root|tmp|work|Users)/", path.read_text())


def test_it_reads_as_a_guide(cells: list[dict[str, Any]]) -> None:
    kinds = [cell["cell_type"] for cell in cells]
    assert kinds[0] == kinds[-1] == "markdown"
    assert "".join(cells[0]["source"]).startswith("# ")
    assert kinds.count("markdown") >= 5
    assert len({cell["id"] for cell in cells}) == len(cells)


def test_links_and_captures_are_there(path: Path, cells: list[dict[str, Any]]) -> None:
    text = "".join("".join(cell["source"]) for cell in cells)
    targets = [match["target"] for match in LINK.finditer(text)]
    targets += re.findall(r'"(\.\./\.\./captures/[^"{}]+)"', text)
    assert targets
    assert [target for target in targets if not (path.parent / target).exists()] == []
