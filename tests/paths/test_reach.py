"""Which calls reach a path, and which variant a release has of it: held against the router, call by call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from workbench.capture.row import Call
from workbench.paths.catalog import PATHS, get_path
from workbench.paths.reach import Taken, reaches, variants_by_release
from workbench.paths.spans import Asked


@pytest.mark.parametrize("name", [path.name for path in PATHS])
def test_a_path_that_an_op_takes_is_reached_and_no_other(name: str) -> None:
    path = get_path(name)
    found = reaches(path)
    assert bool(found) == (not path.unreached)
    for reach in found:
        assert path.name in reach.op.reaches
        if not path.name.endswith(".trivial"):  # of some ops only with a k that this path does not name
            assert reach.calls, reach.op.name


def asked(found: Taken, op: str, rows: int, dtype: str) -> Asked:
    call = Call(k=found.k, rows=rows, width=found.width, stride=found.width, max_seq_len=found.width)
    return Asked(op, found.release, found.device, call, dtype)


def plain(name: str) -> Iterator[tuple[str, Taken]]:
    """Calls that the defaults of the engine's setup decide, without the lengths of other rows."""
    for reach in reaches(get_path(name)):
        for call in reach.calls:
            if not call.setup and not call.planned:
                yield reach.op.name, call


@pytest.mark.parametrize("name", ["vllm.histogram_256", "vllm.cooperative_4", "vllm.per_row", "sglang.v2_cluster_8"])
def test_the_router_sends_what_is_told_there_and_what_lies_beside_it_elsewhere(name: str) -> None:
    path, seen = get_path(name), 0
    for op, call in plain(name):
        for rows in {call.fewest, call.most_rows or call.fewest}:
            ask = asked(call, op, rows, path.dtypes[0])
            for length in (call.least, (call.least + call.most) // 2, call.most):
                taken = ask.route(length)
                assert (taken.path, taken.variant) == (name, call.variant)
                seen += 1
            for outside in {call.least - 1, call.most + 1} - {call.width + 1}:
                assert ask.route(outside).path != name
        if call.most_rows is not None and name != "vllm.per_row":
            more = asked(call, op, call.most_rows + 1, path.dtypes[0])
            calls = next(reach.calls for reach in reaches(path) if reach.op.name == op)
            found = [other for other in calls if other.fewest == call.most_rows + 1]
            assert found or more.route(call.most).path != name
    assert seen


def test_each_release_has_its_own_variant() -> None:
    vllm = variants_by_release(get_path("vllm.cooperative_2"))
    assert next(iter(vllm)) == "vllm==0.20.2"
    assert [release for release, names in vllm.items() if not names][-1] == "vllm==0.28.0"
    assert vllm["vllm==0.32.0"] == ("stock",)
    assert vllm["vllm==0.33.0"] == ("v0.33.0",)
    sliced = variants_by_release(get_path("sglang.v2_cluster_8"))
    assert sliced == {
        "sglang==0.5.18": ("contiguous_ranks",),
        "sglang==0.5.21": ("stock",),
        "sglang==0.5.23": ("v0.5.23",),
    }
    assert set(variants_by_release(get_path("vllm.per_row"))["vllm==0.26.0"]) == {
        "stock",
        "decode_radix",
        "decode_split",
        "prefill",
    }
    assert variants_by_release(get_path("sglang.coop")) == {}


def test_calls_of_a_variant_are_of_the_newest_release_that_has_it() -> None:
    path = get_path("vllm.histogram_256")
    for variant, release in (("stock", "vllm==0.32.0"), ("v0.33.0", "vllm==0.33.0")):
        found = reaches(path, variant)
        assert {reach.op.name for reach in found} == {"vllm.persistent_topk", "vllm.sparse_indexer_topk"}
        assert {(call.release, call.variant) for reach in found for call in reach.calls} == {(release, variant)}
    assert reaches(path, "detect_rescan") == ()


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_every_variant_that_a_release_has_is_reached_as_itself(path) -> None:  # type: ignore[no-untyped-def]
    by_release = variants_by_release(path)
    for variant in path.variants:
        had = [release for release, names in by_release.items() if variant.name in names]
        found = [call for reach in reaches(path, variant.name) for call in reach.calls]
        assert {call.variant for call in found} <= {variant.name}
        assert bool(found) == bool(had)
        assert {call.release for call in found} & by_release.keys() <= set(had)


def test_calls_are_told_in_words() -> None:
    (one,) = [call for op, call in plain("vllm.histogram_256") if op == "vllm.persistent_topk"]
    assert (one.rows_in_words, one.lengths_in_words) == ("1 to 32", "8193 to 32768")
    told = [call for reach in reaches(get_path("sglang.v2_cluster_8")) for call in reach.calls if call.planned]
    assert told[0].lengths_in_words == "65537 or more, as the other rows decide"
