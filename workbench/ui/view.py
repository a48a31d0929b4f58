"""What the app shows, as one value that the URL carries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from workbench.capture.values import shown
from workbench.errors import UsageError
from workbench.figures.bins import MAX_RADIUS
from workbench.paths.catalog import PATHS, get_path
from workbench.paths.devices import get_device
from workbench.paths.releases import parse_release
from workbench.paths.routing import get_op
from workbench.ui.carried import Params, V
from workbench.words import few

VIEWS = {"bins": "Bins", "capacity": "Capacity", "diff": "Value diff"}
MODEL, RECORDED, CUDA, VENDOR = ENGINES = ("model", "recorded", "cuda", "vendor")
# The fields that say which row is shown, and in which circumstances: every page that concerns one row carries them.
ROW = ("capture", "digest", "scores", "lengths", "starts", "indices", "row", "k", "op", "release", "device")
RADII = (8, 24, 64, MAX_RADIUS)
VARIANTS = tuple(dict.fromkeys(variant.name for path in PATHS for variant in path.variants))
_LONGEST = 4 * 4096  # characters of a name: of a path as long as Linux has them, each byte spelled out
_MOST_NAMED = 6  # options told of a link that names none of them
_FEW = 3  # names said of many


@dataclass(frozen=True)
class View:
    """One picture; ``None`` means that nothing was chosen, so that the capture or a default decides.

    Attributes:
        capture: relative name. digest: of its content, the first 16 hexadecimal digits.
        scores, lengths, starts, indices: tensors of a foreign file.
        row, k, op, release, device: what is inspected and in which circumstances.
        view: one of ``VIEWS``. engine: one of ``ENGINES``. path: a path.
        bin: a coarse bin. around: bins to either side. seed: of the arrival order.
        variant: of the path.
    """

    capture: str | None = None
    digest: str | None = None
    scores: str | None = None
    lengths: str | None = None
    starts: str | None = None
    indices: str | None = None
    row: int | None = None
    k: int | None = None
    op: str | None = None
    release: str | None = None
    device: str | None = None
    view: str | None = None
    engine: str | None = None
    path: str | None = None
    bin: int | None = None
    around: int | None = None
    seed: int | None = None
    variant: str | None = None

    @property
    def names(self) -> tuple[str | None, str | None, str | None, str | None]:
        """The tensors of a foreign file: scores, lengths, starts, indices."""
        return self.scores, self.lengths, self.starts, self.indices

    def to_params(self) -> dict[str, str]:
        """As query parameters; what was not chosen is left out."""
        return {name: str(value) for name, value in vars(self).items() if value is not None}


def read_whole(text: str, least: int, most: int) -> int:
    """A whole number between two bounds.

    Raises:
        UsageError: it is none.
    """
    if not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > 12:
        raise UsageError(f"{brief(text)!r} is not a whole number")
    number = int(text)
    if not least <= number <= most:
        raise UsageError(f"{number} is not between {least} and {most}")
    return number


def _known(read: Callable[[str], Any]) -> Callable[[str], str]:
    def check(text: str) -> str:
        read(text)
        return text

    return check


def one_of(options: Iterable[object]) -> Callable[[str], Any]:
    """What reads one of a few options as a link carries it, and raises UsageError at others."""

    def check(text: str) -> Any:
        for option in options:
            if str(option) == text:
                return option
        raise UsageError(f"{brief(text)!r} is none of {few(options, _MOST_NAMED)}")

    return check


def read_text(text: str) -> str:
    """A name as a link carries it: of any characters, as files can hold it; it is shown spelled out.

    Raises:
        UsageError: it is longer than any that the app writes.
    """
    if len(text) > _LONGEST:
        raise UsageError(f"{brief(text)!r} is no name: {len(text)} characters are more than {_LONGEST}")
    return text


def read_name(text: str) -> str:
    """As ``read_text``, and not empty."""
    if not text:
        raise UsageError("it is empty; give a name, or leave it out")
    return read_text(text)


def _whole(least: int, most: int) -> Callable[[str], int]:
    return lambda text: read_whole(text, least, most)


_READ: dict[str, Callable[[str], Any]] = {
    "capture": read_name,
    "digest": read_name,
    "scores": read_name,
    "lengths": read_name,
    "starts": read_name,
    "indices": read_name,
    "row": _whole(0, 2**31 - 1),
    "k": _whole(1, 2**31 - 1),
    "op": _known(get_op),
    "release": lambda text: str(parse_release(text)),
    "device": lambda text: get_device(text).name,
    "view": one_of(VIEWS),
    "engine": one_of(ENGINES),
    "path": lambda text: get_path(text).name,
    "bin": _whole(0, 65535),
    "around": one_of(RADII),
    "seed": _whole(0, 2**31 - 1),
    "variant": one_of(VARIANTS),
}
assert set(_READ) == {field.name for field in fields(View)}


def from_params(params: Mapping[str, str | Sequence[str]]) -> tuple[View, list[str]]:
    """Read a view from query parameters, each with its text or with all its texts, of which the last counts.

    Returns:
        The view, and a message for each parameter that is not understood, one for all unknown ones; they are left out.
    """
    texts = {name: [text] if isinstance(text, str) else list(text) for name, text in params.items()}
    if texts.get("path", [""])[-1] == RECORDED:  # as links of earlier versions say it
        texts["engine"] = [texts.pop("path")[-1]]
    return read_fields(View(), texts, _READ)


Readers = Mapping[str, Callable[[str], Any] | tuple[str, Callable[[str], Any]]]


def read_fields(value: V, params: Params, readers: Readers) -> tuple[V, list[str]]:
    """Fields of a frozen dataclass out of query parameters.

    Args:
        value: with its defaults. params: each with all its texts, of which the last counts.
        readers: of each parameter what makes its text a value, or the name of its field and that, where it has another.

    Returns:
        The value, and a message for each parameter that is not understood, one for all unknown ones; they are left out.
    """
    problems = []
    for name, texts in params.items():
        if name not in readers:
            continue
        field, read = _reader(name, readers)
        try:
            value = replace(value, **{field: read(texts[-1])})
        except UsageError as error:
            problems.append(f"The link's {name} is left out: {brief(str(error), 300)}.")
    return value, problems + doubled_params(params, readers) + unknown_params(params, readers)


def write_fields(value: object, readers: Readers, text: Callable[[Any], str] = str) -> dict[str, list[str]]:
    """Fields of a value as query parameters, which ``read_fields`` reads again; what was not chosen is left out.

    Args:
        value: any with these fields, ``None`` where nothing was chosen. text: makes the text of a choice.
    """
    found = {name: getattr(value, _reader(name, readers)[0]) for name in readers}
    return {name: [text(chosen)] for name, chosen in found.items() if chosen is not None}


def _reader(name: str, readers: Readers) -> tuple[str, Callable[[str], Any]]:
    """The field of a parameter, and what makes its text a value."""
    reader = readers[name]
    return reader if isinstance(reader, tuple) else (name, reader)


def doubled_params(params: Params, known: Collection[str]) -> list[str]:
    """What is said of each known parameter that stands in a link with several texts, of which the last counts."""
    return [
        f"The link says {name} {len(texts)} times, and not alike; the last counts: {brief(texts[-1])!r}."
        for name, texts in params.items()
        if name in known and len(set(texts)) > 1
    ]


def unknown_params(params: Iterable[str], known: Collection[str]) -> list[str]:
    """What is said of all parameters that are not known; nothing where there are none."""
    unknown = [name for name in params if name not in known]
    if not unknown:
        return []
    named = ", ".join(repr(brief(name)) for name in unknown[:_FEW])
    more = f" and {len(unknown) - _FEW} more" if len(unknown) > _FEW else ""
    what = "a parameter" if len(unknown) == 1 else f"{len(unknown)} parameters"
    return [f"The link has {what} that the workbench does not know: {named}{more}."]


def brief(text: str, most: int = 60) -> str:
    """Text on one line, cut short."""
    line = shown(text)
    return line if len(line) <= most else line[: most - 1] + "…"
