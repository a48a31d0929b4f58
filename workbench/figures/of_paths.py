"""A path in parts: how it selects, which scores its bins cannot tell apart, who has it; and the plan of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from workbench.errors import UsageError
from workbench.figures import palette
from workbench.figures.number_line import line_figure, resolution_figure
from workbench.figures.parts import Folded, Note, Part, Picture, Said, Table, facts, text_table
from workbench.figures.path_releases import family_figure, held_beside
from workbench.figures.path_tables import contract_table, limits_table, ops_table, variants_table
from workbench.figures.paths import pipeline_figure
from workbench.figures.words import count, plural
from workbench.paths.catalog import get_variant
from workbench.paths.plan import Plan
from workbench.paths.spec import Path
from workbench.paths.steps import key_of, loss_sentence, note_of, steps_of

if TYPE_CHECKING:
    import plotly.graph_objects as go

SCORE = 1.0  # on the number line


def path_parts(path: Path) -> Iterator[Part]:
    """A path as released: the sentence, its pictures, what is known of it, and its variants."""
    variant = path.variants[0]
    steps = steps_of(path, variant)
    colour = palette.REFUSED_TEXT if not steps else palette.SAFE_TEXT if variant.lossless else palette.LOSSY_TEXT
    yield Said(loss_sentence(path, variant), colour)
    yield Note(path.summary)
    views = path_views(path)
    titles = {"steps": "How it selects", "line": f"Scores that share a bin, around {SCORE:g}"}
    titles["releases"] = "Releases that have it, and their capacity"
    yield from (Picture(title, views[view]) for view, title in titles.items() if view in views)
    yield text_table("Contract, in CUB's words", contract_table(path, variant))
    yield text_table("Which rows it takes, and its source", limits_table(path, variant))
    yield text_table("Variants", variants_table(path))
    ops = ops_table(path)
    taken: Table | Note = text_table("", ops) if len(ops) else Note(f"None: {path.unreached}.")
    yield Folded("Ops that take it, and when", (taken,))


def path_views(path: Path, variant_name: str | None = None) -> dict[str, Callable[[], go.Figure]]:
    """The pictures of a path by name, as released or of another of its variants, without those that there is nothing
    for: steps that are not established, bins, releases.

    Raises:
        UsageError: there is none, or no such variant.
    """
    variant = path.variants[0] if variant_name is None else get_variant(path, variant_name)
    steps, key, held = steps_of(path, variant), key_of(path, variant), held_beside(path)
    views: dict[str, Callable[[], go.Figure]] = {}
    if steps:
        views["steps"] = lambda: pipeline_figure(steps, note_of(variant))
    if key is not None:
        keys = {path.name: key}
        views["line"] = lambda: line_figure(keys, SCORE)
        views["resolution"] = lambda: resolution_figure(keys, SCORE)
    if held:
        views["releases"] = lambda: family_figure(held, path.name)
    if not views:
        raise UsageError(f"nothing is established of {path.name} ({variant.name}) that could be drawn")
    return views


def plan_parts(plan: Plan) -> list[Part]:
    """What SGLang's plan makes of a call: which rows go to the clusters."""
    rows = None if plan.rows is None else f"{count(len(plan.rows))}: {', '.join(map(str, plan.rows[:24]))}"
    if plan.rows is not None and not plan.rows:
        rows = "none"
    said = (
        plan.why
        if plan.threshold is None or plan.rows is None
        else f"clusters take {plural(len(plan.rows), 'row')}, by {plan.why}"
    )
    told = {
        "written": {True: "yes", False: "no", None: None}[plan.written],
        "threshold": None if plan.threshold is None else count(plan.threshold),
        "rows that clusters take": rows if rows is None or len(plan.rows or ()) <= 24 else f"{rows}, …",
    }
    return [Said(f"{said[:1].upper()}{said[1:]}."), facts("", told)]
