"""What the store keeps beside a release's libraries: a small record, strict JSON on the disk."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeVar

from workbench.errors import UsageError
from workbench.vendor.errors import VendorError
from workbench.vendor.fatbin import Capability, name_arch, runs_on
from workbench.vendor.release import Wheel, parse_wheel

FORMAT = 1
NAME = "manifest.json"
MOST_BYTES = 1 << 20  # of a manifest
MOST_LIBRARY = 4 << 30  # bytes of one library

_SHA256 = re.compile(r"[0-9a-f]{64}")
_ARCH = re.compile(r"(sm|compute|kind[0-9]{1,5})_[0-9]{1,10}[af]?")
_WANTED = re.compile(r"sm_[1-9][0-9]{1,2}")
_OP = re.compile(r"\w{1,100}\.\w{1,100}", re.ASCII)
_CUDA = re.compile(r"libcudart\.so\.([0-9][0-9.]*)")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Registered:
    """An op that a library registers.

    Attributes:
        op: as in ``vllm.persistent_topk``. schema: as the library holds it.
    """

    op: str
    schema: str


@dataclass(frozen=True)
class Library:
    """A shared library that registers selector ops.

    Attributes:
        file: where it lay in the wheel, with ``/``. sha256, size: of the file as it is kept; the size in bytes.
        ops: what it registers. needed: the libraries that it is linked against.
        glibc: the newest version of glibc that it asks for; ``None`` where it asks for none.
        architectures: of the device code inside, as in ``sm_90a``, and ``compute_80`` for PTX.
    """

    file: str
    sha256: str
    size: int
    ops: tuple[Registered, ...]
    needed: tuple[str, ...]
    glibc: str | None
    architectures: tuple[str, ...]

    @property
    def cuda(self) -> str | None:
        """The CUDA runtime that it is linked against, as in ``13``; ``None`` where it is linked against none."""
        return next((found[1] for name in self.needed if (found := _CUDA.fullmatch(name))), None)

    def has(self, op: str) -> bool:
        """Whether it registers an op."""
        return any(one.op == op for one in self.ops)

    def runs_on(self, capability: Capability) -> bool:
        """Whether it holds machine code for a GPU."""
        return any(runs_on(name, capability) for name in self.architectures)


@dataclass(frozen=True)
class Manifest:
    """A release as the store holds it.

    Attributes:
        wheel: package and version. file, sha256: the name of the wheel that it came from, and of its bytes.
        machine: ``x86_64`` or ``aarch64``. libraries: by file name.
        torch: what the wheel requires of torch, as in ``torch==2.11.0``; ``None`` if nothing.
        packed_for: the architectures that a pack was made for, the code of others being blanked; empty for all.
    """

    wheel: Wheel
    file: str
    sha256: str
    machine: str
    torch: str | None
    libraries: tuple[Library, ...]
    packed_for: tuple[str, ...] = ()

    @property
    def ops(self) -> tuple[str, ...]:
        """Every op that some library registers, by name."""
        return tuple(sorted({one.op for library in self.libraries for one in library.ops}))

    @property
    def architectures(self) -> tuple[str, ...]:
        """Of all libraries, machine code first, each in the order of its numbers."""
        return order_archs({name for library in self.libraries for name in library.architectures})

    @property
    def cuda(self) -> str | None:
        """The CUDA runtime of its libraries."""
        return next((library.cuda for library in self.libraries if library.cuda), None)

    @property
    def size(self) -> int:
        """Bytes of its libraries."""
        return sum(library.size for library in self.libraries)

    def runs(self, op: str, capability: Capability) -> bool:
        """Whether some library registers an op and holds machine code for a GPU."""
        return any(library.has(op) and library.runs_on(capability) for library in self.libraries)

    def library_for(self, op: str, capability: Capability) -> Library:
        """The library that a release loads for an op on a GPU.

        Where a package ships a library in a folder for each architecture (``sm90/``, ``sm100/``), the folder of the
        GPU's own comes first, and the last one stands for every other GPU, as the package itself chooses.

        Raises:
            VendorError: no library registers the op, or none holds code for the GPU.
        """
        having = [library for library in self.libraries if library.has(op)]
        if not having:
            raise VendorError(f"{self.wheel} registers no {op}; it has {', '.join(self.ops)}")
        arch = name_arch(capability)
        running = [library for library in having if library.runs_on(capability)]
        if not running:
            inside = ", ".join(order_archs({name for library in having for name in library.architectures})) or "none"
            packed = f"; it was packed for {', '.join(self.packed_for)}" if self.packed_for else ""
            raise VendorError(f"{self.wheel}: {op} has no code for {arch}{packed}; code inside: {inside}")
        own = f"sm{capability[0]}{capability[1]}"
        return max(running, key=lambda library: (folder_of(library) == own, _number(folder_of(library))))


def folder_of(library: Library) -> str:
    """The name of the folder that a library lies in."""
    return PurePosixPath(library.file).parent.name


def _number(folder: str) -> int:
    found = re.fullmatch(r"sm([0-9]{2,3})", folder)
    return int(found[1]) if found else 0


def order_archs(names: set[str]) -> tuple[str, ...]:
    """Names of architectures, machine code first, then by number."""
    return tuple(sorted(names, key=lambda name: (not name.startswith("sm_"), int(re.sub(r".*_|\D$", "", name)), name)))


def is_safe(name: str) -> bool:
    """Whether the name of a file in an archive stays inside a folder that it is unpacked to."""
    parts = name.split("/")
    return (
        0 < len(name) <= 400
        and name.isprintable()
        and "\\" not in name
        and ":" not in parts[0]
        and not any(part in ("", ".", "..") or len(part.encode()) > 255 for part in parts)
    )


def file_and_folder(names: Iterable[str]) -> str | None:
    """A name of a file that is a folder of another one too, if there is one."""
    files = set(names)
    folders = {parent.as_posix() for name in files for parent in PurePosixPath(name).parents}
    return min(files & folders, default=None)


def dump_manifest(manifest: Manifest) -> str:
    """A manifest as the store keeps it."""
    return json.dumps(as_json(manifest), indent=2) + "\n"


def as_json(manifest: Manifest) -> dict[str, object]:
    """A manifest as a JSON object; ``load`` reads it."""
    return {
        "format": FORMAT,
        "package": manifest.wheel.package,
        "version": str(manifest.wheel.version),
        "wheel": {"file": manifest.file, "sha256": manifest.sha256},
        "machine": manifest.machine,
        "torch": manifest.torch,
        "packed_for": list(manifest.packed_for),
        "libraries": [
            {
                "file": library.file,
                "sha256": library.sha256,
                "size": library.size,
                "ops": {one.op: one.schema for one in library.ops},
                "needed": list(library.needed),
                "cuda": library.cuda,
                "glibc": library.glibc,
                "architectures": list(library.architectures),
            }
            for library in manifest.libraries
        ],
    }


def parse_manifest(text: str | bytes, name: str) -> Manifest:
    """Read a manifest that may be damaged or forged.

    Args:
        name: of its file in messages.

    Raises:
        VendorError: what is wrong with it.
    """
    try:
        if len(text) > MOST_BYTES:
            raise _WrongError(f"larger than {MOST_BYTES} bytes")
        return load(read_json(text))
    except _WrongError as error:
        raise VendorError(f"{name}: no manifest of a release: {error}") from None


class _WrongError(ValueError):
    """What is wrong with a manifest."""


def read_json(text: str | bytes) -> object:
    """One JSON document without doubled keys and without numbers that JSON does not know; ValueError otherwise."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)
    except _WrongError:
        raise
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError among them
        raise _WrongError(f"no JSON: {error}") from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _WrongError("a key stands twice in one object")
    return found


