"""One row given to an engine that is asked for several calls: what all of them amount to, and the worst one in full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from workbench.analysis.repeatability import fingerprint, kind_of
from workbench.analysis.verdict import LOST, judge
from workbench.capture import Capture, Row
from workbench.engines.launch import Answer, Launch, OpEngine
from workbench.paths.catalog import get_path
from workbench.paths.selection import UNWRITTEN, Selection
from workbench.runs.case import Case
from workbench.runs.inspect import damage
from workbench.runs.launched import run_launched
from workbench.runs.launches import LIMIT
from workbench.runs.report import Result
from workbench.runs.run import run_case

CUDA = "cuda"


@dataclass(frozen=True, eq=False)
class Called:
    """Calls of one engine on one row.

    Attributes:
        worst: the call with the greatest damage; one without a selection if none was made, its line says why.
        calls: how many returned. lost: of them, those that lost winners or returned invalid slots.
        least, most: values missing in a call. repeatability: as in a report; ``None`` below two calls.
        about: what ran, as in ``{"gpu": "NVIDIA H200"}``.
    """

    worst: Result
    calls: int
    lost: int = 0
    least: int = 0
    most: int = 0
    repeatability: str | None = None
    about: dict[str, str] = field(default_factory=dict)

    @property
    def why_none(self) -> str:
        """Why there is no selection, in words; empty if there is one."""
        if self.worst.selection is not None:
            return ""
        return self.worst.line.refused or self.worst.line.finding or "nothing was returned"


def called_sentence(found: Called, who: str) -> str:
    """What the calls amount to. ``who``: what was called, as in ``vllm.persistent_topk of vllm==0.26.0``."""
    gpu = f" on {found.about['gpu']}" if "gpu" in found.about else ""
    calls = f"{found.calls} call{'' if found.calls == 1 else 's'} of {who}{gpu}"
    kept = f", {found.repeatability}" if found.repeatability else ""
    if not found.lost:
        return f"{calls}{kept}: none lost winners."
    span = f"{found.least}" if found.least == found.most else f"{found.least} to {found.most}"
    return f"{calls}{kept}: {found.lost} lost winners or returned invalid slots, {span} missing; shown is the worst."


def call_kernel(case: Case, path: str, variant: str, calls: int) -> Called:
    """Call the workbench's kernel of a path; what cannot be called is told by its line."""
    return _amount(case, run_case(case, paths=path, variants=variant, engine=CUDA, repeats=calls), {})


def call_op(case: Case, engine: OpEngine, rows: Sequence[Row], at: int, calls: int) -> Called:
    """What calls of an engine that stands for a whole op amount to; arguments as for ``op_results``."""
    return _amount(case, *op_results(case, engine, rows, at, calls))


def op_results(
    case: Case, engine: OpEngine, rows: Sequence[Row], at: int, calls: int
) -> tuple[list[Result], dict[str, str]]:
    """Call an engine that stands for a whole op on the row of a case.

    Args:
        rows: of the call, one launch: see ``rows_of_call``. at: which of them is the case's.

    Returns:
        What each call made of the row, and what ran, as in ``Called``.

    Raises:
        UsageError: an op, device or release that is not known. CaptureError: a row that cannot be read.
    """
    kept = _Kept(engine)
    report = run_launched(rows, kept, calls, op=case.op, device=case.device, k=case.k)
    lines = [line for line in report if line.row == rows[at].index]
    made = [answer.indices[:, at] for answer in kept.answers if answer.indices is not None]
    scores, exact = case.row.valid, case.exact.indices
    selections = iter(torch.cat(made).to(scores.device) if made else ())
    results = []
    for line in lines:
        path = None if line.path is None else get_path(line.path)
        released = case.in_release(line.release)
        risk = None if path is None or line.variant is None else released.risk(path, path.variant(line.variant))
        if line.verdict is None:
            results.append(Result(line, risk=risk))
            continue
        indices = next(selections)
        results.append(Result(line, Selection(indices), judge(scores, exact, indices, UNWRITTEN), risk))
    return results, {name: value for told in report.about.values() for name, value in told.items()}


def rows_of_call(capture: Capture, number: int) -> tuple[list[Row], int]:
    """The rows to lay in one launch, and which of them is row ``number``: its whole call where that is captured and
    fits, else the row alone.

    Raises:
        CaptureError: a row that cannot be read.
    """
    call = capture.call_of(number)
    about = capture.call(call)
    same = [one for one in range(len(capture)) if capture.call_of(one) == call] if about.rows is not None else []
    row = capture[number]
    size = len(same) * max(about.stride or 0, about.width or 0, row.scores.numel()) * row.scores.element_size()
    if len(same) != about.rows or size > LIMIT:
        return [row], 0
    return [capture[one] for one in same], same.index(number)


class _Kept:
    """An engine whose answers are kept beside what becomes of them."""

    def __init__(self, engine: OpEngine) -> None:
        self._engine, self.name, self.release = engine, engine.name, engine.release
        self.answers: list[Answer] = []

    def answer(self, launch: Launch, calls: int = 1) -> Answer:
        """As the engine does."""
        found = self._engine.answer(launch, calls)
        self.answers.append(found)
        return found

    def close(self) -> None:
        """Nothing: whoever opened the engine closes it."""


def _amount(case: Case, results: Sequence[Result], about: dict[str, str]) -> Called:
    """What calls amount to; a call that gave nothing is the worst only where none gave anything."""
    made = [one for one in results if one.selection is not None and one.verdict is not None]
    if not made:
        return Called(results[0], 0, about=about)
    missing = [one.verdict.missing for one in made if one.verdict is not None]
    prints = {fingerprint(case.row.valid, one.selection.indices) for one in made if one.selection is not None}
    return Called(
        max(made, key=damage),
        len(made),
        sum(one.line.verdict in LOST for one in made),
        min(missing),
        max(missing),
        kind_of(prints) if len(made) > 1 else None,
        about,
    )
