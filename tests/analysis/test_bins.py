"""Bins as pictures and tables show them."""

from __future__ import annotations

import math

import torch

from workbench.analysis.bins import bin_contents, bin_label
from workbench.analysis.profile import RowProfile


def test_labels_name_infinities_and_nan() -> None:
    assert bin_label(188, 8) == "1 … 1.24902"
    assert bin_label(252, 8) == "+inf (≥ 65520)"
    assert bin_label(3, 8) == "-inf (≤ -65520)"
    assert bin_label(255, 8) == "NaN"
    assert bin_label(0, 8) == bin_label(253, 8) == "no number"
    assert bin_label(67, 8) == "-1.24902 … -1"


def test_contents_of_a_bin() -> None:
    row = RowProfile(torch.tensor([1.0, 1.2, 1.0, 1.1, 9.0]), "float32", 2)
    found = bin_contents(row, 8, 188, limit=3)
    assert (found.population, found.distinct, found.most_common, found.most_common_count) == (4, 3, 1.0, 2)
    assert found.indices.tolist() == [1, 3, 0]
    assert bin_contents(row, 8, 100) is None
    nan = bin_contents(RowProfile(torch.tensor([math.nan, -math.nan]), "float32", 1), 8, 255)
    assert (nan.population, nan.distinct) == (2, 1)
    assert math.isnan(nan.greatest)
