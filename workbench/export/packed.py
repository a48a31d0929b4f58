"""An export in memory, for who downloads it: the very files that a folder would get."""

from __future__ import annotations

import io
import tempfile
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

from workbench.errors import CaptureError
from workbench.export.proof import Told
from workbench.export.writing import Exported, export_case
from workbench.runs.case import Case
from workbench.words import because

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date that a zip file can say: equal exports give equal bytes
_FILE = 0o100644 << 16
_TEMPORARY = "the temporary folder"


@dataclass(frozen=True)
class Packed:
    """What was exported, and the content of its files.

    Attributes:
        exported: with every file by its path within the folder, which ``run`` is said from.
        contents: of the files, by the same paths and in their order.
    """

    exported: Exported
    contents: dict[str, bytes]

    def zipped(self) -> bytes:
        """All files as one zip file, which holds no date; not compressed, so that it is the same everywhere."""
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
            for name, content in self.contents.items():
                info = zipfile.ZipInfo(name, _EPOCH)
                info.create_system, info.external_attr = 3, _FILE
                archive.writestr(info, content)
        return out.getvalue()


def export_packed(
    case: Case,
    *,
    style: str,
    path: str | None = None,
    variant: str | None = None,
    op: str | None = None,
    told: Told | None = None,
) -> Packed:
    """Export a row as ``export_case`` does, to a temporary folder that is gone when this returns or raises.

    Raises:
        UsageError, CaptureError: as for an export to a folder, without the temporary folder's name.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="topk-workbench-") as root:
            folder = Path(root) / "export"
            try:
                done = export_case(case, to=folder, style=style, path=path, variant=variant, op=op, told=told)
            except CaptureError as error:
                raise _unnamed(error, root) from None
            contents = {file.relative_to(folder).as_posix(): file.read_bytes() for file in done.files}
    except OSError as error:
        raise CaptureError(f"cannot be written or read back: {because(error)}", file=_TEMPORARY) from None
    return Packed(replace(done, files=tuple(map(Path, contents))), contents)


def _unnamed(error: CaptureError, root: str) -> CaptureError:
    """An error without the place on this machine that the user did not choose."""
    return CaptureError(error.reason, file=_TEMPORARY) if root in (error.file or "") else error
