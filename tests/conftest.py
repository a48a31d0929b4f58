"""Settings that every test shares."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator

import pytest
import torch

torch.set_num_threads(1)  # rows are short: threads cost more than they save, and two cores run much else

# What a shell runs in the background ignores Ctrl-C, and so does all that is started there: tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are copies of this process, as `tests/forked.py` says."""
    from tests import forked

    monkeypatch.setattr(forked.host, "subprocess", forked.STARTS)


@pytest.fixture
def permissions_hold() -> Iterator[None]:
    """What is forbidden by its permissions is, also for the superuser, in this thread and those that it starts."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this thread
    held = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice, 32 capabilities each
    assert libc.capget(header, held) == 0
    less = type(held)(held[0] & ~0b110, *held[1:])  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    assert libc.capset(header, less) == 0
    try:
        yield
    finally:
        assert libc.capset(header, held) == 0


@pytest.fixture(scope="session", autouse=True)
def scans(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What pages scan is kept in a folder of the tests' own, and not in the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOPK_WORKBENCH_SCANS", str(tmp_path_factory.mktemp("scans")))
        yield
