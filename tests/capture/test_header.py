"""Damaged and mistaken files: each says in one line what it is and what to do."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from workbench.capture import open_capture
from workbench.errors import CaptureError

F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def refusal(path: Path | str) -> str:
    with pytest.raises(CaptureError) as caught:
        open_capture(path)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("header", "data", "words"),
    [
        (b"[1, 2]  ", b"", "does not begin with '{'"),
        (b'{"a": ', b"", "not JSON"),
        (b'{"a\xff": 1}', b"", "not UTF-8"),
        (b'{"a": NaN}', b"", "NaN is not JSON"),
        (b'{"a": ' + b"[" * 100_000, b"", "nested too deeply"),
        (b'{"a": ' + b"1" * 5000 + b"}", b"", "not usable JSON"),
        (b'{"\\ud800": 1}', b"", "not UTF-8"),
        (b'{"a": 1, "a": 2}', b"", "'a' twice"),
        ({"__metadata__": {"a": 1}}, b"", "__metadata__ must map strings to strings"),
        ({"__metadata__": []}, b"", "__metadata__ must map strings to strings"),
        ({"a": 3}, b"", "'a': its header entry"),
        ({"a": {**F32, "extra": 1}}, bytes(8), "'a': its header entry"),
        ({"a": {**F32, "dtype": "F33"}}, bytes(8), "unknown dtype 'F33'"),
        ({"a": {**F32, "dtype": ["F32"]}}, bytes(8), "unknown dtype ['F32']"),
        ({"a": {**F32, "shape": [-2]}}, bytes(8), "non-negative integers"),
        ({"a": {**F32, "shape": [2.0]}}, bytes(8), "non-negative integers"),
        ({"a": {**F32, "shape": [True]}}, bytes(8), "non-negative integers"),
        ({"a": {**F32, "shape": 2}}, bytes(8), "non-negative integers"),
        ({"a": {**F32, "shape": [2**64]}}, bytes(8), "non-negative integers"),
        ({"a": {**F32, "shape": [3]}}, bytes(8), "8 bytes do not make F32 of shape [3]"),
        ({"a": {**F32, "shape": [2**62, 2**62]}}, bytes(8), "do not make F32"),
        ({"a": {**F32, "data_offsets": [0]}}, bytes(8), "two non-negative integers"),
        ({"a": {**F32, "data_offsets": [8, 0]}}, bytes(8), "run backwards"),
        ({"a": {**F32, "data_offsets": [-8, 0]}}, bytes(8), "two non-negative integers"),
        ({"a": F32}, bytes(7), "cut short: the tensor ends at data byte 8, the data at 7"),
        ({"a": F32}, bytes(9), "1 bytes after the last tensor"),
        ({"a": F32, "b": {**F32, "data_offsets": [4, 12]}}, bytes(12), "'b': its bytes overlap those of 'a'"),
        ({"a": F32, "b": {**F32, "data_offsets": [12, 20]}}, bytes(20), "'b': 4 bytes before it belong to no tensor"),
        ({"a": {**F32, "data_offsets": [4, 12]}}, bytes(12), "'a': 4 bytes before it"),
        ({"a": {"dtype": "F4", "shape": [3], "data_offsets": [0, 2]}}, bytes(2), "do not make F4"),
    ],
)
def test_damaged_header(raw: Callable[..., Path], header: Any, data: bytes, words: str) -> None:
    path = raw(header, data)
    text = refusal(path)
    assert words in text
    assert text.startswith(str(path))


def test_many_large_extents_end_quickly(raw: Callable[..., Path]) -> None:
    path = raw({"a": {"dtype": "F32", "shape": [2**62] * 200_000, "data_offsets": [0, 8]}}, bytes(8))
    begin = time.perf_counter()
    assert "do not make F32" in refusal(path)
    assert time.perf_counter() - begin < 5


def test_header_lengths(raw: Callable[..., Path], tmp_path: Path) -> None:
    assert "100000000 is the most" in refusal(raw(b"{}", length=100_000_001))
    assert "header ends at byte 1008, the file at 10" in refusal(raw(b"{}", length=1000))
    short = tmp_path / "short.safetensors"
    short.write_bytes(b"\1\0\0")
    assert "3 bytes are too few" in refusal(short)
    short.write_bytes(b"")
    assert "the file is empty" in refusal(short)
    short.write_bytes(bytes(8))
    assert "does not begin with '{'" in refusal(short)


def test_other_kinds_of_file_are_recognised(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    torch.save({"scores": torch.ones(3)}, path)
    assert "PyTorch .pt archive" in refusal(path)
    path.write_bytes(pickle.dumps({"scores": [1.0] * 40}))
    assert "Python pickle" in refusal(path)
    arrays = io.BytesIO()
    np.savez(arrays, scores=np.ones(3))
    path.write_bytes(arrays.getvalue())
    assert "NumPy .npz" in refusal(path)
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    assert "git lfs pull" in refusal(path)
    path.write_text(json.dumps({"weight_map": {"a": "b"}}))
    assert "JSON file" in refusal(path)
    path.write_bytes(os.urandom(7) + b"\xff" + os.urandom(100))
    assert "not a safetensors file" in refusal(path) or "only safetensors is read" in refusal(path)


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    assert "this is a folder" in refusal(tmp_path)
    assert "no such file" in refusal(tmp_path / "missing.safetensors")
    assert "not a path" in refusal("nul\0.safetensors")
    pipe = tmp_path / "pipe.safetensors"
    os.mkfifo(pipe)
    assert "not a regular file" in refusal(pipe)  # and does not wait for a writer
    assert "not a regular file" in refusal("/dev/zero")
    loop = tmp_path / "loop.safetensors"
    loop.symlink_to(loop)
    assert "cannot be opened" in refusal(loop)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read every file")
def test_a_file_without_permission(stored: Callable[..., Path]) -> None:
    path = stored()
    path.chmod(0)
    assert "no permission" in refusal(path)


def test_a_name_with_a_line_break_stays_on_one_line(tmp_path: Path) -> None:
    assert "a\\x0ab" in refusal(tmp_path / "a\nb.safetensors")


def test_padded_header_and_zero_sized_tensors_are_fine(raw: Callable[..., Path]) -> None:
    scores = struct.pack("<2f", 1.0, 2.0)
    header = {
        "empty": {"dtype": "I64", "shape": [0, 2**62], "data_offsets": [8, 8]},
        "scores": F32,
    }
    with open_capture(raw(json.dumps(header).encode() + b"   ", scores), scores="scores") as capture:
        assert capture[0].scores.tolist() == [1.0, 2.0]
