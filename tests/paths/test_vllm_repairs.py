"""What each repair of vLLM's paths costs: passes over the row, bytes read, candidates staged, what it fell back to."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import workbench as wb
from workbench.analysis.profile import RowProfile
from workbench.analysis.reference import reference
from workbench.analysis.risk import risk
from workbench.analysis.verdict import judge
from workbench.capture.row import Call, Row
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import get_path
from workbench.paths.model import run_model
from workbench.paths.selection import Cost, Selection

K = 2048
SCRAMBLED = Arrival("random", seed=3)


def shuffled(scores: torch.Tensor) -> torch.Tensor:
    return scores[torch.randperm(scores.numel(), generator=torch.Generator().manual_seed(5))]


def adjacent(length: int) -> torch.Tensor:
    """1.0 and the float32 numbers after it, ascending: one bin of any coarse key."""
    return (torch.arange(length, dtype=torch.int32) + 0x3F800000).view(torch.float32)


def normal(length: int) -> torch.Tensor:
    return torch.randn(length, generator=torch.Generator().manual_seed(1))


def overflowing(length: int) -> torch.Tensor:
    return shuffled(adjacent(length))


def constant(length: int) -> torch.Tensor:
    return torch.full((length,), 1.1)


def past_fp16(length: int) -> torch.Tensor:
    """Integers from 70000, all of them +inf in fp16."""
    return shuffled(torch.arange(length) + 70000.0)


def beside_zero(length: int) -> torch.Tensor:
    """One 12-bit bin of scores whose exact keys lie far apart."""
    return torch.rand(length, generator=torch.Generator().manual_seed(1)) * 5e-7


def bfloat16(length: int) -> torch.Tensor:
    return shuffled(1 + (torch.arange(length) % 8) / 128)


def fp16(length: int) -> torch.Tensor:
    return shuffled(1 + (torch.arange(length) % 64) / 1024)


def select(path: str, variant: str, scores: torch.Tensor, k: int = K, arrival: Arrival = SCRAMBLED) -> Selection:
    """The selection of a repair, which has lost nothing."""
    selection = run_model(get_path(path), scores, k, arrival, variant)
    exact = reference(Row(scores, scores.numel(), call=Call(width=scores.numel())), k).indices
    assert judge(scores, exact, selection.indices, poison=-777).kind in ("exact", "ties")
    return selection


def cost(path: str, variant: str, scores: torch.Tensor, k: int = K) -> Cost:
    return select(path, variant, scores, k).telemetry.cost


def reading(length: int, passes: int, gathered: int = 0, staged: int = 0, fallback: str = "") -> Cost:
    return Cost(passes, 4 * (passes * length + gathered), staged, fallback)


RESCAN, WIDE, AGAIN = "exact rescan of the row", "wide rescan of the row", ", candidates scanned again"

# Where the threshold bin does not fit. Final candidates of adjacent keys are one digit's worth; of integers from 70000,
# 128 keys apart, 1024 >> 7 (64 apart from 131072 on); of one value, all.
COSTS: list[tuple[str, str, Callable[[int], torch.Tensor], int, Cost]] = [
    # One pass of histogram, then four of digits and two of writing; 2048's own collection replays registers.
    ("vllm.histogram_2048", "detect_rescan", overflowing, 8000, reading(8000, 7, fallback=RESCAN)),
    ("vllm.histogram_2048", "detect_rescan", constant, 8000, reading(8000, 7, fallback=RESCAN)),
    ("vllm.histogram_2048", "detect_rescan", past_fp16, 4096, reading(4096, 7, fallback=RESCAN)),
    ("vllm.histogram_256", "detect_rescan", overflowing, 12288, reading(12288, 7, fallback=RESCAN)),
    ("vllm.histogram_256", "detect_rescan", constant, 12288, reading(12288, 7, fallback=RESCAN)),
    ("vllm.histogram_256", "detect_rescan", past_fp16, 12288, reading(12288, 7, fallback=RESCAN)),
    # The filtered path has filled its buffer by the time it sees the overflow: one pass more.
    ("vllm.filtered", "detect_rescan", overflowing, 40000, reading(40000, 8, 0, 16384, RESCAN)),
    ("vllm.filtered", "detect_rescan", constant, 40000, reading(40000, 8, 0, 16384, RESCAN)),
    ("vllm.filtered", "detect_rescan", past_fp16, 40000, reading(40000, 8, 0, 16384, RESCAN)),
    # The histogram is the first digit; the second of the other two stages, and another scan where that overflows.
    ("vllm.histogram_256", "wide_rescan", overflowing, 12288, reading(12288, 3, 1024, 1024, WIDE)),
    ("vllm.histogram_256", "wide_rescan", constant, 12288, reading(12288, 4, 0, 4096, WIDE + AGAIN)),
    ("vllm.histogram_256", "wide_rescan", past_fp16, 12288, reading(12288, 3, 8, 8, WIDE)),
    ("vllm.filtered", "wide_rescan", overflowing, 40960, reading(40960, 3, 1024, 1024, WIDE)),
    ("vllm.filtered", "wide_rescan", constant, 40000, reading(40000, 4, 0, 16384, WIDE + AGAIN)),
    ("vllm.filtered", "wide_rescan", constant, 16385, reading(16385, 4, 0, 16384, WIDE + AGAIN)),
    ("vllm.filtered", "wide_rescan_sampled", overflowing, 40960, reading(40960, 3, 1024, 1024, WIDE)),
    ("vllm.filtered", "wide_rescan_sampled", constant, 196607, reading(196607, 4, 0, 16384, WIDE + AGAIN)),
    (
        "vllm.filtered",
        "wide_rescan_sampled",
        constant,
        196608,
        reading(196608, 5, 2048, 2 * 16384, f"sampled pivot, then {WIDE}{AGAIN}"),
    ),
    # In registers nothing is read again; where a digit of the offset does not serve, all three digits are.
    ("vllm.histogram_4096", "recovery", overflowing, 16000, reading(16000, 1, fallback="two digits in registers")),
    ("vllm.histogram_4096", "recovery", constant, 16000, reading(16000, 1, fallback="two digits in registers")),
    ("vllm.histogram_4096", "recovery", past_fp16, 16000, reading(16000, 5, fallback=WIDE)),
    ("vllm.histogram_4096", "recovery", beside_zero, 16000, reading(16000, 5, fallback=WIDE)),
    # Slices of 8000: histogram, probe, a second digit, and a pass that writes. 32 scores are looked at beforehand.
    ("vllm.cooperative_4", "recovery", overflowing, 32000, reading(32000, 4, 32, 0, "recovery: two digits")),
    ("vllm.cooperative_4", "recovery", constant, 32000, reading(32000, 3, 32, 0, "recovery: all equal")),
    ("vllm.cooperative_4", "recovery", bfloat16, 32000, reading(32000, 3, 32, 0, "recovery: all bfloat16")),
    ("vllm.cooperative_4", "recovery", fp16, 32000, reading(32000, 3, 32, 0, "recovery: all fp16")),
    ("vllm.cooperative_4", "recovery", past_fp16, 32000, reading(32000, 5, 32, 0, "recovery: three digits")),
    ("vllm.cooperative_4", "recovery", beside_zero, 32000, reading(32000, 5, 32, 0, "recovery: three digits")),
    # Slices of 16384: what the last digit decides is staged instead.
    ("vllm.cooperative_4", "recovery", overflowing, 65536, reading(65536, 3, 32 + 2048, 2048, "recovery: two digits")),
    ("vllm.cooperative_4", "recovery", past_fp16, 65536, reading(65536, 4, 32 + 16, 16, "recovery: three digits")),
    ("vllm.cooperative_4", "recovery", constant, 65536, reading(65536, 3, 32, 0, "recovery: all equal")),
    ("vllm.cooperative_8", "recovery", overflowing, 65536, reading(65536, 4, 32, 0, "recovery: two digits")),
    # Keys that fit stay on chip; others are read for each of four digits and once more.
    *(
        ("vllm.histogram_2048", "deterministic", row, 8000, reading(8000, 1))
        for row in (overflowing, constant, past_fp16)
    ),
    *(
        ("vllm.histogram_256", "deterministic", row, 8472, reading(8472, 1))
        for row in (overflowing, constant, past_fp16)
    ),
    *(("vllm.histogram_256", "deterministic", row, 8473, reading(8473, 5)) for row in (overflowing, normal, past_fp16)),
    *(("vllm.filtered", "deterministic", row, 22016, reading(22016, 1)) for row in (overflowing, constant, normal)),
    *(("vllm.histogram_4096", "deterministic", row, 9000, reading(9000, 1)) for row in (overflowing, constant, normal)),
]


@pytest.mark.parametrize(
    ("path", "variant", "row", "length", "wanted"), COSTS, ids=lambda part: getattr(part, "__name__", None)
)
def test_what_an_overflowing_row_costs(
    path: str, variant: str, row: Callable[[int], torch.Tensor], length: int, wanted: Cost
) -> None:
    selection = select(path, variant, row(length))
    assert selection.telemetry.cost == wanted
    assert selection.telemetry.dropped.numel() == 0


@pytest.mark.parametrize(
    ("path", "variant", "length"),
    [
        ("vllm.histogram_2048", "detect_rescan", 8000),
        ("vllm.histogram_256", "detect_rescan", 12288),
        ("vllm.histogram_256", "wide_rescan", 12288),
        ("vllm.histogram_4096", "recovery", 9000),
        ("vllm.filtered", "detect_rescan", 40000),
        ("vllm.filtered", "wide_rescan", 40000),
        ("vllm.filtered", "wide_rescan_sampled", 196608),
        ("vllm.cooperative_4", "recovery", 32000),
    ],
)
def test_a_row_that_fits_costs_what_it_did(path: str, variant: str, length: int) -> None:
    repaired, stock = select(path, variant, normal(length)), select(path, "stock", normal(length))
    assert repaired.telemetry.cost.fallback == ""
    assert repaired.telemetry.cost.row_passes == stock.telemetry.cost.row_passes
    assert repaired.telemetry.cost.staged == repaired.telemetry.population == repaired.telemetry.stored > 0
    if repaired.telemetry.key_bits == stock.telemetry.key_bits:
        assert repaired.telemetry.cost == stock.telemetry.cost
        assert repaired.indices.tolist() == stock.indices.tolist()


@pytest.mark.parametrize(
    ("path", "variant", "fits"),
    [
        ("vllm.histogram_2048", "detect_rescan", 3708),
        ("vllm.histogram_256", "detect_rescan", 4096),
        ("vllm.histogram_256", "wide_rescan", 4096),
        ("vllm.histogram_4096", "recovery", 1024),  # as many as k
        ("vllm.filtered", "detect_rescan", 16384),
        ("vllm.filtered", "wide_rescan", 16384),
        ("vllm.cooperative_4", "recovery", 2048),
    ],
)
def test_the_fallback_begins_one_past_the_capacity(path: str, variant: str, fits: int) -> None:
    for population in (fits, fits + 1):
        # One better score, so that the bin is never taken whole.
        scores = shuffled(torch.cat([adjacent(population), torch.tensor([9.0]), torch.full((3000,), -3.0)]))
        assert bool(cost(path, variant, scores, 1024).fallback) is (population > fits)


def test_the_repairs_of_one_row_differ() -> None:
    """One row of 196608 scores in one bin, where every repair of the filtered path takes its own way."""
    scores = overflowing(196608)
    found = {
        name: cost("vllm.filtered", name, scores) for name in ("detect_rescan", "wide_rescan", "wide_rescan_sampled")
    }
    assert {name: one.row_passes for name, one in found.items()} == {
        "detect_rescan": 8,
        "wide_rescan": 3,
        "wide_rescan_sampled": 2,
    }
    assert found["wide_rescan_sampled"].bytes_read < found["wide_rescan"].bytes_read < found["detect_rescan"].bytes_read
    assert len({one.staged for one in found.values()}) == 3


def test_bins_of_the_exact_key_part_what_fp16_calls_infinite() -> None:
    """40000 integers from 70000 are one bin of fp16, but three of the exact key, the last of which fits."""
    scores = past_fp16(40000)
    repaired = select("vllm.filtered", "wide_rescan", scores).telemetry
    assert (repaired.key_bits, repaired.population) == (11, 110000 - 98304)
    assert (repaired.cost.row_passes, repaired.cost.staged, repaired.cost.fallback) == (2, 110000 - 98304, "")
    assert cost("vllm.filtered", "detect_rescan", scores).fallback == RESCAN


@pytest.mark.parametrize(("k", "collected"), [(512, 21 * 96), (1024, 42 * 96), (2048, 42 * 96)])
def test_a_sampled_pivot_aims_at_a_multiple_of_k(k: int, collected: int) -> None:
    """Of an ascending row the sample is exact: rank 21 or 42 of 2048, for 2048 and 4096 candidates of 196608."""
    seen = select("vllm.filtered", "wide_rescan_sampled", adjacent(196608), k).telemetry
    gathered = 2048 + sum(one.seen for one in seen.passes)
    assert seen.cost == reading(196608, 2, gathered, collected, "sampled pivot")
    assert seen.passes[0].seen == collected


def test_a_misleading_sample_is_given_up() -> None:
    """The sampled positions hold the best scores, so that too few others reach the pivot."""
    scores = overflowing(262144)
    scores[torch.arange(2048) * 128] += 0.03125
    spent = cost("vllm.filtered", "wide_rescan_sampled", scores)
    assert spent.row_passes == 4
    assert spent.fallback == f"sampled pivot, then {WIDE}"


def test_offsets_begin_one_fp16_step_below_the_bin() -> None:
    """Scores that round up to 1.0 lie in its bin, below its lower end."""
    below = (torch.arange(4096, dtype=torch.int32) + 0x3F800000 - 4095).view(torch.float32)
    scores = shuffled(torch.cat([below, adjacent(4096)]))
    seen = select("vllm.histogram_4096", "recovery", scores, 2048).telemetry
    assert (seen.population, seen.cost.fallback) == (8191 + 1, "two digits in registers")
    assert [(one.shift, one.bits) for one in seen.passes] == [(11, 11), (0, 11)]


def test_recovery_ranks_up_to_64_ties() -> None:
    scores = torch.full((9000,), -1.0)
    places = torch.randperm(9000, generator=torch.Generator().manual_seed(0))
    scores[places[:500]] = 4.0
    for ties, ranked in ((64, True), (65, False)):
        scores[places[500 : 500 + ties]] = 2.0
        smallest = set(places[500 : 500 + ties].sort().values[:12].tolist())
        for variant, by_index in (("recovery", ranked), ("stock", False)):
            taken = select("vllm.histogram_4096", variant, scores, 512, Arrival("reverse")).indices.tolist()
            assert (smallest <= set(taken)) is by_index


def test_a_cluster_keeps_2048_ties_wherever_they_lie() -> None:
    """1500 ties: too many for the stock path's 1024 of k = 512, and for one of its blocks."""
    together = torch.full((32000,), -3.0)
    together[:1500] = adjacent(1500)
    for scores in (together, shuffled(together)):
        assert cost("vllm.cooperative_4", "recovery", scores, 512).staged == 1500
        lost = run_model(get_path("vllm.cooperative_4"), scores, 512, SCRAMBLED)
        assert lost.telemetry.dropped.numel() == 1500 - 1024


