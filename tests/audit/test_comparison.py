"""Two audits held against each other, and a plain comparison of the same lines, row by row."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.audit.made import OTHER, REACHED, census, dataset, digest, recorded
from tests.audit.test_summary import counts, random_rows
from workbench.audit import comparing
from workbench.audit import dataset as module
from workbench.audit.compare_words import comparison_sentence
from workbench.audit.comparison import Comparison, compare
from workbench.audit.dataset import Dataset
from workbench.errors import CaptureError, UsageError

Line = dict[str, Any]
RISKS = (None, "safe", "at risk", "certain")
LOST = {None: -1, "exact": 0, "ties": 0, "lossy": 2, "invalid": 3}


def changed(rows: list[list[Line]], seed: int) -> list[list[Line]]:
    """Rows of which some vanish, appear, move, change their input, selection, risk or verdict."""
    chance, found = random.Random(seed), []
    for lines in rows:
        kind = chance.choice(
            ["same"] * 4 + ["gone", "moved", "input", "selection", "risk", "verdict", "place", "error"]
        )
        new = [dict(line) for line in lines]
        first = new[0]
        if kind == "gone":
            continue
        for line in new:
            if kind == "moved":
                line["file"] = f"other-{line['file']}"
            if kind == "input" and "scores" in line:
                line["scores"] = digest(("new", line["file"], line["row"]))
            if kind == "selection" and line.get("engine") == "recorded":
                line["selection"] = digest("another")
            if kind == "risk" and line.get("risk"):
                line["risk"] = chance.choice(RISKS[1:])
            if kind == "verdict" and line.get("verdict"):
                line["verdict"] = chance.choice(["exact", "ties", "lossy", "invalid"])
            if kind == "place":
                line["layer"] = 77
        if kind == "error":
            new = [{"file": first["file"], "row": first["row"], "error": "gone"}]
        found.append(new)
    found += [[census("new.safetensors", row, risk=chance.choice(RISKS))] for row in range(6)]
    return found


def made(folder: Path, name: str, rows: list[list[Line]], parts: int = 3) -> Dataset:
    rows = sorted(rows, key=lambda lines: (lines[0]["file"], lines[0]["row"]))
    size = -(-len(rows) // parts)
    pieces = [[line for row in rows[at : at + size] for line in row] for at in range(0, len(rows), size)]
    return Dataset(dataset(folder / name, pieces))


def told(lines: list[Line]) -> dict[str, Any]:
    """What a plain reader makes of a row."""
    own = [line for line in lines if "error" not in line and counts(line)]
    kept = [line for line in lines if line.get("engine") == "recorded"]
    risk = max((RISKS.index(line.get("risk")) for line in own), default=0)
    return {
        "place": tuple(lines[0].get(name) for name in ("layer", "step", "rank")),
        "scores": lines[0].get("scores"),
        "risk": risk,
        "verdict": kept[0]["verdict"] if kept else None,
        "selection": kept[0]["selection"] if kept else None,
        "error": "error" in lines[0],
        "harm": any(line.get("finding") for line in own),
    }


def plain(first: list[list[Line]], second: list[list[Line]]) -> Counter[str]:
    was, now = ({(one[0]["file"], one[0]["row"]): told(one) for one in rows} for rows in (first, second))
    pairs = [(was[key], now[key]) for key in was if key in now and was[key]["place"] == now[key]["place"]]
    alone = [
        [(key, one) for key, one in sorted(own.items()) if key not in other or other[key]["place"] != one["place"]]
        for own, other in ((was, now), (now, was))
    ]
    count: Counter[str] = Counter()
    waiting: dict[str, list[Any]] = defaultdict(list)
    for _, one in alone[0]:
        waiting[one["scores"] or ""].append(one)
    appeared = []
    for _, one in alone[1]:
        if one["scores"] and waiting[one["scores"]]:
            pairs.append((waiting[one["scores"]].pop(0), one))
            count["moved"] += 1
        else:
            appeared.append(one)
    vanished = [one for held in waiting.values() for one in held]
    bad = [
        sum(one["risk"] > 1 or LOST[one["verdict"]] > 1 or one["harm"] for one in held) for held in (vanished, appeared)
    ]
    count.update(vanished=len(vanished), appeared=len(appeared), vanished_bad=bad[0], appeared_bad=bad[1])
    for a, b in pairs:
        count["paired"] += 1
        same = a["scores"] == b["scores"] and a["scores"] is not None
        count["same_input"] += same
        count["changed_input"] += bool(a["scores"] and b["scores"] and not same)
        if same and a["verdict"] and b["verdict"]:
            lost = max(LOST[a["verdict"]], LOST[b["verdict"]]) > 1
            equal = a["selection"] == b["selection"]
            count["same_selection"] += equal
            count["ties_vary"] += not equal and not lost
            count["other_selection"] += not equal and lost
        count[f"{RISKS[a['risk']]}>{RISKS[b['risk']]}"] += 1
        worse = [
            (LOST[y["verdict"]] > max(1, LOST[x["verdict"]]) and (y is b or bool(x["verdict"])))
            or (y["risk"] > max(1, x["risk"]) and (y is b or x["risk"] > 0))
            or (y["error"] and not x["error"])
            or (y["harm"] and not x["harm"] and (y is b or x["risk"] > 0))
            for x, y in ((a, b), (b, a))
        ]
        count["worse"] += worse[0]
        count["better"] += worse[1] and not worse[0]
    return count


NUMBERS = ("paired", "moved", "same_input", "changed_input", "same_selection", "ties_vary", "other_selection")
NUMBERS += ("vanished", "appeared", "vanished_bad", "appeared_bad", "worse", "better")  # type: ignore[assignment]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("window", [7, 1 << 17])
def test_it_counts_as_a_plain_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, window: int
) -> None:
    monkeypatch.setattr(comparing, "_WINDOW", window)
    monkeypatch.setattr(module, "BATCH", 40)
    rows = random_rows(seed)
    other = changed(rows, seed)
    found = compare(made(tmp_path, "a", rows), made(tmp_path, "b", other, parts=5))
    expected = plain(rows, other)
    assert {name: getattr(found, name) for name in NUMBERS} == {name: expected[name] for name in NUMBERS}
    assert {f"{one.before}>{one.after}".replace("unknown", "None"): one.rows for one in found.risks} == {
        name: count for name, count in expected.items() if ">" in name
    }
    assert found.rows == (len(rows), len(other))


def test_windows_neither_change_counts_nor_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = random_rows(9)
    first, second = made(tmp_path, "a", rows, 1), made(tmp_path, "b", changed(rows, 3), 4)

    def found(window: int) -> Comparison:
        monkeypatch.setattr(comparing, "_WINDOW", window)
        return compare(first, second)

    assert found(1) == found(100) == found(1 << 17)


def pair(folder: Path, first: list[Line], second: list[Line]) -> Comparison:
    return compare(Dataset(dataset(folder / "a", [first])), Dataset(dataset(folder / "b", [second])))


def test_the_same_audit_has_not_changed(tmp_path: Path) -> None:
    rows = random_rows(4)
    found = compare(made(tmp_path, "a", rows), made(tmp_path, "b", rows))
    assert not found.is_worse
    assert (found.vanished, found.appeared, found.changed_input, found.worse, found.better) == (0, 0, 0, 0, 0)
    assert found.paths == ()
    assert comparison_sentence(found).startswith(f"Nothing is worse in {tmp_path / 'b'}. 160 rows of both: ")


def test_the_selector_and_its_input_are_told_apart(tmp_path: Path) -> None:
    def row(number: int, verdict: str, **more: Any) -> Line:
        return recorded("a", number, verdict, **more)

    was = [row(0, "exact"), row(1, "exact"), row(2, "lossy"), row(3, "exact")]
    now = [
        row(0, "ties", selection=digest("x")),
        row(1, "exact", selection=digest("x"), scores=digest("y")),
        row(2, "lossy", selection=digest("x")),
        row(3, "exact"),
    ]
    found = pair(tmp_path, was, now)
    assert (found.same_input, found.changed_input) == (3, 1)
    assert (found.same_selection, found.ties_vary, found.other_selection) == (1, 1, 1)
    assert found.is_worse
    assert [(one.row, one.what) for one in found.examples["other selection"]] == [(2, "lossy → lossy")]
    assert "1 recorded selection of the same input differs and lost winners" in comparison_sentence(found)


def test_paths_are_followed_one_by_one(tmp_path: Path) -> None:
    was = [census("a", 0), census("a", 0, OTHER, "certain"), census("a", 1), census("a", 1, OTHER, "at risk")]
    now = [census("a", 0, risk="at risk"), census("a", 0, OTHER), census("a", 1), census("a", 1, "new", reached=False)]
    found = pair(tmp_path, was, now)
    assert [(one.path, one.before, one.after, one.rows) for one in found.paths] == [
        (OTHER, "certain", "safe", 1),
        (REACHED, "safe", "at risk", 1),
    ]
    assert (found.worse, found.better) == (1, 0)
    assert found.only_paths.second == ("new",)
    assert found.examples["worse"][0].what == "safe → at risk"


def test_what_is_not_known_any_more_is_not_better(tmp_path: Path) -> None:
    was = [census("a", 0, risk="certain"), census("a", 1, finding="hangs"), census("a", 2, risk="at risk")]
    now = [census("a", 0, risk=None, refused="k"), census("a", 1, risk=None, refused="k"), census("a", 2, risk="safe")]
    found = pair(tmp_path, was, now)
    assert (found.paired, found.worse, found.better) == (3, 0, 1)


def test_rows_in_other_files_are_found_by_their_scores(tmp_path: Path) -> None:
    was = [census("rank0.pid77", row, scores=digest(row // 2), rank=0) for row in range(6)]
    now = [census("rank0.pid99", row, scores=digest(row // 2), rank=0) for row in range(5)]
    now[4]["risk"] = "at risk"
    found = pair(tmp_path, was, now)
    assert (found.paired, found.moved, found.vanished, found.appeared, found.worse) == (5, 5, 1, 0, 1)
    (example,) = found.examples["worse"]
    assert (example.file, example.row, example.was) == ("rank0.pid99", 4, "row 4 of rank0.pid77")
    assert (found.only_files.first, found.only_files.second) == (("rank0.pid77",), ("rank0.pid99",))


def test_a_bad_row_that_appeared_is_worse_and_one_that_vanished_is_not(tmp_path: Path) -> None:
    good, bad = census("a", 0), census("a", 1, risk="certain", expected_missing=3.0)
    assert pair(tmp_path / "1", [good], [good, bad]).is_worse
    assert not pair(tmp_path / "2", [good, bad], [good]).is_worse
    assert not pair(tmp_path / "3", [good], [good, {**bad, "risk": "safe"}]).is_worse
    nothing = pair(tmp_path / "4", [], [])
    assert (nothing.paired, nothing.is_worse) == (0, False)


def test_what_cannot_be_compared_is_one_line(tmp_path: Path) -> None:
    import json

    good = dataset(tmp_path / "good", [[census("a", 0)]])
    open_ = dataset(tmp_path / "open", [[census("a", 0)]])
    (open_ / "audit.json").write_text(json.dumps({**json.loads((open_ / "audit.json").read_text()), "finished": False}))
    with pytest.raises(UsageError, match="open: the audit is not finished"):
        compare(Dataset(good), Dataset(open_))
    makes: Callable[..., Path] = dataset
    for name, lines in (
        ("twice", [census("a", 0), census("a", 1), census("a", 0)]),
        ("selections", [recorded("a", 0), recorded("a", 0)]),
    ):
        with pytest.raises(CaptureError, match=r"000000\.parquet: "):
            compare(Dataset(good), Dataset(makes(tmp_path / name, [lines])))
