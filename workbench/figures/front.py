"""``wb.figure``: the pictures of the app, of results in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from workbench.analysis.curves import Curve
from workbench.arguments import checked
from workbench.audit.summary import Summary
from workbench.errors import UsageError
from workbench.figures.audit import grid_figure, paths_figure
from workbench.figures.compare import compared_figure
from workbench.figures.of_choices import what_if_views
from workbench.figures.of_inspection import bins_picture, capacity_picture, diff_picture
from workbench.figures.of_paths import path_views
from workbench.figures.of_repeats import line_of, repeated_views
from workbench.figures.releases import releases_figure
from workbench.figures.remedies import remedies_figure, shown
from workbench.figures.timeline import timeline, timeline_figure
from workbench.figures.whatif import whatif_figure
from workbench.paths.spec import Path
from workbench.runs.bisect import Bisection
from workbench.runs.compare import Compared
from workbench.runs.divergence import Comparison, Divergence
from workbench.runs.inspect import Inspection
from workbench.runs.matrix import Matrix
from workbench.runs.remedy import Advice, Part
from workbench.runs.repeat import Repeated, Repeats
from workbench.runs.whatif import WhatIf
from workbench.words import described, listed

if TYPE_CHECKING:
    import plotly.graph_objects as go

_DRAWN = (
    *("an Inspection", "a Divergence", "a Comparison", "a Matrix", "a Bisection", "a Compared", "an Advice"),
    *("a Part of one", "Repeats", "a Repeated", "a WhatIf", "a Curve", "a Path", "the Summary of an audit"),
)
_OF_PATH = ("bins", "diff")  # views of an inspection that are of one path
_OF_VARIANTS = ("releases",)  # views of a path that are of all its variants


@checked
def figure(
    result: object, view: str | None = None, *, path: str | None = None, variant: str | None = None
) -> go.Figure:
    """A picture of a result, as the app draws it: a figure of plotly, to be shown, changed or saved.

    Args:
        result: what has a picture, as ``inspect``, ``diverge``, ``matrix``, ``bisect_release``, ``compare``,
            ``advise``, ``repeat`` and ``what_if`` return it, a path, or the Summary of an audit.
        view: by default the first of these.

            ============================  ===================================================================
            Inspection                    ``bins``, ``capacity``, ``diff``
            Divergence, Comparison        ``timeline``
            Matrix, Bisection             ``releases``
            Compared                      ``compare``
            Advice, or a Part of one      ``remedies``, of an Advice those of its first op that has some
            Repeats, or one Repeated      ``held``, ``frequency``, ``missing``
            WhatIf                        the risk against ``capacity``, ``rank_capacity``, ``key_bits``, ``k``,
                                          ``length``, ``scale`` or ``shift``; first those that are altered
            Curve                         ``curve``
            Path                          ``steps``, ``line``, ``resolution``, ``releases``
            Summary                       ``paths``, ``layers``
            ============================  ===================================================================
        path: of ``bins``, whose bins; of ``diff``, whose selection; of Repeats, whose calls. By default what the
            result's sentence is about.
        variant: of a Path, by default ``stock``, as released.

    Raises:
        UsageError: there is no such picture of the result, or nothing to draw.
    """
    views = _views(result, path, variant)
    name = next(iter(views)) if view is None else view
    if name not in views:
        raise UsageError(f"{view!r} is no view of this result; {listed(map(repr, views), 'or')}")
    if path is not None and name not in _OF_PATH and not isinstance(result, Repeats):
        raise UsageError(f"the view {name} is of no one path")
    if variant is not None and (name in _OF_VARIANTS or not isinstance(result, Path)):
        raise UsageError(f"the view {name} is of no one variant")
    drawn = views[name]()
    if drawn is None:
        raise UsageError("the rows say neither layer nor step: there is nothing to draw")
    return drawn


def _views(result: object, path: str | None, variant: str | None) -> Mapping[str, Callable[[], go.Figure | None]]:
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
        case Part() if shown(result):
            return {"remedies": lambda: remedies_figure(result)}
        case Repeats() if result.lines:
            return repeated_views(line_of(result, path))
        case Repeated():
            return repeated_views(result)
        case WhatIf():
            return what_if_views(result)
        case Curve():
            return {"curve": lambda: whatif_figure(result, None, None)}
        case Path():
            return path_views(result, variant)
        case Summary():
            return {"paths": lambda: paths_figure(result), "layers": lambda: grid_figure(result)}
    raise UsageError(f"a value {described(result)} has no picture; {listed(_DRAWN, 'or')} has one")


def _filled(matrix: Matrix) -> Matrix:
    if not matrix.rows or not matrix.releases:
        raise UsageError("the matrix holds no cell: there is nothing to draw")
    return matrix
