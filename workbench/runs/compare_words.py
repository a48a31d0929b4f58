"""What a row on many paths amounts to in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from workbench.analysis.risk import NOT_MODELLED
from workbench.runs.compare import BASELINES, NOT_CALLED, SYSTEMS, UNROUTED, Compared
from workbench.runs.matrix import MODEL, Cell
from workbench.runs.matrix_words import cell_sentence, cells_sentence
from workbench.runs.run import STOCK
from workbench.runs.sentence import not_modelled_words
from workbench.words import few, listed


def compared_sentence(found: Compared, who: str = "paths") -> str:
    """What became of the row. ``who``: which paths were looked at, as in ``vllm paths``."""
    if not found.cells:
        return f"There is nothing to show of the {who}."
    match found.axis:
        case "variants":
            return _sent(found) + _of_variants(found, who)
        case "engines":
            return _sent(found) + _of_engines(found, who)
    return _of_releases(found)


def spot_sentence(found: Compared, place: tuple[str, str]) -> str:
    """What became of the row in one cell, and what that rests on."""
    cell = found.cells[place]
    return cell_sentence(cell, found.of, _who(cell, found.axis == "releases"))


def _who(cell: Cell, in_release: bool) -> str:
    """What a cell is of: ``vllm.filtered (stock)``, ``vllm.persistent_topk of vllm==0.26.0``, ``The cuda engine``."""
    if in_release:
        return f"{cell.op} of {cell.release}" + (f" ({cell.path}, {cell.variant})" if cell.path else "")
    if cell.engine == MODEL:
        return f"{cell.path} ({cell.variant})"
    if cell.engine == "recorded":
        return "What production returned"
    where = f" on {cell.path} ({cell.variant})" if cell.path else ""
    return f"The {cell.engine} engine{where}"


def _of_releases(found: Compared) -> str:
    """The row's own op over its releases, then what the newest release of the others makes of the row."""
    texts = []
    own = found.at(found.reached) if found.reached is not None else {}
    if own:
        texts.append(cells_sentence(list(own.values()), f"Through {found.reached} the row"))
    newest = {line: list(found.at(line).values())[-1] for line in found.lines if line != found.reached}
    taken = [line for line, cell in newest.items() if cell.state not in ("refused", "unknown")]
    other = "other " if own else ""
    if not taken:
        unknown = {cell.unknown for cell in newest.values() if cell.state == "unknown"}
        why = f": {unknown.pop()}" if len(unknown) == 1 else ""
        verb = "was judged" if any(cell.state == "unknown" for cell in newest.values()) else "takes it"
        texts += [f"None of the {len(newest)} {other}ops {verb}{why}."] if newest else []
        return " ".join(texts)
    losing = [line for line in taken if newest[line].loses]
    of = f"the {len(taken)} {other}op{'' if len(taken) == 1 else 's'} that take{'s' if len(taken) == 1 else ''} it"
    if losing:
        verb = _verb([newest[line] for line in losing])
        texts.append(
            f"Of {of} in {'its' if len(taken) == 1 else 'their'} newest release, {len(losing)} {verb}: "
            f"{_names(losing)}."
        )
    else:
        texts.append(f"None of {of} loses anything in its newest release.")
    return " ".join(texts)


def _sent(found: Compared) -> str:
    """Which path the row reaches, before what is said of many; empty where that is not known or a line is all."""
    if found.reached is None or len(found.lines) < 2:
        return ""
    return f"The op sends the row to {found.reached}. "


def _of_variants(found: Compared, who: str) -> str:
    lines = [line for line in found.lines if line != UNROUTED]
    own = {line: found.cells[line, STOCK] for line in lines if (line, STOCK) in found.cells}
    judged, rest = _judged(own)
    if not judged:
        verb = "is judged on" if rest else "takes"
        return f"None of the {len(lines)} {who} {verb} this row as stock; each says why.{rest}"
    losing = [line for line in judged if own[line].loses]
    of = _of_judged(found, len(judged), who)
    if not losing:
        other = [line for line in judged if any(cell.loses for cell in found.at(line).values())]
        text = f"As stock, none of the {of} can lose winners{_calls(own.values())}"
        also = f"; in another variant {_names(other)} can." if other else ", nor in any other variant."
        return f"{text}{also}{rest}"
    text = f"As stock, {len(losing)} of the {of} {_verb([own[line] for line in losing])}{_calls(own.values())}: "
    text += f"{_names(losing)}."
    kept = [line for line in losing if any(cell.state == "clean" for cell in found.at(line).values())]
    return f"{text} {_kept(losing, kept)}{rest}"


