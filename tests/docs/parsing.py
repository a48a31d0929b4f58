"""Commands and code that are not run everywhere, held against what they call: the command line, modules, signatures."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import tomllib
from collections.abc import Callable, Sequence
from typing import Any

from typer.main import get_command

from tests.docs.blocks import ROOT, Block, Command, commands
from workbench.cli.aliases import ALIASES
from workbench.cli.main import app
from workbench.record.autostart import VARIABLE
from workbench.record.options import Options

# Programs of others, and modules that are run as such: what they take is theirs to say.
OTHERS = ("vllm", "torchrun", "jupyter", "compute-sanitizer")
OTHER_MODULES = ("sglang.launch_server",)


def check(block: Block) -> None:
    """Hold a block against what it calls.

    Raises:
        AssertionError: what is not there, with the place.
    """
    try:
        if block.kind == "python":
            check_code(block.body)
            return
        for command in commands(block):
            check_command(command)
    except Exception as error:
        raise AssertionError(f"{block}: {error}") from error


def check_command(command: Command) -> None:
    """A command line as its program takes it."""
    if VARIABLE in command.variables:
        Options.parse(command.variables[VARIABLE])
    check_words(command.words)


def check_words(words: Sequence[str]) -> None:
    """Program and arguments; of another's program, the Python that it is given to run."""
    program, *rest = words
    if program in OTHERS:
        inner = next((at for at, word in enumerate(rest) if word.startswith("python")), None)
        if inner is not None:
            check_words(rest[inner:])
        return
    assert program in _CHECKS, f"{program}: only {', '.join((*_CHECKS, *OTHERS))} are shown"
    _CHECKS[program](rest)


def unknown_in(text: str) -> list[str]:
    """What prose names in backticks, as in `` `workbench run --json` ``: commands, or options of them, that are not."""
    found = []
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    for named in re.findall(r"`(workbench [a-z][^`]*)`", prose):
        command: Any = (whole := get_command(app))
        words = named.split()[1:]
        while words and hasattr(command, "commands") and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        command = getattr(command, "commands", {}).get(command.name, command)  # the one that goes by the group's name
        known = {name for one in command.params for name in one.opts} | {"--help"} | set(ALIASES)
        options = [word.partition("=")[0] for word in words if word.startswith("--") and word != "--"]
        if command is whole or not set(options) <= known:
            found.append(named)
    return found


def check_code(body: str) -> None:
    """Python: it can be compiled, what it imports of ours is there, and its calls of that have such parameters."""
    tree = ast.parse(body)
    named: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ("workbench", "tests"):
            module = importlib.import_module(node.module)
            named |= {one.asname or one.name: getattr(module, one.name) for one in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in named:
            given = {one.arg: None for one in node.keywords if one.arg}
            inspect.signature(named[node.func.id]).bind(*[None for _ in node.args], **given)


def _workbench(words: Sequence[str]) -> None:
    command: Any = get_command(app)
    name, rest, context = "workbench", list(words), None
    while True:
        context = command.make_context(name, rest, parent=context)
        rest = [*getattr(context, "_protected_args", []), *context.args] if hasattr(command, "commands") else []
        if not rest:
            return
        name, command, rest = command.resolve_command(context, rest)


def _python(words: Sequence[str]) -> None:
    if words[:2] == ["-m", "pip"]:
        _pip(words[2:])
    elif words[0] == "-m":
        if words[1] not in OTHER_MODULES:
            assert importlib.util.find_spec(words[1]) is not None, f"no module {words[1]}"
    elif words[0] == "-c":
        check_code(words[1])
    else:
        ast.parse((ROOT / words[0]).read_text())


def _pip(words: Sequence[str]) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name in re.findall(r"\[([\w,-]+)\]", " ".join(words)):
        assert set(name.split(",")) <= set(extras), f"no extra {name}"


def _make(words: Sequence[str]) -> None:
    for target in words:
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), f"make: no target {target}"


def _cd(words: Sequence[str]) -> None:
    assert (ROOT / words[0]).is_dir(), f"no folder {words[0]}"


_CHECKS: dict[str, Callable[[Sequence[str]], None]] = {
    "workbench": _workbench,
    "python": _python,
    "python3": _python,
    "pip": _pip,
    "make": _make,
    "cd": _cd,
}
