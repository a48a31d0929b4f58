"""Opening captures: format version 1, named tensors of a foreign file, or a sharded set."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from workbench.capture.capture import Capture, file_info
from workbench.capture.foreign import INDEX_SUFFIX, TensorSet, open_named, open_sharded, open_single
from workbench.capture.format import CALL_BOUNDS, METADATA_KEY, STRINGS, parse_strings
from workbench.capture.store import CallTable
from workbench.capture.stored import open_stored
from workbench.capture.tokens import stored_tokens
from workbench.capture.values import brief, check_text, path_text, whole
from workbench.errors import CaptureError, UsageError


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
) -> Capture:
    """Open a capture; scores are read row by row, later.

    Args:
        path: a ``.safetensors`` file, or the ``*.safetensors.index.json`` of a sharded set; bytes name a file as they
            do everywhere in Python.
        scores: names the scores tensor of a foreign file, [rows, width] or [width] for one row. One ``*`` matches
            many tensors, each one call, in natural order; the text that it matches fills the ``*`` of the others.
        lengths: names the valid lengths, [rows] or [rows, 1], int32 or int64. Without it every row is taken at its
            full width.
        starts: names the first valid cells, like ``lengths``.
        indices: names the recorded selections, [rows, k], int32 or int64.
        k, op, release, device: of every call; they go before what the capture says, and a note tells if it differs.

    Raises:
        CaptureError: no such file, or one that is damaged or holds what no capture can hold.
        UsageError: arguments that cannot be understood.
    """
    try:
        k = None if k is None else whole(k, "k", *CALL_BOUNDS["k"])
        texts = {"scores": scores, "lengths": lengths, "starts": starts, "indices": indices}
        for name, text in {**texts, "op": op, "release": release, "device": device}.items():
            if text is not None:
                check_text(text, name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if scores is None and not (lengths is None and starts is None and indices is None):
        raise UsageError("tensors of a foreign file are named, but not its scores; name them too (scores=, --scores)")
    given = {"k": k, "op": op, "release": release, "device": device}
    given = {name: value for name, value in given.items() if value is not None}
    tensors = _open(path)
    try:
        if scores is not None:
            return _foreign(tensors, (scores, lengths, starts, indices), given)
        return _stored(tensors, given)
    except BaseException:
        tensors.close()
        raise


def list_tensors(path: str | bytes | os.PathLike[str]) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    """(name, dtype, shape) of all tensors of a safetensors file or set, in natural order; for choosing among them.

    Raises:
        CaptureError: no such file, or a damaged one.
    """
    tensors = _open(path)
    try:
        return tuple((info.name, info.dtype, info.shape) for info in tensors.in_order())
    finally:
        tensors.close()


def _open(path: str | bytes | os.PathLike[str]) -> TensorSet:
    return open_sharded(path) if path_text(path).endswith(INDEX_SUFFIX) else open_single(path)


def short_name(path: str | os.PathLike[str]) -> str:
    """The path below the current folder where it lies there, else the file name."""
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):  # the current folder is gone
        return Path(path).name
    return Path(path).name if relative.startswith("..") else Path(relative).as_posix()


def _foreign(
    tensors: TensorSet,
    names: tuple[str, str | None, str | None, str | None],
    given: Mapping[str, object],
) -> Capture:
    strings = {name: given.get(name) for name in STRINGS}
    store, notes = open_named(tensors, *names, given.get("k"), strings)  # type: ignore[arg-type]
    opened = tensors.sources[0]
    info = file_info(store, tensors.in_order(), path=opened.file, format="foreign", strings=strings, notes=notes)
    return Capture(store, info, name=short_name(opened.path), path=opened.path, sources=tensors.sources)


def _stored(tensors: TensorSet, given: Mapping[str, object]) -> Capture:
    opened = tensors.sources[0]
    text = opened.header.metadata.get(METADATA_KEY) if len(tensors.sources) == 1 else None
    if text is None:
        raise CaptureError(
            "not a workbench capture; name its tensors (scores=, lengths=; on the command line --scores, --lengths). "
            f"It holds {tensors.listed()}",
            file=tensors.file,
        )
    strings, source, notes = parse_strings(text, opened.file)
    store = open_stored(opened, strings, given.get("k"))  # type: ignore[arg-type]
    tokens = stored_tokens(opened)
    notes += _differences(store.table, given)
    info = file_info(
        store,
        opened.header.tensors.values(),
        path=opened.file,
        format="workbench 1",
        strings={name: given.get(name, value) for name, value in strings.items()},
        source=source,
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


def _differences(table: CallTable, given: Mapping[str, object]) -> tuple[str, ...]:
    """A note for each given value that the capture contradicts."""
    notes = []
    for name, value in given.items():
        if name == "k":
            known = table.fields.get("k")
            other = [] if known is None else [k for k in np.unique(known.numpy()).tolist() if k not in (-1, value)]
            said = ", ".join(str(k) for k in other[:6]) + (", …" if len(other) > 6 else "")
        else:
            text = table.strings.get(name)
            said = "" if text is None or text == value else brief(text)
        if said:
            recorded = "; recorded selections stay those of the capture" if name == "k" else ""
            notes.append(f"{name} is {value} as given; the capture says {said}{recorded}")
    return tuple(notes)
