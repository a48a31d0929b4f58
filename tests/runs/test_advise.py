"""Remedies hold: what is called to keep every winner does, run by the models and as released ops were seen to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

import workbench as wb
from tests import truth
from workbench.analysis.altered import ALTERATIONS
from workbench.analysis.verdict import judge
from workbench.paths.catalog import get_path
from workbench.runs.advise import Advising
from workbench.runs.advise_words import advice_sentence, cost_sentence, cost_text, remedy_sentence
from workbench.runs.remedy import EVIDENCE, KINDS, STATES, Advice, Part, Remedy

CAPTURES = Path(__file__).parents[2] / "captures"
OBSERVED = CAPTURES.parent / "docs" / "results" / "releases-h200.json"
SEEDS = 3


def crowded(length: int = 20000, k: int = 512, rows: int | None = 4, **said: object) -> wb.Row:
    """A row whose scores share one 8-bit bin."""
    scores = torch.rand(length, generator=torch.Generator().manual_seed(length)) * 0.245 + 1.0
    known: dict[str, object] = {"op": "vllm.persistent_topk", "release": "vllm==0.26.0", "device": "h200"}
    call = wb.Call(k=k, rows=rows, width=length, stride=length, max_seq_len=length, **(known | said))  # type: ignore[arg-type]
    return wb.Row(scores, length, call=call)


@cache
def of_sample(name: str, **given: str) -> tuple[Advice, tuple[wb.Row, ...]]:
    with wb.open(CAPTURES / f"{name}.safetensors") as capture:
        rows = tuple(capture)
    return wb.advise(rows, **given), rows


def named(part: Part, what: str) -> Remedy:
    (found,) = [one for one in part.remedies if one.what == what]
    return found


def keeping() -> Iterator[tuple[str, dict[str, str]]]:
    yield "public-vllm-v100", {"release": "vllm==0.26.0", "device": "h200"}
    yield "public-vllm-v100", {}
    yield "public-vllm-b300", {"release": "vllm==0.20.2", "device": "h200"}
    yield "public-sglang-normal", {"release": "sglang-kernel==0.4.6"}
    yield "public-sglang-zeros", {"release": "sglang==0.5.21"}


@pytest.mark.parametrize(("name", "given"), list(keeping()))
def test_models_run_under_a_remedy_that_keeps_every_winner_lose_none(name: str, given: dict[str, str]) -> None:
    advice, rows = of_sample(name, **given)
    (part,) = advice.parts
    checked = 0
    for remedy in part.remedies:
        if not remedy.keeps:
            continue
        for row in rows:
            for lost in _lost_under(remedy, row):
                checked += 1
                assert not lost, (remedy.what, row.index)
    assert checked >= SEEDS * len(rows)


def _lost_under(remedy: Remedy, row: wb.Row) -> Iterator[int]:
    """Winners of the row that the models lose under a remedy, on every path that it may take then."""
    k, given = row.call.k, row
    assert k is not None
    if remedy.kind == "input" and remedy.what.startswith("k "):
        k = int(remedy.what.split()[1])
        given = row.with_call(k=k)
    elif remedy.kind == "input":
        made = ALTERATIONS[remedy.what](row.valid, k)
        if made.scores is not None:
            given = replace(row, scores=made.scores, indices=None)
    for path_name, variant, _ in remedy.paths:
        path = get_path(path_name)
        if path.unmet(k=k, length=row.length, dtype=row.dtype):
            continue
        for line in wb.run(given, paths=path_name, variants=variant, repeats=SEEDS, k=k, op=None).lines:
            if line.refused:  # no model runs it: what is said of it was observed
                assert not path.variant(variant).modelled
                continue
            assert line.verdict in ("exact", "ties"), (remedy.what, path_name, variant)
            yield int(line.missing or 0)
    if given is not row and remedy.kind == "input":  # the winners are those of the row as it was
        exact = wb.reference(row, k).indices
        yield judge(row.valid, exact, wb.reference(given, k).indices, None).missing


# Cases whose row is at risk in every release to 0.32.0, and whether it loses winners in nearly every call.
OFTEN = {"s000-over_fp16": True, "s003-one_bin": False, "s005-one_bin": True, "s008-one_bin": False}


@pytest.mark.parametrize("case_id", OFTEN)
def test_ops_kept_every_winner_in_each_release_that_is_called_observed(case_id: str) -> None:
    rows = truth.rows(case_id)
    seen = {(one.op, one.release): max(one.bad_rows) for one in truth.records()[case_id]}
    advice = wb.advise(rows, "vllm.persistent_topk", "vllm==0.26.0", "h200")
    (part,) = advice.parts
    assert part.now.losing
    held = 0
    for remedy in part.remedies:
        if remedy.kind not in ("release", "op", "backend") or remedy.evidence != "observed":
            continue
        op = {"release": part.op, "op": remedy.what.split(" in ")[0]}.get(remedy.kind)
        for release in remedy.releases:
            record = seen.get((op or "", release))
            if record is not None and remedy.keeps:
                held += 1
                assert record == 0, (remedy.what, release)
    assert held
    clean = next(one for one in part.remedies if one.kind == "release" and one.keeps)
    assert clean.releases == ("vllm==0.33.0",)
    losing = [one for one in part.remedies if one.kind == "release" and not one.keeps]
    assert {release for one in losing for release in one.releases} >= {"vllm==0.20.2", "vllm==0.32.0"}
    if OFTEN[case_id]:
        assert all(seen["vllm.persistent_topk", release] > 0 for one in losing for release in one.releases)


def test_releases_of_the_sample_stand_as_they_were_measured() -> None:
    measured = wb.read_matrix(OBSERVED)
    at = next(place for place, row in enumerate(measured.rows) if row.capture.startswith("public-vllm-v100"))
    cells = {cell.release: cell for cell in measured.cells[at] if cell.verdict is not None}
    advice, _ = of_sample("public-vllm-v100", device="h200")
    tried = {
        release: remedy
        for remedy in advice.parts[0].remedies
        if remedy.kind == "release"
        for release in remedy.releases
    }
    assert len(cells) >= 6
    for release, cell in cells.items():
        assert tried[release].keeps == (cell.verdict in ("exact", "ties")), release
    assert tried["vllm==0.33.0"].keeps
    assert tried["vllm==0.33.0"].evidence == "observed"


def test_what_keeps_every_winner_comes_first_observed_before_described_then_the_cheapest() -> None:
    for name, given in keeping():
        for part in of_sample(name, **given)[0].parts:
            kept = [one for one in part.remedies if one.keeps]
            assert list(part.remedies[: len(kept)]) == kept
            ranks = [(EVIDENCE.index(one.evidence), one.cost.most if one.cost else float("inf")) for one in kept]
            assert ranks == sorted(ranks)
            for one in part.remedies:
                assert one.kind in KINDS
                assert one.state in STATES
                assert one.rows.rows == part.now.rows
                assert one.keeps == (one.rows.safe == one.rows.rows)
            assert len({one.name for one in part.remedies}) == len(part.remedies)


def test_a_release_without_the_option_gets_it_with_a_newer_one_and_the_op_by_a_change_of_code() -> None:
    (part,) = wb.advise(crowded()).parts
    option = named(part, "--sparse-indexer-topk-backend per_row in vllm==0.30.0 to 0.33.0")
    assert option.keeps
    assert option.given == "--sparse-indexer-topk-backend per_row"
    op = named(part, "vllm.top_k_per_row_decode")
    assert op.keeps
    assert "no option that does so is known" in op.how
    (newer,) = wb.advise(crowded(release="vllm==0.31.0")).parts
    assert named(newer, "--sparse-indexer-topk-backend per_row").releases[0] == "vllm==0.30.0"
    assert not any(one.kind == "op" and "per_row_decode" in one.what for one in newer.remedies)


def test_a_batch_of_another_size_takes_another_path() -> None:
    (part,) = wb.advise(crowded(length=40000, rows=33)).parts
    few = named(part, "calls of at most 32 rows")
    assert few.keeps
    assert few.evidence == "model"
    assert [path for path, _, _ in few.paths] == ["vllm.radix"]
    assert few.lossless is False
    assert any("lengths 8193 to 32768 take vllm.histogram_256 (stock)" in text for text in few.caveats)
    assert "not known here" in few.how


def test_scores_beyond_fp16_would_have_been_kept_within_it() -> None:
    scores = torch.randn(8192, generator=torch.Generator().manual_seed(1)) * 1e6
    row = replace(crowded(8192), scores=scores)
    (part,) = wb.advise(row).parts
    assert part.now.losing == 1
    assert named(part, "scores of a magnitude up to 65504").keeps
    (ordinary,) = wb.advise(crowded()).parts
    useless = named(ordinary, "scores of a magnitude up to 65504")
    assert useless.state == "does not help"
    assert any("no finite score is beyond 65504" in text for text in useless.caveats)


def test_time_is_told_where_it_was_measured_and_never_else() -> None:
    (part,) = wb.advise(crowded(length=131072, k=2048, rows=64)).parts
    torch_backend = next(one for one in part.remedies if "backend torch" in one.what)
    assert torch_backend.cost is not None
    assert torch_backend.cost.shapes == ((64, 131072),)
    assert cost_text(torch_backend.cost) == "×3.43"
    assert "64 of 131072 scores" in cost_sentence(torch_backend.cost)
    assert all(one.cost is None for one in part.remedies if one.kind in ("release", "repair", "call", "input"))


def test_a_row_that_keeps_its_winners_needs_nothing() -> None:
    row = replace(crowded(), scores=torch.randn(20000, generator=torch.Generator().manual_seed(2)))
    advice = wb.advise(row)
    assert not advice.at_risk
    assert advice_sentence(advice) == "The row loses no winner on vllm.persistent_topk, vllm==0.26.0, h200."


def test_what_is_not_known_is_asked_for_and_answers_hold_whatever_it_is() -> None:
    row = crowded(release=None, device=None)
    (part,) = wb.advise(row).parts
    assert part.now.depends == 1  # 0.33.0 keeps it
    assert [need.split(",")[0] for need in part.needs[:2]] == ["the release", "the device"]
    for remedy in part.remedies:
        if remedy.keeps and remedy.kind == "repair":
            for release in ("vllm==0.20.2", "vllm==0.31.0"):
                for device in ("h200", "a100", "b200"):
                    (known,) = wb.advise(row, release=release, device=device).parts
                    again = [one for one in known.remedies if one.what == remedy.what]
                    assert all(one.keeps for one in again), (remedy.what, release, device)
    (unnamed,) = wb.advise(crowded(op=None, release=None)).parts
    assert unnamed.op is None
    assert unnamed.needs[0].startswith("the op")
    kept = {one.what.split(" in ")[0] for one in unnamed.remedies if one.keeps}
    assert {"vllm.top_k_per_row_decode", "flashinfer.top_k_ragged_transform"} <= kept
    assert "vllm.persistent_topk in vllm==0.20.2 to 0.32.0" not in {one.what for one in unnamed.remedies if one.keeps}


def test_without_an_op_the_first_sentence_counts_and_what_holds_for_every_length_comes_first() -> None:
    with wb.open(CAPTURES / "smollm2-lm-head.safetensors") as capture:
        row = capture[2]
    advice = wb.advise(row)
    (part,) = advice.parts
    ops = [one for one in part.remedies if one.kind == "op"]
    pairs = {(one.what.split(" in ")[0], release): one for one in ops for release in one.releases}
    kept = sum(one.keeps for one in pairs.values())
    able = sum(one.rows.losing > 0 for one in pairs.values())
    assert (kept > able > 0, part.now.depends) == (True, 1)
    said = advice_sentence(advice)
    assert said.startswith("The row may lose winners: it depends on the op and the device. Of ")
    assert f"Of {len(pairs)} pairs of op and release ({len({op for op, _ in pairs})} ops), {kept} keep every" in said
    assert f"{able} can lose some and {len(pairs) - kept - able} refuse rows or are not judged. " in said
    assert "first: vllm.persistent_topk in vllm==0.33.0 (observed, not modelled)." in said
    for evidence in EVIDENCE:
        holds = [one.lossless for one in part.keeping if one.evidence == evidence]
        assert holds == sorted(holds, key=(True, False, None).index)
    assert any("which lengths a change holds for is told of an H200" in note for note in part.notes)
    unknown_release = advice_sentence(wb.advise(crowded(release=None)))
    assert (
        "it depends on the release. Of its 13 releases, 1 keeps every winner and 12 can lose some." in unknown_release
    )


def test_a_remedy_on_a_path_that_no_model_runs_says_so() -> None:
    with wb.open(CAPTURES / "smollm2-lm-head.safetensors") as capture:
        (part,) = wb.advise(capture[2]).parts
    told = 0
    for remedy in part.keeping:
        taken = [get_path(path).variant(variant) for path, variant, _ in remedy.paths]
        unmodelled = any(not variant.modelled for variant in taken)
        assert unmodelled == ("not modelled" in " ".join(remedy.caveats)), remedy.what
        told += unmodelled
        if unmodelled and remedy.evidence != "observed":
            assert not remedy.lossless  # nothing says so of every length
    assert told >= 2
    ragged = named(part, "flashinfer.top_k_ragged_transform in flashinfer==fb28d724")
    assert "The path flashinfer.ragged is not modelled (as released: " in remedy_sentence(ragged)


def test_an_op_that_routing_does_not_know_counts_as_unknown() -> None:
    advice = wb.advise(crowded(op="somebody.topk", release="somebody==1"))
    assert advice.parts[0].op is None
    assert "somebody.topk is not known here" in advice.parts[0].needs[0]


def test_rows_of_several_ops_are_advised_on_apart_and_recorded_losses_count() -> None:
    row = crowded()
    lossy = torch.topk(-row.scores, 512).indices.to(torch.int32)
    safe = replace(row, scores=torch.randn(20000, generator=torch.Generator().manual_seed(2)), indices=lossy)
    other = crowded(k=2048, op="sglang.fast_topk_v2", release="sglang-kernel==0.4.6")
    advice = wb.advise([safe, other, safe])
    assert [(part.op, part.now.rows) for part in advice.parts] == [
        ("vllm.persistent_topk", 2),
        ("sglang.fast_topk_v2", 1),
    ]
    assert (advice.parts[0].recorded, advice.parts[0].lost, advice.parts[0].now.losing) == (2, 2, 0)
    assert advice.parts[0].at_risk
    assert "Production lost winners in 2 of the 2 recorded rows." in advice_sentence(advice)
    assert "Production lost winners in the one row that was recorded." in advice_sentence(wb.advise(safe))
    assert len(advice.to_pandas()) == len(advice.remedies) == len(advice.to_records())


def test_rows_one_by_one_are_the_rows_together() -> None:
    rows = [crowded(), replace(crowded(9000), index=1), crowded(release="vllm==0.33.0")]
    advising = Advising()
    for row in rows:
        advising.add(row)
    assert advising.advice() == wb.advise(iter(rows))


@pytest.mark.parametrize(
    ("length", "k"),
    [(0, 1), (1, 1), (2, 1), (512, 512), (513, 512), (600, 1), (600, 599), (600, 600), (-1, 5), (900, 5)],
)
@pytest.mark.parametrize("fill", ["nan", "inf", "zeros"])
def test_odd_rows_are_advised_on(length: int, k: int, fill: str) -> None:
    scores = torch.linspace(0, 1, 600)
    if fill == "nan":
        scores[::7] = torch.nan
    elif fill == "inf":
        scores[:300] = torch.inf
        scores[300:] = -torch.inf
    elif fill == "zeros":
        scores = torch.zeros(600)
        scores[::2] = -0.0
    call = wb.Call(k=k, rows=2, width=600, stride=600, max_seq_len=600)
    for op, release in (
        ("vllm.top_k_per_row_decode", "vllm==0.26.0"),
        ("sglang.topk_transform_paged_v2", "sglang==0.5.21"),
    ):
        advice = wb.advise(wb.Row(scores, length, call=call), op, release, "h200")
        assert advice.rows == 1
        assert all(remedy_sentence(one) for one in advice.remedies)
    assert wb.advise(wb.Row(scores, length, call=call)).rows == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rows_of_other_dtypes_are_refused_where_ops_refuse_them(dtype: torch.dtype) -> None:
    row = replace(crowded(8192, op="sglang.topk_transform_bf16_small", release="sglang==0.5.23"), indices=None)
    advice = wb.advise(replace(row, scores=row.scores.to(dtype)))
    assert (advice.parts[0].now.safe, advice.parts[0].now.refused) == ((1, 0) if dtype is torch.bfloat16 else (0, 1))


def test_bad_arguments_are_told() -> None:
    with pytest.raises(wb.UsageError, match="unknown op"):
        wb.advise(crowded(), "vllm.nothing")
    with pytest.raises(wb.UsageError, match="was not observed"):
        wb.advise(crowded(), release="vllm==9.9")
    with pytest.raises(wb.UsageError, match="unknown device"):
        wb.advise(crowded(), device="abacus")
    with pytest.raises(wb.UsageError, match="does not depend on backend"):
        wb.advise(crowded(), setup=wb.Setup(backend="per_row"))
    with pytest.raises(wb.UsageError, match="rows is"):
        wb.advise(5)  # type: ignore[arg-type]
    with pytest.raises(wb.CaptureError, match="does not say k"):
        wb.advise(wb.Row(torch.randn(9), 9))
    assert wb.advise([]).parts == ()
    assert advice_sentence(wb.advise([])) == "There is no row to advise on."
