"""``workbench vendor``: what it prints, its JSON, and its one line of every error."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.vendor.index import publish, serve
from tests.vendor.making import DECODE, FAST, OTHER, PERSISTENT, library, wheel
from workbench.vendor.release import parse_wheel
from workbench.vendor.store import ENVIRONMENT, find

Cli = Callable[..., Result]
CliJson = Callable[..., tuple[int, Any]]
ROOT = Path(__file__).parents[2]
DEEP = "topk(Tensor input, int topk, Tensor? begin, Tensor? end) -> ()"


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store's folder, which does not exist yet."""
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture
def vllm(tmp_path: Path) -> Path:
    """A wheel of vLLM's kind."""
    return wheel(tmp_path, files={"vllm/_C.abi3.so": library(DECODE, PERSISTENT)})


@pytest.fixture
def sglang(tmp_path: Path) -> Path:
    """A wheel of SGLang's kind."""
    files = {f"sgl_kernel/{folder}/common_ops.abi3.so": library(FAST) for folder in ("sm90", "sm100")}
    return wheel(tmp_path, "sglang-kernel==0.4.6", files)


def test_a_wheel_is_added_listed_and_removed(cli: Cli, vllm: Path, sglang: Path, store: Path) -> None:
    added = cli("vendor", "add", vllm, sglang)
    assert added.exit_code == 0, added.stderr
    assert "Added vllm==0.26.0\n" in added.stdout
    assert re.search(r"^ops +vllm\.persistent_topk, vllm\.top_k_per_row_decode$", added.stdout, re.MULTILINE)
    assert re.search(r"^CUDA runtime +13$", added.stdout, re.MULTILINE)
    listed = cli("vendor", "list").stdout.splitlines()
    assert max(map(len, listed)) <= 100
    assert listed[0].split() == ["release", "ops", "CUDA", "architectures", "size", "torch"]
    assert [line.split()[0] for line in listed if "==0." in line] == ["sglang-kernel==0.4.6", "vllm==0.26.0"]
    row = next(line for line in listed if line.startswith("vllm"))
    assert {"persistent_topk,", "==2.11.0", "13"} <= set(row.split())
    assert "2 releases, " in listed[-1] + listed[-2]
    removed = cli("vendor", "remove", "vllm==0.26.0")
    assert (removed.exit_code, removed.stdout.split()[:2]) == (0, ["Removed", "vllm==0.26.0"])
    assert "vllm==0.26.0" not in cli("vendor", "list").stdout
    assert not (store / "vllm").exists()


def test_json_is_one_document_that_says_all(cli_json: CliJson, vllm: Path, store: Path) -> None:
    code, added = cli_json("vendor", "add", vllm)
    assert code == 0
    assert added["command"] == "vendor add"
    (release,) = added["releases"]
    assert (release["added"], release["release"], release["folder"]) == (
        True,
        "vllm==0.26.0",
        str(store / "vllm" / "0.26.0"),
    )
    assert release["ops"] == ["vllm.persistent_topk", "vllm.top_k_per_row_decode"]
    assert release["architectures"] == ["sm_80", "sm_90", "sm_90a", "sm_100f", "compute_80"]
    assert cli_json("vendor", "add", vllm)[1]["releases"][0]["added"] is False
    code, listed = cli_json("vendor", "list")
    assert (code, listed["store"], listed["damaged"]) == (0, str(store), [])
    assert listed["releases"] == [{key: value for key, value in release.items() if key != "added"}]
    (kept,) = listed["releases"][0]["manifest"]["libraries"]
    assert kept["ops"] == {"vllm.persistent_topk": PERSISTENT, "vllm.top_k_per_row_decode": DECODE}
    assert cli_json("vendor", "remove", "vllm==0.26.0") == (
        0,
        {"command": "vendor remove", "release": "vllm==0.26.0", "folder": str(store / "vllm" / "0.26.0")},
    )
    assert cli_json("vendor", "list")[1]["releases"] == []