def test_the_first_32_scores_decide_what_the_probe_looks_for() -> None:
    # The threshold bin is short but the row begins otherwise: the probe looks for no short scores.
    scores = bfloat16(32000)
    scores[5] = 0.1
    assert cost("vllm.cooperative_4", "recovery", scores).fallback == "recovery: two digits"
    # The row begins short but the threshold bin is not.
    scores = overflowing(32000)
    scores[:32] = 1.0
    assert cost("vllm.cooperative_4", "recovery", scores).fallback == "recovery: two digits"
    scores = bfloat16(32000)
    scores[40] = -0.1
    assert cost("vllm.cooperative_4", "recovery", scores).fallback == "recovery: all bfloat16"


def test_a_cluster_writes_equal_scores_by_rank() -> None:
    """Of a constant row the first blocks give all winners, each as its scores arrive."""
    taken = select("vllm.cooperative_4", "recovery", constant(32000)).indices
    assert int(taken.max()) < 8000
    assert taken.tolist() != sorted(taken.tolist())


ORDERS = (Arrival("index"), Arrival("reverse"), Arrival("random", seed=1), Arrival("random", "warp", seed=2))


@pytest.mark.parametrize("path", ["vllm.histogram_2048", "vllm.histogram_256", "vllm.histogram_4096", "vllm.filtered"])
def test_deterministic_variants_write_the_smallest_indices_in_order(path: str) -> None:
    scores = shuffled((torch.arange(8473 if path != "vllm.histogram_2048" else 8000) % 3).to(torch.float32))
    scores[::5] = 0.0
    scores[2::5] = -0.0
    for k in (512, 2048):
        exact = reference(Row(scores, scores.numel(), call=Call(width=scores.numel())), k).indices
        taken = {tuple(select(path, "deterministic", scores, k, order).indices.tolist()) for order in ORDERS}
        assert taken == {tuple(sorted(exact.tolist()))}


