"""SGLang's dumper: names as sglang 0.5.23 writes them, several steps, layers and ranks, hostile folders."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from workbench.capture import open_capture
from workbench.capture.readers.sglang import parse_tags

Refusal = Callable[..., str]
Same = Callable[[torch.Tensor, torch.Tensor], bool]


class Dumper:
    """Writes what the dumper writes."""

    def __init__(self, folder: Path, rank: int = 0) -> None:
        self.folder, self.rank, self.step, self.index = folder, rank, 0, 0
        folder.mkdir(exist_ok=True)

    def dump(self, name: str, value: Any, **tags: object) -> Path:
        self.index += 1
        known = {"step": self.step, "rank": self.rank, "dump_index": self.index, "name": name}
        known |= {"recompute_status": "disabled", **tags}
        path = self.folder / ("___".join(f"{tag}={value}" for tag, value in known.items()) + ".pt")
        torch.save({"value": value, "meta": {**known, "world_size": 2, "sglang_parallel_info": {"tp_rank": 0}}}, path)
        return path


def scores_of(step: int, layer: int, rank: int = 0) -> torch.Tensor:
    return torch.randn(2, 12, generator=torch.Generator().manual_seed(100 * step + 10 * layer + rank)).bfloat16()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for rank in range(2):
        dumper = Dumper(tmp_path / "dump_1", rank)
        for step in range(12):
            dumper.step = step
            dumper.dump("seq_lens", torch.tensor([step + 1, 12], dtype=torch.int32))
            for layer in (2, 10):
                dumper.dump("hidden_states", torch.ones(2, 3), layer_id=layer)
                dumper.dump("indexer__logits", scores_of(step, layer, rank), layer_id=layer, k=2)
                dumper.dump("topk_indices", torch.tensor([[0, -1], [0, 11]]), layer_id=layer)
    return tmp_path / "dump_1"


def test_steps_layers_and_ranks_are_those_of_the_names(folder: Path, same_bits: Same) -> None:
    with open_capture(folder) as capture:
        assert capture.info.format == "SGLang dump"
        assert capture.info.calls == 48
        told = [(call.step, call.rank, call.layer) for call in capture.calls]
        assert told == [(step, rank, layer) for step in range(12) for rank in range(2) for layer in (2, 10)]
        for row in capture:
            call = row.call
            assert same_bits(row.scores, scores_of(call.step, call.layer, call.rank)[row.index % 2])
            assert row.length == (12 if row.index % 2 else call.step + 1)
        assert capture.info.recorded
        assert capture.call(0).release is None


def test_k_may_stand_in_a_name(folder: Path) -> None:
    with open_capture(folder) as capture:
        assert [call.k for call in capture.calls] == [2] * 48
        assert [row.indices.tolist() for row in capture if row.indices is not None] == [[0, -1], [0, 11]] * 48


def test_values_dumped_under_other_tags_are_not_taken_for_those_of_a_call(tmp_path: Path) -> None:
    dumper = Dumper(tmp_path / "d")
    dumper.dump("logits", torch.ones(1, 4), layer_id=1)
    dumper.dump("topk_indices", torch.zeros(1, 1, dtype=torch.int32), layer_id=2)
    dumper.dump("lens", torch.tensor([3]), layer_id=1, request=5)
    with open_capture(tmp_path / "d") as capture:
        assert capture[0].length == 4
        assert not capture.info.recorded


def test_what_was_left_is_told_once(folder: Path) -> None:
    with open_capture(folder) as capture:
        left = capture.info.left
        assert sum("hidden_states" in line for line in left) == 48
        assert [line for line in left if "meta" in line] == [
            "'meta.sglang_parallel_info.tp_rank': 0",
            "'meta.world_size': 2",
        ]


def test_values_are_named_by_the_dumper(folder: Path) -> None:
    with open_capture(folder, scores="hidden_states", lengths="seq_lens", k=1) as capture:
        assert capture.info.calls == 48
        assert {row.scores.numel() for row in capture} == {3}
        assert capture.call(3).layer == 10
        assert capture.lengths.tolist()[:2] == [1, 12]


def test_several_calls_of_one_step_and_layer_stand_in_their_order(tmp_path: Path) -> None:
    dumper = Dumper(tmp_path / "d")
    for chunk in range(3):
        dumper.dump("lens", torch.tensor([chunk + 1]))
        dumper.dump("logits", torch.full((1, 5), float(chunk)), layer_id=0)
    with open_capture(tmp_path / "d") as capture:
        assert [(row.scores[0].item(), row.length) for row in capture] == [(0, 1), (1, 2), (2, 3)]
        assert capture.info.calls == 3


def test_one_file_older_names_bare_values_and_dicts(tmp_path: Path) -> None:
    torch.save(
        torch.ones(1, 4), tmp_path / "forward_pass_id=7___rank=3___name=logits___dump_index=1___layer_id=None.pt"
    )
    (path,) = tmp_path.iterdir()
    for given in (path, tmp_path):
        with open_capture(given) as capture:
            call = capture.call(0)
            assert (call.step, call.rank, call.layer) == (7, 3, None)
    path.unlink()
    path = Dumper(tmp_path).dump("topk", {"logits": torch.ones(2, 4), "lens": torch.tensor([1, 2])})
    with open_capture(path) as capture:
        assert capture.lengths.tolist() == [1, 2]
    assert parse_tags("step=0___name=a___b=c___d.pt") == {"step": "0", "name": "a", "b": "c___d"}


def test_files_that_cannot_be_read_stand_in_the_way_only_where_they_are_needed(folder: Path, refusal: Refusal) -> None:
    hidden = next(path for path in folder.iterdir() if "hidden_states" in path.name)
    hidden.write_bytes(b"no archive")
    with open_capture(folder) as capture:
        assert any("cannot be read" in line for line in capture.info.left)
    logits = next(path for path in folder.iterdir() if "logits" in path.name)
    logits.write_bytes(b"no archive")
    assert logits.name in refusal(folder)


def test_nothing_outside_the_folder_is_read(tmp_path: Path, refusal: Refusal) -> None:
    outside = tmp_path / "outside.pt"
    torch.save(torch.ones(1, 4), outside)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "step=0___rank=0___dump_index=1___name=logits.pt").symlink_to(outside)
    assert "leads out of the folder" in refusal(tmp_path / "d")
    inside = tmp_path / "d" / "data.pt"
    outside.rename(inside)
    link = tmp_path / "d" / "step=0___rank=0___dump_index=2___name=scores.pt"
    link.symlink_to(inside)
    with open_capture(tmp_path / "d", scores="scores") as capture:
        assert len(capture) == 1


@pytest.mark.parametrize("tags", ["step=x___rank=0", "step=99999999999999999999___rank=0", "step=0___rank=-4"])
def test_tags_that_are_no_numbers(tmp_path: Path, refusal: Refusal, tags: str) -> None:
    torch.save(torch.ones(1, 4), tmp_path / f"{tags}___name=logits.pt")
    assert "in a file name is no" in refusal(tmp_path)


@contextmanager
def few_descriptors(most: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def many(folder: Path, files: int) -> Path:
    """A folder of copies, four values a call."""
    folder.mkdir()
    values = {
        "logits": torch.randn(1, 64),
        "seq_lens": torch.tensor([64]),
        "topk_indices": torch.arange(4)[None],
        "hidden": torch.ones(9),
    }
    contents = {}
    for name, value in values.items():
        torch.save({"value": value, "meta": {}}, folder / "x")
        contents[name] = (folder / "x").read_bytes()
    (folder / "x").unlink()
    for at in range(files):
        name = list(values)[at % 4]
        tags = f"step={at // 200}___rank=0___dump_index={at}___name={name}___layer_id={at // 4 % 50}"
        (folder / f"{tags}.pt").write_bytes(contents[name])
    return folder


def test_a_folder_of_more_files_than_may_be_open(tmp_path: Path) -> None:
    folder = many(tmp_path / "many", 600)
    held = len(list(Path("/proc/self/fd").iterdir()))
    with few_descriptors(held + 30), open_capture(folder) as capture:
        assert capture.info.calls == 150
        assert all(row.scores.numel() == 64 for row in capture)
        assert capture.verify() == []


@pytest.mark.slow
def test_ten_thousand_files_open_in_seconds(tmp_path: Path) -> None:
    folder = many(tmp_path / "many", 10_000)
    begin = time.perf_counter()
    with open_capture(folder) as capture:
        assert capture.info.calls == 2500
    assert time.perf_counter() - begin < 40  # some five on one core that has nothing else to do


# The dumper imports the engine for ranks alone, which one process without it has not: stand-ins are enough.
WRITES = """
import importlib.abc, importlib.machinery, importlib.util, os, sys, types
class Nothing(types.ModuleType):
    __path__ = []
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *given, **named: None
class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("zmq", "sglang"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
    def create_module(self, spec):
        return Nothing(spec.name)
    def exec_module(self, module):
        pass
sys.meta_path.insert(0, Finder())
os.environ.update(DUMPER_ENABLE="1", DUMPER_DIR=sys.argv[2], DUMPER_EXP_NAME="dump_x", DUMPER_ENABLE_OUTPUT_CONSOLE="0")
spec = importlib.util.spec_from_file_location("dumper", sys.argv[1] + "/sglang/srt/debug_utils/dumper.py")
module = importlib.util.module_from_spec(spec)
sys.modules["dumper"] = module
spec.loader.exec_module(module)
import torch
for step in range(2):
    module.dumper.dump("seq_lens", torch.tensor([3, 9], dtype=torch.int32))
    for layer in range(3):
        module.dumper.dump("index_score", torch.full((2, 9), 10.0 * step + layer), layer_id=layer)
        module.dumper.dump("topk_indices", torch.zeros(2, 1, dtype=torch.int32), layer_id=layer)
    module.dumper.step()
"""


@pytest.mark.slow
def test_the_real_dumper(tmp_path: Path) -> None:
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path / "packages")]
    subprocess.run([*install, "sglang==0.5.23"], check=True)
    done = subprocess.run(
        [sys.executable, "-c", WRITES, tmp_path / "packages", tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with open_capture(tmp_path / "dump_x") as capture:
        assert [(call.step, call.layer, call.rank) for call in capture.calls] == [
            (step, layer, 0) for step in range(2) for layer in range(3)
        ]
        assert [row.scores[0].item() for row in capture][::2] == [0, 1, 2, 10, 11, 12]
        assert capture.lengths.tolist() == [3, 9] * 6
        assert capture.info.recorded


@pytest.mark.parametrize("lengths", [[3, 4], 5, {"seq_lens": [3, 4]}])
def test_lengths_that_are_no_tensor_are_refused(tmp_path: Path, refusal: Refusal, lengths: Any) -> None:
    dumper = Dumper(tmp_path / "d")
    dumper.dump("metadata" if isinstance(lengths, dict) else "seq_lens", lengths)
    dumper.dump("logits", torch.ones(2, 4), layer_id=1)
    assert "would be the lengths, but is no tensor" in refusal(tmp_path / "d")
    with open_capture(tmp_path / "d", scores="logits") as capture:
        assert capture.lengths.tolist() == [4, 4]


def test_a_tag_that_is_said_twice_tells_nothing(tmp_path: Path, refusal: Refusal) -> None:
    torch.save({"value": torch.ones(2, 4), "meta": {}}, tmp_path / "step=1___step=2___rank=0___name=logits.pt")
    assert "says 'step' twice" in refusal(tmp_path)
