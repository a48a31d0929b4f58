"""A file that is replaced under its name: no page shows what was worked out of the bytes that it held before.

And what was worked out is kept: turning to and fro works out nothing twice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import streamlit as st
import torch
from streamlit.testing.v1 import AppTest

from tests.audit.making import audited
from tests.ui.pages import PAGES, ROW_VIEWS, content, driven
from workbench.analysis.profile import RowProfile
from workbench.capture import Call, Row, Token, source, write_capture
from workbench.ui import scans

K, WIDTH, ROWS = 512, 9000, 2
FILE = "dumps/a.safetensors"
OF_FILES = [*ROW_VIEWS, "remedies, capture", "releases", "divergence", "overview", "overview, audit"]


def write(path: Path, bad: bool, seed: int = 0) -> None:
    """Two rows of a run; on ``bad`` ones all scores of the second share a coarse bin, and recorded winners are lost."""
    random = torch.Generator().manual_seed(seed)
    rows = []
    for step in range(ROWS):
        call = Call(
            k=K, rows=1, width=WIDTH, stride=WIDTH, max_seq_len=WIDTH, op="vllm.persistent_topk",
            release="vllm==0.26.0", device="h200", layer=0, step=step,
        )  # fmt: skip
        scores = torch.randn(WIDTH, generator=random)
        if bad and step == 1:
            scores = torch.rand(WIDTH, generator=random) * 0.245 + 1.0
        indices = scores.topk(K).indices.to(torch.int32)
        if bad and step == 1:
            indices[-3:] = scores.argsort()[:3].to(torch.int32)
        rows.append(Row(scores, WIDTH, call=call, indices=indices))
    write_capture(path, rows, tokens=[Token(step, step) for step in range(ROWS)], overwrite=True)


def put_in_place(path: Path, content: bytes) -> None:
    """As a program does that writes beside and renames; size and time of change stay."""
    status = path.stat()
    fresh = path.with_name(".fresh")
    fresh.write_bytes(content)
    os.utime(fresh, ns=(status.st_atime_ns, status.st_mtime_ns))
    fresh.replace(path)


def write_over(path: Path, content: bytes) -> None:
    """As a program does that opens the file and writes."""
    with path.open("r+b") as file:
        file.write(content)


WAYS: dict[str, Callable[[Path, bytes], None]] = {"put in place": put_in_place, "written over": write_over}


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.argv", ["app.py"])
    monkeypatch.setenv("TOPK_WORKBENCH_VENDOR", str(tmp_path / "store"))
    monkeypatch.setenv("TOPK_WORKBENCH_SCANS", str(tmp_path / "scans"))
    monkeypatch.setattr(scans, "_NEWS_S", 0.0)
    forget()


def forget() -> None:
    st.cache_resource.clear()
    st.cache_data.clear()


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    """A bad capture, the same without its fault, as long, and the latter as another run."""
    folder = tmp_path / "dumps"
    folder.mkdir()
    write(folder / "a.safetensors", bad=True)
    write(folder / "b.safetensors", bad=False)
    write(tmp_path / "good", bad=False)
    assert (tmp_path / "good").stat().st_size == (folder / "a.safetensors").stat().st_size
    return folder


@pytest.fixture
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests over samples that meet no score of the row that changes."""
    monkeypatch.setattr(source, "DIGEST_WHOLE", 1)
    monkeypatch.setattr(source, "_DIGEST_BLOCK", 1)
    monkeypatch.setattr(source, "_DIGEST_BLOCKS", 2)


def shown(view: str, dumps: Path) -> AppTest:
    page, _, part = view.partition(", ")
    if view in ROW_VIEWS:
        test = driven(page, [dumps], capture=FILE, row=1, **ROW_VIEWS[view])
    elif part == "capture":
        test = driven(page, [dumps], capture=FILE, row=1, scope="capture")
    elif page == "divergence":
        test = driven(page, [dumps], run=["dumps/b.safetensors", FILE])
    elif page == "releases":
        test = driven(page, [dumps], source=FILE)
    else:
        test = driven(page, [dumps.parent / "audit" if part else dumps])
    return settled(test.run())


def settled(test: AppTest) -> AppTest:
    """The page once nothing works for it any more."""
    end = time.monotonic() + 40
    while any(one.label == "Stop" for one in test.button):
        assert time.monotonic() < end
        time.sleep(0.05)
        test.run()
    return test


def press(test: AppTest, label: str) -> AppTest:
    next(one for one in test.button if one.label == label).click().run()
    return settled(test)


def results(test: AppTest) -> list[str]:
    """What a page shows, without when it looked, and without its words on the link."""
    return [text for text in content(test) if "Looked at" not in text]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("view", OF_FILES)
def test_no_page_shows_results_of_other_bytes(view: str, way: str, dumps: Path, tmp_path: Path) -> None:
    if view == "overview, audit":
        audited([dumps], tmp_path / "audit")
    before = shown(view, dumps)
    old = results(before)
    WAYS[way](dumps / "a.safetensors", (tmp_path / "good").read_bytes())
    if view == "overview, audit":
        (tmp_path / "audit").rename(tmp_path / "audit-before")
        audited([dumps], tmp_path / "audit")
    again = settled(before.run())
    if view == "overview":
        assert [one for one in again.caption if "1 file changed: look again" in one.value.replace("\\", "")]
        press(again, "Look again")
    forget()
    assert results(again) == results(shown(view, dumps)) != old


@pytest.mark.parametrize("view", [view for view in OF_FILES if view != "overview, audit"])
def test_nor_where_the_digest_of_a_large_file_stays(
    view: str, dumps: Path, tmp_path: Path, few_samples: None
) -> None:
    test_no_page_shows_results_of_other_bytes(view, "put in place", dumps, tmp_path)


def test_every_page_is_among_them() -> None:
    assert {view.split(", ")[0] for view in OF_FILES} == set(PAGES) - {"paths", "environment"}
