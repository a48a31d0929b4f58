"""The errors that a user can cause, each one line that names the place and the cure.

Faces (command line, app, pytest) print the message alone; any other exception is a defect of the workbench.
"""

from __future__ import annotations

from pathlib import Path


class WorkbenchError(Exception):
    """Base of every error with a message for people; the command line answers it with exit code 2."""


class UsageError(WorkbenchError):
    """A call that cannot be carried out as asked: an unknown path, op, release or device, a k that is not known."""


class CaptureError(WorkbenchError):
    """Bad input data, named by file, tensor and row as far as each is known.

    Attributes:
        reason: what is wrong and, where there is one, the cure.
        file, tensor, row, call: where; ``None`` where it does not apply.
    """

    def __init__(
        self,
        reason: str,
        *,
        file: str | Path | None = None,
        tensor: str | None = None,
        row: int | None = None,
        call: int | None = None,
    ) -> None:
        self.reason = reason
        self.file = None if file is None else str(file)
        self.tensor, self.row, self.call = tensor, row, call
        place = [
            self.file,
            None if tensor is None else f"tensor {tensor!r}",
            None if call is None else f"call {call}",
            None if row is None else f"row {row}",
        ]
        where = ", ".join(part for part in place if part)
        super().__init__(f"{where}: {reason}" if where else reason)

    @property
    def in_file(self) -> str:
        """The message without its file, for where that stands before it."""
        return str(CaptureError(self.reason, tensor=self.tensor, row=self.row, call=self.call))

    @property
    def within(self) -> str:
        """The message without its file, call and row, for where these stand beside it."""
        return self.reason if self.tensor is None else f"tensor {self.tensor!r}: {self.reason}"

    def __reduce__(self) -> tuple[object, ...]:  # keyword-only arguments do not survive the default pickling
        return (_rebuild, (self.reason, self.file, self.tensor, self.row, self.call))


def _rebuild(reason: str, file: str | None, tensor: str | None, row: int | None, call: int | None) -> CaptureError:
    return CaptureError(reason, file=file, tensor=tensor, row=row, call=call)
