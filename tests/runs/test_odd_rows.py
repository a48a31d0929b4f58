"""Rows that no path was made for, on every path: what the descriptions say comes out, and nothing crashes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path as File
from typing import Any

import pytest
import torch

import workbench as wb
from tests.cli.conftest import cli, cli_json  # noqa: F401
from workbench.capture import Capture
from workbench.paths.catalog import PATHS
from workbench.paths.shared import NAN_SIGNED, NAN_TOP
from workbench.paths.spec import Path

KINDS = ("bfloat16", "float16", "+nan", "-nan", "empty", "negative", "past")
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}

# Read in the sources, told apart from the code: what a path does with a length of -1, and with one past the row.
ALL_EMPTY = {
    "vllm.trivial",
    "vllm.filtered",
    "vllm.histogram_4096",
    *(f"vllm.cooperative_{ranks}" for ranks in (2, 4, 8, 16)),
    "vllm.per_row",
    "vllm.sampled",
    "sglang.trivial",
    "sglang.fast_topk",
    "sglang.kpool",
}
HARM_BELOW_0 = {
    "vllm.histogram_2048": "hangs",
    "vllm.histogram_256": "hangs",
    "vllm.radix": "hangs",
    "sglang.v1": "walks off the row",
    **dict.fromkeys(
        ("sglang.v2_register", "sglang.v2_streaming", "sglang.v2_cluster_8", "sglang.v2_cluster_16"),
        "illegal memory access",
    ),
}
HARM_PAST = {
    "vllm.histogram_2048": "reads past the row",
    "vllm.histogram_256": "reads past the row",
    "vllm.radix": "hangs",
    "vllm.filtered": "reads past the row",
    "vllm.histogram_4096": "reads past the row",
    "vllm.per_row": "reads past the row",
    **{f"vllm.cooperative_{ranks}": "overrun shared memory" for ranks in (2, 4, 8, 16)},
}
# Winners that the row loses if one of its scores is a NaN, by the path's own words on NaN.
LOST_TO_NAN = {
    NAN_TOP: (0, 0),
    NAN_SIGNED: (0, 1),
    f"float32: {NAN_TOP}; 16-bit: {NAN_SIGNED}": (0, 0),
    "kept": (0, 0),
    "ranks above +inf, whatever its sign": (0, 0),
    "NaN counts in the top bin but is never collected; slots are filled up with their own positions": (1, 1),
    "counts as -inf (described, not observed)": (1, 1),
    "not observed": (0, 0),
}


def size(path: Path) -> tuple[int, int]:
    """A k and a length that the path takes."""
    k = 512 if path.ks is None or 512 in path.ks else path.ks[0]
    if path.up_to == "k":
        return k, k - 12
    least = k if path.longer_than in ("k", None) else int(path.longer_than)
    return k, max(least + 5, 3000)


def odd(path: Path, kind: str) -> wb.Row:
    """A row of one kind that the path would take but for that."""
    k, length = size(path)
    scores = torch.randn(length, generator=torch.Generator().manual_seed(3))
    if path.dtypes == ("bfloat16",) and kind not in DTYPES:
        scores = scores.bfloat16()
    if kind in DTYPES:
        scores = scores.to(DTYPES[kind])
    elif kind.endswith("nan"):
        scores[7] = math.nan
        if kind[0] == "-":  # by its bits: a conversion may drop the sign of a NaN
            bits = scores.view(torch.int32 if scores.dtype == torch.float32 else torch.int16)
            bits[7] |= torch.iinfo(bits.dtype).min
            assert bool(scores[7].signbit())
    given = {"empty": 0, "negative": -1, "past": length + 1}.get(kind, length)
    call = wb.Call(k=k, rows=8, width=max(length, k), stride=max(length, k), max_seq_len=16384)
    if path.up_to == "k" and kind == "past":  # such rows are within k, so that only their start can push them out
        return wb.Row(torch.cat([torch.zeros(12), scores]), length + 1, 12, call=call)
    return wb.Row(scores, given, call=call)


def check(path: Path, kind: str, line: Any, row: wb.Row) -> None:
    """Hold one line of a report against the descriptions."""
    assert (line.verdict is None) == (line.refused is not None)
    assert line.length == row.length
    if kind in DTYPES:
        taken = kind in path.dtypes
        assert taken == (line.refused is None or "the path takes" not in line.refused)
        if not taken:
            assert f"scores are {kind}, the path takes" in line.refused
        elif path.variant("stock").modelled:
            assert line.verdict in ("exact", "ties")
    elif kind.endswith("nan"):
        _check_nan(path, kind, line)
    elif kind == "empty":
        taken = path.up_to == "k" or path.longer_than is None
        assert line.verdict == "exact" if taken else "length 0 is not above" in line.refused
    elif kind == "negative":
        _check_negative(path, line)
    else:
        _check_past(path, line)


def _check_nan(path: Path, kind: str, line: Any) -> None:
    if path.name == "sglang.deep_select":
        assert "the kernel traps" in line.refused
        assert line.risk == "certain"
    elif path.name == "sglang.bf16_small":  # counted by its bits: highest or lowest, and never taken
        assert line.verdict == ("invalid" if kind == "+nan" else "lossy")
    elif path.name == "vllm.per_row":
        assert line.verdict == "exact"  # one NaN alone in the top bin is taken whole
    elif path.variant("stock").modelled:
        lost = LOST_TO_NAN[path.contract.nan][kind == "-nan"]
        assert line.missing == lost
        assert line.verdict in (("lossy", "invalid") if lost else ("exact", "ties"))
    else:
        assert "has no model" in line.refused


def _check_negative(path: Path, line: Any) -> None:
    if path.name in ALL_EMPTY:
        assert (line.verdict, line.missing, line.risk, line.finding) == ("exact", 0, "safe", None)
    elif path.name in HARM_BELOW_0:
        assert HARM_BELOW_0[path.name] in line.refused
        assert line.finding == line.refused
        assert line.risk == "certain"
        assert "described, not observed" in line.refused
    elif path.name == "sglang.v4_aot":  # 0 to k - 1 come back as winners
        assert (line.verdict, line.out_of_range, line.risk) == ("invalid", line.k, "certain")
    else:
        assert "is negative: what" in line.refused
        assert "not established" in line.refused
        assert (line.risk, line.finding) == (None, None)


def _check_past(path: Path, line: Any) -> None:
    if path.name in HARM_PAST:
        assert HARM_PAST[path.name] in line.refused
        assert line.finding == line.refused
    elif path.name in ("vllm.trivial", "sglang.trivial"):
        assert (line.verdict, line.out_of_range, line.risk) == ("invalid", 1, "certain")
    elif path.name == "vllm.sampled":
        assert "clamped to max_seq_len 16384: the path reads past" in line.finding
    else:
        assert "not established" in line.refused
        assert (line.risk, line.finding) == (None, None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_every_path_on_every_odd_row(path: Path, kind: str) -> None:
    row = odd(path, kind)
    report = wb.run(row, paths=path.name)
    (line,) = report
    check(path, kind, line, row)
    harmful = line.verdict in ("lossy", "invalid") or line.risk in ("at risk", "certain") or line.finding is not None
    assert report.loses == harmful
    seen = wb.inspect(row, paths=path.name)
    assert seen.finding == harmful
    assert vars(seen.results[0].line) == vars(line)
    assert [risk.level for risk in seen.census if risk.path == path.name] == [line.risk]


def test_repairs_and_other_variants_do_not_crash_either() -> None:
    for kind in KINDS:
        for path in PATHS:
            for line in wb.run(odd(path, kind), paths=path.name, variants="*"):
                assert (line.verdict is None) == (line.refused is not None)


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_line_on_every_odd_row(
    kind: str,
    tmp_path: File,
    cli: Callable[..., Any],  # noqa: F811
    cli_json: Callable[..., Any],  # noqa: F811
) -> None:
    """All paths of one kind in one file, as calls of their own."""
    rows = [odd(path, kind) for path in PATHS]
    dtypes = {row.scores.dtype for row in rows}
    for dtype in dtypes:
        file = tmp_path / f"{dtype}.safetensors"
        held = [(path, row) for path, row in zip(PATHS, rows, strict=True) if row.scores.dtype == dtype]
        wb.write(file, [row for _, row in held])
        assert cli("info", file, "--verify").exit_code in (0, 2)  # 2: max_seq_len contradicts the longer rows
        for number, (path, row) in enumerate(held):
            code, document = cli_json("run", file, "--row", number, "--paths", path.name)
            (said,) = document
            (line,) = wb.run(wb.open(file)[number], paths=path.name)
            assert said["refused"] == line.refused
            assert said["finding"] == line.finding
            assert said["length"] == row.length
            judged = bool(line.verdict or line.risk or line.finding)
            assert code == (2 if not judged else 1 if wb.run(row, paths=path.name).loses else 0)
            result = cli("inspect", file, "--row", number, "--path", path.name)
            assert result.exit_code == code
            assert "Traceback" not in result.output
            if line.finding:
                assert " ".join(line.finding.split())[:40] in " ".join(result.stdout.split())


def test_a_recorded_selection_of_such_a_row_is_judged() -> None:
    scores, call = torch.randn(100), wb.Call(k=4, rows=1, width=100)
    for length, slots, verdict in (
        (-1, [-1, -1, -1, -1], "exact"),
        (-1, [0, 1, 2, 3], "invalid"),
        (-1, [-777, -1, -1, -1], "invalid"),
        (101, [100, 0, 1, 2], "invalid"),
    ):
        row = wb.Row(scores, length, call=call, indices=torch.tensor(slots, dtype=torch.int32))
        (line,) = wb.run(row, engine="recorded")
        assert line.verdict == verdict
        assert Capture.from_rows([row]).verify() == []
        assert wb.inspect(row).finding == (verdict == "invalid" or wb.inspect(row).worst.line.finding is not None)


def test_the_reference_takes_the_scores_that_the_row_has() -> None:
    scores = torch.tensor([1.0, 5.0, 3.0])
    assert wb.reference(wb.Row(scores, -1), 2).indices.tolist() == [-1, -1]
    assert wb.reference(wb.Row(scores, 9), 2).indices.tolist() == [1, 2]
    assert wb.reference(wb.Row(scores, 9, 2), 2).indices.tolist() == [0, -1]


PADDED = {"k": 512, "rows": 8, "width": 16384, "stride": 16384, "max_seq_len": 16384, "device": "h200"}
PADDED |= {"op": "vllm.persistent_topk", "release": "vllm==0.26.0"}


def padded(length: int, **more: Any) -> wb.Row:
    """A slot of a batch whose length leaves its row."""
    scores = torch.randn(16384, generator=torch.Generator().manual_seed(5))
    return wb.Row(scores, length, call=wb.Call(**PADDED), **more)


@pytest.mark.parametrize(("length", "words"), [(-1, "hangs"), (16385, "reads past")])
def test_repeats_shrinking_and_export_tell_of_it(
    length: int,
    words: str,
    tmp_path: File,
    cli: Callable[..., Any],  # noqa: F811
) -> None:
    repeats = wb.repeat(padded(length), 3)
    assert repeats.loses
    assert words in (repeats.lines[0].finding or "")
    with pytest.raises(wb.CaptureError, match=f"the row's length {length} leaves it"):
        wb.shrink(padded(length))
    with pytest.raises(wb.UsageError, match=words):
        wb.export(padded(length), to=tmp_path / "out")
    file = tmp_path / "padded.safetensors"
    wb.write(file, [padded(length)])
    assert cli("repeat", file, "--repeats", 3).exit_code == 1
    for refused in (("shrink", file), ("export", file, "--to", tmp_path / "out")):
        result = cli(*refused)
        assert result.exit_code == 2
        assert len(result.stderr.splitlines()) == 1


def test_repeats_where_the_answer_is_known() -> None:
    (line,) = wb.repeat(padded(-1), 3, paths="vllm.filtered").lines
    assert (line.of, line.risk, line.loses) == (0, "safe", False)
    (line,) = wb.repeat(padded(-1), 3, paths="sglang.v4_aot").lines
    assert (line.of, line.verdicts, line.loses) == (0, {"invalid": 3}, True)


def test_runs_that_part_at_such_a_row(tmp_path: File, cli: Callable[..., Any]) -> None:  # noqa: F811
    empty, filled = torch.full((512,), -1, dtype=torch.int32), torch.arange(512, dtype=torch.int32)
    for name, length, indices in (("a", -1, empty), ("b", -1, filled), ("c", 16384, empty[:0])):
        wb.write(tmp_path / f"{name}.safetensors", [padded(length, indices=indices if len(indices) else None)])
    a, b, c = (tmp_path / f"{name}.safetensors" for name in "abc")
    assert cli("diverge", a, a).exit_code == 0
    parted = cli("diverge", a, b)
    assert parted.exit_code == 1
    assert "Traceback" not in parted.output
    assert "length" in cli("diverge", a, c).stdout
