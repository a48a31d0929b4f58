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

from workbench.capture import open_capture
from workbench.errors import CaptureError

Refusal = Callable[..., str]

TOP_K = "(input: torch.Tensor, k: int, sorted: bool = False, deterministic: bool = False, tie_break: int = 0)"
PAGED = (
    "(input: torch.Tensor, src_page_table: torch.Tensor, lengths: torch.Tensor, k: int, row_to_batch: "
    "Optional[torch.Tensor] = None, *, page_size: int = 1) -> torch.Tensor"
)
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


def test_what_is_mapped_to_pages_is_no_selection(tmp_path: Path) -> None:
    inputs = {
        "arg_0": torch.randn(2, 9),
        "arg_1": torch.zeros(2, 9, dtype=torch.int32),
        "arg_2": torch.tensor([9, 4], dtype=torch.int32),
        "arg_3": 3,
        "kwarg_page_size": 1,
    }
    paged = {"result": torch.zeros(2, 3, dtype=torch.int32)}
    call(tmp_path, 1, "top_k_page_table_transform", PAGED, inputs, paged)
    with open_capture(tmp_path) as capture:
        assert capture.lengths.tolist() == [9, 4]
        assert capture.call(0).k == 3
        assert not capture.info.recorded


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
