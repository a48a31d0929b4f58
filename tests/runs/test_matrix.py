"""The matrix row × release, by the models and by engines that stand for released ops."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import workbench as wb
from tests.fakes import Releases, clean, faults, loses, refuses
from tests.warps import routed_warp
from workbench.errors import CaptureError, UsageError
from workbench.runs.judges import merged
from workbench.runs.matrix_words import (
    cell_sentence,
    cell_text,
    clean_notes,
    matrix_sentence,
    reasons,
    row_sentence,
)
from workbench.runs.releases import installed
from workbench.vendor.release import parse_wheel

CAPTURES = Path(__file__).parents[2] / "captures"
VLLM = "vllm==0.20.2..0.33.0"
CALL = wb.Call(k=8, rows=1, width=64, stride=64, max_seq_len=64, op="vllm.persistent_topk", device="h200")


def small(seed: int = 0, index: int = 0, **call: object) -> wb.Row:
    """A row that no path loses anything of."""
    scores = torch.randperm(64, generator=torch.Generator().manual_seed(seed)).float()
    return wb.Row(scores, 64, call=replace(CALL, **call), index=index, capture="test")  # type: ignore[arg-type]


def crowded(population: int = 5000, length: int = 20000, rows: int = 1, index: int = 0) -> wb.Row:
    """``population`` distinct neighbours of 1.0 in one bin, over a low floor."""
    scores = torch.full((length,), -3.0)
    near = (torch.arange(1, population + 1, dtype=torch.int32) + 0x3F800000).view(torch.float32)
    scores[torch.randperm(length, generator=torch.Generator().manual_seed(index))[:population]] = near
    call = replace(CALL, k=2048, rows=rows, width=length, stride=length, max_seq_len=length)
    return wb.Row(scores, length, call=call, index=index, capture="test")


def states(found: wb.Matrix, row: int = 0) -> list[str]:
    return [cell.state for cell in found.cells[row]]


# The models


def test_every_release_that_routing_knows_is_a_cell_with_its_route_and_risk() -> None:
    found = wb.matrix(crowded(rows=33), VLLM)
    assert found.releases == tuple(f"vllm=={version}" for version in wb_releases())
    paths = [cell.path for cell in found.cells[0]]
    assert paths[:3] == ["vllm.filtered"] * 3
    assert set(paths[3:]) == {"vllm.histogram_4096"}
    assert states(found) == ["clean"] * 3 + ["loses"] * 9 + ["clean"]
    cell = found.cells[0][5]
    assert (cell.calls, cell.verdict, cell.repeatability, cell.risk) == (10, "lossy", "values vary", "at risk")
    assert cell.lost_calls == 10
    assert cell.missing_least is not None
    assert cell.missing_most is not None
    assert cell.missing_mean is not None
    assert 1100 < cell.missing_least < cell.missing_mean < cell.missing_most < 1300
    assert found.loses
    assert row_sentence(found, 0) == (
        "Row 0 loses nothing in vllm==0.20.2 to 0.23.0, loses winners in 0.24.0 to 0.32.0, and loses nothing in "
        "0.33.0, 10 calls each by the model."
    )


def wb_releases() -> tuple[str, ...]:
    from workbench.paths.releases import OBSERVED

    return OBSERVED["vllm"]


def test_the_cells_are_those_of_run_on_each_release() -> None:
    row = crowded(rows=33)
    found = wb.matrix(row, "vllm==0.23.0..0.24.0", repeats=3, seed=4)
    for cell in found.cells[0]:
        lines = wb.run(row, release=cell.release, repeats=3, seed=4).lines
        missing = [line.missing for line in lines if line.missing is not None]
        assert (cell.missing_least, cell.missing_most) == (min(missing), max(missing))
        assert (cell.path, cell.risk, cell.p_clean) == (lines[0].path, lines[0].risk, lines[0].p_clean)


def test_a_release_without_a_model_is_clean_as_observed_and_says_so() -> None:
    (cell,) = wb.matrix(crowded(), "vllm==0.33.0").cells[0]
    assert (cell.state, cell.verdict, cell.calls, cell.risk) == ("clean", None, 0, "safe")
    assert "vllm.histogram_256 v0.33.0 has no model" in cell.notes
    assert cell_text(cell) == "safe"
    assert "by the analysis: it was not called" in cell_sentence(cell, 2048)


def test_a_release_without_the_op_is_a_cell_with_its_reason() -> None:
    found = wb.matrix(crowded(), "vllm==0.22.1..0.24.0", op="vllm.cooperative_topk")
    assert states(found)[:2] == ["refused", "refused"]
    assert found.cells[0][0].refused == "vllm==0.22.1 has no cooperative_topk"
    assert reasons(found)[0] == (
        "refused",
        ["vllm==0.22.1", "vllm==0.23.0"],
        [0],
        "the release has no cooperative_topk",
    )
    assert "It is refused by vllm==0.22.1 to 0.23.0: the release has no cooperative_topk." in matrix_sentence(found)


def test_what_is_not_known_is_said_and_not_called_clean() -> None:
    row = replace(crowded(), call=replace(crowded().call, rows=None, device=None))
    found = wb.matrix(row, "vllm==0.26.0")
    assert (found.cells[0][0].state, found.cells[0][0].unknown) == ("unknown", "device not known")
    found = wb.matrix(row, "vllm==0.26.0", device="h200")
    assert "the route depends on rows" in found.cells[0][0].unknown
    assert not found.judged
    assert not found.loses
    nobody = replace(row, call=wb.Call(k=2048))
    assert "the op is not known; give it" in wb.matrix(nobody, "vllm==0.26.0").cells[0][0].unknown


def test_rows_of_several_ops_and_packages_stand_in_one_matrix() -> None:
    rows = [crowded(), replace(crowded(index=1), call=replace(crowded().call, op="sglang.fast_topk_v2"))]
    found = wb.matrix(rows, ["sglang-kernel==0.4.2..0.4.6", "vllm==0.32.0..0.33.0"])
    assert found.releases == (
        "sglang-kernel==0.4.2",
        "sglang-kernel==0.4.4",
        "sglang-kernel==0.4.6",
        "vllm==0.32.0",
        "vllm==0.33.0",
    )
    assert states(found, 0) == ["refused"] * 3 + ["loses", "clean"]
    assert states(found, 1)[3:] == ["refused"] * 2
    assert {cell.op for cell in found.cells[1][:3]} == {"sglang.fast_topk_v2"}
    both = wb.matrix(rows[0], found.releases, op=["vllm.persistent_topk", "sglang.fast_topk_v2"])
    assert "refused" not in states(both)
    assert both.cells[0][0].op == "sglang.fast_topk_v2"


def test_releases_by_default_are_all_of_the_op() -> None:
    assert wb.matrix(crowded(), repeats=1).releases == tuple(f"vllm=={version}" for version in wb_releases())
    found = wb.matrix(replace(small(), call=replace(CALL, op="flashinfer.top_k_ragged_transform")), repeats=1)
    assert found.releases == ("flashinfer==fb28d724",)


def test_an_end_that_routing_does_not_know_is_said() -> None:
    found = wb.matrix(small(), "vllm==0.21.0..0.23.0", repeats=1)
    assert found.releases == ("vllm==0.22.1", "vllm==0.23.0")
    assert found.notes == ("vllm==0.21.0 was not observed; of vllm==0.21.0..0.23.0 routing knows 0.22.1, 0.23.0",)


def test_a_version_may_be_spelled_in_any_way() -> None:
    found = wb.matrix(small(), "vllm==0.26,vllm==0.32..0.33", repeats=1)
    assert (found.releases, found.notes) == (("vllm==0.26.0", "vllm==0.32.0", "vllm==0.33.0"), ())
    assert wb.matrix(small(), "vllm==0.21..0.23.0", repeats=1).notes[0].startswith("vllm==0.21 was not observed; ")


@pytest.mark.parametrize(
    ("releases", "said"),
    [
        ("vllm==0.33.0..0.20.2", "runs backwards"),
        ("vllm", "'vllm' is no release"),
        ("vllm==0.34.0..0.35.0", "no release of vllm==0.34.0..0.35.0 was observed"),
        ("vlm==0.26.0", "unknown package 'vlm'"),
        ([], "no release is given"),
        ("vllm==0.26.0,,", "'' is no release"),
    ],
)
def test_bad_ranges_are_answered_in_a_line(releases: str | list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        wb.matrix(small(), releases)


@pytest.mark.parametrize(
    "releases", ["vllm==" + "9" * 5000, "vllm==0.26.0.." + "1." * 50_000 + "1", "v" * 5000 + "==1"]
)
def test_a_long_release_is_none_and_is_cut(releases: str) -> None:
    with pytest.raises(UsageError, match="is no release; write it as in") as caught:
        wb.matrix(small(), releases)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("engine", [None, 3, ["model"]])
def test_what_is_no_engine_is_refused(engine: object) -> None:
    with pytest.raises(UsageError, match=r"engine is .*; it must be text or a function"):
        wb.matrix(small(), "vllm==0.26.0", engine=engine)  # type: ignore[arg-type]


def test_bad_names_are_answered_in_a_line() -> None:
    for keywords, said in (
        ({"op": "vllm.no_such"}, "unknown op"),
        ({"op": ["vllm.persistent_topk", "vllm.cooperative_topk"]}, "both ops of vllm"),
        ({"engine": "recorded"}, "by the engine model or vendor, not by 'recorded'"),
        ({"repeats": 0}, "at least 1"),
        ({"arrival": "warp"}, "unknown arrival order"),
        ({"device": "h2000"}, "unknown device"),
    ):
        with pytest.raises(UsageError, match=said):
            wb.matrix(small(), "vllm==0.26.0", **keywords)  # type: ignore[arg-type]
    with pytest.raises(CaptureError, match="does not say k"):
        wb.matrix(replace(small(), call=replace(CALL, k=None)), "vllm==0.26.0")
    with pytest.raises(UsageError, match="neither the releases nor the op"):
        wb.matrix(replace(small(), call=wb.Call(k=8)))


def test_a_capture_is_read_row_by_row_and_progress_is_told() -> None:
    seen: list[tuple[int, int]] = []
    with wb.open(CAPTURES / "public-vllm-b300.safetensors") as capture:
        found = wb.matrix(
            capture, "vllm==0.23.0..0.24.0", device="h200", repeats=2, progress=lambda *at: seen.append(at)
        )
    assert seen == [(at, 8) for at in range(1, 9)]
    assert [row.row for row in found.rows] == [0, 1, 2, 3]
    assert found.worst_first[0] == 3
    assert matrix_sentence(found) == (
        "3 of 4 rows lose or can lose winners in some release from vllm==0.23.0 to 0.24.0, 2 calls each by the model; "
        "the worst is row 3. None does in 0.24.0."
    )


def test_lines_of_pandas() -> None:
    frame = wb.matrix([crowded(), crowded(index=1)], "vllm==0.32.0..0.33.0").to_pandas()
    assert len(frame) == 4
    assert frame["missing_most"].dtype == "Int64"
    assert frame["missing_most"].isna().tolist() == [False, True, False, True]
    assert frame["state"].tolist() == ["loses", "clean"] * 2
    assert frame["release"].tolist() == ["vllm==0.32.0", "vllm==0.33.0"] * 2


# Engines that stand for released ops

LOSSY_TO_2 = {"0.1": loses(3), "0.2": loses(2, every=2), "0.3": clean, "0.4": clean}


def test_an_engine_of_each_release_judges_all_rows_and_one_is_open_at_a_time() -> None:
    fake = Releases(LOSSY_TO_2)
    rows = [small(seed, index=seed) for seed in range(3)]
    found = wb.matrix(rows, fake.names, engine=fake)
    assert fake.ran == [version for version in LOSSY_TO_2 for _ in rows]
    assert (fake.most_open, fake.open.total()) == (1, 0)
    assert states(found, 2) == ["loses", "loses", "clean", "clean"]
    first, second, third, _ = found.cells[1]
    assert (first.verdict, first.lost_calls, first.missing_mean, first.repeatability) == ("lossy", 10, 3.0, "same")
    assert (second.lost_calls, second.missing_least, second.missing_most, second.missing_mean) == (5, 0, 2, 1.0)
    assert second.repeatability == "values vary"
    assert (third.verdict, third.missing_mean) == ("exact", 0.0)
    assert found.about["gpu"] == "fake"
    assert row_sentence(found, 1) == (
        "Row 1 loses winners in every release from vllm==0.1 to 0.2 and in none from 0.3 on, 10 calls each."
    )
    assert cell_text(second) == "lossy, 1"
    assert cell_sentence(second, 8).startswith(
        "vllm==0.2 lost winners in 5 of 10 calls (values vary): 0 to 2 of 8 missing."
    )


def test_a_call_that_is_all_there_is_given_to_the_op_as_one_call() -> None:
    fake = Releases({"0.1": loses(1)})
    rows = [small(seed, index=seed, rows=3) for seed in range(3)]
    found = wb.matrix(rows, fake.names, engine=fake)
    assert fake.batches == [(0, 1, 2)]
    assert [cells[0].state for cells in found.cells] == ["loses"] * 3


def test_faults_refusals_and_releases_that_are_not_there_are_cells_with_their_reasons() -> None:
    fake = Releases({"0.1": faults("it hung for 20 s"), "0.2": refuses("k 8 is not taken", "no GPU"), "0.4": loses(1)})
    found = wb.matrix([small(), small(1, index=1)], [*fake.names, "vllm==0.3"], engine=fake)
    assert found.releases == ("vllm==0.1", "vllm==0.2", "vllm==0.3", "vllm==0.4")
    assert states(found) == ["fault", "refused", "refused", "loses"]
    hung, refused, absent, _ = found.cells[0]
    assert hung.fault == "it hung for 20 s"
    assert refused.refused == "k 8 is not taken; no GPU"
    assert "workbench vendor add vllm==0.3" in absent.refused
    assert hung.loses
    assert not refused.loses
    assert [one[0] for one in reasons(found)] == ["fault", "refused", "refused"]
    text = row_sentence(found, 0)
    assert "It faults in vllm==0.1: it hung for 20 s." in text
    assert "It is refused by vllm==0.2: k 8 is not taken; no GPU." in text


def test_clean_calls_do_not_clear_a_row_that_often_passes() -> None:
    with wb.open(CAPTURES / "public-vllm-b300.safetensors") as capture:
        row = capture[1]  # at risk with p_clean 0.875 in vllm.filtered
    fake = Releases({"0.23.0": clean, "0.24.0": clean})
    found = wb.matrix(row, fake.names, engine=fake, device="h200")
    assert states(found) == ["can lose", "clean"]
    told = cell_sentence(found.cells[0][0], 2048)
    assert "a row with p_clean 0.8750 passes 10 calls with probability 0.263" in told
    many = wb.matrix(row, fake.names, engine=fake, device="h200", repeats=50)
    assert states(many) == ["clean", "clean"]
    assert "what was seen contradicts the analysis" in cell_sentence(many.cells[0][0], 2048)


def test_where_scores_follow_their_position_no_number_of_calls_clears_a_row() -> None:
    with wb.open(CAPTURES / "public-vllm-v100.safetensors") as capture:
        row = capture[0]
    fake = Releases({"0.32.0": clean})
    (cell,) = wb.matrix(row, fake.names, engine=fake).cells[0]
    assert cell.p_clean is not None
    assert cell.p_clean < 1e-20
    assert cell.state == "can lose"
    assert "scores follow their position" in cell_sentence(cell, 512)


def test_many_spans_are_listed_by_what_the_row_does() -> None:
    fake = Releases({f"0.{at}": loses(1) if at % 2 else clean for at in range(1, 9)})
    text = row_sentence(wb.matrix(small(), fake.names, engine=fake, repeats=1), 0)
    assert text == (
        "Row 0 loses winners in vllm 0.1, 0.3, 0.5 and 0.7 and loses nothing in 0.2, 0.4, 0.6 and 0.8, 1 call each."
    )


def test_nothing_that_loses_and_only_losses() -> None:
    for does, said in (
        (clean, "Row 0 loses nothing in any release from vllm==0.1 to 0.3, 10 calls each."),
        (loses(1), "Row 0 loses winners in every release from vllm==0.1 to 0.3, 10 calls each."),
    ):
        fake = Releases(dict.fromkeys(("0.1", "0.2", "0.3"), does))
        assert row_sentence(wb.matrix(small(), fake.names, engine=fake), 0) == said
    one = Releases({"0.1": loses(1)})
    assert (
        row_sentence(wb.matrix(small(), one.names, engine=one), 0) == "Row 0 loses winners in vllm==0.1, 10 calls each."
    )


# What can be run here


def test_vendor_ranges_need_both_ends_and_take_what_is_between(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Releases({"0.24.0": loses(1), "0.26.0": loses(1), "0.33.0": clean})
    here = [parse_wheel(name) for name in ("vllm==0.24.0", "vllm==0.26.0")]
    monkeypatch.setattr("workbench.runs.releases.stored", lambda package: here if package == "vllm" else [])
    monkeypatch.setattr(
        "workbench.runs.releases.installed",
        lambda package: [parse_wheel("vllm==0.33.0")] if package == "vllm" else [],
    )
    monkeypatch.setattr("workbench.runs.judges.vendor_engine", fake)
    found = wb.matrix(small(), "vllm==0.24.0..0.33.0", engine="vendor")
    assert found.releases == ("vllm==0.24.0", "vllm==0.26.0", "vllm==0.33.0")
    assert {cell.engine for cell in found.cells[0]} == {"vendor"}
    assert wb.matrix(small(), engine="vendor", repeats=1).releases == found.releases
    with pytest.raises(UsageError, match=r"vllm==0.34.0 is neither added nor installed; add with: workbench vendor"):
        wb.matrix(small(), "vllm==0.24.0..0.34.0", engine="vendor")
    with pytest.raises(UsageError, match=r"vllm==0.1 and vllm==0.2 are neither .*; here are vllm==0.24.0, "):
        wb.matrix(small(), "vllm==0.1..0.2", engine="vendor")
    with pytest.raises(UsageError, match=r"no release of sglang-kernel is added or installed; add with: workbench"):
        wb.matrix(small(), op="sglang.fast_topk_v2", engine="vendor")


def test_what_is_built_where_it_is_installed_cannot_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    op, built = "sglang.topk_transform_paged_v2", "its ops are built where it is installed, one release an environment"
    monkeypatch.setattr("workbench.runs.releases.installed", lambda package: [])
    with pytest.raises(UsageError, match=rf"no release of sglang is installed .*: pip install sglang; {built}"):
        wb.matrix(small(), op=op, engine="vendor")
    with pytest.raises(UsageError, match=r"0.5.18 and sglang==0.5.23 are not .* pip install sglang==0.5.18 or pip "):
        wb.matrix(small(), "sglang==0.5.18..0.5.23", op=op, engine="vendor")
    monkeypatch.setattr("workbench.runs.releases.installed", lambda package: [parse_wheel("sglang==0.5.21")])
    monkeypatch.setattr("workbench.runs.judges.vendor_engine", Releases({"0.5.21": clean}))
    found = wb.matrix(small(), "sglang==0.5.18..0.5.23", op=op, engine="vendor", repeats=1)
    assert found.releases == ("sglang==0.5.21",)
    assert found.notes == (f"of sglang==0.5.18..0.5.23 only sglang==0.5.21 is installed here; {built}",)
    with pytest.raises(UsageError, match=r"sglang==0.5.23 is not installed .*; here is sglang==0.5.21"):
        wb.matrix(small(), "sglang==0.5.23", op=op, engine="vendor")


def test_what_is_installed_is_found_by_its_public_version(monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed("no-such-package-here") == []
    monkeypatch.setattr("workbench.engines.vendor.sources.metadata.version", lambda name: "0.26.0+cu129")
    assert list(map(str, installed("vllm"))) == ["vllm==0.26.0"]
    assert list(map(str, installed("flashinfer"))) == ["flashinfer==0.26.0"]  # whose distribution has another name


def test_what_ran_is_told_once_and_libraries_by_release() -> None:
    first = merged(
        {}, {"release": "vllm==0.26.0", "gpu": "a", "library": "/x/y/_C.so", "sha256": "ab" * 32}, "vllm==0.26.0"
    )
    assert first == {"gpu": "a", "vllm==0.26.0": "_C.so abababababab"}
    assert merged(first, {"gpu": "a", "torch": "2"}, "vllm==0.33.0") == first | {"torch": "2"}
    assert merged(first, {"gpu": "b"}, "vllm==0.33.0")["gpu"] == "a and b"


@pytest.mark.parametrize("timeout", [-1, 0, math.nan, math.inf])
def test_a_timeout_that_is_none_is_refused_whether_heeded_or_not(timeout: float) -> None:
    row = wb.Row(torch.randn(600), 600, call=wb.Call(k=8, op="vllm.persistent_topk", device="h200"))
    for work in (
        lambda: wb.matrix(row, "vllm==0.24.0..0.26.0", timeout=timeout),
        lambda: wb.bisect_release(row, "vllm==0.24.0..0.26.0", timeout=timeout),
        lambda: wb.run(row, paths="vllm.radix", timeout=timeout),
        lambda: wb.run(row, engine=lambda scores, lengths, k: scores.topk(k).indices, timeout=timeout),
        lambda: wb.bench(["torch.topk"], timeout=timeout),
    ):
        with pytest.raises(UsageError, match="a positive number of seconds is needed"):
            work()


# Scores that arrive warp by warp


def of_warps(calls: int) -> wb.Cell:
    """Calls that lose nothing of a row that does so once in six orders of scores, and nine times in ten of warps."""
    fake = Releases({"0.26.0": clean})
    (cell,) = wb.matrix(routed_warp(), fake.names, engine=fake, repeats=calls).cells[0]
    return cell


def test_calls_clear_a_row_of_warps_by_the_law_of_warps() -> None:
    cell = of_warps(10)
    assert (cell.path, cell.risk, cell.verdict, cell.lost_calls) == ("vllm.histogram_2048", "at risk", "exact", 0)
    assert cell.p_clean is not None
    assert cell.p_clean**10 < 1e-7  # by the law of scores one by one ten calls would have cleared it
    assert cell.p_pass == cell.clean_at_most
    assert cell.state == "can lose"
    assert cell_text(cell) == "at risk"
    assert (
        "an order that is random score by score loses 1.77 on average; a row with p_clean in warps of 32 at most "
        "0.9840 passes 10 calls with probability 0.851."
    ) in cell_sentence(cell)
    many = of_warps(300)
    assert many.state == "clean"
    assert "passes 300 calls with probability 0.00789: what was seen contradicts the analysis" in cell_sentence(many)


def test_without_the_bound_nothing_clears_a_row_of_warps() -> None:
    """As a matrix that was saved before there was one."""
    cell = replace(of_warps(300), clean_at_most=None)
    assert (cell.p_pass, cell.state) == (None, "can lose")
    said = (
        "how likely such calls lose nothing is not known: p_clean is of scores one by one; this path's arrive in warps"
    )
    assert said in cell_sentence(cell)


def test_a_cell_says_whose_law_its_chance_is() -> None:
    (cell,) = wb.matrix(routed_warp(), "vllm==0.26.0").cells[0]
    said = "chance and mean are of scores one by one; this path's arrive in warps of 32"
    bound = ", a random order of which loses nothing with a probability of at most 0.9840"
    assert clean_notes(cell) == [f"{said}{bound}"]
    assert clean_notes(replace(cell, clean_at_most=None)) == [said]
    assert clean_notes(replace(cell, order_correlation=-1.0))[0].startswith("in the threshold bin scores follow")
    (safe,) = wb.matrix(routed_warp(), "vllm==0.33.0").cells[0]
    (single,) = wb.matrix(crowded(), "vllm==0.26.0").cells[0]
    assert (safe.risk, single.risk) == ("safe", "at risk")
    assert clean_notes(safe) == clean_notes(single) == []
    assert single.clean_at_most is None
    assert single.p_pass == single.p_clean
