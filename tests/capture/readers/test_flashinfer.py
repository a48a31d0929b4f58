"""FlashInfer's level-10 dumps: folders as flashinfer-python 0.7.4 writes them, its own writer, hostile metadata."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

import workbench as wb
from workbench.capture import open_capture
from workbench.cli.main import app
from workbench.errors import CaptureError
from workbench.paths.transforms.recorded import recorded_positions

Refusal = Callable[..., str]

TOP_K = "(input: torch.Tensor, k: int, sorted: bool = False, deterministic: bool = False, tie_break: int = 0)"
PAGED = (
    "(input: torch.Tensor, src_page_table: torch.Tensor, lengths: torch.Tensor, k: int, row_to_batch: "
    "Optional[torch.Tensor] = None, *, page_size: int = 1) -> torch.Tensor"
)
RAGGED = "(input: torch.Tensor, offsets: torch.Tensor, lengths: torch.Tensor, k: int, deterministic: bool = False)"
VARLEN = "(logits: torch.Tensor, seq_lens: torch.Tensor, top_k: int, *, row_starts: Optional[torch.Tensor] = None)"


def call(
    root: Path,
    number: int,
    function: str,
    signature: str,
    inputs: dict[str, Any],
    outputs: dict[str, torch.Tensor] | None = None,
    *,
    safetensors: bool = False,
    **changes: Any,
) -> Path:
    """One call's folder: tensors beside, other arguments in the metadata."""
    folder = root / f"20260101_120000_{number:03}_pid7_{function}_call{number:04}"
    folder.mkdir(parents=True)
    tensors = {key: value for key, value in inputs.items() if isinstance(value, torch.Tensor)}
    metadata: dict[str, Any] = {
        "function_name": function,
        "input_metadata": {key: value for key, value in inputs.items() if key not in tensors},
        "output_metadata": {},
        "function_signature": signature,
        "execution_status": "inputs_saved",
        "dump_dir": "/somewhere/else",
    }
    lines = [metadata, metadata | {"execution_status": "completed"} | changes]
    (folder / "metadata.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with (root / "session.jsonl").open("a") as session:
        session.write(json.dumps(metadata) + "\n")
    for kind, held in (("inputs", tensors), ("outputs", outputs)):
        if held and safetensors:
            save_file({key: value.contiguous() for key, value in held.items()}, folder / f"{kind}.safetensors")
        elif held:
            torch.save(held, folder / f"{kind}.pt")
    return folder


@pytest.mark.parametrize("safetensors", [False, True])
def test_a_session_of_calls(tmp_path: Path, safetensors: bool) -> None:
    scores = torch.randn(3, 20)
    values, indices = scores.topk(4)
    result = {"result_0": values, "result_1": indices}
    call(tmp_path, 1, "top_k", TOP_K, {"arg_0": scores, "arg_1": 4}, result, safetensors=safetensors)
    call(tmp_path, 2, "silu", "(input)", {"arg_0": scores}, {"result": scores}, safetensors=safetensors)
    call(tmp_path, 10, "top_k", TOP_K, {"kwarg_input": scores + 1, "kwarg_k": 2}, None, safetensors=safetensors)
    with open_capture(tmp_path) as capture:
        assert capture.info.format == "FlashInfer dump"
        assert [call.k for call in capture.calls] == [4, 2]
        assert torch.equal(capture[4].scores, scores[1] + 1)
        assert [row.indices.tolist() for row in capture if row.indices is not None] == indices.tolist()
        assert capture[5].indices is None
        assert "1 calls of silu, which is no known selector, are left" in capture.info.notes
        assert capture.verify() == []
    with open_capture(tmp_path, scores="input") as capture:
        assert capture.info.calls == 3
    with open_capture(next(tmp_path.glob("*call0001"))) as capture:
        assert (len(capture), capture.call(0).k) == (3, 4)


def paged(folder: Path, changes: dict[str, Any] | None = None, **metadata: Any) -> torch.Tensor:
    """A call whose page tables are one of each request, of which rows use 1, 0 and 1; what it selected."""
    scores = torch.randn(3, 40, generator=torch.Generator().manual_seed(1))
    tables = torch.randperm(64, generator=torch.Generator().manual_seed(2)).reshape(2, 32).to(torch.int32)
    uses, starts = torch.tensor([1, 0, 1], dtype=torch.int32), torch.tensor([0, 4, 8], dtype=torch.int32)
    begins = torch.tensor([0, 1, 20], dtype=torch.int32)
    if "kwarg_row_starts" in (changes or {}):
        starts, begins = torch.zeros_like(starts), torch.zeros_like(begins)
    lengths = torch.tensor([40, 36, 3], dtype=torch.int32)
    chosen = torch.full((3, 5), -1, dtype=torch.int32)
    for row in range(3):
        found = scores[row, starts[row] : starts[row] + lengths[row]].topk(min(5, int(lengths[row]))).indices
        chosen[row, : found.numel()] = found
    pages = torch.stack([tables[uses[row]][begins[row] + chosen[row].clamp(min=0) // 4] for row in range(3)])
    out = torch.where(chosen < 0, -1, pages * 4 + chosen % 4).to(torch.int32)
    inputs = {
        "arg_0": scores,
        "arg_1": tables,
        "arg_2": lengths,
        "arg_3": 5,
        "arg_4": uses,
        "kwarg_row_starts": starts,
        "kwarg_page_table_row_starts": begins,
        "kwarg_page_size": 4,
    } | (changes or {})
    inputs = {name: value for name, value in inputs.items() if value is not None}
    call(folder, 1, "top_k_page_table_transform", PAGED, inputs, {"result": out}, **metadata)
    return chosen


def test_entries_of_page_tables_are_kept_with_what_maps_them(tmp_path: Path) -> None:
    chosen = paged(tmp_path / "dump")
    with open_capture(tmp_path / "dump") as capture:
        assert capture.info.returned == "page table"
        assert [recorded_positions(row).tolist() for row in capture] == chosen.tolist()
        assert [line.verdict for line in wb.run(capture, engine="recorded")] == ["exact"] * 3
        assert capture.verify() == []
    made = CliRunner().invoke(app, ["import", str(tmp_path / "dump"), "-o", str(tmp_path / "made.safetensors")])
    assert (made.exit_code, "page table" in made.output) == (2, True), "tables of several lengths fit into no file"


def test_what_maps_them_goes_into_a_capture(tmp_path: Path) -> None:
    chosen = paged(tmp_path / "dump", {"kwarg_row_starts": None, "kwarg_page_table_row_starts": None})
    made = tmp_path / "made.safetensors"
    done = CliRunner().invoke(app, ["import", str(tmp_path / "dump"), "-o", str(made)])
    assert done.exit_code == 0, done.output
    with open_capture(made) as capture:
        assert capture.info.returned == "page table"
        assert [recorded_positions(row).tolist() for row in capture] == chosen.tolist()


def test_offsets_are_kept(tmp_path: Path) -> None:
    scores, offsets = torch.randn(2, 30), torch.tensor([7, 1000], dtype=torch.int32)
    chosen = scores.topk(4).indices.to(torch.int32)
    inputs = {"arg_0": scores, "arg_1": offsets, "arg_2": torch.tensor([30, 30], dtype=torch.int32), "arg_3": 4}
    call(tmp_path, 1, "top_k_ragged_transform", RAGGED, inputs, {"result": chosen + offsets[:, None]})
    with open_capture(tmp_path) as capture:
        assert capture.info.returned == "offset"
        assert [recorded_positions(row).tolist() for row in capture] == chosen.tolist()


def test_mappings_that_were_not_dumped_are_not_invented(tmp_path: Path) -> None:
    """The table is missing: entries stay entries. The page size is nonsense: the outputs are left, and that is said."""
    paged(tmp_path / "a", {"arg_1": None})
    with open_capture(tmp_path / "a") as capture:
        assert capture[0].mapped is not None
        assert capture[0].mapped.table is None
        assert all("does not hold" in str(line.refused) for line in wb.run(capture, engine="recorded"))
    paged(tmp_path / "b", {"kwarg_page_size": 3})
    with open_capture(tmp_path / "b") as capture:
        assert not capture.info.recorded
        said = "the outputs of 1 calls of top_k_page_table_transform are left: the dump does not say what maps them"
        assert said in capture.info.notes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"arg_1": torch.zeros(2, 32)}, "dtype is float32"),
        ({"arg_1": torch.zeros(32, dtype=torch.int32)}, "[tables, pages] is needed"),
        ({"arg_1": torch.zeros(1, 32, dtype=torch.int32)}, "there are 1 tables; rows use 2"),
        ({"arg_4": None}, "there are 2 tables; rows use 3"),
        ({"arg_4": torch.tensor([0, -1, 0], dtype=torch.int32)}, "entry 1 is -1; 0 or more is needed"),
        ({"kwarg_page_table_row_starts": torch.tensor([0, 32, 0], dtype=torch.int32)}, "those of a row begin at 32"),
        ({"arg_4": torch.tensor([0, 1], dtype=torch.int32)}, "[3] or [3, 1] is needed"),
    ],
)
def test_tables_that_lie(tmp_path: Path, refusal: Refusal, changes: dict[str, Any], words: str) -> None:
    paged(tmp_path, changes)
    assert words in refusal(tmp_path)


