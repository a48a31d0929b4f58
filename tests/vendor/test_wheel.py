"""Wheels, most of which nobody should open."""

from __future__ import annotations

import random
import stat
import struct
import zipfile
from pathlib import Path

import pytest

from tests.vendor.making import DECODE, FAST, OTHER, VLLM, library, record, wheel
from workbench.errors import UsageError
from workbench.vendor.errors import VendorError
from workbench.vendor.release import parse_wheel
from workbench.vendor.store import add, remove
from workbench.vendor.wheel import open_wheel, parse_file_name

NAME = "vllm/_C_stable_libtorch.abi3.so"


def link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


def test_only_libraries_that_register_a_selector_op_are_found(tmp_path: Path) -> None:
    seen = []
    with open_wheel(wheel(tmp_path)) as opened:
        assert (str(opened.wheel), opened.machine, opened.torch) == ("vllm==0.26.0", "x86_64", "torch==2.11.0")
        (found,) = opened.selectors(lambda what, done, total: seen.append((what, done, total)))
        assert (found.file, found.size) == (NAME, len(VLLM[NAME]))
        assert [one.op for one in found.ops] == ["vllm.persistent_topk", "vllm.top_k_per_row_decode"]
        opened.extract(found, tmp_path / "out" / "lib.so")
    assert (tmp_path / "out" / "lib.so").read_bytes() == VLLM[NAME]
    total = sum(map(len, VLLM.values()))
    assert seen[-1] == ("reading its libraries", total, total)


@pytest.mark.parametrize("name", ["x/libs/libops.so.1.2", "x/ops.cpython-312-x86_64-linux-gnu.so", "ops.so"])
def test_a_library_is_one_whatever_its_name(tmp_path: Path, name: str) -> None:
    with open_wheel(wheel(tmp_path, "sglang-kernel==0.4.6", {name: library(FAST), "x/a.py": library(FAST)})) as opened:
        assert [one.file for one in opened.selectors()] == [name]


@pytest.mark.parametrize(
    ("metadata", "torch"),
    [
        ("", None),
        ("Requires-Dist: torchvision==1\nRequires-Dist: torch-c==1\n", None),
        ("Requires-Dist: torch==2.1; extra == 'zen'\n", None),
        ("Requires-Dist: torchaudio==2\nRequires-Dist: torch>=2.6,<3\n", "torch>=2.6,<3"),
        ("Requires-Dist: torch\n", "torch"),
    ],
)
def test_the_torch_that_it_requires(tmp_path: Path, metadata: str, torch: str | None) -> None:
    path = wheel(tmp_path, metadata=f"Name: vLLM\nVersion: 0.26.0\n{metadata}")
    with open_wheel(path) as opened:
        assert opened.torch == torch


@pytest.mark.parametrize(
    ("name", "release", "machine"),
    [
        ("vllm-0.26.0-cp38-abi3-manylinux_2_28_x86_64.whl", "vllm==0.26.0", "x86_64"),
        ("vllm-0.20.1-1-cp38-abi3-manylinux_2_35_x86_64.whl", "vllm==0.20.1", "x86_64"),
        (
            "SGL_Kernel-0.4.6+cu130-cp310-abi3-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
            "sgl-kernel==0.4.6+cu130",
            "aarch64",
        ),
        ("a-1-cp310-abi3-linux_x86_64.whl", "a==1", "x86_64"),
    ],
)
def test_a_file_name_says_release_and_machine(name: str, release: str, machine: str) -> None:
    wheel, found = parse_file_name(name)
    assert (str(wheel), found) == (release, machine)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("vllm.whl", "no name of a wheel"),
        ("vllm-0.26.0.tar.gz", "no name of a wheel"),
        ("vllm-new-cp38-abi3-manylinux_2_28_x86_64.whl", "is no release"),
        ("vllm-0.26.0-cp38-abi3-win_amd64.whl", "made for win_amd64"),
        ("vllm-0.26.0-py3-none-any.whl", "made for any"),
        ("vllm-0.26.0-cp38-abi3-musllinux_1_1_x86_64.whl", "made for musllinux"),
    ],
)
def test_other_file_names_are_refused(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_file_name(name)


@pytest.mark.parametrize(
    "name", ["../evil.so", "/etc/evil.so", "a/../../evil.so", "a\\..\\evil.so", "C:/evil.so", "a//b.so", "./a.so"]
)
def test_names_that_lead_out_are_refused(tmp_path: Path, root: Path, name: str) -> None:
    refused(wheel(tmp_path, extra=[(zipfile.ZipInfo(name), b"x")]), root, "could lead out of a folder")


def refused(path: Path, root: Path, said: str) -> None:
    """Adding says so in one line, and leaves nothing behind."""
    with pytest.raises(VendorError) as found:
        add(path)
    assert said in str(found.value)
    assert str(found.value).startswith(path.name) or path.name not in str(found.value)
    assert "\n" not in str(found.value)
    assert [one.name for one in root.iterdir()] == [".lock"]


def test_links_doubles_and_odd_compression_are_refused(tmp_path: Path, root: Path) -> None:
    refused(wheel(tmp_path / "a", extra=[(link("vllm/x.so"), b"/etc/passwd")]), root, "is a link or device")
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = wheel(tmp_path / "b", extra=[(NAME, library(DECODE))])
    refused(path, root, "twice")
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = wheel(tmp_path / "c", extra=[("vllm-0.26.0.dist-info/RECORD", b"")])
    refused(path, root, "twice")
    odd = zipfile.ZipInfo("vllm/x.so")
    odd.compress_type = zipfile.ZIP_LZMA
    refused(wheel(tmp_path / "d", extra=[(odd, b"x")]), root, "compressed in a way")
    path = wheel(tmp_path / "e")
    content = path.read_bytes()
    path.write_bytes(content.replace(b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01\x00", 1))
    refused(path, root, "encrypted")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"about": False}, "0 .dist-info folders"),
        ({"extra": [("other-1.dist-info/METADATA", b"")]}, "2 .dist-info folders"),
        ({"metadata": "Name: vllm\nVersion: 0.26.1\n"}, "METADATA says that it is 'vllm==0.26.1'"),
        ({"metadata": "nothing"}, "METADATA says that it is '=='"),
        ({"recorded": ""}, "no sha256 of"),
        ({"recorded": f"{NAME},sha512=abc,3\n"}, "no sha256 of"),
        ({"recorded": record({NAME: b"other bytes"})}, "is not what its RECORD says"),
        ({"recorded": record(VLLM) * 2}, "lists 'vllm/_C_stable_libtorch.abi3.so' twice"),
        ({"recorded": f"{NAME},sha256=ü,3\n"}, "RECORD"),
        ({"files": {"vllm/_moe_C.abi3.so": library(OTHER)}}, "no library in it registers a selector op"),
        ({"files": {}}, "no library in it registers a selector op"),
        ({"files": {NAME: b"\0" + DECODE.encode() + b"\0"}}, "no shared library"),
        ({"files": {NAME: library(DECODE, machine="aarch64")}}, "made for aarch64; the wheel says x86_64"),
        ({"files": {NAME: library(DECODE, binaries=[b"no device code. "])}}, "is no fat binary"),
    ],
)
def test_a_wheel_that_does_not_fit_together_is_refused(
    tmp_path: Path, root: Path, made: dict[str, object], said: str
) -> None:
    refused(wheel(tmp_path, **made), root, said)  # type: ignore[arg-type]


