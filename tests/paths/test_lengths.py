"""What a length outside its row does, by path and by op."""

from __future__ import annotations

import pytest
import torch

import workbench as wb
from workbench.paths.catalog import PATHS, find_paths, get_path
from workbench.paths.lengths import READINGS, READINGS_BY_MODEL, Window, effect, reused_histograms
from workbench.paths.outside import effect_on
from workbench.paths.routing import OPS, Op

WIDTH = 40000


def does(name: str, length: int, width: int = 20000, max_seq_len: int | None = None, variant: str = "stock") -> str:
    path = get_path(name)
    found = effect(path, path.variant(variant), Window(length, width, width, max_seq_len), 512)
    return "" if found is None else found.words


@pytest.mark.parametrize(
    ("name", "length", "max_seq_len", "words"),
    [
        ("vllm.radix", -1, 16384, "read as 4294967295 with max_seq_len 16384, at most 32768: it hangs where"),
        ("vllm.histogram_256", -1, 32768, "hangs where a row takes more than one block"),
        ("vllm.histogram_2048", -1, 32769, "selects from all blocks of the row, about its stride, padding included"),
        ("vllm.histogram_2048", -1, None, "(max_seq_len at most 32768), else selects"),
        ("vllm.histogram_256", 20001, 32768, "reads past the row's width"),
        ("vllm.radix", 40000, 65536, "about its stride"),
        ("vllm.filtered", -1, None, "every slot is -1 (described, not observed)"),
        ("vllm.filtered", 20001, None, "not clamped"),
        ("vllm.cooperative_4", -1, None, "clamped to 0"),
        ("vllm.cooperative_4", 20001, None, "can overrun shared memory (derived, not observed)"),
        ("vllm.per_row", -5, None, "length -5 is clamped to 0: every slot is -1"),
        ("vllm.sampled", 20001, 20000, "clamped to max_seq_len 20000"),
        ("vllm.sampled", 20001, None, "clamped to max_seq_len, which is not known"),
        ("vllm.sampled", 20001, 20002, "max_seq_len 20002: the path reads past the row's 20000 cells"),
        ("sglang.fast_topk", -1, None, "every slot is -1"),
        ("sglang.v4_aot", -1, None, "0 to k - 1 are returned as winners (derived, not observed)"),
        ("sglang.v1", -4, None, "walks off the row"),
        ("sglang.v2_register", -4, None, "illegal memory access"),
        ("sglang.v2_register", 20001, None, "past the row's 20000 cells: what sglang.v2_register stock does with it"),
        ("sglang.qsa", -1, None, "length -1 is negative: what sglang.qsa stock does with it is not established"),
        ("vllm.radix", -(2**31), None, "length -2147483648 is read as 2147483648"),
        ("vllm.trivial", 2**31 - 1, None, "every index below it is returned"),
    ],
)
def test_what_a_length_outside_the_row_does(name: str, length: int, max_seq_len: int | None, words: str) -> None:
    assert words in does(name, length, max_seq_len=max_seq_len)


def test_lengths_inside_the_row_do_nothing() -> None:
    assert all(does(path.name, length) == "" for path in PATHS for length in (0, 1, 20000))


def test_variants_read_the_length_as_their_path_does_unless_their_inside_is_unknown() -> None:
    assert "hangs" in does("vllm.histogram_256", -1, max_seq_len=1, variant="detect_rescan")
    assert "hangs" in does("vllm.radix", -1, max_seq_len=1, variant="negative_length")
    assert "not established" in does("vllm.radix", -1, max_seq_len=1, variant="v0.33.0")
    assert "not established" in does("vllm.filtered", -1, variant="v0.33.0")


def test_the_prefill_variants_write_in_front_of_their_output() -> None:
    path = get_path("vllm.per_row")
    variants = [one.name for one in path.variants if one.model in READINGS_BY_MODEL]
    assert sorted(variants) == ["prefill", "prefill_radix"]
    for variant in variants:
        assert "-1 is written in front of the row's output (derived" in does(path.name, -1, variant=variant)


def test_every_reading_is_of_a_path_or_a_model_that_exists() -> None:
    assert set(READINGS) <= {path.name for path in find_paths()}
    assert set(READINGS_BY_MODEL) <= {variant.model for path in find_paths() for variant in path.variants}


def test_scores_that_the_capture_does_not_hold_are_no_fault_of_the_op() -> None:
    row = wb.Row(torch.randn(1000), 1200, call=wb.Call(k=512, width=2000))
    assert row.outside
    (line,) = wb.run(row, paths="vllm.filtered")
    assert line.refused == "the capture holds 1000 of the row's 1200 scores, so that it cannot be judged"
    assert (line.finding, line.risk) == (None, None)


def padded(length: int, **call: object) -> wb.Row:
    known = {"k": 512, "rows": 8, "width": WIDTH, "stride": WIDTH, "max_seq_len": 16384, "device": "h200"}
    known |= {"op": "vllm.persistent_topk", "release": "vllm==0.26.0"} | call
    return wb.Row(torch.randn(WIDTH), length, call=wb.Call(**known))


