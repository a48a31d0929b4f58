"""Many calls on one row: models under random arrival orders, and recorded calls on the same input."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import workbench as wb
from tests.diverging import lossy, make_row, one_ulp, other_order, other_tie, unrecorded
from workbench.paths.catalog import get_path
from workbench.paths.spec import Determinism, OutputOrdering
from workbench.runs.repeat import Repeated

PLACE = {"op": "vllm.persistent_topk", "release": "vllm==0.26.0", "device": "h200"}


def crowded(population: int = 5000, length: int = 20000) -> wb.Row:
    """``population`` distinct neighbours of 1.0 in one bin, over a low floor."""
    scores = torch.full((length,), -3.0)
    near = (torch.arange(1, population + 1, dtype=torch.int32) + 0x3F800000).view(torch.float32)
    scores[torch.randperm(length, generator=torch.Generator().manual_seed(0))[:population]] = near
    known = {"k": 2048, "rows": 1, "width": length, "stride": length, "max_seq_len": length} | PLACE
    return wb.Row(scores, length, call=wb.Call(**known), capture="test", index=4)


def only(found: object) -> Repeated:
    (line,) = found.lines  # type: ignore[attr-defined]
    assert isinstance(line, Repeated)
    return line


def test_a_row_that_overflows_varies_in_values() -> None:
    seen: list[int] = []
    found = wb.repeat(crowded(), 12, progress=seen.append)
    line = only(found)
    result = line.repeatability
    assert result is not None
    assert (line.path, line.engine, result.kind, result.calls, result.values) == (
        "vllm.histogram_256",
        "model",
        "values vary",
        12,
        12,
    )
    assert seen == list(range(1, 13))
    assert line.verdicts == {"lossy": 12}
    assert 300 < line.missing_least < line.missing_most < 450
    assert (line.of, line.risk, found.loses, found.worst) == (2048, "at risk", True, line)
    assert all(0 < member.held < 12 for member in result.members)
    assert result.steady + sum(member.held for member in result.members) / 12 == 2048
    winners = [member for member in result.members if member.gap >= 0]
    assert sum(member.share for member in winners) / len(winners) == pytest.approx(4096 / 5000, abs=0.05)
    assert "12 calls of vllm.histogram_256 (stock): values vary (12 orders, 12 sets of indices, 12 of values" in (
        line.sentence
    )


def test_seeds_repeat() -> None:
    assert only(wb.repeat(crowded(), 3, seed=1)) == only(wb.repeat(crowded(), 3, seed=1))
    assert only(wb.repeat(crowded(), 3, seed=1)) != only(wb.repeat(crowded(), 3, seed=2))


def test_a_plateau_varies_in_ties_alone_and_loses_nothing() -> None:
    row = replace(crowded(), scores=torch.zeros(20000))
    line = only(wb.repeat(row, 5))
    assert line.repeatability is not None
    assert (line.repeatability.kind, line.verdicts, line.loses) == ("ties vary", {"ties": 5}, False)
    assert all(member.gap == 0 for member in line.repeatability.members)
    assert line.sentence.endswith("No call lost a winner.")


def test_no_model_breaks_what_its_path_promises_of_order() -> None:
    """Determinism is the same on every call; sorted output can differ between equal scores alone."""
    few = torch.randint(0, 40, (3000,), generator=torch.Generator().manual_seed(0)).float()
    checked = set()
    for scores in (few, few.bfloat16(), torch.randperm(3000).float()):
        row = wb.Row(scores, 3000, call=wb.Call(k=512))
        for line in wb.repeat(row, 4, paths="*", variants="*").lines:
            if line.repeatability is None or line.path is None:
                continue
            path = get_path(line.path)
            contract = path.variant(line.variant or "stock").contract or path.contract
            if contract.determinism is not Determinism.NOT_GUARANTEED:
                assert line.repeatability.kind == "same", line
                checked.add(contract.determinism)
            if contract.output_ordering is not OutputOrdering.UNSORTED:
                assert line.repeatability.kind in ("same", "ties vary", "order varies"), line
                checked.add(contract.output_ordering)
                if scores is not few and scores.dtype == torch.float32:  # no two are equal
                    assert line.repeatability.kind == "same", line
    assert checked == {Determinism.RUN_TO_RUN, Determinism.GPU_TO_GPU, OutputOrdering.SORTED}


def test_an_exact_selector_is_the_same_on_every_call() -> None:
    line = only(wb.repeat(crowded(), 4, paths="torch.topk"))
    assert line.repeatability is not None
    assert (line.repeatability.kind, line.loses, line.repeatability.members) == ("same", False, ())
    assert line.sentence == "4 calls of torch.topk (stock): same. No call lost a winner."


def test_refusals_stay_and_nothing_called_is_said() -> None:
    row = crowded().with_call(k=100)
    found = wb.repeat(row, 2, paths="vllm.histogram_256")
    line = only(found)
    assert line.repeatability is None
    assert line.refused
    assert found.worst is None
    assert line.sentence.startswith("vllm.histogram_256 (stock) was not called: ")


@pytest.mark.parametrize(
    ("change", "kind", "loses"),
    [
        (None, "same", False),
        (other_order, "order varies", False),
        (other_tie, "ties vary", False),
        (lossy, "values vary", True),
    ],
)
def test_recorded_calls_on_the_same_input(change: object, kind: str, loses: bool) -> None:
    row = make_row(1, 1)
    rows = [row, make_row(1, 2), replace(row) if change is None else change(row), one_ulp(lossy(row)), unrecorded(row)]  # type: ignore[operator]
    for among in (rows, wb.Capture.from_rows([replace(one, call=wb.Call(k=8)) for one in rows[:4]], "calls")):
        asked = row if isinstance(among, list) else among[0]
        line = only(wb.repeat(asked, engine="recorded", among=among))
        assert line.repeatability is not None
        assert (line.repeatability.kind, line.repeatability.calls, line.loses) == (kind, 2, loses)
        assert line.name == "the recorded op"


def test_recorded_calls_stand_beside_the_models_where_there_are_some() -> None:
    row = make_row(1, 1)
    assert [line.engine for line in wb.repeat(row, 2, paths="torch.topk").lines] == ["model"]
    both = wb.repeat(row, 2, paths="torch.topk", among=[row, lossy(row)])
    assert [line.engine for line in both.lines] == ["model", "recorded"]
    assert both.worst is both.lines[1]
    alone = only(wb.repeat(row, engine="recorded"))
    assert alone.refused == "the capture holds no second call on the same input"
    bare = only(wb.repeat(unrecorded(row), engine="recorded"))
    assert bare.refused == "the capture holds no recorded selection"


def test_recorded_selections_of_another_k_are_not_judged_by_it() -> None:
    row = make_row(1, 1)
    for k in (7, 9):
        line = only(wb.repeat(row, engine="recorded", among=[row, lossy(row)], k=k))
        assert line.refused == f"the recorded selection has 8 slots, k is {k}"


def test_a_row_counts_once_however_it_is_given() -> None:
    calls = wb.Capture.from_rows([make_row(1, 1), other_order(make_row(1, 1))], "calls")
    for among in (calls, list(calls), [calls[1], calls[0]]):
        line = only(wb.repeat(calls[0], engine="recorded", among=among))
        assert line.repeatability is not None
        assert line.repeatability.calls == 2
    twin = wb.Capture.from_rows([lossy(make_row(1, 1)), make_row(1, 2)], "calls")  # another file of that name
    for among in (twin, list(twin)):
        line = only(wb.repeat(calls[0], engine="recorded", among=among))
        assert line.repeatability is not None
        assert (line.repeatability.calls, line.repeatability.kind) == (2, "values vary")


def test_one_is_one_and_a_promise_is_no_measurement() -> None:
    row = make_row(1, 1)
    sentence = only(wb.repeat(row, engine="recorded", among=[row, other_order(row)])).sentence
    assert (
        "order varies (2 orders, 1 set of indices, 1 of values; 0 indices come and go, 8 are always held)" in sentence
    )
    kept = only(wb.repeat(row, 5, paths="sglang.deep_select")).sentence
    assert kept.startswith("5 calls of sglang.deep_select (stock): same, as the path promises.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repeats": 1}, "two calls or more are compared"),
        ({"engine": "cuda"}, "the engine model or recorded, not of 'cuda'; run calls any engine"),
        ({"engine": "recorded", "paths": "vllm.*"}, "stands for the op as a whole"),
        ({"paths": "nothing.*"}, "nothing"),
    ],
)
def test_usage(options: dict[str, object], message: str) -> None:
    with pytest.raises(wb.UsageError, match=message):
        wb.repeat(make_row(0, 0), **options)  # type: ignore[arg-type]


def test_an_empty_row_and_an_unknown_k() -> None:
    empty = wb.Row(torch.zeros(4), 0, call=wb.Call(k=2))
    assert only(wb.repeat(empty, 3, paths="torch.topk")).refused == "length 0 is not above 2 (k)"
    held = [replace(empty, indices=torch.tensor([-1, -1], dtype=torch.int32)) for _ in range(2)]
    line = only(wb.repeat(held[0], engine="recorded", among=held))
    assert line.repeatability is not None
    assert (line.repeatability.kind, line.of, line.verdicts) == ("same", 0, {"exact": 2})
    with pytest.raises(wb.CaptureError, match="does not say k"):
        wb.repeat(wb.Row(torch.zeros(4), 4), 3)
