"""Reading captures of format version 1."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import threading
import time
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
import torch

from workbench.capture import Call, Capture, Row, open_capture
from workbench.capture.format import CALL_FIELDS, STRINGS, TENSORS
from workbench.errors import CaptureError, UsageError

Build = Callable[..., Path]


def i32(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def refusal(path: Path, **given: object) -> str:
    with pytest.raises(CaptureError) as caught:
        open_capture(path, **given)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_padded_rows(stored: Build) -> None:
    path = stored({"op": "vllm.persistent_topk", "release": "vllm==0.26.0", "source": "by hand"}, k=i32(2))
    with open_capture(path) as capture:
        assert len(capture) == 2
        assert [row.valid.tolist() for row in capture] == [[1.0, 5.0, 3.0, 4.0], [2.0, 0.0, 7.0]]
        assert capture[-1].scores.tolist() == [2.0, 0.0, 7.0, 6.0]
        assert capture[1].index == 1
        assert capture[1].capture == capture.name == path.name
        assert capture[0].call == Call(index=0, k=2, op="vllm.persistent_topk", release="vllm==0.26.0")
        assert capture.lengths.tolist() == [4, 3]
        assert capture.rows_of(0) == range(2)
        for past in (2, -3):
            with pytest.raises(IndexError):
                capture[past]
        info = capture.info
        assert (info.format, info.layout, info.dtype, info.rows, info.calls) == (
            "workbench 1",
            "padded",
            "float32",
            2,
            1,
        )
        assert (info.width, info.length_min, info.length_max, info.recorded) == (4, 3, 4, False)
        assert info.strings == {**dict.fromkeys(STRINGS), "op": "vllm.persistent_topk", "release": "vllm==0.26.0"}
        assert info.source == "by hand"
        assert info.size_bytes == path.stat().st_size
        assert sorted(info.tensors)[2] == ("scores", "float32", (2, 4))
        assert capture.digest == "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
        with pytest.raises(FrozenInstanceError):
            info.rows = 3  # type: ignore[misc]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_ragged_rows_of_every_dtype_bit_for_bit(stored: Build, dtype: torch.dtype) -> None:
    scores = torch.tensor([0.1, float("nan"), -0.0, float("inf"), 1e-5, 3.0, 0.0], dtype=dtype)
    path = stored(scores=scores, offsets=torch.tensor([0, 3, 3, 7]), lengths=i32(3, 0, 2), starts=i32(0, 0, 1))
    capture = open_capture(path)
    assert capture.info.layout == "ragged"
    assert [row.scores.numel() for row in capture] == [3, 0, 4]
    assert torch.equal(capture[0].scores.view(torch.uint8), scores[:3].view(torch.uint8))
    assert torch.equal(capture[2].valid.view(torch.uint8), scores[4:6].view(torch.uint8))
    assert capture.verify() == []


def test_calls_of_rows(stored: Build) -> None:
    path = stored(
        scores=torch.arange(20.0).reshape(4, 5),
        lengths=i32(5, 5, 5, 5),
        call=torch.tensor([0, 2, 0, 2]),
        k=i32(2, 3, -1),
        layer=torch.tensor([7, 8, 9]),
        max_seq_len=i32(-1, -1, 131072),
    )
    capture = open_capture(path)
    assert [capture.call_of(row) for row in range(4)] == [0, 2, 0, 2]
    assert [list(capture.rows_of(call)) for call in range(3)] == [[0, 2], [], [1, 3]]
    assert list(capture.calls) == [
        Call(index=0, k=2, layer=7),
        Call(index=1, k=3, layer=8),
        Call(index=2, layer=9, max_seq_len=131072),
    ]
    assert capture.calls[-1].index == 2
    assert capture[1].call.layer == 9
    with pytest.raises(IndexError):
        capture.call(3)


def test_recorded_selections_of_several_k(stored: Build) -> None:
    indices = torch.tensor([[0, 2, -1], [2, 1, 0]], dtype=torch.int32)
    path = stored(indices=indices, call=i32(0, 1), k=i32(2, 3))
    capture = open_capture(path)
    assert capture.info.recorded
    assert [row.indices.tolist() for row in capture if row.indices is not None] == [[0, 2], [2, 1, 0]]
    assert capture.verify() == []


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"lengths": None}, "'lengths': the capture has no such tensor"),
        ({"scores": None}, "'scores': the capture has no such tensor"),
        (
            {"scores": torch.ones(2, 4, dtype=torch.float64)},
            "dtype is float64; float32 or bfloat16 or float16 is needed",
        ),
        ({"lengths": torch.tensor([4, 4])}, "dtype is int64; int32 is needed"),
        ({"lengths": i32(4, 4, 4)}, "'scores': scores are of shape [2, 4]; [3, width] is needed"),
        ({"lengths": torch.ones(2, 1, dtype=torch.int32)}, "shape is [2, 1]; one dimension is needed"),
        ({"starts": i32(0, 5)}, "'starts', row 1: start 5 is past the row width 4"),
        ({"starts": i32(-1, 0)}, "'starts', row 0: start -1 is negative"),
        ({"starts": i32(2**31 - 1, 0)}, "'starts', row 0: start 2147483647 is past the row width 4"),
        ({"starts": i32(0)}, "'starts': shape is [1]; [2] is needed"),
        ({"lengths": i32(), "scores": torch.ones(0, 4)}, "holds no rows"),
        ({"lengths": i32(0, 0), "scores": torch.ones(2, 0)}, "rows are 0 scores wide"),
        ({"scores": torch.ones(8)}, "offsets [rows + 1] are needed"),
        ({"offsets": torch.tensor([0, 4, 8])}, "offsets go with scores [total]"),
        ({"scores": torch.ones(8), "offsets": torch.tensor([0, 8])}, "'offsets': shape is [2]; [3] is needed"),
        ({"scores": torch.ones(8), "offsets": torch.tensor([1, 4, 8])}, "first offset is 1, not 0"),
        ({"scores": torch.ones(8), "offsets": torch.tensor([0, 9, 8])}, "row 1: offset 8 comes after 9"),
        ({"scores": torch.ones(8), "offsets": torch.tensor([0, -(2**63), 8])}, "row 0: offset -9223372036854775808"),
        ({"scores": torch.ones(8), "offsets": torch.tensor([0, 4, 7])}, "last offset is 7, but there are 8"),
        (
            {"scores": torch.ones(8), "offsets": torch.tensor([0, 6, 8]), "starts": i32(6, 3)},
            "row 1: start 3 is past the row width 2",
        ),
        ({"k": i32(0)}, "'k', call 0: k is 0; 1 or more is needed, or -1"),
        ({"k": i32(-2)}, "'k', call 0: k is -2"),
        ({"k": i32(5)}, "'k', call 0: k 5 is larger than the row width 4"),
        ({"k": i32(1, 5), "call": i32(1, 0)}, "'k', call 1: k 5 is larger than the row width 4"),
        ({"k": torch.tensor([1.0])}, "dtype is float32; int32 or int64 is needed"),
        ({"k": i32(1, 2)}, "'k': it describes 2 calls, so a tensor 'call' [rows] is needed"),
        ({"k": i32(), "call": i32(0, 0)}, "'k': it describes no call"),
        ({"k": i32(1), "layer": i32(1, 2), "call": i32(0, 0)}, "differ in how many they describe: k 1, layer 2"),
        ({"layer": i32(-3)}, "'layer', call 0: layer is -3"),
        ({"k": i32(1), "call": i32(0, 1)}, "'call', row 1: call 1 is not one of the 1"),
        ({"call": i32(0, -1)}, "'call', row 1: call -1"),
        ({"call": i32(0, 2**31 - 1)}, "'call', row 1: call 2147483647"),
        ({"call": i32(0)}, "'call': shape is [1]; [2] is needed"),
        ({"indices": i32(0, 1)}, "'indices': indices are of shape [2]; [2, k_max] is needed"),
        ({"indices": torch.zeros(2, 1)}, "dtype is float32; int32 is needed"),
        ({"indices": torch.zeros(2, 1, dtype=torch.int32), "k": i32(2)}, "'indices', call 0: 1 recorded slots"),
    ],
)
def test_bad_tensors(stored: Build, tensors: dict[str, torch.Tensor | None], words: str) -> None:
    assert words in refusal(stored(**tensors))


def test_lengths_are_kept_as_the_op_was_given_them(stored: Build) -> None:
    extremes = i32(-1, 5, -(2**31), 2**31 - 1)
    path = stored(scores=torch.arange(16.0).reshape(4, 4), lengths=extremes, starts=i32(0, 1, 4, 3))
    capture = open_capture(path)
    assert [row.length for row in capture] == extremes.tolist() == capture.lengths.tolist()
    assert [row.valid.tolist() for row in capture] == [[], [5.0, 6.0, 7.0], [], [15.0]]
    assert all(row.outside for row in capture)
    assert (capture.info.outside, capture.info.length_min, capture.info.length_max) == (4, -(2**31), 2**31 - 1)
    assert [capture.digest_of(at) for at in range(4)] == [row.digest for row in capture]
    assert capture.verify() == []
    inside = open_capture(stored(name="inside.safetensors", lengths=i32(4, 0)))
    assert (inside.info.outside, [row.outside for row in inside]) == (0, [False, False])
    ragged = stored(name="ragged.safetensors", scores=torch.ones(8), offsets=torch.tensor([0, 6, 8]), lengths=i32(4, 3))
    assert (open_capture(ragged).info.outside, open_capture(ragged)[1].valid.numel()) == (1, 2)


def test_a_row_that_its_length_leaves_may_hold_any_recorded_index(stored: Build) -> None:
    indices = torch.tensor([[-777, 0], [2**31 - 1, -1]], dtype=torch.int32)
    capture = open_capture(stored(lengths=i32(-1, 5), indices=indices))
    assert [row.indices.tolist() for row in capture if row.indices is not None] == indices.tolist()
    assert capture.verify() == []
    short = open_capture(stored(lengths=i32(-1, 5), k=i32(1), indices=indices))
    assert "slot 1 holds index 0, but k is 1" in short.verify()[0]


def test_k_may_be_larger_than_a_stored_row_if_the_call_was_wider(stored: Build) -> None:
    capture = open_capture(stored(k=i32(4), lengths=i32(1, 0)))
    assert capture[1].length == 0
    assert open_capture(stored(k=i32(2048), width=i32(4096)))[0].k == 2048


@pytest.mark.parametrize(
    ("slots", "words"),
    [
        ([[0, 4], [0, 1]], "row 0: recorded index 4 in slot 1 is outside the row's 4 valid scores"),
        ([[0, 1], [3, 0]], "row 1: recorded index 3 in slot 0 is outside the row's 3 valid scores"),
        ([[0, 1], [0, -2]], "row 1: recorded index -2 in slot 1"),
        ([[0, 1], [0, 1]], "row 0: slot 1 holds index 1, but k is 1"),
    ],
)
def test_bad_recorded_indices_are_told_on_reading(stored: Build, slots: list[list[int]], words: str) -> None:
    k = i32(1) if "k is 1" in words else None
    capture = open_capture(stored(indices=torch.tensor(slots, dtype=torch.int32), k=k))
    assert any(words in problem for problem in capture.verify())
    with pytest.raises(CaptureError, match="tensor 'indices'"):
        list(capture)
    if "row 1" in words:
        assert capture[0].indices is not None  # other rows stay usable


def test_repeated_recorded_indices_are_the_selectors_fault(stored: Build) -> None:
    capture = open_capture(stored(indices=torch.tensor([[1, 1], [-1, 0]], dtype=torch.int32)))
    assert capture.verify() == []
    assert capture[0].indices is not None
    assert capture[0].indices.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ("{}", "has no format_version"),
        ('{"format_version": "1"}', "has no format_version"),
        ('{"format_version": 0}', "has no format_version"),
        ('{"format_version": 2}', "format version 2 is newer than 1"),
        ('{"format_version": 1, "op": 3}', "op is not a string"),
        ('{"format_version": 1, "op": "a", "op": "b"}', "'op' twice"),
    ],
)
def test_bad_metadata(stored: Build, text: str, words: str) -> None:
    assert words in refusal(stored(text))


def test_unknown_metadata_and_tensors_are_told_not_refused(stored: Build) -> None:
    info = open_capture(stored({"weather": "fine"}, seq_lens=i32(9))).info
    assert info.notes == ("metadata that is not read: 'weather'",)
    assert ("seq_lens", "int32", (1,)) in info.tensors


def test_what_is_given_goes_before_what_the_capture_says(stored: Build) -> None:
    path = stored({"op": "vllm.persistent_topk"}, k=i32(2), indices=torch.tensor([[0, 1], [1, 0]], dtype=torch.int32))
    capture = open_capture(path, k=3, op="sglang.fast_topk_v2", device="h200")
    assert (capture[0].k, capture[0].call.op, capture.calls[0].device) == (3, "sglang.fast_topk_v2", "h200")
    assert capture.info.strings["op"] == "sglang.fast_topk_v2"
    assert capture.info.notes == (
        "k is 3 as given; the capture says 2; recorded selections stay those of the capture",
        "op is sglang.fast_topk_v2 as given; the capture says vllm.persistent_topk",
    )
    assert open_capture(path, k=2, device="h200").info.notes == ()
    assert open_capture(stored(k=i32(2)), k=3).info.notes == ("k is 3 as given; the capture says 2",)
    assert "call 0: k 5 is larger than the row width 4" in refusal(path, k=5)
    for wrong in (0, -1, True, 2.0, "2"):
        with pytest.raises(UsageError, match="integer of 1 or more"):
            open_capture(path, k=wrong)  # type: ignore[arg-type]


def test_rows_in_memory() -> None:
    one, two = torch.ones(4), torch.zeros(3, dtype=torch.float16)
    rows = [
        Row(one, 4, call=Call(k=2, op="x")),
        Row(two, 2, start=1, call=Call(k=1, op="x")),
        Row(one, 3, call=Call(k=2, op="x")),
    ]
    capture = Capture.from_rows(rows, name="made")
    assert capture[0].scores is one
    assert [row.index for row in capture] == [0, 1, 2]
    assert [row.capture for row in capture] == ["made"] * 3
    assert [row.call.index for row in capture] == [0, 1, 0]
    assert [list(capture.rows_of(call)) for call in range(2)] == [[0, 2], [1]]
    assert capture.info.strings["op"] == "x"
    assert (capture.info.format, capture.info.dtype, capture.info.width) == ("memory", "float16, float32", 4)
    assert capture.digest == Capture.from_rows(rows, name="again").digest != Capture.from_rows(rows[:2]).digest
    assert capture.verify() == []
    wrong = Capture.from_rows([Row(one, 4, indices=i32(9)), Row(one, 4, call=Call(k=5))])
    assert len(wrong.verify()) == 2
    with pytest.raises(CaptureError, match="no rows"):
        Capture.from_rows([])


def test_verify_reports_progress_and_more_rows_than_launched(stored: Build) -> None:
    seen: list[tuple[int, int]] = []
    problems = open_capture(stored(rows=i32(1))).verify(lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]
    assert len(problems) == 1
    assert "call 0: 2 rows, but the batch had 1" in problems[0]


def test_a_file_that_changes_while_open(stored: Build) -> None:
    path = stored()
    capture = open_capture(path)
    capture[0]
    os.truncate(path, path.stat().st_size - 20)
    with pytest.raises(CaptureError, match="shorter while it was open"):
        capture[1]
    assert len(capture.verify()) == 1
    path = stored(name="touched.safetensors")
    capture = open_capture(path)
    with path.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"abcd")
    os.utime(path, ns=(1, 1))
    with pytest.raises(CaptureError, match="changed while it was open"):
        capture[1]


def test_a_file_that_is_replaced_while_open_keeps_its_content(stored: Build) -> None:
    path = stored()
    capture = open_capture(path)
    stored(scores=torch.zeros(2, 4), name="other.safetensors").replace(path)
    assert capture[0].scores.tolist() == [1.0, 5.0, 3.0, 4.0]
    assert open_capture(path)[0].scores.tolist() == [0.0] * 4


def test_a_closed_capture(stored: Build) -> None:
    with open_capture(stored()) as capture:
        row = capture[0]
    assert row.scores.sum() == 13
    with pytest.raises(CaptureError, match="closed"):
        capture[0]
    capture.close()


def test_threads_read_at_once(stored: Build) -> None:
    scores = torch.randn(64, 1000)
    capture = open_capture(stored(scores=scores, lengths=torch.full((64,), 1000, dtype=torch.int32)))
    wrong: list[int] = []

    def read(seed: int) -> None:
        for row in range(64):
            at = (row * 7 + seed) % 64
            if not torch.equal(capture[at].scores, scores[at]):
                wrong.append(at)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_fifty_gigabytes_open_in_no_time_and_memory(tmp_path: Path) -> None:
    rows, width = 50_000, 262_144
    total = rows * width * 4
    header = {
        "__metadata__": {"topk_workbench": json.dumps({"format_version": 1})},
        "lengths": {"dtype": "I32", "shape": [rows], "data_offsets": [0, 4 * rows]},
        "scores": {"dtype": "F32", "shape": [rows, width], "data_offsets": [4 * rows, 4 * rows + total]},
    }
    text = json.dumps(header).encode()
    path = tmp_path / "large.safetensors"
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        try:
            os.truncate(path, 8 + len(text) + 4 * rows + total)
        except OSError as error:
            pytest.skip(f"the file system takes no sparse file of 50 GB: {error}")
    if path.stat().st_blocks * 512 > 2**20:
        pytest.skip("the file system stores sparse files in full")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    with open_capture(path) as capture:
        assert len(capture) == rows
        row = capture[-1]
        assert row.scores.numel() == width
        assert row.length == 0
        assert capture.digest.startswith("sampled:")
    assert time.perf_counter() - begin < 2  # milliseconds; the bound is for a busy machine
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KiB


def test_the_tables_of_the_format_are_complete() -> None:
    assert [spec.name for spec in TENSORS] == ["scores", "offsets", "lengths", "starts", "indices", "call"]
    assert set(CALL_FIELDS) | set(STRINGS) | {"index"} == set(Call.__dataclass_fields__)
