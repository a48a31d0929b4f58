"""Which rows are kept, and where it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import workbench as wb
from tests.record import ops
from tests.record.ops import bits, matrix, persistent
from workbench.analysis.profile import RowProfile
from workbench.analysis.reference import reference
from workbench.analysis.risk import risk
from workbench.analysis.verdict import judge
from workbench.capture.row import Call, Row
from workbench.errors import UsageError
from workbench.paths.catalog import get_path
from workbench.paths.ops import get_op
from workbench.record.interfaces import INTERFACES, known_ops
from workbench.record.reading import read
from workbench.record.screening import suspects

H200 = {"release": "vllm==0.26.0", "device": "h200"}


def kept(recorder) -> list[bytes]:
    found = []
    for path in recorder.files:
        with wb.open(path) as capture:
            found += [bits(row.scores) for row in capture]
    return found


def crowded(width: int, seed: int) -> torch.Tensor:
    """A row whose threshold bin overflows every buffer of a stash path."""
    generator = torch.Generator().manual_seed(seed)
    return 1 + 0.2 * torch.rand(width, generator=generator)


def test_bad_keeps_lossy_rows_alone(tmp_path: Path) -> None:
    lossy = {(1, 0), (3, 2)}
    expected = []
    with wb.record(tmp_path) as recorder:
        for call in range(5):
            scores = matrix(4, 400, call)
            for row in range(4):
                if (call, row) in lossy:
                    scores[row] = 2000 + torch.arange(400)
                    expected.append(bits(scores[row]))
            persistent(scores, [400, 300, 400, 3], 16)
    assert kept(recorder) == expected
    assert (recorder.rows, recorder.calls) == (2, 2)


def test_bad_keeps_rows_at_risk_that_lost_nothing(tmp_path: Path) -> None:
    scores = torch.stack([matrix(1, 20000, 1)[0], crowded(20000, 2), torch.zeros(20000)])
    with wb.record(tmp_path, **H200) as recorder:
        persistent(scores, [20000] * 3, 512)
    assert kept(recorder) == [bits(scores[1])], "a plateau overflows, and loses no value"
    with wb.open(recorder.files[0]) as capture:
        assert wb.inspect(capture[0]).finding
        assert (capture[0].call.rows, len(capture)) == (3, 1)


def test_bad_judges_the_path_that_the_row_reaches(tmp_path: Path) -> None:
    """vLLM 0.33.0 repaired what 0.26.0 loses."""
    scores = crowded(20000, 3)[None]
    with wb.record(tmp_path, release="vllm==0.33.0", device="h200") as recorder:
        persistent(scores, [20000], 512)
    assert not recorder.rows
    with wb.record(tmp_path, **H200) as recorder:
        persistent(scores, [20000], 512)
    assert recorder.rows == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("seed", range(20))
def test_screening_misses_no_lossy_or_invalid_selection(dtype: torch.dtype, seed: int) -> None:
    """Selections spoiled in one slot, on rows with ties, NaN and infinities, and starts."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(6, 70, generator=generator).mul(2).round().to(dtype)
    scores[1, ::3], scores[2, 5], scores[3, :60], scores[4, 7] = 0.0, torch.nan, -torch.inf, torch.inf
    scores[1, 1::3] = -0.0
    k = 8
    starts = torch.randint(0, 6, (6,), generator=generator, dtype=torch.int32)
    lengths = torch.randint(1, 64, (6,), generator=generator, dtype=torch.int32)
    out = torch.full((6, k), -1, dtype=torch.int32)
    rows = [Row(scores[at], int(lengths[at]), int(starts[at]), Call(k=k)) for at in range(6)]
    for at, row in enumerate(rows):
        out[at] = reference(row).indices
    spoiled = int(torch.randint(0, 6, (1,), generator=generator))
    slot = int(torch.randint(0, k, (1,), generator=generator))
    out[spoiled, slot] = int(torch.randint(-1, 70, (1,), generator=generator))
    interface = next(one for one in INTERFACES if one.op == "sglang.fast_topk_v2")
    seen = read(interface, {"score": scores, "indices": out, "lengths": lengths, "row_starts": starts})
    found = suspects(seen, out).tolist()
    for at, row in enumerate(rows):
        verdict = judge(row.valid, reference(row).indices, out[at])
        if verdict.kind in ("lossy", "invalid"):
            assert found[at], (at, verdict)
    finite = [at for at in range(6) if at != spoiled and bool(torch.isfinite(rows[at].valid).all())]
    assert not any(found[at] for at in finite), "what is sound is not judged again"


