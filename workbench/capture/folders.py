"""The capture files in a folder, and folders that are dumps."""

from __future__ import annotations

import os
import re
from pathlib import Path

from workbench.capture.foreign import INDEX_SUFFIX, natural
from workbench.capture.readers import folder as tensors
from workbench.capture.readers.look import look_at
from workbench.capture.readers.table import reader_of
from workbench.capture.values import path_text, shown
from workbench.errors import CaptureError
from workbench.words import because

SUFFIX = ".safetensors"
SHARD = re.compile(r"-\d{5}-of-\d{5}\.safetensors$")


def capture_files(folder: str | bytes | os.PathLike[str]) -> list[Path]:
    """Every ``.safetensors`` file and set in a folder, not below it, in natural order of their names.

    Hidden files, and the shards of a set whose index lies beside them, are left out.

    Raises:
        CaptureError: it cannot be listed, or holds none.
    """
    where = Path(path_text(folder))
    try:
        names = [name for name in os.listdir(where) if not name.startswith(".")]  # noqa: PTH208  names, not paths
    except OSError as error:
        raise CaptureError(f"cannot be listed: {because(error)}", file=shown(folder)) from None
    sets = [name for name in names if name.endswith(INDEX_SUFFIX)]
    stems = tuple(name.removesuffix(INDEX_SUFFIX) for name in sets)
    files = [
        name for name in names if name.endswith(SUFFIX) and not (SHARD.search(name) and SHARD.sub("", name) in stems)
    ]
    if not sets and not files:
        raise CaptureError(f"the folder holds no {SUFFIX} file; name a folder of captures", file=shown(folder))
    return [where / name for name in sorted([*files, *sets], key=natural)]


def run_files(folder: str | bytes | os.PathLike[str]) -> list[Path]:
    """What a folder holds of a run: its capture files in their order, or the folder itself if it is a dump.

    Raises:
        CaptureError: it cannot be listed, or holds neither.
    """
    where = Path(path_text(folder))
    look = look_at(where, shown(folder))
    if reader_of(look).format != tensors.FORMAT:
        return [where]
    plain = {Path(name).suffix for name in look.names} & tensors.OPENS.keys()
    return [where] if plain and SUFFIX not in plain else capture_files(where)