def test_what_was_added_before_an_error_is_in_the_one_document(cli: Cli, vllm: Path, store: Path) -> None:
    result = cli("vendor", "add", vllm, "nothere.whl", "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 2
    assert [one["release"] for one in document["releases"]] == ["vllm==0.26.0"]
    assert document["failed"] == {"source": "nothere.whl", "error": "nothere.whl: no such file"}
    assert "nothere.whl: no such file" in result.stderr
    assert (store / "vllm" / "0.26.0" / "manifest.json").is_file()


def test_an_op_that_is_kept_and_not_run_says_so(cli: Cli, tmp_path: Path) -> None:
    made = wheel(tmp_path, files={"vllm/_C.abi3.so": library(PERSISTENT, DEEP)})
    for args in (("add", made), ("list",)):
        said = " ".join(cli("vendor", *args).stdout.split())
        assert "vllm.deep_select is registered and kept, but the vendor engine does not run it: it takes GPUs" in said


def test_a_second_addition_says_so(cli: Cli, vllm: Path) -> None:
    cli("vendor", "add", vllm)
    assert cli("vendor", "add", vllm).stdout.startswith("There already: vllm==0.26.0\n")


def test_an_empty_store_says_how_to_fill_it(cli: Cli) -> None:
    said = cli("vendor", "list")
    assert said.exit_code == 0
    assert "add one with: workbench vendor add vllm==0.26.0" in " ".join(said.stdout.split())


def test_a_damaged_entry_is_listed_as_such(cli: Cli, cli_json: CliJson, vllm: Path, store: Path) -> None:
    cli("vendor", "add", vllm)
    (store / "vllm" / "0.26.0" / "manifest.json").write_text("{")
    said = cli("vendor", "list")
    assert said.exit_code == 0
    assert "Damaged: vllm==0.26.0:" in said.stdout
    (damaged,) = cli_json("vendor", "list")[1]["damaged"]
    assert damaged["release"] == "vllm==0.26.0"
    assert cli("vendor", "remove", "vllm==0.26.0").exit_code == 0


def test_releases_are_packed_and_unpacked(
    cli: Cli, cli_json: CliJson, vllm: Path, sglang: Path, tmp_path: Path, store: Path
) -> None:
    later = wheel(tmp_path, "vllm==0.33.0", {"vllm/_C.abi3.so": library(DECODE)})
    cli("vendor", "add", vllm, sglang, later)
    file = tmp_path / "pack.tar.xz"
    packed = cli("vendor", "pack", "vllm==0.26.0..0.32.0", "sglang-kernel==0.4.6", "--arch", "sm_90", "-o", file)
    assert packed.exit_code == 0, packed.stderr
    assert "Wrote 2 releases to" in packed.stdout
    assert "sgl_kernel/sm100/common_ops.abi3.so of sglang-kernel==0.4.6" in packed.stdout
    assert max(map(len, packed.stdout.splitlines())) <= max(100, len(str(file)))
    other = tmp_path / "other"
    unpacked = cli("vendor", "unpack", file, "--store", other)
    assert (unpacked.exit_code, "Unpacked 2 releases" in unpacked.stdout) == (0, True)
    assert "sm_90 (packed)" in unpacked.stdout
    find(parse_wheel("vllm==0.26.0"), other).verify()
    again = cli("vendor", "unpack", file, "--store", other)
    assert "left as they are (--force replaces them)" in " ".join(again.stdout.split())
    code, document = cli_json("vendor", "unpack", file, "--store", other, "--force")
    assert (code, [one["added"] for one in document["releases"]]) == (0, [True, True])
    code, document = cli_json("vendor", "pack", "vllm==0.1..1", "--arch", "sm_80", "-o", tmp_path / "b.xz")
    assert (code, document["size"]) == (0, (tmp_path / "b.xz").stat().st_size)
    assert [one["packed_for"] for one in document["releases"]] == [["sm_80"], ["sm_80"]]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["add"], "Missing argument"),
        (["add", "vllm"], "'vllm' is no release; write it as in vllm==0.26.0"),
        (["add", "nothere.whl"], "nothere.whl: no such file"),
        (["add", "{vllm}", "--sha256", "12"], "is no sha256"),
        (["add", "{vllm}", "vllm==1", "--sha256", "0" * 64], "--sha256 is of one wheel"),
        (["add", "{vllm}", "--sha256", "0" * 64], "its sha256 is "),
        (["add", "vllm==1", "--machine", "arm"], "known: x86_64, aarch64"),
        (["add", "vllm==1", "--python", "two"], "no Python version"),
        (["remove", "vllm"], "is no release"),
        (["remove", "vllm==0.26.0"], "is not in the store, which holds nothing"),
        (["remove"], "Missing argument"),
        (["pack", "vllm==0.26.0", "--arch", "sm_90"], "Missing option"),
        (["pack", "vllm==0.26.0", "-o", "p.xz"], "Missing option"),
        (["pack", "vllm==0.26.0", "--arch", "90", "-o", "p.xz"], "write it as in sm_90"),
        (["pack", "vllm==0.26.0", "--arch", "sm_90", "-o", "p.xz"], "add it with: workbench vendor add vllm==0.26.0"),
        (["pack", "vllm==0.2..0.3", "--arch", "sm_90", "-o", "p.xz"], "no release of vllm==0.2..0.3 is in the store"),
        (["pack", "vllm==0.3..0.2", "--arch", "sm_90", "-o", "p.xz"], "runs backwards"),
        (["unpack", "nothere.xz"], "nothere.xz: no such file"),
        (["unpack", "{vllm}"], "no pack that can be read"),
        (["nothing"], "No such command"),
    ],
)
def test_every_error_is_one_line(cli: Cli, vllm: Path, args: list[str], said: str, store: Path) -> None:
    result = cli("vendor", *(arg.format(vllm=vllm) for arg in args))
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert said in line
    assert not store.exists() or [one.name for one in store.iterdir()] == [".lock"]


