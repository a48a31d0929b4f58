"""Steps from bad row to bad row, and the row that pages share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import streamlit as st
import torch
from streamlit.testing.v1 import AppTest

from tests.ui.conftest import K, texts
from tests.ui.test_app import BAD, param, pick
from workbench.capture import Call, Row, write_capture
from workbench.ui import loading
from workbench.ui.carried import KEPT
from workbench.ui.loading import Summary
from workbench.ui.steps import NEXT, PREVIOUS, ahead, is_bad

Open = Callable[..., AppTest]
MANY = "dumps/many.safetensors"
CROWDED = (3, 70, 118)


@pytest.fixture
def many(folder: Path) -> None:
    """120 short rows, and among them three whose threshold bin is crowded."""
    st.cache_resource.clear()
    random = torch.Generator().manual_seed(0)
    known = {"op": "vllm.persistent_topk", "release": "vllm==0.26.0", "device": "h200"}
    call = Call(k=K, rows=120, width=9000, stride=9000, max_seq_len=9000, **known)  # type: ignore[arg-type]
    rows = []
    for number in range(120):
        crowded = number in CROWDED
        scores = torch.rand(9000, generator=random) * 0.245 + 1.0 if crowded else torch.randn(9000, generator=random)
        rows.append(Row(scores, 9000 if crowded else 700, call=call))
    write_capture(folder / "many.safetensors", rows)


def press(test: AppTest, label: str) -> AppTest:
    return next(one for one in test.sidebar.button if one.label == label).click().run(timeout=120)


def test_what_is_bad() -> None:
    assert not is_bad(Summary(0, 9, "exact", "safe"))
    assert not is_bad(Summary(0, 9, "ties", "safe"))
    assert not is_bad(Summary(0, 9))
    for line in (Summary(0, 9, "lossy"), Summary(0, 9, "invalid"), Summary(0, 9, error="cannot be read")):
        assert is_bad(line)
    assert is_bad(Summary(0, 9, "exact", "at risk"))
    assert is_bad(Summary(0, 9, None, "certain"))


def test_the_next_bad_row_is_the_next_that_is_not_known_to_be_good() -> None:
    known = {number: Summary(number, 9, "lossy" if number in (1, 4) else "exact") for number in range(6)}
    assert ahead(known, 6, 1, NEXT) == (4, True)
    assert ahead(known, 6, 4, NEXT) is None
    assert ahead(known, 6, 4, PREVIOUS) == (1, True)
    assert ahead(known, 6, 1, PREVIOUS) is None
    assert ahead(known, 7, 4, NEXT) == (6, False)
    del known[2]
    assert ahead(known, 6, 4, PREVIOUS) == (2, False)


def test_steps_find_bad_rows_past_those_inspected(app: Open, many: None, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    inspect_row = loading.inspect_row
    monkeypatch.setattr(loading, "inspect_row", lambda row, **more: seen.append(row.index) or inspect_row(row, **more))
    test = app(capture=MANY)
    assert param(test, "row") == "3"
    assert "1 of the 50 rows inspected is bad." in texts(test)
    press(test, "Next bad row")
    assert not test.exception
    assert param(test, "row") == "70"
    assert sorted(seen) == list(range(100))  # up to the row, then the page of the list that it is on
    assert 70 in list(test.sidebar.dataframe[0].value["row"])
    press(test, "Next bad row")
    assert param(test, "row") == "118"
    press(test, "Previous bad row")
    assert param(test, "row") == "70"
    assert "3 of 120 rows are bad." in texts(test)
    assert sorted(seen) == list(range(120))  # nothing twice
    press(test, "Previous bad row")
    assert param(test, "row") == "3"
    buttons = {one.label: one for one in test.sidebar.button}
    assert buttons["Previous bad row"].disabled
    assert not buttons["Next bad row"].disabled


def test_where_no_row_is_bad_it_is_said(app: Open, folder: Path) -> None:
    st.cache_resource.clear()
    call = Call(k=K)
    random = torch.Generator().manual_seed(0)
    write_capture(
        folder / "many.safetensors", [Row(torch.randn(700, generator=random), 700, call=call) for _ in range(60)]
    )
    test = app(capture=MANY, row="10")
    press(test, "Next bad row")
    assert not test.exception
    assert "There is no bad row after row 10." in texts(test)
    assert param(test, "row") == "10"
    assert "None of 60 rows is bad." in texts(test)
    assert "no bad row after" not in texts(test.run())


def test_a_capture_of_one_row_has_no_steps(app: Open, folder: Path) -> None:
    write_capture(folder / "one.safetensors", [Row(torch.randn(700), 700, call=Call(k=K))])
    test = app(capture="dumps/one.safetensors")
    assert not test.exception
    assert not [one for one in test.sidebar.button if "bad row" in one.label]


def _pages() -> None:
    """Two pages that show one row, and one that does not; ``page`` in the session says which is turned to."""
    import streamlit as st

    from tests.ui.test_steps import MINE
    from workbench.ui import state
    from workbench.ui.rowpage import Shown, show_row_page

    def show(shown: Shown) -> None:
        st.caption(f"mine: {MINE.current().size} of row {shown.number}")

    match st.session_state.get("page", "mine"):
        case "mine":
            show_row_page(MINE, show)
        case "inspect":
            show_row_page(state.VIEW, lambda shown: st.caption(f"theirs: row {shown.number}"))
        case _:
            state.leave_page()


@dataclass(frozen=True)
class Mine:
    size: int = 1


def _read(params: object) -> tuple[Mine, list[str]]:
    given = dict(params)  # type: ignore[call-overload]
    size = given.pop("size", ["1"])[-1]
    return Mine(int(size)), [f"unknown: {', '.join(given)}"] if given else []


def _mine() -> object:
    from workbench.ui import state

    return state.beside_row("mine", _read, lambda value: {"size": [str(value.size)]}, also=("path",))


MINE = _mine()


@pytest.fixture
def pages(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    def open_pages(**params: str) -> AppTest:
        monkeypatch.setattr("sys.argv", ["app.py", str(folder)])
        test = AppTest.from_function(_pages, default_timeout=60)
        for name, value in params.items():
            test.query_params[name] = value
        return test.run()

    return open_pages


def turn(test: AppTest, page: str, **params: str) -> AppTest:
    """Turn to a page, as a link or a step of the browser does."""
    test.session_state["page"] = page
    test.query_params.clear()
    test.query_params.update(params)
    return test.run()


def carried(test: AppTest) -> dict[str, str]:
    return {name: param(test, name) for name in test.query_params}


def test_a_link_of_the_bar_turns_to_what_the_session_has(pages: Open) -> None:
    test = pages()
    turn(test, "inspect", capture=BAD, row="2", path="vllm.filtered")
    turn(test, "mine", capture=BAD, row="0", path="vllm.radix", size="7", **{KEPT: "1"})
    assert "mine: 1 of row 2" in texts(test)
    assert param(test, "path") == "vllm.filtered"
    assert KEPT not in test.query_params
    turn(test, "inspect", capture=BAD, row="1", **{KEPT: "1"})
    assert "theirs: row 2" in texts(test)


def test_pages_share_the_row_and_keep_what_is_their_own(pages: Open) -> None:
    test = pages(capture=BAD, row="2", size="7", path="vllm.filtered")
    assert "mine: 7 of row 2" in texts(test)
    first = carried(test)
    assert (first["capture"], first["row"], first["size"], first["path"]) == (BAD, "2", "7", "vllm.filtered")
    turn(test, "inspect")
    assert "theirs: row 2" in texts(test)
    assert param(test, "path") == "vllm.filtered"
    turn(test, "inspect", capture=BAD, row="0", view="diff")
    assert "theirs: row 0" in texts(test)
    turn(test, "mine")
    assert "mine: 7 of row 0" in texts(test)
    assert "view" not in test.query_params
    turn(test, "elsewhere")
    turn(test, "inspect")
    assert (param(test, "row"), param(test, "view")) == ("0", "diff")
    turn(test, "mine", **first)  # a step back to it
    assert "mine: 7 of row 2" in texts(test)
    turn(test, "inspect")
    assert (param(test, "row"), param(test, "view")) == ("2", "diff")
    assert not test.warning


def test_a_step_back_to_a_url_that_was_written_last_restores_its_row(pages: Open) -> None:
    test = pages(capture=BAD, row="2")
    first = carried(test)
    turn(test, "inspect", capture=BAD, row="0")
    turn(test, "mine", **first)
    assert "mine: 1 of row 2" in texts(test)


def warned(test: AppTest) -> str:
    return "\n".join(one.value for one in test.warning).replace("\\", "")


def test_what_is_said_of_a_link_goes_with_the_next_change(pages: Open) -> None:
    test = pages(capture=BAD, row="x", zzz="1", size="3")
    assert "The link's row is left out" in warned(test)
    assert "unknown: zzz" in warned(test)
    assert "mine: 3 of row 1" in texts(test)
    assert "zzz" not in warned(turn(test, "inspect"))
    turn(test, "mine")
    pick(test, "k").set_value("1024").run()  # type: ignore[attr-defined]
    assert "row is left out" not in warned(test)


def test_a_page_of_another_kind_does_not_give_its_parameters_to_the_row(folder: Path, app: Open) -> None:
    st.cache_resource.clear()

    def script() -> None:
        import streamlit as st

        from workbench.ui import state
        from workbench.ui.releases_view import RELEASED

        RELEASED.follow_url()
        st.caption(f"row {state.current().row}, notices {state.VIEW.notices()}")

    test = AppTest.from_function(script)
    test.query_params["row"], test.query_params["source"] = "77", "x"
    assert "row None, notices []" in texts(test.run())
