"""A row written as files: worked out, written to a folder of their own, proved there, then given their names."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from workbench.analysis.verdict import LOST, judge
from workbench.arguments import checked
from workbench.capture.row import Row
from workbench.capture.values import shown
from workbench.errors import UsageError
from workbench.export import trace
from workbench.export.fixture import Fixture, expected_values, write_fixture
from workbench.export.launch import chosen_op, find_launch
from workbench.export.losing import Losing, chosen_path, losing
from workbench.export.proof import Selector, Told, prove, run_source
from workbench.export.provenance import anonymous
from workbench.export.publishing import CURE, alone, publish, staged
from workbench.export.render import CALLABLE, orders_words, reason_of, render_op, render_pytest, slug
from workbench.paths.selection import UNWRITTEN
from workbench.rendering import Rendered
from workbench.runs.case import Case
from workbench.targets import check_target
from workbench.words import listed

TRACE = "flashinfer-trace"
STYLES = ("pytest", "vllm", "sglang", TRACE)
_ENDING = ".safetensors"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+-]{0,99}")


@dataclass(frozen=True)
class Exported(Rendered):
    """What was written.

    Attributes:
        files: all files, the fixture first. unchanged: those of them that were there already with the same content.
        style, path, variant: as asked or found. risk, p_clean, repeats, missing: as in the fixture.
        orders: in which arrival orders the model loses so much, and what others lose, in words.
        why: the reason for so many repeats, in a sentence. proved: what the test was run on before it was written.
    """

    files: tuple[Path, ...]
    unchanged: tuple[Path, ...]
    style: str
    path: str
    variant: str
    risk: str
    p_clean: float
    repeats: int
    missing: int
    orders: str
    why: str
    proved: tuple[str, ...]

    @property
    def run(self) -> str:
        """The command that runs the test; empty where there is none."""
        return "" if self.style == TRACE else f"python -m pytest {shlex.quote(str(self.files[1]))}"

    @property
    def fixture(self) -> Path:
        """The fixture file."""
        return self.files[0]


@dataclass(frozen=True)
class _Plan:
    """Files by their path within the folder, the fixture's first; ``prove`` runs the test that lies in a folder."""

    fixture: str
    texts: dict[str, str]
    prove: Callable[[Path, Told | None], tuple[str, ...]]
    lines: tuple[str, ...] = ()  # files of ``texts`` whose line is added to what is there


@checked
def export_row(
    row: Row,
    *,
    to: str | os.PathLike[str],
    style: str,
    path: str | None,
    variant: str | None,
    op: str | None,
    release: str | None,
    device: str | None,
    k: int | None,
    selector: str | None,
    name: str | None,
    source: str | None,
    overwrite: bool,
) -> Exported:
    """As ``workbench.export.front.export``."""
    return export_case(
        Case(row, op, release, device, k),
        to=to,
        style=style,
        path=path,
        variant=variant,
        op=op,
        selector=selector,
        name=name,
        source=source,
        overwrite=overwrite,
    )


def export_case(
    case: Case,
    *,
    to: str | os.PathLike[str],
    style: str,
    path: str | None,
    variant: str | None,
    op: str | None,
    selector: str | None = None,
    name: str | None = None,
    source: str | None = None,
    overwrite: bool = False,
    told: Told | None = None,
) -> Exported:
    """The same for a row in its circumstances.

    Args:
        op: the one asked for; ``None`` where the capture's own was.
        told: as for ``proof.prove``; what it raises ends the export, which then leaves nothing behind.
    """
    if style not in STYLES:
        raise UsageError(f"unknown style {style!r}; the styles are {listed(STYLES)}")
    if selector is not None and style != "pytest":
        raise UsageError(f"the style {style} tests an op; a selector is for the style pytest")
    if name is not None and not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name for a fixture; letters, digits and ._=+- are, 100 at most")
    loss = losing(case, *chosen_path(case, path, variant))
    fixture = make_fixture(loss)
    stem = name or fixture.name
    plan = _trace(loss, fixture, stem) if style == TRACE else _test(loss, fixture, stem, style, op, selector)
    with staged(to) as (folder, staging):
        fixture_at = staging / plan.fixture
        fixture_at.parent.mkdir(parents=True, exist_ok=True)
        write_fixture(fixture_at, fixture, source)
        for file, text in plan.texts.items():
            (staging / file).parent.mkdir(parents=True, exist_ok=True)
            (staging / file).write_text(text, encoding="utf-8", newline="\n")
        proved = plan.prove(staging, told)
        files = [plan.fixture, *plan.texts]
        with alone(folder):
            for file in plan.lines:
                gathered = _with_lines_there(folder / file, plan.texts[file], plan.fixture, overwrite)
                (staging / file).write_bytes(gathered)
            unchanged = publish(staging, folder, files, overwrite, plan.lines)
    return Exported(
        files=tuple(folder / file for file in files),
        unchanged=tuple(folder / file for file in unchanged),
        style=style,
        path=loss.path.name,
        variant=loss.variant.name,
        risk=fixture.risk,
        p_clean=fixture.p_clean,
        repeats=fixture.repeats,
        missing=fixture.missing,
        orders=orders_words(loss),
        why=reason_of(fixture),
        proved=proved,
    )


