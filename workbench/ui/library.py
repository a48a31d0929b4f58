"""The captures and dumps that the app offers: samples, what lies below the folders given at start, and uploads."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from workbench.audit.about import AUDIT
from workbench.audit.store import RECORDS
from workbench.capture.values import brief, shown
from workbench.errors import CaptureError
from workbench.resources import samples_dir
from workbench.runs.matrix_saved import FORMAT as MATRIX_FORMAT
from workbench.runs.matrix_saved import SUFFIX as MATRIX_SUFFIX
from workbench.ui.closing import temporary_folder
from workbench.ui.dumps import DUMPS, SUFFIXES, recognised
from workbench.words import because, few

DEFAULT_SAMPLE = "samples/smollm2-lm-head.safetensors"
UPLOADS, SAMPLES = "upload", "samples"
MOST_FILES = 2000
_SHARD = re.compile(r"-\d{5}-of-\d{5}\.safetensors$")


@dataclass(frozen=True)
class Entry:
    """One capture on offer, or a dump of another tool, a file or a folder.

    Attributes:
        key: its relative name, as links carry it: ``samples/…``, ``<folder given>/…`` or ``upload/…``.
        path: where it is. stamp: size, and what changes with each change, so that a file is then opened anew; of a
            folder, of the names in it. folder: whether it is one.
    """

    key: str
    path: Path
    stamp: tuple[int, int]
    folder: bool = False


@dataclass(frozen=True)
class Library:
    """Every file on offer, samples last where files were given. ``notes``: what could not be listed, in words."""

    entries: tuple[Entry, ...]
    notes: tuple[str, ...]
    given: bool

    def without(self, faults: Mapping[str, str]) -> Library:
        """The library without the files at fault, from which a default is taken."""
        kept = tuple(entry for entry in self.entries if not faults.get(entry.key))
        return replace(self, entries=kept)

    def get(self, key: str) -> Entry | None:
        """The entry of that key."""
        return next((entry for entry in self.entries if entry.key == key), None)

    def default(self, ready: Collection[str] = ()) -> Entry | None:
        """What the app opens on: of the files given at start the first in ``ready``, the keys of captures that can be
        inspected at once, else the first; else the default sample, which has a bad row, else the first one. Where the
        folder of samples itself was given, the default sample too."""
        given = [entry for entry in self.entries if self.given and not entry.key.startswith(f"{SAMPLES}/")]
        if not given:
            return self.get(DEFAULT_SAMPLE) or next(iter(self.entries), None)
        if (sample := _sample_among(given)) is not None:
            return sample
        return next((entry for entry in given if entry.key in ready), given[0])


def _sample_among(given: Sequence[Entry]) -> Entry | None:
    """The default sample, where nothing but samples was given."""
    try:
        samples = os.path.realpath(samples_dir())
    except FileNotFoundError:
        return None
    paths = {Path(os.path.realpath(entry.path)): entry for entry in given}
    if not all(path.is_relative_to(samples) for path in paths):
        return None
    return paths.get(Path(samples, PurePath(DEFAULT_SAMPLE).name))


def list_captures(arguments: Sequence[str]) -> Library:
    """The files named or found below the folders in ``arguments``, and the samples."""
    entries: list[Entry] = []
    notes: list[str] = []
    for label, path in labelled(arguments):
        if os.path.isdir(path):  # noqa: PTH112  that of Path raises
            leaving: list[str] = []
            closed: dict[str, OSError] = {}
            found, more = _below(path, label, leaving=leaving, closed=closed)
            entries += found
            notes += [_leaving_words(label, leaving)] if leaving else []
            notes += [_closed_words(label, closed)] if closed else []
            notes += [f"{label}: only the first {MOST_FILES} capture files are listed"] if more else []
            notes += [] if found or closed or _audits_below(path) else [f"{label}: no capture files below this folder"]
            continue
        try:
            path.stat()
        except FileNotFoundError:
            notes.append(f"{shown(path)}: no such file or folder")
        except OSError as error:
            notes.append(f"{shown(path)}: cannot be looked at: {because(error)}")
        else:
            entries += [] if is_matrix(path) else _entry(label, path)
    given = bool(entries)
    try:
        entries += _not_among(entries, _below(samples_dir(), SAMPLES)[0])
    except FileNotFoundError as error:
        notes.append(str(error))
    return Library(tuple(entries), tuple(notes), given)


def _not_among(given: Sequence[Entry], others: Sequence[Entry]) -> list[Entry]:
    """Those that are no file among those given."""
    names = {other.path.name for other in others}
    known = {os.path.realpath(entry.path) for entry in given if entry.path.name in names}
    return [other for other in others if os.path.realpath(other.path) not in known]


def _leaving_words(label: str, leaving: Sequence[str]) -> str:
    many = "a link leads" if len(leaving) == 1 else f"{len(leaving)} links lead"
    return f"{label}: {many} out of this folder, not followed: {few(leaving, 3)}"


def _closed_words(label: str, closed: Mapping[str, OSError]) -> str:
    """What of a folder cannot be looked at, and why the first of it cannot."""
    why = because(next(iter(closed.values())))
    names = few([label if one == "." else f"{label}/{one}" for one in closed], 3)
    return f"{names} {'is' if len(closed) == 1 else 'are'} not listed: {why}"


def labelled(arguments: Sequence[str]) -> list[tuple[str, Path]]:
    """What was given, each with the name that the keys of what lies below it begin with."""
    labels: dict[str, int] = {}
    return [(_label(path, labels), path) for path in map(Path, arguments)]


def _label(path: Path, labels: dict[str, int]) -> str:
    """A short name for what was given, made unique."""
    name = _spelled(path.absolute().name) or "root"
    if name in (SAMPLES, UPLOADS):
        name += "-given"
    label = name
    while label in labels:
        labels[name] += 1
        label = f"{name}-{labels[name]}"
    labels[label] = 1
    return label


def _spelled(path: Path | str) -> str:
    """A path as keys and links spell it: printable, and no two alike."""
    return shown(str(path).replace("\\", "\\\\"))


def list_matrices(arguments: Sequence[str]) -> tuple[Entry, ...]:
    """The saved matrices row × release among ``arguments``, and below the folders among them."""
    entries: list[Entry] = []
    for label, path in labelled(arguments):
        folder = os.path.isdir(path)  # noqa: PTH112
        found = _below(path, label, MATRIX_SUFFIX)[0] if folder else _entry(label, path)
        entries += [entry for entry in found if is_matrix(entry.path)]
    return tuple(entries)


def list_audits(arguments: Sequence[str]) -> tuple[Entry, ...]:
    """The output folders of audits among ``arguments``, and below the folders among them."""
    entries: list[Entry] = []
    for label, path in labelled(arguments):
        root = os.path.realpath(path)
        for folder in _audits_below(path):
            below = Path(folder).relative_to(root)
            key = f"{label}/{_spelled(below)}" if below.parts else label
            entries += [Entry(key, Path(folder), audit_stamp(Path(folder)), folder=True)]
    return tuple(entries)


def _audits_below(path: Path) -> list[str]:
    """The output folders of audits below a folder, or the folder itself, by names alone."""
    found: list[str] = []
    for parent, folders, files in os.walk(os.path.realpath(path)):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if is_audit(folders, files):
            folders.clear()
            found.append(parent)
    return found[:MOST_FILES]


def is_audit(folders: Sequence[str], files: Sequence[str]) -> bool:
    """Whether a folder that holds these names looks as the output of an audit."""
    return AUDIT in files and RECORDS in folders


def audit_stamp(folder: Path) -> tuple[int, int]:
    """What changes whenever an audit's output does: parts and manifest are put in their folders by name."""
    stamps = []
    for path in (folder, folder / RECORDS, folder / AUDIT):
        try:
            stamps.append(path.stat().st_mtime_ns)
        except OSError:
            stamps.append(0)
    return hash(tuple(stamps)), max(stamps)


