"""Which releases are tried: ranges as a user writes them, by what routing knows or what is there to be run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module

from packaging.version import InvalidVersion, Version

from workbench.engines.vendor import sources
from workbench.engines.vendor.adapters import PACKAGES
from workbench.errors import UsageError
from workbench.paths.ops import OPS, get_op
from workbench.paths.releases import OBSERVED
from workbench.runs.matrix import MODEL, VENDOR
from workbench.vendor.release import Wheel, parse_range, parse_wheel
from workbench.words import listed

STORE = "workbench.vendor.store"
BUILT = "its ops are built where it is installed, one release an environment"


@dataclass(frozen=True)
class Tried:
    """Releases to try, each package's oldest first, and what must be said of the choice."""

    releases: tuple[str, ...]
    notes: tuple[str, ...] = ()


def ops_given(op: str | Sequence[str] | None) -> tuple[str, ...]:
    """Ops by name, from one text with commas or several; at most one of a package.

    Raises:
        UsageError: an unknown op, or two of one package.
    """
    if op is None:
        return ()
    names = tuple(op.split(",")) if isinstance(op, str) else tuple(op)
    by_package: dict[str, str] = {}
    for name in names:
        package = get_op(name).package
        if by_package.setdefault(package, name) != name:
            raise UsageError(f"{by_package[package]} and {name} are both ops of {package}; give one of them")
    return tuple(by_package.values())


def op_in(release: str, ops: Sequence[str], own: str | None) -> str | None:
    """The op that a release is asked for: the given one of its package, else the row's own if that is of it."""
    package = release.partition("==")[0]
    packages = {op.name: op.package for op in OPS}
    for name in ops or filter(None, (own,)):
        if packages.get(name) == package:
            return name
    return None


def find_releases(
    releases: str | Sequence[str] | None, ops: Sequence[str], engine: str | Callable[..., object]
) -> Tried:
    """The releases that ranges stand for.

    Args:
        releases: ``"vllm==0.20.2..0.33.0"``, one release, several of both with commas, or a sequence of them; ``None``
            for all of the ops' packages. ops: names. engine: ``model``, ``vendor``, or what opens an engine.

    Raises:
        UsageError: another spelling, or a range without a release that the engine has.
    """
    if not callable(engine) and engine not in (MODEL, VENDOR):
        raise UsageError(f"releases are compared by the engine {MODEL} or {VENDOR}, not by {engine!r}")
    find = _by_store if engine == VENDOR else _by_routing
    if releases is None:
        if not ops:
            raise UsageError("neither the releases nor the op are known; give one of them, as vllm==0.20.2..0.33.0")
        every = _stored if engine == VENDOR else _routed
        found = [Tried(every(package)) for package in dict.fromkeys(get_op(op).package for op in ops)]
    else:
        asked = [text.strip() for one in _texts(releases) for text in one.split(",")]
        found = [find(text, is_known=callable(engine)) for text in asked]
    names = dict.fromkeys(name for one in found for name in one.releases)
    packages = dict.fromkeys(name.partition("==")[0] for name in names)
    ordered = [name for package in packages for name in _in_order(names, package)]
    return Tried(tuple(ordered), tuple(dict.fromkeys(note for one in found for note in one.notes)))


def _texts(releases: str | Sequence[str]) -> list[str]:
    texts = [releases] if isinstance(releases, str) else list(releases)
    if not texts:
        raise UsageError("no release is given; write it as in vllm==0.20.2..0.33.0")
    return texts


def _in_order(names: Iterable[str], package: str) -> list[str]:
    return sorted((name for name in names if name.partition("==")[0] == package), key=_version)


def _version(release: str) -> Version:
    try:
        return Version(release.partition("==")[2])
    except InvalidVersion:  # a commit
        return Version("0")


