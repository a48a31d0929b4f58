"""Arguments of every public function: of another type, they are told in words, as a user's mistake."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import workbench as wb
from workbench.arguments import checked
from workbench.synthetic.adversarial import Recipe

K, LENGTH = 512, 600
CALL = wb.Call(k=K, op="vllm.persistent_topk", release="vllm==0.26.0", device="h200", rows=1, stride=LENGTH)
RELEASE = "vllm==0.26.0"
WRONG = (None, "nonsense", 3, 2.5, float("nan"), True, b"nonsense", [], [3], {}, object(), torch.zeros(2), np.zeros(2))
ODD = ("+1", "", "a\n\x00", "\udc80", -1, 0, 10**5000, float("inf"), -0.0, (), range(3), {}.keys(), b"")
SLOW = {"audit", "bench", "doctor"}  # of these every argument that is taken takes a second
NOT_HERE = {"record"}  # its room checks its options itself: tests/record


@pytest.fixture
def good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments that every public function takes."""
    row = wb.Row(torch.randn(LENGTH, generator=torch.Generator().manual_seed(0)), LENGTH, call=CALL)
    monkeypatch.chdir(tmp_path)  # some of what is wrong is a file's name
    file, saved = tmp_path / "a.safetensors", tmp_path / "a.json"
    wb.write(file, [row])
    matrix = wb.matrix(row, RELEASE, repeats=1)
    wb.write_matrix(saved, matrix)
    return {
        "advise": ((row,), {}),
        "audit": ((file, tmp_path / "audited"), {}),
        "bench": ((), {"rows": 1, "width": LENGTH, "k": 5, "samples": 1, "warmups": 0}),
        "bisect_release": ((row, RELEASE), {"calls": 1}),
        "compare": ((row,), {}),
        "diverge": ((file, file), {}),
        "doctor": ((), {}),
        "export": ((row,), {"to": tmp_path / "to"}),
        "figure": ((wb.inspect(row),), {}),
        "inspect": ((row,), {}),
        "make": (("random",), {"length": LENGTH, "k": K}),
        "matrix": ((row, RELEASE), {"repeats": 1}),
        "open": ((file,), {}),
        "paths": ((), {}),
        "plan_topk_v2": (([100, 200], "sglang==0.5.21", "h200"), {}),
        "read_matrix": ((saved,), {}),
        "reference": ((row,), {}),
        "repeat": ((row, 2), {}),
        "route": ((row,), {}),
        "run": ((row,), {}),
        "shrink": ((row,), {}),
        "what_if": ((row, "vllm.filtered"), {}),
        "write": ((tmp_path / "b.safetensors", [row]), {"overwrite": True}),
        "write_matrix": ((tmp_path / "b.json", matrix), {"overwrite": True}),
    }


def functions() -> list[str]:
    """The public names that are called and no classes."""
    return [name for name in wb.__all__ if not inspect.isclass(getattr(wb, name)) and name not in NOT_HERE]


def bent(function: Callable[..., Any], args: Any, kwargs: Any, name: str, value: object) -> inspect.BoundArguments:
    """A call with one argument in place of a good one."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    starred = inspect.signature(function).parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
    bound.arguments[name] = (value, bound.arguments[name][-1]) if starred else value
    return bound


@pytest.mark.parametrize("name", functions())
def test_no_argument_of_any_type_raises_anything_but_an_error_in_words(name: str, good: dict[str, Any]) -> None:
    function = getattr(wb, name)
    args, kwargs = good[name]
    refused = unprintable = 0
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        for value in WRONG if name in SLOW else (*WRONG, *ODD):
            bound = bent(function, args, kwargs, parameter.name, value)
            try:
                function(*bound.args, **bound.kwargs)
            except wb.WorkbenchError as error:
                refused += parameter.name in str(error)
                unprintable += not str(error).isprintable()
    assert not unprintable
    assert refused >= len(inspect.signature(function).parameters)


RECIPE = [field.name for field in dataclasses.fields(Recipe)]


@pytest.mark.parametrize("field", [*RECIPE, "nonsense"])
def test_no_field_of_a_recipe_raises_anything_but_an_error_in_words(field: str) -> None:
    refused = 0
    for value in (*WRONG, *ODD):
        try:
            wb.make(path="vllm.filtered", **{field: value})
        except wb.UsageError as error:
            refused += field.replace("_", " ") in str(error).replace("_", " ")
    assert refused >= len(WRONG) + len(ODD) - 8  # a few are what it takes


class Contrary:
    """What raises at whatever is asked of it."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __repr__(self) -> str:
        raise RuntimeError

    __hash__ = object.__hash__


def methods(good: dict[str, Any]) -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """What users call of what public functions return, and make by public classes, with arguments that it takes."""
    (row,), _ = good["run"]
    capture, matrix = wb.open(good["open"][0][0]), good["write_matrix"][0][1]
    yield "Capture.from_rows", wb.Capture.from_rows, ([row],)
    yield "Capture.call_values", capture.call_values, ("k",)
    yield "Capture.read", capture.read, (0,)
    yield "Report.to_html", wb.run(row).to_html, ("page.html",)
    yield "Compared.only", wb.compare(row).only, ()
    yield "Compared.at", wb.compare(row).at, ("vllm.filtered",)
    yield "Matrix.row_name", matrix.row_name, (0,)
    yield "WhatIf.curve", wb.what_if(row, "vllm.filtered").curve, ("capacity",)
    for kind, arguments in (
        (wb.Row, (torch.zeros(4), 4)),
        (wb.Call, ()),
        (wb.Token, (1,)),
        (wb.Setup, ()),
        (wb.Arrival, ()),
        (wb.Mapped, ("page table",)),
    ):
        yield kind.__name__, kind, arguments


