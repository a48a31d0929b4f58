"""``workbench route``."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import Result

from workbench.capture import Call, Row, open_capture, write_capture
from workbench.paths import routing
from workbench.paths.devices import DEVICES
from workbench.paths.routing import OPS

Cli = Callable[..., Result]
CliJson = Callable[..., tuple[int, Any]]

CALL = ("--op", "vllm.persistent_topk", "--release", "vllm==0.26.0", "--device", "h200", "--k", 2048)


def test_rows_of_a_capture_are_grouped_by_path(cli: Cli, captures: Path) -> None:
    result = cli("route", captures / "mixed.safetensors")
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines() if line.startswith("vllm.histogram")]
    assert rows == [
        ["vllm.histogram_256", "(stock)", "2", "0-1", "20000", "2048"],
        ["vllm.histogram_2048", "(stock)", "1", "2", "5000", "2048"],
    ]


def test_one_row_shows_every_condition_met_or_not(cli: Cli, captures: Path) -> None:
    result = cli("route", captures / "mixed.safetensors", "--row", 2)
    assert "vllm.histogram_2048 (stock)" in result.stdout
    assert "✓ length 5000 ≤ 8192" in result.stdout
    assert "✗ rows 1 > 32" in result.stdout


def test_what_decides_and_is_not_known_is_marked_and_the_option_named(cli: Cli, captures: Path) -> None:
    result = cli("route", captures / "anonymous.safetensors", "--row", 0, *CALL)
    assert result.exit_code == 0
    assert "unknown: it depends on rows; give --rows" in result.stdout
    assert "? rows is unknown" in result.stdout


def test_given_values_stand_over_the_capture(cli_json: CliJson, captures: Path) -> None:
    code, document = cli_json("route", captures / "broken.safetensors", "--rows", 33)
    assert code == 0
    assert [route["path"] for route in document["routes"]] == ["vllm.histogram_4096"]
    assert document["notes"] == ["rows is 33 as given; the capture says 1"]
    _, document = cli_json("route", captures / "broken.safetensors", "--release", "vllm==0.23.0", "--rows", 33)
    assert [route["path"] for route in document["routes"]] == ["vllm.filtered"]
    _, document = cli_json("route", captures / "broken.safetensors", "--k", 1000)
    assert document["routes"][0]["refused"] == "the op takes k 512, 1024 or 2048 only, not k 1000"


def test_next_n_and_width_are_taken(cli: Cli, captures: Path) -> None:
    assert cli("route", captures / "broken.safetensors", "--next-n", 2, "--width", 20001).exit_code == 0


def test_without_a_file_the_call_is_described(cli: Cli, cli_json: CliJson) -> None:
    call = (*CALL, "--length", 20000, "--rows", 40, "--stride", 20000, "--max-seq-len", 20000)
    assert "A row of length 20000, k 2048: vllm.histogram_4096 (stock)" in cli("route", *call).stdout
    code, document = cli_json("route", *call)
    (route,) = document["routes"]
    assert (code, document["capture"], route["row"]) == (0, None, None)
    assert {condition["met"] for condition in route["reasons"]} == {True, False}


def test_without_a_file_dtype_can_be_said(cli: Cli) -> None:
    result = cli("route", *CALL, "--length", 20000, "--dtype", "bfloat16")
    assert result.exit_code == 0
    assert "refused: the op takes float32, not bfloat16" in result.stdout


def test_without_a_file_what_is_missing_is_named(cli: Cli) -> None:
    result = cli("route", "--op", "vllm.persistent_topk", "--k", 2048)
    assert result.exit_code == 2
    assert "--release, --device, --length must be given" in result.stderr


def test_options_of_rows_and_of_descriptions_do_not_mix(cli: Cli, captures: Path) -> None:
    for args in (
        (captures / "broken.safetensors", "--length", 3),
        (captures / "broken.safetensors", "--dtype", "float32"),
        (*CALL, "--length", 20000, "--row", 3),
        (*CALL, "--length", 20000, "--scores", "x"),
    ):
        result = cli("route", *args)
        assert result.exit_code == 2
        assert "FILE" in result.stderr


def test_list_names_ops_releases_and_devices(cli: Cli, cli_json: CliJson) -> None:
    text = cli("route", "--list").stdout
    _, document = cli_json("route", "--list")
    for op, listed in zip(OPS, document["ops"], strict=True):
        assert op.name in text
        assert listed["releases"] == list(op.releases)
        assert listed["returns"] == list(op.transforms)
        assert re.search(rf"^{re.escape(op.name)} +{re.escape(', '.join(op.transforms))}$", text, re.MULTILINE)
        assert all(release in text for release in op.releases)
    assert [device["name"] for device in document["devices"]] == [device.name for device in DEVICES]


def test_unknown_names_are_errors_that_list_the_known_ones(cli: Cli, captures: Path) -> None:
    file = captures / "broken.safetensors"
    for option, value, known in (
        ("--op", "vllm.nope", "vllm.persistent_topk"),
        ("--release", "vllm==9.9.9", "0.26.0"),
        ("--release", "0.26.0", "vllm==0.26.0"),
        ("--device", "tpu", "h200"),
    ):
        result = cli("route", file, option, value)
        assert result.exit_code == 2
        assert value in result.stderr
        assert known in result.stderr


def test_a_capture_without_an_op_needs_one(cli: Cli, captures: Path) -> None:
    result = cli("route", captures / "anonymous.safetensors")
    assert result.exit_code == 2
    assert "op, release and device" in result.stderr


def test_tensors_of_several_dtypes_are_routed_by_their_own(cli_json: CliJson, tmp_path: Path) -> None:
    file = tmp_path / "both.safetensors"
    save_file({"s.0": torch.rand(1, 9000), "s.1": torch.rand(1, 9000).half()}, file)
    _, document = cli_json("route", file, "--scores", "s.*", *CALL, "--rows", 1, "--stride", 9000)
    first, second = document["routes"]
    assert first["path"] == "vllm.histogram_256"
    assert second["refused"] == "the op takes float32, not float16"


V2 = ("--op", "sglang.topk_transform_paged_v2", "--release", "sglang==0.5.21", "--device", "h200")
WIDE = 200_000
LONG = 80_000  # the plan's threshold for 31 rows is 65536 or 98304


def planned(rows: int, held: int) -> list[Row]:
    """Rows of one call, as many as held: the first two long, the others short."""
    call = Call(k=2048, rows=rows, width=WIDE, stride=WIDE)
    scores = torch.zeros(1).expand(WIDE).clone()
    return [Row(scores, LONG if at < 2 else 3000, call=call) for at in range(held)]


def test_a_plan_that_counts_all_rows_is_unknown_without_them(cli: Cli, cli_json: CliJson) -> None:
    described = (*V2, "--k", 2048, "--length", LONG, "--width", WIDE, "--stride", WIDE, "--rows")
    assert "sglang.v2_cluster_8 (stock)" in cli("route", *described, 30).stdout
    result = cli("route", *described, 31)
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert "unknown: it depends on the lengths of all rows of the call; a capture that holds all of them tells" in text
    assert "? the plan counts the lengths of all rows" in text
    _, document = cli_json("route", *described, 31)
    assert document["routes"][0]["unknown"] == ["the lengths of all rows of the call"]


def test_a_capture_of_all_rows_tells_the_plan(cli: Cli, cli_json: CliJson, tmp_path: Path) -> None:
    """The same routes as for rows that are read in full; given rows that the capture does not hold make it unknown."""
    file = tmp_path / "all.safetensors"
    write_capture(file, planned(31, 31))
    _, document = cli_json("route", file, *V2)
    paths = [route["path"] for route in document["routes"]]
    assert paths == ["sglang.v2_cluster_8"] * 2 + ["sglang.v2_register"] * 29
    with open_capture(file) as capture:
        read = [routing.route(row, *V2[1::2]).path for row in capture]
    assert paths == read
    for args in (("route", file, *V2, "--rows", 40), ("inspect", file, *V2, "--rows", 40, "--row", 0)):
        assert "the lengths of all rows of the call" in " ".join(cli(*args).stdout.split())
    write_capture(tmp_path / "some.safetensors", planned(31, 30))
    _, document = cli_json("route", tmp_path / "some.safetensors", *V2)
    paths = [route["path"] for route in document["routes"]]
    assert paths == [None] * 2 + ["sglang.v2_register"] * 28  # no cluster takes so short a row


def test_the_plan_is_shown_and_its_static_threshold_taken(cli: Cli, cli_json: CliJson) -> None:
    described = (*V2, "--k", 2048, "--length", 40_000, "--width", WIDE, "--stride", WIDE, "--rows")
    few = cli("route", *described, 30).stdout
    assert "The call's plan: not written: 30 rows are at most the 30 resident clusters" in few
    assert "written, with a threshold that is unknown" in " ".join(cli("route", *described, 31).stdout.split())
    static = cli("route", *described, 31, "--static-threshold", 0)
    assert "sglang.v2_cluster_8" in static.stdout
    assert "The call's plan: written, threshold 32768 by static threshold 0, raised to 32768" in static.stdout
    _, document = cli_json("route", *described, 31, "--static-threshold", 39_999)
    assert document["routes"][0]["plan"] == {
        "written": True,
        "threshold": 39_999,
        "rows": None,
        "why": "static threshold 39999",
    }
    assert cli("route", *described, 31, "--static-threshold", -2).exit_code == 2


def test_what_an_engine_was_set_up_with_is_taken(cli: Cli) -> None:
    call = ("--device", "h200", "--k", 2048, "--length", 20000, "--rows", 8, "--width", 20480, "--stride", 20480)
    indexer = ("--op", "vllm.sparse_indexer_topk", "--release", "vllm==0.32.0", *call)
    assert "calls vllm.cooperative_topk" in cli("route", *indexer).stdout
    assert "vllm.per_row (decode_radix)" in cli("route", *indexer, "--backend", "per_row").stdout
    refused = " ".join(cli("route", *indexer, "--backend", "deep_select").stdout.split())
    assert "refused: deep_select was asked for, and the engine raises: it needs compute capability 10" in refused
    dsa = ("--op", "sglang.dsa_topk_transform", "--release", "sglang==0.5.21", *call)
    assert "unknown: it depends on layout; give --layout" in cli("route", *dsa).stdout
    assert "sglang.v2_streaming (stock)" in cli("route", *dsa, "--layout", "paged").stdout
    assert "sglang.fast_topk (stock)" in cli("route", *dsa, "--layout", "paged", "--no-topk-v2").stdout
    assert "torch.topk (stock)" in cli("route", *dsa, "--backend", "torch", "--unfused").stdout
    rocm = ("--op", "sglang.fast_topk_v2", "--release", "sglang-kernel==0.4.6", *call, "--device", "mi300x")
    assert "nothing that can be given tells" in " ".join(cli("route", *rocm).stdout.split())
    idle = cli("route", *rocm, "--layout", "paged")
    assert (idle.exit_code, idle.stdout) == (2, "")
    assert "sglang.fast_topk_v2 does not depend on layout" in idle.stderr
    wrong = cli("route", *dsa, "--layout", "packed")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "known layouts: paged, prefill, ragged" in wrong.stderr


def test_a_probe_that_was_not_measured_can_be_given(cli: Cli) -> None:
    described = (*V2, "--device", "b300", "--k", 2048, "--length", 70_000, "--width", WIDE, "--stride", WIDE)
    asked = " ".join(cli("route", *described, "--rows", 20).stdout.split())
    assert "unknown: it depends on clusters_8; give --clusters-8" in asked
    assert "sglang.v2_cluster_8 (stock)" in cli("route", *described, "--rows", 20, "--clusters-8", 33).stdout
    assert "sglang.v2_streaming (stock)" in cli("route", *described, "--rows", 20, "--clusters-8", 0).stdout


def test_where_a_row_starts_decides_too(cli_json: CliJson, tmp_path: Path) -> None:
    """A row of 16384 that does not start at a multiple of 4 needs one more vector than the register path holds."""
    file = tmp_path / "starts.safetensors"
    rows = [Row(torch.rand(16400), 16384, start, call=Call(k=2048)) for start in (0, 1)]
    write_capture(file, rows)
    op = ("--op", "sglang.topk_transform_ragged_v2", "--release", "sglang==0.5.21", "--device", "h200")
    _, document = cli_json("route", file, *op)
    assert [route["path"] for route in document["routes"]] == ["sglang.v2_register", "sglang.v2_streaming"]


@pytest.mark.parametrize("option", ["--op", "--release", "--device"])
@pytest.mark.parametrize("command", ["route", "inspect", "run", "info"])
def test_an_empty_name_is_as_unknown_as_any_other(cli: Cli, captures: Path, command: str, option: str) -> None:
    result = cli(command, captures / "broken.safetensors", option, "")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "''" in result.stderr


def test_the_list_keeps_to_100_columns(cli: Cli) -> None:
    lines = cli("route", "--list").stdout.splitlines()
    assert max(map(len, lines)) <= 100
    in_three_tables = sum(line.split()[:1] == [op.name] for line in lines for op in OPS)  # package, upstream, returned
    assert in_three_tables == 3 * len(OPS) == 66


def test_a_length_outside_the_row_is_told_and_exits_1(cli: Cli, cli_json: CliJson, tmp_path: Path) -> None:
    place = {"op": "vllm.persistent_topk", "release": "vllm==0.26.0", "device": "h200"}
    call = Call(k=512, rows=8, width=16384, stride=16384, max_seq_len=16384, **place)  # type: ignore[arg-type]
    file = tmp_path / "padded.safetensors"
    write_capture(file, [Row(torch.randn(16384), length, call=call) for length in (16384, -1, 16385, -1)])
    result = cli("route", file)
    assert result.exit_code == 1
    said = " ".join(result.stdout.split())
    assert "Outside rows 1, 3: length -1 is read as 4294967295 with max_seq_len 16384" in said
    assert "Outside row 2: length 16385 is not clamped: the path reads past the row's width" in said
    code, document = cli_json("route", file, "--row", 1)
    assert code == 1
    assert (document["routes"][0]["path"], document["routes"][0]["length"]) == ("vllm.radix", -1)
    assert "hangs" in document["routes"][0]["outside"]
    code, document = cli_json("route", file, "--row", 0)
    assert (code, document["routes"][0]["outside"]) == (0, None)
    harmless = cli("route", file, "--row", 1, "--rows", 40)
    assert harmless.exit_code == 0
    assert "Outside the row: length -1 is compared as signed" in " ".join(harmless.stdout.split())
    described = ("--rows", 8, "--stride", 16384, "--max-seq-len", 16384, "--length")
    assert cli("route", *CALL, *described, -1).exit_code == 1
    assert cli("route", *CALL, *described, 16385, "--width", 16384).exit_code == 1
    assert cli("route", *CALL, *described, 16384, "--width", 16384).exit_code == 0
