"""Files given their names in a folder: all of them or none, and one export at a time."""

from __future__ import annotations

import contextlib
import fcntl
import filecmp
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from workbench.capture.values import path_text, shown
from workbench.errors import CaptureError
from workbench.export.fixture import STAGING
from workbench.targets import check_target, put_in_place
from workbench.words import because

CURE = "allow overwriting (--force)"
_BEFORE = "before"  # within the folder of unfinished files: what they replace


@contextlib.contextmanager
def staged(to: str | os.PathLike[str]) -> Iterator[tuple[Path, Path]]:
    """The folder, made where it is not there, and one within it for files that are not finished."""
    folder = Path(path_text(to))
    made = _missing(folder)
    staging = folder / f"{STAGING}{secrets.token_hex(6)}"
    try:
        staging.mkdir(parents=True)
        yield folder, staging
    except OSError as error:
        raise CaptureError(f"cannot be written: {because(error)}", file=shown(folder)) from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        _remove_empty(made)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other exports to the folder waiting, where its file system knows locks."""
    held = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)  # which unlocks


def publish(staging: Path, folder: Path, files: list[str], overwrite: bool, lines: tuple[str, ...]) -> list[str]:
    """Give all files their names, or none; those that are there with the same content stay.

    Args:
        files: by their path in both folders. lines: those of them that hold all that was there, and may replace it.

    Returns:
        The files that stay.

    Raises:
        UsageError: one of them is there with other content.
    """
    unchanged = [file for file in files if _same(staging / file, folder / file)]
    due = [file for file in files if file not in unchanged]
    ours = {file: _identity(staging / file) for file in due}
    made: list[Path] = []
    try:
        for file in due:
            parent = (folder / file).parent
            made = [*_missing(parent), *made]
            parent.mkdir(parents=True, exist_ok=True)
            check_target(folder / file, shown(folder / file), overwrite=overwrite or file in lines, cure=CURE)
        for file in due:
            _keep(folder / file, staging / _BEFORE / file)
        for file in due:
            replaces = overwrite or file in lines
            with put_in_place(folder / file, shown(folder / file), overwrite=replaces, cure=CURE) as empty:
                (staging / file).replace(empty)
    except BaseException:
        for file in due:
            if _identity(folder / file) == ours[file]:
                _take_back(folder / file, staging / _BEFORE / file)
        _remove_empty(made)
        raise
    return unchanged


def _missing(folder: Path) -> list[Path]:
    """The folders that have to be made for one to be there, the innermost first."""
    return [one for one in (folder, *folder.parents) if not os.path.exists(one)]  # noqa: PTH110  that one raises


def _remove_empty(folders: list[Path]) -> None:
    for one in folders:
        with contextlib.suppress(OSError):  # those that are not empty stay
            one.rmdir()


def _identity(file: Path) -> tuple[int, int] | None:
    """What stays of a file when it is renamed."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _keep(target: Path, kept: Path) -> None:
    if target.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(target, kept)


def _take_back(target: Path, kept: Path) -> None:
    if kept.exists():
        kept.replace(os.path.realpath(target))
    else:
        target.unlink(missing_ok=True)


def _same(one: Path, other: Path) -> bool:
    return other.is_file() and filecmp.cmp(one, other, shallow=False)
