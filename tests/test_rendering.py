"""Results know how a notebook shows them, and rooms below figures import nothing for it."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch

import workbench as wb
from tests.returned import OWN, returned
from workbench.figures.notebook import _PAGES, _TOLD, parts_of
from workbench.rendering import RENDERER, Rendered

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "captures" / "public-vllm-v100.safetensors"


GIVEN, HANDLE = "it is given, not made", "it is at work, no result"
# What the public surface hands out and no notebook shows richly: why, in words, or the result that it is told with.
PLAIN = {
    "paths.arrival.Arrival": GIVEN,
    "capture.mapped.Mapped": GIVEN,
    "paths.conditions.Setup": GIVEN,
    "analysis.whatif.Alteration": GIVEN,
    "analysis.whatif.Setting": GIVEN,
    "record.recorder.Recorder": HANDLE,
    "capture.store.Store": HANDLE,
    "capture.source.Source": HANDLE,
    "runs.captured.CapturedRun": HANDLE,
    "runs.case.Case": "it is what an Inspection was made from",
    "capture.tokens.Tokens": "it is a sequence, whose items are shown",
    "paths.spec.Evidence": "it is a word",
    "analysis.samples.Ratio": "Bench",
    "runs.bench.Plan": "Bench",
    "engines.timing.Machine": "Bench",
    "runs.bench.BenchCell": "Bench",
    "runs.matrix.MatrixRow": "Matrix",
    "runs.doctor.Fact": "Doctor",
    "runs.remedy.Counted": "Remedy",
    "paths.costs.Cost": "Remedy",
    "runs.report.Line": "Report",
    "paths.conditions.Condition": "Route",
    "paths.selection.Telemetry": "Selection",
    "analysis.shrinking.fault.Fault": "Shrunk",
    "runs.shrink.Figures": "Shrunk",
    "numeric.select.Difference": "Verdict",
    "analysis.whatif.Enough": "WhatIf",
    "runs.whatif.Scores": "WhatIf",
    "paths.spec.Variant": "Path",
    "paths.spec.Buffer": "Path",
    "paths.spec.Walk": "Path",
    "paths.spec.Contract": "Path",
    "analysis.divergence.tokens.TokenStep": "Comparison",
    "analysis.divergence.alignment.Event": "Comparison",
    "runs.divergence.Place": "Point",
    "analysis.divergence.selections.Judged": "Point",
    "analysis.divergence.inputs.InputDifference": "Detail",
    "analysis.divergence.selections.SelectionDifference": "Detail",
    "analysis.repeatability.Member": "Repeatability",
    "analysis.repeatability.Held": "Repeated",
}


def test_whatever_the_public_surface_hands_out_shows_itself() -> None:
    found = {kind: how for kind, how in returned().items() if not issubclass(kind, BaseException)}
    plain = {kind.__module__.removeprefix(OWN) + f".{kind.__qualname__}": how for kind, how in found.items()}
    shown = {f"{kind.__module__.removeprefix(OWN)}.{kind.__qualname__}" for kind in found if issubclass(kind, Rendered)}
    missing = {name: how for name, how in plain.items() if name not in shown and name not in PLAIN}
    assert not missing, "give them the base Rendered and a line in figures/notebook.py, or a reason here"
    assert not set(PLAIN) - set(plain), "these are handed out no more"
    assert not set(PLAIN) & shown, "these are shown"
    whole = {name.rpartition(".")[2] for name in shown}
    assert {reason for reason in PLAIN.values() if " " not in reason} <= whole
    assert {"Repeated", "Path", "Plan", "Cell", "Remedy", "Token", "Point", "Curve"} <= whole


def subclasses(kind: type) -> set[type]:
    return {one for sub in kind.__subclasses__() for one in (sub, *subclasses(sub))}


def test_every_result_is_told_and_nothing_else_is() -> None:
    named = {name: getattr(import_module(name.rpartition(".")[0]), name.rpartition(".")[2]) for name in _TOLD}
    assert all(issubclass(kind, Rendered) for kind in named.values())
    # by name, as a dataclass with slots is made from a class of the same name
    own = {f"{one.__module__}.{one.__qualname__}" for one in subclasses(Rendered)}
    assert {name for name in own if name.startswith(OWN)} == set(named)
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
        def __init__(self, *stack: int) -> None:
            self.said, self.stack = "", stack

        def text(self, text: str) -> None:
            self.said += text

    printer = Printer(1)
    found = wb.inspect(wb.open(SAMPLE)[0])
    found._repr_pretty_(printer, False)
    first, *rest = printer.said.splitlines()
    assert first.startswith("The model of vllm.histogram_2048 (stock) lost 64 winners of 512")
    assert "<" not in printer.said.replace("<1e", "")
    assert any(line.split()[:2] == ["vllm.histogram_4096", "at"] for line in rest)
    shown = Printer(1)
    found.census[0]._repr_pretty_(shown, True)
    assert shown.said == repr(found.census[0])
    inside = Printer(1, 2)
    found._repr_pretty_(inside, False)
    assert inside.said == f"<Inspection: {first}>"


def test_in_a_list_each_is_a_line() -> None:
    from IPython.lib.pretty import pretty

    row = wb.Row(torch.zeros(3), 3, call=wb.Call(k=2))
    assert pretty([row, wb.reference(row)]).splitlines() == [
        "[<Row: A row in memory: 3 scores, float32, k 2.>,",
        " <Selection: 2 indices in 2 slots: 0, 1>]",
    ]
    names = pretty(list(wb.paths("vllm.*"))).splitlines()
    assert len(names) == len(wb.paths("vllm.*"))
    assert all(name[1:].startswith("<Path: vllm.") for name in names)
    assert pretty([row.call])[1:].startswith("Call(")  # it has no sentence
