"""What can be wrong with a wheel, a pack or a kept library."""

from __future__ import annotations

from workbench.errors import WorkbenchError


class VendorError(WorkbenchError):
    """A wheel, pack, library or store that cannot be used: the file, what is wrong and the cure, if any."""
