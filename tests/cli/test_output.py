"""What tables and JSON documents are made of."""

from __future__ import annotations

import io
import sys

import pytest
import torch

from tests.cli.conftest import strict
from workbench.cli.jsonout import dumps
from workbench.cli.options import parse_rows
from workbench.cli.tables import Column, number, progress, ranges, refusals, score, table
from workbench.errors import UsageError
from workbench.paths.spec import Buffer, Evidence


def test_json_encodes_what_json_does_not_know() -> None:
    value = {"a": [float("nan"), float("inf"), -float("inf"), 0.1, True, None], "b": Evidence.READ, "c": Buffer("k")}
    assert strict(dumps(value)) == {
        "a": ["nan", "inf", "-inf", 0.1, True, None],
        "b": "read in the source, not observed",
        "c": {"capacity": "k", "whole_bin": False, "ranks": None},
    }


def test_json_is_ascii_and_holds_no_half_character() -> None:
    text = dumps(["≤", "\udcff", "\x1b"])
    assert text.isascii()
    assert strict(text) == ["≤", "\\udcff", "\x1b"]
    strict(text)[1].encode()


@pytest.mark.parametrize("value", [torch.zeros(1), object(), {1, 2}, int])
def test_json_refuses_what_is_not_meant_for_it(value: object) -> None:
    with pytest.raises(TypeError):
        dumps([value])


def test_numbers_keep_their_digits() -> None:
    assert [number(value) for value in (None, 3, 262144.0, 0.123456, 1e-237, float("inf"))] == [
        "–",
        "3",
        "262144",
        "0.1235",
        "1e-237",
        "inf",
    ]
    one, next_one = torch.tensor([0x3F800000, 0x3F800001], dtype=torch.int32).view(torch.float32).tolist()
    assert score(one) != score(next_one)


def test_ranges_are_short() -> None:
    assert ranges([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"
    assert ranges([]) == ""
    assert ranges(range(0, 100, 2)).endswith("22, …")


def test_rows_are_read() -> None:
    assert parse_rows(None, 3) == [0, 1, 2]
    assert parse_rows(["5", "1-3", "2"], 6) == [1, 2, 3, 5]
    with pytest.raises(UsageError, match="rows 0 to 5"):
        parse_rows(["6"], 6)


def test_refusals_are_one_line_a_path() -> None:
    said = refusals([("a", 0, "short"), ("a", 1, "short"), ("b", 0, "long"), ("b", 2, "longer")])
    assert said == [
        "a was not run on 2 rows (0-1): short",
        "b was not run on 2 rows (0, 2): long (row 0; others differ)",
    ]


@pytest.mark.parametrize("columns", ["20", "100"])
def test_a_table_never_cuts_a_number_or_a_word(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    table(
        [Column("row"), Column("two\nwords", "word"), Column("text", "text")], [(123456789, "a [b]word[/b]", "c " * 30)]
    )
    out = capsys.readouterr().out
    assert "123456789 a [b]word[/b]" in " ".join(out.split())
    assert out.count("c") == 30
    assert not any(line.endswith(" ") for line in out.splitlines())


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_shows_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, shows in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress("inspecting [red]x", 2) as done:
            done(2)
        assert ("inspecting [red]x" in stream.getvalue()) is shows
