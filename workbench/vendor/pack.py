"""Releases of the store in one small archive, for machines without network; and back into a store.

A pack is a tar in xz: first ``index.json`` with the manifests, then the libraries in the order of the manifests, with
the code of all but some architectures blanked. Releases share much, so that one dictionary runs over all of them. The
same entries give the same bytes. Unpacking needs nothing beyond the standard library, ``packaging`` and ``filelock``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import lzma
import os
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from workbench.errors import UsageError
from workbench.targets import put_in_place
from workbench.vendor.disk import PIECE, Progress, disk, pour, silent, write
from workbench.vendor.errors import VendorError
from workbench.vendor.fatbin import Capability, architectures, blank, name_arch, read_fatbins
from workbench.vendor.manifest import Library, Manifest, as_json, load, read_json
from workbench.vendor.release import Wheel
from workbench.vendor.store import (
    Added,
    Stored,
    check_place,
    find,
    folder_in,
    locked,
    publish,
    scan,
    staging,
    store_root,
    write_manifest,
)

FORMAT = 1
INDEX = "index.json"
MOST_INDEX = 16 << 20  # bytes
MOST_IN_ALL = 64 << 30  # bytes of all libraries
DICTIONARY = 128 << 20  # bytes; so that a release is found again in the one before it
MEMORY = 512 << 20  # bytes that unpacking may take for the dictionary
CURE = "give --force"
_BLOCK = 512  # bytes of a tar's blocks
_END = 2 * _BLOCK


@dataclass(frozen=True)
class Packed:
    """What a pack came to.

    Attributes:
        size: in bytes. manifests: as they are inside.
        left_out: (release, library) of those that a release loads on none of the architectures.
    """

    size: int
    manifests: tuple[Manifest, ...]
    left_out: tuple[tuple[str, str], ...]


def pack(
    stored: Iterable[Stored],
    archs: Iterable[Capability],
    target: str | os.PathLike[str],
    *,
    force: bool = False,
    progress: Progress = silent,
) -> Packed:
    """Write releases to a pack, for some architectures.

    Args:
        stored: of the store; each is held against its manifest first. archs: as in ``(9, 0)``.
        force: whether a file that is there is replaced.

    Raises:
        UsageError: nothing to pack, or an architecture that a release has no machine code for. VendorError: a library
            is damaged, or the disk's refusal. Nothing is written then.
    """
    wanted = tuple(sorted(set(archs)))
    chosen = sorted({one.wheel: one for one in stored}.values(), key=lambda one: one.wheel)
    if not wanted or not chosen:
        raise UsageError("name the releases to pack and the architectures to keep")
    loaded = [_loaded(one.manifest, wanted) for one in chosen]
    file, name = Path(target), os.fspath(target)
    total = sum(one.manifest.size for one in chosen)
    with disk(name), put_in_place(file, name, overwrite=force, cure=CURE) as temporary:
        made, left_out = [], []
        done = 0
        for one, files in zip(
            chosen, loaded, strict=True
        ):  # once to know what the index holds, once to write it: a library at a time is in memory
            kept = []
            for library in one.manifest.libraries:
                progress("blanking other architectures", done, total)
                done += library.size
                if library.file in files:
                    kept.append(_blanked(one, library, wanted)[0])
                else:
                    left_out.append((one.release, library.file))
            made.append(replace(one.manifest, libraries=tuple(kept), packed_for=tuple(map(name_arch, wanted))))
        _write(temporary, chosen, made, wanted, progress)
        size = temporary.stat().st_size
        with temporary.open("rb+") as file_written:
            os.fsync(file_written.fileno())
    return Packed(size, tuple(made), tuple(left_out))


def _loaded(manifest: Manifest, wanted: Sequence[Capability]) -> set[str]:
    """The files that a release loads for some op on some architecture; UsageError where it has none for one."""
    files: set[str] = set()
    for capability in wanted:
        ops = [op for op in manifest.ops if manifest.runs(op, capability)]
        if not ops:
            inside = ", ".join(name for name in manifest.architectures if name.startswith("sm_")) or "none"
            raise UsageError(f"{manifest.wheel} has no machine code for {name_arch(capability)}; it has {inside}")
        files.update(manifest.library_for(op, capability).file for op in ops)
    return files


def _blanked(one: Stored, library: Library, wanted: Sequence[Capability]) -> tuple[Library, bytearray]:
    """A library with the code of other architectures blanked, and its record."""
    from workbench.vendor.elf import read_elf

    path = one.folder / library.file
    data = bytearray(path.read_bytes())
    if hashlib.sha256(data).hexdigest() != library.sha256:
        one.verify()  # says what to do
    device = read_elf(path, library.file).device
    blank(data, read_fatbins(data, device, library.file), wanted)
    left = architectures(read_fatbins(data, device, library.file))
    return replace(library, sha256=hashlib.sha256(data).hexdigest(), architectures=left), data


def _write(
    file: Path, chosen: Sequence[Stored], made: Sequence[Manifest], wanted: Sequence[Capability], progress: Progress
) -> None:
    index = json.dumps({"format": FORMAT, "releases": [as_json(one) for one in made]}, indent=1).encode()
    total = sum(one.size for one in made)
    room = len(index) + total + (4 << 10)
    with file.open("wb") as out:
        coder = lzma.LZMACompressor(lzma.FORMAT_XZ, lzma.CHECK_CRC64, filters=_filters(room))
        tar = _Tar(out, coder)
        tar.put(INDEX, index, silent, 0, 0)
        done = 0
        for one, manifest in zip(chosen, made, strict=True):
            sources = {library.file: library for library in one.manifest.libraries}
            for library in manifest.libraries:
                again, data = _blanked(one, sources[library.file], wanted)
                if again != library:
                    raise VendorError(f"{one.release}: {library.file} changed while it was packed; pack again")
                tar.put(_member(manifest, library), data, progress, done, total)
                done += library.size
        tar.end()


def _filters(size: int) -> list[dict[str, int]]:
    dictionary = 1 << 20
    while dictionary < min(size, DICTIONARY):
        dictionary *= 2
    # preset 6 takes twice the time and half as much memory again for 2 % less
    return [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": 3, "dict_size": dictionary}]


def _member(manifest: Manifest, library: Library) -> str:
    return f"{manifest.wheel.package}/{manifest.wheel.version}/{library.file}"


class _Tar:
    """A tar of plain files that is compressed as it is written."""

    def __init__(self, out: BinaryIO, coder: lzma.LZMACompressor) -> None:
        self._out, self._coder = out, coder

    def put(self, name: str, data: bytes | bytearray, progress: Progress, done: int, total: int) -> None:
        self._code(_header(name, len(data)))
        view = memoryview(data)
        for at in range(0, len(view), PIECE):
            self._code(view[at : at + PIECE])
            progress("packing", done + at, total)
        self._code(bytes(-len(data) % _BLOCK))

    def end(self) -> None:
        self._code(bytes(_END))
        write(self._out, self._coder.flush())

    def _code(self, piece: bytes | memoryview) -> None:
        write(self._out, self._coder.compress(piece))


def _header(name: str, size: int) -> bytes:
    """The header of a plain file of nobody's, made at no time; names are short enough for the oldest form."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    try:
        return info.tobuf(tarfile.USTAR_FORMAT, "ascii", "strict")
    except ValueError as error:  # UnicodeEncodeError among them
        raise VendorError(f"{name}: a name that a pack cannot hold: {error}") from None


