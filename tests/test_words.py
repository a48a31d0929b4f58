"""What is said of errors of the system."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from workbench.words import because


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            OSError(errno.EACCES, "Permission denied", "x"),
            "Permission denied; have it permitted (chmod), or name another",
        ),
        (OSError(errno.EROFS, "Read-only file system"), "Read-only file system; name another place"),
        (
            OSError(errno.EMFILE, "Too many open files"),
            "Too many open files; allow this process more open files (ulimit",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError("said by a library"), "said by a library"),
        (ValueError("embedded null byte"), "embedded null byte"),
    ],
)
def test_the_reason_and_what_helps(error: Exception, told: str) -> None:
    assert because(error).startswith(told)
    assert (";" in because(error)) == (";" in told)


@pytest.mark.usefixtures("permissions_hold")
def test_what_arrow_says_is_said_as_the_system_does(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x")
    path.chmod(0)
    with pytest.raises(PermissionError) as caught:
        pa.OSFile(str(path))
    assert because(caught.value) == f"{os.strerror(errno.EACCES)}; have it permitted (chmod), or name another place"


def test_no_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "none")])
    with pytest.raises(FileNotFoundError) as caught:
        tempfile.gettempdir()
    assert because(caught.value).endswith("; name a folder in TMPDIR")
