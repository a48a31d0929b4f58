"""What an audit's records depend on besides what was asked: versions."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import pyarrow as pa
import torch


def versions() -> dict[str, str]:
    """By the names of the packages."""
    try:
        own = version("topk-workbench")
    except PackageNotFoundError:
        own = "unknown"
    return {"workbench": own, "torch": torch.__version__, "pyarrow": pa.__version__}
