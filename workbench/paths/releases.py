"""Releases: a package and a version, spelled ``vllm==0.26.0``, and the ones whose behaviour is established."""

from __future__ import annotations

from dataclasses import dataclass, field

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


def parse_release(text: str, package: str | None = None) -> Release:
    """Read ``package==1.2.3``.

    Args:
        package: the package that the op belongs to.

    Raises:
        UsageError: another spelling, another package, or a release that was not observed (the message lists those).
    """
    name, separator, version = text.partition("==")
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
