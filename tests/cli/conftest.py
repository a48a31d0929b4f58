"""The program in-process, and small captures that it is run on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner, Result

from workbench.capture import Call, Row, write_capture
from workbench.cli.main import app

WIDTH = 20_000
KNOWN = Call(
    k=2048,
    rows=1,
    width=WIDTH,
    stride=WIDTH,
    max_seq_len=WIDTH,
    op="vllm.persistent_topk",
    release="vllm==0.26.0",
    device="h200",
)
ANONYMOUS = Call(k=2048)


def neighbours(count: int, width: int = WIDTH) -> torch.Tensor:
    """``count`` distinct float32 neighbours just above 1.0 in random places, all in one coarse bin; the rest at -3."""
    generator = torch.Generator().manual_seed(1)
    hot = (torch.arange(count, dtype=torch.int32) + 0x3F800001).view(torch.float32)
    scores = torch.full((width,), -3.0)
    scores[torch.randperm(width, generator=generator)[:count]] = hot[torch.randperm(count, generator=generator)]
    return scores


def spread_out(width: int = WIDTH, seed: int = 2) -> torch.Tensor:
    """Scores that break no path."""
    return torch.randn(width, generator=torch.Generator().manual_seed(seed)) * 100


def one_dropped() -> torch.Tensor:
    """4097 scores share the threshold bin, a buffer of 4096 drops one, and one of them is a winner."""
    scores = neighbours(4097)
    scores[(scores == -3).nonzero().flatten()[:2047]] = 100.0 + torch.arange(2047)
    return scores


def falling() -> torch.Tensor:
    """5000 neighbours just above 1.0, the greatest first."""
    scores = neighbours(5000)
    hot = scores != -3
    scores[hot] = scores[hot].sort(descending=True).values
    return scores


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of captures.

    ``broken`` overflows the path it reaches; ``mixed`` is healthy, broken, healthy; ``anonymous`` the same without op,
    release and device; ``healthy`` breaks nothing; ``tied`` overflows with equal scores only; ``unlucky`` can lose one
    winner and hardly ever does; ``ordered`` overflows in scores that fall along the row; ``half`` is bfloat16;
    ``foreign`` is no capture; ``damaged`` no safetensors file.
    """
    folder = tmp_path_factory.mktemp("captures")

    def write(name: str, rows: list[Row]) -> None:
        write_capture(folder / f"{name}.safetensors", rows)

    three = [spread_out(), neighbours(5000), spread_out(seed=3)]
    lengths = [WIDTH, WIDTH, 5000]
    write("broken", [Row(neighbours(5000), WIDTH, call=KNOWN)])
    write("mixed", [Row(scores, n, call=KNOWN) for scores, n in zip(three, lengths, strict=True)])
    write("anonymous", [Row(scores, n, call=ANONYMOUS) for scores, n in zip(three, lengths, strict=True)])
    write("healthy", [Row(spread_out(seed=seed), WIDTH, call=KNOWN) for seed in range(2)])
    write("tied", [Row(torch.zeros(WIDTH), WIDTH, call=KNOWN)])
    write("unlucky", [Row(one_dropped(), WIDTH, call=KNOWN)])
    write("ordered", [Row(falling(), WIDTH, call=KNOWN), Row(spread_out(), WIDTH, call=KNOWN)])
    write("half", [Row(spread_out(3000).bfloat16(), 3000, call=KNOWN) for _ in range(2)])
    save_file(
        {"layer.0.logits": torch.stack(three), "layer.0.lens": torch.tensor(lengths)}, folder / "foreign.safetensors"
    )
    (folder / "damaged.safetensors").write_bytes(b"not a safetensors file at all")
    return folder


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, forked_workers: None) -> Callable[..., Result]:
    """Run the program in-process with 100 columns; no defect of it may pass for an error of the user."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("WORKBENCH_TRACEBACK", "1")

    def run(*args: object) -> Result:
        result = CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)
        assert result.exit_code in (0, 1, 2, 130), result.stderr
        if result.exit_code == 2 and result.stderr:
            assert all(line.startswith("workbench: ") for line in result.stderr.splitlines())
        return result

    return run


@pytest.fixture
def cli_json(cli: Callable[..., Result]) -> Callable[..., tuple[int, Any]]:
    """Run with --json: the exit code and the one document on stdout, read strictly."""

    def run(*args: object) -> tuple[int, Any]:
        result = cli(*args, "--json")
        return result.exit_code, strict(result.stdout)

    return run


def strict(text: str) -> Any:
    """One JSON document without the literals that JSON does not know."""

    def refuse(literal: str) -> None:
        raise AssertionError(f"{literal} is no JSON")

    return json.loads(text, parse_constant=refuse)
