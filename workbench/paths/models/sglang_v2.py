"""SGLang's v2 selectors: the row is collected by float32 thresholds of the bins, and ties are ranked or refined.

The thresholds agree with the bins but for the scores that ``workbench.numeric.bounds`` names. ``-0.0`` counts one bin
below ``+0.0`` and passes its threshold: more scores than k can then pass as higher ones, and first come takes the
slots. NaN counts in the top bin and passes no threshold: the row comes up short, and what is missing is filled up with
the positions of the slots themselves, counted from the aligned cell before the row's start. All of that was observed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch

from workbench.numeric.bounds import FLT_MAX, Rule, coarse_bin_lower_bound, parted
from workbench.numeric.rowkeys import RowKeys
from workbench.paths.models import buffered
from workbench.paths.models.digits import of_members, search_row
from workbench.paths.models.tape import Made, Model, Tape
from workbench.paths.selection import Pass
from workbench.paths.shared import BYTES
from workbench.paths.spec import Buffer, Path

VECTOR = 4  # scores that a thread loads at once
LANES = 32
DIGITS = (12, 12, 8)  # of the exact key, as 0.5.23 narrows ties
RANKINGS = (2 * LANES, 4 * LANES)  # ties that are ranked with idle lanes among them; up to 32 a mask leaves those out


@dataclass(frozen=True)
class Rules:
    """In what the versions of v2 differ, besides the buffer.

    Attributes:
        bound: the rule of the thresholds. padding: the score of idle lanes and of the cells after the row's end.
        fallback: whether more ties than the buffer holds are selected from the row: told by the ``true`` count of a
            cluster's ranks, or by that ``clamped`` to what each rank stored; or narrowed by ``digits`` until they fit.
    """

    bound: Rule = "rounded"
    padding: Literal["NaN", "-FLT_MAX"] = "NaN"
    fallback: Literal["none", "true", "clamped", "digits"] = "none"

    def falls_back(self, buffer: Buffer, ties: torch.Tensor, length: int, k: int) -> bool:
        """Whether the collection of these ties gives way to a search over the row."""
        count = ties.numel()
        if self.fallback == "clamped" and buffer.ranks is not None:
            members = torch.bincount(buffer.ranks.owners(ties, length), minlength=buffer.ranks.count).tolist()
            count = members[0] + sum(min(one, buffer.ranks.capacity) for one in members[1:])
        return self.fallback != "none" and count > buffer.slots(k)

    def tail(self, path: Path, length: int) -> int:
        """Cells past the row's end that take part as scores: those of the last vector of a row in registers."""
        return -length % VECTOR if self.padding == "-FLT_MAX" and path.row_passes == 1 else 0

    def idle(self, ties: int) -> int:
        """Idle lanes that outrank -inf where so many ties are ranked."""
        if self.padding == "NaN" or not LANES < ties <= RANKINGS[-1]:
            return 0
        return min(one for one in RANKINGS if ties <= one) - ties


# By the name that a variant gives its model.
RULES: dict[str, Rules] = {
    "v2": Rules(),
    "v2_exact_fallback": Rules(fallback="true"),
    "v2_clamped_tie_count": Rules(fallback="clamped"),
    "v2_old_lower_bound": Rules(bound="midpoint"),
    "v2_flt_max_padding": Rules(padding="-FLT_MAX"),
    "v2_0.5.23": Rules(bound="stepped", fallback="digits"),
    "v2_cluster_0.5.23": Rules(bound="stepped"),
}


def select(path: Path, tape: Tape, k: int, rules: Rules) -> Made:
    """Collect by thresholds, then take what is missing from the ties."""
    assert path.buffer is not None
    seen = buffered.coarse(path, tape, k)
    tape.scan(path.row_passes - 1)
    above, ties = (tape.order(part) for part in collected(tape.row, seen.at.bin, seen.bits, rules.bound))
    need = max(0, k - above.numel())
    stored = ties
    if path.buffer.whole_bin or need != ties.numel():
        stored = buffered.stored_members(path.buffer, ties, tape.length, k)
    if rules.falls_back(path.buffer, ties, tape.length, k):
        tape.stage(stored.numel())
        taken, passes = stored[:0], tuple[Pass, ...]()
        if need and rules.fallback == "digits":
            taken, passes = _narrow(path, tape, ties, need)
        elif need:
            taken, passes = _search(tape, ties, stored, need)
        shares = buffered.shares_of(path.buffer, ties, stored, ties[:0], tape.length)
        return Made(torch.cat([above[:k], taken]), seen.telemetry(stored.numel(), above[k:], passes, shares))
    wide, ties = _with_tail(path, tape, ties, _tail(path, tape, seen, rules))
    if wide is not tape:
        stored = buffered.stored_members(path.buffer, ties, wide.length, k)
    tape.stage(stored.numel())
    taken, passes = _cut(path, wide, stored, need, rules)
    if wide is not tape:
        tape.gather(sum(one.seen for one in passes))
    missing = need - taken.numel()
    if ties.numel() < need and not path.buffer.leaves_unwritten:
        first = k - (need - ties.numel())
        filled = torch.arange(first, k, device=taken.device) - tape.start % VECTOR
        taken, missing = torch.cat([taken, filled]), missing - filled.numel()
    lost = wide.without(ties, stored)
    shares = buffered.shares_of(path.buffer, ties, stored, lost, wide.length)
    dropped = torch.cat([above[k:], lost])
    idle = path.buffer.leaves_unwritten or rules.padding == "-FLT_MAX"
    telemetry = seen.telemetry(stored.numel(), dropped, passes, shares)
    return Made(torch.cat([above[:k], taken]), telemetry, missing if idle else 0)


