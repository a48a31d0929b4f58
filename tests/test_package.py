"""The package as its users and its rooms see it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import workbench as wb
from workbench.analysis.risk import LOSING
from workbench.analysis.verdict import LOST
from workbench.resources import app_entry, kernels_dir, samples_dir
from workbench.words import UNKNOWN

ROOT = Path(__file__).parent.parent
HEAVY = ("cupy", "streamlit", "plotly", "pandas", "pyarrow", "ray", "vllm", "sglang", "rich", "typer")


def test_all_is_sorted_and_every_name_is_there_whatever_was_imported_before() -> None:
    assert list(wb.__all__) == sorted(wb.__all__)
    assert set(wb.__all__) <= set(dir(wb))
    code = (
        "import importlib, pkgutil, workbench as wb\n"
        "rooms = [room.name for room in pkgutil.iter_modules(wb.__path__) if room.name != '__main__']\n"
        "for room in rooms: importlib.import_module('workbench.' + room)\n"
        "import workbench.runs.inspect, workbench.capture.opening\n"
        "print(all(callable(getattr(wb, name)) for name in wb.__all__))"
    )
    assert printed(code) == "True\n"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        wb.nothing  # noqa: B018


def test_the_root_alone_does_not_wait_for_torch() -> None:
    assert printed("import sys, workbench, workbench.cli.main; print('torch' in sys.modules)") == "False\n"


USE = "workbench.run, workbench.open, workbench.inspect, workbench.write"


def printed(code: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_looking_at_a_file_imports_nothing_heavy() -> None:
    assert printed(f"import sys, workbench; {USE}; print([x for x in {HEAVY!r} if x in sys.modules])") == "[]\n"


def test_import_stays_under_half_a_second_beyond_torch() -> None:
    """Of processor time, which other programs on a busy machine do not add to, where files are in memory already."""
    timed = f"import torch, time; t = time.process_time(); import workbench; {USE}; print(time.process_time() - t)"
    assert min(float(printed(timed)) for _ in range(3)) < 0.5


def test_the_word_for_what_is_not_known_has_one_home() -> None:
    """A second constant would let the faces part."""
    homes = [
        source.relative_to(ROOT).as_posix()
        for source in sorted((ROOT / "workbench").rglob("*.py"))
        for node in ast.parse(source.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign)
        and any(isinstance(value, ast.Constant) and value.value == UNKNOWN for value in _values(node.value))
    ]
    assert homes == ["workbench/words.py"]


def _values(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def imports(source: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append(node.module or "")
    return found


def test_rooms_never_import_the_package_root() -> None:
    sources = list((ROOT / "workbench").rglob("*.py"))
    assert len(sources) > 30
    assert [path for path in sources if "workbench" in imports(path)] == []


def spelled(source: Path) -> list[tuple[object, ...]]:
    """The constants of every tuple, list and set of them in a module, but those of annotations."""
    tree = ast.parse(source.read_text())
    annotated = {id(node.slice) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple | ast.List | ast.Set) and id(node) not in annotated:
            values = [one.value for one in node.elts if isinstance(one, ast.Constant)]
            found += [tuple(values)] if len(values) == len(node.elts) else []
    return found


def test_the_levels_and_verdicts_of_a_loss_have_one_name() -> None:
    """``analysis.risk.LOSING`` and ``analysis.verdict.LOST``, for whoever asks whether a row lost or can lose."""
    assert LOSING == ("at risk", "certain")
    sources = (ROOT / "workbench").rglob("*.py")
    places = {source.relative_to(ROOT).as_posix(): spelled(source) for source in sources}
    assert [name for name, found in places.items() if LOSING in found] == []
    assert [name for name, found in places.items() if LOST in found] == ["workbench/analysis/verdict.py"]


def test_the_app_entry_is_thin() -> None:
    own = [name for name in imports(ROOT / "app.py") if name.startswith("workbench")]
    assert own
    assert all(name.startswith("workbench.ui") for name in own)


def test_resources_are_found_in_the_checkout() -> None:
    assert kernels_dir() == ROOT / "kernels"
    assert list(kernels_dir().glob("*.cuh"))
    assert list(samples_dir().glob("*.safetensors"))
    assert app_entry() == ROOT / "app.py"


@pytest.mark.parametrize("path", sorted((ROOT / "workbench").rglob("*.py")), ids=lambda path: path.name)
def test_modules_stay_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400
