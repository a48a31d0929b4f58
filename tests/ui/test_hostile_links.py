"""Every page with a link that nobody should have made, and files whose names are anything: never a traceback."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tests.ui.conftest import ROOT, make_capture, texts
from tests.ui.pages import PAGES, driven
from workbench.ui import (
    compare_view,
    divergence_view,
    export_view,
    overview_view,
    paths_view,
    releases_view,
    remedies_view,
    repeat_view,
    view,
    whatif_view,
)
from workbench.ui.library import list_captures

READ: dict[str, Mapping[str, object]] = {
    "inspect": view._READ,
    "overview": overview_view._READ,
    "compare": compare_view._READ,
    "what-if": whatif_view._READ,
    "remedies": remedies_view._READ,
    "divergence": divergence_view._READ,
    "repeat": {**repeat_view._READ, "engine": None, "path": None, "variant": None},
    "export": {**export_view._READ, "path": None, "variant": None},
    "releases": releases_view._READ,
    "paths": paths_view._READ,
    "environment": {},
}
"""The parameters of each page's own value."""

HOSTILE = (
    *("", " ", "-1", "NaN", "1.5", "1e999", "99999999999999999999", "\u0661", "None", "0x10"),
    *("<script>alert(1)</script>", "[x](javascript:alert(1))", "![x](http://example.com/a.png)"),
    *("$\\alpha$", ":red[x]"),
    *("../../etc/passwd", "/etc/passwd", "a\x00b", "a\nb", "\u202eb", "row", "A" * 100_000),
)
"""No value of any parameter but of a name, and no name that is there."""

EXTREME = {
    **{name: str(2**31 - 1) for name in ("row", "k", "new_k", "seed", "capacity", "rank_capacity", "length", "point")},
    "bin": "65535",
    "key_bits": "16",
    "part": "1000",
    "against": "16384",
    "calls": "2",
    "score": "-inf",
    "scale": "1e-300",
    "shift": "-1e300",
    "rank": "2147483647",
    "request": "",
    "digest": "0" * 16,
    "release": "vllm==99.0.0",
    "from": "sglang==99",
    "to": "vllm==0.0.1",
    "op": "sglang.fast_topk_v2",
}
"""Values that a parameter can have, and that fit no row, file or run here."""

MARKUP = re.compile(r"(?<!\\)[<\[]script|(?<!\\)\]\(|(?<!\\)\$\\|!\[")


TENSORS = ("scores", "lengths", "starts", "indices")


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setattr("sys.argv", ["app.py"])
    (tmp_path / "dumps").mkdir()
    make_capture(tmp_path / "dumps" / "a.safetensors")
    return [tmp_path / "dumps"]


def usable(page: str, given: list[Path], **params: Any) -> Any:
    """The page, which raised nothing and is there: it says something, and has what it always has."""
    test = driven(page, given, **params).run()
    assert not test.exception, [(one.value, one.stack_trace) for one in test.exception]
    assert texts(test).strip()
    return test


def reading(page: str, params: Mapping[str, str]) -> list[str]:
    """What is said of each parameter by itself: cheap, so that all pairs are tried."""
    module = {"inspect": view, "what-if": whatif_view}.get(page) or globals()[f"{page}_view"]
    return [said for name, text in params.items() for said in module.from_params({name: [text]})[1]]


@pytest.mark.parametrize("page", [page for page in PAGES if page != "environment"])
def test_every_hostile_text_of_every_parameter_is_taken_as_a_name_or_told(page: str) -> None:
    names = {"capture", "digest", "scores", "lengths", "starts", "indices", "run", "request", "audit", "scan", "file"}
    names |= {"source", "at", "remedy"}
    own = [name for name in READ[page] if not (page == "repeat" and name != "calls")]
    for name in own:
        for text in HOSTILE:
            said = reading(page, {name: text})
            whole = name in names and text and len(text) < 10_000
            fits = whole or (name, text) in {("request", ""), ("rank", ""), ("score", "\u0661"), ("score", "-1")}
            fits = fits or (name in ("scale", "shift", "score") and text in ("-1", "1.5", "1e999", "9" * 20))
            fits = fits or (name, text) == ("scope", "row")
            assert fits or len(said) == 1, (name, text[:40])
            assert all(len(one) < 500 and one.isprintable() and name in one for one in said)


