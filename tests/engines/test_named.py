"""Callables by name: each in a process of its own, whatever it does there."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.engines.conftest import descriptors, gone, session
from tests.engines.test_callable import launch
from workbench.engines.callable import CallableEngine
from workbench.engines.named import NamedEngine, named_engine
from workbench.engines.timing import Sampling
from workbench.errors import UsageError

pytestmark = pytest.mark.usefixtures("forked_workers")
WAYS = """
import ctypes, os, signal, subprocess, sys, time
import torch

calls = 0


def best(scores, lengths, k):
    return torch.topk(scores, k)


def seen(scores, lengths, k, starts):
    told = [scores.stride(0), len(scores), k, *starts.tolist(), *lengths.tolist(), int(scores.is_contiguous())]
    out = torch.full((len(scores), k), -1)
    out.view(-1)[: len(told)] = torch.tensor(told)
    return out


def writes(scores, lengths, k):
    found = torch.topk(scores, k)
    scores.zero_()
    return found


def counts(scores, lengths, k):
    global calls
    calls += 1
    return torch.full((len(scores), k), calls)


def hangs(scores, lengths, k):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
    time.sleep(600)


def locks(scores, lengths, k):
    ctypes.PyDLL(None).sleep(600)


def crashes(scores, lengths, k):
    print("just before")
    os.kill(os.getpid(), signal.SIGSEGV)


def leaves(scores, lengths, k):
    sys.exit(3)


def leaves_at_once(scores, lengths, k):
    os._exit(3)


def interrupts(scores, lengths, k):
    raise KeyboardInterrupt


def raises(scores, lengths, k):
    raise ValueError("no way")


class Mute(Exception):
    def __str__(self):
        raise RuntimeError


def mutely(scores, lengths, k):
    raise Mute


def second_crashes(scores, lengths, k):
    global calls
    calls += 1
    if calls == 2:
        os.abort()
    return torch.topk(scores, k)


def floods(scores, lengths, k):
    while True:
        os.write(1, b"x" * 65536)


def forks(scores, lengths, k):
    os.fork()
    return torch.topk(scores, k)


def closes_everything(scores, lengths, k):
    os.closerange(3, 256)
    return torch.topk(scores, k)


def moves(scores, lengths, k):
    os.chdir("/")
    sys.path.clear()
    return torch.topk(scores, k)
"""
MUTE = "class Mute(Exception):\n    def __str__(self): raise RuntimeError\nraise Mute"
FAULTS = {
    "hangs": "call 1 of 2 of ways:hangs did not return within 2 s: it hangs, or takes longer than that",
    "locks": "call 1 of 2 of ways:locks did not return within 2 s: it hangs, or takes longer than that",
    "floods": "call 1 of 2 of ways:floods did not return within 2 s: it hangs, or takes longer than that",
    "crashes": "call 1 of 2 of ways:crashes: the process ended by signal 11 (SIGSEGV); it printed last: just before",
    "second_crashes": "call 2 of 2 of ways:second_crashes: the process ended by signal 6 (SIGABRT)",
    "leaves_at_once": "call 1 of 2 of ways:leaves_at_once: the process ended with exit code 3",
    "leaves": "ways:leaves raised SystemExit: 3",
    "interrupts": "ways:interrupts raised KeyboardInterrupt",
    "raises": "ways:raises raised ValueError: no way",
    "mutely": "ways:mutely raised Mute",
}


@pytest.fixture
def ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the module ``ways``, the current one."""
    (tmp_path / "ways.py").write_text(WAYS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def opened(name: str, **more: Any) -> NamedEngine:
    return named_engine(f"ways:{name}", **({"call_s": 2.0} | more))


def test_the_contract_is_that_of_a_callable_in_this_process(ways: Path) -> None:
    asked = launch(k=8, starts=torch.tensor([0, 3], dtype=torch.int32), slots=(1, 0))
    for name in ("seen", "writes"):
        with opened(name) as engine:
            found = engine.answer(asked if name == "seen" else launch(), 3)
        scope: dict[str, Any] = {}
        exec(WAYS, scope)
        here = CallableEngine(scope[name], f"ways:{name}").answer(asked if name == "seen" else launch(), 3)
        assert found.indices is not None
        assert here.indices is not None
        assert torch.equal(found.indices, here.indices)
        assert (found.about, found.notes) == (here.about, here.notes)
    assert here.notes == ("ways:writes wrote to its scores",)


def test_it_is_one_process_for_all_calls_and_launches(ways: Path) -> None:
    before = descriptors()
    with opened("counts") as engine:
        assert [engine.answer(launch(), 2).indices[:, 0, 0].tolist() for _ in range(2)] == [[1, 2], [3, 4]]  # type: ignore[index]
    assert descriptors() <= before


@pytest.mark.parametrize("name", FAULTS)
def test_what_it_does_instead_of_returning_is_told_and_survived(ways: Path, name: str) -> None:
    with opened(name) as engine:
        pid = engine._worker.pid
        assert pid is not None
        asked = engine.answer(launch(), 2)
        assert (asked.indices, asked.refused) == (None, ())
        assert asked.fault == FAULTS[name]
        kept = "raised" in asked.fault
        assert (engine._worker.pid == pid) == kept, "a process that raised is sound"
        assert kept or gone(pid), session(pid)
        again = engine.answer(launch(), 1)
        if name == "second_crashes":
            assert again.indices is not None, "a fresh process answers"
        else:
            assert again.fault == FAULTS[name].replace("1 of 2", "1 of 1")


def test_it_is_timed_where_it_runs(ways: Path) -> None:
    sampling = Sampling(samples=4, warmups=1)
    with opened("counts", call_s=30) as engine:
        found = engine.timed(launch(), sampling)
    assert found.indices is not None
    assert found.indices[:, 0, 0].tolist() == [1, 7]  # before and after the timed calls
    assert found.times is not None
    assert len(found.times.seconds) == 4
    with opened("second_crashes") as engine:
        fault = engine.timed(launch(), sampling).fault
    assert fault == "timed call 1 of 5 of ways:second_crashes: the process ended by signal 6 (SIGABRT)"


def test_it_has_as_many_threads_as_the_caller(ways: Path) -> None:
    (ways / "threads.py").write_text(
        "import torch\ndef f(scores, lengths, k):\n    return torch.full((len(scores), k), torch.get_num_threads())\n"
    )
    before = torch.get_num_threads()
    try:
        with named_engine("threads:f") as engine:
            for count in (1, 2):
                torch.set_num_threads(count)
                found = engine.answer(launch())
                assert found.indices is not None
                assert int(found.indices[0, 0, 0]) == count
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["forks", "moves"])
def test_what_it_does_beside_returning_disturbs_nothing(ways: Path, name: str) -> None:
    with opened(name, call_s=30) as engine:
        for _ in range(3):
            found = engine.answer(launch(), 2)
            assert found.indices is not None
            assert found.indices.tolist() == [[[7, 6, 5]] * 2] * 2


