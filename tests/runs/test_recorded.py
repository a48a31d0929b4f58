"""Recorded selections that were mapped: judged as positions, or compared as they are and never judged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import Result

import workbench as wb
from tests.cli.conftest import cli, cli_json  # noqa: F401  fixtures
from workbench.paths.transforms import PageTable
from workbench.runs.sentence import finding

Cli = Callable[..., Result]
CliJson = Callable[..., tuple[int, Any]]

LENGTH, K, SIZE = 20_000, 512, 64
PAGES = torch.randperm(1000, generator=torch.Generator().manual_seed(5))[:320].to(torch.int32)
TABLE = wb.Mapped("page table", PAGES, SIZE)
UNKNOWN = wb.Mapped("page table")
REASON = "its indices are entries of a page table that the capture does not hold, so their positions are not known"


def made(
    mapped: wb.Mapped | None = TABLE,
    lose: int = 0,
    step: int = 0,
    turn: int = 0,
    entries: torch.Tensor | None = None,
) -> wb.Row:
    """A row whose recorded selection lacks ``lose`` winners, mapped and turned by so many slots."""
    scores = torch.randn(LENGTH, generator=torch.Generator().manual_seed(1))
    best = torch.argsort(scores, descending=True)[lose : K + lose].to(torch.int32).roll(turn)
    if entries is None:
        entries = best
        if mapped is not None:
            pages = PAGES if mapped.table is None else mapped.table
            entries = best + 77 if mapped.returned == "offset" else PageTable(pages, SIZE).apply(best, LENGTH)
    call = wb.Call(k=K, step=step, layer=0)
    return wb.Row(scores, LENGTH, call=call, indices=entries, mapped=mapped, capture=f"c{step}", index=0)


@pytest.mark.parametrize("mapped", [TABLE, wb.Mapped("offset", offset=77)])
def test_mapped_selections_are_judged_as_positions(mapped: wb.Mapped) -> None:
    (line,) = wb.run(made(mapped), engine="recorded")
    assert (line.verdict, line.missing, line.refused) == ("exact", 0, None)
    (line,) = wb.run(made(mapped, lose=3), engine="recorded")
    assert (line.verdict, line.missing) == ("lossy", 3)


def test_a_slot_past_the_length_on_the_last_page_is_out_of_range() -> None:
    row = made()
    assert row.indices is not None
    entries = row.indices.clone()
    entries[0] = int(PAGES[LENGTH // SIZE]) * SIZE + LENGTH % SIZE
    (line,) = wb.run(made(entries=entries), engine="recorded")
    assert (line.verdict, line.out_of_range) == ("invalid", 1)


def test_what_the_table_cannot_invert_is_said_in_the_line() -> None:
    foreign = torch.full((K,), 5_000_000, dtype=torch.int32)
    twice = wb.Mapped("page table", torch.zeros(320, dtype=torch.int32), SIZE)
    for row, said in (
        (made(entries=foreign), "not among the 313 pages of a row of length 20000"),
        (made(twice, entries=torch.zeros(K, dtype=torch.int32)), "page 0 stands at places"),
        (made(wb.Mapped("offset", offset=2**31 - 1), entries=torch.zeros(K, dtype=torch.int32)), "before the row's"),
        (made(UNKNOWN), REASON),
        (made(wb.Mapped("offset")), "positions moved by an offset that the capture does not hold"),
    ):
        (line,) = wb.run(row, engine="recorded")
        assert line.verdict is None
        assert said in (line.refused or "")


def test_inspect_shows_the_reason_instead_of_a_verdict(tmp_path: Path, cli: Cli, cli_json: CliJson) -> None:  # noqa: F811
    seen = wb.inspect(made(UNKNOWN))
    assert seen.recorded is not None
    assert seen.recorded.line.refused == REASON
    assert not finding(seen).startswith("The recorded selection")
    wb.write(tmp_path / "m.safetensors", [made(UNKNOWN)])
    text = " ".join(cli("inspect", tmp_path / "m.safetensors", "--row", 0).stdout.split())
    assert REASON in text
    assert "the recorded selection" in text
    document = cli_json("inspect", tmp_path / "m.safetensors")[1]
    assert document["rows"][0]["recorded"]["refused"] == REASON
    assert "returned: page table" in cli("info", tmp_path / "m.safetensors").stdout
    assert cli_json("info", tmp_path / "m.safetensors")[1]["captures"][0]["returned"] == "page table"
    result = cli("run", tmp_path / "m.safetensors", "--engine", "recorded")
    assert result.exit_code == 2
    assert "nothing was judged" in result.stderr


def test_inspect_judges_what_the_table_inverts(tmp_path: Path, cli_json: CliJson) -> None:  # noqa: F811
    wb.write(tmp_path / "m.safetensors", [made(lose=2)])
    code, document = cli_json("inspect", tmp_path / "m.safetensors")
    assert code == 1
    assert (document["rows"][0]["recorded"]["verdict"], document["rows"][0]["recorded"]["missing"]) == ("lossy", 2)


def other_pages() -> wb.Mapped:
    return wb.Mapped("page table", PAGES.flip(0), SIZE)


def test_repeat_compares_positions_across_tables() -> None:
    rows = [made(), made(other_pages(), step=1), made(None, step=2)]
    (line,) = wb.repeat(rows[0], engine="recorded", among=rows).lines
    assert line.repeatability is not None
    assert (line.repeatability.kind, line.repeatability.calls, line.verdicts) == ("same", 3, {"exact": 3})
    (line,) = wb.repeat(rows[0], engine="recorded", among=[rows[0], made(other_pages(), lose=1, step=1)]).lines
    assert line.repeatability is not None
    assert line.repeatability.kind == "values vary"
    bad = made(other_pages(), step=1, entries=torch.full((K,), 5_000_000, dtype=torch.int32))
    (line,) = wb.repeat(rows[0], engine="recorded", among=[rows[0], bad]).lines
    assert "another call on the same input" in (line.refused or "")


def test_repeat_compares_entries_as_they_are_and_judges_none() -> None:
    rows = [made(UNKNOWN, lose=4), made(UNKNOWN, lose=4, step=1, turn=1)]
    (line,) = wb.repeat(rows[0], engine="recorded", among=rows).lines
    assert line.repeatability is not None
    assert (line.repeatability.kind, line.verdicts, line.loses) == ("order varies", {}, False)
    assert line.sentence.endswith(f"None is judged: {REASON}.")
    (line,) = wb.repeat(rows[0], engine="recorded", among=[rows[0], made(UNKNOWN, step=1)]).lines
    assert line.repeatability is None
    assert "2 calls hold 2 different sets of them" in (line.refused or "")
    (line,) = wb.repeat(rows[0], engine="recorded", among=rows[:1]).lines
    assert line.refused == REASON


def diverged(a: wb.Row, b: wb.Row) -> Any:
    return wb.diverge(wb.Capture.from_rows([a], "a"), wb.Capture.from_rows([b], "b")).comparisons[0]


def test_diverge_compares_positions_across_tables() -> None:
    found = diverged(made(), made(other_pages()))
    assert (found.points[0].state, found.parts, found.notes) == ("same", False, ())
    found = diverged(made(), made(other_pages(), lose=1))
    assert (found.points[0].state, found.points[0].judged_b.missing) == ("values vary", 1)
    assert found.detail.selections.b.missing == 1
    assert diverged(made(), made(None)).points[0].state == "same"


def test_diverge_compares_entries_as_they_are() -> None:
    assert diverged(made(UNKNOWN), made(UNKNOWN)).points[0].state == "same"
    turned = diverged(made(UNKNOWN), made(UNKNOWN, turn=1))
    assert turned.points[0].state == "order varies"
    assert "so are the recorded entries, but in another order" in turned.finding
    found = diverged(made(UNKNOWN), made(UNKNOWN, lose=1))
    assert (found.points[0].state, found.parts) == ("not comparable", False)
    assert "in 1 of 1 points the recorded entries cannot be turned into positions" in found.finding
    assert "no selection is recorded on both sides as positions" in found.finding
