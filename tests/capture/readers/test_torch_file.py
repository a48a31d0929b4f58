"""Files of ``torch.save``: rows bit for bit, strides, dotted names; ``torch.load(weights_only=True)`` is the oracle."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import signal
import subprocess
import sys
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workbench.capture import list_tensors, open_capture
from workbench.capture.readers import archive, pickled
from workbench.capture.readers.torch_file import open_file
from workbench.errors import CaptureError

Refusal = Callable[..., str]
Same = Callable[[torch.Tensor, torch.Tensor], bool]

NAN_BITS = torch.tensor([0x7FC00001, 0x7F800001, -1, -0x80000000, 0x7F800000], dtype=torch.int32).view(torch.float32)


def saved(path: Path, value: Any, **options: Any) -> Path:
    torch.save(value, path, **options)
    return path


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rows_lengths_indices_and_k_are_found_by_name(tmp_path: Path, same_bits: Same, dtype: torch.dtype) -> None:
    scores = torch.randn(3, 50).to(dtype)
    scores[1, :5] = NAN_BITS.to(dtype) if dtype != torch.float32 else NAN_BITS
    content = {
        "logits": scores,
        "seq_lens": torch.tensor([50, 7, -1], dtype=torch.int32),
        "topk_indices": torch.tensor([[0, 1], [6, -1], [9, 9]]),
        "topk": 2,
        "weights": torch.ones(4),
        "name": "an indexer",
    }
    with open_capture(saved(tmp_path / "call.pt", content)) as capture:
        assert all(same_bits(row.scores, scores[row.index]) for row in capture)
        assert capture.lengths.tolist() == [50, 7, -1]
        assert [call.k for call in capture.calls] == [2]
        assert [row.indices.tolist() for row in capture if row.indices is not None] == [[0, 1], [6, -1], [9, 9]]
        assert capture.info.format == "torch.save"
        assert capture.info.used == ("logits", "seq_lens", "topk_indices")
        assert capture.info.left == ("'weights' float32 [4]", "'name': 'an indexer'")
        assert "found by name: scores 'logits', lengths 'seq_lens' and indices 'topk_indices'" in capture.info.notes
        assert capture.call(0).rows is None  # a tensor does not say what was launched
        assert capture.verify() == []
        assert capture.digest.startswith("sha256:")


def test_payloads_of_nan_are_kept(tmp_path: Path, same_bits: Same) -> None:
    with open_capture(saved(tmp_path / "logits.pt", NAN_BITS)) as capture:
        assert same_bits(capture[0].scores, NAN_BITS)


def test_a_bare_tensor_bears_the_name_of_its_file(tmp_path: Path) -> None:
    path = saved(tmp_path / "row17.pt", torch.randn(2, 9))
    with open_capture(path, k=3) as capture:
        assert capture.info.used == ("row17",)
        assert capture.info.notes[0] == "the one tensor, 'row17', is taken as the scores"
        assert capture[1].call.k == 3
    with open_capture(path, scores="row17") as capture:
        assert len(capture) == 2


def test_nested_names_are_dotted_paths_and_each_place_is_a_call(tmp_path: Path) -> None:
    layers = [
        {"logits": torch.full((2, 8), float(at)), "lens": torch.tensor([at + 1, 8]), "k": at + 1} for at in range(3)
    ]
    path = saved(tmp_path / "step.pt", {"layers": layers, "meta": ({"seed": 1},)})
    assert list_tensors(path)[0] == ("layers.0.lens", "int64", (2,))
    with open_capture(path) as capture:
        assert [call.k for call in capture.calls] == [1, 2, 3]
        assert capture.lengths.tolist() == [1, 8, 2, 8, 3, 8]
        assert capture[4].scores.tolist() == [2.0] * 8
        assert capture.info.left == ("'meta.0.seed': 1",)
    with open_capture(path, scores="layers.*.logits", lengths="layers.*.lens") as capture:
        assert [call.k for call in capture.calls] == [1, 2, 3]


def test_what_lies_further_out_holds_for_all_calls_below(tmp_path: Path) -> None:
    content = {
        "seq_lens": torch.tensor([3, 4]),
        "k": torch.tensor(2),
        "a": {"scores": torch.randn(2, 8)},
        "b": {"scores": torch.randn(2, 9), "seq_lens": torch.tensor([5, 6])},
    }
    with open_capture(saved(tmp_path / "x.pt", content)) as capture:
        assert capture.lengths.tolist() == [3, 4, 5, 6]
        assert [call.k for call in capture.calls] == [2, 2]


def test_rows_of_a_wider_tensor_are_read_where_they_lie(tmp_path: Path, same_bits: Same) -> None:
    wide = torch.randn(4, 100)
    content = {"scores": wide[1:, 5:25], "indices": torch.arange(40, dtype=torch.int32).reshape(4, 10)[:3, :2] % 5}
    with open_capture(saved(tmp_path / "x.pt", content), k=2) as capture:
        assert all(same_bits(row.scores, wide[row.index + 1, 5:25]) for row in capture)
        assert [row.indices.tolist() for row in capture if row.indices is not None] == [[0, 1], [0, 1], [0, 1]]
        assert capture.verify() == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"scores": torch.randn(9, 4).T}, "'scores': its elements do not lie in order (shape [4, 9], strides [1, 4])"),
        ({"scores": torch.randn(4).expand(3, 4)}, "do not lie in order (shape [3, 4], strides [0, 1])"),
        ({"scores": torch.randn(20)[::2]}, ".contiguous()"),
        ({"scores": torch.randn(2, 3, 4)}, "[rows, width]"),
        ({"scores": torch.tensor(1.0)}, "shape is []"),
        ({"scores": torch.randn(0, 4)}, "there are no scores"),
        (
            {"scores": torch.randn(2, 4, dtype=torch.float64)},
            "dtype is float64; float32 or bfloat16 or float16 is needed; ask",
        ),
        ({"scores": torch.ones(2, 4, dtype=torch.int64)}, "(as_dtype=, --as)"),
        ({"scores": torch.ones(2, 4, dtype=torch.complex64)}, "dtype is complex64"),
        (
            {"scores": torch.randn(2, 4), "lens": torch.ones(2, dtype=torch.int16)},
            "dtype is int16; int32 or int64 is needed; save",
        ),
        (
            {"scores": torch.randn(2, 4), "lens": torch.ones(2, 8, dtype=torch.int32)[:, :1]},
            "'lens': lies in a wider tensor",
        ),
        ({"scores": torch.randn(2, 4), "lens": torch.ones(3, dtype=torch.int32)}, "[2] or [2, 1] is needed"),
        ({"scores": torch.randn(2, 4), "k": 5}, "k 5 is larger than the row width 4"),
        ({"scores": torch.randn(2, 4), "k": 2, "topk": 3}, "k is 2 or 3; give it"),
        ({"scores": torch.randn(2, 4), "logits": torch.randn(2, 4)}, "'logits' and 'scores' could each be the scores"),
        ({"a": torch.randn(2, 4)}, "nothing in it is called scores or logits"),
        ([torch.randn(2, 4), torch.ones(2)], "It holds '0' float32 [2, 4], '1' float32 [2]"),
        ({"k": 5}, "It holds no tensors"),
        (
            {"scores": torch.randn(2, 4), "lens": [1, 2]},
            "'lens' would be the lengths, but is no tensor; save it as one",
        ),
        ({"a": {"scores": torch.randn(1, 4)}, "seq_len": 3}, "'seq_len' would be the lengths, but is no tensor"),
        ({"a.b": torch.ones(1), "a": {"b": torch.ones(1)}}, "names 'a.b' twice"),
        ({"scores": torch.ones(2, 2).to_sparse()}, "nothing in it is called scores"),
    ],
)
def test_what_cannot_be_rows_is_refused_with_the_cure(
    tmp_path: Path, refusal: Refusal, content: Any, words: str
) -> None:
    assert words in refusal(saved(tmp_path / "x.pt", content))


def test_numbers_that_lie_elsewhere_are_no_lengths(tmp_path: Path) -> None:
    content = {"a": {"scores": torch.randn(1, 4)}, "b": {"length": 3}, "max_length": 2}
    with open_capture(saved(tmp_path / "x.pt", content)) as capture:
        assert capture[0].length == 4


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**2000])
@pytest.mark.parametrize("name", ["k", "step", "layer"])
def test_an_integer_that_no_capture_holds_is_refused(tmp_path: Path, name: str, value: int) -> None:
    path = saved(tmp_path / "x.pt", {"logits": torch.randn(2, 100), name: value})
    with pytest.raises(CaptureError, match=rf"tensor '{name}', call 0: {name} has [0-9]+ bits; an int64 is needed$"):
        open_capture(path)


def test_content_decides_and_not_the_ending(tmp_path: Path) -> None:
    for name in ("x.safetensors", "x.bin", "x", "x.npy"):
        assert len(open_capture(saved(tmp_path / name, {"scores": torch.ones(2, 3)}))) == 2


class Harmful:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, (f"touch {self.path}",))


def test_no_code_of_a_file_runs(tmp_path: Path, refusal: Refusal) -> None:
    trap = tmp_path / "ran"
    path = saved(tmp_path / "x.pt", {"scores": torch.ones(2, 3), "x": Harmful(trap)})
    text = refusal(path)
    assert "reading it would run code (of posix.system), which is never done" in text
    assert "torch.save({'scores': scores, 'lengths': lengths}, path)" in text
    legacy = saved(tmp_path / "old.pt", Harmful(trap), _use_new_zipfile_serialization=False)
    assert "a pickle outside an archive" in refusal(legacy)
    plain = tmp_path / "plain.pkl"
    plain.write_bytes(pickle.dumps(Harmful(trap), protocol=4))
    assert "a pickle outside an archive" in refusal(plain)
    assert not trap.exists()


def test_what_the_process_allows_elsewhere_is_not_allowed_here(tmp_path: Path, refusal: Refusal) -> None:
    path = saved(tmp_path / "x.pt", {"scores": torch.ones(2, 3), "array": np.ones(3)})
    with torch.serialization.safe_globals([np.ndarray]):
        assert "_reconstruct" in refusal(path)


@pytest.mark.parametrize(
    "value",
    [
        Counter("abc"),
        OrderedDict(a=torch.ones(2)),
        {1: {"x": (None, True, 2.5, -(2**70), b"bytes", "text")}, (1, 2): 3, None: 4},
        torch.nn.Parameter(torch.ones(3)),
        torch.nn.Linear(3, 2).state_dict(),
        [torch.float32, torch.Size([2, 3]), torch.device("cpu"), {1, 2}, torch.strided],
        torch.ones(2, 3, dtype=torch.uint16),
        torch.ones(2, dtype=torch.float8_e4m3fn),
        torch.ones(2, dtype=torch.complex128),
        torch.ones(0),
        torch.tensor(True),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("protocol", [2, 4])
def test_what_torch_writes_is_understood(tmp_path: Path, value: Any, protocol: int) -> None:
    held = open_file(saved(tmp_path / "x.pt", value, pickle_protocol=protocol))
    held.source.close()
    assert held.tensors or held.values


leaf = st.one_of(
    st.integers(-(2**40), 2**40),
    st.text(max_size=5),
    st.none(),
    st.tuples(
        st.sampled_from([torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.int64]),
        st.integers(0, 4),
        st.integers(0, 5),
        st.integers(0, 3),
    ),
)
tree = st.recursive(
    leaf, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3))
)


def build(value: Any) -> Any:
    if isinstance(value, tuple):
        dtype, rows, width, extra = value
        return torch.randint(0, 9, (rows + 1, width + extra)).to(dtype)[:rows, :width]
    if isinstance(value, list):
        return [build(item) for item in value]
    return {key: build(item) for key, item in value.items()} if isinstance(value, dict) else value


def leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [found for key, item in items for found in leaves(item, f"{path}.{key}" if path else str(key))]
    return [(path, value)]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree)
def test_every_tensor_is_the_one_that_torch_loads(tmp_path: Path, same_bits: Same, value: Any) -> None:
    path = saved(tmp_path / "x.pt", build(value))
    loaded = leaves(torch.load(path, weights_only=True))
    names = [name for name, _ in loaded]
    try:
        held = open_file(path)
    except CaptureError:
        held = None
    if held is None:
        assert len(set(names)) < len(names)  # only names that clash are refused
        return
    wanted = {name or "x": tensor for name, tensor in loaded if isinstance(tensor, torch.Tensor)}
    assert held.tensors.keys() == wanted.keys()
    for name, tensor in wanted.items():
        info = held.tensors[name]
        assert info.shape == tensor.shape
        if info.pitch is None and not info.problem:
            assert same_bits(held.source.tensor(info).reshape(tensor.shape), tensor)
    held.source.close()


def test_values_that_torch_reads_otherwise_than_they_are_stored(tmp_path: Path, refusal: Refusal) -> None:
    """A negated view is stored with its numbers as they were, and a mark."""
    scores = torch.randn(2, 9)
    for view in (torch._neg_view(scores), torch.complex(scores, scores).conj().imag):
        path = saved(tmp_path / "x.pt", {"scores": view})
        assert torch.equal(torch.load(path, weights_only=True)["scores"], -scores)
        assert "torch reads it as 'neg' of what is stored" in refusal(path)
        torch.save({"scores": view.resolve_neg().contiguous()}, path)
        with open_capture(path) as capture:
            assert torch.equal(capture[0].scores, -scores[0])


# Why such a file is not left to torch.load(mmap=True, weights_only=True).


def test_a_compressed_record_is_no_row_of_other_numbers(tmp_path: Path, refusal: Refusal) -> None:
    path, scores = tmp_path / "x.pt", torch.randn(2, 300)
    repacked(saved(path, {"scores": scores}), lambda members: None, zipfile.ZIP_DEFLATED)
    assert "is compressed" in refusal(path)
    assert torch.equal(torch.load(path, weights_only=True)["scores"], scores)
    assert not torch.equal(torch.load(path, mmap=True, weights_only=True)["scores"], scores)


def test_a_file_that_is_cut_short_while_it_is_mapped_ends_the_process(tmp_path: Path) -> None:
    script = f"""
