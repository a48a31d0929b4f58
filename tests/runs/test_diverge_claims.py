"""What a finding may claim: nothing that was not measured, and no accusation that the captured rows do not bear out."""

from __future__ import annotations

import math
import os
import resource
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import workbench as wb
from tests.diverging import capture, lossy, make_run, one_ulp, other_order
from workbench.runs.divergence import Comparison

Scores = list[float]


def row(scores: Scores, indices: list[int] | None, length: int | None = None, k: int = 0, **call: object) -> wb.Row:
    made = torch.tensor(scores, dtype=torch.float32)
    known: dict[str, object] = {"k": k or len(indices or []), "step": 0, "layer": 0, **call}
    return wb.Row(
        made,
        made.numel() if length is None else length,
        call=wb.Call(**known),  # type: ignore[arg-type]
        indices=None if indices is None else torch.tensor(indices, dtype=torch.int32),
    )


def compare(
    a: list[wb.Row],
    b: list[wb.Row],
    tokens_a: list[wb.Token] | None = None,
    tokens_b: list[wb.Token] | None = None,
) -> Comparison:
    return wb.diverge(capture(a, "a", tokens_a), capture(b, "b", tokens_b)).comparisons[0]


def token(chosen: int | None, *logits: float, step: int = 0, dtype: torch.dtype = torch.float32) -> wb.Token:
    return wb.Token(step, chosen, torch.tensor(logits, dtype=dtype) if logits else None)


SAME = [row([3, 2, 1, 0], [0, 1])]
SWAPPED = [row([3, 2, 1, 0], [1, 0])]


@pytest.mark.parametrize(
    ("scores", "a", "b", "state"),
    [
        ([1, 1, 0, 0], [0, 0, 1], [1, 1, 0], "ties vary"),
        ([3, 2, 0, 0], [0, 0, 1], [1, 1, 0], "values vary"),
        ([3, 2, 0, 0], [0, 1, -1], [0, 1, 1], "values vary"),
    ],
)
def test_selections_of_the_same_indices_of_which_some_stand_twice(
    scores: Scores, a: list[int], b: list[int], state: str
) -> None:
    found = compare([row(scores, a)], [row(scores, b)])
    assert found.points[0].state == state
    assert (
        "the selections hold the same indices, but differ in slots that repeat one or hold no index of the row"
        in found.finding
    )
    assert "a returned invalid slots and lacks 1 of 3 winners" in found.finding
    assert "0 indices" not in found.finding
    assert "different values" not in found.finding


def test_indices_are_counted_only_where_all_slots_hold_one() -> None:
    finding = compare([row([3, 2, 1, 0], [0, 1, -1])], [row([3, 2, 1, 0], [1, 0, -1])]).finding
    assert "the selections hold the same indices in another order (2 slots differ" in finding
    assert "same 3 indices" not in finding
    padded = compare(
        [row([3, 2, 1, 0], [0, 1, -1, -1], length=2)], [row([3, 2, 1, 0], [1, 0, -1, -1], length=2)]
    ).finding
    assert "the same 2 indices in another order" in padded


@pytest.mark.parametrize("length", [-1, -(2**31), 5, 2**31 - 1])
@pytest.mark.parametrize("other", [[0, 2], [1, 0], [0, 77]])
def test_a_length_that_leaves_the_row_accuses_nobody(length: int, other: list[int]) -> None:
    found = compare([row([3, 2, 1, 0], [0, 1], length=length)], [row([3, 2, 1, 0], other, length=length)])
    point = found.points[0]
    assert point.parts
    assert point.outside
    assert (point.judged_a, point.judged_b) == (None, None)
    assert not point.accuses
    assert found.detail is not None
    assert found.detail.outside == (length, 4)
    assert f"length {length} leaves the row, of which the capture has 4 cells" in found.finding
    for claim in ("at fault", "winners", "on bit-identical input", "No value is lost"):
        assert claim not in found.finding


def test_a_length_that_leaves_the_row_later_accuses_nobody_either() -> None:
    a = [row([3, 2, 1, 0], [0, 1]), row([3, 2, 1, 0], [0, 1], length=9, layer=1)]
    b = [row([3, 2, 1, 0], [1, 0]), row([3, 2, 1, 0], [0, 2], length=9, layer=1)]
    found = compare(a, b)
    assert [point.state for point in found.points] == ["order varies", "values vary"]
    assert "at fault" not in found.finding
    assert found.look(found.points[1]).outside == (9, 4)


