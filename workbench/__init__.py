"""The top-k workbench: captured score rows, serving engines' selectors beside an exact reference, and what broke."""

from __future__ import annotations

from workbench.analysis.reference import reference
from workbench.analysis.risk import Risk
from workbench.analysis.verdict import Verdict
from workbench.capture import Call, Capture, Row
from workbench.capture import open_capture as open
from workbench.capture import write_capture as write
from workbench.errors import CaptureError, UsageError, WorkbenchError
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import find_paths as paths
from workbench.paths.routing import Route, route
from workbench.paths.selection import Selection
from workbench.runs.inspect import Inspection
from workbench.runs.inspect import inspect_row as inspect
from workbench.runs.report import Report
from workbench.runs.run import run

__version__ = "0.1.0"

__all__ = [
    "Arrival",
    "Call",
    "Capture",
    "CaptureError",
    "Inspection",
    "Report",
    "Risk",
    "Route",
    "Row",
    "Selection",
    "UsageError",
    "Verdict",
    "WorkbenchError",
    "inspect",
    "open",
    "paths",
    "reference",
    "route",
    "run",
    "write",
]
