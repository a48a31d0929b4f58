"""NumPy's ``.npy`` arrays and ``.npz`` archives of them; arrays of Python objects are never read.

Arrays that lie as they are in the file are read row by row. Members that ``numpy.savez_compressed`` wrote are inflated
into memory when they are first read, up to a bound.
"""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Container
from pathlib import Path

import numpy as np
import torch
from numpy.lib import format as npy

from workbench.capture.header import TensorInfo
from workbench.capture.readers import archive
from workbench.capture.readers.dump import Dump, Held, gather, nested, stem
from workbench.capture.readers.look import Look
from workbench.capture.source import TORCH_DTYPES, Source
from workbench.capture.values import brief, shape_text
from workbench.errors import CaptureError

FORMAT, FORMAT_ARCHIVE = "NumPy .npy", "NumPy .npz"
MAGIC = b"\x93NUMPY"
_ENDING = ".npy"
_HEADER = 12 + 10_000  # the longest header that NumPy itself reads without being told to
_KINDS = {"f": "float", "i": "int", "u": "uint", "c": "complex", "V": "void"}
_CURES = {
    "O": "an array of Python objects, which is a pickle and never read; save it as float32",
    "U": "an array of texts; save numbers",
    "S": "an array of bytes; save numbers",
    "M": "an array of dates; save numbers",
    "m": "an array of times; save numbers",
}


def detects(look: Look) -> bool:
    """Whether this is one array."""
    return look.first.startswith(MAGIC)


def detects_archive(look: Look) -> bool:
    """Whether this is an archive of arrays."""
    return look.has_member(_ENDING)


def read(look: Look) -> Dump:
    """One array, which bears the name of the file."""
    held = open_array(look.path)
    tensors, _ = gather(look.file, [("", held)])
    return Dump(FORMAT, look.path, tensors, lambda: nested(tensors.tensors, {}), alone=stem(look.path))


def read_archive(look: Look) -> Dump:
    """The arrays of an archive."""
    held = open_archive(look.path)
    tensors, values = gather(look.file, [("", held)])
    names = [*tensors.tensors, *tensors.broken]
    return Dump(FORMAT_ARCHIVE, look.path, tensors, lambda: nested(names, {}), values=values)


def open_array(path: Path) -> Held:
    """One array by the name of its file, up to its first dot."""
    source = Source(path, header=False)
    try:
        name = stem(source.path)
        head = bytes(source.read(0, min(_HEADER, source.size)))
        return Held(source, {name: _info(name, head, 0, source.size, source.file)}, bare=True).finish()
    except BaseException:
        source.close()
        raise


def open_archive(path: Path) -> Held:
    """The arrays of an archive by their names."""
    source = _Inflating(path, header=False)
    try:
        held = Held(source, {})
        for member in archive.read_directory(source).values():
            if not member.name.endswith(_ENDING):
                held.values[member.name] = f"{member.size} bytes"
                continue
            name = member.name.removesuffix(_ENDING)
            try:
                head = archive.inflate(source, member, _HEADER)
                begin = 0 if member.deflated else archive.begin_of(source, member)
                info = _info(name, head, begin, begin + member.size, source.file)
            except CaptureError as error:
                held.broken[name] = error
                continue
            held.tensors[name] = info
            if member.deflated:
                source.deflated[name] = member
        return held.finish()
    except BaseException:
        source.close()
        raise


class _Inflating(Source):
    """An archive; ``deflated`` names the arrays whose places are counted within their inflated member."""

    def __init__(self, path: Path, *, header: bool) -> None:
        self.deflated: dict[str, archive.Member] = {}
        self._inflated: dict[str, bytes] = {}
        self._inflating = threading.Lock()
        super().__init__(path, header=header)

    def tensor(self, info: TensorInfo, first: int = 0, count: int | None = None) -> torch.Tensor:
        """As of any source."""
        if info.name not in self.deflated:
            return super().tensor(info, first, count)
        content = self._content(info.name)
        dtype = TORCH_DTYPES[info.dtype]
        begin = info.begin + first * dtype.itemsize
        end = info.end if count is None else begin + count * dtype.itemsize
        return (
            torch.frombuffer(bytearray(content[begin:end]), dtype=dtype) if end > begin else torch.empty(0, dtype=dtype)
        )

    def read_others(self, names: Container[str]) -> None:
        """Read all arrays but the named ones."""
        for name in self.deflated:
            if name not in names:
                self._content(name)
        super().read_others({name for name in self.header.tensors if name in names or name in self.deflated})

    def _content(self, name: str) -> bytes:
        with self._inflating:
            if name not in self._inflated:
                self._inflated[name] = archive.content(self, self.deflated[name], archive.MOST_INFLATED)
            return self._inflated[name]

    def close(self) -> None:
        """Close the archive and let go of what was inflated."""
        super().close()
        self._inflated = {}


def _info(name: str, head: bytes, begin: int, end: int, file: str) -> TensorInfo:
    """One array from the first bytes of its content, which lies at ``begin`` to ``end``.

    Raises:
        CaptureError: it is none, damaged, or of another size than its shape takes.
    """

    def bad(reason: str) -> CaptureError:
        return CaptureError(reason, file=file, tensor=brief(name))

    stream = io.BytesIO(head)
    try:
        version = npy.read_magic(stream)
        if version == (3, 0):
            raise bad("an array with named fields; save its numbers as plain arrays")
        reads = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        with warnings.catch_warnings(action="ignore"):  # of arrays that Python 2 wrote
            shape, fortran, dtype = reads(stream)
    except CaptureError:
        raise
    except Exception:  # the header is a Python literal, and what its parsers raise on any text at all is not documented
        raise bad("not a NumPy array, or one whose header is damaged; save it again") from None
    if not all(type(extent) is int and 0 <= extent < 2**63 for extent in shape) or len(shape) > 64:
        raise bad("the shape in its header is damaged; save it again")
    data = begin + stream.tell()
    problem = _problem(dtype, fortran, shape)
    if dtype.hasobject:
        return TensorInfo(name, "object", shape, data, data, problem=problem)
    count = 1
    for extent in shape:
        count *= extent
        if count > 2**63:
            break
    if 0 in shape:
        count = 0
    if count * dtype.itemsize != end - data:
        raise bad(
            f"its header promises shape {shape_text(shape)} of {dtype.itemsize} bytes each, but {end - data} bytes "
            "follow; the file is cut short or damaged: save it again"
        )
    words = "bool" if dtype.kind == "b" else f"{_KINDS.get(dtype.kind, dtype.kind)}{8 * dtype.itemsize}"
    return TensorInfo(name, words, shape, data, data if problem else end, problem=problem)


def _problem(dtype: np.dtype[np.generic], fortran: bool, shape: tuple[int, ...]) -> str:
    """Why an array cannot be read as it lies, with the cure; empty if it can."""
    if dtype.hasobject:
        return _CURES["O"]
    if dtype.kind in _CURES:
        return f"it is {_CURES[dtype.kind]}"
    if dtype.fields is not None or dtype.subdtype is not None:
        return "an array with named fields; save its numbers as plain arrays"
    if dtype.byteorder == ">":
        return "its numbers are big-endian; save it after array.astype(array.dtype.newbyteorder('='))"
    if fortran and sum(extent != 1 for extent in shape) > 1:
        return "it lies in Fortran order; save numpy.ascontiguousarray(array)"
    return ""