def ops_of(style: str) -> tuple[str, ...]:
    """The ops that tests of a style can call; none where a style calls no op."""
    return tuple(one for one in CALLABLE if one.startswith(f"{style}."))


def make_fixture(loss: Losing) -> Fixture:
    """The fixture of a row on a path that loses some of its winners."""
    case = loss.case
    scores = case.row.valid.detach().cpu().clone()
    call = anonymous(replace(case.row.call, k=case.k, op=case.op, release=case.release, device=case.device))
    if case.k > scores.numel():  # a capture's k is at most its row's width
        call = replace(call, width=call.width or case.row.scores.numel())
    row = Row(scores, scores.numel(), call=call)
    return Fixture(
        row=row,
        k=case.k,
        expected=expected_values(scores, case.k),
        path=loss.path.name,
        variant=loss.variant.name,
        risk=loss.risk.level or "",
        p_clean=loss.p_clean,
        repeats=loss.repeats,
        order=loss.order,
        missing=loss.verdict.missing,
        start=case.row.start,
        digest=row.digest,
    )


def _test(loss: Losing, fixture: Fixture, stem: str, style: str, op: str | None, selector: str | None) -> _Plan:
    file = stem + _ENDING
    if style == "pytest":
        text, rows = render_pytest(loss, fixture, file, selector, stem), None
        test = f"test_{slug(stem)}.py"
    else:
        launch = find_launch(loss.case, loss.path, chosen_op(loss.case, loss.path, op, ops_of(style)))
        text, rows = render_op(loss, fixture, file, launch, stem), 1
        test = f"test_{slug(stem)}_{slug(launch.op)}.py"
    return _Plan(file, {test: text}, lambda folder, told: prove(loss, run_source(text, folder / test, rows), told=told))


def _trace(loss: Losing, fixture: Fixture, stem: str) -> _Plan:
    name = trace.definition_name(fixture)
    blob = f"blob/workloads/{trace.OP_TYPE}/{name}/{stem}{_ENDING}"
    lines = f"workloads/{trace.OP_TYPE}/{name}.jsonl"
    texts = {
        f"definitions/{trace.OP_TYPE}/{name}.json": trace.definition(fixture),
        lines: trace.workload(fixture, blob),
    }

    def proved(folder: Path, told: Told | None) -> tuple[str, ...]:
        names: dict[str, object] = {}
        exec(trace.reference_source(fixture), names)
        row = fixture.row

        def test(select: Selector) -> None:
            verdict = judge(row.valid, loss.case.exact.indices.cpu(), select().cpu(), UNWRITTEN)
            assert verdict.kind not in LOST, f"{verdict.missing} missing"

        test(lambda: names["run"](row.scores[None], torch.tensor([row.length]))[0])  # type: ignore[operator]
        return ("the definition's reference loses nothing", *prove(loss, test, loss.repeats, told))

    return _Plan(blob, texts, proved, lines=(lines,))


def _with_lines_there(target: Path, line: str, blob: str, overwrite: bool) -> bytes:
    """The lines of a file, byte for byte, and at their end this one, in place of one on the same fixture.

    Args:
        blob: the fixture's path in the line.

    Raises:
        UsageError: no file of lines, or one with another line on the same fixture, which is not to be replaced.
    """
    name = shown(target)
    if not os.path.lexists(target):
        return line.encode()
    check_target(target, name, overwrite=True, cure=CURE)
    there = target.read_bytes()
    try:
        there.decode()
    except ValueError:
        raise UsageError(f"{name}: not a file of JSON lines; choose another folder") from None
    lines = there.split(b"\n")
    if line.encode().rstrip() in (one.rstrip() for one in lines):
        return there
    kept = [one for one in lines if not trace.is_workload_of(one, blob)]
    if len(kept) < len(lines) and not overwrite:
        raise UsageError(f"{name}: another workload of {blob} is there already; choose another name or {CURE}")
    before = b"\n".join(kept)
    return before + (b"\n" if before and not before.endswith(b"\n") else b"") + line.encode()
