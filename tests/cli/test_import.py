"""``workbench import``: what it writes is what the dump opens as, what it tells, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import Result

from tests.cli.conftest import neighbours
from workbench.capture import Call, Row, Token, open_capture, write_capture

Cli = Callable[..., Result]
CliJson = Callable[..., tuple[int, Any]]


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    content = {
        "logits": torch.stack([neighbours(5000), torch.randn(20_000)]),
        "seq_lens": torch.tensor([20_000, 17], dtype=torch.int32),
        "topk_indices": torch.cat([torch.arange(2048).int()[None], torch.full((1, 2048), -1, dtype=torch.int32)]),
        "k": 2048,
        "hidden": torch.ones(3),
    }
    torch.save(content, tmp_path / "dump.pt")
    return tmp_path / "dump.pt"


def same_rows(one: Path, other: Path) -> None:
    with open_capture(one) as dumped, open_capture(other) as written:
        assert len(dumped) == len(written)
        for row, copy in zip(dumped, written, strict=True):
            assert row.scores.dtype == copy.scores.dtype
            assert torch.equal(row.scores.view(torch.uint8), copy.scores.view(torch.uint8))
            assert (row.length, row.start, row.call) == (copy.length, copy.start, copy.call)
            assert (row.indices is None) == (copy.indices is None)
            assert row.indices is None or torch.equal(row.indices, copy.indices)  # type: ignore[arg-type]
        assert written.verify() == []


def unnamed(value: Any) -> Any:
    """A document without the names of captures."""
    if isinstance(value, dict):
        return {key: unnamed(item) for key, item in value.items() if key != "capture"}
    return [unnamed(item) for item in value] if isinstance(value, list) else value


def test_what_is_written_is_what_the_dump_opens_as(cli: Cli, dump: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.safetensors"
    result = cli("import", dump, "-o", target)
    assert result.exit_code == 0
    assert f"Wrote 2 rows of 1 call to {target}." in " ".join(result.stdout.split())
    assert "recorded  selections of every row" in result.stdout
    assert "unknown   step, layer, rank, op, release, device, model, request" in result.stdout
    assert "'hidden' float32 [3]" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100 + len(str(tmp_path))
    same_rows(dump, target)
    with open_capture(target) as capture:
        assert capture.info.source == f"workbench import of {dump} (torch.save)"


def test_the_document_tells_what_was_kept_and_left(cli_json: CliJson, dump: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.safetensors"
    code, document = cli_json("import", dump, "-o", target, "--op", "vllm.persistent_topk")
    assert code == 0
    assert (document["command"], document["rows"], document["calls"]) == ("import", 2, 1)
    assert document["known"] == {"k": [2048], "op": "vllm.persistent_topk"}
    (source,) = document["sources"]
    assert source["used"] == ["logits", "seq_lens", "topk_indices"]
    assert source["left"] == ["'hidden' float32 [3]"]


def test_every_command_opens_dumps_directly(cli: Cli, cli_json: CliJson, dump: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.safetensors"
    cli("import", dump, "-o", target)
    for command in (
        ["inspect"],
        ["info", "--verify"],
        ["repeat", "--row", "0", "--path", "vllm.histogram_256", "--repeats", "2"],
    ):
        one, other = cli_json(command[0], dump, *command[1:]), cli_json(command[0], target, *command[1:])
        assert one[0] == other[0], command
    code, document = cli_json("inspect", dump)
    _, copy = cli_json("inspect", target)
    assert code == 1
    assert unnamed(document["rows"]) == unnamed(copy["rows"])


def test_several_sources_in_their_order(cli: Cli, tmp_path: Path) -> None:
    for at in range(3):
        np.savez(tmp_path / f"{at}.npz", scores=np.full((1, 9), at, np.float32), lens=np.array([at + 1]))
    target = tmp_path / "out.safetensors"
    assert cli("import", *(tmp_path / f"{at}.npz" for at in (2, 0, 1)), "-o", target, "--k", 1).exit_code == 0
    with open_capture(target) as capture:
        assert [row.scores[0].item() for row in capture] == [2, 0, 1]
        assert capture.lengths.tolist() == [3, 1, 2]
        assert capture.info.calls == 3
        assert [call.k for call in capture.calls] == [1, 1, 1]


def test_a_capture_keeps_its_tokens_and_its_source(cli: Cli, tmp_path: Path) -> None:
    write_capture(
        tmp_path / "a.safetensors", [Row(torch.randn(8), 8, call=Call(k=2))], source="by hand", tokens=[Token(0, 3)]
    )
    target = tmp_path / "out.safetensors"
    assert cli("import", tmp_path / "a.safetensors", "-o", target).exit_code == 0
    with open_capture(target) as capture:
        assert capture.info.source is not None
        assert capture.info.source.endswith("; by hand")
        assert capture.tokens[0].token == 3


def test_conversion_as_asked(cli: Cli, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[1.0, 0.5]]))
    target = tmp_path / "out.safetensors"
    refused = cli("import", tmp_path / "x.npy", "-o", target)
    assert refused.exit_code == 2
    assert "--as" in refused.stderr
    done = cli("import", tmp_path / "x.npy", "-o", target, "--as", "float32")
    assert done.exit_code == 0
    assert "float64 in the file and read as float32, as asked" in " ".join(done.stdout.split())
    np.save(tmp_path / "y.npy", np.array([[1.0, 0.1]]))
    refused = cli("import", tmp_path / "y.npy", "-o", tmp_path / "y.safetensors", "--as", "float32")
    assert refused.exit_code == 2
    assert "cell 1 is 0.1" in refused.stderr
    assert not (tmp_path / "y.safetensors").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("x.pt",), "name the capture to write"),
        (("nowhere.pt", "-o", "out.safetensors"), "no such file"),
        (("x.pt", "-o", "there.safetensors"), "give --force"),
        (("x.pt", "-o", "absent/out.safetensors"), "folder does not exist"),
        (("x.pt", "-o", "x.pt", "--force"), "this is what is read"),
        (("x.pt", "-o", "out.safetensors", "--scores", "z"), "no such tensor"),
        (("x.pt", "-o", "out.safetensors", "--lengths", "lens"), "not its scores"),
        (("x.pt", "-o", "out.safetensors", "--as", "int8"), "scores cannot be 'int8'"),
        (("x.pt", "-o", "out.safetensors", "--rows", "4"), "--rows is not stored by import"),
        (("x.pt", "half.pt", "-o", "out.safetensors"), "several dtypes"),
        (("unnamed.pt", "-o", "out.safetensors"), "It holds 'a' float32 [2, 3], 'b' int64 [2]"),
        (("x.pt", "-o", "out.safetensors", "--k", "9"), "k 9 is larger than the row width 3"),
    ],
)
def test_what_cannot_be_imported_is_one_line_and_writes_nothing(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"scores": torch.ones(2, 3), "lens": torch.tensor([3, 1])}, "x.pt")
    torch.save({"scores": torch.ones(2, 3).half()}, "half.pt")
    torch.save({"a": torch.ones(2, 3), "b": torch.tensor([3, 1])}, "unnamed.pt")
    (tmp_path / "there.safetensors").write_text("mine")
    before = sorted(path.name for path in tmp_path.iterdir())
    result = cli("import", *args)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_force_replaces(cli: Cli, dump: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.safetensors"
    target.write_text("mine")
    assert cli("import", dump, "-o", target, "--force").exit_code == 0
    same_rows(dump, target)