@pytest.mark.parametrize("page", PAGES)
def test_hostile_links_are_told_and_the_page_stays(page: str, given: list[Path]) -> None:
    """All parameters at once, twice with other texts: a message each, and nothing of them is markup."""
    own = list(READ[page])
    for turn in (4, 13):
        params = {name: HOSTILE[(turn + 3 * at) % len(HOSTILE)] for at, name in enumerate(own)}
        test = usable(page, given, nonsense="<script>", **params)
        said = "\n".join(one.value for one in (*test.warning, *test.error))
        assert not MARKUP.search(said), said
        said = said.replace("\\", "")
        assert page == "environment" or "does not know: '<script>'" not in said
        if page != "environment":
            assert "nonsense" in said
            for name in own:
                kept = test.query_params.get(name)
                told = name in said or (name == "scan" and "folder" in said)
                told = told or kept in ([params[name]], params[name])
                # Some go with what they are of, and that is told.
                assert told or name in ("digest", "request", "file", *TENSORS), (name, params[name][:40], kept)


@pytest.mark.parametrize("page", PAGES)
def test_extreme_and_doubled_parameters_are_told_and_the_page_stays(page: str, given: list[Path]) -> None:
    params: dict[str, Any] = {name: EXTREME[name] for name in READ[page] if name in EXTREME}
    usable(page, given, **params)
    doubled = next((name for name in ("row", "calls", "score", "capacity", "losing", "part") if name in READ[page]), "")
    if doubled:
        test = usable(page, given, **{doubled: ["1", "2"]})
        assert any(f"says {doubled} 2 times" in one.value.replace("\\", "") for one in test.warning)


NAMES = ("a\nb", "a\x1b[31mb", "a\u202eb", "a\udc80b", "a\x80b", "a\\x0ab", "a\\x80b", "<b>$x$[a](b)", "a?b&c=d#e%41")


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """Captures whose names are not printable, not UTF-8, markup, or printed as that of another."""
    folder = tmp_path / "o\udcffdd\n"
    folder.mkdir()
    content = make_capture(tmp_path / "whole.safetensors").read_bytes()
    for name in NAMES:
        (folder / f"{name}.safetensors").write_bytes(content)
    return folder


def test_files_of_any_name_are_on_offer_by_keys_of_their_own(odd: Path) -> None:
    entries = [entry for entry in list_captures([str(odd)]).entries if entry.path.is_relative_to(odd)]
    assert {entry.path.name for entry in entries} == {f"{name}.safetensors" for name in NAMES}
    assert len({entry.key for entry in entries}) == len(NAMES)
    assert all(entry.key.isprintable() for entry in entries)


@pytest.mark.parametrize("page", ["inspect", "overview", "divergence", "releases", "repeat", "remedies"])
def test_pages_take_folders_and_files_of_any_name(page: str, odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["app.py"])
    usable(page, [odd])


def test_a_link_to_a_file_of_any_name_restores_it(odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["app.py"])
    entries = {entry.path.name: entry.key for entry in list_captures([str(odd)]).entries}
    for name in (NAMES[0], NAMES[3], NAMES[6]):
        key = entries[f"{name}.safetensors"]
        test = usable("inspect", [odd], capture=key, row=1)
        assert not [*test.warning, *test.error]
        assert (test.query_params["capture"], test.query_params["row"]) == (key, "1")
        assert key.replace("\\", "") in texts(test)  # which leaves out all backslashes


def test_a_link_to_tensors_of_any_name_restores_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["app.py"])
    name = "a\n# b\t\u202e<b>"
    save_file({name: torch.randn(2, 700), "c": torch.randn(2, 700)}, str(tmp_path / "f.safetensors"))
    key = f"{tmp_path.name}/f.safetensors"
    test = usable("inspect", [tmp_path], capture=key, scores=name, k=5, row=1)
    assert not [*test.warning, *test.error]
    assert (test.query_params["scores"], test.query_params["row"]) == (name, "1")
    wrong = usable("inspect", [tmp_path], capture=key, scores=f"{name}x")
    assert "an" in wrong.error[0].value.replace("\\", "")
    assert "\n" not in wrong.error[0].value


def test_caches_take_names_that_are_no_utf8() -> None:
    for path in (ROOT / "workbench" / "ui").glob("*.py"):
        for line in path.read_text().splitlines():
            assert not line.startswith("@st.cache_") or "hash_funcs=TEXT" in line, f"{path.name}: {line}"
