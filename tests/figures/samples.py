"""A sample of every picture: for each function that draws one, figures in which all that it can show is shown."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import plotly.graph_objects as go
import torch

import workbench as wb
from tests.audit.made import OTHER, census, recorded
from tests.fakes import Releases
from tests.figures.test_audit_figure import summary
from tests.figures.test_bins_figure import profile, uniform
from tests.figures.test_diff_figure import compared as selections_compared
from tests.figures.test_number_line_figure import EIGHT, EXACT, TWELVE
from tests.figures.test_releases_figure import DOES
from tests.figures.test_remedies_figure import part
from tests.figures.test_repeat_figure import K, found
from tests.figures.test_timeline_figure import made, point
from tests.figures.test_whatif_figure import row as whatif_row
from tests.runs.test_compare import bad
from tests.runs.test_matrix import small
from workbench.analysis.divergence.states import STATES
from workbench.analysis.divergence.tokens import TokenStep
from workbench.analysis.repeatability import repeatability
from workbench.analysis.risk import census as census_of
from workbench.analysis.risk import risk
from workbench.figures.audit import grid_figure, paths_figure
from workbench.figures.bins import bin_window, bins_figure
from workbench.figures.capacity import capacity_figure
from workbench.figures.compare import compared_figure
from workbench.figures.diff import diff_figure
from workbench.figures.number_line import line_figure, resolution_figure
from workbench.figures.path_releases import family_figure, family_of, held_by
from workbench.figures.paths import pipeline_figure
from workbench.figures.releases import releases_figure
from workbench.figures.remedies import remedies_figure
from workbench.figures.repeat import frequency_figure, held_figure, missing_figure
from workbench.figures.timeline import timeline, timeline_figure
from workbench.figures.whatif import whatif_figure
from workbench.paths.catalog import PATHS, get_path
from workbench.paths.steps import note_of, steps_of
from workbench.runs.case import Case
from workbench.runs.compare import by_releases, by_variants, cells_to_run, run_cell


@cache
def samples() -> dict[str, tuple[go.Figure, ...]]:
    """Figures by the function that drew them, ``module.function``."""
    held: dict[str, list[go.Figure]] = {}
    for draw in (_of_rows, _of_paths, _of_choices, _of_runs, _of_audits):
        for name, figure in draw():
            held.setdefault(name, []).append(figure)
    return {name: tuple(figures) for name, figures in held.items()}


def hostile() -> torch.Tensor:
    """Scores of which some are NaN and infinities of both signs."""
    scores = torch.randn(9000, generator=torch.Generator().manual_seed(1))
    scores[:40], scores[40:3000], scores[3000:3100] = math.nan, math.inf, -math.inf
    return scores


def _of_rows() -> Iterator[tuple[str, go.Figure]]:
    for scores in (uniform(16385), uniform(3000), hostile()):
        row = profile(scores)
        for name in ("vllm.histogram_256", "sglang.v2_cluster_16"):
            path = get_path(name)
            assert path.key_bits is not None
            window = bin_window(row, path.key_bits, 24)
            for chosen in (int(window.bins[2]), window.threshold):
                yield "bins.bins_figure", bins_figure(window, risk(row, path), chosen)
        yield "capacity.capacity_figure", capacity_figure(census_of(row), "vllm.histogram_256")
    for score in (1.0, 65504.0, -math.inf):
        for keys in ({"a": EIGHT}, {"a": EXACT, "b": TWELVE}):
            yield "number_line.line_figure", line_figure(keys, score)
            yield "number_line.resolution_figure", resolution_figure(keys, score)
    scores = [0.0, 7.0, 0.0, 0.0, 5.0, math.nan, math.inf]
    yield "diff.diff_figure", diff_figure(selections_compared(scores, [0, 1, 2, 3], 4))
    for number in (60, 300, 1000):
        several = [float(at // 2) for at in range(2 * number)]
        yield "diff.diff_figure", diff_figure(selections_compared(several, list(range(number)), number))


def _of_paths() -> Iterator[tuple[str, go.Figure]]:
    seen = set()
    for path in PATHS:
        for variant in path.variants:
            steps = steps_of(path, variant)
            shapes = {(one.kind, one.loses, bool(one.overflow), one.drops, one.parts > 1) for one in steps} - seen
            if shapes:
                seen |= shapes
                yield "paths.pipeline_figure", pipeline_figure(steps, note_of(variant))
    for name in ("vllm.histogram_256", "sglang.fast_topk"):
        held = held_by(family_of(get_path(name)))
        yield "path_releases.family_figure", family_figure(held, name)


def _of_choices() -> Iterator[tuple[str, go.Figure]]:
    case = Case(bad())
    ran = by_variants(case, {})
    wanted = cells_to_run(ran, {})[:12]
    cells = {(str(cell.path), str(cell.variant)): run_cell(case, cell, 2) for cell in wanted}
    for compared in (by_variants(case, cells), by_releases(case, {})):
        yield "compare.compared_figure", compared_figure(compared, next(iter(compared.cells)))
    found = part()
    yield "remedies.remedies_figure", remedies_figure(found, found.remedies[1])
    looked = wb.what_if(whatif_row(), "vllm.histogram_256", capacity=6144)
    for parameter in ("capacity", "key_bits", "k", "length", "scale", "shift"):
        yield "whatif.whatif_figure", whatif_figure(looked.curve(parameter), None, None)
    yield "whatif.whatif_figure", whatif_figure(looked.curve("capacity"), 4096, 6144)
    blocks = wb.what_if(whatif_row(60000, 90000), "sglang.v2_cluster_16")
    yield "whatif.whatif_figure", whatif_figure(blocks.curve("capacity"), None, None)
    without = wb.what_if(whatif_row(), "torch.topk")
    yield "whatif.whatif_figure", whatif_figure(without.curve("k"), 512, None)


def _of_runs() -> Iterator[tuple[str, go.Figure]]:
    points = [point(step, layer, state) for layer in range(2) for step, state in enumerate(STATES)]
    tokens = [
        TokenStep(None, step, 0, state, 1, 2, cause=cause)  # type: ignore[arg-type]
        for step, (state, cause) in enumerate(
            [
                ("same", None),
                ("logits differ", None),
                ("token differs", "tie"),
                ("token differs", "clear"),
                ("missing", None),
                ("extra", None),
                ("not comparable", None),
            ]
        )
    ]
    yield "timeline.timeline_figure", timeline_figure(timeline(made(points, tokens)), chosen=1)
    fake = Releases(DOES)
    for rows in (2, 40):
        matrix = wb.matrix([small(at, index=at) for at in range(rows)], fake.names, engine=fake, repeats=2)
        yield "releases.releases_figure", releases_figure(matrix, (1, 0))
    modelled = wb.matrix([bad()])
    yield "releases.releases_figure", releases_figure(modelled)
    scores = torch.arange(1000, 0, -1, dtype=torch.float32)
    exact = torch.arange(500)
    calls = [torch.cat([exact[:300], exact[301 + at :][:100], torch.arange(600, 699)]) for at in range(4)]
    for several, k in ((found(), K), (repeatability(scores, exact, calls), 500)):
        yield "repeat.held_figure", held_figure(several)
        yield "repeat.frequency_figure", frequency_figure(several, k)
    for missing in ([3, 0, 5], [0, 0], [at % 7 for at in range(2500)]):
        yield "repeat.missing_figure", missing_figure(missing, 512)


def _of_audits() -> Iterator[tuple[str, go.Figure]]:
    lines = []
    for row in range(10):
        told = {"layer": row % 2, "step": row // 2}
        lines.append(census("a", row, risk="at risk" if row < 3 else "safe", **told))
        lines.append(census("a", row, OTHER, "certain" if row < 4 else "at risk" if row < 6 else "safe", **told))
        lines.append(recorded("a", row, "lossy" if row == 0 else "invalid" if row == 1 else "exact", **told))
    with TemporaryDirectory() as folder:
        summed = summary(Path(folder), *lines)
    yield "audit.paths_figure", paths_figure(summed)
    grid = grid_figure(summed)
    assert grid is not None
    yield "audit.grid_figure", grid
