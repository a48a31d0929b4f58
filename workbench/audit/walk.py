"""What there is to open below given files and folders, in natural order, by names and first bytes alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from workbench.capture.folders import SHARD, SUFFIX
from workbench.capture.foreign import INDEX_SUFFIX, natural
from workbench.capture.readers import folder as plain_folder
from workbench.capture.readers.look import Look
from workbench.capture.readers.table import reader_of
from workbench.capture.values import shown as printable
from workbench.words import because

LEAVES = "is a link that leads out of what was given: it is not followed"
LOOSE = (".pt", ".pth", ".npz", ".npy")  # files that may belong together


@dataclass(frozen=True)
class Found:
    """Something to open.

    Attributes:
        file: below the audited folder, ``/`` between its parts. error: why it cannot be looked into.
        loose: of a folder of plain files, these, which are captures of their own or belong together.
    """

    file: str
    error: str = ""
    loose: tuple[str, ...] = ()


def walk(base: str, inputs: tuple[str, ...], *, leave: bool = True) -> Iterator[Found]:
    """Everything to open, each once: given files as they are, and in folders what ends as captures and dumps do.

    Hidden files and folders are left out. Links are followed, but not back into a folder they lie in.

    Args:
        leave: whether links are followed that lead out of what is given; else what they lead to is an error.
    """
    seen: set[str] = set()
    roots = None if leave else tuple(os.path.realpath(Path(base, given)) for given in inputs)
    for given in sorted(inputs, key=natural):
        path = Path(base, given)
        found = _below(path, "" if given == "." else given, (), roots) if os.path.isdir(path) else iter([Found(given)])  # noqa: PTH112
        for one in found:
            if one.file not in seen:
                seen.add(one.file)
                yield one


def _below(
    folder: Path, name: str, above: tuple[tuple[int, int], ...], roots: tuple[str, ...] | None
) -> Iterator[Found]:
    label = name or "."
    try:
        status = folder.stat()
        with os.scandir(folder) as entries:
            shown = [entry for entry in entries if not entry.name.startswith(".")]
        leaving = {entry.name for entry in shown if roots is not None and _leaves(entry, roots)}
        names = sorted((entry.name for entry in shown), key=natural)
        kinds = {entry.name: _is_folder(entry) for entry in shown}
    except OSError as error:
        yield Found(label, f"the folder cannot be listed: {because(error)}")
        return
    folders = {entry for entry, kind in kinds.items() if kind is True}
    place = (status.st_dev, status.st_ino)
    if place in above:
        return
    if reader_of(Look(folder, label, True, tuple(names))).format != plain_folder.FORMAT:
        yield Found(label, "" if roots is None else _leaving_below(folder, roots))
        return
    # Plain files that may belong together stand where the first of them does.
    stems = tuple(one.removesuffix(INDEX_SUFFIX) for one in names if one.endswith(INDEX_SUFFIX))
    loose = [one for one in names if one.endswith(LOOSE) and one not in folders and one not in leaving]
    for one in names:
        file = f"{name}/{one}" if name else one
        if one in leaving:
            if one in folders or one.endswith((*LOOSE, SUFFIX, INDEX_SUFFIX)):
                yield Found(file, LEAVES)
        elif one in folders:
            yield from _below(folder / one, file, (*above, place), roots)
        elif one.endswith(INDEX_SUFFIX) and any(other.startswith(one.removesuffix(INDEX_SUFFIX)) for other in leaving):
            yield Found(file, f"a shard of it {LEAVES}")
        elif one.endswith(LOOSE):
            if leaving:  # opened as one, the folder would be read with its links
                yield Found(file)
            elif one == loose[0]:
                yield Found(name or ".", loose=tuple(f"{name}/{each}" if name else each for each in loose))
        elif one.endswith(INDEX_SUFFIX) or (one.endswith(SUFFIX) and not _is_shard(one, stems)):
            yield Found(file)
        elif isinstance(kind := kinds[one], OSError):
            yield Found(file, f"cannot be looked into: {because(kind)}")


def _leaves(entry: os.DirEntry[str], roots: tuple[str, ...]) -> bool:
    """Whether an entry is a link to something that lies below none of the roots."""
    return entry.is_symlink() and not is_below(entry.path, roots)


def is_below(path: str | os.PathLike[str], roots: Iterable[str]) -> bool:
    """Whether what a path leads to is one of the roots, absolute and without links, or lies below one."""
    real = os.path.realpath(path)
    return any(real == root or real.startswith(root.rstrip(os.sep) + os.sep) for root in roots)


def _leaving_below(folder: Path, roots: tuple[str, ...]) -> str:
    """What is wrong with a dump that is a folder and is read as a whole: a link in it that leads away; else empty."""
    for parent, _, _ in os.walk(folder):
        with suppress(OSError), os.scandir(parent) as entries:
            for entry in entries:
                if _leaves(entry, roots):
                    return f"{printable(Path(entry.path).relative_to(folder))} in it {LEAVES}"
    return ""


def _is_folder(entry: os.DirEntry[str]) -> bool | OSError:
    try:
        return entry.is_dir()
    except OSError as error:  # a link into itself, or to where nobody may look: no more than itself is lost
        return error


def _is_shard(name: str, stems: tuple[str, ...]) -> bool:
    return bool(SHARD.search(name)) and SHARD.sub("", name) in stems
