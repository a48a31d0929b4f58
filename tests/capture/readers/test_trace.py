"""FlashInfer-Trace sets: what the workbench exports comes back, and sets that lie."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import workbench as wb
from workbench.capture import Call, Row, open_capture

Refusal = Callable[..., str]
Same = Callable[[torch.Tensor, torch.Tensor], bool]


def hot(count: int) -> Row:
    """``count`` float32 neighbours that share one coarse bin."""
    scores = torch.full((20_000,), -3.0)
    scores[torch.randperm(20_000, generator=torch.Generator().manual_seed(count))[:count]] = (
        torch.arange(count, dtype=torch.int32) + 0x3F800001
    ).view(torch.float32)
    call = Call(k=2048, op="vllm.persistent_topk", release="vllm==0.26.0", device="h200", rows=1, width=20_000)
    return Row(scores, 20_000, call=call)


def test_what_is_exported_comes_back(tmp_path: Path, same_bits: Same) -> None:
    rows = [hot(count) for count in (5000, 6000)]
    for row in rows:
        wb.export(row, to=tmp_path, style="flashinfer-trace", path="vllm.histogram_256")
    with open_capture(tmp_path) as capture:
        assert capture.info.format == "FlashInfer-Trace workloads"
        assert all(same_bits(row.scores, given.scores) for row, given in zip(capture, rows, strict=True))
        assert [(row.length, row.k, row.digest) for row in capture] == [(20_000, 2048, row.digest) for row in rows]
        assert capture.verify() == []
        assert capture.call(0).op is None  # the schema has no place for it


def made(root: Path, **changes: Any) -> dict[str, Any]:
    """A set of one workload; gives its definition and its line, to be changed and written with ``written``."""
    blob = root / "blob" / "workloads" / "x.safetensors"
    blob.parent.mkdir(parents=True)
    save_file({"s": torch.randn(2, 8), "n": torch.tensor([8, 3], dtype=torch.int32)}, blob)
    definition = {
        "name": "topk",
        "op_type": "topk",
        "axes": {"rows": {"type": "var"}, "width": {"type": "var"}, "topk": {"type": "const", "value": 2}},
        "inputs": {
            "logits": {"shape": ["rows", "width"], "dtype": "float32"},
            "seq_lens": {"shape": ["rows"], "dtype": "int32"},
        },
        "reference": "raise SystemExit('a reference is never run')",
    }
    place = {"type": "safetensors", "path": "blob/workloads/x.safetensors"}
    inputs = {"logits": place | {"tensor_key": "s"}, "seq_lens": place | {"tensor_key": "n"}}
    line = {
        "definition": "topk",
        "workload": {"uuid": "u", "axes": {"rows": 2, "width": 8}, "inputs": inputs},
        "solution": None,
        "evaluation": None,
    }
    return {"definition": definition, "line": line} | changes


def written(root: Path, content: dict[str, Any]) -> Path:
    for folder, name, text in (
        ("definitions", "topk.json", json.dumps(content["definition"])),
        ("workloads", "topk.jsonl", json.dumps(content["line"]) + "\n\n"),
    ):
        (root / folder / "any").mkdir(parents=True, exist_ok=True)
        (root / folder / "any" / name).write_text(text)
    return root


def test_sets_of_others(tmp_path: Path) -> None:
    content = made(tmp_path)
    content["line"]["workload"]["inputs"]["temperature"] = {"type": "scalar", "value": 0.5}
    content["line"]["workload"]["inputs"]["q"] = {"type": "random"}
    with open_capture(written(tmp_path, content)) as capture:
        assert capture.lengths.tolist() == [8, 3]
        assert capture.call(0).k == 2
        assert capture.info.left == ("'topk.1.q': random", "'topk.1.temperature': scalar 0.5")
    with open_capture(tmp_path, scores="logits") as capture:
        assert capture.lengths.tolist() == [8, 8]


def test_scores_that_were_not_kept(tmp_path: Path, refusal: Refusal) -> None:
    content = made(tmp_path)
    content["line"]["workload"]["inputs"]["logits"] = {"type": "random"}
    assert "nothing in it is called scores" in refusal(written(tmp_path, content))


def test_results_are_no_workloads(tmp_path: Path, refusal: Refusal) -> None:
    content = made(tmp_path)
    content["line"]["solution"] = "fast"
    assert "It holds no tensors" in refusal(written(tmp_path, content))


@pytest.mark.parametrize(
    "path",
    [
        "/etc/hostname",
        "../x.safetensors",
        "blob/../../x.safetensors",
        "",
        ".",
        "a\0b",
        "blob/workloads/link.safetensors",
    ],
)
def test_no_blob_leaves_the_set(tmp_path: Path, refusal: Refusal, path: str) -> None:
    root = tmp_path / "set"
    content = made(root)
    (tmp_path / "x.safetensors").write_bytes((root / "blob" / "workloads" / "x.safetensors").read_bytes())
    (root / "blob" / "workloads" / "link.safetensors").symlink_to(tmp_path / "x.safetensors")
    content["line"]["workload"]["inputs"]["logits"]["path"] = path
    assert "leads out of the folder" in refusal(written(root, content))


def test_links_that_lead_out_in_the_place_of_folders_and_files(tmp_path: Path, refusal: Refusal) -> None:
    root, other = tmp_path / "set", tmp_path / "other"
    written(other, made(other))
    root.mkdir()
    (root / "definitions").symlink_to(other / "definitions")
    (root / "workloads").symlink_to(other / "workloads")
    assert "leads out of the folder" in refusal(root)


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        (
            ("definition", "inputs", "logits", "dtype"),
            "bfloat16",
            "should be bfloat16 [2, 8], its blob holds float32 [2, 8]",
        ),
        (("definition", "inputs", "logits", "shape"), ["rows", "other"], "should be float32 [2, None]"),
        (("definition", "inputs", "logits"), None, "is not of the definition"),
        (("line", "workload", "axes", "rows"), 3, "should be float32 [3, 8]"),
        (("line", "workload", "axes"), None, "should be float32 [None, None]"),
        (("line", "workload", "inputs", "logits", "tensor_key"), "z", "holds no tensor 'z'"),
        (("line", "workload", "inputs", "logits", "tensor_key"), 3, "names no path and tensor_key"),
        (("line", "workload", "inputs"), [], "inputs of a workload is no JSON object"),
        (("line", "workload"), None, "line 1 holds no workload"),
        (("definition",), [], "the definition is no JSON object"),
        (("definition", "axes", "topk", "value"), 9, "k 9 is larger than the row width 8"),
    ],
)
def test_sets_that_lie(tmp_path: Path, refusal: Refusal, where: tuple[str, ...], value: Any, words: str) -> None:
    content = made(tmp_path)
    place: Any = content
    for name in where[:-1]:
        place = place[name]
    place[where[-1]] = value
    assert words in refusal(written(tmp_path, content))


def test_missing_blobs_and_definitions(tmp_path: Path, refusal: Refusal) -> None:
    root = written(tmp_path, made(tmp_path))
    (root / "blob" / "workloads" / "x.safetensors").unlink()
    assert "no such file" in refusal(root)
    (root / "definitions" / "any" / "topk.json").unlink()
    assert "definitions/any/topk.json: no such file" in refusal(root)
    (root / "workloads" / "any" / "topk.jsonl").unlink()
    assert "the set holds no workloads" in refusal(root)
