"""What is counted over records follows their order, whatever order Arrow finds groups in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.made import census, dataset, table
from tests.audit.test_summary import random_rows
from workbench.audit.counting import count
from workbench.audit.dataset import Dataset
from workbench.audit.summary import summarize


def test_every_row_of_a_file_is_counted_in_its_run() -> None:
    files = ["bad-row.safetensors", "rank0/step0.safetensors", "rank0/step2.safetensors", "rank1/step1.safetensors"]
    for extra in range(12):  # some of these make Arrow find a group late
        lines = [census(f"{name}{extra}", row, f"p{path}") for name in files for row in range(3) for path in range(32)]
        found = list(count([table(lines)]))
        assert [one.file for one in found] == [f"{name}{extra}" for name in files]
        assert [(one.tally.rows, one.tally.lines) for one in found] == [(3, 96)] * 4
        digests = [line["scores"] for line in lines[::32]]
        assert "".join(one.digests for one in found).split()[::2] == digests


@pytest.mark.parametrize("paths", ["*", "*.*"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_what_is_counted_when_it_is_written_is_what_is_counted_when_it_is_read(
    tmp_path: Path, seed: int, paths: str
) -> None:
    lines = [line for row in random_rows(seed) for line in row]
    found = summarize(Dataset(dataset(tmp_path / "out", [lines], paths=paths))).total
    tallies = [one.tally for one in count([table(lines)], paths)]
    assert found.bad == sum(one.found for one in tallies) > 0
    assert (found.rows, found.errors) == (sum(one.rows for one in tallies), sum(one.failed for one in tallies))
