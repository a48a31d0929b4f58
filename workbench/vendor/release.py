"""Releases by name and version as package indexes know them, observed by the workbench or not."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from workbench.errors import UsageError

LONGEST = 200  # characters of a release; its folder bears its version


@dataclass(frozen=True, order=True)
class Wheel:
    """A package and version, compared within one package.

    Attributes:
        package: its canonical name, as in ``sglang-kernel``. version: as its index orders them.
    """

    package: str
    version: Version

    def __str__(self) -> str:
        return f"{self.package}=={self.version}"


def parse_wheel(text: str) -> Wheel:
    """Read ``package==version``; UsageError for another spelling."""
    name, separator, version = text.partition("==")
    try:
        if not (separator and name.strip()) or len(text) > LONGEST:
            raise InvalidVersion(text)
        return Wheel(canonicalize_name(name.strip(), validate=True), Version(version))
    except ValueError:  # InvalidVersion, InvalidName
        raise UsageError(f"{text[:80]!r} is no release; write it as in vllm==0.26.0") from None


def parse_range(text: str) -> tuple[Wheel, Wheel]:
    """Read ``vllm==0.20.2..0.33.0`` (both ends belong to it), or one release as a range of itself.

    Raises:
        UsageError: another spelling, or a range that runs backwards.
    """
    first, dots, last = text.partition("..")
    least = parse_wheel(first)
    most = parse_wheel(f"{least.package}=={last}") if dots else least
    if most < least:
        raise UsageError(f"{text!r} runs backwards; write {least.package}=={most.version}..{least.version}")
    return least, most
