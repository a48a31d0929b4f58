"""Which files the app offers, and that none outside the given folders is among them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

import workbench as wb
from tests.ui.conftest import make_capture, texts
from tests.ui.pages import driven, settled
from workbench.errors import CaptureError
from workbench.resources import samples_dir
from workbench.ui import library
from workbench.ui.library import Uploads, list_audits, list_captures, list_matrices, local


def keys(*arguments: Path) -> list[str]:
    offered = list_captures([str(path) for path in arguments]).entries
    return [entry.key for entry in offered if not entry.key.startswith("samples/")]


def test_files_below_a_folder_by_relative_name(tmp_path: Path) -> None:
    for name in ("b.safetensors", "deep/er/a.safetensors", ".hidden/x.safetensors", "other.txt"):
        path = tmp_path / "dumps" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    assert keys(tmp_path / "dumps") == ["dumps/b.safetensors", "dumps/deep/er/a.safetensors"]


@pytest.mark.usefixtures("permissions_hold")
def test_what_is_forbidden_is_told_and_costs_no_others(tmp_path: Path) -> None:
    """A folder that is closed, names without what they are of, a closed folder on the way, a saved matrix in it."""
    dumps = tmp_path / "dumps"
    for name in ("a", "closed/b", "names/c", "names/below/d"):
        path = dumps / f"{name}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    (dumps / "closed").chmod(0)
    (dumps / "names").chmod(0o444)
    given = [dumps, dumps / "closed", dumps / "closed" / "b.safetensors", dumps / "closed" / "m.json", dumps / "gone"]
    try:
        offered = list_captures([str(path) for path in given])
        assert (list_matrices([str(path) for path in given]), list_audits([str(path) for path in given])) == ((), ())
    finally:
        (dumps / "closed").chmod(0o755)
        (dumps / "names").chmod(0o755)
    assert [entry.key for entry in offered.entries if not entry.key.startswith("samples/")] == ["dumps/a.safetensors"]
    denied = "Permission denied; have it permitted (chmod), or name another place"
    assert offered.notes == (
        f"dumps/closed, dumps/names/c.safetensors and dumps/names/below are not listed: {denied}",
        f"closed is not listed: {denied}",
        f"{dumps}/closed/b.safetensors: cannot be looked at: {denied}",
        f"{dumps}/closed/m.json: cannot be looked at: {denied}",
        f"{dumps}/gone: no such file or folder",
    )


@pytest.mark.usefixtures("permissions_hold")
@pytest.mark.parametrize("page", ["inspect", "overview", "divergence", "releases"])
def test_a_page_of_what_is_forbidden_says_so(tmp_path: Path, page: str) -> None:
    (tmp_path / "closed").mkdir()
    make_capture(tmp_path / "closed" / "a.safetensors")
    (tmp_path / "closed").chmod(0)
    try:
        test = settled(driven(page, [tmp_path / "closed" / "a.safetensors"]).run())
    finally:
        (tmp_path / "closed").chmod(0o755)
    assert not test.exception
    if page in ("inspect", "overview"):
        assert "a.safetensors: cannot be looked at: Permission denied" in texts(test)


def test_links_that_leave_the_folder_are_passed_over(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret.safetensors").write_bytes(b"x")
    (inside / "real.safetensors").write_bytes(b"x")
    (inside / "link.safetensors").symlink_to(outside / "secret.safetensors")
    (inside / "folder").symlink_to(outside)
    (inside / "alias.safetensors").symlink_to(inside / "real.safetensors")
    assert keys(inside) == ["inside/alias.safetensors", "inside/real.safetensors"]


def test_shards_are_opened_through_their_index(tmp_path: Path) -> None:
    for name in ("m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors", "m.safetensors.index.json"):
        (tmp_path / name).write_bytes(b"x")
    assert keys(tmp_path) == [f"{tmp_path.name}/m.safetensors.index.json"]


def test_equal_names_are_told_apart(tmp_path: Path) -> None:
    for part in ("a", "b"):
        (tmp_path / part / "dumps").mkdir(parents=True)
        (tmp_path / part / "dumps" / "x.safetensors").write_bytes(b"x")
    assert keys(tmp_path / "a" / "dumps", tmp_path / "b" / "dumps") == ["dumps/x.safetensors", "dumps-2/x.safetensors"]


def test_a_folder_named_as_the_samples_does_not_hide_them(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples" / "x.safetensors").write_bytes(b"x")
    offered = [entry.key for entry in list_captures([str(tmp_path / "samples")]).entries]
    assert offered[0] == "samples-given/x.safetensors"
    assert library.DEFAULT_SAMPLE in offered


def test_many_files_are_cut_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "MOST_FILES", 2)
    for number in range(3):
        (tmp_path / f"{number}.safetensors").write_bytes(b"x")
    assert len(keys(tmp_path)) == 2
    assert any("only the first 2" in text for text in list_captures([str(tmp_path)]).notes)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("../../etc/passwd", "passwd.safetensors"),
        ("C:\\a\\b.safetensors", "b.safetensors"),
        ("\x00\n.safetensors", "safetensors.safetensors"),
        ("", "capture.safetensors"),
        ("x" * 500 + ".safetensors", "x" * 80 + ".safetensors"),
    ],
)
def test_upload_names_are_made_harmless(name: str, kept: str) -> None:
    assert Uploads().add(name, b"x").key == f"upload/{kept}"


def test_uploads_go_with_their_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    uploads = Uploads()
    assert not list(tmp_path.iterdir())  # most sessions upload nothing
    path = uploads.add("a.safetensors", b"x").path
    assert path.read_bytes() == b"x"
    del uploads
    assert not list(tmp_path.iterdir())


def test_messages_name_files_as_links_do(tmp_path: Path) -> None:
    entry = list_captures([str(make_capture(tmp_path / "a.safetensors"))]).entries[0]
    message = str(local(CaptureError("is bad", file=entry.path, row=3), entry))
    assert message == "a.safetensors, row 3: is bad"


def test_the_samples_open_on_one_with_a_bad_row_also_where_their_folder_is_given(tmp_path: Path) -> None:
    """What stands first by name has none, and would not show what the app is for."""
    given = list_captures([str(samples_dir())])
    ready = {entry.key for entry in given.entries}
    for offered in (given, list_captures([])):
        opened = offered.default(ready)
        assert opened is not None
        assert wb.inspect(wb.open(opened.path)[2]).finding
    own = make_capture(tmp_path / "own.safetensors")
    mixed = list_captures([str(own), str(samples_dir())])
    assert mixed.default({entry.key for entry in mixed.entries}) == mixed.entries[0]


def test_a_sample_that_was_given_is_listed_once() -> None:
    offered = list_captures([str(samples_dir())])
    assert len({entry.path.resolve() for entry in offered.entries}) == len(offered.entries)
    assert not [entry for entry in offered.entries if entry.key.startswith("samples/")]
    one = samples_dir() / "smollm2-lm-head.safetensors"
    keys = [entry.key for entry in list_captures([str(one)]).entries]
    assert keys[0] == one.name
    assert f"samples/{one.name}" not in keys
    assert len(keys) == len(offered.entries)
