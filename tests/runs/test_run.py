"""Runs, reports and inspections of rows that break a path, and of rows that do not."""

from __future__ import annotations

import re
from dataclasses import replace

import pandas as pd
import pytest
import torch

import workbench as wb
from workbench.runs.report import COLUMNS
from workbench.runs.sentence import finding

PLACE = {"op": "vllm.persistent_topk", "release": "vllm==0.26.0", "device": "h200"}


def bad_row(population: int = 5000, length: int = 20000, **call: object) -> wb.Row:
    """``population`` distinct neighbours of 1.0 in one bin, over a low floor."""
    scores = torch.full((length,), -3.0)
    near = (torch.arange(1, population + 1, dtype=torch.int32) + 0x3F800000).view(torch.float32)
    scores[torch.randperm(length, generator=torch.Generator().manual_seed(0))[:population]] = near
    known = {"k": 2048, "rows": 1, "width": length, "stride": length, "max_seq_len": length} | PLACE | call
    return wb.Row(scores, length, call=wb.Call(**known), capture="test", index=4)


def test_reached_runs_the_path_that_the_op_takes() -> None:
    report = wb.run(bad_row(), repeats=3)
    assert [(line.path, line.reached, line.verdict, line.repeat) for line in report] == [
        ("vllm.histogram_256", True, "lossy", repeat) for repeat in range(3)
    ]
    line = report.lines[0]
    assert (line.population, line.capacity, line.above, line.need) == (5000, 4096, 0, 2048)
    assert line.risk == "at risk"
    assert line.expected_missing == pytest.approx(2048 * 904 / 5000)
    assert line.missing == pytest.approx(line.expected_missing, rel=0.2)
    assert line.recall == 1 - line.missing / 2048
    assert report.loses


def test_repeats_differ_by_arrival_and_seeds_repeat() -> None:
    first = [line.missing for line in wb.run(bad_row(), repeats=4, seed=1)]
    assert len(set(first)) > 1
    assert first == [line.missing for line in wb.run(bad_row(), repeats=4, seed=1)]
    assert first[1:] == [line.missing for line in wb.run(bad_row(), repeats=3, seed=2)]


def test_arrival_orders_by_position() -> None:
    falling = torch.arange(806736, 806736 - 4096, -1, dtype=torch.float32)
    call = wb.Call(k=512, rows=1, width=4096, stride=4096, max_seq_len=4096, **PLACE)
    lost = {order: wb.run(wb.Row(falling, 4096, call=call), arrival=order).lines[0] for order in ("index", "reverse")}
    assert (lost["index"].missing, lost["reverse"].missing) == (0, 388)  # the best first, or last: the two extremes
    with pytest.raises(wb.UsageError, match="'warp'; known orders: random, index, reverse and walk"):
        wb.run(bad_row(), arrival="warp")


def test_walks_follow_the_threads_and_seeds_repeat() -> None:
    """Released ops lost 64 to 128 of these (see tests/data/truth); a random order loses 48 on average."""
    falling = torch.arange(806736, 806736 - 4096, -1, dtype=torch.float32)
    call = wb.Call(k=512, rows=1, width=4096, stride=4096, max_seq_len=4096, **PLACE)

    def walk(repeats: int, seed: int) -> list[int | None]:
        found = wb.run(wb.Row(falling, 4096, call=call), arrival="walk", repeats=repeats, seed=seed)
        assert {(line.path, line.risk) for line in found} == {("vllm.histogram_2048", "at risk")}
        return [line.missing for line in found]

    lost = walk(20, seed=3)
    assert 64 <= min(lost) < max(lost) == 128
    assert lost[1:] == walk(19, seed=4)


def test_a_walk_is_that_of_each_path_and_variant() -> None:
    report = wb.run(bad_row(), paths="*", variants="*", arrival="walk")
    assert {line.refused is None for line in report} == {True, False}
    assert all(line.missing == 0 for line in report if line.risk == "safe" and line.refused is None)


def test_a_glob_runs_every_path_and_refused_ones_stay_in_the_report() -> None:
    report = wb.run(bad_row(), paths="*")
    by_path = {line.path: line for line in report}
    assert list(by_path) == [path.name for path in wb.paths()]
    assert by_path["vllm.histogram_2048"].refused == "length 20000 is above 8192"
    assert by_path["vllm.histogram_2048"].verdict is None
    assert by_path["flashinfer.ragged"].refused == "flashinfer.ragged stock has no model"
    assert by_path["flashinfer.ragged"].risk == "safe"
    assert by_path["vllm.sampled"].verdict == "exact"
    assert by_path["vllm.histogram_256"].reached is True
    assert by_path["vllm.filtered"].reached is False
    assert by_path["vllm.filtered"].verdict == "exact"