def is_matrix(path: Path) -> bool:
    """Whether a file begins as a saved matrix does; whether it is one is seen when it is read."""
    if not path.name.endswith(MATRIX_SUFFIX) or not os.path.isfile(path):  # noqa: PTH113
        return False
    try:
        with path.open("rb") as file:
            return MATRIX_FORMAT.encode() in file.read(256)
    except OSError:
        return False


def _below(
    folder: Path,
    label: str,
    suffix: str | None = None,
    leaving: list[str] | None = None,
    closed: dict[str, OSError] | None = None,
) -> tuple[list[Entry], bool]:
    """Captures and dumps below a folder, or files of one suffix, in order of their names; links that leave the folder
    are not followed, and put into ``leaving``; what cannot be looked at is put into ``closed``."""
    root = os.path.realpath(folder)
    found: list[Entry] = []

    def keep(error: OSError) -> None:
        if closed is not None and not isinstance(error, FileNotFoundError):
            closed[shown(os.path.relpath(error.filename, root))] = error

    for parent, folders, files in os.walk(root, onerror=keep):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        visible = sorted(name for name in files if not name.startswith("."))
        if leaving is not None:
            away = (Path(parent, name) for name in folders)
            leaving += [
                shown(path.relative_to(root))
                for path in away
                if os.path.islink(path) and not _is_inside(path, root)  # noqa: PTH114
            ]
        if is_audit(folders, visible):
            folders.clear()
            continue
        if suffix is None:
            whole, visible = recognised(Path(parent), folders, visible)
        else:
            whole, visible = False, [name for name in visible if name.endswith(suffix)]
        sets = [name for name in visible if name.endswith(SUFFIXES[1])]
        paths = [Path(parent)] if whole else []
        # shards are opened through their index
        paths += [Path(parent, name) for name in sorted(visible) if not (sets and _SHARD.search(name))]
        for path in paths:
            if not _is_inside(path, root):
                if leaving is not None:
                    leaving.append(shown(path.relative_to(root)))
                continue
            if len(found) == MOST_FILES:
                return found, True
            below = path.relative_to(root)
            found += _entry(f"{label}/{_spelled(below)}" if below.parts else label, path, len(files), keep)
    return found, False


