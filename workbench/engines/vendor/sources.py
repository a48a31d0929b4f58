"""Where a release's ops come from: the store of released libraries, else what is installed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Protocol

from packaging.version import InvalidVersion, Version

from workbench.engines.vendor.adapters import PACKAGES, Adapter
from workbench.errors import WorkbenchError
from workbench.vendor.release import Wheel


class Stored(Protocol):
    """A release's libraries as the store holds them."""

    def verify(self) -> None:
        """WorkbenchError where a file is not the one that was stored."""

    def library_for(self, op: str, capability: tuple[int, int]) -> Path:
        """The library that registers an op for a GPU; WorkbenchError where there is none."""


# Of a release; WorkbenchError or LookupError where the store does not hold it.
Finder = Callable[[Wheel], Stored]


def store(wheel: Wheel) -> Stored:
    """What this user's store holds of a release.

    Raises:
        WorkbenchError, LookupError: it does not hold the release.
    """
    try:
        module = import_module("workbench.vendor.store")
    except ModuleNotFoundError:
        raise LookupError from None
    return module.find(wheel)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Source:
    """Where an op of a release is called.

    Attributes:
        wheel: the release. stored: its libraries, ``None`` where it is installed.
    """

    wheel: Wheel
    stored: Stored | None = None

    @property
    def version(self) -> tuple[int, ...]:
        """Its numbers, for comparing within its package."""
        return self.wheel.version.release


def find(adapter: Adapter, wheel: Wheel | None, finder: Finder) -> Source | str:
    """The source of an op, or why there is none and what to do.

    Args:
        wheel: the release that is asked for; ``None`` for the one that is installed.
    """
    package = PACKAGES[adapter.package]
    if wheel is not None and wheel.package not in (package.name, *package.distributions):
        return f"{adapter.op} belongs to {package.name}; {wheel} has no such op"
    unstored = ""
    if wheel is not None and package.libraries:
        try:
            return Source(wheel, finder(wheel))
        except (WorkbenchError, LookupError) as error:
            unstored = f" ({error})" if str(error) else ""
    there = installed(package.distributions)
    if there is not None and (wheel is None or _same(wheel.version, there.version)):
        return Source(there)
    distribution = package.distributions[0]
    wanted = f"{distribution}=={wheel.version}" if wheel is not None else distribution
    what = f"{wanted} is not installed" if there is None else f"{wanted} is not installed: {there} is"
    if package.libraries:
        fetch = f"workbench vendor add {wanted if wheel is not None else f'{distribution}==VERSION'}"
        return f"{what}, and its libraries are not in the store{unstored}; fetch them: {fetch}"
    return f"{what}; install it where the workbench runs: pip install {wanted}"


def installed(distributions: tuple[str, ...]) -> Wheel | None:
    """The first of these distributions that this environment has."""
    for name in distributions:
        try:
            return Wheel(name, Version(metadata.version(name)))
        except (metadata.PackageNotFoundError, InvalidVersion):
            continue
    return None


def _same(wanted: Version, there: Version) -> bool:
    """Whether an installed version is the one that is asked for; ``0.26.0+cu129`` is 0.26.0."""
    return wanted == there or (wanted.local is None and wanted.public == there.public)
