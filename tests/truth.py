"""What released ops returned on one H200: the cases, their rows rebuilt from seeds, and the records.

See ``tests/data/truth/README.md`` for the fields.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import torch

from workbench.analysis.profile import RowProfile
from workbench.analysis.risk import Risk, risk
from workbench.capture.row import Call, Row
from workbench.paths.catalog import get_path
from workbench.paths.routing import route

DEVICE = "h200"
DATA = Path(__file__).parent / "data" / "truth"
OPS = {
    "persistent": "vllm.persistent_topk",
    "cooperative": "vllm.cooperative_topk",
    "per_row": "vllm.top_k_per_row_decode",
    "fast_topk": "sglang.fast_topk_v2",
    "v1": "sglang.topk_transform_paged",
    "v2": "sglang.topk_transform_paged_v2",
    "v2_ragged": "sglang.topk_transform_ragged_v2",
    "kpool512": "sglang.kpool_topk_transform",
    "bf16_small": "sglang.topk_transform_bf16_small",
    "deepselect_fp32": "sglang.deep_select",
    "ragged": "flashinfer.top_k_ragged_transform",
    "ragged_det": "flashinfer.top_k_ragged_transform",
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


def ordered(case_id: str) -> bool:
    """Whether the scores of a case's rows rise or fall along the row."""
    return cases()[case_id]["gen"] in ("over_fp16", "ascending")


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


def given_to(op: str, row: Row) -> Row:
    """A row as its call gave it to an op: some ops want wider strides, one another dtype."""
    if op == "sglang.topk_transform_paged_v2":
        width = -(-row.call.width // 8) * 8
        return row.with_call(width=width, stride=width)
    if op == "sglang.topk_transform_bf16_small":
        return replace(row, scores=row.scores.to(torch.bfloat16))
    return row


def batch(case_id: str) -> tuple[torch.Tensor, list[int]]:
    """The scores of a case, float32 [rows, width], and the lengths of its rows."""
    case = cases()[case_id]
    generators = _generators()
    scores = generators.build(case)
    digest = hashlib.sha256(scores.tobytes()).hexdigest()[:16]
    assert digest == case["sha256"], f"{case_id} was not rebuilt to the bit: NumPy's random streams have changed"
    return torch.from_numpy(scores), generators.lengths(case)


def rows(case_id: str, most: int | None = None) -> list[Row]:
    """The rows of a case, or the first ``most`` of them."""
    return rows_of(case_id, *batch(case_id))[:most]


def rows_of(case_id: str, scores: torch.Tensor, lengths: list[int]) -> list[Row]:
    """The rows of a case whose batch is there already."""
    case, width = cases()[case_id], scores.shape[1]
    call = Call(k=case["k"], rows=case["rows"], width=width, stride=width, next_n=1, max_seq_len=width)
    return [
        Row(
            scores[index],
            length,
            call=call,
            batch=torch.tensor(lengths),
            index=index,
            capture=case_id,
        )
        for index, length in enumerate(lengths)
    ]


class Risks:
    """The risk of every row of a case, each path and variant worked out once.

    Args:
        given: the rows, as ``rows`` gives them.
    """

    def __init__(self, given: list[Row]) -> None:
        self._rows = given
        self._profiles: dict[tuple[int, str], RowProfile] = {}
        self._known: dict[tuple[int, str, str, str], Risk] = {}

    def of(self, op: str, release: str) -> list[Risk]:
        """On the path that an op of a release takes on an H200, row by row."""
        given = [given_to(op, row) for row in self._rows]
        taken = [route(row, op, release, DEVICE) for row in given]
        assert all(one.path for one in taken), f"{op} of {release}: a row has no route"
        return [self._on(row, one.path, one.variant) for row, one in zip(given, taken, strict=True)]

    def _on(self, row: Row, path: str, variant: str) -> Risk:
        key = (row.index, row.dtype, path, variant)
        if key not in self._known:
            profile = self._profiles.setdefault((row.index, row.dtype), RowProfile(row.valid, row.dtype, row.k))
            spec = get_path(path)
            self._known[key] = risk(profile, spec, spec.variant(variant))
        return self._known[key]
