"""The page Export: what can be caught, the smallest row, and the very files of the command line."""

from __future__ import annotations

import io
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
import torch
from streamlit.testing.v1 import AppTest
from typer.testing import CliRunner

from tests.cli.conftest import one_dropped
from tests.export.conftest import hot, row
from tests.ui.conftest import texts
from tests.ui.pages import driven, settled
from tests.ui.test_app import BAD, param, pick
from workbench.capture import Row, write_capture
from workbench.cli.main import app as command_line
from workbench.errors import CaptureError
from workbench.export import packed as packing
from workbench.export.losing import Losing
from workbench.paths.arrival import Arrival
from workbench.paths.spec import Variant
from workbench.ui import work

Open = Callable[..., AppTest]


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    st.cache_resource.clear()
    st.cache_data.clear()  # the files on offer are looked for every few seconds
    yield
    st.cache_resource.clear()


@pytest.fixture
def page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Open the page on the folder's captures, with parameters as given."""

    monkeypatch.setattr(sys, "argv", ["app.py"])
    return lambda **params: driven("export", [folder], **params).run()


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the download buttons of the last run would give, by file name: bytes, or what makes them when pressed."""
    found: dict[str, Any] = {}

    def button(label: str, data: Any, *, file_name: str, **_: Any) -> bool:
        found[file_name] = data
        return False

    monkeypatch.setattr(st, "download_button", button)
    return found


@pytest.fixture
def may_step(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Has a row shrink by three candidates, and by one more for each release."""
    step, allowed = work.Work._step, threading.Semaphore(3)

    def one_by_one(self: work.Work) -> tuple[int, int, int, bool]:
        assert allowed.acquire(timeout=30)
        return step(self)

    monkeypatch.setattr(work.Work, "_step", one_by_one)
    return allowed


@pytest.fixture
def rows(folder: Path) -> Path:
    """A row that loses under every order on a cluster, one that hardly ever loses, one of the LM head's kind."""
    found = {"certain": row(hot(16_300)), "unlucky": row(one_dropped()), "crowded": row(hot(5000))}
    found["anonymous"] = Row(hot(5000), 20_000).with_call(k=2048)
    for name, one in found.items():
        write_capture(folder / f"{name}.safetensors", [one])
    return folder


def press(test: AppTest, label: str) -> AppTest:
    """The page after a press, once what that asked for is done."""
    return settled(next(one for one in test.button if one.label == label).click().run())


def group(test: AppTest, label: str) -> Any:
    return next(one for one in test.get("button_group") if one.label == label)


def written(folder: Path, *args: object) -> dict[str, bytes]:
    """What ``workbench export`` writes."""
    ran = CliRunner().invoke(command_line, ["export", *map(str, args), "--to", str(folder)])
    assert ran.exit_code == 0, ran.output
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def made(offered: dict[str, Any]) -> dict[str, bytes]:
    """The files of the zip file on offer; those offered besides are the same ones."""
    (name,) = (one for one in offered if one.endswith(".zip"))
    with zipfile.ZipFile(io.BytesIO(offered[name]())) as archive:
        files = {one: archive.read(one) for one in archive.namelist()}
    beside = {one: data() for one, data in offered.items() if one != name and not one.endswith("-shrunk.safetensors")}
    assert beside.items() <= files.items()
    return files