def _by_routing(text: str, is_known: bool = False) -> Tried:
    """Releases whose routing is known. ``is_known``: whether a single one need not be, since it is run."""
    package, _, version = text.partition("==")
    if version in OBSERVED.get(package, ()):
        return Tried((text,))
    least, most = parse_range(text)
    if is_known and least == most:
        return Tried((str(least),))
    if least.package not in OBSERVED:
        raise UsageError(f"unknown package {least.package!r}; known packages: {', '.join(OBSERVED)}")
    known = _routed(least.package)
    inside = [name for name in known if _is_inside(name, least, most)]
    if not inside:
        raise UsageError(
            f"no release of {text} was observed, so no routing is known; observed: {', '.join(OBSERVED[least.package])}"
        )
    absent = [str(end) for end in dict.fromkeys((least, most)) if not any(_is_inside(name, end, end) for name in known)]
    if not absent:
        return Tried(tuple(inside))
    versions = ", ".join(name.partition("==")[2] for name in inside)
    verb = "was" if len(absent) == 1 else "were"
    return Tried(tuple(inside), (f"{listed(absent)} {verb} not observed; of {text} routing knows {versions}",))


def _routed(package: str) -> tuple[str, ...]:
    return tuple(f"{package}=={one}" for one in OBSERVED[package])


def _by_store(text: str, is_known: bool = False) -> Tried:
    """Releases that are added or installed; ``is_known`` does not matter."""
    least, most = parse_range(text)
    there = _there(least.package)
    inside = tuple(str(one) for one in there if least <= one <= most)
    absent = [end for end in dict.fromkeys((least, most)) if end not in there]
    if absent and is_built(least.package) and inside:  # both ends never are
        return Tried(inside, (f"of {text} only {listed(inside)} is installed here; {BUILT}",))
    if absent:
        here = f"; here {'is' if len(there) == 1 else 'are'} {listed(there)}" if there else ""
        raise UsageError(f"{listed(absent)} {_missing(least.package, absent)}{here}")
    return Tried(inside)


def _stored(package: str) -> tuple[str, ...]:
    found = tuple(map(str, _there(package)))
    if not found:
        raise UsageError(f"no release of {package} {_missing(package, ())}")
    return found


def _missing(package: str, absent: Sequence[Wheel]) -> str:
    """That releases (none: any of a package) are not there, and what to do."""
    are = "is" if len(absent) < 2 else "are"
    distribution = distributions(package)[0]
    wanted = [f"{distribution}=={end.version}" for end in absent]
    if not is_built(package):
        cures = listed(f"workbench vendor add {one}" for one in wanted or [f"{distribution}==VERSION"])
        return f"{are} {'neither added nor' if absent else 'added or'} installed; add with: {cures}"
    cures = listed((f"pip install {one}" for one in wanted or [distribution]), "or")
    return f"{are} {'not ' if absent else ''}installed where the workbench runs; install it: {cures}; {BUILT}"


def is_built(package: str) -> bool:
    """Whether a package builds its ops where it is installed, so that none is in a library of the store."""
    return package in PACKAGES and not PACKAGES[package].libraries


def distributions(package: str) -> tuple[str, ...]:
    """A package's names in package indexes."""
    return PACKAGES[package].distributions if package in PACKAGES else (package,)


def _there(package: str) -> list[Wheel]:
    """The releases of a package that can be run here, oldest first."""
    return sorted({*stored(package), *installed(package)})


def stored(package: str) -> list[Wheel]:
    """The releases of a package that were added to the store."""
    try:
        module = import_module(STORE)
    except ModuleNotFoundError as error:
        if error.name != STORE:
            raise
        return []
    found: list[Wheel] = module.releases_of(package)
    return found


def installed(package: str) -> list[Wheel]:
    """The release of a package that this environment has, if any; ``0.26.0+cu129`` is 0.26.0."""
    there = sources.installed(distributions(package))
    return [] if there is None else [Wheel(package, Version(there.version.public))]


def _is_inside(name: str, least: Wheel, most: Wheel) -> bool:
    try:
        return least <= parse_wheel(name) <= most
    except UsageError:  # a commit is in no range
        return False
