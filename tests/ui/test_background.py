"""Work in a thread of its own: it is told, stopped and gone on with, and what goes wrong in it is not lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from workbench.errors import UsageError
from workbench.ui.background import Background, Told


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
