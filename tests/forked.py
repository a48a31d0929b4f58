"""Workers that are copies of the process of the tests, where a test asks what a worker does and not how it starts.

A worker (``workbench/engines/worker``) is a Python of its own, most of whose start is the import of torch: 1.5 s of a
core. Under the fixture ``forked_workers`` it is a fork that forgets the workbench, the tests and what they changed, and
goes on as the same command would: in a session of its own, with the descriptors, the environment and the import path
that the command has. ``tests/engines/test_worker.py`` and every command that tests start have real ones.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import io
import os
import runpy
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from tests.warm import at_start
from workbench.engines.worker import host

ROOT = Path(__file__).parents[1]
STAYS = tuple(str(Path(one).resolve()) for one in {sys.prefix, sys.base_prefix})
SEED = 67280421310721  # of a torch that was just imported


class Forked:
    """What ``host`` needs of ``subprocess.Popen``."""

    def __init__(self, command: Sequence[str], *, pass_fds: Sequence[int], env: Mapping[str, str], **_: object) -> None:
        self.returncode: int | None = None
        reads, writes = os.pipe()
        begun, begins = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _go_on(command, writes, begins, pass_fds, env)
        os.close(writes)
        os.close(begins)
        os.read(begun, 1)  # from here on it leads a session, by which it is ended
        os.close(begun)
        self.stdout = os.fdopen(reads, "rb")

    def wait(self) -> int:
        """Its code, as ``subprocess`` numbers it."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


def _start(command: Sequence[str], *, env: Mapping[str, str], **more: Any) -> Forked | subprocess.Popen[bytes]:
    if at_start(env) != at_start(os.environ):
        return subprocess.Popen(command, env=env, **more)
    return Forked(command, env=env, **more)


STARTS = SimpleNamespace(Popen=_start, DEVNULL=subprocess.DEVNULL, PIPE=subprocess.PIPE, STDOUT=subprocess.STDOUT)


def _go_on(
    command: Sequence[str], writes: int, begins: int, given: Sequence[int], environment: Mapping[str, str]
) -> None:
    """Become the command in the copy; never returns."""
    code = 1
    try:
        os.setsid()
        os.write(begins, b"1")
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(writes, 1)
        os.dup2(writes, 2)
        faulthandler.disable()
        for number in (signal.SIGALRM, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for one in os.listdir("/proc/self/fd"):  # noqa: PTH208
            if int(one) > 2 and int(one) not in given:
                try:
                    os.close(int(one))
                except OSError:  # that of the list itself
                    continue
        gc.freeze()
        os.environ.clear()
        os.environ.update(environment)
        _forget()
        torch.manual_seed(SEED)
        sys.stdout, sys.stderr = (io.TextIOWrapper(os.fdopen(one, "wb", 0), write_through=True) for one in (1, 2))
        sys.argv = [command[4], *command[5:]]
        runpy.run_module(command[4], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _forget() -> None:
    """Leave no module but those of Python and of installed packages, and import as a program does."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name == "__main__" or name.partition(".")[0] == "workbench" or (file and not _stays(file)):
            del sys.modules[name]
    found = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    sys.path[:] = [*found, *(one for one in sys.path if _stays(one)), str(ROOT)]
    sys.meta_path[:] = [one for one in sys.meta_path if not type(one).__module__.startswith("_pytest")]
    importlib.invalidate_caches()


def _stays(file: str) -> bool:
    return str(Path(file).resolve()).startswith(STAYS)


__all__ = ["STARTS", "host"]