def test_a_call_without_inputs_is_said_to_be_left(tmp_path: Path) -> None:
    call(tmp_path, 1, "top_k", TOP_K, {"arg_0": torch.randn(2, 9), "arg_1": 4})
    call(tmp_path, 2, "top_k", TOP_K, {"arg_1": 4})
    with open_capture(tmp_path) as capture:
        assert capture.info.calls == 1
        assert "1 calls of top_k without inputs are left" in capture.info.notes


def test_windows_and_lengths_of_requests(tmp_path: Path, refusal: Refusal) -> None:
    inputs: dict[str, Any] = {
        "arg_0": torch.randn(2, 9),
        "arg_1": torch.tensor([3, 4], dtype=torch.int32),
        "arg_2": 2,
        "kwarg_row_starts": torch.tensor([0, 5], dtype=torch.int32),
    }
    found = {"result_0": torch.tensor([[0, 2], [3, 1]], dtype=torch.int32)}
    call(tmp_path / "a", 1, "top_k_varlen", VARLEN, inputs, found)
    with open_capture(tmp_path / "a") as capture:
        assert [(row.start, row.length, row.k) for row in capture] == [(0, 3, 2), (5, 4, 2)]
        assert capture[1].indices is not None
        assert capture[1].indices.tolist() == [3, 1]
    call(tmp_path / "b", 1, "top_k_varlen", VARLEN, inputs | {"kwarg_absolute_indices": True}, found)
    with open_capture(tmp_path / "b") as capture:
        assert not capture.info.recorded
    call(tmp_path / "c", 1, "top_k_varlen", VARLEN, inputs | {"kwarg_next_n": 2}, found)
    assert "its lengths are of requests and not of rows" in refusal(tmp_path / "c")
    with open_capture(tmp_path / "c", scores="logits") as capture:
        assert len(capture) == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "{",
        "[]",
        "7",
        '{"function_name": NaN}',
        '{"a": 1, "a": 2}',
        "[" * 3000,
        '{"function_name": 3}',
        "\xff",
    ],
)
def test_hostile_metadata(tmp_path: Path, refusal: Refusal, text: str) -> None:
    folder = call(tmp_path, 1, "top_k", TOP_K, {"arg_0": torch.randn(2, 9), "arg_1": 4})
    (folder / "metadata.jsonl").write_bytes(text.encode("latin1"))
    refusal(folder)


