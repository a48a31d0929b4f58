"""Give the sample captures to real released ops and write docs/results/releases-h200.json, a matrix row × release.

python3 -m tests.bench.bench_releases [--output FILE] [--calls N] [--device NAME]

It needs a GPU and the releases in the store (`workbench vendor add`, or `workbench vendor unpack` without a network):
of every package that an op of the samples belongs to, each release that is there is run.
"""

from __future__ import annotations

import argparse
import datetime
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import torch

from workbench.capture import Row, open_capture
from workbench.paths.ops import get_op
from workbench.runs.matrix import VENDOR, Matrix, matrix
from workbench.runs.matrix_saved import write_matrix
from workbench.runs.matrix_words import matrix_sentence
from workbench.runs.releases import find_releases

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "docs" / "results" / "releases-h200.json"
PACKAGES = ("vllm", "sglang-kernel")  # ops that are in the wheels themselves


def sample_rows(folder: Path) -> list[Row]:
    """The rows of the captures whose calls name an op of these packages, in the order of the files."""
    rows = []
    for file in sorted(folder.glob("*.safetensors")):
        with open_capture(file) as capture:
            ops = {call.op for call in capture.calls}
            if ops != {None} and all(op is not None and get_op(op).package in PACKAGES for op in ops):
                rows += [replace(row, capture=file.name) for row in capture]
    return rows


def measure(rows: Sequence[Row], calls: int, device: str, command: str) -> Matrix:
    """Every row in every release of its op that can be run here."""
    ops = tuple(dict.fromkeys(row.call.op for row in rows if row.call.op is not None))
    releases = find_releases(None, ops, VENDOR).releases
    found = matrix(rows, releases, engine=VENDOR, repeats=calls, device=device, progress=_say)
    about = {
        "date": datetime.date.today().isoformat(),
        "gpu": torch.cuda.get_device_name(),
        **{name: version(name) for name in ("torch", "numpy")},
        "command": command,
    }
    return replace(found, about=found.about | about)


def _say(done: int, total: int) -> None:
    if done == total or done % 10 == 0:
        print(f"{done} of {total} cells", file=sys.stderr)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--captures", type=Path, default=ROOT / "captures")
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--device", default="h200", help="as routing knows the GPU")
    given = parser.parse_args()
    words = [Path(word).name if "/" in word else word for word in sys.argv[1:]]
    command = shlex.join(["python3", "-m", "tests.bench.bench_releases", *words])
    found = measure(sample_rows(given.captures), given.calls, given.device, command)
    print(matrix_sentence(found))
    write_matrix(given.output, found, overwrite=True)


if __name__ == "__main__":
    main()
