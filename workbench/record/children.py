"""The environment of a program that is to be recorded, and of every Python process that it starts.

torch loads the entry points of the group ``torch.backends`` whenever it is imported. A folder on ``PYTHONPATH`` with
the metadata of a package that has one is all it takes: no file of the program or of its Python is changed, and it ends
with the program.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from workbench.record.autostart import VARIABLE
from workbench.record.options import Options

AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_MODULE = "topk_workbench_recording"
_METADATA = f"Metadata-Version: 2.1\nName: {_MODULE}\nVersion: 0\n"
_ENTRY = f"[torch.backends]\n{_MODULE} = {_MODULE}:start\n"
_SOURCE = '''\
"""Called by torch when it is imported: turns recording on, where this Python has the workbench."""

import sys


def start():
    try:
        from workbench.record.autostart import start
    except ImportError:
        try:
            print(f"workbench: nothing is recorded: {sys.executable} has no topk-workbench", file=sys.stderr)
        except Exception:
            pass
    else:
        start()
'''


@contextlib.contextmanager
def recording(options: Options, environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The environment in which a program and the Python processes it starts record, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="workbench-record-") as folder:
        about = Path(folder) / f"{_MODULE}-0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(_METADATA, encoding="utf-8")
        (about / "entry_points.txt").write_text(_ENTRY, encoding="utf-8")
        (Path(folder) / f"{_MODULE}.py").write_text(_SOURCE, encoding="utf-8")
        paths = [folder, *filter(None, [environment.get("PYTHONPATH")])]
        yield {**environment, VARIABLE: options.text(), "PYTHONPATH": os.pathsep.join(paths)}


def unreachable(environment: Mapping[str, str]) -> str:
    """Why no process would be reached in this environment, in words; empty if it would."""
    if environment.get(AUTOLOAD, "1") == "0":
        return f"{AUTOLOAD}=0 keeps torch from turning recording on; unset it"
    return ""
