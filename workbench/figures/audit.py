"""An audit in pictures: bad rows by path, and over layers and steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.audit.summary import PathTally, Summary
from workbench.audit.tables import is_told
from workbench.audit.words import share_words
from workbench.figures import palette
from workbench.figures.frame import axis, new_figure, whole_ticks
from workbench.figures.words import count, plain, plural
from workbench.paths.catalog import PATHS
from workbench.words import UNKNOWN, listed

if TYPE_CHECKING:
    import plotly.graph_objects as go

MOST_PATHS = 24  # of a picture
COMPARED = "for comparison: not reached by the rows that they would lose"
_LANE = 30  # pixels of a path
_HATCH = {"fillmode": "overlay", "fgcolor": palette.PAPER, "size": 5, "solidity": 0.25}
_KINDS = (
    ("invalid", "recorded: invalid", palette.INVALID, "x"),
    ("lossy", "recorded: lossy", palette.LOSSY_TEXT, "."),
    ("certain", "certain", palette.CERTAIN, ""),
    ("at_risk", "at risk", palette.AT_RISK, "/"),
)


def paths_shown(found: Summary) -> list[PathTally]:
    """The paths of the picture, those on which a row is not safe, or was lost: first those that make rows bad, then
    those for comparison, whose bars are of rows that do not reach them; in each part the longest bar first."""
    told = [path for path in found.paths if is_told(path) and _drawn(path)]
    return sorted(told, key=lambda path: (not path.is_found, -_drawn(path)))[:MOST_PATHS]


def _drawn(path: PathTally) -> int:
    """The rows of a path's longer bar."""
    return max(path.invalid + path.lossy, path.certain + path.at_risk)


def paths_figure(found: Summary) -> go.Figure:
    """Rows by path: above those at risk and certain of all that it takes, beneath recorded selections that lost.

    Paths that the op sends rows to are marked ▸. A line of text parts those that make rows bad from those for
    comparison, which stand below it.
    """
    import plotly.graph_objects as go

    paths = paths_shown(found)
    names = [plain(f"▸ {path.path}" if path.reached else path.path or f"path {UNKNOWN}") for path in paths]
    left = 30 + int(7.2 * max((len(name) for name in names), default=0))
    counted = sum(path.is_found for path in paths)
    lanes = np.array([at + (at >= counted) for at in range(len(paths))])
    height = len(paths) + (counted < len(paths))
    figure = new_figure(86 + _LANE * max(1, height), left=left, top=34, bottom=52, right=24)
    if counted < len(paths):
        figure.add_annotation(
            xref="paper",
            x=0,
            xanchor="left",
            xshift=12 - left,
            y=-counted,
            yanchor="middle",
            text=COMPARED,
            bgcolor=palette.PAPER,  # over the axis
            showarrow=False,
            font={"size": 12.5, "color": palette.TEXT},
            name="compared",
        )
    # What was recorded stands above what is at risk, where a path has both.
    split = np.array([path.invalid + path.lossy > 0 < path.certain + path.at_risk for path in paths], dtype=bool)
    for field, name, colour, hatch in _KINDS:
        numbers = np.array([getattr(path, field) for path in paths])
        if not numbers.any():
            continue
        recorded = field in ("invalid", "lossy")
        before = np.array([{"lossy": path.invalid, "at_risk": path.certain}.get(field, 0) for path in paths])
        lift = np.where(split, -0.2 if recorded else 0.2, 0.0)
        figure.add_trace(
            go.Bar(
                orientation="h",
                y=lift - lanes,
                x=numbers,
                base=before,
                width=np.where(split, 0.36, 0.6),
                name=name,
                marker={"color": colour, "pattern": {"shape": hatch, **_HATCH}},
                customdata=[_told(path) for path in paths],
                hovertemplate="%{customdata}<extra></extra>",
            )
        )
    most = max(map(_drawn, paths), default=1)
    figure.update_xaxes(**axis("rows", range=[0, 1.02 * max(1, most)], **whole_ticks(most)))
    figure.update_yaxes(
        **axis(
            "",
            range=[-height + 0.4, 0.6],
            tickvals=(-lanes).tolist(),
            ticktext=names,
            showgrid=False,
        )
    )
    figure.update_layout(barmode="overlay", showlegend=True, legend=_legend(), dragmode=False)
    return figure


def _told(path: PathTally) -> str:
    taken = path.rows - path.refused
    told = [f"<b>{plain(path.path or UNKNOWN)}</b>", f"takes {count(taken)} of {plural(path.rows, 'row')}"]
    told += [f"{count(path.at_risk)} at risk, {count(path.certain)} certain ({_share(path, taken)})"] if taken else []
    if path.reached:
        told.append(f"{plural(path.reached, 'row')} reach it, {count(path.losing)} of them can lose")
    elif path.losing:
        told.append(f"{plural(path.losing, 'row')} of them may reach it")
    elif why := _unreached(path):
        told.append(f"no op takes it: {plain(why)}")
    elif not path.is_found:
        told.append("none of them reaches it")
    if path.recorded:
        told.append(f"{count(path.lossy)} lossy, {count(path.invalid)} invalid of {count(path.recorded)} recorded")
    return "<br>".join(told)


