"""What a reader makes of a dump: its tensors by name, and the places in which the tensors of one call lie together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from workbench.capture.foreign import MappedNames, TensorSet, natural
from workbench.capture.header import Header, TensorInfo
from workbench.capture.source import Source
from workbench.capture.values import brief, shown
from workbench.errors import CaptureError
from workbench.words import because


@dataclass(frozen=True)
class Scope:
    """A place in a dump that holds the tensors of at most one call.

    Attributes:
        own: its tensors, from the name that people gave them to the name in the dump. inherited: the same of tensors
            that lie further out and hold for several places; never scores.
        ints: integers of the call that the dump states, by their names in ``CALL_FIELDS``.
        indices: the name of the recorded selection among its own, where the reader knows better than its name tells;
            empty where none is known to be one. ``None``: found by name. mapped: what maps it, where it holds no
            positions.
        refusal: why its call cannot be told from what is there, where that is so.
        quiet: whether its tensors count only where the caller names them.
    """

    own: Mapping[str, str]
    inherited: Mapping[str, str] = field(default_factory=dict)
    ints: Mapping[str, int] = field(default_factory=dict)
    indices: str | None = None
    mapped: MappedNames | None = None
    refusal: str = ""
    quiet: bool = False

    def get(self, name: str) -> str | None:
        """The name in the dump of a tensor."""
        return self.own.get(name, self.inherited.get(name))


@dataclass(frozen=True)
class Dump:
    """A dump as a reader found it.

    Attributes:
        format: in words. path: as given. tensors: all of them.
        find_scopes: gives the places where calls may lie, in the order of the calls.
        extra: names by role that mean what they say in this format only, besides those of the table.
        silent: whether it states nothing of its calls, so that tensors named by the caller are all there is to know.
        alone: the one tensor of a file that holds nothing else: its scores, whatever it is called.
        values: what it holds besides tensors, from its name to a few words. plain: names of such values, where those
            of ``values`` do not end with them. notes: what a reader should know.
    """

    format: str
    path: Path
    tensors: TensorSet
    find_scopes: Callable[[], list[Scope]]
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    alone: str | None = None
    silent: bool = False
    values: Mapping[str, str] = field(default_factory=dict)
    plain: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @cached_property
    def scopes(self) -> list[Scope]:
        """The places, found when they are asked for: a file may hold a million tensors."""
        return self.find_scopes()


@dataclass(frozen=True)
class Held:
    """The tensors of one file by name, and its plain values.

    Attributes:
        broken: why single tensors cannot be read. bare: whether the file is one tensor and gives it its name.
    """

    source: Source
    tensors: dict[str, TensorInfo]
    values: dict[str, Any] = field(default_factory=dict)
    broken: dict[str, CaptureError] = field(default_factory=dict)
    bare: bool = False

    def finish(self) -> Held:
        """Tell the source what it holds, for ``digest`` and ``verify``."""
        self.source.header = Header(self.tensors, {}, 0)
        return self


def nested(names: Iterable[str], values: Mapping[str, Any]) -> list[Scope]:
    """Scopes of dotted names: what shares the path before the last dot lies together, and sees what lies further out.

    Integers among ``values`` whose names are those of k count for the call that they lie with.
    """
    places: dict[str, dict[str, str]] = {}
    for name in names:
        place, _, last = name.rpartition(".")
        places.setdefault(place, {})[last] = name
    numbers: dict[str, dict[str, int]] = {}
    for name, value in values.items():
        if type(value) is int:
            place, _, last = name.rpartition(".")
            numbers.setdefault(place, {})[last] = value
    scopes = []
    for place in sorted(places, key=natural):
        own = places[place]
        outer: dict[str, str] = {}
        known: dict[str, int] = {}
        parts = place.split(".") if place else []
        for depth in range(len(parts) + 1):
            at = ".".join(parts[:depth])
            known |= numbers.get(at, {})
            if depth < len(parts):
                outer |= places.get(at, {})
        scopes.append(Scope(own, outer, known))
    return scopes


def gather(
    file: str, parts: Iterable[tuple[str, Held]], broken: Mapping[str, CaptureError] | None = None
) -> tuple[TensorSet, dict[str, Any]]:
    """The tensors and values of several files as one set, each under its prefix."""
    sources: list[Source] = []
    tensors: dict[str, TensorInfo] = {}
    owners: dict[str, Source] = {}
    values: dict[str, Any] = {}
    refused = dict(broken or {})
    for prefix, held in parts:
        sources.append(held.source)
        for name, info in held.tensors.items():
            full = joined(prefix, name)
            if full in tensors:
                raise CaptureError(f"two tensors are named {brief(full)!r}; rename a file", file=file)
            tensors[full] = info
            owners[full] = held.source
        values |= {joined(prefix, name): value for name, value in held.values.items()}
        refused |= {joined(prefix, name): error for name, error in held.broken.items()}
    return TensorSet(file, sources, tensors, owners, refused), values


def joined(prefix: str, name: str) -> str:
    """A dotted name; a bare value has none of its own."""
    return f"{prefix}.{name}" if prefix and name else prefix or name


def stem(path: Path) -> str:
    """The name that a file gives to its one tensor: its own, up to the first dot."""
    return shown(path.name.partition(".")[0]) or shown(path.name)


def names_in(folder: Path) -> list[str]:
    """The names in a folder that are not hidden.

    Raises:
        CaptureError: it cannot be listed.
    """
    try:
        return [name for name in os.listdir(folder) if not name.startswith(".")]  # noqa: PTH208  names, not paths
    except OSError as error:
        raise CaptureError(f"cannot be listed: {because(error)}", file=shown(folder)) from None


def inside(folder: Path, name: str) -> Path:
    """A path below a folder, links followed.

    Raises:
        CaptureError: it leads out of the folder: nothing outside of what was given is read.
    """
    relative = Path(name)
    given = folder / relative
    out = "\0" in name or relative.is_absolute() or ".." in relative.parts or not relative.parts
    if not out and len(relative.parts) == 1 and not os.path.islink(given):  # noqa: PTH114  that one raises
        return given
    if not out:
        try:
            root = os.path.realpath(folder)
            out = os.path.commonpath([root, os.path.realpath(given)]) != root
        except (OSError, ValueError):
            out = True
    if out:
        raise CaptureError(
            f"{brief(shown(name))!r} leads out of the folder, which is not followed; put the file itself there",
            file=shown(folder),
        )
    return given
