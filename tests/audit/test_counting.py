"""What is counted over records follows their order, whatever order Arrow finds groups in."""

from __future__ import annotations

from tests.audit.made import census, table
from workbench.audit.counting import count


def test_every_row_of_a_file_is_counted_in_its_run() -> None:
    files = ["bad-row.safetensors", "rank0/step0.safetensors", "rank0/step2.safetensors", "rank1/step1.safetensors"]
    for extra in range(12):  # some of these make Arrow find a group late
        lines = [census(f"{name}{extra}", row, f"p{path}") for name in files for row in range(3) for path in range(32)]
        found = list(count([table(lines)]))
        assert [one.file for one in found] == [f"{name}{extra}" for name in files]
        assert [(one.tally.rows, one.tally.lines) for one in found] == [(3, 96)] * 4
        digests = [line["scores"] for line in lines[::32]]
        assert "".join(one.digests for one in found).split()[::2] == digests