def test_a_length_that_leaves_rows_of_other_widths_is_another_input() -> None:
    found = compare([row([3, 2, 1, 0], [0, 1], length=9)], [row([3, 2, 1, 0, 7], [0, 4], length=9)])
    assert (found.points[0].state, found.points[0].what) == ("input differs", "width")
    assert "width is 4 against 5; the scores that both rows have are the same bit for bit" in found.finding
    # inside both rows the width is padding
    assert not compare([row([3, 2, 1, 0], [0, 1], length=3)], [row([3, 2, 1, 0, 7], [0, 1], length=3)]).parts


def test_nan_among_the_winners_is_told() -> None:
    nan = math.nan
    finding = compare([row([nan, 2, 1, 0], [0, 1])], [row([nan, 2, 1, 0], [1, 2])]).finding
    assert (
        "1 of 4 scores is NaN, which the reference puts above +inf: a selector that leaves NaN out lacks it" in finding
    )
    both = compare([row([nan, 2, nan, 0], [0, 1])], [row([nan, 2, nan, 0], [1, 3])]).finding
    assert (
        "2 of 4 scores are NaN, which the reference puts above +inf: a selector that leaves NaN out lacks them" in both
    )
    assert "NaN, which" not in compare([row([nan, nan, 1, 0], [0])], [row([nan, nan, 1, 0], [1])]).finding


def test_what_is_at_fault_later_is_told_by_what_it_did() -> None:
    first = [row([3, 2, 1, 0], [0, 1]), row([3, 2, 1, 0], [1, 0])]
    later = [row([3, 2, 1, 0], at, length=2, layer=1) for at in ([0, 1, -1, -1], [0, 1, 1, -1])]
    finding = compare([first[0], later[0]], [first[1], later[1]]).finding
    assert (
        "The selector is at fault, first at step 0, layer 1, row 0: on bit-identical input, "
        "b returned invalid slots and lacks none of 2 winners." in finding
    )
    assert "lost winners" not in finding


def test_nothing_captured_before_says_where_to_look_and_not_what_differs() -> None:
    finding = compare(make_run((0, 0), one_ulp), make_run()).finding
    assert (
        "nothing was captured before it; compare the prompt, the weights and what the layers below put out" in finding
    )


def test_one_is_one() -> None:
    assert "the one point is the same" in compare(SAME, SAME).finding
    assert "Of 1 point: 1 order varies" in compare(SAME, SWAPPED).finding
    whole = compare(SAME, SWAPPED, [token(1)], [token(1)]).finding
    assert "The one token is the same." in whole
    assert "the inputs of the one point are bit-identical" in compare(SAME, [row([3, 2, 1, 0], None, k=2)]).finding


def test_tokens_that_are_not_known_are_not_called_the_same() -> None:
    unknown = compare(SAME, SWAPPED, [token(None), token(1, step=1)], [token(None), token(1, step=1)])
    assert "tokens are the same" not in unknown.finding
    assert "1 of 2 tokens is the same; of 1 neither a token nor logits are recorded on both sides." in unknown.finding
    assert "0 of 1 tokens" not in compare(SAME, SAME, [token(None)], [token(None)]).finding


def test_tokens_that_only_one_side_knows_are_not_called_the_same() -> None:
    tied = compare(SAME, SAME, [token(1, 1, 1, 0)], [token(None, 1, 1, 0.5)])
    assert tied.tokens[0].state == "logits differ"
    assert "both runs have token" not in tied.finding
    assert "captured tokens differ" not in tied.finding
    neither = compare(SAME, SAME, [token(None, 1, 1, 0)], [token(None, 1, 1, 0.5)])
    assert "None of" not in neither.finding
    both = compare(SAME, SAME, [token(0, 1, 0.5, 0)], [token(0, 1, 0.25, 0)])
    assert "None of 1 captured tokens differs" in both.finding
    assert "the two best lie at least 8388608 ULPs of float32 apart (0.5)" in both.finding


def test_logits_of_other_kinds_are_not_measured_in_ulps() -> None:
    found = compare(SAME, SAME, [token(1, 1.001, 1.002)], [token(0, 1.001, 1.002, dtype=torch.bfloat16)])
    assert (found.tokens[0].state, found.tokens[0].cause, found.tokens[0].flip_ulps) == ("token differs", None, None)
    assert "the logits are of other dtypes, float32 against bfloat16, so nothing tells how close" in found.finding
    same = compare(SAME, SAME, [token(0, 1.0, 0.0)], [token(0, 1.0, 0.0, dtype=torch.bfloat16)]).finding
    assert "the logits are of other dtypes, float32 against bfloat16, though both runs have token 0" in same
    wider = compare(SAME, SAME, [token(1, 0, 1)], [token(0, 2, 1, 0)]).finding
    assert "the logits are of other vocabularies, 2 against 3, and the two lie up to" in wider


