"""Headers of shared libraries, whole and damaged."""

from __future__ import annotations

import contextlib
import random
import sys
from pathlib import Path

import pytest
import torch

from tests.vendor.making import DECODE, library
from workbench.vendor.elf import read_elf
from workbench.vendor.errors import VendorError


def made(folder: Path, content: bytes) -> Path:
    path = folder / "lib.so"
    path.write_bytes(content)
    return path


def test_a_library_says_what_it_needs_and_where_its_device_code_lies(tmp_path: Path) -> None:
    content = library(DECODE, machine="aarch64", needed=("libtorch.so", "libcudart.so.12"))
    elf = read_elf(made(tmp_path, content), "lib.so")
    assert (elf.machine, elf.needed, elf.glibc) == ("aarch64", ("libtorch.so", "libcudart.so.12"), None)
    ((start, size),) = elf.device
    assert content[start : start + 4] == bytes.fromhex("50ed55ba")
    assert start + size <= len(content)
    assert read_elf(made(tmp_path, library(binaries=())), "lib.so").device == ()


@pytest.mark.skipif(sys.platform != "linux", reason="reads a library of Linux's torch")
def test_a_real_library_says_which_glibc_it_asks_for() -> None:
    path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    elf = read_elf(path, path.name)
    assert "libc.so.6" in elf.needed
    assert elf.glibc is not None
    assert elf.glibc.startswith("2.")


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"MZ" * 100, b"\x7fELF\x02\x01\x01" + bytes(57)])
def test_what_is_no_library_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(VendorError, match=r"^lib\.so: no shared library"):
        read_elf(made(tmp_path, content), "lib.so")


def test_no_damage_ends_in_another_error(tmp_path: Path) -> None:
    whole, draw = library(DECODE), random.Random(0)
    for _ in range(300):
        content = bytearray(whole[: draw.choice([len(whole), draw.randrange(len(whole))])])
        for _ in range(draw.randrange(1, 6)):  # mostly where headers are
            at = draw.choice([draw.randrange(176), len(whole) - 1 - draw.randrange(512)])
            if at < len(content):
                content[at] = draw.randrange(256)
        with contextlib.suppress(VendorError):
            read_elf(made(tmp_path, bytes(content)), "lib.so")
