"""The page of repeated calls: its sentence, what its pictures and tables hold, its link, and its engines."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from streamlit.testing.v1 import AppTest

import workbench as wb
from tests.diverging import lossy, make_row, other_order, other_tie
from tests.fakes import Releases, loses
from tests.ui.conftest import K, saved_names, taken, texts
from tests.ui.test_app import param, pick
from workbench.capture import write_capture
from workbench.runs.repeat import repeat
from workbench.runs.repeating import Repeating
from workbench.runs.report import Result
from workbench.ui import engines, repeat_made
from workbench.ui import repeat as page_module
from workbench.ui.repeat_view import Repeat, from_params, to_params

Open = Callable[..., AppTest]


@pytest.fixture
def page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Open the page on row 1 of the folder's capture, with parameters and arguments as given."""
    import sys

    def script() -> None:
        import streamlit as st

        from workbench.ui.pages import navigation
        from workbench.ui.repeat import repeat_page

        st.navigation(navigation())
        repeat_page()

    def open_page(arguments: list[str] | None = None, **params: str) -> AppTest:
        monkeypatch.setattr(sys, "argv", ["app.py", *([str(folder)] if arguments is None else arguments)])
        test = AppTest.from_function(script, default_timeout=60)
        for name, value in {"capture": "dumps/bad-row.safetensors", "row": "1", **params}.items():
            test.query_params[name] = value
        return test.run()

    repeat_made._held.clear()
    yield open_page
    repeat_made._held.clear()


def finished(test: AppTest) -> AppTest:
    end = time.monotonic() + 40
    while any(button.label == "Stop" for button in test.main.button):
        assert time.monotonic() < end, texts(test)
        test.run()
    assert not test.exception, test.exception
    return test


def figures(test: AppTest) -> list[dict[str, object]]:
    return [json.loads(one.proto.spec) for one in test.get("plotly_chart")]


def expected(folder: Path, calls: int) -> wb.runs.repeat.Repeated:  # type: ignore[name-defined]
    (line,) = repeat(wb.open(folder / "bad-row.safetensors")[1], calls, engine="model").lines
    return line


def members(test: AppTest) -> object:
    return next(one.value for one in test.main.dataframe if "selected by" in one.value.columns)


def test_it_says_how_much_calls_agree(page: Open, folder: Path) -> None:
    test = finished(page(calls="8"))
    line = expected(folder, 8)
    found = line.repeatability
    assert found is not None
    said = texts(test)
    assert line.sentence in said
    assert "8 calls of vllm.histogram_256 (stock): values vary" in said
    metrics = {one.label: one.value for one in test.main.metric}
    assert metrics["Repeatability"] == "values vary"
    assert metrics["Unstable"] == f"{len(found.members):,}"
    assert metrics["Steady"] == f"{found.steady:,}"
    assert len(figures(test)) == 3
    missing = figures(test)[2]["data"][0]["y"]  # type: ignore[index]
    assert len(missing.get("bdata", missing)) > 0
    table = members(test)
    near = {(member.index, member.rank, member.held) for member in found.members}
    shown = set(zip(table["index"], table["rank"], table["selected by"], strict=True))  # type: ignore[index]
    assert shown <= near
    assert len(shown) == min(2000, len(near))
    assert (param(test, "calls"), param(test, "row")) == ("8", "1")


