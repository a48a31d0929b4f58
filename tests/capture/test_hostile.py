"""Any bytes at all: a file opens and reads, or a capture error says why not. Nothing else happens."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from workbench.capture import Call, Row, Token, open_capture, write_capture
from workbench.errors import CaptureError

quick = settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def try_all(path: Path, **names: Any) -> str | None:
    """Open, read every row, verify; the message if it was refused."""
    try:
        with open_capture(path, **names) as capture:
            problems = capture.verify()
            assert all(isinstance(problem, str) and "\n" not in problem for problem in problems)
            assert len(capture.digest) > 64
            for token in capture.tokens:
                assert token.logits is None or token.logits.numel() == capture.info.vocab
            for at in range(len(capture)):
                try:
                    row = capture[at]
                    assert row.outside or row.valid.numel() == row.length
                    assert row.valid.numel() <= row.scores.numel() - row.start
                    assert capture.digest_of(at) == row.digest
                    assert list(capture.rows_of(row.call.index)).count(at) == 1
                except CaptureError as error:
                    told = str(error)
                    assert told in problems
        return None
    except CaptureError as error:
        refused = str(error)
    assert "\n" not in refused
    return refused


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("good")
    recorded = torch.tensor([0, 1, -1], dtype=torch.int32)
    padded = [Row(torch.randn(6), 5, 1, Call(index=at, k=3, layer=at, op="x"), recorded) for at in range(3)]
    ragged = [Row(torch.randn(4 + at).bfloat16(), 3, 1, Call(k=3), recorded) for at in range(3)]
    files = []
    tokens = [Token(at, at, torch.randn(4)) for at in range(3)]
    for rows, chosen in ((padded, []), (ragged, []), (ragged, tokens)):
        write_capture(folder / "x.safetensors", rows, tokens=chosen, overwrite=True)
        assert try_all(folder / "x.safetensors") is None
        files.append((folder / "x.safetensors").read_bytes())
    return files


@quick
@given(data=st.data())
def test_changed_bytes(tmp_path: Path, good: list[bytes], data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from(good)))
    header_end = 8 + int.from_bytes(content[:8], "little")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1) | st.integers(0, header_end - 1))
        content[at] = data.draw(st.integers(0, 255) | st.sampled_from(b'0123456789-[]{},:"'))
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    try_all(path)


@quick
@given(data=st.data())
def test_cut_and_grown_files_are_always_refused(tmp_path: Path, good: list[bytes], data: st.DataObject) -> None:
    content = data.draw(st.sampled_from(good))
    cut = data.draw(st.integers(0, len(content) - 1))
    path = tmp_path / "x.safetensors"
    path.write_bytes(content[:cut])
    assert try_all(path) is not None
    path.write_bytes(content + data.draw(st.binary(min_size=1, max_size=20)))
    assert try_all(path) is not None


sizes = st.sampled_from([-1, 0, 1, 2, 3, 2**31, 2**40, 2**62, 2**63, 10**30])
entries = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "BF16", "I32", "I64", "F64", "F4"]),
        "shape": st.lists(sizes, max_size=3),
        "data_offsets": st.lists(sizes | st.integers(0, 64), min_size=2, max_size=2),
    }
)
names = st.sampled_from(
    ["scores", "lengths", "starts", "offsets", "indices", "call", "k", "width", "token_steps", "tokens", "logits"]
)


@quick
@given(header=st.dictionaries(names, entries, max_size=5), data=st.binary(max_size=64))
def test_invented_headers(tmp_path: Path, header: dict[str, Any], data: bytes) -> None:
    text = json.dumps({"__metadata__": {"topk_workbench": '{"format_version": 1}'}, **header}).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    try_all(path)
    try_all(path, scores="scores", lengths="lengths", indices="indices")


small = st.integers(-2, 5)


@quick
@given(data=st.data())
def test_well_formed_files_with_any_integers(tmp_path: Path, data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 3))
    tensors = {"scores": torch.zeros(rows, 4)}
    extents = {"lengths": rows, "starts": rows, "call": rows, "k": 2, "width": 2, "rows": 2}
    extreme = small | st.sampled_from([2**31 - 1, -(2**31)])
    for name, extent in extents.items():
        if name == "lengths" or data.draw(st.booleans()):
            values = data.draw(st.lists(extreme, min_size=extent, max_size=extent))
            tensors[name] = torch.tensor(values, dtype=torch.int32)
    if data.draw(st.booleans()):
        tensors["scores"] = torch.zeros(rows * 4)
        middle = data.draw(
            st.lists(small | st.sampled_from([2**63 - 1, -(2**63)]), min_size=rows - 1, max_size=rows - 1)
        )
        tensors["offsets"] = torch.tensor([0, *middle, rows * 4])
    if data.draw(st.booleans()):
        slots = data.draw(st.lists(extreme, min_size=2 * rows, max_size=2 * rows))
        tensors["indices"] = torch.tensor(slots, dtype=torch.int32).reshape(rows, 2)
    if data.draw(st.booleans()):
        tensors["token_steps"] = torch.tensor(data.draw(st.lists(extreme, min_size=2, max_size=2)))
        tensors["tokens"] = torch.tensor(data.draw(st.lists(extreme, min_size=2, max_size=2)))
        if data.draw(st.booleans()):
            tensors["logits"] = torch.zeros(2, 4).bfloat16()
    path = tmp_path / "x.safetensors"
    save_file(tensors, path, metadata={"topk_workbench": '{"format_version": 1}'})
    try_all(path)


@contextmanager
def little_memory() -> Iterator[None]:
    """At most 1 GiB more address space than now."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="address space is read from /proc")
@pytest.mark.parametrize("shape", [[2**40, 0], [0, 2**62], [2**62], [2**31, 2**31, 0]])
def test_no_memory_is_taken_by_what_a_file_claims(raw: Callable[..., Path], shape: list[int]) -> None:
    entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}
    meta = {"topk_workbench": '{"format_version": 1}'}
    empty = {**entry, "dtype": "I32"}
    with little_memory():
        assert try_all(raw({"__metadata__": meta, "scores": entry, "lengths": empty})) is not None
        assert try_all(raw({"s": entry}), scores="s") is not None
        assert try_all(raw({"s": entry, "n": empty}), scores="s", lengths="n") is not None


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="address space is read from /proc")
def test_sparse_files_with_too_many_or_too_wide_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    for shape in ([2**33, 1], [1, 2**33]):
        text = json.dumps({"s": {"dtype": "F16", "shape": shape, "data_offsets": [0, 2**34]}}).encode()
        with path.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            try:
                file.truncate(8 + len(text) + 2**34)
            except OSError as error:
                pytest.skip(f"the file system takes no sparse file of 16 GB: {error}")
        with little_memory():
            assert "8589934592" in str(try_all(path, scores="s"))