@pytest.mark.parametrize("k", [512, 2048])
def test_screening_misses_no_row_at_risk(k: int) -> None:
    """Every path with a buffer that an op reaches, on rows around its capacity."""
    for op in ("vllm.persistent_topk", "vllm.cooperative_topk", "sglang.fast_topk_v2"):
        interface = next(one for one in INTERFACES if one.op == op)
        for name in get_op(op).reaches:
            path = get_path(name)
            if path.buffer is None or path.key_bits is None:
                continue
            room = path.buffer.ranks.capacity if path.buffer.ranks else path.buffer.slots(k)
            for extra, scale in ((-300, 1.0), (1, 1.0), (3000, 1.0), (3000, -1.0)):
                width = max(k + 100, room + extra + 200)
                scores = torch.full((width,), 0.25) - torch.rand(width, generator=torch.Generator().manual_seed(1)) / 99
                crowd = 1 + torch.rand(room + extra, generator=torch.Generator().manual_seed(2)) / 999
                scores[: room + extra] = crowd
                scores = scores * scale
                row = Row(scores, width, call=Call(k=k))
                told = risk(RowProfile(scores, "float32", k), path)
                out = reference(row).indices[None]
                given = {"logits": scores[None], "score": scores[None], "output": out, "indices": out, "k": k}
                lengths = torch.tensor([width], dtype=torch.int32)
                seen = read(interface, {**given, "lengths": lengths, "max_seq_len": width})
                if told.level in ("at risk", "certain"):
                    assert bool(suspects(seen, out)), (op, name, extra, scale)


def test_first_rows_of_a_process(tmp_path: Path) -> None:
    with wb.record(tmp_path, rows="first:5") as recorder:
        for call in range(4):
            persistent(matrix(3, 100, call), [100] * 3, 4)
    assert kept(recorder) == [bits(one) for call in (0, 1) for one in matrix(3, 100, call)][:5]
    assert recorder.stopped == "the first 5 rows are kept"
    assert recorder.seen["vllm.persistent_topk"] == 2, "later calls are handed on at once"


def test_a_sample_depends_on_its_seed_alone(tmp_path: Path) -> None:
    def drawn(name: str, seed: int) -> list[bytes]:
        with wb.record(tmp_path / name, rows="sample:0.3", seed=seed) as recorder:
            for call in range(30):
                persistent(matrix(4, 60, call), [60] * 4, 4)
        return kept(recorder)

    one = drawn("a", 1)
    assert one == drawn("b", 1)
    assert one != drawn("c", 2)
    assert 15 <= len(one) <= 60


@pytest.mark.parametrize(
    ("limit", "rows", "words"),
    [
        ({"max_rows": 4}, 4, "limit of 4 rows"),
        ({"max_calls": 2}, 6, "limit of 2 calls"),
        ({"max_bytes": 5 * (400 + 16)}, 5, "limit of 2080 bytes"),
    ],
)
def test_limits(tmp_path: Path, limit: dict[str, int], rows: int, words: str) -> None:
    with wb.record(tmp_path, rows="all", **limit) as recorder:
        for call in range(4):
            persistent(matrix(3, 100, call), [100] * 3, 4)
        assert recorder.files, "what is kept is written when the limit is reached"
    assert recorder.rows == rows
    assert words in recorder.stopped
    assert kept(recorder) == [bits(one) for call in range(4) for one in matrix(3, 100, call)][:rows]


