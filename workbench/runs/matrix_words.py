"""What a matrix row × release says in sentences, the same on the command line and in the app."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workbench.analysis.risk import LOSING
from workbench.analysis.standing import LOSING_STATES, SURE, Span, State, chance, spans
from workbench.runs.law_words import IN_WARPS, LAW, arrives_together, at_most, law_note, random_order
from workbench.runs.matrix import MODEL, Cell, Matrix
from workbench.words import average, few, listed, probability

MOST_SPANS = 4  # told one after another; beyond that releases are listed by what the row does in them
_LIST = 6  # releases of a list
FOLLOWS = "in the threshold bin scores follow their position"


def matrix_sentence(matrix: Matrix) -> str:
    """What came of a matrix: of its one row, or how many rows lose and from which release on none does."""
    if not matrix.rows or not matrix.releases:
        return "Nothing was judged."
    if len(matrix.rows) == 1:
        return row_sentence(matrix, 0)
    return " ".join(_of_all(matrix, places) for places in matrix.of_package().values())


def row_sentence(matrix: Matrix, at: int) -> str:
    """What became of one row over the releases, each package's in a sentence or two. ``at``: its place."""
    cells, name = matrix.cells[at], matrix.row_name(at)
    found: list[str] = []
    for places in matrix.of_package().values():
        who = "It" if found else f"{name[0].upper()}{name[1:]}"
        found.append(_of_package([cells[place] for place in places], who))
    return " ".join(found)


def cells_sentence(cells: Sequence[Cell], who: str) -> str:
    """What became of a row over the releases of one package, oldest first. ``who``: the row, as in ``Row 3``."""
    return _of_package(cells, who)


def cell_sentence(cell: Cell, of: int | None = None, who: str | None = None) -> str:
    """What one release made of a row, and what that rests on.

    Args:
        of: winners wanted, min(k, length); not told where not given. who: what is spoken of, where that is not the
            release on its path.
    """
    where = who or f"{cell.release}{f' ({_path(cell)})' if cell.path else ''}"
    if cell.state in ("fault", "refused", "unknown"):
        what = {"fault": "faults", "refused": "refuses the row", "unknown": "is not judged"}[cell.state]
        before = f" after {_count(cell.calls, 'call')}" if cell.state == "fault" and cell.calls else ""
        why = cell.why or "; ".join(cell.notes) or "nothing says why"
        return f"{where} {what}{before}: {why}.{_lost(cell, of) if cell.calls else ''}"
    if not cell.calls:
        told = {"clean": "loses nothing", "can lose": "can lose winners", "loses": "loses winners"}[cell.state]
        return f"{where} {told}, by the analysis: it was not called.{_risk(cell)}"
    return f"{where}{_lost(cell, of)}{_risk(cell)}"


def cell_text(cell: Cell) -> str:
    """A cell in a word or two, as in ``lossy, 41.2``: the verdict of the worst call, and values missing on average."""
    state = cell.state
    if state in ("fault", "refused", "unknown"):
        return state
    if state == "can lose" or not cell.verdict:
        return cell.risk or state
    return f"{cell.verdict}, {_number(cell.missing_mean)}" if cell.missing_mean else cell.verdict


def span_text(releases: Sequence[str], full: bool = True) -> str:
    """Neighbouring releases in short, as in ``vllm==0.24.0 to 0.30.0``."""
    first, last = releases[0], releases[-1]
    head = first if full else _version(first)
    return head if len(releases) == 1 else f"{head} to {_version(last)}"


def why_words(cell: Cell) -> str:
    """Why a cell has no verdict, without its release's name, so that releases with the same reason go together."""
    return cell.why.replace(cell.release, "the release") if cell.release else cell.why


def chance_words(cell: Cell) -> str:
    """How likely as many calls as were made would lose nothing of a row that can lose; empty for other cells."""
    if cell.state not in ("can lose", "clean") or not cell.observed or cell.risk not in LOSING:
        return ""
    passes = chance(cell.p_pass, cell.calls)
    if cell.p_pass is None:
        why = f": {FOLLOWS}" if cell.follows else f": p_clean is {LAW}" if arrives_together(cell.path) else ""
        return f"how likely such calls lose nothing is not known{why if cell.p_clean is not None else ''}"
    told = f"a row with {clean_text(cell)} passes {_count(cell.calls, 'call')} with probability "
    told += _number(passes)
    return told if passes > SURE else f"{told}: what was seen contradicts the analysis"


