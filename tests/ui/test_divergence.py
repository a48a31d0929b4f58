"""The page of compared runs as a person meets it: what it says, what it links to, and bad input answered in a line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

import workbench as wb
from tests.diverging import lossy, make_run, one_ulp, other_order, other_tie, unrecorded
from tests.ui.conftest import texts
from workbench.errors import UsageError
from workbench.runs import diverge as comparing
from workbench.runs.captured import CapturedRun
from workbench.ui import divergence_runs
from workbench.ui.divergence_view import Compared, from_params, to_params

AT = (2, 1)
Open = Callable[..., AppTest]


def _script() -> None:
    import streamlit as st

    from workbench.ui.divergence import divergence_page
    from workbench.ui.pages import navigation

    st.navigation(navigation())
    divergence_page()


def save(path: Path, rows: list[wb.Row], tokens: tuple[int, ...] = ()) -> Path:
    path.parent.mkdir(exist_ok=True)
    wb.write(path, rows, tokens=[wb.Token(step, token) for step, token in enumerate(tokens)])
    return path


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with a run and one for each fault, and folders with a file a rank."""
    where = tmp_path / "dumps"
    save(where / "a.safetensors", make_run(), (11, 12, 13, 14))
    for name, change in {"lossy": lossy, "ulp": one_ulp, "tie": other_tie, "order": other_order}.items():
        save(where / f"{name}.safetensors", make_run(AT, change), (11, 12, 17, 14))
    for rank in (0, 1, 2):
        rows = make_run(AT, other_tie, rank=rank) if rank == 2 else make_run(rank=rank)
        save(where / "tp" / f"rank{rank}.safetensors", rows)
    return where


