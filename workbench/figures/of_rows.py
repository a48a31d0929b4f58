"""Rows, calls, captures, and what is worked out of one row, in parts."""

from __future__ import annotations

import torch

from workbench.analysis.repeatability import Repeatability
from workbench.analysis.risk import Risk
from workbench.analysis.verdict import Verdict
from workbench.capture import Call, Capture, Row, Token
from workbench.capture.about import CaptureInfo
from workbench.capture.row import SCORE_DTYPES
from workbench.figures import palette
from workbench.figures.parts import LINES, Cell, Folded, Note, Part, Said, Table, facts, first_lines
from workbench.figures.tables import outlook_texts
from workbench.figures.words import count, plural, value
from workbench.paths.routing import Route
from workbench.paths.selection import Selection
from workbench.runs.law_words import law_notes
from workbench.runs.sentence import risk_words

_MET = {True: "✓ met", False: "✗ not met", None: "? unknown"}
CALL_FIELDS = (
    *("k", "op", "release", "device", "model", "request", "layer", "step", "rank"),
    *("rows", "width", "stride", "next_n", "max_seq_len"),
)


def call_parts(call: Call) -> list[Part]:
    """A call: what is known of it."""
    return [facts(f"Call {call.index}", call_facts(call))]


def call_facts(call: Call) -> dict[str, Cell]:
    """What a capture may say of a call; ``None`` where it does not."""
    return {name: getattr(call, name) for name in CALL_FIELDS}


def row_parts(row: Row) -> list[Part]:
    """A row: what it holds, and its call."""
    name = f"{row.capture or 'A row in memory'}, row {row.index}" if row.capture else "A row in memory"
    said = f"{name}: {plural(row.length, 'score')}, {row.dtype}"
    said += f", k {count(row.k)}" if row.k is not None else ", k unknown"
    return [Said(f"{said}."), facts("", row_facts(row)), Folded("Its call", (facts("", call_facts(row.call)),))]


def row_facts(row: Row) -> dict[str, Cell]:
    """Numbers of a row."""
    valid = row.valid
    numbers = valid[torch.isfinite(valid)].float() if valid.numel() else valid.float()
    told: dict[str, Cell] = {
        "length": count(row.length) + (" (outside the row)" if row.outside else ""),
        "start": row.start,
        "greatest": value(float(numbers.max()), 9) if numbers.numel() else "–",
        "least": value(float(numbers.min()), 9) if numbers.numel() else "–",
    }
    for name, many in (
        ("NaN", torch.isnan(valid)),
        ("+inf", torch.isposinf(valid)),
        ("−inf", torch.isneginf(valid)),
    ):
        told[name] = int(many.sum())
    told["recorded"] = "no" if row.indices is None else row.mapped.returned if row.mapped else "yes"
    return {**told, "digest": row.digest}


def capture_parts(capture: Capture) -> list[Part]:
    """A capture: what it is, and its first rows, without reading a score."""
    said, *notes, told = info_parts(capture.info, capture.name)
    lines = [(at, capture.call_of(at)) for at in range(min(len(capture), LINES))]
    calls = {number: capture.call(number) for _, number in lines}
    named = [
        name
        for name in ("layer", "step", "rank", "k")
        if any(getattr(call, name) is not None for call in calls.values())
    ]
    rows = [
        (at, number, *(getattr(calls[number], name) for name in named), int(capture.lengths[at]))
        for at, number in lines
    ]
    columns = [(name, "number") for name in ("row", "call", *named, "length")]
    table = first_lines("Rows", columns, rows, len(capture), "row")  # type: ignore[arg-type]
    source = [Folded("How it was made", (Note(capture.info.source),))] if capture.info.source else []
    return [said, *notes, told, table, *source]


def info_parts(info: CaptureInfo, name: str = "") -> list[Part]:
    """What is known of a capture without reading a score: the sentence, its notes, the numbers.

    Args:
        name: what it is called, its path where not given.
    """
    said = f"{name or info.path}: {plural(info.rows, 'row')} of {plural(info.calls, 'call')}, {info.dtype}."
    told: dict[str, Cell] = {
        "format": info.format,
        "layout": info.layout,
        "length": f"{count(info.length_min)} to {count(info.length_max)}",
        "recorded": "yes" if info.recorded else "no",
        **info.strings,
    }
    if info.tokens:
        told["tokens"] = info.tokens
    return [Said(said), *(Note(note) for note in info.notes), facts("", told)]


def token_parts(token: Token) -> list[Part]:
    """What one decoding step chose, and from what."""
    chosen = "a token that is not recorded" if token.token is None else f"token {token.token}"
    told: dict[str, Cell] = {"step": token.step, "token": token.token}
    logits = token.logits
    told["logits"] = "not recorded" if logits is None else f"{count(logits.numel())}, {SCORE_DTYPES[logits.dtype]}"
    if logits is not None:
        numbers = logits.float()
        told["greatest"] = f"{value(float(numbers.max()), 9)}, of token {int(numbers.argmax())}"
        if token.token is not None:
            told["of the token chosen"] = value(float(numbers[token.token]), 9)
    return [Said(f"Step {token.step} chose {chosen}."), facts("", told)]