def test_files_rotate_by_size_and_hold_many_calls(tmp_path: Path) -> None:
    size = 3 * (400 + 16)
    with wb.record(tmp_path, rows="all", file_bytes=2 * size, flush=1000) as recorder:
        for call in range(5):
            persistent(matrix(3, 100, call), [100] * 3, 4)
    counts = []
    for path in recorder.files:
        with wb.open(path) as capture:
            counts.append((len(capture), capture.info.calls))
    assert counts == [(6, 2), (6, 2), (3, 1)]
    assert kept(recorder) == [bits(one) for call in range(5) for one in matrix(3, 100, call)]


def test_ops_by_name(tmp_path: Path) -> None:
    with wb.record(tmp_path, rows="all", ops="vllm.coop*|torch.topk") as recorder:
        torch.ops.sgl_kernel.fast_topk(
            matrix(1, 50, 1), torch.zeros(1, 60, dtype=torch.int32), torch.tensor([50], dtype=torch.int32), None
        )
        persistent(matrix(1, 50, 2), [50], 4, "cooperative_topk")
        torch.topk(matrix(1, 50, 3), 4)
    assert dict(recorder.seen) == {"vllm.cooperative_topk": 1, "torch.topk": 1}
    assert len(recorder.files) == 2, "a file is of one op"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ops": "cuda.*"}, f"known ops: {', '.join(known_ops())}"),
        ({"rows": "worst"}, "bad, all, first:N or sample:P"),
        ({"rows": "first:0"}, "at least 1"),
        ({"rows": "sample:2"}, "at most 1"),
        ({"max_rows": 0}, "max_rows is 0"),
        ({"max_bytes": "4 apples"}, "write bytes"),
        ({"flush": -1}, "seconds"),
        ({"step": "3"}, "step is '3'"),
        ({"rank": -1}, "rank is -1"),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, options: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=r"^[^\n]+$") as error:
        wb.record(tmp_path, **options)
    assert words in str(error.value)


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made"):
        wb.record(tmp_path / "file" / "folder")


@pytest.mark.parametrize(("length", "suspect"), [(32768, True), (32769, False)])
def test_a_row_is_held_against_the_buffers_of_its_length(length: int, suspect: bool) -> None:
    """5000 scores of one 8-bit bin overflow vllm.histogram_256, which takes up to 32768, and not vllm.filtered."""
    scores = torch.linspace(-2, -1, length)
    scores[:5000] = torch.linspace(1, 1.2, 5000)
    interface = next(one for one in INTERFACES if one.op == "vllm.persistent_topk")
    out = torch.arange(5000 - 512, 5000, dtype=torch.int32)[None]
    given = {"logits": scores[None], "output": out, "k": 512, "max_seq_len": length}
    seen = read(interface, {**given, "lengths": torch.tensor([length], dtype=torch.int32)})
    assert bool(suspects(seen, out)) == suspect
    risks = [risk(RowProfile(scores, "float32", 512), get_path(name)) for name in get_op(interface.op).reaches]
    assert any(one.level == "at risk" for one in risks) == suspect


@pytest.mark.parametrize("written", [-5, -777, 60, 2**31 - 1])
def test_a_row_that_came_back_with_what_is_no_index_is_bad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """Also where a capture cannot hold what came back, and the row itself is a safe one."""
    scores = torch.arange(100.0).expand(2, 100).contiguous()
    chosen = iter([[49, 48, 47, 46], [49, 48, 47, written]])
    monkeypatch.setattr(ops, "select", lambda row, k: torch.tensor(next(chosen), dtype=torch.int32))
    with wb.record(tmp_path, rows="bad") as recorder:
        persistent(scores, [50, 50], 4)
    assert recorder.rows == 1
