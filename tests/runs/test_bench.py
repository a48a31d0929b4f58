"""Benchmarks on the CPU: cells, their verdicts, and what is told of the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.fakes import faults, loses, refuses
from tests.runs.benches import MODEL, OP, TOPK, VENDOR, Fake, bait, plan, vendor
from workbench.engines.launch import Answer, Launch
from workbench.errors import UsageError
from workbench.runs.bench import Bench, Timers, device_of, run_bench
from workbench.runs.bench_grid import Contender, grid
from workbench.runs.bench_words import bench_sentence


def test_engines_stand_side_by_side_and_are_checked() -> None:
    found = run_bench(plan(VENDOR, MODEL, TOPK, l2=("warm", "cold")), vendor(Fake()))
    assert [(cell.contender.engine, cell.l2) for cell in found.cells] == [
        (name, l2) for l2 in ("warm", "cold") for name in ("vendor", "model", "torch.topk")
    ]
    assert all(cell.verdict is not None and cell.verdict.kind == "exact" for cell in found.cells)
    assert all(cell.verdict.selections == 4 for cell in found.cells if cell.verdict)
    assert all(len(cell.times_us) == 5 for cell in found.cells)
    assert found.cells[0].paths == found.cells[1].paths == ("vllm.histogram_2048",)
    assert found.cells[0].score_bytes == 2 * 1000 * 4
    assert found.cells[0].times_us == (10, 11, 12, 13, 14)
    assert found.cells[0].gbs == pytest.approx(8000 / 12 / 1000)
    assert found.is_complete
    assert not found.wrong
    assert set(found.beside_op()) == {1, 4}
    assert "no selection lost a winner" in bench_sentence(found)


def test_a_timer_is_given_the_batch_as_the_op_would_be() -> None:
    fake = Fake()
    shapes = tuple(grid((3,), (900,), (512,), "ragged", 1024))
    run_bench(replace(plan(VENDOR), shapes=shapes, l2=("cold",)), vendor(fake))
    ((launch, sampling),) = fake.launches
    assert (launch.op, launch.k, launch.max_seq_len, launch.slots) == (OP, 512, 1024, (0, 1, 2))
    assert launch.scores.shape == (3, 1024)
    assert launch.lengths.dtype == torch.int32
    assert int(launch.lengths.max()) == 900
    assert int(launch.lengths.min()) >= 720
    assert sampling.cold
    assert fake.closed


def test_wrong_selections_are_told_cell_by_cell() -> None:
    found = run_bench(plan(VENDOR, TOPK), vendor(Fake(loses(3))))
    lossy, right = found.cells
    assert lossy.verdict is not None
    assert (lossy.verdict.kind, lossy.verdict.missing_most, lossy.verdict.missing) == ("lossy", 3, 12)
    assert lossy.is_wrong
    assert not right.is_wrong
    assert "1 is wrong: 1 lossy" in bench_sentence(found)


def test_a_selector_that_reads_past_lengths_is_caught() -> None:
    shapes = tuple(grid((4,), (900,), (512,), "ragged"))
    found = run_bench(replace(plan(VENDOR), shapes=shapes), vendor(Fake(bait)))
    assert found.cells[0].verdict is not None
    assert found.cells[0].verdict.kind == "invalid"
    assert found.cells[0].verdict.out_of_range > 0


def test_refusals_and_faults_are_cells() -> None:
    for does, refused, fault in (
        (refuses("too wide", "no GPU"), ("too wide", "no GPU"), ""),
        (faults("hangs"), (), "hangs"),
    ):
        found = run_bench(plan(VENDOR, TOPK), vendor(Fake(does)))
        assert (found.cells[0].refused, found.cells[0].fault) == (refused, fault)
        assert found.cells[0].is_wrong == bool(fault)
        assert found.cells[1].times_us

    def cannot(release: str) -> Fake:
        raise UsageError(f"{release} is not there")

    found = run_bench(plan(VENDOR, TOPK), Timers(open_vendor=cannot))
    assert found.cells[0].refused == ("vllm==0.26.0 is not there",)


def test_an_engine_that_says_nothing_is_a_fault() -> None:
    found = run_bench(plan(VENDOR), vendor(Fake(lambda launch, calls: Answer())))
    assert found.cells[0].fault == "neither a selection nor a reason came back"


def test_a_release_without_routing_runs_and_a_model_of_it_does_not() -> None:
    new = [Contender(engine, OP, "vllm==9.9.9") for engine in ("vendor", "model")]
    found = run_bench(plan(*new), vendor(Fake()))
    assert found.cells[0].times_us
    assert "was not observed" in found.cells[0].notes[0]
    assert "was not observed" in found.cells[1].refused[0]


def test_batches_that_cannot_be_are_refused_one_by_one() -> None:
    shapes = (*grid((1,), (100,), (512,)), *grid((2**20,), (2**20,), (512,)), *grid((1,), (600,), (512,)))
    found = run_bench(replace(plan(TOPK), shapes=shapes))
    assert [bool(cell.refused) for cell in found.cells] == [True, True, False]
    assert found.cells[0].refused == ("k is 512, above the padded width 100",)
    assert "GiB of scores are more than" in found.cells[1].refused[0]


def test_rows_of_several_paths() -> None:
    """A ragged batch crosses a threshold of the op: each row is run on its path, by models and by kernels."""
    shapes = tuple(grid((6,), (8600,), (512,), "ragged"))
    cuda = Contender("cuda", OP, "vllm==0.26.0")
    found = run_bench(replace(plan(MODEL, cuda), shapes=shapes))
    assert set(found.cells[0].paths) == {"vllm.histogram_256", "vllm.histogram_2048"}
    assert found.cells[0].verdict is not None
    assert found.cells[1].paths == found.cells[0].paths
    assert not any("path" in reason for reason in found.cells[1].refused), "a GPU is all that can be lacking"


def test_time_of_the_host_is_told() -> None:
    found = run_bench(plan(VENDOR), vendor(Fake(late=2)))
    assert found.cells[0].late == 2
    assert "2 of 5 samples hold time of the host" in found.cells[0].notes[0]


def test_what_is_done_is_told_after_each_shape_and_survives_ctrl_c() -> None:
    seen: list[Bench] = []
    fake = Fake()

    def stops(launch: Launch, calls: int) -> Answer:
        if launch.scores.shape[0] == 3:
            raise KeyboardInterrupt
        return Fake().timed(launch, replace(plan().sampling))

    fake._does = stops
    with pytest.raises(KeyboardInterrupt):
        run_bench(plan(VENDOR, rows=(1, 2, 3, 4)), vendor(fake), on_cells=seen.append)
    assert [len(one.cells) for one in seen] == [0, 1, 2]
    assert fake.closed
    assert not seen[-1].is_complete
    assert "2 were not tried" in bench_sentence(seen[-1])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"distribution": "normal"}, "unknown distribution"),
        ({"dtype": "float64"}, "unknown dtype"),
        ({"device": "h900"}, "unknown device"),
        ({"device": ""}, "the device that routing is asked for"),
    ],
)
def test_what_cannot_be_planned(change: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run_bench(replace(plan(MODEL), **change))  # type: ignore[arg-type]


def test_devices_by_the_drivers_names() -> None:
    assert device_of("NVIDIA H200") == "h200"
    assert device_of("NVIDIA GeForce RTX 4090") == ""


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_rounded_scores_have_ties_and_are_judged_as_such(dtype: str) -> None:
    found = run_bench(plan(TOPK, lengths=(3000,), dtype=dtype))
    assert found.cells[0].verdict is not None
    assert found.cells[0].verdict.kind in ("ties", "exact")
    assert found.cells[0].score_bytes == 2 * 3000 * 2
