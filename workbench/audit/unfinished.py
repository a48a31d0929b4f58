"""How far an audit is that is not finished, read from its folder without touching it: it may be at work."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from workbench.audit.plan import loaded
from workbench.audit.store import PLAN
from workbench.capture.values import shown
from workbench.errors import CaptureError

_HEAD, _DIGEST, _MAGIC = struct.Struct("<4sIQ"), 32, b"WBF1"  # as ``journal`` describes; that one mends the file


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
        raise CaptureError(f"cannot be read: {error.strerror}", file=shown(work / PLAN)) from None
    except (ValueError, TypeError, KeyError, AttributeError):
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


def _units_in(frames: Path) -> set[int]:
    """The units of which a file of frames seems to hold all."""
    found: set[int] = set()
    try:
        with frames.open("rb") as file:
            size = frames.stat().st_size
            while len(head := file.read(_HEAD.size + _DIGEST)) == _HEAD.size + _DIGEST:
                magic, number, length = _HEAD.unpack(head[: _HEAD.size])
                if magic != _MAGIC or length > size - file.tell():
                    break
                found.add(number)
                file.seek(length, 1)
    except OSError:  # not begun, or finished meanwhile
        pass
    return found