def test_signed_zeros_are_equal_where_the_smaller_index_is_promised() -> None:
    scores = torch.full((9000,), -1.0)
    scores[100:1124] = 0.0
    scores[:512] = -0.0
    for path in ("vllm.histogram_256", "vllm.histogram_4096"):
        assert select(path, "deterministic", scores, 512).indices.tolist() == list(range(512))


@pytest.mark.parametrize(("path", "lost"), [("vllm.histogram_256", 1), ("vllm.histogram_4096", 0)])
def test_nan_with_its_sign_set_is_lost_where_only_exact_keys_count(path: str, lost: int) -> None:
    scores = normal(9000)
    scores[7] = -torch.tensor(float("nan"))
    exact = reference(Row(scores, 9000, call=Call(width=9000)), K).indices
    taken = {tuple(run_model(get_path(path), scores, K, order, "deterministic").indices.tolist()) for order in ORDERS}
    (only,) = taken
    assert judge(scores, exact, torch.tensor(only)).missing == lost
    claimed = risk(RowProfile(scores, "float32", K), get_path(path), get_path(path).variant("deterministic"))
    assert (claimed.least_missing, claimed.most_missing) == (lost, lost)


@pytest.mark.parametrize("path", ["vllm.histogram_256", "vllm.filtered"])
def test_the_deterministic_selection_has_its_own_bound_on_length(path: str) -> None:
    for length, refused in ((22016, None), (22017, "length 22017 is above 22016")):
        row = Row(overflowing(length), length, call=Call(k=K, width=length))
        (line,) = wb.run(row, paths=path, variants="deterministic")
        assert line.refused == refused
        claimed = risk(RowProfile(row.valid, "float32", K), get_path(path), get_path(path).variant("deterministic"))
        assert claimed.refused == ((refused,) if refused else ())
        (line,) = wb.run(row, paths=path, variants="wide_rescan")
        assert line.refused is None
