"""Tests in the shape of vLLM's and SGLang's own: skipped where the op is not there, right where it is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

import workbench as wb
from tests.export.conftest import hot, loaded, row, run_pytest
from workbench.capture import Row
from workbench.export.render import CALLABLE
from workbench.numeric.select import exact_topk

# Op, path that it takes, and a row that breaks this path.
CASES: dict[str, tuple[str, Callable[[], Row]]] = {
    "vllm.persistent_topk": ("vllm.histogram_256", lambda: row(hot(5000))),
    "vllm.cooperative_topk": ("vllm.cooperative_4", lambda: row(hot(5000))),
    "vllm.top_k_per_row_decode": ("vllm.per_row", lambda: row(minus_inf(), k=15_300)),
    "sglang.fast_topk_v2": ("sglang.fast_topk", lambda: row(hot(5000))),
    "sglang.topk_transform_paged": ("sglang.v1", lambda: row(hot(9000), k=1024)),
    "sglang.topk_transform_paged_v2": ("sglang.v2_streaming", lambda: row(hot(5000))),
    "sglang.topk_transform_ragged_v2": ("sglang.v2_streaming", lambda: row(hot(5000))),
    "sglang.kpool_topk_transform": ("sglang.kpool", lambda: row(hot(5000), k=512)),
}
POISON = -2
Select = Callable[[torch.Tensor, int], torch.Tensor]


def minus_inf() -> torch.Tensor:
    """15000 numbers, then 2000 -inf, of which the variant of per_row that pads with -FLT_MAX loses some."""
    return torch.cat([torch.arange(15_000.0), torch.full((2000,), -torch.inf)])


def exact(scores: torch.Tensor, k: int) -> torch.Tensor:
    return exact_topk(scores, k)


def lossy(scores: torch.Tensor, k: int) -> torch.Tensor:
    """The best one is lost, as if it had arrived too late."""
    return exact_topk(scores, k + 1)[1:]


def unwritten(scores: torch.Tensor, k: int) -> torch.Tensor:
    return torch.cat([exact_topk(scores, k)[:-1], torch.tensor([POISON])])


def test_every_op_with_a_template_is_here() -> None:
    assert set(CASES) == set(CALLABLE)


class Device:
    """Fake ops on the CPU that keep the contracts of the real ones, over one selector of rows."""

    def __init__(self) -> None:
        self.select: Select = exact
        self.calls = 0
        self.planned = False
        self.synchronized = False

    def rows(self, scores: torch.Tensor, lengths: torch.Tensor, k: int, start: int = 0) -> torch.Tensor:
        assert scores.dim() == 2
        assert scores.stride(1) == 1
        assert scores.stride(0) % 4 == 0
        assert lengths.dtype == torch.int32
        assert lengths.is_contiguous()
        assert lengths.shape == (scores.shape[0],)
        self.calls += 1
        parts = [self.select(one[start : start + int(n)], k) for one, n in zip(scores, lengths, strict=True)]
        return torch.stack(parts).to(torch.int32)

    def output(self, indices: torch.Tensor, scores: torch.Tensor) -> int:
        assert indices.dtype == torch.int32
        assert indices.is_contiguous()
        assert indices.shape[0] == scores.shape[0]
        assert bool((indices == POISON).all()), "the output is poisoned, so that unwritten slots show"
        return indices.shape[1]

    def workspace_topk(
        self,
        logits: torch.Tensor,
        lengths: torch.Tensor,
        output: torch.Tensor,
        workspace: torch.Tensor,
        k: int,
        most: int,
    ) -> None:
        assert self.output(output, logits) == k
        assert k in (512, 1024, 2048)
        assert workspace.dtype == torch.uint8
        assert workspace.numel() >= max(logits.shape[0] * k * 8, 3088)
        assert int(lengths.max()) <= most <= logits.stride(0)
        output.copy_(self.rows(logits, lengths, k))

    def per_row(
        self,
        logits: torch.Tensor,
        next_n: int,
        lengths: torch.Tensor,
        output: torch.Tensor,
        rows: int,
        s0: int,
        s1: int,
        k: int,
    ) -> None:
        assert (next_n, rows) == (1, logits.shape[0])
        assert (s0, s1) == logits.stride()
        output.copy_(self.rows(logits, lengths, self.output(output, logits)))

    def fast_topk(self, score: torch.Tensor, indices: torch.Tensor, lengths: torch.Tensor) -> None:
        indices.copy_(self.rows(score, lengths, 2048))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    """The fake ops, registered as the real ones are, and modules of the engines to import them from."""
    fake = Device()
    kept = []
    schema = "(Tensor logits, Tensor lengths, Tensor(a!) output, Tensor(b!) workspace, int k, int max_seq_len) -> ()"
    per_row = "(Tensor logits, int n, Tensor lengths, Tensor(a!) out, int rows, int s0, int s1, int k) -> ()"
    for namespace, name, arguments, does in (
        ("_C", "persistent_topk", schema, fake.workspace_topk),
        ("_C", "cooperative_topk", schema, fake.workspace_topk),
        ("_C", "top_k_per_row_decode", per_row, fake.per_row),
        ("sgl_kernel", "fast_topk", "(Tensor score, Tensor(a!) indices, Tensor lengths) -> ()", fake.fast_topk),
    ):
        library = torch.library.Library(namespace, "FRAGMENT")
        library.define(f"{name}{arguments}")
        library.impl(name, does, "CPU")
        kept.append(library)

    def fast_topk_v2(score: torch.Tensor, lengths: torch.Tensor, topk: int) -> torch.Tensor:
        indices = score.new_full((score.shape[0], topk), POISON, dtype=torch.int32)
        torch.ops.sgl_kernel.fast_topk(score, indices, lengths)
        return indices

    def paged(scores: torch.Tensor, lengths: torch.Tensor, pages: torch.Tensor, out: torch.Tensor, page: int) -> None:
        assert pages.shape == (scores.shape[0], -(-scores.shape[1] // page))
        found = fake.rows(scores, lengths, fake.output(out, scores)).long()
        taken = pages.gather(1, (found // page).clamp(0)) * page + found % page
        out.copy_(torch.where(found < 0, found, taken))

    def plan(lengths: torch.Tensor) -> torch.Tensor:
        fake.planned, fake.synchronized = True, False
        return lengths.new_zeros(len(lengths) + 1, 2)

    def paged_v2(*args: torch.Tensor) -> None:
        assert fake.planned
        assert fake.synchronized, "the transform may read the plan before it is written"
        paged(*args[:-1])  # type: ignore[arg-type]

    def ragged(
        scores: torch.Tensor,
        lengths: torch.Tensor,
        *,
        out_offsets: torch.Tensor,
        out_indices: torch.Tensor,
        row_starts: torch.Tensor,
    ) -> None:
        start = int(row_starts[0])
        assert bool((row_starts == start).all())
        found = fake.rows(scores, lengths, fake.output(out_indices, scores), start)
        scores[:, :start] = torch.nan  # as the op does: the columns before the aligned start
        out_indices.copy_(torch.where(found < 0, found, found + out_offsets[:, None]))

    def kpool(
        score: torch.Tensor, lengths: torch.Tensor, pool: int, topk: int, *, topk_indices_offset: torch.Tensor
    ) -> torch.Tensor:
        groups = fake.rows(score, lengths, topk // pool)
        tokens = groups[..., None] * pool + torch.arange(pool, dtype=torch.int32)
        return torch.where(groups[..., None] < 0, -1, tokens + topk_indices_offset[:, None, None]).flatten(1)

    def synchronize() -> None:
        fake.synchronized = True

    modules = {
        "vllm": {},
        "vllm._custom_ops": {},
        "sgl_kernel": {"fast_topk_v2": fast_topk_v2},
        "sglang.kernels.ops.attention.dsv4.topk": {
            "topk_transform_paged": paged,
            "topk_transform_paged_v2": paged_v2,
            "topk_transform_ragged_v2": ragged,
            "plan_topk_v2": plan,
        },
        "sglang.kernels.ops.attention.dsa.kpool_topk_transform": {"fast_kpool_topk_transform_fused": kpool},
    }
    for name, content in modules.items():
        parent: ModuleType | None = None
        for end in [at for at, letter in enumerate(f"{name}.") if letter == "."]:
            module = sys.modules.get(name[:end])
            if module is None:
                module = ModuleType(name[:end])
                module.__path__ = []
                monkeypatch.setitem(sys.modules, name[:end], module)
            if parent is not None:
                setattr(parent, name[:end].rpartition(".")[2], module)
            parent = module
        for attribute, value in content.items():
            setattr(parent, attribute, value)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    yield fake
    for library in kept:
        library._destroy()


def written(op: str, folder: Path, **change: object) -> Path:
    path, given = CASES[op]
    variant = "decode_radix" if path == "vllm.per_row" else None
    broken = given().with_call(op=None, release=None, device=None, **change)
    return wb.export(broken, to=folder, style=op.partition(".")[0], op=op, path=path, variant=variant).files[1]


@pytest.mark.parametrize("op", sorted(CASES))
def test_the_op_is_called_by_its_contract_and_judged(op: str, device: Device, tmp_path: Path) -> None:
    module = loaded(written(op, tmp_path))
    assert module.unmet() == ""
    (test,) = (value for name, value in vars(module).items() if name.startswith("test_"))
    for rows in (*module.NUM_ROWS, 3):
        device.calls = 0
        test(rows)
        assert device.calls == module.REPEATS
    for select in (lossy, unwritten):
        if select is unwritten and op == "sglang.kpool_topk_transform":
            continue  # this op makes its output itself: a slot that it does not write holds anything
        device.select = select
        with pytest.raises(AssertionError):
            test(module.NUM_ROWS[0])


@pytest.mark.parametrize("op", sorted(CASES))
def test_one_lossy_row_of_many_is_caught(op: str, device: Device, tmp_path: Path) -> None:
    module = loaded(written(op, tmp_path))
    (test,) = (value for name, value in vars(module).items() if name.startswith("test_"))
    seen: list[int] = []

    def last(scores: torch.Tensor, k: int) -> torch.Tensor:
        seen.append(1)
        return (lossy if len(seen) == 3 else exact)(scores, k)

    device.select = last
    with pytest.raises(AssertionError, match=r"1 of [0-9]+ winners lost"):
        test(3)


def test_an_op_that_is_not_there_is_named(device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = loaded(written("vllm.persistent_topk", tmp_path))
    with monkeypatch.context() as without:
        without.setattr(torch.ops, "_C", object())
        assert module.unmet() == "this vLLM has no persistent_topk"
    monkeypatch.setitem(sys.modules, "vllm._custom_ops", None)
    assert module.unmet().startswith("vLLM cannot be imported: ")
    module = loaded(written("vllm.cooperative_topk", tmp_path))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (12, 0))
    assert "no clusters" in module.unmet()
    module = loaded(written("sglang.topk_transform_paged_v2", tmp_path))
    monkeypatch.delattr(sys.modules["sglang.kernels.ops.attention.dsv4.topk"], "topk_transform_paged_v2")
    assert module.unmet() == "this SGLang has no topk_transform_paged_v2"
    monkeypatch.setitem(sys.modules, "sgl_kernel", None)
    assert "sgl_kernel.fast_topk_v2 cannot be imported" in loaded(written("sglang.fast_topk_v2", tmp_path)).unmet()


@pytest.mark.skipif(torch.cuda.is_available(), reason="shows what happens without CUDA")
def test_without_cuda_all_are_collected_and_skipped(tmp_path: Path) -> None:
    for op in CASES:
        written(op, tmp_path / op)
    ran = run_pytest(tmp_path)
    assert ran.returncode == 0, ran.stdout
    assert f"{len(CASES)} skipped" in ran.stdout
    assert ran.stdout.count("CUDA is not available") == 1 or ran.stdout.count("CUDA is not available") == len(CASES)


@pytest.mark.parametrize(
    ("path", "rows", "expected"),
    [("vllm.filtered", 33, [33]), ("vllm.filtered", 1, [33]), ("vllm.histogram_256", 32, [32])],
)
def test_a_launch_reaches_the_path(path: str, rows: int, expected: list[int], tmp_path: Path) -> None:
    """What the capture says of the call is kept where that takes the row there, else replaced."""
    given = row(hot(17_000), rows=rows, release="vllm==0.22.1")
    test = wb.export(given, to=tmp_path, style="vllm", path=path, variant="stock").files[1]
    module = loaded(test)
    assert expected == module.NUM_ROWS
    call = given.with_call(rows=expected[0], stride=module.STRIDE, max_seq_len=module.MAX_SEQ_LEN)
    assert wb.route(call).path == path


def test_a_start_keeps_its_alignment(device: Device, tmp_path: Path) -> None:
    """The ragged op chooses by length and start % 4."""
    scores = hot(5000, width=16_000)
    padded = torch.cat([torch.zeros(4099), scores])
    given = Row(padded, 16_000, start=4099, call=wb.Call(k=2048, rows=2))
    test = wb.export(
        given, to=tmp_path, style="sglang", op="sglang.topk_transform_ragged_v2", path="sglang.v2_register"
    ).files[1]
    module = loaded(test)
    assert (module.START, module.NUM_ROWS) == (3, [2])
    (run,) = (value for name, value in vars(module).items() if name.startswith("test_"))
    run(2)


def test_a_path_that_the_call_cannot_take_is_said(tmp_path: Path) -> None:
    given = row(hot(17_000), release="vllm==0.26.0")
    with pytest.raises(
        wb.UsageError, match=r"no call of vllm.persistent_topk in vllm==0.26.0 on h200 .* vllm.filtered"
    ):
        wb.export(given, to=tmp_path / "out", style="vllm", path="vllm.filtered")
    with pytest.raises(wb.UsageError, match="name one"):
        wb.export(row(hot(5000), op=None), to=tmp_path / "out", style="sglang", path="sglang.v2_streaming")
    assert not (tmp_path / "out").exists()
