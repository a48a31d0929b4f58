"""Files that are written: looked at first, made beside their place, and put in it whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from workbench.errors import UsageError
from workbench.words import because


def check_target(target: Path, name: str, *, overwrite: bool, cure: str) -> None:
    """Refuse a target that cannot be made or must not be replaced: only a regular file, or a link to one, ever is.

    Args:
        name: of the target in messages. cure: how the user allows a file to be replaced.

    Raises:
        UsageError: what is wrong with the target, and the cure.
    """
    try:
        os.path.realpath(target)  # a path with a NUL character is none
        if target.is_symlink() and not target.exists():
            raise UsageError(f"{name}: this is a link that leads nowhere; name a file")
        if target.is_dir():
            raise UsageError(f"{name}: this is a folder; name a file in it")
        if target.exists() and not target.is_file():
            raise UsageError(f"{name}: this is a pipe, socket or device, and no regular file; choose another name")
        if os.path.lexists(target) and not overwrite:
            raise UsageError(f"{name}: the file is there already; choose another name or {cure}")
        if not target.parent.is_dir():
            raise UsageError(f"{name}: its folder does not exist; make it first")
    except (OSError, ValueError) as error:
        reason = because(error)
        raise UsageError(f"{name}: not a path that can be written: {reason}") from None


@contextlib.contextmanager
def put_in_place(target: Path, name: str, *, overwrite: bool, cure: str) -> Iterator[Path]:
    """A new empty file beside the target, which takes its place when the block ends, and vanishes if it fails.

    A link stays a link, to the new content. What another program makes of the target meanwhile is not replaced
    unless ``overwrite``, and never if it is no regular file.

    Args:
        name, cure: as for ``check_target``.

    Raises:
        UsageError: the target must not be replaced. OSError: the disk's.
    """
    check_target(target, name, overwrite=overwrite, cure=cure)
    final = Path(os.path.realpath(target))
    temporary = final.with_name(
        f".workbench-{secrets.token_hex(6)}.tmp"
    )  # short: the target's may be as long as can be
    try:
        with temporary.open("xb"):  # exclusive, with the permissions that the user's new files have
            pass
        yield temporary
        _publish(temporary, final, target, name, overwrite, cure)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _publish(temporary: Path, final: Path, target: Path, name: str, overwrite: bool, cure: str) -> None:
    if overwrite:
        check_target(target, name, overwrite=True, cure=cure)  # another program may have made a pipe of it meanwhile
        temporary.replace(final)
    else:
        try:
            final.hardlink_to(temporary)  # fails if another process made the file meanwhile; replace would not
        except FileExistsError:
            raise UsageError(f"{name}: another program made this file meanwhile; choose another name") from None
        except OSError:  # a file system without hard links
            temporary.replace(final)
    folder = os.open(final.parent, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems cannot sync a folder
            os.fsync(folder)
    finally:
        os.close(folder)
