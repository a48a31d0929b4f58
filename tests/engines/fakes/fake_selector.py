"""What the fake packages select by: ``FAKE_SELECTOR`` in the environment says how, and what goes wrong.

The packages beside it register the schemas of the real ones, and check what these check.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import torch

HOW = os.environ.get("FAKE_SELECTOR", "exact")


def best(scores: torch.Tensor, k: int) -> torch.Tensor:
    """int32 [k]: indices of the k best scores, -1 padded."""
    kept = torch.sort(scores, descending=True, stable=True).indices[: k + 1]
    if HOW == "lossy" and len(kept) > k:
        kept = kept[1:]  # the best one is lost, as if it had arrived too late
    out = torch.full((k,), -1, dtype=torch.int32)
    kept = kept[:k].to(torch.int32)
    out[: len(kept)] = kept
    return out


def select(scores: torch.Tensor, lengths: torch.Tensor, k: int, starts: torch.Tensor | None = None) -> torch.Tensor:
    """int32 [rows, k], by the contract that all ops share."""
    assert scores.dim() == 2
    assert scores.stride(1) == 1
    assert lengths.dtype == torch.int32
    assert lengths.is_contiguous()
    assert lengths.shape == (scores.shape[0],)
    stride, width = scores.stride(0), scores.shape[1]
    between = scores.as_strided((scores.shape[0], stride), (stride, 1))[:, width:]
    assert bool((between == -torch.inf).all()), "what lies between rows holds -inf"
    misbehave()
    begins = [0] * len(lengths) if starts is None else starts.tolist()
    rows = zip(scores, begins, lengths.tolist(), strict=True)
    found = torch.stack([best(row[start : start + max(0, length)], k) for row, start, length in rows])
    lengths.fill_(1)  # an op may change what it is given
    return found


def misbehave() -> None:
    """What hangs, crashes or is noisy."""
    if HOW == "hangs":
        time.sleep(3600)
    if HOW == "hangs holding the lock":
        import ctypes

        ctypes.PyDLL(None).sleep(3600)
    if HOW == "hangs with a compiler":  # one that has made a process group of its own, as build tools do
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], process_group=0)
        time.sleep(3600)
    if HOW == "crashes":
        print("before the crash", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if HOW == "exits":
        os._exit(3)
    if HOW == "illegal access":
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be late.")
    if HOW == "raises":
        raise ValueError("persistent_topk would oversubscribe the device\nmore lines")
    if HOW == "prints":
        for _ in range(200):
            os.write(1, b'{"kind": "reply"}\n' * 500)
            os.write(2, b"\x00\xff" * 500)


def register(namespace: str, *ops) -> torch.library.Library:
    """Ops of a library, each a name, its arguments in torch's schema language, and what it does on the CPU; they are
    there as long as what is returned."""
    library = torch.library.Library(namespace, "FRAGMENT")
    for name, arguments, does in ops:
        library.define(f"{name}({arguments}) -> ()")
        library.impl(name, does, "CPU")
    return library


def write(out: torch.Tensor, found: torch.Tensor) -> None:
    """Write what was found where the op is told to, which must have been poisoned."""
    assert out.dtype == torch.int32
    assert out.shape == found.shape
    assert out.is_contiguous()
    assert bool((out == -777).all()), "the output is poisoned before each call"
    keep = found.shape[1] - (3 if HOW == "leaves slots" else 0)
    out[:, :keep] = found[:, :keep]
