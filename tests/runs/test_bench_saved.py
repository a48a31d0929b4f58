"""Benchmarks as files, and two of them compared."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import loses, refuses
from tests.runs.benches import MODEL, TOPK, VENDOR, Fake, plan, vendor
from workbench.errors import CaptureError, UsageError
from workbench.runs.bench import Bench, run_bench
from workbench.runs.bench_compare import compare
from workbench.runs.bench_saved import BenchFile, parse_bench, read_bench, to_document, write_bench
from workbench.runs.bench_words import compare_sentence


@pytest.fixture(scope="module")
def bench() -> Bench:
    return run_bench(plan(VENDOR, MODEL, TOPK, rows=(1, 2)), vendor(Fake(loses(2))))


def test_is_read_back_as_it_was(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_bench(file, bench)
    assert read_bench(file) == bench
    refused = run_bench(plan(VENDOR, TOPK), vendor(Fake(refuses("a", "b"))))
    write_bench(file, refused, overwrite=True)
    assert read_bench(file) == refused
    with pytest.raises(UsageError, match="the file is there already"):
        write_bench(file, bench)


def test_a_cell_says_everything_by_itself(bench: Bench) -> None:
    document: Any = json.loads(json.dumps(to_document(bench)))
    assert (document["complete"], document["planned"]) == (True, 6)
    cell = document["cells"][0]
    assert cell["state"] == "measured"
    assert (cell["rows"], cell["length"], cell["k"], cell["engine"], cell["release"]) == (
        1,
        1000,
        512,
        "vendor",
        "vllm==0.26.0",
    )
    assert (cell["median_us"], cell["p10_us"], cell["p90_us"], cell["least_us"]) == (12, 10.4, 13.6, 10)
    assert cell["verdict"]["kind"] == "lossy"
    assert document["cells"][1]["beside_op"]["of_medians"] > 0


def test_a_file_is_whole_at_any_time(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = BenchFile(str(tmp_path / "a.json"))
    parts = [replace(bench, cells=bench.cells[:count]) for count in (0, 3, 6)]
    file.keep(parts[0])
    assert not read_bench(tmp_path / "a.json").cells
    file.keep(parts[1])
    assert not read_bench(tmp_path / "a.json").cells, "not written again within seconds"
    file.keep(parts[1], now=True)
    assert len(read_bench(tmp_path / "a.json").cells) == 3

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(UsageError, match=r"No space left on device; it holds the first 3 of 6 cells"):
        file.keep(parts[2], now=True)
    monkeypatch.undo()
    kept = read_bench(tmp_path / "a.json")
    assert (len(kept.cells), kept.is_complete) == (3, False)
    assert [one.name for one in tmp_path.iterdir()] == ["a.json"]


Change = Callable[[Any], object]
CHANGES: dict[str, Change] = {
    "its format is 'x'": lambda d: d.update(format="x"),
    "lacks 'cells'": lambda d: d.pop("cells"),
    "has 'more'": lambda d: d.update(more=1),
    "says otherwise": lambda d: d.update(complete=False),
    "says otherwise.": lambda d: d.update(planned=7),
    "cells[0].median_us is 1": lambda d: d["cells"][0].update(median_us=1),
    "cells[0].gbs is 'fast'": lambda d: d["cells"][0].update(gbs="fast"),
    "cells[1].beside_op is None": lambda d: d["cells"][1].update(beside_op=None),
    "cells[0].times_us is -1": lambda d: d["cells"][0]["times_us"].__setitem__(0, -1),
    "cells[0].times_us is 1e+300; a number of 0 or more, below 9e+18, is needed": lambda d: d["cells"][0][
        "times_us"
    ].__setitem__(0, 1e300),
    "has 4 samples": lambda d: d["cells"][0]["times_us"].pop(),
    "no cell of the plan": lambda d: d["cells"][0].update(rows=9),
    "cells has one twice": lambda d: d["cells"].__setitem__(1, d["cells"][0]),
    "must have samples, or be refused": lambda d: d["cells"][0].update(refused=["no"]),
    "cells[0].verdict contradicts itself": lambda d: d["cells"][0]["verdict"].update(wrong=0),
    "must have a verdict": lambda d: d["cells"][0].update(verdict=None),
    "plan.shapes names one twice": lambda d: d["plan"]["shapes"].append(d["plan"]["shapes"][0]),
    "plan.samples is 0": lambda d: d["plan"].update(samples=0),
    "machine.read_gbs is True": lambda d: d["machine"].update(read_gbs=True),
    "cells[0].lengths is 'long'": lambda d: d["cells"][0].update(lengths="long"),
    "plan.device is": lambda d: d["plan"].update(device="\x1b[2J"),
}


@pytest.mark.parametrize("words", CHANGES)
def test_other_documents_are_refused(bench: Bench, words: str) -> None:
    document = json.loads(json.dumps(to_document(bench)))
    CHANGES[words](document)
    with pytest.raises(CaptureError) as raised:
        parse_bench(json.dumps(document).encode(), "a.json")
    assert words.rstrip(".") in str(raised.value)
    assert str(raised.value).startswith("a.json: ")


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"{", b'{"format": NaN}', b"\xff", b'{"a": 1, "a": 2}'])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(CaptureError, match=r"a\.json"):
        read_bench(tmp_path / "a.json")
    with pytest.raises(CaptureError, match="cannot be read"):
        read_bench(tmp_path / "b.json")
    with pytest.raises(CaptureError, match="no regular file"):
        read_bench(tmp_path)


def test_two_runs_cell_by_cell() -> None:
    one = run_bench(plan(VENDOR, TOPK, rows=(1, 2)), vendor(Fake(us=100)))
    other = run_bench(plan(VENDOR, rows=(2, 3), seed=1), vendor(Fake(loses(1), us=200)))
    other = replace(other, machine=replace(other.machine, name="NVIDIA H100"))
    found = compare(one, other)
    (pair,) = found.pairs
    assert pair.first.shape.rows == 2
    assert pair.ratio is not None
    assert pair.ratio.of_medians == pytest.approx(202 / 102)
    assert pair.ratio.low < pair.ratio.of_medians < pair.ratio.high
    assert pair.is_worse
    assert len(found.only_first) == 3
    assert [cell.shape.rows for cell in found.only_second] == [3]
    assert found.differing == {"machine": ("cpu", "NVIDIA H100"), "seed": ("0", "1")}
    assert compare_sentence(found) == (
        "1 cell was measured in both: in the second 1 took longer, 0 less time, 0 are not told apart; 1 is wrong in "
        "the second alone."
    )


def test_a_run_beside_itself(bench: Bench) -> None:
    found = compare(bench, bench)
    assert len(found.pairs) == 6
    assert all(pair.ratio is not None and pair.ratio.of_medians == 1 and not pair.ratio.differs for pair in found.pairs)
    assert not found.worse
    assert not found.differing
