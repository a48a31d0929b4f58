"""Calls of one row: what all of them amount to, and the worst one with its selection."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import torch

import workbench as wb
from tests.fakes import Releases, clean, faults, loses, refuses
from tests.ui.conftest import K, make_capture
from workbench.engines.launch import Answer, Launch
from workbench.errors import UsageError
from workbench.runs import launched
from workbench.runs.called import Called, call_kernel, call_op, called_sentence, rows_of_call
from workbench.runs.case import Case

RELEASE = "vllm==0.26.0"


@pytest.fixture
def capture(tmp_path: Path) -> wb.Capture:
    """Three rows of one call, the second of which lies in a single coarse bin."""
    return wb.open(make_capture(tmp_path / "bad-row.safetensors"))


def called(capture: wb.Capture, fake: Releases, number: int = 1, calls: int = 10) -> Called:
    rows, at = rows_of_call(capture, number)
    with closing(fake(RELEASE)) as engine:
        return call_op(Case(capture[number]), engine, rows, at, calls)


def test_the_worst_call_is_shown_whatever_its_place(capture: wb.Capture) -> None:
    def third(launch: Launch, calls: int) -> Answer:
        mixed = clean(launch, calls)
        assert mixed.indices is not None
        mixed.indices[2] = loses(7)(launch, 1).indices[0]  # type: ignore[index]
        return mixed

    found = called(capture, Releases({"0.26.0": third}))
    assert (found.calls, found.lost, found.least, found.most, found.repeatability) == (10, 1, 0, 7, "values vary")
    assert (found.worst.line.repeat, found.worst.line.verdict, found.worst.line.missing) == (2, "lossy", 7)
    assert found.worst.verdict is not None
    assert found.worst.verdict.missing == 7
    assert found.worst.risk is not None
    assert found.worst.risk.path == "vllm.histogram_256"
    said = "10 calls of it on fake, values vary: 1 lost winners or returned invalid slots, 0 to 7 missing"
    assert called_sentence(found, "it") == f"{said}; shown is the worst."
    assert called_sentence(called(capture, Releases({"0.26.0": clean}), calls=1), "it") == (
        "1 call of it on fake: none lost winners."
    )


def test_a_selection_is_that_of_the_row_that_was_asked_for(capture: wb.Capture) -> None:
    for number in range(3):
        found = called(capture, Releases({"0.26.0": clean}), number)
        assert found.worst.selection is not None
        assert sorted(found.worst.selection.indices.tolist()) == sorted(
            torch.topk(capture[number].scores, K).indices.tolist()
        )
        assert found.worst.line.row == number


def test_a_call_that_is_not_all_there_is_laid_alone(tmp_path: Path, capture: wb.Capture) -> None:
    assert [len(rows_of_call(capture, 1)[0]), rows_of_call(capture, 1)[1]] == [3, 1]
    wb.write(tmp_path / "part.safetensors", [capture[1], capture[2]])
    part = wb.open(tmp_path / "part.safetensors")
    rows, at = rows_of_call(part, 1)
    assert ([row.index for row in rows], at) == ([1], 0)
    fake = Releases({"0.26.0": loses(3)})
    found = called(part, fake)
    assert fake.batches == [(0,)]
    assert found.worst.line.note is not None
    assert "laid alone, in 3 equal copies" in found.worst.line.note
    assert found.most == 3


def test_answers_in_several_parts_are_put_together(capture: wb.Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launched, "ANSWER_LIMIT", 4 * K * 3 * 4)  # four calls at a time
    found = called(capture, Releases({"0.26.0": loses(5)}))
    assert (found.calls, found.lost, found.least) == (10, 10, 5)


def test_why_there_is_no_selection(capture: wb.Capture) -> None:
    for does, why in ((refuses("too old", "too wide"), "too old; too wide"), (faults("it hung"), "it hung")):
        found = called(capture, Releases({"0.26.0": does}))
        assert (found.calls, found.worst.selection, found.why_none) == (0, None, why)
    row = wb.Row(torch.randn(900), 900, call=wb.Call(k=5, op="vllm.persistent_topk", release=RELEASE))
    with closing(Releases({"0.26.0": clean})(RELEASE)) as engine:
        assert "how many rows the call had is not known" in call_op(Case(row), engine, [row], 0, 10).why_none
    with pytest.raises(UsageError):
        Releases({})(RELEASE)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_a_kernel_without_a_gpu_says_so(capture: wb.Capture) -> None:
    found = call_kernel(Case(capture[1]), "vllm.histogram_256", "stock", 10)
    assert (found.calls, found.worst.selection) == (0, None)
    assert "no CUDA device is visible to torch" in found.why_none