@pytest.mark.parametrize("missing", ["METADATA", "RECORD"])
def test_a_wheel_without_its_papers_is_refused(tmp_path: Path, root: Path, missing: str) -> None:
    path = tmp_path / "vllm-0.26.0-cp38-abi3-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(NAME, VLLM[NAME])
        for name, text in (("METADATA", "Name: vllm\nVersion: 0.26.0\n"), ("RECORD", record(VLLM))):
            if name != missing:
                archive.writestr(f"vllm-0.26.0.dist-info/{name}", text)
    refused(path, root, f"no {missing} in it")


def test_a_file_that_is_a_folder_too_is_refused(tmp_path: Path, root: Path) -> None:
    path = wheel(tmp_path, files={"vllm/a.so": library(DECODE), "vllm/a.so/b.so": library(DECODE)})
    refused(path, root, "'vllm/a.so' is a file and a folder in it; refused")


def test_what_is_no_zip_or_a_damaged_one_is_refused(tmp_path: Path, root: Path) -> None:
    path = wheel(tmp_path)
    whole = path.read_bytes()
    for content in (b"", b"not a zip", whole[: len(whole) // 2], whole[100:]):
        path.write_bytes(content)
        refused(path, root, "no wheel that can be read")
    at = whole.index(NAME.encode()) + len(NAME) + 200
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    refused(path, root, "no wheel that can be read")


def test_no_damage_ends_in_another_error(tmp_path: Path, root: Path) -> None:
    path = wheel(tmp_path)
    whole, draw = path.read_bytes(), random.Random(0)
    for _ in range(150):
        content = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):  # half of them where the zip's own headers are
            content[draw.choice([draw.randrange(len(whole)), len(whole) - 1 - draw.randrange(400)])] = draw.randrange(
                256
            )
        path.write_bytes(content)
        try:
            add(path)
        except VendorError:
            assert [one.name for one in root.iterdir()] == [".lock"]
        else:  # what was hit does not matter to what is kept
            remove(parse_wheel("vllm==0.26.0"))


def resized(path: Path, name: str, size: int) -> None:
    """Make a member's central header declare another size."""
    content = bytearray(path.read_bytes())
    at = content.rindex(name.encode()) - 46
    assert content[at : at + 4] == b"PK\x01\x02"
    struct.pack_into("<I", content, at + 24, size)
    path.write_bytes(content)


def test_a_bomb_is_not_inflated_beyond_what_its_header_says(tmp_path: Path, root: Path) -> None:
    bomb = library(DECODE, filler=1 << 20)
    path = wheel(tmp_path / "less", files={NAME: bomb})
    resized(path, NAME, 1000)
    refused(path, root, "no wheel that can be read")
    path = wheel(tmp_path / "papers")
    resized(path, "vllm-0.26.0.dist-info/RECORD", 1 << 30)
    refused(path, root, "RECORD has 1073741824 bytes; refused")
    many = {f"vllm/{at}.so": b"" for at in range(9)}
    path = wheel(tmp_path / "many", files=many)
    for name in many:
        resized(path, name, 0xFFFFFFF0)
    refused(path, root, "refused as an attack")
