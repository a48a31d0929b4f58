"""Writes the public-*.safetensors samples: score rows rebuilt from what public bug reports describe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared import command_line, describe, need, write

if TYPE_CHECKING:
    import numpy as np

    from workbench.capture.row import Row

REBUILT = "rebuilt from the report's description by captures/make/public_reports.py; "
V100 = (
    "https://github.com/vllm-project/vllm/issues/51782, comment of 2026-08-28 (Tesla V100, CUDA 12.8, PyTorch 2.10.0): "
    "4096 consecutive integers from 806736 down, the rest of 806736 columns -inf, k 512. " + REBUILT + "bit for bit. "
    "The reporter's tree derives from vLLM and includes #41444; which release it equals is not said"
)
B300 = (
    "https://github.com/vllm-project/vllm/issues/51782, description of 2026-08-11 (B300, CUDA 13.0, PyTorch 2.11.0, "
    "vLLM 0.20.1.dev408+ga019ba60d): 33 rows of values in [1.0, 1.245), k 2048, at the lengths around the buffer's "
    "16384; reported: 0, 6, 11 and 33 rows with losses at 16384, 16385, 16386 and 16512. " + REBUILT + "one row a "
    "length, NumPy PCG64 with the length as seed, not the reporter's random numbers"
)
ISSUE_36807 = (
    "https://github.com/sgl-project/sglang/issues/36807, 2026-08-28 (B200, CUDA 13, PyTorch 2.13.0, "
    "sglang-kernel 0.4.6.post1+cu130): 64 standard normal rows of 262144, k 2048, every row with 6 to 42 wrong "
    "members. " + REBUILT + "one row, NumPy PCG64 with seed 0, not the reporter's random numbers"
)
PULL_30645 = (
    "https://github.com/sgl-project/sglang/pull/30645, 2026-07-09 (H200): 100 winners over 8220 exact zeros, k 2048; "
    "924 entries were invalid before the repair of that request, which 0.5.15 has. " + REBUILT + "the winners' values "
    "and places are not reported: uniform in [0.5, 6.0) at random places, NumPy PCG64 with seed 0. The report says "
    "top-k v2; that it was the paged transform is inferred from the decode run that crashed"
)
EPILOG = "needs NumPy and the workbench only, downloads nothing.\n\nexample: python captures/make/public_reports.py"


@dataclass(frozen=True)
class Report:
    """One file: rows, their calls and what the report says of op, release and device (``None``: it does not say)."""

    name: str
    rows: list[Row]
    op: str
    release: str | None
    device: str
    source: str


def main() -> None:
    arguments = command_line(__doc__ or "", EPILOG, cached=False).parse_args()
    need("workbench", "numpy", "torch", "safetensors")
    for report in reports():
        print(f"\n{report.name}")
        describe(report.rows, lambda row: f"call {row.call.index}")
        path = arguments.out / f"{report.name}.safetensors"
        write(path, report.rows, report.source, op=report.op, release=report.release, device=report.device)


def reports() -> list[Report]:
    """The reports, each with its rows."""
    import numpy as np

    visible, columns = 4096, 806_736
    descending = np.full(columns, -np.inf, np.float32)
    descending[:visible] = columns - np.arange(visible)
    v100 = row(
        "public-vllm-v100", descending, visible, k=512, rows=1, width=columns, stride=columns, max_seq_len=columns
    )

    b300 = [
        row("public-vllm-b300", random(length).uniform(1.0, 1.245, length), length, number, k=2048, rows=33)
        for number, length in enumerate((16384, 16385, 16386, 16512))
    ]

    long = random(0).standard_normal(262_144)
    normal = row("public-sglang-normal", long, long.size, k=2048, rows=64, width=long.size, stride=long.size)

    generator = random(0)
    zeros = np.zeros(8320)
    zeros[generator.permutation(8320)[:100]] = generator.uniform(0.5, 6.0, 100)
    ties = row("public-sglang-zeros", zeros, 8320, k=2048)
    return [
        Report("public-vllm-v100", [v100], "vllm.persistent_topk", None, "v100", V100),
        Report("public-vllm-b300", b300, "vllm.persistent_topk", "vllm==0.20.1.dev408", "b300", B300),
        Report(
            "public-sglang-normal", [normal], "sglang.fast_topk_v2", "sglang-kernel==0.4.6.post1", "b200", ISSUE_36807
        ),
        Report("public-sglang-zeros", [ties], "sglang.topk_transform_paged_v2", None, "h200", PULL_30645),
    ]


def random(seed: int) -> np.random.Generator:
    """The same stream for the same seed wherever NumPy's PCG64 is the same."""
    import numpy as np

    return np.random.Generator(np.random.PCG64(seed))


def row(capture: str, scores: np.ndarray, length: int, number: int = 0, **call: Any) -> Row:
    """Row ``number`` of a capture, the only stored one of its call."""
    import numpy as np
    import torch

    from workbench.capture.row import Call, Row

    values = torch.from_numpy(scores.astype(np.float32))
    return Row(scores=values, length=length, call=Call(index=number, **call), index=number, capture=capture)


if __name__ == "__main__":
    main()
