"""What a bisected row says in sentences, the same on every face."""

from __future__ import annotations

from workbench.analysis.standing import SURE
from workbench.runs.bisect import Bisection
from workbench.runs.matrix import Cell
from workbench.runs.matrix_words import cells_sentence, clean_text, span_text
from workbench.words import real


def bisect_sentence(found: Bisection) -> str:
    """The first release without a loss, or that there is none, and every regression."""
    who = f"Row {found.row.row}"
    newest = found.newest
    ran = [found.cells[release] for release in found.releases if release in found.cells]
    if newest is None:
        return cells_sentence(ran, who) or f"{who} was not judged."
    if found.first_clean is None:
        one = len(found.releases) == 1
        still = "" if one else "still "
        verb = {"can lose": f"can {still}lose winners", "fault": "faults"}.get(newest.state, f"{still}loses winners")
        text = f"{who} {verb} in {newest.release}"
        text += "" if one else f", the newest of {span_text(found.releases)} that was judged"
        text += f"{_missing(newest)}{f': {newest.fault}' if newest.fault else ''}."
    elif found.last_losing is None and len(found.releases) == 1:
        text = f"{who} loses nothing in {newest.release}."
    elif found.last_losing is None:
        text = f"{who} loses nothing in any release from {span_text(found.releases)} that was judged."
    else:
        before = found.cells[found.last_losing]
        verb = "can lose winners" if before.state == "can lose" else "loses winners"
        text = (
            f"The first release from which {who.lower()} loses nothing is {found.first_clean}; "
            f"it {verb} in {_version(found.last_losing)}{_missing(before)}."
        )
    text += "".join(
        f" It faults in {_version(cell.release)}: {cell.fault}." for cell in ran if _tells(cell, newest, found)
    )
    again = [f"clean in {_version(one)} and losing in {_version(two)}" for one, two in found.regressions]
    if again:
        text += f" It came back: {'; '.join(again)}."
    return text


def method_sentence(found: Bisection) -> str:
    """How it was found, and in how many releases."""
    cells = [found.cells[release] for release in found.releases if release in found.cells]
    ran, faulted = sum(cell.calls > 0 for cell in cells), sum(cell.state == "fault" for cell in cells)
    calls = f"{found.calls} call{'' if found.calls == 1 else 's'}"
    if len(found.releases) == 1:
        return f"By {calls} of it." if ran else "" if faulted else "It was not called."
    if not ran and not faulted:
        return f"None of the {len(found.releases)} releases was called."
    what = "a bisection" if found.method == "bisection" else f"a scan ({found.because})"
    text = f"By {what}: {calls} of each of {ran} of {len(found.releases)} releases"
    if faulted:
        text += f"; {faulted} faulted"
    if uncalled := sum(cell.calls == 0 and cell.state != "fault" for cell in cells):
        text += f"; {uncalled} could not be called"
    return text + "."


def sure_sentence(found: Bisection) -> str:
    """How sure it is that the release found loses nothing; empty where none was found."""
    if found.first_clean is None:
        return ""
    cell = found.cells[found.first_clean]
    texts = []
    if cell.risk == "safe":
        rest = "" if cell.calls else "; that rests on what was observed of it, for it was not called here"
        texts.append(f"By the analysis no arrival order loses a value in {found.first_clean}{rest}.")
    if cell.observed:
        texts.append(_observed(found, cell))
    return " ".join(texts)


def _observed(found: Bisection, cell: Cell) -> str:
    calls = f"{cell.calls} call{'' if cell.calls == 1 else 's'}"
    if found.chance is None:
        return f"Nothing tells how often {calls} without a loss come about in a release that loses now and then."
    text = ""
    if found.last_losing is not None:
        before = found.cells[found.last_losing]
        seen = f"{before.lost_calls} of {before.calls} calls lost"
        how = seen if before.p_pass is None else clean_text(before)
        text = f"If {found.first_clean} still lost as {_version(found.last_losing)} does ({how}), "
    else:
        held = f"{cell.risk} in {found.first_clean} ({clean_text(cell)})"
        text = f"The analysis holds the row for {held}: "
    text += f"{calls} without a loss would come with probability {real(found.chance, 2)}"
    if found.chance > SURE:
        return f"{text}: these calls do not show that it is clean; make more of them."
    return f"{text}."


def _tells(cell: Cell, newest: Cell, found: Bisection) -> bool:
    """Whether a fault is still to be told: that of the newest release stands in the sentence where nothing is clean."""
    return cell.state == "fault" and (cell is not newest or found.first_clean is not None)


def _missing(cell: Cell) -> str:
    least, most = cell.missing_least, cell.missing_most
    if not most:
        return ""
    return f" ({most if least == most else f'{least} to {most}'} missing a call)"


def _version(release: str) -> str:
    return release.partition("==")[2]
