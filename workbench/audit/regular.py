"""What lies in an audit's folder that is read for ever, or not at all: pipes, sockets, devices."""

from __future__ import annotations

import os
from pathlib import Path


def irregular(folder: Path) -> Path | None:
    """The first entry of a folder, or of the folders in it, that is neither a regular file nor a folder.

    Links count as what they point to.

    Raises:
        OSError: it cannot be listed.
    """
    for where in (folder, *sorted(one for one in folder.iterdir() if one.is_dir())):
        with os.scandir(where) as entries:
            for entry in entries:
                if not (entry.is_file() or entry.is_dir()):
                    return Path(entry.path)
    return None