@pytest.fixture
def page(runs: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    def open_page(*run: str, **params: str) -> AppTest:
        monkeypatch.setattr(sys, "argv", ["app.py", str(runs)])
        test = AppTest.from_function(_script, default_timeout=60)
        if run:
            test.query_params["run"] = [f"dumps/{name}" for name in run]
        for name, value in params.items():
            test.query_params[name] = value
        return test.run()

    return open_page


def files(*names: str) -> list[str]:
    return [f"{name}.safetensors" for name in names]


def params(test: AppTest) -> dict[str, list[str]]:
    return {name: [value] if isinstance(value, str) else list(value) for name, value in test.query_params.items()}


def links(test: AppTest) -> list[tuple[str, str]]:
    return [
        (link.proto.label.replace("\\", ""), re.sub("digest=[0-9a-f]{16}&", "", link.proto.query_string))
        for link in test.get("page_link")
    ]


def table(test: AppTest, column: str) -> Any:
    return next(one.value for one in test.dataframe if column in one.value)


def test_with_nothing_chosen_it_says_what_to_do_and_offers_what_lies_together(page: Open) -> None:
    test = page()
    assert not test.exception
    assert "Choose two or more runs of the same prompt at temperature 0" in texts(test)
    assert [button.label.replace("\\", "") for button in test.button] == [
        "dumps: a, lossy, order, tie, ulp",
        "samples/greedy-ties: exact, order-1, order-2",
        "samples/greedy-values: exact, order-1, order-2",
    ]
    offered = test.multiselect(key="runs").options
    assert "dumps/a.safetensors" in offered
    assert "dumps/tp/  (3 files)" in offered
    test.button[0].click().run()
    assert not test.exception
    assert params(test)["run"] == [f"dumps/{name}" for name in files("a", "lossy", "order", "tie", "ulp")]
    assert "against" not in params(test)


def test_one_run_asks_for_a_second(page: Open) -> None:
    test = page(*files("a"))
    assert "Choose a second run, or compare the ranks of this one." in texts(test)


@pytest.mark.parametrize(
    ("name", "state", "said"),
    [
        ("lossy", "values vary", "The selector is at fault in dumps/lossy.safetensors"),
        ("tie", "ties vary", "2 indices differ between equal scores (1000)"),
        ("order", "order varies", "the same 8 indices in another order"),
        ("ulp", "input differs", "the selector is not accused, for its input differs"),
    ],
)
def test_each_fault_is_said_counted_listed_and_shown_in_full(page: Open, name: str, state: str, said: str) -> None:
    test = page(*files("a", name))
    assert not test.exception
    assert f"dumps/{name}.safetensors parts from dumps/a.safetensors at step 2, layer 1, row 0" in texts(test)
    assert said in texts(test)
    assert f"Step 2, layer 1, row 0: {state}" in texts(test)
    counts = table(test, "first")
    assert dict(zip([chip[0] for chip in counts["state"]], counts["points"], strict=True)) == {"same": 11, state: 1}
    parting = table(test, "row in a")
    assert parting[["step", "layer", "row", "row in a", "row in b"]].values.tolist() == [[2, 1, 0, 7, 7]]
    assert links(test) == [
        (
            f"Inspect {side}: row 7 of dumps/{file}.safetensors",
            f"capture=dumps%2F{file}.safetensors&row=7&view=diff&engine=recorded",
        )
        for side, file in (("a", "a"), ("b", name))
    ]
    metrics = {metric.label: metric.value for metric in test.metric}
    if state == "input differs":
        assert (metrics["Cells that differ"], metrics["First at index"], metrics["Most ULPs"]) == ("1 of 66", "20", "1")
    else:
        lost = "lossy, 1 lost" if state == "values vary" else "ties" if state == "ties vary" else "exact"
        assert (metrics["Verdict a"], metrics["Verdict b"]) == ("exact", lost)
    assert test.code[0].value == wb_finding(test)


def wb_finding(test: AppTest) -> str:
    """The finding of the runs that are shown, as the command line prints it, under the names of the page."""
    chosen = params(test)["run"]
    folder = Path(sys.argv[1]).parent
    opened = [CapturedRun(folder / key, name=key, labels=lambda path: str(path.relative_to(folder))) for key in chosen]
    return comparing.diverge(*opened).finding


def test_a_row_that_its_length_leaves_is_shown_without_verdicts(page: Open, runs: Path) -> None:
    for name, change in (("whole", replace), ("other", lossy)):
        save(runs / f"{name}.safetensors", make_run(AT, lambda row, change=change: replace(change(row), length=99)))
    test = page(*files("whole", "other"))
    assert not test.exception
    assert "neither side is judged and the selector is not accused" in texts(test)
    labels = [metric.label for metric in test.metric]
    assert "Slots that differ" in labels
    assert not any(label.startswith("Verdict") for label in labels)


def test_who_holds_what_stands_side_by_side(page: Open) -> None:
    test = page(*files("a", "lossy"))
    a, b = [one.value for one in test.dataframe if "gap" in one.value]
    assert (len(a), len(b)) == (1, 1)
    assert b["index"].tolist() == [65]
    assert float(a["gap"].iloc[0]) > 0
    assert b["gap"].iloc[0].startswith("−")


def test_tokens_are_compared(page: Open) -> None:
    test = page(*files("a", "lossy"))
    tokens = table(test, "token_a")
    assert tokens[["step", "state", "token_a", "token_b"]].values.tolist()[0] == [2, "token differs", 13, 17]
    said = texts(test)
    assert "Tokens** — 1 of 4 part" in said
    assert said.index("Tokens**") < said.index("Where they part**")  # on the first screen, beside the counts


def test_runs_that_do_not_part_are_said_to_be_the_same(page: Open, runs: Path) -> None:
    save(runs / "b.safetensors", make_run(), (11, 12, 13, 14))
    test = page(*files("a", "b"))
    assert not test.exception
    assert "dumps/b.safetensors does not part from dumps/a.safetensors: all 12 points are the same" in texts(test)
    assert "They part at none of these points" in texts(test)
    assert not links(test)
    shown = page(*files("a", "b"), point="5")
    assert "Step 1, layer 2, row 0: same" in texts(shown)
    assert len(links(shown)) == 2


def test_a_point_that_a_link_names_is_shown_and_the_link_is_kept(page: Open) -> None:
    first = page(*files("a", "lossy"))
    assert params(first) == {"run": ["dumps/a.safetensors", "dumps/lossy.safetensors"]}  # nothing was chosen
    test = page(*files("a", "lossy"), point="3")
    assert "Step 1, layer 0, row 0: same" in texts(test)
    assert params(test)["point"] == ["3"]
    assert not test.warning


def test_a_url_that_changed_is_followed(page: Open) -> None:
    test = page(*files("a", "lossy"), point="3")
    test.query_params["run"] = ["dumps/a.safetensors", "dumps/ulp.safetensors"]
    del test.query_params["point"]
    test.run()
    assert "Step 2, layer 1, row 0: input differs" in texts(test)
    assert test.multiselect(key="runs").value == ["dumps/a.safetensors", "dumps/ulp.safetensors"]


def test_choosing_runs_forgets_the_point(page: Open) -> None:
    test = page(*files("a", "lossy"), point="3")
    test.multiselect(key="runs").set_value(["dumps/a.safetensors", "dumps/tie.safetensors"]).run()
    assert "Step 2, layer 1, row 0: ties vary" in texts(test)
    assert set(params(test)) == {"run"}


def test_of_several_runs_the_earliest_parting_is_shown_and_each_can_be(page: Open, runs: Path) -> None:
    save(runs / "early.safetensors", make_run((0, 2), other_order))
    test = page(*files("a", "lossy", "early"))
    assert not test.exception
    box = test.selectbox(key="against")
    assert box.value == 1
    assert box.options == [
        "dumps/lossy.safetensors: values vary at step 2, layer 1, row 0",
        "dumps/early.safetensors: order varies at step 0, layer 2, row 0",
    ]
    assert "Of 2 runs, 2 part from dumps/a.safetensors, this one first." in test.code[0].value
    box.set_value(0).run()
    assert params(test)["against"] == ["0"]
    assert "Step 2, layer 1, row 0: values vary" in texts(test)
    assert "Of 2 runs" not in test.code[0].value


def test_a_folder_is_one_run_and_its_ranks_can_be_shown_apart(page: Open, runs: Path) -> None:
    for rank in (0, 1):
        save(runs / "tp2" / f"rank{rank}.safetensors", make_run(AT, lossy, rank=rank) if rank else make_run(rank=rank))
    (runs / "tp" / "rank2.safetensors").unlink()
    st.cache_data.clear()
    test = page("tp/", "tp2/")
    assert not test.exception
    assert "dumps/tp2 parts from dumps/tp at step 2, layer 1, rank 1, row 0" in texts(test)
    assert "24 points" in texts(test)
    assert links(test)[1][0] == "Inspect b: row 7 of dumps/tp2/rank1.safetensors"
    assert test.selectbox(key="rank").options == ["all 2", "0", "1"]
    test.selectbox(key="rank").set_value(0).run()
    assert params(test)["rank"] == ["0"]
    assert "12 points" in texts(test)
    assert "They part at none of these points" in texts(test)


def test_the_ranks_of_one_run(page: Open) -> None:
    test = page("tp/", ranks="1")
    assert not test.exception
    assert test.toggle(key="ranks").value
    assert "rank 2 parts from rank 0 at step 2, layer 1, row 0" in texts(test)
    assert [option.split(":")[0] for option in test.selectbox(key="against").options] == ["rank 1", "rank 2"]
    test.toggle(key="ranks").set_value(False).run()
    assert "ranks" not in test.query_params
    assert "Choose a second run" in texts(test)


def test_ranks_of_several_runs_or_of_none_are_one_line(page: Open) -> None:
    test = page(*files("a", "lossy"), ranks="1")
    assert [box.value.replace("\\", "") for box in test.error] == ["ranks are those of one run, but 2 are given"]
    test = page(*files("a"), ranks="1")
    assert len(test.error) == 1
    assert "some calls do not say their rank" in test.error[0].value


def test_missing_extra_and_doubled_calls_are_said(page: Open, runs: Path) -> None:
    rows = make_run()
    save(runs / "less.safetensors", [row for row in rows if (row.call.step, row.call.layer) != AT])
    twice = [row.with_call(index=row.call.index + (at > 7)) for at, row in enumerate([*rows[:8], *rows[7:]])]
    save(runs / "twice.safetensors", twice)
    test = page(*files("a", "less"))
    assert "Step 2, layer 1, row 0: missing" in texts(test)
    assert "b, dumps/less.safetensors: not there" in texts(test)
    assert [label for label, _ in links(test)] == ["Inspect a: row 7 of dumps/a.safetensors"]
    test = page(*files("less", "a"))
    assert "Step 2, layer 1, row 0: extra" in texts(test)
    test = page(*files("a", "twice"))
    assert ": duplicate" in texts(test)


def test_runs_of_which_nothing_can_be_compared_say_so(page: Open, runs: Path) -> None:
    rows = [unrecorded(row) for row in make_run()]
    save(runs / "x.safetensors", rows)
    save(runs / "y.safetensors", rows)
    test = page(*files("x", "y"))
    assert not test.exception
    assert "no selection is recorded on both sides" in texts(test)
    shown = page(*files("x", "y"), point="0")
    assert [query for _, query in links(shown)] == [
        f"capture=dumps%2F{name}.safetensors&row=0&view=diff" for name in "xy"
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"point": "99"}, "The link names point 99; there are 12 points, from 0."),
        ({"against": "7"}, "The link names comparison 7, but there are 1 comparison, from 0."),
        ({"point": "x"}, "The link's point is left out: 'x' is not a whole number."),
        ({"ranks": "yes"}, "The link's ranks is left out: 'yes' is not 1."),
        (
            {"point": "3", "digest": "0123456789abcdef"},
            "The link was made from other content (digest 0123456789abcdef)",
        ),
        ({"colour": "red"}, "The link has a parameter that the workbench does not know: 'colour'."),
    ],
)
def test_what_a_link_says_wrongly_is_said(page: Open, given: dict[str, str], said: str) -> None:
    test = page(*files("a", "lossy"), **given)
    assert not test.exception
    assert said in texts(test)
    assert "Step" in texts(test)


