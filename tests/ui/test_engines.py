"""The engine of the selections shown: chosen, carried by the URL, asked for where it is slow, told where it cannot."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from streamlit.testing.v1 import AppTest

from tests.fakes import Releases, clean, faults, loses, refuses
from tests.ui.conftest import K, texts
from tests.ui.pages import settled
from tests.ui.test_app import param, pick
from workbench.capture import Call, Row, write_capture
from workbench.capture.mapped import Mapped
from workbench.engines.launch import Answer, Launch
from workbench.runs.report import Line, Result
from workbench.ui import engines
from workbench.ui.view import from_params

Open = Callable[..., AppTest]
STAYS = "The model answers, for the {} engine gives no selection here:"


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty store of releases, and nothing called yet."""
    engines._asked.clear()
    monkeypatch.setattr(engines, "AT_ONCE_S", 30.0)
    monkeypatch.setenv("TOPK_WORKBENCH_VENDOR", str(tmp_path / "store"))


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> Releases:
    """Releases that can be called here."""
    fake = Releases({"0.26.0": loses(7, every=2), "0.33.0": clean})
    monkeypatch.setattr(engines, "open_released", fake)
    monkeypatch.setattr(engines, "_why_not_released", lambda _: [])
    return fake


def call(test: AppTest) -> object:
    return next((one for one in test.main.button if one.label.startswith("Call")), None)


def test_the_recording_is_shown_where_the_page_speaks_of_it(app: Open) -> None:
    test = app(view="diff")
    assert pick(test, "Engine").value == "recorded"  # type: ignore[attr-defined]
    assert "engine" not in test.query_params
    assert not [box for box in test.selectbox if box.label == "Path"]
    pick(test, "Engine").set_value("model").run()  # type: ignore[attr-defined]
    assert not test.exception
    assert param(test, "engine") == "model"
    assert pick(test, "Path").value == "vllm.histogram_256"  # type: ignore[attr-defined]
    assert int(re.search(rf"(\d+) of {K} lost", texts(test))[1]) > 0


def test_links_of_earlier_versions_name_the_recording_as_a_path() -> None:
    view, problems = from_params({"view": "diff", "path": "recorded"})
    assert (view.engine, view.path, problems) == ("recorded", None, [])
    assert from_params({"engine": "gpu"})[1][0].startswith("The link's engine is left out: 'gpu' is none of")


def test_without_a_recording_the_model_answers(app: Open, folder: Path) -> None:
    known = {"op": "vllm.persistent_topk", "release": "vllm==0.26.0", "device": "h200"}
    call_ = Call(k=K, rows=1, width=9000, stride=9000, max_seq_len=9000, **known)  # type: ignore[arg-type]
    write_capture(folder / "plain.safetensors", [Row(torch.randn(9000), 9000, call=call_)])
    test = app(capture="dumps/plain.safetensors", view="diff", engine="recorded")
    assert not test.exception
    assert STAYS.format("recorded") + "\n\n- the capture holds no recorded selection of this row" in texts(test)
    assert "Arrival order: random, seed 0." in texts(test)
    assert param(test, "engine") == "recorded"


