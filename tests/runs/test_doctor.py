"""``doctor``: packages that raise, abort or hang are facts; damage is found; nothing heavy is imported for it."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from tests.vendor.making import wheel
from workbench.errors import UsageError
from workbench.resources import VARIABLES
from workbench.runs import looks, looks_common, looks_engines, looks_gpu, looks_kept
from workbench.runs.asked import Answer, ask
from workbench.runs.doctor import AREAS, Doctor, Fact, doctor
from workbench.runs.looks_common import cure_in
from workbench.vendor.store import add

ROOT = Path(__file__).parents[2]
FAULTS = {
    "raises": ("raise ImportError('libcudart.so.99: cannot open shared object file')", "libcudart.so.99: cannot open"),
    "exits": ("import sys; sys.exit(3)", "the process ended with exit code 3"),
    "aborts": ("import os; print('about to die', flush=True); os.abort()", r"signal 6 \(SIGABRT\).*about to die"),
    "hangs": ("import time; time.sleep(600)", "did not return within 1.5 s"),
    "closes": ("import os; os.closerange(3, 99)", "exit code|closed its connection|Bad file|did not return"),
}


def install(folder: Path, name: str, version: str, module: str, source: str) -> None:
    """A package that lies in a folder as an installer would leave it."""
    (folder / module).mkdir(parents=True)
    (folder / module / "__init__.py").write_text(source)
    about = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


@pytest.mark.parametrize("fault", list(FAULTS))
def test_an_import_that_goes_wrong_is_a_line(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, said = FAULTS[fault]
    install(tmp_path, "vllm", "0.26.0", "vllm", source)
    monkeypatch.syspath_prepend(tmp_path)
    began = time.monotonic()
    (fact,) = looks._serving(partial(ask, timeout=1.5), "vllm")
    assert time.monotonic() - began < 20
    assert (fact.name, fact.value, fact.state) == ("vllm", "0.26.0", "broken")
    assert re.search(said, fact.why)
    assert "\n" not in fact.why
    assert "vllm" not in sys.modules


def test_a_package_that_loads_is_fine_whatever_it_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "vllm", "0.26.0", "vllm", "print('{' * 100_000)")
    monkeypatch.syspath_prepend(tmp_path)
    (fact,) = looks._serving(partial(ask, timeout=30), "vllm")
    assert (fact.value, fact.state, fact.why) == ("0.26.0", "fine", "")
    assert [one.state for one in looks._serving(partial(ask, timeout=30), "sglang")] == ["absent"]


@pytest.mark.skipif(sys.platform != "linux", reason="files without a folder are Linux's")
def test_a_package_is_not_broken_where_nothing_takes_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    (tmp_path / "loads.py").write_text("__version__ = '1.0'")
    monkeypatch.syspath_prepend(tmp_path)
    answer = ask("import", "loads")
    assert answer == Answer({})


def test_what_is_asked_ends_when_it_is_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "sleepy", "1", "sleepy", "import time; time.sleep(600)")
    monkeypatch.syspath_prepend(tmp_path)
    stop = threading.Event()
    timer = threading.Timer(0.5, stop.set)
    timer.start()
    assert ask("import", "sleepy", timeout=60, stop=stop) == Answer(failed="it was stopped")
    timer.join()


def test_cupy_that_aborts_and_two_of_it_are_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "cupy-cuda13x", "13.6.0", "cupy", "import os; os.abort()")
    monkeypatch.syspath_prepend(tmp_path)
    (fact,) = looks_gpu.cupy(partial(ask, timeout=30))
    assert fact.state == "broken"
    assert "SIGABRT" in fact.why
    assert fact.cure == "pip install 'topk-workbench[cuda13]'"
    install(tmp_path / "second", "cupy-cuda12x", "13.6.0", "cupy", "")
    monkeypatch.syspath_prepend(tmp_path / "second")
    (fact,) = looks_gpu.cupy(partial(ask, timeout=30))
    assert fact.state == "broken"
    assert "overwrite each other" in fact.why


def test_a_version_below_its_floor_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "streamlit", "1.2.0", "streamlit", "")
    monkeypatch.syspath_prepend(tmp_path)
    (need,) = [one for one in looks._needed() if one.name == "streamlit"]
    (fact,) = looks._package(partial(ask, timeout=30), need)
    assert fact.state == "broken"
    assert fact.why == f"its version is 1.2.0, and {need.specifier} is needed"
    assert fact.cure == f"pip install 'streamlit{need.specifier}'"


def test_gpus_are_told_with_what_kernels_need(monkeypatch: pytest.MonkeyPatch) -> None:
    device = {
        "name": "NVIDIA H200",
        "capability": "9.0",
        "multiprocessors": 132,
        "memory_bytes": 140 << 30,
        "free_bytes": 139 << 30,
        "shared_bytes_a_block": 232448,
        "shared_bytes_a_multiprocessor": 233472,
    }
    answers = {
        "torch": Answer({"version": "2.11.0+cu130", "cuda": "13.0", "hip": None, "threads": 4, "devices": [device]}),
        "driver": Answer({"version": "13.0", "devices": [{"cooperative": True, "clusters": True}]}),
    }
    found = {one.name: one for one in looks_gpu.torch(lambda name: answers[name])}
    assert found["torch"].value == "2.11.0+cu130, built for CUDA 13.0"
    assert found["GPU 0"].value == (
        "NVIDIA H200, compute capability 9.0, 132 multiprocessors, 139.0 GiB of 140.0 GiB free, up to 232448 bytes of "
        "shared memory a block, cooperative launches: yes, clusters: yes"
    )
    assert found["GPU 0"].details["clusters"] is True
    answers["torch"] = Answer(failed="RuntimeError: the driver is too old")
    (broken,) = looks_gpu.torch(lambda name: answers[name])
    assert (broken.state, broken.why) == ("broken", "RuntimeError: the driver is too old")


def test_releases_of_the_store_are_listed_and_damage_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPK_WORKBENCH_VENDOR", str(tmp_path / "store"))
    (head,) = looks_kept.releases(verify=False)
    assert head.value.startswith("empty, in ")
    stored = add(wheel(tmp_path)).stored
    head, one = looks_kept.releases(verify=True)
    assert head.value.startswith("1 releases, ")
    assert one.state == "fine"
    assert "sha256 as stored" in one.value
    library = stored.folder / stored.manifest.libraries[0].file
    content = library.read_bytes()
    library.write_bytes(content[:-1] + b"?")
    assert [fact.state for fact in looks_kept.releases(verify=False)] == ["fine", "fine"]  # its size is right
    assert [fact.state for fact in looks_kept.releases(verify=True)] == ["fine", "broken"]
    library.write_bytes(content[:-1])
    _, one = looks_kept.releases(verify=False)
    assert one.state == "broken"
    assert "not the library that was stored" in one.why
    (stored.folder / "manifest.json").write_text("{}")
    _, one = looks_kept.releases(verify=False)
    assert (one.name, one.state) == ("vllm==0.26.0", "broken")
    monkeypatch.setenv("TOPK_WORKBENCH_VENDOR", str(library))
    (head,) = looks_kept.releases(verify=False)
    assert head.state == "broken"


def test_folders_that_cannot_be_used_are_broken(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert looks_kept.kernel_cache(tmp_path / "file").state == "broken"
    assert looks_kept.kernel_cache(tmp_path / "new").value.count("0 kernels") == 1


def test_an_engine_says_what_cures_it() -> None:
    told = {
        "cuda": ["no CUDA device is visible to torch; --engine model answers without a GPU"],
        "vendor": {"vllm": {"stored": ["vllm==0.26.0"], "installed": None, "why": ""}},
        "no_device": "",
        "kernels": "/no/such/folder",
    }
    found = {one.name: one for one in looks_engines.engines(lambda _: Answer(told))}
    assert (found["cuda"].state, found["cuda"].why) == ("absent", told["cuda"][0])  # type: ignore[index]
    assert (found["vendor"].state, found["vendor: vllm"].value) == ("fine", "in the store: 0.26.0")
    broken = list(looks_engines.engines(lambda _: Answer(failed="it was stopped")))
    assert {one.state for one in broken} == {"broken"}
    assert (
        cure_in("x is not installed; fetch: workbench vendor add vllm==0.26.0") == "workbench vendor add vllm==0.26.0"
    )
    assert cure_in("nothing to do") == ""


def test_a_look_that_goes_wrong_takes_no_other_along(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken():  # type: ignore[no-untyped-def]
        yield Fact("gpu", "torch", "1")
        raise ValueError("of all things\nand more")

    few = [("gpu", "torch", broken), ("python", "python", looks._python)]
    monkeypatch.setattr(looks, "all_looks", lambda **_: few)
    heard: list[tuple[int, int]] = []
    found = doctor(told=lambda done, total: heard.append((done, total)))
    assert heard == [(1, 2), (2, 2)]
    assert [one.area for one in found.facts][-2:] == ["gpu", "gpu"]
    (fact,) = found.broken
    assert (fact.name, fact.why) == ("torch", "ValueError: of all things")
    assert found.sentence == "torch is broken; no engine can answer here."
    assert "[broken]" in found.text()
    assert list(found.to_pandas().columns) == ["area", "name", "value", "state", "why", "cure"]
    with pytest.raises(UsageError, match="timeout"):
        doctor(timeout=0)


def test_the_environments_variables_are_those_that_the_sources_name() -> None:
    texts = [path.read_text() for path in (ROOT / "workbench").rglob("*.py")]
    named = {name for text in texts for name in re.findall(r"\b(?:TOPK_WORKBENCH|WORKBENCH)_[A-Z]+\b", text)}
    options = {name for name in named if name.startswith("WORKBENCH_") and name != "WORKBENCH_TRACEBACK"}
    assert named - options == set(VARIABLES)


def test_nothing_heavy_is_imported_to_look() -> None:
    code = (
        "import sys; from workbench.runs import looks, doctor; "
        "print([m for m in ('torch', 'numpy', 'pandas', 'streamlit', 'plotly', 'ray') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_all_of_it_here() -> None:
    found: Doctor = doctor(timeout=100)
    assert {one.area for one in found.facts} <= set(AREAS)
    assert found.fact("engines", "model").state == "fine"
    assert found.fact("gpu", "torch").details["version"]
    assert found.fact("storage", "sample captures").details["files"]
    assert "model" in found.sentence


def test_a_checkout_on_the_path_is_not_said_to_be_the_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its distribution may be installed all the same, from elsewhere."""
    source = Path(looks.__file__).resolve().parents[2]
    folder = tmp_path / "topk_workbench-9.9.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: topk-workbench\nVersion: 9.9\n")
    monkeypatch.syspath_prepend(tmp_path)
    said, *_ = looks._python()
    assert said.value.endswith(f", from {source}, beside the package 9.9 that is installed")
    (folder / "direct_url.json").write_text(f'{{"url": "file://{source}", "dir_info": {{"editable": true}}}}')
    said, *_ = looks._python()
    assert said.value.endswith(", installed as a package")


@pytest.mark.parametrize(
    ("torch", "extra"),
    [("2.9.0+cu128", "cuda12"), ("2.11.0+cu130", "cuda13"), ("2.13.0+cpu", "cuda13"), (None, "cuda13")],
)
def test_the_cure_for_cupy_is_of_the_cuda_that_torch_has(
    monkeypatch: pytest.MonkeyPatch, torch: str | None, extra: str
) -> None:
    monkeypatch.setattr(looks_common, "installed", lambda name: torch)
    assert looks_common.cuda_cure() == f"pip install 'topk-workbench[{extra}]'"
    assert "cuda12" in looks_common.cuda_note()
    assert "cuda13" in looks_common.cuda_note()
