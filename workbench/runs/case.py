"""One row as it is judged: k, the exact reference, the route and the profile, each worked out when first asked for."""

from __future__ import annotations

from functools import cached_property

from workbench.analysis.profile import RowProfile
from workbench.analysis.reference import reference, winners_wanted
from workbench.capture.row import Row
from workbench.errors import UsageError
from workbench.paths.devices import get_device
from workbench.paths.releases import parse_release
from workbench.paths.routing import Route, get_op, route
from workbench.paths.selection import Selection
from workbench.words import listed


class Case:
    """A row with the circumstances it is judged in.

    Args:
        row: the row. op, release, device, k: those of the call where not given.

    Raises:
        CaptureError: k is not known or not positive.
        UsageError: an op, release or device is given that is not known.
    """

    def __init__(
        self,
        row: Row,
        op: str | None = None,
        release: str | None = None,
        device: str | None = None,
        k: int | None = None,
    ) -> None:
        # What is asked for by name must be known; what a capture names need not be, and leaves the row without a route.
        known_op = get_op(op) if op else None
        if release:
            parse_release(release, known_op.package if known_op else None)
        if device:
            get_device(device)
        self.row, self.k = row, winners_wanted(row, k)
        self.op, self.release, self.device = op or row.call.op, release or row.call.release, device or row.call.device

    @cached_property
    def exact(self) -> Selection:
        """The reference's selection."""
        return reference(self.row, self.k)

    @cached_property
    def profile(self) -> RowProfile:
        """Histogram and thresholds of the row."""
        return RowProfile(self.row.valid, self.row.dtype, self.k)

    @property
    def route(self) -> Route | None:
        """Where the op sends the row; ``None`` where op, release or device is not known."""
        return self._routed[0]

    @property
    def unrouted(self) -> str:
        """Why the row has no path, in words; empty if it has one."""
        return self._routed[1]

    @cached_property
    def _routed(self) -> tuple[Route | None, str]:
        absent = [name for name in ("op", "release", "device") if not getattr(self, name)]
        if absent:
            return None, f"{listed(absent)} not known"
        try:
            taken = route(self.row, self.op, self.release, self.device, self.k)
        except UsageError as error:
            return None, str(error)
        if taken.unknown:
            return taken, f"the route depends on {', '.join(taken.unknown)}, which the capture does not say"
        return taken, taken.refused
