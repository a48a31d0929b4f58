"""A folder of plain files: tensors of ``torch.save``, NumPy arrays and foreign safetensors, by the names of the files.

A file with one bare tensor gives it its name (``logits.npy``, ``seq_lens.npy``); the tensors of others stand behind
the name of their file and a dot (``step0.pt`` with ``logits`` gives ``step0.logits``).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from workbench.capture.foreign import natural
from workbench.capture.format import METADATA_KEY
from workbench.capture.readers import numpy_file, safetensors_file, torch_file
from workbench.capture.readers.dump import Dump, Held, gather, inside, nested, stem
from workbench.capture.readers.look import Look
from workbench.capture.values import shown
from workbench.errors import CaptureError
from workbench.words import few

FORMAT = "folder of tensors"
OPENS: dict[str, Callable[[Path], Held]] = {
    ".pt": torch_file.open_file,
    ".pth": torch_file.open_file,
    ".npy": numpy_file.open_array,
    ".npz": numpy_file.open_archive,
    ".safetensors": safetensors_file.open_file,
}


def detects(look: Look) -> bool:
    """Whether this is a folder."""
    return look.folder


def read(look: Look) -> Dump:
    """All files of a kind that is read, in natural order of their names."""
    parts: list[tuple[str, Held]] = []
    broken: dict[str, CaptureError] = {}
    values: dict[str, str] = {}
    for name in sorted(look.names, key=natural):
        label = stem(Path(name))
        opens = OPENS.get(Path(name).suffix)
        if opens is None:
            values[name] = "no kind of file that is read"
            continue
        try:
            held = opens(inside(look.path, name))
        except CaptureError as error:
            broken[label] = error
            continue
        if METADATA_KEY in held.source.header.metadata:
            held.source.close()
            for _, other in parts:
                other.source.close()
            raise CaptureError(
                "this is a folder of captures; name one of them, or several as in FOLDER/*.safetensors", file=look.file
            )
        held.source.rest()
        parts.append(("" if held.bare else label, held))
    if not parts and not broken:
        below = [shown(name) for name in sorted(look.names, key=natural) if os.path.isdir(look.path / name)]  # noqa: PTH112
        cure = f"one of its folders: {few(below)}" if below else "a file"
        raise CaptureError(
            f"this is a folder that is no known dump and holds no .pt, .npy, .npz or .safetensors file; name {cure}",
            file=look.file,
        )
    tensors, plain = gather(look.file, parts, broken)
    values |= {name: torch_file.words(value) for name, value in plain.items()}
    return Dump(FORMAT, look.path, tensors, lambda: nested([*tensors.tensors, *broken], plain), values=values)
