"""The store: entries come whole or not at all, are found again, and are held against their manifest."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.vendor.making import DECODE, FAST, library, wheel
from workbench.errors import UsageError
from workbench.vendor import disk
from workbench.vendor.errors import VendorError
from workbench.vendor.release import parse_range, parse_wheel
from workbench.vendor.store import (
    ENVIRONMENT,
    add,
    entries,
    find,
    releases_between,
    releases_of,
    remove,
    scan,
    store_root,
)

V26 = parse_wheel("vllm==0.26.0")
ROOT = Path(__file__).parents[2]


def test_a_wheel_is_added_and_found(tmp_path: Path, root: Path) -> None:
    path = wheel(tmp_path)
    added = add(path)
    assert added.fresh
    assert added.stored == find(V26) == entries()[0]
    assert added.stored.folder == root / "vllm" / "0.26.0"
    manifest = added.stored.manifest
    assert (manifest.file, manifest.sha256) == (path.name, hashlib.sha256(path.read_bytes()).hexdigest())
    assert (manifest.machine, manifest.torch, manifest.packed_for, manifest.cuda) == (
        "x86_64",
        "torch==2.11.0",
        (),
        "13",
    )
    (kept,) = manifest.libraries
    assert kept.architectures == ("sm_80", "sm_90", "sm_90a", "sm_100f", "compute_80")
    assert path.exists()
    assert not list(root.rglob("*.whl"))
    assert added.stored.library_for("vllm.top_k_per_row_decode", (9, 0)) == added.stored.folder / kept.file


def test_a_second_time_it_is_there_already(tmp_path: Path) -> None:
    path = wheel(tmp_path)
    first = add(path)
    again = add(str(path), sha256=first.stored.manifest.sha256.upper())
    assert (again.fresh, again.stored) == (False, first.stored)
    assert add("vllm==0.26.0").fresh is False  # without asking any index
    with pytest.raises(UsageError, match=r"already, from a wheel with sha256 [0-9a-f]{64}; remove it first"):
        add(path, sha256="0" * 64)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("vllm", "is no release; write it as in"),
        ("", "is no release"),
        ("nothere.whl", "no such file"),
        (Path("nothere"), "no such file"),
        (Path(), "no such file"),
        ("a/b.whl", "no such file"),
    ],
)
def test_what_is_neither_release_nor_file_is_a_usage_error(source: str | Path, said: str, root: Path) -> None:
    with pytest.raises(UsageError, match=said):
        add(source)
    assert not root.exists()


@pytest.mark.parametrize("sha256", ["", "00", "g" * 64, "٠" * 64])
def test_a_sha256_is_spelled_in_hexadecimal(tmp_path: Path, sha256: str) -> None:
    with pytest.raises(UsageError, match="is no sha256"):
        add(wheel(tmp_path), sha256=sha256)


def test_entries_are_in_the_order_of_versions(tmp_path: Path) -> None:
    for release in ("vllm==0.9.2", "vllm==0.26.0", "vllm==0.20.2", "sglang-kernel==0.4.6"):
        add(wheel(tmp_path, release, {"x/a.so": library(FAST if "sglang" in release else DECODE)}))
    names = [one.release for one in entries()]
    assert names == ["sglang-kernel==0.4.6", "vllm==0.9.2", "vllm==0.20.2", "vllm==0.26.0"]
    assert list(map(str, releases_of("vllm"))) == names[1:]
    assert list(map(str, releases_between(*parse_range("vllm==0.20.0..0.26.0")))) == names[2:]
    assert releases_between(*parse_range("vllm==1..2")) == []


def test_a_version_may_be_spelled_in_any_way(tmp_path: Path, root: Path) -> None:
    added = add(wheel(tmp_path, "vllm==0.26.0"))
    assert not add(wheel(tmp_path, "vllm==0.26")).fresh
    for text in ("vllm==0.26", "VLLM==0.26.0.0", "vllm==v0.26"):
        assert find(parse_wheel(text)) == added.stored
    assert find(parse_wheel("vllm==0.26")).release == "vllm==0.26.0"
    remove(parse_wheel("vllm==0.26"))
    assert not (root / "vllm").exists()
    with pytest.raises(UsageError, match="not in the store"):
        find(parse_wheel("vllm==0.26"))


def test_a_fetched_release_is_kept_as_its_wheel_spells_it(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(_wheel: object, folder: Path, **_options: object) -> Path:
        return wheel(folder, "vllm==0.26.0")

    monkeypatch.setattr("workbench.vendor.fetch.fetch", fetch)
    assert add("vllm==0.26").stored.folder == root / "vllm" / "0.26.0"
    assert not add("vllm==0.26").fresh
    assert entries()[0].release == "vllm==0.26.0"


def test_what_is_there_already_is_whole(tmp_path: Path) -> None:
    path = wheel(tmp_path)
    stored = add(path).stored
    (stored.folder / stored.manifest.libraries[0].file).write_bytes(b"damaged")
    with pytest.raises(VendorError, match=r"remove the release \(workbench vendor remove vllm==0\.26\.0\)"):
        add(path)


@pytest.mark.parametrize("place", ["vllm", "vllm/0.26.0"])
def test_what_lies_in_the_place_of_a_release_is_said_before_it_is_fetched(root: Path, place: str) -> None:
    (root / place).parent.mkdir(parents=True)
    (root / place).write_text("mine")
    with pytest.raises(VendorError, match=r"this is no folder; vllm==0\.26\.0 goes there; move this away$"):
        add("vllm==0.26.0")
    assert (root / place).read_text() == "mine"


def test_a_strange_folder_is_named_with_a_cure_that_works(root: Path) -> None:
    for place in ("VLLM/0.26.0", "foo bar/1", "vllm/notes"):
        (root / place).mkdir(parents=True)
    for damaged in scan()[1]:
        assert damaged.reason.endswith("no release has such a folder; move it away")


@pytest.mark.parametrize(
    ("given", "said"),
    [("", "the store has no name"), ("~nobody-of-that-name/x", "there is no such home"), ("{file}", "is no folder")],
)
def test_a_store_that_cannot_be_one_is_said_whatever_is_asked(tmp_path: Path, given: str, said: str) -> None:
    path = wheel(tmp_path)
    store = given.format(file=path)
    tries: list[Callable[[], object]] = [
        lambda: scan(store),
        lambda: find(V26, store),
        lambda: add(path, root=store),
        lambda: remove(V26, store),
        lambda: releases_of("vllm", store),
    ]
    for one in tries:
        with pytest.raises((UsageError, VendorError), match=said):
            one()


def test_what_was_not_added_says_how_to_add_it() -> None:
    with pytest.raises(UsageError, match=r"^vllm==0\.26\.0 is not in the store; add it with: workbench vendor add "):
        find(V26)
    assert entries() == []
    with pytest.raises(UsageError, match=r"^vllm==0\.26\.0 is not in the store, which holds nothing$"):
        remove(V26)


def test_a_library_is_handed_out_only_as_it_was_stored(tmp_path: Path) -> None:
    stored = add(wheel(tmp_path)).stored
    stored.verify()
    path = stored.library_for("vllm.persistent_topk", (9, 0))
    whole = path.read_bytes()
    for content in (whole[:-1], whole[:100] + b"\xff" + whole[101:], b""):
        path.write_bytes(content)
        for check in (stored.verify, lambda: stored.library_for("vllm.persistent_topk", (9, 0))):
            with pytest.raises(VendorError, match=r"not the library that was stored; remove .*0\.26\.0\) and add"):
                check()
    path.unlink()
    with pytest.raises(VendorError, match="a kept library is gone"):
        stored.verify()


def test_a_damaged_entry_is_named_and_can_be_removed(tmp_path: Path, root: Path) -> None:
    add(wheel(tmp_path))
    add(wheel(tmp_path, "vllm==0.27.0"))
    (root / "vllm" / "0.26.0" / "manifest.json").write_text("{}")
    (root / "vllm" / "0.28.0").mkdir()
    shutil.copytree(root / "vllm" / "0.27.0", root / "vllm" / "0.29.0")
    stored, damaged = scan()
    assert [one.release for one in stored] == ["vllm==0.27.0"]
    assert [one.release for one in damaged] == ["vllm==0.26.0", "vllm==0.28.0", "vllm==0.29.0"]
    for one in damaged:
        assert one.reason.endswith(f"remove it with: workbench vendor remove {one.release}")
        with pytest.raises(VendorError):
            find(parse_wheel(one.release))
        with pytest.raises(VendorError):
            add(wheel(tmp_path, one.release))
        remove(parse_wheel(one.release))
    assert [one.release for one in entries()] == ["vllm==0.27.0"]
    (root / "vllm" / "0.27.0" / "manifest.json").unlink()
    with pytest.raises(VendorError, match=r"vllm/0\.27\.0"):
        entries()


def test_removing_leaves_the_others(tmp_path: Path, root: Path) -> None:
    add(wheel(tmp_path))
    add(wheel(tmp_path, "vllm==0.27.0"))
    assert remove(V26) == root / "vllm" / "0.26.0"
    assert [one.name for one in (root / "vllm").iterdir()] == ["0.27.0"]
    remove(parse_wheel("vllm==0.27.0"))
    assert [one.name for one in root.iterdir()] == [".lock"]


def test_the_folder_is_given_or_set_or_the_users_cache(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store_root() == root
    assert store_root(tmp_path / "other") == tmp_path / "other"
    add(wheel(tmp_path), root=tmp_path / "other")
    assert entries() == []
    assert len(entries(tmp_path / "other")) == 1
    monkeypatch.setenv(ENVIRONMENT, "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if sys.platform == "linux":
        assert store_root() == tmp_path / "cache" / "topk-workbench" / "vendor"


def fail_at(nth: int, patch: pytest.MonkeyPatch) -> list[int]:
    """Let the disk be full at the n-th thing that is written, folders and moves included; counts what was written."""
    count = [0]

    def stepping(function: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **options: object) -> object:
            count[0] += 1
            if count[0] == nth:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return function(*args, **options)

        return step

    patch.setattr(disk, "write", stepping(disk.write))
    patch.setattr(Path, "mkdir", stepping(Path.mkdir))
    patch.setattr(Path, "rename", stepping(Path.rename))
    patch.setattr(os, "fsync", stepping(os.fsync))
    patch.setattr(tempfile, "mkdtemp", stepping(tempfile.mkdtemp))
    return count


def test_a_full_disk_leaves_nothing_wherever_it_fills(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = wheel(tmp_path, files={"vllm/a.so": library(DECODE, filler=3 << 20)})
    with monkeypatch.context() as patch:
        steps = fail_at(0, patch)
        add(path)
    assert steps[0] > 10
    remove(V26)
    (root / ".lock").unlink()
    root.rmdir()
    for nth in range(1, steps[0] + 1):
        with monkeypatch.context() as patch:
            fail_at(nth, patch)
            with pytest.raises(VendorError, match="No space left on device"):
                add(path)
        assert ([one.name for one in root.iterdir()] if root.exists() else []) in ([], [".lock"])
    add(path).stored.verify()


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder that every user may read."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_store_that_cannot_be_written_is_read(tmp_path: Path, elsewhere: Path) -> None:
    add(wheel(tmp_path), root=elsewhere)
    elsewhere.chmod(0o555)
    (elsewhere / ".lock").chmod(0o444)
    user, nobody = os.geteuid(), 65534
    if user == 0:  # which writes into read-only folders
        os.seteuid(nobody)
    try:
        find(V26, elsewhere).verify()
        assert add("vllm==0.26.0", root=elsewhere).fresh is False
        for work in (lambda: add("vllm==0.27.0", root=elsewhere), lambda: remove(V26, elsewhere)):
            with pytest.raises(VendorError, match=r"the store cannot be locked for writing: .*Permission denied"):
                work()
    finally:
        os.seteuid(user)
    assert sorted(one.name for one in elsewhere.iterdir()) == [".lock", "vllm"]


def test_a_package_on_another_file_system_is_said_with_the_cure(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rename(self: Path, target: Path) -> Path:
        raise OSError(errno.EXDEV, "Invalid cross-device link", str(self), None, str(target))

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(VendorError, match=r"store/vllm/0\.26\.0: on another file system; link the store as a whole$"):
        add(wheel(tmp_path))
    assert [one.name for one in root.iterdir()] == [".lock"]


def test_a_store_that_cannot_be_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(VendorError, match="file"):
        add(wheel(tmp_path), root=tmp_path / "file" / "store")
    with pytest.raises(VendorError, match="file"):
        add(wheel(tmp_path), root=tmp_path / "file")


SCRIPT = """
import sys
from workbench.vendor import store
held = []
def progress(what, done, total):
    if what.startswith("waiting"):
        print("waiting", flush=True)
    elif not held:
        held.append(1)
        print("holding", flush=True)
        if "hold" in sys.argv:
            sys.stdin.readline()
