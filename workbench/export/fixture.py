"""The fixture file: a capture of one row, with the values that every exact selection of it returns.

A fixture is a capture of format version 1 that holds one row, from its first valid score to its last, and besides

* the tensor ``expected`` [min(k, length)], int32 for float32 scores and int16 for the others: bit patterns of the k
  best values, best first, where -0.0 stands as 0.0 and every NaN as the positive quiet one;
* the metadata string ``topk_fixture``, one JSON object with the fields of ``FIELDS``.

Readers of captures leave both alone. Equal rows on equal paths give equal bytes: a fixture holds no name of a file or a
user and no date.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch

from workbench.analysis.risk import LOSING
from workbench.capture.capture import Capture
from workbench.capture.opening import open_capture
from workbench.capture.row import Row
from workbench.capture.source import TORCH_DTYPES, Source
from workbench.capture.strictjson import strict_json
from workbench.capture.values import shape_text, shown
from workbench.capture.write import write_capture
from workbench.errors import CaptureError, UsageError
from workbench.numeric.select import exact_topk
from workbench.paths.arrival import Arrival, Unit

METADATA_KEY = "topk_fixture"
STAGING = ".workbench-export-"  # how folders begin that hold files of an export in progress
VERSION = 1
EXPECTED = "expected"
MOST_CALLS = 1000
MISSED, MISSED_WORDS = 1e-6, "1e-6"  # the probability with which a test may miss a selector that loses
_PATTERNS = {"float32": "int32", "bfloat16": "int16", "float16": "int16"}
ORDERS = ("index", "reverse", "random")
_NAME_LENGTH = 200


def _whole(least: int, most: int = 2**63 - 1) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _is_order(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != {"kind", "unit", "seed"}:
        return False
    return value["kind"] in ORDERS and value["unit"] in get_args(Unit) and _whole(0)(value["seed"])


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _NAME_LENGTH and value.isprintable()


# Field of the metadata -> (whether a value can be its, what it must be).
FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "fixture_version": (_whole(1), "an integer of 1 or more"),
    "digest": (_is_name, "a string"),
    "path": (_is_name, "the name of a path"),
    "variant": (_is_name, "the name of a variant"),
    "risk": (lambda value: value in LOSING, " or ".join(map(repr, LOSING))),
    "p_clean": (lambda value: type(value) in (int, float) and 0 <= value < 1, "a number from 0 to below 1"),
    "repeats": (_whole(1, MOST_CALLS), f"an integer from 1 to {MOST_CALLS}"),
    "order": (lambda value: _is_order(value), f"a kind ({', '.join(ORDERS)}), a unit and a seed"),
    "missing": (_whole(0), "an integer of 0 or more"),
    "start": (_whole(0, 2**31 - 1), "an integer from 0 to 2147483647"),
}


@dataclass(frozen=True, eq=False)
class Fixture:
    """One row that a selector breaks on, and what an exact selection of it holds.

    Attributes:
        row: the valid scores [length] with their call; its start is 0. k: winners wanted.
        expected: the min(k, length) best values, best first, in the scores' dtype; -0.0 as 0.0, every NaN as one.
        path, variant: what loses on it. risk: ``at risk`` or ``certain``. p_clean: at most so likely does a uniformly
            random arrival order lose nothing.
        repeats: calls after which a selector that loses so was missed with a probability below 1e-6.
        order: an arrival order under which the model of the path loses; missing: how many values.
        start: the first valid cell of the row as captured. digest: of its row.
    """

    row: Row
    k: int
    expected: torch.Tensor
    path: str
    variant: str
    risk: str
    p_clean: float
    repeats: int
    order: Arrival
    missing: int
    start: int
    digest: str

    @property
    def name(self) -> str:
        """A file name without its ending, which follows from path, row and k."""
        return f"{self.path}-k{self.k}-n{self.row.length}-{self.digest.partition(':')[2][:8]}"


def calls_needed(p_clean: float) -> float:
    """Calls after which so many clean ones in a row are less likely than ``MISSED``; infinite where all are clean.

    Assumes that every call has a uniformly random arrival order of its own.
    """
    if p_clean <= 0:
        return 1
    return math.inf if p_clean >= 1 else max(1, math.ceil(math.log(MISSED) / math.log(p_clean)))


def canonical(values: torch.Tensor) -> torch.Tensor:
    """Values that are equal for a selector with equal bit patterns: -0.0 as 0.0, every NaN as the same one."""
    values = torch.where(values == 0, torch.zeros_like(values), values)
    return values.masked_fill(values.isnan(), float("nan"))


def expected_values(scores: torch.Tensor, k: int) -> torch.Tensor:
    """The min(k, n) best of scores [n], best first, canonical."""
    return canonical(scores[exact_topk(scores, k)])


def patterns(values: torch.Tensor) -> torch.Tensor:
    """Bit patterns of values: int32 of float32, int16 of the others."""
    return values.contiguous().view(torch.int16 if values.element_size() == 2 else torch.int32)


def write_fixture(path: str | os.PathLike[str], fixture: Fixture, source: str | None = None) -> None:
    """Write a fixture, and read it back; nothing appears where that fails.

    Args:
        path: a file that is not there yet. source: how the row was made, free text.

    Raises:
        UsageError: the file is there already. CaptureError: it cannot be written.
    """
    order = fixture.order
    fields = {
        "fixture_version": VERSION,
        **{name: getattr(fixture, name) for name in FIELDS if name not in ("fixture_version", "order")},
        "order": {"kind": order.kind, "unit": order.unit, "seed": order.seed},
    }
    text = json.dumps({name: fields[name] for name in FIELDS})
    tensors = {EXPECTED: patterns(fixture.expected)}
    write_capture(path, [fixture.row], source=source, tensors=tensors, metadata={METADATA_KEY: text})
    read_fixture(path)


def read_fixture(path: str | bytes | os.PathLike[str]) -> Fixture:
    """Read a fixture; everything that it says of its scores is worked out again and compared.

    Raises:
        CaptureError: no fixture, a damaged one, or one that contradicts itself.
    """
    with open_capture(path) as capture:
        source = Source(path)
        try:
            return _checked(capture, source)
        finally:
            source.close()


def _checked(capture: Capture, source: Source) -> Fixture:
    def bad(reason: str, tensor: str | None = None) -> CaptureError:
        return CaptureError(f"{reason}; export the row again", file=source.file, tensor=tensor)

    text = source.header.metadata.get(METADATA_KEY)
    if text is None:
        raise CaptureError(
            f"a capture, but no fixture: it has no metadata {METADATA_KEY!r}; make one with workbench export",
            file=source.file,
        )
    fields = _fields(text, source.file)
    if len(capture) != 1:
        raise bad(f"a fixture holds one row, not {len(capture)}")
    row = capture[0]
    if row.k is None:
        raise bad("the fixture does not say k", "k")
    if (row.start, row.length) != (0, row.scores.numel()):
        raise bad("a fixture holds the valid scores of its row and nothing else", "lengths")
    if fields["digest"] != row.digest:
        raise bad("the scores are not those that were exported: their digest differs", "scores")
    expected = expected_values(row.scores, row.k)
    info = source.header.tensors.get(EXPECTED)
    if info is None:
        raise bad("the fixture has no such tensor", EXPECTED)
    if info.dtype != _PATTERNS[row.dtype] or info.shape != tuple(expected.shape):
        needed = f"{_PATTERNS[row.dtype]} {shape_text(tuple(expected.shape))}"
        raise bad(f"it is {info.dtype} {shape_text(info.shape)}; {needed} is needed", EXPECTED)
    if not torch.equal(source.tensor(info).view(TORCH_DTYPES[info.dtype]), patterns(expected)):
        raise bad("these are not the k best values of the scores", EXPECTED)
    if fields["risk"] == "certain" and fields["p_clean"]:
        raise bad(f"the risk is certain, and p_clean {fields['p_clean']}")
    if fields["repeats"] < (calls := calls_needed(fields["p_clean"])):
        raise bad(f"repeats is {fields['repeats']}, and a p_clean of {fields['p_clean']} needs {calls:.0f}")
    if fields["missing"] > expected.numel():
        raise bad(f"missing is {fields['missing']}, and there are {expected.numel()} winners")
    order = Arrival(**fields.pop("order"))
    del fields["fixture_version"]
    return Fixture(row=row, k=row.k, expected=expected, order=order, **fields)


def _fields(text: str, file: str) -> dict[str, Any]:
    what = f"metadata {METADATA_KEY!r}"
    found = strict_json(text, what, file)
    if not isinstance(found, dict):
        raise CaptureError(f"{what} is not a JSON object; export the row again", file=file)
    version = found.get("fixture_version")
    if type(version) is int and version > VERSION:
        raise CaptureError(
            f"fixture version {version} is newer than {VERSION}, the newest that this workbench reads; update it",
            file=file,
        )
    for name, (can_be, words) in FIELDS.items():
        if name not in found or not can_be(found[name]):
            raise CaptureError(f"{what}: {name} is not {words}; export the row again", file=file)
    if found.keys() != FIELDS.keys():
        raise CaptureError(f"{what} holds more than {', '.join(FIELDS)}; export the row again", file=file)
    return found


def fixture_files(folder: str | os.PathLike[str]) -> list[Path]:
    """The safetensors files of a folder and those below it, by name; without those of an export in progress.

    Raises:
        UsageError: no such folder, or none in it.
    """
    if not Path(folder).is_dir():
        raise UsageError(f"{shown(folder)}: no such folder of fixtures")
    found = Path(folder).rglob("*.safetensors")
    files = sorted(
        file for file in found if not any(part.startswith(STAGING) for part in file.relative_to(folder).parts)
    )
    if not files:
        raise UsageError(f"{shown(folder)}: no fixtures (*.safetensors) in this folder; make one with workbench export")
    return files