def _unreached(path: PathTally) -> str:
    """Why no op takes a path; empty where one does, or that is not known."""
    return next((one.unreached for one in PATHS if one.name == path.path), "")


def _share(path: PathTally, taken: int) -> str:
    return share_words(path.at_risk + path.certain, taken)


def _legend() -> dict[str, Any]:
    return {
        "orientation": "h",
        "x": 0,
        "xanchor": "left",
        "y": 1,
        "yanchor": "bottom",
        "itemclick": False,
        "itemdoubleclick": False,
        "font": {"size": 12.5},
    }


def grid_figure(found: Summary) -> go.Figure | None:
    """The share of bad rows over layers and decoding steps; ``None`` where rows do not say theirs."""
    import plotly.graph_objects as go

    grid = found.grid
    if grid is None:
        return None
    rows, bad = np.array(grid.rows), np.array(grid.bad)
    share = np.where(rows > 0, 100 * bad / np.maximum(rows, 1), np.nan)
    most = float(np.nanmax(share)) if bad.any() else 0.0
    layers = grid.first_layer + grid.layers_each * np.arange(rows.shape[0])
    steps = grid.first_step + grid.steps_each * np.arange(rows.shape[1])
    high = min(30.0, max(5.0, 420 / len(layers)))
    figure = new_figure(int(104 + max(60, high * len(layers))), left=64, top=16, bottom=60, right=110)
    scale = [(0.0, palette.EMPTY), (1e-6, palette.FEWEST), (0.5, palette.CERTAIN), (1.0, palette.CERTAIN_TEXT)]
    figure.add_trace(
        go.Heatmap(
            x=steps + (grid.steps_each - 1) / 2,
            y=layers + (grid.layers_each - 1) / 2,
            z=share,
            zmin=0,
            zmax=most or 1.0,
            colorscale=scale if most else [(0.0, palette.EMPTY), (1.0, palette.EMPTY)],
            xgap=1 if len(steps) < 200 else 0,
            ygap=1 if high > 4 else 0,
            showscale=bool(most),
            colorbar={
                "title": {"text": "bad rows, %", "font": {"size": 12}},
                "thickness": 12,
                "outlinewidth": 0,
                "tickfont": {"size": 12},
            },
            customdata=np.stack([*np.broadcast_arrays(layers[:, None], steps[None, :]), rows, bad], axis=-1),
            hovertemplate=_hover(grid.layers_each, grid.steps_each),
            hoverongaps=False,
        )
    )
    each = "" if grid.steps_each == 1 else f", {grid.steps_each} to a cell"
    figure.update_xaxes(**axis(f"decoding step{each}", showgrid=False, **_ticks(steps, grid.steps_each)))
    each = "" if grid.layers_each == 1 else f", {grid.layers_each} to a cell"
    figure.update_yaxes(
        **axis(f"layer{each}", showgrid=False, autorange="reversed", **_ticks(layers, grid.layers_each))
    )
    figure.update_layout(dragmode=False)
    return figure


def _hover(layers_each: int, steps_each: int) -> str:
    """What a hand over a cell reads; plotly fills it in, so that no text travels with each cell."""
    layer = "layer %{customdata[0]:d}" if layers_each == 1 else f"{layers_each} layers from %{{customdata[0]:,d}}"
    step = "step %{customdata[1]:,d}" if steps_each == 1 else f"{steps_each} steps from %{{customdata[1]:,d}}"
    return f"{layer}, {step}<br>%{{customdata[3]:,d}} of %{{customdata[2]:,d}} rows bad (%{{z:.3g}} %)<extra></extra>"


def _ticks(firsts: np.ndarray, each: int) -> dict[str, Any]:
    """Whole numbers at an axis of cells: all where they are few."""
    if len(firsts) <= 12 and each == 1:
        return {"tickvals": firsts.tolist(), "tickformat": "d"}
    return {"tickformat": ",d", "nticks": 12}


def captions(found: Summary) -> Sequence[str]:
    """What must be said beneath the pictures: of paths, of layers and steps."""
    told, shown = [path for path in found.paths if is_told(path) and _drawn(path)], paths_shown(found)
    paths = "Rows on each path, whether they reach it or not; ▸ marks those that the op is known to send rows to."
    if not all(path.is_found for path in shown):
        paths += " Paths for comparison make no row bad: the rows that they would lose do not reach them."
    if unreached := [path.path or "" for path in shown if _unreached(path)]:
        paths += f" No op of a serving engine takes {listed(unreached)}."
    more = f" {len(told) - MOST_PATHS} more are in the table." if len(told) > MOST_PATHS else ""
    return (paths + more, "Each cell: the share of its rows that lose winners or can.")
