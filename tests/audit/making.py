"""Folders to audit, and executors that work off units in orders of their own."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from workbench.audit.front import Audited, audit
from workbench.capture import Call, Row, write_capture

CALL = Call(
    k=64,
    rows=3,
    width=1000,
    stride=1000,
    next_n=1,
    max_seq_len=1000,
    op="vllm.persistent_topk",
    layer=1,
    step=2,
    rank=0,
)


def rows(count: int = 3, length: int = 1000, seed: int = 0, k: int = 64, **call: Any) -> list[Row]:
    """Rows of one call."""
    generator = torch.Generator().manual_seed(seed)
    of = Call(**{**vars(CALL), "k": k, "rows": count, "width": length, "stride": length, "max_seq_len": length, **call})
    return [Row(torch.randn(length, generator=generator), length, call=of) for _ in range(count)]


def dump(folder: Path, files: int = 5, **of: Any) -> Path:
    """A folder of captures in two folders."""
    for number in range(files):
        where = folder / f"rank{number % 2}"
        where.mkdir(parents=True, exist_ok=True)
        write_capture(where / f"step{number}.safetensors", rows(seed=number, **of))
    return folder


FAULTS = {
    "gone": "no such file",
    "shorter": "the file is cut short",
    "longer": "bytes after the last tensor belong to none",
    "a folder": "this is a folder",
    "a pipe": "not a regular file",
    "closed": "no permission to read the file",
}
"""What may become of a file between the listing of its folder and its reading, and what is then said of it."""


def befall(folder: Path) -> None:
    """Let all of that happen to captures of the same names."""
    for name in FAULTS:
        path = folder / f"{name}.safetensors"
        if name == "shorter":
            os.truncate(path, path.stat().st_size // 2)
        elif name == "longer":
            with path.open("ab") as file:
                file.write(b"more")
        elif name == "closed":
            path.chmod(0)
        else:
            path.unlink()
    (folder / "a folder.safetensors").mkdir()
    os.mkfifo(folder / "a pipe.safetensors")


def content(out: Path) -> dict[str, bytes]:
    """Every file of an audit that is not hidden, by its name."""
    return {
        path.relative_to(out).as_posix(): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def records(out: Path) -> pa.Table:
    """All lines."""
    return pa.concat_tables([pq.read_table(part) for part in sorted((out / "records").glob("*.parquet"))])


class Shuffled:
    """Draws some units ahead, and gives their results in an order of its own."""

    name, workers = "shuffled", 1

    def __init__(self, seed: int = 0, ahead: int = 6) -> None:
        self._random, self._ahead = random.Random(seed), ahead

    def run(self, task: Any, units: Iterable[Any]) -> Iterator[Any]:
        work, waiting, held = task.open(0), iter(units), []
        while True:
            held += [unit for _, unit in zip(range(self._ahead - len(held)), waiting, strict=False)]
            if not held:
                return
            unit = held.pop(self._random.randrange(len(held)))
            yield unit, work(unit)

    def __enter__(self) -> Shuffled:
        return self

    def __exit__(self, *_: object) -> None: ...


class StopError(Exception):
    """What a test stops an audit with."""


class Stopped(Shuffled):
    """Stops after so many units."""

    def __init__(self, after: int, seed: int = 0, ahead: int = 6) -> None:
        super().__init__(seed, ahead)
        self._after = after

    def run(self, task: Any, units: Iterable[Any]) -> Iterator[Any]:
        for done, outcome in enumerate(super().run(task, units)):
            if done == self._after:
                raise StopError
            yield outcome


def audited(what: Any, out: Path, **asked: Any) -> Audited:
    """An audit in this process."""
    return audit(what, out, **{"executor": Shuffled(ahead=1), **asked})


Maker = Callable[..., Path]
