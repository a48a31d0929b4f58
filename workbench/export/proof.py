"""The proof of a test before it is written: its own code, run on selectors that are known to lose and not to lose."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from workbench.errors import UsageError
from workbench.export.losing import Losing, random_order

Selector = Callable[[], torch.Tensor]
Told = Callable[[int, int], None]
"""Called before each call of a selector, with how many were made and how many there are at most; what it raises ends
the proof."""


def prove(losing: Losing, test: Callable[[Selector], None], runs: int = 1, told: Told | None = None) -> tuple[str, ...]:
    """Run a test on exact selectors, which must pass, and on the lossy model, which must not.

    Args:
        test: runs on a selector that gives the indices [k] of one call; raises AssertionError where it fails.
        runs: of the test on the lossy model, of which one must fail: more than one where the test makes a single call.
        told: called before each call of the lossy model.

    Returns:
        What was run, in words.

    Raises:
        UsageError: the test does not tell them apart.
    """
    passed = []
    for name, indices in _exact(losing):
        try:
            test(lambda indices=indices: indices)  # type: ignore[misc]
        except AssertionError as error:
            raise UsageError(f"the test was not written: it fails on {name}, which loses nothing: {error}") from None
        passed.append(name)
    calls = iter(range(losing.repeats))

    def lossy() -> torch.Tensor:
        number = next(calls)
        if told is not None:
            told(number, losing.repeats)
        return losing.select(random_order(losing.path, number)).indices

    try:
        for _ in range(runs):
            test(lossy)
    except AssertionError:
        return (*(f"passes on {name}" for name in passed), f"fails on the model of {losing.named}")
    raise UsageError(
        f"the test was not written: it passes on the model of {losing.named}, which lost nothing in "
        f"{losing.repeats} calls"
    )


def _exact(losing: Losing) -> Iterable[tuple[str, torch.Tensor]]:
    yield "the exact reference", losing.case.exact.indices
    for variant in losing.exact_variants():
        yield f"{losing.path.name} ({variant.name})", losing.select(losing.order, variant).indices


def run_source(source: str, at: Path, rows: int | None = None) -> Callable[[Selector], None]:
    """A generated test as a function of the selector that it runs.

    The functions that run are those of the source; imports and decorators of pytest alone are left out, so that the
    workbench proves tests where pytest is not installed.

    Args:
        source: of the test. at: where the file is to be, beside its fixture. rows: in the batch, for a test of an op.
    """
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if not (isinstance(node, ast.Import) and node.names[0].name == "pytest")]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = [one for one in node.decorator_list if "pytest" not in ast.unparse(one)]
    names: dict[str, Any] = {"__file__": str(at), "__name__": "exported"}
    (test,) = (node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))
    # The selector is the proof's own: an import of the user's would run code of theirs.
    tree.body = [node for node in tree.body if not _imports_select(node)]
    exec(compile(tree, str(at), "exec"), names)
    names["DEVICE"] = "cpu"

    def run(selector: Selector) -> None:
        def of_a_row(scores: torch.Tensor, k: int) -> torch.Tensor:
            return selector()

        def of_a_batch(scores: torch.Tensor, lengths: torch.Tensor, k: int) -> torch.Tensor:
            return selector().expand(scores.shape[0], -1)

        names["select"] = of_a_row if rows is None else of_a_batch
        names[test](*([] if rows is None else [rows]))

    return run


def _imports_select(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and any((one.asname or one.name) == "select" for one in node.names)
