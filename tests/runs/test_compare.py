"""One row on many paths: each cell is what a run, an inspection or a matrix says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import workbench as wb
from tests.runs.test_matrix import crowded
from tests.runs.test_matrix import small as small_row
from workbench.errors import CaptureError, UsageError
from workbench.paths.catalog import PATHS
from workbench.paths.ops import OPS
from workbench.runs.called import Called
from workbench.runs.case import Case
from workbench.runs.compare import (
    NOT_CALLED,
    UNROUTED,
    Compared,
    by_engines,
    by_releases,
    by_variants,
    cells_to_run,
    run_cell,
)
from workbench.runs.compare_words import compared_sentence, spot_sentence
from workbench.runs.matrix import Cell

PAIRS = [(path.name, variant.name) for path in PATHS for variant in path.variants]
RELEASED = {"release": "vllm==0.26.0"}


def bad(**call: object) -> wb.Row:
    """A row of 20,000 scores, of which vllm.histogram_4096 loses many and other paths none."""
    row = crowded(rows=33)
    return replace(row, call=replace(row.call, **RELEASED, **call))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def case() -> Case:
    return Case(bad())


@pytest.fixture(scope="module")
def ran(case: Case) -> dict[tuple[str, str], Cell]:
    """What three calls of every model that can be called make of the row."""
    todo = cells_to_run(by_variants(case, {}), {})
    return {(str(cell.path), str(cell.variant)): run_cell(case, cell, 3) for cell in todo}


def test_every_variant_of_every_path_is_a_cell_with_its_risk(case: Case) -> None:
    found = by_variants(case, {})
    assert set(found.cells) == set(PAIRS)
    assert found.columns[0] == "stock"
    assert set(found.columns) == {variant for _, variant in PAIRS}
    assert (found.lines[0], found.reached, found.of) == ("vllm.histogram_4096", "vllm.histogram_4096", 2048)
    report = wb.run(case.row, paths="*", variants="*").to_pandas()
    for line in report.itertuples():
        cell = found.cells[line.path, line.variant]
        risk = case.risk(wb.paths(line.path)[0], wb.paths(line.path)[0].variant(line.variant))
        claimed = (None, None, None) if risk.observed else (risk.level, risk.p_clean, risk.expected_missing)
        assert (cell.risk, cell.p_clean, cell.expected_missing) == claimed
        assert cell.unknown == (f"not modelled: {risk.note}" if risk.observed else "")
        assert cell.refused == "; ".join(risk.refused)
        assert (cell.state == "refused") == bool(risk.refused), (line.path, line.variant)
        assert cell.loses == (risk.level in ("at risk", "certain") or bool(risk.finding))
        assert not cell.calls


def test_models_called_are_those_of_a_run(case: Case, ran: dict[tuple[str, str], Cell]) -> None:
    report = wb.run(case.row, paths="*", variants="*", repeats=3).to_pandas()
    told = report[report["verdict"].notna()].groupby(["path", "variant"])
    assert set(told.groups) == set(ran)
    worst = ["exact", "ties", "lossy", "invalid"]
    for key, lines in told:
        cell = ran[key]
        assert (cell.calls, cell.verdict) == (3, max(lines["verdict"], key=worst.index)), key
        assert cell.missing_mean == pytest.approx(lines["missing"].mean())
        assert cell.lost_calls == lines["verdict"].isin(["lossy", "invalid"]).sum()
    found = by_variants(case, ran)
    assert found.cells["vllm.histogram_4096", "stock"].state == "loses"
    assert found.cells["vllm.histogram_4096", "recovery"].state == "clean"
    assert found.cells["vllm.histogram_4096", "recovery"].verdict in ("exact", "ties")
    assert cells_to_run(found, ran) == []


def test_releases_are_those_of_a_matrix(case: Case, ran: dict[tuple[str, str], Cell]) -> None:
    found = by_releases(case, ran)
    assert (found.lines[0], found.reached) == ("vllm.persistent_topk", "vllm.persistent_topk")
    assert set(found.lines) == {op.name for op in OPS}
    for name in ("vllm.persistent_topk", "vllm.cooperative_topk", "sglang.topk_transform_paged_v2"):
        op = next(op for op in OPS if op.name == name)
        assert tuple(found.at(name)) == op.releases
        matrix = wb.matrix(case.row, list(op.releases), op=name, repeats=3)
        for cell, judged in zip(found.at(name).values(), matrix.cells[0], strict=True):
            # of a variant that no model runs the matrix notes as well that it was not called
            assert judged.notes[: len(cell.notes)] == cell.notes
            assert cell == (judged if cell.calls else replace(judged, notes=cell.notes))


def test_engines_stand_beside_the_model_on_the_path_that_is_reached() -> None:
    row = bad()
    best = torch.topk(row.scores, 2048).indices.to(torch.int32)
    worst = torch.topk(row.scores, 5, largest=False).indices.to(torch.int32)
    row = replace(row, indices=torch.cat([worst, best[5:]]))
    seen = wb.inspect(row)
    reached = "vllm.histogram_4096"
    recorded = seen.recorded
    assert recorded is not None
    called = Called(recorded, 4, 3, 0, 9, "values vary")
    engines = ["model", "recorded", "cuda", "vendor"]
    answers: dict[tuple[str, str], Called | str] = {
        (reached, "cuda"): called,
        ("vllm.filtered", "cuda"): "no kernel; no device",
        (reached, "vendor"): "",
    }
    found = by_engines(seen, {}, answers, engines)
    assert [(found.cells[path.name, "model"].variant) for path in PATHS] == ["stock"] * len(PATHS)
    cell = found.cells[reached, "recorded"]
    assert (cell.state, cell.verdict, cell.calls, cell.missing_mean) == ("loses", "lossy", 1, 5.0)
    cell = found.cells[reached, "cuda"]
    assert (cell.engine, cell.state, cell.calls, cell.lost_calls) == ("cuda", "loses", 4, 3)
    assert (cell.missing_least, cell.missing_most, cell.missing_mean) == (0, 9, None)
    cell = found.cells["vllm.filtered", "cuda"]
    assert (cell.state, cell.refused) == ("refused", "no kernel; no device")
    cell = found.cells[reached, "vendor"]
    assert (cell.state, cell.unknown) == ("unknown", NOT_CALLED)
    said = compared_sentence(found)
    assert "What production returned lost winners in 1 of 1 call: 5 of 2048 missing." in said
    assert "The vendor engine was not called yet." in said
    assert spot_sentence(found, (reached, "cuda")).startswith("The cuda engine on vllm.histogram_4096 (stock) lost")
    unrouted = wb.inspect(replace(row, call=wb.Call(k=2048)))
    found = by_engines(unrouted, {}, {}, ["model", "recorded"])
    assert found.cells[UNROUTED, "recorded"].verdict == "lossy"
    assert (found.lines[-1], found.reached) == (UNROUTED, None)


def test_lines_and_columns_that_are_not_asked_for_are_left_out(case: Case) -> None:
    whole = by_variants(case, {})
    sglang = whole.only("sglang")
    assert {line.split(".")[0] for line in sglang.lines} == {"sglang"}
    assert "recovery" not in sglang.columns
    assert set(sglang.cells) == {pair for pair in PAIRS if pair[0].startswith("sglang.")}
    assert set(whole.only("baselines").lines) == {"torch.topk", "tilelang.topk_selector"}
    losing = whole.only(losing=True)
    assert "vllm.histogram_4096" in losing.lines
    assert "torch.topk" not in losing.lines
    assert all(any(cell.loses for cell in losing.at(line).values()) for line in losing.lines)
    assert losing.cells["vllm.histogram_4096", "recovery"].state == "clean"  # what would have helped stays
    assert whole.only("baselines", losing=True).lines in ((), ("tilelang.topk_selector",))


def sentence(found: Compared, system: str) -> str:
    return compared_sentence(found.only(system), f"{system} paths")


def test_sentences(case: Case, ran: dict[tuple[str, str], Cell]) -> None:
    whole = by_variants(case, {})
    taken = [cell for (_, name), cell in whole.cells.items() if name == "stock" and not cell.why]
    judged = [cell for cell in taken if cell.path not in ("torch.topk", "tilelang.topk_selector")]
    losing = [cell for cell in judged if cell.loses]
    said = compared_sentence(whole)
    assert case.route is not None
    assert said.startswith(  # one path alone is judged where it is known
        f"The op sends the row to {case.route.path}. As stock, {len(losing)} of the {len(judged)} modelled paths that "
        "take this row "
    )
    unknown = compared_sentence(by_variants(Case(case.row.with_call(device=None)), {}))
    assert unknown.startswith(f"As stock, {len(losing)} of the {len(judged)} judged paths that take this row ")
    assert said.endswith(
        " Of 2 baselines beside them, tilelang.topk_selector faults. flashinfer.ragged takes it and is not modelled."
    )
    assert "vllm.histogram_4096" in said
    called = sum(name == "stock" for _, name in ran)
    assert f", 3 calls each by {called} models: " in compared_sentence(by_variants(case, ran))
    said = compared_sentence(by_releases(case, {}))
    assert said.startswith("Through vllm.persistent_topk the row loses nothing in vllm==0.20.2 to 0.23.0, can lose ")
    assert "other ops that take it" in said
    assert compared_sentence(by_engines(wb.inspect(case.row), {}, {}, ["model"])).endswith(".")
    fine = by_variants(Case(small_row()), {})
    assert sentence(fine, "flashinfer").startswith("As stock, none of the ")
    refused = by_variants(Case(replace(small_row(), scores=torch.zeros(64, dtype=torch.float16))), {})
    assert sentence(refused, "vllm") == "None of the 12 vllm paths takes this row as stock; each says why."
    unknown = by_releases(Case(wb.Row(torch.randn(64), 64, call=wb.Call(k=8))), {})
    assert compared_sentence(unknown) == f"None of the {len(OPS)} ops was judged: device not known."
    assert compared_sentence(fine.only("vllm").only("sglang"), "sglang paths") == (
        "There is nothing to show of the sglang paths."
    )


def test_the_public_function_gives_the_same() -> None:
    row = bad()
    found = wb.compare(row)
    assert isinstance(found, wb.Compared)
    assert found.loses
    frame = found.to_pandas()
    assert len(frame) == len(found.cells) == len(PAIRS)
    for line in frame.itertuples():
        cell = found.cells[line.path, line.variant]
        assert (line.state, line.why) == (cell.state, cell.why or "; ".join(cell.notes))
        if cell.p_clean is not None:
            assert line.p_clean == cell.p_clean
    assert frame["calls"].dtype == "Int64"
    assert (frame["calls"] == 0).all()
    told: list[tuple[int, int]] = []
    call = wb.Call(k=512, rows=1, width=700, stride=700, max_seq_len=700, op="vllm.persistent_topk", device="h200")
    small = wb.Row(torch.randn(700, generator=torch.Generator().manual_seed(0)), 700, call=call)
    released = wb.compare(small, "releases", 2, progress=lambda done, of: told.append((done, of)))
    assert told == [(at + 1, len(told)) for at in range(len(told))]
    assert told
    assert not released.loses
    cells = released.at("vllm.persistent_topk")
    assert [cell.calls for cell in cells.values()] == [2] * 12 + [0]  # no model runs the newest release
    other = wb.compare(row, "releases", op="sglang.topk_transform_paged_v2", device="b200")
    assert other.lines[0] == "sglang.topk_transform_paged_v2"


def test_what_cannot_be_compared_is_an_error() -> None:
    for problem, more in {
        "unknown way 'engines' to compare; known: variants and releases": {"by": "engines"},
        "calls is -1; it must not be negative": {"calls": -1},
        "unknown op": {"op": "no.op"},
    }.items():
        with pytest.raises(UsageError, match=problem):
            wb.compare(bad(), **more)  # type: ignore[arg-type]
    with pytest.raises(CaptureError, match="does not say k"):
        wb.compare(wb.Row(torch.randn(64), 64))
