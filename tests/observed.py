"""What released ops returned on one H200 for rows at the edges of float32, and for rows in order.

See ``tests/data/observed/README.md`` for the fields. The kinds of rows are those of its ``rows.py``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import zlib
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import torch

from workbench.capture.row import Call, Row

DATA = Path(__file__).parent / "data" / "observed"
FAULTS = ("dup", "out_of_range", "unwritten", "short")


@dataclass(frozen=True)
class Record:
    """What one op of one release did with one batch.

    Attributes:
        op, release, k, calls: of the call. static_threshold: what the plan was given. rows: name of the shape.
        kind: of the rows. bad_rows: the most in any call that lack a winner. least, most, mean: of the values that
            all rows together lack, over the calls. faults: slots of each kind in any one call, the most.
        sets: different index sets over the calls, of the row (of the first four) that has the most.
        missing: one entry a call, for rows in order; else empty.
        lost: where the masks of lost winners begin, and of how many rows; ``None`` without any.
    """

    op: str
    release: str
    k: int
    calls: int
    static_threshold: int
    rows: str
    kind: str
    bad_rows: int
    least: int
    most: int
    mean: float
    faults: tuple[tuple[str, int], ...]
    sets: int
    missing: tuple[int, ...] = ()
    lost: tuple[int, int] | None = None

    @property
    def batch(self) -> tuple[str, str]:
        """The batch it is about: shape and kind."""
        return self.rows, self.kind


@cache
def generators() -> ModuleType:
    """The row generators, which lie beside the data."""
    spec = importlib.util.spec_from_file_location("observed_rows", DATA / "rows.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@cache
def _listed() -> dict[str, dict]:
    return json.loads((DATA / "rows.json").read_text())


@cache
def _shape(name: str):
    entry = _listed()[name]
    lengths = entry["lengths"]
    same = len(lengths) == 2 and lengths[1] < 100  # a length, and how many rows have it
    lengths = [lengths[0]] * lengths[1] if same else lengths
    return generators().Shape(entry["k"], tuple(lengths), entry["width"], entry["pad"], entry["start"])


def batches() -> list[tuple[str, str]]:
    """Every batch: name of its shape, and kind."""
    return [(name, kind) for name, entry in _listed().items() for kind in entry["sha256"]]


def scores(name: str, kind: str) -> np.ndarray:
    """A batch, float32 [rows, width], held to its digest."""
    made = generators().build(_shape(name), kind)
    digest = hashlib.sha256(made.tobytes()).hexdigest()[:16]
    assert digest == _listed()[name]["sha256"][kind], f"{name} {kind} was not rebuilt to the bit"
    return made


def rows(name: str, kind: str, k: int) -> list[Row]:
    """The rows of a batch as a call with this k had them."""
    shape, made = _shape(name), torch.from_numpy(scores(name, kind))
    call = Call(k=k, rows=len(shape.lengths), width=shape.width, stride=shape.width, next_n=1, max_seq_len=shape.width)
    batch = torch.tensor(shape.lengths)
    return [
        Row(made[index], length, shape.start, call=call, batch=batch, index=index, capture=f"{name} {kind}")
        for index, length in enumerate(shape.lengths)
    ]


def given_to(op: str, row: Row) -> Row:
    """A row as its call gave it to an op: one wants another dtype."""
    if op != "sglang.topk_transform_bf16_small":
        return row
    bits = generators().to_bfloat16(row.scores.numpy())
    return replace(row, scores=torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16))


@cache
def records() -> tuple[Record, ...]:
    """Every record, batch by batch."""
    found = defaultdict(list)
    for line in (DATA / "observed-h200.jsonl").read_text().splitlines():
        entry = json.loads(line)
        told = {kind: {} for kind in entry["same_set_nothing_lost"]} | entry["others"]
        for kind, one in told.items():
            record = _record(entry, kind, one)
            found[record.batch].append(record)
    return tuple(record for some in found.values() for record in some)


def _record(entry: dict, kind: str, one: dict) -> Record:
    calls, missing = entry["calls"], one.get("missing", [0, 0, 0])
    each = tuple(missing) if len(missing) == calls else ()
    least, most, total = (min(each), max(each), sum(each)) if each else missing
    return Record(
        op=entry["op"],
        release=entry["release"],
        k=entry["k"],
        calls=calls,
        static_threshold=entry.get("static_threshold", -1),
        rows=entry["rows"],
        kind=kind,
        bad_rows=one.get("bad", 0),
        least=least,
        most=most,
        mean=total / calls,
        faults=tuple((fault, one[fault][1]) for fault in FAULTS if fault in one),
        sets=one.get("sets", 1),
        missing=each,
        lost=tuple(one["lost"]) if "lost" in one else None,
    )


@cache
def _masks() -> bytes:
    return zlib.decompress((DATA / "lost-h200.bin").read_bytes())


def lost(record: Record) -> np.ndarray:
    """Which winners each call lost, bool [calls, rows, k]: the reference's, best first, ties to the smaller index."""
    assert record.lost is not None
    at, count = record.lost
    size = record.calls * count * record.k // 8
    packed = np.frombuffer(_masks()[at : at + size], np.uint8)
    return np.unpackbits(packed).reshape(record.calls, count, record.k).astype(bool)
