from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.record import ops
from workbench.record import dispatch, seams


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """The engines' ops, and nothing left in place by the test before."""
    ops.register()
    yield
    assert dispatch._listeners == ()
    assert not seams._users