def unpack(
    file: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    *,
    force: bool = False,
    progress: Progress = silent,
) -> list[Added]:
    """Put the releases of a pack into a store; all of them or, on any error, none.

    Args:
        file: what ``pack`` wrote; it is read as a hostile file. root: the store's folder; see ``store_root``.
        force: whether entries that are there are replaced; otherwise they stay, and are given as not fresh.

    Raises:
        UsageError: no such file. VendorError: no pack, a damaged one, or the disk's refusal.
    """
    path, base = Path(file), store_root(root)
    if not path.is_file():
        raise UsageError(f"{os.fspath(file)}: no such file")
    with disk(path), path.open("rb") as source:
        reader = _Reader(source, path.name)
        manifests = _index(reader)
        need = sum(one.size for one in manifests)
        with locked(base, progress), disk(base), staging(base) as stage:
            if (free := shutil.disk_usage(base).free) < need:
                raise VendorError(f"{base}: {need >> 20} MiB are needed, {free >> 20} MiB are free")
            for manifest in manifests:
                check_place(base, manifest.wheel)
            done = 0
            for at, manifest in enumerate(manifests):
                for library in manifest.libraries:
                    _take(reader, manifest, library, stage / str(at), progress, done, need)
                    done += library.size
                write_manifest(manifest, stage / str(at))
            reader.end()
            there = {one.wheel for one in scan(base)[0]}
            fresh = [force or one.wheel not in there for one in manifests]
            new = {stage / str(at): one.wheel for at, one in enumerate(manifests) if fresh[at]}
            with _all_or_none(base, new):
                return [Added(find(one.wheel, base), is_new) for one, is_new in zip(manifests, fresh, strict=True)]


def read_index(file: str | os.PathLike[str]) -> tuple[Manifest, ...]:
    """The manifests in a pack, its libraries unread; errors as ``unpack``."""
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"{os.fspath(file)}: no such file")
    with disk(path), path.open("rb") as source:
        return _index(_Reader(source, path.name))


