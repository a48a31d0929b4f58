"""The formats that are read: one line each. The first that recognises what was given reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workbench.capture.readers import flashinfer, folder, numpy_file, safetensors_file, sglang, torch_file, trace
from workbench.capture.readers.dump import Dump
from workbench.capture.readers.look import Look


@dataclass(frozen=True)
class Reader:
    """One format: its name, how it is recognised, what reads it, and what it is, for the documentation."""

    format: str
    detects: Callable[[Look], bool]
    read: Callable[[Look], Dump]
    about: str


READERS = (
    Reader(trace.FORMAT, trace.detects, trace.read, "a folder with `definitions/` and `workloads/`"),
    Reader(flashinfer.FORMAT, flashinfer.detects, flashinfer.read, "the folder of a call or a session"),
    Reader(sglang.FORMAT, sglang.detects, sglang.read, "a folder of, or one, `step=…___rank=…___name=….pt`"),
    Reader(torch_file.FORMAT, torch_file.detects, torch_file.read, "tensors, dicts and lists of them, `.pt`"),
    Reader(numpy_file.FORMAT_ARCHIVE, numpy_file.detects_archive, numpy_file.read_archive, "named arrays"),
    Reader(numpy_file.FORMAT, numpy_file.detects, numpy_file.read, "one array, of the name of its file"),
    Reader(folder.FORMAT, folder.detects, folder.read, "a folder of files of the kinds above and below"),
    Reader(
        safetensors_file.FORMAT, safetensors_file.detects, safetensors_file.read, "any other safetensors file or set"
    ),
)


def reader_of(look: Look) -> Reader:
    """The reader of what was given."""
    return next(reader for reader in READERS if reader.detects(look))
