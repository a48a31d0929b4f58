"""What a launch returns in place of positions: what kernels are told of it, and what the engine makes of it."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path as File
from typing import Any

import pytest
import torch

import workbench as wb
from tests.kernels import emulated
from tests.kernels.emulated import fewer_threads
from workbench.engines.base import Task
from workbench.engines.cuda import engine, launch
from workbench.engines.cuda.compile import Built, Facts
from workbench.engines.cuda.emission import NO_PAGE, Emission, emission_of, turned_back, unreturnable
from workbench.engines.cuda.engine import CudaEngine
from workbench.engines.cuda.grid import Grid
from workbench.engines.cuda.launch import prepare
from workbench.engines.cuda.launched import Geometry, Launched
from workbench.engines.cuda.sources import report_ints_of
from workbench.errors import UsageError
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import get_path
from workbench.paths.spec import Path
from workbench.paths.transforms import PageTable, Ragged
from workbench.resources import kernels_dir
from workbench.runs.case import Case
from workbench.runs.run import run_case

PATH, K = get_path("sglang.v2_register"), 64


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def test_it_is_one_thing_or_the_other() -> None:
    table = ints(4, 2)[None]
    for given, told in (
        ({}, "give tables or offsets"),
        ({"tables": table, "offsets": ints(1)}, "give tables or offsets"),
        ({"offsets": ints(1), "page_size": 64}, "belong to page tables"),
        ({"offsets": ints(1), "table_of": ints(0)}, "belong to page tables"),
        ({"tables": table, "page_size": 48}, "a power of two is needed"),
        ({"tables": table, "page_size": 0}, "page_size is 0"),
    ):
        with pytest.raises(UsageError, match=told):
            Emission(**given)


@pytest.mark.parametrize(
    ("emission", "told"),
    [
        (Emission(ints(4, 2)[None]), "1 page tables are fewer than the 3 rows: give table_of"),
        (Emission(ints(4, 2)[None], table_of=ints(0, 0)), r"table_of must be int32 \[3\]"),
        (Emission(ints(4, 2)[None].long(), table_of=ints(0, 0, 0)), r"tables must be int32 \[tables, pages\]"),
        (Emission(ints(4, 2), table_of=ints(0, 0, 0)), r"tables must be int32 \[tables, pages\]"),
        (Emission(ints(4, 2)[None].repeat(3, 1).T.contiguous().T), "the entries of a table side by side"),
        (Emission(ints()[None], table_of=ints(0, 0, 0)), r"tables must be int32 \[tables, pages\]"),
        (Emission(offsets=ints(4, 2)), r"offsets must be int32 \[3\], contiguous"),
        (Emission(offsets=torch.zeros(3)), r"offsets must be int32 \[3\], contiguous"),
        (Emission(offsets=ints(*range(6))[::2]), r"offsets must be int32 \[3\], contiguous"),
    ],
)
def test_what_a_launch_cannot_take(emission: Emission, told: str) -> None:
    (said,) = emission.refusals(3, torch.device("cpu"))
    assert re.search(told, said)


def test_tables_may_be_one_for_all_rows() -> None:
    assert Emission(ints(4, 2)[None].expand(3, 2), 128).refusals(3, torch.device("cpu")) == []
    assert Emission(ints(4, 2)[None], table_of=ints(0, 0, 0)).refusals(3, torch.device("cpu")) == []


@dataclass
class FakeKernel:
    """A kernel that keeps what it is launched with."""

    given: tuple[Any, ...] = ()

    def __call__(self, grid: object, block: object, arguments: tuple[Any, ...], shared_mem: int) -> None:
        self.given = arguments


class FakeCupy:
    """As much of CuPy as a launch uses; an array is the tensor itself."""

    class cuda:  # noqa: N801
        Device = staticmethod(nullcontext)

    class int32(int):  # noqa: N801
        pass

    @staticmethod
    def from_dlpack(tensor: torch.Tensor) -> torch.Tensor:
        return tensor


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> FakeKernel:
    """A device that is none, with the kernel that is launched on it."""
    made = FakeKernel()
    facts = Built(File("kernel.cubin"), Facts(100, 32, 0))
    for name, stands in {
        "unavailable": list,
        "_needs": lambda *given: (),
        "_grid": lambda *given: (Grid(zeroed=1), []),
        "_loaded": lambda *given: (made, facts),
        "_clusters": lambda *given: None,
        "_checked": lambda path, variant, scores, *given: scores.shape[0],
        "load_cupy": lambda: FakeCupy,
        "current_stream": lambda *given: nullcontext(),
    }.items():
        monkeypatch.setattr(launch, name, stands)
    return made


def parameters() -> list[tuple[str, str]]:
    """Type and name of each parameter of the kernels, as their source has them."""
    text = (kernels_dir() / "call.cuh").read_text()
    (found,) = re.findall(r"workbench_select\((.*?)\) \{", text, flags=re.DOTALL)
    split = (" ".join(one.replace("\\", " ").split()).removeprefix("const ") for one in found.split(","))
    return [tuple(one.rsplit(" ", 1)) for one in split]  # type: ignore[misc]


def test_every_parameter_gets_what_it_is_named_for(kernel: FakeKernel) -> None:
    rows, out = torch.zeros(3, 500), torch.full((3, 2 * K), -777, dtype=torch.int32)
    lengths, starts, spans = ints(400, 4, 0), ints(0, 1, 2), torch.zeros(4, 2, dtype=torch.int32)
    emission = Emission(torch.arange(40, dtype=torch.int32).view(4, 10)[:, :8], 64, ints(3, 0, 1))
    made = prepare(
        *(PATH, "stock", rows[:, :480], lengths, K),
        starts=starts,
        output=out[:, :K],
        positions=out[:, K:],
        emission=emission,
        spans=spans,
        dropped=7,
        histograms=True,
    )
    made()
    names = [name for _, name in parameters()]
    assert len(kernel.given) == len(names)
    given = dict(zip(names, kernel.given, strict=True))
    same = {"scores": rows, "lengths": lengths, "starts": starts, "spans": spans, "tables": emission.tables}
    same |= {"table_of": emission.table_of, "output": out[:, :K], "positions": out[:, K:]}
    assert {name for name, one in same.items() if given[name].data_ptr() != one.data_ptr()} == set()  # type: ignore[union-attr]
    numbers = {"stride": 500, "width": 480, "rows": 3, "k": K, "output_stride": 2 * K, "table_stride": 10, "pages": 8}
    numbers |= {"page_bits": 6, "offsets": 0, "blocks": 1, "dropped_room": 7}
    assert {name: given[name] for name in numbers} == numbers
    assert tuple(given["reports"].shape) == (3, report_ints_of(PATH, "stock"))
    assert given["workspace"].numel() == 3
    for kind, name in parameters():
        value = given[name]
        if kind == "int":
            assert isinstance(value, FakeCupy.int32), name  # four bytes
        elif kind == "long long" or value is None or isinstance(value, int):
            assert type(value) is int, name  # eight
        else:
            assert isinstance(value, torch.Tensor), name
            assert kind in ("int*", "float*")


def test_offsets_and_nothing_at_all(kernel: FakeKernel) -> None:
    names = [name for _, name in parameters()]
    offsets = ints(5, 0, 9)
    for emission, expected in ((Emission(offsets=offsets), offsets), (None, 0)):
        prepare(PATH, "stock", torch.zeros(3, 500), ints(400, 4, 0), K, emission=emission)()
        given = dict(zip(names, kernel.given, strict=True))
        assert given["offsets"] is expected or torch.equal(given["offsets"], expected)
        assert [given[name] for name in ("tables", "table_stride", "pages", "page_bits", "table_of")] == [0] * 5
        assert given["positions"] == 0
    out = torch.zeros(3, 2 * K, dtype=torch.int32)[:, :K]
    for output in (None, out):
        made = prepare(PATH, "stock", torch.zeros(3, 500), ints(400, 4, 0), K, output=output, positions=True)
        beside = made.launched.positions
        assert beside is not None
        assert (tuple(beside.shape), beside.stride()) == ((3, K), (made.launched.indices.stride(0), 1))
        assert bool((beside == -777).all())
        assert given["output_stride"] == K


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"output": torch.zeros(3, K)}, "output must be int32"),
        ({"output": torch.zeros(1, K, dtype=torch.int32).expand(3, K)}, "rows apart from each other"),
        ({"output": torch.zeros(K, 3, dtype=torch.int32).T}, "rows apart from each other"),
        ({"positions": torch.zeros(3, K + 1, dtype=torch.int32)}, rf"positions must be int32 \[3, {K}\]"),
        ({"positions": torch.zeros(3, 2 * K, dtype=torch.int32)[:, :K]}, f"rows of positions lie {2 * K} apart"),
        ({"emission": Emission(offsets=ints(1))}, r"offsets must be int32 \[3\]"),
    ],
)
def test_outputs_that_are_refused(given: dict[str, Any], told: str, kernel: FakeKernel) -> None:
    with pytest.raises(UsageError, match=told):
        prepare(PATH, "stock", torch.zeros(3, 500), ints(400, 4, 0), K, **given)


TABLE = ints(*(3 * at % 127 + 5 for at in range(90)))


@pytest.mark.parametrize(
    ("mapped", "length", "told"),
    [
        (wb.Mapped("page table", TABLE, page_size=64), 5761, "90 pages of 64 are fewer than the 91"),
        (wb.Mapped("page table", ints(4, 4), page_size=64), 70, "stands twice"),
        (wb.Mapped("page table", ints(4, -1), page_size=64), 70, "no page is there"),
        (wb.Mapped("page table", ints(2**25, 1), page_size=64), 70, r"slots on page 33554432 of 64 tokens pass int32"),
        (wb.Mapped("offset", offset=2**31 - 70), 71, "pass int32"),
    ],
)
def test_mappings_that_cannot_be_turned_back(mapped: wb.Mapped, length: int, told: str) -> None:
    (said,) = unreturnable(mapped, length)
    assert re.search(told, said)
    task = Task(wb.Row(torch.randn(9000), length, mapped=mapped), K, Arrival(), PATH)
    if length > K:
        assert said in CudaEngine().refusals(task)


def test_mappings_that_can() -> None:
    for mapped, length in (
        (None, 9),
        (wb.Mapped("page table"), 9),
        (wb.Mapped("offset"), 9),
        (wb.Mapped("offset", offset=2**31 - 70), 70),
        (wb.Mapped("page table", ints(2**25 - 1), page_size=64), 64),
        (wb.Mapped("page table", ints(4, 4), page_size=64), 64),
    ):
        assert unreturnable(mapped, length) == []
    assert emission_of(wb.Mapped("page table"), torch.device("cpu")) is None


def test_garbage_is_told_by_its_position() -> None:
    """A slot that no score fills holds whatever the path leaves there: it is no position of the row before or after."""
    selected = ints(5, -3, 2**31 - 1, -1, -777, 130)
    mapped = wb.Mapped("page table", ints(9, 4), page_size=64)
    returned = ints(9 * 64 + 5, NO_PAGE, NO_PAGE, -1, -777, NO_PAGE)
    assert torch.equal(turned_back(returned, selected, mapped, 100), selected)
    wrong = returned.clone()
    wrong[0] += 1
    assert turned_back(wrong, selected, mapped, 100).tolist()[0] == 6  # what is returned is believed


@pytest.fixture
def on_the_cpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[Emission | None]:
    """The engine launches kernels that are built for the CPU; what each launch was to return."""
    folder, said = File(str(request.config.cache.mkdir("emulated-kernels"))), list[Emission | None]()

    def launched(
        path: Path, variant: str, scores: torch.Tensor, lengths: torch.Tensor, k: int, **more: Any
    ) -> Launched:
        small, emission = fewer_threads(path), more["emission"]
        said.append(emission)
        library = emulated.build(folder, small, variant)
        ((made, report, _),) = emulated.select(
            *(library, small, variant, scores, lengths.tolist(), k),
            starts=more["starts"].tolist(),
            room=more["dropped"],
            emission=emission,
            beside=more["positions"],
        )
        positions = made.indices[None] if more["positions"] else None
        out = made.indices if made.returned is None else made.returned
        faked = Launched(out[None], Geometry(1, 1, 0, 0, 0), None, (path, variant, k), positions)
        monkeypatch.setattr(Launched, "reports", [report])
        return faked

    monkeypatch.setattr(engine, "launch", launched)
    monkeypatch.setattr(engine, "unavailable", list)
    monkeypatch.setattr(engine, "needs_of", lambda *given, **more: [])
    monkeypatch.setattr(engine, "_device_of", lambda scores: torch.device("cpu"))
    return said


@pytest.mark.skipif(emulated.COMPILER is None, reason="no C++ compiler of the host (g++ or clang++)")
@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("length", [0, 7, K, K + 1, 5000])
def test_a_run_maps_as_the_captured_call_did(length: int, start: int, on_the_cpu: list[Emission | None]) -> None:
    scores = torch.randn(5010, generator=torch.Generator().manual_seed(3))
    plain = wb.Row(scores, length, start, call=wb.Call(k=K, width=5010))
    for mapped, transform in (
        (wb.Mapped("page table", TABLE, page_size=64), PageTable(TABLE, 64)),
        (wb.Mapped("offset", offset=70_000), Ragged(70_000)),
        (wb.Mapped("page table"), None),
        (None, None),
    ):
        row = replace(plain, mapped=mapped)
        (result,) = run_case(Case(row), paths=PATH.name, engine="cuda")
        if length <= K:
            assert "is not above" in result.line.refused
            continue
        assert result.line.verdict == "exact"
        assert result.line.unwritten == result.line.out_of_range == 0
        assert result.selection is not None
        assert (on_the_cpu[-1] is None) == (transform is None)
        if transform is None:
            assert result.selection.returned is None
        else:
            assert torch.equal(result.selection.returned, transform.apply(result.selection.indices, length))
            assert not torch.equal(result.selection.returned, result.selection.indices)
