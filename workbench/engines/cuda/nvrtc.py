"""NVIDIA's runtime compiler: from a source to machine code, without a driver and without a GPU.

Two packages bind it: ``cuda-bindings``, and CuPy, whose own compile call asks for a device while the compiler itself
needs none.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol


@dataclass(frozen=True)
class Output:
    """What came of one compilation: ``cubin`` is empty where it failed; ``log`` is the compiler's and ptxas's own."""

    cubin: bytes
    log: str


class Nvrtc(Protocol):
    """The compiler, as one of the packages binds it.

    Attributes:
        version: (major, minor). name: of the package.
    """

    version: tuple[int, int]
    name: str

    def compile(self, source: str, name: str, options: Sequence[str]) -> Output:
        """Compile a source for the architecture that the options name."""


class Bindings:
    """The compiler through ``cuda-bindings``."""

    name = "cuda-bindings"

    def __init__(self) -> None:
        self._nvrtc: Any = importlib.import_module("cuda.bindings.nvrtc")
        _, major, minor = self._nvrtc.nvrtcVersion()
        self.version = (int(major), int(minor))

    def compile(self, source: str, name: str, options: Sequence[str]) -> Output:
        nvrtc = self._nvrtc
        _, program = nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), 0, None, None)
        try:
            status = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])[0]
            log = self._bytes(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
            done = status == nvrtc.nvrtcResult.NVRTC_SUCCESS
            cubin = self._bytes(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program) if done else b""
        finally:
            nvrtc.nvrtcDestroyProgram(program)
        return Output(cubin, log.decode(errors="replace").strip("\0 \n"))

    @staticmethod
    def _bytes(size: Any, read: Any, program: Any) -> bytes:
        buffer = bytearray(size(program)[1])
        held = bytes(buffer)
        read(program, held)
        return held


class ThroughCupy:
    """The compiler as CuPy binds it."""

    name = "CuPy"

    def __init__(self) -> None:
        self._nvrtc: Any = importlib.import_module("cupy_backends.cuda.libs.nvrtc")
        major, minor = self._nvrtc.getVersion()
        self.version = (int(major), int(minor))

    def compile(self, source: str, name: str, options: Sequence[str]) -> Output:
        nvrtc = self._nvrtc
        program = nvrtc.createProgram(source, name, (), ())
        try:
            nvrtc.compileProgram(program, tuple(options))
            return Output(bytes(nvrtc.getCUBIN(program)), nvrtc.getProgramLog(program))
        except nvrtc.NVRTCError:
            return Output(b"", nvrtc.getProgramLog(program))
        finally:
            nvrtc.destroyProgram(program)


@cache
def find_nvrtc() -> Nvrtc | None:
    """The compiler through whichever package is there; ``None`` without one that loads."""
    for bound in (Bindings, ThroughCupy):
        try:
            return bound()
        except Exception:  # a package that is not there, and a library that does not load, in each binding's own words
            continue
    return None
