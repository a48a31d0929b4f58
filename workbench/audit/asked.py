"""What an audit is asked for: everything that decides its dataset, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from workbench.capture.values import described, path_text, shown
from workbench.errors import UsageError
from workbench.words import because, listed

NAMING = ("scores", "lengths", "starts", "indices", "as_dtype")


@dataclass(frozen=True)
class Asked:
    """What is audited, and how. A second run with the same output must ask for the same.

    Attributes:
        folder: absolute, what the names of files count from. inputs: files and folders below it, ``.`` for itself.
        paths: a glob over paths. op, release, device, k: those of the calls where ``None``.
        scores, lengths, starts, indices, as_dtype: name the tensors of dumps, as ``open_capture`` takes them.
        unit_bytes: of the scores of a unit of work, at most, where a row has no more.
    """

    folder: str
    inputs: tuple[str, ...]
    paths: str = "*"
    op: str | None = None
    release: str | None = None
    device: str | None = None
    k: int | None = None
    scores: str | None = None
    lengths: str | None = None
    starts: str | None = None
    indices: str | None = None
    as_dtype: str | None = None
    unit_bytes: int = 64 * 2**20

    @property
    def opening(self) -> dict[str, Any]:
        """The arguments of ``open_capture`` besides the path."""
        return {name: getattr(self, name) for name in ("k", "op", "release", "device", *NAMING)}

    def path_of(self, file: str) -> Path:
        """Where a file of the audit is."""
        return Path(self.folder, file)

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**found, "inputs": list(self.inputs)}

    def differences(self, other: Mapping[str, Any]) -> list[str]:
        """What another document asks for differently, in words."""
        own = self.document()
        differ = [name for name in own if own[name] != other.get(name)]
        return [f"{name} is {_said(other.get(name))} there and {_said(own[name])} here" for name in differ]


def _said(value: object) -> str:
    if isinstance(value, list):
        return listed(shown(str(item)) for item in value)
    return "not given" if value is None else shown(str(value))


def located(given: object) -> tuple[str, tuple[str, ...]]:
    """The folder that given files and folders lie below, absolute, and their names below it.

    A folder counts as itself, a file is one of its folder; of several, their nearest common folder.

    Raises:
        UsageError: nothing is given, what is given is no path, or is not there.
    """
    several = [given] if isinstance(given, str | bytes | os.PathLike) else given
    if not isinstance(several, Sequence) or not several:
        raise UsageError(f"what is audited is {described(given)}; a folder or file, or a list of them, is needed")
    paths = [_absolute(one) for one in several]
    base = os.path.commonpath([path if os.path.isdir(path) else os.path.dirname(path) for path in paths])  # noqa: PTH112, PTH120
    return base, tuple(dict.fromkeys(os.path.relpath(path, base) for path in paths))


def _absolute(given: object) -> str:
    text = path_text(given)
    if not text or "\0" in text:
        raise UsageError(f"what is audited is named {described(text)}; name a folder or a file")
    try:
        os.lstat(text)
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{shown(text)}: there is no such file or folder") from None
    except OSError as error:
        raise UsageError(f"{shown(text)}: cannot be looked at: {because(error)}") from None
    return os.path.realpath(text)
