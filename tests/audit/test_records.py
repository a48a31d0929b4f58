"""What the records say of rows: the same as looking at each row alone."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pyarrow as pa
import pytest
import torch

from tests.audit.making import audited, content, dump, records, rows
from tests.kernels import emulated
from tests.kernels.emulated_device import EmulatedDevice
from tests.kernels.screened import batches
from workbench.audit import work
from workbench.audit.asked import Asked, located
from workbench.audit.lines import joined
from workbench.audit.plan import make_plan
from workbench.audit.schema import COLUMNS, arrow_schema
from workbench.audit.work import Worker
from workbench.capture import Call, Row, open_capture, write_capture
from workbench.errors import UsageError
from workbench.paths.catalog import PATHS, find_paths
from workbench.resources import samples_dir
from workbench.runs.inspect import inspect_row

COUNTS = ("threshold_bin", "above", "population", "need", "capacity", "p_clean", "expected_missing")


def test_each_row_is_judged_as_it_is_alone(tmp_path: Path) -> None:
    samples = samples_dir()
    asked = {"op": "vllm.persistent_topk", "release": "vllm==0.26.0", "device": "h200"}
    audited(samples, tmp_path / "out", **asked)
    lines = records(tmp_path / "out").to_pylist()
    at = 0
    for name in dict.fromkeys(line["file"] for line in lines):
        with open_capture(samples / name, **asked) as capture:
            for row in capture:
                seen = inspect_row(row)
                for found in seen.census:
                    line = lines[at]
                    at += 1
                    assert (line["file"], line["row"], line["engine"]) == (name, row.index, "census")
                    assert (line["path"], line["variant"]) == (found.path, found.variant)
                    assert line["risk"] == found.level
                    assert line["refused"] == ("; ".join(found.refused) or None)
                    assert line["finding"] == (found.finding or None)
                    assert [line[key] for key in COUNTS] == [getattr(found, key) for key in COUNTS]
                    assert line["reached"] is (found.path == seen.reached) if seen.reached else not line["reached"]
                    assert line["scores"] == row.digest
                if seen.recorded is not None:
                    line = lines[at]
                    at += 1
                    assert line["engine"] == "recorded"
                    assert line["verdict"] == seen.recorded.line.verdict
                    assert line["missing"] == seen.recorded.line.missing
                    assert line["path"] == seen.reached
    assert at == len(lines) > 10_000


def test_columns_are_those_of_the_schema_and_calls_are_in_them(tmp_path: Path) -> None:
    folder = dump(tmp_path / "dump", 1, model="m", request="r")
    found = audited(folder, tmp_path / "out", release="vllm==0.26.0", device="h200")
    table = records(tmp_path / "out")
    assert table.schema.equals(arrow_schema(), check_metadata=False)
    assert table.num_rows == found.lines == 3 * len(PATHS)
    line = table.to_pylist()[0]
    assert {name: line[name] for name in ("op", "release", "device", "model", "request", "layer", "step", "rank")} == {
        "op": "vllm.persistent_topk",
        "release": "vllm==0.26.0",
        "device": "h200",
        "model": "m",
        "request": "r",
        "layer": 1,
        "step": 2,
        "rank": 0,
    }
    assert (line["k"], line["length"], line["width"], line["dtype"], line["call"]) == (64, 1000, 1000, "float32", 0)
    assert [column.name for column in COLUMNS] == table.column_names


def test_only_paths_that_are_asked_for(tmp_path: Path) -> None:
    found = audited(dump(tmp_path / "dump", 1), tmp_path / "out", paths="vllm.h*")
    expected = [path.name for path in find_paths("vllm.h*")]
    assert records(tmp_path / "out")["path"].to_pylist() == expected * 3
    assert found.lines == len(expected) * 3
    with pytest.raises(UsageError, match="no path matches"):
        audited(tmp_path / "dump", tmp_path / "other", paths="none*")
    assert not (tmp_path / "other").exists()


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("special", "k"),
    [
        ([], 5),
        ([0.0, -0.0, 0.0, -0.0, 1e-30, -1e-30], 40),
        ([NAN, -NAN, INF, -INF, -INF], 3),
        ([NAN, -NAN, INF, -INF, -INF], 1),
        ([65504.0, -65504.0, 65510.0, 65519.0, -65519.0, 65520.0, 1e30, -1e30], 4),
        ([-INF] * 90, 60),
        ([2.0] * 30 + [INF] * 2, 5),
        ([1.0] * 99, 100),
        ([1.0] * 100, 100),
        ([], 1000),
    ],
)
def test_facts_are_what_a_count_over_the_row_gives(
    tmp_path: Path, dtype: torch.dtype, special: list[float], k: int
) -> None:
    scores = torch.cat([torch.randn(80, generator=torch.Generator().manual_seed(1)), torch.tensor(special)]).to(dtype)
    if dtype is torch.float32 and special[:1] == [0.0]:
        scores[:20] = scores[:20].abs() * 1e-9  # beside zeros in the fp16 bins of both
        scores[20:80] = -scores[20:80].abs() * 1e-9
    width = 1000
    row = Row(torch.cat([scores, torch.full((width - len(scores),), NAN, dtype=dtype)]), len(scores), call=Call(k=k))
    (tmp_path / "dump").mkdir()
    write_capture(tmp_path / "dump" / "a.safetensors", [row])
    audited(tmp_path / "dump", tmp_path / "out")
    line = records(tmp_path / "out").to_pylist()[0]
    numbers = scores.to(torch.float64)
    ordered = torch.sort(scores.to(torch.float64), descending=True).values  # NaN first
    cut = ordered[k - 1] if len(scores) > k else None
    ties = None if cut is None else int(torch.isnan(numbers).sum() if torch.isnan(cut) else (numbers == cut).sum())
    assert line["error"] is None
    assert line["nan"] == int(torch.isnan(numbers).sum())
    assert line["neg_inf"] == int((numbers == -INF).sum())
    assert line["fp16_overflow"] == int(((numbers.abs() > 65504) & numbers.isfinite()).sum())
    assert line["ties"] == ties


def test_rows_without_k_and_selections_that_cannot_be_are_lines_with_their_error(tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    folder.mkdir()
    no_k = [Row(torch.randn(100), 100)]
    write_capture(folder / "no-k.safetensors", no_k)
    good = [Row(row.scores, row.length, call=row.call, indices=row.scores.topk(64).indices.int()) for row in rows()]
    write_capture(folder / "recorded.safetensors", good)
    data = bytearray((folder / "recorded.safetensors").read_bytes())
    with open_capture(folder / "recorded.safetensors") as capture:
        begin = capture.store.blocks[0].indices.begin  # type: ignore[attr-defined,union-attr]
    data[begin + 64 * 4 : begin + 64 * 4 + 4] = (5000).to_bytes(4, "little")
    (folder / "spoilt.safetensors").write_bytes(data)
    found = audited(folder, tmp_path / "out", paths="vllm.histogram_256")
    lines = records(tmp_path / "out").to_pylist()
    errors = {(line["file"], line["row"]): line for line in lines if line["error"]}
    assert list(errors) == [("no-k.safetensors", 0), ("spoilt.safetensors", 1)]
    assert "does not say k" in errors["no-k.safetensors", 0]["error"]
    assert "recorded index 5000" in errors["spoilt.safetensors", 1]["error"]
    assert all(
        value is None
        for line in errors.values()
        for name, value in line.items()
        if name not in ("file", "row", "error")
    )
    assert (found.rows, found.failed_rows, found.failed_files) == (7, 2, 2)
    manifest = [json.loads(line) for line in content(tmp_path / "out")["manifest.jsonl"].splitlines()]
    assert [line["state"] for line in manifest] == ["failed", "done", "partly"]
    assert [line["rows"] for line in manifest] == [1, 3, 3]
    assert [line["failed"] for line in manifest] == [1, 0, 1]


def test_recorded_selections_have_the_digest_of_a_set(tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    folder.mkdir()
    row = rows(1)[0]
    best = row.scores.topk(64).indices.int()
    worst = torch.arange(64, dtype=torch.int32)
    call = Call(**{**vars(row.call), "rows": 3})
    write_capture(
        folder / "a.safetensors",
        [Row(row.scores, row.length, call=call, indices=indices) for indices in (best, best.flip(0), worst)],
    )
    found = audited(folder, tmp_path / "out")
    table = records(tmp_path / "out")
    lines = table.filter(pa.compute.equal(table["engine"], "recorded")).to_pylist()
    assert [line["verdict"] for line in lines] == ["exact", "exact", "lossy"]
    assert lines[0]["selection"] == lines[1]["selection"] != lines[2]["selection"]
    assert found.found_rows >= 1


def test_padding_is_not_read_and_does_not_count(tmp_path: Path) -> None:
    """A row's cells past its length may hold anything, and a unit is as large as what is read."""
    folder = tmp_path / "dump"
    folder.mkdir()
    padded = [
        Row(torch.cat([row.scores, torch.full((9000,), NAN)]), 1000, call=Call(**{**vars(row.call), "width": 10_000}))
        for row in rows()
    ]
    write_capture(folder / "a.safetensors", padded)
    audited(folder, tmp_path / "out")
    for line in records(tmp_path / "out").to_pylist():
        assert (line["nan"], line["width"], line["length"]) == (0, 10_000, 1000)
        assert line["scores"] == padded[line["row"]].digest


