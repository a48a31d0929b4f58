"""The captured greedy runs: each holds what its script says, and parts from the others where README.md says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import workbench as wb
from workbench.analysis.verdict import judge
from workbench.paths.model import run_model

SAMPLES = Path(__file__).resolve().parents[2] / "captures"
EXPERIMENTS = ("greedy-ties", "greedy-values")
SEEDS = {"exact": None, "order-1": 1, "order-2": 2}
FILES = [(experiment, run) for experiment in EXPERIMENTS for run in SEEDS]
LAYERS, LENGTH, K, CAPACITY, NARROW_FROM = 30, 4097, 512, 3708, 3
ROW_STEPS = {"greedy-ties": (0, 1), "greedy-values": (0,)}
TOKEN_STEPS = {"greedy-ties": [0, 8, 9], "greedy-values": [0, 1, 2, 3]}


def opened(experiment: str, run: str) -> wb.Capture:
    return wb.open(SAMPLES / experiment / f"{run}.safetensors")


def scores(experiment: str, run: str, step: int, layer: int) -> torch.Tensor:
    with opened(experiment, run) as capture:
        return next(row.valid for row in capture if (row.call.step, row.call.layer) == (step, layer))


def test_the_runs_are_those_that_are_described_and_small() -> None:
    held = sorted(path.relative_to(SAMPLES) for path in SAMPLES.glob("*/*.safetensors"))
    assert held == sorted(Path(experiment) / f"{run}.safetensors" for experiment, run in FILES)
    assert sum((SAMPLES / path).stat().st_size for path in held) <= 10_000_000


@pytest.mark.parametrize(("experiment", "run"), FILES)
def test_a_run_verifies_and_holds_every_layer_of_its_steps(experiment: str, run: str) -> None:
    with opened(experiment, run) as capture:
        assert capture.verify() == []
        source = capture.info.source or ""
        assert "captures/make/smollm2_greedy.py" in source
        assert ("exact reference" in source) == (run == "exact")
        places = [(step, layer) for step in ROW_STEPS[experiment] for layer in range(LAYERS)]
        assert [(row.call.step, row.call.layer) for row in capture] == places
        for row in capture:
            assert row.length == LENGTH + (row.call.step or 0)
            assert (row.k, row.call.rows, row.call.op) == (K, 1, "vllm.persistent_topk")
            assert row.call.release == (None if run == "exact" else "vllm==0.26.0")
            assert row.call.device is None  # it was none that the op runs on


@pytest.mark.parametrize(("experiment", "run"), FILES)
def test_tokens_are_the_best_logits(experiment: str, run: str) -> None:
    with opened(experiment, run) as capture:
        assert [token.step for token in capture.tokens] == TOKEN_STEPS[experiment]
        for token in capture.tokens:
            assert token.logits is not None
            assert token.logits.shape == (49152,)
            assert token.logits.dtype == torch.float32
            assert token.token == int(token.logits.argmax())


@pytest.mark.parametrize(("experiment", "run"), FILES)
def test_selections_are_those_of_the_selector_that_the_source_names(experiment: str, run: str) -> None:
    (path,) = wb.paths("vllm.histogram_2048")
    seed = SEEDS[run]
    with opened(experiment, run) as capture:
        for row in capture:
            if seed is None:
                wanted = wb.reference(row).indices
            else:
                call = (row.call.step or 0) * LAYERS + (row.call.layer or 0)
                arrival = wb.Arrival("random", path.arrival_unit, seed * 1_000_000 + call)
                wanted = run_model(path, row.valid, K, arrival).indices
            assert row.indices is not None
            assert torch.equal(row.indices, wanted.sort().values), (row.call.step, row.call.layer)


def test_on_the_real_scores_layer_4_is_the_first_whose_zeros_outnumber_the_buffer() -> None:
    with opened("greedy-ties", "exact") as capture:
        first = [row.valid for row in capture if row.call.step == 0]
    positive = [int((row > 0).sum()) for row in first[:5]]
    assert all(count >= K for count in positive[:4])
    assert positive[4] == 360
    assert int((first[4] == 0).sum()) == 3737 > CAPACITY


def test_the_scores_of_greedy_values_are_changed_as_it_is_stated() -> None:
    for layer in range(NARROW_FROM):
        assert torch.equal(scores("greedy-values", "exact", 0, layer), scores("greedy-ties", "exact", 0, layer))
    real, narrow = (scores(experiment, "exact", 0, NARROW_FROM) for experiment in EXPERIMENTS)
    assert torch.equal(narrow, 1 + real / real.max() * 0.01)
    order = real.argsort(stable=True)
    assert bool((narrow[order].diff() >= 0).all())
    with opened("greedy-values", "exact") as capture:
        for row in capture:
            inside = (row.valid >= 1) & (row.valid <= 1.01)  # of the 11-bit fp16 bin [1, 1.03125)
            assert bool(inside.all()) == ((row.call.layer or 0) >= NARROW_FROM)


def test_what_the_runs_lose() -> None:
    lost = {}
    for experiment, run in FILES:
        with opened(experiment, run) as capture:
            found = [judge(row.valid, wb.reference(row).indices, row.indices) for row in capture]
        lost[experiment, run] = [one.missing for one in found]
        kinds = {"greedy-ties": {"exact", "ties"}, "greedy-values": {"exact", "ties", "lossy"}}[experiment]
        assert {one.kind for one in found} <= ({"exact"} if run == "exact" else kinds)
    assert not any(sum(lost["greedy-ties", run]) for run in SEEDS)
    for run in ("order-1", "order-2"):
        narrow = lost["greedy-values", run][NARROW_FROM:]
        assert not any(lost["greedy-values", run][:NARROW_FROM])
        lossy, most = {"order-1": (22, 71), "order-2": (21, 72)}[run]
        assert (sum(count > 0 for count in narrow), max(narrow)) == (lossy, most)


@pytest.mark.parametrize(
    ("experiment", "a", "b", "layer", "state", "missing", "token"),
    [
        ("greedy-ties", "exact", "order-1", 4, "ties vary", (0, 0), 9),
        ("greedy-ties", "exact", "order-2", 4, "ties vary", (0, 0), 9),
        ("greedy-ties", "order-1", "order-2", 4, "ties vary", (0, 0), None),
        ("greedy-values", "exact", "order-1", 3, "values vary", (0, 37), 2),
        ("greedy-values", "exact", "order-2", 3, "values vary", (0, 53), 3),
        ("greedy-values", "order-1", "order-2", 3, "values vary", (37, 53), 2),
    ],
)
def test_diverge_names_the_step_the_layer_and_the_kind(
    experiment: str, a: str, b: str, layer: int, state: str, missing: tuple[int, int], token: int | None
) -> None:
    folder = SAMPLES / experiment
    with wb.diverge(folder / f"{a}.safetensors", folder / f"{b}.safetensors") as found:
        (comparison,) = found.comparisons
    first = comparison.first
    assert first is not None
    assert (first.step, first.layer, first.state) == (0, layer, state)
    assert first.judged_a is not None
    assert first.judged_b is not None
    assert (first.judged_a.missing, first.judged_b.missing) == missing
    assert ("at fault" in comparison.finding) == (state == "values vary")
    flipped = [step.step for step in comparison.tokens if step.state == "token differs"]
    assert (flipped[0] if flipped else None) == token
    assert all(step.state != "same" for step in comparison.tokens)  # logits part from the first step on
