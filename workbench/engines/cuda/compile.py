"""Kernels as machine code: compiled once, then kept in the user's cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path as File

from workbench.engines.cuda.nvrtc import Nvrtc, find_nvrtc
from workbench.engines.cuda.sources import build_options, source_of
from workbench.errors import UsageError
from workbench.paths.devices import resident_threads
from workbench.paths.spec import Path
from workbench.resources import kernels_dir

ENTRY = "workbench_select"  # the kernel's name in every source
MARK, MARK_BYTES = b"workbench_shared:", 20  # before the number of bytes that a block needs
FORMAT = 1  # of the cache
# The last one: a lambda without captures has a function of the host to NVRTC before 13.1.
COMPILER: tuple[str, ...] = ("--std=c++17", "--ptxas-options=-v", "--device-as-default-execution-space")
STRICT = ("-Werror=all-warnings", "--ptxas-options=-warn-spills", "--ptxas-options=-Werror")
NO_COMPILER = "NVRTC is not installed: install the extra cuda13 or cuda12, as in pip install 'topk-workbench[cuda13]'"


@dataclass(frozen=True)
class Facts:
    """What the compiler says of a kernel.

    Attributes:
        shared_bytes: dynamic shared memory of a block. registers: of a thread. spilled: bytes of them in local memory.
    """

    shared_bytes: int
    registers: int
    spilled: int


@dataclass(frozen=True)
class Built:
    """A compiled kernel: its machine code in a file, and what is known of it."""

    cubin: File
    facts: Facts


class KernelError(UsageError):
    """A kernel that does not compile; the message names file, line, path and variant, ``log`` is all that was said."""

    def __init__(self, message: str, log: str) -> None:
        super().__init__(message)
        self.log = log


def cache_folder() -> File:
    """Where compiled kernels are kept; ``TOPK_WORKBENCH_KERNELS`` names another folder."""
    chosen = os.environ.get("TOPK_WORKBENCH_KERNELS")
    if chosen:
        return File(chosen)
    import platformdirs

    return File(platformdirs.user_cache_dir("topk-workbench")) / "kernels"


def capability_of(arch: str) -> tuple[int, int]:
    """The compute capability that ``sm_90`` and the like are; (0, 0) for what is spelled otherwise."""
    spelled = re.fullmatch(r"sm_(\d+)(\d)[a-z]?", arch)
    return (int(spelled[1]), int(spelled[2])) if spelled else (0, 0)


def build(
    path: Path, variant: str, arch: str, *, telemetry: bool = True, maps: bool = False, strict: bool = False
) -> Built:
    """The machine code of a variant's kernel, from the cache or compiled and put there.

    Args:
        arch: as in ``sm_90``. telemetry: whether the kernel tells of its inside.
        maps: whether it can return something else than positions.
        strict: warnings, and registers that spill, are errors.

    Raises:
        KernelError: it does not compile.
        UsageError: the variant has no kernel, or no compiler is installed.
    """
    sm_threads = resident_threads(capability_of(arch))
    options = build_options(path, variant, telemetry=telemetry, maps=maps, sm_threads=sm_threads)
    return build_source(f"{path.name} {variant}", source_of(path, variant), options, arch, strict=strict)


def build_source(name: str, source: str, options: tuple[str, ...], arch: str, *, strict: bool = False) -> Built:
    """The machine code of a source in ``kernels/``, as ``build`` has that of a variant's.

    Args:
        name: of what it is built for, in errors. options: ``-DWORKBENCH_NAME=value`` each.
    """
    nvrtc = find_nvrtc()
    if nvrtc is None:
        raise UsageError(NO_COMPILER)
    options = (*options, *COMPILER, *(STRICT if strict else ()))
    named = [source_digest(source), source, arch, nvrtc.version, options, FORMAT]
    key = hashlib.sha256(json.dumps(named).encode()).hexdigest()
    folder = cache_folder()
    held = _held(folder, key)
    if held is not None:
        return held
    cubin, log = _compile(nvrtc, name, source, arch, options)
    return _keep(folder, key, cubin, _facts(cubin, log))


@cache
def source_digest(file: str) -> str:
    """Names the content of a source and of all that it could include: every header of ``kernels/``."""
    folder = kernels_dir()
    digest = hashlib.sha256()
    for one in (folder / file, *sorted(folder.glob("*.cuh"))):
        digest.update(f"{one.name} {one.stat().st_size}\n".encode())
        digest.update(one.read_bytes())
    return digest.hexdigest()


def _compile(nvrtc: Nvrtc, named: str, source: str, arch: str, options: tuple[str, ...]) -> tuple[bytes, str]:
    folder = kernels_dir()
    text = (folder / source).read_text(encoding="utf-8")
    made = nvrtc.compile(text, source, (f"--gpu-architecture={arch}", f"-I{folder}", *options))
    if not made.cubin:
        found = (line for line in made.log.splitlines() if "error" in line or "fatal" in line)
        first = next(found, made.log or "the compiler gave no reason")
        raise KernelError(f"{named} does not compile for {arch}: {first.replace(f'{folder}/', '').strip()}", made.log)
    return made.cubin, made.log


def _facts(cubin: bytes, log: str) -> Facts:
    registers, spilled = re.search(r"Used (\d+) registers", log), re.search(r"(\d+) bytes spill stores", log)
    return Facts(
        shared_bytes=_shared_bytes(cubin),
        registers=int(registers[1]) if registers else 0,
        spilled=int(spilled[1]) if spilled else 0,
    )


def _shared_bytes(cubin: bytes) -> int:
    """The mark that ``kernels/platform.cuh`` leaves in the machine code; 0 where a kernel needs none."""
    at = cubin.find(MARK)
    return int.from_bytes(cubin[at + MARK_BYTES : at + MARK_BYTES + 4], "little") if at >= 0 else 0


def _held(folder: File, key: str) -> Built | None:
    """What the cache has under a key; ``None`` if nothing, or something that is damaged."""
    cubin, about = folder / f"{key}.cubin", folder / f"{key}.json"
    try:
        told = json.loads(about.read_text(encoding="utf-8"))
        if told.pop("sha256") == hashlib.sha256(cubin.read_bytes()).hexdigest():
            return Built(cubin, Facts(**told))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        pass
    return None


def _keep(folder: File, key: str, cubin: bytes, facts: Facts) -> Built:
    """Put machine code into the cache; what other processes write there meanwhile is the same."""
    about = json.dumps({"sha256": hashlib.sha256(cubin).hexdigest(), **asdict(facts)})
    built = Built(folder / f"{key}.cubin", facts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _put(built.cubin, cubin)
        _put(folder / f"{key}.json", about.encode())
    except OSError as error:
        raise UsageError(
            f"{folder}: compiled kernels cannot be kept there: {error.strerror or error}; "
            "name another folder in TOPK_WORKBENCH_KERNELS"
        ) from None
    return built


def _put(target: File, content: bytes) -> None:
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