def _refuse(literal: str) -> object:
    raise _WrongError(f"{literal} is no JSON")


def load(value: object) -> Manifest:
    """A manifest from a JSON object; ValueError says what is wrong with it."""
    fields = _fields(value, "format", "package", "version", "wheel", "machine", "torch", "packed_for", "libraries")
    if fields["format"] != FORMAT or isinstance(fields["format"], bool):
        raise _WrongError(f"format {str(fields['format'])[:20]!r}; this workbench reads format {FORMAT}")
    origin = _fields(fields["wheel"], "file", "sha256")
    text = f"{_text(fields['package'], 'package')}=={_text(fields['version'], 'version')}"
    try:
        wheel = parse_wheel(text)
    except UsageError:
        raise _WrongError(f"{text!r} is no release") from None
    libraries = tuple(_list(fields["libraries"], "libraries", _library))
    files = [library.file for library in libraries]
    if not files or files != sorted(set(files)):
        raise _WrongError("libraries are to be one at least, each once, by file name")
    if NAME in files or file_and_folder(files) is not None:
        raise _WrongError("its files are in each other's way")
    if str(wheel) != text:
        raise _WrongError(f"{text!r} is to be spelled {wheel}")
    return Manifest(
        wheel,
        _file(origin["file"]),
        _sha256(origin["sha256"]),
        _one_of(fields["machine"], "machine", ("x86_64", "aarch64")),
        _optional(fields["torch"], "torch"),
        libraries,
        tuple(_list(fields["packed_for"], "packed_for", lambda one: _like(one, "packed_for", _WANTED))),
    )


