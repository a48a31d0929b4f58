"""Opening captures: format version 1, and whatever else a reader knows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from workbench.capture.about import file_info
from workbench.capture.capture import Capture
from workbench.capture.foreign import Group, TensorSet, natural
from workbench.capture.format import CALL_BOUNDS, METADATA_KEY, STRINGS, parse_strings
from workbench.capture.grouped import open_groups
from workbench.capture.readers import safetensors_file
from workbench.capture.readers.conversion import convert
from workbench.capture.readers.dump import Dump
from workbench.capture.readers.look import look_at
from workbench.capture.readers.naming import Wanted, means_k, resolve
from workbench.capture.readers.table import reader_of
from workbench.capture.store import FileStore
from workbench.capture.stored import open_stored, unread_mapping
from workbench.capture.tokens import stored_tokens
from workbench.capture.values import brief, check_text, path_text, shown, whole
from workbench.errors import UsageError

_LEFT = 1000  # lines of what a dump holds besides its rows


def open_capture(
    path: str | bytes | os.PathLike[str],
    *,
    scores: str | None = None,
    lengths: str | None = None,
    starts: str | None = None,
    indices: str | None = None,
    k: int | None = None,
    op: str | None = None,
    release: str | None = None,
    device: str | None = None,
    as_dtype: str | None = None,
) -> Capture:
    """Open a capture or a dump of another tool; scores are read row by row, later.

    Args:
        path: a capture, or a file or folder of any format of ``workbench.capture.readers.table``; bytes name a file as
            they do everywhere in Python.
        scores: names the scores tensor of a dump, [rows, width] or [width] for one row; without it, tensors are found
            by their names. One ``*`` matches many tensors, each one call, in natural order; the text that it matches
            fills the ``*`` of the others.
        lengths: names the valid lengths, [rows] or [rows, 1], int32 or int64. Without it every row is taken at its
            full width.
        starts: names the first valid cells, like ``lengths``.
        indices: names the recorded selections, [rows, k], int32 or int64.
        k, op, release, device: of every call; they go before what the capture says, and a note tells if it differs.
        as_dtype: of a dump, read the scores as float32, bfloat16 or float16; a row with a value that it does not hold
            exactly is refused.

    Raises:
        CaptureError: no such file, or one that is damaged or holds what no capture can hold.
        UsageError: arguments that cannot be understood.
    """
    try:
        k = None if k is None else whole(k, "k", *CALL_BOUNDS["k"])
        texts = {"scores": scores, "lengths": lengths, "starts": starts, "indices": indices}
        for name, text in {**texts, "op": op, "release": release, "device": device, "as_dtype": as_dtype}.items():
            if text is not None:
                check_text(text, name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    wanted = Wanted(scores, lengths, starts, indices, k)
    given = {"k": k, "op": op, "release": release, "device": device}
    given = {name: value for name, value in given.items() if value is not None}
    dump = _open(path)
    try:
        if scores is None and _is_stored(dump):
            if as_dtype is not None:
                raise UsageError("as_dtype (--as) is for dumps; the scores of a capture are as they were recorded")
            return _stored(dump.tensors, given)
        return _dumped(dump, wanted, given, as_dtype)
    except BaseException:
        dump.tensors.close()
        raise


def list_tensors(path: str | bytes | os.PathLike[str]) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    """(name, dtype, shape) of all tensors of a file or folder, in natural order; for choosing among them.

    Raises:
        CaptureError: no such file, or a damaged one.
    """
    tensors = _open(path).tensors
    try:
        return tuple((info.name, info.dtype, info.shape) for info in tensors.in_order())
    finally:
        tensors.close()


def _open(path: str | bytes | os.PathLike[str]) -> Dump:
    """What is there, by the reader that recognises it."""
    if not path_text(path):  # Path would take it for the current folder
        raise UsageError("a path is empty; name a file or a folder, . for the current one")
    look = look_at(Path(path_text(path)), shown(path))
    return reader_of(look).read(look)


def _is_stored(dump: Dump) -> bool:
    """Whether this is a capture of the workbench's own format."""
    if dump.format != safetensors_file.FORMAT or len(dump.tensors.sources) != 1:
        return False
    return METADATA_KEY in dump.tensors.sources[0].header.metadata


