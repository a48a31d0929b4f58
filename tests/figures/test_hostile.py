"""Names in files are text wherever a result of any kind is shown: as HTML, as plain text, and in plotly's labels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import workbench as wb
from tests.audit.making import audited
from tests.runs.benches import VENDOR as CONTENDER
from tests.runs.benches import Fake, plan, vendor
from workbench.audit.dataset import Dataset
from workbench.audit.summary import summarize
from workbench.figures.html import as_text, fragment
from workbench.figures.notebook import _TOLD, parts_of, save_page
from workbench.figures.parts import Folded, Part, Picture
from workbench.figures.row_page import Origin, row_page
from workbench.rendering import Rendered
from workbench.runs.bench import run_bench
from workbench.runs.doctor import Doctor, Fact

MARKUP = "<img src=x onerror=alert(1)><b>&lt;i>\"'"
TAGS = {"div", "span", "section", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "style"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of markup with a capture of markup: two rows of a layer, of which one loses winners."""
    where = tmp_path_factory.mktemp("hostile") / MARKUP
    where.mkdir()
    call = wb.Call(k=512, op="vllm.persistent_topk", model=MARKUP, request=MARKUP, layer=1, step=2, rows=2)
    call = replace(call, width=9000, stride=9000, max_seq_len=9000, next_n=1)
    random = torch.Generator().manual_seed(0)
    for name, shift in ((f"a{MARKUP}", 0.0), (f"b{MARKUP}", 1e-4)):
        scores = [torch.randn(9000, generator=random), torch.rand(9000, generator=random) * 0.01 + 1 + shift]
        rows = [wb.Row(row, 9000, call=call, indices=row.topk(512).indices.to(torch.int32)) for row in scores]
        tokens = [wb.Token(2, 3, torch.arange(9.0))]
        wb.write(where / f"{name}.safetensors", rows, source=MARKUP, tokens=tokens)
    return where


@pytest.fixture(scope="module")
def results(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Rendered]]:
    """A result of every kind, as far as it can be had of such files."""
    paths = sorted(str(path) for path in folder.iterdir())
    with wb.open(paths[0]) as capture, wb.diverge(*paths) as parted:
        row = capture[1]
        found = wb.inspect(row, release="vllm==0.23.0", device="h200")
        assert found.route is not None
        made = found.results[0]
        assert made.selection is not None
        assert made.verdict is not None
        matrix = wb.matrix([*capture, *wb.open(paths[1])], ["vllm==0.23.0", "vllm==0.33.0"], device="h200")
        repeats = wb.repeat(row, 3, paths="vllm.filtered")
        whatif, advice = wb.what_if(row, "vllm.filtered", capacity=99), wb.advise(capture)
        out = tmp_path_factory.mktemp("out")
        first = parted.earliest.first
        assert first is not None
        assert repeats.lines[0].repeatability is not None
        fault = Fact("packages", MARKUP, MARKUP, "broken", MARKUP, MARKUP)
        bench = run_bench(plan(CONTENDER), vendor(Fake()))
        audit = audited(folder, out / "audit")
        remedy = replace(advice.remedies[0], what=MARKUP, caveats=(MARKUP,))
        part = replace(advice.parts[0], op=MARKUP, notes=(MARKUP,), remedies=(remedy,))
        cell = replace(matrix.cells[0][0], op=MARKUP, unknown=MARKUP, verdict=None, calls=0, risk=None)
        yield [
            *(capture, capture.info, row, row.call, capture.tokens[0], found, made, made.selection, made.verdict),
            *(found.census[0], found.route, repeats, repeats.lines[0], repeats.lines[0].repeatability),
            *(wb.run(capture, engine="recorded"), parted, parted.earliest, first, parted.earliest.look(first)),
            *(matrix, cell, wb.bisect_release(row, ["vllm==0.23.0", "vllm==0.33.0"], device="h200")),
            *(wb.compare(row), wb.compare(row, by="releases"), whatif, whatif.curve("capacity")),
            *(advice, replace(advice, parts=(part, part)), part, remedy, Doctor("0", (fault,))),
            wb.shrink(row, "vllm.filtered", time_limit=1),
            wb.export(row, to=out, path="vllm.histogram_256"),
            *(wb.paths("vllm.filtered")[0], wb.plan_topk_v2([70000], "sglang==0.5.18", "h200")),
            *(bench, replace(bench, machine=replace(bench.machine, name=MARKUP))),
            *(audit, summarize(Dataset(audit.out))),
        ]


class Elements(HTMLParser):
    """What a browser makes of HTML: its elements and their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.depth = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.depth += 1
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        self.depth -= 1


def pictures(parts: list[Part]) -> Iterator[Picture]:
    for part in parts:
        if isinstance(part, Picture):
            yield part
        elif isinstance(part, Folded):
            yield from pictures(list(part.parts))


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from strings(one)


def test_every_kind_is_there(results: list[Rendered]) -> None:
    names = {f"{type(one).__module__}.{type(one).__qualname__}" for one in results}
    assert names == set(_TOLD)


def test_nothing_of_a_file_is_markup_in_any_result(results: list[Rendered]) -> None:
    told = 0
    for result in results:
        html = result._repr_html_()
        seen = Elements(html)
        assert seen.tags <= TAGS, type(result)
        assert seen.attributes <= {"class", "style"}, type(result)
        assert seen.depth == 0, type(result)
        assert as_text(parts_of(result)), type(result)
        told += "&lt;img src=x" in html
    assert told > len(results) // 3


def test_nothing_of_a_file_is_markup_in_any_picture(results: list[Rendered]) -> None:
    """plotly makes elements of a few tags; what it is to show as text has its < as an entity."""
    told = 0
    for result in results:
        for picture in pictures(parts_of(result)):
            texts = list(strings(picture.draw().to_dict()))
            assert not [text for text in texts if "<img" in text or "<i>" in text], type(result)
            told += any("&lt;img" in text and "&amp;lt;i" in text for text in texts)
            escaped = fragment([Picture(MARKUP, picture.draw, MARKUP)], lambda one: "drawn")
            assert Elements(escaped).tags <= TAGS
    assert told


def test_the_page_of_a_row_and_its_title_are_text(results: list[Rendered], tmp_path: Path) -> None:
    found = next(one for one in results if isinstance(one, wb.Inspection))
    origin = Origin(file=MARKUP, digest=MARKUP, arguments=(MARKUP,), notes=(MARKUP,))
    for text in (
        row_page(found, origin, MARKUP),
        save_page(found.row, tmp_path / "row.html", overwrite=False).read_text(),
    ):
        body = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
        assert "img" not in Elements(body).tags
        assert "&lt;img src=x" in body
        drawn = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)[1:]
        assert not [script for script in drawn if "<img" in script]


def test_names_of_tensors_are_text(tmp_path: Path) -> None:
    path = tmp_path / f"{MARKUP}.safetensors"
    scores, lengths = f"s{MARKUP}", f"n{MARKUP}"
    save_file({scores: torch.randn(2, 900), lengths: torch.tensor([900, 500], dtype=torch.int32)}, path)
    with wb.open(path, scores=scores, lengths=lengths, k=64) as capture:
        for result in (capture, capture.info, capture[0], wb.inspect(capture[1], paths="vllm.filtered")):
            seen = Elements(result._repr_html_())
            assert seen.tags <= TAGS
            assert seen.attributes <= {"class", "style"}
