"""Capture format, version 1: names, dtypes and shapes, as data.

A capture is one safetensors file. ``TENSORS`` lists what it holds of its rows, ``CALL_FIELDS`` what it may say of its
calls, one integer a call (int32 or int64, [calls], -1 = unknown). Strings that hold for the whole file stand in one
JSON object in the safetensors metadata under ``topk_workbench``: ``format_version`` (1) and, each optional,
``STRINGS``. Tensors with other names may be there and are left alone.

* Rows are stored padded (``scores`` [rows, width]) or ragged (``scores`` [total] and ``offsets``; row ``i`` is
  ``scores[offsets[i]:offsets[i + 1]]``).
* ``length`` is what the op was given, any int32. The valid scores of a row are so many cells from ``start`` on, as far
  as the row has them: none where the length is negative, all to the row's end where it is longer. A start lies within
  the row.
* ``k`` is 1 or more and at most the width of the call, or of its widest row where ``width`` is unknown. A row may
  be shorter than k.
* Every integer of a call is within ``CALL_BOUNDS``, or -1.
* A row's recorded selection is the first k slots of its row of ``indices`` (all slots where k is unknown), relative
  to the start, each in [-1, length); slots past k are -1. Of a row whose length leaves it, slots hold any int32.
* ``returned`` (metadata, a string) says what the recorded indices are: ``raw`` positions (also where it is not said),
  entries of a ``page table`` or positions moved by an ``offset``. ``MAPPING_TENSORS`` may hold the mapping itself;
  they are read where ``returned`` names it, and left alone elsewhere. A page table needs ``page_size`` (metadata, an
  integer, a power of two). Mapped indices are -1 or 0 or more.
* Without ``call`` the file holds one call.
* ``TOKEN_TENSORS`` lists the tokens that decoding chose, and the LM-head rows they were chosen from. Steps are 0 or
  more, in any order, and may repeat, as in a batch of requests; a token is -1 (unknown) or 0 or more, and less than
  the vocabulary where there are logits. ``tokens`` and ``logits`` need ``token_steps``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from workbench.capture.strictjson import strict_json
from workbench.capture.values import brief
from workbench.errors import CaptureError

METADATA_KEY = "topk_workbench"
FORMAT_VERSION = 1
SCORES = ("float32", "bfloat16", "float16")
INTS = ("int32", "int64")

# More rows or calls than this are refused: what is kept of each row in memory would be gigabytes.
MAX_ROWS = 2**27
# Indices are int32, so a wider row could not be selected from.
MAX_WIDTH = 2**31 - 1
# Of what ops are given and return: lengths and indices.
INT32_BOUNDS = (-(2**31), 2**31 - 1)


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of the format: its name, dtypes, shape in words, whether it must be there, and its meaning."""

    name: str
    dtypes: tuple[str, ...]
    shape: str
    required: bool
    meaning: str


TENSORS = (
    TensorSpec("scores", SCORES, "[rows, width] or [total]", True, "the score rows, padded or ragged"),
    TensorSpec("offsets", ("int64",), "[rows + 1]", False, "ragged only: where each row begins; the last is total"),
    TensorSpec("lengths", ("int32",), "[rows]", True, "scores of each row from its start on, as the op was given it"),
    TensorSpec("starts", ("int32",), "[rows]", False, "first valid cell of each row; 0 without it"),
    TensorSpec("indices", ("int32",), "[rows, k_max]", False, "recorded selection, relative to the start, -1 padded"),
    TensorSpec("call", INTS, "[rows]", False, "the call of each row, from 0; all rows are of call 0 without it"),
)

PAGES, MOVED = "page_table", "index_offsets"
MAPPING_TENSORS = (
    TensorSpec(
        PAGES, ("int32",), "[rows, pages] or [1, pages]", False, "`page table`: the physical page of each page of a row"
    ),
    TensorSpec(MOVED, ("int32",), "[rows]", False, "`offset`: what was added to every index of a row"),
)
RETURNED = {
    "raw": "positions, relative to the start",
    "page table": "cache slots, looked up in a page table",
    "offset": "positions moved by an offset of the row",
}

