"""One row as it is judged: k, the exact reference, the route and the profile, each worked out when first asked for."""

from __future__ import annotations

from functools import cached_property

from workbench.analysis.reference import reference, winners_wanted
from workbench.analysis.risk import RowProfile
from workbench.capture.row import Row
from workbench.paths.routing import Route, route
from workbench.paths.selection import Selection


class Case:
    """A row with the circumstances it is judged in.

    Args:
        row: the row. op, release, device, k: those of the call where not given.

    Raises:
        CaptureError: k is not known or not positive.
    """

    def __init__(
        self,
        row: Row,
        op: str | None = None,
        release: str | None = None,
        device: str | None = None,
        k: int | None = None,
    ) -> None:
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

    @cached_property
    def route(self) -> Route | None:
        """Where the op sends the row; ``None`` where op, release or device is not known.

        Raises:
            UsageError: an op, release or device that the workbench does not know.
        """
        if not (self.op and self.release and self.device):
            return None
        return route(self.row, self.op, self.release, self.device, self.k)

    @property
    def unrouted(self) -> str:
        """Why the row has no path, in words; empty if it has one."""
        absent = [name for name in ("op", "release", "device") if not getattr(self, name)]
        if absent:
            return f"{' and '.join(absent)} not known"
        assert self.route is not None
        if self.route.refused:
            return self.route.refused
        if self.route.unknown:
            return f"the route depends on {', '.join(self.route.unknown)}, which the capture does not say"
        return ""
