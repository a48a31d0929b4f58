"""An audit's folder, opened: whole rows in batches, and every kind of damage is one line that names the file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import workbench as wb
from tests.audit.made import OTHER, census, dataset, recorded, table
from workbench.audit import dataset as module
from workbench.audit.dataset import Dataset, Words
from workbench.audit.findings import findings
from workbench.audit.schema import COLUMNS
from workbench.audit.summary import summarize
from workbench.errors import CaptureError, UsageError


def two_files(folder: Path) -> Path:
    parts = [
        [
            line
            for row in range(5)
            for line in (census("a", row), census("a", row, OTHER, "at risk"), recorded("a", row))
        ],
        [census("b", 0), census("b", 1, risk="certain"), census("b", 2)],
    ]
    return dataset(folder / "out", parts)


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 7, 1 << 17])
def test_batches_hold_whole_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    monkeypatch.setattr(module, "BATCH", batch)
    opened = Dataset(two_files(tmp_path))
    files, lines, rows = Words(), [], []
    for one in opened.lines(["path"]):
        assert one.starts[0] == 0
        names = [files.texts[code] for code in one.codes("file", files)]
        said = list(zip(names, one.numbers("row").tolist(), strict=True))
        lines += said
        rows += [said[at] for at in one.starts]
        assert one.record == (said[0][0] == "b")
        whole = opened.whole_lines([(one.record, one.first + at) for at in range(len(one))])
        assert [(line["file"], line["row"]) for line in whole] == said
        assert set(whole[0]) == {column.name for column in COLUMNS}
    assert lines == [("a", row) for row in range(5) for _ in range(3)] + [("b", row) for row in range(3)]
    assert rows == [("a", row) for row in range(5)] + [("b", row) for row in range(3)]


def test_an_empty_record_file_and_none_at_all(tmp_path: Path) -> None:
    assert summarize(Dataset(dataset(tmp_path / "out", [[], [census("a", 0)]]))).total.rows == 1
    assert summarize(Dataset(dataset(tmp_path / "none", []))).total.rows == 0


def damaged(name: str) -> Callable[[Path], None]:
    """What does some damage to the first record file."""

    def columns(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
        return lambda path: pq.write_table(change(pq.read_table(path)), path)

    def lines(*said: dict[str, object]) -> Callable[[Path], None]:
        return lambda path: pq.write_table(table(said), path)

    return {
        "truncated": lambda path: path.write_bytes(path.read_bytes()[:-30]),
        "cut in the middle": lambda path: path.write_bytes(path.read_bytes()[:40] + path.read_bytes()[200:]),
        "no parquet": lambda path: path.write_text("these are no records"),
        "empty": lambda path: path.write_bytes(b""),
        "a column less": columns(lambda held: held.drop_columns(["risk"])),
        "a column more": columns(lambda held: held.append_column("x", pa.nulls(held.num_rows, pa.int64()))),
        "another type": columns(lambda held: held.set_column(1, "row", held.column("row").cast(pa.float64()))),
        "no row": lines({**census("a", 0), "row": None}),
        "no file": lines({**census("a", 0), "file": None}),
        "a negative row": lines(census("a", -1)),
        "a negative call": lines(census("a", 0, call=-5)),
        "a far layer": lines(census("a", 0, layer=-(2**63))),
        "a negative count": lines(recorded("a", 0, "lossy", -(2**63))),
        "no engine": lines(census("a", 0, engine=None)),
        "another engine": lines(census("a", 0, engine="magic")),
        "another risk": lines(census("a", 0, risk="<b>sure</b>")),
        "another verdict": lines(recorded("a", 0, "splendid")),
        "no path": lines(census("a", 0, None)),  # type: ignore[arg-type]
        "a path twice": lines(census("a", 0), census("a", 0)),
        "a row twice": lines(census("a", 0), census("a", 1), census("a", 0)),
        "endless lines of a row": lines(*(census("a", 0, f"p{at}") for at in range(module.MOST_LINES + 1))),
    }[name]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("truncated", "records/000000.parquet: cannot be read as Parquet"),
        ("cut in the middle", "records/000000.parquet: "),
        ("no parquet", "records/000000.parquet: cannot be read as Parquet"),
        ("empty", "records/000000.parquet: cannot be read as Parquet"),
        ("a column less", "it has no column 'risk'"),
        ("a column more", "it has a column 'x' that no audit"),
        ("another type", "its column 'row' is double, not int64"),
        ("no row", "a line names no file or no row"),
        ("no file", "a line names no file or no row"),
        ("a negative row", "a line is of row -1"),
        ("a negative call", "a line has a call that no file holds"),
        ("a far layer", "a line has a layer that is out of all bounds"),
        ("a negative count", "a line has the count missing -9223372036854775808"),
        ("no engine", "a line names no engine and has no error"),
        ("another engine", "a line has the engine 'magic'"),
        ("another risk", "a line has the risk '<b>sure</b>'"),
        ("another verdict", "a line has the verdict 'splendid'"),
        ("no path", "a line of the census names no path"),
        ("a path twice", "row 0 has a path twice"),
        ("a row twice", "its records tell 1 rows more than once"),
        ("endless lines of a row", "a row has more than 4096 lines"),
    ],
)
def test_damage_is_told_in_one_line(tmp_path: Path, damage: str, said: str) -> None:
    folder = two_files(tmp_path)
    damaged(damage)(folder / "records" / "000000.parquet")
    with pytest.raises(CaptureError) as caught:
        summarize(Dataset(folder))
    assert said in str(caught.value)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2 is not JSON"),
        ("[]", "line 2 is []; an object is needed"),
        ("{}", "line 2 lacks 'file'"),
        ('{"file": 3, "size": 1, "digest": null, "rows": 1, "state": "done", "error": null}', "line 2, file is 3"),
        ('{"file": "a", "size": -1, "digest": null, "rows": 1, "state": "done", "error": null}', "line 2, size is -1"),
        ('{"file": "a", "size": 1, "digest": null, "rows": 1, "state": null, "error": null}', "no file or no state"),
    ],
)
def test_a_damaged_manifest_is_told_in_one_line(tmp_path: Path, line: str, said: str) -> None:
    folder = two_files(tmp_path)
    first = (folder / "manifest.jsonl").read_text().splitlines()[0]
    (folder / "manifest.jsonl").write_text(f"{first}\n{line}\n")
    with pytest.raises(CaptureError, match=r"manifest\.jsonl") as caught:
        summarize(Dataset(folder))
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["manifest.jsonl", "records/000000.parquet", "records/000001.parquet"])
def test_a_pipe_is_told_and_not_waited_for(tmp_path: Path, name: str) -> None:
    folder = two_files(tmp_path)
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(CaptureError, match=f"{name}: it is no regular file"):
        Dataset(folder)
    with pytest.raises(UsageError, match=f"{name}: it is no regular file"):
        wb.audit(tmp_path, folder)


def test_what_is_no_output_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="no such folder"):
        Dataset(tmp_path / "none")
    with pytest.raises(CaptureError, match=r"it holds no audit\.json"):
        Dataset(tmp_path)
    (tmp_path / "audit.json").write_text("[1, 2]")
    with pytest.raises(CaptureError, match="an object is needed"):
        Dataset(tmp_path)
    (tmp_path / "audit.json").write_text('{"format": "workbench audit 2"}')
    with pytest.raises(CaptureError, match="its format is 'workbench audit 2', not 'workbench audit 1'"):
        Dataset(tmp_path)
    with pytest.raises(CaptureError, match="is a file, not the folder"):
        Dataset(tmp_path / "audit.json")
    made = dataset(tmp_path / "out", [])
    (made / "manifest.jsonl").unlink()
    with pytest.raises(CaptureError, match=r"it holds no manifest\.jsonl"):
        summarize(Dataset(made))
    whole = json.loads((made / "audit.json").read_text())
    for name, value in (("finished", 1), ("asked", {}), ("asked", {"folder": 1, "paths": "*"})):
        (made / "audit.json").write_text(json.dumps({**whole, name: value}))
        with pytest.raises(CaptureError, match=r"audit\.json"):
            Dataset(made)


def test_findings_are_the_lines_that_count(tmp_path: Path) -> None:
    parts = [
        [census("a", 0, risk="certain"), census("a", 0, OTHER, "certain", reached=False), recorded("a", 0)],
        [census("a", 1, reached=None, risk="at risk"), recorded("a", 2, "lossy", 3), recorded("a", 3, "ties")],
        [{"file": "a", "row": 4, "error": "it is cut short"}, census("a", 5, finding="hangs")],
    ]
    opened = Dataset(dataset(tmp_path / "out", parts))
    found = pa.concat_tables(findings(opened)).to_pylist()
    assert [(line["row"], line["path"]) for line in found] == [
        (0, "vllm.histogram_256"),
        (1, "vllm.histogram_256"),
        (2, "vllm.histogram_256"),
        (4, None),
        (5, "vllm.histogram_256"),
    ]
    assert found[0] == {column.name: parts[0][0].get(column.name) for column in COLUMNS}
    assert json.dumps(found)
