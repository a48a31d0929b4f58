"""Many files, one huge one, and a folder that others write into meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.audit.making import audited, content, dump, records, rows
from workbench.capture import write_capture
from workbench.capture.format import METADATA_KEY
from workbench.capture.source import Source

GIB = 2**30


def test_a_thousand_small_files(tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    folder.mkdir()
    write_capture(folder / "0.safetensors", rows(1, 200))
    whole = (folder / "0.safetensors").read_bytes()
    for number in range(1, 1000):
        where = folder / str(number % 7)
        where.mkdir(exist_ok=True)
        (where / f"{number}.safetensors").write_bytes(whole if number % 100 else whole[: -number // 10])
    found = audited(folder, tmp_path / "out", paths="vllm.*")
    assert (found.files, found.failed_files, found.rows) == (1000, 9, 991)
    assert records(tmp_path / "out")["file"].unique().to_pylist() == [
        line["file"]
        for line in map(json.loads, content(tmp_path / "out")["manifest.jsonl"].splitlines())
        if line["state"] == "done"
    ]
    assert len(list((tmp_path / "out" / "records").iterdir())) == 1


def test_a_folder_that_others_write_into(tmp_path: Path) -> None:
    """Whole files come by renaming, others grow under their name; some go again. All that was planned is told."""
    folder, out = dump(tmp_path / "dump", 6, count=20), tmp_path / "out"
    one = (folder / "rank0" / "step0.safetensors").read_bytes()
    stop, begun = threading.Event(), threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            (folder / ".part").write_bytes(one)
            (folder / ".part").rename(folder / f"whole{number}.safetensors")
            with (folder / f"growing{number % 3}.safetensors").open("ab") as growing:
                growing.write(one[: len(one) // 3])
            if number > 3:
                (folder / f"whole{number - 3}.safetensors").unlink()
            if number > 5:
                begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert begun.wait(60)
        found = audited(folder, out, paths="vllm.histogram_256", unit_bytes=8000)
    finally:
        stop.set()
        writer.join()
    manifest = {line["file"]: line for line in map(json.loads, content(out)["manifest.jsonl"].splitlines())}
    stable = [line for name, line in manifest.items() if name.startswith("rank")]
    assert [(line["state"], line["rows"]) for line in stable] == [("done", 20)] * 6
    assert found.rows == records(out).num_rows == sum(line["rows"] for line in manifest.values())
    for line in manifest.values():
        assert (line["state"] == "done") == (line["error"] is None)
    assert found.appeared


def sparse(path: Path, count: int, width: int) -> None:
    """A capture of rows of zeros that takes no room on the disk."""
    write_capture(path, rows(2, 300))
    source = Source(path)
    metadata = source.header.metadata[METADATA_KEY]
    source.close()
    path.unlink()
    lengths, scores = 4 * count, 4 * count * width
    header = {
        "__metadata__": {METADATA_KEY: metadata},
        "lengths": {"dtype": "I32", "shape": [count], "data_offsets": [0, lengths]},
        "k": {"dtype": "I32", "shape": [1], "data_offsets": [lengths, lengths + 4]},
        "scores": {"dtype": "F32", "shape": [count, width], "data_offsets": [lengths + 4, lengths + 4 + scores]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.write(width.to_bytes(4, "little") * count + (2048).to_bytes(4, "little"))
        file.truncate(8 + len(text) + lengths + 4 + scores)


@pytest.mark.slow
def test_memory_stays_flat_over_a_file_larger_than_it(tmp_path: Path) -> None:
    """4 GiB of scores in one process that may never hold 1 GiB of anything."""
    (tmp_path / "dump").mkdir()
    sparse(tmp_path / "dump" / "a.safetensors", 4096, 262144)
    assert (tmp_path / "dump" / "a.safetensors").stat().st_size > 4 * GIB
    command = [sys.executable, "-m", "workbench", "audit", str(tmp_path / "dump"), "-o", str(tmp_path / "out")]
    # By a process between, which is small: one that is started counts what started it as its own, once.
    between = "import resource, subprocess, sys; ended = subprocess.run(sys.argv[1:]).returncode; "
    between += "print(ended, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    audit = [*command, "--executor", "serial", "--paths", "vllm.radix"]
    told = subprocess.run([sys.executable, "-c", between, *audit], check=True, capture_output=True, text=True).stdout
    ended, most = told.split()[-2:]
    assert ended == "0"
    assert records(tmp_path / "out").num_rows == 4096
    assert int(most) < 512 * 1024, f"{most} KiB at most"
