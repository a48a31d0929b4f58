"""The page of releases as a person meets it: what it says, what it links to, and bad input answered in a line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import workbench as wb
from tests.fakes import Releases, clean, faults, loses
from tests.ui.conftest import make_capture, texts
from workbench.ui import releases_made
from workbench.ui.library import list_captures, list_matrices
from workbench.ui.releases_view import Released, from_params, to_params

Open = Callable[..., AppTest]


def _script() -> None:
    import streamlit as st

    from workbench.ui.pages import navigation
    from workbench.ui.releases import releases_page

    st.navigation(navigation())
    releases_page()


@pytest.fixture
def where(tmp_path: Path) -> Path:
    """A folder with a capture, one that names no op, the capture's matrix as measured, and two files that are none."""
    folder = tmp_path / "dumps"
    folder.mkdir()
    make_capture(folder / "bad-row.safetensors")
    wb.write(folder / "anonymous.safetensors", [wb.Row(wb.open(folder / "bad-row.safetensors")[1].scores, 9000)])
    fake = Releases({"0.26.0": loses(7), "0.27.1": faults("an illegal memory access"), "0.33.0": clean})
    with wb.open(folder / "bad-row.safetensors") as capture:
        wb.write_matrix(folder / "measured.json", wb.matrix(capture, fake.names, engine=fake))
    (folder / "other.json").write_text("{}")
    (folder / "broken.json").write_text('{"format": "workbench matrix 1"}')
    return folder


