"""``wb.what_if`` and what is said of its answers."""

from __future__ import annotations

import math

import pytest
import torch

import workbench as wb
from tests import truth
from tests.analysis.test_whatif import crowded
from workbench.analysis.whatif import Alteration
from workbench.paths.catalog import PATHS, get_path
from workbench.runs.case import Case
from workbench.runs.whatif_words import altered_words, standing_word, what_if_sentence, what_if_sentences

PATH = "vllm.histogram_256"


@pytest.fixture(scope="module")
def row() -> wb.Row:
    return wb.Row(crowded(5000), 20000, call=wb.Call(k=512))


def test_before_and_after_are_the_risks_of_a_census(row: wb.Row) -> None:
    found = wb.what_if(row, PATH, length=9000, scale=0.5, shift=3, k=1024)
    path = get_path(PATH)
    assert found.before == Case(row).risk(path, path.variant("stock"))
    assert found.after == Case(found.row).risk(path, path.variant("stock"))
    assert (found.row.length, found.row.k, found.k) == (9000, 1024, 1024)
    by_hand = row.scores[:9000].numpy() * 0.5 + 3
    assert found.row.valid.tolist() == by_hand.tolist()


def test_a_model_that_runs_the_altered_row_agrees(row: wb.Row) -> None:
    found = wb.what_if(row, PATH, shift=-1.0)
    assert found.after.level == "safe"
    report = wb.run([found.row], paths=PATH)
    assert [line.missing for line in report.lines] == [0]
    assert [line.risk for line in report.lines] == ["safe"]


def test_truth_cases_would_have_been_safe_with_what_they_held() -> None:
    """Observed rows that lose on a path: the least buffer is safe, and one slot less is not."""
    seen = 0
    for case_id in list(truth.cases())[:24]:
        for given in truth.rows(case_id, 1):
            for name in ("vllm.histogram_2048", "vllm.histogram_256", "vllm.filtered"):
                found = wb.what_if(given, name)
                if found.before.level not in ("at risk", "certain"):
                    continue
                enough = found.enough
                assert enough is not None
                assert wb.what_if(given, name, capacity=enough.capacity).after.level == "safe"
                assert wb.what_if(given, name, capacity=enough.capacity - 1).after.level != "safe"
                assert enough.capacity <= (found.before.population or 0)
                seen += 1
    assert seen >= 10


def test_the_sentence_says_what_would_be_what_is_and_what_would_do(row: wb.Row) -> None:
    assert what_if_sentence(wb.what_if(row, PATH, capacity=6144)) == (
        "With a buffer of 6144 this row would be safe on vllm.histogram_256 (stock): 5000 scores share the threshold "
        "bin, the buffer holds 6144. The least buffer that is safe holds 5000. As it is, it is at risk: 5000 scores "
        f"share the threshold bin, the buffer holds 4096, and {412 * (1 - 4096 / 5000):.4g} of 512 winners are lost on "
        "average."
    )
    assert what_if_sentence(wb.what_if(row, PATH)).startswith("On vllm.histogram_256 (stock) this row is at risk: 5000")
    refused = what_if_sentence(wb.what_if(row, PATH, k=700))
    assert "With k 700 this row would be refused on" in refused
    assert "k is 700, the path takes 512, 1024 or 2048." in refused


def test_the_likely_buffer_is_said_where_it_is_less() -> None:
    """Of 20000 members two are winners: a buffer of 99.5 % of them keeps both in 99 of 100 orders."""
    few = wb.Row(crowded(15000, 20000, above=510), 20000, call=wb.Call(k=512))
    found = wb.what_if(few, PATH)
    likely = found.likely
    assert likely is not None
    kept = likely.capacity
    assert kept * (kept - 1) >= 0.99 * 15000 * 14999 > (kept - 1) * (kept - 2)
    assert what_if_sentence(found).endswith(
        f"The least buffer that is safe holds 15000; from {kept} on, at least 99 of 100 random arrival orders lose "
        "nothing."
    )


