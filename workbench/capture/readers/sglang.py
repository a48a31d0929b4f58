"""SGLang's dumper: a folder of ``.pt`` files, one a dumped value, whose names are ``tag=value`` joined by ``___``.

As sglang 0.5.23 writes them (``sglang/srt/debug_utils/dumper.py``): tags step, rank, dump_index, name and those of the
caller such as layer_id; the content is a dict of ``value`` and ``meta``. Older ones name the step ``curr_step`` or
``forward_pass_id`` and store the bare value. Values of one step, rank, layer and further tags are of one call; of
several such, the n-th of each name go together. What is dumped under fewer tags, as lengths of a step are, holds for
every call that agrees with those tags.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workbench.capture.foreign import TensorSet, natural
from workbench.capture.format import CALL_BOUNDS
from workbench.capture.readers.dump import Dump, Held, Scope, gather, inside, joined
from workbench.capture.readers.look import Look
from workbench.capture.readers.torch_file import open_file, words
from workbench.capture.values import brief, shown
from workbench.errors import CaptureError

FORMAT = "SGLang dump"
ENDING = ".pt"
SEPARATOR = "___"
# Integer of a call -> the tags that say it.
TAGS = {
    "step": ("step", "curr_step", "forward_pass_id"),
    "rank": ("rank",),
    "layer": ("layer_id", "layer"),
    "k": ("k", "topk", "top_k", "index_topk"),
}
_OF_VALUE = ("dump_index", "name", "recompute_status", *TAGS["k"])  # of one value, not of the place that it is from
_PLACE = {tag for name in ("step", "rank") for tag in TAGS[name]}
_NAMED = re.compile(r"(^|___)name=")


def detects(look: Look) -> bool:
    """Whether names are those of the dumper: of files in a folder, or of the file."""
    return any(map(_is_dumped, look.names if look.folder else (look.path.name,)))


def _is_dumped(name: str) -> bool:
    return name.endswith(ENDING) and SEPARATOR in name and _NAMED.search(name) is not None


@dataclass(frozen=True)
class _Dumped:
    """One file: its tags, and the tensors of its value from their short names to those in the dump."""

    tags: Mapping[str, str]
    index: int
    shorts: dict[str, str]

    @property
    def key(self) -> frozenset[tuple[str, str]]:
        """What it shares with the other values of its call."""
        return frozenset((tag, value) for tag, value in self.tags.items() if tag not in _OF_VALUE)


def read(look: Look) -> Dump:
    """All values of a folder, or that of one file."""
    folder = look.path if look.folder else look.path.parent
    names = sorted(look.names, key=natural) if look.folder else [look.path.name]
    parts: list[tuple[str, Held]] = []
    broken: dict[str, CaptureError] = {}
    dumped: list[_Dumped] = []
    values: dict[str, str] = {}
    plain: list[str] = []
    for name in names:
        if not _is_dumped(name):
            values[shown(name)] = "no file of the dumper"
            continue
        stem, tags = name.removesuffix(ENDING), parse_tags(name)
        label = tags["name"]
        try:
            if (twice := _said_twice(name)) is not None:
                raise CaptureError(
                    f"{brief(shown(name))!r} says {brief(shown(twice))!r} twice; give the file the name that it had",
                    file=look.file,
                )
            held, shorts = _value(inside(folder, name) if look.folder else look.path, label)
        except CaptureError as error:
            broken[stem] = error
            dumped.append(_Dumped(tags, _index(tags), {label: stem}))
            continue
        for at, value in held.values.items():
            kept = at.removeprefix("meta.")
            if kept == at:
                values[joined(stem, at)] = words(value)
                last = at.rpartition(".")[2]
                plain.append(joined(label, at.removesuffix(last).removesuffix(".") if last.isdigit() else at))
            elif kept not in tags:  # much alike in every file: the first stands for all
                values.setdefault(at, words(value))
        held.source.rest()
        parts.append((stem, held))
        dumped.append(_Dumped(tags, _index(tags), {short: joined(stem, at) for short, at in shorts.items()}))
    tensors, _ = gather(look.file, parts, broken)
    return Dump(FORMAT, look.path, tensors, lambda: scopes(dumped, tensors), values=values, plain=tuple(plain))


def parse_tags(name: str) -> dict[str, str]:
    """The tags in the name of a file; what has no ``=`` belongs to the value before it."""
    tags: dict[str, str] = {}
    last = ""
    for part in name.removesuffix(ENDING).split(SEPARATOR):
        tag, equals, value = part.partition("=")
        if equals:
            tags[tag], last = value, tag
        elif last:
            tags[last] += SEPARATOR + part
    return tags


def _said_twice(name: str) -> str | None:
    """A tag that the name of a file gives two values."""
    said = [part.partition("=")[0] for part in name.removesuffix(ENDING).split(SEPARATOR) if "=" in part]
    return next((tag for tag in said if said.count(tag) > 1), None)


def _value(path: Path, label: str) -> tuple[Held, dict[str, str]]:
    """The tensors of a file by what is left of their path, and the same from short names."""
    held = open_file(path)

    def inner(name: str) -> str:
        if held.bare:
            return ""
        return name.removeprefix("value").removeprefix(".") if name == "value" or name.startswith("value.") else name

    tensors = {inner(name): info for name, info in held.tensors.items()}
    values = {inner(name): value for name, value in held.values.items()}
    shorts = {f"{label}.{at}" if at else label: at for at in tensors}
    return Held(held.source, tensors, values), shorts


def _index(tags: Mapping[str, str]) -> int:
    return _number(tags.get("dump_index")) or 0


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,18}", text) else None


def scopes(dumped: list[_Dumped], tensors: TensorSet) -> list[Scope]:
    """The calls in the order of their dumping: step, rank, then the index that the dumper counts."""
    places: dict[tuple[frozenset[tuple[str, str]], int], list[_Dumped]] = defaultdict(list)
    times: dict[tuple[frozenset[tuple[str, str]], str], int] = defaultdict(int)
    for one in sorted(dumped, key=lambda one: one.index):
        label = (one.key, one.tags["name"])
        places[one.key, times[label]].append(one)
        times[label] += 1
    shapes = {frozenset(tag for tag, _ in key) for key, _ in places}
    found = []
    for (key, time), held in places.items():
        own = {short: full for one in held for short, full in one.shorts.items()}
        outer: dict[str, str] = {}
        for shape in sorted(shapes, key=len):
            part = frozenset(pair for pair in key if pair[0] in shape)
            if len(part) == len(shape) < len(key) and {tag for tag, _ in key} & _PLACE <= shape:
                outer |= _before(places, part, time, held)
        first = min(one.index for one in held)
        ints = _ints({tag: value for one in held for tag, value in one.tags.items()}, tensors.file)
        found.append(((ints.get("step", -1), ints.get("rank", -1), first), Scope(own, outer, ints)))
    return [scope for _, scope in sorted(found, key=lambda item: item[0])]


def _before(
    places: Mapping[tuple[frozenset[tuple[str, str]], int], list[_Dumped]],
    key: frozenset[tuple[str, str]],
    time: int,
    held: list[_Dumped],
) -> dict[str, str]:
    """What lies under fewer tags: where it was dumped several times, the last before the call, else the first."""
    first = min(one.index for one in held)
    outer: dict[str, str] = {}
    for at in range(len(places)):
        if (key, at) not in places:
            break
        for one in places[key, at]:
            if one.index < first or not outer.keys() & one.shorts.keys():
                outer |= one.shorts
    return outer


def _ints(tags: Mapping[str, str], file: str) -> dict[str, int]:
    """What the tags say of a call."""
    found: dict[str, int] = {}
    for name, spellings in TAGS.items():
        said = {tags[tag] for tag in spellings if tag in tags and tags[tag] != "None"}
        numbers = {_number(text) for text in said}
        if len(numbers) == 1:
            number = numbers.pop()
            least, most = CALL_BOUNDS[name]
            if number is None or not least <= number <= most:
                if name != "layer":
                    raise CaptureError(f"{name}={brief(shown(said.pop()))} in a file name is no {name}", file=file)
                continue
            found[name] = number
    return found
