"""The summary against a plain count of the same lines, one by one."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.audit.made import OTHER, REACHED, census, dataset, recorded
from workbench.audit import dataset as module
from workbench.audit.dataset import Dataset
from workbench.audit.summary import Summary, summarize
from workbench.audit.tally import CELLS, GridCounter, Seen, Tally
from workbench.audit.words import audit_sentence

BASELINE = "torch.topk"
RISKS = ("safe", "at risk", "certain")
Line = dict[str, Any]


def random_rows(seed: int, files: int = 4, rows: int = 40) -> list[list[Line]]:
    """Lines of every kind, row by row."""
    chance = random.Random(seed)
    found = []
    for file in range(files):
        for row in range(rows):
            name, routed = f"f{file}.safetensors", chance.random() < 0.7
            call = {
                "call": row // 3,
                "layer": chance.choice([None, *range(5)]),
                "step": chance.randrange(300),
                "rank": file % 2,
                "release": chance.choice(["vllm==0.26.0", None]),
                "nan": chance.choice([0, 0, 3]),
                "neg_inf": chance.choice([0, 7]),
                "fp16_overflow": chance.choice([0, 0, 0, 1]),
                "ties": chance.choice([None, 1, 2]),
            }
            if chance.random() < 0.05:
                found.append([{"file": name, "row": row, "error": "it is cut short"}])
                continue
            lines = []
            for path in (REACHED, OTHER, BASELINE):
                more: Line = {"reached": path == REACHED if routed else None}
                risk = chance.choice(RISKS)
                if chance.random() < 0.2:
                    more |= {"risk": None, "refused": "k is 512"}
                else:
                    missing = None if risk == "safe" else chance.choice([0.5, 20.0, 20.0])
                    more |= {"risk": risk, "expected_missing": missing, "population": 9000, "capacity": 4096}
                if chance.random() < 0.03:
                    more["finding"] = "hangs"
                lines.append(census(name, row, path, **call, **more))
            if chance.random() < 0.5:
                verdict = chance.choice(["exact", "ties", "lossy", "invalid"])
                lines.append(recorded(name, row, verdict, chance.choice([1, 20]) if verdict == "lossy" else 0, **call))
            found.append(lines)
    return found


def counts(line: Line) -> bool:
    return line["engine"] == "census" and (line["reached"] or (line["reached"] is None and line["path"] != BASELINE))


def plain_tally(rows: list[list[Line]]) -> Tally:
    """Rows counted one by one."""
    found: Counter[str] = Counter(rows=len(rows))
    for lines in rows:
        if "error" in lines[0]:
            found.update(["errors"])
            continue
        own = [line for line in lines if counts(line)]
        verdicts = [line["verdict"] for line in lines if line["engine"] == "recorded"]
        risks = {line.get("risk") for line in own}
        flags = {
            "invalid": "invalid" in verdicts,
            "lossy": "lossy" in verdicts,
            "certain": "certain" in risks,
            "at_risk": "at risk" in risks and "certain" not in risks,
            "harmful": any(line.get("finding") for line in own),
        }
        flags["bad"] = any(flags.values())
        flags["recorded"] = bool(verdicts)
        flags["unjudged"] = not (verdicts or any(line.get("risk") or line.get("finding") for line in lines))
        found.update(name for name, flag in flags.items() if flag)
    return Tally(**found)


def plain_damage(line: Line) -> tuple[Any, ...]:
    return (
        bool(line.get("finding")) and not line.get("verdict"),
        line.get("verdict") == "invalid",
        line.get("missing") or 0,
        line.get("expected_missing") or 0.0,
        (line.get("population") or 0) / (line.get("capacity") or 1),
    )


def plain_worst(rows: list[list[Line]], most: int) -> list[tuple[str, int, str, str]]:
    held = []
    for lines in rows:
        bad = [
            line
            for line in lines
            if "error" not in line
            and (
                (counts(line) and (line.get("risk") in RISKS[1:] or line.get("finding")))
                or line.get("verdict") in ("lossy", "invalid")
            )
        ]
        if bad:
            worst = max(bad, key=plain_damage)
            key = (*(-value for value in plain_damage(worst)), worst["file"], worst["row"])
            held.append((key, (worst["file"], worst["row"], worst["engine"], worst["path"])))
    return [told for _, told in sorted(held)[:most]]


@pytest.fixture(params=[0, 1, 2])
def rows(request: pytest.FixtureRequest) -> list[list[Line]]:
    return random_rows(request.param)


def made(folder: Path, rows: list[list[Line]], parts: int = 3) -> Dataset:
    size = -(-len(rows) // parts)
    pieces = [[line for row in rows[at : at + size] for line in row] for at in range(0, len(rows), size)]
    return Dataset(dataset(folder / "out", pieces))


@pytest.mark.parametrize("batch", [5, 1 << 17])
def test_counts_are_those_of_a_plain_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[list[Line]], batch: int
) -> None:
    monkeypatch.setattr(module, "BATCH", batch)
    found = summarize(made(tmp_path, rows), worst=9, groups=1000)
    assert found.total == plain_tally(rows)
    good = [lines for lines in rows if "error" not in lines[0]]
    assert found.calls == len({(lines[0]["file"], lines[0]["call"]) for lines in good})
    for name in ("layer", "step", "rank", "file", "release"):
        groups: dict[Any, list[list[Line]]] = defaultdict(list)
        for lines in rows:
            groups[lines[0].get(name)].append(lines)
        assert {one.value: one.tally for one in found.groups[name].groups} == {
            value: plain_tally(held) for value, held in groups.items()
        }
        assert (found.groups[name].of, found.groups[name].more_bad) == (len(groups), 0)
    worst = [(line["file"], line["row"], line["engine"], line["path"]) for line in found.worst]
    assert worst == plain_worst(rows, 9)
    assert found.shares.nan == sum(lines[0]["nan"] > 0 for lines in good)
    assert found.shares.rows == len(good)
    assert (found.shares.cut, found.shares.ties) == (
        sum(lines[0]["ties"] is not None for lines in good),
        sum(lines[0]["ties"] == 2 for lines in good),
    )
    assert sum(found.risks.values()) == len(rows)
    assert [line["row"] for line in found.errors] == [lines[0]["row"] for lines in rows if "error" in lines[0]][:9]


def test_paths_are_counted_line_by_line(tmp_path: Path, rows: list[list[Line]]) -> None:
    found = {path.path: path for path in summarize(made(tmp_path, rows)).paths}
    lines = [line for row in rows for line in row if "error" not in line]
    for path in (REACHED, OTHER, BASELINE):
        own = [line for line in lines if line["path"] == path and line["engine"] == "census"]
        kept = [line for line in lines if line["path"] == path and line["engine"] == "recorded"]
        assert found[path].rows == len(own)
        assert found[path].refused == sum(line.get("refused") is not None for line in own)
        assert (found[path].safe, found[path].at_risk, found[path].certain) == tuple(
            sum(line.get("risk") == risk for line in own) for risk in RISKS
        )
        assert found[path].unknown == 0
        assert found[path].reached == sum(line["reached"] is True for line in own)
        assert found[path].losing == sum(counts(line) and line.get("risk") in RISKS[1:] for line in own)
        assert found[path].harmful == sum(counts(line) and line.get("finding") is not None for line in own)
        assert (found[path].recorded, found[path].lossy, found[path].invalid) == (
            len(kept),
            sum(line["verdict"] == "lossy" for line in kept),
            sum(line["verdict"] == "invalid" for line in kept),
        )


def test_neither_batches_nor_parts_nor_their_order_change_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[list[Line]]
) -> None:
    from dataclasses import replace

    def found(name: str, rows: list[list[Line]], parts: int, batch: int) -> Summary:
        monkeypatch.setattr(module, "BATCH", batch)
        return replace(summarize(made(tmp_path / name, rows, parts), groups=3), name="")

    first = found("a", rows, 1, 1 << 17)
    shuffled = rows[:]
    random.Random(5).shuffle(shuffled)
    assert found("b", shuffled, 6, 4) == first


def test_thousands_of_steps_are_bounded(tmp_path: Path) -> None:
    rows = [[census("a", at, step=at, layer=at % 3, risk="at risk" if at % 2 else "safe")] for at in range(5000)]
    found = summarize(made(tmp_path, rows), groups=10)
    steps = found.groups["step"]
    assert (len(steps.groups), steps.of, steps.more_bad) == (10, 5000, 2490)
    assert [group.value for group in steps.groups] == [*range(1, 20, 2)]
    grid = found.grid
    assert grid is not None
    assert (len(grid.rows), len(grid.rows[0]), grid.steps_each, grid.first_step) == (3, 79, 64, 0)
    assert sum(map(sum, grid.rows)) == 5000
    assert sum(map(sum, grid.bad)) == 2500
    assert sum(line[1] for line in grid.bad) == 32


def test_a_grid_takes_any_numbers() -> None:
    import numpy as np

    for order in (1, -1):
        held = GridCounter()
        for layer, step in [(0, -5), (3, 1 << 52), (0, -(1 << 52)), (3, 7)][::order]:
            held.add(np.array([layer]), np.array([step]), np.array([True]))
        grid = held.grid()
        assert grid is not None
        assert len(grid.rows[0]) <= CELLS
        assert (sum(map(sum, grid.rows)), grid.steps_each, len(grid.rows)) == (4, 1 << 47, 4)
    assert GridCounter().grid() is None


def test_numbers_seen_are_counted_once() -> None:
    import numpy as np

    seen, plain = Seen(), set()
    chance = random.Random(0)
    for _ in range(300):
        first = chance.randrange(1000)
        numbers = sorted({first + step for step in range(chance.randrange(1, 20)) if chance.random() < 0.8} | {first})
        seen.add(np.array(numbers))
        plain |= set(numbers)
    assert len(seen) == len(plain)
    seen.add(np.array([], dtype=np.int64))
    assert len(seen) == len(plain)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "No row was audited."),
        ([[census("a", 0)]], "None of 1 row loses winners, and none can on the path that they reach."),
        (
            [[census("a", 0), recorded("a", 0, "ties")]],
            "None of 1 row loses winners, 1 as recorded, and none can on the path that they reach.",
        ),
        (
            [[census("a", 0, risk="certain")], [census("a", 1, risk="at risk")], [census("a", 2)]],
            "2 of 3 rows lose winners or can: 1 certain to lose on the path that they reach and 1 at risk.",
        ),
        (
            [[census("a", 0, risk=None, refused="k is 9")], [census("a", 1)]],
            "None of 2 rows loses winners, and none can on the path that they reach. Of 1 no path that they reach or "
            "may reach was judged.",
        ),
        ([[census("a", 0, risk=None)]], "None of 1 row was judged on a path that it reaches or may reach."),
        (
            [[census("a", 0, OTHER)], [{"file": "a", "row": 1, "error": "gone"}]],
            "None of 2 rows was judged on a path that it reaches or may reach. 1 could not be read or judged.",
        ),
        (
            [[census("a", 0, risk="at risk", reached=None)], [{"file": "a", "row": 1, "error": "gone"}]],
            "1 of 2 rows loses winners or can: 1 at risk on some path that they may reach, since their route is not "
            "known. 1 could not be read or judged.",
        ),
    ],
)
def test_the_sentence(tmp_path: Path, rows: list[list[Line]], said: str) -> None:
    assert audit_sentence(summarize(Dataset(dataset(tmp_path / "out", rows)))) == said