def test_other_endings(row: wb.Row) -> None:
    flat = wb.Row(torch.cat([torch.arange(2.0, 514), torch.zeros(9000)]), 9512, call=wb.Call(k=512))
    assert what_if_sentence(wb.what_if(flat, PATH)).endswith("Any buffer is enough.")
    side_by_side = wb.Row(row.scores.sort().values, 20000, call=wb.Call(k=512))  # 100, 2500 and 2400 in three blocks
    clusters = what_if_sentence(wb.what_if(side_by_side, "vllm.cooperative_8", capacity=6144))
    assert "the blocks store 2148 of them" in clusters
    assert "on average. The least buffer that is safe holds 4900, and each block 2400. As it is, it is" in clusters
    exact = what_if_sentence(
        wb.what_if(wb.Row(crowded(5000, 40000), 40000, call=wb.Call(k=512)), "vllm.radix", scale=2)
    )
    assert "least buffer" not in exact
    assert "could take its place. As it is, it is" in what_if_sentence(wb.what_if(row, PATH, shift=2.0**24))


def test_what_answers_the_question_comes_first(row: wb.Row) -> None:
    """Of a buffer the least one that holds, of scores what became of them; what is said beside comes after."""
    holds = "The least buffer that is safe holds 5000."
    for altered in ({}, {"capacity": 6144}, {"capacity": 4500, "scale": 2.0}):
        first, *others = what_if_sentences(wb.what_if(row, PATH, **altered))  # type: ignore[arg-type]
        assert first.endswith(holds)
        assert holds not in " ".join(others)
    first, *others = what_if_sentences(wb.what_if(row, PATH, scale=1e5))
    assert "5000 scores share" in others[0]
    assert "would round to an infinity in the fp16 key, where none did." in first
    assert not first.endswith("lost on average.")
    assert what_if_sentences(wb.what_if(row, PATH, key_bits=9))[-1].startswith("The least buffer")


def test_a_fault_is_told_as_one() -> None:
    """Where a kernel traps, hangs or writes past its memory nothing is selected: no loss, and no buffer is to blame."""
    scores = crowded(5000)
    scores[7] = math.nan
    trap = wb.what_if(wb.Row(scores, 20000, call=wb.Call(k=512)), "sglang.deep_select", scale=2)
    words = "NaN is checked for: the kernel traps, or marks the first slot with 0x3F3F3F3F"
    assert what_if_sentence(trap) == (
        f"With scores scaled by 2 this row would fault on sglang.deep_select (stock): {words}. As it is, it faults for "
        "the same reason."
    )
    assert standing_word(trap.after) == "fault"
    assert trap.curve("k").to_pandas()["finding"].tolist().count(words) > 0
    hangs = what_if_sentence(wb.what_if(wb.Row(scores, -1, call=wb.Call(k=512)), PATH))
    assert hangs.startswith(f"On {PATH} (stock) this row faults: length -1 is read as 4294967295: it hangs")
    assert "buffer" not in hangs


def test_what_is_not_judged_says_why_once(row: wb.Row) -> None:
    asked = [wb.what_if(row, path, variant=one.name) for path in PATHS for one in path.variants if not one.modelled]
    observed = [found for found in asked if found.after.observed]
    assert observed
    for found in observed:
        where = f"{found.setting.path.name} ({found.setting.variant.name})"
        said = f"On {where} this row is not judged: not modelled: {found.after.note}."
        assert what_if_sentence(found) == said
    refused = wb.Row(torch.full((4096,), 1e5), 4096, call=wb.Call(k=512))
    assert what_if_sentence(wb.what_if(refused, PATH, capacity=6144)) == (
        f"With a buffer of 6144 this row would be refused on {PATH} (stock): length 4096 is not above 8192. As it is, "
        "it is refused for the same reason."
    )


