"""Options that commands share, as dataclasses whose fields are options."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from workbench.cli.exits import out_of_memory
from workbench.errors import CaptureError, UsageError

if TYPE_CHECKING:
    from workbench.capture import Capture, Row
    from workbench.paths.conditions import Setup

INT32 = 2**31 - 1
INT64 = 2**63 - 1
MOST_REPEATS = 1_000_000  # calls of one path on one row
SEEDS = 2**62 - 1  # seed + repeat stays within 63 bits


def integer(least: int, most: int) -> dict[str, Any]:
    """What makes an option an integer of a range; anything else is said in one short line."""

    def read(text: str | int) -> int:
        text = str(text)
        if not re.fullmatch(r"-?[0-9]{1,20}", text) or not least <= int(text) <= most:
            shown = text if len(text) <= 24 else f"{text[:12]}… ({len(text)} characters)"
            raise typer.BadParameter(f"{shown!r} is no integer from {least} to {most}")
        return int(text)

    return {"parser": read, "metavar": "N"}


def seconds(text: str | float) -> float:
    """A positive number of seconds, up to a day; anything else is said in one short line."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 86400:
        shown = text if len(str(text)) <= 24 else f"{str(text)[:12]}… ({len(str(text))} characters)"
        raise typer.BadParameter(f"{shown!r} is no number of seconds above 0, up to 86400")
    return value


FOREIGN = "A dump that is no workbench capture: name its tensors, where their names do not tell"
CALL = "The call (these stand over what the capture says)"
SETUP = "The engine's setup (no capture records it)"

File = Annotated[str, typer.Argument(metavar="FILE", help="A capture, or a dump: a file or folder that import reads.")]
Files = Annotated[list[str], typer.Argument(metavar="FILE", help="Captures, or dumps that import reads.")]
Order = Annotated[
    str,
    typer.Option(
        "--arrival",
        metavar="random|index|reverse|walk",
        help="The order in which scores reach a buffer; walk: as the path's threads walk the row.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", **integer(0, SEEDS), help="Of the first random arrival order or walk.")]
RowsSeed = Annotated[int, typer.Option("--seed", **integer(0, SEEDS), help="Of the scores.")]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        parser=seconds,
        metavar="SECONDS",
        help="That one call may take: by default 20 for the vendor and cuda engines, 60 for callables. "
        "Loading and building have 600, or this if it is more.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout instead of tables.")]
OneRow = Annotated[
    int | None, typer.Option("--row", **integer(0, INT32), help="The row; needed where the capture has several.")
]
PathOfRow = Annotated[
    str | None, typer.Option("--path", metavar="PATH", help="The path; by default the one the row reaches.")
]
Rows = Annotated[
    list[str] | None, typer.Option("--row", metavar="N|N-M", help="A row or a range of rows; may be repeated.")
]