def _judged(own: Mapping[str, Cell]) -> tuple[list[str], str]:
    """The judged lines among those that take the row, as ``inspect`` counts them, and a sentence on the others: what no
    model runs, and baselines, which no serving engine calls; where baselines alone are shown, they are what is counted.
    """
    taken = [line for line, cell in own.items() if cell.state != "refused"]
    unmodelled = [line for line in taken if own[line].unknown.startswith(NOT_MODELLED)]
    judged = [line for line in taken if line not in unmodelled]
    baselines = [line for line in judged if line.split(".")[0] in SYSTEMS[BASELINES]]
    served = [line for line in judged if line not in baselines]
    rest = ""
    if served and baselines:
        losing = [line for line in baselines if own[line].loses]
        verb = _verb([own[line] for line in losing]) if losing else "none can lose winners"
        rest += f" Of {len(baselines)} baseline{'s' if len(baselines) > 1 else ''} beside them, "
        rest += f"{_names(losing)} {verb}." if losing else f"{verb}."
    if unmodelled:
        rest += not_modelled_words(unmodelled)
    return served or baselines, rest


def _of_judged(found: Compared, many: int, who: str) -> str:
    """``inspect`` judges every path only where it is not known which one the row reaches; else they are looked at."""
    kind = "judged" if found.reached is None else "modelled"
    return f"{many} {kind} {who} that take{'s' if many == 1 else ''} this row"


def _kept(losing: Sequence[str], kept: Sequence[str]) -> str:
    """Which of the paths that lose have a variant that does not."""
    if not kept:
        return f"{'It has no' if len(losing) == 1 else 'None of them has a'} variant that loses nothing."
    if len(kept) == len(losing):
        return f"{'It' if len(losing) == 1 else 'Each of them'} has a variant that loses nothing."
    rest = [line for line in losing if line not in kept]
    have = "has" if len(kept) == 1 else "have"
    return f"{len(kept)} of them {have} a variant that loses nothing; not {_names(rest)}."


def _of_engines(found: Compared, who: str) -> str:
    texts = []
    models = {line: cell for (line, column), cell in found.cells.items() if column == MODEL}
    judged, rest = _judged(models)
    if judged:
        losing = [models[line] for line in judged if models[line].loses]
        how = _calls([models[line] for line in judged]) or ", by the analysis"
        of = _of_judged(found, len(judged), who)
        if losing:
            names = _names([str(cell.path) for cell in losing])
            texts.append(f"{len(losing)} of the {of} {_verb(losing)}{how}: {names}.{rest}")
        else:
            texts.append(f"None of the {of} can lose winners{how}.{rest}")
    elif models:
        texts.append(f"None of the {len(models)} {who} {'is judged on' if rest else 'takes'} this row.{rest}")
    for engine in found.columns:
        places = [place for place in found.cells if place[1] == engine]
        if engine != MODEL:
            texts.append(_of_engine(found, engine, places))
    return " ".join(filter(None, texts))


def _of_engine(found: Compared, engine: str, places: Sequence[tuple[str, str]]) -> str:
    """What an engine besides the model made of the row: of one path in full, of several how many lost."""
    if len(places) == 1 and found.cells[places[0]].unknown != NOT_CALLED:
        return spot_sentence(found, places[0])
    called = [found.cells[place] for place in places if found.cells[place].calls or found.cells[place].fault]
    losing = [cell for cell in called if cell.loses]
    if not called:
        return f"The {engine} engine was not called yet."
    names = _names([str(cell.path) for cell in losing])
    lost = f"{len(losing)} {_verb(losing)}: {names}" if losing else "none lost winners"
    return f"Of {len(called)} kernel{'' if len(called) == 1 else 's'} that the {engine} engine called, {lost}."


def _verb(cells: Sequence[Cell]) -> str:
    states = {cell.state for cell in cells}
    one = len(cells) == 1
    found = [f"lose{'s' if one else ''} winners"] if "loses" in states else []
    found += ["can lose winners"] if "can lose" in states else []
    found += [f"fault{'s' if one else ''}"] if "fault" in states else []
    return listed(found, "or")


def _calls(cells: Iterable[Cell]) -> str:
    made = [cell.calls for cell in cells if cell.calls]
    models = f"{len(made)} model{'' if len(made) == 1 else 's'}"
    return f", {max(made)} calls each by {models}" if made else ""


def _names(lines: Sequence[str]) -> str:
    return few(lines, 4)
