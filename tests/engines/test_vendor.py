"""The vendor engine over packages that keep the contracts of the real ones, in real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.engines.conftest import VERSIONS, Behave, descriptors, gone, session
from workbench.analysis.verdict import judge
from workbench.engines.launch import Answer, Launch
from workbench.engines.registry import vendor_engine
from workbench.engines.vendor.adapters import ADAPTERS
from workbench.engines.vendor.engine import NO_DEVICE, VendorEngine
from workbench.engines.vendor.runner import OWN_OUTPUT
from workbench.engines.vendor.sources import Stored
from workbench.errors import UsageError, WorkbenchError
from workbench.numeric.select import exact_topk
from workbench.paths.selection import UNWRITTEN
from workbench.vendor.release import Wheel

ROWS, WIDTH, STRIDE = 3, 4099, 4224
pytestmark = pytest.mark.usefixtures("forked_workers")
LENGTHS = (4099, 3000, 100)


def launch(op: str, *, starts: bool = False, seed: int = 0, **change: object) -> Launch:
    """A launch that the op takes: padded rows of three lengths, two of them captured, in another order."""
    adapter = ADAPTERS[op]
    k = 1024 if op == "vllm.top_k_per_row_decode" else adapter.ks[-1] if adapter.ks else 512
    stride = WIDTH if adapter.contiguous else STRIDE
    base = torch.randn((ROWS, stride), generator=torch.Generator().manual_seed(seed)).to(adapter.dtypes[0])
    begins = torch.tensor([5, 1090, 3999], dtype=torch.int32) if starts else None
    lengths = torch.tensor([4094, 3000, 100] if starts else LENGTHS, dtype=torch.int32)
    made = Launch(op, k, base[:, :WIDTH], lengths, WIDTH, starts=begins, slots=(2, 0))
    return replace(made, **change)


def kinds(given: Launch, answer: Answer) -> set[str]:
    """The verdicts over all calls and slots."""
    assert answer.indices is not None, answer
    assert answer.indices.dtype == torch.int32
    assert answer.indices.shape[1:] == (len(given.slots), given.k)
    found = set()
    for call in answer.indices:
        for slot, indices in zip(given.slots, call, strict=True):
            start = 0 if given.starts is None else int(given.starts[slot])
            scores = given.scores[slot, start : start + int(given.lengths[slot])]
            exact = torch.full((given.k,), -1)
            best = exact_topk(scores, given.k)
            exact[: best.numel()] = best
            found.add(judge(scores, exact, indices, UNWRITTEN).kind)
    return found


@pytest.fixture
def engine(behave: Behave) -> Iterator[VendorEngine]:
    behave("exact")
    with vendor_engine(device="cpu", call_s=60) as made:
        yield made


def test_every_op_is_called_by_its_contract(engine: VendorEngine) -> None:
    for op, adapter in ADAPTERS.items():
        given = launch(op)
        before = given.scores.clone()
        answer = engine.answer(given, calls=3)
        assert kinds(given, answer) <= {"exact", "ties"}, (op, answer)
        assert answer.indices is not None
        assert answer.indices.shape[0] == 3
        assert answer.notes == ()
        assert torch.equal(given.scores, before)
        names = {
            "vllm": "vllm",
            "sglang-kernel": "sglang-kernel",
            "sglang": "sglang",
            "flashinfer": "flashinfer-python",
        }
        name = names[adapter.package]
        assert answer.about["release"] == f"{name}=={VERSIONS[name]}"
        assert answer.about["torch"] == torch.__version__
        assert Path(answer.about["library"]).is_file()
        assert len(answer.about["sha256"]) == 64


def test_rows_start_where_the_launch_says(engine: VendorEngine) -> None:
    for op, adapter in ADAPTERS.items():
        given = launch(op, starts=True)
        if op == "flashinfer.top_k_ragged_transform":
            continue  # this stand-in is of a release without starts
        answer = engine.answer(given, calls=2)
        if adapter.starts:
            assert kinds(given, answer) <= {"exact", "ties"}, (op, answer)
            alone = replace(
                given, scores=given.scores[:1], lengths=given.lengths[:1], starts=given.starts[:1], slots=(0,)
            )
            assert kinds(alone, engine.answer(alone)) <= {"exact", "ties"}, op
        else:
            assert answer.refused == (f"{op} takes rows that start at cell 0 only",)


def test_what_is_lost_or_never_written_comes_back_as_it_is(behave: Behave) -> None:
    ops = ("vllm.persistent_topk", "sglang.kpool_topk_transform")
    for how, kind in (("lossy", {"lossy", "exact"}), ("leaves slots", {"invalid"}), ("breaks groups", {"invalid"})):
        behave(how)
        for op in ops if how != "breaks groups" else ops[1:]:
            given = launch(op)
            with vendor_engine(device="cpu") as engine:
                answer = engine.answer(given)
            assert kinds(given, answer) == kind, (how, op)
            if how == "leaves slots":
                assert answer.indices is not None
                assert int((answer.indices == UNWRITTEN).sum()) == len(given.slots) * (2 if "kpool" in op else 3)


def test_an_output_that_cannot_be_poisoned_is_said(behave: Behave) -> None:
    behave("own memory")
    given = launch("sglang.kpool_topk_transform")
    with vendor_engine(device="cpu") as engine:
        answer = engine.answer(given)
    assert answer.notes == (OWN_OUTPUT,)
    assert kinds(given, answer) <= {"exact", "ties"}


def test_noise_does_not_disturb_the_answers(behave: Behave) -> None:
    behave("prints")
    given = launch("vllm.persistent_topk")
    with vendor_engine(device="cpu") as engine:
        assert kinds(given, engine.answer(given, calls=3)) <= {"exact", "ties"}


CALL = "call 1 of 2 of vllm.persistent_topk"
HANGS = f"{CALL} did not return within 2 s: it hangs, or takes longer than that"
FAULTS = {
    "hangs": HANGS,
    "hangs holding the lock": HANGS,
    "crashes": f"{CALL}: the process ended by signal 11 (SIGSEGV); it printed last: before the crash",
    "exits": f"{CALL}: the process ended with exit code 3",
    "illegal access": "CUDA error: an illegal memory access was encountered",
    "raises": "ValueError: persistent_topk would oversubscribe the device",
}


@pytest.mark.parametrize("how", FAULTS)
def test_a_fault_is_told_and_survived(how: str, behave: Behave) -> None:
    before = descriptors()
    given = launch("vllm.persistent_topk")
    with vendor_engine(device="cpu", call_s=2) as engine:
        behave(how)
        asked = engine.answer(given, calls=2)
        (worker,) = (opened.worker for opened in engine._workers.values())
        assert worker.pid is None
        assert asked.fault == FAULTS[how]
        assert asked.indices is None
        assert asked.about["release"] == "vllm==0.26.0+cu129"
        behave("exact")
        assert kinds(given, engine.answer(given)) <= {"exact", "ties"}, "a fresh process answers"
        pid = worker.pid
        assert pid is not None
        assert session(pid)
    assert gone(pid, 0), "closing waits for the end"
    del given
    assert descriptors() <= before


def test_a_call_is_stopped_by_ending_its_process(behave: Behave) -> None:
    behave("hangs")
    stop = threading.Event()
    with vendor_engine(device="cpu", call_s=60, stop=stop) as engine:
        threading.Timer(1.0, stop.set).start()
        assert engine.answer(launch("vllm.persistent_topk"), calls=2).fault.endswith(" was stopped")
        assert [opened.worker.pid for opened in engine._workers.values()] in ([], [None])


def test_the_session_of_a_hung_library_is_ended_whole(behave: Behave) -> None:
    behave("hangs with a compiler")
    found = []

    class Watched(VendorEngine):
        def _called(self, *given: Any) -> Answer:
            found.extend(opened.worker.pid for opened in self._workers.values())
            return super()._called(*given)

    with Watched(device="cpu", call_s=2) as engine:
        assert "did not return within 2 s" in engine.answer(launch("vllm.persistent_topk")).fault
    (pid,) = found
    assert gone(pid, 5), session(pid)


SCRIPT = """
import sys, torch
from workbench.engines.launch import Launch
from workbench.engines.vendor.engine import VendorEngine

