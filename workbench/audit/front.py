"""``wb.audit``: light enough to be imported with the package, since the room bears the same name."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.arguments import checked
from workbench.audit.executors.base import Executor
from workbench.rendering import Rendered

Given = str | bytes | os.PathLike[str]


@dataclass(frozen=True)
class Progress:
    """How far an audit is; what was done before it was resumed counts.

    Attributes:
        files: of the plan, or looked at so far while it is made. units, rows, bytes: how many are done, and of all.
        failed: rows that could not be read or judged, of those done since it was started.
        planned: whether the plan is made.
    """

    files: int
    units: tuple[int, int] = (0, 0)
    rows: tuple[int, int] = (0, 0)
    bytes: tuple[int, int] = (0, 0)
    failed: int = 0
    planned: bool = False


@dataclass(frozen=True)
class Audited(Rendered):
    """What an audit found, in numbers; the records are in its folder.

    Attributes:
        out: the folder. resumed: whether it was begun before, or even finished.
        files: of the plan. failed_files: of them, those of which not every row was audited.
        rows: with a line. failed_rows: of them, those that could not be read or judged. judged_rows: those that have a
            verdict, a risk or a finding at all. found_rows: those that tell of a loss, a risk or a harm, on the path
            that they take or, where that is not known, on any that they may.
        lines: of the records. appeared: files that are there now and were not when the audit was planned; nothing here
            is of them.
    """

    out: str
    resumed: bool
    files: int
    failed_files: int
    rows: int
    failed_rows: int
    judged_rows: int
    found_rows: int
    lines: int
    appeared: tuple[str, ...] = ()


@checked
def audit(
    what: Given | Sequence[Given],
    out: Given,
    *,
    paths: str = "*",
    op: str | None = None,
    release: str | None = None,
    device: str | None = None,
    k: int | None = None,
    scores: str | None = None,
    lengths: str | None = None,
    starts: str | None = None,
    indices: str | None = None,
    as_dtype: str | None = None,
    executor: str | Executor = "serial",
    workers: int | None = None,
    address: str | None = None,
    gpus: bool = False,
    max_memory: int | str | None = None,
    unit_bytes: int | str = "64MiB",
    progress: Callable[[Progress], None] | None = None,
) -> Audited:
    """Judge every row of many captures, and keep what was found as a Parquet dataset.

    Each row gets a line a path with its risk over every arrival order, and one more for a recorded selection with its
    verdict. An audit that was stopped, however that was, goes on when it is called again with the same arguments, and
    its dataset is then the same, byte for byte, as if it had never been stopped. It is also the same whatever executor,
    workers and memory are given.

    Args:
        what: a folder, which is searched to its depth, a file, or several of these.
        out: the folder of the dataset; made if it is not there.
        paths: a glob over paths, of which there are lines.
        op, release, device, k: of every call; they go before what captures say.
        scores, lengths, starts, indices, as_dtype: name the tensors of dumps, as for ``wb.open``.
        executor: ``serial``, ``processes`` or ``ray``, or one of your own. workers: how many; address: of the Ray
            cluster; both as the executor has them by default.
        gpus: judge rows on GPUs, one worker on each. The dataset is the same.
        max_memory: bytes, as in ``8GiB``, that all workers on this machine may take together: fewer are started where
            that is needed.
        unit_bytes: of scores that a worker is given at once; a row is never parted.
        progress: called as the work goes on.

    Raises:
        UsageError: an unknown name, nothing to audit, or a folder that another audit is writing, that was begun with
            other arguments, or that holds other things.
        OSError: the disk's, as when it is full; what was finished is kept.
    """
    from workbench.audit.running import run_audit

    asked: dict[str, Any] = {
        "paths": paths,
        "op": op,
        "release": release,
        "device": device,
        "k": k,
        "scores": scores,
        "lengths": lengths,
        "starts": starts,
        "indices": indices,
        "as_dtype": as_dtype,
    }
    return run_audit(
        what,
        out,
        asked,
        executor=executor,
        workers=workers,
        address=address,
        gpus=gpus,
        max_memory=max_memory,
        unit_bytes=unit_bytes,
        progress=progress or (lambda at: None),
    )
