"""Results that notebooks show richly, without the rooms that make them knowing how.

``workbench.figures`` is the renderer of all of them. It is asked for by name, and only when a notebook shows a result
or a page of it is written, so that the rooms below never import it.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, cast

from workbench.arguments import checked

RENDERER = "workbench.figures.notebook"


class Renderer(Protocol):
    """What ``RENDERER`` holds."""

    def display(self, result: object) -> None:
        """Show a result in the notebook that runs; NotImplementedError where nothing shows HTML."""

    def as_html(self, result: object) -> str:
        """A result as a piece of HTML without scripts, so without pictures."""

    def as_text(self, result: object) -> str:
        """A result as plain text."""

    def as_line(self, result: object) -> str:
        """A result in a line."""

    def save_page(self, result: object, path: str | os.PathLike[str], overwrite: bool) -> Path:
        """Write a result as a page of its own."""


class Pretty(Protocol):
    """The printer of IPython, as far as it is used. ``stack``: what is being printed, the outermost first."""

    stack: Sequence[int]

    def text(self, text: str) -> None:
        """Print a text."""


class Rendered:
    """A result that a notebook shows: sentence, pictures, tables; a terminal of IPython shows it as text.

    In a list or another container it is one line.

    The methods that begin with an underscore are the protocols of IPython, and of what follows it.
    """

    __slots__ = ()

    def __init_subclass__(cls, **arguments: object) -> None:
        """IPython takes a class's own ``__repr__``, which a dataclass has, before what its base prints."""
        super().__init_subclass__(**arguments)
        if "_repr_pretty_" not in vars(cls):
            cls._repr_pretty_ = cls._repr_pretty_  # type: ignore[method-assign]

    @checked
    def to_html(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the result as one HTML page that needs no network: what a notebook shows of it, or more.

        Args:
            path: of the file, which is whole or not there. overwrite: replace a file that is there.

        Returns:
            The path.

        Raises:
            UsageError: it cannot be written.
        """
        return _renderer().save_page(self, path, overwrite)

    def _ipython_display_(self) -> None:
        _renderer().display(self)

    def _repr_html_(self) -> str:
        return _renderer().as_html(self)

    def _repr_pretty_(self, printer: Pretty, cycle: bool) -> None:
        if cycle:
            printer.text(repr(self))
        else:
            printer.text(_renderer().as_line(self) if len(printer.stack) > 1 else _renderer().as_text(self))


def _renderer() -> Renderer:
    return cast("Renderer", importlib.import_module(RENDERER))
