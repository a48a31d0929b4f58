"""Results know how a notebook shows them, and rooms below figures import nothing for it."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import workbench as wb
from workbench.figures.notebook import _PAGES, _TOLD, parts_of
from workbench.rendering import RENDERER, Rendered

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "captures" / "public-vllm-v100.safetensors"


def subclasses(kind: type) -> set[type]:
    return {one for sub in kind.__subclasses__() for one in (sub, *subclasses(sub))}


def test_every_result_is_told_and_nothing_else_is() -> None:
    named = {name: getattr(import_module(name.rpartition(".")[0]), name.rpartition(".")[2]) for name in _TOLD}
    assert all(issubclass(kind, Rendered) for kind in named.values())
    own = {one for one in subclasses(Rendered) if one.__module__.startswith("workbench.")}
    assert own == set(named.values())
    assert set(_PAGES) <= set(_TOLD)
    for place in (*_TOLD.values(), *_PAGES.values()):
        module, _, function = place.partition(":")
        assert callable(getattr(import_module(f"workbench.figures.{module}"), function))


def test_a_result_asks_for_figures_only_when_it_is_shown() -> None:
    code = (
        "import sys, workbench as wb\n"
        f"found = wb.inspect(wb.open({str(SAMPLE)!r})[0])\n"
        "def loaded(*names): return [n for n in names if n in sys.modules]\n"
        f"print(loaded({RENDERER!r}, 'workbench.figures', 'plotly', 'pandas', 'IPython'))\n"
        "html = found._repr_html_()\n"
        f"print(loaded({RENDERER!r}, 'plotly', 'pandas', 'IPython'), 'lost 64 winners' in html)\n"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == ["[]", f"['{RENDERER}'] True"]


def test_without_plotly_all_but_pictures_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)
    found = wb.inspect(wb.open(SAMPLE)[0])
    assert "lost 64 winners of 512" in found._repr_html_()


def test_a_kind_that_is_not_told_is_an_error_that_ipython_passes_over() -> None:
    class Other(Rendered):
        pass

    with pytest.raises(NotImplementedError, match="Other"):
        parts_of(Other())


def test_a_subclass_is_shown_as_what_it_is() -> None:
    class MyRow(wb.Row):
        pass

    row = wb.open(SAMPLE)[0]
    mine = MyRow(row.scores, row.length, call=row.call)
    assert mine._repr_html_().count("<table>") == wb.Row(row.scores, row.length, call=row.call)._repr_html_().count(
        "<table>"
    )


def test_a_terminal_prints_text_and_a_cycle_the_bare_value() -> None:
    class Printer:
        said = ""

        def text(self, text: str) -> None:
            self.said += text

    printer = Printer()
    found = wb.inspect(wb.open(SAMPLE)[0])
    found._repr_pretty_(printer, False)
    first, *rest = printer.said.splitlines()
    assert first.startswith("vllm.histogram_2048 (stock) lost 64 winners of 512")
    assert "<" not in printer.said.replace("<1e", "")
    assert any(line.split()[:2] == ["vllm.histogram_4096", "at"] for line in rest)
    shown = Printer()
    found.census[0]._repr_pretty_(shown, True)
    assert shown.said == repr(found.census[0])
