"""Foreign safetensors files, their tensors named, and sharded sets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from workbench.capture import Call, list_tensors, open_capture
from workbench.errors import CaptureError, UsageError, WorkbenchError

Build = Callable[..., Path]


def refusal(path: Path, kind: type[WorkbenchError] = CaptureError, **names: Any) -> str:
    with pytest.raises(kind) as caught:
        open_capture(path, **names)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_unnamed_lists_what_there_is(foreign: Build) -> None:
    path = foreign({"a.n": torch.ones(2, dtype=torch.int32), "a.b": torch.ones(2, 3, dtype=torch.bfloat16)})
    text = refusal(path)
    assert "name its tensors (scores=" in text
    assert "--scores" in text
    assert "'a.b' bfloat16 [2, 3], 'a.n' int32 [2]" in text
    many = foreign({f"t.{at}": torch.ones(1) for at in range(30)})
    text = refusal(many)
    assert "'t.11'" in text
    assert "'t.12'" not in text
    assert text.endswith("and 18 more")
    assert list_tensors(many)[10] == ("t.10", "float32", (1,))


def test_named_tensors(foreign: Build) -> None:
    scores = torch.randn(3, 8).to(torch.float16)
    path = foreign(
        {
            "logits": scores,
            "n": torch.tensor([[4], [5], [6]]),
            "from": torch.tensor([0, 1, 2], dtype=torch.int32),
            "top": torch.tensor([[0, 3], [4, -1], [5, 5]]),
        }
    )
    capture = open_capture(path, scores="logits", lengths="n", starts="from", indices="top", k=2, op="x", device="l20")
    assert [(row.start, row.length) for row in capture] == [(0, 4), (1, 5), (2, 6)]
    assert torch.equal(capture[1].valid, scores[1, 1:6])
    assert capture[2].call == Call(index=0, k=2, op="x", device="l20")
    assert capture[1].indices is not None
    assert capture[1].indices.tolist() == [4, -1]
    assert capture[1].indices.dtype == torch.int32
    info = capture.info
    assert (info.format, info.layout, info.recorded, info.calls, info.width) == ("foreign", "padded", True, 1, 8)
    assert info.notes == ("recorded indices are int64 in the file; rows give the same values as int32",)
    assert capture.verify() == []


def test_without_lengths_rows_are_full_and_that_is_said(foreign: Build) -> None:
    capture = open_capture(foreign({"x": torch.arange(5.0)}), scores="x")
    assert len(capture) == 1
    assert capture[0].length == 5
    assert capture[0].k is None
    assert capture.info.notes == ("no lengths were named: every row is taken at its full width",)


def test_one_star_makes_many_calls_in_natural_order(foreign: Build) -> None:
    tensors: dict[str, torch.Tensor] = {}
    for layer in (2, 10, 9):
        tensors[f"layer.{layer}.logits"] = torch.full((2, layer), float(layer))
        tensors[f"layer.{layer}.n"] = torch.tensor([layer, 1], dtype=torch.int32)
    path = foreign(tensors)
    capture = open_capture(path, scores="layer.*.logits", lengths="layer.*.n", k=2)
    assert [row.scores.numel() for row in capture] == [2, 2, 9, 9, 10, 10]
    assert capture.lengths.tolist() == [2, 1, 9, 1, 10, 1]
    assert [row.call.index for row in capture] == [0, 0, 1, 1, 2, 2]
    assert [capture.rows_of(call) for call in range(3)] == [range(2), range(2, 4), range(4, 6)]
    assert [call.k for call in capture.calls] == [2, 2, 2]
    assert capture.info.layout == "many tensors"
    assert capture.info.width == 10
    assert "tensor 'layer.2.logits', call 0: k 3 is larger than the row width 2" in refusal(
        path, scores="layer.*.logits", k=3
    )
    assert "'layer.2.m': there is no such tensor" in refusal(path, scores="layer.*.logits", lengths="layer.*.m")
    assert "no tensor matches 'step.*'" in refusal(path, scores="step.*")
    assert "'layer.2.n': dtype is int32" in refusal(path, scores="layer.*")
    assert "more than one *" in refusal(path, UsageError, scores="*.2.*")
    assert "none that could fill it" in refusal(path, UsageError, scores="layer.2.logits", lengths="layer.*.n")
    assert "not its scores" in refusal(path, UsageError, lengths="layer.2.n")


def test_tensors_are_found_by_name_each_place_a_call_in_natural_order(foreign: Build) -> None:
    tensors: dict[str, torch.Tensor] = {"k": torch.tensor([2])}
    for layer in (10, 9):
        tensors[f"layer.{layer}.logits"] = torch.full((2, layer), float(layer))
        tensors[f"layer.{layer}.seq_lens"] = torch.tensor([layer, 1], dtype=torch.int32)
    with open_capture(foreign(tensors)) as capture:
        assert [row.scores.numel() for row in capture] == [9, 9, 10, 10]
        assert capture.lengths.tolist() == [9, 1, 10, 1]
        assert [call.k for call in capture.calls] == [2, 2]


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"s": torch.ones(2, 3, 4)}, "'s': shape is [2, 3, 4]; [rows, width]"),
        ({"s": torch.tensor(1.0)}, "'s': shape is []"),
        ({"s": torch.ones(0, 3)}, "there are no scores; name a tensor that holds some"),
        ({"s": torch.ones(3, 0)}, "there are no scores; name a tensor that holds some"),
        ({"s": torch.ones(2, 3, dtype=torch.int32)}, "'s': dtype is int32; float32"),
        ({"s": torch.ones(2, 3), "n": torch.ones(3, dtype=torch.int32)}, "'n': shape is [3]; [2] or [2, 1] is needed"),
        ({"s": torch.ones(2, 3), "n": torch.ones(2)}, "'n': dtype is float32; int32 or int64"),
        ({"s": torch.ones(2, 3), "n": torch.tensor([3, 2**31])}, "'n', row 1: length 2147483648 is no int32"),
        ({"s": torch.ones(2, 3), "n": torch.tensor([2**62, -1])}, "'n', row 0: length 4611686018427387904 is no int32"),
        ({"s": torch.ones(2, 3), "i": torch.ones(3, 2, dtype=torch.int32)}, "'i': shape is [3, 2]; [2, k] is needed"),
    ],
)
def test_bad_tensors(foreign: Build, tensors: dict[str, torch.Tensor], words: str) -> None:
    names = {"s": "scores", "n": "lengths", "i": "indices"}
    assert words in refusal(foreign(tensors), **{names[name]: name for name in tensors})


def test_lengths_outside_their_rows_open_too(foreign: Build) -> None:
    path = foreign({"s": torch.ones(3, 4), "n": torch.tensor([-1, 4, 9]), "i": torch.tensor([[0], [3], [-9]])})
    capture = open_capture(path, scores="s", lengths="n", indices="i", k=1)
    assert [row.length for row in capture] == [-1, 4, 9]
    assert capture.info.outside == 2
    assert capture.verify() == []
    wide = foreign({"s": torch.ones(1, 4), "n": torch.tensor([-1]), "i": torch.tensor([[2**31]])}, name="w.safetensors")
    with pytest.raises(CaptureError, match="recorded index 2147483648 in slot 0 is no int32"):
        open_capture(wide, scores="s", lengths="n", indices="i")[0]


def test_recorded_indices_must_go_with_k(foreign: Build) -> None:
    path = foreign({"s": torch.randn(1, 8), "i": torch.tensor([[1, 2, 3, 4]])})
    assert "4 recorded slots a row are fewer than k 5" in refusal(path, scores="s", indices="i", k=5)
    with pytest.raises(CaptureError, match="slot 2 holds index 3, but k is 2"):
        open_capture(path, scores="s", indices="i", k=2)[0]


def sharded(folder: Path, weight_map: Any, **shards: dict[str, torch.Tensor]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, tensors in shards.items():
        save_file(tensors, folder / f"{name}.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return index


def test_sharded_set(tmp_path: Path) -> None:
    index = sharded(
        tmp_path / "set",
        {"c.1": "one.safetensors", "c.0": "two.safetensors", "n": "one.safetensors"},
        one={"c.1": torch.ones(1, 4), "n": torch.tensor([3], dtype=torch.int32)},
        two={"c.0": torch.zeros(1, 5)},
    )
    with open_capture(index, scores="c.*", lengths="n") as capture:
        assert [row.scores.tolist() for row in capture] == [[0.0] * 5, [1.0] * 4]
        assert capture.lengths.tolist() == [3, 3]
        assert capture.info.size_bytes == sum(path.stat().st_size for path in (tmp_path / "set").iterdir())
        first = capture.digest
        assert first.startswith("sha256:")
        assert capture.verify() == []
    save_file({"c.0": torch.full((1, 5), 2.0)}, tmp_path / "set" / "two.safetensors")
    assert open_capture(index, scores="c.*").digest != first
    assert "'c.0' float32 [1, 5], 'c.1' float32 [1, 4], 'n' int32 [1]" in refusal(index)


def test_messages_name_the_shard_that_holds_the_tensor(tmp_path: Path) -> None:
    shards = {
        "x1": {"s": torch.ones(2, 3), "t": torch.ones(2, 3, dtype=torch.float64)},
        "x2": {
            "i": torch.ones(3, 2, dtype=torch.int32),
            "f": torch.ones(2, 2),
            "j": torch.tensor([[0, 1], [2, 3]], dtype=torch.int32),
            "r": torch.ones(2, 2, dtype=torch.int32),
        },
        "x3": {"n": torch.tensor([3, 2**31]), "m": torch.ones(3, dtype=torch.int32), "o": torch.tensor([0, 1])},
    }
    weight_map = {name: f"{shard}.safetensors" for shard, tensors in shards.items() for name in tensors}
    index = sharded(tmp_path / "set", weight_map, **shards)

    def place(**names: Any) -> str:
        text = refusal(index, **names)
        return text.removeprefix(f"{index.parent}/").split(":")[0]

    assert place(scores="t") == "x1.safetensors, tensor 't'"
    assert place(scores="s", indices="i") == "x2.safetensors, tensor 'i'"
    assert place(scores="s", indices="f") == "x2.safetensors, tensor 'f'"
    assert place(scores="s", lengths="n") == "x3.safetensors, tensor 'n', row 1"
    assert place(scores="s", lengths="m") == "x3.safetensors, tensor 'm'"
    assert place(scores="s", lengths="r", starts="o") == "x2.safetensors, tensor 'r'"
    assert place(scores="s", starts="o") == "x3.safetensors, tensor 'o', row 1"
    assert place(scores="s", k=4) == "x1.safetensors, tensor 's', call 0"
    assert place(scores="s", indices="r", k=3) == "x2.safetensors, tensor 'r', call 0"
    assert place(scores="z") == "model.safetensors.index.json, tensor 'z'"
    with open_capture(index, scores="s", indices="j") as capture, pytest.raises(CaptureError) as caught:
        capture[1]
    assert str(caught.value).startswith(f"{index.parent}/x2.safetensors, tensor 'j', row 1: recorded index 3")


def test_bad_sets(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    one = {"a": torch.ones(1, 4)}
    index = sharded(folder, {"a": "one.safetensors", "b": "two.safetensors"}, one=one)
    assert "shard two.safetensors is missing" in refusal(index, scores="a")
    index = sharded(folder, {"a": "one.safetensors", "b": "one.safetensors"}, one=one)
    assert "tensor 'b': the index says that it is in one.safetensors, but it is not" in refusal(index, scores="a")
    for wrong in ({"a": 1}, ["a"], None):
        assert "weight_map must map" in refusal(sharded(folder, wrong), scores="a")
    assert "names no tensors" in refusal(sharded(folder, {}), scores="a")
    index.write_text("{")
    assert "the index is not JSON" in refusal(index, scores="a")


@pytest.mark.parametrize("shard", ["../one.safetensors", "/etc/hostname", "x/../../one.safetensors", "", "a\0b", "."])
def test_no_shard_leaves_its_folder(tmp_path: Path, shard: str) -> None:
    save_file({"a": torch.ones(1, 4)}, tmp_path / "one.safetensors")
    index = sharded(tmp_path / "set", {"a": shard})
    text = refusal(index, scores="a")
    assert "not a path below the folder" in text


def test_a_link_is_followed_as_caches_of_model_hubs_need(tmp_path: Path) -> None:
    save_file({"a": torch.ones(1, 4)}, tmp_path / "blob")
    index = sharded(tmp_path / "snapshot", {"a": "link.safetensors"}, other={"b": torch.ones(1, 4)})
    (tmp_path / "snapshot" / "link.safetensors").symlink_to(tmp_path / "blob")
    with open_capture(index, scores="a", k=2) as capture:
        assert capture[0].scores.tolist() == [1.0] * 4
