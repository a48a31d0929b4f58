"""The caller's side of a worker: it asks, waits no longer than it was told to, and survives whatever happens there."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import site
import socket
import subprocess
import sys
import sysconfig
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import torch

from workbench.arguments import check_timeout
from workbench.engines.worker.ending import ending
from workbench.engines.worker.wire import Channel, ClosedError, Message, Parcel, pack

CHILD = "workbench.engines.worker.child"
START_S = 120.0  # importing torch from a cold disk
LOAD_S = 600.0  # building a kernel takes minutes where nothing is cached
LAST_LINES = 20
LINE_BYTES = 4096  # longer lines are taken in parts, so that no print is held whole
POLL_S = 0.2


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of a request. One of ``data``, ``refused`` and ``fault`` is there.

    Attributes:
        data: the reply. tensors: its tensors, on the CPU.
        refused: every reason why the request was not carried out. fault: what happened instead of a reply.
    """

    data: Message | None = None
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    fault: str = ""


def patience(call_s: float, load_s: float = LOAD_S) -> dict[str, float]:
    """Seconds that each call may take, and loading a library or building a kernel, which may take no less.

    Raises:
        UsageError: no such time.
    """
    for seconds in (call_s, load_s):
        check_timeout(seconds)
    return {"call": call_s, "load": max(load_s, call_s)}


