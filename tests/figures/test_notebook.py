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
from workbench.figures.parts import Beside, Folded, Picture, Said, Table
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
    "both = wb.repeat(found.row, 4, paths='vllm.histogram_*'); both",
    "from dataclasses import replace; part = wb.advise(found.row, release='vllm==0.23.0').parts[0]",
    "type(wb.advise(found.row))((part, replace(part, op='another.op')))",
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
    assert said["text/plain"].startswith("The model of vllm.histogram_2048 (stock) lost 64 winners of 512")
    assert picture["application/vnd.plotly.v1+json"]["data"]
    assert "PLOTLY_RENDERER" in picture["text/html"]
    assert "<table>" in tables["text/html"]
    assert "<script" not in said["text/html"] + tables["text/html"]
    assert said["text/html"].index("lost 64") < said["text/html"].index("Coarse bins around the threshold")


def test_what_has_no_picture_is_one_output(outputs: list[list[dict[str, Any]]]) -> None:
    (route,) = outputs[2]
    assert "release vllm==0.23.0 ≥ 0.33.0" in route["text/html"].replace("&gt;", ">")
    assert [set(shown) for shown in outputs[3]] == [{"application/vnd.plotly.v1+json"}]


def test_pictures_follow_the_renderer_that_plotly_is_set_to(outputs: list[list[dict[str, Any]]]) -> None:
    *_, picture, _ = outputs[5]
    assert "Plotly.newPlot" in picture["text/html"]


def test_every_picture_has_its_title_before_it(outputs: list[list[dict[str, Any]]]) -> None:
    said, *titled = outputs[6]
    assert [one["text/plain"] for one in titled[1::2]][:2] == [
        "How often each index is selected that comes and goes: vllm.histogram_4096 (stock)",
        "Values missing, call by call: vllm.histogram_4096 (stock)",
    ]
    assert "What calls select: vllm.histogram_4096 (stock)" in said["text/html"]
    assert all("Plotly.newPlot" in one["text/html"] for one in titled[::2])
    assert "<details><summary>Indices that come and go" in titled[-1]["text/html"]


def test_a_picture_is_in_no_fold(outputs: list[list[dict[str, Any]]]) -> None:
    assert sum("Plotly.newPlot" in one["text/html"] for one in outputs[8]) == 2
    assert "another.op" in "".join(one["text/html"] for one in outputs[8] if "Plotly" not in one["text/html"])


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


def test_repeated_calls_show_the_pictures_of_the_app(capture: wb.Capture) -> None:
    repeats = wb.repeat(capture[1], 6, paths="vllm.*")
    worst = repeats.worst
    assert worst is not None
    assert worst.lossy_calls
    titles = [part.title for part in parts_of(worst) if isinstance(part, Picture)]
    assert titles == [
        "What calls select",
        "How often each index is selected that comes and goes",
        "Values missing, call by call",
    ]
    of_all = [part.title for part in parts_of(repeats) if isinstance(part, Picture)]
    assert of_all == [f"{title}: {worst.name}" for title in titles]
    assert {line["verdict"]: line["calls"] for line in lines(worst, "Verdicts")} == worst.verdicts
    bars = wb.figure(repeats, "missing").data[0]
    assert tuple(bars.y) == worst.missing
    assert wb.figure(worst, "missing").data[0].y.tolist() == list(worst.missing)
    assert len(wb.figure(repeats, "frequency").data) >= 1
    clean = next(line for line in repeats.lines if line.repeatability and not line.repeatability.members)
    assert pictures(clean) == 1
    assert wb.figure(repeats, path=clean.path).data
    with pytest.raises(UsageError, match="no index comes and goes"):
        wb.figure(clean, "frequency")
    with pytest.raises(UsageError, match="of no one path"):
        wb.figure(clean, path="vllm.filtered")
    with pytest.raises(UsageError, match=r"no calls of sglang\.v1"):
        wb.figure(repeats, path="sglang.v1")
    refused = next(line for line in repeats.lines if line.refused)
    assert said(refused) == refused.sentence
    assert pictures(refused) == 0
    with pytest.raises(UsageError, match="nothing to draw: "):
        wb.figure(refused)