@pytest.mark.parametrize("signature", ["(", "(a, a)", "(x=__import__('os').system('false'))", "(" * 9000, "(\0)", ""])
def test_signatures_are_text_and_never_run(tmp_path: Path, signature: str) -> None:
    call(tmp_path, 1, "top_k", signature, {"arg_0": torch.randn(2, 9), "kwarg_input": torch.ones(1, 9), "kwarg_k": 4})
    with open_capture(tmp_path) as capture:
        assert capture[0].scores.tolist() == [1.0] * 9


def test_missing_and_damaged_tensors(tmp_path: Path, refusal: Refusal) -> None:
    folder = call(tmp_path, 1, "top_k", TOP_K, {"arg_0": torch.randn(2, 9), "arg_1": 4})
    (folder / "inputs.pt").write_bytes(b"damaged")
    assert "inputs.pt" in refusal(tmp_path)
    (folder / "inputs.pt").unlink()
    assert "It holds no tensors" in refusal(tmp_path)


def test_nothing_outside_the_folder_is_read(tmp_path: Path, refusal: Refusal) -> None:
    outside = call(tmp_path / "outside", 1, "top_k", TOP_K, {"arg_0": torch.randn(2, 9), "arg_1": 4})
    session = tmp_path / "session"
    session.mkdir()
    (session / "call").symlink_to(outside)
    assert "leads out of the folder" in refusal(session)
    (session / "call").unlink()
    inside = call(session, 2, "top_k", TOP_K, {"arg_1": 4})
    (inside / "inputs.pt").symlink_to(outside / "inputs.pt")
    assert "leads out of the folder" in refusal(session)
    with pytest.raises(CaptureError):
        open_capture(session, scores="input")


# The package imports CUDA libraries at its root; the logging of calls does not need them.
WRITES = """
import os, sys, types, warnings
warnings.simplefilter("ignore")
os.environ.update(FLASHINFER_LOGLEVEL="10", FLASHINFER_DUMP_DIR=sys.argv[2], FLASHINFER_LOGDEST=sys.argv[2] + ".log")
root = types.ModuleType("flashinfer")
root.__path__ = [sys.argv[1] + "/flashinfer"]
sys.modules["flashinfer"] = root
import torch
from flashinfer.api_logging import flashinfer_api
@flashinfer_api
def top_k(input, k, sorted=False):
    return tuple(torch.topk(input, k, sorted=sorted))
scores = torch.arange(40.0).reshape(2, 20)
top_k(scores, 3)
top_k(scores.flip(1), k=2, sorted=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("safetensors", ["0", "1"])
def test_the_real_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, safetensors: str) -> None:
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path / "packages")]
    subprocess.run([*install, "flashinfer-python==0.7.4"], check=True)
    monkeypatch.setenv("FLASHINFER_DUMP_SAFETENSORS", safetensors)
    command = [sys.executable, "-c", WRITES, tmp_path / "packages", tmp_path / "dump"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with open_capture(tmp_path / "dump") as capture:
        assert [call.k for call in capture.calls] == [3, 2]
        assert capture[2].scores[:2].tolist() == [19.0, 18.0]
        assert [sorted(row.indices.tolist()) for row in capture if row.indices is not None] == [
            [17, 18, 19],
            [17, 18, 19],
            [0, 1],
            [0, 1],
        ]
