"""What passes between a process and its worker, and how the end of either is told."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from tests.engines.conftest import ROOT, Behave, descriptors, gone
from workbench.engines.worker.child import FaultError, told
from workbench.engines.worker.host import Worker, ending, environment
from workbench.engines.worker.wire import LENGTH, Channel, ClosedError, Parcel, pack

TENSORS = (
    torch.randn(3, 5),
    torch.randn(4, 6)[:, :3],
    torch.randn(4).to(torch.bfloat16),
    torch.tensor([float("nan"), -0.0, torch.inf], dtype=torch.float16),
    torch.arange(6, dtype=torch.int32).view(2, 3),
    torch.empty((0, 7)),
)


def ends() -> tuple[Channel, Channel]:
    mine, its = socket.socketpair()
    return Channel(mine), Channel(its)


def test_tensors_arrive_to_the_bit_and_leave_nothing_open() -> None:
    before = descriptors()
    mine, its = ends()
    parcels = {str(at): pack(tensor) for at, tensor in enumerate(TENSORS)}
    big = {"text": "é" * 300_000}
    thread = threading.Thread(target=mine.send, args=(big, parcels))
    thread.start()
    message, received = its.receive()
    thread.join()
    assert message == big
    for at, tensor in enumerate(TENSORS):
        came = received[str(at)].open()
        assert came.dtype == tensor.dtype
        assert came.shape == tensor.shape
        assert torch.equal(came.contiguous().view(torch.uint8), tensor.contiguous().view(torch.uint8))
        assert received[str(at)].number == parcels[str(at)].number
    del came, parcels, received
    mine.close()
    its.close()
    assert descriptors() <= before


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        LENGTH.pack(4),
        LENGTH.pack(4) + b"nope",
        LENGTH.pack(2**31),
        LENGTH.pack(2) + b"[]",
        LENGTH.pack(4) + b"null",
        LENGTH.pack(33) + b'[{}, [["x", "float32", [3], 0]]]  ',
    ],
)
def test_what_is_no_message_is_told(sent: bytes) -> None:
    mine, its = ends()
    mine.socket.sendall(sent)
    mine.close()
    with pytest.raises(ClosedError):
        its.receive()
    its.close()


@pytest.mark.parametrize("head", [["x", "pickle", [1], 0], ["x", "float32", "no", 0], ["x", "float32"]])
def test_a_tensor_of_no_known_kind_is_told(head: list[object]) -> None:
    import json

    mine, its = ends()
    parcel = pack(torch.ones(1))
    body = json.dumps([{}, [head]]).encode()
    socket.send_fds(mine.socket, [LENGTH.pack(len(body)) + body], [parcel.fd])
    with pytest.raises(ClosedError):
        its.receive()
    mine.close()
    its.close()


def test_memory_smaller_than_its_tensor_is_not_opened() -> None:
    whole = pack(torch.ones(4))
    parcel = Parcel(os.dup(whole.fd), "float32", (5,))
    with pytest.raises(ClosedError, match="20 bytes were announced, 16 came"):
        parcel.open()


def test_memory_that_is_not_there_is_an_error_and_not_a_bus_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        pack(torch.ones(4))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-signal.SIGSEGV, "the process ended by signal 11 (SIGSEGV)"),
        (-signal.SIGKILL, "the process ended by signal 9 (SIGKILL)"),
        (-64, "the process ended by signal 64 (SIGRTMAX)"),
        (-40, "the process ended by signal 40 (unknown)"),
        (7, "the process ended with exit code 7"),
        (None, "the process closed its connection and goes on"),
    ],
)
def test_an_ending_in_words(code: int | None, words: str) -> None:
    assert ending(code) == words
    assert (
        ending(code, [b"first\n", b"la\xffst\n", b"  \n"]) == f"{words}; it printed last: la\N{REPLACEMENT CHARACTER}st"
    )


def test_an_exception_in_words() -> None:
    cuda = "CUDA error: an illegal memory access was encountered\nCompile with TORCH_USE_CUDA_DSA"
    assert told(RuntimeError(cuda)) == "CUDA error: an illegal memory access was encountered"
    assert told(ValueError("\n first \n second")) == "ValueError: first"
    assert told(ValueError()) == "ValueError: no message"
    assert told(FaultError("the library does not load: x.so")) == "the library does not load: x.so"


def test_a_worker_answers_is_ended_and_starts_again(behave: Behave) -> None:
    behave("exact")
    before = descriptors()
    with Worker("vendor", {"package": "vllm", "device": "cpu"}) as worker:
        assert worker.pid is None, "nothing is started before it is asked"
        first = worker.ask({})
        assert first.data is not None
        assert first.data["about"]["torch"] == torch.__version__
        pid = worker.pid
        assert worker.ask({}).data == first.data
        assert worker.pid == pid, "it is kept"
        assert pid is not None
        os.kill(pid, signal.SIGTERM)
        assert worker.ask({}).fault == "the process ended by signal 15 (SIGTERM)"
        assert gone(pid, 0)
        assert worker.ask({}).data == first.data
    assert descriptors() <= before


def test_only_the_runners_of_the_table_are_run() -> None:
    with Worker("os:system", {}) as worker:
        assert worker.ask({}).fault == "KeyError: 'os:system'"


def test_a_start_that_takes_too_long_is_told(behave: Behave) -> None:
    behave("exact")
    with Worker("vendor", {"package": "vllm", "device": "cpu"}) as worker:
        said = worker.ask({}, patience={"start": 0.05}).fault
    assert said == "the worker's start did not return within 0.05 s: it hangs, or takes longer than that"


def test_a_worker_that_cannot_import_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch is not here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Worker("vendor", {"package": "vllm", "device": "cpu"}) as worker:
        said = worker.ask({}).fault
    assert said == "the process ended with exit code 1; it printed last: ImportError: libtorch is not here"


def test_a_checkout_is_found_and_the_current_folder_is_not_searched(tmp_path: Path) -> None:
    """From any folder, whichever way this process found the workbench, and whatever lies in that folder."""
    (tmp_path / "torch.py").write_text("raise ImportError('the wrong torch')\n")
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from workbench.engines.worker.host import Worker\n"
        "worker = Worker('vendor', {'package': 'vllm', 'device': 'cpu'})\n"
        "print(worker.ask({}))\n"
        "worker.close()\n"
    )
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], cwd=tmp_path, env=clean, capture_output=True, text=True, check=True
    )
    assert f"'torch': '{torch.__version__}'" in done.stdout, done


def test_the_environment_keeps_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/a:/b")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    made = environment()
    assert made["CUDA_VISIBLE_DEVICES"] == "3"
    assert made["PYTHONPATH"].startswith("/a:/b")
