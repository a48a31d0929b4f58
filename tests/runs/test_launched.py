"""Engines that stand for a whole op: their answers become lines, with verdicts, routes, refusals and faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

import workbench as wb
from tests.runs.test_run import bad_row
from workbench.engines.launch import Answer, Launch, OpEngine
from workbench.runs import launched
from workbench.runs.engines import release_called
from workbench.runs.launched import run_launched


def exact(launch: Launch) -> torch.Tensor:
    """What a correct op selects, int32 [slots, k]."""
    found = torch.full((len(launch.slots), launch.k), -1, dtype=torch.int32)
    for at, slot in enumerate(launch.slots):
        best = launch.scores[slot, : int(launch.lengths[slot])].sort(descending=True, stable=True).indices[: launch.k]
        found[at, : best.numel()] = best
    return found


class Fake:
    """An op engine that answers as it is told, call by call."""

    name = "vendor"

    def __init__(self, answer: Callable[[Launch, int], Answer], release: str | None = "vllm==0.26.0") -> None:
        self.release, self._answer = release, answer
        self.launches: list[Launch] = []
        self.calls: list[int] = []
        self.closed = False

    def answer(self, launch: Launch, calls: int = 1) -> Answer:
        self.launches.append(launch)
        self.calls.append(calls)
        return self._answer(launch, calls)

    def close(self) -> None:
        self.closed = True


def right(launch: Launch, calls: int) -> Answer:
    return Answer(exact(launch).expand(calls, -1, -1), about={"gpu": "a GPU"}, notes=("as noted",))


def test_every_row_and_call_is_a_line_with_route_and_risk() -> None:
    engine: OpEngine = Fake(right)
    report = run_launched(bad_row(), engine, 3)
    assert [(line.repeat, line.verdict, line.missing) for line in report] == [(at, "exact", 0) for at in range(3)]
    line = report.lines[0]
    assert (line.engine, line.op, line.release, line.path, line.variant, line.reached) == (
        "vendor",
        "vllm.persistent_topk",
        "vllm==0.26.0",
        "vllm.histogram_256",
        "stock",
        True,
    )
    assert (line.risk, line.population, line.capacity) == ("at risk", 5000, 4096)
    assert (line.repeatability, line.note) == ("same", "as noted")
    assert (line.capture, line.row, line.dtype, line.length, line.k) == ("test", 4, "float32", 20000, 2048)
    assert report.about == {"vllm==0.26.0": {"gpu": "a GPU"}}
    assert report.loses  # the row is at risk on the path that the release takes


def test_the_route_is_of_the_release_that_is_called() -> None:
    paths = {}
    for release in ("vllm==0.26.0", "vllm==0.29.0", "vllm==99.0", "sglang-kernel==0.4.6"):
        line = run_launched(bad_row(), Fake(right, release)).lines[0]
        assert (line.release, line.verdict) == (release, "exact")
        paths[release] = (line.path, line.risk)
    assert paths["vllm==0.26.0"][1] == "at risk"
    assert paths["vllm==99.0"] == paths["sglang-kernel==0.4.6"] == (None, None)


def test_losses_unwritten_slots_and_what_varies() -> None:
    def answer(launch: Launch, calls: int) -> Answer:
        found = exact(launch).repeat(calls, 1, 1)
        found[1] = found[1].flip(-1)
        if calls > 2:
            found[2, 0, 5] = -777
            found[3, 0, 7] = int(found[3, 0, 8])
        return Answer(found)

    report = run_launched(bad_row(), Fake(answer), 4)
    assert [line.verdict for line in report] == ["exact", "exact", "invalid", "invalid"]
    assert (report.lines[2].unwritten, report.lines[3].duplicates) == (1, 1)
    assert {line.repeatability for line in report} == {"values vary"}
    assert {line.repeatability for line in run_launched(bad_row(), Fake(answer), 2)} == {"order varies"}
    assert run_launched(bad_row(), Fake(right)).lines[0].repeatability is None


def test_a_whole_call_is_one_launch_and_lines_are_in_the_order_of_rows() -> None:
    rows = [bad_row(rows=3).with_call(rows=3) for _ in range(3)]
    engine, other = Fake(right), Fake(right, "vllm==0.29.0")
    done: list[int] = []
    report = run_launched(wb.Capture.from_rows(rows), [engine, other], 2, progress=done.append)
    assert len(engine.launches) == len(other.launches) == 1
    assert [(line.row, line.release, line.repeat) for line in report] == [
        (row, release, repeat) for row in range(3) for release in ("vllm==0.26.0", "vllm==0.29.0") for repeat in (0, 1)
    ]
    assert done == [3]


def test_a_refused_row_is_one_line_and_is_no_loss_of_its_own() -> None:
    report = run_launched(bad_row(), Fake(lambda *_: Answer(refused=("k is odd", "no GPU"))), 5)
    assert report.lines[0].risk == "at risk"
    assert [(line.refused, line.verdict, line.finding) for line in report] == [("k is odd; no GPU", None, None)]
    assert not report.loses
    assert not report.judged


def test_a_launch_that_cannot_be_made_is_never_asked_for() -> None:
    engine = Fake(right)
    row = bad_row()
    report = run_launched(wb.Row(row.scores, row.length, call=wb.Call(k=2048)), engine)
    assert "--rows" in (report.lines[0].refused or "")
    assert "--op" in (report.lines[0].refused or "")
    assert engine.launches == []


def test_a_fault_is_a_finding_and_ends_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launched, "ANSWER_LIMIT", 2 * 4 * 2048)

    def answer(launch: Launch, calls: int) -> Answer:
        return right(launch, calls) if len(engine.calls) < 2 else Answer(fault="it hung for 30 s")

    engine = Fake(answer, "vllm==99.0")
    report = run_launched(bad_row(), engine, 7)
    assert engine.calls == [2, 2]
    assert [line.verdict for line in report] == ["exact", "exact", None]
    assert (report.lines[2].finding, report.lines[2].refused, report.lines[2].repeat) == ("it hung for 30 s", None, 2)
    assert report.loses


def test_calls_are_asked_for_in_parts_and_counted_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launched, "ANSWER_LIMIT", 3 * 4 * 2048)
    engine = Fake(right)
    assert [line.repeat for line in run_launched(bad_row(), engine, 8)] == list(range(8))
    assert engine.calls == [3, 3, 2]


def test_an_answer_of_another_shape_is_no_selection() -> None:
    with pytest.raises(wb.UsageError, match=r"vendor answered with selections \[1, 2048\]; \[2, 1, 2048\] is needed"):
        run_launched(bad_row(), Fake(lambda launch, _: Answer(exact(launch))), 2)


def test_vendor_by_name_is_made_for_the_release_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Fake] = []

    def vendor_engine(release: str | None, call_s: float | None) -> Fake:
        assert call_s is None
        made.append(Fake(right, release))
        return made[-1]

    monkeypatch.setattr("workbench.runs.engines.vendor_engine", vendor_engine)
    assert wb.run(bad_row(), engine="vendor").lines[0].release == "vllm==0.26.0"
    assert wb.run(bad_row(), engine="vendor", release="vllm==0.30.0").lines[0].release == "vllm==0.30.0"
    assert wb.run(bad_row(release=None), engine="vendor").lines[0].release is None
    assert made[-1].release is None  # what is installed
    with pytest.raises(wb.UsageError, match=r"rows are of vllm==0\.26\.0 and vllm==0\.29\.0"):
        wb.run([bad_row(), bad_row(release="vllm==0.29.0")], engine="vendor")
    assert all(one.closed for one in made)


def test_what_is_installed_is_called_where_neither_run_nor_capture_names_a_release_of_the_op() -> None:
    call = bad_row().call
    for op, given, own, called in (
        (None, None, "vllm==0.26.0", "vllm==0.26.0"),
        (None, "vllm==0.30.0", "vllm==0.26.0", "vllm==0.30.0"),
        (None, None, None, None),
        ("sglang.fast_topk_v2", None, "vllm==0.26.0", None),
        ("sglang.fast_topk_v2", None, "sgl-kernel==0.3.21", "sgl-kernel==0.3.21"),
        ("sglang.fast_topk_v2", "vllm==0.26.0", None, "vllm==0.26.0"),  # which the engine refuses with the reason
        ("torch.topk", None, "torch==2.11.0", "torch==2.11.0"),
    ):
        assert release_called(replace(call, release=own), op, given) == called


def test_lines_are_of_the_release_that_ran_and_say_what_it_was() -> None:
    about = {"release": "vllm==0.26.0+cu129", "from": "installed", "torch": "2.11.0", "gpu": "an H200"}
    about |= {"library": "/a/b/_C.abi3.so", "sha256": "0123456789abcdef"}
    engine = Fake(lambda launch, calls: Answer(exact(launch).expand(calls, -1, -1), about=about), None)
    report = run_launched(bad_row(release=None), engine)
    (line,) = report
    assert (line.release, line.path) == ("vllm==0.26.0", "vllm.histogram_256")
    assert line.ran == "vllm==0.26.0+cu129 (installed), _C.abi3.so 0123456789ab, torch 2.11.0, an H200"
    assert report.about == {"vllm==0.26.0+cu129": about}


def test_engines_of_all_kinds_side_by_side() -> None:
    mine = Fake(right, None)
    mine.name = "mine"
    report = wb.run([bad_row(), bad_row()], engine=["model", mine, "recorded"], repeats=2, paths="vllm.fi*")
    first = report.lines[: len(report) // 2]
    assert [line.engine for line in first] == ["model", "model", "mine", "mine", "recorded"]
    assert {line.path for line in first if line.engine == "model"} == {"vllm.filtered"}
    assert not mine.closed  # who made it closes it


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ("nope", "unknown engine 'nope'; known engines: model, cuda, recorded, vendor"),
        ([], "no engine is given"),
        (["model", "model"], "model is given twice"),
        (3, "engine is 3; it must be text, an OpEngine, a function or a sequence"),
        (None, "engine is None; it must be text"),
    ],
)
def test_what_is_no_engine_is_said(engine: object, said: str) -> None:
    with pytest.raises(wb.UsageError, match=said):
        wb.run(bad_row(), engine=engine)  # type: ignore[arg-type]


def test_paths_are_not_for_engines_that_stand_for_the_op() -> None:
    with pytest.raises(wb.UsageError, match="leave paths and variants as they are"):
        wb.run(bad_row(), engine=Fake(right), paths="vllm.*")


def test_wrong_circumstances_are_said() -> None:
    with pytest.raises(wb.UsageError, match="repeats is 0"):
        run_launched(bad_row(), Fake(right), 0)
    with pytest.raises(wb.UsageError, match="no release"):
        run_launched(bad_row(), Fake(right, None), release="nonsense")
    with pytest.raises(wb.UsageError, match="unknown op"):
        run_launched(bad_row(), Fake(right), op="nope")