class Told(VendorEngine):
    def _called(self, *given):
        print(*(one.worker.pid for one in self._workers.values()), flush=True)
        return super()._called(*given)

rows = torch.randn(2, 4096)
given = Launch("vllm.persistent_topk", 512, rows, torch.full((2,), 4096, dtype=torch.int32), 4096)
with Told(device="cpu", call_s=600) as engine:
    engine.answer(given)
"""


@pytest.mark.parametrize(
    ("how", "sent"),
    [
        ("hangs with a compiler", signal.SIGINT),
        ("hangs", signal.SIGKILL),
        ("hangs holding the lock", signal.SIGKILL),
    ],
)
def test_workers_end_with_the_process_that_started_them(how: str, sent: signal.Signals, behave: Behave) -> None:
    behave(how)
    shared = set(os.listdir("/dev/shm"))  # noqa: PTH208
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as script:
        assert script.stdout is not None
        assert script.stderr is not None
        pid = int(script.stdout.readline())
        time.sleep(1.5)  # into the call
        assert session(pid)
        script.send_signal(sent)
        said = script.stderr.read()
        script.wait(10)
    assert ("KeyboardInterrupt" in said) == (sent == signal.SIGINT)
    assert gone(pid), session(pid)
    assert set(os.listdir("/dev/shm")) <= shared  # noqa: PTH208


class Folder(Stored):
    """A store of one file, whatever it is."""

    def __init__(self, file: Path, broken: str = "") -> None:
        self.file, self.broken = file, broken

    def library_for(self, op: str, capability: tuple[int, int]) -> Path:
        if self.broken:
            raise WorkbenchError(self.broken)
        if op == "vllm.cooperative_topk":
            raise UsageError("no library of vllm==0.33.0 has vllm.cooperative_topk")
        return self.file


def test_a_library_that_does_not_load_says_why(tmp_path: Path) -> None:
    library = tmp_path / "_C.abi3.so"
    library.write_bytes(b"no library")
    with VendorEngine("vllm==0.33.0", device="cpu", finder=lambda wheel: Folder(library)) as engine:
        answer = engine.answer(launch("vllm.persistent_topk"))
        assert answer.fault == f"the library does not load: {library}: file too short"
        assert answer.about["release"] == "vllm==0.33.0"
        assert engine.answer(launch("vllm.cooperative_topk")).refused == (
            "no library of vllm==0.33.0 has vllm.cooperative_topk",
        )
    broken = "vllm==0.33.0: a file is not the one that was stored"
    with VendorEngine("vllm==0.33.0", device="cpu", finder=lambda wheel: Folder(library, broken)) as engine:
        assert engine.answer(launch("vllm.persistent_topk")).refused == (broken,)


def test_a_damaged_entry_of_the_store_is_said_and_not_passed_over(behave: Behave) -> None:
    behave("exact")

    def damaged(wheel: Wheel) -> Stored:
        raise WorkbenchError(f"{wheel}: no manifest of a release")

    with VendorEngine("vllm==0.26.0", device="cpu", finder=damaged) as engine:
        assert engine.answer(launch("vllm.persistent_topk")).refused == ("vllm==0.26.0: no manifest of a release",)


def test_the_symbol_that_a_library_lacks_is_named(tmp_path: Path) -> None:
    source, library = tmp_path / "lacks.c", tmp_path / "_C_stable_libtorch.abi3.so"
    source.write_text("void of_another_torch(void); void *needs = (void *)of_another_torch;\n")
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    except FileNotFoundError:
        pytest.skip("no C compiler is here")
    with VendorEngine("vllm==0.33.0", device="cpu", finder=lambda wheel: Folder(library)) as engine:
        fault = engine.answer(launch("vllm.persistent_topk")).fault
    assert fault == f"the library does not load: {library}: undefined symbol: of_another_torch"


def test_a_library_without_the_op_is_refused(tmp_path: Path) -> None:
    library = torch.__file__.replace("__init__.py", "lib/libc10.so")
    with VendorEngine("vllm==0.33.0", device="cpu", finder=lambda wheel: Folder(Path(library))) as engine:
        answer = engine.answer(launch("vllm.persistent_topk"))
    assert answer.refused == ("torch.ops._C.persistent_topk is not there: the release does not register it",)


def nothing(wheel: Wheel) -> Stored:
    raise UsageError("it is not in the store")


REFUSED = {
    ("vllm==0.33.0", "vllm.persistent_topk"): "vllm==0.33.0 is not installed: vllm==0.26.0+cu129 is, and its libraries "
    "are not in the store; fetch them: workbench vendor add vllm==0.33.0",
    ("sglang==0.5.21", "sglang.topk_transform_paged_v2"): "sglang==0.5.21 is not installed: sglang==0.5.23 is; install "
    "it where the workbench runs: pip install sglang==0.5.21",
    (
        "vllm==0.26.0",
        "sglang.fast_topk_v2",
    ): "sglang.fast_topk_v2 belongs to sglang-kernel; vllm==0.26.0 has no such op",
}


@pytest.mark.parametrize(("release", "op"), REFUSED)
def test_a_release_that_is_not_there_is_refused_with_the_cure(release: str, op: str, behave: Behave) -> None:
    behave("exact")
    with VendorEngine(release, device="cpu", finder=nothing) as engine:
        assert engine.answer(launch(op)).refused == (REFUSED[release, op],)
        assert not engine._workers, "no process is started for that"


def test_without_any_package_the_install_line_is_given() -> None:
    with VendorEngine(device="cpu", finder=nothing) as engine:
        assert engine.answer(launch("sglang.topk_transform_paged_v2")).refused == (
            "sglang is not installed; install it where the workbench runs: pip install sglang",
        )
        assert engine.answer(launch("flashinfer.top_k_ragged_transform")).refused == (
            "flashinfer-python is not installed; install it where the workbench runs: pip install flashinfer-python",
        )
        (reason,) = engine.answer(launch("vllm.persistent_topk")).refused
        assert reason.endswith("fetch them: workbench vendor add vllm==VERSION")


def test_an_installed_release_is_found_without_its_local_part(behave: Behave) -> None:
    behave("exact")
    given = launch("vllm.persistent_topk")
    with VendorEngine("vllm==0.26.0", device="cpu", finder=nothing) as engine:
        assert kinds(given, engine.answer(given)) <= {"exact", "ties"}


def test_every_unmet_condition_is_told_at_once(behave: Behave) -> None:
    behave("exact")
    given = launch("vllm.cooperative_topk", k=700)
    wide = torch.randn(70, 4099).to(torch.float16)
    given = replace(given, scores=wide, lengths=torch.full((70,), 4099, dtype=torch.int32))
    with VendorEngine("vllm==0.30.0", finder=nothing) as engine:
        refused = engine.answer(given).refused
    assert refused == (
        "vllm==0.30.0 is not installed: vllm==0.26.0+cu129 is, and its libraries are not in the store; fetch them: "
        "workbench vendor add vllm==0.30.0",
        "vllm.cooperative_topk takes k 512, 1024 or 2048 only, not k 700",
        "vllm.cooperative_topk takes float32, not float16",
        "vllm.cooperative_topk takes row strides that are multiples of 8 float16, not 4099",
        "vllm.cooperative_topk takes at most 64 rows in this release, not 70",
        *([] if torch.cuda.is_available() else [NO_DEVICE]),
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_without_a_device_the_op_is_refused(behave: Behave) -> None:
    behave("exact")
    with vendor_engine("vllm==0.26.0") as engine:
        assert engine.answer(launch("vllm.persistent_topk")).refused == (NO_DEVICE,)


def test_a_hazard_is_told_and_not_run(behave: Behave) -> None:
    behave("exact")
    lengths = torch.tensor([4099, -1, 100], dtype=torch.int32)
    given = launch("vllm.persistent_topk", lengths=lengths)
    with vendor_engine("vllm==0.26.0", device="cpu") as engine:
        fault = engine.answer(given).fault
        assert fault.startswith("not called: row 1: length -1 is read as 4294967295 with max_seq_len 4099")
        assert "it hangs where a row takes more than one block" in fault
        clamped = launch("vllm.top_k_per_row_decode", lengths=lengths, slots=(0, 1, 2))
        answer = engine.answer(clamped)
        assert answer.indices is not None, "every slot of such a row is -1, as described"
        assert bool((answer.indices[0, 1] == -1).all())
        long = replace(given, lengths=torch.tensor([4099, 5000, 100], dtype=torch.int32))
        assert "reads past the row's width" in engine.answer(long).fault
        outside = launch("vllm.top_k_per_row_prefill", starts=True, slots=(0,))
        outside.starts[2] = -3  # type: ignore[index]
        assert engine.answer(outside).fault == "not called: row 2: the start is outside the row's 4099 cells"


def test_a_length_above_max_seq_len_is_a_hazard_where_blocks_wait(behave: Behave) -> None:
    behave("exact")
    rows = torch.randn(2, 40000)
    given = Launch("vllm.persistent_topk", 512, rows, torch.tensor([40000, 9], dtype=torch.int32), 32768)
    with vendor_engine("vllm==0.26.0", device="cpu") as engine:
        assert engine.answer(given).fault.startswith("not called: row 0: longer than 32768, and max_seq_len is 32768")
        assert engine.answer(replace(given, max_seq_len=40000)).fault == ""


def test_a_hazard_is_run_where_the_caller_says_so(behave: Behave) -> None:
    behave("hangs")
    given = launch("vllm.persistent_topk", lengths=torch.tensor([4099, -1, 100], dtype=torch.int32))
    with vendor_engine("vllm==0.26.0", device="cpu", call_s=1, allow_hazards=True) as engine:
        assert "did not return within 1 s" in engine.answer(given).fault


def test_one_batch_is_sent_once_and_seen_when_it_changes(engine: VendorEngine) -> None:
    first, other = launch("vllm.persistent_topk"), launch("vllm.persistent_topk", seed=1)
    for given in (first, first, other, first):
        assert kinds(given, engine.answer(given)) <= {"exact", "ties"}
    first.scores.neg_()
    assert kinds(first, engine.answer(first)) <= {"exact", "ties"}
    wider = replace(first, scores=torch.nn.functional.pad(first.scores, (0, 29))[:, :WIDTH])
    assert kinds(wider, engine.answer(wider)) <= {"exact", "ties"}


def test_a_launch_that_memory_cannot_hold_is_refused(engine: VendorEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert engine.answer(launch("vllm.persistent_topk", seed=7)).refused == (
        "there is no memory for a copy of the launch: [Errno 28] No space left on device",
    )


def test_engines_choices_and_unknown_ops_are_refused() -> None:
    given = launch("vllm.persistent_topk")
    with vendor_engine(device="cpu") as engine:
        for op, start in (
            ("vllm.sparse_indexer_topk", "vllm.sparse_indexer_topk is an engine's own choice among ops"),
            ("sglang.deepseek_v4_topk_transform_512", "the vendor engine does not know how"),
            ("", "the op is not known; give it (--op)"),
        ):
            (reason,) = engine.answer(replace(given, op=op)).refused
            assert reason.startswith(start)


@pytest.mark.parametrize(
    "change",
    [
        {"scores": torch.randn(ROWS)},
        {"scores": torch.ones(ROWS, 8, dtype=torch.int16)},
        {"scores": torch.randn(1, 8).expand(ROWS, 8)},
        {"scores": torch.randn(8, ROWS).T},
        {"lengths": torch.tensor(LENGTHS)},
        {"lengths": torch.ones(2, dtype=torch.int32)},
        {"starts": torch.ones(2, dtype=torch.int32)},
        {"k": 0},
        {"slots": ()},
        {"slots": (3,)},
        {"slots": (-1,)},
    ],
)
def test_what_is_no_launch_is_a_usage_error(change: dict[str, object]) -> None:
    with vendor_engine(device="cpu") as engine, pytest.raises(UsageError):
        engine.answer(replace(launch("vllm.persistent_topk"), **change))


def test_a_release_is_spelled_as_an_index_spells_it() -> None:
    with pytest.raises(UsageError, match="is no release"):
        vendor_engine("vllm-0.26")