def collected(row: RowKeys, bin_: int, bits: int, rule: Rule) -> tuple[torch.Tensor, torch.Tensor]:
    """What a row's thresholds take to lie above a bin, and in it: as ``workbench.numeric.bounds.parted``."""
    return row.made_of(row.scores, (bin_, bits, rule), lambda: parted(row.scores, bin_, bits, rule))


def _search(tape: Tape, ties: torch.Tensor, stored: torch.Tensor, need: int) -> tuple[torch.Tensor, tuple[Pass, ...]]:
    """The ``need`` best of more ties than the buffer holds: four passes that count a byte, one that writes.

    The first also finds the least and the greatest key: where they are one, any buffered ties will do.
    """
    keys, ascending = tape.row.keys_of(ties), tape.row.ascending_of(ties)
    found = search_row(tape, ascending, need, BYTES[:1])
    if keys.min() == keys.max():
        return stored[:need], found.passes
    tape.fall_back("cut-off of the ties searched over the row")
    found = search_row(tape, ascending, need, BYTES[1:], start=found)
    tape.scan()
    return torch.cat([ties[keys > found.pivot], ties[keys == found.pivot][: found.need]]), found.passes


def _narrow(path: Path, tape: Tape, ties: torch.Tensor, need: int) -> tuple[torch.Tensor, tuple[Pass, ...]]:
    """The ``need`` best of more ties than the buffer holds: a pass a digit until they fit, then one that writes."""
    assert path.buffer is not None
    # The buffer holds the greatest k; made smaller than k, it could not hold what is wanted of equal scores.
    tape.fall_back("ties narrowed by exact digits over the row")
    keys, room = tape.row.keys_of(ties), max(path.buffer.slots(need), need)
    found = search_row(tape, tape.row.ascending_of(ties), need, DIGITS, stop_at=room)
    tape.scan()
    greater, bucket = of_members(keys, found)
    stored = ties[bucket[:room]]
    tape.stage(stored.numel())
    taken, passes = buffered.cut(path, tape, stored, found.need)
    return torch.cat([ties[greater], taken]), found.passes + passes


def _cut(
    path: Path, tape: Tape, stored: torch.Tensor, need: int, rules: Rules
) -> tuple[torch.Tensor, tuple[Pass, ...]]:
    """The ``need`` best of the buffered ties; -inf gives way to idle lanes, whose slots nobody writes."""
    idle = rules.idle(stored.numel())
    taken, passes = buffered.cut(path, tape, stored, need)
    if idle and stored.numel() > need:
        infinite = tape.scores[taken] == -torch.inf
        lowest = torch.nonzero(infinite).flatten()  # ranked last
        taken = taken[: taken.numel() - min(idle, lowest.numel())]
    return taken, passes


def _tail(path: Path, tape: Tape, seen: buffered.Coarse, rules: Rules) -> int:
    """Cells past the row's end that are collected as ties."""
    low = coarse_bin_lower_bound(seen.at.bin, seen.bits, rules.bound)
    return rules.tail(path, tape.length) if low <= -FLT_MAX else 0


def _with_tail(path: Path, tape: Tape, ties: torch.Tensor, cells: int) -> tuple[Tape, torch.Tensor]:
    """The row and its ties with so many cells of -FLT_MAX behind; the thread of the last score reads them next."""
    if not cells:
        return tape, ties
    last = tape.length - 1
    padding = torch.arange(last + 1, last + 1 + cells, device=ties.device)
    ordered = tape.order(torch.unique(torch.cat([ties, padding[:1] - 1])))
    after = int(torch.nonzero(ordered == last)) + 1
    joined = torch.cat([ordered[:after], padding, ordered[after:]])
    joined = joined[torch.isin(joined, ties) | (joined > last)]
    row = torch.cat([tape.scores, torch.full((cells,), -FLT_MAX, device=tape.scores.device)])
    return Tape(row, tape.arrival), joined


MODELS: dict[str, Model] = {name: partial(select, rules=rules) for name, rules in RULES.items()}
