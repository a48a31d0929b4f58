"""The script that holds released ops against the truth cases, over packages that stand in for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests import truth
from tests.bench import truth_vendor
from tests.engines.conftest import Behave
from workbench.analysis.verdict import judge
from workbench.numeric.select import exact_topk
from workbench.paths.selection import UNWRITTEN


@pytest.mark.parametrize("seed", range(4))
def test_batches_are_judged_as_rows_are(seed: int) -> None:
    """Ties at the cut, NaN, short rows, and slots that repeat, leave the row, are empty or were never written."""
    generator = torch.Generator().manual_seed(seed)
    k, lengths = 24, [200, 60, 24, 9, 0]
    scores = torch.randint(-4, 40, (5, 200), generator=generator).float()
    scores[0, :30], scores[1, 5], scores[1, 6] = 1.0, float("nan"), -0.0
    indices = torch.full((3, 5, k), -1, dtype=torch.int32)
    for row, length in enumerate(lengths):
        best = exact_topk(scores[row, :length], k).to(torch.int32)
        for call in range(3):
            indices[call, row, : best.numel()] = best
            if call and length > k:
                other = torch.randperm(length, generator=generator)[:k].to(torch.int32)
                take = torch.rand(k, generator=generator) < 0.3
                indices[call, row] = torch.where(take, other, indices[call, row])
    indices[2, 0, 3], indices[2, 1, 3], indices[2, 2, 0], indices[2, 3, 1] = UNWRITTEN, -1, 24, 0
    missing, invalid = truth_vendor.Judge(scores, lengths, k).missing(indices)
    for call in range(3):
        for row, length in enumerate(lengths):
            exact = torch.full((k,), -1)
            best = exact_topk(scores[row, :length], k)
            exact[: best.numel()] = best
            one = judge(scores[row, :length], exact, indices[call, row], UNWRITTEN)
            assert int(missing[call, row]) == one.missing, (call, row)
            bad = one.duplicates + one.out_of_range + one.unwritten
            assert (int(invalid[call, row]) > 0) == (one.kind == "invalid"), (call, row)
            assert int(invalid[call, row]) >= bad


def test_two_cases_run_and_are_held_against_the_record(
    behave: Behave, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    behave("exact")
    output = tmp_path / "result.json"
    cases = ["s057-one_bin", "s089-normal"]
    recorded = {
        case: {one.op: max(one.missing_total) > 0 for one in truth.records()[case] if one.release == "vllm==0.26.0"}
        for case in cases
    }
    given = ["--output", str(output), "--releases", "vllm==0.26.0", "sglang-kernel==0.4.6", "--device", "cpu"]
    codes = [truth_vendor.main([*given, "--calls", "3", "--cases", case]) for case in reversed(cases)]
    assert codes == [any(recorded["s089-normal"].values()), any(recorded["s057-one_bin"].values())]
    result = json.loads(output.read_text())
    assert result["complete"]
    assert result["about"]["vllm==0.26.0"]["release"] == "vllm==0.26.0+cu129"
    for one in result["records"]:
        assert "missing" not in one  # nothing is
        assert not one["lossy"]
        assert "invalid_slots" not in one
        assert one["agrees"] == (not one["recorded_lossy"] or one.get("undecided", False))
        assert one["recorded_lossy"] in (True, False)
    assert result["summary"]["all"]["cases"] == len(result["records"]) == 4
    assert "1/1 s057-one_bin: 4 records" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_a_release_that_is_not_there_differs(behave: Behave, tmp_path: Path) -> None:
    behave("exact")
    output = tmp_path / "result.json"
    code = truth_vendor.main(
        ["--output", str(output), "--releases", "vllm==0.33.0", "--device", "cpu", "--cases", "s089*"]
    )
    assert code == 1
    records = json.loads(output.read_text())["records"]
    assert {len(one["refused"]) for one in records} == {1}
    assert not any(one["agrees"] for one in records)


def test_libraries_in_plain_folders_are_found(tmp_path: Path) -> None:
    home = tmp_path / "vllm-0.20.2"
    home.mkdir()
    (home / "_C.abi3.so").write_bytes(b"persistent_topk(Tensor")
    (home / "_C_stable_libtorch.abi3.so").write_bytes(b"nothing of it")
    find = truth_vendor.libraries(tmp_path)
    assert find("vllm==0.20.2").library_for("vllm.persistent_topk", (9, 0)).name == "_C.abi3.so"
    with pytest.raises(LookupError):
        find("vllm==0.24.0")
