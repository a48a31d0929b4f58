"""Damaged and mistaken files: each says in one line what it is and what to do."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from workbench.capture import open_capture, strictjson
from workbench.errors import CaptureError, UsageError

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
        (b'{"a": {"shape": NaN}}', b"", "'a': its header entry is not usable JSON: NaN is not JSON"),
        (b'{"a": {"shape": ' + b"[" * 3000 + b"}}", b"", "'a': its header entry is not usable JSON: nested too deeply"),
        (b'{"a": {"shape": 1, "shape": 1}}', b"", "'a': its header entry is not usable JSON: it names 'shape' twice"),
        (b'{"a": {"shape": 01}}', b"", "'a': its header entry is not JSON"),
        (b'{"a": {"shape": "\xff"}}', b"", "'a': its header entry is not UTF-8"),
        (b'{"a": ' + b"1" * 5000 + b"}", b"", "'a': its header entry must hold"),
        (b'{"\\ud800": 1}', b"", "not UTF-8"),
        (b'{"\xed\xa0\x80": 1}', b"", "not UTF-8"),
        (b'{"\\q": 1}', b"", "not JSON: Invalid"),
        (b'{"a\n": 1}', b"", "not JSON: a name and ':' is needed after byte 1"),
        (b'{"a" 1}', b"", "not JSON: a name and ':' is needed after byte 1"),
        (b'{"a": {}', b"", "its header entry"),
        (b'{"__metadata__": {}', b"", "not JSON: ',' or '}' is needed after byte 19"),
        (b'{"__metadata__": {},}', b"", "not JSON: a name and ':' is needed after byte 20"),
        (b'{"__metadata__": {}} x', b"", "not JSON: the end is needed after byte 20"),
        (b'{"__metadata__": {}, "__metadata__": {}}', b"", "'__metadata__' twice"),
        (b'{"__metadata__": {"a": "b", "a": "b"}}', b"", "__metadata__ names 'a' twice"),
        (b'{"__metadata__": {"a": "b" "c": "b"}}', b"", "not JSON: ',' or '}' is needed after byte 26"),
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


def test_a_name_that_stands_twice(raw: Callable[..., Path]) -> None:
    text = json.dumps({"a": F32})
    assert "the header names 'a' twice" in refusal(raw(f"{text[:-1]}, {text[1:]}".encode(), bytes(8)))


def test_many_large_extents(raw: Callable[..., Path]) -> None:
    text = refusal(raw({"a": {"dtype": "F32", "shape": [2**62] * 180, "data_offsets": [0, 8]}}, bytes(8)))
    assert "do not make F32" in text
    assert len(text) < 500
    for extents in (200, 200_000):
        text = refusal(raw({"a": {"dtype": "F32", "shape": [2**62] * extents, "data_offsets": [0, 8]}}, bytes(8)))
        assert (
            "'a': its header entry must hold dtype, shape and data_offsets, and nothing else, in at most 4096" in text
        )


def members(text: str, size: int = 4_000_000) -> bytes:
    """As many members as fit, with names of their own."""
    count = size // (len(text) + 10)
    return ("{" + ",".join(f'"{at:07d}":{text}' for at in range(count)) + "}").encode()


ZERO = '{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
ATTACKS = {
    "many numbers": members("0"),
    "many objects": members("{}"),
    "a giant list": b'{"a":{"dtype":"F32","shape":[' + b"0," * 2_000_000 + b'0],"data_offsets":[0,0]}}',
    "a giant list of lists": b'{"a":[' + b"[]," * 1_300_000 + b"[]]}",
    "empty tensors": members(ZERO),
    "much metadata": b'{"__metadata__":' + members('""') + b"}",
    "much in the metadata": b'{"__metadata__":{"topk_workbench":"[' + b"0," * 2_000_000 + b'0]"}}',
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_hostile_header_costs_little_before_it_is_refused(
    raw: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, attack: str
) -> None:
    monkeypatch.setattr(strictjson, "MAX_ENTRIES", 5000)
    path = raw(ATTACKS[attack])
    tracemalloc.start()
    try:
        text = refusal(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "more than 5000 parts" in text or "its header entry must hold" in text
    assert len(text) < 500
    assert peak < 5 * path.stat().st_size  # parsed as a whole they took 10 to 25 times their size


def test_a_hostile_index_is_refused_before_it_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strictjson, "MAX_ENTRIES", 5000)
    path = tmp_path / "x.safetensors.index.json"
    path.write_bytes(b'{"weight_map":' + members('"a.safetensors"') + b"}")
    assert "the index has more than 5000 parts, the most that is read; split the file" in refusal(path)


def test_a_large_header_that_is_in_order(raw: Callable[..., Path]) -> None:
    count = 20_000
    header = {
        f"layers.{at}.weight": {"dtype": "BF16", "shape": [2, 4], "data_offsets": [16 * at, 16 * at + 16]}
        for at in reversed(range(count))
    }
    path = raw(header, bytes(16 * count))
    begin = time.perf_counter()
    tracemalloc.start()
    try:
        with open_capture(path, scores="layers.19999.weight") as capture:
            peak = tracemalloc.get_traced_memory()[1]
            assert capture.info.tensors[2] == ("layers.2.weight", "bfloat16", (2, 4))
            assert len(capture.info.tensors) == count
            assert capture[1].scores.tolist() == [0.0] * 4
    finally:
        tracemalloc.stop()
    assert peak < 700 * count  # bytes, of which 100 are the header
    assert time.perf_counter() - begin < 10  # half a second; the bound is for a busy machine


def test_long_names_and_many_dimensions_are_shortened_in_messages(raw: Callable[..., Path]) -> None:
    name = "n" * 70_000 + "é"
    wide = {"dtype": "F32", "shape": [1] * 1000, "data_offsets": [0, 4]}
    path = raw({name: wide, "b" * 200: {**F32, "data_offsets": [4, 12]}}, bytes(12))
    half = "n" * 59 + "…" + "n" * 58 + "é"
    text = refusal(path)
    assert f"'{half}' float32 [1, 1, 1, 1, 1, 1, 1, 1, … 1000 dimensions]" in text
    assert len(text) < 1000
    for scores in (name, "b" * 200):
        with pytest.raises(CaptureError) as caught:
            open_capture(path, scores=scores, lengths="b" * 200)
        assert len(str(caught.value)) < 1000
    assert len(refusal(raw({name: {**wide, "dtype": "F33"}}, bytes(4)))) < 1000
    assert len(refusal(raw({name: F32, "b": {**F32, "data_offsets": [4, 12]}}, bytes(12)))) < 1000
    assert len(refusal(raw({name: F32, "b" + name: {**F32, "data_offsets": [9, 17]}}, bytes(17)))) < 1000
    text = json.dumps({name: F32})
    assert len(refusal(raw(f"{text[:-1]}, {text[1:]}".encode(), bytes(8)))) < 1000


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
    path.write_bytes(pickle.dumps({"scores": [1.0] * 40}))
    assert "a pickle outside an archive" in refusal(path)
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    assert "git lfs pull" in refusal(path)
    path.write_text(json.dumps({"weight_map": {"a": "b"}}))
    assert "JSON file" in refusal(path)
    path.write_bytes(gzip.compress(b"scores"))
    assert "a gzip file, which is not read: unpack it first" in refusal(path)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    assert "a PNG picture, which is not read" in refusal(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes/a.txt", "no tensors " * 20)
    assert "a zip archive" in refusal(path)
    path.write_bytes(os.urandom(7) + b"\xff" + os.urandom(100))
    assert "not a safetensors file" in refusal(path) or "which is not read" in refusal(path)


@pytest.mark.parametrize(
    ("content", "json_file", "begins"),
    [
        ('{"error": "not found"}', True, ""),
        ("[1, 2, 3, 4, 5]", True, ""),
        ('\ufeff  [\n  {"a": 1}\n]', True, ""),
        ("{}" + " " * 20, True, ""),
        ("[section]\nkey = value\n", False, "[section]"),
        ("{ some C code }", False, "{ some C code }"),
        ("[x] done, [ ] not", False, "[x] done, [ ] not"),
        ("Entry not found", False, "Entry not found"),
        ("\n\n  the first line\nthe second", False, "the first line"),
        ("é" * 200, False, "é" * 32),
    ],
)
def test_text_is_told_as_text_and_only_json_as_json(tmp_path: Path, content: str, json_file: bool, begins: str) -> None:
    path = tmp_path / "x.safetensors"
    path.write_text(content, encoding="utf-8")
    said = refusal(path)
    assert ("this is a JSON file" in said) == json_file
    assert json_file or said.endswith(
        f"not a safetensors file: it is text that begins {begins!r}; name a capture instead"
    )


def test_other_kinds_of_file_are_no_shards(tmp_path: Path) -> None:
    """What opens by itself is recognised where a shard of a safetensors set should be."""
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"scores": "x.safetensors"}}))
    path = tmp_path / "x.safetensors"
    torch.save({"scores": torch.ones(3)}, path)
    assert "PyTorch .pt archive" in refusal(index)
    path.write_bytes(pickle.dumps({"scores": [1.0] * 40}))
    assert "Python pickle" in refusal(index)
    arrays = io.BytesIO()
    np.savez(arrays, scores=np.ones(3))
    path.write_bytes(arrays.getvalue())
    assert "NumPy .npz" in refusal(index)


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


@pytest.mark.usefixtures("permissions_hold")
def test_a_file_without_permission(stored: Callable[..., Path]) -> None:
    path = stored()
    path.chmod(0)
    assert refusal(path) == (f"{path}: no permission to read the file; have it permitted (chmod), or name another file")


@pytest.mark.usefixtures("permissions_hold")
def test_a_file_in_a_folder_without_permission(stored: Callable[..., Path]) -> None:
    """Its names may be listed and nothing be said of them, which Python tells of by other means than elsewhere."""
    path = stored()
    outer, inner = path.parent / "outer", path.parent / "outer" / "inner"
    inner.mkdir(parents=True)
    path = path.rename(inner / "a.safetensors")
    try:
        for mode, closed in ((0o444, inner), (0, inner), (0, outer)):
            closed.chmod(mode)
            assert refusal(path).startswith(
                f"{path}: no permission to look into the folder {closed}; have it permitted"
            )
            assert "Permission denied" in refusal(inner) or "no permission" in refusal(inner)
            closed.chmod(0o755)
    finally:
        outer.chmod(0o755)
        inner.chmod(0o755)


def test_an_empty_path_is_not_the_current_folder() -> None:
    with pytest.raises(UsageError, match="a path is empty"):
        open_capture("")


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
