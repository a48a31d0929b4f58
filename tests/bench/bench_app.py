"""Measure the app on large captures and write it to docs/results/app-cpu.json.

    python tests/bench/bench_app.py [--output FILE]

Every page is run as the server runs it, without a browser. Seconds are those that the process had on a core, so that
other work on the machine hardly shows; bytes are those of all messages that a run sends to the browser.
"""

from __future__ import annotations

import json
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import streamlit as st
import torch
from streamlit.testing.v1 import AppTest

from tests.bench.results import keep, on_host, parser_for

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.ui.pages import ROW_VIEWS, Sent, driven, measured, settled
from workbench.audit.kept import ENVIRONMENT
from workbench.capture import Call, Row, Token, write_capture
from workbench.ui import loading, scans

MILLION, K = 1 << 20, 2048
KNOWN = {"op": "vllm.persistent_topk", "release": "vllm==0.26.0", "device": "h200"}
LIMIT_S, LIMIT_BYTES = 0.5, 1_000_000
EVERY = 97  # of a tall capture's rows one in so many is bad


def row(width: int, k: int, random: torch.Generator, *, bad: bool, nan: bool = False, **call: Any) -> Row:
    """A normal row with the winners that were recorded; of a bad one half share a bin, and three winners are lost.

    Args:
        nan: half of its scores are NaN besides, every fourth of them with the sign set.
    """
    scores = torch.randn(width, generator=random)
    if bad:
        crowd = torch.randperm(width, generator=random)[: width // 2]
        scores[crowd] = 3 + torch.rand(width // 2, generator=random) * 0.003
    if nan:
        lost = torch.randperm(width, generator=random)[: width // 2]
        scores[lost] = torch.nan
        scores[lost[::4]] = scores[lost[::4]].neg()
    indices = scores.topk(k).indices.to(torch.int32)
    if bad:
        indices[-3:] = scores.argsort()[:3].to(torch.int32)
    known = {"k": k, "rows": 64, "width": width, "stride": width, "max_seq_len": width}
    return Row(scores, width, call=Call(**{**known, **call}), indices=indices)


def wide(path: Path, width: int = MILLION, rows: int = 6, k: int = K, nan: bool = False, **call: Any) -> Path:
    """A capture of few rows with many scores, every second one bad. ``nan``: half of each are NaN besides."""
    random = torch.Generator().manual_seed(1)
    write_capture(path, [row(width, k, random, bad=number % 2 == 1, nan=nan, **call) for number in range(rows)])
    return path


def tall(path: Path, rows: int = 10_000, width: int = 4096, k: int = 512, seed: int = 2) -> Path:
    """A capture of many rows, a run of as many steps as it takes with 50 layers."""
    random = torch.Generator().manual_seed(seed)
    found = [
        row(width, k, random, bad=at % EVERY == EVERY - 1, **KNOWN, layer=at % 50, step=at // 50) for at in range(rows)
    ]
    write_capture(path, found, tokens=[Token(step, step) for step in range((rows - 1) // 50 + 1)])
    return path


def many(folder: Path, files: int = 1000, width: int = 4096, k: int = 512) -> Path:
    """A folder of captures of four rows in ten folders; in one of fifty a row is bad."""
    random = torch.Generator().manual_seed(3)
    for number in range(files):
        where = folder / f"layer{number % 10}"
        where.mkdir(parents=True, exist_ok=True)
        rows = [
            row(width, k, random, bad=number % 50 == 0 and at == 3, **KNOWN, layer=number % 10, step=number // 10)
            for at in range(4)
        ]
        write_capture(where / f"step{number // 10:03}.safetensors", rows)
    return folder


def forget() -> None:
    """What was worked out is forgotten, as when the app starts."""
    st.cache_resource.clear()
    st.cache_data.clear()


def run(test: AppTest) -> Sent:
    """One run of a page."""
    with measured() as sent:
        test.run()
    assert not test.exception, [one.value for one in test.exception]
    return sent


def press(test: AppTest, label: str) -> Sent:
    """The run that a button asks for."""
    next(one for one in (*test.sidebar.button, *test.main.button) if one.label.startswith(label)).click()
    return run(test)


def told(sent: Sent) -> dict[str, float]:
    """Seconds and bytes of a run."""
    return {"seconds": round(sent.seconds, 3), "bytes": sent.bytes}


def row_switch(path: Path, turns: int = 5) -> dict[str, dict[str, float]]:
    """Turning to rows of which the list alone is known, in every view of a row."""
    forget()
    found = {}
    run(driven("inspect", [path], timeout=600))
    for view, params in ROW_VIEWS.items():
        loading._inspected.clear()
        test = driven(view.split(",")[0], [path], timeout=600, row=0, **params)
        with measured() as whole:
            settled(test.run())
        turned = []
        for number in range(1, turns + 1):
            test.query_params["row"] = str(number)
            turned.append(run(test))
        settled(test)  # what the last row began is none of the next view's
        found[view] = {
            "seconds": round(statistics.median(one.seconds for one in turned), 3),
            "at_most": round(max(one.seconds for one in turned), 3),
            "bytes": max(one.bytes for one in turned),
            "bytes_until_done": whole.bytes,
        }
    return found


def list_of_rows(path: Path) -> dict[str, dict[str, float]]:
    """A capture of many rows: opened, stepped through, and inspected as a whole."""
    forget()
    test = driven("inspect", [path], timeout=600)
    found = {"open": told(run(test))}
    for step in ("the first bad row", "the next bad row"):
        found[step] = told(press(test, "Next bad row"))
    found["inspect every row"] = told(press(test, "Inspect all"))
    found["the next bad row, every row inspected"] = told(press(test, "Next bad row"))
    test.sidebar.number_input[0].set_value(2)
    found["the second page of the list"] = told(run(test))
    return found


def other_pages(folder: Path) -> dict[str, dict[str, float]]:
    """Pages of whole captures on two runs of many rows."""
    forget()
    other = driven("divergence", [folder], timeout=600, run=[f"{folder.name}/{name}.safetensors" for name in "ab"])
    found = {"divergence": told(run(other)), "divergence, again": told(run(other))}
    test = driven("releases", [folder], timeout=600, source=f"{folder.name}/a.safetensors")
    found["releases, before rows are judged"] = told(run(test))
    for page in ("paths", "environment"):
        found[page] = told(run(driven(page, [folder], timeout=600)))
    return found


def folder_of_files(folder: Path) -> dict[str, Any]:
    """A folder of many files: opened on a page of a row, and scanned on the overview."""
    forget()
    test = driven("inspect", [folder], timeout=600)
    found: dict[str, Any] = {"inspect": told(run(test)), "inspect, again": told(run(test))}
    test = driven("overview", [folder], timeout=600)
    found["overview"] = told(run(test))
    found["scan_s"] = scanned()
    found["overview, scanned"] = told(run(test))
    forget()  # as when the app starts again: what is kept is read
    run(driven("overview", [folder], timeout=600))
    found["scan_again_s"] = scanned()
    return found


def scanned() -> float:
    """Seconds on a core until the scan that the overview began has ended."""
    (place,) = scans.places().values()
    held = scans.running(place, **dict.fromkeys(("op", "release", "device", "k")))
    assert held.thread is not None
    started = time.process_time()
    held.thread.join()
    assert held.scan.state == "done"
    return round(time.process_time() - started, 2)


def measurements(folder: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each by its name, as it is done."""
    os.environ[ENVIRONMENT] = str(folder / "scans")
    run(driven("paths", []))  # what is imported once is no part of what follows
    yield (
        "row_switch",
        {
            "what": f"turning to a row of {MILLION} float32 scores that is not kept: seconds of five rows, in the "
            "middle and at most, and bytes at most; bytes of a new session until nothing works for it any more; k "
            "2048; op, release and device known",
            "wanted": f"at most {LIMIT_S} seconds and {LIMIT_BYTES} bytes",
            "views": row_switch(wide(folder / "wide.safetensors", rows=16, **KNOWN)),
        },
    )
    yield (
        "row_switch_unknown",
        {
            "what": "the same where the capture does not say its op, so that every path is judged by its model",
            "views": row_switch(wide(folder / "unknown.safetensors")),
        },
    )
    yield (
        "row_switch_nan",
        {
            "what": "the same with half of each row NaN, of both signs; the op is known",
            "views": row_switch(wide(folder / "nan.safetensors", nan=True, **KNOWN)),
        },
    )
    yield (
        "row_switch_nan_unknown",
        {
            "what": "the same where the op is not known either: exact paths are then run under two more arrival orders "
            "each, since what they lose to NaN is found so",
            "views": row_switch(wide(folder / "nan-unknown.safetensors", nan=True)),
        },
    )
    yield (
        "rows_10000",
        {
            "what": "a capture of 10000 x 4096, one row in 97 bad",
            "runs": list_of_rows(tall(folder / "tall.safetensors")),
        },
    )
    (folder / "runs").mkdir()
    for seed, name in enumerate("ab"):
        tall(folder / "runs" / f"{name}.safetensors", width=1024, k=256, seed=seed)
    yield "whole_captures", {"what": "two runs of 10000 x 1024 each", "runs": other_pages(folder / "runs")}
    yield (
        "files_1000",
        {"what": "a folder of 1000 files of 4 x 4096", "runs": folder_of_files(many(folder / "files"))},
    )


def shown(found: Iterator[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The same, each told on stderr when it is done."""
    for name, one in found:
        print(f"{name}: {json.dumps(one)}", file=sys.stderr, flush=True)
        yield name, one


def main() -> None:
    """Measure and write."""
    output = parser_for(__doc__, "app-cpu.json").parse_args().output
    logging.disable(logging.WARNING)  # of Streamlit, that there is no server
    with tempfile.TemporaryDirectory() as folder:
        result = {
            **on_host("torch", "streamlit", "plotly"),
            "command": "make bench",
            "seconds": "on a core, of all threads of the process",
            **dict(shown(measurements(Path(folder)))),
        }
    keep(output, result)


if __name__ == "__main__":
    main()
