"""Where a release's ops come from: the store of released libraries, else what is installed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Protocol

from packaging.version import InvalidVersion, Version

from workbench.engines.vendor.adapters import PACKAGES, Adapter
from workbench.errors import UsageError, WorkbenchError
from workbench.vendor.release import Wheel


class Stored(Protocol):
    """A release's libraries as the store holds them."""

    def library_for(self, op: str, capability: tuple[int, int]) -> Path:
        """The library that registers an op for a GPU, once its file was found to be what was stored.

        Raises:
            WorkbenchError: there is none, or it is damaged.
        """


# What the store holds of a release: UsageError or LookupError if nothing, any other WorkbenchError if it is damaged.
Finder = Callable[[Wheel], Stored]


def store(wheel: Wheel) -> Stored:
    """What this user's store holds of a release.

    Raises:
        UsageError, LookupError: it does not hold the release. WorkbenchError: what it holds is damaged.
    """
    try:
        return import_module("workbench.vendor.store").find(wheel)  # type: ignore[no-any-return]
    except ModuleNotFoundError:  # without platformdirs there is no cache of the user
        raise LookupError from None


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
    if wheel is not None and package.libraries:
        try:
            return Source(wheel, finder(wheel))
        except (UsageError, LookupError):
            pass
        except WorkbenchError as error:
            return str(error)
    there = installed(package.distributions)
    if there is not None and (wheel is None or _same(wheel.version, there.version)):
        return Source(there)
    distribution = package.distributions[0]
    wanted = f"{distribution}=={wheel.version}" if wheel is not None else distribution
    what = f"{wanted} is not installed" if there is None else f"{wanted} is not installed: {there} is"
    if package.libraries:
        fetch = f"workbench vendor add {wanted if wheel is not None else f'{distribution}==VERSION'}"
        return f"{what}, and its libraries are not in the store; fetch them: {fetch}"
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
