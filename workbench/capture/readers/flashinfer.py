"""FlashInfer's dumps of API calls at log level 10: a folder for each call, and a session folder of such folders.

As flashinfer-python 0.7.4 writes them (``flashinfer/api_logging.py``): ``inputs.pt`` or ``inputs.safetensors``, outputs
likewise, with keys ``arg_N``, ``kwarg_NAME``, ``result`` and ``result_N``; ``metadata.jsonl``, whose last line is the
most complete. The paths that it and ``session.jsonl`` hold are of the machine that wrote them and never followed.
"""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.capture.foreign import MappedNames, natural
from workbench.capture.mapped import OFFSET, PAGE_TABLE, RAW
from workbench.capture.readers.dump import Dump, Held, Scope, gather, inside, joined
from workbench.capture.readers.look import Look
from workbench.capture.readers.safetensors_file import open_file as open_safetensors
from workbench.capture.readers.torch_file import open_file as open_torch
from workbench.capture.readers.torch_file import words
from workbench.capture.source import Source
from workbench.capture.strictjson import strict_json
from workbench.capture.values import brief, shown
from workbench.errors import CaptureError

FORMAT = "FlashInfer dump"
METADATA = "metadata.jsonl"
MOST_METADATA = 16 * 2**20
EXTRA = {"scores": ("input",)}
# Selector -> the output that holds its selection, and what that is.
SELECTORS = {
    "top_k": ("result_1", RAW),
    "top_k_varlen": ("result_0", RAW),
    "top_k_page_table_transform": ("result", PAGE_TABLE),
    "top_k_ragged_transform": ("result", OFFSET),
}
_POSITION = re.compile(r"arg_([0-9]{1,3})")
_KINDS = ("inputs", "outputs")
_NOTED = 4


def detects(look: Look) -> bool:
    """Whether a folder holds a call, or folders of calls."""
    if METADATA in look.names:
        return True
    return look.folder and ("session.jsonl" in look.names or any(_is_call(look.path / name) for name in look.names))


def _is_call(folder: Path) -> bool:
    return os.path.lexists(folder / METADATA)


def read(look: Look) -> Dump:
    """One call, or all calls of a session in the order of their folders."""
    single = METADATA in look.names
    calls = [""] if single else [name for name in sorted(look.names, key=natural) if _is_call(look.path / name)]
    parts: list[tuple[str, Held]] = []
    broken: dict[str, CaptureError] = {}
    scopes: list[Scope] = []
    values: dict[str, str] = {}
    left, without = Counter[str](), Counter[str]()
    for call in calls:
        folder = inside(look.path, call) if call else look.path
        metadata = _metadata(folder, inside(folder, METADATA))
        function = _text(metadata.get("function_name")).rpartition(".")[2]
        own: dict[str, str] = {}
        parameters = _parameters(_text(metadata.get("function_signature")))
        for kind in _KINDS:
            prefix = joined(call, kind)
            try:
                held = _tensors(folder, kind)
            except CaptureError as error:
                broken[prefix] = error
                continue
            if held is None:
                continue
            held.source.rest()
            parts.append((prefix, held))
            values |= {joined(prefix, name): words(value) for name, value in held.values.items()}
            for key in (*held.tensors, *held.broken):
                own[_short(key, parameters)] = joined(prefix, key)
        given = _arguments(metadata, parameters)
        values[joined(call, "function")] = function
        values |= {joined(call, name): repr(value) for name, value in given.items()}
        scopes.append(_scope(function, own, given))
        if function not in SELECTORS:
            left[function] += 1
        elif joined(call, _KINDS[0]) not in {prefix for prefix, _ in parts} | set(broken):
            left[f"{function} without inputs"] += 1
        elif scopes[-1].indices == "":
            without[function] += any(name.startswith("result") for name in own)
    tensors, _ = gather(look.file, parts, broken)
    notes = [
        f"{count} calls of {brief(shown(name))}{', which is no known selector,' * _unknown(name)} are left"
        for name, count in list(left.items())[:_NOTED]
    ]
    notes += [
        f"the outputs of {count} calls of {name} are left: the dump does not say what maps them"
        for name, count in without.items()
        if count
    ]
    notes += [f"{brief(prefix)} cannot be read: {why}" for prefix, why in list(broken.items())[:_NOTED]]
    return Dump(FORMAT, look.path, tensors, lambda: scopes, extra=EXTRA, values=values, notes=tuple(notes))


