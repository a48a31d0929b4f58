"""The top-k workbench: captured score rows, serving engines' selectors beside an exact reference, and what broke."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

# Not lazy: importing the room of the same name later would hide the function. They need no torch.
from workbench.audit.front import audit
from workbench.export.front import export
from workbench.paths.catalog import find_paths as paths
from workbench.record.front import record

if TYPE_CHECKING:
    from workbench.analysis.reference import reference
    from workbench.analysis.risk import Risk
    from workbench.analysis.verdict import Verdict
    from workbench.capture import Call, Capture, Row, Token
    from workbench.capture import open_capture as open
    from workbench.capture import write_capture as write
    from workbench.capture.mapped import Mapped
    from workbench.errors import CaptureError, UsageError, WorkbenchError
    from workbench.export.writing import Exported
    from workbench.figures.front import figure
    from workbench.paths.arrival import Arrival
    from workbench.paths.conditions import Setup
    from workbench.paths.outside import route
    from workbench.paths.plan import Plan, plan_topk_v2
    from workbench.paths.routing import Route
    from workbench.paths.selection import Selection
    from workbench.runs.advise import advise
    from workbench.runs.bench import Bench
    from workbench.runs.bench_front import bench
    from workbench.runs.bisect import Bisection, bisect_release
    from workbench.runs.compare import Compared, compare
    from workbench.runs.diverge import diverge
    from workbench.runs.divergence import Divergence
    from workbench.runs.doctor import Doctor, doctor
    from workbench.runs.inspect import Inspection
    from workbench.runs.inspect import inspect_row as inspect
    from workbench.runs.matrix import Cell, Matrix, matrix
    from workbench.runs.matrix_saved import read_matrix, write_matrix
    from workbench.runs.remedy import Advice, Remedy
    from workbench.runs.repeat import repeat
    from workbench.runs.report import Report
    from workbench.runs.run import run
    from workbench.runs.shrink import Shrunk, shrink
    from workbench.runs.whatif import WhatIf, what_if
    from workbench.synthetic.make import make

__version__ = "0.1.0"

__all__ = [
    "Advice",
    "Arrival",
    "Bench",
    "Bisection",
    "Call",
    "Capture",
    "CaptureError",
    "Cell",
    "Compared",
    "Divergence",
    "Doctor",
    "Exported",
    "Inspection",
    "Mapped",
    "Matrix",
    "Plan",
    "Remedy",
    "Report",
    "Risk",
    "Route",
    "Row",
    "Selection",
    "Setup",
    "Shrunk",
    "Token",
    "UsageError",
    "Verdict",
    "WhatIf",
    "WorkbenchError",
    "advise",
    "audit",
    "bench",
    "bisect_release",
    "compare",
    "diverge",
    "doctor",
    "export",
    "figure",
    "inspect",
    "make",
    "matrix",
    "open",
    "paths",
    "plan_topk_v2",
    "read_matrix",
    "record",
    "reference",
    "repeat",
    "route",
    "run",
    "shrink",
    "what_if",
    "write",
    "write_matrix",
]

# Where each public name is; imported on first use, so that `workbench --help` does not wait for torch.
_HOMES = {
    "Advice": "runs.remedy",
    "Arrival": "paths.arrival",
    "Bench": "runs.bench",
    "Bisection": "runs.bisect",
    "Call": "capture.row",
    "Capture": "capture",
    "CaptureError": "errors",
    "Cell": "runs.matrix",
    "Compared": "runs.compare",
    "Divergence": "runs.divergence",
    "Doctor": "runs.doctor",
    "Exported": "export.writing",
    "Inspection": "runs.inspect",
    "Mapped": "capture.mapped",
    "Matrix": "runs.matrix",
    "Plan": "paths.plan",
    "Remedy": "runs.remedy",
    "Report": "runs.report",
    "Risk": "analysis.risk",
    "Route": "paths.routing",
    "Row": "capture.row",
    "Selection": "paths.selection",
    "Setup": "paths.conditions",
    "Shrunk": "runs.shrink",
    "Token": "capture",
    "UsageError": "errors",
    "Verdict": "analysis.verdict",
    "WhatIf": "runs.whatif",
    "WorkbenchError": "errors",
    "advise": "runs.advise",
    "bench": "runs.bench_front",
    "bisect_release": "runs.bisect",
    "compare": "runs.compare",
    "diverge": "runs.diverge",
    "doctor": "runs.doctor",
    "figure": "figures.front",
    "inspect": "runs.inspect:inspect_row",
    "make": "synthetic.make",
    "matrix": "runs.matrix",
    "open": "capture:open_capture",
    "plan_topk_v2": "paths.plan",
    "read_matrix": "runs.matrix_saved",
    "reference": "analysis.reference",
    "repeat": "runs.repeat",
    "route": "paths.outside",
    "run": "runs.run",
    "shrink": "runs.shrink",
    "what_if": "runs.whatif",
    "write": "capture:write_capture",
    "write_matrix": "runs.matrix_saved",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    value = getattr(import_module(f"{__name__}.{module}"), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
