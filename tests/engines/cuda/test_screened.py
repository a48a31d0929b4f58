"""What a screening found, and the memory and events that later ones are given again; without a device."""

from __future__ import annotations

from collections import defaultdict

import pytest
import torch

from workbench.engines.cuda import screen
from workbench.engines.cuda.screen import Screened


class Event:
    """One that the stream has passed once it is waited for. Attributes: records: streams it was recorded on."""

    def __init__(self) -> None:
        self.passed, self.records = False, []

    def record(self, stream: object) -> None:
        self.passed = False
        self.records.append(stream)

    def query(self) -> bool:
        return self.passed

    def synchronize(self) -> None:
        self.passed = True


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that need not be page-locked, events of this file, and nothing spare."""
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *given, pin_memory, **named: empty(*given, **named))
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"of {device}")
    monkeypatch.setattr(screen, "_spare", defaultdict(list))


def screened(*flags: int) -> Screened:
    told = screen._on_its_way(torch.tensor(flags, dtype=torch.int32))
    return Screened(None, torch.device("cpu").index, len(flags), told)


def test_memory_and_event_go_to_the_next_once_they_were_read() -> None:
    first = screened(0, 1, 0, 1, 1)
    waiting = screened(1, 1, 1, 1, 1)
    assert first._told[0].data_ptr() != waiting._told[0].data_ptr()
    assert not first.is_done()
    assert first.rows() == [1, 3, 4]
    second = screened(1, 0, 0, 0)
    assert second._told is not first._told
    assert (second._told[0].data_ptr(), second._told[1]) == (first._told[0].data_ptr(), first._told[1])
    assert second._told[1].records == ["of cpu"] * 2
    assert not second.is_done(), "the event is this one's now"
    assert first.is_done()
    assert first.rows() == [1, 3, 4], "what was read stays as it was"
    assert second.rows() == [0], "flags behind its rows are another's"
    assert waiting.rows() == [0, 1, 2, 3, 4]


def test_what_was_asked_twice_is_given_once() -> None:
    first = screened(1, 0)
    assert [first.rows(), first.rows()] == [[0], [0]]
    one, other = screened(0, 1), screened(1, 1)
    assert one._told[0].data_ptr() != other._told[0].data_ptr()
    assert (one.rows(), other.rows()) == ([1], [0, 1])


def test_no_rows() -> None:
    assert screened().rows() == []
