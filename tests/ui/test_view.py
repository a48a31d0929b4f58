"""What links carry, and what is read from them."""

from __future__ import annotations

import pytest

from workbench.errors import UsageError
from workbench.ui.state import plain
from workbench.ui.view import View, from_params, read_whole


def test_what_is_written_is_read_again() -> None:
    view = View(
        capture="dumps/ü b.safetensors",
        digest="0123456789abcdef",
        scores="a.*.b",
        row=7,
        k=2048,
        op="vllm.persistent_topk",
        release="vllm==0.26.0",
        device="h200",
        view="bins",
        path="vllm.histogram_256",
        bin=188,
        around=64,
        seed=3,
    )
    assert from_params(view.to_params()) == (view, [])
    assert from_params({}) == (View(), [])
    assert View().to_params() == {}


@pytest.mark.parametrize("text", ["none", "-5", "0", "1e3", "99999999999999", "", "٣", "1.0", "--1"])
def test_numbers_that_are_none_are_errors(text: str) -> None:
    with pytest.raises(UsageError):
        read_whole(text, 1, 2**31 - 1)


def test_what_is_not_understood_is_left_out_and_said() -> None:
    view, problems = from_params({"row": "5", "k": "x", "zzz": "1"})
    assert view == View(row=5)
    assert len(problems) == 2
    assert "'x' is not a whole number" in problems[0]


def test_long_values_are_cut_in_messages() -> None:
    _, problems = from_params({"row": "9" * 10**6})
    assert len(problems[0]) < 400


@pytest.mark.parametrize(
    "text", ["![x](http://a/b.png)", "<img src=x>", ":red[x]", "$x$", "`x`", "a_b_c", "# x", "a|b"]
)
def test_markdown_is_shown_and_not_followed(text: str) -> None:
    shown = plain(text)
    assert shown.replace("\\", "") == text
    for at, character in enumerate(shown):
        if character in "![]()<>:$`_#|":
            assert shown[at - 1] == "\\"
