"""The first release from which a row loses nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

import workbench as wb
from tests.fakes import Does, Releases, clean, faults, loses, refuses
from tests.runs.test_matrix import CAPTURES, crowded, small
from tests.warps import routed_warp
from workbench.errors import UsageError
from workbench.runs.bisect_words import bisect_sentence, method_sentence, sure_sentence

EIGHT = [f"0.{at}" for at in range(1, 9)]


def spelled(text: str) -> dict[str, Does]:
    """Releases 0.1, 0.2, … of which each loses (L), is clean (C), faults (F) or refuses (R)."""
    does: Mapping[str, Does] = {"L": loses(2), "C": clean, "F": faults("illegal access"), "R": refuses("no such k")}
    return {f"0.{at}": does[letter] for at, letter in enumerate(text, 1)}


def bisect(text: str, **more: object) -> tuple[wb.Bisection, Releases]:
    fake = Releases(spelled(text))
    return wb.bisect_release(small(), fake.names, engine=fake, **more), fake  # type: ignore[arg-type]


@pytest.mark.parametrize("losing", range(1, 8))
def test_monotone_releases_are_bisected(losing: int) -> None:
    found, fake = bisect("L" * losing + "C" * (8 - losing))
    assert found.method == "bisection"
    assert (found.first_clean, found.last_losing) == (f"vllm==0.{losing + 1}", f"vllm==0.{losing}")
    assert len(fake.ran) <= 5
    assert len(set(fake.ran)) == len(fake.ran)
    assert not found.loses
    assert found.regressions == ()
    assert set(found.not_run) == set(fake.names) - {f"vllm=={one}" for one in fake.ran}
    assert fake.open.total() == 0


@pytest.mark.parametrize(
    ("text", "first", "again", "because"),
    [
        ("CCLLCC", "0.5", [("0.2", "0.3")], "both ends are clean"),
        ("CCCCLL", None, [("0.4", "0.5")], "the oldest release is clean and the newest loses"),
        ("LLLLL", None, [], "both ends lose"),
        ("CCCC", "0.1", [], "both ends are clean"),
        ("LCLCL", None, [("0.2", "0.3"), ("0.4", "0.5")], "both ends lose"),
        ("LLFCC", "0.4", [], "vllm==0.3 gives no verdict (fault)"),
        ("RLLCC", "0.4", [], "vllm==0.1 gives no verdict (refused)"),
        ("LLCF", "0.3", [], "vllm==0.4 gives no verdict (fault)"),
    ],
)
def test_what_cannot_be_bisected_is_scanned(
    text: str, first: str | None, again: list[tuple[str, str]], because: str
) -> None:
    found, fake = bisect(text)
    assert (found.method, found.because) == ("scan", because)
    assert sorted(fake.ran) == list(fake.does)
    assert found.first_clean == (None if first is None else f"vllm=={first}")
    assert found.regressions == tuple((f"vllm=={one}", f"vllm=={two}") for one, two in again)
    assert f"By a scan ({because})" in method_sentence(found)
    for clean_in, loses_in in again:
        assert f"clean in {clean_in} and losing in {loses_in}" in bisect_sentence(found)


def test_a_fault_in_the_newest_release_is_a_finding() -> None:
    found, _ = bisect("LLCF")
    assert found.newest is not None
    assert found.newest.release == "vllm==0.4"
    assert found.loses
    assert bisect_sentence(found).endswith("It faults in 0.4: illegal access.")


def test_scan_as_asked() -> None:
    found, fake = bisect("LLLLCCCC", scan=True)
    assert (found.method, found.because, found.first_clean) == ("scan", "as asked", "vllm==0.5")
    assert len(fake.ran) == 8


def test_flaky_losses_are_found_with_enough_calls_and_doubted_with_few() -> None:
    does = dict.fromkeys(EIGHT[:5], loses(2, every=9)) | dict.fromkeys(EIGHT[5:], clean)
    fake = Releases(does)
    found = wb.bisect_release(small(), fake.names, engine=fake, calls=20)
    assert found.first_clean == "vllm==0.6"
    # 3 of 20 calls lost in 0.5: that 20 calls pass has a chance of (18 / 22) ** 20
    assert found.chance == pytest.approx((18 / 22) ** 20)
    assert not found.sure
    assert (
        "(3 of 20 calls lost), 20 calls without a loss would come with probability 0.018: these calls do not show"
        in (sure_sentence(found))
    )
    sure = wb.bisect_release(small(), fake.names, engine=fake, calls=50)
    assert sure.sure
    assert "do not show" not in sure_sentence(sure)


def test_the_model_bisects_and_finds_regressions() -> None:
    found = wb.bisect_release(replace(crowded(), call=replace(crowded().call, rows=1)))
    assert (found.method, found.first_clean, found.last_losing) == ("bisection", "vllm==0.33.0", "vllm==0.32.0")
    assert bisect_sentence(found).startswith("The first release from which row 0 loses nothing is vllm==0.33.0")
    assert "rests on what was observed" in sure_sentence(found)
    again = wb.bisect_release(crowded(rows=33))
    assert again.method == "scan"
    assert "loses again after a clean release" in again.because
    assert again.regressions == (("vllm==0.23.0", "vllm==0.24.0"),)
    assert again.first_clean == "vllm==0.33.0"
    assert "It came back: clean in 0.23.0 and losing in 0.24.0." in bisect_sentence(again)


def test_an_observation_against_the_prediction_leads_to_a_scan() -> None:
    with wb.open(CAPTURES / "public-vllm-b300.safetensors") as capture:
        row = capture[3]
    versions = ("0.20.2", "0.22.1", "0.23.0", "0.24.0", "0.25.1", "0.26.0", "0.27.1", "0.28.0")
    as_predicted = Releases({one: loses(9) if at < 3 else clean for at, one in enumerate(versions)})
    found = wb.bisect_release(row, as_predicted.names, engine=as_predicted, device="h200")
    assert (found.method, found.first_clean) == ("bisection", "vllm==0.24.0")
    assert found.chance is not None
    assert found.chance < 1e-60
    assert found.sure
    assert "If vllm==0.24.0 still lost as 0.23.0 does (p_clean 4e−8), 10 calls" in sure_sentence(found)
    other = Releases({one: loses(9) if at < 4 else clean for at, one in enumerate(versions)})
    found = wb.bisect_release(row, other.names, engine=other, device="h200")
    assert (found.method, found.first_clean) == ("scan", "vllm==0.25.1")
    assert found.because == ("vllm==0.24.0 loses, though by routing and the analysis the row is safe there")
    assert len(found.cells) == 8


def test_releases_without_the_op_are_told_and_not_run() -> None:
    row = replace(crowded(), call=replace(crowded().call, op="vllm.cooperative_topk", rows=33))
    versions = ("0.22.1", "0.23.0", "0.24.0", "0.32.0", "0.33.0")
    fake = Releases({one: clean if one == "0.33.0" else loses(9) for one in versions})
    found = wb.bisect_release(row, fake.names, engine=fake)
    assert "0.22.1" not in fake.ran
    assert found.cells["vllm==0.22.1"].refused == "vllm==0.22.1 has no cooperative_topk"
    assert found.first_clean == "vllm==0.33.0"


def test_a_release_that_faulted_was_called() -> None:
    assert method_sentence(bisect("LFRC")[0]).endswith(" of each of 2 of 4 releases; 1 faulted; 1 could not be called.")
    assert method_sentence(bisect("FF")[0]).endswith(" of each of 0 of 2 releases; 2 faulted.")


@pytest.mark.parametrize(
    ("does", "sentence", "method"),
    [
        ("C", "Row 0 loses nothing in vllm==0.1.", "By 10 calls of it."),
        ("L", "Row 0 loses winners in vllm==0.1 (2 missing a call).", "By 10 calls of it."),
        ("F", "Row 0 faults in vllm==0.1: illegal access.", ""),
        ("R", "Row 0 is refused by vllm==0.1: no such k.", "It was not called."),
    ],
)
def test_one_release_is_told_as_one(does: str, sentence: str, method: str) -> None:
    found, _ = bisect(does)
    assert (bisect_sentence(found), method_sentence(found)) == (sentence, method)


def test_nothing_judged() -> None:
    found, _ = bisect("RRR")
    assert found.newest is None
    assert not found.loses
    assert "is refused by vllm==0.1 to 0.3: no such k" in bisect_sentence(found)
    assert method_sentence(found) == "None of the 3 releases was called."


def test_bad_asks() -> None:
    with pytest.raises(UsageError, match="releases of 2 packages have no order"):
        wb.bisect_release(small(), "vllm==0.26.0,sglang-kernel==0.4.6")
    with pytest.raises(UsageError, match="calls is 0"):
        wb.bisect_release(small(), "vllm==0.26.0", calls=0)


def test_how_sure_a_release_is_follows_the_law_of_warps() -> None:
    """One by one, scores would let ten calls pass with 1e-8; in warps they pass nearly always."""
    fake = Releases({"0.31.0": clean, "0.32.0": loses(1, every=10), "0.33.0": clean})
    found = wb.bisect_release(routed_warp(), fake.names, engine=fake)
    assert (found.first_clean, found.last_losing) == ("vllm==0.33.0", "vllm==0.32.0")
    assert found.cells["vllm==0.31.0"].state == "can lose"
    assert found.chance is not None
    assert 0.5 < found.chance < 0.9
    assert not found.sure
    assert (
        "If vllm==0.33.0 still lost as 0.32.0 does (p_clean in warps of 32 at most 0.9840), 10 calls without a loss "
        "would come with probability 0.85: these calls do not show that it is clean; make more of them."
    ) in sure_sentence(found)
    sure = wb.bisect_release(routed_warp(), fake.names, engine=fake, calls=300)
    assert sure.sure
