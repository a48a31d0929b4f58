"""Results as pages that stand alone, and as pieces of a notebook: what they hold, and that nothing in them runs."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
import torch
from plotly.io.json import to_json_plotly

import workbench as wb
from tests.figures.colours import contrast
from workbench.errors import UsageError
from workbench.figures import palette, themes
from workbench.figures.html import MARKED, as_text, fragment
from workbench.figures.notebook import parts_of
from workbench.figures.page import page
from workbench.figures.parts import Folded, Note, Part, Picture, Said, Table
from workbench.figures.row_page import Origin, row_page
from workbench.runs.inspect import Inspection

ROOT = Path(__file__).parents[2]
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&amp;\"'"
SAMPLE = ROOT / "captures" / "public-vllm-v100.safetensors"


class Seen(HTMLParser):
    """The elements of a page, the text of its cells, and its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.tables: list[list[list[str]]] = []
        self.scripts: list[str] = []
        self.headings: list[str] = []
        self._into: list[str] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self._into = self.tables[-1][-1]
        elif tag == "script":
            self.scripts.append("")
            self._into = self.scripts
        elif tag in ("h1", "h2"):
            self.headings.append("")
            self._into = self.headings

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "script", "h1", "h2"):
            self._into = None

    def handle_data(self, data: str) -> None:
        if self._into is not None:
            self._into[-1] += data


def bars() -> go.Figure:
    return go.Figure(go.Bar(x=[1, 2], y=[3, 4], text=[HOSTILE, "b"], name=HOSTILE))


PARTS: list[Part] = [
    Said(HOSTILE),
    Note(HOSTILE),
    Picture(HOSTILE, bars, HOSTILE),
    Table(HOSTILE, ((HOSTILE, "text"), ("risk", "word"), ("n", "number")), ((HOSTILE, "at risk", 1234567),), HOSTILE),
    Folded(HOSTILE, (Table("", (("", "word"), ("", "text")), (("nothing", None),)),)),
]


@pytest.fixture(scope="module")
def found() -> Inspection:
    return wb.inspect(wb.open(SAMPLE)[0], release="vllm==0.23.0")


def policy_of(text: str) -> dict[str, list[str]]:
    said = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert said is not None
    return {part.split()[0]: part.split()[1:] for part in unescape(said[1]).split(";")}


def pictures_of(seen: Seen) -> list[list[Any]]:
    """The figures of a page, each with what changes in it on a dark page."""
    calls = re.findall(r'^picture\("picture-\d+", \.\.\.(.*)\);$', seen.scripts[1], re.MULTILINE)
    return [json.loads(told) for told in calls]


def test_nothing_of_a_file_is_markup() -> None:
    seen = Seen(page(HOSTILE, PARTS, HOSTILE))
    assert "img" not in seen.tags
    assert seen.tags.count("script") == 2
    assert seen.headings == [HOSTILE] * 3
    assert seen.tables[0] == [[HOSTILE, "risk", "n"], [HOSTILE, "at risk", "1,234,567"]]
    assert seen.tables[1] == [["nothing", "–"]]
    assert not [name for name, _ in seen.attributes if name.startswith("on") or name in ("src", "href")]