import os, torch
path = {str(tmp_path / "x.pt")!r}
torch.save({{"scores": torch.ones(500, 500)}}, path)
scores = torch.load(path, mmap=True, weights_only=True)["scores"]
os.truncate(path, 5000)
print(scores[400].sum())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == -signal.SIGBUS


def repacked(path: Path, change: Callable[[dict[str, bytes]], None], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return saved(tmp_path / "good.pt", {"scores": torch.ones(2, 300)})


def test_archives_that_lie_are_refused(good: Path, refusal: Refusal) -> None:
    def shorter(members: dict[str, bytes]) -> None:
        members["good/data/0"] = members["good/data/0"][:-4]

    assert "the record of its 600 elements has 2396 bytes" in refusal(repacked(good, shorter))
    assert "is missing" in refusal(repacked(good, lambda members: members.pop("good/data/0") and None))


def test_a_compressed_record_and_a_foreign_byte_order_are_refused(good: Path, refusal: Refusal) -> None:
    assert "is compressed" in refusal(repacked(good, lambda members: None, zipfile.ZIP_DEFLATED))
    change = {"good/byteorder": b"big"}
    assert "big-endian" in refusal(repacked(good, lambda members: members.update(change)))


def test_a_program_is_no_dump(tmp_path: Path, refusal: Refusal) -> None:
    path = tmp_path / "x.pt"
    with zipfile.ZipFile(path, "w") as file:
        for name in ("x/data.pkl", "x/constants.pkl"):
            file.writestr(name, pickle.dumps({}, protocol=2))
    assert "TorchScript" in refusal(path)


@pytest.mark.parametrize("keep", [0, 3, 20, 100, 700, -1, -10, -30, -100])
def test_a_file_that_is_cut_short(good: Path, refusal: Refusal, keep: int) -> None:
    good.write_bytes(good.read_bytes()[:keep])
    refusal(good)


def test_a_file_that_is_cut_short_while_it_is_open_gives_an_error(good: Path) -> None:
    with open_capture(good) as capture:
        os.truncate(good, 1000)
        with pytest.raises(CaptureError, match=r"became shorter|was changed"):
            capture[1]


def test_a_bomb_of_a_pickle_is_refused_at_once(good: Path, refusal: Refusal) -> None:
    nested = (
        b"\x80\x02"
        + b"]q\x00" * 1
        + b"".join(b"]q%c(%sh%c" % (at, b"h%c" % (at - 1) * 9, at - 1) + b"e" for at in range(1, 30))
        + b"."
    )
    assert "more than" in refusal(repacked(good, lambda members: members.update({"good/data.pkl": nested})))
    loop = b"\x80\x02]q\x00h\x00a."
    assert "nested more than" in refusal(repacked(good, lambda members: members.update({"good/data.pkl": loop})))
    for text in (
        b"",
        b".",
        b"\x80\x02(",
        b"\x80\x02}a.",
        b"\x80\x02h\x05.",
        b"\x80\x02Q.",
        b"\x80\x02K\x01K\x02R.",
        b"\x80\x02)b.",
    ):
        refusal(repacked(good, lambda members, text=text: members.update({"good/data.pkl": text})))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_described_or_refused(text: bytes) -> None:
    with contextlib.suppress(CaptureError):
        list(pickled.flat(pickled.describe(b"\x80\x02" + text, "x"), "x"))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 4000), st.integers(0, 255))
