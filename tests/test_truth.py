"""The models and the risk against what released ops returned on an H200.

Rows whose scores rise or fall along the threshold bin are the one kind whose mean a random arrival order does
not describe: real threads arrive roughly by position. A test names them, and holds walks against what they lost.
"""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch

from tests import truth
from workbench.analysis.profile import RowProfile
from workbench.analysis.reference import reference
from workbench.analysis.risk import ORDERED, Risk
from workbench.analysis.walks import walked_missing
from workbench.capture.row import Call, Row
from workbench.paths.catalog import get_path


@cache
def risks(case_id: str) -> dict[truth.Record, list[Risk]]:
    """The risk of every row of a case on the path that each record's op routes it to."""
    known = truth.Risks(truth.rows(case_id))
    return {record: known.of(record.op, record.release) for record in truth.records()[case_id]}


@pytest.mark.parametrize("case_id", truth.records())
def test_risk_agrees_with_every_record(case_id: str) -> None:
    for record, rows in risks(case_id).items():
        assert all(row.level is not None for row in rows), record
        may_lose = sum(row.level != "safe" for row in rows)
        assert max(record.bad_rows) <= may_lose, record
        if math.prod(row.p_clean for row in rows) < 0.01:
            assert max(record.bad_rows) > 0, record
        least, most = sum(row.least_missing for row in rows), sum(row.most_missing for row in rows)
        assert least <= min(record.missing_total), record
        assert max(record.missing_total) <= most, record
        if not any(abs(row.order_correlation or 0) > ORDERED for row in rows):
            expected = sum(row.expected_missing for row in rows)
            observed = sum(record.missing_total) / len(record.missing_total)
            assert abs(observed - expected) <= max(5, 0.25 * expected), (record, expected)


@pytest.mark.parametrize("case_id", [case_id for case_id in truth.cases() if truth.ordered(case_id)])
def test_walks_agree_with_every_record_of_rows_ordered_by_value(case_id: str) -> None:
    """In the mean, as random orders do on other rows, and always within the extremes: safe rows lose nothing."""
    (row,) = truth.rows(case_id)
    known: dict[tuple[str, str, str], tuple[int, ...]] = {}
    for record, (claimed,) in risks(case_id).items():
        given, path = truth.given_to(record.op, row), get_path(claimed.path)
        variant = path.variant(claimed.variant)
        if not variant.modelled:
            assert claimed.level == "safe"
            assert not any(record.missing_total), record
            continue
        key = (path.name, variant.name, given.dtype)
        if key not in known:
            known[key] = walked_missing(RowProfile(given.valid, given.dtype, row.k), path, variant)
        lost = known[key]
        assert claimed.least_missing <= min(lost), record
        assert max(lost) <= claimed.most_missing, record
        expected, observed = sum(lost) / len(lost), sum(record.missing_total) / len(record.missing_total)
        assert abs(observed - expected) <= max(5, 0.25 * expected), (record, expected)


def test_only_descending_integers_are_value_ordered() -> None:
    ordered = {
        case_id
        for case_id in truth.records()
        for rows in risks(case_id).values()
        if any(abs(row.order_correlation or 0) > ORDERED for row in rows)
    }
    assert ordered == {"s000-over_fp16", "s054-over_fp16"}


def test_the_records_hold_losses_and_clean_releases() -> None:
    lossy = {record.release for records in truth.records().values() for record in records if max(record.bad_rows) > 0}
    assert "vllm==0.26.0" in lossy
    assert "sglang-kernel==0.4.6" in lossy
    assert "vllm==0.33.0" not in lossy
    assert sum(map(len, truth.records().values())) == 6126


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_reference_values_are_those_of_torch_topk(dtype: torch.dtype) -> None:
    for case_id in truth.cases():
        for row in truth.rows(case_id)[:3]:
            scores = row.valid.to(dtype)
            wanted = min(row.k, row.length)
            expected = torch.topk(scores, wanted).values
            exact = reference(Row(scores, row.length, call=Call(width=4096)), row.k).indices
            assert torch.equal(scores[exact[:wanted].long()], expected), case_id
            assert (exact[wanted:] == -1).all()
