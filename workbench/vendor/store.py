"""The libraries of releases in a user's cache: ``<package>/<version>/``, each with its manifest.

An entry is made in a staging folder and appears under its name at once. Reading needs neither a lock nor a writable
folder. A library is held against its manifest whenever it is handed out, so that damage in the cache is found.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from workbench.errors import UsageError, WorkbenchError
from workbench.vendor.disk import Progress, disk, parse_sha256, pour, sha256_of, silent
from workbench.vendor.errors import VendorError
from workbench.vendor.fatbin import Capability, architectures, read_fatbins
from workbench.vendor.manifest import MOST_BYTES, NAME, Library, Manifest, Registered, dump_manifest, parse_manifest
from workbench.vendor.release import Wheel, parse_wheel
from workbench.words import because

ENVIRONMENT = "TOPK_WORKBENCH_VENDOR"
STAGING = ".staging-"
LOCK = ".lock"


def store_root(root: str | os.PathLike[str] | None = None) -> Path:
    """The folder of the store: the one given, else that of ``TOPK_WORKBENCH_VENDOR``, else in the user's cache.

    Raises:
        UsageError: nothing is given as its name, or a home that is not known. VendorError: something else lies there.
    """
    given = root if root is not None else os.environ.get(ENVIRONMENT) or None
    if given is None:
        import platformdirs

        base = platformdirs.user_cache_path("topk-workbench") / "vendor"
    elif not os.fspath(given):
        raise UsageError("the store has no name; give a folder")
    else:
        try:
            base = Path(given).expanduser().absolute()
        except RuntimeError:
            raise UsageError(f"{os.fspath(given)}: there is no such home; name the store's folder in full") from None
    _check_folder(base, "the store is to be a folder; name another, or move this away")
    return base


def _check_folder(place: Path, cure: str) -> None:
    """Refuse what is there and no folder."""
    with disk(place):
        if os.path.lexists(place) and not place.is_dir():
            raise VendorError(f"{place}: this is no folder; {cure}")


@dataclass(frozen=True)
class Stored:
    """A release that the store holds: its folder and manifest."""

    folder: Path
    manifest: Manifest

    @property
    def wheel(self) -> Wheel:
        """Package and version."""
        return self.manifest.wheel

    @property
    def release(self) -> str:
        """As in ``vllm==0.26.0``."""
        return str(self.manifest.wheel)

    def library_for(self, op: str, capability: Capability) -> Path:
        """The library that the release loads for an op on a GPU, once it is what was stored.

        Raises:
            VendorError: no library has the op, or code for the GPU; or its file is damaged.
        """
        library = self.manifest.library_for(op, capability)
        self._verify(library)
        return self.folder / library.file

    def verify(self) -> None:
        """Hold every library against the manifest; VendorError for the first that differs."""
        for library in self.manifest.libraries:
            self._verify(library)

    def _verify(self, library: Library) -> None:
        path = self.folder / library.file
        again = f"remove the release (workbench vendor remove {self.release}) and add it again"
        if not path.is_file():
            raise VendorError(f"{path}: a kept library is gone; {again}")
        with disk(path):
            if path.stat().st_size != library.size or sha256_of(path) != library.sha256:
                raise VendorError(f"{path}: not the library that was stored; {again}")


@dataclass(frozen=True)
class Damaged:
    """A folder of the store that is no entry, and why."""

    folder: Path
    release: str
    reason: str


@dataclass(frozen=True)
class Added:
    """What an addition came to: the entry, and whether it is new."""

    stored: Stored
    fresh: bool


def scan(root: str | os.PathLike[str] | None = None) -> tuple[list[Stored], list[Damaged]]:
    """Every entry by package and version, and every folder that should be one and is not."""
    base = store_root(root)
    stored, damaged = [], []
    with disk(base):
        folders = sorted(base.glob("[!.]*/[!.]*/")) if base.is_dir() else []
    for folder in folders:
        try:
            stored.append(_open(folder))
        except WorkbenchError as error:
            damaged.append(Damaged(folder, f"{folder.parent.name}=={folder.name}", str(error)))
    return sorted(stored, key=lambda one: one.wheel), damaged


def entries(root: str | os.PathLike[str] | None = None) -> list[Stored]:
    """Every entry, by package and version.

    Raises:
        VendorError: an entry is damaged; ``scan`` gives the others.
    """
    stored, damaged = scan(root)
    if damaged:
        raise VendorError(damaged[0].reason)
    return stored


def find(wheel: Wheel, root: str | os.PathLike[str] | None = None) -> Stored:
    """The entry of a release.

    Raises:
        UsageError: it was not added. VendorError: it is damaged.
    """
    folder = folder_in(store_root(root), wheel)
    if not folder.is_dir():
        raise UsageError(f"{wheel} is not in the store; add it with: workbench vendor add {wheel}")
    return _open(folder)


def releases_of(package: str, root: str | os.PathLike[str] | None = None) -> list[Wheel]:
    """The releases of a package that were added, oldest first."""
    return [one.wheel for one in entries(root) if one.wheel.package == package]


def releases_between(least: Wheel, most: Wheel, root: str | os.PathLike[str] | None = None) -> list[Wheel]:
    """The releases of a package that were added, from one to another, both included; oldest first."""
    return [one for one in releases_of(least.package, root) if least <= one <= most]


def folder_in(root: Path, wheel: Wheel) -> Path:
    """The folder of a release: of the equal one that is there (0.26 is 0.26.0), else the one that it would get."""
    own = root / wheel.package / str(wheel.version)
    with disk(own):
        if own.is_dir() or not own.parent.is_dir():
            return own
        same = [one for one in own.parent.iterdir() if one.is_dir() and _is_version(one.name, wheel.version)]
    return min(same, default=own)


def _is_version(name: str, version: Version) -> bool:
    try:
        return Version(name) == version
    except InvalidVersion:
        return False


def check_place(root: Path, wheel: Wheel) -> None:
    """Refuse to begin where something else than a release lies in the place of one; VendorError."""
    folder = root / wheel.package / str(wheel.version)
    for place in (folder.parent, folder):
        _check_folder(place, f"{wheel} goes there; move this away")


def _open(folder: Path) -> Stored:
    name = folder / NAME
    again = _cure(folder)
    try:
        with name.open("rb") as file:
            manifest = parse_manifest(file.read(MOST_BYTES + 1), str(name))
    except OSError as error:
        raise VendorError(f"{name}: {error.strerror or error}; {again}") from None
    except VendorError as error:
        raise VendorError(f"{error}; {again}") from None
    if (manifest.wheel.package, str(manifest.wheel.version)) != (folder.parent.name, folder.name):
        raise VendorError(f"{name}: the manifest of {manifest.wheel} lies in the folder of another release; {again}")
    return Stored(folder, manifest)


def _cure(folder: Path) -> str:
    release = f"{folder.parent.name}=={folder.name}"
    with contextlib.suppress(UsageError):
        if str(parse_wheel(release)) == release:
            return f"remove it with: workbench vendor remove {release}"
    return "no release has such a folder; move it away"


def add(
    source: str | os.PathLike[str],
    *,
    sha256: str | None = None,
    machine: str = "x86_64",
    python: str = "3.12",
    root: str | os.PathLike[str] | None = None,
    progress: Progress = silent,
) -> Added:
    """Take the libraries that register selector ops out of a wheel and keep them. The wheel itself is not kept.

    Args:
        source: a release, as in ``vllm==0.26.0``, that pip fetches; or a wheel's file, which is left where it is.
        sha256: what the whole wheel must have, in hexadecimal; it is checked before the wheel is read.
        machine: of the wheel that is fetched, ``x86_64`` or ``aarch64``. python: the version that it must run on.
        root: the store's folder; see ``store_root``.

    Raises:
        UsageError: no release or file of that name. VendorError: no such wheel, a wheel that is damaged, has another
            sha256 or registers no selector op; or the disk's refusal. Nothing is left of it then.
    """
    wanted = None if sha256 is None else parse_sha256(sha256)
    text = os.fspath(source)
    file = Path(text) if text.endswith(".whl") or not isinstance(source, str) or Path(text).is_file() else None
    base = store_root(root)
    if file is not None:
        from workbench.vendor.wheel import parse_file_name

        if not file.is_file():
            raise UsageError(f"{text}: no such file")
        wheel, machine = parse_file_name(file.name)
    else:
        wheel = parse_wheel(text)
    if (found := _there(base, wheel, machine, wanted)) is not None:  # a store that cannot be written will do for that
        return Added(found, False)
    check_place(base, wheel)  # before anything is fetched
    with locked(base, progress), disk(base):
        if (found := _there(base, wheel, machine, wanted)) is not None:  # from a process that was faster
            return Added(found, False)
        with staging(base) as stage:
            if file is None:
                from workbench.vendor.fetch import fetch

                (stage / "wheel").mkdir()
                file = fetch(wheel, stage / "wheel", machine=machine, python=python, progress=progress)
            manifest = _take(file, wheel, wanted, stage / "entry", progress)
            return Added(Stored(publish(stage / "entry", base, manifest.wheel), manifest), True)


def _there(base: Path, wheel: Wheel, machine: str, sha256: str | None) -> Stored | None:
    """The entry of a release if there is one, whole, and what is asked for."""
    if not folder_in(base, wheel).is_dir():
        return None
    found = find(wheel, base)
    found.verify()
    other = None
    if found.manifest.machine != machine:
        other = f"made for {found.manifest.machine}"
    elif sha256 is not None and sha256 != found.manifest.sha256:
        other = f"from a wheel with sha256 {found.manifest.sha256}"
    if other is not None:
        raise UsageError(
            f"{found.wheel} is in the store already, {other}; remove it first: workbench vendor remove {found.wheel}"
        )
    return found


def _take(file: Path, wheel: Wheel, sha256: str | None, entry: Path, progress: Progress) -> Manifest:
    """Make an entry of a wheel in a folder."""
    from workbench.vendor.wheel import open_wheel

    size = file.stat().st_size
    whole = sha256_of(file, lambda done: progress("checking the wheel", done, size))
    if sha256 is not None and whole != sha256:
        raise VendorError(
            f"{file.name}: its sha256 is {whole}, and not {sha256}; fetch it again from a source that you trust"
        )
    with open_wheel(file) as opened:
        if opened.wheel != wheel:
            raise VendorError(f"{file.name}: this is {opened.wheel}; {wheel} was asked for")
        libraries = []
        for found in opened.selectors(progress):
            target = entry / found.file
            digest = opened.extract(found, target)
            libraries.append(_describe(target, found.file, digest, found.ops, opened.machine))
        if not libraries:
            from workbench.vendor.schemas import known_schemas

            known = ", ".join(sorted(op for *_, op in known_schemas()))
            raise VendorError(f"{file.name}: no library in it registers a selector op; known are {known}")
        # as the wheel spells its version, of which 0.26 and 0.26.0 are one
        manifest = Manifest(opened.wheel, file.name, whole, opened.machine, opened.torch, tuple(libraries))
    write_manifest(manifest, entry)
    return manifest


def _describe(path: Path, name: str, sha256: str, ops: tuple[Registered, ...], machine: str) -> Library:
    from workbench.vendor.elf import read_elf

    elf = read_elf(path, name)
    if elf.machine != machine:
        raise VendorError(f"{name}: made for {elf.machine}; the wheel says {machine}")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        inside = architectures(read_fatbins(data, elf.device, name))
        return Library(name, sha256, len(data), ops, elf.needed, elf.glibc, inside)


def remove(wheel: Wheel, root: str | os.PathLike[str] | None = None, progress: Progress = silent) -> Path:
    """Take a release out of the store, damaged or not; the folder that it was in.

    Raises:
        UsageError: it is not there. VendorError: the disk's refusal.
    """
    base = store_root(root)
    folder = folder_in(base, wheel)
    if not folder.is_dir():
        held = ", ".join(str(one.wheel) for one in scan(base)[0]) or "nothing"
        raise UsageError(f"{wheel} is not in the store, which holds {held}")
    with locked(base, progress), disk(base), staging(base) as stage:
        if folder.is_dir():  # another process may have been faster
            folder.rename(stage / "removed")
            with contextlib.suppress(OSError):
                folder.parent.rmdir()
    return folder


@contextlib.contextmanager
def locked(base: Path, progress: Progress = silent) -> Iterator[None]:
    """Hold the store for writing; the folder is made where it is not there, and leftovers of killed processes go.

    Raises:
        VendorError: the folder cannot be made or locked.
    """
    from filelock import FileLock, Timeout

    with disk(base):
        base.mkdir(parents=True, exist_ok=True)
    lock = FileLock(base / LOCK)
    try:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            progress("waiting for another process that writes to the store", 0, None)
            lock.acquire()
    except (OSError, NotImplementedError) as error:
        raise VendorError(f"{base}: the store cannot be locked for writing: {because(error)}") from None
    try:
        for leftover in base.glob(f"{STAGING}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def staging(base: Path) -> Iterator[Path]:
    """A new folder within the store that is gone when the block ends."""
    stage = Path(tempfile.mkdtemp(prefix=STAGING, dir=base))
    try:
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def write_manifest(manifest: Manifest, entry: Path) -> None:
    """Write a manifest into the folder of its entry, and read it back."""
    text = dump_manifest(manifest)
    pour(iter([text.encode()]), entry / NAME)
    if parse_manifest(text, manifest.file) != manifest:
        raise VendorError(f"{manifest.wheel}: its manifest reads back different; it was not added")


def publish(entry: Path, base: Path, wheel: Wheel) -> Path:
    """Move a finished entry to its place in the store."""
    folder = base / wheel.package / str(wheel.version)
    check_place(base, wheel)
    folder.parent.mkdir(exist_ok=True)
    try:
        entry.rename(folder)
    except OSError:
        with contextlib.suppress(OSError):
            folder.parent.rmdir()
        raise
    return folder
