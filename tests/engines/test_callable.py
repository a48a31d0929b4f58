"""Callables as engines: the contract, and every way of breaking it in words."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import workbench as wb
from tests.runs.test_run import bad_row
from workbench.engines.callable import CallableEngine, name_of
from workbench.engines.launch import Answer, Launch


def launch(rows: int = 2, width: int = 8, k: int = 3, **more: Any) -> Launch:
    scores = torch.arange(rows * (width + 2), dtype=torch.float32).view(rows, -1)[:, :width]
    lengths = torch.full((rows,), width, dtype=torch.int32)
    given = {"op": "", "k": k, "scores": scores, "lengths": lengths, "max_seq_len": width}
    return Launch(**(given | {"slots": tuple(range(rows))} | more))


def answer(function: Callable[..., Any], calls: int = 1, **more: Any) -> Answer:
    return CallableEngine(function, "mine").answer(launch(**more), calls)


def test_the_contract() -> None:
    seen: list[Any] = []

    def mine(scores: torch.Tensor, lengths: torch.Tensor, k: int) -> torch.Tensor:
        seen.append((scores.shape, scores.stride(), scores.dtype, lengths.dtype, lengths.tolist(), k, type(k)))
        return torch.topk(scores, k).indices

    found = answer(mine, 2)
    assert seen == [((2, 8), (10, 1), torch.float32, torch.int32, [8, 8], 3, int)] * 2
    assert found.indices is not None
    assert found.indices.tolist() == [[[7, 6, 5]] * 2] * 2
    assert found.indices.dtype == torch.int32
    assert found.about == {"torch": torch.__version__}


def test_an_object_with_indices_is_taken_as_torch_gives_it() -> None:
    assert torch.equal(answer(lambda s, n, k: torch.topk(s, k)).indices, answer(lambda s, n, k: s.topk(k)[1]).indices)


def test_slots_that_stand_for_captured_rows_alone_come_back() -> None:
    found = answer(lambda s, n, k: torch.arange(4)[:, None].expand(4, k), rows=4, slots=(2, 0))
    assert found.indices is not None
    assert found.indices[0, :, 0].tolist() == [2, 0]


def test_starts_are_handed_to_who_takes_them() -> None:
    starts = torch.tensor([0, 3], dtype=torch.int32)
    seen: list[list[int]] = []

    def takes(scores: torch.Tensor, lengths: torch.Tensor, k: int, *, starts: torch.Tensor) -> torch.Tensor:
        seen.append(starts.tolist())
        return torch.zeros(2, k, dtype=torch.int32)

    answer(takes, starts=starts)
    answer(takes)
    assert seen == [[0, 3], [0, 0]]
    refused = answer(lambda s, n, k: None, starts=starts).refused
    assert refused == ("mine has no parameter starts, and row 1 of the batch starts at 3",)


def test_what_writes_to_its_input_harms_nothing_and_is_told() -> None:
    def writes(scores: torch.Tensor, lengths: torch.Tensor, k: int) -> torch.Tensor:
        best = torch.topk(scores, k).indices
        scores.fill_(torch.nan)
        lengths.zero_()
        return best

    asked = launch()
    before = asked.scores.clone()
    found = CallableEngine(writes, "mine").answer(asked, 3)
    assert found.indices is not None
    assert found.indices.tolist() == [[[7, 6, 5]] * 2] * 3
    assert found.notes == ("mine wrote to its scores",)
    assert torch.equal(asked.scores, before)
    assert asked.lengths.tolist() == [8, 8]
    nan = launch(scores=torch.full((2, 8), torch.nan))
    assert CallableEngine(lambda s, n, k: s.topk(k), "mine").answer(nan).notes == ()


def test_one_buffer_for_all_calls_is_read_before_the_next() -> None:
    buffer = torch.zeros(2, 3, dtype=torch.int32)
    found = answer(lambda s, n, k: buffer.add_(1), 3)
    assert found.indices is not None
    assert found.indices[:, 0, 0].tolist() == [1, 2, 3]


def raising(error: BaseException) -> Callable[..., Any]:
    def mine(*_: object) -> None:
        raise error

    return mine


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        (raising(ValueError("no\nway")), "mine raised ValueError: no way"),
        (raising(SystemExit(3)), "mine raised SystemExit: 3"),
        (raising(MemoryError()), "mine raised MemoryError"),
        (raising(RuntimeError("CUDA error: misaligned\nCompile with")), "raised RuntimeError: CUDA error: misaligned$"),
        (
            lambda s: s,
            r"mine raised TypeError: .* positional argument.*; it is called with scores \[rows, width\], lengths",
        ),
        (lambda s, n, k: None, r"mine returned nothing; int32 or int64 \[rows, k\]"),
        (lambda s, n, k: tuple(torch.topk(s, k)), "mine returned a tuple of 2; .* or an object with such indices"),
        (lambda s, n, k: [[1]], "mine returned a list of 1"),
        (lambda s, n, k: SimpleNamespace(indices=[1]), "mine returned types.SimpleNamespace"),
        (lambda s, n, k: torch.topk(s, k).values, r"mine returned float32 \[2, 3\]; int32 or int64 \[2, 3\] is needed"),
        (lambda s, n, k: torch.topk(s, k).indices[0], r"mine returned int64 \[3\]; int32 or int64 \[2, 3\]"),
        (lambda s, n, k: torch.topk(s, k + 1).indices, r"mine returned int64 \[2, 4\]"),
        (lambda s, n, k: torch.zeros(2, k, dtype=torch.int32, device="meta"), "indices on meta; .* needed on cpu"),
        (lambda s, n, k: torch.zeros(2, k, dtype=torch.int32).to_sparse(), "mine returned indices on torch.sparse_coo"),
        (lambda s, n, k: torch.full((2, k), 2**40), "mine returned index 1099511627776, which is no int32"),
    ],
)
def test_what_breaks_the_contract_is_a_fault_in_words(function: Callable[..., Any], fault: str) -> None:
    found = answer(function)
    assert found.indices is None
    assert found.refused == ()
    assert re.search(fault, found.fault), found.fault


class WordlessError(Exception):
    """An exception that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError


