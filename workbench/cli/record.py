"""``workbench record``: a program with recording on, in it and in every Python process that it starts."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from workbench.cli.exits import complain
from workbench.cli.jsonout import print_json
from workbench.cli.options import INT64, SEEDS, Json, integer
from workbench.cli.tables import counted
from workbench.errors import UsageError
from workbench.words import because

STDERR = 2
EXIT_CODES = (
    "Exit codes: the program's own · 128 and the number of the signal that ended it · "
    "2 bad usage, and the program was not run"
)


def record(
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND …", help="The program and its arguments.", show_default=False)
    ],
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="Folder for the captures; made if it is not there.")],
    ops: Annotated[str, typer.Option(metavar="GLOBS", help="Which ops, globs parted by |, as in 'vllm.*'.")] = "*",
    rows: Annotated[
        str, typer.Option(metavar="RULE", help="bad (at risk, lossy or invalid), all, first:N or sample:P.")
    ] = "bad",
    seed: Annotated[int, typer.Option(**integer(0, SEEDS), help="Of the sample.")] = 0,
    padding: Annotated[bool, typer.Option("--padding/--no-padding", help="Keep cells past a row's length.")] = True,
    max_rows: Annotated[
        int | None, typer.Option(**integer(1, INT64), help="Of each process; then it records no more.")
    ] = None,
    max_calls: Annotated[int | None, typer.Option(**integer(1, INT64), help="Of each process.")] = None,
    max_bytes: Annotated[str | None, typer.Option(metavar="SIZE", help="Of each process, as in 4GiB.")] = None,
    file_bytes: Annotated[str, typer.Option(metavar="SIZE", help="A file is written once so much is held.")] = "64MiB",
    flush: Annotated[float, typer.Option(metavar="SECONDS", help="And once the oldest held row is so old.")] = 10.0,
    release: Annotated[
        str | None, typer.Option(metavar="RELEASE", help="By default that of the installed package.")
    ] = None,
    device: Annotated[str | None, typer.Option(metavar="DEVICE", help="By default the GPU's name.")] = None,
    model: Annotated[str | None, typer.Option(metavar="TEXT", help="What is served.")] = None,
    json: Json = False,
) -> int:
    """Run a program with recording on, in it and in every Python process that it starts.

    The program keeps stdin, stdout and its exit code, which is this command's too; what was recorded is said on stderr
    when it ends. With --json the program's stdout goes to stderr. Processes are reached when they import torch, in a
    Python that has the workbench; serve without CUDA graphs, which pass Python by.

    workbench record --to captures -- python decode.py
    workbench record --to captures --rows all --max-rows 1000 -- vllm serve MODEL --enforce-eager
    """
    from workbench.record.children import recording, unreachable
    from workbench.record.options import Options

    options = Options.checked(
        folder=to,
        ops=ops,
        rows=rows,
        seed=seed,
        padding=padding,
        max_rows=max_rows,
        max_calls=max_calls,
        max_bytes=max_bytes,
        file_bytes=file_bytes,
        flush=flush,
        release=release,
        device=device,
        model=model,
    )
    options.text()  # carries every option, or says which it cannot
    if reason := unreachable(os.environ):
        raise UsageError(reason)
    folder = Path(to)
    if shutil.which(command[0]) is None:
        raise UsageError(f"{command[0]}: no such program; give one after --")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise UsageError(f"{to}: the folder cannot be made: {because(error)}") from None
    before = _names_before(folder, to)
    with recording(options, os.environ) as environment:
        code = _run(command, environment, stdout=STDERR if json else None)
    done = _recorded(folder, before)
    if json:
        print_json({"command": "record", "folder": to, "exit_code": code, **done})
    else:
        _tell(to, done)
    return code


def _names_before(folder: Path, to: str) -> set[str]:
    """What lies in the folder, once it is seen that files can be written there: the program may run for hours.

    Raises:
        UsageError: they cannot.
    """
    try:
        with tempfile.TemporaryFile(dir=folder):
            return set(os.listdir(folder))  # noqa: PTH208  names, not paths
    except OSError as error:
        raise UsageError(f"{to}: nothing can be recorded there: {because(error)}") from None


def _run(command: list[str], environment: dict[str, str], stdout: int | None) -> int:
    """The program's exit code, or 128 and the number of the signal that ended it, as shells have it."""
    try:
        process = subprocess.Popen(command, env=environment, stdout=stdout)
    except OSError as error:
        raise UsageError(f"{command[0]}: cannot be run: {because(error)}") from None
    earlier = {number: signal.signal(number, _passed(process)) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        while True:
            try:
                code = process.wait()
                break
            except KeyboardInterrupt:  # the terminal has told the program as well; it ends in its own way
                continue
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def _passed(process: subprocess.Popen[bytes]) -> Any:
    def handler(number: int, frame: object) -> None:
        process.send_signal(number)

    return handler


def _recorded(folder: Path, before: set[str]) -> dict[str, Any]:
    """What is new in the folder, and what the processes say of it."""
    from workbench.record.files import LOG, read_log

    new = sorted(set(os.listdir(folder)) - before)  # noqa: PTH208
    read = [read_log(folder / name) for name in new if name.endswith(LOG)]
    logs: list[dict[str, Any]] = [log for log in read if log is not None]
    seen: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for log in logs:
        seen.update(log["seen"])
        skipped.update(log["skipped"])
    return {
        "processes": len(logs),
        "unfinished": sum(not log["finished"] for log in logs),
        "seen": dict(seen),
        "calls": sum(log["calls"] for log in logs),
        "rows": sum(log["rows"] for log in logs),
        "files": [str(folder / name) for name in new if name.endswith(".safetensors")],
        "skipped": dict(skipped),
        "stopped": sorted({log["stopped"] for log in logs} - {""}),
    }


def _tell(to: str, done: dict[str, Any]) -> None:
    seen = sum(done["seen"].values())
    if not seen and not done["skipped"]:
        complain(
            "no call was seen: the program called none of these ops, or called them in a Python without the workbench"
        )
        return
    kept = f"kept {counted(done['rows'], 'row')} of {counted(done['calls'], 'call')}"
    where = f" in {counted(len(done['files']), 'file')} in {to}" if done["files"] else ""
    complain(f"saw {counted(seen, 'call')} in {counted(done['processes'], 'process', 'processes')}; {kept}{where}")
    for reason, count in sorted(done["skipped"].items()):
        complain(f"not recorded, {counted(count, 'time')}: {reason}")
    if ends := done["unfinished"]:
        complain(
            f"{counted(ends, 'process', 'processes')} did not come to the end (killed, or running still): "
            "what was held then is not in the files, and not all calls are counted"
        )
    for reason in done["stopped"]:
        complain(f"ended early: {reason}")
