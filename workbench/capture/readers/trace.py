"""Workloads of a FlashInfer-Trace set: definitions, lines of workloads, and blobs that hold their tensors.

The schema as flashinfer-bench 0.1.2 reads it: ``definitions/<op_type>/<name>.json``,
``workloads/<op_type>/<name>.jsonl``, tensors of type safetensors by ``path`` from the root of the set and
``tensor_key``. The reference of a definition is Python source, which is never run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from workbench.capture.foreign import natural
from workbench.capture.header import TensorInfo
from workbench.capture.readers.dump import Dump, Held, Scope, gather, inside, names_in
from workbench.capture.readers.look import Look
from workbench.capture.readers.safetensors_file import open_file
from workbench.capture.source import Source
from workbench.capture.strictjson import strict_json
from workbench.capture.values import brief, described, shape_text, shown
from workbench.errors import CaptureError

FORMAT = "FlashInfer-Trace workloads"
FOLDERS = ("definitions", "workloads")
MOST_BYTES = 64 * 2**20
_AXES = ("k", "topk", "top_k")


def detects(look: Look) -> bool:
    """Whether a folder is the root of a set."""
    return all(name in look.names for name in FOLDERS)


def read(look: Look) -> Dump:
    """All workloads whose tensors were kept, in the order of their files and lines."""
    blobs: dict[str, Held] = {}
    chosen: dict[str, Held] = {}
    scopes: list[Scope] = []
    values: dict[str, str] = {}
    for file in _files(look.path, FOLDERS[1], ".jsonl"):
        definition = _definition(look.path, file)
        for number, work in _workloads(file):
            label, bad = f"{file.stem}.{number}", partial(_bad, file, number)
            own = {}
            ints = {name: value for name, value in _constants(definition).items() if name in _AXES}
            for name, given in _object(work, "inputs", file).items():
                if not isinstance(given, dict) or given.get("type") != "safetensors":
                    values[f"{label}.{name}"] = _said(given)
                    if isinstance(given, dict) and given.get("type") == "scalar" and type(given.get("value")) is int:
                        ints[name] = given["value"]
                    continue
                path, key = given.get("path"), given.get("tensor_key")
                if not isinstance(path, str) or not isinstance(key, str):
                    raise bad(f"input {brief(name)!r} names no path and tensor_key")
                if path not in blobs:
                    blobs[path] = open_file(inside(look.path, path))
                    blobs[path].source.rest()
                info = blobs[path].tensors.get(key)
                if info is None:
                    raise bad(f"{brief(shown(path))} holds no tensor {brief(key)!r}")
                if (problem := _mismatch(definition, work, name, info)) is not None:
                    raise bad(f"input {brief(name)!r} {problem}")
                own[name] = full = f"{label}.{name}"
                chosen[full] = Held(blobs[path].source, {"": info})
            scopes.append(Scope(own, ints=ints))
    tensors, _ = gather(look.file, chosen.items())
    sources = list(dict.fromkeys(tensors.sources))
    tensors.sources[:] = sources
    return Dump(FORMAT, look.path, tensors, lambda: scopes, values=values)


def _files(root: Path, folder: str, ending: str) -> list[Path]:
    """Files two levels below the root, in natural order."""
    found = []
    top = inside(root, folder)
    for kind in sorted(names_in(top), key=natural):
        below = inside(root, f"{folder}/{kind}")
        if os.path.isdir(below):  # noqa: PTH112  that one raises
            names = [name for name in sorted(names_in(below), key=natural) if name.endswith(ending)]
            found += [inside(root, f"{folder}/{kind}/{name}") for name in names]
    if not found:
        raise CaptureError(f"the set holds no {folder}", file=shown(root))
    return found


def _text(path: Path) -> bytes:
    source = Source(path, header=False)
    try:
        if source.size > MOST_BYTES:
            raise CaptureError(f"{source.size} bytes are too many; {MOST_BYTES} is the most", file=source.file)
        return bytes(source.read(0, source.size))
    finally:
        source.close()


def _definition(root: Path, workloads: Path) -> dict[str, Any]:
    """The definition that goes with a file of workloads."""
    path = inside(root, f"{FOLDERS[0]}/{workloads.parent.name}/{workloads.stem}.json")
    content = strict_json(_text(path), "the definition", shown(path))
    if not isinstance(content, dict):
        raise CaptureError("the definition is no JSON object", file=shown(path))
    return content


def _workloads(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(_text(path).split(b"\n"), 1):
        if not line.strip():
            continue
        content = strict_json(line, f"line {number}", shown(path))
        work = content.get("workload") if isinstance(content, dict) else None
        if not isinstance(work, dict):
            raise CaptureError(f"line {number} holds no workload", file=shown(path))
        if content.get("solution") is None and content.get("evaluation") is None:
            yield number, work


def _object(content: dict[str, Any], name: str, file: Path) -> dict[str, Any]:
    value = content.get(name)
    if not isinstance(value, dict):
        raise CaptureError(f"{name} of a workload is no JSON object", file=shown(file))
    return value


def _constants(definition: dict[str, Any]) -> dict[str, int]:
    axes = definition.get("axes")
    found = {}
    for name, axis in axes.items() if isinstance(axes, dict) else ():
        if isinstance(axis, dict) and axis.get("type") == "const" and type(axis.get("value")) is int:
            found[name] = axis["value"]
    return found


def _mismatch(definition: dict[str, Any], work: dict[str, Any], name: str, info: TensorInfo) -> str | None:
    """What of a tensor is not as its definition promises, in words."""
    inputs = definition.get("inputs")
    promised = inputs.get(name) if isinstance(inputs, dict) else None
    if not isinstance(promised, dict) or not isinstance(promised.get("shape"), list):
        return "is not of the definition, or has no shape there"
    axes = work.get("axes")
    known = {**_constants(definition), **(axes if isinstance(axes, dict) else {})}
    shape = [known.get(axis) if isinstance(axis, str) else None for axis in promised["shape"]]
    if shape == list(info.shape) and promised.get("dtype") == info.dtype:
        return None
    return (
        f"should be {brief(shown(str(promised.get('dtype'))))} {brief(shown(str(shape)))}, its blob holds {info.dtype} "
        f"{shape_text(info.shape)}; write the set again"
    )


def _bad(file: Path, number: int, reason: str) -> CaptureError:
    return CaptureError(f"line {number}: {reason}", file=shown(file))


def _said(given: Any) -> str:
    """An input that is no kept tensor, in a few words."""
    if not isinstance(given, dict):
        return "no JSON object"
    value = f" {described(given['value'])}" if "value" in given else ""
    return f"{brief(shown(str(given.get('type'))))}{value}"
