"""``wb.figure``: the pictures of the app, of results in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.arguments import checked
from workbench.audit.summary import Summary
from workbench.errors import UsageError
from workbench.figures.audit import grid_figure, paths_figure
from workbench.figures.compare import compared_figure
from workbench.figures.of_inspection import bins_picture, capacity_picture, diff_picture
from workbench.figures.releases import releases_figure
from workbench.figures.remedies import remedies_figure, shown
from workbench.figures.timeline import timeline, timeline_figure
from workbench.runs.bisect import Bisection
from workbench.runs.compare import Compared
from workbench.runs.divergence import Comparison, Divergence
from workbench.runs.inspect import Inspection
from workbench.runs.matrix import Matrix
from workbench.runs.remedy import Advice
from workbench.words import described, listed

if TYPE_CHECKING:
    import plotly.graph_objects as go

_DRAWN = (
    *("an Inspection", "a Divergence", "a Comparison", "a Matrix", "a Bisection", "a Compared", "an Advice"),
    "the Summary of an audit",
)
_OF_PATH = ("bins", "diff")  # views that are of one path


@checked
def figure(result: object, view: str | None = None, *, path: str | None = None) -> go.Figure:
    """A picture of a result, as the app draws it: a figure of plotly, to be shown, changed or saved.

    Args:
        result: an Inspection, Divergence, Comparison, Matrix, Bisection, Compared or Advice, or the Summary of
            an audit.
        view: of an Inspection ``bins``, ``capacity`` or ``diff``; of a Divergence or Comparison ``timeline``; of a
            Matrix or Bisection ``releases``; of a Compared ``compare``; of an Advice ``remedies``, of its first op that
            has some; of a Summary ``paths`` or ``layers``. By default the first of these.
        path: of ``bins``, whose bins; of ``diff``, whose selection. By default what the inspection's sentence is about.

    Raises:
        UsageError: there is no such picture of the result, or nothing to draw.
    """
    views = _views(result, path)
    name = next(iter(views)) if view is None else view
    if name not in views:
        raise UsageError(f"{view!r} is no view of this result; {listed(map(repr, views), 'or')}")
    if path is not None and name not in _OF_PATH:
        raise UsageError(f"the view {name} is of no one path")
    drawn = views[name]()
    if drawn is None:
        raise UsageError("the rows say neither layer nor step: there is nothing to draw")
    return drawn


def _views(result: object, path: str | None) -> dict[str, Callable[[], go.Figure | None]]:
    match result:
        case Inspection():
            return {
                "bins": lambda: bins_picture(result, path),
                "capacity": lambda: capacity_picture(result),
                "diff": lambda: diff_picture(result, path),
            }
        case Divergence():
            return {"timeline": lambda: timeline_figure(timeline(result.earliest))}
        case Comparison():
            return {"timeline": lambda: timeline_figure(timeline(result))}
        case Matrix() | Bisection():
            matrix = result.matrix() if isinstance(result, Bisection) else result
            return {"releases": lambda: releases_figure(_filled(matrix))}
        case Compared() if result.cells:
            return {"compare": lambda: compared_figure(result)}
        case Advice() if any(map(shown, result.parts)):
            part = next(part for part in result.parts if shown(part))
            return {"remedies": lambda: remedies_figure(part)}
        case Summary():
            return {"paths": lambda: paths_figure(result), "layers": lambda: grid_figure(result)}
    raise UsageError(f"a value {described(result)} has no picture; {listed(_DRAWN, 'or')} has one")


def _filled(matrix: Matrix) -> Matrix:
    if not matrix.rows or not matrix.releases:
        raise UsageError("the matrix holds no cell: there is nothing to draw")
    return matrix
