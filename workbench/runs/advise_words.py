"""What is said of advice, the same on the command line, in the app and in notebooks."""

from __future__ import annotations

from workbench.analysis.risk import NOT_MODELLED
from workbench.paths.costs import MEASURED_ON, Cost
from workbench.runs.remedy import Advice, Counted, Kind, Part, Remedy
from workbench.words import few, listed

NOT_MEASURED = "not measured"


def advice_sentence(advice: Advice) -> str:
    """How the rows stand, and what to do first."""
    if not advice.parts:
        return "There is no row to advise on."
    return " ".join(part_sentence(part) for part in advice.parts)


def part_sentence(part: Part) -> str:
    """The same of the rows of one op."""
    return f"{_now(part)} {_first(part)}".strip()


def _now(part: Part) -> str:
    now, rows = part.now, part.now.rows
    where = _where(part)
    surely = now.at_risk + now.certain
    if surely:
        also = f"; {_rows(now.depends)} more may: {_depends(part)}" if now.depends else ""
        text = f"{_of(surely, rows)} can lose winners on {where}{also}."
        if now.certain == surely:
            text = f"{_of(surely, rows)} {_lose(surely)} winners on {where} under every arrival order{also}."
    elif now.depends:
        text = (
            f"{_of(now.depends, rows)} may lose winners{'' if part.op is None else f' on {where}'}: {_depends(part)}."
        )
    elif now.safe == rows:
        text = f"{'The row loses' if rows == 1 else f'None of the {rows} rows loses'} no winner on {where}."
        text = text if rows == 1 else f"None of the {rows} rows can lose a winner on {where}."
    else:
        text = f"{_of(now.refused + now.unknown, rows)} cannot be judged on {where}."
    if part.lost:
        text += f" {_recorded(part)}"
    return text


def _recorded(part: Part) -> str:
    if part.recorded == 1:
        return "Production lost winners in the one row that was recorded."
    return f"Production lost winners in {part.lost} of the {part.recorded} recorded rows."


def _depends(part: Part) -> str:
    """What decides and is not known, and for how much of what it may be winners are kept or can be lost."""
    what = f"it depends on {listed([need.partition(',')[0] for need in part.needs]) or 'what is not known'}"
    kind: Kind = "op" if part.op is None else "release"
    tried = [one for one in part.remedies if one.kind == kind]
    of = sum(len(one.releases) for one in tried)
    if not of or (part.op is not None and part.releases):
        return what
    kept = sum(len(one.releases) for one in tried if one.keeps)
    able = sum(len(one.releases) for one in tried if one.rows.losing)
    rest = of - kept - able
    ops = len({one.what.partition(" in ")[0] for one in tried})
    whose = f"{of} pairs of op and release ({ops} ops)" if part.op is None else f"its {of} releases"
    winners = "every winner" if part.now.rows == 1 else "every winner of all rows"
    told = [f"{kept or 'none'} {'keeps' if kept < 2 else 'keep'} {winners}", f"{able or 'none'} can lose some"]
    told += [f"{rest} {'refuses rows or is' if rest == 1 else 'refuse rows or are'} not judged"] if rest else []
    return f"{what}. Of {whose}, {listed(told)}"


def _first(part: Part) -> str:
    if not part.now.losing:
        return "" if part.now.safe == part.now.rows else _needs(part)
    keeping = part.keeping
    if not keeping:
        best = next(iter(part.remedies), None)
        if best is None or best.state != "helps":
            return f"No change that is known here keeps every winner.{_needs(part)}"
        return f"No change that is known here keeps every winner; {best.what} keeps those of {kept_text(best.rows)}."
    first = keeping[0]
    many = "One change keeps" if len(keeping) == 1 else f"{len(keeping)} changes keep"
    return f"{many} every winner; first: {first.what} ({evidence_text(first)})."


def _needs(part: Part) -> str:
    return f" To tell more, give {listed(part.needs)}." if part.needs else ""


def _where(part: Part) -> str:
    if part.op is None:
        return "the paths that ops take, the op not being known"
    said = (
        part.op,
        few(part.releases) if part.releases else "an unknown release",
        few(part.devices) if part.devices else "an unknown device",
    )
    return ", ".join(said)


def _of(count: int, rows: int) -> str:
    if rows == 1:
        return "The row"
    return f"All {rows} rows" if count == rows else f"{count} of {rows} rows"


def _lose(count: int) -> str:
    return "lose" if count > 1 else "loses"


def _rows(count: int) -> str:
    return f"{count} row{'' if count == 1 else 's'}"


def kept_text(rows: Counted) -> str:
    """Rows that keep every winner: ``31 of 33 rows``."""
    return f"{rows.safe} of {_rows(rows.rows)}"


def stands_text(rows: Counted) -> str:
    """How rows stand that are not safe: ``2 at risk, 1 refused``; empty where all are."""
    return ", ".join(f"{count} {outcome}" for outcome, count in rows.named.items() if outcome != "safe")


def evidence_text(remedy: Remedy) -> str:
    """What a remedy rests on, and that paths which rows take then are not judged: ``observed, not modelled``."""
    if not remedy.unmodelled:
        return remedy.evidence
    if len(remedy.unmodelled) < len(remedy.paths):
        return f"{remedy.evidence}, not all modelled"
    return NOT_MODELLED if remedy.evidence == "model" else f"{remedy.evidence}, {NOT_MODELLED}"


def cost_text(cost: Cost | None) -> str:
    """A ratio of times: ``×0.47 to ×0.51``."""
    if cost is None:
        return NOT_MEASURED
    least, most = f"×{cost.least:.2f}", f"×{cost.most:.2f}"
    return least if least == most else f"{least} to {most}"


def cost_sentence(cost: Cost | None) -> str:
    """What a ratio is of."""
    if cost is None:
        return "What it costs was not measured."
    shapes = few([f"{rows} of {length}" for rows, length in cost.shapes])
    return (
        f"{cost.ops[0]} took {cost_text(cost)} the time of {cost.ops[1]}, medians on an {MEASURED_ON} at {shapes} "
        "scores, the nearest that were measured."
    )


def remedy_sentence(remedy: Remedy) -> str:
    """A remedy in full: what it does for the rows, and what must be known."""
    stands = stands_text(remedy.rows)
    kept = f"{remedy.what}: {remedy.state} ({kept_text(remedy.rows)}{f'; {stands}' if stands else ''})."
    rest = [f"{text[:1].upper()}{text[1:]}." for text in (remedy.how, *remedy.caveats, *remedy.refusals) if text]
    return " ".join([kept, *rest])