STEPS, TOKENS, LOGITS = "token_steps", "tokens", "logits"
TOKEN_TENSORS = (
    TensorSpec(STEPS, ("int64",), "[tokens]", False, "decoding step of each token that was chosen"),
    TensorSpec(TOKENS, ("int64",), "[tokens]", False, "the token chosen at that step; -1 = unknown"),
    TensorSpec(LOGITS, SCORES, "[tokens, vocab]", False, "the LM-head row that it was chosen from"),
)

CALL_FIELDS = {
    "k": "winners asked for",
    "layer": "layer of the model",
    "step": "decoding step",
    "rank": "rank of the process",
    "rows": "rows in the batch as launched; the file may hold fewer",
    "width": "padded row width, in scores",
    "stride": "distance between rows, in scores",
    "next_n": "tokens scored per request",
    "max_seq_len": "host-side bound passed to the op",
}

_INT64 = 2**63 - 1
# The least and the most that each integer of a call may be, where it is known.
CALL_BOUNDS = {
    "index": (0, _INT64),
    "k": (1, MAX_WIDTH),
    "layer": (0, _INT64),
    "step": (0, _INT64),
    "rank": (0, _INT64),
    "rows": (1, _INT64),
    "width": (1, MAX_WIDTH),
    "stride": (1, _INT64),
    "next_n": (1, _INT64),
    "max_seq_len": (0, _INT64),
}

STRINGS = {
    "op": "the op, as in vllm.persistent_topk",
    "release": "package and version, as in vllm==0.26.0",
    "device": "the device, as in h200",
    "model": "the model served",
    "request": "the request",
}
_NAMES_SHOWN = 6
SOURCE = "source"  # one more string: how the capture was made, free text


@dataclass(frozen=True)
class Said:
    """What the metadata of a capture says.

    Attributes:
        strings: ``STRINGS`` by name. source: how it was made. notes: in words.
        returned: what its indices are, one of ``RETURNED``. page_size: of a page table, whatever stands there.
    """

    strings: dict[str, str | None]
    source: str | None
    notes: tuple[str, ...]
    returned: str
    page_size: object = None


def parse_strings(text: str, file: str) -> Said:
    """The metadata string of a capture.

    Raises:
        CaptureError: not version 1, or not the JSON object that it should be.
    """
    what = f"metadata {METADATA_KEY!r}"
    content = strict_json(text, what, file)
    if not isinstance(content, dict):
        raise CaptureError(f"{what} is not a JSON object; write the file again", file=file)
    version = content.pop("format_version", None)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise CaptureError(f"{what} has no format_version; {FORMAT_VERSION} is the one written now", file=file)
    if version > FORMAT_VERSION:
        raise CaptureError(
            f"capture format version {version} is newer than {FORMAT_VERSION}, the newest that this workbench reads; "
            "update the workbench",
            file=file,
        )
    values = {name: _text(content.pop(name, None), name, what, file) for name in (*STRINGS, SOURCE)}
    source = values.pop(SOURCE)
    returned = _text(content.pop("returned", None), "returned", what, file) or "raw"
    if returned not in RETURNED:
        raise CaptureError(
            f"{what}: returned is {brief(returned)!r}; it is one of {', '.join(RETURNED)}; write the file again",
            file=file,
        )
    page_size = content.pop("page_size", None) if returned == "page table" else None
    if not content:
        return Said(values, source, (), returned, page_size)
    listed = ", ".join(repr(brief(name)) for name in list(content)[:_NAMES_SHOWN])
    more = f" and {len(content) - _NAMES_SHOWN} more" if len(content) > _NAMES_SHOWN else ""
    return Said(values, source, (f"metadata that is not read: {listed}{more}",), returned, page_size)


def dump_strings(
    strings: dict[str, str | None], source: str | None, returned: str = "raw", page_size: int | None = None
) -> str:
    """The metadata string of a capture; unknown strings are left out."""
    more = {SOURCE: source, "returned": None if returned == "raw" else returned, "page_size": page_size}
    known = {name: value for name, value in {**strings, **more}.items() if value is not None}
    return json.dumps({"format_version": FORMAT_VERSION, **known}, ensure_ascii=False)


def _text(value: Any, name: str, what: str, file: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise CaptureError(f"{what}: {name} is not a string; write the file again", file=file)
    return value
