"""Whose law a chance and a mean are, in words."""

from __future__ import annotations

import pytest

import workbench as wb
from tests.warps import crowded_warp
from workbench.figures.tables import census_table
from workbench.paths.catalog import PATHS
from workbench.runs.law_words import arrives_together, law_note, law_notes, random_order
from workbench.runs.whatif_words import what_if_sentence

WARPS = "vllm.histogram_2048"
LAW = "of scores one by one; this path's arrive in warps of 32"
BOUND = ", a random order of which loses nothing with a probability"


def test_every_path_is_told_by_its_arrival_unit() -> None:
    assert [path.name for path in PATHS if arrives_together(path.name)] == [WARPS]
    assert not arrives_together(None)
    assert not arrives_together("someone.else")


@pytest.mark.parametrize(
    ("path", "level", "bound", "said"),
    [
        (
            WARPS,
            "at risk",
            0.25,
            f"chance and mean are {LAW}, a random order of which loses nothing with a probability",
        ),
        (WARPS, "at risk", None, f"chance and mean are {LAW}"),
        (WARPS, "certain", None, f"the mean is {LAW}"),
        (WARPS, "safe", None, ""),
        (WARPS, None, None, ""),
        ("vllm.filtered", "at risk", None, ""),
        (None, "at risk", None, ""),
    ],
)
def test_it_is_said_where_it_matters(path: str | None, level: str | None, bound: float | None, said: str) -> None:
    assert law_note(path, level, bound) == (f"{said} of at most 0.2500" if bound else said)


def test_a_table_says_it_once_and_gives_a_bound_where_there_is_one() -> None:
    one, other = (WARPS, "at risk", 0.25), (WARPS, "at risk", 0.5)
    filtered = ("vllm.filtered", "at risk", None)
    (said,) = law_notes([one, filtered, one])
    assert said.startswith(f"On {WARPS} chance and mean are {LAW}, a random order")
    assert law_notes([one, other]) == [f"On {WARPS} chance and mean are {LAW}"]
    assert law_notes([filtered]) == law_notes([]) == []


def test_a_random_order_is_named_by_what_it_is_of() -> None:
    assert random_order("vllm.filtered") == "a random order"
    assert random_order(WARPS, "arrival order") == "an arrival order that is random score by score"


def test_a_what_if_says_it_of_the_row_as_altered_or_else_as_it_is() -> None:
    row = crowded_warp()
    bound = ", a random order of which loses nothing with a probability of at most"
    said = what_if_sentence(wb.what_if(row, path=WARPS, capacity=3750))
    assert f" Chance and mean are {LAW}{bound} 0.9983." in said
    said = what_if_sentence(wb.what_if(row, path=WARPS, capacity=6000))
    assert f" Chance and mean are {LAW}." in said
    assert "one by one" not in what_if_sentence(wb.what_if(row, path="vllm.filtered"))
    few = wb.what_if(crowded_warp(2), path=WARPS)
    assert few.likely is not None
    orders = "99 of 100 orders that are random score by score lose nothing"
    assert f"from {few.likely.capacity} on, at least {orders}." in what_if_sentence(few)


def test_what_is_taken_away_as_a_table_holds_the_bound() -> None:
    row = crowded_warp()
    compared = wb.compare(row).to_pandas().set_index(["path", "variant"])["clean_at_most"]
    census = census_table(wb.inspect(row).census).set_index("path")["clean_at_most"]
    for found in (compared[WARPS]["stock"], census[WARPS]):
        assert 0.98 < found < 0.99
    assert compared.notna().sum() == census.notna().sum() == 1
