"""Which files and folders hold score rows, told by names alone: a folder of ten thousand files is not read through."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from workbench.capture.folders import SUFFIX
from workbench.capture.foreign import INDEX_SUFFIX
from workbench.capture.format import METADATA_KEY
from workbench.capture.readers import flashinfer, safetensors_file, sglang, trace
from workbench.capture.readers.folder import OPENS
from workbench.capture.readers.look import Look, look_at
from workbench.capture.readers.table import reader_of
from workbench.capture.source import Source
from workbench.capture.values import shown

SUFFIXES = (SUFFIX, INDEX_SUFFIX)
DUMPS = tuple(suffix for suffix in OPENS if suffix != SUFFIX)
_ARRAY = ".npy"


def recognised(parent: Path, folders: list[str], files: Sequence[str]) -> tuple[bool, list[str]]:
    """Whether a folder is offered as a whole, and which of its files are offered one by one.

    Folders that are part of a dump are taken out of ``folders``, so that they are not walked into. Captures are
    always offered.
    """
    markers = [name for name in files if name.endswith((".json", ".jsonl"))]
    whole = Look(parent, shown(parent), True, (*folders, *markers))
    if trace.detects(whole) or flashinfer.METADATA in markers:
        folders.clear()
        return True, []
    captures = [name for name in files if name.endswith(SUFFIXES)]
    dumps = [name for name in files if name.endswith(DUMPS)]
    if folders and flashinfer.detects(whole):
        folders[:] = [name for name in folders if not os.path.exists(parent / name / flashinfer.METADATA)]  # noqa: PTH110
        return True, captures
    if sglang.detects(Look(parent, shown(parent), True, tuple(files))):
        return True, captures
    if captures or len(dumps) < 2:
        return False, [*captures, *dumps]
    return True, [name for name in dumps if not name.endswith(_ARRAY)]  # an array alone has neither lengths nor k


def is_capture(path: Path) -> bool:
    """Whether this is a capture of the workbench's own format, whose tensors need not be found or named.

    Raises:
        CaptureError: there is no such file or folder, or it is damaged.
    """
    if path.name.endswith(INDEX_SUFFIX):
        return False
    look = look_at(path, shown(path))
    if look.folder or reader_of(look).format != safetensors_file.FORMAT:
        return False
    source = Source(path)
    try:
        return METADATA_KEY in source.header.metadata
    finally:
        source.close()
