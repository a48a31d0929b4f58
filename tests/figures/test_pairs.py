"""Every picture, walked: which colour stands on which, and what tells its marks apart."""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import plotly.graph_objects as go
import pytest

from tests.figures.colours import apart, contrast
from tests.figures.samples import samples
from tests.figures.standing import drawn, text_boxes
from workbench.figures import pairs, palette, themes
from workbench.figures.repeat import missing_figure


def declared() -> Iterator[tuple[str, str, str, float, float]]:
    """Kind, ink, ground, opacity and the least contrast of every pair that pictures may draw."""
    for kind, table, opacity, least in (
        ("letters", pairs.LETTERS, 1.0, pairs.LEAST_OF_LETTERS),
        ("mark", pairs.MARKS, 1.0, pairs.LEAST_OF_MARKS),
        ("sheer mark", pairs.SHEER_MARKS, palette.SHEER, pairs.LEAST_OF_MARKS),
    ):
        for ground, inks in table.items():
            for ink in inks:
                yield kind, ink, ground, opacity, least


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_ink_is_seen_on_every_ground_that_it_may_stand_on(theme: str) -> None:
    faults = []
    for kind, ink, ground, opacity, least in declared():
        shown, under = (themes.on_dark(one) if theme == "dark" else one for one in (ink, ground))
        ratio = contrast(palette.tint(shown, opacity, under), under)
        if ratio < least:
            faults.append(f"{kind} {shown} on {under}: {ratio:.2f}")
    assert not faults


def test_every_colour_of_a_pair_has_one_for_a_dark_page() -> None:
    held = {one for _, ink, ground, *_ in declared() for one in (ink, ground)}
    assert held <= set(palette.DARK)


@functools.cache
def pairs_drawn() -> dict[tuple[str, str, str], str]:
    """What the pictures draw, and where."""
    return {
        (one.kind, one.ink, one.ground): f"{name}: {one.what}"
        for name, figures in samples().items()
        for figure in figures
        for one in drawn(figure)
    }


def test_every_function_that_draws_has_a_sample() -> None:
    folder = Path(palette.__file__).parent
    names = {
        f"{module.stem}.{part.name}"
        for module in folder.glob("*.py")
        for part in ast.parse(module.read_text()).body
        if isinstance(part, ast.FunctionDef) and re.fullmatch(r"[a-z]\w*_figure", part.name)
    }
    assert set(samples()) == names - {"frame.new_figure"}


def test_pictures_draw_the_pairs_that_are_declared_and_no_others() -> None:
    allowed = {(kind, ink, ground) for kind, ink, ground, *_ in declared()}
    assert {pair: where for pair, where in pairs_drawn().items() if pair not in allowed} == {}


def test_a_picture_with_an_undeclared_pair_is_found() -> None:
    figure = missing_figure([3, 0, 5], 8)
    figure.add_annotation(x=1, y=1.5, text="on a bar", showarrow=False, font={"color": palette.MUTED})
    figure.add_trace(go.Scatter(x=[3], y=[2], mode="markers", marker={"color": palette.TIES, "size": 9}))
    found = {(one.kind, one.ink, one.ground) for one in drawn(figure)}
    assert ("letters", palette.MUTED, palette.CERTAIN) in found
    assert ("mark", palette.TIES, palette.CERTAIN) in found
    assert ("letters", palette.MUTED, palette.CERTAIN) not in {pair[:3] for pair in declared()}


def looks(figure: go.Figure) -> Iterator[tuple[str, str, str]]:
    """Of what the legend names: what it is drawn as, its colour, and what else tells it apart."""
    for one in figure.data:
        if not figure.layout.showlegend or one.showlegend is False or not one.name:
            continue
        if one.type == "bar":
            yield "bar", one.marker.color, one.marker.pattern.shape
        elif one.type == "scatter" and "markers" in one.mode:
            yield "marks", one.marker.color, one.marker.symbol
        elif one.type == "scatter":
            yield "line", one.line.color, one.line.dash


def test_what_a_legend_names_is_told_apart_without_colour_and_with_every_colour_blindness() -> None:
    for figure in itertools.chain(*samples().values()):
        for (kind, ink, shape), (other, ink_, shape_) in itertools.combinations(looks(figure), 2):
            if ink != ink_:  # else of one kind, as what is missing among points and among tokens
                assert kind != other or shape != shape_, (kind, shape)
                assert apart(ink, ink_) >= 12, (ink, ink_)
                assert apart(themes.on_dark(ink), themes.on_dark(ink_)) >= 12, (ink, ink_)


# Pixels that a picture has on pages 1280 and 1920 pixels wide, beside the list of rows and without it.
BESIDE, ALONE = (700, 1350), (1150, 1790)
SLACK = 12  # of what letters are taken to be wide
WHOLE_WIDTH = ("audit", "number_line", "path_releases", "paths", "releases", "timeline")


def test_texts_do_not_lie_upon_each_other_and_are_not_cut_off() -> None:
    faults = set()
    for name, figures in samples().items():
        for width in ALONE if name.startswith(WHOLE_WIDTH) else BESIDE:
            for figure in figures:
                boxes = text_boxes(figure, width)
                faults |= {(name, text) for text, box in boxes if box[0] < -SLACK or box[1] > width + SLACK}
                for (text, one), (text_, other) in itertools.combinations(boxes, 2):
                    across = min(one[1], other[1]) - max(one[0], other[0])
                    down = min(one[3], other[3]) - max(one[2], other[2])
                    if across > 2 and down > 3:
                        faults.add((name, f"{text} upon {text_}"))
    assert not faults
