"""The kernels that read each score once, on the CPU, against the profile of each row and the rule of screening."""

from __future__ import annotations

import math
from pathlib import Path as File

import pytest
import torch

from tests.kernels import emulated
from tests.kernels.emulated_device import POISON, EmulatedDevice
from tests.kernels.screened import OPS, Batch, batches, spoiled, suspected
from workbench.analysis.profile import RowProfile
from workbench.engines.cuda.census import count_rows, parts_of
from workbench.engines.cuda.screen import screen_rows
from workbench.engines.cuda.support_sources import SUPPORT, WIDTHS
from workbench.errors import UsageError
from workbench.numeric.histogram import RowCounts
from workbench.paths.catalog import PATHS

pytestmark = pytest.mark.skipif(emulated.COMPILER is None, reason="no C++ compiler of the host (g++ or clang++)")


@pytest.fixture(scope="session")
def folder(request: pytest.FixtureRequest) -> File:
    """Where the libraries are, kept between runs."""
    return File(str(request.config.cache.mkdir("emulated-kernels")))


@pytest.fixture
def device(folder: File, monkeypatch: pytest.MonkeyPatch) -> EmulatedDevice:
    return EmulatedDevice(folder, monkeypatch)


def expected(batch: Batch, at: int) -> RowCounts:
    """By the profile of the row, and of what it does not have by looking."""
    valid = batch.valid(at)
    profile = RowProfile(valid, "float32", batch.k)
    thresholds = {bits: profile.threshold(bits) for bits in WIDTHS} if profile.countable else {}
    past = (valid.abs() > 65504) & valid.isfinite()
    return RowCounts(valid.numel(), thresholds, profile.nan, int((valid == -math.inf).sum()), int(past.sum()))


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("name", batches())
def test_counts_are_those_of_the_profile(name: str, parts: int, copies: int, device: EmulatedDevice) -> None:
    batch, device.parts = batches()[name], parts
    counted = count_rows(
        batch.scores, batch.lengths, batch.k, starts=batch.starts, options={"COPIES": copies, "SPREAD": 2 - copies}
    )
    for at, counts in enumerate(counted.rows()):
        assert counts == expected(batch, at), (name, at)


def test_more_blocks_than_the_row_has_work_for(device: EmulatedDevice) -> None:
    batch, device.parts = batches()["short rows"], 7
    for at, counts in enumerate(count_rows(batch.scores, batch.lengths, batch.k).rows()):
        assert counts == expected(batch, at)


def test_no_rows(device: EmulatedDevice) -> None:
    none = torch.empty(0, 5), torch.empty(0, dtype=torch.int32)
    assert count_rows(*none, 1).rows() == []
    assert screen_rows(*none, torch.empty(0, 3, dtype=torch.int32), ()).rows() == []


def test_the_widths_are_those_of_the_paths() -> None:
    assert {path.key_bits for path in PATHS} == {*WIDTHS, None}
    assert max(WIDTHS) == SUPPORT["census.cu"]["FINE_BITS"]


def test_how_many_blocks_share_a_row() -> None:
    """Enough to fill an H200's 132 multiprocessors, none with little to read, no fewer than one."""
    assert parts_of(1024, 262144, 132) == 4
    assert parts_of(33, 262144, 132) == 16
    assert parts_of(1, 1 << 20, 132) == 64
    assert parts_of(100_000, 262144, 132) == parts_of(3, 100, 132) == parts_of(0, 0, 132) == 1


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("name", batches())
def test_screening_names_the_rows_that_the_rule_names(name: str, parts: int, device: EmulatedDevice) -> None:
    batch, device.parts = batches()[name], parts
    cases = [(OPS[0], *one) for one in spoiled(batch)]
    cases += [(op, *one) for op in OPS[1:] for one in spoiled(batch) if one[0] == "exact"]
    for op, what, selected, offsets in cases:
        found, gates = suspected(batch, selected, offsets, op)
        told = screen_rows(batch.scores, batch.lengths, selected, gates, starts=batch.starts, offsets=offsets)
        assert told.rows() == [at for at, bad in enumerate(found) if bad], (op, name, what)
        for at, bad in enumerate(found):
            if bad:
                assert torch.equal(told.kept[at].view(torch.int32), batch.scores[at].view(torch.int32))
            else:
                assert bool((told.kept[at].view(torch.int32) == POISON).all()), "what is good is not copied"


def test_rows_that_the_caller_keeps(device: EmulatedDevice) -> None:
    batch = batches()["usual rows"]
    _, selected, _ = next(spoiled(batch))
    found, gates = suspected(batch, selected, None)
    told = screen_rows(batch.scores, batch.lengths, selected, gates, keep=False)
    assert (told.kept, told.rows()) == (None, [at for at, bad in enumerate(found) if bad])


def test_buffers_alone_make_rows_suspect() -> None:
    """Of exact selections; so that the tests above compare more than broken ones."""
    batch = batches()["usual rows"]
    _, exact, _ = next(spoiled(batch))
    found = {op: suspected(batch, exact, None, op)[0] for op in OPS}
    assert found[OPS[0]] == [False, True, True, False, False, False], "a plateau loses no value"
    assert found[OPS[1]] == [False, False, True, False, True, True], "of a plateau on ranks only the judgement tells"


def test_what_is_refused(device: EmulatedDevice) -> None:
    batch = batches()["usual rows"]
    with pytest.raises(UsageError, match="k is 0"):
        count_rows(batch.scores, batch.lengths, 0)
    with pytest.raises(UsageError, match=r"at most 4096 is screened; coarse keys have 8, 10, 11, 12 bits"):
        screen_rows(batch.scores, batch.lengths, torch.zeros(6, 4097, dtype=torch.int32), ())
    with pytest.raises(UsageError, match="coarse keys have"):
        screen_rows(batch.scores, batch.lengths, torch.zeros(6, 4, dtype=torch.int32), [(9, 1, False, 0, 9)])
