"""The plan of an audit: every file with its units, from headers alone, and the same for the same files."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import torch

from workbench.audit.asked import Asked
from workbench.audit.unit import Unit
from workbench.audit.walk import Found, walk
from workbench.capture import Capture, open_capture
from workbench.capture.foreign import INDEX_SUFFIX
from workbench.capture.row import SCORE_DTYPES
from workbench.capture.values import shown
from workbench.errors import CaptureError, UsageError
from workbench.paths.catalog import find_paths

UNIT_LINES = 2**15  # of records, at most, where a row has no more
PART_LINES = 2**16
NOTHING_THERE = "holds no capture and no dump; name a folder of captures"
_RENAME = "rename it, and audit it into another folder"
_ASKED = "what is asked for cannot be: "
_SIZES = {name: dtype.itemsize for dtype, name in SCORE_DTYPES.items()}


@dataclass(frozen=True)
class File:
    """One capture of the plan.

    Attributes:
        file: below the audited folder. size: bytes, ``None`` where it could not be seen. stamp: as ``Capture.stamp``.
        rows: how many. longest: valid scores of the longest one. lines: of the records, at most, for each row.
        spans: (first row, rows, bytes of valid scores) of each unit. error: why it cannot be opened.
    """

    file: str
    size: int | None
    stamp: str = ""
    rows: int = 0
    longest: int = 0
    lines: int = 0
    spans: tuple[tuple[int, int, int], ...] = ()
    error: str = ""

    @property
    def bytes(self) -> int:
        """Of all its valid scores."""
        return sum(span[2] for span in self.spans)


@dataclass(frozen=True)
class Job:
    """A unit with its number in the plan, and what the file looked like then."""

    number: int
    unit: Unit
    stamp: str


@dataclass(frozen=True)
class AuditPlan:
    """Files in order. Units are numbered through; parts are runs of units that share a file of records."""

    files: tuple[File, ...]

    def jobs(self) -> Iterator[Job]:
        """Every unit."""
        number = 0
        for file in self.files:
            for first, count, size in file.spans:
                yield Job(number, Unit(file.file, first, count, size), file.stamp)
                number += 1

    def parts(self) -> list[range]:
        """The numbers of the units of each part: as many in a row as have ``PART_LINES`` lines or fewer, or one."""
        found: list[range] = []
        begin = number = lines = 0
        for file in self.files:
            for _, count, _ in file.spans:
                if number > begin and lines + count * file.lines > PART_LINES:
                    found.append(range(begin, number))
                    begin, lines = number, 0
                lines += count * file.lines
                number += 1
        return [*found, range(begin, number)] if number > begin else found

    @property
    def longest(self) -> int:
        """Valid scores of the longest row."""
        return max((file.longest for file in self.files), default=0)

    @property
    def units(self) -> int:
        """How many."""
        return sum(len(file.spans) for file in self.files)

    @property
    def rows(self) -> int:
        """Of all files that could be opened."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """Of all valid scores."""
        return sum(file.bytes for file in self.files)


Planned = dict[tuple[object, ...], File]  # files by what names their content and what is asked of them


def make_plan(
    asked: Asked, seen: Callable[[int], None] = lambda files: None, *, leave: bool = True, known: Planned | None = None
) -> AuditPlan:
    """Look at every file.

    Args:
        seen: called with the number of files looked at, now and then. leave: as for ``walk``.
        known: files that were looked at before with the same ``asked``, and are not again; others are put there.

    Raises:
        UsageError: there is nothing to audit, or the names of tensors and such cannot be understood.
    """
    lines = len(find_paths(asked.paths))
    files: dict[str, File] = {}
    for found in walk(asked.folder, asked.inputs, leave=leave):
        for file in _looked_at(found, asked, lines, known):
            files.setdefault(file.file, file)
            seen(len(files))
    if not files:
        raise UsageError(f"{shown(asked.folder)}: {NOTHING_THERE}")
    if not any(file.rows for file in files.values()):
        for file in files.values():
            if file.error.startswith(_ASKED):
                raise UsageError(f"{shown(file.file)}: {file.error.removeprefix(_ASKED)}")
    return AuditPlan(tuple(_told_apart(files.values())))


def _told_apart(files: Iterable[File]) -> Iterator[File]:
    """Files whose names are printed alike, as those that are no UTF-8 may be, could not be told apart in the records:
    the first of them is audited, the others are named by their digests and are errors."""
    known: set[str] = set()
    for file in files:
        if (name := shown(file.file)) in known:
            digest = hashlib.sha256(os.fsencode(file.file)).hexdigest()[:16]
            yield File(f"{name}#{digest}", file.size, error=f"its name is printed as that of another file; {_RENAME}")
        else:
            known.add(name)
            yield file


def _looked_at(found: Found, asked: Asked, lines: int, known: Planned | None) -> Iterable[File]:
    if found.error:
        return [File(found.file, None, error=found.error)]
    if not found.loose:
        return [_known_file(found.file, asked, lines, known)]
    single = [_known_file(file, asked, lines, known) for file in found.loose]
    if len(single) == 1 or not any(file.error for file in single):
        return single
    # Where some say nothing by themselves, as lengths beside scores, the folder may say it.
    together = _file(found.file, asked, lines, whole=True)
    return single if together.error else [together]


def _known_file(name: str, asked: Asked, lines: int, known: Planned | None) -> File:
    """As ``_file``; a file by itself is looked at once for as long as its status stays."""
    key = () if known is None else _status(asked.path_of(name))
    if known is None or not key:
        return _file(name, asked, lines)
    if (name, *key) not in known:
        found = _file(name, asked, lines)
        if found.error or _status(asked.path_of(name)) != key:
            return found
        known[name, *key] = found
    return known[name, *key]


def _status(path: Path) -> tuple[object, ...]:
    """What changes whenever a file does; empty for a folder or a set of several files, of which it would not tell."""
    if path.name.endswith(INDEX_SUFFIX):
        return ()
    try:
        status = path.stat()
    except OSError:
        return ()
    regular = stat.S_ISREG(status.st_mode)
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_dev, status.st_ino) if regular else ()


def _file(name: str, asked: Asked, lines: int, whole: bool = False) -> File:
    """One file or dump, by its headers.

    Args:
        whole: whether a part of it that cannot be read is an error.
    """
    path = asked.path_of(name)
    try:
        with open_capture(path, **asked.opening) as capture:
            if whole and (broken := [line for line in capture.info.left if "cannot be read" in line]):
                return File(name, None, error=broken[0])
            cells = _cells(capture)
            size = max(_SIZES[name] for name in capture.info.dtype.split(", "))
            return File(
                name,
                capture.info.size_bytes,
                capture.stamp,
                len(capture),
                int(cells.max()),
                lines + capture.info.recorded,
                tuple(_spans(cells * size, asked.unit_bytes, max(1, UNIT_LINES // (lines + 1)))),
            )
    except CaptureError as error:
        return File(name, _size(path), error=error.within)
    except UsageError as error:  # what is asked for does not go with this file; it may with others
        return File(name, _size(path), error=f"{_ASKED}{error}")


def _size(path: Path) -> int | None:
    try:
        return os.stat(path).st_size if path.is_file() else None  # noqa: PTH116
    except OSError:
        return None


def _cells(capture: Capture) -> torch.Tensor:
    """How many valid scores each row has, int64 [rows]."""
    store = capture.store
    return torch.minimum(store.lengths.to(torch.int64).clamp(min=0), store.widths() - store.starts())


def _spans(sizes: torch.Tensor, most_bytes: int, most_rows: int) -> Iterator[tuple[int, int, int]]:
    """Runs of rows of so many bytes each that hold at most ``most_bytes``, and at most so many rows; or one row."""
    total = torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)])
    first, rows = 0, sizes.numel()
    while first < rows:
        fits = int(torch.searchsorted(total, total[first] + most_bytes, right=True)) - 1
        last = min(max(first + 1, fits), first + most_rows, rows)
        yield first, last - first, int(total[last] - total[first])
        first = last


def appeared(known: Collection[str], asked: Asked, *, leave: bool = True) -> tuple[str, ...]:
    """What there is to open now that is not known, by printable names; no file is looked into."""
    found = (one for one in walk(asked.folder, asked.inputs, leave=leave) if shown(one.file) not in known)
    names = (shown(file) for one in found for file in (one.loose or (one.file,)))
    return tuple(dict.fromkeys(name for name in names if name not in known))


def dumped(plan: AuditPlan) -> str:
    """The plan as lines of JSON, and the digest of these."""
    text = "".join(json.dumps(vars(file), ensure_ascii=True) + "\n" for file in plan.files)
    return f"{text}{_digest(text)}\n"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def loaded(text: str) -> AuditPlan:
    """The plan out of its lines.

    Raises:
        ValueError: it is none, or not whole.
    """
    *lines, digest = text.splitlines(keepends=True) or [""]
    if digest != f"{_digest(''.join(lines))}\n":
        raise ValueError("the plan is damaged")
    try:
        return AuditPlan(tuple(_of_line(json.loads(line)) for line in lines))
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"the plan is damaged: {error}") from None


def _of_line(content: Any) -> File:
    """A file of a plan that nobody vouches for.

    Raises:
        ValueError, TypeError, KeyError: no plan has such a one.
    """
    spans = tuple((first, count, size) for first, count, size in content.pop("spans"))
    file = File(**content, spans=spans)
    texts, counts = (file.file, file.stamp, file.error), (file.size or 0, file.rows, file.longest, file.lines)
    if not all(type(one) is str for one in texts) or not all(type(one) is int and one >= 0 for one in counts):
        raise ValueError(f"no file of a plan: {content}")
    place = PurePath(file.file)
    if not file.file or place.is_absolute() or ".." in place.parts or (file.error and spans):
        raise ValueError(f"no file of a plan: {content}")
    at = 0
    for first, count, size in spans:
        if not all(type(one) is int for one in (first, count, size)) or first != at or count < 1 or size < 0:
            raise ValueError(f"no spans of a plan: {spans}")
        at += count
    if at != file.rows:
        raise ValueError(f"spans of {at} rows, and {file.rows} rows")
    return file
