"""How releases and ranges of them are spelled."""

from __future__ import annotations

import pytest

from workbench.errors import UsageError
from workbench.vendor.release import parse_range, parse_wheel


def test_names_are_canonical_and_versions_ordered() -> None:
    assert str(parse_wheel("SGLang_Kernel==0.4.6")) == "sglang-kernel==0.4.6"
    assert parse_wheel("vllm==0.9.2") < parse_wheel("vllm==0.20.2")


def test_a_range_holds_both_ends() -> None:
    least, most = parse_range("vllm==0.20.2..0.33.0")
    assert (str(least), str(most)) == ("vllm==0.20.2", "vllm==0.33.0")
    assert parse_range("vllm==0.26.0") == (parse_wheel("vllm==0.26.0"),) * 2


@pytest.mark.parametrize("text", ["vllm", "vllm==", "==1.0", "vllm==new", "vllm==1..", "a b==1", ""])
def test_another_spelling_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"write it as in vllm==0\.26\.0"):
        parse_range(text)


def test_a_range_that_runs_backwards_says_the_right_way() -> None:
    with pytest.raises(UsageError, match=r"write vllm==0\.20\.2\.\.0\.33\.0"):
        parse_range("vllm==0.33.0..0.20.2")