def test_rows_that_are_moved_together_get_the_same_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are to another device; here to this one again."""
    folder = dump(tmp_path / "dump", 3)
    wide = [Row(torch.randn(3000).bfloat16(), 2000, call=Call(k=k)) for k in (4, 8)] + [Row(torch.randn(50), 50)]
    for number, row in enumerate(wide):
        write_capture(folder / f"other{number}.safetensors", [row])
    audited(folder, tmp_path / "out")
    asked = Asked(*located(folder))
    worker = Worker(asked)
    monkeypatch.setattr(worker, "_together", 9000)
    found = [joined(worker(job).payload) for job in make_plan(asked).jobs()]
    assert pa.concat_tables(found).equals(records(tmp_path / "out"))


@pytest.mark.skipif(emulated.COMPILER is None, reason="no C++ compiler of the host (g++ or clang++)")
def test_rows_that_a_device_has_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """By the kernel that counts whole batches, on the CPU."""
    kinds = [
        Row(batch.valid(at), batch.valid(at).numel(), call=Call(k=batch.k, width=9000))
        for batch in batches(5003).values()
        for at in range(len(batch.scores))
        if batch.valid(at).numel()
    ]
    kinds += [
        Row(torch.randn(900), length, start, Call(k=9)) for length, start in ((800, 7), (2000, 3), (-4, 0), (5, 1))
    ]
    (tmp_path / "dump").mkdir()
    write_capture(tmp_path / "dump" / "a.safetensors", kinds)
    asked = Asked(*located(tmp_path / "dump"))
    alone, together = Worker(asked), Worker(asked)
    device = EmulatedDevice(Path(str(request.config.cache.mkdir("emulated-kernels"))), monkeypatch)
    monkeypatch.setattr(work, "_has_kernels", lambda scores: scores.dtype == torch.float32)
    together._together = 1 << 30
    for job in make_plan(asked).jobs():
        assert joined(together(job).payload).equals(joined(alone(job).payload))
        assert device.launches > 1
        assert len(together._counts) == job.unit.count