def selection_parts(selection: Selection) -> list[Part]:
    """A selection: its slots, and what the selector's inside saw."""
    slots = selection.indices
    filled = int((slots >= 0).sum())
    first = ", ".join(map(str, slots[:12].tolist())) + (", …" if slots.numel() > 12 else "")
    parts: list[Part] = [Said(f"{_indices(filled)} in {plural(slots.numel(), 'slot')}: {first}")]
    seen = selection.telemetry
    if seen is not None:
        told: dict[str, Cell] = {
            name.replace("_", " "): getattr(seen, name)
            for name in ("key_bits", "threshold_bin", "above", "need", "population", "capacity", "stored")
        }
        told["dropped"] = int(seen.dropped.numel())
        told |= {"row passes": seen.cost.row_passes, "bytes read": seen.cost.bytes_read, "staged": seen.cost.staged}
        parts.append(facts("What it saw", told))
    return parts


def _indices(number: int) -> str:
    return f"{count(number)} {'index' if number == 1 else 'indices'}"


def verdict_parts(verdict: Verdict) -> list[Part]:
    """A verdict and its numbers."""
    told: dict[str, Cell] = {
        "verdict": verdict.kind,
        "missing": f"{count(verdict.missing)} of {count(verdict.wanted)}",
        "recall": f"{verdict.recall:.6g}",
        "greatest gap": None if verdict.max_score_gap is None else value(verdict.max_score_gap, 6),
    }
    if verdict.max_score_gap is None:
        told["greatest gap"] = "–"
    faults = ("duplicates", "out_of_range", "unwritten", "short")
    told |= {name.replace("_", " "): getattr(verdict, name) for name in faults if getattr(verdict, name)}
    text = f"{verdict.kind}: {count(verdict.missing)} of {count(verdict.wanted)} winners are missing."
    return [Said(text, palette.VERDICTS.get(verdict.kind, palette.REFUSED_TEXT)), facts("", told)]


def risk_parts(risk: Risk) -> list[Part]:
    """The risk of a row on a path."""
    if risk.refused:
        why = "; ".join(risk.refused)
        return [Said(f"{risk.path} ({risk.variant}) does not take the row: {why}."), *_finding(risk)]
    said = (
        risk_words(risk)
        if risk.level
        else f"{risk.path} ({risk.variant}): unknown{', ' if risk.note else ''}{risk.note}"
    )
    return [Said(f"{said}.", palette.risk_colour(risk.level)), *_finding(risk), risk_table([risk])]


def _finding(risk: Risk) -> list[Part]:
    return [Note(f"{risk.finding[:1].upper()}{risk.finding[1:]}.")] if risk.finding else []


def risk_table(risks: list[Risk], title: str = "", reached: str | None = None) -> Table:
    """Risks that are told, one a line; ▸ marks the path that the op sends the row to."""
    names = ("population", "takes", "need")
    columns = [("path", "word"), ("risk", "word"), *((name, "number") for name in names)]
    columns += [("p clean", "number"), ("mean lost", "number"), ("least – most", "number")]
    rows = tuple(
        (
            f"{'▸ ' if risk.path == reached else ''}{risk.path}"
            + (f" ({risk.variant})" if risk.variant != "stock" else ""),
            risk.told,
            *(risk.population, risk.room, risk.need),
            *outlook_texts(risk),
        )
        for risk in risks
    )
    laws = law_notes((risk.path, risk.level, risk.clean_at_most) for risk in risks)
    return Table(title, tuple(columns), rows, "; ".join(laws))  # type: ignore[arg-type]


def refused_table(risks: list[Risk]) -> Table:
    """The paths that do not take a row, and why."""
    rows = tuple((risk.path, "; ".join(risk.refused)) for risk in risks if risk.refused)
    return Table("", (("path", "word"), ("why", "text")), rows)


def agreement_colour(kind: str) -> str:
    """The colour of how much calls agree."""
    return palette.SAFE_TEXT if kind == "same" else palette.STATE_TEXTS[kind]


def repeatability_parts(found: Repeatability) -> list[Part]:
    """How much many calls on one row agree, and the indices that come and go."""
    sets = plural(found.sets, "index set")
    said = f"{plural(found.calls, 'call')}: {found.kind}; {sets}, {_indices(found.steady)} in all of them."
    told: dict[str, Cell] = {
        "orders of slots": found.orders,
        "index sets": found.sets,
        "multisets of values": found.values,
        "calls with the commonest set": found.commonest,
        "k-th best score": "–" if found.cut is None else value(found.cut, 9),
    }
    columns = (("index", "number"), ("score", "number"), ("gap", "number"), ("held by", "number"), ("share", "number"))
    rows = [
        (one.index, value(one.score, 9), value(one.gap, 3), one.held, f"{one.share:.1%}")
        for one in found.members[:LINES]
    ]
    table = first_lines("Indices that come and go", columns, rows, len(found.members), "line")  # type: ignore[arg-type]
    parts: list[Part] = [Said(said, agreement_colour(found.kind)), facts("", told)]
    return [*parts, table] if rows else parts


def route_parts(route: Route) -> list[Part]:
    """Where an op sends a row, and every condition that decided it."""
    if route.path is not None:
        end = f"{route.path} ({route.variant})"
    elif route.refused:
        end = f"refused, {route.refused}"
    else:
        end = f"unknown, it depends on {', '.join(route.unknown) or 'what is not known'}"
    said = f"{route.op} of {route.release} on {route.device} → {end}"
    rows = tuple((_MET[one.met], one.text) for one in route.reasons)
    table = Table("Conditions, in the order they were tested", (("met", "word"), ("condition", "text")), rows)
    return [Said(said, palette.TEXT if route.path is None else palette.THRESHOLD), table]
