"""A file that is replaced under its name: no page shows what was worked out of the bytes that it held before.

And what was worked out is kept: turning to and fro works out nothing twice.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import streamlit as st
import torch
from streamlit.testing.v1 import AppTest

from tests.audit.making import audited
from tests.ui.pages import PAGES, ROW_VIEWS, content, driven, settled
from workbench.audit.scan import Scan
from workbench.capture import Call, Row, Token, source, write_capture
from workbench.capture.source import Source
from workbench.engines import model
from workbench.numeric.histogram import HalfHistogram
from workbench.ui import divergence_runs, releases_made, remedies_made, repeat_made, scans

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


def press(test: AppTest, label: str) -> AppTest:
    next(one for one in test.button if one.label == label).click().run()
    return settled(test)


def results(test: AppTest) -> list[str]:
    """What a page shows, without when it looked, and without its words on the link."""
    return [text for text in content(test) if "Looked at" not in text]


@pytest.mark.parametrize("view", OF_FILES)
def test_no_page_shows_results_of_other_bytes(view: str, dumps: Path, tmp_path: Path, few_samples: None) -> None:
    shows_what_is_there(view, put_in_place, dumps, tmp_path)


@pytest.mark.parametrize("view", ["inspect", "divergence", "overview"])
def test_nor_where_it_is_written_over(view: str, dumps: Path, tmp_path: Path) -> None:
    shows_what_is_there(view, write_over, dumps, tmp_path)


def shows_what_is_there(view: str, way: Callable[[Path, bytes], None], dumps: Path, tmp_path: Path) -> None:
    if view == "overview, audit":
        audited([dumps], tmp_path / "audit")
    before = shown(view, dumps)
    old = results(before)
    way(dumps / "a.safetensors", (tmp_path / "good").read_bytes())
    if view == "overview, audit":
        (tmp_path / "audit").rename(tmp_path / "audit-before")
        audited([dumps], tmp_path / "audit")
    again = settled(before.run())
    if view == "overview":
        assert [one for one in again.caption if "1 file changed: look again" in one.value.replace("\\", "")]
        press(again, "Look again")
    forget()
    assert results(again) == results(shown(view, dumps)) != old


def test_every_page_is_among_them() -> None:
    assert {view.split(", ")[0] for view in OF_FILES} == set(PAGES) - {"paths", "environment"}


class Counted:
    """How often each function was called that reads scores, counts a row, runs a model, or compares rows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: Counter[str] = Counter()
        for owner, name in (
            (Source, "tensor"),
            (Source, "digest"),
            (HalfHistogram, "__init__"),
            (model, "run_model"),
            (repeat_made.Repeating, "called"),
            (remedies_made.Advising, "add"),
            (releases_made, "tell_row"),
            (divergence_runs, "diverge"),
            (Scan, "run"),
        ):
            monkeypatch.setattr(owner, name, self._counting(getattr(owner, name), name))

    def _counting(self, do: Callable[..., object], name: str) -> Callable[..., object]:
        def counted(*args: object, **more: object) -> object:
            self.calls[name] += 1
            return do(*args, **more)

        return counted

    def taken(self) -> Counter[str]:
        """The calls since the last time."""
        seen, self.calls = self.calls, Counter()
        return seen


def test_turning_to_and_fro_works_out_nothing_twice(dumps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    views = [view for view in OF_FILES if view != "overview, audit"]
    sessions = {view: shown(view, dumps) for view in views}
    for row in (0, 1):
        for view in ROW_VIEWS:
            sessions[view].query_params["row"] = str(row)
            settled(sessions[view].run())
    first = counted.taken()
    assert min(first[name] for name in ("tensor", "digest", "__init__", "run_model", "called", "add", "tell_row")) > 0
    assert first["diverge"] == first["run"] == 1
    for row in (0, 1):
        for view in ROW_VIEWS:
            sessions[view].query_params["row"] = str(row)
            sessions[view].run()
    for view in views:  # another person's session
        shown(view, dumps)
    assert not counted.taken()
