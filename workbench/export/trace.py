"""A row as a FlashInfer-Trace workload: a definition of the selection, and a workload whose scores are the row's own.

The files follow the FlashInfer-Trace schema as flashinfer-bench 0.1.2 reads it: ``definitions/<op_type>/<name>.json``,
``workloads/<op_type>/<definition>.jsonl`` with one trace a line whose solution and evaluation are null, and blobs under
``blob/workloads/``, whose paths count from the root of the set.
"""

from __future__ import annotations

import json
import uuid
from string import Template
from typing import Any

from workbench.export.fixture import Fixture
from workbench.export.render import template

OP_TYPE = "topk"
_SHORT = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def definition_name(fixture: Fixture) -> str:
    """The name of the definition, as in ``topk_fp32_k2048``."""
    return f"{OP_TYPE}_{_SHORT[fixture.row.dtype]}_k{fixture.k}"


def reference_source(fixture: Fixture) -> str:
    """The source of the definition's reference, with a top-level ``run(scores, lengths)``."""
    return Template(template("trace_reference")).substitute(k=fixture.k) + "\n"


def definition(fixture: Fixture) -> str:
    """The definition as a JSON document."""
    content = {
        "name": definition_name(fixture),
        "op_type": OP_TYPE,
        "description": (
            "Indices of the k best scores of each row. The order of a selection and the choice among scores equal to "
            "the k-th best are free: compare the scores selected as a multiset of bit patterns, without a tolerance, "
            "and the indices for range and repetition."
        ),
        "axes": {
            "rows": {"type": "var", "description": "rows of the batch"},
            "width": {"type": "var", "description": "scores of a padded row"},
            "k": {"type": "const", "value": fixture.k, "description": "winners wanted"},
        },
        "inputs": {
            "scores": {"shape": ["rows", "width"], "dtype": fixture.row.dtype, "description": "score rows"},
            "lengths": {"shape": ["rows"], "dtype": "int32", "description": "valid scores of each row, from its first"},
        },
        "outputs": {
            "indices": {
                "shape": ["rows", "k"],
                "dtype": "int32",
                "description": "relative to the row, -1 past its length",
            }
        },
        "reference": reference_source(fixture),
    }
    return json.dumps(content, indent=2) + "\n"


def workload(fixture: Fixture, blob: str) -> str:
    """The workload as one line of JSON; ``blob`` is the fixture's path from the root of the set."""
    tensors: dict[str, Any] = {
        name: {"type": "safetensors", "path": blob, "tensor_key": name} for name in ("scores", "lengths")
    }
    content = {
        "definition": definition_name(fixture),
        "workload": {
            "uuid": workload_id(fixture, blob),
            "axes": {"rows": 1, "width": fixture.row.length},
            "inputs": tensors,
        },
        "solution": None,
        "evaluation": None,
    }
    return json.dumps(content) + "\n"


def workload_id(fixture: Fixture, blob: str) -> str:
    """A UUID that follows from the fixture's path in the set, which names the definition, and its scores."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{blob} {fixture.digest}"))


def is_workload_of(line: bytes, blob: str) -> bool:
    """Whether a line of a file of workloads is one whose scores are those of a fixture, with no result."""
    try:
        held = json.loads(line)
        return held["solution"] is None and held["workload"]["inputs"]["scores"]["path"] == blob
    except (ValueError, TypeError, LookupError, RecursionError):  # a line of another kind
        return False
