"""Dumps of other tools in the app: offered by their names alone, opened by what they hold, errors in one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from tests.ui.conftest import texts
from tests.ui.test_app import param, pick
from tests.ui.test_library import keys
from workbench.ui.library import list_captures

Open = Callable[..., AppTest]


def dump(k: int = 512) -> dict[str, object]:
    """One call as torch.save keeps it."""
    lengths = torch.tensor([3000, 2500], dtype=torch.int32)
    return {"logits": torch.randn(2, 3000, generator=torch.Generator().manual_seed(0)), "seq_lens": lengths, "k": k}


def fill(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def test_dumps_are_offered_by_their_names(tmp_path: Path) -> None:
    fill(
        tmp_path / "all",
        "alone/one.pt",
        "arrays/logits.npy",
        "arrays/seq_lens.npy",
        "flashinfer/session.jsonl",
        "flashinfer/call_1/metadata.jsonl",
        "flashinfer/call_1/inputs.pt",
        "mixed/a.safetensors",
        "mixed/b.npz",
        "notes/a.txt",
        "sglang/step=0___rank=0___name=logits.pt",
        "sglang/step=1___rank=0___name=logits.pt",
        "steps/step0.pt",
        "steps/step1.pt",
        "trace/definitions/topk.json",
        "trace/workloads/a.jsonl",
        "trace/blob/workloads/a.safetensors",
    )
    assert keys(tmp_path / "all") == [
        "all/alone/one.pt",
        "all/arrays",
        "all/flashinfer",
        "all/mixed/a.safetensors",
        "all/mixed/b.npz",
        "all/sglang",
        "all/steps",
        "all/steps/step0.pt",
        "all/steps/step1.pt",
        "all/trace",
    ]
    assert keys(tmp_path / "all" / "arrays") == ["arrays"]
    assert keys(tmp_path / "all" / "arrays" / "logits.npy") == ["logits.npy"]


def test_a_dump_hides_no_capture_beside_it(tmp_path: Path) -> None:
    fill(tmp_path / "d", "call/metadata.jsonl", "a.safetensors", "other/b.safetensors", "step=0___rank=0___name=x.pt")
    assert keys(tmp_path / "d") == ["d", "d/a.safetensors", "d/other/b.safetensors"]


def test_ten_thousand_files_are_listed_without_opening_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10_000):
        os.close(os.open(tmp_path / f"step={number}___rank=0___name=logits.pt", os.O_CREAT | os.O_WRONLY))
    looked: list[Path] = []
    stat = Path.stat
    monkeypatch.setattr(Path, "stat", lambda path, **more: looked.append(path) or stat(path, **more))
    monkeypatch.setattr(Path, "open", lambda path, *_: pytest.fail(f"{path} was opened"))
    assert keys(tmp_path) == [tmp_path.name]
    assert len([path for path in looked if path.suffix == ".pt"]) == 0


def test_a_new_file_in_a_folder_makes_it_another(tmp_path: Path) -> None:
    fill(tmp_path, "logits.npy", "seq_lens.npy")
    before = list_captures([str(tmp_path)]).entries[0]
    fill(tmp_path, "starts.npy")
    assert before.folder
    assert list_captures([str(tmp_path)]).entries[0].stamp != before.stamp


def test_tensors_are_found_by_their_names(app: Open, folder: Path) -> None:
    torch.save(dump(), folder / "indexer.pt")
    test = app(capture="dumps/indexer.pt")
    assert not test.exception
    assert not test.error
    assert list(test.sidebar.dataframe[0].value["length"]) == [3000, 2500]
    assert "Its tensors were found by their names" in texts(test)
    assert "found by name: scores 'logits' and lengths 'seq_lens'" in texts(test)
    assert "paths that take this row" in texts(test)
    again = app(capture="dumps/indexer.pt", digest=param(test, "digest"), row="1", view="capacity")
    assert not again.exception
    assert not again.warning
    pick(test, "Scores").set_value("logits").run()  # type: ignore[attr-defined]  # named: its lengths no longer are
    assert list(test.sidebar.dataframe[0].value["length"]) == [3000, 3000]


def test_a_folder_of_arrays_is_one_capture(app: Open, tmp_path: Path) -> None:
    where = tmp_path / "arrays"
    where.mkdir()
    np.save(where / "logits.npy", np.random.default_rng(0).standard_normal((2, 900), np.float32))
    np.save(where / "seq_lens.npy", np.array([900, 700], np.int32))
    test = app([str(where)], k="64")
    assert not test.exception
    assert not test.error
    assert param(test, "capture") == "arrays"
    assert sorted(test.sidebar.dataframe[0].value["length"]) == [700, 900]


@pytest.mark.parametrize(("name", "content"), [("a.pt", b"no"), ("b.npz", b"PK\x03\x04"), ("c.npy", b"\x93NUMPY\x01")])
def test_a_broken_dump_is_one_line(app: Open, folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    test = app(capture=f"dumps/{name}")
    assert not test.exception
    (said,) = [error.value.replace("\\", "") for error in test.main.error]
    assert said.startswith(f"dumps/{name}")
    assert "\n" not in said
    assert "/tmp" not in said


def test_a_pickle_that_would_run_code_is_refused(app: Open, folder: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
            return os.system, (f"touch {folder / 'harmed'}",)

    torch.save({"logits": torch.randn(1, 9), "bomb": Bomb()}, folder / "bomb.pt")
    test = app(capture="dumps/bomb.pt")
    assert not test.exception
    assert "dumps/bomb.pt" in test.main.error[0].value.replace("\\", "")
    assert not (folder / "harmed").exists()


def test_dumps_are_uploaded(app: Open, tmp_path: Path) -> None:
    torch.save(dump(), tmp_path / "mine.pt")
    test = app()
    content = (tmp_path / "mine.pt").read_bytes()
    test.file_uploader(key="upload").set_value(("mine.pt", content, "application/octet-stream")).run()
    assert not test.exception
    assert not test.error
    assert param(test, "capture") == "upload/mine.pt"
    assert list(test.sidebar.dataframe[0].value["length"]) == [3000, 2500]


def test_what_is_listed_first_stays_a_capture(app: Open, folder: Path) -> None:
    torch.save(dump(), folder / "a.pt")
    assert param(app(), "capture") == "dumps/bad-row.safetensors"


@pytest.mark.parametrize("page", ["divergence", "releases"])
def test_other_pages_take_no_harm(folder: Path, monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    fill(folder, "arrays/logits.npy", "arrays/seq_lens.npy")
    torch.save(dump(), folder / "a.pt")
    monkeypatch.setattr(sys, "argv", ["app.py", str(folder)])
    test = AppTest.from_function(_page, kwargs={"name": page}, default_timeout=60).run()
    assert not test.exception
    assert not test.error
    offered = [option for box in (*test.selectbox, *test.multiselect) for option in box.options]
    assert "dumps/arrays" not in offered


def _page(name: str) -> None:
    import streamlit as st

    from workbench.ui.divergence import divergence_page
    from workbench.ui.pages import navigation
    from workbench.ui.releases import releases_page

    st.navigation(navigation())
    {"divergence": divergence_page, "releases": releases_page}[name]()