def test_entries_of_a_page_table_are_turned_back_or_told(app: Open, folder: Path) -> None:
    scores = torch.randn(1024, generator=torch.Generator().manual_seed(0))
    best = torch.topk(scores, 64).indices.to(torch.int32)
    table = torch.tensor([7, 3, 9, 1, 0, 12, 5, 8], dtype=torch.int32)
    slots = table[(best // 128).long()] * 128 + best % 128
    for name, mapped in (("known", Mapped("page table", table, page_size=128)), ("unknown", Mapped("page table"))):
        row = Row(scores, 1024, call=Call(k=64), indices=slots.to(torch.int32), mapped=mapped)
        write_capture(folder / f"{name}.safetensors", [row])
    test = app(capture="dumps/known.safetensors", view="diff", engine="recorded")
    assert "0 of 64 lost" in texts(test)
    assert "The model answers" not in texts(test)
    test = app(capture="dumps/unknown.safetensors", view="diff", engine="recorded")
    assert not test.exception
    assert "entries of a page table that the capture does not hold" in texts(test)
    assert STAYS.format("recorded") in texts(test)


def test_without_a_gpu_kernels_say_so_and_the_model_answers(app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    test = app(view="diff", engine="cuda", path="vllm.histogram_256")
    assert not test.exception
    assert STAYS.format("cuda") + "\n\n- no CUDA device is visible to torch" in texts(test)
    assert "--engine" not in texts(test)
    assert call(test) is None
    assert "Arrival order: random, seed 0." in texts(test)


def test_without_the_release_the_cure_is_told_and_the_model_answers(app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    test = app(view="diff", engine="vendor")
    assert not test.exception
    assert "fetch them: workbench vendor add vllm==0.26.0" in texts(test)
    assert "no CUDA device is visible to torch" in texts(test)
    assert STAYS.format("vendor") in texts(test)
    assert call(test) is None
    test = app(view="diff", engine="vendor", capture="samples/smollm2-lm-head.safetensors")
    assert "- the op is not known: choose it above\n- the release is not known: choose it above" in texts(test)


def test_a_released_op_is_called_when_asked_and_once(app: Open, released: Releases) -> None:
    test = app(view="diff", engine="vendor")
    assert not test.exception
    assert released.ran == []
    assert not [one for one in test.main.dataframe if "gap" in one.value]
    assert (pick(test, "Op of vllm==0.26.0").value, pick(test, "Op of").disabled) == ("vllm.persistent_topk", True)  # type: ignore[attr-defined]
    assert call(test).label == "Call vllm.persistent_topk of vllm==0.26.0"  # type: ignore[union-attr]
    call(test).click().run()  # type: ignore[union-attr]
    assert not test.exception
    assert released.ran == ["0.26.0"]
    assert released.batches == [(0, 1, 2)]  # the whole call as it was captured
    assert not released.open.total()
    said = texts(test)
    assert "vllm.histogram_256 (stock) lost 7 winners of 512" in said
    assert "10 calls of vllm.persistent_topk of vllm==0.26.0 on fake, values vary: 5 lost winners or returned" in said
    assert f"7 of {K} lost" in said
    assert call(test) is None
    again = app(view="diff", engine="vendor")
    assert texts(again).count(f"7 of {K} lost") == 1
    pick(again, "Release").set_value("vllm==0.33.0").run()  # type: ignore[attr-defined]
    call(again).click().run()  # type: ignore[union-attr]
    assert released.ran == ["0.26.0", "0.33.0"]
    assert "10 calls of vllm.persistent_topk of vllm==0.33.0 on fake, same: none lost winners." in texts(again)


@pytest.mark.parametrize(
    ("does", "words"),
    [(faults("an illegal memory access"), "an illegal memory access"), (refuses("k is 512"), "k is 512")],
)
def test_calls_that_give_nothing_say_why_and_may_be_made_again(
    app: Open, released: Releases, does: Callable[..., object], words: str
) -> None:
    released.does["0.26.0"] = does  # type: ignore[assignment]
    test = app(view="diff", engine="vendor", row="2")
    call(test).click().run()  # type: ignore[union-attr]
    assert not test.exception
    assert f"{STAYS.format('vendor')}\n\n- {words}" in texts(test)
    assert call(test).label.endswith(" again")  # type: ignore[union-attr]
    released.does["0.26.0"] = clean
    call(test).click().run()  # type: ignore[union-attr]
    assert "none lost winners" in texts(test)
    assert "The model answers" not in texts(test)


def test_a_call_that_hangs_is_stopped(app: Open, released: Releases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "AT_ONCE_S", 0.0)

    def hangs(launch: Launch, calls: int) -> Answer:
        assert isinstance(released.more, threading.Event)
        assert released.more.wait(30)
        return Answer(fault="the call was stopped")

    released.does["0.26.0"] = hangs
    test = app(view="diff", engine="vendor", row="2")
    call(test).click().run()  # type: ignore[union-attr]
    assert not test.exception
    assert call(test) is None
    assert test.get("progress")[0].proto.text.startswith("Calling vllm.persistent_topk of vllm==0.26.0 10 times")
    next(one for one in test.button if one.label == "Stop").click().run()
    settled(test)
    assert not test.exception
    assert f"{STAYS.format('vendor')}\n\n- the call was stopped" in texts(test)
    assert call(test).label.endswith(" again")  # type: ignore[union-attr]


def test_an_engine_that_cannot_be_opened_is_a_message(app: Open, released: Releases) -> None:
    del released.does["0.26.0"]
    test = app(view="diff", engine="vendor", row="0")
    call(test).click().run()  # type: ignore[union-attr]
    assert not test.exception
    assert "add it: workbench vendor add vllm==0.26.0" in test.main.error[0].value.replace("\\", "")
    assert call(test) is not None


def test_a_kernel_is_called_on_the_path_that_is_chosen(app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def kernel(case: object, path: str, variant: str, calls: int) -> object:
        asked.append((path, variant))
        line = Line(
            "c", 0, None, None, path, variant, "cuda", 0, None, K, 9000, "float32", refused="the device is too small"
        )
        return engines.Called(Result(line), 0)

    monkeypatch.setattr(engines, "_why_not_kernel", lambda *_: [])
    monkeypatch.setattr(engines, "call_kernel", kernel)
    test = app(view="diff", engine="cuda", path="vllm.filtered")
    assert call(test).label == "Call the kernel of vllm.filtered (stock)"  # type: ignore[union-attr]
    assert asked == []
    call(test).click().run()  # type: ignore[union-attr]
    assert asked == [("vllm.filtered", "stock")]
    assert f"{STAYS.format('cuda')}\n\n- the device is too small" in texts(test)
