"""Every kernel compiles without a GPU, warnings and spills are errors; what is compiled is kept."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path as File

import pytest

from tests.kernels.expected import CASES, TRIVIAL
from workbench.engines.cuda import compile, sources
from workbench.engines.cuda.compile import KernelError, build
from workbench.engines.cuda.nvrtc import find_nvrtc
from workbench.engines.cuda.support_sources import SUPPORT, support_options
from workbench.errors import UsageError
from workbench.paths.catalog import get_path
from workbench.paths.devices import forms_clusters, get_device
from workbench.resources import kernels_dir

pytestmark = pytest.mark.skipif(find_nvrtc() is None, reason="NVRTC is not installed (extra test)")
QUICK = ["sm_90"]
SLOW = ["sm_80", "sm_100", "sm_120"]
PATH = get_path("vllm.histogram_256")


@pytest.fixture(scope="session")
def kept(request: pytest.FixtureRequest) -> File:
    """Compiled kernels, kept between runs."""
    return File(str(request.config.cache.mkdir("cuda-kernels")))


@pytest.fixture
def cache(tmp_path: File, monkeypatch: pytest.MonkeyPatch) -> File:
    monkeypatch.setenv("TOPK_WORKBENCH_KERNELS", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


@pytest.mark.parametrize("arch", [*QUICK, *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)])
@pytest.mark.parametrize("telemetry", [True, False], ids=["told", "quiet"])
def test_every_kernel_compiles(arch: str, telemetry: bool, kept: File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPK_WORKBENCH_KERNELS", str(kept))

    def made(case: tuple[object, str]) -> str:
        path, variant = case
        try:
            built = build(path, variant, arch, telemetry=telemetry, strict=True)
        except KernelError as error:
            return f"{error}\n{error.log}"
        fits = built.facts.shared_bytes <= get_device("h200").optin_bytes
        registers = 0 < built.facts.registers * sources.walk_of(path).threads <= 65536
        return "" if fits and registers and not built.facts.spilled else f"{path.name} {variant}: {built.facts}"

    for source in SUPPORT:
        assert not compile.build_source(source, source, support_options(source), arch, strict=True).facts.spilled
    clusters = forms_clusters(compile.capability_of(arch))
    cases = [case for case in (*CASES, *TRIVIAL) if clusters or sources.ranks_of(*case) is None]
    different = {(sources.source_of(*case), *sources.build_options(*case, telemetry=telemetry)): case for case in cases}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = [problem for problem in pool.map(made, different.values()) if problem]
    assert not failed, "\n".join(failed)


def test_a_build_that_maps(kept: File, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may spill, which a build that gives positions must not."""
    monkeypatch.setenv("TOPK_WORKBENCH_KERNELS", str(kept))
    assert "-DWORKBENCH_MAPS=1" in sources.build_options(PATH, "stock", maps=True)
    assert "-DWORKBENCH_MAPS=0" in sources.build_options(PATH, "stock")
    of_each = {sources.source_of(*case): case for case in (*CASES, *TRIVIAL)}
    for path, variant in of_each.values():
        assert build(path, variant, "sm_90", maps=True).facts.registers > 0


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ("int x = nothing;", r'stash\.cu\(\d+\): error: identifier "nothing" is undefined'),
        ("int unused;", r'stash\.cu\(\d+\): error.*: variable "unused" was declared but never referenced'),
    ],
)
def test_an_error_is_told(broken: str, told: str, tmp_path: File, cache: File, monkeypatch: pytest.MonkeyPatch) -> None:
    """With file, line, path and variant; a warning counts where the build is strict."""
    folder = tmp_path / "sources"
    shutil.copytree(kernels_dir(), folder)
    kernel = folder / "stash.cu"
    kernel.write_text(kernel.read_text().replace("Recorder recorder(call", f"{broken} Recorder recorder(call"))
    monkeypatch.setattr(compile, "kernels_dir", lambda: folder)
    with pytest.raises(KernelError, match=rf"vllm\.histogram_256 detect_rescan does not compile for sm_90: {told}"):
        build(PATH, "detect_rescan", "sm_90", strict=True)
    assert not list(cache.glob("*"))


def test_an_architecture_that_is_none(cache: File) -> None:
    with pytest.raises(KernelError, match=r"does not compile for sm_1: .*invalid value"):
        build(PATH, "stock", "sm_1")


def test_the_cache(cache: File, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = compile._compile
    monkeypatch.setattr(compile, "_compile", lambda *given: calls.append(given[1]) or real(*given))
    first = build(PATH, "stock", "sm_90")
    assert build(PATH, "stock", "sm_90") == first
    assert len(calls) == 1
    assert first.cubin.read_bytes()[:4] == b"\x7fELF"
    for other in ({"telemetry": False}, {"strict": True}):
        build(PATH, "stock", "sm_90", **other)
    build(PATH, "stock", "sm_80")
    build(PATH, "wide_rescan", "sm_90")
    assert len(calls) == 5
    content = first.cubin.read_bytes()
    for damage in (content[:100], b""):
        first.cubin.write_bytes(damage)
        assert build(PATH, "stock", "sm_90") == first
        assert first.cubin.read_bytes() == content
    first.cubin.with_suffix(".json").write_text("[]")
    assert build(PATH, "stock", "sm_90") == first
    assert not [one for one in cache.iterdir() if one.suffix not in (".cubin", ".json")]
    assert len(calls) == 8


def test_many_at_once(cache: File) -> None:
    with ThreadPoolExecutor(8) as pool:
        built = list(pool.map(lambda _: build(PATH, "stock", "sm_90", telemetry=False), range(8)))
    assert len(set(built)) == 1
    assert len(list(cache.iterdir())) == 2


def test_a_cache_that_cannot_be_written(tmp_path: File, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TOPK_WORKBENCH_KERNELS", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="name another folder in TOPK_WORKBENCH_KERNELS"):
        build(PATH, "stock", "sm_90")


def test_without_a_compiler(cache: File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile, "find_nvrtc", lambda: None)
    with pytest.raises(UsageError, match="NVRTC is not installed: install the extra"):
        build(PATH, "stock", "sm_90")
