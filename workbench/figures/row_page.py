"""A row as one HTML page that can be mailed: what happened, its pictures, its circumstances, and where it is from."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version

import torch

from workbench.figures.diff import diff_figure
from workbench.figures.of_inspection import (
    bins_parts,
    capacity_picture,
    census_parts,
    coarse_path,
    comparison,
    lost_tables,
    risk_on,
    said_of,
    selections_table,
    shown_result,
    who,
)
from workbench.figures.of_rows import call_facts, route_parts, row_facts
from workbench.figures.page import page
from workbench.figures.parts import Beside, Cell, Note, Part, Picture, Said, Table, facts
from workbench.figures.tables import outlook_texts
from workbench.figures.words import count, plural, signed
from workbench.paths.orders import DEFAULT_ORDER, DEFAULT_SEED, RANDOM
from workbench.runs.inspect import Inspection
from workbench.runs.law_words import law_sentence

_PACKAGES = ("topk-workbench", "torch", "numpy", "plotly")
_ORDERED = 0.5  # rank correlation from which the mean over random orders does not describe real arrival


@dataclass(frozen=True)
class Origin:
    """Where an inspected row is from, as far as its page tells.

    Attributes:
        file: name of the file, without the folder it lies in. digest: of the whole capture.
        arguments: of ``workbench inspect`` that lead to what is shown, besides the file and the row.
        seed, arrival: of the arrival order. notes: what else a reader must know.
    """

    file: str = ""
    digest: str = ""
    arguments: tuple[str, ...] = ()
    seed: int = DEFAULT_SEED
    arrival: str = DEFAULT_ORDER
    notes: tuple[str, ...] = field(default=())


def row_page(found: Inspection, origin: Origin | None = None, made_by: str = "the top-k workbench") -> str:
    """The page: HTML of a whole document, which fetches nothing.

    Args:
        found: the row. origin: where it is from; what the row itself tells where not given.
    """
    origin = origin or Origin(file=found.row.capture.rsplit("/", 1)[-1])
    name = origin.file or "a row in memory"
    title = f"{name}, row {found.row.index}" if origin.file else "A row in memory"
    return page(title, [*_happened(found, origin), *_pictures(found), *_circumstances(found, origin)], made_by)


def _happened(found: Inspection, origin: Origin) -> list[Part]:
    about = (
        f"k {count(found.k)}, {plural(found.row.length, 'score')}, {found.row.dtype}. Judged: {found.judged_because}."
    )
    notes = (about, found.of_the_call, *origin.notes)
    return [said_of(found), *(Note(text) for text in notes if text)]


def _pictures(found: Inspection) -> list[Part]:
    parts: list[Part] = []
    if found.case.profile.countable:
        path = coarse_path(found, None)
        parts += [*bins_parts(found, path), *_bin_numbers(found, path)]
    parts.append(Picture("Every path that takes the row", lambda: capacity_picture(found)))
    parts += census_parts(found)
    if table := selections_table(found):
        parts.append(table)
    made = shown_result(found)
    if made is not None:
        compared = comparison(found, made)
        title = f"The exact top-k beside {who(made)}, by position in the row"
        parts.append(Picture(title, lambda: diff_figure(compared)))
        if tables := lost_tables(compared):
            parts.append(Beside(tables))
    return parts


def _bin_numbers(found: Inspection, path: str) -> list[Part]:
    risk = risk_on(found, path)
    clean, mean, span = outlook_texts(risk)
    numbers: dict[str, Cell] = {
        "above": risk.above,
        "need": risk.need,
        "population": risk.population,
        "capacity": risk.capacity,
    }
    if risk.room != risk.capacity:
        numbers["takes"] = risk.room
    columns = tuple((name, "number") for name in (*numbers, "p clean", "mean lost", "least – most"))
    row = tuple("–" if number is None else number for number in numbers.values())
    parts: list[Part] = [Table("", columns, ((*row, clean, mean, span),))]  # type: ignore[arg-type]
    if law := law_sentence(risk.path, risk.level, risk.clean_at_most):
        parts.append(Note(law))
    if risk.order_correlation is not None and abs(risk.order_correlation) > _ORDERED:
        told = signed(risk.order_correlation, 2)
        parts.append(
            Note(
                f"Within this bin the scores follow their position (rank correlation {told}): real arrival follows "
                "position too, so the mean over random orders does not describe it. Least and most hold."
            )
        )
    return parts


def _circumstances(found: Inspection, origin: Origin) -> list[Part]:
    case = found.case
    parts: list[Part] = []
    if found.route is not None:
        said, conditions = route_parts(found.route)
        assert isinstance(said, Said)
        assert isinstance(conditions, Table)
        parts.append(replace(conditions, title=f"Route: {said.text}"))
    given: dict[str, Cell] = {**call_facts(found.row.call), "k": found.k}
    given |= {"op": case.op, "release": case.release, "device": case.device}
    parts.append(Beside((facts("The row", row_facts(found.row)), facts("The call, as it was judged", given))))
    order = f"{origin.arrival}, seed {origin.seed}" if origin.arrival in (RANDOM, "walk") else origin.arrival
    made: dict[str, Cell] = {
        "file": origin.file or "none: rows in memory",
        "digest of the file": origin.digest or "not told",
        "row": found.row.index,
        "digest of the row": found.row.digest,
        "arrival order": order,
    }
    if origin.file:
        made["look again"] = _command(found, origin)
    return [*parts, facts("Where it is from", made), facts("Made with", environment())]


def _command(found: Inspection, origin: Origin) -> str:
    """What shows the same row on the command line, where the file lies in the current folder."""
    case, call = found.case, found.row.call
    told = {"op": case.op, "release": case.release, "device": case.device, "k": case.k}
    given = [part for name, now in told.items() if now != getattr(call, name) for part in (f"--{name}", str(now))]
    given += ["--path", found.judged] if found.judged_because == "as asked" else []
    given += ["--seed", str(origin.seed)] if origin.seed != DEFAULT_SEED else []
    given += ["--arrival", origin.arrival] if origin.arrival != DEFAULT_ORDER else []
    command = ["workbench", "inspect", origin.file, "--row", str(found.row.index), *origin.arguments, *given]
    return shlex.join(command)


def environment() -> Mapping[str, Cell]:
    """Versions of what worked it out, and the kind of machine; nothing that names a machine or its user."""
    versions: dict[str, Cell] = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed as a package" if name == "topk-workbench" else None
    versions["torch"] = torch.__version__
    return {**versions, "Python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}
