"""Results say in a notebook whose law a chance and a mean are where a path's scores arrive warp by warp."""

from __future__ import annotations

from html import unescape

import pytest

import workbench as wb
from tests.warps import crowded_warp, routed_warp
from workbench.figures.compare import compared_figure
from workbench.paths.catalog import get_path
from workbench.rendering import Rendered
from workbench.runs.case import Case

PATH = get_path("vllm.histogram_2048")
LAW = "of scores one by one; this path's arrive in warps of 32"


@pytest.fixture(scope="module")
def results() -> dict[str, Rendered]:
    row = routed_warp()
    return {
        "report": wb.run(row),
        "risk": Case(row).risk(PATH, PATH.variant("stock")),
        "inspection": wb.inspect(row),
        "cell": wb.matrix(row, "vllm==0.26.0", repeats=1).cells[0][0],
        "shrunk": wb.shrink(crowded_warp(), path=PATH.name),
        "what-if": wb.what_if(row, path=PATH.name),
        "compared": wb.compare(row),
        "curve": wb.what_if(row, path=PATH.name).curve("capacity"),
    }


@pytest.mark.parametrize("name", ["report", "risk", "inspection", "cell", "shrunk", "what-if", "compared", "curve"])
def test_a_result_says_it(results: dict[str, Rendered], name: str) -> None:
    html = results[name]._repr_html_()
    assert html is not None
    assert LAW in unescape(html)


def test_a_hovered_mark_says_it() -> None:
    figure = compared_figure(wb.compare(crowded_warp()))
    told = [text for trace in figure.data for text in trace.hovertext or () if "loses" in text]
    of_warps = [text for text in told if text.startswith("vllm.histogram_2048 (stock)")]
    assert len(of_warps) == 1
    assert "an arrival order that is random score by score loses 1.77 of 512" in of_warps[0]
    assert any("a random arrival order loses" in text for text in told if text not in of_warps)
