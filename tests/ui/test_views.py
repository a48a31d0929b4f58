"""The views say which path they show, and why it is not another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from streamlit.testing.v1 import AppTest

from tests.ui.conftest import K, texts
from workbench.capture import Call, Row, write_capture
from workbench.runs.inspect import inspect_row
from workbench.ui.common import default_path
from workbench.ui.diff_view import _width

Open = Callable[..., AppTest]
ROUTED = {"op": "vllm.persistent_topk", "release": "vllm==0.26.0", "device": "h200"}


def crowded(count: int) -> torch.Tensor:
    """Scores in a single coarse bin."""
    return torch.rand(count, generator=torch.Generator().manual_seed(0)) * 0.245 + 1.0


def row(count: int, *, recorded: bool = False, **known: str) -> Row:
    scores = crowded(count)
    best = torch.topk(scores, K).indices.to(torch.int32) if recorded else None
    call = Call(k=K, rows=1, width=count, stride=count, max_seq_len=count, **known)  # type: ignore[arg-type]
    return Row(scores, count, call=call, indices=best)


def shown_path(test: AppTest) -> object:
    return next(box for box in test.selectbox if box.label == "Path").value


def test_a_view_opens_on_what_the_sentence_is_about() -> None:
    routed = inspect_row(row(9000, recorded=True, **ROUTED))
    assert routed.reached == "vllm.histogram_256"
    assert default_path(routed, ["vllm.filtered", "vllm.histogram_256"]) == "vllm.histogram_256"
    free = inspect_row(row(9000))
    assert free.headline is not None
    every = [risk.path for risk in free.census]
    assert default_path(free, every) == free.headline.line.path


def test_else_on_a_path_that_takes_the_row() -> None:
    found = inspect_row(row(9000, **ROUTED))
    refused = [risk.path for risk in found.census if risk.refused]
    assert "vllm.histogram_2048" in refused
    assert default_path(found, ["vllm.histogram_2048", "vllm.filtered"]) == "vllm.filtered"
    assert default_path(found, refused) == refused[0]


@pytest.mark.parametrize(("view", "path"), [("bins", "vllm.radix"), ("diff", "flashinfer.ragged")])
def test_a_path_that_the_view_does_not_offer_is_said(app: Open, view: str, path: str) -> None:
    test = app(view=view, path=path)
    assert not test.exception
    assert f"The path chosen is {path}, which has no" in texts(test) or f"{path}, which no model runs" in texts(test)
    assert f"shown is {shown_path(test)} instead" in texts(test)


def test_the_reached_path_without_bins_and_a_refusal_are_both_said(app: Open, folder: Path) -> None:
    known = {"op": "vllm.persistent_topk", "release": "vllm==0.26.0", "device": "h200"}
    write_capture(folder / "long.safetensors", [row(40000, **known)])
    test = app(capture="dumps/long.safetensors", path="vllm.histogram_2048")
    assert not test.exception
    said = texts(test)
    assert "The op sends this row to vllm.radix, which has no coarse bins; shown is what vllm.histogram_2048" in said
    assert "vllm.histogram_2048 does not take this row (length 40000 is above 8192)" in said


def test_what_was_only_observed_is_not_shown_as_computed(app: Open) -> None:
    test = app(row="1", release="vllm==0.33.0")
    assert not test.exception
    metrics = {one.label: one.value for one in test.metric}
    assert (metrics["Population"], metrics["Capacity"]) == ("9,000", "–")
    assert (metrics["p clean"], metrics["Mean lost"], metrics["Least – most"]) == ("observed", "–", "–")


def test_equal_members_taken_are_told_apart(app: Open, folder: Path) -> None:
    scores = torch.zeros(2000)
    scores[:5] = 1.0
    other = torch.cat([torch.arange(5), torch.arange(1000, 1000 + K - 5)]).to(torch.int32)
    write_capture(folder / "ties.safetensors", [Row(scores, 2000, call=Call(k=K), indices=other)])
    test = app(capture="dumps/ties.safetensors", view="diff")
    assert not test.exception
    assert f"0 of {K} lost, {K - 5} left out (equal)" in texts(test)
    assert f"0 of {K} wrongly kept, {K - 5} other members taken" in texts(test)
    exact, taken = (one.value for one in test.main.dataframe if "gap" in one.value)
    assert set(exact["status"]) == {"left out (equal)"}
    assert set(taken["status"]) == {"other member taken"}


def test_a_column_has_room_for_its_longest_number() -> None:
    assert _width(["1", "−9.99784415e−41"]) >= 18 + 7 * len("−9.99784415e−41")


def test_unknown_risks_are_counted(app: Open, folder: Path) -> None:
    scores = crowded(9000)
    scores[:3] = float("nan")
    write_capture(folder / "nan.safetensors", [Row(scores, 9000, call=Call(k=K))])
    test = app(capture="dumps/nan.safetensors", view="capacity")
    assert not test.exception
    table = next(one.value for one in test.main.dataframe if "p_clean" in one.value)
    unknown = sum(chip[0] == "unknown" for chip in table["risk"])
    assert unknown
    assert f"can lose winners, unknown for {unknown}." in texts(test)
