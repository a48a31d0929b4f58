"""One row as it is judged: k, the exact reference, the route and the profile, each worked out when first asked for."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from itertools import product

from workbench.analysis.profile import RowProfile, profile_of
from workbench.analysis.reference import selection_of, winners_wanted
from workbench.analysis.risk import Risk, risk
from workbench.capture.row import Row
from workbench.errors import UsageError
from workbench.numeric.histogram import RowCounts
from workbench.paths.catalog import get_path
from workbench.paths.devices import DEVICES, get_device
from workbench.paths.outside import route, uncleared_rows
from workbench.paths.releases import parse_release, spelled
from workbench.paths.routing import OPS, Route, get_op
from workbench.paths.selection import Selection
from workbench.paths.spec import Path, Variant
from workbench.words import listed

_NOT_KNOWN = "{} not known".format
DEVICE_UNKNOWN = _NOT_KNOWN("device")  # all that ``Case.unrouted`` says where nothing else is missing


class Case:
    """A row with the circumstances it is judged in.

    Args:
        row: the row. op, release, device, k: those of the call where not given.
        counts: of the row's valid scores with this k, where they were made already.
        like: a case of the same row, but for k; what was worked out of its scores is shared.

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
        counts: RowCounts | None = None,
        like: Case | None = None,
    ) -> None:
        self._counts = counts
        self.op = row.call.op if op is None else op
        named = row.call.release if release is None else release
        self.release = None if named is None else spelled(named)
        self.device = row.call.device if device is None else device
        # What is asked for by name must be known; what a capture names need not be, and leaves the row without a route.
        self._known_op = next((one for one in OPS if one.name == self.op), None)
        if op is not None:
            get_op(op)
        if release is not None:
            parse_release(release, self._known_op.package if self._known_op else None)
        if device is not None:
            get_device(device)
        self.row, self.k = row, winners_wanted(row, k)
        self._risks: dict[tuple[str, str], Risk] = {}
        if like is not None and like.k == self.k:
            self._risks, self.profile = like._risks, like.profile
        elif like is not None:
            self.profile = like.profile.with_k(self.k)

    def in_release(self, release: str | None) -> Case:
        """The same row in another release, whether its routing is known or not; what was worked out is shared."""
        if release == self.release:
            return self
        other = self._unrouted_copy()
        other.release = release
        return other

    def with_op(self, op: str) -> Case:
        """The same row given to another op; what was worked out is shared.

        Raises:
            UsageError: it is not known.
        """
        other = self._unrouted_copy()
        other.op, other._known_op = op, get_op(op)
        return other

    def _unrouted_copy(self) -> Case:
        other = copy(self)
        for name in ("_routed", "of_the_call", "possible"):
            vars(other).pop(name, None)
        return other

    def risk(self, path: Path, variant: Variant) -> Risk:
        """The risk on a catalogued path and one of its variants."""
        key = (path.name, variant.name)
        if key not in self._risks:
            self._risks[key] = risk(self.profile, path, variant)
        return self._risks[key]

    @cached_property
    def exact(self) -> Selection:
        """The reference's selection."""
        return selection_of(self.profile.best, self.k)

    @cached_property
    def profile(self) -> RowProfile:
        """Histogram and thresholds of the row."""
        return profile_of(self.row, self.k, self._counts)

    @property
    def route(self) -> Route | None:
        """Where the op sends the row; ``None`` where op, release or device is not known."""
        return self._routed[0]

    @property
    def unrouted(self) -> str:
        """Why the row has no path, in words; empty if it has one."""
        return self._routed[1]

    @property
    def cure(self) -> str:
        """What to give for the row to have a path, with options of the command line, as in ``give it (--device)``;
        empty where there is nothing of that kind."""
        taken = self.route
        if taken is None:
            lacking = [name for name in ("op", "release", "device") if getattr(self, name) is None]
        else:
            lacking = [name for name in taken.unknown if name in vars(self.row.call)]
        if lacking:
            options = listed(f"--{name.replace('_', '-')}" for name in lacking)
            return f"give {'it' if len(lacking) == 1 else 'them'} ({options})"
        return "give another op, release or device (--op, --release, --device)" if taken is None else ""

    @cached_property
    def _routed(self) -> tuple[Route | None, str]:
        absent = [name for name in ("op", "release", "device") if getattr(self, name) is None]
        if absent:
            return None, _NOT_KNOWN(listed(absent))
        try:
            taken = route(self.row, self.op, self.release, self.device, self.k)
        except UsageError as error:
            return None, str(error)
        if taken.unknown:
            return taken, f"the route depends on {', '.join(taken.unknown)}, which the capture does not say"
        return taken, taken.refused

    @cached_property
    def of_the_call(self) -> str:
        """What the other rows of the call do to the row's path, in words; empty if nothing is known of it."""
        return "" if self.route is None else uncleared_rows(self.row, self.route)

    @property
    def reaches(self) -> tuple[str, ...] | None:
        """The paths that the op ever takes, by name; ``None`` where it is not known."""
        return None if self._known_op is None else self._known_op.reaches

    @cached_property
    def possible(self) -> tuple[Path, ...] | None:
        """The paths that the op could send the row to, over every release and device that may be meant.

        ``None`` where the op is not known; all that it ever takes where the route depends on an unknown field of the
        call, and those of them that take the row where it depends on something else that is not known.
        """
        op = self._known_op
        if op is None:
            return None
        releases = [self.release] if self.release in op.package_releases else op.releases
        names = [device.name for device in DEVICES]
        devices = [self.device] if self.device is not None and self.device.lower() in names else names
        routes = [route(self.row, op.name, *where, self.k) for where in product(releases, devices)]
        reached = {one.path for one in routes}
        unknown = {name for one in routes for name in one.unknown}
        if unknown & vars(self.row.call).keys():
            return tuple(get_path(name) for name in op.reaches)
        paths = [get_path(name) for name in op.reaches]
        return tuple(path for path in paths if path.name in reached or (unknown and self._takes(path)))

    def _takes(self, path: Path) -> bool:
        return not path.unmet(k=self.k, length=self.row.length, dtype=self.row.dtype)