def test_a_changed_byte_is_read_or_refused(tmp_path: Path, at: int, value: int) -> None:
    buffer = io.BytesIO()
    torch.save({"scores": torch.ones(2, 30), "seq_lens": torch.tensor([30, 2])}, buffer)
    content = bytearray(buffer.getvalue())
    content[at % len(content)] = value
    path = tmp_path / "x.pt"
    path.write_bytes(content)
    with contextlib.suppress(CaptureError), open_capture(path) as capture:
        for row in capture:
            assert row.scores.numel()
        capture.verify()


def test_the_globals_that_are_understood_are_those_that_torch_allows() -> None:
    """A name that is not on torch's list of safe ones stands here only if torch writes it for plain values."""
    allowed = set(torch._weights_only_unpickler._get_allowed_globals())
    own = set(pickled._CALLS)
    assert own - allowed <= {"torch.device", "builtins.set", "__builtin__.set"}


def test_zip64_archives_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file, file.open("scores.npy", "w", force_zip64=True) as out:
        np.save(out, np.ones((2, 3), dtype=np.float32))
    with open_capture(path) as capture:
        assert capture[1].scores.tolist() == [1.0] * 3
    many = tmp_path / "many.zip"
    with zipfile.ZipFile(many, "w") as file:
        for at in range(70_000):  # more than the 16-bit count of the old directory holds
            file.writestr(f"{at}.npy", b"")
    from workbench.capture.source import Source

    source = Source(many, header=False)
    assert len(archive.read_directory(source)) == 70_000
    source.close()