def _library(value: object) -> Library:
    fields = _fields(value, "file", "sha256", "size", "ops", "needed", "cuda", "glibc", "architectures")
    size, ops = fields["size"], fields["ops"]
    if not isinstance(size, int) or isinstance(size, bool) or not 0 < size <= MOST_LIBRARY:
        raise _WrongError(f"size is to be a number of bytes up to {MOST_LIBRARY}")
    if not isinstance(ops, dict) or not ops:
        raise _WrongError("ops is to be an object of schemas by op")
    library = Library(
        _file(fields["file"]),
        _sha256(fields["sha256"]),
        size,
        tuple(Registered(_like(op, "ops", _OP), _text(schema, "schema")) for op, schema in ops.items()),
        tuple(_list(fields["needed"], "needed", lambda one: _text(one, "needed"))),
        _optional(fields["glibc"], "glibc"),
        tuple(_list(fields["architectures"], "architectures", lambda one: _like(one, "architectures", _ARCH))),
    )
    if fields["cuda"] != library.cuda:
        raise _WrongError(f"cuda is {str(fields['cuda'])[:20]!r}, but needed says {library.cuda!r}")
    return library


def _fields(value: object, *names: str) -> Mapping[str, object]:
    if not isinstance(value, dict) or set(value) != set(names):
        raise _WrongError(f"an object of {', '.join(names)} is needed")
    return value


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 8192 or not value.isprintable():
        raise _WrongError(f"{name} is to be text on one line")
    return value


def _optional(value: object, name: str) -> str | None:
    return None if value is None else _text(value, name)


def _one_of(value: object, name: str, known: tuple[str, ...]) -> str:
    if value not in known or not isinstance(value, str):
        raise _WrongError(f"{name} is to be {' or '.join(known)}")
    return value


def _like(value: object, name: str, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise _WrongError(f"{str(value)[:40]!r} has no place in {name}")
    return value


def _sha256(value: object) -> str:
    return _like(value, "sha256", _SHA256)


def _file(value: object) -> str:
    if not isinstance(value, str) or not is_safe(value):
        raise _WrongError(f"{str(value)[:80]!r} is no file inside a release")
    return value


def _list(value: object, name: str, item: Callable[[object], _T]) -> list[_T]:
    if not isinstance(value, list) or len(value) > 1000:
        raise _WrongError(f"{name} is to be a list")
    return [item(one) for one in value]
