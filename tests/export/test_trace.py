"""The FlashInfer-Trace style: the schema's facts, and the library itself where it can be installed."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import workbench as wb
from tests.export.conftest import hot, row
from workbench.analysis.verdict import judge
from workbench.capture import Row
from workbench.export.losing import losing, random_order
from workbench.numeric.select import exact_topk
from workbench.paths.catalog import get_path
from workbench.paths.selection import UNWRITTEN
from workbench.runs.case import Case


def read(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    (definition,) = (folder / "definitions" / "topk").glob("*.json")
    (lines,) = (folder / "workloads" / "topk").glob("*.jsonl")
    assert definition.stem == lines.stem
    return json.loads(definition.read_text()), [json.loads(line) for line in lines.read_text().splitlines()]


def test_a_row_that_one_call_may_miss_is_proved_by_as_many_as_it_needs(tmp_path: Path) -> None:
    """Half of all orders lose one winner: the first random one does not."""
    given = row(hot(4097))
    case, path = Case(given), get_path("vllm.histogram_256")
    loss = losing(case, path, path.variant("stock"))
    first = loss.select(random_order(path, 0)).indices
    assert judge(given.valid, case.exact.indices, first, UNWRITTEN).missing == 0
    done = wb.export(given, to=tmp_path, style="flashinfer-trace")
    assert done.repeats > 1
    assert done.proved[-1] == "fails on the model of vllm.histogram_256 (stock)"


def test_a_definition_and_a_workload_whose_scores_are_kept(broken: Row, tmp_path: Path) -> None:
    done = wb.export(broken, to=tmp_path, style="flashinfer-trace")
    definition, (trace,) = read(tmp_path)
    assert (definition["name"], definition["op_type"]) == ("topk_fp32_k2048", "topk")
    assert definition["axes"]["k"] == {"type": "const", "value": 2048, "description": "winners wanted"}
    assert {axis["type"] for axis in definition["axes"].values()} == {"const", "var"}
    assert list(definition["inputs"]) == ["scores", "lengths"]
    for tensor in (definition["inputs"] | definition["outputs"]).values():
        assert set(tensor["shape"]) <= set(definition["axes"])
    assert not set(definition["inputs"]) & set(definition["outputs"])
    assert (trace["definition"], trace["solution"], trace["evaluation"]) == (definition["name"], None, None)
    work = trace["workload"]
    assert work["axes"] == {"rows": 1, "width": 20_000}
    for name, given in work["inputs"].items():
        assert given["type"] == "safetensors"
        held = load_file(tmp_path / given["path"])[given["tensor_key"]]
        wanted = [{"rows": 1, "width": 20_000}[axis] for axis in definition["inputs"][name]["shape"]]
        assert list(held.shape) == wanted
        assert str(held.dtype)[6:] == definition["inputs"][name]["dtype"]
    assert torch.equal(load_file(done.fixture)["scores"][0], broken.scores)
    assert done.run == ""
    assert done.proved[0] == "the definition's reference loses nothing"


def test_the_reference_is_exact_for_several_rows_ties_and_short_ones(broken: Row, tmp_path: Path) -> None:
    wb.export(broken, to=tmp_path, style="flashinfer-trace")
    source = read(tmp_path)[0]["reference"]
    assert [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)] == ["run"]
    names: dict[str, Any] = {}
    exec(source, names)
    scores = torch.stack([broken.scores, torch.zeros(20_000), torch.full((20_000,), torch.nan)])
    found = names["run"](scores, torch.tensor([20_000, 3000, 5], dtype=torch.int32))
    assert (found.shape, found.dtype) == ((3, 2048), torch.int32)
    for one, length, indices in zip(scores, (20_000, 3000, 5), found, strict=True):
        best = exact_topk(one[:length], 2048)
        assert indices[: best.numel()].tolist() == best.tolist()
        assert bool((indices[best.numel() :] == -1).all())


def test_workloads_gather_in_one_file(tmp_path: Path) -> None:
    for count in (5000, 6000, 5000):
        wb.export(row(hot(count)), to=tmp_path, style="flashinfer-trace")
    wb.export(row(hot(5000), k=512), to=tmp_path / "other", style="flashinfer-trace")
    _, traces = read(tmp_path)
    assert len(traces) == 2
    assert len({trace["workload"]["uuid"] for trace in traces}) == 2
    assert read(tmp_path / "other")[0]["name"] == "topk_fp32_k512"


def test_equal_rows_under_other_names_or_k_are_workloads_of_their_own(broken: Row, tmp_path: Path) -> None:
    for name in ("one", "other"):
        wb.export(broken, to=tmp_path, style="flashinfer-trace", name=name)
    wb.export(broken.with_call(k=512), to=tmp_path / "512", style="flashinfer-trace", name="one")
    traces = read(tmp_path)[1] + read(tmp_path / "512")[1]
    assert len({trace["workload"]["uuid"] for trace in traces}) == 3


def test_a_replaced_fixture_has_one_workload(broken: Row, tmp_path: Path) -> None:
    wb.export(broken, to=tmp_path, style="flashinfer-trace", name="x")
    wider = row(hot(5000, width=24_000))
    with pytest.raises(wb.UsageError, match="there already"):
        wb.export(wider, to=tmp_path, style="flashinfer-trace", name="x")
    wb.export(wider, to=tmp_path, style="flashinfer-trace", name="x", overwrite=True)
    (trace,) = read(tmp_path)[1]
    assert trace["workload"]["axes"]["width"] == 24_000


@pytest.mark.parametrize(
    "there",
    [
        '{"note": "a\u2028b\x85c"}\r\n\n{"deep": 1}\n',
        "[" * 5000 + "\n",
        '{"workload": 7}\nnull\n{"workload": []}\n',
    ],
)
def test_lines_of_others_stay_byte_for_byte(there: str, broken: Row, tmp_path: Path) -> None:
    lines = tmp_path / "workloads" / "topk" / "topk_fp32_k2048.jsonl"
    lines.parent.mkdir(parents=True)
    lines.write_bytes(there.encode())
    wb.export(broken, to=tmp_path, style="flashinfer-trace")
    before = lines.read_bytes()
    assert before.startswith(there.encode() + b'{"definition"')
    wb.export(broken, to=tmp_path, style="flashinfer-trace")
    assert lines.read_bytes() == before


def test_a_pipe_in_the_place_of_the_lines_is_refused(broken: Row, tmp_path: Path) -> None:
    lines = tmp_path / "workloads" / "topk" / "topk_fp32_k2048.jsonl"
    lines.parent.mkdir(parents=True)
    os.mkfifo(lines)
    with pytest.raises(wb.UsageError, match="pipe"):
        wb.export(broken, to=tmp_path, style="flashinfer-trace")
    assert list(tmp_path.rglob("*.safetensors")) == []


def test_exports_at_once_to_one_folder_keep_all_lines(tmp_path: Path) -> None:
    wb.write(tmp_path / "rows.safetensors", [row(hot(5000 + 100 * at)) for at in range(4)])
    command = [sys.executable, "-m", "workbench", "export", str(tmp_path / "rows.safetensors")]
    command += ["--to", str(tmp_path / "set"), "--style", "flashinfer-trace", "--path", "vllm.histogram_256", "--row"]
    running = [subprocess.Popen([*command, str(at)], stderr=subprocess.PIPE, text=True) for at in range(4)]
    assert [(one.communicate()[1], one.returncode) for one in running] == [("", 0)] * 4
    assert len(read(tmp_path / "set")[1]) == 4


def test_a_refused_export_leaves_no_folders(broken: Row, tmp_path: Path) -> None:
    definition = tmp_path / "definitions" / "topk" / "topk_fp32_k2048.json"
    definition.parent.mkdir(parents=True)
    definition.write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(wb.UsageError, match="there already"):
        wb.export(broken, to=tmp_path, style="flashinfer-trace")
    assert sorted(tmp_path.rglob("*")) == before


def test_lines_of_others_stay(broken: Row, tmp_path: Path) -> None:
    lines = tmp_path / "workloads" / "topk" / "topk_fp32_k2048.jsonl"
    lines.parent.mkdir(parents=True)
    lines.write_text('{"definition": "topk_fp32_k2048"}')
    done = wb.export(broken, to=tmp_path, style="flashinfer-trace")
    before = lines.read_text()
    assert before.startswith('{"definition": "topk_fp32_k2048"}\n{')
    assert wb.export(broken, to=tmp_path, style="flashinfer-trace").unchanged == done.files
    assert lines.read_text() == before
    lines.write_bytes(b"\xff")
    with pytest.raises(wb.UsageError, match="not a file of JSON lines"):
        wb.export(broken, to=tmp_path, style="flashinfer-trace")
    assert lines.read_bytes() == b"\xff"


# The package imports CUDA libraries at its root, which its data layer does not need: only the latter is installed.
READS = """
import sys, types
from pathlib import Path
root = types.ModuleType("flashinfer_bench")
root.__path__ = [str(Path(sys.argv[1]) / "flashinfer_bench")]
bench = types.ModuleType("flashinfer_bench.bench")
bench.__path__ = [root.__path__[0] + "/bench"]
sys.modules |= {"flashinfer_bench": root, "flashinfer_bench.bench": bench}
from flashinfer_bench.data import Definition, TraceSet
held = TraceSet.from_path(sys.argv[2])
(definition,) = held.definitions.values()
(trace,) = held.workloads[definition.name]
assert isinstance(definition, Definition) and trace.is_workload_trace()
assert definition.get_input_shapes(trace.workload.axes) in ([[1, 20000], [1]], {"scores": [1, 20000], "lengths": [1]})
print(definition.name, len(held.traces))
"""


@pytest.mark.slow
def test_flashinfer_bench_reads_it(broken: Row, tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages)]
    subprocess.run([*install, "--no-deps", "flashinfer-bench==0.1.2"], check=True)
    subprocess.run([*install, "pydantic>=2"], check=True)
    wb.export(broken, to=tmp_path / "set", style="flashinfer-trace")
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, sys.argv[1])\n{READS}",
        packages,
        tmp_path / "set",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "topk_fp32_k2048 0\n", done.stderr
