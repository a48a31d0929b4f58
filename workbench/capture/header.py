"""A strict reader of safetensors headers: every way in which a file can be damaged has its own message.

The header decides which bytes are read later, so nothing in it is believed before it is checked, and no memory is
taken by a size that it claims. Entries are parsed one at a time, so that text which is no header costs next to nothing.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from workbench.capture.strictjson import Scanner, short
from workbench.capture.values import brief, shape_text
from workbench.errors import CaptureError

MAX_HEADER = 100_000_000
_MAX_DIMENSION = 2**63 - 1
_METADATA = "__metadata__"
_ENTRY = {"dtype", "shape", "data_offsets"}

# Name in the file -> (name for people, bits per element).
DTYPES: dict[str, tuple[str, int]] = {
    "BOOL": ("bool", 8),
    "F4": ("float4_e2m1", 4),
    "F6_E2M3": ("float6_e2m3", 6),
    "F6_E3M2": ("float6_e3m2", 6),
    "U8": ("uint8", 8),
    "I8": ("int8", 8),
    "F8_E5M2": ("float8_e5m2", 8),
    "F8_E4M3": ("float8_e4m3fn", 8),
    "F8_E8M0": ("float8_e8m0", 8),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8),
    "U16": ("uint16", 16),
    "I16": ("int16", 16),
    "F16": ("float16", 16),
    "BF16": ("bfloat16", 16),
    "U32": ("uint32", 32),
    "I32": ("int32", 32),
    "F32": ("float32", 32),
    "U64": ("uint64", 64),
    "I64": ("int64", 64),
    "F64": ("float64", 64),
    "C64": ("complex64", 64),
}

# (how the file begins, what it is, what to do about it)
_SAVE = "save its tensors with safetensors.torch.save_file"
_MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (b"version https://git-lfs", "a Git LFS pointer", "fetch the file itself with: git lfs pull"),
    (b"\x80", "a Python pickle (a PyTorch .pt file)", f"load it where you trust it and {_SAVE}"),
    (b"\x93NUMPY", "a NumPy .npy array", _SAVE),
    (b"GGUF", "a GGUF model", "name a capture instead"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", _SAVE),
    (b"PAR1", "a Parquet file", _SAVE),
    (b"\x1f\x8b", "a gzip file", "unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard file", "unpack it first"),
    (b"\xfd7zXZ\x00", "an xz file", "unpack it first"),
    (b"BZh", "a bzip2 file", "unpack it first"),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture", "name a capture instead"),
    (b"\xff\xd8\xff", "a JPEG picture", "name a capture instead"),
    (b"%PDF-", "a PDF file", "name a capture instead"),
    (b"\x7fELF", "a program or library", "name a capture instead"),
)
# What begins an object or a list of JSON, as far as it is seen.
_JSON = re.compile(r"(?:\{\s*(?:\"|\}|$)|\[\s*(?:[\"{\[\]]|-?[0-9]|true\b|false\b|null\b|$))")
_QUOTED = 32  # characters of a text


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor as the header describes it.

    Attributes:
        name, dtype: as in the file; ``dtype`` in words (``float32``). shape: non-negative ints.
        begin, end: its bytes, counted from the start of the file.
        pitch: elements from row to row where that is more than the width, as in a view of a wider tensor.
        problem: why it cannot be read as it lies in the file, with the cure; empty if it can.

    As a string it is short enough for a message.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int
    pitch: int | None = None
    problem: str = ""

    def __str__(self) -> str:
        return f"{brief(self.name)!r} {self.dtype} {shape_text(self.shape)}"


@dataclass(frozen=True)
class Header:
    """A checked header: the tensors by name, in file order of their bytes, the metadata and where the data begins."""

    tensors: dict[str, TensorInfo]
    metadata: dict[str, str]
    data_begin: int


def read_header(read: Callable[[int, int], bytearray], size: int, file: str) -> Header:
    """Read and check the header of a file of ``size`` bytes.

    Args:
        read: gives ``count`` bytes from ``begin`` on, as ``read(begin, count)``.
        file: its name, for messages.

    Raises:
        CaptureError: not a safetensors file, or a damaged one.
    """
    if size == 0:
        raise CaptureError("the file is empty; write or copy it again", file=file)
    if size < 8:
        raise CaptureError(f"{size} bytes are too few for a safetensors file; copy it again", file=file)
    first = read(0, min(size, 128))
    length = int.from_bytes(first[:8], "little")
    begins = len(first) == 8 or first[8:].startswith(b"{")
    if length > MAX_HEADER or not begins:
        kind = _recognise(first)
        if kind:
            raise CaptureError(kind, file=file)
    if length > MAX_HEADER:
        raise CaptureError(
            f"not a safetensors file, or a damaged one: its header would be {length} bytes long, "
            f"{MAX_HEADER} is the most",
            file=file,
        )
    if not begins:  # before a header of many megabytes is read
        raise CaptureError("not a safetensors file: its header does not begin with '{'", file=file)
    if 8 + length > size:
        raise CaptureError(
            f"the file is cut short: its header ends at byte {8 + length}, the file at {size}; copy it again", file=file
        )
    return _check(read(8, length), size - 8 - length, 8 + length, file)


def _recognise(first: bytearray) -> str | None:
    """One sentence about a well-known kind of file that is not safetensors; ``None`` if it is not known."""
    if first.startswith(b"PK\x03\x04"):
        name = first[30 : 30 + int.from_bytes(first[26:28], "little")]
        if name.endswith(b".npy"):
            return f"this is a NumPy .npz archive; safetensors is needed here: {_SAVE}"
        if name.endswith(b"data.pkl"):
            return f"this is a PyTorch .pt archive; safetensors is needed here: load it where you trust it and {_SAVE}"
        return "this is a zip archive; safetensors is needed here: unpack it first"
    for magic, kind, cure in _MAGIC:
        if first.startswith(magic):
            return f"this is {kind}, which is not read: {cure}"
    if (text := _text(first)) is None:
        return None
    if _JSON.match(text):
        return "this is a JSON file, which is not read (a sharded set is opened by its *.safetensors.index.json)"
    begins = text.split("\n")[0][:_QUOTED].strip()
    return f"not a safetensors file: it is text that begins {begins!r}; name a capture instead"


def _text(first: bytearray) -> str | None:
    """The beginning of a file as text, if it is UTF-8 without control characters but white space."""
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(first).lstrip()  # its end may part a character
    except UnicodeDecodeError:
        return None
    return text if text and all(c.isprintable() or c in "\t\n\r\f" for c in text) else None


def _check(text: bytearray, data_size: int, data_begin: int, file: str) -> Header:
    if not text.startswith(b"{"):
        raise CaptureError("not a safetensors file: its header does not begin with '{'", file=file)
    found: dict[str, TensorInfo] = {}
    metadata: dict[str, str] | None = None
    scan = Scanner(text, b'"data_offsets"', "the header", file)
    more = scan.open()
    while more:
        name = scan.key()
        if name in found or (name == _METADATA and metadata is not None):
            raise CaptureError(f"the header names {brief(name)!r} twice; write the file again", file=file)
        if name == _METADATA:
            metadata = _metadata(scan, file)
        else:
            found[name] = _tensor(name, scan.flat(name), data_size, data_begin, file)
        more = scan.more()
    scan.end()
    tensors = list(found.values())
    tensors.sort(key=attrgetter("end"))  # twice, since a pair as the key would cost as much memory as the tensors
    tensors.sort(key=attrgetter("begin"))
    _tile(tensors, data_begin, data_begin + data_size, file)
    return Header({tensor.name: tensor for tensor in tensors}, metadata or {}, data_begin)


def _metadata(scan: Scanner, file: str) -> dict[str, str]:
    def bad(reason: str) -> CaptureError:
        return CaptureError(f"{reason}; write the file again", file=file)

    found: dict[str, str] = {}
    if not scan.at_object():
        raise bad("__metadata__ must map strings to strings")
    more = scan.open()
    while more:
        name = scan.key()
        value = scan.string()
        if value is None:
            raise bad("__metadata__ must map strings to strings")
        if name in found:
            raise bad(f"__metadata__ names {brief(name)!r} twice")
        found[name] = value
        more = scan.more()
    return found


def _are_sizes(values: Any) -> bool:
    """Whether this is a list of non-negative integers of 63 bits."""
    # of the very type int, since a bool is none
    return isinstance(values, list) and all(type(value) is int and 0 <= value <= _MAX_DIMENSION for value in values)


def _tensor(name: str, entry: dict[str, Any] | None, data_size: int, data_begin: int, file: str) -> TensorInfo:
    def bad(reason: str) -> CaptureError:
        return CaptureError(f"{reason}; write the file again", file=file, tensor=brief(name))

    if entry is None or entry.keys() != _ENTRY:
        raise bad("its header entry must hold dtype, shape and data_offsets, and nothing else, in at most 4096 bytes")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise bad(f"unknown dtype {short(dtype)}")
    if not _are_sizes(shape):
        raise bad(f"shape {short(shape)} is not a list of non-negative integers")
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise bad(f"data_offsets {short(offsets)} are not two non-negative integers")
    begin, end = offsets
    if end < begin:
        raise bad(f"data_offsets [{begin}, {end}] run backwards")
    if end > data_size:
        raise CaptureError(
            f"the file is cut short: the tensor ends at data byte {end}, the data at {data_size}; copy it again",
            file=file,
            tensor=brief(name),
        )
    words, bits = DTYPES[dtype]
    needed = _count(shape) * bits
    if needed != 8 * (end - begin):
        raise bad(f"{end - begin} bytes do not make {dtype} of shape {short(shape)}")
    return TensorInfo(name, words, tuple(shape), data_begin + begin, data_begin + end)


def _count(shape: list[int]) -> int:
    """Elements of a shape; stops beyond any file's size, for a product of many large extents would not end."""
    if 0 in shape:
        return 0
    count = 1
    for extent in shape:
        count *= extent
        if count > _MAX_DIMENSION:
            break
    return count


def _tile(tensors: list[TensorInfo], begin: int, end: int, file: str) -> None:
    """Tensors must cover the data exactly: bytes that belong to two tensors or to none mean a damaged file."""
    previous = ""
    for tensor in tensors:
        if tensor.begin < begin:
            raise CaptureError(
                f"its bytes overlap those of {brief(previous)!r}; write the file again",
                file=file,
                tensor=brief(tensor.name),
            )
        if tensor.begin > begin:
            raise CaptureError(
                f"{tensor.begin - begin} bytes before it belong to no tensor; write the file again",
                file=file,
                tensor=brief(tensor.name),
            )
        begin, previous = tensor.end, tensor.name
    if begin != end:
        raise CaptureError(f"{end - begin} bytes after the last tensor belong to none; copy the file again", file=file)
