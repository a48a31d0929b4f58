"""Every path the workbench knows, and how to find one. The records stand in one module a system."""

from __future__ import annotations

from fnmatch import fnmatchcase

from workbench.arguments import checked
from workbench.errors import UsageError
from workbench.paths import baselines, sglang, vllm
from workbench.paths.spec import Path, Variant
from workbench.words import listed

PATHS: tuple[Path, ...] = (*vllm.PATHS, *sglang.PATHS, *baselines.PATHS)


@checked
def find_paths(pattern: str = "*") -> tuple[Path, ...]:
    """The paths whose names match a glob, in catalogue order.

    Raises:
        UsageError: nothing matches; the message lists the names.
    """
    found = tuple(path for path in PATHS if fnmatchcase(path.name, pattern))
    if not found:
        raise UsageError(f"no path matches {pattern!r}; known paths: {', '.join(path.name for path in PATHS)}")
    return found


def get_path(name: str) -> Path:
    """The path of that exact name, or UsageError."""
    for path in PATHS:
        if path.name == name:
            return path
    find_paths(name)  # the same message as for a glob
    raise UsageError(f"{name!r} names more than one path; give one name")


def get_variant(path: Path, name: str) -> Variant:
    """The variant of that name; UsageError lists those that the path has."""
    try:
        return path.variant(name)
    except KeyError:
        known = listed(one.name for one in path.variants)
        raise UsageError(f"{path.name} has no variant {name!r}; known: {known}") from None
