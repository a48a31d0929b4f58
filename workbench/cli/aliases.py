"""Options under names that they had, or that another command has for the like: taken, and not shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand

from workbench.cli.flags import Flags

ALIASES = {"--path": "--paths", "--overwrite": "--force"}


class Command(Flags, TyperCommand):
    """A command that takes an option by its other name, where that is not the name of another of its options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments, under the names that the command has."""
        known = {name for parameter in self.params for name in parameter.opts}
        names = {other: name for other, name in ALIASES.items() if name in known and other not in known}
        return super().parse_args(ctx, list(_renamed(args, names)))


def _renamed(args: list[str], names: dict[str, str]) -> Iterator[str]:
    """What stands behind ``--`` is no option."""
    end = args.index("--") if "--" in args else len(args)
    for at, one in enumerate(args):
        name, equals, value = one.partition("=")
        yield f"{names.get(name, name)}{equals}{value}" if at < end else one
