"""Where a row stands in a release, and what its standings amount to."""

from __future__ import annotations

import pytest

from workbench.analysis.standing import (
    STATES,
    State,
    chance,
    first_clean,
    is_monotone,
    regressions,
    spans,
    standing,
)

LETTERS: dict[str, State] = {"L": "loses", "A": "can lose", "C": "clean", "R": "refused", "F": "fault", "U": "unknown"}


def states(text: str) -> list[State]:
    return [LETTERS[letter] for letter in text]


def test_every_state_has_a_letter() -> None:
    assert set(LETTERS.values()) == set(STATES)


@pytest.mark.parametrize(
    ("verdict", "calls", "risk", "p_clean", "observed", "refused", "state"),
    [
        ("lossy", 10, "safe", 1.0, True, False, "loses"),
        ("invalid", 1, None, None, False, False, "loses"),
        ("exact", 10, "at risk", 0.5, False, False, "can lose"),
        ("exact", 10, "at risk", 0.9, True, False, "can lose"),
        ("ties", 10, "at risk", 0.5, True, False, "clean"),  # 0.001: seen to be clean, against the analysis
        ("exact", 10, "at risk", None, True, False, "can lose"),  # nothing tells how likely that is
        ("exact", 10, "certain", 0.0, True, False, "clean"),
        (None, 0, "certain", 0.0, False, False, "loses"),
        (None, 0, "certain", 0.0, True, False, "can lose"),
        (None, 0, "at risk", 0.0, True, False, "can lose"),  # no call was made
        (None, 0, "safe", 1.0, False, False, "clean"),
        ("exact", 3, None, None, True, False, "clean"),
        (None, 0, None, None, True, False, "unknown"),
        (None, 0, "at risk", 0.1, True, True, "refused"),
    ],
)
def test_a_standing_follows_from_calls_and_risk(
    verdict: str | None, calls: int, risk: str | None, p_clean: float | None, observed: bool, refused: bool, state: str
) -> None:
    found = standing(verdict=verdict, calls=calls, risk=risk, p_clean=p_clean, observed=observed, refused=refused)
    assert found == state


def test_chance_is_a_power_and_certain_where_unknown() -> None:
    assert chance(0.5, 10) == 0.5**10
    assert chance(None, 10) == 1.0


@pytest.mark.parametrize(
    ("text", "clean_from", "again", "monotone"),
    [
        ("LLCC", 2, [], True),
        ("LACC", 2, [], True),
        ("CC", 0, [], True),
        ("LL", None, [], True),
        ("CLCC", 2, [(0, 1)], False),
        ("CCLL", None, [(1, 2)], False),
        ("LCLCL", None, [(1, 2), (3, 4)], False),
        ("RRLRC", 4, [], True),
        ("CRFL", None, [(0, 3)], False),
        ("LFC", 2, [], True),
        ("CF", 0, [], True),
        ("RU", None, [], True),
        ("", None, [], True),
    ],
)
def test_first_clean_and_regressions(
    text: str, clean_from: int | None, again: list[tuple[int, int]], monotone: bool
) -> None:
    assert first_clean(states(text)) == clean_from
    assert regressions(states(text)) == again
    assert is_monotone(states(text)) == monotone


def test_spans_pass_over_what_was_not_judged() -> None:
    found = spans(states("RLFAUCLR"))
    assert [(span.first, span.last, span.loses) for span in found] == [(1, 3, True), (5, 5, False), (6, 6, True)]
    assert found[0].states == ("loses", "can lose")
