"""Where the files that are no Python modules are: in a checkout, or inside the installed package.

A checkout comes first: an editable install holds only the copies of the day it was made.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent
_CHECKOUT = _PACKAGE.parent


def _find(in_checkout: str, in_package: str) -> Path:
    if (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / in_checkout).exists():
        return _CHECKOUT / in_checkout
    packaged = _PACKAGE / in_package
    if not packaged.exists():
        raise FileNotFoundError(f"{in_checkout} is neither in the checkout nor in the installed package")
    return packaged


def kernels_dir() -> Path:
    """The folder of the CUDA C++ sources."""
    return _find("kernels", "_kernels")


def samples_dir() -> Path:
    """The folder of the sample captures."""
    return _find("captures", "_captures")


def app_entry() -> Path:
    """The script that Streamlit runs."""
    return _find("app.py", "_app.py")


VARIABLES = {
    "TOPK_WORKBENCH_VENDOR": "the folder of the store of released libraries",
    "TOPK_WORKBENCH_KERNELS": "the folder of compiled kernels",
    "TOPK_WORKBENCH_SCANS": "the folder of what scans of captures found",
    "TOPK_WORKBENCH_RECORD": "what processes of vLLM and SGLang record, and where to",
    "WORKBENCH_TRACEBACK": "whether an internal error shows where it happened",
}
"""Environment variables that the workbench reads for itself, and what each decides."""

DISTRIBUTION = "topk-workbench"
"""The name under which the workbench is installed."""
