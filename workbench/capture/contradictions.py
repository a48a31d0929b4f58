"""What calls say of themselves and their rows contradict. Vectorised over millions of calls."""

from __future__ import annotations

import torch

from workbench.capture.checks import outside_rows
from workbench.capture.store import Store
from workbench.errors import CaptureError

# (integer of the call, what of its rows must not be larger, the problem in words)
_RULES = (
    ("rows", "held", "{found} rows, but the batch had {said}"),
    ("width", "widest", "the width is {said}, but the widest row of the call holds {found} scores"),
    ("stride", "width", "the stride is {said}, but rows of the call are {found} wide"),
    ("max_seq_len", "longest", "max_seq_len is {said}, but the longest row of the call has length {found}"),
)


def contradictions(store: Store, file: str) -> list[str]:
    """One line for each call and integer that is smaller than its rows need; ``file`` is for messages."""
    said = {name: values for name, _, _ in _RULES if (values := store.field(name)) is not None}
    if not said:
        return []
    found = _of_rows(store, said.get("width"))
    problems = []
    for name, what, words in _RULES:
        if name not in said:
            continue
        for call in ((said[name] >= 0) & (said[name] < found[what])).nonzero().flatten().tolist():
            reason = words.format(said=int(said[name][call]), found=int(found[what][call]))
            problems.append(str(CaptureError(reason, file=file, tensor=name, call=call)))
    return problems


def _of_rows(store: Store, width: torch.Tensor | None) -> dict[str, torch.Tensor]:
    """Of each call, int64 [calls]: rows held, the widest, the longest that stays in its row, and the row width."""
    call, lengths = store.call_numbers(), store.lengths.to(torch.int64)
    # a length that leaves its row is what the op was given, and contradicts nothing but the row
    lengths = lengths.masked_fill(outside_rows(lengths, store.starts(), store.widths()), 0)
    none = torch.zeros(store.calls, dtype=torch.int64)
    widest = none.scatter_reduce(0, call, store.widths(), "amax")
    return {
        "held": torch.bincount(call, minlength=store.calls),
        "widest": widest,
        "longest": none.scatter_reduce(0, call, lengths, "amax"),
        "width": widest if width is None else torch.where(width >= 0, width.to(torch.int64), widest),
    }