print("fresh" if store.add(sys.argv[1], progress=progress).fresh else "there", flush=True)
"""


def start(source: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, str(source), *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_two_processes_that_add_one_release_make_one_entry(tmp_path: Path) -> None:
    path = wheel(tmp_path)
    first = start(path, "hold")
    assert heard(first) == "holding"
    second = start(path)
    assert heard(second) == "waiting"
    assert first.communicate("go on\n", timeout=60)[0].split() == ["fresh"]
    assert second.communicate(timeout=60)[0].split() == ["there"]
    assert (first.returncode, second.returncode) == (0, 0)
    (stored,) = entries()
    stored.verify()


def test_what_a_killed_process_left_goes_with_the_next_addition(tmp_path: Path, root: Path) -> None:
    path = wheel(tmp_path)
    killed = start(path, "hold")
    assert heard(killed) == "holding"
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=60)
    assert [one.name for one in root.iterdir() if one.name.startswith(".staging-")]
    assert entries() == []
    started = time.monotonic()
    assert add(path).fresh
    assert time.monotonic() - started < 30
    assert sorted(one.name for one in root.iterdir()) == [".lock", "vllm"]


def test_reading_the_store_brings_no_library_of_the_command_line() -> None:
    """A machine with a GPU may have nothing but torch, numpy and what pip brings."""
    code = (
        "import sys\n"
        "missing = 'platformdirs elftools typer rich pandas pyarrow safetensors'.split()\n"
        "sys.modules.update(dict.fromkeys(missing))\n"
        "from workbench.vendor import store, pack\n"
        "print(store.entries('nowhere'), 'torch' in sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[] False\n", "")


@pytest.mark.slow
def test_a_real_release_is_fetched_and_kept(root: Path) -> None:
    stored = add("vllm==0.26.0").stored
    assert stored.manifest.ops == (
        "vllm.cooperative_topk",
        "vllm.persistent_topk",
        "vllm.top_k_per_row_decode",
        "vllm.top_k_per_row_prefill",
    )
    (kept,) = stored.manifest.libraries
    assert (kept.file, kept.size, kept.cuda) == ("vllm/_C_stable_libtorch.abi3.so", 78831048, "13")
    assert {"sm_80", "sm_90", "sm_90a", "sm_100f", "sm_120", "compute_80"} <= set(kept.architectures)
    assert stored.manifest.torch == "torch==2.11.0"
    assert sum(one.stat().st_size for one in root.rglob("*") if one.is_file()) < 1.01 * kept.size


@pytest.mark.slow
def test_a_real_release_with_a_folder_for_each_architecture() -> None:
    stored = add("sglang-kernel==0.4.6").stored
    assert stored.manifest.ops == (
        "sglang.fast_topk_transform_fused",
        "sglang.fast_topk_transform_ragged_fused",
        "sglang.fast_topk_v2",
    )
    for capability, folder in (((9, 0), "sm90"), ((10, 0), "sm100"), ((8, 9), "sm100"), ((12, 0), "sm100")):
        path = stored.library_for("sglang.fast_topk_v2", capability)
        assert path == stored.folder / "sgl_kernel" / folder / "common_ops.abi3.so"