def test_ulps_across_zero_explain_nothing() -> None:
    found = compare(SAME, SAME, [token(1, -1e-7, 1e-7, -5)], [token(0, 1e-7, -1e-7, -5)])
    assert found.tokens[0].cause is None
    assert "ULPs of float32 (2e−7) apart across zero, where ULPs do not tell how close the choice was" in found.finding
    assert "no near-tie" not in found.finding
    least = math.ldexp(1, -149)
    tiny = compare(SAME, SAME, [token(1, -least, least)], [token(0, least, -least)])
    assert tiny.tokens[0].cause == "near-tie"


def test_a_flip_gives_its_units_and_nan_is_told() -> None:
    clear = compare(SAME, SAME, [token(1, 1, 2)], [token(0, 3, 2)]).finding
    assert "the two lie up to 8388608 ULPs of float32 (1) apart: no near-tie explains it" in clear
    nan = compare(SAME, SAME, [token(1, 1, math.nan)], [token(0, math.nan, 1)]).finding
    assert "one of the two is NaN, so nothing tells how close the choice was" in nan


def test_tokens_of_a_batch_go_together_by_their_logits() -> None:
    batch = [token(1, 0, 3, -5), token(0, 3, 1, -5), token(2, 3, 1, 9)]
    swapped = compare(SAME, SAME, batch, [batch[1], batch[0], batch[2]])
    assert [one.state for one in swapped.tokens] == ["same"] * 3
    assert "2 of 3 tokens stand at another place in their step; they are aligned by their logits" in swapped.finding
    gone = compare(SAME, SAME, batch, batch[1:])
    assert [(one.state, one.place) for one in gone.tokens] == [("missing", 0), ("same", 1), ("same", 2)]
    added = compare(SAME, SAME, batch[1:], batch)
    assert [one.state for one in added.tokens] == ["extra", "same", "same"]
    bare = [wb.Token(one.step, one.token) for one in batch]  # a token alone names no request
    assert compare(SAME, SAME, bare, [bare[1], bare[0], bare[2]]).tokens[0].state == "token differs"


def test_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for folder, change in (("x", None), ("y", lossy)):
        (tmp_path / folder).mkdir()
        wb.write(tmp_path / folder / "run.safetensors", make_run((1, 1), change))
    opened = [wb.open(tmp_path / folder / "run.safetensors") for folder in ("x", "y")]
    found = wb.diverge(*opened)
    assert found.runs == ("run.safetensors (run 1)", "run.safetensors (run 2)")
    assert "The selector is at fault in run.safetensors (run 2)" in found.finding
    assert wb.diverge(capture(make_run(), "a"), capture(make_run(), "b")).runs == ("a", "b")


def test_a_point_that_one_run_names_is_not_counted_among_calls_without_names() -> None:
    b = [replace(one, call=replace(one.call, step=None, layer=None)) for one in make_run((2, 1), other_order)]
    found = compare(make_run(), b)
    assert found.first is not None
    assert (found.first.step, found.first.layer, found.first.occurrence) == (2, 1, 0)
    assert "at step 2, layer 1, row 0: on" in found.finding


def test_many_files_need_few_descriptors(tmp_path: Path) -> None:
    runs = [tmp_path / name for name in ("a", "b", "c", "d")]
    for run in runs:
        run.mkdir()
        for number, one in enumerate(make_run() * 3):
            wb.write(run / f"{number}.safetensors", [one])
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 32  # noqa: PTH208
    resource.setrlimit(resource.RLIMIT_NOFILE, (held + 24, limits[1]))
    try:
        assert not wb.diverge(*runs).parts
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_file_that_vanishes_between_opening_and_looking_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wb.write(tmp_path / "a.safetensors", make_run())

    def opener(path: Path) -> wb.Capture:
        found = wb.open(path)
        path.unlink()
        return found

    with pytest.raises(wb.CaptureError, match=r"a\.safetensors: the file was changed meanwhile"):
        wb.diverge(tmp_path / "a.safetensors", tmp_path / "a.safetensors", opener=opener)
