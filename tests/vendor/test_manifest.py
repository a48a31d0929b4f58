"""The record beside a release's libraries: what it answers, and that nothing forged is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from workbench.vendor.errors import VendorError
from workbench.vendor.manifest import (
    MOST_BYTES,
    Library,
    Manifest,
    Registered,
    as_json,
    dump_manifest,
    is_safe,
    parse_manifest,
)
from workbench.vendor.release import parse_wheel

ONE = Library(
    "sgl_kernel/sm100/common_ops.abi3.so",
    "ab" * 32,
    1000,
    (Registered("sglang.fast_topk_v2", "fast_topk(Tensor score) -> ()"),),
    ("libtorch.so", "libcudart.so.13"),
    "2.26",
    ("sm_80", "sm_89", "sm_90", "sm_100f"),
)
TWO = replace(ONE, file="sgl_kernel/sm90/common_ops.abi3.so", glibc=None, architectures=("sm_80", "sm_90", "sm_90a"))
MANIFEST = Manifest(
    parse_wheel("sglang-kernel==0.4.6"), "sglang_kernel-0.4.6-x.whl", "cd" * 32, "x86_64", "torch==2.11.0", (ONE, TWO)
)


def test_what_is_written_is_read() -> None:
    for manifest in (MANIFEST, replace(MANIFEST, torch=None, packed_for=("sm_90", "sm_100"), libraries=(TWO,))):
        assert parse_manifest(dump_manifest(manifest), "m") == manifest
    assert as_json(MANIFEST)["libraries"][0]["cuda"] == "13"  # type: ignore[index]


def test_it_sums_up_its_libraries() -> None:
    assert MANIFEST.ops == ("sglang.fast_topk_v2",)
    assert MANIFEST.architectures == ("sm_80", "sm_89", "sm_90", "sm_90a", "sm_100f")
    assert (MANIFEST.cuda, MANIFEST.size) == ("13", 2000)
    assert replace(ONE, needed=("libtorch.so",)).cuda is None


@pytest.mark.parametrize(
    ("capability", "folder"),
    [((9, 0), "sm90"), ((8, 9), "sm100"), ((8, 0), "sm100"), ((10, 0), "sm100"), ((10, 3), "sm100")],
)
def test_the_folder_of_the_gpu_comes_first_and_the_last_one_stands_for_the_rest(
    capability: tuple[int, int], folder: str
) -> None:
    assert MANIFEST.library_for("sglang.fast_topk_v2", capability).file == f"sgl_kernel/{folder}/common_ops.abi3.so"


def test_an_op_or_a_gpu_that_is_not_inside_is_refused() -> None:
    with pytest.raises(
        VendorError, match=r"^sglang-kernel==0\.4\.6 registers no vllm\.x; it has sglang\.fast_topk_v2$"
    ):
        MANIFEST.library_for("vllm.x", (9, 0))
    with pytest.raises(
        VendorError, match=r"has no code for sm_120; code inside: sm_80, sm_89, sm_90, sm_90a, sm_100f$"
    ):
        MANIFEST.library_for("sglang.fast_topk_v2", (12, 0))
    packed = replace(MANIFEST, packed_for=("sm_90",), libraries=(replace(TWO, architectures=("sm_90",)),))
    with pytest.raises(VendorError, match=r"no code for sm_100; it was packed for sm_90; code inside: sm_90$"):
        packed.library_for("sglang.fast_topk_v2", (10, 0))


def first(document: Any) -> Any:
    return document["libraries"][0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(format=2), "this workbench reads format 1"),
        (lambda d: d.update(format=True), "format"),
        (lambda d: d.update(extra=1), "an object of format"),
        (lambda d: d.pop("torch"), "an object of format"),
        (lambda d: d.update(package="../etc"), "no release"),
        (lambda d: d.update(package="SGLang_Kernel"), "is to be spelled"),
        (lambda d: d.update(version="0.4.6.0rc"), "is to be spelled"),
        (lambda d: d.update(version="../0"), "no release"),
        (lambda d: d.update(version=7), "version is to be text"),
        (lambda d: d.update(machine="ppc64le"), "machine is to be x86_64 or aarch64"),
        (lambda d: d.update(machine=["x86_64"]), "machine"),
        (lambda d: d.update(torch="torch\n==2"), "torch is to be text on one line"),
        (lambda d: d.update(packed_for=["90"]), "no place in packed_for"),
        (lambda d: d.update(packed_for="sm_90"), "is to be a list"),
        (lambda d: d.update(libraries=[]), "one at least"),
        (lambda d: d.update(libraries={}), "is to be a list"),
        (lambda d: d["libraries"].reverse(), "by file name"),
        (lambda d: d["libraries"].append(d["libraries"][1]), "each once"),
        (lambda d: d["wheel"].update(file="/etc/passwd"), "no file inside a release"),
        (lambda d: d["wheel"].update(sha256="CD" * 32), "no place in sha256"),
        (lambda d: first(d).update(file="../x.so"), "no file inside a release"),
        (lambda d: first(d).update(sha256="ab"), "no place in sha256"),
        (lambda d: first(d).update(size=0), "size is to be"),
        (lambda d: first(d).update(size=True), "size is to be"),
        (lambda d: first(d).update(size=1.5), "size is to be"),
        (lambda d: first(d).update(size=1 << 40), "size is to be"),
        (lambda d: first(d).update(ops={}), "ops is to be an object"),
        (lambda d: first(d).update(ops={"a.b": 1}), "schema is to be text"),
        (lambda d: first(d).update(ops={"a": "a() -> ()"}), "'a' has no place in ops"),
        (lambda d: first(d).update(ops={"[red]a.b": "b() -> ()"}), "no place in ops"),
        (lambda d: first(d).update(file="manifest.json"), "in each other's way"),
        (lambda d: d["libraries"].append({**first(d), "file": d["libraries"][1]["file"] + "/x.so"}), "other's way"),
        (lambda d: first(d).update(needed=[""]), "needed is to be text"),
        (lambda d: first(d).update(cuda="12"), "needed says '13'"),
        (lambda d: first(d).update(architectures=["sm_90; rm"]), "no place in architectures"),
    ],
)
def test_what_is_forged_is_refused(change: Callable[[Any], object], said: str) -> None:
    document = json.loads(dump_manifest(MANIFEST))
    change(document)
    with pytest.raises(VendorError, match=r"^m: no manifest of a release: ") as found:
        parse_manifest(json.dumps(document), "m")
    assert said in str(found.value)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"\xff\xfe",
        b"{}",
        b"[" * 100_000,
        b'{"format": NaN}',
        b'{"format": 1, "format": 1}',
        b" " * (MOST_BYTES + 1),
        b"1" * 10_000,
    ],
)
def test_what_is_no_manifest_is_refused(text: bytes) -> None:
    with pytest.raises(VendorError, match=r"^m: no manifest of a release: "):
        parse_manifest(text, "m")


def test_a_safe_name_stays_inside_its_folder() -> None:
    assert is_safe("a/b.so")
    assert is_safe("E=257,N=256,device_name=X.json")
    bad = ["", "/a", "a//b", "../a", "a/..", "./a", "a\\b", "c:/a", "a\0b", "a\n", "x" * 256, "a/" * 300, "a/"]
    assert [name for name in bad if is_safe(name)] == []