def test_no_argument_of_what_functions_return_or_of_records_raises_anything_but_an_error_in_words(
    good: dict[str, Any],
) -> None:
    for name, method, args in methods(good):
        for parameter in inspect.signature(method).parameters:
            refused = 0
            for value in (*WRONG, *ODD, Contrary()):
                bound = bent(method, args, {}, parameter, value)
                try:
                    method(*bound.args, **bound.kwargs)
                except wb.WorkbenchError as error:
                    refused += bool(str(error)) and str(error).isprintable()
                except (TypeError, IndexError) as error:  # as Python's own sequences do
                    refused += name == "Capture.read" and "row" in str(error)
                except Exception as error:
                    raise AssertionError(f"{name} with {parameter} of {type(value)}: {error!r}") from error
            assert refused >= 5, (name, parameter)


@pytest.mark.parametrize(
    ("name", "argument", "value", "said"),
    [
        (
            "run",
            "rows",
            "a.safetensors",
            r"rows is 'a.safetensors'; it must be a Row or a sequence \(each a Row\); open",
        ),
        ("run", "rows", [3], r"item 0 of rows is 3; it must be a Row$"),
        ("run", "rows", torch.zeros(3), r"rows is of type torch.Tensor; it must be a Row or a sequence"),
        ("run", "repeats", "3", r"repeats is '3'; it must be a whole number$"),
        ("run", "engine", 3, r"engine is 3; it must be text, an OpEngine, a function or a sequence"),
        ("matrix", "releases", 3, r"releases is 3; it must be text, a sequence \(each text\) or None$"),
        ("matrix", "repeats", True, r"repeats is True; it must be a whole number$"),
        ("matrix", "timeout", "soon", r"timeout is 'soon'; it must be a number or None$"),
        ("inspect", "row", "a.safetensors", r"row is 'a.safetensors'; it must be a Row; open a file first: workbench"),
        ("diverge", "runs", 3, r"runs is 3; it must be text, bytes, a path, a Capture"),
        ("write", "overwrite", 1, "overwrite is 1; True or False is needed"),
        ("write", "metadata", 3, "metadata is 3; a mapping is needed"),
        ("route", "setup", {}, r"setup is of type dict; it must be a Setup or None$"),
        ("run", "rows", range(3), r"item 0 of rows is 0; it must be a Row$"),
        ("matrix", "releases", range(3), r"item 0 of releases is 0; it must be text$"),
        pytest.param("run", "k", 10**5000, r"k is an integer of 16610 bits; one of at most 128 is needed$", id="huge"),
        ("plan_topk_v2", "rows", -1, "rows is -1; a call has 0 or more"),
        ("plan_topk_v2", "clusters_8", -1, "clusters_8 is -1; 0 or more is needed"),
    ],
)
def test_a_wrong_argument_is_named_with_what_it_must_be(
    name: str, argument: str, value: object, said: str, good: dict[str, Any]
) -> None:
    function = getattr(wb, name)
    bound = bent(function, *good[name], argument, value)
    with pytest.raises(wb.UsageError, match=said):
        function(*bound.args, **bound.kwargs)


def test_rows_of_an_iterator_are_checked_as_they_come(good: dict[str, Any]) -> None:
    (row,), _ = good["run"]

    def rows() -> Iterator[object]:
        yield row
        yield "a.safetensors"

    done: list[int] = []
    with pytest.raises(wb.UsageError, match=r"item 1 of rows is 'a.safetensors'; it must be a Row"):
        wb.run(rows(), progress=done.append)  # type: ignore[arg-type]
    assert done == [1]


def test_whole_numbers_of_numpy_are_whole_numbers(good: dict[str, Any]) -> None:
    (row,), _ = good["run"]
    report = wb.run(row, repeats=np.int64(2), k=np.int32(7))  # type: ignore[arg-type]
    assert [type(line.k) for line in report.lines] == [int, int]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            lambda: wb.make(path="vllm.filtered", population="+1"),
            r"population is '\+1'; it must be a whole number or None",
        ),
        (lambda: wb.Setup(backend=3), "backend is 3; it must be text or None"),  # type: ignore[arg-type]
        (lambda: wb.Setup(fused="no"), "fused is 'no'; it must be True or False"),  # type: ignore[arg-type]
        (lambda: wb.Arrival("explicit", order=[1]), "order is of type list; a tuple of whole"),  # type: ignore[arg-type]
        (lambda: wb.Arrival("explicit", order=("1",)), "a tuple of whole numbers"),  # type: ignore[arg-type]
    ],
)
def test_records_of_other_types_are_refused(made: Callable[[], object], said: str) -> None:
    with pytest.raises(wb.UsageError, match=said):
        made()


def test_a_missing_argument_and_an_unknown_one_are_said_by_python() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'rows'"):
        wb.run()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'row'"):
        wb.paths(row=3)  # type: ignore[call-arg]


def test_a_checked_function_keeps_its_name_its_signature_and_its_answer() -> None:
    @checked
    def double(number: int, *others: float, loud: bool = False, **more: object) -> list[float]:
        """Twice."""
        return [2 * one for one in (number, *others)]

    assert (double.__name__, double.__doc__) == ("double", "Twice.")
    assert list(inspect.signature(double).parameters) == ["number", "others", "loud", "more"]
    assert double(1, 2, 2.5, loud=True, anything="goes") == [2, 4, 5.0]
    with pytest.raises(wb.UsageError, match="others is 'x'; it must be a number"):
        double(1, 2.0, "x")  # type: ignore[arg-type]
