"""Safetensors files that are no captures of the workbench, and sharded sets of them."""

from __future__ import annotations

from pathlib import Path

from workbench.capture.foreign import INDEX_SUFFIX, TensorSet, open_sharded, open_single
from workbench.capture.readers.dump import Dump, Held, nested
from workbench.capture.readers.look import Look
from workbench.capture.source import Source

FORMAT = "foreign"


def detects(look: Look) -> bool:
    """Whether this is any other file: its header says what is wrong with it."""
    return not look.folder


def read(look: Look) -> Dump:
    """The tensors of a file or a set."""
    return of_set(look.path, open_set(look.path))


def open_set(path: Path) -> TensorSet:
    """The tensors of a file, or of a set by its index."""
    return open_sharded(path) if path.name.endswith(INDEX_SUFFIX) else open_single(path)


def of_set(path: Path, tensors: TensorSet) -> Dump:
    """The same as a dump."""
    return Dump(FORMAT, path, tensors, lambda: nested(tensors.tensors, {}), silent=True)


def open_file(path: Path) -> Held:
    """The tensors of one file."""
    source = Source(path)
    return Held(source, source.header.tensors)