def test_more_calls_go_on_and_fewer_are_not_made_again(
    page: Open, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = []
    run_case = wb.runs.repeating.run_case  # type: ignore[attr-defined]

    def noted(*args: object, **more: object) -> object:
        seeds.append(more["seed"])
        return run_case(*args, **more)

    monkeypatch.setattr("workbench.runs.repeating.run_case", noted)
    test = finished(page(calls="4"))
    assert seeds == [0, 1, 2, 3]
    (box,) = (one for one in test.number_input if one.label == "Calls")
    finished(box.set_value(6).run())
    assert seeds == [0, 1, 2, 3, 4, 5]
    assert param(test, "calls") == "6"
    (box,) = (one for one in test.number_input if one.label == "Calls")
    finished(box.set_value(3).run())
    assert seeds == [0, 1, 2, 3, 4, 5]
    assert expected(folder, 3).sentence in texts(test)


@pytest.fixture
def may(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Calls of the model, one for each release."""
    called, allowed = Repeating.called, threading.Semaphore(0)

    def one_by_one(self: Repeating) -> Result:
        assert allowed.acquire(timeout=30)
        return called(self)

    monkeypatch.setattr(page_module, "AT_ONCE_S", 0.0)
    monkeypatch.setattr(Repeating, "called", one_by_one)
    return allowed


def reached(test: AppTest, text: str) -> AppTest:
    """The page once its bar says so."""
    end = time.monotonic() + 30
    while not any(one.proto.text.endswith(text) for one in test.get("progress")):
        assert time.monotonic() < end
        time.sleep(0.02)
        test.run()
    return test


def test_it_can_be_stopped_and_goes_on(page: Open, may: threading.Semaphore) -> None:
    may.release(2)
    test = reached(page(calls="5"), "Calling: 2 of 5 calls")
    (stop,) = (one for one in test.main.button if one.label == "Stop")
    stop.click().run()
    assert not test.exception
    may.release(1)  # the call that it is at
    reached(test, "Stopped: 3 of 5 calls are made, and kept")
    (go,) = (one for one in test.main.button if one.label == "Go on")
    assert "3 calls of vllm.histogram_256 (stock)" in texts(test)
    may.release(9)
    go.click().run()
    assert "5 calls of vllm.histogram_256 (stock)" in texts(finished(test))


def test_calls_that_nobody_looks_at_are_not_gone_on_with(
    page: Open, may: threading.Semaphore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeat_made, "UNSEEN_S", 0.3)
    test = page(calls="5")
    time.sleep(0.4)
    may.release(9)
    end = time.monotonic() + 30
    while any(thread.name == "background" for thread in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.02)
    monkeypatch.setattr(repeat_made, "UNSEEN_S", 60.0)
    test.run()  # who looks again has them gone on with
    assert "5 calls of vllm.histogram_256 (stock)" in texts(finished(test))


def test_pictures_are_drawn_of_ever_more_calls_and_sent_a_few_times(page: Open, may: threading.Semaphore) -> None:
    test = page(calls="18", path="vllm.filtered")
    drawn = []
    for made in range(1, 18):
        may.release(1)
        reached(test, f"Calling: {made} of 18 calls")
        drawn.append(next((text.split(" calls of")[0] for text in texts(test).split(">") if " calls of" in text), "0"))
    assert sorted(set(map(int, drawn))) == [0, 4, 16]
    may.release(1)
    assert "18 calls of vllm.filtered (stock)" in texts(finished(test))


def test_a_link_restores_it_and_a_hostile_one_is_told(page: Open) -> None:
    test = finished(page(calls="3", path="vllm.filtered", variant="stock", engine="model"))
    assert "3 calls of vllm.filtered (stock)" in texts(test)
    assert param(test, "path") == "vllm.filtered"
    test = finished(page(calls="<b>1000000</b>", engine="gpu", zzz="1"))
    said = texts(test)
    assert "The link's calls is left out" in said
    assert "The link's engine is left out" in said
    assert "'zzz'" in said
    assert "50 calls of" in said
    assert from_params({"calls": ["1"]})[1]
    assert from_params({"calls": ["1001"]})[0] == Repeat()
    assert from_params(to_params(Repeat(7))) == (Repeat(7), [])


def test_recorded_calls_on_the_same_input_are_compared(page: Open, folder: Path) -> None:
    row = make_row(0, 0)
    rows = [row, other_tie(row), lossy(row), other_order(row), make_row(1, 1)]
    write_capture(folder / "many.safetensors", [replace(one, index=at) for at, one in enumerate(rows)])
    test = finished(page(capture="dumps/many.safetensors", row="0", engine="recorded"))
    line = repeat(row, engine="recorded", among=rows).lines[-1]
    assert line.repeatability is not None
    assert line.repeatability.calls == 4
    assert line.sentence in texts(test)
    assert len(figures(test)) == 3
    assert sorted(members(test)["index"]) == sorted(member.index for member in line.repeatability.members)  # type: ignore[index]
    test = finished(page(capture="dumps/many.safetensors", row="0", calls="2", path="vllm.histogram_2048"))
    assert "As recorded: 4 calls of the recorded op: values vary" in texts(test)
    test = finished(page(engine="recorded", calls="2"))
    said = texts(test)
    assert "The model answers, for the recorded engine has no calls to compare: " in said
    assert "the capture holds no second call on the same input" in said
    assert "2 calls of vllm.histogram_256 (stock)" in said


@pytest.mark.parametrize("chosen", ["recorded", "cuda", "vendor"])
def test_an_engine_that_cannot_be_repeated_gives_way_to_the_model(
    page: Open, monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    """As after Divergence, Inspect, Repeat: the page is that of the model, and so is its link."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    test = finished(page(engine=chosen, calls="2"))
    plain = finished(page(calls="2", engine="model"))
    (calls,) = (one for one in test.main.number_input if one.label == "Calls")
    assert not calls.disabled
    controls = [[one.label for one in each.main.selectbox] for each in (test, plain)]
    assert controls[0] == controls[1]
    assert not any(one.disabled for one in test.main.selectbox)
    assert not [*test.main.info, *test.main.warning]
    assert len([one for one in test.main.caption if "The model answers" in one.value]) == 1
    assert param(test, "engine") == "model"
    assert pick(test, "Engine").value == "model"  # type: ignore[attr-defined]
    finished(calls.set_value(3).run())
    assert "3 calls of vllm.histogram_256 (stock)" in texts(test)
    assert (param(test, "engine"), param(test, "calls")) == ("model", "3")
    assert test.session_state["workbench-inspect-value"].engine == chosen  # the inspector still shows it
    shared = finished(page(**{name: values[-1] for name, values in test.query_params.items()}))
    assert "The model answers" not in texts(shared)
    assert "3 calls of vllm.histogram_256 (stock)" in texts(shared)


def test_engines_that_cannot_answer_say_why(page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for engine in ("cuda", "vendor"):
        said = texts(finished(page(engine=engine, calls="2")))
        assert f"The model answers, for the {engine} engine has no calls to compare: " in said
        assert "no CUDA device is visible to torch" in said
        assert "2 calls of vllm.histogram_256 (stock)" in said


def test_a_released_op_is_called_when_asked(page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Releases({"0.26.0": loses(7, every=2)})
    monkeypatch.setattr(page_module, "AT_ONCE_S", 30.0)
    monkeypatch.setattr(engines, "open_released", fake)
    monkeypatch.setattr(engines, "_why_not_released", lambda _: [])
    test = page(engine="vendor", calls="4")
    assert not test.exception
    assert fake.ran == []
    (button,) = (one for one in test.main.button if one.label.startswith("Call "))
    assert button.label == "Call vllm.persistent_topk of vllm==0.26.0 4 times"
    button.click().run()
    assert not test.exception
    assert fake.ran == ["0.26.0"]
    said = texts(test)
    assert "4 calls of the recorded op" not in said
    assert "4 calls of vllm.persistent_topk of vllm==0.26.0: values vary" in said
    assert f"2 of 4 calls lost winners or returned invalid slots: 0 to 7 of {K} missing." in said
    assert pick(test, "Op").disabled is not None  # type: ignore[attr-defined]


def test_a_row_that_no_call_moves_is_calm(page: Open) -> None:
    test = finished(page(row="0", calls="3", path="vllm.histogram_256"))
    said = texts(test)
    assert "No call lost a winner." in said
    assert len(figures(test)) == 1  # nothing comes and goes, and nothing is missing


def test_calls_and_unstable_indices_are_taken_away(page: Open, files: dict[str, Any], folder: Path) -> None:
    test = finished(page(path="vllm.histogram_256", calls="3"))
    name = "bad-row-row1-vllm.histogram_256-stock-3-calls"
    (line,) = repeat(wb.open(folder / "bad-row.safetensors")[1], 3, paths="vllm.histogram_256", engine="model").lines
    assert line.repeatability is not None
    held = taken(files, f"{name}-indices-that-come-and-go")
    assert [one["index"] for one in held] == [one.index for one in line.repeatability.members]
    assert [one["missing"] for one in taken(files, f"{name}-calls")] == list(line.missing)
    assert saved_names(test) == [f"{name}-held", f"{name}-frequency", f"{name}-missing"]
