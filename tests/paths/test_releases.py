"""Releases: one that is spelled as package indexes take it is the observed one."""

from __future__ import annotations

import pytest

import workbench as wb
from workbench.paths.releases import OBSERVED, parse_release, spelled


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("vllm==0.26", "vllm==0.26.0"),
        ("vllm==0.26.0.0", "vllm==0.26.0"),
        ("vllm==v0.26", "vllm==0.26.0"),
        ("VLLM==0.26.0", "vllm==0.26.0"),
        ("sglang_kernel==0.4.6", "sglang-kernel==0.4.6"),
        ("flashinfer==fb28d724", "flashinfer==fb28d724"),
    ],
)
def test_another_spelling_of_an_observed_release_is_that_release(text: str, meant: str) -> None:
    assert spelled(text) == meant
    assert str(parse_release(text)) == meant


@pytest.mark.parametrize("text", ["vllm==0.26.1", "vllm==0.2", "vllm==0.26.0rc1", "vllm==", "vllm", "x==1", "==1", ""])
def test_what_means_no_observed_release_stays_and_is_refused(text: str) -> None:
    assert spelled(text) == text
    with pytest.raises(wb.UsageError):
        parse_release(text)


def test_every_observed_release_is_spelled_as_itself() -> None:
    for package, versions in OBSERVED.items():
        for version in versions:
            assert str(parse_release(f"{package}=={version}")) == f"{package}=={version}"
