"""Options that commands share, as dataclasses whose fields are options."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from workbench.errors import UsageError

if TYPE_CHECKING:
    from workbench.capture import Capture, Row

FOREIGN = "A safetensors file that is no workbench capture: name its tensors"
CALL = "The call (these stand over what the capture says)"

File = Annotated[str, typer.Argument(metavar="FILE", help="A capture, or the *.safetensors.index.json of a set.")]
Files = Annotated[list[str], typer.Argument(metavar="FILE", help="Captures, or *.safetensors.index.json of sets.")]
Order = Annotated[
    str, typer.Option("--arrival", metavar="random|index|reverse", help="The order in which scores reach a buffer.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout instead of tables.")]
Rows = Annotated[
    list[str] | None, typer.Option("--row", metavar="N|N-M", help="A row or a range of rows; may be repeated.")
]


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


@dataclass(frozen=True)
class Given:
    """What decides where a row goes; given values stand over those of the capture."""

    k: Annotated[int | None, typer.Option(min=1, help="Winners wanted.", rich_help_panel=CALL)] = None
    op: Annotated[str | None, typer.Option(help="As in vllm.persistent_topk.", metavar="OP", rich_help_panel=CALL)] = (
        None
    )
    release: Annotated[
        str | None, typer.Option(help="As in vllm==0.26.0.", metavar="RELEASE", rich_help_panel=CALL)
    ] = None
    device: Annotated[str | None, typer.Option(help="As in h200.", metavar="DEVICE", rich_help_panel=CALL)] = None
    rows: Annotated[int | None, typer.Option(min=1, help="Rows in the batch.", rich_help_panel=CALL)] = None
    width: Annotated[int | None, typer.Option(min=1, help="Padded row width.", rich_help_panel=CALL)] = None
    stride: Annotated[int | None, typer.Option(min=1, help="Scores from row to row.", rich_help_panel=CALL)] = None
    max_seq_len: Annotated[
        int | None, typer.Option(min=0, help="Bound passed to the op by the host.", rich_help_panel=CALL)
    ] = None
    next_n: Annotated[int | None, typer.Option(min=1, help="Tokens scored per request.", rich_help_panel=CALL)] = None

    @property
    def changes(self) -> dict[str, int]:
        """Given integers that ``open_capture`` does not take."""
        given = {name: getattr(self, name) for name in ("rows", "width", "stride", "max_seq_len", "next_n")}
        return {name: value for name, value in given.items() if value is not None}

    def apply(self, row: Row) -> Row:
        """A row under the call as given."""
        return row.with_call(**self.changes) if self.changes else row

    def notes(self, capture: Capture) -> list[str]:
        """What the capture notes, and a line for each given integer that its calls contradict."""
        notes = list(capture.info.notes)
        for name, value in self.changes.items():
            said = sorted({getattr(call, name) for call in capture.calls} - {None, value})
            if said:
                listed = ", ".join(map(str, said[:6])) + (", …" if len(said) > 6 else "")
                notes.append(f"{name} is {value} as given; the capture says {listed}")
        return notes


def open_file(file: str, naming: Naming, given: Given) -> Capture:
    """Open a capture under the options."""
    from workbench.capture import open_capture

    return open_capture(
        file,
        scores=naming.scores,
        lengths=naming.lengths,
        starts=naming.starts,
        indices=naming.indices,
        k=given.k,
        op=given.op,
        release=given.release,
        device=given.device,
    )


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
    """Give a command the fields of its dataclass parameters as options; it still gets the dataclasses."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type[Any]] = {}
    options: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        hint = hints[name]
        if not (isinstance(hint, type) and is_dataclass(hint)):
            options.append(parameter.replace(annotation=hint))
            continue
        groups[name] = hint
        own = get_type_hints(hint, include_extras=True)
        for field in fields(hint):
            options.append(parameter.replace(name=field.name, default=field.default, annotation=own[field.name]))

    @functools.wraps(command)
    def spread_out(**values: Any) -> int:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        return command(**values)

    del spread_out.__wrapped__
    spread_out.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    spread_out.__annotations__ = {option.name: option.annotation for option in options}
    return spread_out