class Dtype(Enum):
    """Score dtypes."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


@dataclass(frozen=True)
class Naming:
    """What names the tensors of a foreign file, and k."""

    scores: Annotated[
        str | None,
        typer.Option(
            help="Scores, rows × width; one * matches many tensors, each one call.",
            metavar="TENSOR",
            rich_help_panel=FOREIGN,
        ),
    ] = None
    lengths: Annotated[
        str | None, typer.Option(help="Valid lengths, one a row.", metavar="TENSOR", rich_help_panel=FOREIGN)
    ] = None
    starts: Annotated[
        str | None, typer.Option(help="First valid cells, one a row.", metavar="TENSOR", rich_help_panel=FOREIGN)
    ] = None
    indices: Annotated[
        str | None, typer.Option(help="Recorded selections, rows × k.", metavar="TENSOR", rich_help_panel=FOREIGN)
    ] = None
    as_dtype: Annotated[
        str | None,
        typer.Option(
            "--as",
            help="Read scores as float32, bfloat16 or float16, exactly or not at all.",
            metavar="DTYPE",
            rich_help_panel=FOREIGN,
        ),
    ] = None


@dataclass(frozen=True)
class Given:
    """What decides where a row goes; given values stand over those of the capture."""

    k: Annotated[int | None, typer.Option(**integer(1, INT32), help="Winners wanted.", rich_help_panel=CALL)] = None
    op: Annotated[str | None, typer.Option(help="As in vllm.persistent_topk.", metavar="OP", rich_help_panel=CALL)] = (
        None
    )
    release: Annotated[
        str | None, typer.Option(help="As in vllm==0.26.0.", metavar="RELEASE", rich_help_panel=CALL)
    ] = None
    device: Annotated[str | None, typer.Option(help="As in h200.", metavar="DEVICE", rich_help_panel=CALL)] = None
    rows: Annotated[int | None, typer.Option(**integer(1, INT64), help="Rows in the batch.", rich_help_panel=CALL)] = (
        None
    )
    width: Annotated[int | None, typer.Option(**integer(1, INT32), help="Padded row width.", rich_help_panel=CALL)] = (
        None
    )
    stride: Annotated[
        int | None, typer.Option(**integer(1, INT64), help="Scores from row to row.", rich_help_panel=CALL)
    ] = None
    max_seq_len: Annotated[
        int | None, typer.Option(**integer(0, INT64), help="Bound passed to the op by the host.", rich_help_panel=CALL)
    ] = None
    next_n: Annotated[
        int | None, typer.Option(**integer(1, INT64), help="Tokens scored per request.", rich_help_panel=CALL)
    ] = None

    def __post_init__(self) -> None:
        """An empty name is as unknown as any other: UsageError."""
        if "" not in (self.op, self.release, self.device):
            return
        from workbench.paths.devices import get_device
        from workbench.paths.releases import parse_release
        from workbench.paths.routing import get_op

        for name, known in ((self.op, get_op), (self.release, parse_release), (self.device, get_device)):
            if name == "":
                known(name)

    @property
    def changes(self) -> dict[str, int]:
        """Given integers that ``open_capture`` does not take."""
        given = {name: getattr(self, name) for name in ("rows", "width", "stride", "max_seq_len", "next_n")}
        return {name: value for name, value in given.items() if value is not None}

    def apply(self, row: Row) -> Row:
        """A row under the call as given."""
        if not self.changes:
            return row
        row = row.with_call(**self.changes)
        if row.batch is not None and len(row.batch) != row.call.rows:
            return replace(row, batch=None)  # the lengths of another batch
        return row

    def notes(self, capture: Capture) -> list[str]:
        """What the capture notes, and a line for each given integer that its calls contradict."""
        notes = list(capture.info.notes)
        for name, value in self.changes.items():
            said = sorted(other for other in capture.call_values(name) if other not in (None, value))
            if said:
                listed = ", ".join(map(str, said[:6])) + (", …" if len(said) > 6 else "")
                notes.append(f"{name} is {value} as given; the capture says {listed}")
        return notes


@dataclass(frozen=True)
class Engine:
    """How the engine was set up, where that decides a route."""

    backend: Annotated[
        str | None,
        typer.Option(
            help="Of an engine's own choice of an op: as its option spells it.", metavar="NAME", rich_help_panel=SETUP
        ),
    ] = None
    layout: Annotated[
        str | None,
        typer.Option(help="How SGLang's scores lie.", metavar="paged|prefill|ragged", rich_help_panel=SETUP),
    ] = None
    no_topk_v2: Annotated[
        bool, typer.Option("--no-topk-v2", help="SGLANG_OPT_USE_TOPK_V2 is off.", rich_help_panel=SETUP)
    ] = False
    unfused: Annotated[bool, typer.Option("--unfused", help="SGLANG_DSA_FUSE_TOPK is off.", rich_help_panel=SETUP)] = (
        False
    )
    static_threshold: Annotated[
        int,
        typer.Option(
            **integer(-1, INT32), help="What SGLang's plan is given; -1: its heuristic.", rich_help_panel=SETUP
        ),
    ] = -1
    clusters_8: Annotated[
        int | None,
        typer.Option(
            "--clusters-8",
            **integer(0, INT32),
            help="Clusters of 8 blocks resident at once, as SGLang's launcher found.",
            rich_help_panel=SETUP,
        ),
    ] = None
    clusters_16: Annotated[
        int | None,
        typer.Option("--clusters-16", **integer(0, INT32), help="The same, of 16 blocks.", rich_help_panel=SETUP),
    ] = None

    @property
    def setup(self) -> Setup:
        """As routing takes it; UsageError for a layout that is none."""
        from workbench.paths.conditions import Setup

        return Setup(
            backend=self.backend,
            layout=self.layout,
            topk_v2=not self.no_topk_v2,
            fused=not self.unfused,
            static_threshold=self.static_threshold,
            clusters_8=self.clusters_8,
            clusters_16=self.clusters_16,
        )


@contextmanager
def open_file(file: str, naming: Naming, given: Given) -> Iterator[Capture]:
    """Open a capture under the options, to be used in a ``with``.

    Raises:
        CaptureError: as ``open_capture``; or the memory does not suffice for what is done with it.
    """
    from workbench.capture import open_capture

    try:
        with open_capture(
            file,
            scores=naming.scores,
            lengths=naming.lengths,
            starts=naming.starts,
            indices=naming.indices,
            k=given.k,
            op=given.op,
            release=given.release,
            device=given.device,
            as_dtype=naming.as_dtype,
        ) as capture:
            yield capture
    except (MemoryError, RuntimeError) as error:
        if (reason := out_of_memory(error)) is None:
            raise
        raise CaptureError(reason, file=file) from None


def parse_rows(texts: list[str] | None, count: int) -> list[int]:
    """Row numbers from ``["3", "5-7"]``, ascending, each once; all rows if nothing is given.

    Raises:
        UsageError: another spelling, or a row that the capture of ``count`` rows does not have.
    """
    if not texts:
        return list(range(count))
    wanted: set[int] = set()
    for text in texts:
        first, dash, last = text.partition("-")
        last = last if dash else first
        if not all(part.isascii() and part.isdigit() and len(part) < 19 for part in (first, last)):
            raise UsageError(f"--row {text!r} is no row; write 3, or 3-7 for a range")
        if int(first) > int(last):
            raise UsageError(f"--row {text!r} runs backwards; write {last}-{first}")
        if int(last) >= count:
            raise UsageError(f"there is no row {last}; the capture has rows 0 to {count - 1}")
        wanted.update(range(int(first), int(last) + 1))
    return sorted(wanted)


def one_row(row: int | None, capture: Capture) -> int:
    """The number of the one row that a command takes.

    Raises:
        UsageError: there is no such row, or it is not said which of several.
    """
    if row is None and len(capture) > 1:
        raise UsageError(f"the capture has rows 0 to {len(capture) - 1}; choose one with --row")
    if row is not None and row >= len(capture):
        raise UsageError(f"there is no row {row}; the capture has rows 0 to {len(capture) - 1}")
    return row or 0


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch work on one core: on single rows its threads spend more time meeting than working."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def spread(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the fields of its dataclass parameters as options; it still gets the dataclasses.

    A field that the command has a parameter for is left at its default: the command reads that option by itself.
    """
    hints = get_type_hints(command, include_extras=True)
    given = inspect.signature(command).parameters
    groups: dict[str, type[Any]] = {}
    options: list[inspect.Parameter] = []
    for name, parameter in given.items():
        hint = hints[name]
        if not (isinstance(hint, type) and is_dataclass(hint)):
            options.append(parameter.replace(annotation=hint))
            continue
        groups[name] = hint
        own = get_type_hints(hint, include_extras=True)
        for field in fields(hint):
            if field.name in given:
                continue
            options.append(parameter.replace(name=field.name, default=field.default, annotation=own[field.name]))

    @functools.wraps(command)
    def spread_out(**values: Any) -> int:
        for name, group in groups.items():
            own = [field.name for field in fields(group) if field.name not in given]
            values[name] = group(**{field: values.pop(field) for field in own})
        return command(**values)

    del spread_out.__wrapped__
    spread_out.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    spread_out.__annotations__ = {option.name: option.annotation for option in options}
    return spread_out
