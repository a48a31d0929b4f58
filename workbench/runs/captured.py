"""A captured run: a file, a folder or several captures as one sequence of rows, read as they are asked for."""

from __future__ import annotations

import os
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self, TypeAlias

import torch

from workbench.analysis.divergence.alignment import Event, Key
from workbench.capture import Call, Capture, Row, Token, open_capture
from workbench.capture.folders import run_files
from workbench.capture.row import held
from workbench.capture.values import brief, described, path_text, shown
from workbench.errors import CaptureError, UsageError
from workbench.paths.transforms.recorded import positions
from workbench.words import listed

Source: TypeAlias = str | bytes | os.PathLike[str] | Capture
Given: TypeAlias = Source | Sequence[Source]
Opener: TypeAlias = Callable[[Path], Capture]
OPEN = 8  # files that a run keeps open at once
ABOUT = ("release", "device", "model", "rows", "width", "stride", "next_n", "max_seq_len")


@dataclass
class _File:
    """One capture of a run: given as it is, or opened anew whenever it is needed."""

    label: str
    path: Path | None = None
    capture: Capture | None = None
    stamp: tuple[int, ...] | None = None


class CapturedRun:
    """A run to be compared: what was given is opened file by file, and at most ``OPEN`` files stay open.

    Args:
        given: a capture or dump, a folder of captures, a ``Capture``, or several of these in the order of the run.
        opener: opens a file; ``open_capture`` by default.
        name: of the run; as given by default. labels: the name of a file; its path by default.
        digests: what is known of a file's inputs, by row; what is worked out is put there.

    Attributes:
        name: as given. events: its rows in the order of the run. tokens: (request, step) to (file, number) of each.
        shares_tokens: whether it is one rank of a run whose tokens cannot be told apart by rank.

    Raises:
        CaptureError: a file that cannot be read, or a folder without captures.
        UsageError: what is given is none of these.
    """

    def __init__(
        self,
        given: Given,
        opener: Opener = open_capture,
        *,
        name: str | None = None,
        labels: Callable[[Path], str] = shown,
        digests: Callable[[Path], dict[int, str]] = lambda _: {},
    ) -> None:
        self._opener = opener
        self._open: OrderedDict[int, Capture] = OrderedDict()
        sources = [given] if isinstance(given, str | bytes | os.PathLike | Capture) else given
        if not isinstance(sources, Sequence) or not sources:
            raise UsageError(f"a run is a capture file, a folder or captures; this is {described(given)}")
        self._files = [file for source in sources for file in _files(source, labels)]
        self._digests = [{} if file.path is None else digests(file.path) for file in self._files]
        first = self._files[0].label if len(sources) > 1 or isinstance(sources[0], Capture) else shown(sources[0])
        self.name = name or (first if len(sources) == 1 else f"{first} and {len(sources) - 1} more")
        self.shares_tokens = False
        self.events: list[Event] = []
        self.tokens: dict[tuple[str | None, int], list[tuple[int, int]]] = defaultdict(list)
        ranks: list[set[int | None]] = []
        for number in range(len(self._files)):
            with self._reading(number) as capture:
                ranks.append(self._scan(number, capture))
        self._ranks_of_files = ranks
        self.close()  # of many runs each is read in its turn

    def __len__(self) -> int:
        return len(self.events)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files that it opened; they open again when they are needed."""
        while self._open:
            self._open.popitem()[1].close()

    def _scan(self, number: int, capture: Capture) -> set[int | None]:
        """Take down the rows and tokens of one file; the ranks that its calls name."""
        places: Counter[int] = Counter()
        calls: dict[int, tuple[Key, int | None, tuple[tuple[str, object], ...]]] = {}
        for row in range(len(capture)):
            call = capture.call_of(row)
            if call not in calls:
                calls[call] = _told(capture.call(call))
            key, k, about = calls[call]
            self.events.append(Event(key, number, call, row, places[call], k, about))
            places[call] += 1
        request = capture.info.strings.get("request")
        for at, step in enumerate(capture.tokens.steps.tolist()):
            self.tokens[request, step].append((number, at))
        return {key.rank for key, _, _ in calls.values()}

    def capture(self, number: int) -> Capture:
        """The capture of a file, opened if it is not open.

        Raises:
            CaptureError: it cannot be read, or was changed since it was first read.
        """
        file = self._files[number]
        if file.capture is not None:
            return file.capture
        if number in self._open:
            self._open.move_to_end(number)
            return self._open[number]
        assert file.path is not None
        capture = self._opener(file.path)
        stamp = _stamp(file.path)
        if stamp is None or file.stamp not in (None, stamp):
            capture.close()
            raise CaptureError("the file was changed meanwhile; compare again", file=file.label)
        file.stamp = stamp
        self._open[number] = capture
        if len(self._open) > OPEN:
            self._open.popitem(last=False)[1].close()
        return capture

    @contextmanager
    def _reading(self, number: int) -> Iterator[Capture]:
        """The capture of a file; what goes wrong with it names the file as the run does."""
        file = self._files[number]
        try:
            yield self.capture(number)
        except CaptureError as error:
            if file.path is None or error.file not in (shown(file.path), shown(file.path.name), brief(file.path.name)):
                raise
            raise CaptureError(
                error.reason, file=file.label, tensor=error.tensor, row=error.row, call=error.call
            ) from None

    def label(self, event: Event) -> str:
        """The file of an event, named as it was given."""
        return self._files[event.file].label

    def row(self, event: Event) -> Row:
        """The row of an event, with its scores."""
        with self._reading(event.file) as capture:
            return capture[event.row]

    def length(self, event: Event) -> int:
        """The length of an event's row, without its scores."""
        with self._reading(event.file) as capture:
            return int(capture.lengths[event.row])

    def start(self, event: Event) -> int:
        """The first valid cell of an event's row, without its scores."""
        with self._reading(event.file) as capture:
            return capture.start_of(event.row)

    def held(self, event: Event) -> int:
        """How many valid scores an event's row has: its length, or fewer where that leaves the row."""
        with self._reading(event.file) as capture:
            return held(int(capture.lengths[event.row]), capture.start_of(event.row), capture.width_of(event.row))

    def dtype(self, event: Event) -> str:
        """The dtype of an event's scores; the row is read only where its file holds several."""
        with self._reading(event.file) as capture:
            dtype = capture.info.dtype
        return self.row(event).dtype if "," in dtype else dtype

    def indices(self, event: Event) -> torch.Tensor | None:
        """The recorded selection of an event, without its scores; ``None`` if there is none."""
        with self._reading(event.file) as capture:
            return capture.indices_of(event.row)

    def positions(self, event: Event) -> torch.Tensor | None:
        """The recorded selection of an event as positions; ``None`` if there is none.

        Raises:
            UsageError: they cannot be told, and why.
        """
        with self._reading(event.file) as capture:
            indices = capture.indices_of(event.row)
            if indices is None:
                return None
            length = int(capture.lengths[event.row])
            inside = length == held(length, capture.start_of(event.row), capture.width_of(event.row))
            return positions(indices, capture.mapped_of(event.row), length if inside else None)

    def winners(self, event: Event) -> int | None:
        """k of an event: its call's, or the recorded slots; ``None`` if neither is known."""
        if event.k is not None:
            return event.k
        with self._reading(event.file) as capture:
            return capture.slots_of(event.row)

    def digest(self, event: Event) -> str:
        """What names the input of an event, kept once it is worked out."""
        known = self._digests[event.file]
        if event.row not in known:
            with self._reading(event.file) as capture:
                known[event.row] = capture.digest_of(event.row)
        return known[event.row]

    def token(self, where: tuple[int, int]) -> Token:
        """A token with its logits, by its file and number."""
        with self._reading(where[0]) as capture:
            return capture.tokens[where[1]]

    def by_rank(self) -> list[CapturedRun]:
        """The ranks of this run, ascending, as runs of their own that share its files.

        A rank has the tokens of the files that hold no other rank.

        Raises:
            UsageError: the captures name fewer than two ranks, or do not name the rank of every call.
        """
        ranks = {event.key.rank for event in self.events}
        if None in ranks:
            raise UsageError(f"{self.name}: some calls do not say their rank, so ranks cannot be compared")
        if len(ranks) < 2:
            raise UsageError(f"{self.name}: all calls are of rank {listed(ranks)}; two ranks or more are needed")
        found = []
        for rank in sorted(rank for rank in ranks if rank is not None):
            run = object.__new__(CapturedRun)
            run.__dict__.update(self.__dict__)
            run.name, run.shares_tokens = f"rank {rank}", bool(self.tokens)
            run.events = [event for event in self.events if event.key.rank == rank]
            run.tokens = defaultdict(list)
            for key, places in self.tokens.items():
                own = [place for place in places if self._ranks_of_files[place[0]] == {rank}]
                if own:
                    run.tokens[key] = own
            found.append(run)
        return found


def _files(source: Source, labels: Callable[[Path], str]) -> list[_File]:
    if isinstance(source, Capture):
        return [_File(source.name, capture=source)]
    if not isinstance(source, str | bytes | os.PathLike):
        raise UsageError(f"a run is a capture file, a folder or captures; this is {described(source)}")
    path = Path(path_text(source))
    if not path_text(source):
        raise UsageError("a run is named by an empty string; name a capture or a folder of captures")
    try:
        is_folder = path.is_dir()
    except (OSError, ValueError):
        is_folder = False  # opening it says why
    return [_File(labels(file), path=file) for file in (run_files(path) if is_folder else [path])]


def _stamp(path: Path) -> tuple[int, ...] | None:
    """What tells that a file was changed; ``None`` if it is gone."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _told(call: Call) -> tuple[Key, int | None, tuple[tuple[str, object], ...]]:
    key = Key(call.request, call.step, call.layer, call.rank, call.op)
    return key, call.k, _shared(tuple((name, getattr(call, name)) for name in ABOUT))


@lru_cache(maxsize=1024)  # calls by the hundred thousand are alike in this
def _shared(about: tuple[tuple[str, object], ...]) -> tuple[tuple[str, object], ...]:
    return about
