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
from workbench.paths.lengths import OPS, RULES, reused_histograms, what_happens
from workbench.paths.model import run_model
from workbench.paths.routing import OPS as ROUTED
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


@pytest.mark.parametrize(
    ("name", "length", "max_seq_len", "words"),
    [
        ("vllm.radix", -1, 16384, "read as 4294967295 with max_seq_len 16384, at most 32768: hangs where"),
        ("vllm.histogram_256", -1, 32768, "hangs where a row takes more than one block"),
        ("vllm.histogram_2048", -1, 32769, "selects from all blocks of the row, about its stride, padding included"),
        ("vllm.histogram_2048", -1, None, "(max_seq_len at most 32768), else selects"),
        ("vllm.histogram_256", 20001, 32768, "reads past the row's width"),
        ("vllm.radix", 40000, 65536, "about its stride"),
        ("vllm.filtered", -1, None, "every slot is -1"),
        ("vllm.filtered", 20001, None, "not clamped"),
        ("vllm.cooperative_4", -1, None, "clamped to 0"),
        ("vllm.cooperative_4", 20001, None, "can overrun shared memory (derived)"),
        ("vllm.per_row", -5, None, "clamped to 0: every slot is -1"),
        ("vllm.sampled", 20001, 20000, "clamped to max_seq_len"),
        ("sglang.fast_topk", -1, None, "every slot is -1"),
        ("sglang.v4_aot", -1, None, "0 to k - 1 are returned as winners (derived)"),
        ("sglang.v1", -4, None, "walks off the row"),
        ("sglang.v2_register", -4, None, "illegal memory access"),
        ("sglang.topk_transform_paged_v2", 20001, None, "not established"),
        ("vllm.persistent_topk", -1, 16384, "more than 32 rows: compared as signed: every slot is -1"),
    ],
)
def test_what_a_length_outside_the_row_does(name: str, length: int, max_seq_len: int | None, words: str) -> None:
    assert words in what_happens(name, length, 20000, max_seq_len)


def test_lengths_inside_the_row_do_nothing_and_unknown_names_are_errors() -> None:
    assert what_happens("vllm.radix", 0, 20000) == what_happens("vllm.persistent_topk", 20000, 20000) == ""
    with pytest.raises(UsageError, match=r"nothing is known of lengths on 'sglang\.qsa'; known: vllm\.persistent_topk"):
        what_happens("sglang.qsa", -1, 20000)
    assert set(OPS) <= {op.name for op in ROUTED}
    assert set(RULES) - {path.name for path in find_paths()} == {"vllm.top_k_per_row_prefill"}


@pytest.mark.parametrize(
    ("lengths", "dirty"),
    [
        ([40000, 40000, 40000], ()),
        ([40000, 100, 40000], (2,)),
        ([100, 40000, 40000], ()),
        ([40000, 100, 100, 40000], (3,)),
        ([40000, 100, 100, 100, 40000], ()),  # three more rows turn the ring once
        ([32769, 32768, 32769, 32769], (2,)),
    ],
)
def test_rows_that_reuse_a_histogram(lengths: list[int], dirty: tuple[int, ...]) -> None:
    assert reused_histograms(lengths) == dirty
