"""Packs: small, the same bytes from the same entries, and read as hostile files."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.vendor.making import DECODE, FAST, code, fatbin, library, wheel
from workbench.errors import UsageError, WorkbenchError
from workbench.vendor import pack as packing
from workbench.vendor.errors import VendorError
from workbench.vendor.pack import INDEX, pack, read_index, unpack
from workbench.vendor.release import parse_wheel
from workbench.vendor.store import Stored, add, entries, find, remove

ROOT = Path(__file__).parents[2]
ARCHS = ("sm_75", "sm_80", "sm_90", "sm_90a", "sm_100f")


def device(seed: int) -> list[bytes]:
    """Device code that does not compress, of several architectures."""
    return [
        fatbin(*(code(name, hashlib.shake_128(f"{name} {seed} {at}".encode()).digest(20_000)) for name in ARCHS))
        for at in range(3)
    ]


@pytest.fixture
def stored(tmp_path: Path) -> list[Stored]:
    """Two releases; the second has a library for each of two architectures and one for sm_100 alone."""
    add(wheel(tmp_path, "vllm==0.26.0", {"vllm/_C.abi3.so": library(DECODE, binaries=device(1))}))
    common = library(FAST, binaries=device(2))
    files = {f"sgl_kernel/{folder}/common_ops.abi3.so": common for folder in ("sm90", "sm100")}
    add(wheel(tmp_path, "sglang-kernel==0.4.6", files))
    return entries()


def test_a_pack_brings_releases_to_another_store(tmp_path: Path, stored: list[Stored]) -> None:
    file, other = tmp_path / "p.tar.xz", tmp_path / "other"
    packed = pack(reversed(stored), [(9, 0)], file)
    assert [str(one.wheel) for one in packed.manifests] == ["sglang-kernel==0.4.6", "vllm==0.26.0"]
    assert packed.left_out == (("sglang-kernel==0.4.6", "sgl_kernel/sm100/common_ops.abi3.so"),)
    assert packed.size == file.stat().st_size
    added = unpack(file, other)
    assert [one.fresh for one in added] == [True, True]
    assert [one.manifest for one in entries(other)] == list(packed.manifests) == list(read_index(file))
    for one, before in zip(entries(other), stored, strict=True):
        one.verify()
        assert one.manifest.packed_for == ("sm_90",)
        assert (one.manifest.sha256, one.manifest.torch) == (before.manifest.sha256, before.manifest.torch)
        for kept in one.manifest.libraries:
            assert kept.architectures == ("sm_90", "sm_90a")
            assert kept.size == (before.folder / kept.file).stat().st_size  # the layout stays
    path = find(parse_wheel("sglang-kernel==0.4.6"), other).library_for("sglang.fast_topk_v2", (9, 0))
    assert path.parent.name == "sm90"
    with pytest.raises(VendorError, match="it was packed for sm_90"):
        find(parse_wheel("vllm==0.26.0"), other).library_for("vllm.top_k_per_row_decode", (10, 0))


def test_blanked_code_takes_no_room(tmp_path: Path, stored: list[Stored]) -> None:
    few, all_of_them = [(9, 0)], [(7, 5), (8, 0), (9, 0), (10, 0)]
    sizes = [pack(stored, archs, tmp_path / f"{len(archs)}.xz").size for archs in (few, all_of_them)]
    assert sizes[0] < 0.5 * sizes[1]
    shared = pack(stored, [(10, 0)], tmp_path / "b.xz")
    assert [kept.architectures for one in shared.manifests for kept in one.libraries] == [("sm_100f",)] * 2


def test_the_same_entries_give_the_same_bytes(tmp_path: Path, stored: list[Stored]) -> None:
    pack(stored, [(9, 0), (8, 0)], tmp_path / "a.xz")
    os.utime(stored[0].folder, (1, 1))
    pack([*reversed(stored), stored[0]], [(8, 0), (9, 0), (9, 0)], tmp_path / "b.xz")
    assert (tmp_path / "a.xz").read_bytes() == (tmp_path / "b.xz").read_bytes()


def test_a_pack_is_a_tar_that_any_tool_lists(tmp_path: Path, stored: list[Stored]) -> None:
    pack(stored, [(9, 0)], tmp_path / "p.tar.xz")
    with tarfile.open(tmp_path / "p.tar.xz") as tar:
        assert tar.getnames() == [
            INDEX,
            "sglang-kernel/0.4.6/sgl_kernel/sm90/common_ops.abi3.so",
            "vllm/0.26.0/vllm/_C.abi3.so",
        ]
        assert {(one.mtime, one.uid, one.uname, one.mode) for one in tar} == {(0, 0, "", 0o644)}


def test_a_pack_can_be_packed_again(tmp_path: Path, stored: list[Stored]) -> None:
    pack(stored, [(8, 0), (9, 0)], tmp_path / "a.xz")
    unpack(tmp_path / "a.xz", tmp_path / "other")
    pack(entries(tmp_path / "other"), [(9, 0)], tmp_path / "b.xz")
    pack(stored, [(9, 0)], tmp_path / "c.xz")
    assert (tmp_path / "b.xz").read_bytes() == (tmp_path / "c.xz").read_bytes()
    with pytest.raises(UsageError, match=r"no machine code for sm_100; it has sm_80, sm_90, sm_90a$"):
        pack(entries(tmp_path / "other"), [(10, 0)], tmp_path / "d.xz")


def test_an_architecture_that_is_not_inside_is_refused(tmp_path: Path, stored: list[Stored]) -> None:
    with pytest.raises(UsageError, match=r"^sglang-kernel==0\.4\.6 has no machine code for sm_120; it has sm_75, "):
        pack(stored, [(9, 0), (12, 0)], tmp_path / "p.xz")
    for nothing in ([], None):
        with pytest.raises(UsageError, match="name the releases"):
            pack(stored if nothing is None else [], [] if nothing is None else [(9, 0)], tmp_path / "p.xz")
    assert not (tmp_path / "p.xz").exists()


def test_a_damaged_entry_is_not_packed(tmp_path: Path, stored: list[Stored]) -> None:
    path = stored[1].folder / stored[1].manifest.libraries[0].file
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    with pytest.raises(VendorError, match="not the library that was stored"):
        pack(stored, [(9, 0)], tmp_path / "p.xz")
    assert sorted(one.suffix for one in tmp_path.iterdir() if one.is_file()) == [".whl", ".whl"]


def test_a_file_that_is_there_stays_unless_forced(tmp_path: Path, stored: list[Stored]) -> None:
    file = tmp_path / "p.xz"
    file.write_text("mine")
    with pytest.raises(UsageError, match="there already; choose another name or give --force"):
        pack(stored, [(9, 0)], file)
    assert file.read_text() == "mine"
    pack(stored, [(9, 0)], file, force=True)
    assert len(read_index(file)) == 2


def test_entries_that_are_there_stay_unless_forced(tmp_path: Path, stored: list[Stored]) -> None:
    pack(stored, [(9, 0)], tmp_path / "p.xz")
    assert [one.fresh for one in unpack(tmp_path / "p.xz")] == [False, False]
    assert [one.manifest.packed_for for one in entries()] == [(), ()]
    assert [one.fresh for one in unpack(tmp_path / "p.xz", force=True)] == [True, True]
    assert [one.manifest.packed_for for one in entries()] == [("sm_90",)] * 2
    (stored[0].folder / "manifest.json").write_text("damaged")
    assert [one.fresh for one in unpack(tmp_path / "p.xz")] == [True, False]
    for one in entries():
        one.verify()


Files = list[tuple[Any, bytes]]


def forge(source: Path, target: Path, change: Callable[[dict[str, Any], Files], object], tail: bytes = b"") -> Path:
    """A pack with another index or other files, compressed as any tool does."""
    with tarfile.open(source) as tar:
        files: Files = [(one, tar.extractfile(one).read()) for one in tar]  # type: ignore[union-attr]
    index = json.loads(files[0][1])
    change(index, files)
    text = json.dumps(index).encode()
    if files and files[0][0].name == INDEX:
        files[0][0].size = len(text)
        files[0] = (files[0][0], text)
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for info, content in files:
            tar.addfile(info, io.BytesIO(content))
    data = made.getvalue()
    end = len(data.rstrip(b"\0"))
    data = data[: end + -end % 512 + 1024]  # tarfile fills up its last record
    target.write_bytes(lzma.compress(data + tail))
    return target


def renamed(files: Files, at: int, name: str) -> None:
    files[at][0].name = name


def retyped(files: Files, kind: bytes) -> None:
    files[1][0].type, files[1][0].linkname, files[1][0].size = kind, "/etc/passwd", 0
    files[1] = (files[1][0], b"")


def one(index: dict[str, Any]) -> Any:
    return index["releases"][0]["libraries"][0]


def huge(index: dict[str, Any], count: int) -> None:
    """Let a release have so many libraries of 4 GiB."""
    libraries = [{**one(index), "file": f"{at:03}.so", "size": 4 << 30} for at in range(count)]
    index["releases"][0].update(libraries=libraries)


def test_a_pack_made_by_another_tool_is_read(tmp_path: Path, stored: list[Stored]) -> None:
    pack(stored, [(9, 0)], tmp_path / "p.xz")
    file = forge(tmp_path / "p.xz", tmp_path / "f.xz", lambda index, files: None)
    assert [one.fresh for one in unpack(file, tmp_path / "other")] == [True, True]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda i, f: i.update(format=2), "this workbench reads format 1"),
        (lambda i, f: i.update(more=1), "an object of format and releases"),
        (lambda i, f: i.update(releases={}), "format"),
        (lambda i, f: i.update(releases=[]), "each release once"),
        (lambda i, f: i["releases"].reverse(), "each release once, in order"),
        (lambda i, f: i["releases"].append(i["releases"][1]), "each release once"),
        (lambda i, f: one(i).update(file="../../evil.so"), "no file inside a release"),
        (lambda i, f: one(i).update(size=1 << 60), "size is to be"),
        (lambda i, f: one(i).update(size=1), "another file lies there"),
        (lambda i, f: one(i).update(sha256="0" * 64), "its sha256 differs"),
        (lambda i, f: i["releases"].pop(), "something follows"),
        (lambda i, f: huge(i, 17), "more than 64 GiB"),
        (lambda i, f: huge(i, 15), "MiB are free"),
        (lambda i, f: renamed(f, 0, "other.json"), "no pack of libraries"),
        (lambda i, f: renamed(f, 1, "../evil.so"), "another file lies there"),
        (lambda i, f: f.reverse(), "no pack of libraries"),
        (lambda i, f: f.pop(), "no pack that can be read: end of file header"),
        (lambda i, f: f.append(f[1]), "something follows"),
        (lambda i, f: f.clear(), "no pack that can be read"),
        (lambda i, f: retyped(f, tarfile.SYMTYPE), "no plain file"),
        (lambda i, f: retyped(f, tarfile.LNKTYPE), "no plain file"),
        (lambda i, f: retyped(f, tarfile.CHRTYPE), "no plain file"),
    ],
)
def test_a_forged_pack_leaves_nothing(
    tmp_path: Path,
    stored: list[Stored],
    change: Callable[[dict[str, Any], Files], object],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Usage:
        free = 10 << 30

    pack(stored, [(9, 0)], tmp_path / "p.xz")
    file = forge(tmp_path / "p.xz", tmp_path / "f.xz", change)
    monkeypatch.setattr(packing.shutil, "disk_usage", lambda path: Usage)
    with pytest.raises(VendorError) as found:
        unpack(file, tmp_path / "other")
    assert said in str(found.value)
    assert left(tmp_path / "other") in ([], [".lock"])


def left(folder: Path) -> list[str]:
    return [one.name for one in folder.iterdir()] if folder.exists() else []


def test_a_damaged_pack_leaves_nothing(tmp_path: Path, stored: list[Stored]) -> None:
    pack(stored, [(9, 0)], tmp_path / "p.xz")
    whole = (tmp_path / "p.xz").read_bytes()
    middle = len(whole) // 2
    file = tmp_path / "f.xz"
    for content in (
        b"",
        b"no pack at all",
        whole[:20],
        whole[:middle],
        whole[:-1],
        whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
        whole + b"x",
        whole + whole,
        lzma.compress(b""),
        lzma.compress(bytes(10_000)),
        lzma.compress(lzma.decompress(whole) + b"tail"),
    ):
        file.write_bytes(content)
        with pytest.raises(VendorError, match=r"^f\.xz: "):
            unpack(file, tmp_path / "other")
        assert left(tmp_path / "other") in ([], [".lock"])
    for missing in (tmp_path / "nothing.xz", tmp_path):
        with pytest.raises(UsageError, match="no such file"):
            unpack(missing)


def test_a_pack_that_asks_for_a_huge_dictionary_is_refused(tmp_path: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 30}]
    (tmp_path / "f.xz").write_bytes(lzma.compress(bytes(2048), filters=filters))
    with pytest.raises(VendorError, match="no pack that can be read: Memory usage limit"):
        unpack(tmp_path / "f.xz")


def test_a_large_index_is_not_read(tmp_path: Path) -> None:
    info = tarfile.TarInfo(INDEX)
    info.size = 1 << 33
    (tmp_path / "f.xz").write_bytes(lzma.compress(info.tobuf(tarfile.GNU_FORMAT)))
    with pytest.raises(VendorError, match="no pack of libraries"):
        unpack(tmp_path / "f.xz")


def test_unpacking_needs_no_library_of_the_command_line(tmp_path: Path, stored: list[Stored]) -> None:
    """A machine with a GPU may have nothing but torch, numpy and what pip brings."""
    pack(stored, [(9, 0)], tmp_path / "p.xz")
    code = (
        "import sys\n"
        "missing = 'platformdirs elftools typer rich pandas pyarrow torch'.split()\n"
        "sys.modules.update(dict.fromkeys(missing))\n"
        "from workbench.vendor.pack import unpack\n"
        "from workbench.vendor.store import find\n"
        "for one in unpack(sys.argv[1], sys.argv[2]): one.stored.verify(); print(one.stored.release)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, str(tmp_path / "p.xz"), str(tmp_path / "other")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["sglang-kernel==0.4.6", "vllm==0.26.0"], "")


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_what_fails_on_the_way_leaves_nothing(
    tmp_path: Path, stored: list[Stored], error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(stored, [(9, 0)], tmp_path / "p.xz")

    def fail(what: str, done: int, total: int | None) -> None:
        if what in ("packing", "unpacking"):
            raise error

    for work in (
        lambda: pack(stored, [(9, 0)], tmp_path / "new.xz", progress=fail),
        lambda: unpack(tmp_path / "p.xz", tmp_path / "other", progress=fail),
    ):
        with pytest.raises((KeyboardInterrupt, WorkbenchError)):
            work()
    assert left(tmp_path / "other") == [".lock"]
    assert sorted(one.name for one in tmp_path.iterdir() if one.suffix in (".xz", ".tmp")) == ["p.xz"]


def listing(folder: Path) -> dict[str, bytes]:
    """Every file of a store."""
    return {
        str(one.relative_to(folder)): one.read_bytes()
        for one in folder.rglob("*")
        if one.is_file() and one.name != ".lock"
    }


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_while_releases_are_put_in_place_leaves_all_as_it_was(
    tmp_path: Path, root: Path, stored: list[Stored], monkeypatch: pytest.MonkeyPatch, force: bool, after: bool
) -> None:
    pack(stored, [(9, 0)], tmp_path / "p.xz")
    if not force:
        remove(stored[0].wheel)
        remove(stored[1].wheel)
    before, real, at = listing(root), Path.rename, 0
    while True:
        at, calls = at + 1, 0

        def rename(self: Path, target: Path, nth: int = at) -> Path:
            nonlocal calls
            calls += 1
            if calls == nth and not after:
                raise KeyboardInterrupt
            moved = real(self, target)
            if calls == nth:
                raise KeyboardInterrupt
            return moved

        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", rename)
            try:
                unpack(tmp_path / "p.xz", force=force)
            except KeyboardInterrupt:
                assert listing(root) == before
                assert [one.name for one in root.iterdir() if one.is_dir()] == ["sglang-kernel", "vllm"] * force
                continue
        break
    assert at - 1 == (4 if force else 2)
    assert [one.manifest.packed_for for one in entries()] == [("sm_90",)] * 2


@pytest.mark.parametrize("place", ["vllm", "vllm/0.26.0"])
def test_what_lies_in_the_place_of_a_release_is_said_before_any_is_added(
    tmp_path: Path, stored: list[Stored], place: str
) -> None:
    pack(stored, [(9, 0)], tmp_path / "p.xz")
    other = tmp_path / "other"
    (other / place).parent.mkdir(parents=True)
    (other / place).symlink_to("nowhere")
    with pytest.raises(VendorError, match=r"this is no folder; vllm==0\.26\.0 goes there; move this away$"):
        unpack(tmp_path / "p.xz", other)
    assert sorted(left(other)) == [".lock", "vllm"]


def test_equal_versions_are_one_release(tmp_path: Path, root: Path) -> None:
    """An older store may hold both spellings."""
    add(wheel(tmp_path, "vllm==0.26"))
    (root / "vllm" / "0.26.0").mkdir()
    found = find(parse_wheel("vllm==0.26"))
    assert pack([found, found], [(9, 0)], tmp_path / "p.xz").manifests[0].wheel == parse_wheel("vllm==0.26.0")
    remove(parse_wheel("vllm==0.26.0"))
    assert [one.fresh for one in unpack(tmp_path / "p.xz")] == [False]
    found.folder.rename(found.folder.with_name("0.26.0"))
    text = (root / "vllm" / "0.26.0" / "manifest.json").read_text()
    (root / "vllm" / "0.26.0" / "manifest.json").write_text(text.replace('"0.26"', '"0.26.0"'))
    assert [one.fresh for one in unpack(tmp_path / "p.xz")] == [False]
    assert [one.fresh for one in unpack(tmp_path / "p.xz", force=True)] == [True]
    assert [one.name for one in (root / "vllm").iterdir()] == ["0.26"]


@pytest.mark.slow
def test_a_real_release_packs_small(tmp_path: Path) -> None:
    stored = add("vllm==0.26.0").stored
    packed = pack([stored], [(9, 0)], tmp_path / "p.xz")
    assert packed.size < 9.5e6
    (one,) = unpack(tmp_path / "p.xz", tmp_path / "other")
    one.stored.verify()
    assert one.stored.manifest.architectures == ("sm_90", "sm_90a")
    assert one.stored.manifest.ops == stored.manifest.ops
