"""What released ops returned on one H200: the cases, their rows rebuilt from seeds, and the records.

See ``tests/data/truth/README.md`` for the fields.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from workbench.capture.row import Call, Row

DATA = Path(__file__).parent / "data" / "truth"
OPS = {
    "persistent": "vllm.persistent_topk",
    "per_row": "vllm.top_k_per_row_decode",
    "fast_topk": "sglang.fast_topk_v2",
}


@dataclass(frozen=True)
class Record:
    """One op of one release on one case: an entry a call."""

    case: str
    op: str
    release: str
    bad_rows: tuple[int, ...]
    missing_total: tuple[int, ...]


def _generators():
    spec = importlib.util.spec_from_file_location("truth_rows", DATA / "rows.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def cases() -> dict[str, dict]:
    """Every case by its id."""
    return {case["id"]: case for case in json.loads((DATA / "cases.json").read_text())}


@cache
def records() -> dict[str, list[Record]]:
    """Every record by its case."""
    found = defaultdict(list)
    for line in (DATA / "observed-h200.jsonl").read_text().splitlines():
        entry = json.loads(line)
        package, op = entry["op"].rsplit(".", 1)
        name, version = package.rsplit("-", 1)
        found[entry["case"]].append(
            Record(
                entry["case"],
                OPS[op],
                f"{name}=={version}",
                tuple(entry["bad_rows"]),
                tuple(entry["missing_total"]),
            )
        )
    return dict(found)


def rows(case_id: str) -> list[Row]:
    """The rows of a case, as its calls gave them to the op."""
    case = cases()[case_id]
    generators = _generators()
    scores = generators.build(case)
    digest = hashlib.sha256(scores.tobytes()).hexdigest()[:16]
    assert digest == case["sha256"], f"{case_id} was not rebuilt to the bit: NumPy's random streams have changed"
    width = scores.shape[1]
    call = Call(k=case["k"], rows=case["rows"], width=width, stride=width, next_n=1, max_seq_len=width)
    return [
        Row(torch.from_numpy(scores[index]), length, call=call, index=index, capture=case_id)
        for index, length in enumerate(generators.lengths(case))
    ]
