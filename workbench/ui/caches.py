"""How Streamlit's caches take names of files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# Of every cache, as ``hash_funcs``: by itself Streamlit encodes text as UTF-8, which a file name that is none, as
# Python holds it, cannot be, so that one such name below a folder ends every page.
TEXT: dict[str | type[Any], Callable[[Any], Any]] = {str: _encoded}
