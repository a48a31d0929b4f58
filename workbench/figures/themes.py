"""Figures on a dark page: each is drawn once, for white paper, and its colours are exchanged where it is shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.figures import palette

if TYPE_CHECKING:
    import plotly.graph_objects as go

_SPAN = re.compile(r"(?<=<span style='color:)#[0-9A-F]{6}(?='>)")


def on_dark(colour: str) -> str:
    """What a colour of the palette, or a tint of one, becomes on a dark page; others stay as they are."""
    return palette.DARK.get(colour, colour)


def darkened(figure: go.Figure) -> go.Figure:
    """A copy of a figure in the colours of a dark page; the figure itself stays as it is."""
    import plotly.graph_objects as go

    return go.Figure(_exchanged(figure.to_dict(), colours=False))


Change = tuple[list[str | int], Any]


def changes(light: Any, dark: Any) -> list[Change]:
    """Where two figures as JSON differ that are alike but for their colours: places, and what stands there in the
    other one. A list of colours is one place."""
    return list(_changes(light, dark, []))


def _changes(light: Any, dark: Any, place: list[str | int]) -> Iterator[Change]:
    if light == dark:
        return
    steps: Iterable[tuple[str | int, Any]] = ()
    if isinstance(light, dict):
        steps = light.items()
    elif isinstance(light, list) and any(isinstance(part, dict | list) for part in light):
        steps = enumerate(light)
    if steps:
        for step, part in steps:
            yield from _changes(part, dark[step], [*place, step])
    else:
        yield place, dark


def _exchanged(part: Any, colours: bool) -> Any:
    # Only what stands where colours do is exchanged: a tensor named as a colour keeps its name.
    if isinstance(part, dict):
        return {
            name: _exchanged(held, colours or name.lower().endswith(("color", "colorscale")))
            if name not in ("text", "ticktext")
            else _texts(held)
            for name, held in part.items()
        }
    if isinstance(part, list | tuple):
        return [_exchanged(held, colours) for held in part]
    if isinstance(part, np.ndarray) and part.dtype.kind in "OU":
        return np.array([_exchanged(held, colours) for held in part.tolist()], dtype=object)
    return on_dark(part) if colours and isinstance(part, str) else part


def _texts(part: Any) -> Any:
    if isinstance(part, str):
        return _SPAN.sub(lambda found: on_dark(found[0]), part)
    if isinstance(part, list | tuple):
        return [_texts(held) for held in part]
    if isinstance(part, np.ndarray) and part.dtype.kind in "OU":
        return np.array([_texts(held) for held in part.tolist()], dtype=object)
    return _exchanged(part, colours=False)
