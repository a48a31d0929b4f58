"""``advise``: what would keep the winners of rows, held against every row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from workbench.arguments import checked
from workbench.capture.row import Row
from workbench.paths.catalog import get_path
from workbench.paths.conditions import Setup
from workbench.paths.costs import MEASURED_ON
from workbench.paths.devices import get_device
from workbench.paths.ops import OPS, get_op
from workbench.paths.releases import parse_release
from workbench.paths.spans import DTYPES, Asked, Span, spans_of
from workbench.paths.spec import Evidence as Rests
from workbench.runs.advising import Standing, Tally
from workbench.runs.case import Case
from workbench.runs.changes import Change, repairs_of
from workbench.runs.remedy import EVIDENCE, KINDS, STATES, Advice, Counted, Evidence, Part, Remedy, State
from workbench.runs.taken import Where
from workbench.words import few, listed

FEW_TOLD = 2  # sentences on the lengths of other rows
HOLDS = (True, False, None)  # rows of every length, these alone, not known: in this order
LONGEST = 1 << 20  # lengths that are asked about where the call does not say how wide it is


@checked
def advise(
    rows: Row | Iterable[Row],
    op: str | None = None,
    release: str | None = None,
    device: str | None = None,
    k: int | None = None,
    *,
    setup: Setup | None = None,
    progress: Callable[[int], None] | None = None,
) -> Advice:
    """What would keep every winner of these rows: other releases, backends, ops, repairs, calls and inputs.

    Each is held against every row by the risk over every arrival order; a row is read once.

    Args:
        rows: a capture, rows, or one row. op, release, device, k: those of the calls where not given.
        setup: how the engine was set up, of an op that stands for an engine's own choice.
        progress: called with the number of rows done.

    Raises:
        UsageError: an unknown name, or a setup that the op does not depend on.
        CaptureError: a row that cannot be read, or whose k is not known.
    """
    advising = Advising(op, release, device, k, setup)
    for done, row in enumerate([rows] if isinstance(rows, Row) else rows, 1):
        advising.add(row)
        if progress is not None:
            progress(done)
    return advising.advice()


class Advising:
    """Advice in the making: rows are added one by one, from as many captures as there are.

    Args: as for ``advise``.

    Raises:
        UsageError: an unknown name.
    """

    def __init__(
        self,
        op: str | None = None,
        release: str | None = None,
        device: str | None = None,
        k: int | None = None,
        setup: Setup | None = None,
    ) -> None:
        known = None if op is None else get_op(op)
        if release is not None:
            release = str(parse_release(release, known.package if known else None))
        if device is not None:
            device = get_device(device).name
        self._given = (release, device, k, setup)
        self._op, self._ops = op, frozenset(one.name for one in OPS)
        self._parts: dict[str | None, Standing] = {}

    def add(self, row: Row, known: Case | None = None) -> None:
        """Judge a row, as it is and under every change. ``known``: the row, inspected; what it knows is shared.

        Raises:
            CaptureError: its k is not known. UsageError: a setup that its op does not depend on.
        """
        op = row.call.op if self._op is None else self._op
        op = op if op in self._ops else None
        if op not in self._parts:
            self._parts[op] = Standing(op, *self._given)
        self._parts[op].add(row, known)

    def advice(self) -> Advice:
        """What is known of the rows so far."""
        return Advice(tuple(_part(one) for one in self._parts.values()))


def _part(standing: Standing) -> Part:
    now = standing.now
    own = [release for release in standing.releases if _is_known(release)]
    remedies = [
        _remedy(standing, changes, tally, own)
        for changes, tally in standing.grouped()
        if _is_told(standing, changes, tally, own)
    ]
    needs = [*standing.needs, *now.needs]
    return Part(
        op=standing.op,
        releases=tuple(standing.releases),
        devices=tuple(standing.devices),
        now=now.counted,
        paths=_paths(now),
        recorded=standing.recorded,
        lost=standing.lost,
        needs=tuple(dict.fromkeys(needs)),
        notes=_notes(standing, remedies),
        remedies=tuple(sorted(_on_their_own(remedies), key=_order)),
    )


def _on_their_own(remedies: Sequence[Remedy]) -> list[Remedy]:
    """Without options and ops of releases that keep every winner by themselves, at every length."""
    enough = {
        release for one in remedies if one.kind == "release" and one.keeps and one.lossless for release in one.releases
    }
    return [one for one in remedies if one.kind not in ("backend", "op") or not set(one.releases) <= enough]


def _notes(standing: Standing, remedies: Sequence[Remedy]) -> tuple[str, ...]:
    devices = [name for name in standing.devices if name.lower() != MEASURED_ON.lower()]
    notes = list(standing.notes)
    if devices and any(remedy.evidence == "observed" for remedy in remedies):
        notes.append(f"what was observed was observed on an {MEASURED_ON}; these rows are of {listed(devices)}")
    if any(remedy.kind == "backend" for remedy in remedies):
        notes.append("what an engine's options lead to is read in its sources, not observed")
    return tuple(notes)


def _is_known(release: str) -> bool:
    return any(release in op.package_releases for op in OPS)


def _is_told(standing: Standing, changes: Sequence[Change], tally: Tally, own: Sequence[str]) -> bool:
    """Whether a change is one: it does something to a row, and is not what the rows have already."""
    change = changes[0]
    if not tally.touched:
        return change.kind == "input" and change.k is None
    if change.kind == "release":
        return set(own) != {one.release for one in changes}
    if change.rows is not None:
        return change.rows[0] > 1 or (changes[-1].rows or change.rows)[1] is not None
    if change.kind not in ("backend", "op") or standing.op is None:
        return True
    if set(tally.ops) == {standing.op}:
        return False
    if change.kind == "op" and any(_has_option(standing, release, tally) for release in own):
        return False
    tried = {one.release for one in standing.changes if one.family == change.family}
    return not tried & set(own) or bool({one.release for one in changes} & set(own))


def _has_option(standing: Standing, release: str, tally: Tally) -> bool:
    """Whether an option of a release leads where an op would."""
    return any(
        change.kind == "backend" and change.release == release and set(other.ops) == set(tally.ops)
        for change, other in zip(standing.changes, standing.tallies, strict=True)
    )


def _remedy(standing: Standing, changes: Sequence[Change], tally: Tally, own: Sequence[str]) -> Remedy:
    change, counted = changes[0], tally.counted
    releases = tuple(one.release for one in changes if one.release)
    evidence = _evidence(change, tally)
    state = _state(counted, standing.now.counted)
    lossless, other_rows = _of_other_rows(standing, changes)
    unmodelled = _unmodelled(tally) if counted.safe else []
    if unmodelled and lossless and evidence != "observed":
        lossless = None
    caveats = [*change.notes, *unmodelled, *(other_rows if state in ("keeps every winner", "helps") else ())]
    if not tally.touched:
        caveats.append("it changes nothing: " + _why_nothing(standing, change))
    return Remedy(
        kind=change.kind,
        what=_what(changes, own, releases),
        how=_how(changes),
        given=_given(changes),
        rows=counted,
        state=state,
        evidence=evidence,
        releases=releases,
        paths=_paths(tally),
        lossless=lossless,
        cost=tally.cost,
        caveats=tuple(caveats),
        refusals=tuple(tally.reasons),
        first_bad=tally.first_bad,
    )


def _unmodelled(tally: Tally) -> list[str]:
    """The paths that rows take then and that no model runs, with what is known of them instead."""
    found: dict[str, list[str]] = {}
    for path, variant in tally.paths:
        one = get_path(path).variant(variant)
        if not one.modelled:
            found.setdefault(one.note, []).append(path)
    return [
        f"the path{'s' if len(names) > 1 else ''} {few(names)} {'are' if len(names) > 1 else 'is'} not modelled "
        f"({note})"
        for note, names in found.items()
    ]


def _why_nothing(standing: Standing, change: Change) -> str:
    if change.alteration.startswith("scores of a magnitude"):
        return "no finite score is beyond 65504"
    return "no row of these selects anything"


def _what(changes: Sequence[Change], own: Sequence[str], releases: Sequence[str]) -> str:
    change = changes[0]
    if change.rows is not None:
        return _rows_text(change.rows[0], changes[-1].rows)
    if change.kind == "release":
        return releases_text(releases)
    if not releases or set(own) & set(releases):
        return change.what
    return f"{change.what} in {releases_text(releases)}"


def releases_text(releases: Sequence[str]) -> str:
    """Releases of one package without gaps: ``vllm==0.24.0 to 0.32.0``."""
    if not releases:
        return ""
    return releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1].partition('==')[2]}"


def _rows_text(least: int, last: tuple[int, int | None] | None) -> str:
    most = last[1] if last is not None else None
    if most is None:
        return f"calls of {least} rows or more"
    return f"calls of at most {most} rows" if least == 1 else f"calls of {least} to {most} rows"


def _how(changes: Sequence[Change]) -> str:
    change = changes[0]
    if change.rows is not None:
        return "the number of rows in a batch decides the path; which option of the engine bounds it is not known here"
    if change.kind == "release":
        newest = changes[-1].release
        return f"install {newest}" if len(changes) == 1 else f"install one of them, as {newest}"
    if change.kind == "input":
        return change.how or "a question to whoever makes the scores; the same winners are selected"
    return change.how


def _given(changes: Sequence[Change]) -> str:
    """The very text to give, where one is known."""
    change = changes[-1]
    if change.kind == "backend":
        return change.what
    installed = change.kind == "release" and "." in change.release.partition("==")[2]  # no commit
    return f"pip install {change.release}" if installed else ""


def _state(then: Counted, now: Counted) -> State:
    if then.safe == then.rows:
        return "keeps every winner"
    if then.safe > now.safe:
        return "helps"
    return "not known" if then.unknown and not (then.losing or then.refused) else "does not help"


def _evidence(change: Change, tally: Tally) -> Evidence:
    """What a remedy rests on: the weakest of what its paths and ops rest on."""
    if change.kind in ("call", "input"):
        return "model"
    if change.kind == "repair":
        return "described"
    if change.kind == "op" and get_op(change.op).evidence is not Rests.OBSERVED:
        return "described"
    package = change.release.partition("==")[0]
    ops = [next((op for op in OPS if op.name == name), None) for name in tally.ops]
    known = all(op is not None and op.evidence is Rests.OBSERVED and op.package == package for op in ops)
    paths = [(get_path(path), variant) for path, variant in tally.paths]
    seen = all(Rests.OBSERVED is path.evidence is path.variant(name).evidence for path, name in paths)
    return "observed" if known and seen and tally.paths else "described"


def _paths(tally: Tally) -> tuple[tuple[str, str, int], ...]:
    return tuple((path, variant, count) for (path, variant), count in tally.paths.most_common())


def _of_other_rows(standing: Standing, changes: Sequence[Change]) -> tuple[bool | None, list[str]]:
    """Whether rows of every length keep their winners under a change, in calls like those of the rows; and which
    lengths go where they may not."""
    change = changes[0]
    if change.kind == "input" or standing.sample is None:
        return (False, []) if change.kind == "input" else (None, [])
    row, k, places = standing.sample
    told: list[str] = []
    answers: list[bool | None] = []
    for one in {change.release: change for change in changes}.values():
        for where in places[:1] if one.release else places:
            found, texts = _spans(one, row, k, where)
            answers.append(found)
            told += texts
    worst = False if False in answers else None if None in answers else True
    return worst, list(dict.fromkeys(told))[:FEW_TOLD]


def _spans(change: Change, row: Row, k: int, where: Where) -> tuple[bool | None, list[str]]:
    call = replace(row.call, k=k if change.k is None else change.k, max_seq_len=None)
    if change.rows is not None:
        call = replace(call, rows=change.rows[1] or change.rows[0])
    op = change.op or where.op
    setup = change.setup if change.op else where.setup
    asked = Asked(op, change.release or where.release, where.device, call, row.dtype, setup)
    assert row.dtype in DTYPES
    spans = spans_of(asked, most=call.width or LONGEST)
    lossy = [span for span in spans if span.path is not None and not _is_lossless(span, change.repair)]
    unknown = [span for span in spans if span.path is None and span.why.startswith("the route depends")]
    told = []
    if lossy:
        named = few([f"lengths {_lengths(span)} take {_repaired(span, change.repair)}" for span in lossy])
        told.append(f"it keeps these rows, not every row: {named}, which can lose others")
    if unknown:
        told.append(few([f"lengths {_lengths(span)}: {span.why}" for span in unknown]))
    goes = any(span.path is not None for span in spans)
    return (False if lossy else None if unknown or not goes else True), told


def _lengths(span: Span) -> str:
    return f"{span.least} to {span.most}" if span.least < span.most else f"{span.least}"


def _repaired(span: Span, repair: str) -> str:
    assert span.path is not None
    has = repair and span.variant == "stock" and any(one.name == repair for one in repairs_of(get_path(span.path)))
    return f"{span.path} ({repair if has else span.variant})"


def _is_lossless(span: Span, repair: str) -> bool:
    assert span.path is not None
    assert span.variant is not None
    path = get_path(span.path)
    if repair and span.variant == "stock":
        for one in repairs_of(path):
            if one.name == repair:
                return one.lossless and (one.up_to is None or span.most <= one.up_to)
    return path.variant(span.variant).lossless


def _order(remedy: Remedy) -> tuple[object, ...]:
    """What keeps every winner first, what was observed before the rest, then the cheapest, then by kind and name."""
    cost = math.inf if remedy.cost is None else remedy.cost.most
    return (
        STATES.index(remedy.state),
        -remedy.rows.safe if remedy.state == "helps" else 0,
        EVIDENCE.index(remedy.evidence),
        cost,
        KINDS.index(remedy.kind),
        HOLDS.index(remedy.lossless),
    )
