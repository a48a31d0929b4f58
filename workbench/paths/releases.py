"""Releases: a package and a version, spelled ``vllm==0.26.0``, and the ones whose behaviour is established."""

from __future__ import annotations

from dataclasses import dataclass, field

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from workbench.errors import UsageError

# Every release here was run on an H200; routing and constants are what explains its records.
OBSERVED: dict[str, tuple[str, ...]] = {
    "vllm": (
        "0.20.2",
        "0.22.1",
        "0.23.0",
        "0.24.0",
        "0.25.1",
        "0.26.0",
        "0.27.1",
        "0.28.0",
        "0.29.0",
        "0.30.0",
        "0.31.0",
        "0.32.0",
        "0.33.0",
    ),
    "sglang-kernel": ("0.4.2", "0.4.4", "0.4.6"),
    "sglang": ("0.5.18", "0.5.21", "0.5.23"),
    "flashinfer": ("fb28d724",),  # a commit
}


@dataclass(frozen=True, order=True)
class Release:
    """A package and its version, compared within one package."""

    package: str
    version: tuple[int, ...]  # empty for a commit
    text: str = field(compare=False)

    def __str__(self) -> str:
        return f"{self.package}=={self.text}"


def spelled(text: str) -> str:
    """The observed release that a text means, as it is spelled here: of ``vllm==0.26`` it is ``vllm==0.26.0``.

    Package and version mean what they mean to package indexes; a text that means none comes back as it is.
    """
    name, separator, version = text.partition("==")
    if not separator or version in OBSERVED.get(name, ()):
        return text
    package = canonicalize_name(name.strip())
    meant = _version(version)
    same = (one for one in OBSERVED.get(package, ()) if one == version or (meant and meant == _version(one)))
    return next((f"{package}=={one}" for one in same), text)


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:  # a commit, or no version at all
        return None


def parse_release(text: str, package: str | None = None) -> Release:
    """Read ``package==1.2.3``, in any spelling that package indexes take for it.

    Args:
        package: the package that the op belongs to.

    Raises:
        UsageError: another spelling, another package, or a release that was not observed (the message lists those).
    """
    name, separator, version = spelled(text).partition("==")
    if not separator or not name or not version:
        raise UsageError(f"{text!r} is no release; write it as in vllm==0.26.0")
    if package is not None and name != package:
        raise UsageError(f"release {text!r} is of {name}; the op belongs to {package}")
    known = OBSERVED.get(name)
    if known is None:
        raise UsageError(f"unknown package {name!r}; known packages: {', '.join(OBSERVED)}")
    if version not in known:
        raise UsageError(f"{text} was not observed, so its routing is not known; observed: {', '.join(known)}")
    numbers = version.split(".")
    return Release(name, tuple(map(int, numbers)) if all(part.isdigit() for part in numbers) else (), version)
