"""What a notebook shows of results: in a real kernel, and of each kind what it holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

import workbench as wb
from tests.audit.making import audited
from tests.ui.conftest import make_capture
from workbench.audit.dataset import Dataset
from workbench.audit.summary import summarize
from workbench.errors import UsageError
from workbench.figures.notebook import as_text, parts_of
from workbench.figures.parts import Picture, Said, Table
from workbench.rendering import Rendered
from workbench.runs.doctor import Doctor, Fact

ROOT = Path(__file__).parents[2]
GREEDY = ROOT / "captures" / "greedy-values"
SAMPLE = ROOT / "captures" / "public-vllm-v100.safetensors"

CELLS = (
    "import workbench as wb",
    f"found = wb.inspect(wb.open({str(SAMPLE)!r})[0], release='vllm==0.23.0'); found",
    "found.route",
    "wb.figure(found, 'capacity')",
    "import plotly.io as pio; pio.renderers.default = 'notebook'",
    "found",
)


@pytest.fixture(scope="module")
def outputs() -> list[list[dict[str, Any]]]:
    """What each cell shows: data by mimetype, in order."""
    book = new_notebook(cells=[new_code_cell(cell) for cell in CELLS])
    NotebookClient(book, timeout=120, kernel_name="python3").execute()
    return [[dict(output["data"]) for output in cell.outputs if "data" in output] for cell in book.cells]


def test_an_inspection_shows_sentence_picture_and_tables(outputs: list[list[dict[str, Any]]]) -> None:
    said, picture, tables = outputs[1]
    assert "lost 64 winners of 512" in said["text/html"]
    assert said["text/plain"].startswith("vllm.histogram_2048 (stock) lost 64 winners of 512")
    assert picture["application/vnd.plotly.v1+json"]["data"]
    assert "PLOTLY_RENDERER" in picture["text/html"]
    assert "<table>" in tables["text/html"]
    assert "<script" not in said["text/html"] + tables["text/html"]


def test_what_has_no_picture_is_one_output(outputs: list[list[dict[str, Any]]]) -> None:
    (route,) = outputs[2]
    assert "release vllm==0.23.0 ≥ 0.33.0" in route["text/html"].replace("&gt;", ">")
    assert [set(shown) for shown in outputs[3]] == [{"application/vnd.plotly.v1+json"}]


def test_pictures_follow_the_renderer_that_plotly_is_set_to(outputs: list[list[dict[str, Any]]]) -> None:
    *_, picture, _ = outputs[5]
    assert "Plotly.newPlot" in picture["text/html"]


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[wb.Capture]:
    with wb.open(make_capture(tmp_path_factory.mktemp("rows") / "bad-row.safetensors")) as opened:
        yield opened


def lines(result: Rendered, title: str = "") -> list[dict[str, object]]:
    """The lines of the first table whose title begins so."""
    table = next(part for part in parts_of(result) if isinstance(part, Table) and part.title.startswith(title))
    return [dict(zip([name for name, _ in table.columns], row, strict=True)) for row in table.rows]


def facts_of(result: Rendered) -> dict[str, str]:
    """The first table of names and values."""
    table = next(part for part in parts_of(result) if isinstance(part, Table))
    return {str(name): str(told) for name, told in table.rows}


def said(result: Rendered) -> str:
    return next(part.text for part in parts_of(result) if isinstance(part, Said))


def pictures(result: Rendered) -> int:
    drawn = [part.draw() for part in parts_of(result) if isinstance(part, Picture)]
    assert all(figure.data for figure in drawn)
    return len(drawn)


def test_a_capture_lists_its_rows(capture: wb.Capture) -> None:
    assert said(capture) == f"{capture.name}: 3 rows of 1 call, float32."
    assert [line["length"] for line in lines(capture, "Rows")] == [9000, 9000, 9000]


def test_a_row_tells_its_extremes() -> None:
    row = wb.Row(torch.tensor([3.5, float("nan"), float("-inf"), -2.0, 7.0]), 4, call=wb.Call(k=2))
    told = facts_of(row)
    assert (told["greatest"], told["least"], told["NaN"], told["+inf"], told["−inf"]) == ("3.5", "−2", "1", "0", "1")
    assert told["digest"] == row.digest


def test_a_verdict_a_risk_and_a_selection(capture: wb.Capture) -> None:
    found = wb.inspect(capture[1])
    made = max(found.results, key=lambda one: one.line.missing or 0)
    assert made.verdict is not None
    assert made.selection is not None
    assert said(made.verdict) == f"lossy: {made.line.missing} of 512 winners are missing."
    assert made.risk is not None
    (line,) = lines(made.risk)
    assert (line["population"], line["risk"]) == (made.risk.population, made.risk.level)
    assert said(made.selection).startswith("512 indices in 512 slots")
    refused = next(risk for risk in found.census if risk.refused)
    assert "does not take the row" in said(refused)


def test_a_report_shows_lines_that_lose_first_and_says_what_it_leaves_out(capture: wb.Capture) -> None:
    report = wb.run(capture, paths="*")
    shown = lines(report)
    losing = report.to_pandas().query("verdict in ('lossy', 'invalid') or risk in ('at risk', 'certain')")
    assert len(shown) == 20
    told = [line for line in shown if line["risk"] in ("at risk", "certain") or line["verdict"] == "lossy"]
    assert told == shown[: len(told)]
    assert len(told) == min(20, len(losing))
    assert f"20 of {len(report)} lines are shown" in as_text(report)
    assert len(lines(wb.run(capture, paths="vllm.filtered"))) == 3


def test_a_divergence_tells_where_it_began() -> None:
    with wb.diverge(*(GREEDY / f"{name}.safetensors" for name in ("exact", "order-1", "order-2"))) as found:
        assert said(found) == found.earliest.headline
        assert [line["first at"] for line in lines(found, "Runs")] == ["step 0, layer 3, row 0"] * 2
        assert {line["state"]: line["points"] for line in lines(found, "Points")} == {
            state: number for state, number in found.earliest.counts.items() if number
        }
        assert pictures(found) == 1
        assert wb.figure(found).data
        assert said(found.comparisons[1]).startswith(found.comparisons[1].b)


def test_a_matrix_a_bisection_and_many_calls(capture: wb.Capture) -> None:
    matrix = wb.matrix(capture[1], ["vllm==0.23.0", "vllm==0.33.0"], repeats=2)
    (line,) = lines(matrix)
    assert list(line) == ["row", "length", "0.23.0", "0.33.0"]
    assert (pictures(matrix), bool(wb.figure(matrix).data)) == (1, True)
    bisection = wb.bisect_release(capture[1], ["vllm==0.23.0", "vllm==0.33.0"], calls=2)
    assert (pictures(bisection), said(bisection)[:3]) == (1, "The")
    repeats = wb.repeat(capture[1], 4, paths="vllm.filtered")
    (line,) = lines(repeats)
    assert (line["calls"], line["path"]) == (4, "vllm.filtered (stock)")
    assert repeats.worst is not None
    assert repeats.worst.repeatability is not None
    assert said(repeats.worst.repeatability).startswith("4 calls: ")


def test_a_shrunk_row_and_an_export(tmp_path: Path) -> None:
    small = wb.shrink(wb.open(SAMPLE)[0], "vllm.histogram_2048")
    told = {line["of the row"]: (line["before"], line["after"]) for line in lines(small)}
    assert told["length"] == ("4,096", "3,709")
    done = wb.export(small.row, to=tmp_path, path="vllm.histogram_2048")
    assert facts_of(done)["run it with"] == done.run


def test_an_audit_and_its_summary(tmp_path: Path) -> None:
    (tmp_path / "dumps").mkdir()
    make_capture(tmp_path / "dumps" / "bad-row.safetensors")
    result = audited(tmp_path / "dumps", tmp_path / "out")
    summary = summarize(Dataset(result.out))
    assert said(summary).startswith("1 of 3 rows")
    assert pictures(summary) == 1
    assert wb.figure(summary, "paths").data
    with pytest.raises(UsageError, match="neither layer nor step"):
        wb.figure(summary, "layers")
    assert said(result).startswith("1 of 3 rows in 1 file")


def test_a_figure_that_is_not_to_be_had_says_which_are(capture: wb.Capture) -> None:
    found = wb.inspect(capture[1])
    for view in ("bins", "capacity", "diff"):
        assert wb.figure(found, view).data
    assert wb.figure(found, "bins", path="vllm.filtered").data
    assert wb.figure(found, "diff", path="vllm.filtered").data
    with pytest.raises(UsageError, match="'bins', 'capacity' or 'diff'"):
        wb.figure(found, "nothing")
    with pytest.raises(UsageError, match="no coarse bins"):
        wb.figure(found, "bins", path="vllm.radix")
    with pytest.raises(UsageError, match="of no one path"):
        wb.figure(found, "capacity", path="vllm.filtered")
    with pytest.raises(UsageError, match="has no picture"):
        wb.figure(capture)
    with pytest.raises(UsageError):
        wb.figure(found, "diff", path="no.such")


def test_what_else_could_be_done_with_a_row(capture: wb.Capture) -> None:
    row = capture[0]
    found = wb.compare(row)
    said, picture, cells = parts_of(found)
    assert isinstance(said, Said)
    assert isinstance(picture, Picture)
    assert isinstance(cells, Table)
    assert wb.figure(found).data
    assert cells.rows[0][0] == found.lines[0]
    altered = wb.what_if(row, path="vllm.histogram_256", capacity=8192)
    text = as_text(altered)
    assert text.startswith("With a buffer of 8192 this row")
    assert "population" in text
    advice = wb.advise(row)
    assert wb.figure(advice).data
    assert advice.remedies[0].what in as_text(advice)


def test_what_is_here_is_told_by_area() -> None:
    fine = Fact("python", "Python", "3.12")
    broken = Fact("packages", "cupy", "14.0", "broken", "its import raised", "pip install cupy")
    text = as_text(Doctor("0.1.0", (fine, broken)))
    assert text.startswith("cupy is broken")
    assert "cupy: broken: 14.0; its import raised (pip install cupy)" in text
    assert "Python and machine" in text