def short_name(path: str | os.PathLike[str]) -> str:
    """The path below the current folder where it lies there, else the file name."""
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):  # the current folder is gone
        return Path(path).name
    return Path(path).name if relative.startswith("..") else Path(relative).as_posix()


def _dumped(dump: Dump, wanted: Wanted, given: Mapping[str, object], as_dtype: str | None) -> Capture:
    strings = {name: given.get(name) for name in STRINGS}
    groups, notes = resolve(dump, wanted)
    tensors, converted = dump.tensors, tuple[str, ...]()
    if as_dtype is not None:
        tensors, converted = convert(tensors, [group.scores for group in groups], as_dtype)
    store, more = open_groups(tensors, groups, wanted.k, strings)  # type: ignore[arg-type]
    used = {name: None for group in groups for name in group.names}
    info = file_info(
        store,
        dump.tensors.in_order(),
        path=dump.tensors.file,
        format=dump.format,
        strings=strings,
        notes=(*notes, *more, *converted, *dump.notes),
        used=tuple(used),
        left=_left(dump, used, groups),
    )
    return Capture(store, info, name=short_name(dump.path), path=dump.path, sources=tensors.sources)


def _left(dump: Dump, used: Mapping[str, None], groups: list[Group]) -> tuple[str, ...]:
    """What a dump holds that no row was made of, a line each."""
    unused = [info for info in dump.tensors.in_order() if info.name not in used]
    broken = [f"{brief(name)!r}, which cannot be read: {error}" for name, error in dump.tensors.broken.items()]
    has_k = any("k" in group.ints for group in groups)
    values = [
        f"{brief(name)!r}: {brief(words)}"
        for name, words in sorted(dump.values.items(), key=lambda item: natural(item[0]))
        if not (has_k and means_k(name))
    ]
    count = len(unused) + len(broken) + len(values)
    more = (f"and {count - _LEFT} more",) if count > _LEFT else ()
    return (*[*map(str, unused[:_LEFT]), *broken, *values][:_LEFT], *more)


def _stored(tensors: TensorSet, given: Mapping[str, object]) -> Capture:
    opened = tensors.sources[0]
    said = parse_strings(opened.header.metadata[METADATA_KEY], opened.file)
    store = open_stored(opened, said, given.get("k"))  # type: ignore[arg-type]
    tokens = stored_tokens(opened)
    notes = (*said.notes, *unread_mapping(opened, said), *_differences(store, given))
    info = file_info(
        store,
        opened.header.tensors.values(),
        path=opened.file,
        format="workbench 1",
        strings={name: given.get(name, value) for name, value in said.strings.items()},
        source=said.source,
        notes=notes,
    )
    return Capture(
        store,
        info,
        name=short_name(opened.path),
        path=opened.path,
        sources=tensors.sources,
        given=given,
        tokens=tokens,
    )


def _differences(store: FileStore, given: Mapping[str, object]) -> tuple[str, ...]:
    """A note for each given value that the capture contradicts."""
    table, notes = store.table, []
    holds = any(block.indices is not None for block in store.blocks)
    for name, value in given.items():
        if name == "k":
            known = table.fields.get("k")
            other = [] if known is None else [k for k in np.unique(known.numpy()).tolist() if k not in (-1, value)]
            said = ", ".join(str(k) for k in other[:6]) + (", …" if len(other) > 6 else "")
        else:
            text = table.strings.get(name)
            said = "" if text is None or text == value else brief(text)
        if said:
            recorded = "; recorded selections stay those of the capture" if name == "k" and holds else ""
            notes.append(f"{name} is {value} as given; the capture says {said}{recorded}")
    return tuple(notes)
