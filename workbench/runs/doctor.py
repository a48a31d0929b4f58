"""``doctor``: what this environment has of what the workbench can use, each look apart from the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from workbench.arguments import checked
from workbench.errors import UsageError
from workbench.rendering import Rendered
from workbench.words import listed

if TYPE_CHECKING:
    import pandas as pd

State = Literal["fine", "absent", "broken"]
PROCESSES = 2  # looks that are taken at once
TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Fact:
    """One thing that was looked at.

    Attributes:
        area: one of ``AREAS``. name: of the thing. value: what it is, in words.
        state: ``fine``; ``absent`` where it is not there and something that needs it will say so; ``broken`` where it
            is there and does not work.
        why: why it is absent or broken. cure: the line that helps, empty where none is known.
        details: numbers, for machines.
    """

    area: str
    name: str
    value: str
    state: State = "fine"
    why: str = ""
    cure: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


AREAS = {
    "python": "Python and machine",
    "gpu": "torch and GPU",
    "kernels": "Kernels of the workbench",
    "packages": "Packages",
    "serving": "Serving engines",
    "engines": "Engines",
    "releases": "Store of released libraries",
    "recorder": "Recorder",
    "storage": "Folders",
    "variables": "Environment variables",
}


@dataclass(frozen=True)
class Doctor(Rendered):
    """What was found, by area in the order of ``AREAS``.

    Attributes:
        workbench: its version. facts: all of them.
    """

    workbench: str
    facts: tuple[Fact, ...]

    @property
    def broken(self) -> tuple[Fact, ...]:
        """What is there and does not work."""
        return tuple(one for one in self.facts if one.state == "broken")

    @property
    def sentence(self) -> str:
        """The whole in one sentence."""
        engines = [one.name for one in self.facts if one.area == "engines" and one.state == "fine"]
        able = f"engines that can answer here: {listed(engines)}" if engines else "no engine can answer here"
        if not self.broken:
            return f"Nothing is broken; {able}."
        things = listed(f"{one.name}" for one in self.broken)
        verb = "is" if len(self.broken) == 1 else "are"
        return f"{things} {verb} broken; {able}."

    def area(self, name: str) -> tuple[Fact, ...]:
        """The facts of an area."""
        return tuple(one for one in self.facts if one.area == name)

    def fact(self, area: str, name: str) -> Fact:
        """One of them; KeyError if there is none."""
        for one in self.facts:
            if (one.area, one.name) == (area, name):
                return one
        raise KeyError((area, name))

    def to_records(self) -> list[dict[str, object]]:
        """One dictionary a fact."""
        return [{**vars(one), "details": dict(one.details)} for one in self.facts]

    def to_pandas(self) -> pd.DataFrame:
        """One line a fact: area, name, value, state, why, cure."""
        import pandas as pd

        names = ["area", "name", "value", "state", "why", "cure"]
        return pd.DataFrame([[getattr(one, name) for name in names] for one in self.facts], columns=names)

    def text(self) -> str:
        """All of it as plain text, to be copied into a report of a fault."""
        lines = [f"topk-workbench {self.workbench}", self.sentence]
        for area, title in AREAS.items():
            lines += ["", title]
            for one in self.area(area):
                state = "" if one.state == "fine" else f" [{one.state}]"
                lines.append(f"  {one.name}: {one.value}{state}")
                lines += [f"    {text}" for text in (one.why, one.cure and f"cure: {one.cure}") if text]
        return "\n".join(lines) + "\n"


@checked
def doctor(*, verify: bool = False, timeout: float = TIMEOUT_S, told: Callable[..., object] | None = None) -> Doctor:
    """Look at Python, torch, the GPU, packages, engines, the store of releases, folders and settings.

    What is imported is imported in processes of their own, so that a package which raises, aborts or hangs is a fact
    like any other. Nothing is changed, and nothing is fetched.

    Args:
        verify: hold every library of the store against its sha256, which reads all of them; else their sizes.
        timeout: seconds that one such process may take. told: called with how many looks are done, and of how many.

    Raises:
        UsageError: no time.
    """
    from workbench.runs import looks

    if not 0 < timeout < float("inf"):
        raise UsageError(f"the timeout is {timeout}; a positive number of seconds is needed")
    stop = threading.Event()
    todo = looks.all_looks(verify=verify, timeout=timeout, stop=stop)
    facts: list[Fact] = []
    pool = ThreadPoolExecutor(PROCESSES)
    try:
        for done, found in enumerate(pool.map(lambda look: _taken(*look), todo), start=1):
            facts += found
            if told is not None:
                told(done, len(todo))
    finally:  # after Ctrl-C no process goes on, and no look is begun
        stop.set()
        pool.shutdown(cancel_futures=True)
    order = list(AREAS)
    return Doctor(looks.version(), tuple(sorted(facts, key=lambda one: order.index(one.area))))


def _taken(area: str, name: str, look: Callable[[], Iterator[Fact]]) -> list[Fact]:
    """The facts of one look; one that goes wrong is a broken fact, and takes none of the others along."""
    found: list[Fact] = []
    try:
        found += look()
    except Exception as error:
        lines = str(error).splitlines() or ["no message"]
        found.append(Fact(area, name, "cannot be looked at", "broken", f"{type(error).__name__}: {lines[0]}"))
    return found