@pytest.mark.parametrize(
    ("length", "call", "path", "words"),
    [
        (-1, {}, "vllm.radix", "hangs"),
        (-1, {"max_seq_len": 65536}, "vllm.radix", "selects from all blocks"),
        (-1, {"rows": 40}, "vllm.trivial", "every slot is -1"),
        (-1, {"rows": 80, "release": "vllm==0.32.0", "max_seq_len": 262144}, "vllm.trivial", "every slot is -1"),
        (-1, {"op": "vllm.cooperative_topk"}, "vllm.trivial", "every slot is -1"),
        (-1, {"op": "vllm.top_k_per_row_decode"}, "vllm.trivial", "every slot is -1"),
        (-1, {"release": "vllm==0.33.0"}, "vllm.radix", "not established"),
        (WIDTH + 1, {}, "vllm.radix", "hangs"),
        (WIDTH + 1, {"max_seq_len": 65536}, "vllm.radix", "about its stride"),
        (WIDTH + 1, {"rows": 40}, "vllm.filtered", "reads past the row's width"),
        (WIDTH + 1, {"op": "vllm.cooperative_topk"}, "vllm.cooperative_8", "overrun shared memory"),
        (-1, {"op": "sglang.fast_topk_v2", "release": "sglang-kernel==0.4.6", "k": 2048}, "sglang.trivial", "-1"),
        (-4, {"op": "sglang.topk_transform_paged", "release": "sglang==0.5.21"}, "sglang.v1", "walks off"),
        (-4, {"op": "sglang.topk_transform_ragged_v2", "release": "sglang==0.5.21"}, "sglang.v2_streaming", "illegal"),
    ],
)
def test_where_an_op_sends_such_a_row(length: int, call: dict[str, object], path: str, words: str) -> None:
    row = padded(length, **call)
    found = wb.route(row)
    assert found.path == path
    told = effect_on(row, found, row.k or 0)
    assert told is not None
    assert words in told.words
    if length < 0:
        assert any("length -" in reason.text and reason.met for reason in found.reasons)
        assert not any("16385" in reason.text for reason in found.reasons)  # what was asked in its place


def test_a_route_that_depends_on_what_is_not_known_stays_unknown() -> None:
    found = wb.route(padded(-1, rows=None))
    assert (found.path, found.unknown) == (None, ("rows",))
    found = wb.route(padded(-1, k=None))
    assert found.unknown == ("k",)
    refused = wb.route(padded(-1, k=100))
    assert (refused.path, refused.refused) == (None, "the op takes k 512, 1024 or 2048 only, not k 100")


@pytest.mark.parametrize(
    ("lengths", "dirty"),
    [
        ([40000, 40000, 40000], ()),
        ([40000, 100, 40000], (2,)),
        ([100, 40000, 40000], ()),
        ([40000, 100, 100, 40000], (3,)),
        ([40000, 100, 100, 100, 40000], ()),  # three more rows turn the ring once
        ([32769, 32768, 32769, 32769], (2,)),
        ([40000, 100, -1], (2,)),  # read as unsigned, a long row
    ],
)
def test_rows_that_reuse_a_histogram(lengths: list[int], dirty: tuple[int, ...]) -> None:
    assert reused_histograms(lengths) == dirty


def test_a_call_tells_of_histograms_that_were_not_cleared() -> None:
    width = 1048576  # 124 blocks a row at 4 rows, 264 resident on an H200: two groups, rows dealt out in turn
    call = wb.Call(
        k=512,
        rows=6,
        width=width,
        stride=width,
        max_seq_len=width,
        op="vllm.persistent_topk",
        release="vllm==0.26.0",
        device="h200",
    )
    scores = torch.randn(1).expand(width)

    def told(lengths: list[int], **changes: object) -> str:
        row = wb.Row(scores, lengths[-1], call=wb.Call(**{**vars(call), **changes}), batch=torch.tensor(lengths))  # type: ignore[arg-type]
        from workbench.runs.case import Case

        return Case(row).of_the_call

    long, short = 40000, 100
    assert told([long] * 6) == ""
    said = told([long, long, short, long, long, long])
    assert "vllm-project/vllm#49139" in said
    assert "row 4 reads a histogram" in said or "rows" in said
    assert "which release ended that is not established; derived, not observed" in said
    assert told([long, short, long, short, long, long], stride=None) == ""
    assert told([short] * 6) == ""


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
@pytest.mark.parametrize("length", [-(2**31), -1, 16385, 2**31 - 1])
def test_every_op_is_asked_without_a_crash(op: Op, length: int) -> None:
    dtype = torch.bfloat16 if "bf16" in op.name else torch.float32
    place = {"op": op.name, "release": op.releases[0], "device": "h200"}
    for k in (512, 2048):
        call = wb.Call(k=k, rows=8, width=16384, stride=16384, max_seq_len=16384, **place)  # type: ignore[arg-type]
        row = wb.Row(torch.randn(16384).to(dtype), length, call=call)
        found = wb.route(row)
        assert (found.path is not None) + bool(found.unknown) + bool(found.refused) == 1
        (line,) = wb.run(row)
        assert (line.path, line.length) == (found.path, length)
        assert (line.verdict is None) == (line.refused is not None)
        wb.inspect(row)
