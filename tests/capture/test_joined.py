"""Several captures as one: rows, calls and what cannot be joined."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from workbench.capture import Call, Row, Token, open_capture, write_capture
from workbench.capture.joined import join
from workbench.errors import CaptureError, UsageError


def test_rows_and_calls_keep_their_order(tmp_path: Path) -> None:
    torch.save(
        [
            {
                "scores": torch.randn(2, 6),
                "lens": torch.tensor([6, 1]),
                "indices": torch.tensor([[0, 1], [0, -1]]),
                "k": 2,
            }
        ]
        * 2,
        tmp_path / "a.pt",
    )
    recorded = torch.tensor([4, 5], dtype=torch.int32)
    rows = [Row(torch.randn(8), 7, 1, Call(index=at, k=2, layer=at, op="x"), recorded) for at in range(3)]
    write_capture(tmp_path / "b.safetensors", rows)
    with open_capture(tmp_path / "a.pt") as one, open_capture(tmp_path / "b.safetensors") as other:
        read: list[int] = []
        both = join([one, other], read.append)
        assert (len(both), both.info.calls) == (7, 5)
        assert read == []
        parts = [*one, *other]
        for row, part in zip(both, parts, strict=True):
            assert torch.equal(row.scores, part.scores)
            assert (row.length, row.start, row.k, row.call.layer) == (part.length, part.start, part.k, part.call.layer)
            assert row.indices is not None
            assert part.indices is not None
            assert torch.equal(row.indices, part.indices)
            assert both.digest_of(row.index) == part.digest
        assert read == list(range(7))
        assert [list(both.rows_of(call)) for call in range(5)] == [[0, 1], [2, 3], [4], [5], [6]]
        assert [both.call_of(row) for row in range(7)] == [0, 0, 1, 1, 2, 3, 4]
        assert both.call_values("layer") == [0, 1, 2, None]
        assert both.verify() == []
        with pytest.raises(CaptureError, match="calls differ in op"):
            write_capture(tmp_path / "c.safetensors", both)
        write_capture(tmp_path / "c.safetensors", both, op="x")
    with open_capture(tmp_path / "c.safetensors") as copy:
        assert [call.layer for call in copy.calls] == [None, None, 0, 1, 2]
        assert [row.digest for row in copy] == [part.digest for part in parts]


def test_tokens_go_with_one_capture_alone(tmp_path: Path) -> None:
    row = Row(torch.randn(8), 8, call=Call(k=2))
    write_capture(tmp_path / "a.safetensors", [row], tokens=[Token(0, 3)])
    write_capture(tmp_path / "b.safetensors", [row])
    with open_capture(tmp_path / "a.safetensors") as one, open_capture(tmp_path / "b.safetensors") as other:
        assert len(join([one]).tokens) == 1
        with pytest.raises(UsageError, match="holds tokens"):
            join([other, one])