def test_a_run_of_a_link_that_is_not_there_is_said(page: Open) -> None:
    test = page(*files("a", "gone"))
    assert "The link's run dumps/gone.safetensors is not among the files and folders given at start" in texts(test)
    assert params(test) == {"run": ["dumps/a.safetensors"]}


@pytest.mark.parametrize("folder", [False, True])
def test_a_damaged_file_is_one_line_that_names_it(page: Open, runs: Path, folder: bool) -> None:
    (runs / "tp" / "rank1.safetensors").write_bytes(b"these are no tensors")
    st.cache_data.clear()
    test = page("tp/", "a.safetensors") if folder else page("a.safetensors", "tp/rank1.safetensors")
    assert not test.exception
    assert len(test.error) == 1
    assert test.error[0].value.replace("\\", "").startswith("dumps/tp/rank1.safetensors: ")
    assert str(runs.parent) not in test.error[0].value


def test_names_in_files_are_never_markup(page: Open, runs: Path) -> None:
    name = "**bold** :red[x] <script>alert(1)</script>"
    rows = [replace(row, call=replace(row.call, request=name)) for row in make_run()]
    others = [replace(row, call=replace(row.call, request=name + "2")) for row in make_run()]
    for folder, changed in (("__init__[x](y)a", rows), ("b*c*", [*rows[:7], lossy(rows[7]), *rows[8:]])):
        save(runs / folder / "1.safetensors", changed)
        save(runs / folder / "2.safetensors", others)
    test = page("__init__[x](y)a/", "b*c*/")
    assert not test.exception
    for one in [*test.markdown, *test.caption, *test.warning, *test.error]:
        assert "<script" not in re.sub(r"\\<", "", one.value)
        assert not re.search(r"(?<!\\)\*\*bold", one.value)
        assert "[x](y)" not in one.value or one.value.startswith("<div")
    assert all("[x](y)" not in link.proto.label for link in test.get("page_link"))
    assert name in test.selectbox(key="request").options


