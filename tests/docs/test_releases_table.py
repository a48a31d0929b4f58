"""The measured matrix in the documentation: what its file holds, and nothing where there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import workbench as wb
from tests.bench.bench_releases import sample_rows
from tests.docs import tables
from tests.fakes import Releases, clean, loses
from tests.runs.test_matrix import small

ROOT = Path(__file__).parents[2]


def test_the_table_holds_what_the_file_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "releases-h200.json"
    monkeypatch.setattr(tables, "RELEASES_H200", file)
    assert tables.releases_h200() == "Not measured yet.\n"
    fake = Releases({"0.32.0": loses(3, every=2), "0.33.0": clean})
    rows = [replace(small(at, index=at), capture=f"{name}.safetensors") for at, name in enumerate("ab")]
    found = wb.matrix(rows, fake.names, engine=fake)
    wb.write_matrix(file, replace(found, about={"date": "2026-11-29", "gpu": "NVIDIA H200", "command": "python3"}))
    text = tables.releases_h200()
    assert "| vllm | row 0 of a, length 64 | row 1 of b, length 64 |" in text
    assert "| 0.32.0 | lossy, 1.5 (5 of 10 calls) | lossy, 1.5 (5 of 10 calls) |" in text
    assert "| 0.33.0 | exact | exact |" in text
    assert "date 2026-11-29, gpu NVIDIA H200." in text
    assert text.startswith("2 of 2 rows lose winners in some release from vllm==0.32.0 to 0.33.0, 10 calls each")


def test_the_samples_whose_ops_are_in_wheels_are_measured() -> None:
    rows = sample_rows(ROOT / "captures")
    assert [(row.capture, row.index) for row in rows] == [
        ("public-sglang-normal.safetensors", 0),
        *(("public-vllm-b300.safetensors", at) for at in range(4)),
        ("public-vllm-v100.safetensors", 0),
    ]