def clean_text(cell: Cell) -> str:
    """The chance that a call loses nothing, as it counts for calls: ``p_clean 0.8750``, of warps a bound."""
    if cell.p_pass is None or cell.p_pass != cell.clean_at_most:
        return f"p_clean {probability(cell.p_pass)}"
    return f"p_clean {IN_WARPS} {at_most(cell.p_pass)}"


def clean_notes(cell: Cell) -> list[str]:
    """What a cell's ``p_clean`` does not say of its calls, as notes."""
    notes = (
        [f"{FOLLOWS}, so p clean does not describe real arrival"] if cell.follows and cell.p_clean is not None else []
    )
    law = law_note(cell.path, cell.risk, cell.clean_at_most)
    return [*notes, law] if law else notes


def _of_all(matrix: Matrix, places: Sequence[int]) -> str:
    releases = [matrix.releases[place] for place in places]
    columns = [[cells[place] for cells in matrix.cells] for place in places]
    states = [cell.state for column in columns for cell in column]
    rows, tried = len(matrix.rows), span_text(releases)
    a_release, some_release = ("any release from ", "some release from ") if len(releases) > 1 else ("", "")
    losing = [at for at in matrix.worst_first if any(matrix.cells[at][place].loses for place in places)]
    if not losing:
        if "clean" not in states:
            reasons = dict.fromkeys(why_words(cell) for column in columns for cell in column if cell.state == "unknown")
            why = f": {few(reasons, 1)}" if any(reasons) else ""
            return f"None of the {rows} rows was judged in {a_release}{tried}{why}."
        return f"None of the {rows} rows loses winners in {a_release}{tried}{_calls(matrix)}."
    text = f"{len(losing)} of {rows} rows {_verb(states, plural=len(losing) > 1)} in {some_release}{tried}"
    worst = matrix.row_name(losing[0])
    text += f"{_calls(matrix)}{f'; the worst is {worst}' if len(losing) > 1 else f': {worst}'}."
    first = 1 + max(at for at, column in enumerate(columns) if any(cell.loses for cell in column))
    if first < len(columns) and all(any(cell.state == "clean" for cell in column) for column in columns[first:]):
        since = _version(releases[first])
        text += f" None does {f'in {since}' if first + 1 == len(releases) else f'from {since} on'}."
    return text


def _of_package(cells: Sequence[Cell], who: str) -> str:
    states = [cell.state for cell in cells]
    found = spans(states)
    texts = []
    if found:
        texts.append(f"{who} {_told(cells, found)}{_calls_of(cells)}.")
        who = "It"
    for state, verb in (("refused", "is refused by"), ("fault", "faults in"), ("unknown", "was not judged in")):
        reasons: dict[str, list[str]] = {}
        for cell in cells:
            if cell.state == state:
                reasons.setdefault(why_words(cell), []).append(cell.release)
        for why, releases in reasons.items():
            texts.append(f"{who} {verb} {_ranges(releases, cells)}{f': {why}' if why else ''}.")
            who = "It"
    return " ".join(texts)


def _told(cells: Sequence[Cell], found: Sequence[Span]) -> str:
    """What the judged releases did, in order."""

    def inside(span: Span) -> list[str]:
        states = ("clean",) if not span.loses else LOSING_STATES
        return [cell.release for cell in cells[span.first : span.last + 1] if cell.state in states]

    def every(span: Span) -> str:
        releases = inside(span)
        return f"in {'every release from ' if len(releases) > 1 else ''}{span_text(releases)}"

    one = found[0]
    if len(found) == 1:
        if one.loses:
            return f"{_verb(one.states)} {every(one)}"
        return f"loses nothing {every(one).replace('every', 'any')}"
    if len(found) == 2:
        rest, more = _version(inside(found[1])[0]), len(inside(found[1])) > 1
        since = f"from {rest} on" if more else f"in {rest}"
        if one.loses:
            return f"{_verb(one.states)} {every(one)} and {'in none ' if more else 'not '}{since}"
        return f"loses nothing {every(one).replace('every', 'any')} and {_verb(found[1].states)} {since}"
    if len(found) <= MOST_SPANS:
        parts = [
            f"{_verb(span.states) if span.loses else 'loses nothing'} in {span_text(inside(span), full=span is one)}"
            for span in found
        ]
        return f"{', '.join(parts[:-1])}, and {parts[-1]}"
    losing = [span_text(inside(span), full=False) for span in found if span.loses]
    clean = [span_text(inside(span), full=False) for span in found if not span.loses]
    package = cells[0].release.partition("==")[0]
    verb = _verb([state for span in found if span.loses for state in span.states])
    return f"{verb} in {package} {few(losing, _LIST)} and loses nothing in {few(clean, _LIST)}"


