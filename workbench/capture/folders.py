"""The capture files in a folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

from workbench.capture.foreign import INDEX_SUFFIX, natural
from workbench.capture.values import path_text, shown
from workbench.errors import CaptureError

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
        raise CaptureError(f"cannot be listed: {error.strerror}", file=shown(folder)) from None
    sets = [name for name in names if name.endswith(INDEX_SUFFIX)]
    stems = tuple(name.removesuffix(INDEX_SUFFIX) for name in sets)
    files = [
        name for name in names if name.endswith(SUFFIX) and not (SHARD.search(name) and SHARD.sub("", name) in stems)
    ]
    if not sets and not files:
        raise CaptureError(f"the folder holds no {SUFFIX} file; name a folder of captures", file=shown(folder))
    return [where / name for name in sorted([*files, *sets], key=natural)]
