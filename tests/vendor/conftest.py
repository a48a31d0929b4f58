"""A store of its own for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.vendor.store import ENVIRONMENT


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store's folder, which does not exist yet."""
    folder = tmp_path / "store"
    monkeypatch.setenv(ENVIRONMENT, str(folder))
    return folder
