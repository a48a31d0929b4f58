"""A file that is read by exact byte ranges.

``pread`` rather than a memory map: a file that is cut short while it is open gives an error and not a bus error,
nothing of a large file stays mapped, and threads may read at once.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections.abc import Container
from pathlib import Path

import torch

from workbench.capture.header import Header, TensorInfo, read_header
from workbench.capture.values import brief, path_text, shown
from workbench.errors import CaptureError
from workbench.words import because

DIGEST_WHOLE = 64 * 2**20
_DIGEST_BLOCK = 4096
_DIGEST_BLOCKS = 1024
_CHUNK = 8 * 2**20

TORCH_DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "float64": torch.float64,
    "void16": torch.bfloat16,  # two bytes without a type: how NumPy holds bfloat16
}


class Source:
    """An open regular file with a checked header, which tells what tensors it holds.

    Attributes:
        path: as given. file: the same for messages. size: bytes. header: its tensors and metadata.
        stamp: size, and when content and status changed last, in nanoseconds, when it was opened.

    Raises:
        CaptureError: on construction, no such regular file or a damaged one; on reading, a file that changed.
    """

    header: Header

    def __init__(self, path: str | bytes | os.PathLike[str], *, header: bool = True) -> None:
        self.path = Path(path_text(path))
        self.file = shown(path)
        self._fd = -1
        self._lock = threading.Lock()
        self._readers = 0
        self._closed = self._rests = False
        self._fd = _open_regular(self.path, self.file)
        try:
            status = os.fstat(self._fd)
            if not stat.S_ISREG(status.st_mode):  # replaced between the first look and the opening
                raise CaptureError("not a regular file", file=self.file)
            self.size = status.st_size
            self.stamp = _stamp_of(status)
            self._place = (status.st_dev, status.st_ino)
            if header:
                self.header = read_header(self.read, self.size, self.file)
        except BaseException:
            self.close()
            raise

    def read(self, begin: int, count: int) -> bytearray:
        """``count`` bytes from ``begin`` on."""
        buffer = bytearray(count)
        self._fill(memoryview(buffer), begin)
        return buffer

    def tensor(self, info: TensorInfo, first: int = 0, count: int | None = None) -> torch.Tensor:
        """``count`` elements of a tensor from element ``first`` on (by default all the rest), flat, as a new tensor."""
        dtype = TORCH_DTYPES[info.dtype]
        size = dtype.itemsize
        begin = info.begin + first * size
        end = info.end if count is None else begin + count * size
        if not info.begin <= begin <= end <= info.end:
            raise ValueError(f"elements {first}, {count} leave the tensor {info}")
        try:
            buffer = torch.empty(end - begin, dtype=torch.uint8)
        except RuntimeError:  # how torch says that memory is short
            raise CaptureError(
                f"{end - begin} bytes do not fit in memory", file=self.file, tensor=brief(info.name)
            ) from None
        if buffer.numel():
            self._fill(buffer.numpy().data, begin)
        return buffer.view(dtype)

    def digest(self) -> str:
        """``sha256:<hex>`` over the whole file up to 64 MiB; above that ``sampled:<hex>``.

        The sampled digest covers the size, the header and 1024 evenly spaced blocks of 4 KiB. It names a file; it
        does not prove that every byte is the same.
        """
        digest = hashlib.sha256()
        if self.size <= DIGEST_WHOLE:
            for begin in range(0, self.size, _CHUNK):
                digest.update(self.read(begin, min(_CHUNK, self.size - begin)))
            return f"sha256:{digest.hexdigest()}"
        digest.update(self.size.to_bytes(8, "little"))
        digest.update(self.read(0, self.header.data_begin))
        room = self.size - self.header.data_begin - _DIGEST_BLOCK
        for number in range(_DIGEST_BLOCKS):
            begin = self.header.data_begin + max(0, room) * number // (_DIGEST_BLOCKS - 1)
            digest.update(self.read(begin, min(_DIGEST_BLOCK, self.size - begin)))
        return f"sampled:{digest.hexdigest()}"

    def read_others(self, names: Container[str]) -> None:
        """Read all tensors but the named ones, to raise if a byte cannot be read."""
        for info in self.header.tensors.values():
            if info.name not in names:
                for begin in range(info.begin, info.end, _CHUNK):
                    self.read(begin, min(_CHUNK, info.end - begin))

    def is_unchanged(self) -> bool:
        """Whether its path still names the file that was opened, as far as its status tells: what another program put
        in its place with the same size and time of change is another file."""
        try:
            status = self.path.stat()
        except OSError:
            return False
        return _stamp_of(status) == self.stamp and (status.st_dev, status.st_ino) == self._place

    def rest(self) -> None:
        """Keep the file closed but while it is read, so that a folder of many files needs no descriptor for each."""
        with self._lock:
            self._rests = True
            self._release()

    def close(self) -> None:
        """Close the file; a read in another thread ends first."""
        with self._lock:
            self._closed = True
            self._release()

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()

    def _release(self) -> None:
        if (self._closed or self._rests) and not self._readers and self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def _fill(self, view: memoryview, begin: int) -> None:
        # The count keeps the descriptor open while a thread reads: a closed number could already be another file's.
        with self._lock:
            if self._closed:
                raise CaptureError("the capture is closed; open it again", file=self.file)
            if self._fd < 0:
                self._fd = _open_regular(self.path, self.file)
            self._readers += 1
        try:
            done = 0
            while done < len(view):
                got = os.preadv(self._fd, [view[done:]], begin + done)
                if got == 0:
                    raise CaptureError("the file became shorter while it was open; open it again", file=self.file)
                done += got
            status = os.fstat(self._fd)
            # Not by the change of its status: another link to the file, or one less, is such a change too.
            if _stamp_of(status)[:2] != self.stamp[:2] or (status.st_dev, status.st_ino) != self._place:
                raise CaptureError("the file was changed while it was open; open it again", file=self.file)
        except OSError as error:
            raise CaptureError(f"cannot be read: {because(error)}", file=self.file) from None
        finally:
            with self._lock:
                self._readers -= 1
                self._release()


def _stamp_of(status: os.stat_result) -> tuple[int, int, int]:
    """Size, and when content and status changed last. Programs can set back the former time and not the latter."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _forbidden(path: Path) -> str:
    """Why a file is not to be read, and the cure: the first folder on its way that is closed, else itself."""
    closed = next((one for one in reversed(path.parents) if _is_closed(one)), None)
    what = "read the file" if closed is None else f"look into the folder {shown(closed)}"
    return f"no permission to {what}; have it permitted (chmod), or name another file"


def _is_closed(folder: Path) -> bool:
    try:
        os.stat(os.path.join(folder, "."))  # noqa: PTH116, PTH118  Path drops the dot, for which it is looked into
    except PermissionError:
        return True
    return False


def _open_regular(path: Path, file: str) -> int:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise CaptureError("this is a folder; name a file in it", file=file)
        if not stat.S_ISREG(mode):  # opening a pipe or a device could block or do something
            raise CaptureError("not a regular file (a pipe, socket or device); copy its content to a file", file=file)
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise CaptureError("no such file", file=file) from None
    except PermissionError:
        raise CaptureError(_forbidden(path), file=file) from None
    except OSError as error:
        raise CaptureError(f"cannot be opened: {because(error)}", file=file) from None
    except ValueError as error:  # a NUL in the path
        raise CaptureError(f"not a path: {error}", file=file) from None
