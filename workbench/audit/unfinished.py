"""How far an audit is that is not finished, read from its folder without touching it: it may be at work."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from workbench.audit.journal import frames
from workbench.audit.plan import loaded
from workbench.audit.store import PLAN
from workbench.capture.values import shown
from workbench.errors import CaptureError
from workbench.words import because


@dataclass(frozen=True)
class Unfinished:
    """How far an audit is that was stopped, or is still at work: files, units of work and how many of these are open;
    ``None`` where its plan is not made yet."""

    files: int | None = None
    units: int | None = None
    open: int | None = None


def progress_of(work: Path, records: Path) -> Unfinished:
    """How far an audit is.

    Args:
        work: its folder of unfinished parts. records: of finished ones.

    Raises:
        CaptureError: its plan is damaged or cannot be read.
    """
    try:
        plan = loaded((work / PLAN).read_text(encoding="ascii"))
        parts = plan.parts()
    except FileNotFoundError:
        return Unfinished()
    except OSError as error:
        raise CaptureError(f"cannot be read: {because(error)}", file=shown(work / PLAN)) from None
    except ValueError:
        raise CaptureError(
            "it is damaged; delete the audit's folder, and audit anew", file=shown(work / PLAN)
        ) from None
    done = 0
    for at, units in enumerate(parts):
        if (records / f"part-{at:06}.parquet").exists():
            done += len(units)
        else:
            done += len(_units_in(work / f"part-{at:06}.frames") & set(units))
    return Unfinished(len(plan.files), plan.units, plan.units - done)


def _units_in(path: Path) -> set[int]:
    """The units of which a file of frames seems to hold all."""
    found: set[int] = set()
    with contextlib.suppress(OSError), path.open("rb") as file:  # not begun, or finished meanwhile
        found.update(frame.number for frame in frames(file))
    return found