def _scope(function: str, own: dict[str, str], given: Mapping[str, Any]) -> Scope:
    """Where the tensors of a call lie. Of functions that are no selectors they must be named."""
    ints = {name: value for name, value in given.items() if type(value) is int and value > 0 and value < 2**31}
    known = {name: value for name, value in ints.items() if name in ("k", "top_k")}
    if function not in SELECTORS:
        return Scope(own, ints=known, quiet=True)
    (indices, kind), refusal = SELECTORS[function], ""
    if function == "top_k_varlen":
        if "page_table" in own or given.get("page_table") is not None or given.get("absolute_indices"):
            indices = ""  # what maps them is not told
        if given.get("compress_ratio") not in (None, 1) or given.get("next_n") not in (None, 1):
            refusal = (
                "its lengths are of requests and not of rows (next_n or compress_ratio is given); name the scores and "
                "lengths of the rows (scores=, lengths=; --scores, --lengths)"
            )
    mapped = None if kind == RAW else _mapped(kind, own, given)
    if kind == PAGE_TABLE and (mapped is None or mapped.page_size is None):
        indices = ""
    return Scope(own, ints=known, indices=indices if indices in own else "", mapped=mapped, refusal=refusal)


def _mapped(kind: str, own: Mapping[str, str], given: Mapping[str, Any]) -> MappedNames:
    """What maps a selection, by the arguments of the two functions whose names end with ``transform``."""
    if kind == OFFSET:
        return MappedNames(kind, offsets=own.get("offsets"))
    size = given.get("page_size", 1)
    return MappedNames(
        kind,
        size if type(size) is int and size > 0 and size & (size - 1) == 0 else None,
        own.get("src_page_table"),
        own.get("row_to_batch"),
        own.get("page_table_row_starts", own.get("row_starts")),
    )


def _unknown(name: str) -> bool:
    return name.partition(" ")[0] not in SELECTORS


def _metadata(folder: Path, path: Path) -> dict[str, Any]:
    """The last line of the metadata of a call."""
    source = Source(path, header=False)
    try:
        if source.size > MOST_METADATA:
            raise CaptureError(f"{source.size} bytes are too many; {MOST_METADATA} is the most", file=source.file)
        lines = [line for line in bytes(source.read(0, source.size)).split(b"\n") if line.strip()]
        if not lines:
            raise CaptureError("the metadata is empty; the call was not dumped whole", file=source.file)
        content = strict_json(lines[-1], "its last line", source.file)
    finally:
        source.close()
    if not isinstance(content, dict):
        raise CaptureError("its last line is no JSON object; dump the call again", file=source.file)
    return content


def _tensors(folder: Path, kind: str) -> Held | None:
    """The inputs or outputs of a call; ``None`` if they were not dumped."""
    for name, opens in ((f"{kind}.pt", open_torch), (f"{kind}.safetensors", open_safetensors)):
        if os.path.lexists(folder / name):
            return opens(inside(folder, name))
    return None


def _parameters(signature: str) -> list[str]:
    """The names of a function's parameters from its signature as text, which is parsed and never run."""
    if not signature.startswith("(") or len(signature) > 20_000:
        return []
    try:
        (function,) = ast.parse(f"def f{signature}: pass").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    if not isinstance(function, ast.FunctionDef):
        return []
    return [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]


def _short(key: str, parameters: list[str]) -> str:
    """A tensor by the name of its parameter, where that is known."""
    if key.startswith("kwarg_"):
        return key.removeprefix("kwarg_")
    position = _POSITION.fullmatch(key)
    if position is not None and int(position[1]) < len(parameters):
        return parameters[int(position[1])]
    return key


def _arguments(metadata: Mapping[str, Any], parameters: list[str]) -> dict[str, Any]:
    """Arguments that are numbers, booleans, texts or nothing, by their names."""
    given = metadata.get("input_metadata")
    if not isinstance(given, dict):
        return {}
    return {
        _short(key, parameters): value
        for key, value in given.items()
        if value is None or isinstance(value, bool | int | float | str)
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
