"""What no selection can show is told in words, and never run."""

from __future__ import annotations

import math

import pytest
import torch

import workbench as wb
from workbench.analysis.profile import RowProfile
from workbench.analysis.risk import risk
from workbench.errors import UsageError
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import find_paths, get_path
from workbench.paths.model import run_model
from workbench.runs.sentence import result_sentence


def row(scores: torch.Tensor, k: int = 512) -> wb.Row:
    return wb.Row(scores, scores.numel(), call=wb.Call(k=k, rows=1, width=scores.numel(), stride=scores.numel()))


def one_bin(population: int, length: int = 20000) -> torch.Tensor:
    scores = torch.full((length,), -3.0)
    scores[:population] = 1 + torch.arange(population) * 2.0**-20
    return scores


def test_an_unchecked_buffer_is_certain_corruption_past_its_capacity_only() -> None:
    path = get_path("tilelang.topk_selector")
    (fits,) = wb.run(row(one_bin(4096)), paths=path.name)
    assert (fits.verdict, fits.risk, fits.refused) == ("exact", "safe", None)
    report = wb.run(row(one_bin(4097)), paths=path.name)
    (over,) = report
    assert (over.verdict, over.risk, over.p_clean, over.expected_missing) == (None, "certain", 0.0, None)
    assert "4097 scores share the threshold bin 188" in over.refused
    assert "writes past the buffer" in over.refused
    assert report.loses
    found = wb.inspect(row(one_bin(4097)), paths=path.name)
    assert "writes past the buffer" in result_sentence(found.results[0])
    with pytest.raises(UsageError, match="writes past its buffer of 4096"):
        run_model(path, one_bin(4097), 512, Arrival())
    whole = torch.cat([torch.ones(5000), torch.full((5000,), -1.0)])
    assert risk(RowProfile(whole, "float32", 5000), path).level == "safe"  # a bin that wins whole bypasses the buffer


@pytest.mark.parametrize(
    ("variant", "words"), [("ring_reuse", "depends on the rows served before"), ("negative_length", "hangs where")]
)
def test_faults_of_other_rows_are_refused_in_words(variant: str, words: str) -> None:
    scores = torch.randn(40000)
    (line,) = wb.run(row(scores), paths="vllm.radix", variants=variant)
    assert words in line.refused
    assert (line.verdict, line.risk) == (None, None)
    path = get_path("vllm.radix")
    assert words in risk(RowProfile(scores, "float32", 512), path, path.variant(variant)).note


def test_no_variant_of_any_path_crashes_a_run() -> None:
    scores = torch.randn(9000)
    scores[0], scores[1] = math.nan, -math.inf
    for dtype in (torch.float32, torch.bfloat16):
        lines = list(wb.run(row(scores.to(dtype)), paths="*", variants="*"))
        assert len(lines) == sum(len(path.variants) for path in find_paths())
        assert all((line.refused is None) != (line.verdict is None) for line in lines)


def test_deep_select_tells_of_nan_and_of_few_finite_scores() -> None:
    few = torch.full((5000,), -math.inf)
    few[:100] = torch.randn(100)
    (line,) = wb.run(row(few), paths="sglang.deep_select")
    assert (line.risk, line.missing) == ("safe", 0)
    path = get_path("sglang.deep_select")
    for dtype in ("float32", "bfloat16"):
        note = risk(RowProfile(few.to(getattr(torch, dtype)), dtype, 512), path).note
        assert "100 scores are finite, fewer than k" in note
    few[0] = math.nan
    (line,) = wb.run(row(few), paths="sglang.deep_select")
    assert "0x3F3F3F3F" in line.refused
    assert line.risk == "certain"
    assert risk(RowProfile(torch.randn(5000), "float32", 512), path).note == ""
