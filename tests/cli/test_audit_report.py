"""``workbench audit report`` as a user meets it: what it prints, what it writes, and its exit codes."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.audit.made import OTHER, census, dataset, recorded

Run = Callable[..., Result]
NASTY = "</script><img src=x onerror=alert(1)>&\"'.safetensors"


def bad_audit(folder: Path) -> Path:
    """Two files: layer 3 is bad in one of them from step 2 on, where a recorded selection lost 7; one could not be
    read."""
    lines = []
    for name in ("a.safetensors", NASTY):
        for at in range(12):
            layer, step = at % 4, at // 4
            where = {"layer": layer, "step": step, "rank": 0, "call": at}
            bad = name == NASTY and layer == 3 and step == 2
            more = {"expected_missing": 12.5, "p_clean": 0.25, "population": 5000, "capacity": 4096} if bad else {}
            lines.append(census(name, at, risk="at risk" if bad else "safe", **where, **more))
            lines.append(census(name, at, OTHER, risk="certain" if bad else "safe", **where))
            lines.append(recorded(name, at, "lossy" if bad else "exact", 7 if bad else 0, **where))
    files = [
        {"file": "a.safetensors", "rows": 12},
        {"file": "gone.safetensors", "size": None, "digest": None, "state": "failed", "error": "<b>it is gone</b>"},
        {"file": NASTY, "rows": 12},
    ]
    return dataset(folder / "out", [lines], files)


def healthy_audit(folder: Path) -> Path:
    return dataset(folder / "fine", [[census("a.safetensors", row) for row in range(3)]])


def test_it_says_what_was_found(cli: Run, tmp_path: Path) -> None:
    result = cli("audit", "report", bad_audit(tmp_path))
    assert result.exit_code == 2  # a file is missing, whatever else was found
    said = " ".join(result.stdout.split())
    assert "1 of 24 rows loses winners or can: 1 recorded selection lossy and 1 at risk on the path that" in said
    assert "24 rows, 24 calls and 3 files of 2 kB (2 done and 1 failed), audited from /dumps" in said
    assert re.search(r"vllm\.histogram_256\s+lossy\s+7", result.stdout)
    assert "By layer" in said
    assert "gone.safetensors failed <b>it is gone</b>" in said
    assert result.stderr.endswith("1 file of 3 could not be audited\n")
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_exit_codes(cli: Run, tmp_path: Path) -> None:
    assert cli("audit", "report", healthy_audit(tmp_path)).exit_code == 0
    risky = dataset(tmp_path / "risky", [[census("a", 0, risk="at risk")]])
    assert cli("audit", "report", risky).exit_code == 1
    elsewhere = dataset(tmp_path / "elsewhere", [[census("a", 0), census("a", 0, OTHER, "certain")]])
    assert cli("audit", "report", elsewhere).exit_code == 0  # on a path that the row does not reach
    harm = dataset(tmp_path / "harm", [[census("a", 0, finding="it hangs")]])
    assert cli("audit", "report", harm).exit_code == 1
    refused = dataset(tmp_path / "refused", [[census("a", 0, risk=None, refused="k is 9")]])
    result = cli("audit", "report", refused)
    assert (result.exit_code, "nothing was judged" in result.stderr) == (2, True)
    assert cli("audit", "report", dataset(tmp_path / "none", [])).exit_code == 2
    failed = dataset(tmp_path / "failed", [[census("a", 0), {"file": "a", "row": 1, "error": "it is cut short"}]])
    result = cli("audit", "report", failed)
    assert (result.exit_code, "1 row could not be read or judged" in result.stderr) == (2, True)
    assert "it is cut short" in result.stdout


def test_bad_input_is_one_line(cli: Run, tmp_path: Path) -> None:
    for given in (tmp_path, tmp_path / "none", __file__):
        result = cli("audit", "report", given)
        assert (result.exit_code, len(result.stderr.splitlines()), result.stdout) == (2, 1, "")
    out = healthy_audit(tmp_path)
    part = next((out / "records").iterdir())
    part.write_bytes(part.read_bytes()[:-9])
    result = cli("audit", "report", out, "--html", tmp_path / "page.html", "--csv", tmp_path / "rows.csv")
    assert result.exit_code == 2
    assert "cannot be read as Parquet" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fine"]


def test_json_is_one_document(cli_json: Callable[..., tuple[int, Any]], tmp_path: Path) -> None:
    code, said = cli_json("audit", "report", bad_audit(tmp_path))
    assert code == 2
    found = said["summary"]
    assert (said["command"], said["loses"], found["total"]["bad"], found["calls"]) == ("audit report", True, 1, 24)
    assert found["files"]["states"] == {"done": 2, "failed": 1}
    assert found["unfinished"] is None
    assert [path["path"] for path in found["paths"]] == ["vllm.histogram_256", "vllm.filtered"]
    assert found["worst"][0]["file"] == NASTY
    assert found["grid"]["bad"] == [[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 1]]


def test_csv_holds_the_worst_rows_or_every_finding(cli: Run, tmp_path: Path) -> None:
    out = bad_audit(tmp_path)
    target = tmp_path / "rows.csv"
    assert f"The worst row is written to {target}" in flat(cli("audit", "report", out, "--csv", target))
    (line,) = csv.DictReader(target.open())
    assert (line["file"], line["row"], line["verdict"], line["missing"]) == (NASTY, "11", "lossy", "7")
    assert "2 lines that are findings are written" in flat(
        cli("audit", "report", out, "--csv", target, "--all", "--force")
    )
    lines = list(csv.DictReader(target.open()))
    assert [(one["engine"], one["risk"], one["verdict"]) for one in lines] == [
        ("census", "at risk", ""),
        ("recorded", "", "lossy"),
    ]


def test_csv_cells_that_look_as_formulas_stay_as_they_are_and_are_told(cli: Run, tmp_path: Path) -> None:
    names = ["=1+1.safetensors", "+a", "-b", "@c", "plain.safetensors"]
    out = dataset(tmp_path / "out", [[census(name, 0, risk="at risk", layer=-1, p_clean=0.5) for name in names]])
    target = tmp_path / "rows.csv"
    said = flat(cli("audit", "report", out, "--csv", target))
    assert f"The 5 worst rows are written to {target}" in said
    assert "4 text cells begin with one of = + - @, written as it is" in said
    assert {line["file"] for line in csv.DictReader(target.open())} == set(names)  # as programs read them
    raw = target.read_text()
    assert '"=1+1.safetensors"' in raw
    assert ",-1," in raw  # a number is a number
    other = flat(cli("audit", "report", healthy_audit(tmp_path), "--csv", target, "--force"))
    assert "written to" in other
    assert "with one of" not in other


def flat(result: Result) -> str:
    return " ".join(result.stdout.split())


def test_nothing_is_overwritten_unless_told(cli: Run, tmp_path: Path) -> None:
    out = healthy_audit(tmp_path)
    for option in ("--html", "--csv"):
        target = tmp_path / "held"
        target.write_text("mine")
        result = cli("audit", "report", out, option, target)
        assert (result.exit_code, target.read_text()) == (2, "mine")
        assert "--force" in result.stderr
        assert cli("audit", "report", out, option, target, "--force").exit_code == 0
        assert target.read_text() != "mine"
        assert cli("audit", "report", out, option, tmp_path).exit_code == 2
        assert cli("audit", "report", out, option, tmp_path / "no" / "folder").exit_code == 2
        assert cli("audit", "report", out, option, "").exit_code == 2
    assert cli("audit", "report", out, "--all").exit_code == 2
    assert cli("audit", "report", out, "--html", "x", "--csv", "x").exit_code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fine", "held"]


@pytest.mark.parametrize("option", ["--html", "--csv"])
def test_the_audit_itself_is_not_written_over(cli: Run, tmp_path: Path, option: str) -> None:
    out = bad_audit(tmp_path)
    (tmp_path / "link").symlink_to(out / "audit.json")
    held = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for name in (*held, out / "records" / "more.csv", tmp_path / "link"):
        result = cli("audit", "report", out, option, name, "--force")
        assert (result.exit_code, "of the audit that is reported" in result.stderr) == (2, True)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == held
    assert cli("audit", "report", out, option, out / "beside").exit_code == 2


def test_a_page_stands_alone_and_shows_names_as_they_are(cli: Run, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    cli("audit", "report", bad_audit(tmp_path), "--html", target)
    page = target.read_text()
    script = page[page.index("<script>") : page.index("</script>")]
    rest = page.replace(script, "")
    assert "<img src=x" not in rest
    assert "onerror=alert(1)&gt;" in rest
    assert "<b>it is gone" not in rest
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", rest)
    assert "default-src &#x27;none&#x27;" in rest
    assert re.findall(r'<div class="picture" id="(.*?)">', rest) == ["picture-0", "picture-1"]
    assert re.findall(r'^picture\("(.*?)"', rest, re.MULTILINE) == ["picture-0", "picture-1"]
    assert "1 of 24 rows loses winners or can" in rest


def test_a_page_of_nothing_bad_has_no_script(cli: Run, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    assert cli("audit", "report", healthy_audit(tmp_path), "--html", target).exit_code == 0
    assert "<script" not in target.read_text()
    assert "None of 3 rows loses winners, and none can on the path that they reach." in target.read_text()


def test_top_bounds_what_is_listed(cli_json: Callable[..., tuple[int, Any]], cli: Run, tmp_path: Path) -> None:
    lines = [census("a", at, risk="at risk", step=at, expected_missing=at / 7) for at in range(300)]
    out = dataset(tmp_path / "out", [lines])
    _, said = cli_json("audit", "report", out, "--top", "4")
    assert [line["row"] for line in said["summary"]["worst"]] == [299, 298, 297, 296]
    assert (len(said["summary"]["groups"]["step"]["groups"]), said["summary"]["groups"]["step"]["of"]) == (4, 300)
    result = cli("audit", "report", out, "--top", "4")
    assert "The 4 worst of 300 bad rows" in result.stdout
    assert "By step, the gravest 4 of 300 with bad rows" in result.stdout
    assert len(json.dumps(said)) < 20_000
    for wrong in ("0", "x", "10001"):
        assert cli("audit", "report", out, "--top", wrong).exit_code == 2


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_teaches_by_an_example(cli: Run, option: str) -> None:
    assert (
        "workbench audit report audited/ --html audited.html --csv worst.csv" in cli("audit", "report", option).stdout
    )