def test_a_wheel_without_a_selector_says_which_are_known(cli: Cli, tmp_path: Path) -> None:
    result = cli("vendor", "add", wheel(tmp_path, files={"vllm/_moe_C.abi3.so": library(OTHER)}))
    assert result.exit_code == 2
    assert "registers a selector op; known are " in result.stderr
    assert "vllm.persistent_topk" in result.stderr


def test_an_architecture_that_is_not_inside_names_those_that_are(cli: Cli, vllm: Path, tmp_path: Path) -> None:
    cli("vendor", "add", vllm)
    result = cli("vendor", "pack", "vllm==0.26.0", "--arch", "sm_120", "-o", tmp_path / "p.xz")
    assert result.exit_code == 2
    assert "has no machine code for sm_120; it has sm_80, sm_90, sm_90a, sm_100f" in result.stderr
    assert not (tmp_path / "p.xz").exists()


def test_help_shows_examples(cli: Cli) -> None:
    nothing = cli("vendor")
    assert (nothing.exit_code, cli("vendor", "--help").exit_code) == (2, 0)
    for command in ("add", "list", "remove", "pack", "unpack"):
        assert f"workbench vendor {command}" in cli("vendor", command, "-h").stdout


def test_an_interruption_ends_pip_and_leaves_nothing(tmp_path: Path, vllm: Path, store: Path) -> None:
    """A real process, a real pip, and an index that is slower than the user."""
    index = tmp_path / "index"
    publish(index, "vllm", vllm)
    asked = threading.Event()
    with serve(index, asked, delay=60) as address:
        settings = {"PYTHONPATH": str(ROOT), "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": address}
        process = subprocess.Popen(
            [sys.executable, "-m", "workbench", "vendor", "add", "vllm==0.26.0"],
            env=os.environ | settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert asked.wait(60)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "workbench: interrupted\n")
    assert [one.name for one in store.iterdir()] == [".lock"]
