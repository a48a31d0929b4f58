"""A connection to Ray: a local one that is started and ended here, or a cluster that is joined."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

from workbench.errors import UsageError

REACH_S = 10.0  # Ray itself tries for minutes
STORE_BYTES = 128 << 20  # of a local Ray's object store: results of units are small, what is larger goes to disk
TOKEN = "; where it asks for a token, set RAY_AUTH_MODE=token"  # Ray does not say so
ROOM = 22  # characters of a folder for temporary files, so that the names of Ray's sockets in it stay below 108


class Connection:
    """Ray, joined or started.

    Args:
        address: ``auto``, ``host:port`` or ``ray://host:port``; ``None`` starts a local Ray. A Ray that this process
            has already joined is used as it is, and left so.
        workers, gpus: of a local Ray.

    Raises:
        UsageError: Ray is not installed, cannot be reached, or is another release there.
    """

    def __init__(self, address: str | None, workers: int, gpus: bool) -> None:
        try:
            self.ray: Any = import_module("ray")
        except ImportError:
            raise UsageError("the executor ray needs Ray: pip install 'topk-workbench[ray]'") from None
        with ExitStack() as ends:
            if not self.ray.is_initialized():
                self._join(address, workers, gpus, ends)
            ends.callback(quieted())
            self.close: Callable[[], None] = ends.pop_all().close

    def _join(self, address: str | None, workers: int, gpus: bool, ends: ExitStack) -> None:
        settings: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns on stderr that this will come
        if address is None:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a local Ray reports to nobody
            folder = tempfile.mkdtemp(prefix="wb-ray-", dir=_short())
            ends.callback(_kept(folder))
            settings |= {"address": "local", "num_cpus": workers, "include_dashboard": False}
            settings |= {"object_store_memory": STORE_BYTES, "_temp_dir": folder}
            settings |= {"num_gpus": workers} if gpus else {}
        else:
            address = _found() if address == "auto" else address
            _reach(address)
            settings["address"] = address
        ends.callback(_kept_sigterm())
        ends.callback(self.ray.shutdown)
        try:
            self.ray.init(**settings)
        except (OSError, RuntimeError, ValueError, ImportError, self.ray.exceptions.RayError) as error:
            what = "a local Ray cannot be started" if address is None else f"no Ray cluster can be joined at {address}"
            cure = "" if address is None or "RAY_AUTH_MODE" in os.environ else TOKEN
            raise UsageError(f"{what}: {' '.join(str(error).split())}{cure}") from None


def _kept(folder: str) -> Callable[[], None]:
    """A process that ends what works in a folder, and removes it, on the call that is returned or with this process."""
    keeper = subprocess.Popen(
        [sys.executable, "-I", str(Path(__file__).with_name("keeper.py")), folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def end() -> None:
        assert keeper.stdin is not None
        keeper.stdin.close()
        keeper.wait()

    return end


def _short() -> str:
    """A folder for temporary files whose name leaves room for Ray's sockets."""
    usual = tempfile.gettempdir()
    return usual if len(usual) <= ROOM else "/tmp"


def _found() -> str:
    """The address that ``auto`` stands for, so that one which is out of date is seen: Ray would end this process."""
    named = os.environ.get("RAY_ADDRESS")
    if named:
        return named
    find = getattr(import_module("ray._private.services"), "canonicalize_bootstrap_address", lambda _: None)
    try:
        return find("auto") or "auto"
    except (OSError, ValueError):
        raise UsageError(
            "no Ray cluster runs on this machine, and RAY_ADDRESS names none: give its address, or none for a local Ray"
        ) from None


def _reach(address: str) -> None:
    """Raise UsageError where nothing listens at a ``host:port``."""
    host, _, port = re.sub("^ray://", "", address).rpartition(":")
    if not host or not port.isdigit():
        if address in ("auto", "local") or address.startswith("ray://"):
            return
        raise UsageError(f"the address {address!r} is none of Ray's: auto, host:port or ray://host:port")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_S).close()
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"no Ray cluster can be reached at {address}: {why}") from None


def _kept_sigterm() -> Callable[[], None]:
    """What puts the handler of SIGTERM back that Ray replaces."""
    before = signal.getsignal(signal.SIGTERM)

    def undo() -> None:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)

    return undo


def quieted() -> Callable[[], None]:
    """Keep off this process's stdout what Ray prints there of workers that die; what it returns undoes that.

    Ray has no setting for it: it prints from a thread of its own, whatever ``log_to_driver`` is.
    """
    module: Any = import_module("ray._private.worker")
    printed = getattr(module, "print_to_stdstream", None)
    if printed is None:
        return lambda: None
    module.print_to_stdstream = lambda *_, **__: None
    return lambda: setattr(module, "print_to_stdstream", printed)
