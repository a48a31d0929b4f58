"""Output folders of audits, made to measure: what reads them needs no audit to have run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from workbench.audit.schema import COLUMNS, arrow_schema

OP, RELEASE = "vllm.persistent_topk", "vllm==0.26.0"
REACHED, OTHER = "vllm.histogram_256", "vllm.filtered"
COMMON: dict[str, Any] = {
    "call": 0,
    "op": OP,
    "release": RELEASE,
    "device": "h200",
    "k": 512,
    "length": 9000,
    "width": 9000,
    "dtype": "float32",
    "nan": 0,
    "neg_inf": 0,
    "fp16_overflow": 0,
    "ties": 1,
    "variant": "stock",
}


def digest(text: object) -> str:
    """A digest as records hold it, a different one for every text."""
    import hashlib

    return f"sha256:{hashlib.sha256(str(text).encode()).hexdigest()}"


def census(file: str, row: int, path: str = REACHED, risk: str | None = "safe", **more: Any) -> dict[str, Any]:
    """A line of the census."""
    said = {"file": file, "row": row, "path": path, "engine": "census", "risk": risk, "reached": path == REACHED}
    return {**COMMON, "scores": digest((file, row)), **said, **more}


def recorded(file: str, row: int, verdict: str = "exact", missing: int = 0, **more: Any) -> dict[str, Any]:
    """A line of a recorded selection."""
    said = {"file": file, "row": row, "path": REACHED, "engine": "recorded", "verdict": verdict, "missing": missing}
    return {
        **COMMON,
        "scores": digest((file, row)),
        "reached": True,
        "selection": digest(("s", file, row)),
        **said,
        **more,
    }


def table(lines: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Lines as an audit's records; what a line does not say is null."""
    held = list(lines)
    return pa.table({one.name: [line.get(one.name) for line in held] for one in COLUMNS}, schema=arrow_schema())


def dataset(
    folder: Path,
    parts: Sequence[Iterable[Mapping[str, Any]]],
    files: Sequence[Mapping[str, Any]] | None = None,
    paths: str = "*",
    audited: Path | str = "/dumps",
) -> Path:
    """An audit's output folder. ``parts``: the lines of each record file. ``files``: of the manifest, by default all
    files of the records, done."""
    (folder / "records").mkdir(parents=True)
    held = [list(part) for part in parts]
    for at, part in enumerate(held):
        pq.write_table(table(part), folder / "records" / f"{at:06}.parquet")
    if files is None:
        rows: dict[str, set[int]] = {}
        for line in (line for part in held for line in part):
            rows.setdefault(line["file"], set()).add(line["row"])
        files = [{"file": file, "rows": len(numbers)} for file, numbers in sorted(rows.items())]
    base = {"size": 1000, "digest": digest("file"), "rows": 0, "failed": 0, "found": 0, "state": "done", "error": None}
    (folder / "manifest.jsonl").write_text("".join(json.dumps({**base, **line}) + "\n" for line in files))
    about = {"format": "workbench audit 1", "finished": True, "versions": {"workbench": "0.1.0"}, "found": {}}
    (folder / "audit.json").write_text(json.dumps({**about, "asked": {"folder": str(audited), "paths": paths}}))
    return folder