@pytest.fixture
def page(where: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    def open_page(**params: str) -> AppTest:
        monkeypatch.setattr(sys, "argv", ["app.py", str(where)])
        test = AppTest.from_function(_script, default_timeout=60)
        for name, value in params.items():
            test.query_params[name] = value
        return test.run()

    return open_page


def link(test: AppTest) -> tuple[str, dict[str, str]]:
    (found,) = test.get("page_link")
    pairs = (part.split("=", 1) for part in found.proto.query_string.split("&"))
    return found.proto.label.replace("\\", ""), {name: text.replace("%3D", "=") for name, text in pairs}


def params(test: AppTest) -> dict[str, str]:
    return {name: value if isinstance(value, str) else value[-1] for name, value in test.query_params.items()}


BAD = "dumps/bad-row.safetensors"


def test_few_rows_are_judged_at_once_and_the_worst_cell_is_shown(page: Open) -> None:
    test = page(source=BAD)
    assert not test.exception
    said = texts(test)
    assert (
        "1 of 3 rows loses winners in some release from vllm==0.20.2 to 0.33.0, 10 calls each by the model: row 1. "
        "None does in 0.33.0." in said
    )
    assert "Row 1 in vllm==0.32.0: loses" in said
    label, target = link(test)
    assert label == f"Inspect row 1 of {BAD} in vllm==0.32.0"
    assert (target["capture"].replace("%2F", "/"), target["row"], target["release"]) == (BAD, "1", "vllm==0.32.0")
    assert params(test)["source"] == BAD
    table = test.dataframe[0].value
    assert table["row"].tolist() == ["1", "0", "2"]
    assert table["0.33.0"].tolist() == ["safe"] * 3


def test_a_link_restores_the_cell_and_the_circumstances(page: Open) -> None:
    test = page(source=BAD, row="0", at="vllm==0.23.0", **{"from": "vllm==0.22.1", "to": "vllm==0.24.0"})
    assert "Row 0 in vllm==0.23.0: clean" in texts(test)
    assert list(test.dataframe[0].value.columns) == ["row", "length", "0.22.1", "0.23.0", "0.24.0"]
    assert test.selectbox(key="releases-first").value == "vllm==0.22.1"
    again = page(**params(test))
    assert "Row 0 in vllm==0.23.0: clean" in texts(again)
    assert params(again) == params(test)


def test_a_saved_matrix_is_shown_as_it_was_measured(page: Open) -> None:
    test = page(source="dumps/measured.json")
    assert not test.exception
    said = texts(test)
    assert "3 of 3 rows lose winners or fault in some release from vllm==0.26.0 to 0.33.0, 10 calls each" in said
    assert "Saved in dumps/measured.json; gpu fake." in said
    assert "faults: an illegal memory access." in said
    label, target = link(test)
    assert label.startswith(f"Inspect row 1 of {BAD}")
    assert target["digest"]


def test_a_saved_matrix_without_its_capture_says_so(page: Open, where: Path) -> None:
    (where / "bad-row.safetensors").unlink()
    make_capture(where / "bad-row.safetensors", seed=5)  # other scores under the same name
    test = page(source="dumps/measured.json")
    assert not test.get("page_link")
    assert "is not on offer here with these scores" in texts(test)


def test_what_a_capture_does_not_say_is_asked_for(page: Open) -> None:
    test = page(source="dumps/anonymous.safetensors")
    assert "The capture does not say which op its rows are of" in texts(test)
    test.selectbox(key="releases-op").set_value("vllm.persistent_topk").run()
    assert "The capture does not say k" in texts(test)
    test.selectbox(key="releases-k").set_value("512").run()
    assert not test.exception
    assert "device not known. Choose a device above." in texts(test)
    test.selectbox(key="releases-device").set_value("h200").run()
    assert "the route depends on rows" in texts(test)
    assert params(test)["op"] == "vllm.persistent_topk"


def test_rows_of_no_known_device_say_what_to_choose(page: Open, where: Path) -> None:
    with wb.open(where / "bad-row.safetensors") as capture:
        wb.write(where / "no-device.safetensors", [row.with_call(device=None) for row in capture])
    test = page(source="dumps/no-device.safetensors")
    assert (
        "None of the 3 rows was judged in any release from vllm==0.20.2 to 0.33.0: device not known. "
        "Choose a device above." in texts(test)
    )
    test.selectbox(key="releases-device").set_value("h200").run()
    assert "1 of 3 rows loses winners" in texts(test)
    assert "Choose a device" not in texts(test)


def test_many_rows_are_judged_when_asked(page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases_made, "AT_ONCE", 1)
    releases_made._made.clear()
    test = page(source=BAD)
    assert not test.dataframe
    (button,) = [one for one in test.button if one.label.startswith("Judge 3 rows")]
    button.click().run()
    assert not test.exception
    assert "1 of 3 rows loses winners" in texts(test)
    monkeypatch.setattr(releases_made, "MOST_ROWS", 2)
    releases_made._made.clear()
    assert "3 rows are more than the 2 that are judged here" in texts(page(source=BAD))


def test_bad_links_and_files_are_answered_in_a_line(page: Open) -> None:
    test = page(source="dumps/broken.json")
    assert not test.exception
    assert "dumps/broken.json: the matrix lacks 'calls'; make the matrix again" in texts(test)
    test = page(source="no/such.json", zzz="1", row="x", at="vllm==9")
    said = texts(test)
    assert "The link's source no/such.json is not below the folders given at start." in said
    assert "The link's row is left out" in said
    assert "a parameter that the workbench does not know: 'zzz'" in said
    test = page(source=BAD, row="77", digest="0123456789abcdef")
    assert "The link names row 77 of the matrix; it has 3, from 0." in texts(test)
    assert "The link was made from other content" in texts(test)
    test = page(source=BAD, **{"from": "vllm==0.33.0", "to": "vllm==0.20.2"})
    assert "the range runs backwards" in texts(test)
    test = page(source=BAD, **{"from": "sglang==0.5.23"})
    assert "sglang==0.5.23 is no release of vllm.persistent_topk" in texts(test)


def test_matrices_are_listed_apart_from_captures(where: Path) -> None:
    assert [entry.key for entry in list_matrices([str(where)])] == ["dumps/broken.json", "dumps/measured.json"]
    alone = str(where / "measured.json")
    assert [entry.key for entry in list_matrices([alone])] == ["measured.json"]
    listed = list_captures([alone])
    assert all(entry.key.startswith("samples/") for entry in listed.entries)
    assert list(listed.notes) == []


def test_the_value_survives_the_url() -> None:
    value = Released(
        "a.json", "0" * 16, "vllm.persistent_topk", "h200", 512, "vllm==0.20.2", "vllm==0.33.0", 3, "vllm==1"
    )
    assert from_params(to_params(value)) == (value, [])
    assert to_params(Released(digest="0" * 16)) == {}
