"""Recorded selections that are no positions: what a file may say of them, and what it may not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import workbench as wb
from workbench.capture.format import MAPPING_TENSORS, RETURNED
from workbench.capture.joined import join
from workbench.capture.mapped import MOST_PAGE_SIZE
from workbench.paths.transforms import MODES

Stored = Callable[..., Path]
INDICES = torch.tensor([[37, 32], [41, -1]], dtype=torch.int32)
TABLE = torch.tensor([[8, 9, -1], [10, 3, 0]], dtype=torch.int32)
PAGED = {"returned": "page table", "page_size": 4}


def test_a_page_table_of_every_row(stored: Stored) -> None:
    with wb.open(stored(PAGED, indices=INDICES, page_table=TABLE)) as capture:
        assert capture.info.returned == "page table"
        assert capture.info.notes == ()
        row = capture[1]
        assert row.indices is not None
        assert row.indices.tolist() == [41, -1]  # as recorded
        assert row.mapped is not None
        assert (row.mapped.returned, row.mapped.page_size, row.mapped.offset) == ("page table", 4, None)
        assert row.mapped.table is not None
        assert row.mapped.table.tolist() == [10, 3, 0]
        assert capture.verify() == []


def test_one_page_table_for_all_rows(stored: Stored) -> None:
    with wb.open(stored(PAGED, indices=INDICES, page_table=TABLE[:1].contiguous())) as capture:
        tables = [row.mapped.table.tolist() for row in capture if row.mapped and row.mapped.table is not None]
        assert tables == [[8, 9, -1]] * 2


def test_offsets(stored: Stored) -> None:
    moved = torch.tensor([30, 40], dtype=torch.int32)
    with wb.open(stored({"returned": "offset"}, indices=INDICES, index_offsets=moved)) as capture:
        assert [row.mapped.offset for row in capture if row.mapped] == [30, 40]


@pytest.mark.parametrize("returned", ["page table", "offset"])
def test_mapped_indices_without_their_mapping(stored: Stored, returned: str) -> None:
    with wb.open(stored({"returned": returned}, indices=INDICES)) as capture:
        assert capture.verify() == []
        mapped = capture[0].mapped
        assert mapped is not None
        assert (mapped.returned, mapped.table, mapped.page_size, mapped.offset) == (returned, None, None, None)


def test_files_that_say_nothing_are_read_as_before(stored: Stored) -> None:
    inside = torch.tensor([[1, 2], [0, -1]], dtype=torch.int32)
    other = {"page_table": torch.zeros(3), "index_offsets": torch.zeros(7, dtype=torch.int64)}
    with wb.open(stored({"page_size": "large"}, indices=inside, **other)) as capture:
        assert capture[0].mapped is None
        assert capture.info.returned == "raw"
        assert capture.info.notes == (
            "metadata that is not read: 'page_size'",
            "page_table and index_offsets not read: recorded indices are said to be raw",
        )
    with (
        pytest.raises(wb.CaptureError, match="outside the row's 4 valid scores"),
        wb.open(stored(indices=INDICES)) as capture,
    ):
        _ = capture[0]


@pytest.mark.parametrize(
    ("strings", "tensors", "said"),
    [
        ({"returned": "slots"}, {}, "returned is 'slots'; it is one of raw, page table, offset"),
        ({"returned": 3}, {}, "returned is not a string"),
        ({"returned": "page table"}, {"page_table": TABLE}, "says nothing without page_size"),
        (PAGED | {"page_size": 3}, {}, "page_size is 3; a power of two is needed"),
        (PAGED | {"page_size": 0}, {}, "page_size is 0; an integer of 1 or more is needed"),
        (PAGED | {"page_size": True}, {}, "page_size is True"),
        (PAGED | {"page_size": "64"}, {}, "page_size is '64'"),
        (PAGED | {"page_size": 2 * MOST_PAGE_SIZE}, {}, "is the most"),
        (PAGED, {"page_table": TABLE.long()}, "dtype is int64; int32 is needed"),
        (PAGED, {"page_table": TABLE[0]}, r"shape is \[3\]; \[2, pages\], or \[1, pages\] for all rows"),
        (PAGED, {"page_table": TABLE.repeat(2, 1)}, r"shape is \[4, 3\]"),
        (PAGED, {"page_table": TABLE[:, :0].contiguous()}, r"shape is \[2, 0\]"),
        ({"returned": "offset"}, {"index_offsets": torch.tensor([1])}, r"dtype is int64"),
        ({"returned": "offset"}, {"index_offsets": torch.tensor([1], dtype=torch.int32)}, r"\[2\] is needed"),
        ({"returned": "offset"}, {"index_offsets": torch.tensor([1, -1], dtype=torch.int32)}, "row 1: offset -1 is"),
    ],
)
def test_what_no_mapping_can_be_is_refused_on_opening(
    stored: Stored, strings: dict[str, object], tensors: dict[str, torch.Tensor], said: str
) -> None:
    with pytest.raises(wb.CaptureError, match=said):
        wb.open(stored(strings, indices=INDICES, **tensors))


def test_negative_entries_are_refused_when_the_row_is_read(stored: Stored) -> None:
    wrong = torch.tensor([[37, 32], [-2, -1]], dtype=torch.int32)
    with wb.open(stored(PAGED, indices=wrong, page_table=TABLE)) as capture:
        assert capture[0].indices is not None
        with pytest.raises(wb.CaptureError, match="row 1: recorded entry -2 in slot 0 is negative"):
            _ = capture[1]


@pytest.mark.parametrize(
    ("table", "page_size", "said"),
    [
        ([[8], [9]], 2, "row 0: 1 pages of 2 are fewer than the 2 that its length, 4, takes"),
        ([[8, -1], [9, 1]], 2, "row 0: page 1 of the row has entry -1; no page is there"),
        ([[8, 8], [9, 1]], 2, "row 0: a page stands twice in the table"),
    ],
)
def test_tables_that_their_rows_contradict_are_told(
    stored: Stored, table: list[list[int]], page_size: int, said: str
) -> None:
    given = torch.tensor(table, dtype=torch.int32)
    with wb.open(stored(PAGED | {"page_size": page_size}, indices=INDICES, page_table=given)) as capture:
        assert capture[0].mapped is not None
        problems = capture.verify()
        assert 0 < len(problems) <= 2
        assert said in problems[0]
        assert "page_table" in problems[0]


def rows_with(*mapped: wb.Mapped | None) -> list[wb.Row]:
    """A row of four scores for each, of which the first two places were recorded."""
    call = wb.Call(k=2)
    indices = torch.tensor([1, 0], dtype=torch.int32)
    return [wb.Row(torch.arange(4.0), 4, call=call, indices=indices, mapped=one) for one in mapped]


def table(*pages: int) -> torch.Tensor:
    return torch.tensor(pages, dtype=torch.int32)


@pytest.mark.parametrize(
    ("mapped", "shape"),
    [
        ([wb.Mapped("page table", table(0, 7), 2), wb.Mapped("page table", table(0, 5), 2)], [2, 2]),
        ([wb.Mapped("page table", table(0, 7), 2), wb.Mapped("page table", table(0, 7), 2)], [1, 2]),
        ([wb.Mapped("page table", page_size=8), wb.Mapped("page table", page_size=8)], None),
        ([wb.Mapped("page table"), wb.Mapped("page table")], None),
        ([wb.Mapped("offset", offset=0), wb.Mapped("offset", offset=1)], None),
        ([wb.Mapped("offset"), wb.Mapped("offset")], None),
    ],
)
def test_what_is_written_is_read_again(tmp_path: Path, mapped: list[wb.Mapped], shape: list[int] | None) -> None:
    wb.write(tmp_path / "m.safetensors", rows_with(*mapped))
    with wb.open(tmp_path / "m.safetensors") as capture:
        shapes = {name: list(of) for name, _, of in capture.info.tensors}
        assert shapes.get("page_table") == shape
        for row, one in zip(capture, mapped, strict=True):
            found = row.mapped
            assert found is not None
            assert (found.returned, found.page_size, found.offset) == (one.returned, one.page_size, one.offset)
            assert (found.table is None) == (one.table is None)
            assert found.table is None or torch.equal(found.table, one.table)  # type: ignore[arg-type]
        wb.write(tmp_path / "copy.safetensors", capture)
    assert (tmp_path / "copy.safetensors").read_bytes() == (tmp_path / "m.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("mapped", "said"),
    [
        ((None, wb.Mapped("page table")), r"row 1: .*page table \(unknown\) against raw of row 0"),
        ((wb.Mapped("page table"), wb.Mapped("offset")), r"offset \(unknown\) against page table \(unknown\)"),
        ((wb.Mapped("offset"), wb.Mapped("offset", offset=1)), r"offset \(known\) against offset \(unknown\)"),
        (
            (wb.Mapped("page table", table(0, 1), 2), wb.Mapped("page table", table(0), 4)),
            "1 pages of 4 against page table of 2 pages of 2",
        ),
    ],
)
def test_one_file_holds_one_kind(tmp_path: Path, mapped: tuple[wb.Mapped | None, ...], said: str) -> None:
    with pytest.raises(wb.CaptureError, match=said):
        wb.write(tmp_path / "m.safetensors", rows_with(*mapped))
    assert list(tmp_path.iterdir()) == []


def test_memory_and_digests() -> None:
    rows = rows_with(wb.Mapped("page table", table(0, 7), 2))
    capture = wb.Capture.from_rows(rows)
    assert capture.info.returned == "page table"
    assert capture.mapped_of(0) is rows[0].mapped
    assert capture.digest != wb.Capture.from_rows(rows_with(None)).digest
    assert capture.digest != wb.Capture.from_rows(rows_with(wb.Mapped("page table", table(0, 6), 2))).digest
    assert rows[0].digest == rows_with(None)[0].digest  # the input of the selector is the same
    far = replace(rows[0], indices=torch.tensor([999, -1], dtype=torch.int32))
    assert wb.Capture.from_rows([far]).verify() == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("raw",), "returned is 'raw'; 'page table' or 'offset' is needed"),
        ((None,), "returned is None"),
        (("offset", table(1)), "a page table does not belong"),
        (("page table", None, None, 3), "an offset does not belong"),
        (("page table", table(1)), "without page_size"),
        (("page table", table(1), 6), "a power of two is needed"),
        (("page table", [1], 2), "the page table is list"),
        (("page table", table(1).long(), 2), r"the page table is int64 \[1\]"),
        (("page table", table(1)[None], 2), r"int32 \[1, 1\]; int32 \[pages\]"),
        (("page table", table(), 2), r"int32 \[0\]"),
        (("offset", None, None, -1), "offset is -1"),
    ],
)
def test_what_no_mapping_can_be(arguments: tuple[object, ...], said: str) -> None:
    with pytest.raises(wb.CaptureError, match=said):
        wb.Mapped(*arguments)  # type: ignore[arg-type]
    with pytest.raises(wb.CaptureError, match="a Mapped is needed"):
        replace(rows_with(None)[0], mapped="page table")  # type: ignore[arg-type]


def test_the_format_speaks_of_modes_that_ops_have() -> None:
    assert set(RETURNED) <= {mode.name for mode in MODES}
    with pytest.raises(wb.UsageError, match="the format's own"):
        wb.write("never.safetensors", rows_with(None), tensors={MAPPING_TENSORS[0].name: table(1)})


def test_joined_captures_keep_what_their_indices_are(tmp_path: Path) -> None:
    mapped = [wb.Mapped("page table", table(0, at), 2) for at in (7, 5)]
    for at, one in enumerate(mapped):
        wb.write(tmp_path / f"{at}.safetensors", rows_with(one))
    with wb.open(tmp_path / "0.safetensors") as a, wb.open(tmp_path / "1.safetensors") as b:
        joined = join([a, b])
        assert joined.info.returned == "page table"
        tables = [row.mapped.table.tolist() for row in joined if row.mapped and row.mapped.table is not None]
        assert tables == [[0, 7], [0, 5]]
        wb.write(tmp_path / "both.safetensors", joined)
    with wb.open(tmp_path / "both.safetensors") as both:
        assert both.info.returned == "page table"
        assert both.verify() == []
