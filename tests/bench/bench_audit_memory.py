"""Audit a dump larger than the machine's memory, and write what the processes took to docs/results/audit-memory.json.

    python tests/bench/bench_audit_memory.py [--output FILE] [--times F] [--folder FOLDER]

The dump is made of sparse files, rows of zeros that take no room on the disk; all of it is read. Peak resident size is
that of the largest process: the command itself or a worker.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.audit.test_scale import GIB, sparse
from tests.bench.results import keep, on_host, parser_for

ROOT = Path(__file__).parents[2]
FILES, WIDTH, WORKERS, PATHS = 8, 262144, 2, "vllm.filtered"


def main() -> None:
    """Make the dump, audit it and write."""
    parser = parser_for(__doc__, "audit-memory.json")
    parser.add_argument("--times", type=float, default=1.25, help="the dump over the machine's memory")
    parser.add_argument("--folder", type=Path, help="where the dump is made")
    given = parser.parse_args()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    rows = int(memory * given.times / FILES / (4 * WIDTH)) + 1
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        dump, out = Path(folder, "dump"), Path(folder, "out")
        dump.mkdir()
        for number in range(FILES):
            sparse(dump / f"{number}.safetensors", rows, WIDTH)
        held = sum(file.stat().st_size for file in dump.iterdir())
        command = [sys.executable, "-m", "workbench", "audit", str(dump), "-o", str(out), "--paths", PATHS]
        began = time.monotonic()
        with subprocess.Popen([*command, "--executor", "processes", "--workers", str(WORKERS)], cwd=ROOT) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - began
        manifest = [json.loads(line) for line in (out / "manifest.jsonl").read_text().splitlines()]
    if process.returncode != 0 or sum(line["rows"] for line in manifest) != rows * FILES:
        sys.exit(f"the audit ended with {process.returncode}: {manifest}")
    result = {
        **on_host("torch", "numpy", "pyarrow"),
        "command": "python tests/bench/bench_audit_memory.py",
        "what": f"{FILES} sparse files, {rows * FILES} rows of {WIDTH} float32 zeros, {PATHS}, {WORKERS} workers",
        "dump_gib": round(held / GIB, 2),
        "machine_gib": round(memory / GIB, 2),
        "peak_mib_of_the_largest_process": used.ru_maxrss // 1024,
        "seconds": round(seconds, 1),
    }
    keep(given.output, result)


if __name__ == "__main__":
    main()
