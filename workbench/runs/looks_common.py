"""What the looks of ``doctor`` share: how a process is asked, what is installed, sizes and cures in words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from packaging.requirements import InvalidRequirement, Requirement

from workbench.resources import DISTRIBUTION
from workbench.runs.asked import Answer

Ask = Callable[..., Answer]

GIB = 1 << 30
_CURE = re.compile(r"(workbench vendor [^;,]+|(?:python -m )?pip install [^;,]+)")


def cure_in(text: str) -> str:
    """The command that an engine's text ends with, if it names one."""
    found = _CURE.findall(text)
    return found[-1].strip() if found else ""


def cuda_cure() -> str:
    """The command that installs CuPy and NVRTC, of the CUDA that the installed torch was built for; the one of CUDA 13
    where torch does not say, or says another."""
    built = re.search(r"\+cu(\d+)\d$", installed("torch") or "")
    extra = "cuda12" if built is not None and built[1] == "12" else "cuda13"
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def cuda_note() -> str:
    """Which extra is for which CUDA."""
    return "the extra cuda12 is for drivers of CUDA 12, cuda13 for those of CUDA 13"


def size_text(size: int) -> str:
    """Bytes in binary units."""
    for unit, scale in (("GiB", GIB), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} B"


def installed(name: str) -> str | None:
    """The version of a distribution; ``None`` without it. One whose metadata is damaged has no version: ``unknown``."""
    try:
        return str(metadata.version(name) or "unknown")
    except metadata.PackageNotFoundError:
        return None
    except Exception:  # metadata that cannot be read, in whichever way
        return "unknown"


def is_installed_from(source: Path) -> bool:
    """Whether a folder of modules is the one that the installed distribution brought or, editable, points to.

    A checkout on PYTHONPATH is not.
    """
    try:
        found = metadata.distribution(DISTRIBUTION)
        if Path(str(found.locate_file(""))).resolve() == source and any(source.glob("*.dist-info")):
            return True
        told = urlsplit(str(json.loads(found.read_text("direct_url.json") or "{}").get("url", "")))
        return told.scheme == "file" and Path(url2pathname(told.path)).resolve() == source
    except Exception:  # metadata that cannot be read, in whichever way
        return False


def distributions() -> Iterator[str]:
    """The names of all that is installed, in lower case."""
    for one in metadata.distributions():
        name = one.metadata["Name"] if one.metadata is not None else None
        if name:
            yield str(name).lower()


def needs() -> list[Requirement]:
    """What the workbench and its extras need, as its own metadata says it; nothing where it has none that is read."""
    found = []
    try:
        texts = metadata.requires(DISTRIBUTION) or []
    except Exception:  # not installed as a package, or metadata that cannot be read
        texts = []
    for text in texts:
        try:
            found.append(Requirement(text))
        except InvalidRequirement:
            continue
    return found


def below_its_floor(name: str, version: str) -> str:
    """Why a version of a distribution is not one that the workbench needs, in words; empty if it is."""
    for need in needs():
        if need.name == name and not need.specifier.contains(version, prereleases=True):
            return f"its version is {version}, and {need.specifier} is needed"
    return ""
