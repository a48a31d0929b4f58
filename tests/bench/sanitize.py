"""Run compute-sanitizer over every kernel, each on its small case, and write what it found.

python3 -m tests.bench.sanitize [--output FILE] [--case GLOB] [--limit SECONDS]

Needs a GPU and compute-sanitizer on the PATH; half an hour of a core, as many cases at a time as there are cores. Ends
with 1 if a tool found anything, or did not come to its end.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from itertools import product
from subprocess import PIPE, STDOUT

from tests.bench.results import ROOT, keep, on_gpu, parser_for
from tests.gpu.small_cases import named

TOOLS = ("racecheck", "memcheck", "synccheck")  # the slowest first
SUMMARY = re.compile(r"SUMMARY: (.+)")
CLEAN = re.compile(r"0 (errors|hazards)\b")


def found(tool: str, case: str, limit: float) -> str:
    """What a tool says of a case at its end, or why it does not."""
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "1", sys.executable, "-m"]
    command += ["tests.gpu.small_cases", case]
    with subprocess.Popen(command, cwd=ROOT, stdout=PIPE, stderr=STDOUT, text=True, start_new_session=True) as ran:
        try:
            printed, _ = ran.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(ran.pid, signal.SIGKILL)  # the tool and what it watches
            return f"not ended after {limit:g} s"
    said = SUMMARY.findall(printed)
    if ran.returncode == 0 and said and f"{case}: " in printed:
        return str(said[-1])
    return f"exit code {ran.returncode}, {said[-1] if said else 'no summary'}: {printed[-800:]}"


def main() -> int:
    """Check and write."""
    parser = parser_for(__doc__, "sanitizer-h200.json")
    parser.add_argument("--case", default="*", help="as small_cases names them")
    parser.add_argument("--limit", type=float, default=400, help="seconds for a tool and a case")
    given = parser.parse_args()
    if shutil.which("compute-sanitizer") is None:
        sys.exit("no compute-sanitizer is on the PATH")
    cases = sorted((case for case in named("*") if fnmatch(case, given.case)), key=lambda case: "cluster" not in case)
    pairs = list(product(TOOLS, cases))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        told = dict(zip(pairs, pool.map(lambda pair: found(*pair, given.limit), pairs), strict=True))
    unclean = {pair: said for pair, said in told.items() if CLEAN.match(said) is None}
    result = {
        **on_gpu(compute_sanitizer=_version()),
        "command": f"python3 -m tests.bench.sanitize --output {given.output.name}",
        "what": "one small case a kernel, with telemetry and without; what each tool said at its end",
        "clean": not unclean,
        "cases": {case: {tool: told[tool, case] for tool in TOOLS} for case in sorted(cases)},
    }
    keep(given.output, result)
    for (tool, case), said in unclean.items():
        print(f"{tool}, {case}: {said}", file=sys.stderr)
    return 1 if unclean or not cases else 0


def _version() -> str:
    said = subprocess.run(["compute-sanitizer", "--version"], check=False, capture_output=True, text=True).stdout
    match = re.search(r"Version (\S+)", said)
    return match.group(1) if match else "not told"


if __name__ == "__main__":
    sys.exit(main())