def test_a_what_if_shows_the_risk_against_what_is_altered(capture: wb.Capture) -> None:
    found = wb.what_if(capture[1], "vllm.filtered", key_bits=10, capacity=99)
    (picture,) = [part for part in parts_of(found) if isinstance(part, Picture)]
    assert picture.title == "Risk against the capacity"
    drawn = wb.figure(found)
    assert drawn.layout.xaxis.title.text == picture.draw().layout.xaxis.title.text
    assert [note.text for note in drawn.layout.annotations if note.name == "altered"] == ["<b>altered: 99</b>"]
    shift = wb.figure(found, "shift").layout.xaxis.title.text
    assert shift == "shift, added to the scores"
    with pytest.raises(UsageError, match="'capacity', 'key_bits'"):
        wb.figure(found, "rank_capacity")  # no cluster
    curve = found.curve("key_bits")
    assert said(curve) == "Risk against the key bits: 16 values from 1 to 16."
    assert wb.figure(curve).layout.xaxis.title.text == "coarse key, bits"
    (values,) = [part for part in parts_of(curve) if isinstance(part, Folded)]
    assert isinstance(values.parts[0], Table)
    assert [row[0] for row in values.parts[0].rows] == [str(bits) for bits in range(1, 17)]
    unbuffered = wb.what_if(capture[1], "torch.topk")
    assert wb.figure(unbuffered).data


def test_paths_show_how_they_select() -> None:
    (path,) = wb.paths("vllm.filtered")
    assert said(path).startswith("vllm.filtered (stock) drops winners silently")
    assert pictures(path) == 3
    assert [line["variant"] for line in lines(path, "Variants")] == [one.name for one in path.variants]
    for view in ("steps", "line", "resolution", "releases"):
        assert wb.figure(path, view).data
    assert "its buffer (3)" in said(path.scaled(3))
    (exact,) = wb.paths("vllm.trivial")
    with pytest.raises(UsageError, match="'steps' or 'releases'"):
        wb.figure(exact, "line")


def test_a_path_is_drawn_as_any_of_its_variants(capture: wb.Capture) -> None:
    (path,) = wb.paths("vllm.filtered")
    stock, repaired = (wb.figure(path, variant=name) for name in ("stock", "detect_rescan"))
    assert stock == wb.figure(path)
    assert "loses" in {trace.name for trace in stock.data}
    assert "loses" not in {trace.name for trace in repaired.data}
    with pytest.raises(UsageError, match=r"vllm\.filtered has no variant 'no'; known: stock"):
        wb.figure(path, variant="no")
    with pytest.raises(UsageError, match="the view releases is of no one variant"):
        wb.figure(path, "releases", variant="stock")
    with pytest.raises(UsageError, match="the view bins is of no one variant"):
        wb.figure(wb.inspect(capture[1]), variant="stock")


def test_pieces_of_results_tell_themselves(capture: wb.Capture) -> None:
    matrix = wb.matrix(capture[1], ["vllm==0.23.0"], repeats=2)
    cell = matrix.cells[0][0]
    assert facts_of(cell)["path"] == f"{cell.path} ({cell.variant})"
    assert said(cell).startswith("vllm==0.23.0 (")
    part = wb.advise(capture).parts[0]
    remedy = part.remedies[0]
    assert said(remedy) == f"{remedy.what}: {remedy.state}."
    assert wb.figure(part).data
    assert len(lines(part, "Remedies")) == min(20, len(part.remedies))
    table = next(one for one in parts_of(part) if isinstance(one, Table))
    kinds = dict(table.columns)
    assert kinds.pop("remedy") == "text"  # the one that is broken into lines
    assert set(kinds.values()) == {"word"}
    made = wb.inspect(capture[1], paths="vllm.filtered").results[0]
    assert said(made).startswith("The model of vllm.filtered (stock) ")
    assert facts_of(made)["missing"] == f"{made.line.missing} of 512"
    assert said(capture.info).endswith("bad-row.safetensors: 3 rows of 1 call, float32.")
    plan = wb.plan_topk_v2([40_000, 70_000, 100_000], "sglang==0.5.18", "h200")
    assert said(plan) == "Clusters take 2 rows, by the heuristic."
    assert facts_of(plan)["rows that clusters take"] == "2: 1, 2"
    token = wb.Token(3, 7, torch.arange(20.0))
    assert facts_of(token)["greatest"] == "19, of token 19"
    assert facts_of(wb.Token(3))["token"] == "unknown"


def test_a_point_of_two_runs_in_full() -> None:
    with wb.diverge(*(GREEDY / f"{name}.safetensors" for name in ("exact", "order-1"))) as found:
        first = found.earliest.first
        assert first is not None
        assert said(first).startswith("Step 0, layer 3, row 0: values vary: the same input, ")
        detail = found.earliest.look(first)
        assert detail.selections is not None
        (beside,) = [part for part in parts_of(detail) if isinstance(part, Beside)]
        held = [sum(one.side == side for one in detail.selections.held) for side in "ab"]
        assert [table.more for table in beside.tables] == [f"the first 20 of {number} lines" for number in held]
        other = next((one for one in found.earliest.points if one.state == "input differs"), None)
        assert other is not None
        looked = found.earliest.look(other)
        assert looked.inputs is not None
        assert "The inputs: " in as_text(looked)


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
