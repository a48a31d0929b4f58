"""Benchmarks as files: one JSON document, strictly read, since it may come from another machine."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_args

from workbench.analysis.batch_verdict import KINDS, BatchVerdict
from workbench.analysis.samples import Ratio
from workbench.analysis.verdict import LOST
from workbench.capture.strictjson import short
from workbench.capture.values import path_text, shown
from workbench.engines.timing import Machine, Sampling
from workbench.errors import UsageError
from workbench.runs.bench import DTYPES, Bench, BenchCell, Plan
from workbench.runs.bench_grid import Cache, Contender, Lengths, Shape
from workbench.runs.members import Members, content_of, kept_text
from workbench.targets import put_in_place
from workbench.words import because

FORMAT = "workbench bench 1"
SUFFIX = ".json"
EVERY_S = 5.0  # between writes of one run
CURE = "allow it to be replaced"
_WHAT = "the benchmark"
_SHAPE = tuple(one.name for one in fields(Shape))
_CONTENDER = tuple(one.name for one in fields(Contender))
_VERDICT = tuple(one.name for one in fields(BatchVerdict))
_SPREAD = ("median_us", "p10_us", "p90_us", "least_us")
_DERIVED = ("state", *_SPREAD, "gbs", "read_share", "beside_op")
_CELL = (*_SHAPE, *_CONTENDER, "l2", "paths", "times_us", "late", "score_bytes", "verdict", "refused", "fault", "notes")
_TOP = ("format", "complete", "planned", "plan", "machine", "about", "cells")
_PLAN = ("shapes", "contenders", "l2", "device", "samples", "warmups", "distribution", "seed", "dtype")


def to_document(bench: Bench) -> dict[str, object]:
    """A benchmark as one JSON document: the plan, the machine, and a flat object for each cell.

    What follows from a cell's samples (median, quantiles, GB/s, share of the read bandwidth, the ratio to the op beside
    it) stands in it for whoever reads it; reading works it out again and refuses a file that says otherwise.
    """
    beside = bench.beside_op()
    plan = bench.plan
    return {
        "format": FORMAT,
        "complete": bench.is_complete,
        "planned": plan.cells,
        "plan": {
            "shapes": [asdict(shape) for shape in plan.shapes],
            "contenders": [_texts(asdict(one)) for one in plan.contenders],
            "l2": list(plan.l2),
            "device": plan.device,
            "samples": plan.sampling.samples,
            "warmups": plan.sampling.warmups,
            "distribution": plan.distribution,
            "seed": plan.seed,
            "dtype": plan.dtype,
        },
        "machine": {**asdict(bench.machine), "about": _texts(bench.machine.about)},
        "about": _texts(bench.about),
        "cells": [_cell_document(cell, bench.machine, beside.get(at)) for at, cell in enumerate(bench.cells)],
    }


def write_bench(
    path: str | os.PathLike[str], bench: Bench, *, overwrite: bool = False, cure: str = f"{CURE} (overwrite=True)"
) -> None:
    """Write a benchmark as JSON: beside its place, read back, then put in it whole.

    Raises:
        UsageError: the path cannot be written, or a file is there and must not be replaced.
    """
    text = json.dumps(to_document(bench), indent=1, allow_nan=False) + "\n"
    try:
        with put_in_place(Path(path_text(path)), shown(path), overwrite=overwrite, cure=cure) as temporary:
            temporary.write_text(text, encoding="utf-8")
            parse_bench(temporary.read_bytes(), shown(path))
    except OSError as error:
        raise UsageError(f"{shown(path)}: cannot be written: {because(error)}") from None


class BenchFile:
    """A file that holds what was measured so far, whole at any time.

    Args:
        path: of the file. overwrite: whether what is there when the run begins is replaced. cure: how a user allows it.
    """

    def __init__(self, path: str, *, overwrite: bool = False, cure: str = CURE) -> None:
        self._path, self._overwrite, self._cure = path, overwrite, cure
        self._kept: Bench | None = None
        self._at = 0.0

    def keep(self, bench: Bench, *, now: bool = False) -> None:
        """Write a benchmark, unless one was written within the last seconds and ``now`` is not given.

        Raises:
            UsageError: it cannot be written, as on a full disk; the message says what the file holds.
        """
        if self._kept is not None and (self._kept is bench or (not now and time.monotonic() - self._at < EVERY_S)):
            return
        try:
            write_bench(self._path, bench, overwrite=self._overwrite, cure=self._cure)
        except UsageError as error:
            if self._kept is None:
                raise
            held = f"it holds the first {len(self._kept.cells)} of {self._kept.plan.cells} cells"
            raise UsageError(f"{error}; {held}") from None
        self._kept, self._at, self._overwrite = bench, time.monotonic(), True


def read_bench(path: str | os.PathLike[str]) -> Bench:
    """Read a benchmark that ``write_bench`` or ``workbench bench --output`` wrote.

    Raises:
        CaptureError: it cannot be read, or is no such file; the message names the place.
    """
    file = shown(path)
    return parse_bench(content_of(Path(path_text(path)), file), file)


def parse_bench(content: bytes, file: str) -> Bench:
    """A benchmark from the bytes of its file.

    Raises:
        CaptureError: as for ``read_bench``.
    """
    reader = Members(file, "benchmark")
    document = reader.document(content, FORMAT)
    reader.names(document, _TOP, _WHAT)
    plan = _plan(reader, document["plan"])
    machine = _machine(reader, document["machine"])
    given = reader.items(document["cells"], "cells")
    cells = tuple(_cell(reader, plan, one, f"cells[{at}]") for at, one in enumerate(given))
    if len({(cell.shape, cell.l2, cell.contender) for cell in cells}) < len(cells):
        raise reader.bad("cells has one twice")
    found = Bench(plan, machine, cells, _about(reader, document["about"], "about"))
    if document["planned"] != plan.cells or document["complete"] is not found.is_complete:
        raise reader.bad(f"it holds {len(cells)} of {plan.cells} cells, and says otherwise")
    beside = found.beside_op()
    for at, (cell, one) in enumerate(zip(cells, given, strict=True)):
        for name, value in _derived(cell, machine, beside.get(at)).items():
            if one[name] != value:
                raise reader.bad(f"cells[{at}].{name} is {short(one[name])}; from its samples follows {short(value)}")
    return found


def _plan(reader: Members, given: object) -> Plan:
    said = reader.members(given, "plan")
    reader.names(said, _PLAN, "plan")
    shapes = tuple(_shape(reader, one, f"plan.shapes[{at}]") for at, one in _enumerated(reader, said, "shapes"))
    contenders = tuple(
        _contender(reader, one, f"plan.contenders[{at}]") for at, one in _enumerated(reader, said, "contenders")
    )
    l2 = tuple(reader.one_of(one, "plan.l2", get_args(Cache)) for one in reader.items(said["l2"], "plan.l2"))
    for name, values in (("shapes", shapes), ("contenders", contenders), ("l2", l2)):
        if len(set(values)) < len(values):
            raise reader.bad(f"plan.{name} names one twice")
    return Plan(
        shapes,
        contenders,
        l2,
        reader.text(said["device"], "plan.device"),
        Sampling(reader.whole(said["samples"], "plan.samples", least=1), reader.whole(said["warmups"], "plan.warmups")),
        reader.text(said["distribution"], "plan.distribution"),
        reader.whole(said["seed"], "plan.seed"),
        reader.one_of(said["dtype"], "plan.dtype", tuple(DTYPES)),
    )


def _enumerated(reader: Members, said: dict[str, Any], name: str) -> list[tuple[int, dict[str, Any]]]:
    found = []
    for at, one in enumerate(reader.items(said[name], f"plan.{name}")):
        member = reader.members(one, f"plan.{name}[{at}]")
        reader.names(member, _SHAPE if name == "shapes" else _CONTENDER, f"plan.{name}[{at}]")
        found.append((at, member))
    return found


def _shape(reader: Members, said: dict[str, Any], where: str) -> Shape:
    numbers = {
        name: reader.whole(said[name], f"{where}.{name}", least=1)
        for name in ("rows", "length", "width", "k", "max_seq_len")
    }
    return Shape(**numbers, lengths=reader.one_of(said["lengths"], f"{where}.lengths", get_args(Lengths)))


def _contender(reader: Members, said: dict[str, Any], where: str) -> Contender:
    op, release = (
        None if said[name] is None else reader.text(said[name], f"{where}.{name}") for name in ("op", "release")
    )
    return Contender(reader.text(said["engine"], f"{where}.engine"), op, release)


def _machine(reader: Members, given: object) -> Machine:
    said = reader.members(given, "machine")
    reader.names(said, [one.name for one in fields(Machine)], "machine")
    l2 = said["l2_bytes"]
    return Machine(
        reader.text(said["name"], "machine.name"),
        None if l2 is None else reader.whole(l2, "machine.l2_bytes"),
        reader.number(said["read_gbs"], "machine.read_gbs"),
        reader.number(said["floor_us"], "machine.floor_us"),
        _about(reader, said["about"], "machine.about"),
    )


def _about(reader: Members, given: object, where: str) -> dict[str, str]:
    return {
        reader.text(name, where): reader.text(value, f"{where}.{name}")
        for name, value in reader.members(given, where).items()
    }


def _cell(reader: Members, plan: Plan, given: object, where: str) -> BenchCell:
    said = reader.members(given, where)
    reader.names(said, (*_CELL, *_DERIVED), where)
    shape, contender = _shape(reader, said, where), _contender(reader, said, where)
    l2: Cache = reader.one_of(said["l2"], f"{where}.l2", get_args(Cache))
    if shape not in plan.shapes or contender not in plan.contenders or l2 not in plan.l2:
        raise reader.bad(f"{where} is no cell of the plan")
    times = tuple(
        reader.number(one, f"{where}.times_us") for one in reader.items(said["times_us"], f"{where}.times_us")
    )
    cell = BenchCell(
        shape,
        l2,
        contender,
        reader.texts(said["paths"], f"{where}.paths"),
        times,
        reader.whole(said["late"], f"{where}.late"),
        reader.whole(said["score_bytes"], f"{where}.score_bytes"),
        None if said["verdict"] is None else _verdict(reader, said["verdict"], f"{where}.verdict"),
        reader.texts(said["refused"], f"{where}.refused"),
        reader.text(said["fault"], f"{where}.fault"),
        reader.texts(said["notes"], f"{where}.notes"),
    )
    if times and len(times) != plan.sampling.samples:
        raise reader.bad(f"{where} has {len(times)} samples, and the plan {plan.sampling.samples}")
    if [bool(times), bool(cell.refused), bool(cell.fault)].count(True) != 1:
        raise reader.bad(f"{where} must have samples, or be refused, or have a fault, and one of these only")
    if bool(times) != (cell.verdict is not None) or cell.late > len(times):
        raise reader.bad(f"{where} must have a verdict where it has samples, and no more late ones than samples")
    return cell


def _verdict(reader: Members, given: object, where: str) -> BatchVerdict:
    said = reader.members(given, where)
    reader.names(said, _VERDICT, where)
    numbers = {name: reader.whole(said[name], f"{where}.{name}") for name in _VERDICT if name != "kind"}
    found = BatchVerdict(reader.one_of(said["kind"], f"{where}.kind", KINDS), **numbers)
    slots = found.duplicates + found.out_of_range + found.unwritten + found.short
    if (
        found.wrong > found.selections
        or (found.wrong > 0) != (found.kind in LOST)
        or (slots > 0) != (found.kind == "invalid")
        or found.missing_most > found.missing
        or (found.missing > 0) > (found.wrong > 0)
    ):
        raise reader.bad(f"{where} contradicts itself")
    return found


def _cell_document(cell: BenchCell, machine: Machine, beside: Ratio | None) -> dict[str, object]:
    return {
        **asdict(cell.shape),
        **_texts(asdict(cell.contender)),
        "l2": cell.l2,
        "paths": list(cell.paths),
        **_derived(cell, machine, beside),
        "times_us": list(cell.times_us),
        "late": cell.late,
        "score_bytes": cell.score_bytes,
        "verdict": None if cell.verdict is None else asdict(cell.verdict),
        "refused": [kept_text(one) for one in cell.refused],
        "fault": kept_text(cell.fault),
        "notes": [kept_text(one) for one in cell.notes],
    }


def _derived(cell: BenchCell, machine: Machine, beside: Ratio | None) -> dict[str, object]:
    """What follows from the samples; rounded, so that it is the same wherever it is worked out."""
    spread = cell.spread
    found: dict[str, object] = {"state": "measured" if spread else "refused" if cell.refused else "fault"}
    for name in _SPREAD:
        found[name] = None if spread is None else round(getattr(spread, name.removesuffix("_us")), 3)
    gbs = cell.gbs
    found["gbs"] = None if gbs is None else round(gbs, 3)
    found["read_share"] = None if gbs is None or not machine.read_gbs else round(gbs / machine.read_gbs, 4)
    found["beside_op"] = None if beside is None else {name: round(value, 4) for name, value in asdict(beside).items()}
    return found


def _texts(given: dict[str, Any]) -> dict[str, Any]:
    return {kept_text(name): kept_text(value) if isinstance(value, str) else value for name, value in given.items()}