def test_the_same_bytes_are_compared_once(page: Open, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    st.cache_resource.clear()
    asked: list[object] = []
    read: list[str] = []
    real = comparing.diverge
    monkeypatch.setattr(divergence_runs, "diverge", lambda *runs, **more: (asked.append(runs), real(*runs, **more))[1])
    digest = wb.Capture.digest_of
    monkeypatch.setattr(wb.Capture, "digest_of", lambda self, row: (read.append(self.name), digest(self, row))[1])
    page(*files("a", "lossy"))
    assert (len(asked), len(read)) == (1, 24)
    page(*files("a", "lossy"), point="2")
    (runs / "a.safetensors").touch()  # another time, the same bytes
    st.cache_data.clear()
    page(*files("a", "lossy"))
    assert (len(asked), len(read)) == (1, 24)
    page(*files("a", "lossy", "tie"))  # what is known of two files is not read again
    assert (len(asked), len(read)) == (2, 36)


def test_a_comparison_that_is_stopped_goes_on_where_it_was(page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    st.cache_resource.clear()
    read: list[int] = []
    digest = wb.Capture.digest_of
    monkeypatch.setattr(wb.Capture, "digest_of", lambda self, row: (read.append(row), digest(self, row))[1])
    test = page(*files("a"))

    def press(self: divergence_runs._Progress, share: float, text: str) -> None:
        if text.startswith("Reading inputs: 10 "):  # as a press of the button while it is shown
            st.session_state[self._stopped] = True
            st.rerun()

    with monkeypatch.context() as patch:
        patch.setattr(divergence_runs._Progress, "say", press)
        test.multiselect(key="runs").set_value(["dumps/a.safetensors", "dumps/tie.safetensors"]).run()
    assert not test.exception
    assert len(read) == 10
    assert "Stopped. The inputs of 10 rows are read and are not read again." in texts(test)
    test.run()  # it stays stopped
    assert len(read) == 10
    test.button(key="divergence-go").click().run()
    assert not test.exception
    assert "Step 2, layer 1, row 0: ties vary" in texts(test)
    assert len(read) == 24


def test_progress_shows_how_far_it_is_and_how_to_stop(page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    st.cache_resource.clear()
    said: list[str] = []
    monkeypatch.setattr(divergence_runs, "_LATE", 0.0)
    monkeypatch.setattr(divergence_runs, "_OFTEN", 0.0)
    real = divergence_runs._Progress.say
    monkeypatch.setattr(
        divergence_runs._Progress, "say", lambda self, share, text: (said.append(text), real(self, share, text))[1]
    )
    test = page(*files("a", "order"))
    assert not test.exception
    assert "Reading inputs: 24 of 24 rows" in said
    assert "Comparing: 12 of 12 points" in said
    assert not [button for button in test.button if button.label == "Stop"]


def test_a_url_reads_what_it_was_written_from() -> None:
    value = Compared(("a", "b/"), True, 1, "", "x", 7, "0123")
    assert from_params(to_params(value)) == (value, [])
    assert to_params(Compared(("a",), digest="0123")) == {"run": ["a"]}
    assert from_params({"run": ["a", "a", "b"]})[0].runs == ("a", "b")
    assert from_params({"rank": ["-1"]})[1] == ["The link's rank is left out: -1 is not between 0 and 2147483647."]
    assert "more than the 16" in from_params({"run": [f"r{at}" for at in range(17)]})[1][0]


def test_a_run_can_be_named_and_its_files_too(tmp_path: Path) -> None:
    path = save(tmp_path / "dumps" / "a.safetensors", make_run())
    known: dict[int, str] = {}
    run = CapturedRun(path, name="first", labels=lambda _: "x/a", digests=lambda _: known)
    assert run.name == "first"
    assert run.label(run.events[0]) == "x/a"
    run.digest(run.events[3])
    assert list(known) == [3]
    run.close()
    path.write_bytes(b"no")
    with pytest.raises(wb.CaptureError, match=r"^x/a: "):
        run.digest(run.events[4])


def test_progress_counts_points_after_rows() -> None:
    with pytest.raises(UsageError):
        comparing.diverge("a")
    told: list[tuple[int, int]] = []
    one = wb.Capture.from_rows(make_run())
    comparing.diverge(one, one, points=lambda done, of: told.append((done, of)))
    assert told == [(at, 12) for at in range(1, 13)]
