"""What the URL says, what is read from it later, and which file the app opens on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import streamlit as st
import torch
from safetensors.torch import save_file
from streamlit.testing.v1 import AppTest

from tests.ui.conftest import K, make_capture, texts
from tests.ui.test_app import BAD, param, pick
from workbench.capture import Call, Row, write_capture
from workbench.ui.view import View, from_params

Open = Callable[..., AppTest]


def test_a_url_that_changed_is_followed(app: Open) -> None:
    test = app(row="0", view="capacity")
    pick(test, "k").set_value("1024").run()  # type: ignore[attr-defined]
    assert (param(test, "row"), param(test, "k")) == ("0", "1024")
    del test.query_params["k"]
    test.query_params["row"] = "2"
    test.run()
    assert not test.exception
    assert "row 2" in texts(test)
    assert pick(test, "k").value == ""  # type: ignore[attr-defined]
    assert (param(test, "row"), param(test, "view"), "k" in test.query_params) == ("2", "capacity", False)


def test_the_url_names_the_file_that_is_shown(app: Open, folder: Path) -> None:
    for name in ("foreign", "broken"):
        test = app(capture=BAD, row="2")
        test.selectbox(key="capture").set_value(f"dumps/{name}.safetensors").run()
        assert param(test, "capture") == f"dumps/{name}.safetensors"
        assert "row" not in test.query_params
    test = app(capture=BAD)
    test.file_uploader(key="upload").set_value(("x.safetensors", b"no", "application/octet-stream")).run()
    assert param(test, "capture") == "upload/x.safetensors"


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({"ids": torch.zeros(4, dtype=torch.int64)}, "it has 'ids' int64 [4]"),
        ({"deep": torch.zeros(2, 2, 2)}, "it has 'deep' float32 [2, 2, 2]"),
        ({f"t{n}": torch.zeros(1, dtype=torch.int32) for n in range(9)}, "'t2' int32 [1] and 6 more"),
        ({}, "it has no tensors at all"),
    ],
)
def test_a_file_without_scores_is_one_line(
    app: Open, folder: Path, tensors: dict[str, torch.Tensor], said: str
) -> None:
    save_file(tensors, str(folder / "other.safetensors"))
    test = app(capture="dumps/other.safetensors")
    assert not test.exception
    assert len(test.error) == 1
    line = test.error[0].value.replace("\\", "")
    assert line.startswith("dumps/other.safetensors: no float32, bfloat16 or float16 tensor of one or two dimensions;")
    assert line.endswith(said)
    assert not [box for box in test.selectbox if box.label == "Scores"]


def test_a_file_that_is_replaced_while_open_is_said(app: Open, folder: Path) -> None:
    test = app(capture=BAD)
    before = param(test, "digest")
    (folder / "bad-row.safetensors").unlink()
    make_capture(folder / "bad-row.safetensors", seed=1)
    st.cache_data.clear()  # the files on offer are looked for every few seconds
    test.run()
    assert not test.exception
    assert "The file was replaced while it was open" in test.warning[0].value
    assert before in test.warning[0].value
    assert "link" not in test.warning[0].value
    assert param(test, "digest") != before


def test_many_unknown_parameters_are_one_line() -> None:
    view, problems = from_params({f"p{n}": "1" for n in range(60)})
    assert view == View()
    assert problems == ["The link has 60 parameters that the workbench does not know: 'p0', 'p1', 'p2' and 57 more."]


def test_the_release_of_another_op_is_unknown(app: Open) -> None:
    test = app(capture=BAD)
    assert pick(test, "Release").options[0] == "vllm==0.26.0"  # type: ignore[attr-defined]
    pick(test, "Op").set_value("sglang.fast_topk_v2").run()  # type: ignore[attr-defined]
    assert not test.exception
    box = pick(test, "Release")
    assert box.options[0] == "unknown"  # type: ignore[attr-defined]
    assert box.value == ""  # type: ignore[attr-defined]
    assert not [name for name in box.options if name.startswith("vllm==")]  # type: ignore[attr-defined]


def test_an_inspection_names_the_file_as_the_list_does(app: Open) -> None:
    test = app(capture=BAD, k="9001")
    assert test.error[0].value.replace("\\", "").startswith("dumps/bad-row.safetensors, row 0: ")
    assert "/tmp" not in test.error[0].value


def test_a_long_model_is_cut(app: Open, folder: Path) -> None:
    call = Call(k=K, model="m" * 900)
    write_capture(folder / "model.safetensors", [Row(torch.randn(700), 700, call=call)])
    test = app(capture="dumps/model.safetensors")
    assert "m" * 50 in texts(test)
    assert "m" * 100 not in texts(test)


def test_opens_on_the_first_file_that_can_be_inspected(app: Open, folder: Path) -> None:
    save_file({"x": torch.randn(2, 700)}, str(folder / "a-foreign.safetensors"))
    write_capture(folder / "b-without-k.safetensors", [Row(torch.randn(700), 700, call=Call())])
    assert param(app(), "capture") == BAD
    (folder / "bad-row.safetensors").unlink()
    st.cache_data.clear()
    assert param(app(), "capture") == "dumps/a-foreign.safetensors"
