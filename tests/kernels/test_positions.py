"""The kernel that turns what ops returned back into positions, on the CPU, against the transforms that made it."""

from __future__ import annotations

from pathlib import Path as File

import pytest
import torch

from tests.kernels import emulated
from tests.kernels.emulated_device import EmulatedDevice
from tests.kernels.mapped import KINDS, made
from workbench.engines.cuda.positions import MOST_ENTRIES, NOT_TOLD, positions_of
from workbench.errors import UsageError

pytestmark = pytest.mark.skipif(emulated.COMPILER is None, reason="no C++ compiler of the host (g++ or clang++)")


@pytest.fixture
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> EmulatedDevice:
    return EmulatedDevice(File(str(request.config.cache.mkdir("emulated-kernels"))), monkeypatch)


@pytest.mark.parametrize(("mode", "pool", "page_size"), KINDS)
def test_entries_are_turned_back(mode: str, pool: int, page_size: int, device: EmulatedDevice) -> None:
    call = made(mode, pool, page_size)
    assert torch.equal(call.positions(), call.selected)


def test_what_has_no_one_position(device: EmulatedDevice) -> None:
    call = made("table", page_size=8)
    table, good = call.given["table"], call.selected
    inside = int(good[0, 3]) // 8
    twice = table.clone()
    twice[0, (inside + 1) % 25] = twice[0, inside]
    told = call.positions(table=twice)
    on_it = (good[0] // 8 == inside) | (good[0] // 8 == (inside + 1) % 25)
    assert on_it[3]
    assert torch.equal(told[0] == NOT_TOLD, on_it)
    assert torch.equal(told[1:], good[1:]), "other rows have other tables"
    behind = table.clone()
    behind[6, 20] = behind[6, int(good[6, 0]) // 8]  # a row of 100 scores has 13 pages
    assert torch.equal(call.positions(table=behind), good)
    for entry, position in ((2**31 - 1, NOT_TOLD), (-1, -1), (-777, NOT_TOLD)):
        assert int(call.but(2, 5, entry).positions()[2, 5]) == position
    past = int(table[6, 12]) * 8 + 7  # on its last page, behind its length
    assert int(call.but(6, 5, past).positions()[6, 5]) == 103


def test_rows_without_a_table(device: EmulatedDevice) -> None:
    call = made("owners")
    for owner in (-1, 4, 2**31 - 1):
        owners = call.given["owners"].clone()
        owners[0] = owner
        told = call.positions(owners=owners)
        assert (told[0] == NOT_TOLD).all()
        assert torch.equal(told[1:], call.selected[1:])
    short = made("table")
    told = short.positions(table=short.given["table"][:3])
    assert torch.equal(told[:3], short.selected[:3])
    assert (told[3:][short.selected[3:] >= 0] == NOT_TOLD).all()


def test_positions_before_their_offset(device: EmulatedDevice) -> None:
    call = made("offsets")
    assert int(call.but(1, 4, 4999).positions()[1, 4]) == NOT_TOLD
    assert int(call.but(1, 4, 5000).positions()[1, 4]) == 0


@pytest.mark.parametrize("mode", ["plain", "offsets", "table"])
def test_pools_that_are_torn_apart(mode: str, device: EmulatedDevice) -> None:
    call = made(mode, 4)
    for column in (8, 9, 11):
        told = call.but(0, column, int(call.entries[0, 30])).positions()
        assert int(told[0, 2]) == NOT_TOLD
        assert torch.equal(told[0, 3:], call.selected[0, 3:])
    assert int(call.but(0, 9, -1).positions()[0, 2]) == NOT_TOLD
    swapped = call.but(0, 8, int(call.entries[0, 9])).but(0, 9, int(call.entries[0, 8]))
    assert int(swapped.positions()[0, 2]) == NOT_TOLD, "the judgement looks at what stands in another order"
    empty = call
    for column in range(8, 12):
        empty = empty.but(0, column, -1)
    assert int(empty.positions()[0, 2]) == -1


def test_as_many_entries_as_there_is_room_for(device: EmulatedDevice) -> None:
    table = torch.randperm(9000, generator=torch.Generator().manual_seed(2))[None].to(torch.int32)
    selected = torch.randperm(9000, generator=torch.Generator().manual_seed(3))[None, :MOST_ENTRIES].to(torch.int32)
    lengths = torch.tensor([9000], dtype=torch.int32)
    entries = table[0][selected.long()]
    assert torch.equal(positions_of(entries, lengths, 9000, MOST_ENTRIES, table=table), selected)


def test_what_is_refused(device: EmulatedDevice) -> None:
    call = made("table", 4)
    for other in ({"pool": 0}, {"page_size": 0}, {"pool": 5}):
        with pytest.raises(UsageError, match="1 or more are needed, and 99 columns hold at most 99 tokens"):
            call.positions(**other)
    many = torch.zeros(1, MOST_ENTRIES + 1, dtype=torch.int32)
    with pytest.raises(UsageError, match="at most 4096 tokens"):
        positions_of(many, call.lengths[:1], 9000, MOST_ENTRIES + 1)


def test_no_rows(device: EmulatedDevice) -> None:
    none = torch.empty(0, 5, dtype=torch.int32), torch.empty(0, dtype=torch.int32)
    assert positions_of(*none, 9, 3).shape == (0, 3)
