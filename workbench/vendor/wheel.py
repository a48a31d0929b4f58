"""A wheel read as a hostile file: its libraries that register selector ops, each held against the wheel's RECORD."""

from __future__ import annotations

import base64
import contextlib
import csv
import errno
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path

from workbench.errors import UsageError
from workbench.vendor.disk import PIECE, Progress, pour, silent
from workbench.vendor.errors import VendorError
from workbench.vendor.manifest import MOST_LIBRARY, Registered, file_and_folder, is_safe
from workbench.vendor.release import Wheel, parse_wheel
from workbench.vendor.schemas import find_schemas

MOST_MEMBERS = 100_000
MOST_TEXT = 64 << 20  # bytes of METADATA or RECORD
MOST_IN_ALL = 32 << 30  # bytes of all libraries of a wheel
MACHINES = ("x86_64", "aarch64")
_FILE = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)(-[0-9][^-]*)?-[^-]+-[^-]+-(?P<platform>[^-]+)\.whl")
_LIBRARY = re.compile(r"\.so(\.[0-9]+)*$")


@dataclass(frozen=True)
class Found:
    """A library of a wheel that registers selector ops: its name in the wheel, bytes and ops."""

    file: str
    size: int
    ops: tuple[Registered, ...]


def parse_file_name(name: str) -> tuple[Wheel, str]:
    """The release and machine in a wheel's file name; UsageError for a name that is none."""
    found = _FILE.fullmatch(name)
    if found is None:
        raise UsageError(
            f"{name}: no name of a wheel; one is named as in vllm-0.26.0-cp38-abi3-manylinux_2_28_x86_64.whl"
        )
    wheel = parse_wheel(f"{found['name']}=={found['version']}")
    for machine in MACHINES:
        if any(re.fullmatch(rf"(many|)linux.*_{machine}", tag) for tag in found["platform"].split(".")):
            return wheel, machine
    raise UsageError(
        f"{name}: made for {found['platform']}; a wheel with libraries for Linux is needed ({', '.join(MACHINES)})"
    )


@contextlib.contextmanager
def open_wheel(path: Path) -> Iterator[WheelFile]:
    """Open a wheel and check what every other step relies on.

    Raises:
        UsageError: the file is not named as a wheel. VendorError: it is none, or one that no tool would write.
        OSError: the disk's.
    """
    wheel, machine = parse_file_name(path.name)
    with path.open("rb") as file:
        with _damage(path.name):
            archive = zipfile.ZipFile(file)
        with archive:
            yield WheelFile(path.name, wheel, machine, archive)