def _verb(states: Iterable[State], plural: bool = False) -> str:
    """What a row does in releases in which it loses or can lose."""
    lose = "lose" if plural else "loses"
    kinds = {state for state in states if state in (*LOSING_STATES, "fault")}
    if kinds == {"can lose"}:
        return "can lose winners"
    if kinds == {"fault"}:
        return f"fault{'' if plural else 's'}"
    what = f"{lose} or can lose winners" if "can lose" in kinds else f"{lose} winners"
    return f"{what} or fault{'' if plural else 's'}" if "fault" in kinds else what


def _ranges(releases: Sequence[str], cells: Sequence[Cell]) -> str:
    """Releases in short: neighbours of the matrix as from one to another."""
    order = [cell.release for cell in cells]
    groups: list[list[str]] = []
    for release in releases:
        if groups and order.index(release) == order.index(groups[-1][-1]) + 1:
            groups[-1].append(release)
        else:
            groups.append([release])
    return few([span_text(group, full=not at) for at, group in enumerate(groups)], _LIST)


def _calls(matrix: Matrix) -> str:
    return _calls_of([cell for cells in matrix.cells for cell in cells])


def _calls_of(cells: Sequence[Cell]) -> str:
    made = sorted({cell.calls for cell in cells if cell.calls})
    if not made:
        return ", by the analysis" if any(cell.risk for cell in cells) else ""
    count = str(made[0]) if len(made) == 1 else f"{made[0]} to {made[-1]}"
    by = " by the model" if all(cell.engine == MODEL for cell in cells) else ""
    return f", {count} call{'' if count == '1' else 's'} each{by}"


def _lost(cell: Cell, of: int | None) -> str:
    calls = _count(cell.calls, "call")
    agree = f" ({cell.repeatability})" if cell.repeatability else ""
    if not cell.lost_calls:
        kept = "no winner" if cell.verdict == "exact" else "no value, though other members of a tie were taken"
        return f" lost {kept} in {calls}{agree}."
    least, most = cell.missing_least, cell.missing_most
    span = str(most) if least == most else f"{least} to {most}"
    span += "" if of is None else f" of {of}"
    what = "returned invalid slots or lost winners" if cell.verdict == "invalid" else "lost winners"
    return f" {what} in {cell.lost_calls} of {calls}{agree}: {span} missing."


def _risk(cell: Cell) -> str:
    if cell.risk is None:
        return ""
    if cell.risk == "safe" and cell.lost_calls:
        return " By the analysis no arrival order loses a value there: what was seen contradicts it."
    if cell.risk == "safe":
        return " By the analysis no arrival order loses a value there." if cell.calls else ""
    passes = chance_words(cell)
    tail = f"; {passes}" if passes else ""
    mean = cell.expected_missing
    loses = "" if mean is None else f": {random_order(cell.path)} loses {_number(mean)} on average"
    return f" The row is {cell.risk} there{loses}{tail}."


def _path(cell: Cell) -> str:
    return f"{cell.path}, {cell.variant}" if cell.variant not in (None, "stock") else f"{cell.path}"


def _version(release: str) -> str:
    return release.partition("==")[2]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _number(value: float | None) -> str:
    return "–" if value is None else average(value)


def reasons(matrix: Matrix) -> list[tuple[State, list[str], list[int], str]]:
    """Why cells have no verdict: what they are, in which releases, for which rows (numbers in the capture), and why."""
    found: dict[tuple[State, str], tuple[list[str], list[int]]] = {}
    for row, cells in zip(matrix.rows, matrix.cells, strict=True):
        for cell in cells:
            if cell.state in ("refused", "fault", "unknown"):
                releases, rows = found.setdefault((cell.state, why_words(cell)), ([], []))
                if cell.release not in releases:
                    releases.append(cell.release)
                if row.row not in rows:
                    rows.append(row.row)
    order: tuple[State, ...] = ("fault", "refused", "unknown")
    told = [(state, releases, sorted(rows), why) for (state, why), (releases, rows) in found.items()]
    return sorted(told, key=lambda one: order.index(one[0]))


def releases_text(matrix: Matrix, releases: Sequence[str]) -> str:
    """Releases of a matrix in short, each package apart."""
    by_package: dict[str, list[str]] = {}
    for release in releases:
        by_package.setdefault(release.partition("==")[0], []).append(release)
    cells = matrix.cells[0]
    return listed(_ranges(sorted(same, key=matrix.releases.index), cells) for same in by_package.values())
