"""Flags in a help text: they take no value, so that no type stands beside them."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class Flags:
    """Before a Typer command or group: Typer from 0.28 on puts ``<bool>`` beside a flag, as if it took a value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, of which flags are shown by their names alone."""
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for one in found:
            if getattr(one, "is_flag", False):
                one.metavar = ""
        return found


class Group(Flags, TyperGroup):
    """A group of commands."""