def test_a_page_runs_its_own_scripts_alone_and_fetches_nothing() -> None:
    text = page("a page", PARTS, "a test")
    policy, seen = policy_of(text), Seen(text)
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == ["'none'"]
    hashes = [f"'sha256-{b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in seen.scripts]
    assert policy["script-src"] == hashes
    assert not any("http" in source for sources in policy.values() for source in sources)
    (drawn, _), *_ = pictures_of(seen)
    assert drawn["data"][0]["name"] == HOSTILE


def test_a_page_without_pictures_has_no_script() -> None:
    text = page("a page", [part for part in PARTS if not isinstance(part, Picture)], "a test")
    assert "script" not in Seen(text).tags
    assert "script-src" not in policy_of(text)
    assert len(text) < 10_000


def test_a_piece_of_a_notebook_has_neither_script_nor_picture_and_the_same_cells() -> None:
    seen = Seen(fragment(PARTS))
    assert not {"script", "img", "h1", "h2"} & set(seen.tags)
    assert seen.tables == Seen(page("", PARTS, "")).tables
    assert as_text(PARTS).count(HOSTILE) == 7


def test_pictures_of_a_page_become_what_the_app_shows_in_the_dark(found: Inspection) -> None:
    drawn = [part.draw() for part in parts_of(found) if isinstance(part, Picture)]
    shown = pictures_of(Seen(page("a page", parts_of(found), "a test")))
    assert len(shown) == len(drawn) > 0
    for figure, (light, changes) in zip(drawn, shown, strict=True):
        assert light == json.loads(to_json_plotly(figure))
        for place, value in changes:
            part = light
            for step in place[:-1]:
                part = part[step]
            part[place[-1]] = value
        assert light == json.loads(to_json_plotly(themes.darkened(figure)))
        assert len(json.dumps(changes)) < 20_000


def test_words_of_findings_are_chips_that_read_on_light_and_dark() -> None:
    table = Table(
        "", (("risk", "word"), ("state", "word"), ("other", "word")), (("certain", "values vary", "certain"),)
    )
    text = fragment([table])
    assert re.findall(r'class="chip" style="--light:(#\w+);--dark:(#\w+)">([\w ]+)<', text) == [
        (MARKED[word], palette.DARK[MARKED[word]], word) for word in ("certain", "values vary")
    ]
    for colour in MARKED.values():
        assert contrast(palette.PAPER, colour) >= 4.5
        assert contrast(palette.DARK_PAPER, palette.DARK[colour]) >= 4.5


def test_the_page_of_a_row_holds_what_happened_and_where_it_is_from(found: Inspection) -> None:
    origin = Origin(file="some.safetensors", digest="sha256:abc", arguments=("--release", "vllm==0.23.0"), seed=7)
    text = row_page(found, origin, "a test")
    seen = Seen(text)
    assert seen.headings[0] == "some.safetensors, row 0"
    assert "The model of vllm.histogram_2048 (stock) lost 64 winners of 512 in one arrival order (any one " in text
    assert "loses 0 to 388): 4096 scores share the threshold bin 2016 and the buffer takes 3708" in text
    cells = {line[0]: line[1] for table in seen.tables for line in table if len(line) == 2}
    assert cells["digest of the file"] == "sha256:abc"
    assert cells["digest of the row"] == found.row.digest
    assert cells["look again"].startswith("workbench inspect some.safetensors --row 0 --release vllm==0.23.0")
    assert cells["look again"].endswith("--seed 7")
    assert cells["torch"] == torch.__version__
    lost = next(table for table in seen.tables if table[0] == ["rank", "index", "score", "gap to the k-th"])
    expected = sorted(found.results[0].verdict.difference.lost.tolist())[:10]  # type: ignore[union-attr]
    assert [int(line[1]) for line in lost[1:]] == expected
    census = next(table for table in seen.tables if table[0][:2] == ["path", "risk"])
    assert census[1][:5] == ["▸ vllm.histogram_2048", "at risk", "4,096", "3,708", "512"]
    assert len(census) - 1 == sum(not risk.refused for risk in found.census)
    assert len(pictures_of(seen)) == 3
    assert str(ROOT) not in text
    assert len(text) < 5_500_000


def test_the_page_of_a_row_in_memory_names_no_file(found: Inspection) -> None:
    row = replace(found.row, capture="")
    text = row_page(wb.inspect(row, release="vllm==0.23.0"))
    assert "<h1>A row in memory</h1>" in text
    assert "look again" not in text


@pytest.mark.parametrize(
    ("scores", "length", "k"),
    [
        (torch.zeros(8), 0, 4),
        (torch.arange(8.0), 4, 4),
        (torch.arange(8.0), 5, 4),
        (torch.full((3000,), float("nan")), 3000, 2048),
        (torch.full((3000,), float("-inf")), 3000, 2048),
        (torch.arange(3000.0).to(torch.bfloat16), 3000, 512),
        (torch.arange(3000.0).to(torch.float16), 3000, 512),
        (torch.arange(3000.0), 5000, 512),
        (torch.arange(3000.0), -3, 512),
        (torch.arange(9000.0), 9000, 1),
        (torch.arange(9000.0), 9000, 9000),
    ],
)
def test_rows_of_every_kind_have_a_page_and_are_shown(scores: torch.Tensor, length: int, k: int) -> None:
    row = wb.Row(scores, length, call=wb.Call(k=k))
    inspected = wb.inspect(row)
    assert "</html>" in row_page(inspected)
    for result in (row, row.call, inspected, *inspected.census, inspected.exact):
        assert result._repr_html_().count("<div") == result._repr_html_().count("</div")


def test_a_page_is_whole_or_not_there_and_replaces_nothing_silently(found: Inspection, tmp_path: Path) -> None:
    target = tmp_path / "row.html"
    target.write_text("mine")
    with pytest.raises(UsageError, match="overwrite=True"):
        found.to_html(target)
    assert target.read_text() == "mine"
    assert found.to_html(target, overwrite=True) == target
    assert target.read_text().endswith("</html>\n")
    for wrong in ("", str(tmp_path), f"{tmp_path}/no/folder.html", "a\0b", f"{tmp_path}/"):
        with pytest.raises(UsageError):
            found.to_html(wrong, overwrite=True)
    assert [one.name for one in tmp_path.iterdir()] == ["row.html"]


def test_every_result_has_a_page_named_by_what_it_says(found: Inspection, tmp_path: Path) -> None:
    assert found.route is not None
    heading = Seen(found.route.to_html(tmp_path / "route.html").read_text()).headings[0]
    assert heading == "Route: vllm.persistent_topk of vllm==0.23.0 on v100 → vllm.histogram_2048 (stock)"
