"""Processes that begin with torch and other libraries imported, which is most of what a short command takes.

``run`` stands in for ``subprocess.run([sys.executable, "-m", …])`` and ``[sys.executable, "-c", …]`` where a test asks
what a command does in a process of its own, and not how Python or torch start in one. A process for each process of
tests (this file, run as a program) imports them, and nothing of the workbench, and forks for every command.
Its copies end as Python does but for the last step: what lies in memory is left to the system, which saves 0.2 s.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import socket
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

MOST = 1 << 20  # bytes of a request, most of which is the environment
LIBRARIES = (
    "torch",
    "pandas",
    "pyarrow.parquet",
    "rich.console",
    "rich.table",
    "typer.main",
    "typer.testing",
    "pytest",
)
AT_START = ("PYTHON", "OMP_", "MKL_", "TORCH_")  # variables that are read before a command begins


def run(
    command: Sequence[object], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end.

    Args:
        command: this Python, then ``-m`` and a module or ``-c`` and code, then arguments.
    """
    program, kind, *rest = map(str, command)
    environment = dict(os.environ if env is None else env)
    assert (program, kind in ("-m", "-c")) == (sys.executable, True), command
    assert at_start(environment) == at_start(os.environ), "Python has started already: use subprocess"
    request = json.dumps({"kind": kind, "rest": rest, "folder": str(cwd or Path.cwd()), "environment": environment})
    coming, going = os.pipe()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, os.fdopen(coming) as code:
        try:
            socket.send_fds(_forking()[0], [request.encode()], [out.fileno(), err.fileno(), going])
        finally:
            os.close(going)
        ended = code.read()
        assert ended, "the process that forks has ended"
        said = [os.pread(one.fileno(), os.fstat(one.fileno()).st_size, 0).decode() for one in (out, err)]
    return subprocess.CompletedProcess([program, kind, *rest], int(ended), *said)


def at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """What Python and torch read of an environment before a command begins."""
    return {name: environment[name] for name in environment if name.startswith(AT_START) and name != "PYTHONPATH"}


@cache
def _forking() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """The process that forks, which ends with this one, and the way to it."""
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    mine.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MOST)
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-P", __file__, str(its.fileno())]
    process = subprocess.Popen(command, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL, env=bare, process_group=0)
    its.close()
    return mine, process


def _requests(connection: socket.socket) -> dict[str, Any]:
    """Fork for every request; returns in the copies, with what was asked for."""
    while True:
        text, given, _, _ = socket.recv_fds(connection, MOST, 3)
        if not text:
            os._exit(0)
        out, err, code = given
        if (child := os.fork()) == 0:
            os.dup2(out, 1)
            os.dup2(err, 2)
            for one in (*given, connection.detach()):
                os.close(one)
            return json.loads(text)  # type: ignore[no-any-return]
        _, status = os.waitpid(child, 0)
        os.write(code, str(os.waitstatus_to_exitcode(status)).encode())
        for one in given:
            os.close(one)


def _become(asked: dict[str, Any]) -> None:
    """Go on as the command that was asked for."""
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    found = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    sys.path[:0] = ["" if asked["kind"] == "-c" else asked["folder"], *found]
    what, *arguments = asked["rest"]
    sys.argv = [asked["kind"], *arguments]
    if asked["kind"] == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), main.__dict__)


def _end(code: object) -> None:
    """End as Python does where a command gave its code: threads, what was registered, what is printed. Returns where it
    gave none, for Python to say so."""
    if not (code is None or isinstance(code, int)):
        return
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
    os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    for library in LIBRARIES:
        importlib.import_module(library)
    gc.freeze()  # so that no collection in a copy touches, and thereby copies, what is shared
    asked = _requests(socket.socket(fileno=int(sys.argv[1])))
    try:
        _become(asked)
    except SystemExit as ended:
        _end(ended.code)
        raise
    _end(None)
