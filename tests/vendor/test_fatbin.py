"""Fat binaries: what is inside, what a GPU takes, and what blanking leaves."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.vendor.making import ZSTD, code, fatbin, ptx
from workbench.errors import UsageError
from workbench.vendor.elf import read_elf
from workbench.vendor.errors import VendorError
from workbench.vendor.fatbin import FatBinary, architectures, blank, parse_arch, read_fatbins, runs_on


def read(data: bytes) -> list[FatBinary]:
    return read_fatbins(data, [(0, len(data))], "lib.so")


def left(data: bytes, *wanted: str) -> list[list[str]]:
    """What each fat binary holds once it was blanked for architectures; its size and headers must be as before."""
    blanked = bytearray(data)
    blank(blanked, read(data), [parse_arch(one) for one in wanted])
    assert len(blanked) == len(data)
    before, after = read(data), read(bytes(blanked))
    assert [[(one.name, one.start, one.size) for one in binary] for binary in before] == [
        [(one.name, one.start, one.size) for one in binary] for binary in after
    ]
    for binary, other in zip(before, after, strict=True):
        for one, two in zip(binary, other, strict=True):
            payload = blanked[one.start : one.start + one.size]
            assert payload == (bytes(one.size) if two.blank else data[one.start : one.start + one.size])
    return [[one.name for one in binary if not one.blank] for binary in after]


def test_architectures_and_kinds_are_listed() -> None:
    data = fatbin(code("sm_90"), code("sm_90a"), code("compute_80")) + bytes(24)
    data += fatbin(code("sm_100f"), code("sm_75")) + fatbin()
    assert [[one.name for one in binary] for binary in read(data)] == [
        ["sm_90", "sm_90a", "compute_80"],
        ["sm_100f", "sm_75"],
        [],
    ]
    assert architectures(read(data)) == ("sm_75", "sm_90", "sm_90a", "sm_100f", "compute_80")
    assert read(b"") == []
    assert read(bytes(40)) == read(bytes(41)) == []


@pytest.mark.parametrize(
    ("name", "takes", "does_not"),
    [
        ("sm_80", ["sm_80", "sm_86", "sm_89"], ["sm_75", "sm_90"]),
        ("sm_90a", ["sm_90"], ["sm_89", "sm_100"]),
        ("sm_100f", ["sm_100", "sm_103"], ["sm_90", "sm_110", "sm_120"]),
        ("sm_120", ["sm_120", "sm_121"], ["sm_100"]),
        ("compute_80", [], ["sm_80", "sm_90"]),
        ("kind8_90", [], ["sm_90"]),
    ],
)
def test_a_gpu_runs_code_of_its_own_generation_up_to_itself(name: str, takes: list[str], does_not: list[str]) -> None:
    assert [arch for arch in takes + does_not if runs_on(name, parse_arch(arch))] == takes
    (binary,) = read(fatbin(code(name)))
    machine = [arch for arch in takes + does_not if binary[0].runs_on(parse_arch(arch))]
    assert machine == takes or name == "compute_80"


def test_ptx_serves_every_later_gpu() -> None:
    (binary,) = read(fatbin(code("compute_80"), code("compute_90a"), code("compute_100f")))
    assert [[one.runs_on(parse_arch(arch)) for one in binary] for arch in ("sm_75", "sm_90", "sm_100", "sm_103")] == [
        [False, False, False],
        [True, True, False],
        [True, False, True],
        [True, False, True],
    ]


def test_blanking_leaves_what_a_driver_would_take() -> None:
    several = [code(name) for name in ("sm_75", "sm_80", "sm_86", "sm_90", "sm_90a", "sm_100f", "sm_120", "compute_90")]
    assert left(fatbin(*several), "sm_90") == [["sm_90", "sm_90a"]]
    assert left(fatbin(*several), "sm_89") == [["sm_86"]]
    assert left(fatbin(*several), "sm_80", "sm_103") == [["sm_80", "sm_100f"]]
    assert left(fatbin(*several), "sm_121") == [["sm_120"]]


def test_ptx_stays_where_a_selector_needs_it() -> None:
    selector, other = ptx("compute_80", "_Z12fast_topk_v2"), ptx("compute_80", "marlin")
    has_own = fatbin(code("sm_90"), selector)
    assert left(has_own, "sm_90") == [["sm_90"]]
    assert left(fatbin(code("sm_80"), selector), "sm_90") == [["compute_80"]]
    assert left(fatbin(code("sm_80"), selector), "sm_90", "sm_80") == [["sm_80", "compute_80"]]
    assert left(fatbin(code("sm_80"), other), "sm_90") == [[]]
    assert left(fatbin(code("sm_80"), code("compute_80", b".version 9.0\n.target sm_80\n")), "sm_90") == [[]]
    assert left(fatbin(code("sm_80"), code("compute_80", b".entry TopKPerRow(")), "sm_90") == [["compute_80"]]
    assert left(fatbin(ptx("compute_75", "topk"), selector), "sm_90") == [["compute_80"]]


@pytest.mark.parametrize("inflated", [0, 5, 1 << 40])
def test_ptx_that_cannot_be_read_stays(inflated: int) -> None:
    damaged = code("compute_80", b"not zstd at all", flags=ZSTD, inflated=inflated)
    assert left(fatbin(code("sm_80"), damaged), "sm_90") == [["compute_80"]]


def test_code_of_an_unknown_kind_is_left_alone() -> None:
    assert left(fatbin(code("kind_80", b"an intermediate form"), code("sm_80")), "sm_90") == [["kind8_80"]]


@pytest.mark.parametrize(
    "data",
    [
        b"something else that is no fat binary",
        fatbin(code("sm_90"))[:-8],
        fatbin(code("sm_90"))[:40],
        fatbin(code("sm_90"))[:12],
        fatbin(code("sm_90")[:-8]),
        fatbin(bytes(64)),
        fatbin(code("sm_90")) + b"tail    ",
        bytes(3) + fatbin(code("sm_90")),
    ],
)
def test_what_is_no_fat_binary_is_refused(data: bytes) -> None:
    with pytest.raises(VendorError, match=r"^lib\.so: .* is no fat binary"):
        read(data)


@pytest.mark.parametrize("text", ["", "90", "sm90", "sm_9", "sm_90a", "sm_1000", "sm_09", "compute_90", "sm_٩٠"])
def test_an_architecture_is_spelled_one_way(text: str) -> None:
    with pytest.raises(UsageError, match="is no architecture; write it as in sm_90"):
        parse_arch(text)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_what_the_compiler_makes_is_understood(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("__global__ void my_topk(float* x) { x[threadIdx.x] *= 2.f; }\n")
    wanted = {"80": "[sm_80,compute_80]", "90a": "sm_90a", "90": "sm_90", "100f": "sm_100f", "120": "compute_120"}
    command = ["nvcc", "-shared", "-Xcompiler", "-fPIC", "-o", "a.so", "a.cu"]
    for arch, target in wanted.items():
        command += ["-gencode", f"arch=compute_{arch},code={target}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"nvcc here does not know these architectures: {done.stderr.strip()[:200]}")
    data = (tmp_path / "a.so").read_bytes()
    sections = read_elf(tmp_path / "a.so", "a.so").device
    inside = architectures(read_fatbins(data, sections, "a.so"))
    assert inside == ("sm_80", "sm_90", "sm_90a", "sm_100f", "compute_80", "compute_120")
    for arch, kept in (
        ("sm_90", {"sm_90", "sm_90a"}),
        ("sm_103", {"sm_100f"}),
        ("sm_75", set()),
        ("sm_121", {"compute_120"}),
    ):
        blanked = bytearray(data)
        blank(blanked, read_fatbins(data, sections, "a.so"), [parse_arch(arch)])
        assert set(architectures(read_fatbins(blanked, sections, "a.so"))) == kept
