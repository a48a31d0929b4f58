"""The app as a person meets it: it opens on a bad row, says what happened, and answers bad input with a message."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from streamlit.testing.v1 import AppTest

from tests.ui.conftest import K, make_capture, texts
from workbench.capture import Call, Row, write_capture
from workbench.capture.mapped import Mapped

Open = Callable[..., AppTest]
BAD = "dumps/bad-row.safetensors"


def param(test: AppTest, name: str) -> str:
    value = test.query_params[name]
    return value[0] if isinstance(value, list) else value


def pick(test: AppTest, label: str) -> object:
    return next(box for box in test.selectbox if box.label.startswith(label))


def test_opens_on_a_sample_with_a_row_that_breaks_a_selector(app: Open) -> None:
    test = app([])
    assert not test.exception
    assert "samples/smollm2-lm-head.safetensors" in texts(test)
    assert "lost" in texts(test)
    assert not test.error


def test_given_files_come_first_and_the_worst_row_is_shown(app: Open) -> None:
    test = app()
    assert not test.exception
    assert param(test, "capture") == BAD
    assert param(test, "row") == "1"
    assert "9000 scores share the threshold bin 188 and the buffer takes 4096" in texts(test)
    rows = test.sidebar.dataframe[0].value
    assert list(rows["row"]) == [1, 0, 2]
    assert [chip[0] for chip in rows["verdict"]] == ["exact"] * 3  # as recorded
    assert [chip[0] for chip in rows["risk"]] == ["at risk", "safe", "safe"]


def test_numbers_stand_beside_the_picture(app: Open) -> None:
    metrics = {one.label: one.value for one in app().metric}
    assert metrics["Population"] == "9,000"
    assert metrics["Capacity"] == "4,096"
    assert metrics["Need"] == str(K)


def test_the_url_carries_the_view(app: Open) -> None:
    first = app(row="0", view="diff", path="vllm.histogram_256", k="1024", seed="3")
    assert not first.exception
    carried = {name: param(first, name) for name in first.query_params}
    assert carried["view"] == "diff"
    assert len(carried["digest"]) == 16
    again = app(**carried)
    assert {name: param(again, name) for name in again.query_params} == carried
    assert texts(again) == texts(first)


def test_capacity_view_marks_the_reached_path(app: Open) -> None:
    test = app(view="capacity")
    assert not test.exception
    assert "The op sends it to **vllm.histogram_256**" in texts(test)
    assert re.search(
        r"paths take this row: 1 judged, \d+ not judged, 2 baselines and 1 not modelled\. On ", texts(test)
    )
    table = next(one.value for one in test.main.dataframe if "why" in one.value)
    assert "length 9000 is above 8192" in dict(zip(table["path"], table["why"], strict=True))["vllm.histogram_2048"]


def test_capacity_view_counts_the_judged_paths_as_the_sentence_does(app: Open) -> None:
    said = texts(app(capture="samples/smollm2-lm-head.safetensors", row="2", view="capacity"))
    assert "Of the 18 judged paths that take this row, 3 can lose winners." in said
    assert "21 of 32 paths take this row: 18 judged, 2 baselines and 1 not modelled. On " in said
    assert "4 can lose winners. Among them is tilelang.topk_selector, a baseline." in said


def test_the_list_says_the_risk_that_the_page_of_a_recorded_row_says(app: Open) -> None:
    """Its device is not known, and one path only could have run."""
    test = app(capture="samples/greedy-values/order-1.safetensors", row="3")
    assert not test.exception
    assert "The recorded selection lost 37 winners of 512. The path that ran could be vllm.histogram_2048: " in texts(
        test
    )
    listed = next(one.value for one in test.sidebar.dataframe if "risk" in one.value).set_index("row")
    assert (listed.loc[3, "verdict"], listed.loc[3, "risk"]) == (["lossy"], ["at risk"])
    device = next(one for one in test.main.selectbox if one.label.startswith("Device"))
    known = device.set_value("h200").run()
    listed = next(one.value for one in known.sidebar.dataframe if "risk" in one.value).set_index("row")
    assert listed.loc[3, "risk"] == ["at risk"]


def test_diff_view_compares_the_model_or_the_recording(app: Open) -> None:
    test = app(view="diff", path="vllm.histogram_256")
    assert int(re.search(rf"(\d+) of {K} lost", texts(test))[1]) > 0
    assert "Arrival order: random, seed 0." in texts(test)
    test = app(view="diff")  # the sentence is about what was recorded
    assert not test.exception
    assert pick(test, "Engine").value == "recorded"  # type: ignore[attr-defined]
    assert "Arrival order" not in texts(test)
    assert f"0 of {K} lost" in texts(test)
    assert "The recorded selection" in texts(test)


def test_another_seed_is_another_call(app: Open) -> None:
    test = app(view="diff", path="vllm.histogram_256")
    before = next(one.value for one in test.main.dataframe if "gap" in one.value)
    test.number_input[0].set_value(7).run()
    after = next(one.value for one in test.main.dataframe if "gap" in one.value)
    assert param(test, "seed") == "7"
    assert before["index"].tolist() != after["index"].tolist()
    assert "Arrival order: random, seed 7." in texts(test)


def test_choosing_a_device_and_k_changes_what_is_judged(app: Open) -> None:
    test = app()
    pick(test, "k").set_value("1024").run()  # type: ignore[attr-defined]
    assert param(test, "k") == "1024"
    assert "of 1024" in texts(test)
    pick(test, "Release").set_value("vllm==0.33.0").run()  # type: ignore[attr-defined]
    assert not test.exception
    assert param(test, "release") == "vllm==0.33.0"


def test_a_k_past_the_row_is_a_message(app: Open) -> None:
    test = app(k="2000000000")
    assert not test.exception
    assert "above the row width 9000" in texts(test)


def test_op_and_release_of_different_packages_is_a_message(app: Open) -> None:
    test = app(op="sglang.fast_topk_v2")
    assert not test.exception
    assert "the op belongs to sglang-kernel" in texts(test)


def test_unknown_circumstances_are_shown_as_unknown(app: Open, folder: Path) -> None:
    make_capture(folder / "unsaid.safetensors", release=None)
    test = app(capture="dumps/unsaid.safetensors")
    assert not test.exception
    box = pick(test, "Release")
    assert box.options[0] == "unknown"  # type: ignore[attr-defined]
    assert "release not known" in texts(test)


def test_a_broken_file_is_an_error_box_and_others_stay_usable(app: Open) -> None:
    test = app(capture="dumps/broken.safetensors")
    assert not test.exception
    assert "dumps/broken.safetensors: not a safetensors file" in test.error[0].value.replace("\\", "")
    assert "1 of" in test.sidebar.expander[0].label
    test.selectbox(key="capture").set_value(BAD).run()
    assert not test.error
    assert param(test, "capture") == BAD


def test_a_foreign_file_asks_for_its_tensors(app: Open) -> None:
    test = app(capture="dumps/foreign.safetensors")
    assert not test.exception
    assert "Name the tensor that holds its scores" in texts(test)
    pick(test, "Scores").set_value("attn.x").run()  # type: ignore[attr-defined]
    pick(test, "Lengths").set_value("attn.len").run()  # type: ignore[attr-defined]
    assert "The capture does not say k" in texts(test)
    assert list(test.sidebar.dataframe[0].value["length"]) == [3000, 2500]
    pick(test, "k").set_value("512").run()  # type: ignore[attr-defined]
    assert not test.exception
    assert not test.error
    assert "paths that take this row" in texts(test)
    assert (param(test, "scores"), param(test, "lengths"), param(test, "k")) == ("attn.x", "attn.len", "512")


def test_tensors_that_do_not_fit_are_a_message(app: Open) -> None:
    test = app(capture="dumps/foreign.safetensors", scores="attn.none")
    assert not test.exception
    assert "no such tensor" in texts(test)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("row", "x"),
        ("row", "-1"),
        ("row", "999999999999999999999"),
        ("k", "0"),
        ("op", "rm -rf"),
        ("release", "vllm"),
        ("device", "toaster"),
        ("view", "<script>"),
        ("path", "*"),
        ("bin", "NaN"),
        ("seed", "1.5"),
        ("around", "100000"),
        ("capture", "../../etc/passwd"),
        ("capture", "a\x00b"),
        ("nonsense", "![x](http://example.com/a.png)"),
    ],
)
def test_a_hostile_link_is_a_message(app: Open, name: str, value: str) -> None:
    test = app(**{name: value})
    assert not test.exception
    assert test.warning
    assert "link" in test.warning[0].value
    assert "![x]" not in test.warning[0].value  # it would load a picture from elsewhere
    assert "share the threshold bin" in texts(test)


def test_of_many_rows_only_the_page_shown_is_inspected(app: Open, folder: Path) -> None:
    scores = torch.randn(120, 700, generator=torch.Generator().manual_seed(0))
    call = Call(k=K)
    write_capture(folder / "many.safetensors", [Row(row, 700, call=call) for row in scores])
    test = app(capture="dumps/many.safetensors")
    assert not test.exception
    assert sorted(test.sidebar.dataframe[0].value["row"]) == list(range(50))
    assert "Rows 0 to 49 of 120: only these are inspected." in texts(test)
    test.sidebar.number_input[0].set_value(3).run()
    assert sorted(test.sidebar.dataframe[0].value["row"]) == list(range(100, 120))
    assert app(capture="dumps/many.safetensors", row="77").sidebar.number_input[0].value == 2


def test_rows_in_bfloat16_and_short_ones_are_said(app: Open, folder: Path) -> None:
    call = Call(k=K, op="vllm.persistent_topk", release="vllm==0.26.0", device="h200", rows=1, stride=700)
    write_capture(folder / "half.safetensors", [Row(torch.randn(700).to(torch.bfloat16), 700, call=call)])
    for view in ("bins", "capacity", "diff"):
        test = app(capture="dumps/half.safetensors", view=view)
        assert not test.exception
        assert "the op takes float32, not bfloat16" in texts(test)
    write_capture(folder / "short.safetensors", [Row(torch.randn(700), length, call=call) for length in (0, 100, 512)])
    for row in ("0", "1", "2"):
        for view in ("bins", "capacity", "diff"):
            test = app(capture="dumps/short.safetensors", row=row, view=view)
            assert not test.exception
            assert not test.error


def test_rows_that_their_length_leaves_are_said(app: Open, folder: Path) -> None:
    known = {"op": "vllm.persistent_topk", "release": "vllm==0.26.0", "device": "h200"}
    call = Call(k=512, rows=8, width=9000, stride=9000, max_seq_len=9000, **known)  # type: ignore[arg-type]
    indices = torch.full((512,), -1, dtype=torch.int32)
    for name, chosen in (("padded", None), ("recorded", indices)):
        rows = [Row(torch.randn(9000), length, call=call, indices=chosen) for length in (-1, 9001)]
        write_capture(folder / f"{name}.safetensors", rows)
    for view in ("bins", "capacity", "diff"):
        for row, words in (
            ("0", "length -1 is read as 4294967295"),
            ("1", "length 9001 is not clamped: the path reads past"),
        ):
            test = app(capture="dumps/padded.safetensors", row=row, view=view)
            assert not test.exception
            assert words in texts(test)
            test = app(capture="dumps/recorded.safetensors", row=row, view=view)
            assert not test.exception
            assert words in texts(test)
    assert "Shown are the 9,000 scores that the row has; its length is 9,001." in texts(
        app(capture="dumps/padded.safetensors", row="1")
    )


def test_recorded_entries_without_their_page_table_are_not_judged(app: Open, folder: Path) -> None:
    call = Call(k=512, rows=1, width=9000, stride=9000, max_seq_len=9000)
    indices = torch.arange(100_000, 100_512, dtype=torch.int32)
    row = Row(torch.randn(9000), 9000, call=call, indices=indices, mapped=Mapped("page table"))
    write_capture(folder / "mapped.safetensors", [row])
    for view in ("bins", "diff"):
        test = app(capture="dumps/mapped.safetensors", row="0", view=view)
        assert not test.exception
        assert "was not judged: its indices are entries of a page table that the capture does not hold" in texts(test)


def test_a_row_past_the_end_is_a_message(app: Open) -> None:
    test = app(row="3")
    assert not test.exception
    assert "this capture has rows 0 to 2" in texts(test)


def test_a_bin_past_the_key_is_a_message(app: Open) -> None:
    test = app(bin="60000")
    assert not test.exception
    assert "There is no bin 60000" in texts(test)


def test_a_bin_of_the_link_is_looked_into(app: Open) -> None:
    test = app(row="0", path="vllm.histogram_256", bin="188")
    assert "What bin 188 holds: 1 … 1.249 as fp16" in texts(test)


def test_changed_content_is_said(app: Open) -> None:
    test = app(capture=BAD, digest="sha256:" + "0" * 64)
    assert not test.exception
    assert "other content" in test.warning[0].value
    assert "share the threshold bin" in texts(test)


def test_a_capture_that_moved_is_found_by_name_and_digest(app: Open) -> None:
    digest = param(app(), "digest")
    test = app(capture="elsewhere/bad-row.safetensors", digest=digest, row="2")
    assert (param(test, "capture"), param(test, "row")) == (BAD, "2")
    assert "same name, same digest" in test.warning[0].value


def test_uploads_open_and_hostile_ones_are_messages(app: Open, folder: Path) -> None:
    test = app()
    content = (folder / "bad-row.safetensors").read_bytes()
    test.file_uploader(key="upload").set_value(("../../mine.safetensors", content, "application/octet-stream")).run()
    assert not test.exception
    assert param(test, "capture") == "upload/mine.safetensors"
    assert "share the threshold bin" in texts(test)
    for name, hostile in {"cut": content[:5000], "empty": b"", "large": b"\xff" * 64}.items():
        test.file_uploader(key="upload").set_value((f"{name}.safetensors", hostile, "application/octet-stream")).run()
        assert not test.exception
        assert f"upload/{name}.safetensors" in test.error[0].value.replace("\\", "")
        assert "/tmp" not in test.error[0].value


def test_a_link_to_an_upload_says_that_it_is_not_here(app: Open) -> None:
    test = app(capture="upload/mine.safetensors")
    assert not test.exception
    assert "upload it again" in test.warning[0].value


def test_no_such_argument_is_said(app: Open) -> None:
    test = app(["/no/such/folder"])
    assert not test.exception
    assert "/no/such/folder: no such file or folder" in texts(test)
