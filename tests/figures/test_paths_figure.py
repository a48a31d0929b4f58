"""The picture of a path: its boxes hold the numbers of its record, and the loss stands where the record has it."""

from __future__ import annotations

import pytest

from workbench.figures.path_releases import STATES, family_figure, family_of, held_by
from workbench.figures.path_tables import contract_table, limits_table, ops_table, variants_table
from workbench.figures.paths import TITLES, pipeline_figure
from workbench.paths.catalog import PATHS, get_path
from workbench.paths.reach import variants_by_release
from workbench.paths.steps import note_of, steps_of


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_every_variant_has_its_picture(path) -> None:  # type: ignore[no-untyped-def]
    for variant in path.variants:
        steps = steps_of(path, variant)
        if not steps:
            continue
        figure = pipeline_figure(steps, note_of(variant))
        traces = {trace.name: trace for trace in figure.data}
        assert list(traces["steps"].customdata) == [step.kind for step in steps]
        for step, told in zip(steps, traces["steps"].hovertext, strict=True):
            assert told.startswith(f"<b>{TITLES[step.kind]}</b>")
            assert all(fact.replace("<", "&lt;") in told for fact in step.facts)
        assert ("loses" in traces) == (not variant.lossless)
        written = " ".join(one.text for one in figure.layout.annotations).replace("<br>", " ")
        for at, step in enumerate(steps):  # no box without its title, whatever else is written into the picture
            middle = traces["steps"].x[at]
            heads = [one for one in figure.layout.annotations if one.text == f"<b>{TITLES[step.kind]}</b>"]
            assert any(one.x == pytest.approx(middle) and one.y > 80 for one in heads), step.kind
        warned = [one for one in figure.layout.annotations if one.name == "loses"]
        assert [one.x for one in warned] == [pytest.approx(x) for x in (traces["loses"].x if warned else ())]
        assert len(warned) == (not variant.lossless)
        if not variant.lossless:
            (at,) = [number for number, step in enumerate(steps) if step.loses]
            assert traces["loses"].x[0] == pytest.approx(traces["steps"].x[at])
            assert "winners can be lost" in written
            assert note_of(variant).replace("<", "&lt;") in written
        low, high = figure.layout.yaxis.range
        assert low < 26 < high  # room below the boxes
        assert len(figure.to_json()) < 120_000


def test_numbers_of_the_record_stand_in_the_boxes() -> None:
    path = get_path("sglang.v2_cluster_16")
    figure = pipeline_figure(steps_of(path, path.variant("stock")))
    told = " ".join(figure.data[0].hovertext)
    for text in ("16 blocks share the row", "top 10 of 16 bits", "1,024 bins", "holds 2,048", "8 + 8 + 8 + 8 bits"):
        assert text in told, text


def test_bits_of_the_key_are_filled_as_many_as_count() -> None:
    path = get_path("vllm.histogram_2048")
    steps = [step for step in steps_of(path, path.variant("stock")) if step.kind == "key"]
    from workbench.figures import palette

    shapes = pipeline_figure([steps[0], *steps]).layout.shapes
    bits = [shape for shape in shapes if shape.line.width == 0.7 and shape.x0 < 1]
    assert len(bits) == 16
    assert sum(shape.fillcolor == palette.THRESHOLD for shape in bits) == 11


@pytest.mark.parametrize("name", ["vllm.filtered", "sglang.kpool", "torch.topk"])
def test_releases_are_told_by_symbol_and_capacity(name: str) -> None:
    family = family_of(get_path(name))
    held = held_by(family)
    figure = family_figure(held, name)
    symbols = {trace.name: trace.marker.symbol for trace in figure.data if trace.name in STATES}
    assert len(set(symbols.values())) == len(symbols)
    lanes, releases = list(dict.fromkeys(one.path for one in held)), list(figure.layout.xaxis.ticktext)
    for state in symbols:
        (trace,) = [one for one in figure.data if one.name == state]
        places = {(int(x), round(-float(y))) for x, y in zip(trace.x, trace.y, strict=True)}
        meant = {(column_of(releases, one.release), lanes.index(one.path)) for one in held if one.state == state}
        assert places == meant
    (texts,) = [one for one in figure.data if one.name == "capacity"]
    assert list(texts.text) == [one.capacity for one in held]
    assert f"<b>▸ {name}</b>" in figure.layout.yaxis.ticktext


def column_of(names: list[str], release: str) -> int:
    package, _, version = release.partition("==")
    return next(at for at, name in enumerate(names) if name in (version, f"{version}<br>{package}"))


def test_a_release_with_one_losing_variant_can_lose() -> None:
    path = get_path("vllm.per_row")
    (newest,) = [one for one in held_by((path,)) if one.release == "vllm==0.33.0"]
    assert {one.name for one in newest.variants} == set(variants_by_release(path)["vllm==0.33.0"])
    assert (newest.state, newest.capacity) == ("can lose winners", "2,048")
    (unknown,) = [one for one in held_by((get_path("vllm.radix"),)) if one.release == "vllm==0.33.0"]
    assert (unknown.state, unknown.capacity) == ("keeps every winner", "?")


def test_tables_say_the_contract_of_the_variant() -> None:
    path = get_path("vllm.histogram_256")
    stock = dict(contract_table(path, path.variant("stock")).to_numpy().tolist())
    fork = dict(contract_table(path, path.variant("deterministic")).to_numpy().tolist())
    assert stock["determinism"].startswith("not_guaranteed: ")
    assert fork["determinism"].startswith("gpu_to_gpu: ")
    assert fork["tie_break"].startswith("prefer_smaller_index: ")
    limits = dict(limits_table(path, path.variant("deterministic")).to_numpy().tolist())
    assert limits["length"] == "> 8192, ≤ 22016"
    assert "vllm-project/vllm#55122" in limits["reports"]
    ops = ops_table(path)
    assert set(ops["op"]) == {"vllm.persistent_topk", "vllm.sparse_indexer_topk"}
    assert dict(zip(ops["variant"], ops["release"], strict=True)) == {
        "stock": "vllm==0.32.0",
        "v0.33.0": "vllm==0.33.0",
    }
    newer = path.variant("v0.33.0")
    assert set(ops_table(path, newer)["variant"]) == {"v0.33.0"}
    assert dict(limits_table(path, newer).to_numpy().tolist())["releases"] == "vllm==0.33.0"
    assert limits["releases"].startswith("none known has it as deterministic; the path: vllm 0.20.2 to 0.32.0")
    assert list(variants_table(path)["variant"]) == [one.name for one in path.variants]
    assert next(iter(variants_table(path)["losses"])) == "can lose"
    assert len(ops_table(get_path("sglang.coop"))) == 0
