"""``wb.export``: light enough to be imported with the package, since the room bears the same name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.capture.row import Row
    from workbench.export.writing import Exported


def export(
    row: Row,
    *,
    to: str | os.PathLike[str],
    style: str = "pytest",
    path: str | None = None,
    variant: str | None = None,
    op: str | None = None,
    release: str | None = None,
    device: str | None = None,
    k: int | None = None,
    selector: str | None = None,
    name: str | None = None,
    source: str | None = None,
    overwrite: bool = False,
) -> Exported:
    """Write a row that breaks a selector as a fixture file and a test that catches the loss.

    Before anything is written the test is run: it must pass on the exact reference and on every modelled variant of the
    path that loses nothing, and fail on the model of the path.

    Args:
        row: the row. to: a folder; it is made where it is not there.
        style: ``pytest`` (a plain test of any selector), ``vllm`` or ``sglang`` (a test of the op, in the shape of the
            engine's own), ``flashinfer-trace`` (a definition and a workload).
        path, variant: what loses; by default what the op sends the row to.
        op, release, device, k: those of the call where not given. The styles of an engine call the op.
        selector: ``module:function``, for the style pytest: called with scores [n] and k, it returns indices [k].
        name: of the fixture, without its ending; by default it follows from path, k, length and digest.
        source: how the row was made, free text for the fixture; what the capture says of that is left out.
        overwrite: replace files that are already there with other content.

    Raises:
        UsageError: nothing is lost there, or too seldom for 1000 calls; a wrong name; a file that is already there.
        CaptureError: a row without k, or files that cannot be written.
    """
    from workbench.export.writing import export_row

    return export_row(
        row,
        to=to,
        style=style,
        path=path,
        variant=variant,
        op=op,
        release=release,
        device=device,
        k=k,
        selector=selector,
        name=name,
        source=source,
        overwrite=overwrite,
    )