@contextlib.contextmanager
def _damage(name: str) -> Iterator[None]:
    """Say in one line what the zip reader finds: VendorError."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, struct.error, ArithmeticError, EOFError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
    except OSError as error:
        if error.errno != errno.EINVAL:  # of a place before the file's beginning
            raise
        reason = "damaged"
    else:
        return
    raise VendorError(f"{name}: no wheel that can be read: {reason[:200]}")


class WheelFile:
    """An open wheel.

    Attributes:
        wheel, machine: as its name says. torch: what its METADATA requires of torch; ``None`` if nothing.
    """

    def __init__(self, name: str, wheel: Wheel, machine: str, archive: zipfile.ZipFile) -> None:
        self.name, self.wheel, self.machine, self._archive = name, wheel, machine, archive
        self._members = self._checked_members()
        about = self._about_folder()
        self.torch = self._torch(self._read(f"{about}/METADATA"))
        self._recorded = self._records(self._read(f"{about}/RECORD"))

    def selectors(self, progress: Progress = silent) -> Iterator[Found]:
        """The libraries that hold a schema of a selector op, in the order of their names.

        Every library is read, a piece at a time, whatever its name or size.
        """
        libraries = [member for name, member in sorted(self._members.items()) if _LIBRARY.search(name)]
        total, done = sum(member.file_size for member in libraries), 0
        if total > MOST_IN_ALL:
            raise VendorError(f"{self.name}: its libraries say that they unpack to {total} bytes; refused as an attack")
        for member in libraries:
            progress("reading its libraries", done, total)
            ops = find_schemas(self._pieces(member, progress, done, total))
            done += member.file_size
            if ops:
                if member.file_size > MOST_LIBRARY:
                    raise VendorError(
                        f"{self.name}: {member.filename} has {member.file_size} bytes; {MOST_LIBRARY} at most"
                    )
                yield Found(member.filename, member.file_size, ops)

    def extract(self, found: Found, target: Path) -> str:
        """Write a library to a new file and hold it against RECORD; its sha256.

        Raises:
            VendorError: RECORD does not list it, or lists other bytes. OSError: the disk's.
        """
        recorded = self._recorded.get(found.file)
        if recorded is None:
            raise VendorError(f"{self.name}: its RECORD has no sha256 of {found.file}; fetch the wheel again")
        sha256, _ = pour(self._pieces(self._members[found.file]), target)
        if sha256 != recorded:
            raise VendorError(
                f"{self.name}: {found.file} is not what its RECORD says (sha256 {sha256[:12]}…, recorded "
                f"{recorded[:12]}…): damaged or tampered with; fetch the wheel again"
            )
        return sha256

    def _checked_members(self) -> dict[str, zipfile.ZipInfo]:
        listed = self._archive.infolist()
        if len(listed) > MOST_MEMBERS:
            raise VendorError(f"{self.name}: {len(listed)} files; refused, {MOST_MEMBERS} are plenty")
        members: dict[str, zipfile.ZipInfo] = {}
        for member in listed:
            name = member.filename
            shown = ascii(name[:100])
            if not is_safe(name.removesuffix("/")):
                raise VendorError(f"{self.name}: holds a file named {shown}, which could lead out of a folder; refused")
            if name in members:
                raise VendorError(f"{self.name}: holds {shown} twice; refused")
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFDIR if member.is_dir() else stat.S_IFREG):
                raise VendorError(f"{self.name}: {shown} is a link or device; refused")
            if member.flag_bits & 1:
                raise VendorError(f"{self.name}: {shown} is encrypted; refused")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise VendorError(f"{self.name}: {shown} is compressed in a way that wheels do not use; refused")
            members[name] = member
        if (both := file_and_folder(name for name in members if not name.endswith("/"))) is not None:
            raise VendorError(f"{self.name}: {both[:100]!a} is a file and a folder in it; refused")
        return members

    def _about_folder(self) -> str:
        """The name of its ``.dist-info`` folder, which must be that of the file's release."""
        folders = {name.split("/")[0] for name in self._members if name.split("/")[0].endswith(".dist-info")}
        if len(folders) != 1:
            raise VendorError(f"{self.name}: {len(folders)} .dist-info folders where a wheel has one")
        return folders.pop()

    def _read(self, name: str) -> bytes:
        member = self._members.get(name)
        if member is None:
            raise VendorError(f"{self.name}: no {name.rpartition('/')[2]} in it, so that it cannot be checked; refused")
        if member.file_size > MOST_TEXT:
            raise VendorError(f"{self.name}: {name} has {member.file_size} bytes; refused")
        return b"".join(self._pieces(member))

    def _pieces(
        self, member: zipfile.ZipInfo, progress: Progress = silent, before: int = 0, total: int = 0
    ) -> Iterator[bytes]:
        """The content of a member; never more bytes than its header declares."""
        with _damage(self.name), self._archive.open(member) as file:
            while piece := file.read(PIECE):
                yield piece
                before += len(piece)
                progress("reading its libraries", before, total)

    def _torch(self, metadata: bytes) -> str | None:
        """What it requires of torch, once METADATA is known to be that of the file's release."""
        headers = message_from_bytes(metadata)
        said = f"{headers.get('Name', '')}=={headers.get('Version', '')}"
        try:
            same = parse_wheel(said) == self.wheel
        except UsageError:
            same = False
        if not same:
            raise VendorError(
                f"{self.name}: its METADATA says that it is {said[:80]!r}; the file was renamed or damaged"
            )
        for value in headers.get_all("Requires-Dist", []):
            requirement = " ".join(str(value).split())
            if re.match(r"torch(?![-_.\w])", requirement) and not re.search(r"\bextra\s*==", requirement):
                return requirement[:200]
        return None

    def _records(self, record: bytes) -> dict[str, str]:
        """sha256 by file name, as RECORD lists them."""
        recorded: dict[str, str] = {}
        try:
            for line in csv.reader(record.decode().splitlines()):
                if not line:
                    continue
                name, digest = line[0], line[1] if len(line) > 1 else ""
                kind, _, text = digest.partition("=")
                if name in recorded:
                    raise VendorError(f"{self.name}: its RECORD lists {name[:100]!a} twice; refused")
                if kind == "sha256":
                    recorded[name] = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).hex()
        except (ValueError, csv.Error) as error:  # binascii.Error and UnicodeDecodeError among them
            raise VendorError(f"{self.name}: its RECORD cannot be read: {error}") from None
        return recorded
