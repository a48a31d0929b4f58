"""Runs that part in every way there is, at a known step and layer, are found to part there and in that way."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import workbench as wb
from tests.diverging import (
    LAYERS,
    STEPS,
    Change,
    K,
    capture,
    lossy,
    make_row,
    make_run,
    one_ulp,
    other_order,
    other_tie,
    unrecorded,
    with_indices,
)
from workbench.analysis.divergence.states import STATES
from workbench.runs import captured
from workbench.runs.divergence import COLUMNS, Comparison

AT = (2, 1)
TOTAL = STEPS * LAYERS


def compare(
    b: list[wb.Row],
    a: list[wb.Row] | None = None,
    tokens_a: list[wb.Token] | None = None,
    tokens_b: list[wb.Token] | None = None,
) -> Comparison:
    return wb.diverge(capture(make_run() if a is None else a, "a", tokens_a), capture(b, "b", tokens_b)).comparisons[0]


def widened(row: wb.Row) -> wb.Row:
    scores = torch.cat([row.scores, torch.tensor([0.5])])
    return replace(row, scores=scores, length=row.length + 1)


def narrowed(row: wb.Row) -> wb.Row:
    return replace(row, scores=row.scores.to(torch.bfloat16))


def shifted(row: wb.Row) -> wb.Row:
    return replace(row, scores=torch.cat([torch.zeros(1), row.scores]), start=1)


def smaller_k(row: wb.Row) -> wb.Row:
    return with_indices(row.with_call(k=K - 1), lambda held: held[:-1])


def with_nan(row: wb.Row) -> wb.Row:
    scores = row.scores.clone()
    scores[3] = math.nan
    return replace(row, scores=scores)


@pytest.mark.parametrize(
    ("change", "state", "what", "said"),
    [
        (one_ulp, "input differs", "scores", "1 of 66 scores differs by 1 ULP of float32"),
        (with_nan, "input differs", "scores", "with a NaN"),
        (widened, "input differs", "length", "length is 66 against 67; the scores that both rows have are the same"),
        (narrowed, "input differs", "dtype", "dtype is float32 against bfloat16"),
        (shifted, "input differs", "start", "start is 0 against 1"),
        (smaller_k, "input differs", "k", "k is 8 against 7"),
        (lossy, "values vary", None, "a lost none of 8 winners, b lost 1 of 8 winners. The selector is at fault in b"),
        (other_tie, "ties vary", None, "2 indices differ between equal scores (1000)"),
        (other_order, "order varies", None, "the same 8 indices in another order (8 slots differ, the first is 0)"),
    ],
)
def test_a_fault_is_found_where_it_is_and_named(change: Change, state: str, what: str | None, said: str) -> None:
    found = compare(make_run(AT, change))
    first = found.first
    assert first is not None
    assert (first.step, first.layer, first.state, first.what) == (*AT, state, what)
    assert found.counts["same"] == TOTAL - 1
    assert sum(found.counts.values()) == TOTAL
    assert found.finding.startswith(f"b parts from a at step {AT[0]}, layer {AT[1]}, row 0: ")
    assert said in found.finding
    assert ("not accused" in found.finding) == (state == "input differs")
    assert ("at fault" in found.finding) == (state == "values vary")
    assert f"Of 12 points: 11 same, 1 {state}" in found.finding
    assert found.detail is not None
    assert found.detail.point is first
    assert (found.detail.inputs is not None) == (state == "input differs")
    assert (found.detail.selections is not None) == (state != "input differs")


def test_runs_that_are_the_same_do_not_part() -> None:
    found = compare(make_run())
    assert not found.parts
    assert found.compared
    assert found.first is None
    assert found.detail is None
    assert found.finding == "b does not part from a: all 12 points are the same."


def test_the_lossy_side_is_named_whichever_it_is() -> None:
    found = compare(make_run(), a=make_run(AT, lossy))
    assert "The selector is at fault in a:" in found.finding
    first = found.first
    assert first is not None
    assert first.judged_a is not None
    assert first.judged_b is not None
    assert [(side.verdict, side.missing, side.of) for side in (first.judged_a, first.judged_b)] == [
        ("lossy", 1, 8),
        ("exact", 0, 8),
    ]
    both = compare(
        make_run(AT, lambda row: with_indices(lossy(row), lambda held: [held[0], 30, *held[2:]])), a=make_run(AT, lossy)
    )
    assert "The selector is at fault in both runs" in both.finding


def test_slots_that_are_invalid_are_said_to_be() -> None:
    found = compare(make_run(AT, lambda row: with_indices(row, lambda held: [held[1], *held[1:]])))
    assert found.first is not None
    assert found.first.judged_b is not None
    assert (found.first.state, found.first.judged_b.verdict) == ("values vary", "invalid")
    assert "b returned invalid slots and lacks 1 of 8" in found.finding


def test_both_may_lose_the_same_and_differ_in_order_alone() -> None:
    twice = compare(make_run(AT, lambda row: other_order(lossy(row))), a=make_run(AT, lossy))
    assert twice.first is not None
    assert twice.first.state == "order varies"
    assert "Against the exact reference a lost 1 of 8 winners and b lost 1 of 8 winners." in twice.finding


def test_what_fed_a_changed_input_is_pointed_at() -> None:
    def upstream(at: tuple[int, int], **tokens: list[wb.Token]) -> str:
        return compare(make_run(at, one_ulp), **tokens).finding

    assert "at what layer 0 put out at step 2 (its selections: same), and at what layer 1 computes" in upstream((2, 1))
    assert "the first captured layer of step 2, fed by the token chosen before and" in upstream((2, 0))
    told = [wb.Token(step, 7) for step in range(STEPS)]
    assert "chosen before (tokens of step 1: same)" in upstream((2, 0), tokens_a=told, tokens_b=told)
    assert "nothing was captured before it" in upstream((0, 0))
    assert "Look at the call: its k does not come from a score." in compare(make_run(AT, smaller_k)).finding
    unnamed = make_run((1, 1), one_ulp, step=None)
    assert "do not say which step and layer" in compare(unnamed, a=make_run(step=None)).finding


def test_order_alone_is_seen_to_come_before_the_inputs_it_may_have_changed() -> None:
    rows = [one_ulp(row) if row.call.step == 3 else row for row in make_run(AT, other_order)]
    found = compare(rows)
    assert found.first is not None
    assert (found.first.state, found.counts["input differs"]) == ("order varies", LAYERS)
    assert "can change in its low bits" in found.finding


def test_a_selector_at_fault_later_is_named_too() -> None:
    rows = [lossy(row) if (row.call.step, row.call.layer) == (3, 2) else row for row in make_run(AT, one_ulp)]
    finding = compare(rows).finding
    assert "is not accused" in finding
    assert (
        "The selector is at fault, first at step 3, layer 2, row 0: on bit-identical input, b lost 1 of 8 winners."
        in finding
    )


def test_missing_extra_and_duplicate_calls() -> None:
    whole = make_run()
    short = [row for row in whole if (row.call.step, row.call.layer) != AT]
    missing = compare(short)
    assert missing.first is not None
    assert (missing.first.state, missing.first.step, missing.first.layer, missing.first.b) == ("missing", *AT, None)
    assert missing.counts["same"] == TOTAL - 1
    assert "only a has this row" in missing.finding
    extra = compare(whole, a=short)
    assert extra.first is not None
    assert (extra.first.state, extra.first.layer, extra.first.a) == ("extra", AT[1], None)
    assert [point.layer for point in extra.points if point.step == 2] == [0, 1, 2]  # in its place in execution order
    again = make_row(*AT).with_call(max_seq_len=66)  # a call of its own
    for a, b, owner in ((whole, [*whole, again], "b"), ([*whole, again], whole, "a")):
        twice = compare(b, a=a)
        assert twice.first is not None
        assert (twice.first.state, twice.first.step, twice.first.layer) == ("duplicate", *AT)
        assert twice.counts["same"] == TOTAL
        assert f"{owner} has this call once more" in twice.finding
    # the surplus call is told by its content, not by coming last
    warm_up = replace(one_ulp(make_row(*AT)), call=again.call)
    first = compare([warm_up, *whole])
    assert first.counts["same"] == TOTAL
    assert first.counts["duplicate"] == 1
    assert first.counts["input differs"] == 0


def test_a_missing_row_of_a_call_does_not_shift_the_others() -> None:
    def batch(rows: int) -> list[wb.Row]:
        return [replace(make_row(step, 0), call=wb.Call(k=K, step=0, layer=0)) for step in range(rows)]

    found = compare([*batch(4)[:1], *batch(4)[2:]], a=batch(4))
    assert [(point.state, point.row) for point in found.points] == [
        ("same", 0),
        ("missing", 1),
        ("same", 2),
        ("same", 3),
    ]


def test_calls_in_another_order_are_reordered() -> None:
    rows = make_run()
    rows[4], rows[7] = rows[7], rows[4]
    found = compare(rows)
    assert found.counts["reordered"] == 2
    assert found.counts["same"] == TOTAL - 2
    assert "the runs have them in another order" in found.finding
    swapped = make_run((1, 1), lossy)
    swapped[4], swapped[5] = swapped[5], swapped[4]
    both = compare(swapped)
    assert [(point.layer, point.state) for point in both.points if point.reordered] == [(1, "values vary")]


def test_rows_of_a_call_in_another_order_are_reordered() -> None:
    batch = [replace(make_row(step, 0), call=wb.Call(k=K, step=0, layer=0)) for step in range(3)]
    found = compare([batch[1], batch[0], batch[2]], a=batch)
    assert [point.state for point in found.points].count("reordered") == 1
    assert found.counts["input differs"] == 0


def test_selections_that_are_not_recorded() -> None:
    bare = [unrecorded(row) for row in make_run()]
    for a, b in ((None, bare), (bare, make_run()), (bare, bare)):
        found = compare(b, a=a)
        assert found.counts["not comparable"] == TOTAL
        assert (found.parts, found.compared) == (False, False)
        assert "the inputs of all 12 points are bit-identical" in found.finding
    one = compare(make_run(AT, unrecorded))
    assert (one.counts["not comparable"], one.counts["same"], one.parts, one.compared) == (1, TOTAL - 1, False, True)
    assert "11 of 12 points are the same; of 1 a selection is not recorded on both sides" in one.finding
    changed = compare([unrecorded(one_ulp(row)) for row in make_run()], a=bare)
    assert changed.counts["input differs"] == TOTAL  # the input is asked after first


def test_calls_without_step_or_layer_are_aligned_by_content_and_order_and_said_to_be() -> None:
    whole = make_run(step=None, layer=None)
    short = [*whole[:3], *whole[4:]]
    found = compare(short, a=whole)
    assert (found.counts["same"], found.counts["missing"], found.counts["duplicate"]) == (TOTAL - 1, 1, 0)
    assert "23 of 23 rows name no step or no layer" in found.finding
    assert found.first is not None
    assert found.first.a is not None
    assert f"at row {found.first.a.row} of a" in found.finding


def test_a_run_that_does_not_say_steps_is_aligned_without_them() -> None:
    found = compare(make_run(step=None))
    assert found.counts["same"] == TOTAL
    assert any("b does not say steps: rows are aligned without them" in note for note in found.notes)


def test_other_names_of_request_rank_and_op_are_aligned_and_noted() -> None:
    found = compare(
        make_run(request="req-2", rank=1, op="vllm.persistent_topk"), a=make_run(request="req-1", op="exact")
    )
    assert found.counts["same"] == TOTAL
    assert "the runs differ in request: req-1 with req-2 aligned as the same (a first)" in found.finding
    assert "the runs differ in rank: unknown with 1" in found.finding
    assert "the runs differ in op: exact with vllm.persistent_topk" in found.finding


def test_ops_that_only_one_of_several_names_are_not_taken_for_each_other() -> None:
    two = [*make_run(op="x"), *make_run(op="y")]
    found = compare(two, a=make_run(op="x"))
    assert (found.counts["same"], found.counts["extra"]) == (TOTAL, TOTAL)


def test_what_the_calls_do_not_have_in_common_is_noted() -> None:
    found = compare(
        make_run(AT, lossy, release="vllm==0.26.0", max_seq_len=99), a=make_run(release="vllm==0.25.0", max_seq_len=70)
    )
    assert "release differs in 12 of 12 points (first vllm==0.25.0 against vllm==0.26.0)" in found.finding
    assert "max_seq_len differs in 12 of 12 points (first 70 against 99)" in found.finding
    assert found.points[0].differing == ("release", "max_seq_len")


def step_tokens(*chosen: int, logits: list[torch.Tensor] | None = None) -> list[wb.Token]:
    return [wb.Token(step, token, None if logits is None else logits[step]) for step, token in enumerate(chosen)]


def test_tokens_that_flip_on_a_tie_after_the_same_selections() -> None:
    plain, tied = torch.tensor([0.0, 9.0, 1.0]), torch.tensor([0.0, 5.0, 5.0])
    logits = [plain, tied, plain, plain]
    found = compare(
        make_run(),
        tokens_a=step_tokens(1, 1, 1, 1, logits=logits),
        tokens_b=step_tokens(1, 2, 1, 1, logits=logits),
    )
    assert found.first is None
    assert found.first_token is not None
    assert (found.first_token.step, found.first_token.cause) == (1, "tie")
    assert found.finding.startswith(
        "b parts from a at the token of step 1: token 1 against 2: the logits are bit-identical, and the two tie"
    )
    assert found.parts


def test_the_token_that_follows_a_parted_selection() -> None:
    near = torch.tensor([0.0, 5.0, torch.nextafter(torch.tensor(5.0), torch.tensor(0.0)).item()])
    flipped = near[[0, 2, 1]]
    base = torch.tensor([0.0, 9.0, 1.0])
    found = compare(
        make_run(AT, lossy),
        tokens_a=step_tokens(1, 1, 1, 1, logits=[base, base, near, base]),
        tokens_b=step_tokens(1, 1, 2, 1, logits=[base, base, flipped, base]),
    )
    assert found.first is not None
    assert found.first.state == "values vary"
    assert (
        "At the token of step 2, token 1 against 2: the logits differ, and the two lie at most 1 ULP of float32 "
        in (found.finding)
    )
    clear = compare(
        make_run(AT, lossy),
        tokens_a=step_tokens(1, 1, 1, 1, logits=[base] * 4),
        tokens_b=step_tokens(1, 1, 2, 1, logits=[base, base, base[[0, 2, 1]], base]),
    )
    assert "no near-tie explains it; between the runs they moved by up to 8" in clear.finding
    same = compare(make_run(AT, lossy), tokens_a=step_tokens(1, 2), tokens_b=step_tokens(1, 2))
    assert "All 2 tokens are the same." in same.finding


def test_a_token_that_flips_before_the_inputs_part_comes_first() -> None:
    rows = [one_ulp(row) if (row.call.step or 0) > 1 else row for row in make_run()]
    found = compare(rows, tokens_a=step_tokens(1, 1, 1), tokens_b=step_tokens(1, 2, 1))
    assert found.finding.startswith("b parts from a at the token of step 1: token 1 against 2: logits are not recorded")
    assert "The first point at which they part is step 2, layer 0, row 0: the selector is not accused" in (
        found.finding
    )


def test_tokens_of_one_run_alone_and_missing_ones() -> None:
    alone = compare(make_run(), tokens_a=step_tokens(1, 2))
    assert (alone.tokens, alone.parts) == ((), False)
    assert "only a holds tokens, so none are compared" in alone.finding
    short = compare(make_run(), tokens_a=step_tokens(1, 2), tokens_b=step_tokens(1))
    assert short.first_token is not None
    assert (short.first_token.state, short.parts) == ("missing", True)
    assert "only a has a token there" in short.finding


def test_ranks_of_one_run() -> None:
    rows = [*make_run(rank=0), *make_run(AT, other_tie, rank=1), *make_run(rank=2)]
    found = wb.diverge(capture(rows, "tp3"), ranks=True)
    assert found.runs == ("rank 0", "rank 1", "rank 2")
    assert [one.parts for one in found.comparisons] == [True, False]
    assert found.earliest is found.comparisons[0]
    assert found.finding.startswith(f"rank 1 parts from rank 0 at step {AT[0]}, layer {AT[1]}, row 0: ")
    assert "Of 2 runs, 1 parts from rank 0." in found.finding
    told = capture(rows, "tp3", step_tokens(1, 2))
    assert "they stand in a file that holds several ranks" in wb.diverge(told, ranks=True).finding
    files = [capture(make_run(rank=rank), f"rank{rank}", step_tokens(1, 2 + rank)) for rank in range(2)]
    own = wb.diverge(files, ranks=True)
    assert "token 2 against 3" in own.finding


@pytest.mark.parametrize(
    ("runs", "ranks", "message"),
    [
        (1, False, "two runs or more are compared"),
        (2, True, "ranks are those of one run, but 2 are given"),
        (1, True, "some calls do not say their rank"),
    ],
)
def test_what_cannot_be_compared(runs: int, ranks: bool, message: str) -> None:
    with pytest.raises(wb.UsageError, match=message):
        wb.diverge(*[capture(make_run(), "a")] * runs, ranks=ranks)


def test_no_runs_and_things_that_are_none() -> None:
    with pytest.raises(wb.UsageError, match="all calls are of rank 3; two ranks or more are needed"):
        wb.diverge(capture(make_run(rank=3), "a"), ranks=True)
    for nonsense in (7, [], [3], None):
        with pytest.raises(wb.UsageError, match=r"(a run is a capture file|it must be text, bytes, a path)"):
            wb.diverge(nonsense, capture(make_run(), "a"))  # type: ignore[arg-type]
    with pytest.raises(wb.UsageError, match="near_ulps"):
        wb.diverge(capture(make_run(), "a"), capture(make_run(), "b"), near_ulps=-1)


def test_more_than_two_runs_and_the_earliest() -> None:
    later, earlier = make_run((3, 0), lossy), make_run((1, 2), other_order)
    found = wb.diverge(capture(make_run(), "a"), capture(later, "b"), capture(make_run(), "c"), capture(earlier, "d"))
    assert [one.b for one in found.comparisons] == ["b", "c", "d"]
    assert (found.earliest.b, found.parts) == ("d", True)
    assert found.finding.endswith("Of 3 runs, 2 part from a, this one first.")
    frame = found.to_pandas()
    assert list(frame.columns) == list(COLUMNS)
    assert len(frame) == 3 * TOTAL
    assert frame[frame.state != "same"][["run", "step", "layer", "state"]].values.tolist() == [
        ["b", 3, 0, "values vary"],
        ["d", 1, 2, "order varies"],
    ]
    assert frame[frame.state == "values vary"][["verdict_a", "verdict_b", "missing_b"]].values.tolist() == [
        ["exact", "lossy", 1]
    ]
    same = wb.diverge(*[capture(make_run(), name) for name in "abc"])
    assert same.finding.startswith("None of 2 runs parts from a. ")


def test_folders_files_and_lists_name_what_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(captured, "OPEN", 2)  # files are closed and opened again
    for run, change in (("one", None), ("two", lossy)):
        Path(run).mkdir()
        rows = make_run(AT, change)
        for layer in range(LAYERS):
            wb.write(f"{run}/layer.{layer + 9}.safetensors", [row for row in rows if row.call.layer == layer])
    found = wb.diverge("one", Path("two"))
    first = found.comparisons[0].first
    assert first is not None
    assert first.a is not None
    assert first.b is not None
    assert (first.state, first.a.file, first.b.file) == (
        "values vary",
        "one/layer.10.safetensors",
        "two/layer.10.safetensors",
    )
    assert found.comparisons[0].counts["reordered"] == 0  # across files no order is known
    assert found.runs == ("one", "two")
    # a folder against one file, and against its files as a list
    wb.write("whole.safetensors", make_run())
    assert not wb.diverge("whole.safetensors", "one").parts
    files = [f"one/layer.{at}.safetensors" for at in (9, 10, 11)]
    listed = wb.diverge(files, "whole.safetensors")
    assert not listed.parts
    assert listed.runs[0] == "one/layer.9.safetensors and 2 more"


def test_rows_of_a_point_are_read_again_unless_the_file_changed(tmp_path: Path) -> None:
    wb.write(tmp_path / "a.safetensors", make_run())
    wb.write(tmp_path / "b.safetensors", make_run(AT, lossy))
    with wb.diverge(tmp_path / "a.safetensors", tmp_path / "b.safetensors") as found:
        comparison = found.comparisons[0]
        point = comparison.first
        assert point is not None
    a, b = comparison.rows(point)
    assert a is not None
    assert b is not None
    assert torch.equal(a.scores, make_row(*AT).scores)
    assert comparison.look(point).selections is not None
    assert comparison.look(comparison.points[0]).selections is not None
    found.close()
    wb.write(tmp_path / "b.safetensors", make_run(), overwrite=True)
    os.utime(tmp_path / "b.safetensors", ns=(1, 1))
    with pytest.raises(wb.CaptureError, match="changed meanwhile"):
        comparison.rows(point)


def test_the_detail_of_a_point_lists_what_each_side_alone_holds() -> None:
    found = compare(make_run(AT, lossy)).detail
    assert found is not None
    selections = found.selections
    assert selections is not None
    best = make_row(*AT).indices
    assert best is not None
    assert [(held.index, held.side) for held in selections.held] == [(int(best[0]), "a"), (65, "b")]
    assert (selections.slots, selections.first_slot, selections.cut) == (1, 0, 1000.0)
    assert selections.held[0].gap > 0 > selections.held[1].gap


def test_hostile_files_and_folders(tmp_path: Path) -> None:
    wb.write(tmp_path / "good.safetensors", make_run())
    empty, broken, foreign = tmp_path / "empty", tmp_path / "broken", tmp_path / "foreign"
    for folder in (empty, broken, foreign):
        folder.mkdir()
    (broken / "bad.safetensors").write_bytes(b"nothing")
    save_file({"x": torch.zeros(3)}, foreign / "x.safetensors")
    for bad, message in (
        (empty, "the folder holds no .safetensors file"),
        (broken, "bad.safetensors"),
        (foreign, "not a workbench capture"),
        (tmp_path / "nowhere", "no such file"),
    ):
        with pytest.raises(wb.CaptureError, match=message):
            wb.diverge(tmp_path / "good.safetensors", bad)


def test_a_recorded_index_that_no_capture_can_hold(tmp_path: Path) -> None:
    rows = make_run()
    tensors = {
        "scores": torch.stack([row.scores[:64] for row in rows]),
        "lengths": torch.full((TOTAL,), 64, dtype=torch.int32),
        "indices": torch.full((TOTAL, 4), 99, dtype=torch.int32),
    }
    for name in ("a", "b"):
        save_file(tensors, tmp_path / f"{name}.safetensors", metadata={"topk_workbench": '{"format_version": 1}'})
    with pytest.raises(wb.CaptureError, match=r"a\.safetensors, tensor 'indices', row 0"):
        wb.diverge(tmp_path / "a.safetensors", tmp_path / "b.safetensors")


def test_foreign_files_by_an_opener(tmp_path: Path) -> None:
    for name, change in (("a", None), ("b", one_ulp)):
        rows = make_run((0, 1), change)[:LAYERS]
        scores = torch.stack([row.scores for row in rows])
        save_file({"s": scores}, tmp_path / f"{name}.safetensors")
    found = wb.diverge(
        tmp_path / "a.safetensors", tmp_path / "b.safetensors", opener=lambda path: wb.open(path, scores="s", k=K)
    )
    assert found.comparisons[0].counts["input differs"] == 1
    assert found.comparisons[0].counts["not comparable"] == LAYERS - 1


def test_page_table_entries_are_compared_as_recorded() -> None:
    def mapped(rows: list[wb.Row]) -> list[wb.Row]:
        return [with_indices(row, lambda held: [index + 10_000 for index in held]) for row in rows]

    assert compare(mapped(make_run()), a=mapped(make_run())).parts is False
    other = compare(mapped(make_run(AT, other_order)), a=mapped(make_run()))
    assert other.first is not None
    assert other.first.state == "order varies"


def test_every_state_has_its_meaning_and_progress_counts_rows() -> None:
    assert all(facts.meaning for facts in STATES.values())
    seen: list[int] = []
    wb.diverge(capture(make_run(), "a"), capture(make_run(), "b"), progress=seen.append)
    assert seen == list(range(1, 2 * TOTAL + 1))


def test_requests_are_aligned_by_name_then_by_order(tmp_path: Path) -> None:
    for folder, names in (("a", ("p", "q")), ("b", ("p", "r"))):
        (tmp_path / folder).mkdir()
        for number, name in enumerate(names):
            rows = make_run((1, 1), lossy if (folder, name) == ("b", "r") else None)
            wb.write(
                tmp_path / folder / f"{number}.safetensors",
                rows,
                request=name,
                tokens=step_tokens(number, 5 if name == "r" else 4),
            )
    found = wb.diverge(tmp_path / "a", tmp_path / "b").comparisons[0]
    assert found.first is not None
    assert (found.first.request, found.first.state) == ("q", "values vary")
    assert [token.state for token in found.tokens if token.request == "q"] == ["same", "token differs"]
    assert [token.state for token in found.tokens if token.request == "p"] == ["same", "same"]


def test_the_first_token_that_differs_is_named_after_logits_that_only_moved() -> None:
    base, moved, other = torch.tensor([0.0, 9.0, 1.0]), torch.tensor([0.0, 9.5, 1.0]), torch.tensor([0.0, 1.0, 9.0])
    found = compare(
        make_run(AT, lossy),
        tokens_a=step_tokens(1, 1, 1, 1, logits=[base] * 4),
        tokens_b=step_tokens(1, 1, 1, 2, logits=[base, base, moved, other]),
    )
    assert "At the token of step 2, the logits are not bit-identical" in found.finding
    assert "The tokens themselves differ first at the token of step 3: token 1 against 2" in found.finding
    kept = compare(
        make_run(AT, lossy),
        tokens_a=step_tokens(1, 1, 1, 1, logits=[base] * 4),
        tokens_b=step_tokens(1, 1, 1, 1, logits=[base, base, moved, base]),
    )
    assert "None of 4 captured tokens differs." in kept.finding
