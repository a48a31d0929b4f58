"""What a comparison of two audits says in a sentence or two."""

from __future__ import annotations

from workbench.audit.comparison import Comparison
from workbench.words import listed


def comparison_sentence(found: Comparison) -> str:
    """What is worse in the second audit, then what else changed."""
    return f"{_worse(found)} {_changed(found)}"


def _worse(found: Comparison) -> str:
    told = []
    if found.worse:
        told.append(f"{_rows(found.worse)} of both {'is' if found.worse == 1 else 'are'} worse")
    if found.appeared_bad:
        told.append(f"{_rows(found.appeared_bad, 'bad ')} appeared")
    if found.other_selection:
        many = f"{found.other_selection:,} recorded selection{'' if found.other_selection == 1 else 's'}"
        told.append(f"{many} of the same input differ{'s' if found.other_selection == 1 else ''} and lost winners")
    return f"{found.second} is worse: {listed(told)}." if told else f"Nothing is worse in {found.second}."


def _changed(found: Comparison) -> str:
    if not found.paired:
        return f"It has none of the {found.rows[0]:,} rows in {found.first}, and {found.rows[1]:,} of its own."
    told = [f"{_rows(found.paired)} of both: {found.same_input:,} with the same input"]
    told[0] += f", {found.changed_input:,} with another" if found.changed_input else ""
    told += [f"{found.moved:,} found elsewhere by their scores"] if found.moved else []
    told += [f"{found.ties_vary:,} recorded selections vary among ties alone"] if found.ties_vary else []
    told += [f"{found.better:,} better"] if found.better else []
    told += [f"{found.vanished:,} vanished"] if found.vanished else []
    told += [f"{found.appeared:,} appeared"] if found.appeared else []
    return f"{'; '.join(told)}."


def _rows(count: int, kind: str = "") -> str:
    return f"{count:,} {kind}row{'' if count == 1 else 's'}"
