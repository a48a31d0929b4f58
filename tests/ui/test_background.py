"""Work in a thread of its own: it is told, stopped and gone on with, and what goes wrong in it is not lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from workbench.errors import UsageError
from workbench.ui import background
from workbench.ui.background import Background, Told, follow


def ended(work: Background) -> Background:
    assert work._thread is not None
    work._thread.join(10)
    assert not work.busy
    return work


def test_it_stops_after_the_piece_that_it_is_at_and_goes_on() -> None:
    work, may, done = Background(), threading.Semaphore(1), []

    def pieces() -> Iterator[Told]:
        while len(done) < 4:
            assert may.acquire(timeout=10)
            done.append(torch.get_num_threads())
            yield len(done) / 4, f"{len(done)} of 4"

    work.start(pieces)
    work.start(pieces)  # another session: nothing, where it is at work
    work.stop()
    may.release()
    ended(work)
    assert 1 <= len(done) <= 2
    assert work.told == (len(done) / 4, f"{len(done)} of 4")
    may.release(4)
    work.start(pieces)
    assert ended(work).told == (1.0, "4 of 4")
    assert done == [1] * 4
    assert work.problem() is None


def test_what_goes_wrong_is_told_once() -> None:
    def refuses() -> Iterator[Told]:
        yield 0.0, "looking"
        raise UsageError("cannot be done")

    def breaks() -> Iterator[Told]:
        yield 0.0, "looking"
        raise ZeroDivisionError

    work = Background()
    work.start(refuses)
    assert str(ended(work).problem()) == "cannot be done"
    assert work.problem() is None
    work.start(breaks)
    ended(work)
    with pytest.raises(ZeroDivisionError):
        work.problem()
    assert work.problem() is None


def test_what_its_last_session_leaves_is_not_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sessions look; the second goes on to other work of the kind, and then the first."""
    works, may, done = [Background(), Background()], threading.Semaphore(0), list[int]()

    def pieces() -> Iterator[Told]:
        while len(done) < 100:
            assert may.acquire(timeout=10)
            done.append(1)
            yield len(done) / 100, ""

    def as_session(number: int) -> None:
        monkeypatch.setattr(background, "_session", lambda: number)
        monkeypatch.setattr(background.st, "session_state", states[number])

    states: list[dict[str, object]] = [{}, {}]
    for number in (0, 1):
        as_session(number)
        follow(works[0], "calls")
        works[0].start(pieces, unseen=60)
    follow(works[1], "calls")
    may.release(2)
    while len(done) < 2:
        works[0].wait(0.01)
    assert works[0].busy  # the first still looks
    as_session(0)
    follow(works[1], "calls")
    may.release(1)
    ended(works[0])
    assert len(done) == 3


def test_it_does_nothing_while_a_page_is_drawn_of_it() -> None:
    work, done = Background(), list[int]()

    def pieces() -> Iterator[Told]:
        while len(done) < 4:
            done.append(1)
            yield len(done) / 4, ""

    with work.aside(), work.aside():
        work.start(pieces)
        work.wait(0.1)
        assert (work.busy, len(done)) == (True, 1)
    ended(work)
    assert len(done) == 4
    with work.aside():
        work.start(iter)
        work.stop()
        ended(work)
