"""The What-if page as a person meets it: what it says and holds, what its link restores, bad links in a line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

Open = Callable[..., AppTest]
BAD = "dumps/bad-row.safetensors"


@pytest.fixture
def page(app: Open) -> Open:
    """Open the page on the row of 9000 scores in one bin."""

    def open_page(**params: str) -> AppTest:
        test = app(**{"capture": BAD, "row": "1", **params}, page="what-if")
        assert not test.exception
        return test

    return open_page