def test_a_row_at_risk_is_exported_as_on_the_command_line(
    page: Open, offered: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    test = page()
    assert not test.exception
    assert "On vllm.histogram_256 (stock) this row is at risk; a test of it makes 1 call." in texts(test)
    assert pick(test, "Path").value == "vllm.histogram_256"  # type: ignore[attr-defined]
    assert not offered  # nothing is made unasked
    press(test, "Export")
    assert not test.exception
    assert not test.error
    files = made(offered)
    assert files == written(tmp_path / "cli", folder / "bad-row.safetensors", "--row", 1)
    assert len(offered) == 3
    (name,) = (one for one in files if one.endswith(".py"))
    assert [one.value for one in test.code] == [files[name].decode().strip(), f"python -m pytest {name}"]
    assert "Proved: passes on the exact reference, passes on vllm.histogram_256 (detect_rescan)" in texts(test)
    assert "fails on the model of vllm.histogram_256 (stock)." in texts(test)


@pytest.mark.parametrize(
    ("name", "path", "style", "op"),
    [
        ("crowded", None, "vllm", None),
        ("crowded", None, "flashinfer-trace", None),
        ("crowded", "sglang.fast_topk", "sglang", None),
        ("anonymous", "vllm.histogram_4096", "vllm", "vllm.persistent_topk"),
        ("anonymous", "sglang.v2_streaming", "sglang", "sglang.topk_transform_ragged_v2"),
        ("anonymous", "vllm.histogram_256", "pytest", None),
    ],
)
def test_every_style_is_that_of_the_command_line(
    page: Open,
    offered: dict[str, Any],
    rows: Path,
    tmp_path: Path,
    name: str,
    path: str | None,
    style: str,
    op: str | None,
) -> None:
    given = {} if path is None else {"path": path}
    test = page(capture=f"dumps/{name}.safetensors", style=style, **given)
    if op is not None:
        pick(test, "Op that").set_value(op).run()  # type: ignore[attr-defined]
    press(test, "Export")
    assert not test.exception
    assert not test.error
    options = [*(["--path", path] if path else []), *(["--op", op] if op else [])]
    assert made(offered) == written(tmp_path / "cli", rows / f"{name}.safetensors", "--style", style, *options)


def test_a_certain_row_is_exported(page: Open, offered: dict[str, Any], rows: Path) -> None:
    test = page(capture="dumps/certain.safetensors", path="vllm.cooperative_2")
    assert "is certain to lose winners; a test of it makes 1 call. Every call loses" in texts(test)
    press(test, "Export")
    assert not test.error
    (text,) = (content for name, content in made(offered).items() if name.endswith(".py"))
    assert b"REPEATS = 1\n" in text


def test_what_cannot_be_exported_says_why_and_what_to_do(page: Open, offered: dict[str, Any], rows: Path) -> None:
    test = page(capture=BAD, row="0")
    assert "vllm.histogram_256 (stock) loses nothing of this row" in texts(test)
    assert "No other path is known to lose winners of this row." in texts(test)
    test = page(capture=BAD, row="1", path="vllm.histogram_2048")
    assert "vllm.histogram_2048 (stock) is not run on this row" in texts(test)
    assert "length 9000 is above 8192" in texts(test)
    assert "The row can lose winners on vllm.histogram_256" in texts(test)
    assert "choose such a path above" in texts(test)
    test = page(capture=BAD, row="1", variant="detect_rescan")
    assert "vllm.histogram_256 (detect_rescan) loses nothing of this row" in texts(test)
    for one in (test, page(capture=BAD, row="2")):
        assert not one.exception
        assert not [button for button in one.button if button.label in ("Shrink", "Export")]
    assert not offered


def test_a_path_that_is_not_run_is_not_recommended(page: Open, offered: dict[str, Any], folder: Path) -> None:
    write_capture(folder / "nan.safetensors", [row(torch.full((9000,), torch.nan))])
    said = texts(page(capture="dumps/nan.safetensors"))
    assert "The row can lose winners on sglang.deep_select and tilelang.topk_selector, but that is not run" in said
    assert "choose such a path" not in said
    for path in ("sglang.deep_select", "tilelang.topk_selector"):  # where a choice would lead
        test = page(capture="dumps/nan.safetensors", path=path)
        assert not test.exception
        assert f"No test can be made of this row: {path} (stock) is not run on this row" in texts(test)
        assert "Nothing to export." in texts(test)


def test_a_row_that_hardly_ever_loses_can_be_shrunk(page: Open, offered: dict[str, Any], rows: Path) -> None:
    test = page(capture="dumps/unlucky.safetensors")
    assert "vllm.histogram_256 (stock) loses too seldom on this row" in texts(test)
    assert "shrink the row first" in texts(test)
    assert not [button for button in test.button if button.label == "Export"]
    assert "Nothing to export yet." in texts(test)
    press(test, "Shrink")
    assert not test.exception
    assert "Row 0 shrank from 20000 scores to" in texts(test)
    press(test, "Export")
    assert not test.error
    assert len(made(offered)) == 2


def test_shrink_then_export_as_on_the_command_line(
    page: Open, offered: dict[str, Any], rows: Path, tmp_path: Path
) -> None:
    test = page(capture="dumps/crowded.safetensors")
    press(test, "Shrink")
    assert not test.exception
    small = tmp_path / "small.safetensors"
    ran = CliRunner().invoke(command_line, ["shrink", str(rows / "crowded.safetensors"), "--output", str(small)])
    assert ran.exit_code == 1, ran.output
    assert "Row 0 shrank from 20000 scores to 8193, k from 2048 to 512, and shows the same fault on" in texts(test)
    table = next(one.value for one in test.main.dataframe if "before" in one.value).set_index("of the row")
    assert list(table.loc["population"]) == ["5,000", "4,097"]
    assert list(table.loc["length"]) == ["20,000", "8,193"]
    assert list(table.loc["p clean"]) == ["4e−237", "0.8750"]
    assert list(table.loc["level"]) == ["at risk"] * 2
    assert offered["crowded-row0-vllm.histogram_256-shrunk.safetensors"]() == small.read_bytes()
    press(test, "Export")
    assert not test.error
    assert made(offered) == written(tmp_path / "small", small)
    assert "a test of it makes 104 calls" in texts(test)
    offered.clear()
    next(one for one in test.get("button_group") if one.label == "Row").set_value("as captured").run()
    press(test, "Export")
    assert made(offered) == written(tmp_path / "captured", rows / "crowded.safetensors")


def test_the_shrunk_row_opens_in_the_inspector(page: Open, rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turned: list[Any] = []
    monkeypatch.setattr(st, "switch_page", lambda page, query_params: turned.append((page.title, query_params)))
    test = press(page(capture="dumps/anonymous.safetensors", path="sglang.fast_topk"), "Shrink")
    press(test, "Inspect the shrunk row")
    assert not test.exception
    assert not test.error
    link = {"capture": "upload/anonymous-row0-sglang.fast_topk-shrunk.safetensors", "path": "sglang.fast_topk"}
    assert turned == [("Inspect", link)]


def test_a_press_of_export_is_heard_while_a_row_gets_its_shrunk_one(
    page: Open, offered: dict[str, Any], rows: Path, tmp_path: Path, may_step: threading.Semaphore
) -> None:
    """Shrinking ends between what a viewer sees and what is pressed: what was on offer then is exported, and shown."""
    test = page(capture="dumps/crowded.safetensors")
    next(one for one in test.button if one.label == "Shrink").click().run()
    assert "Stop" in [one.label for one in test.button]
    (export,) = (one for one in test.button if one.label == "Export")
    may_step.release(10_000)
    end = time.monotonic() + 60
    while any(one.name == "background" for one in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.01)
    settled(export.click().run())
    assert not test.exception
    assert "Row 0 shrank" in texts(test)
    row_of = next(one for one in test.get("button_group") if one.label == "Row")
    assert row_of.value == "as captured"
    assert made(offered) == written(tmp_path / "captured", rows / "crowded.safetensors")
    row_of.set_value("shrunk").run()
    # The same button for both, so that a press is heard whichever the browser had drawn by then.
    assert next(one for one in test.button if one.label == "Export").key == export.key
    offered.clear()
    press(test, "Export")
    assert all("n8193" in name for name in made(offered))


@pytest.mark.parametrize(("pressed", "chosen"), [("Export", "Style"), ("Export", "Path"), ("Shrink", "Path")])
def test_a_choice_that_arrives_with_a_press_is_what_the_press_is_for(
    page: Open, offered: dict[str, Any], rows: Path, pressed: str, chosen: str
) -> None:
    test = page(capture="dumps/crowded.safetensors")
    if chosen == "Style":
        group(test, chosen).set_value("vllm")
    else:
        pick(test, chosen).set_value("sglang.fast_topk")  # type: ignore[attr-defined]
    press(test, pressed)  # both in one run
    assert not test.exception
    assert not test.error
    if pressed == "Shrink":
        assert "Row 0 shrank" in texts(test)
        assert "shows the same fault on sglang.fast_topk (stock)" in texts(test)
    else:
        (name,) = (one for one in offered if one.endswith(".zip"))
        assert name.endswith("-vllm.zip" if chosen == "Style" else "-pytest.zip")
        assert ("sglang.fast_topk" in name) == (chosen == "Path")


def test_the_row_chosen_stays_so_with_a_press_and_while_it_shrinks_on(
    page: Open, offered: dict[str, Any], rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "LIMIT", 0.02)
    test = press(page(capture="dumps/crowded.safetensors"), "Shrink")
    while not any(one.label == "Row" for one in test.get("button_group")):
        press(test, "Go on")
    group(test, "Row").set_value("as captured")
    press(test, "Export")  # both in one run
    assert group(test, "Row").value == "as captured"
    assert "n20000" in " ".join(made(offered))
    offered.clear()
    monkeypatch.setattr(work, "LIMIT", 60.0)
    press(test, "Go on")
    assert "a local minimum" in texts(test)
    assert group(test, "Row").value == "as captured"
    assert "n20000" in " ".join(made(offered))


def test_a_press_that_nothing_can_be_done_with_is_forgotten(page: Open, offered: dict[str, Any], rows: Path) -> None:
    test = page(capture="dumps/crowded.safetensors")
    pick(test, "Variant").set_value("detect_rescan")  # type: ignore[attr-defined]
    press(test, "Export")  # on what loses nothing
    pick(test, "Variant").set_value("stock").run()  # type: ignore[attr-defined]
    settled(test)
    assert not test.exception
    assert not offered  # nothing is made unasked
    assert "Export" in [one.label for one in test.button]


def test_shrinking_stops_and_goes_on_to_the_same_end(
    page: Open, offered: dict[str, Any], rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "crowded-row0-vllm.histogram_256-shrunk.safetensors"
    press(page(capture="dumps/crowded.safetensors"), "Shrink")
    whole = offered[name]()
    st.cache_resource.clear()
    monkeypatch.setattr(work, "LIMIT", 0.0)
    test = press(page(capture="dumps/crowded.safetensors"), "Shrink")
    assert "did not get smaller yet: 20000 scores" in texts(test)
    assert not test.exception
    monkeypatch.setattr(work, "LIMIT", 0.05)
    for _ in range(200):
        if not [button for button in test.button if button.label == "Go on"]:
            break
        press(test, "Go on")
        assert not test.exception
    assert "a local minimum" in texts(test)
    assert offered[name]() == whole


def test_a_press_of_stop_is_heard_while_a_row_shrinks(page: Open, rows: Path, may_step: threading.Semaphore) -> None:
    test = page(capture="dumps/crowded.safetensors")
    next(one for one in test.button if one.label == "Shrink").click().run()
    for looked_at in (test.run(), page(capture="dumps/crowded.safetensors")):  # by any session
        assert "Stop" in [one.label for one in looked_at.button]
        (bar,) = looked_at.get("progress")
        assert bar.proto.text.startswith("Shrinking: ")
        assert not [one for one in looked_at.button if one.label in ("Shrink", "Go on")]
    next(one for one in test.button if one.label == "Stop").click().run()
    may_step.release(100)
    settled(test)
    assert not test.exception
    assert "Go on" in [one.label for one in test.button]
    assert "stopped before the end" in texts(test) or "did not get smaller yet" in texts(test)


def test_a_row_that_cannot_be_shrunk_is_one_line(page: Open, rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(given: Row, *_: Any, **__: Any) -> None:
        raise CaptureError("its risk is not known", file=given.capture, row=given.index)

    monkeypatch.setattr(work, "Shrinking", refuse)
    test = press(page(capture="dumps/crowded.safetensors"), "Shrink")
    assert not test.exception
    assert test.error[0].value.replace("\\", "") == "dumps/crowded.safetensors, row 0: its risk is not known"
    assert [button.label for button in test.button if button.label in ("Shrink", "Stop")] == ["Shrink"]
    assert not test.run().error


def test_an_export_is_stopped_between_two_calls_of_its_test_and_leaves_nothing(
    page: Open, offered: dict[str, Any], rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    select, may, folder = Losing.select, threading.Semaphore(1), tmp_path / "temporary"
    folder.mkdir()

    def one_by_one(self: Losing, order: Arrival, variant: Variant | None = None) -> Any:
        if variant is None:
            assert may.acquire(timeout=30)
            variant = next(self.exact_variants())  # a call that loses nothing, after which there is another one
        return select(self, order, variant)

    write_capture(rows / "five.safetensors", [row(hot(4100))])  # a test of it makes 5 calls
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    test = page(capture="dumps/five.safetensors")
    with monkeypatch.context() as patch:
        patch.setattr(Losing, "select", one_by_one)
        next(one for one in test.button if one.label == "Export").click().run()
        end = time.monotonic() + 30
        while not any("call 2 of 5 at most" in one.proto.text for one in test.get("progress")):
            assert time.monotonic() < end
            test.run()
        assert list(folder.glob("topk-workbench-*"))
        next(one for one in test.button if one.label == "Stop").click().run()
        assert test.get("progress")[0].proto.text.startswith("Stopping. Running the test: ")
        may.release(1)  # the call that it is at
        settled(test)
    assert not test.exception
    assert "Stopped: the test was not run to its end, and nothing of it is kept." in texts(test)
    assert not list(folder.iterdir())
    assert not offered
    assert "Stopped: " not in texts(test.run())
    press(test, "Export")
    assert len(made(offered)) == 2


def test_nothing_is_worked_out_twice(
    page: Open, offered: dict[str, Any], rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrunk, exported = [], []
    begin, export = work.Shrinking, packing.export_case
    monkeypatch.setattr(work, "Shrinking", lambda *a, **k: shrunk.append(a) or begin(*a, **k))
    monkeypatch.setattr(packing, "export_case", lambda *a, **k: exported.append(k["style"]) or export(*a, **k))
    first = press(press(page(capture="dumps/crowded.safetensors"), "Shrink"), "Export")
    (rows / "other-name.safetensors").write_bytes((rows / "crowded.safetensors").read_bytes())
    st.cache_data.clear()
    other = page(capture="dumps/other-name.safetensors")  # another session, the same bytes
    assert "Row 0 shrank" in texts(other)
    press(other, "Export")
    first.run()
    assert [one.value for one in other.code] == [one.value for one in first.code]
    assert (len(shrunk), exported) == (1, ["pytest"])
    refused = press(page(capture=BAD, row="1", style="sglang"), "Export").run()
    assert "no op that this style can call sends a row to vllm.histogram_256" in refused.error[0].value.replace(
        "\\", ""
    )
    assert exported == ["pytest", "sglang"]


def test_a_link_restores_path_variant_and_style(page: Open, rows: Path) -> None:
    link = {"path": "vllm.filtered", "variant": "detect_rescan", "style": "vllm"}
    test = page(capture=BAD, row="1", **link)
    assert not test.exception
    assert {name: param(test, name) for name in link} == link
    assert pick(test, "Variant").value == "detect_rescan"  # type: ignore[attr-defined]
    pick(test, "Variant").set_value("stock").run()  # type: ignore[attr-defined]
    assert param(test, "variant") == "stock"
    pick(test, "Path").set_value("vllm.histogram_256").run()  # type: ignore[attr-defined]
    assert "variant" not in test.query_params
    for hostile in ("nothing", "ring_reuse", "<b>"):
        test = page(capture=BAD, row="1", variant=hostile)
        assert not test.exception
        said = texts(test)
        assert (
            "The link's variant is left out" in said
            or f"{hostile}, which is no variant of vllm.histogram_256; shown is" in said
        )
    assert "The link's style is left out" in page(style="nose").warning[0].value.replace("\\", "")


def test_a_disk_without_room_is_one_line_and_is_tried_again(
    page: Open, offered: dict[str, Any], rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise CaptureError("cannot be written: No space left on device", file="the temporary folder")

    test = page(capture="dumps/crowded.safetensors")
    with monkeypatch.context() as patch:
        patch.setattr(work, "export_packed", full)
        press(test, "Export")
    assert test.error[0].value.replace("\\", "") == "the temporary folder: cannot be written: No space left on device"
    press(test, "Export")
    assert not test.error
    assert len(made(offered)) == 2


def test_rows_that_no_test_is_for_are_messages(page: Open, folder: Path) -> None:
    odd = {"short": row(torch.randn(2048)), "half": row(torch.randn(4000).bfloat16()), "ties": row(torch.zeros(9000))}
    odd["nan"] = row(torch.full((9000,), torch.nan))
    odd["outside"] = replace(row(hot(5000)), length=30_000)
    for name, one in odd.items():
        write_capture(folder / f"{name}.safetensors", [one])
        test = page(capture=f"dumps/{name}.safetensors")
        assert not test.exception
        assert not test.error
        offers = [button.label for button in test.button if button.label in ("Shrink", "Export")]
        assert bool(offers) == ("No test can be made of this row" not in texts(test))
        for label in offers:
            press(test, label)
            assert not test.exception
            assert not test.error
