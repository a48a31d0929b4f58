"""``wb.record``: the recorder as users enter it. Imports no torch, so that ``import workbench`` does not either."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.record.recorder import Recorder

Told = int | Callable[[], int | None] | None


def record(
    folder: str | os.PathLike[str],
    *,
    ops: str = "*",
    rows: str = "bad",
    seed: int = 0,
    padding: bool = True,
    max_rows: int | None = None,
    max_calls: int | None = None,
    max_bytes: int | str | None = None,
    file_bytes: int | str = "64MiB",
    flush: float = 10.0,
    step: Told = None,
    layer: Told = None,
    rank: int | None = None,
    release: str | None = None,
    device: str | None = None,
    model: str | None = None,
    request: str | None = None,
) -> Recorder:
    """Record selector calls of this process, in every thread, from ``with`` on or until ``close``.

    Args:
        folder: where capture files go; made if it is not there. Processes and ranks may share it.
        ops: which ops, a glob over their names, several parted by ``|``, as in ``vllm.*|torch.topk``.
        rows: ``bad`` (what came back is lossy or invalid, or the row is at risk), ``all``, ``first:N`` (rows of this
            process) or ``sample:P`` (each row with that probability, by ``seed``).
        padding: keep cells past a row's length; without it they are left out where the length is inside the row.
        max_rows, max_calls, max_bytes: recording stops once this process has kept so many.
        file_bytes: a file is written once so much is held in memory. flush: and at a call, once the oldest row held
            has waited so many seconds; 0 writes after every call. A crash loses no more than what was held.
        step, layer: of the calls, or what to ask for it at every call. rank: by default that of torch.distributed.
        release, device: by default those of the installed package and of the scores' GPU. model, request: what is
            served.

    Raises:
        UsageError: an option that cannot be, a folder that cannot be made, a glob that no op matches.
    """
    from workbench.record.options import Options
    from workbench.record.recorder import Recorder

    options = Options.checked(
        folder=folder,
        ops=ops,
        rows=rows,
        seed=seed,
        padding=padding,
        max_rows=max_rows,
        max_calls=max_calls,
        max_bytes=max_bytes,
        file_bytes=file_bytes,
        flush=flush,
        rank=rank,
        release=release,
        device=device,
        model=model,
        request=request,
    )
    return Recorder(options, step=step, layer=layer)