class Moody:
    """An object whose indices cannot be had."""

    @property
    def indices(self) -> torch.Tensor:
        raise ValueError("not now")


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        (raising(WordlessError()), "mine raised WordlessError$"),
        (lambda s, n, k: Moody(), "mine returned indices that cannot be read: ValueError: not now$"),
        (
            lambda s, n, k: torch.nested.as_nested_tensor([torch.zeros(k, dtype=torch.int32)] * 2),
            "mine returned indices that cannot be read: RuntimeError",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_what_cannot_be_looked_at_is_a_fault_too(function: Callable[..., Any], fault: str) -> None:
    assert re.search(fault, answer(function).fault)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda s: s.resize_(0),
        lambda s: s.untyped_storage().resize_(0),
        lambda s: setattr(s, "data", torch.zeros(3, dtype=torch.bool)),
        lambda s: setattr(s, "data", s.double()),
        lambda s: s.fill_(1),
    ],
)
def test_scores_are_written_to_in_whatever_way(spoil: Callable[[torch.Tensor], object]) -> None:
    def mine(scores: torch.Tensor, lengths: torch.Tensor, k: int) -> torch.Tensor:
        spoil(scores)
        return torch.zeros(2, k, dtype=torch.int32)

    found = answer(mine)
    assert (found.fault, found.notes) == ("", ("mine wrote to its scores",))


def test_an_interrupt_passes() -> None:
    with pytest.raises(KeyboardInterrupt):
        answer(raising(KeyboardInterrupt()))


def test_a_long_message_is_cut() -> None:
    assert len(answer(raising(ValueError("x" * 10_000))).fault) < 400


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused() -> None:
    found = CallableEngine(lambda s, n, k: s.topk(k), "mine", device="cuda").answer(launch())
    assert found.refused == (f"torch {torch.__version__} finds no CUDA device",)


class Selector:
    """A callable object."""

    def __call__(self, scores: torch.Tensor, lengths: torch.Tensor, k: int) -> torch.Tensor:
        return torch.topk(scores, k).indices


def test_names() -> None:
    assert name_of(name_of) == "workbench.engines.callable:name_of"
    assert name_of(Selector()) == "tests.engines.test_callable.Selector"
    assert name_of(torch.ops.aten.topk) == "torch.ops.aten.topk"
    assert name_of(torch.ops.aten.topk.default) == "torch.ops.aten.topk.default"


def test_a_fix_gets_the_same_verdicts_beside_the_model() -> None:
    report = wb.run(bad_row(), engine=["model", Selector()], repeats=3)
    assert [(line.engine, line.verdict) for line in report] == [("model", "lossy")] * 3 + [
        ("tests.engines.test_callable.Selector", "exact")
    ] * 3
    own = wb.run(bad_row(), engine=Selector())
    assert (own.lines[0].path, own.lines[0].risk) == ("vllm.histogram_256", "at risk")
    assert not own.loses  # the risk is that of the op's path
    assert own.judged


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("width", "length", "k"), [(1, 1, 1), (5, 5, 5), (9, 0, 4), (9, 3, 4), (9, 4, 4), (9, 5, 4)])
def test_odd_rows(dtype: torch.dtype, width: int, length: int, k: int) -> None:
    def mine(scores: torch.Tensor, lengths: torch.Tensor, k: int) -> torch.Tensor:
        found = torch.full((len(scores), k), -1)
        for row, (values, n) in enumerate(zip(scores, lengths.tolist(), strict=True)):
            best = values[:n].float().sort(descending=True, stable=True).indices[:k]
            found[row, : len(best)] = best
        return found

    row = wb.Row(torch.randn(width).to(dtype), length, call=wb.Call(k=k, rows=3))
    (line,) = wb.run(row, engine=mine)
    assert (line.verdict, line.refused, line.dtype) == ("exact", None, str(dtype).removeprefix("torch."))
