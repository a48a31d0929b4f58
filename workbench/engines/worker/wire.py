"""What passes between a process and its worker: JSON messages over a socket, tensors in memory that has no name.

A tensor's memory is anonymous and goes over the socket as a file descriptor: nothing lies in a folder, so that nothing
is left behind however either side ends. Nothing is pickled.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import socket
import struct
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch

DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name) for name in ("float32", "bfloat16", "float16", "uint8", "int32", "int64", "float64")
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
LENGTH = struct.Struct(">I")
MOST_TENSORS = 16
MOST_BYTES = 1 << 26  # of a message, tensors apart

Message = dict[str, Any]
_numbers = count()


class ClosedError(Exception):
    """The other side is gone, or has sent what is no message."""


@dataclass(eq=False)
class Parcel:
    """A tensor in memory that another process can open.

    Attributes:
        fd: of the memory, closed with the parcel. dtype, shape: of the tensor. number: tells parcels of one process
            apart, for whoever keeps what it made of one.
    """

    fd: int
    dtype: str
    shape: tuple[int, ...]
    number: int = field(default_factory=lambda: next(_numbers))

    @property
    def nbytes(self) -> int:
        """Of the tensor."""
        return math.prod(self.shape) * DTYPES[self.dtype].itemsize

    def open(self) -> torch.Tensor:
        """The tensor, over the memory itself.

        Raises:
            ClosedError: the memory is smaller than the tensor.
        """
        if os.fstat(self.fd).st_size < self.nbytes:
            raise ClosedError(f"{self.nbytes} bytes were announced, {os.fstat(self.fd).st_size} came")
        if not self.nbytes:
            return torch.empty(self.shape, dtype=DTYPES[self.dtype])
        memory = mmap.mmap(self.fd, self.nbytes)
        return torch.frombuffer(memory, dtype=DTYPES[self.dtype]).view(self.shape)

    def close(self) -> None:
        """Give the memory back, once nothing else has it open."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        self.close()


def pack(tensor: torch.Tensor) -> Parcel:
    """A copy of a tensor, wherever it lies, in memory to be sent.

    Raises:
        OSError: there is no room for it.
    """
    parcel = Parcel(_anonymous(), NAMES[tensor.dtype], tuple(tensor.shape))
    if parcel.nbytes:
        os.posix_fallocate(parcel.fd, 0, parcel.nbytes)  # memory that is not there shows here, not as a bus error
        parcel.open().copy_(tensor)
    return parcel


def _anonymous() -> int:
    if sys.platform == "linux":
        return os.memfd_create("workbench")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Channel:
    """One end of the socket between a process and its worker."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end

    def send(self, message: Message, tensors: Mapping[str, Parcel] | None = None) -> None:
        """Send a message and tensors by name.

        Raises:
            OSError: the other side is gone.
        """
        parcels = dict(tensors or {})
        heads = [[name, one.dtype, list(one.shape), one.number] for name, one in parcels.items()]
        body = json.dumps([message, heads]).encode()
        socket.send_fds(self.socket, [LENGTH.pack(len(body))], [parcel.fd for parcel in parcels.values()])
        self.socket.sendall(body)

    def receive(self) -> tuple[Message, dict[str, Parcel]]:
        """The next message and its tensors.

        Raises:
            ClosedError: the other side is gone, or sent no message.
        """
        try:
            start, fds, _, _ = socket.recv_fds(self.socket, LENGTH.size, MOST_TENSORS)
            start += self._exactly(LENGTH.size - len(start)) if start else b""
        except OSError as error:
            raise ClosedError(str(error)) from None
        received = [Parcel(fd, "uint8", ()) for fd in fds]  # closes them, whatever comes next
        if not start:
            raise ClosedError("the connection is closed")
        (length,) = LENGTH.unpack(start)
        if length > MOST_BYTES:
            raise ClosedError(f"a message of {length} bytes")
        body = self._exactly(length)
        try:
            message, heads = json.loads(body)
            if len(heads) != len(received):
                raise ClosedError(f"{len(heads)} tensors were announced, {len(received)} came")
            named = {}
            for parcel, (name, dtype, shape, number) in zip(received, heads, strict=True):
                parcel.dtype, parcel.shape, parcel.number = NAMES[DTYPES[dtype]], tuple(map(int, shape)), int(number)
                named[str(name)] = parcel
        except (ValueError, TypeError, KeyError) as error:
            raise ClosedError(f"no message: {error}") from None
        return message, named

    def _exactly(self, length: int) -> bytes:
        got = bytearray()
        while len(got) < length:
            part = self.socket.recv(min(length - len(got), 1 << 20))
            if not part:
                raise ClosedError("the connection was closed within a message")
            got += part
        return bytes(got)

    def close(self) -> None:
        """Close this end."""
        self.socket.close()