def test_a_worker_that_cannot_answer_any_more_is_told(ways: Path) -> None:
    with opened("closes_everything", call_s=30) as engine:
        assert engine.answer(launch()).fault


def test_what_it_prints_is_heard(ways: Path) -> None:
    heard: list[bytes] = []
    with opened("crashes", heard=heard.append) as engine:
        engine.answer(launch())
    assert b"".join(heard) == b"just before\n"


def test_a_flood_is_taken_in_parts(ways: Path) -> None:
    sizes: list[int] = []
    with opened("floods", heard=lambda part: sizes.append(len(part))) as engine:
        engine.answer(launch())
    assert max(sizes) <= 4096


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import os; os.abort()", "their:f cannot be used: importing their: the process ended by signal 6 (SIGABRT)"),
        ("import time; time.sleep(600)", "their:f cannot be used: importing their did not return within 1 s"),
        ("raise SystemExit(0)", "importing their failed: SystemExit: 0"),
        (MUTE, "importing their failed: Mute"),
        ("1 / 0", "importing their failed: ZeroDivisionError: division by zero"),
        ("def f(:", "importing their failed: SyntaxError"),
        ("", "their has no 'f'"),
    ],
)
def test_a_module_that_cannot_be_had_is_bad_input_and_leaves_nothing(ways: Path, text: str, said: str) -> None:
    (ways / "their.py").write_text(text)
    before = descriptors()
    with pytest.raises(UsageError) as refused:
        named_engine("their:f", call_s=1, load_s=1)
    assert said in str(refused.value)
    assert descriptors() <= before


def test_modules_are_imported_before(ways: Path) -> None:
    (ways / "registers.py").write_text(
        "import torch\nlibrary = torch.library.Library('workbench_test_named', 'DEF')\n"
        "library.define('topk(Tensor scores, Tensor lengths, int k) -> Tensor')\n"
        "library.impl('topk', lambda scores, lengths, k: torch.topk(scores, k).indices, 'CPU')\n"
    )
    name = "torch.ops.workbench_test_named.topk"
    with pytest.raises(UsageError, match="import what registers it"):
        named_engine(name)
    with named_engine(name, imports=["registers"]) as engine:
        found = engine.answer(launch())
        os.kill(engine._worker.pid or 0, 9)
        time.sleep(0.2)
        assert engine.answer(launch()).fault
        again = engine.answer(launch())
    assert found.indices is not None
    assert again.indices is not None
    assert torch.equal(found.indices, again.indices)
    with pytest.raises(UsageError, match="is no name of a module"):
        named_engine(name, imports=["a b"])


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "3"])
def test_a_timeout_is_a_positive_number(ways: Path, seconds: Any) -> None:
    with pytest.raises(UsageError, match="a positive number of seconds is needed"):
        opened("best", call_s=seconds)