class Worker:
    """A process that runs one of ``child.RUNNERS``, started when first asked and anew after every fault.

    Args:
        runner: its name. settings: what it is made of, JSON.
        heard: called with what is printed there, from a thread of its own.

    One thread at a time may ask. ``close``, or the end of the ``with`` block, ends the process; so does the end of this
    one, by whatever signal.
    """

    def __init__(
        self, runner: str, settings: Message | None = None, heard: Callable[[bytes], None] | None = None
    ) -> None:
        self._opening: Message = {"runner": runner, "settings": settings or {}}
        self._heard = heard
        self._process: _Process | None = None

    @property
    def pid(self) -> int | None:
        """Of the process; ``None`` where there is none."""
        return None if self._process is None else self._process.popen.pid

    def ask(
        self,
        request: Message,
        tensors: Mapping[str, torch.Tensor | Parcel] | None = None,
        patience: Mapping[str, float] | None = None,
        stop: threading.Event | None = None,
    ) -> Outcome:
        """Ask, and wait for the answer.

        Args:
            request: JSON. tensors: on any device; a parcel is sent as it is and can be sent again.
            patience: seconds for each stage that the runner begins; the first is ``start``. A stage that is not named
                may last for ever.
            stop: once set, by another thread, the process is ended and the outcome is a fault that says so.

        Raises:
            OSError: there is no memory for the tensors.
        """
        limits = {"start": START_S, **(patience or {})}
        parcels = {name: one if isinstance(one, Parcel) else pack(one) for name, one in (tensors or {}).items()}
        try:
            if self._process is None:
                self._process = _Process(self._opening, self._heard)
            outcome = self._process.ask(request, parcels, limits, stop)
        except BaseException:  # Ctrl-C among them: what the process is in the middle of is not known
            self.close()
            raise
        if outcome.fault:
            self.close()
        return outcome

    def close(self) -> None:
        """End the process and all that it started."""
        process, self._process = self._process, None
        if process is not None:
            process.end()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Process:
    """One process of a worker, from its start to its end."""

    def __init__(self, opening: Message, heard: Callable[[bytes], None] | None) -> None:
        mine, its = socket.socketpair()
        waits, lifeline = os.pipe()
        try:
            self.popen = subprocess.Popen(
                [sys.executable, "-P", "-u", "-m", CHILD, str(its.fileno()), str(waits)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,  # what libraries print: read so that they never wait, its end kept for faults
                stderr=subprocess.STDOUT,
                pass_fds=(its.fileno(), waits),
                start_new_session=True,
                env=environment(),
            )
        except BaseException:
            mine.close()
            os.close(lifeline)
            raise
        finally:
            its.close()
            os.close(waits)
        self._channel = Channel(mine)
        self._last: deque[bytes] = deque(maxlen=LAST_LINES)
        assert self.popen.stdout is not None
        self._reader = threading.Thread(target=_keep_last, args=(self.popen.stdout, self._last, heard), daemon=True)
        self._reader.start()
        self.end = weakref.finalize(self, _end, self.popen, self._channel, lifeline, self._reader)
        with contextlib.suppress(OSError):  # a process that ended at once is told by the first wait
            self._channel.send(opening)

    def ask(
        self,
        request: Message,
        parcels: Mapping[str, Parcel],
        limits: Mapping[str, float],
        stop: threading.Event | None,
    ) -> Outcome:
        try:
            self._channel.send(request, parcels)
        except OSError:
            return Outcome(fault=self._ended())
        stage, doing = "start", "the worker's start"
        while True:
            limit = limits.get(stage)
            if not self._wait(limit, stop):
                if stop is not None and stop.is_set():
                    return Outcome(fault=f"{doing} was stopped")
                if self._code() is not None:
                    return Outcome(fault=self._ended(stage, doing))
                return Outcome(fault=f"{doing} did not return within {limit:g} s: it hangs, or takes longer than that")
            try:
                message, received = self._channel.receive()
                kind = message["kind"]
                if kind == "stage":
                    stage, doing = message["stage"], message["doing"]
                elif kind == "refused":
                    return Outcome(refused=tuple(message["reasons"]))
                elif kind == "fault":
                    return Outcome(fault=message["text"])
                else:
                    return Outcome(message["data"], {name: one.open().clone() for name, one in received.items()})
            except (ClosedError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
                if self._code(wait_s=5) is not None:
                    return Outcome(fault=self._ended(stage, doing))
                return Outcome(fault=f"the worker's answer cannot be read: {error}")

    def _wait(self, limit: float | None, stop: threading.Event | None) -> bool:
        """Whether there is something to read, the end of the socket included."""
        until = None if limit is None else time.monotonic() + limit
        while True:
            left = POLL_S if until is None else min(POLL_S, max(0.0, until - time.monotonic()))
            if _readable(self._channel.socket, left):
                return True
            if self._code() is not None:  # what the library started may still hold the socket open
                return _readable(self._channel.socket, 0)
            if (until is not None and time.monotonic() >= until) or (stop is not None and stop.is_set()):
                return False

    def _code(self, wait_s: float = 0.0) -> int | None:
        """How the process ended, as ``subprocess`` numbers it; ``None`` while it runs.

        It is not reaped here: until it is, its number is its own, and ``_end`` may send signals to it.
        """
        until = time.monotonic() + wait_s
        while True:
            found = os.waitid(os.P_PID, self.popen.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            if found is not None:
                return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
            if time.monotonic() >= until:
                return None
            time.sleep(0.01)

    def _ended(self, stage: str = "start", doing: str = "") -> str:
        code = self._code(wait_s=5)
        self._reader.join(1)
        said = ending(code, self._last)
        return said if stage == "start" else f"{doing}: {said}"


def _readable(end: socket.socket, seconds: float) -> bool:
    poll = select.poll()  # select takes no descriptor beyond 1023, and there may be many workers
    poll.register(end, select.POLLIN)
    return bool(poll.poll(math.ceil(seconds * 1000)))


def _keep_last(stream: IO[bytes], last: deque[bytes], heard: Callable[[bytes], None] | None) -> None:
    with contextlib.suppress(ValueError, OSError):
        while line := stream.readline(LINE_BYTES):
            last.append(line)
            if heard is not None:
                heard(line)


def _end(popen: subprocess.Popen[bytes], channel: Channel, lifeline: int, reader: threading.Thread) -> None:
    """Kill the session, reap the process, close what led to it."""
    for group in _groups(popen.pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    popen.wait()
    channel.close()
    os.close(lifeline)
    reader.join(1)
    if popen.stdout is not None and not reader.is_alive():
        popen.stdout.close()


def _groups(session: int) -> set[int]:
    """The process groups of a session: compilers that a library starts may have made their own."""
    groups = {session}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = stat.read_text().rpartition(")")[2].split()  # state, parent, group, session, …
            if int(fields[3]) == session:
                groups.add(int(fields[2]))
    return groups


def environment() -> dict[str, str]:
    """This process's environment, in which the child finds the same workbench.

    ``-P`` keeps the current folder off the child's path, where any file could stand in for a library; a checkout that
    this process found there, or on a path that it set itself, is named.
    """
    root = str(Path(__file__).resolve().parents[3])
    known = {*site.getsitepackages(), site.getusersitepackages(), sysconfig.get_path("purelib")}
    paths = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if root not in known:
        paths.append(root)
    return {**os.environ, **({"PYTHONPATH": os.pathsep.join(paths)} if paths else {})}
