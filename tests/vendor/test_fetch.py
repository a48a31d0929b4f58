"""Fetching a wheel with pip, from an index on this machine, and every way in which that fails."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from packaging.version import Version

from tests.vendor.index import publish, serve
from tests.vendor.making import DECODE, library, wheel
from workbench.errors import UsageError, WorkbenchError
from workbench.vendor import fetch as fetching
from workbench.vendor.errors import VendorError
from workbench.vendor.fetch import fetch, near, pip_command, platforms, run_command
from workbench.vendor.release import parse_wheel
from workbench.vendor.store import add

V26 = parse_wheel("vllm==0.26.0")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of an index that is the only one that pip knows."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "index"
    (folder / "simple").mkdir(parents=True)
    with serve(folder) as address:
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", address)
        monkeypatch.setenv("PIP_RETRIES", "0")
        yield folder


def why(source: str, **options: str) -> str:
    """Why a release is not added, in one line; nothing of it may be left."""
    with pytest.raises(WorkbenchError) as found:
        add(source, **options)  # type: ignore[arg-type]
    root = Path(os.environ["TOPK_WORKBENCH_VENDOR"])
    assert [one.name for one in root.iterdir()] == [".lock"]
    assert "\n" not in str(found.value)
    assert len(str(found.value)) < 400
    return str(found.value)


def test_a_release_is_fetched_for_linux_and_only_its_libraries_stay(tmp_path: Path, index: Path, root: Path) -> None:
    publish(index, "vllm", wheel(tmp_path, tag="cp38-abi3-manylinux_2_35_x86_64"), wheel(tmp_path, "vllm==0.27.0"))
    seen: list[str] = []
    added = add("vllm==0.26.0", progress=lambda what, done, total: seen.append(what))
    assert (added.fresh, added.stored.release) == (True, "vllm==0.26.0")
    assert added.stored.manifest.file == "vllm-0.26.0-cp38-abi3-manylinux_2_35_x86_64.whl"
    assert seen[0] == "fetching vllm==0.26.0"
    files = sorted(str(one.relative_to(root)) for one in root.rglob("*") if one.is_file())
    assert files == [".lock", "vllm/0.26.0/manifest.json", "vllm/0.26.0/vllm/_C_stable_libtorch.abi3.so"]


def test_the_other_machine_is_an_option(tmp_path: Path, index: Path) -> None:

    arm = {"vllm/_C.abi3.so": library(DECODE, machine="aarch64")}
    made = wheel(tmp_path, files=arm, tag="cp38-abi3-manylinux_2_28_aarch64")
    publish(index, "vllm", made)
    said = why("vllm==0.26.0")
    assert said == (
        "vllm==0.26.0 has no wheel for Linux on x86_64 and Python 3.12; it has cp38-abi3-manylinux_2_28_aarch64"
    )
    assert add("vllm==0.26.0", machine="aarch64").stored.manifest.machine == "aarch64"
    with pytest.raises(UsageError, match=r"already, made for aarch64; remove it first: .* vllm==0\.26\.0$"):
        add("vllm==0.26.0")


def test_a_release_that_is_not_there_names_those_near_it(tmp_path: Path, index: Path) -> None:
    publish(index, "vllm", *(wheel(tmp_path, f"vllm==0.{minor}.0") for minor in range(20, 34)))
    assert why("vllm==0.26.1") == (
        "there is no vllm==0.26.1; near it the index has 0.24.0, 0.25.0, 0.26.0, 0.27.0, 0.28.0, 0.29.0"
    )
    assert why("nothing==1") == "the package index has no wheel of nothing for Linux on x86_64 and Python 3.12"


def test_another_python_is_named(tmp_path: Path, index: Path) -> None:
    publish(index, "vllm", wheel(tmp_path), python=">=3.13")
    assert why("vllm==0.26.0") == "vllm==0.26.0 has no wheel for Python 3.12; give another --python"
    assert add("vllm==0.26.0", python="3.13").fresh


def test_a_file_that_is_not_the_one_listed_is_refused(tmp_path: Path, index: Path) -> None:
    publish(index, "vllm", wheel(tmp_path), sha256="0" * 64)
    assert why("vllm==0.26.0") == (
        "vllm==0.26.0: the file that came is not the one that the index lists (its sha256 differs); fetch it again"
    )


def test_a_wheel_with_another_sha256_than_asked_for_is_refused(tmp_path: Path, index: Path) -> None:
    publish(index, "vllm", wheel(tmp_path))
    assert "its sha256 is " in why("vllm==0.26.0", sha256="0" * 64)


def test_an_index_that_cannot_be_reached_says_how_to_do_without(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    said = why("vllm==0.26.0")
    assert said.startswith("the package index could not be reached to fetch vllm==0.26.0; on a machine without network")
    assert "workbench vendor unpack" in said


def test_a_file_that_is_gone_from_the_index_is_told_as_pip_tells_it(tmp_path: Path, index: Path) -> None:
    made = wheel(tmp_path)
    publish(index, "vllm", made)
    (index / "simple" / "vllm" / made.name).unlink()
    assert why("vllm==0.26.0").startswith("pip could not fetch vllm==0.26.0: ")


def test_a_python_without_pip_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "find_spec", lambda name: None)
    said = why("vllm==0.26.0")
    assert "this Python has no pip" in said
    assert "ensurepip" in said


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["ERROR: [Errno 28] No space left on device", "1"], "no space left on the disk"),
        (["ERROR: Could not install: weather", "1"], "pip could not fetch vllm==0.26.0: Could not install: weather"),
        (["1"], "pip could not fetch vllm==0.26.0: exit code 1"),
        (["-9"], "exit code -9"),
        (["0"], "pip could not fetch vllm==0.26.0: exit code 0"),
        ([], "pip could not fetch vllm==0.26.0: exit code"),
    ],
)
def test_whatever_else_pip_says_becomes_one_line(tmp_path: Path, lines: list[str], said: str) -> None:
    def runner(command: list[str], environment: dict[str, str]) -> Generator[str, None, None]:
        yield from lines

    with pytest.raises(VendorError) as found:
        fetch(V26, tmp_path, runner=runner)
    assert said in str(found.value)


def test_progress_is_read_off_pip(tmp_path: Path) -> None:
    def runner(command: list[str], environment: dict[str, str]) -> Generator[str, None, None]:
        assert environment["TMPDIR"] == str(tmp_path)  # what is half fetched goes with the folder
        yield from ("Progress 0 of 300", "Progress 150 of 300", "Progress x of y", "Progress 300 of 300")
        (tmp_path / "vllm-0.26.0-x.whl").touch()
        yield "0"

    seen: list[tuple[int, int | None]] = []
    fetch(V26, tmp_path, progress=lambda what, done, total: seen.append((done, total)), runner=runner)
    assert seen == [(0, None), (0, 300), (150, 300), (300, 300)]


def test_the_command_asks_for_one_file_and_leaves_none_in_a_cache(tmp_path: Path) -> None:
    command = pip_command(V26, tmp_path, "x86_64", "3.12")
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input"} <= set(command)
    assert command[-3:] == ["--dest", str(tmp_path), "vllm==0.26.0"]
    wanted = platforms("x86_64")
    assert {f"manylinux_2_{minor}_x86_64" for minor in range(17, 40)} < set(wanted)
    assert {"manylinux2014_x86_64", "manylinux1_x86_64"} < set(wanted)
    assert "manylinux2014_aarch64" in platforms("aarch64")


@pytest.mark.parametrize(
    ("machine", "python"), [("arm64", "3.12"), ("", "3.12"), ("x86_64", "3"), ("x86_64", "3.12;x")]
)
def test_another_machine_or_python_is_a_usage_error(tmp_path: Path, machine: str, python: str) -> None:
    with pytest.raises(UsageError):
        pip_command(V26, tmp_path, machine, python)


def test_near_versions_lie_on_both_sides() -> None:
    versions = ["0.9", "0.10", "0.2", "nonsense", "0.11", "0.12"]
    assert near(Version("0.9.5"), versions, 2) == ["0.9", "0.10"]
    assert near(Version("9"), versions, 2) == ["0.11", "0.12"]
    assert near(Version("0.1"), versions, 3) == ["0.2", "0.9", "0.10"]
    assert near(Version("1"), [], 3) == []


def test_the_command_ends_when_nobody_listens() -> None:
    lines = run_command(
        [sys.executable, "-uc", "import os, time; print(os.getpid()); time.sleep(60)"], dict(os.environ)
    )
    process = int(next(lines))
    started = time.monotonic()
    lines.close()
    assert time.monotonic() - started < 30
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_an_interruption_leaves_nothing(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(command: list[str], environment: dict[str, str]) -> Generator[str, None, None]:
        (Path(environment["TMPDIR"]) / "half.whl").write_bytes(b"half")
        yield "Progress 1 of 300"
        raise KeyboardInterrupt

    monkeypatch.setattr(fetching, "run_command", interrupted)
    with pytest.raises(KeyboardInterrupt):
        add("vllm==0.26.0")
    assert [one.name for one in root.iterdir()] == [".lock"]


def test_no_registry_is_named_in_the_sources() -> None:
    sources = Path(fetching.__file__).parent.glob("*.py")
    named = re.compile("pypi|https?://", re.IGNORECASE)
    assert [one.name for one in sources if named.search(one.read_text())] == []


@pytest.mark.parametrize(("version", "bar"), [("23.2.1", "off"), ("24.0", "off"), ("24.1", "raw"), ("26.3", "raw")])
def test_progress_is_asked_of_a_pip_that_can_tell_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, bar: str
) -> None:
    monkeypatch.setattr("workbench.vendor.fetch.metadata.version", lambda name: version)
    assert f"--progress-bar={bar}" in pip_command(V26, tmp_path, "x86_64", "3.12")
