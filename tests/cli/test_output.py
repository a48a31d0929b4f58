"""What tables and JSON documents are made of."""

from __future__ import annotations

import io
import math
import sys

import pytest
import torch

from tests.cli.conftest import strict
from workbench import words
from workbench.audit.tables import missing_text
from workbench.cli.jsonout import dumps
from workbench.cli.layout import Column, wrap
from workbench.cli.options import parse_rows
from workbench.cli.order import order_unreliable, order_warning
from workbench.cli.tables import facts, number, print_refusals, probability, progress, ranges, say, score, table
from workbench.errors import UsageError
from workbench.figures import words as figure_words
from workbench.paths.spec import Buffer, Evidence


def test_json_encodes_what_json_does_not_know() -> None:
    value = {"a": [float("nan"), float("inf"), -float("inf"), 0.1, True, None], "b": Evidence.READ, "c": Buffer("k")}
    assert strict(dumps(value)) == {
        "a": ["nan", "inf", "-inf", 0.1, True, None],
        "b": "read in the source, not observed",
        "c": {"capacity": "k", "whole_bin": False, "ranks": None, "leaves_unwritten": False},
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
    told = {None: "–", 3: "3", 262144.0: "262144", 0.123456: "0.1235", 1e-237: "1e−237", -1.431e-06: "−1.431e−6"}
    told |= {-2.0: "−2", 1e20: "1e20", math.inf: "+inf", -math.inf: "−inf", math.nan: "NaN"}
    assert [number(value) for value in told] == list(told.values())
    one, next_one = torch.tensor([0x3F800000, 0x3F800001], dtype=torch.int32).view(torch.float32).tolist()
    assert score(one) != score(next_one)


def test_a_probability_reads_alike_everywhere() -> None:
    """On the command line, in sentences and in the app; 1 is said of certainty alone."""
    told = {0.0: "0", 1.0: "1", 0.5: "0.5000", 0.99999: ">0.9999", 0.00012: "0.0001", 3.21e-7: "3e−7", 1e-237: "1e−237"}
    for value, text in told.items():
        assert words.probability(value) == probability(value, "at risk" if value else None) == text
        assert figure_words.probability(value) == text
    assert words.probability(None) == "–"
    assert probability(0.0, "at risk") == words.probability(0, possible=True) == "<1e−300"
    assert probability(0.0, "certain") == "0"


def test_an_average_of_thousands_has_no_exponent() -> None:
    told = {0.0: "0", 1.25e-07: "1.25e−7", 15.94: "15.9", 999.0: "999", 1535.6: "1536", 12000.0: "12000"}
    for value, text in told.items():
        assert words.average(value) == text
        assert missing_text({"missing": None, "expected_missing": value}) == f"~{text}"


def test_ranges_are_short() -> None:
    assert ranges([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"
    assert ranges([]) == ""
    assert ranges(range(0, 100, 2)).endswith("22, …")


def test_rows_are_read() -> None:
    assert parse_rows(None, 3) == [0, 1, 2]
    assert parse_rows(["5", "1-3", "2"], 6) == [1, 2, 3, 5]
    with pytest.raises(UsageError, match="rows 0 to 5"):
        parse_rows(["6"], 6)


def test_what_did_not_run_is_one_line_a_path(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    print_refusals([("a", 0, "short"), ("a", 1, "short"), ("b", 0, "long"), ("b", 2, "longer")])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["not", "run", "rows", "why"]
    assert lines[2:4] == [["a", "0-1", "short"], ["b", "0,", "2", "long", "(row", "0;", "others", "differ)"]]
    print_refusals([])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("correlation", "unreliable"), [(None, False), (0.9, False), (-0.9, False), (0.91, True), (-1.0, True)]
)
def test_the_mean_is_doubted_only_where_scores_follow_position(correlation: float | None, unreliable: bool) -> None:
    assert order_unreliable(correlation) is unreliable


def test_a_doubted_mean_is_one_line() -> None:
    assert order_warning([]) == []
    (line,) = order_warning([7, 3, 4, 3])
    assert line.startswith("Expected missing is unreliable in rows 3-4, 7: ")
    assert order_warning([7])[0].startswith("Expected missing is unreliable in row 7: ")


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("", 5, [""]),
        ("one two three", 7, ["one two", "three"]),
        ("one two three", 5, ["one", "two", "three"]),
        ("a abcdefgh b", 3, ["a", "abc", "def", "gh", "b"]),
        ("日本語", 4, ["日本", "語"]),
        ("two  spaces", 20, ["two  spaces"]),
    ],
)
def test_text_wraps_at_spaces_and_folds_what_is_longer(text: str, width: int, lines: list[str]) -> None:
    assert wrap(text, width) == lines


def test_a_path_breaks_after_its_dot_where_it_must() -> None:
    assert wrap("vllm.histogram_256 (v0.33.0)", 13, dots=True) == ["vllm.", "histogram_256", "(v0.33.0)"]
    assert wrap("a abcdefgh b", 3, fold=False) == ["a", "abcdefgh", "b"]


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_a_table_gives_way_in_order(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Text wraps first, then gaps narrow, then words wrap, at last also after dots and between numbers."""
    columns = [Column("path", "word"), Column("fill"), Column("why", "text")]
    row = ("vllm.radix (stock)", "1048576 / 16384", "two words")
    seen = []
    for width in (46, 42, 41, 35, 30, 25):
        monkeypatch.setenv("COLUMNS", str(width))
        table(columns, [row])
        lines = printed(capsys)
        assert max(map(len, lines)) <= width
        seen.append(lines[2:-1])
    assert seen == [
        ["vllm.radix (stock)  1048576 / 16384  two words"],
        ["vllm.radix (stock)  1048576 / 16384  two", "                                     words"],
        ["vllm.radix (stock) 1048576 / 16384 two", "                                   words"],
        ["vllm.radix 1048576 / 16384 two", "(stock)                    words"],
        ["vllm.   1048576 / 16384 two", "radix                   words", "(stock)"],
        ["vllm.   1048576 / two", "radix       16384 words", "(stock)"],
    ]


def test_titles_are_cut_where_numbers_alone_would_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = [Column("path", "word"), Column("at\nrisk"), Column("certain"), Column("recorded"), Column("rows")]
    rows = [("vllm.radix", 3, 0, 12, 1234567)]
    monkeypatch.setenv("COLUMNS", "28")
    table(columns, rows)
    *titles, _, _, _, _ = printed(capsys)
    assert max(map(len, titles)) <= 28
    assert [title.split() for title in titles] == [["at", "cert", "reco"], ["path", "risk", "ain", "rded", "rows"]]
    monkeypatch.setenv("COLUMNS", "35")
    table(columns, rows)
    assert "certain" in printed(capsys)[1]


def test_a_long_word_folds_among_facts_and_stays_whole_in_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    facts([("name", "x" * 300), ("other", 1)])
    lines = printed(capsys)
    assert [len(line) for line in lines] == [100, 100, 100, 28, 8]
    assert sum(line.count("x") for line in lines) == 300
    say(f"The file {'x' * 300} is there.")
    assert printed(capsys) == ["The file", "x" * 300, "is there."]


@pytest.mark.parametrize("columns", ["20", "100"])
def test_a_table_never_cuts_a_number_or_a_word(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    table(
        [Column("row"), Column("two\nwords", "word"), Column("text", "text")], [(123456789, "a [b]word[/b]", "c " * 30)]
    )
    out = capsys.readouterr().out
    assert {"123456789", "a", "[b]word[/b]"} <= set(out.split())
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
