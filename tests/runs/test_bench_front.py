"""``wb.bench``: what the command line can, from Python."""

from __future__ import annotations

import pytest
import torch

import workbench as wb
from workbench.runs.bench_saved import read_bench, write_bench

OP = "vllm.persistent_topk"
FEW = {"device": "h200", "samples": 2, "warmups": 0}


def exact(scores: torch.Tensor, lengths: torch.Tensor, k: int) -> torch.Tensor:
    cells = torch.arange(scores.shape[1], device=scores.device)
    return scores.masked_fill(cells >= lengths[:, None], -torch.inf).topk(k).indices


def test_releases_of_a_range_stand_side_by_side(tmp_path: object) -> None:
    seen: list[int] = []
    found = wb.bench(OP, "vllm==0.24.0..0.26.0", "model", rows=2, width=9000, k=512, progress=seen.append, **FEW)
    releases = [cell.contender.release for cell in found.cells]
    assert releases == sorted(releases)
    assert (releases[0], releases[-1]) == ("vllm==0.24.0", "vllm==0.26.0")
    assert len(releases) > 2
    assert seen[-1] == len(releases)
    assert {cell.paths for cell in found.cells} == {("vllm.histogram_256",)}
    assert "releases" not in found.about
    noted = wb.bench(OP, "vllm==0.26.0..0.26.9", "model", rows=1, width=9000, k=512, **FEW)
    assert "0.26.9 was not observed" in noted.about["releases"]
    file = f"{tmp_path}/a.json"
    write_bench(file, noted)
    assert read_bench(file).about == noted.about


def test_ragged_rows_take_several_paths() -> None:
    """Each row on its own; a kernel of one path says so no more."""
    found = wb.bench(
        OP,
        "vllm==0.26.0",
        ["model", "cuda"],
        rows=6,
        width=36000,
        k=512,
        lengths="ragged",
        **FEW,
    )
    model, cuda = found.cells
    assert set(model.paths) == {"vllm.histogram_256", "vllm.radix"}
    assert model.verdict is not None
    assert model.verdict.kind in ("exact", "ties")
    assert cuda.refused or cuda.verdict is not None
    assert not any("one path" in reason for reason in cuda.refused)


def test_callables_are_timed_here_and_by_name_elsewhere() -> None:
    found = wb.bench(engine=["torch.topk", exact], rows=1, width=[300, 400], k=[5], l2="both", samples=2, warmups=0)
    assert len(found.cells) == 8
    assert {cell.contender.engine for cell in found.cells} == {"torch.topk", f"{__name__}:exact"}
    assert all(cell.verdict is not None and cell.verdict.kind in ("exact", "ties") for cell in found.cells)


def test_boundaries_follow_the_op() -> None:
    found = wb.bench(OP, "vllm==0.26.0", "model", k=512, rows=1, boundaries=True, **FEW | {"samples": 1})
    assert [cell.shape.length for cell in found.cells] == [8191, 8192, 8193, 32767, 32768, 32769]
    assert len({cell.paths for cell in found.cells}) == 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"engine": "model"}, "model needs an op"),
        ({"engine": []}, "no engine is given"),
        ({"engine": [exact, exact]}, "is given twice"),
        ({"samples": 0}, "samples is 0"),
        ({"engine": "model", "op": OP, "release": "vllm==0.33.0..0.26.0"}, "runs backwards"),
        ({"engine": "model", "op": OP, "release": "vllm==9.0..9.1"}, "no release of vllm==9.0..9.1 was observed"),
        ({"release": "vllm==0.26.0"}, "no engine that runs one"),
        ({"engine": 3}, "engine is 3; it must be text, a function or a sequence"),
        ({"engine": [None]}, "item 0 of engine is None; it must be text or a function"),
        ({"rows": 0}, "rows: 0 is no integer"),
        ({"boundaries": True}, "give an op, and an engine"),
    ],
)
def test_what_cannot_be_carried_out(given: dict[str, object], words: str) -> None:
    with pytest.raises(wb.UsageError, match=words):
        wb.bench(**given)  # type: ignore[arg-type]
