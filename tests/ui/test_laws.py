"""Pages say whose law a chance and a mean are where a path's scores arrive warp by warp."""

from __future__ import annotations

from pathlib import Path

import pytest

import workbench as wb
from tests.fakes import Releases, clean
from tests.ui.conftest import texts
from tests.ui.pages import driven, settled
from tests.warps import routed_warp

LAW = "hance and mean are of scores one by one; this path's arrive in warps of 32"
BOUND = ", a random order of which loses nothing with a probability of at most 0.9840"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one row of ``vllm.histogram_2048``, and what ten real calls made of it."""
    folder = tmp_path / "dumps"
    folder.mkdir()
    wb.write(folder / "warps.safetensors", [routed_warp()])
    fake = Releases({"0.32.0": clean})
    wb.write_matrix(folder / "measured.json", wb.matrix(routed_warp(), fake.names, engine=fake))
    return folder


@pytest.mark.parametrize(
    ("page", "params"),
    [
        ("inspect", {"view": "bins"}),
        ("inspect", {"view": "capacity"}),
        ("compare", {"on": "vllm.histogram_2048", "at": "stock"}),
        ("what-if", {}),
        ("releases", {"source": "dumps/warps.safetensors", "at": "vllm==0.32.0"}),
    ],
    ids=lambda one: one if isinstance(one, str) else "-".join(one.values()).replace("/", "-"),
)
def test_a_page_of_a_row_of_warps_says_it(folder: Path, page: str, params: dict[str, str]) -> None:
    where = {"capture": "dumps/warps.safetensors", "row": "0"} if "source" not in params else {}
    test = driven(page, [folder], **where, **params).run()
    assert not test.exception
    assert f"{LAW}{BOUND}." in texts(test)


def test_ten_real_calls_do_not_make_a_clean_cell_of_it(folder: Path) -> None:
    """By the law of scores one by one they would: they would pass with a probability of 1e-8."""
    test = driven("releases", [folder], source="dumps/measured.json").run()
    assert not test.exception
    said = texts(test)
    assert "Row 0 in vllm==0.32.0: can lose" in said
    assert "a row with p_clean in warps of 32 at most 0.9840 passes 10 calls with probability 0.851" in said
    assert f"C{LAW}{BOUND}." in said
    assert test.dataframe[0].value["0.32.0"].tolist() == ["at risk"]


def test_a_page_of_other_paths_does_not(folder: Path) -> None:
    test = driven("compare", [folder], capture="dumps/warps.safetensors", row="0", on="sglang.v2_cluster_8", at="stock")
    said = texts(test.run())
    assert "sglang.v2_cluster_8 (stock): can lose" in said
    assert said.count(LAW) == 1  # below the table of all


def test_a_row_of_warps_that_was_shrunk_says_it(folder: Path) -> None:
    test = driven("export", [folder], capture="dumps/warps.safetensors", row="0").run()
    next(one for one in test.button if one.label == "Shrink").click().run()
    said = texts(settled(test))
    assert "Row 0 shrank" in said
    assert LAW in said