def _is_inside(path: Path, root: str) -> bool:
    return os.path.commonpath([root, os.path.realpath(path)]) == root


def _entry(key: str, path: Path, files: int = 0, failed: Callable[[OSError], None] = lambda error: None) -> list[Entry]:
    """One entry, none where nothing is there. ``files``: in the folder, where it is one; ``failed``: is told why there
    is none."""
    try:
        status = path.stat()
    except OSError as error:  # gone meanwhile, a link to nowhere, or in a folder that is closed
        failed(error)
        return []
    folder = stat.S_ISDIR(status.st_mode)
    changed = status.st_mtime_ns if folder else hash((status.st_mtime_ns, status.st_ctime_ns, status.st_ino))
    return [Entry(key, path, (files if folder else status.st_size, changed), folder)]


def renewed(entry: Entry) -> Entry:
    """The entry with the stamp of now, since what is listed may be some seconds old; as it is where it is gone."""
    try:
        files = sum(not one.is_dir() for one in os.scandir(entry.path)) if entry.folder else 0
    except OSError:
        return entry
    return next(iter(_entry(entry.key, entry.path, files)), entry)


class Uploads:
    """Uploaded files of one session, kept in a temporary folder that goes with it."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.entries: dict[str, Entry] = {}

    def add(self, name: str, content: bytes | memoryview) -> Entry:
        """Keep one file under its own name, shortened and stripped of any folder.

        Raises:
            CaptureError: it cannot be written.
        """
        safe = _file_name(name)
        try:
            if self._folder is None:
                self._folder = temporary_folder()
            folder = Path(self._folder.name) / hashlib.sha256(content).hexdigest()[:16]
            folder.mkdir(exist_ok=True)
            path = folder / safe
            path.write_bytes(content)
        except OSError as error:
            raise CaptureError(f"the upload cannot be kept: {because(error)}", file=safe) from None
        entry = _entry(f"{UPLOADS}/{safe}", path)[0]
        self.entries[entry.key] = entry
        return entry


def _file_name(name: str) -> str:
    base = re.split(r"[/\\]", name)[-1]
    kept = "".join(c for c in base if c.isprintable()).lstrip(".")
    suffix = next((one for one in (*DUMPS, SUFFIXES[0]) if kept.endswith(one)), "")
    stem = kept.removesuffix(suffix)[:80] or "capture"
    return stem + (suffix or SUFFIXES[0])


def local(error: CaptureError, entry: Entry) -> CaptureError:
    """The error with the file by its relative name, not by where it lies on this machine or by its last part alone."""
    name = shown(entry.path.name)
    if error.file not in (shown(entry.path), name, brief(name)):
        return error
    return CaptureError(error.reason, file=entry.key, tensor=error.tensor, row=error.row, call=error.call)


def same_name(entries: Iterable[Entry], key: str) -> list[Entry]:
    """Entries whose file name is that of ``key``, or of a file as messages and audits name it, wherever they lie."""
    name = key.rsplit("/", 1)[-1]
    return [entry for entry in entries if name in (entry.key.rsplit("/", 1)[-1], shown(entry.path.name))]