@contextlib.contextmanager
def _all_or_none(base: Path, new: Mapping[Path, Wheel]) -> Iterator[None]:
    """Put finished entries in their places, what is there making way; if anything fails, all is as it was before.

    Args:
        new: the releases by the folders that hold them, each in a staging folder, where old entries are set aside.
    """
    moves: list[tuple[Path, Path]] = []  # each noted before it is made, so that an interrupt loses none
    try:
        for entry, wheel in new.items():
            if (old := folder_in(base, wheel)).is_dir():
                moves.append((old, entry.with_name(f"{entry.name}-old")))
                old.rename(moves[-1][1])
            moves.append((entry, base / wheel.package / str(wheel.version)))
            publish(entry, base, wheel)
        yield
    except BaseException:
        for start, end in reversed(moves):
            if end.is_dir() and not start.exists():
                start.parent.mkdir(exist_ok=True)
                end.rename(start)
            with contextlib.suppress(OSError):
                end.parent.rmdir()  # of a package that has no other release
        raise


def _index(reader: _Reader) -> tuple[Manifest, ...]:
    name, size = reader.header()
    if name != INDEX or size > MOST_INDEX:
        raise VendorError(f"{reader.name}: no pack of libraries")
    try:
        document = read_json(b"".join(reader.content(size)))
        if not isinstance(document, dict) or set(document) != {"format", "releases"}:
            raise ValueError("an object of format and releases is needed")
        if document["format"] != FORMAT or not isinstance(document["releases"], list):
            raise ValueError(f"format {str(document['format'])[:20]!r}; this workbench reads format {FORMAT}")
        manifests = tuple(load(one) for one in document["releases"])
    except ValueError as error:
        raise VendorError(f"{reader.name}: its index cannot be read: {error}") from None
    wheels = [one.wheel for one in manifests]
    if not wheels or wheels != sorted(set(wheels)):
        raise VendorError(f"{reader.name}: its index does not list each release once, in order")
    if sum(one.size for one in manifests) > MOST_IN_ALL:
        raise VendorError(f"{reader.name}: says that it unpacks to more than {MOST_IN_ALL >> 30} GiB; refused")
    return manifests


def _take(
    reader: _Reader, manifest: Manifest, library: Library, entry: Path, progress: Progress, done: int, total: int
) -> None:
    expected = (_member(manifest, library), library.size)
    if reader.header() != expected:
        raise VendorError(f"{reader.name}: its index lists {expected[0]} here, and another file lies there; damaged")

    def told() -> Iterator[bytes]:
        at = done
        for piece in reader.content(library.size):
            yield piece
            at += len(piece)
            progress("unpacking", at, total)

    sha256, _ = pour(told(), entry / library.file)
    if sha256 != library.sha256:
        raise VendorError(
            f"{reader.name}: {expected[0]} is not what the index says (its sha256 differs); copy the pack again"
        )


class _Reader:
    """A tar in xz, read front to back; never inflated further than asked for."""

    def __init__(self, source: BinaryIO, name: str) -> None:
        self.name = name
        self._source = source
        self._coder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY)

    def header(self) -> tuple[str, int]:
        """The name and size of the next file, which must be a plain one."""
        try:
            info = tarfile.TarInfo.frombuf(self._exactly(_BLOCK), "ascii", "strict")
        except (tarfile.HeaderError, ValueError) as error:
            raise VendorError(f"{self.name}: no pack that can be read: {error}") from None
        if info.type != tarfile.REGTYPE or info.size < 0:
            raise VendorError(f"{self.name}: holds {info.name[:100]!a}, which is no plain file; refused")
        return info.name, info.size

    def content(self, size: int) -> Iterator[bytes]:
        """The bytes of the file whose header was read."""
        left = size
        while left:
            piece = self._exactly(min(left, PIECE))
            left -= len(piece)
            yield piece
        if any(self._exactly(-size % _BLOCK)):
            raise VendorError(f"{self.name}: no pack that can be read: something lies between two files")

    def end(self) -> None:
        """Demand that nothing follows."""
        zeros = self._exactly(_END)
        more = self._some(1)
        if not more and not self._coder.eof:
            raise VendorError(f"{self.name}: ends early; copy the pack again")
        if any(zeros) or more or self._coder.unused_data or self._source.read(1):
            raise VendorError(f"{self.name}: something follows the files that its index lists; refused")

    def _exactly(self, size: int) -> bytes:
        parts, left = [], size
        while left:
            piece = self._some(left)
            if not piece:
                raise VendorError(f"{self.name}: ends early; copy the pack again")
            parts.append(piece)
            left -= len(piece)
        return b"".join(parts)

    def _some(self, most: int) -> bytes:
        """At least one byte, unless the end was reached."""
        try:
            while not self._coder.eof:
                fresh = self._source.read(PIECE) if self._coder.needs_input else b""
                if self._coder.needs_input and not fresh:
                    return b""
                if piece := self._coder.decompress(fresh, most):
                    return piece
        except lzma.LZMAError as error:
            raise VendorError(f"{self.name}: no pack that can be read: {error}") from None
        return b""
