"""Files that options name, as ``--output``: looked at before anything runs, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from workbench.cli.jsonout import dumps
from workbench.errors import UsageError
from workbench.targets import check_target, put_in_place
from workbench.words import because

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".parquet", ".json")
CURE = "give --force"


class Lines(Protocol):
    """What can be written as lines."""

    def to_records(self) -> list[dict[str, object]]:
        """One dictionary a line."""

    def to_pandas(self) -> pd.DataFrame:
        """One line each."""


def check_output(output: str, force: bool) -> Path:
    """Where lines go, looked at before anything runs.

    Raises:
        UsageError: an unknown suffix, no such folder, a file that is there already, or something that is no file.
    """
    if "\0" in output:
        raise UsageError(f"{output}: not a path: it holds a NUL character")
    target = Path(output)
    if not output:
        raise UsageError("--output is empty; name a file")
    if target.name != os.path.basename(output):  # noqa: PTH119  Path drops an ending such as "/"
        raise UsageError(f"{output}: this names a folder; name a file in it")
    if target.suffix not in SUFFIXES:
        raise UsageError(f"{output}: lines are written as {', '.join(SUFFIXES)}; end its name in one of them")
    check_target(target, output, overwrite=force, cure=CURE)
    return target


def write_output(report: Lines, target: Path, force: bool, document: Callable[[], object] | None = None) -> None:
    """Write beside the target, then put in place: the target is whole or not there.

    Args:
        report: the lines. document: what JSON holds; the lines as records where not given.
    """
    try:
        with put_in_place(target, str(target), overwrite=force, cure=CURE) as temporary:
            if target.suffix == ".json":
                temporary.write_text(
                    dumps(report.to_records() if document is None else document()) + "\n", encoding="utf-8"
                )
            elif target.suffix == ".csv":
                report.to_pandas().to_csv(temporary, index=False)
            else:
                report.to_pandas().to_parquet(temporary, index=False)
    except UnicodeError as error:
        raise UsageError(f"{target}: cannot be written: {error}; .json can hold any name") from None
    except OSError as error:
        raise UsageError(f"{target}: cannot be written: {because(error)}") from None


def check_file(option: str, file: str | None, force: bool) -> Path | None:
    """Where something goes, looked at before anything runs.

    Raises:
        UsageError: it cannot be written.
    """
    if file is None:
        return None
    if not file or "\0" in file or file.endswith("/"):
        raise UsageError(f"{option} {file!r} names no file; name one")
    check_target(Path(file), file, overwrite=force, cure=CURE)
    return Path(file)


def is_of(target: Path, source: Path) -> bool:
    """Whether a target is the file that is read, by whatever name, or lies in the folder that is."""
    if not os.path.exists(source):  # noqa: PTH110  that one raises
        return False
    there = os.path.exists(target)  # noqa: PTH110
    return (there and target.samefile(source)) or target.resolve().is_relative_to(source.resolve())
