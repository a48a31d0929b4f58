"""The fixture file: what it holds, what it leaves out, and files that are none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import workbench as wb
from tests.export.conftest import hot, row
from workbench.capture import Row
from workbench.errors import CaptureError, UsageError
from workbench.export.fixture import (
    Fixture,
    expected_values,
    fixture_files,
    read_fixture,
    write_fixture,
)
from workbench.export.losing import chosen_path, losing
from workbench.export.provenance import without_paths
from workbench.export.writing import make_fixture
from workbench.runs.case import Case


def fixture_of(given: Row, path: str | None = None, variant: str | None = None) -> Fixture:
    case = Case(given)
    return make_fixture(losing(case, *chosen_path(case, path, variant)))


@pytest.fixture
def written(broken: Row, tmp_path: Path) -> Path:
    target = tmp_path / "one.safetensors"
    write_fixture(target, fixture_of(broken))
    return target


def test_it_is_a_capture_of_one_row_with_the_expected_values(broken: Row, written: Path) -> None:
    with wb.open(written) as capture:
        assert capture.info.notes == ()
        (held,) = list(capture)
        assert torch.equal(held.scores, broken.scores)
        assert (held.call.op, held.call.release, held.call.device, held.k) == (
            "vllm.persistent_topk",
            "vllm==0.26.0",
            "h200",
            2048,
        )
        assert capture.verify() == []
    expected = load_file(written)["expected"].view(torch.float32)
    assert torch.equal(expected, broken.scores.sort(descending=True).values[:2048])
    assert wb.inspect(held).finding


def test_it_reads_back_as_it_was_made(broken: Row, written: Path) -> None:
    made, read = fixture_of(broken), read_fixture(written)
    assert torch.equal(made.expected, read.expected)
    for name in ("k", "path", "variant", "risk", "p_clean", "repeats", "order", "missing", "start", "digest"):
        assert getattr(made, name) == getattr(read, name), name
    assert (read.path, read.variant, read.risk) == ("vllm.histogram_256", "stock", "at risk")
    assert read.missing > 0


def test_the_model_loses_so_much_under_the_kept_order(written: Path) -> None:
    held = read_fixture(written)
    case = Case(held.row)
    loss = losing(case, *chosen_path(case, held.path, held.variant))
    assert loss.order == held.order
    assert loss.verdict.missing == held.missing


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_scores_keep_their_bits(dtype: torch.dtype, tmp_path: Path) -> None:
    scores = hot(30, width=301, dtype=dtype)
    scores[scores == -3] = -0.0
    made = replace(fixture_of(row(hot(5000))), row=Row(scores, 301, call=wb.Call(k=100)), k=100, missing=70)
    made = replace(made, digest=made.row.digest, expected=expected_values(scores, 100))
    write_fixture(tmp_path / "a.safetensors", made)
    read = read_fixture(tmp_path / "a.safetensors")
    assert read.expected.dtype == dtype
    assert not torch.signbit(read.expected[30:]).any()
    assert load_file(tmp_path / "a.safetensors")["expected"].dtype == torch.int16


def test_nan_and_negative_zero_have_one_pattern_each(tmp_path: Path) -> None:
    scores = hot(5000)
    made = fixture_of(row(scores))
    scores = scores.clone()
    scores[:3] = torch.tensor([-1, 0x7FC00001, -2], dtype=torch.int32).view(torch.float32)
    made = replace(made, row=row(scores), digest=row(scores).digest, expected=expected_values(scores, 2048))
    write_fixture(tmp_path / "a.safetensors", made)
    bits = load_file(tmp_path / "a.safetensors")["expected"]
    assert bits[:3].tolist() == [0x7FC00000] * 3
    read_fixture(tmp_path / "a.safetensors")


def test_only_the_valid_window_is_kept(broken: Row) -> None:
    padded = torch.cat([torch.full((7,), 9e9), broken.scores, torch.full((50,), 9e9)])
    held = fixture_of(Row(padded, broken.length, start=7, call=broken.call))
    assert torch.equal(held.row.scores, broken.scores)
    assert (held.row.start, held.start) == (0, 7)
    assert held.digest == fixture_of(broken).digest


def test_equal_rows_give_equal_bytes_wherever_they_lie(broken: Row, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    write_fixture(tmp_path / "a.safetensors", fixture_of(broken))
    moved = replace(broken, index=5, capture="/home/someone/elsewhere.safetensors")
    write_fixture(tmp_path / "other" / "b.safetensors", fixture_of(moved))
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "other" / "b.safetensors").read_bytes()


def test_no_path_and_no_request_is_kept(tmp_path: Path) -> None:
    given = row(hot(5000), model="/home/alice/models/GLM-5.3", request="alice-2026-01-01")
    given = replace(given, capture="/home/alice/run.safetensors")
    write_fixture(tmp_path / "a.safetensors", fixture_of(given))
    assert b"alice" not in (tmp_path / "a.safetensors").read_bytes()
    held = read_fixture(tmp_path / "a.safetensors").row.call
    assert (held.model, held.request) == ("GLM-5.3", None)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("deepseek-ai/DeepSeek-V3.2", "deepseek-ai/DeepSeek-V3.2"),
        ("vllm==0.26.0", "vllm==0.26.0"),
        ("/home/alice/models/glm", "glm"),
        ("~/glm", "glm"),
        ("../alice/glm", "glm"),
        ("C:\\Users\\alice\\glm", "glm"),
        ("\\\\server\\alice\\glm", "glm"),
        ("file:///home/alice/vllm", "vllm"),
        ("vllm @ file:///home/alice/vllm", "vllm @ vllm"),
        ("models/alice/glm/", "glm"),
        ("built in '/home/alice/x y'", "built in 'x y'"),
        ("C:\\Users\\Alice Smith\\glm", "glm"),
        ("/home/alice smith/glm", "glm"),
        ("/home/alice", ""),
        ("HOME=/Users/alice", ""),
        ("file:///home/alice/", ""),
        ("~alice", ""),
        ("alice@host:models/glm", "glm"),
        ("/", ""),
        ("", ""),
    ],
)
def test_paths_are_cut_to_their_last_part(text: str, left: str) -> None:
    assert without_paths(text) == left


def test_it_never_overwrites(broken: Row, written: Path) -> None:
    before = written.read_bytes()
    with pytest.raises(UsageError, match="there already"):
        write_fixture(written, fixture_of(broken))
    assert written.read_bytes() == before


def metadata(path: Path) -> dict[str, str]:
    with safe_open(path, framework="pt") as file:
        return dict(file.metadata())


def changed(path: Path, /, **fields: Any) -> None:
    """Write the file again with fields of its metadata changed; ``None`` leaves one out."""
    held = metadata(path)
    content = json.loads(held["topk_fixture"]) | fields
    held["topk_fixture"] = json.dumps({name: value for name, value in content.items() if value is not None})
    save_file(load_file(path), path, held)


BAD_FIELDS = [
    ({"fixture_version": 2}, "newer than 1"),
    ({"fixture_version": None}, "fixture_version is not"),
    ({"fixture_version": True}, "fixture_version is not"),
    ({"digest": "sha256:00"}, "their digest differs"),
    ({"digest": 3}, "digest is not"),
    ({"path": ""}, "path is not"),
    ({"path": "a\nb"}, "path is not"),
    ({"variant": ["stock"]}, "variant is not"),
    ({"risk": "safe"}, "risk is not"),
    ({"p_clean": 1}, "p_clean is not"),
    ({"p_clean": "0"}, "p_clean is not"),
    ({"repeats": 0}, "repeats is not"),
    ({"repeats": 10**9}, "repeats is not"),
    ({"order": "index"}, "order is not"),
    ({"order": {"kind": "explicit", "unit": "element", "seed": 0}}, "order is not"),
    ({"order": {"kind": [], "unit": "element", "seed": 0}}, "order is not"),
    ({"order": {"kind": "random", "unit": "element", "seed": -1}}, "order is not"),
    ({"missing": -1}, "missing is not"),
    ({"start": 2**31}, "start is not"),
    ({"note": "hello"}, "holds more than"),
    ({"p_clean": 0.99, "repeats": 1}, "repeats is 1, and a p_clean of 0.99 needs 1375"),
    ({"risk": "certain", "p_clean": 0.5, "repeats": 20}, "the risk is certain, and p_clean 0.5"),
    ({"missing": 2049}, "missing is 2049, and there are 2048 winners"),
]


@pytest.mark.parametrize(("fields", "message"), BAD_FIELDS, ids=lambda value: str(value)[:40])
def test_wrong_metadata_is_one_line(fields: dict[str, Any], message: str, written: Path) -> None:
    changed(written, **fields)
    with pytest.raises(CaptureError, match=re.escape(message)) as caught:
        read_fixture(written)
    assert "\n" not in str(caught.value)
    assert str(written) in str(caught.value)


def scores_lost(tensors: dict[str, torch.Tensor]) -> None:
    tensors["scores"][0, 7] += 1


def another_value(tensors: dict[str, torch.Tensor]) -> None:
    tensors["expected"][7] += 1


def fewer_values(tensors: dict[str, torch.Tensor]) -> None:
    tensors["expected"] = tensors["expected"][1:].clone()


def wide_values(tensors: dict[str, torch.Tensor]) -> None:
    tensors["expected"] = tensors["expected"].long()


def no_values(tensors: dict[str, torch.Tensor]) -> None:
    del tensors["expected"]


def no_k(tensors: dict[str, torch.Tensor]) -> None:
    del tensors["k"]


def shorter(tensors: dict[str, torch.Tensor]) -> None:
    tensors["lengths"] -= 1


def two_rows(tensors: dict[str, torch.Tensor]) -> None:
    tensors["scores"] = tensors["scores"].repeat(2, 1)
    tensors["lengths"] = tensors["lengths"].repeat(2)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (scores_lost, "their digest differs"),
        (another_value, "not the k best values"),
        (fewer_values, r"it is int32 \[2047\]; int32 \[2048\] is needed"),
        (wide_values, "it is int64"),
        (no_values, "no such tensor"),
        (no_k, "does not say k"),
        (shorter, "valid scores of its row and nothing else"),
        (two_rows, "one row, not 2"),
    ],
)
def test_wrong_tensors_are_one_line(
    damage: Callable[[dict[str, torch.Tensor]], None], message: str, written: Path
) -> None:
    tensors, held = load_file(written), metadata(written)
    damage(tensors)
    save_file(tensors, written, held)
    with pytest.raises(CaptureError, match=message):
        read_fixture(written)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": NaN}', "\x00", "{" * 5000])
def test_metadata_that_is_no_object_is_one_line(text: str, written: Path) -> None:
    save_file(load_file(written), written, metadata(written) | {"topk_fixture": text})
    with pytest.raises(CaptureError, match="topk_fixture"):
        read_fixture(written)


def test_a_capture_is_no_fixture(broken: Row, tmp_path: Path) -> None:
    wb.write(tmp_path / "a.safetensors", [broken])
    with pytest.raises(CaptureError, match="a capture, but no fixture"):
        read_fixture(tmp_path / "a.safetensors")
    (tmp_path / "b.safetensors").write_bytes(b"nothing")
    with pytest.raises(CaptureError, match="too few"):
        read_fixture(tmp_path / "b.safetensors")
    with pytest.raises(CaptureError, match="no such file"):
        read_fixture(tmp_path / "c.safetensors")


def test_files_of_a_folder(written: Path, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "two.safetensors").write_bytes(written.read_bytes())
    assert fixture_files(tmp_path) == [tmp_path / "deep" / "two.safetensors", written]
    with pytest.raises(UsageError, match="no such folder"):
        fixture_files(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no fixtures"):
        fixture_files(tmp_path / "empty")


def test_the_writer_of_captures_refuses_names_that_are_its_own(broken: Row, tmp_path: Path) -> None:
    target = tmp_path / "a.safetensors"
    for name, tensor in (("k", torch.ones(1, dtype=torch.int32)), ("scores", torch.ones(1, dtype=torch.int32))):
        with pytest.raises(UsageError, match="format's own"):
            wb.write(target, [broken], tensors={name: tensor})
    with pytest.raises(UsageError, match="int16, int32 or int64 is needed"):
        wb.write(target, [broken], tensors={"mine": torch.ones(1)})
    with pytest.raises(UsageError, match="format's own"):
        wb.write(target, [broken], metadata={"topk_workbench": "{}"})
    assert not target.exists()
    wb.write(target, [broken], tensors={"mine": torch.arange(6).reshape(2, 3)}, metadata={"more": "yes"})
    assert torch.equal(load_file(target)["mine"], torch.arange(6).reshape(2, 3))
    assert metadata(target)["more"] == "yes"
