"""Named tensors of foreign safetensors files and of sharded sets of them, and which of them belong to one call."""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from workbench.capture.header import MAX_HEADER, TensorInfo
from workbench.capture.source import Source
from workbench.capture.strictjson import strict_json
from workbench.capture.values import brief, shown
from workbench.errors import CaptureError, UsageError

CONTIGUOUS = "save it after .contiguous()"
INDEX_SUFFIX = ".safetensors.index.json"
_LISTED = 12
_DIGITS = re.compile(r"([0-9]{1,18})")


@dataclass(frozen=True)
class TensorSet:
    """Tensors by name, over one file, the shards of a set or the files of a folder.

    Attributes:
        file: what was opened, for messages. sources: its files. tensors: all of them, by name.
        shards: the source of each tensor that is not in the first file.
        broken: why tensors that should be there cannot be read, by their names.
    """

    file: str
    sources: list[Source]
    tensors: dict[str, TensorInfo]
    shards: dict[str, Source] = field(default_factory=dict)
    broken: dict[str, CaptureError] = field(default_factory=dict)

    def get(self, name: str) -> tuple[Source, TensorInfo]:
        """One tensor by name, and where it is."""
        if name in self.broken:
            raise self.broken[name]
        if name not in self.tensors:
            raise CaptureError(
                f"there is no such tensor; there are {self.listed()}", file=self.file, tensor=brief(name)
            )
        return self.shards.get(name, self.sources[0]), self.tensors[name]

    def in_order(self) -> list[TensorInfo]:
        """All tensors in natural order of their names."""
        return [self._shown(name) for name in sorted(self.tensors, key=natural)]

    def _shown(self, name: str) -> TensorInfo:
        """A tensor under the name that it has here, which in its own file may be a shorter one."""
        info = self.tensors[name]
        return info if info.name == name else replace(info, name=name)

    def listed(self) -> str:
        """Names, dtypes and shapes of at most a dozen tensors."""
        if not self.tensors:
            return "no tensors"
        names = heapq.nsmallest(_LISTED, self.tensors, key=natural)
        more = f" and {len(self.tensors) - _LISTED} more" if len(self.tensors) > _LISTED else ""
        return ", ".join(str(self._shown(name)) for name in names) + more

    def close(self) -> None:
        """Close every file."""
        for source in self.sources:
            source.close()


def natural(name: str) -> tuple[list[str | int], str]:
    """Sort key under which ``layer.10`` comes after ``layer.9``."""
    parts: list[str | int] = list(_DIGITS.split(name))  # text and digits take turns, so like is compared with like
    parts[1::2] = map(int, parts[1::2])
    return parts, name


def open_single(path: str | bytes | os.PathLike[str]) -> TensorSet:
    """One safetensors file."""
    source = Source(path)
    return TensorSet(source.file, [source], source.header.tensors)


def open_sharded(path: str | bytes | os.PathLike[str]) -> TensorSet:
    """A set of shards by its ``*.safetensors.index.json``.

    Raises:
        CaptureError: the index is none, a shard is missing, damaged or outside the index's folder, or lacks a tensor.
    """
    index = Source(path, header=False)
    sources = [index]
    try:
        weight_map = _weight_map(index)
        shards: dict[str, Source] = {}
        for shard in sorted(set(weight_map.values()), key=natural):
            shards[shard] = Source(_inside(index, shard))
            sources.append(shards[shard])
        tensors: dict[str, TensorInfo] = {}
        owners: dict[str, Source] = {}
        for name, shard in weight_map.items():
            owners[name] = shards[shard]
            info = shards[shard].header.tensors.get(name)
            if info is None:
                raise CaptureError(
                    f"the index says that it is in {brief(shown(shard))}, but it is not; fetch the set again",
                    file=index.file,
                    tensor=brief(name),
                )
            tensors[name] = info
        return TensorSet(index.file, sources, tensors, owners)
    except BaseException:
        for source in sources:
            source.close()
        raise


def _weight_map(index: Source) -> dict[str, str]:
    if index.size > MAX_HEADER:
        raise CaptureError(f"{index.size} bytes are too many for an index; {MAX_HEADER} is the most", file=index.file)
    content = strict_json(index.read(0, index.size), "the index", index.file)
    weight_map = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(weight_map, dict) or not all(isinstance(shard, str) for shard in weight_map.values()):
        raise CaptureError(
            "not an index of a sharded set: weight_map must map tensor names to file names", file=index.file
        )
    if not weight_map:
        raise CaptureError("the index names no tensors; fetch the set again", file=index.file)
    return weight_map


def _inside(index: Source, shard: str) -> Path:
    """The path of a shard, which the index may only name below its own folder.

    A link that stands there may lead elsewhere: caches of model hubs are laid out that way, and whoever can place
    a link can place the file.
    """
    folder = index.path.parent
    relative = Path(shard)
    if "\0" in shard or relative.is_absolute() or ".." in relative.parts or not relative.parts:
        raise CaptureError(
            f"shard {brief(shown(shard))!r} is not a path below the folder of the index; put all shards there",
            file=index.file,
        )
    path = folder / relative
    if not os.path.lexists(path):
        raise CaptureError(f"shard {brief(shown(shard))} is missing; fetch the whole set", file=index.file)
    return path


@dataclass(frozen=True)
class MappedNames:
    """What maps the recorded indices of a call: tensors by name, as far as they are there.

    Attributes:
        returned: as ``Mapped`` has it. page_size: of the table. table: int32 [tables, pages]. uses: [rows], the table
            of each row. begins: [rows], where in its table the pages of each row begin. offsets: [rows].
    """

    returned: str
    page_size: int | None = None
    table: str | None = None
    uses: str | None = None
    begins: str | None = None
    offsets: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All its tensors."""
        return tuple(name for name in (self.table, self.uses, self.begins, self.offsets) if name is not None)


@dataclass(frozen=True)
class Group:
    """The tensors of one call by name, and what integers of ``CALL_FIELDS`` are known of it."""

    scores: str
    lengths: str | None = None
    starts: str | None = None
    indices: str | None = None
    ints: Mapping[str, int] = field(default_factory=dict)
    mapped: MappedNames | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All its tensors."""
        own = tuple(name for name in (self.scores, self.lengths, self.starts, self.indices) if name is not None)
        return own if self.mapped is None else own + self.mapped.names


def find_groups(
    names: Iterable[str], scores: str, lengths: str | None, starts: str | None, indices: str | None
) -> list[Group] | None:
    """The named tensors of each call; ``None`` if nothing matches the pattern.

    Raises:
        UsageError: the names cannot be understood.
    """
    others = {"lengths": lengths, "starts": starts, "indices": indices}
    everything = set(names)
    if "*" not in scores or scores in everything:
        for role, name in others.items():
            if name is not None and "*" in name and name not in everything:
                raise UsageError(f"{role} {name!r} has a *, but scores {scores!r} has none that could fill it")
        return [Group(scores, lengths, starts, indices)]
    for role, name in {"scores": scores, **others}.items():
        if name is not None and name.count("*") > 1:
            raise UsageError(f"{role} {name!r} has more than one *; one is understood")
    before, after = scores.split("*")
    groups = []
    for name in sorted(everything, key=natural):
        if name.startswith(before) and name.endswith(after) and len(name) >= len(before) + len(after):
            text = name[len(before) : len(name) - len(after)]
            filled = {role: other and other.replace("*", text) for role, other in others.items()}
            groups.append(Group(name, filled["lengths"], filled["starts"], filled["indices"]))
    return groups or None
