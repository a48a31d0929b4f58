"""What a launch's lengths do to an op besides selecting: hangs, and reads or writes outside the rows.

The words are those of ``workbench.paths.lengths``, row by row on the path that the op takes where that is known, else
on any path that it reaches.
"""

from __future__ import annotations

from workbench.capture.row import Call, Row
from workbench.engines.launch import Launch, row_stride
from workbench.errors import WorkbenchError
from workbench.paths import lengths, outside, route_vllm
from workbench.paths.catalog import get_path
from workbench.paths.devices import DEVICES
from workbench.paths.ops import get_op
from workbench.words import few

PERSISTENT = "vllm.persistent_topk"


def hazards(launch: Launch, release: str, gpu: str) -> list[str]:
    """Why a launch should not be made, in words; empty if it can be.

    Args:
        release: what is called, as in ``vllm==0.26.0``. gpu: its name, as the driver gives it; empty if unknown.
    """
    rows, width = launch.scores.shape
    starts = [0] * rows if launch.starts is None else launch.starts.tolist()
    given = launch.lengths.tolist()
    bad = [at for at, start in enumerate(starts) if not 0 <= start <= width]
    found = [f"row {few(bad)}: the start is outside the row's {width} cells"] if bad else []
    by_words: dict[str, list[int]] = {}
    for at, (length, start) in enumerate(zip(given, starts, strict=True)):
        if at not in bad and not 0 <= length <= width - start:
            for words in _harm(launch, at, length, start, release, gpu):
                by_words.setdefault(words, []).append(at)
    found += [f"row {few(at)}: {words}" for words, at in by_words.items()]
    bound, above = launch.max_seq_len, lengths.BLOCKS_WAIT_ABOVE
    waits = [at for at, length in enumerate(given) if above < length <= width]
    if launch.op == PERSISTENT and rows <= route_vllm.FILTERED_ROWS and bound <= above and waits:
        found.append(
            f"row {few(waits)}: longer than {above}, and max_seq_len is {bound}: it hangs where a row takes more than "
            "one block, since the others have left (described, not observed)"
        )
    return found


def _harm(launch: Launch, at: int, length: int, start: int, release: str, gpu: str) -> list[str]:
    rows, width = launch.scores.shape
    call = Call(
        k=launch.k,
        rows=rows,
        width=width,
        stride=row_stride(launch),
        next_n=launch.next_n,
        max_seq_len=launch.max_seq_len,
    )
    row = Row(launch.scores[at], length, start, call, batch=launch.lengths.cpu(), index=at)
    effects = [effect for effect in _effects(row, launch, release, gpu) if effect is not None]
    return list(dict.fromkeys(effect.words for effect in effects if effect.finding or not effect.defined))


def _effects(row: Row, launch: Launch, release: str, gpu: str) -> list[lengths.Effect | None]:
    known = next((device.name for device in DEVICES if device.name in gpu.lower().split()), None)
    try:
        route = outside.route(row, launch.op, release, known, launch.k) if known else None
    except WorkbenchError:  # a release whose routing is not known
        route = None
    if route is not None and route.path is not None:
        return [outside.effect_on(row, route, launch.k)]
    window = lengths.Window.of(row)
    paths = [get_path(name) for name in get_op(launch.op).reaches if not name.endswith(".trivial")]
    return [lengths.effect(path, path.variant("stock"), window, launch.k) for path in paths]
