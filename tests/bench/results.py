"""What measurements have in common: where they are written, and what is said of where they were made."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"


def processor() -> str:
    """The processor's name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def parser_for(about: str | None, name: str) -> argparse.ArgumentParser:
    """Of a measurement's own description, with ``--output``, by default the file of that name in docs/results."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=RESULTS / name)
    return parser


def on_host(*packages: str) -> dict[str, Any]:
    """Date, processor and versions."""
    return {
        "date": datetime.date.today().isoformat(),
        "device": f"{processor()}, {os.cpu_count()} cores",
        "versions": {name: version(name) for name in (*packages, "topk-workbench")},
    }


def on_gpu(**more: str) -> dict[str, Any]:
    """Date, GPU and versions; more of these by their names."""
    return {
        "date": datetime.date.today().isoformat(),
        "device": torch.cuda.get_device_name(),
        "versions": {name: version(name) for name in ("torch", "numpy")} | {"cuda": torch.version.cuda} | more,
    }


def keep(output: Path, result: Mapping[str, Any]) -> None:
    """Print a result and write it."""
    text = json.dumps(result, indent=2) + "\n"
    print(text, end="")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text)
