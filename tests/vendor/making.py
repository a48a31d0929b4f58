"""Small shared libraries, fat binaries and wheels that look real to whoever reads their headers."""

from __future__ import annotations

import base64
import hashlib
import random
import struct
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

PERSISTENT = "persistent_topk(Tensor logits, Tensor lengths, Tensor! output, Tensor workspace, int k, int m) -> ()"
DECODE = "top_k_per_row_decode(Tensor logits, int next_n, Tensor seq_lens, Tensor! indices, int topK) -> ()"
FAST = "fast_topk(Tensor score, Tensor indices, Tensor lengths, Tensor? row_starts) -> ()"
OTHER = "topk_softmax(Tensor! topk_weights, Tensor! topk_indices, Tensor gating_output, bool renormalize) -> ()"

MACHINES = {"x86_64": 62, "aarch64": 183}
LINKED = ("libtorch.so", "libcudart.so.13", "libc.so.6")
FLAGS = {"": 0x11, "a": 0x100011, "f": 0x1200011}
ZSTD = 0x8000


def code(name: str, payload: bytes | None = None, *, flags: int = 0, inflated: int = 0) -> bytes:
    """One entry of a fat binary, for an architecture named as in ``sm_90a`` or ``compute_80``."""
    prefix, _, number = name.partition("_")
    arch, suffix = int(number.rstrip("af")), number.lstrip("0123456789")
    kind = {"sm": 2, "compute": 1}.get(prefix, 8)
    if payload is None:
        payload = random.Random(name).randbytes(256) if kind == 2 else f".entry topk_of_{name}(".encode()
    padded = payload + bytes(-len(payload) % 8)
    stored = len(payload) if flags else 0
    fields = (kind, 0x101, 64, len(padded), stored, 0, 1, 8, arch, FLAGS[suffix] | flags, inflated)
    return struct.pack("<HHIQIIHHI8xQ8xQ", *fields) + padded


def ptx(name: str, kernel: str, flags: int = ZSTD) -> bytes:
    """PTX with one kernel, compressed as compilers do."""
    text = f".version 9.0\n.visible .entry {kernel}(\n".encode() + b"// filler\n" * 50
    return code(name, bytes(pa.compress(text, codec="zstd", asbytes=True)), flags=flags, inflated=len(text))


def fatbin(*codes: bytes) -> bytes:
    """A fat binary of entries."""
    body = b"".join(codes)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def library(
    *schemas: str,
    archs: Iterable[str] = ("sm_80", "sm_90", "sm_90a", "sm_100f", "compute_80"),
    binaries: Iterable[bytes] | None = None,
    needed: Iterable[str] = LINKED,
    machine: str = "x86_64",
    filler: int = 0,
) -> bytes:
    """A shared library with a dynamic section, read-only data that holds schemas, and device code."""
    text = b"\0".join([b"", *(schema.encode() for schema in schemas), random.Random(1).randbytes(filler), b""])
    made = [fatbin(*map(code, archs))] if binaries is None else list(binaries)
    device = b"".join(one + bytes(-len(one) % 8 + 8) for one in made)
    names, offsets = b"\0", []
    for one in needed:
        offsets.append(len(names))
        names += one.encode() + b"\0"
    parts: list[tuple[str, int, bytes]] = [(".rodata", 1, text), (".dynstr", 3, names)]
    if device:
        parts.append((".nv_fatbin", 1, device))
    start, placed = 64 + 2 * 56, []
    for name, kind, content in parts:
        start += -start % 16
        placed.append((name, kind, start, content))
        start += len(content)
    start += -start % 16
    strings = next(at for name, _, at, _ in placed if name == ".dynstr")
    tags = [*((1, at) for at in offsets), (5, strings), (10, len(names)), (0, 0)]
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in tags)
    placed.append((".dynamic", 6, start, dynamic))
    start += len(dynamic)
    titles = b"\0" + b"\0".join(name.encode() for name, *_ in placed) + b"\0.shstrtab\0"
    placed.append((".shstrtab", 3, start, titles))
    start += len(titles)
    start += -start % 8
    indices = {name: number for number, (name, *_) in enumerate(placed, 1)}
    headers = bytes(64)
    for name, kind, at, content in placed:
        link = indices[".dynstr"] if name == ".dynamic" else 0
        entry = 16 if name == ".dynamic" else 0
        title = titles.index(b"\0" + name.encode() + b"\0") + 1
        headers += struct.pack("<IIQQQQIIQQ", title, kind, 0, at, at, len(content), link, 0, 8, entry)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    sizes = (64, 56, 2, 64, len(placed) + 1, len(placed))
    file = ident + struct.pack("<HHIQQQIHHHHHH", 3, MACHINES[machine], 1, 0, 64, start, 0, *sizes)
    file += struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, start, start, 4096)
    (at,) = (at for name, _, at, _ in placed if name == ".dynamic")
    file += struct.pack("<IIQQQQQQ", 2, 4, at, at, at, len(dynamic), len(dynamic), 8)
    for _, _, at, content in placed:
        file += bytes(at - len(file)) + content
    return file + bytes(start - len(file)) + headers


VLLM = {"vllm/_C_stable_libtorch.abi3.so": library(DECODE, PERSISTENT), "vllm/_moe_C.abi3.so": library(OTHER)}


def record(files: Mapping[str, bytes]) -> str:
    """RECORD of files."""
    lines = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}\n")
    return "".join(lines)


def wheel(
    folder: Path,
    release: str = "vllm==0.26.0",
    files: Mapping[str, bytes] | None = None,
    *,
    tag: str = "cp38-abi3-manylinux_2_28_x86_64",
    metadata: str | None = None,
    recorded: str | None = None,
    extra: Iterable[tuple[zipfile.ZipInfo | str, bytes]] = (),
    about: bool = True,
) -> Path:
    """A wheel of files.

    Args:
        recorded: another RECORD. extra: members that RECORD does not list.
        about: whether METADATA and RECORD are there.
    """
    package, _, version = release.partition("==")
    stem = f"{package.replace('-', '_')}-{version}"
    files = VLLM if files is None else files
    text = metadata
    if text is None:
        text = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\nRequires-Dist: torch==2.11.0\n"
    path = folder / f"{stem}-{tag}.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        if about:
            archive.writestr(f"{stem}.dist-info/METADATA", text)
            archive.writestr(f"{stem}.dist-info/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n")
            archive.writestr(f"{stem}.dist-info/RECORD", record(files) if recorded is None else recorded)
        for member, content in extra:
            archive.writestr(member, content)
    return path