def test_whether_scores_within_fp16_would_help_is_said() -> None:
    """Beyond 65504 all share the bin of an infinity: scaled down they are told apart, unless they lie too close."""

    def said(scores: torch.Tensor, **altered: float) -> str:
        return what_if_sentence(wb.what_if(wb.Row(scores, 9000, call=wb.Call(k=512)), PATH, **altered))  # type: ignore[arg-type]

    apart, close = torch.linspace(60000, 200000, 9000), torch.linspace(99000, 99900, 9000)
    cured = "for all of that sign. Scaled by 0.25, which brings every one within 65504, it would be safe."
    assert said(apart).endswith(cured)
    then = wb.what_if(wb.Row(close, 9000, call=wb.Call(k=512)), PATH, scale=0.5).after
    assert then.level == "at risk"
    assert said(close).endswith(
        "Scaled by 0.5, which brings every one within 65504, it would still be at risk, with "
        f"{then.expected_missing:.4g} of 512 winners lost on average."
    )
    assert said(close, capacity=9000).endswith("within 65504, it would be safe.")  # all else as altered


def test_a_mean_that_does_not_describe_the_row_is_said() -> None:
    falling = wb.Row(crowded(5000).sort(descending=True).values, 20000, call=wb.Call(k=512))
    said = what_if_sentence(wb.what_if(falling, PATH, capacity=4500))
    assert "follow their position (rank correlation −1.00)" in said
    assert "From 0 to 412 values are lost, whatever the order." in said
    assert "follow their position" not in what_if_sentence(wb.what_if(falling, PATH, capacity=5000))


def test_what_is_altered_is_said_in_order() -> None:
    assert altered_words(Alteration()) == ""
    assert altered_words(Alteration(key_bits=1, scale=0.1)) == "with a key of 1 bit and scores scaled by 0.1"
    assert altered_words(Alteration(rank_capacity=9, shift=-1)) == "with 9 stored a block and scores shifted by −1"


def test_scores_tell_what_the_dtype_made_of_them() -> None:
    half = wb.Row(torch.linspace(0, 6e4, 5000).to(torch.bfloat16), 5000, call=wb.Call(k=512))
    found = wb.what_if(half, "sglang.bf16_small", variant="approximate_13_bit", scale=0.1, shift=1e38)
    assert found.scores.scale == float(torch.tensor(0.1, dtype=torch.bfloat16))
    assert found.scores.overflowing == (0, 5000)
    losers = half.valid < half.valid.sort(descending=True).values[511]  # 1e38 swallows all of them
    assert found.scores.ties_made == int(losers.sum())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"capacity": "6144"}, "capacity is '6144'; it must be a whole number or None"),
        ({"scale": "1"}, "scale is '1'; it must be a number or None"),
        ({"variant": "none"}, "has no variant 'none'"),
        ({"length": 20001}, "length is 20001, and the row holds 20000"),
        ({"rank_capacity": 5}, "rank capacity cannot be altered: vllm.histogram_256 stock runs in one block"),
        ({"scale": 1e-60}, "rounds to 0 in float32"),
        ({"shift": math.inf}, "a finite number is needed"),
    ],
)
def test_wrong_arguments_are_told(row: wb.Row, wrong: dict, said: str) -> None:
    with pytest.raises(wb.UsageError) as raised:
        wb.what_if(row, PATH, **wrong)
    assert said in str(raised.value)


def test_k_is_needed_and_bounded(row: wb.Row) -> None:
    silent = wb.Row(row.scores, 20000)
    with pytest.raises(wb.CaptureError, match="does not say k"):
        wb.what_if(silent, PATH)
    assert wb.what_if(silent, PATH, k=512).before == wb.what_if(row, PATH).before
    with pytest.raises(wb.CaptureError, match="k is 20001, above the row width"):
        wb.what_if(row, PATH, k=20001)
    with pytest.raises(wb.UsageError, match="no path matches"):
        wb.what_if(row, "vllm.nothing")
    with pytest.raises(wb.UsageError, match="'speed' cannot be altered; what can: capacity"):
        wb.what_if(row, PATH).curve("speed")


def test_rows_out_of_their_length_are_answered(row: wb.Row) -> None:
    for length in (-1, 0, 1, 512, 513, 25000):
        found = wb.what_if(wb.Row(row.scores, length, call=wb.Call(k=512)), PATH)
        assert what_if_sentence(found)
    prefix = wb.what_if(wb.Row(row.scores, 25000, call=wb.Call(k=512)), PATH, length=20000)
    assert prefix.after == wb.what_if(row, PATH).before
