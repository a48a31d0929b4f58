"""The paths of a family by release: which have them, as which variant, with which capacity, and whether they lose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.figures import palette
from workbench.figures.frame import axis, new_figure
from workbench.figures.grid import grounds, marks_of
from workbench.figures.words import holds
from workbench.paths.catalog import PATHS
from workbench.paths.reach import variants_by_release
from workbench.paths.spec import Path, Variant

if TYPE_CHECKING:
    import plotly.graph_objects as go

STATES = palette.LOSSES
_LANE = 38
_UP = 0.13  # of a lane, that makes room for the capacity below a mark


@dataclass(frozen=True)
class Held:
    """What a release has of a path.

    Attributes:
        path, release: their names. variants: of the path, as the release's ops take them.
        capacity: of their buffers, in words; ``–`` without one.
    """

    path: str
    release: str
    variants: tuple[Variant, ...]
    capacity: str

    @property
    def state(self) -> str:
        """``keeps every winner`` where every variant does."""
        return list(STATES)[not all(one.lossless for one in self.variants)]


def family_of(path: Path) -> tuple[Path, ...]:
    """The paths of a path's system that select, in the catalogue's order; itself alone where it is of no system's."""
    own = tuple(one for one in PATHS if one.system == path.system and one.family != "identity")
    return own if path in own else (path, *own)


def held_beside(path: Path) -> tuple[Held, ...]:
    """What each release has of a path and of those that it is seen beside; of one that takes every score, itself."""
    return held_by((path,) if path.family == "identity" else family_of(path))


def held_by(paths: Sequence[Path]) -> tuple[Held, ...]:
    """What each release has of each path; nothing for those that do not have it."""
    found = []
    for path in paths:
        for release, names in variants_by_release(path).items():
            variants = tuple(path.variant(name) for name in names)
            if variants:
                found.append(Held(path.name, release, variants, _capacities(path, variants)))
    return tuple(found)


def _capacities(path: Path, variants: Sequence[Variant]) -> str:
    found = [path.capacity_of(one) for one in variants]
    return " or ".join(dict.fromkeys(holds(one) for one in found if one is not None)) or holds(None)


def family_figure(held: Sequence[Held], chosen: str) -> go.Figure:
    """Releases to the right, paths downwards; each by whether it keeps every winner, its capacity beneath.

    Args:
        held: at least one. chosen: the path whose lane is marked.

    Returns:
        A figure with a trace a state of ``STATES``, whose marks stand near (release, -lane), and the texts of the
        capacities in a trace ``capacity``.
    """
    import plotly.graph_objects as go

    lanes = list(dict.fromkeys(one.path for one in held))
    releases = _in_order(held)
    packages = list(dict.fromkeys(release.partition("==")[0] for release in releases))
    names = [release.partition("==")[2] for release in releases]
    if len(packages) > 1:
        names = [f"{name}<br>{release.partition('==')[0]}" for name, release in zip(names, releases, strict=True)]
    figure = new_figure(_LANE * len(lanes) + 108, top=34, bottom=70, left=190, right=16)
    cells = [(releases.index(one.release), lanes.index(one.path), one) for one in held]
    grounds(figure, [(x, y, one.state) for x, y, one in cells], STATES, len(releases), len(lanes))
    for state in STATES:
        told = [(x, _UP - y, _told(one)) for x, y, one in cells if one.state == state]
        if told:
            marks_of(figure, told, state, STATES, 11)
    figure.add_trace(
        go.Scatter(
            x=[x for x, _, _ in cells],
            y=[-y - 0.08 for _, y, _ in cells],
            mode="text",
            name="capacity",
            text=[one.capacity for _, _, one in cells],
            textposition="bottom center",
            textfont={"size": 10.5, "color": palette.TEXT},
            hoverinfo="skip",
            showlegend=False,
        )
    )
    figure.update_xaxes(
        **axis(
            f"release of {packages[0]}, oldest first" if len(packages) == 1 else "release, oldest first",
            range=[-0.6, len(releases) - 0.4],
            tickvals=list(range(len(releases))),
            ticktext=names,
            tickangle=0,
            showgrid=False,
            fixedrange=True,
        )
    )
    figure.update_yaxes(
        **axis(
            "",
            range=[-len(lanes) + 0.4, 0.6],
            tickvals=[-lane for lane in range(len(lanes))],
            ticktext=[f"<b>▸ {name}</b>" if name == chosen else name for name in lanes],
            showgrid=False,
            fixedrange=True,
        )
    )
    figure.update_layout(
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "itemclick": False, "itemsizing": "constant"},
        hovermode="closest",
        hoverdistance=-1,
        dragmode=False,
    )
    return figure


def _in_order(held: Sequence[Held]) -> list[str]:
    """Every release that has one of the paths, oldest first within its package."""
    known: dict[str, None] = {}
    for name in dict.fromkeys(one.path for one in held):
        path = next(one for one in PATHS if one.name == name)
        known.update(dict.fromkeys(variants_by_release(path)))
    packages = dict.fromkeys(release.partition("==")[0] for release in known)
    has = {one.release for one in held}
    return [one for package in packages for one in known if one.partition("==")[0] == package and one in has]


def _told(one: Held) -> str:
    lines = [f"<b>{one.path}</b> in {one.release}: {one.state}"]
    lines += [f"{variant.name}: {variant.evidence.value}" for variant in one.variants]
    capacity = {"–": "no buffer", "?": "capacity not established"}.get(one.capacity, f"capacity {one.capacity}")
    return "<br>".join([*lines, capacity])
