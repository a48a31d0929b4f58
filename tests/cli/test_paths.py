"""``workbench paths``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from typer.testing import Result

from workbench.paths.catalog import PATHS, get_path

Cli = Callable[..., Result]
CliJson = Callable[..., tuple[int, Any]]


def test_lists_every_path_with_its_capacity(cli: Cli) -> None:
    result = cli("paths")
    assert result.exit_code == 0
    rows = {line.split()[0]: line.split() for line in result.stdout.splitlines() if "." in line[:11]}
    assert list(rows) == [path.name for path in PATHS]
    assert rows["vllm.histogram_2048"][1:3] == ["11", "3708"]
    assert rows["vllm.histogram_4096"][1:3] == ["12", "k"]
    assert (rows["vllm.per_row"][2], rows["vllm.sampled"][2]) == ("2048", "8192")
    assert (rows["vllm.radix"][2], rows["flashinfer.ragged"][2]) == ("–", "?")


def test_the_list_keeps_to_100_columns_and_one_line_a_path(cli: Cli) -> None:
    lines = cli("paths").stdout.splitlines()
    assert max(map(len, lines)) <= 100
    listed = lines[3 : lines.index("")]
    assert len(listed) == len(PATHS) + 2  # two of three dtypes need two lines, and so do six k


def test_a_cluster_says_what_its_blocks_store(cli: Cli) -> None:
    rows = {line.split()[0]: line for line in cli("paths").stdout.splitlines() if "." in line[:11]}
    assert re.search(r" max\(k, 1024\) +16 × 1024 ", rows["vllm.cooperative_16"])
    assert re.search(r" 2048 +8 × 2048 ", rows["sglang.v2_cluster_8"])
    assert "×" not in rows["vllm.filtered"]
    text = " ".join(cli("paths", "sglang.v2_cluster_8").stdout.split())
    assert "8, interleaved parts in units of 512 scores; each stores 2048 of its part" in text
    assert "fills as scores arrive" in text
    assert "fills in the order of the blocks" in " ".join(cli("paths", "vllm.cooperative_2").stdout.split())


def test_bounds_are_said(cli: Cli) -> None:
    rows = {line.split()[0]: line for line in cli("paths").stdout.splitlines() if "." in line[:11]}
    assert "512, 1024, 2048 > 8192, ≤ 32768" in rows["vllm.histogram_256"]
    assert "up to 1024" in rows["sglang.v1"]
    assert rows["vllm.trivial"].split()[-4:] == ["≤", "k", "any", str(len(get_path("vllm.trivial").variants))]


def test_a_glob_chooses(cli_json: CliJson) -> None:
    code, document = cli_json("paths", "sglang.*")
    assert code == 0
    assert [path["name"] for path in document] == [path.name for path in PATHS if path.system == "sglang"]


def test_json_is_the_full_spec(cli_json: CliJson) -> None:
    _, (document,) = cli_json("paths", "vllm.filtered")
    path = get_path("vllm.filtered")
    assert document["buffer"] == {"capacity": 16384, "whole_bin": False, "ranks": None, "leaves_unwritten": False}
    assert document["contract"]["determinism"] == "not_guaranteed"
    assert document["walk"] == {"load": 4, "threads": 1024, "ranks": None}
    assert document["references"] == list(path.references)
    assert [variant["name"] for variant in document["variants"]] == [variant.name for variant in path.variants]
    assert document["variants"][0]["evidence"] == path.variants[0].evidence.value


def test_an_exact_name_shows_the_whole_record(cli: Cli) -> None:
    result = cli("paths", "vllm.histogram_256")
    path = get_path("vllm.histogram_256")
    text = " ".join(result.stdout.split())
    for part in (path.summary, path.source, path.releases, *path.references, path.contract.nan, "unspecified"):
        assert part in text
    assert "walk 1024 threads a block, loads of 1 " in text  # of its family, which its record does not repeat


def test_an_unknown_path_is_an_error_that_lists_the_known_ones(cli: Cli) -> None:
    result = cli("paths", "vllm.nothing")
    assert result.exit_code == 2
    assert "vllm.histogram_256" in result.stderr
    assert result.stdout == ""