def test_to_pandas_has_the_columns_and_nullable_types() -> None:
    frame = wb.run(bad_row(), paths="vllm.*").to_pandas()
    assert tuple(frame.columns) == COLUMNS
    assert frame["missing"].dtype == "Int64"
    assert frame["reached"].dtype == "boolean"
    assert frame["expected_missing"].dtype == "float64"
    assert pd.isna(frame.loc[frame["path"] == "vllm.histogram_2048", "missing"]).all()
    assert len(wb.run([]).to_pandas().columns) == len(COLUMNS)


def test_the_exact_release_is_safe_and_not_modelled() -> None:
    (line,) = wb.run(bad_row(), release="vllm==0.33.0")
    assert (line.variant, line.risk, line.verdict) == ("v0.33.0", "safe", None)
    assert line.refused == "vllm.histogram_256 v0.33.0 has no model"


def test_recorded_selections_are_judged() -> None:
    row = bad_row()
    exact = wb.reference(row).indices
    wrong = exact.clone()
    wrong[0] = int(torch.argmin(row.scores))
    for indices, verdict in ((exact, "exact"), (exact.flip(0), "exact"), (wrong, "lossy")):
        (line,) = wb.run(wb.Row(row.scores, row.length, call=row.call, indices=indices), engine="recorded", repeats=9)
        assert (line.engine, line.verdict, line.reached) == ("recorded", verdict, True)
    (line,) = wb.run(row, engine="recorded")
    assert line.refused == "the capture holds no recorded selection"
    other = wb.Row(row.scores, row.length, call=row.call, indices=exact[:512])
    assert wb.run(other, engine="recorded").lines[0].refused == "the recorded selection has 512 slots, k is 2048"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"paths": "nothing.*"}, "no path matches 'nothing"),
        (
            {"variants": "mended"},
            "no variant matches 'mended'; known here: stock, detect_rescan, wide_rescan, deterministic, v0.33.0",
        ),
        ({"engine": "warp"}, "known engines: model, cuda, recorded"),
        ({"engine": "recorded", "paths": "vllm.*"}, "stands for the op as a whole"),
        ({"repeats": 0}, "repeats is 0"),
        ({"device": "h9000"}, "unknown device"),
    ],
)
def test_usage_errors(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(wb.UsageError, match=message):
        wb.run(bad_row(), **arguments)


def test_reached_needs_op_release_and_device() -> None:
    with pytest.raises(wb.UsageError, match=r"^device not known; give it \(--device\), or choose paths"):
        wb.run(bad_row(device=None))
    with pytest.raises(wb.UsageError, match=r"op and device not known; give them \(--op and --device\), or"):
        wb.run(bad_row(op=None, device=None))
    with pytest.raises(wb.UsageError, match=r"op is not known; give it \(--op\), or choose paths \(--paths\)"):
        wb.run(bad_row(op=None), paths="possible")
    with pytest.raises(wb.UsageError, match=r"was not observed.*; give another op, release or device \(--op, "):
        wb.run(bad_row(release="vllm==0.1.0"))


def test_a_route_that_depends_on_unknown_fields_is_a_refused_line() -> None:
    (line,) = wb.run(bad_row(rows=None))
    assert line.path is None
    assert line.refused == "the route depends on rows, which the capture does not say; give it (--rows)"


def test_inspection_judges_the_reached_path_else_every_path() -> None:
    known = wb.inspect(bad_row())
    assert known.judged == "reached"
    assert [result.line.path for result in known.results] == ["vllm.histogram_256"]
    assert known.finding
    unknown = wb.inspect(bad_row(device=None))
    assert unknown.judged == "possible"
    assert unknown.judged_because == "every path that vllm.persistent_topk could take, since device not known"
    assert unknown.finding
    assert [result.line.path for result in unknown.results] == ["vllm.histogram_256"]  # on every device
    nothing = wb.inspect(bad_row(op=None))
    assert nothing.judged == "served"
    assert nothing.judged_because == "every path of vllm, sglang and flashinfer, since op not known"
    assert {result.line.path.split(".")[0] for result in nothing.results} == {"vllm", "sglang", "flashinfer"}
    assert {"torch.topk", "tilelang.topk_selector"} <= {risk.path for risk in nothing.census}  # baselines beside them
    assert nothing.worst.line.path == "vllm.cooperative_16"  # the first blocks alone fill it
    assert not wb.inspect(bad_row(), release="vllm==0.33.0").finding
    assert not wb.inspect(bad_row(population=4096)).finding


def test_a_release_that_a_capture_names_need_not_be_known() -> None:
    found = wb.inspect(bad_row(release="vllm==0.20.1.dev408"))
    assert found.route is None
    assert found.judged == "possible"
    assert "vllm==0.20.1.dev408 was not observed" in found.judged_because
    with pytest.raises(wb.UsageError, match="was not observed"):
        wb.inspect(bad_row(), release="vllm==0.20.1.dev408")


def test_the_worst_result_is_one_that_ran() -> None:
    zeros = torch.zeros(8320)
    zeros[:100] = torch.linspace(1, 2, 100)
    found = wb.inspect(wb.Row(zeros, 8320, call=wb.Call(k=2048)))
    assert (found.worst.line.refused, found.worst.line.path) == (None, "vllm.histogram_4096")
    assert "but whatever is dropped has an equal that stays" in finding(found)


def test_only_paths_that_the_known_device_and_op_can_take_are_judged() -> None:
    call = wb.Call(k=512, rows=40, width=20000, stride=20000, max_seq_len=20000, op="vllm.persistent_topk")
    scores = bad_row().scores

    def judged(**known: object) -> list[str | None]:
        found = wb.inspect(wb.Row(scores, 20000, call=replace(call, **known)))
        return [result.line.path for result in found.results]

    # More than 32 rows need 128 KiB of shared memory for the other kernel, and its short path is of 0.24.0.
    assert judged(device="v100") == ["vllm.histogram_256"]
    assert judged(device="h200") == ["vllm.histogram_4096", "vllm.filtered"]
    assert judged(device="h200", release="vllm==0.23.0") == ["vllm.filtered"]
    assert judged(rows=None, device="h200", release="vllm==0.26.0") == [
        "vllm.trivial",
        "vllm.histogram_2048",
        "vllm.histogram_256",
        "vllm.histogram_4096",
        "vllm.filtered",
        "vllm.radix",
        "vllm.sampled",
    ]


def recorded(row: wb.Row, indices: torch.Tensor, **known: object) -> wb.Inspection:
    return wb.inspect(replace(row, indices=indices.to(torch.int32), call=replace(row.call, **known)))


def test_what_production_returned_is_spoken_of_first() -> None:
    row = bad_row()
    exact = wb.reference(row).indices
    found = recorded(row, exact)
    assert finding(found).startswith(
        "The recorded selection (path vllm.histogram_256) returned exactly the reference's 2048 winners. "
        "vllm.histogram_256 (stock) is at risk: 5000 scores share the threshold bin 188 and the buffer takes 4096, so "
        "904 are dropped, the last to arrive; a random order loses 370 on average, any order 0 to 904."
    )
    assert found.finding  # the risk stands
    wrong = torch.cat([exact[:-1], torch.argmin(row.scores).view(1)])
    lossy = finding(recorded(row, wrong))
    assert "lost 1 winner of 2048: 5000 scores share the threshold bin 188 and the buffer takes 4096" in lossy


def test_a_recording_that_contradicts_its_path_is_said_to() -> None:
    row = bad_row(4096)
    exact = wb.reference(row).indices
    wrong = torch.cat([exact[:-1], torch.argmin(row.scores).view(1)])
    assert finding(recorded(row, wrong)) == (
        "The recorded selection (path vllm.histogram_256) lost 1 winner of 2048. No arrival order of "
        "vllm.histogram_256 (stock) does that: the selection is not of this path, or not of these scores."
    )
    assert finding(recorded(row, exact)).endswith(" No arrival order of vllm.histogram_256 (stock) loses a value.")
    # The release without loss is not explained by the buffer of the others.
    repaired = finding(recorded(bad_row(), wb.reference(bad_row()).indices, release="vllm==0.33.0"))
    assert repaired.endswith("2048 winners. No arrival order of vllm.histogram_256 (v0.33.0) loses a value.")


def test_ties_claim_no_more_than_that_no_value_is_lost() -> None:
    scores = torch.randn(20000, generator=torch.Generator().manual_seed(0))
    scores[:600] = scores.max() + 1
    call = wb.Call(k=512, rows=1, width=20000, stride=20000, max_seq_len=20000, **PLACE)
    for order, start in (("index", "returned exactly the reference's 512 winners"), ("reverse", "lost no value")):
        text = finding(wb.inspect(wb.Row(scores, 20000, call=call), arrival=order))
        assert start in text
        assert text.endswith("and no arrival order loses a value.")


def test_reached_is_the_release_s_own_variant() -> None:
    report = wb.run(bad_row(release="vllm==0.33.0"), paths="vllm.histogram_256", variants="*")
    reached = {line.variant: line.reached for line in report}
    assert {variant for variant, here in reached.items() if here} == {"v0.33.0"}
    assert {"stock", "detect_rescan", "wide_rescan", "deterministic"} < set(reached)
    taken = {risk.path: risk for risk in wb.inspect(bad_row(release="vllm==0.33.0")).census}
    assert (taken["vllm.histogram_256"].variant, taken["vllm.histogram_256"].level) == ("v0.33.0", "safe")
    assert taken["sglang.fast_topk"].level == "at risk"


def test_rows_that_no_path_runs_share_their_reason() -> None:
    row = bad_row(op=None)
    half = wb.inspect(replace(row, scores=row.scores.to(torch.bfloat16)), paths="vllm.histogram_*")
    assert finding(half) == "None of the 3 paths was run: scores are bfloat16."
    odd = wb.inspect(replace(row, call=replace(row.call, k=100)), paths="vllm.histogram_*")
    assert finding(odd) == "None of the 3 paths was run: k is 100."


def test_a_lost_nan_has_its_reason() -> None:
    scores = torch.linspace(0, 1, 40000)
    scores[3] = -float("nan")
    text = finding(wb.inspect(wb.Row(scores, 40000, call=wb.Call(k=512)), paths="vllm.radix"))
    assert "lost 1 winner of 512 in every arrival order: NaN with its sign set ranks below -inf on this path" in text


@pytest.mark.parametrize("seed", [-1, 2**63, 2**70])
def test_a_seed_must_be_one(seed: int) -> None:
    with pytest.raises(wb.UsageError, match="is no integer from 0 to"):
        wb.run(bad_row(), seed=seed)


def test_a_given_release_must_fit_the_op_of_the_capture() -> None:
    with pytest.raises(wb.UsageError, match="the op belongs to vllm"):
        wb.inspect(bad_row(), release="sglang-kernel==0.4.6")
    with pytest.raises(wb.UsageError, match="unknown op ''"):
        wb.inspect(bad_row(), op="")


def test_a_report_says_what_a_repair_would_have_cost() -> None:
    report = wb.run(bad_row(), paths="vllm.histogram_256", variants="*")
    cost = {line.variant: (line.verdict, line.row_passes, line.staged, line.fallback) for line in report}
    assert cost == {
        "stock": ("lossy", 2, 4096, ""),
        "detect_rescan": ("exact", 7, 0, "exact rescan of the row"),
        "wide_rescan": ("exact", 3, 1024, "wide rescan of the row"),  # 1024 share the cut-off's first 22 bits
        "deterministic": ("exact", 5, 0, ""),
        "v0.33.0": (None, None, None, None),
    }
    (stock,) = wb.run(bad_row())
    assert stock.bytes_read > 2 * 4 * 20000  # two passes, and the candidates again


def test_an_empty_row_has_nothing_to_select() -> None:
    found = wb.inspect(wb.Row(torch.zeros(4096), 0, call=wb.Call(k=512)), paths="vllm.trivial")
    assert finding(found) == "The model of vllm.trivial (stock) had nothing to select: the row is empty."


def test_ties_are_no_finding() -> None:
    row = bad_row(device=None)
    tied = wb.Row(torch.zeros(20000), 20000, call=row.call)
    found = wb.inspect(tied)
    assert {result.line.verdict for result in found.results if result.line.refused is None} >= {"ties"}
    assert not found.finding


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            bad_row(),
            r"^The model of vllm.histogram_256 \(stock\) lost \d+ winners of 2048 in one arrival order \(a random "
            r"one loses \d+ on average, any one 0 to 904\): 5000 scores share the threshold bin 188",
        ),
        (
            bad_row(4096),
            "vllm.histogram_256 .stock. returned exactly the reference's 2048 winners, and no arrival order loses",
        ),
        (bad_row(4097), "so 1 is dropped, the last to arrive"),
        (bad_row(k=100), "vllm.persistent_topk was not judged: the op takes k 512, 1024 or 2048 only, not k 100."),
    ],
)
def test_the_sentence(row: wb.Row, expected: str) -> None:
    assert re.search(expected, finding(wb.inspect(row)))


def test_the_sentence_of_a_lucky_arrival_order() -> None:
    row = bad_row(4097)
    lucky = next(found for seed in range(20) if not (found := wb.inspect(row, seed=seed)).worst.line.missing)
    assert "lost nothing" not in finding(lucky)
    assert "in this arrival order, but the path is at risk" in finding(lucky)
    assert "a random order loses 0.5 on average" in finding(lucky)
