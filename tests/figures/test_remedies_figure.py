"""The picture of remedies: what its marks say is what the advice says."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import torch

import workbench as wb
from workbench.figures.remedies import (
    MOST,
    STATES,
    holds_for,
    label_of,
    remedies_figure,
    remedies_table,
    remedy_at,
    time_range,
)
from workbench.paths.costs import Cost
from workbench.runs.advise_words import evidence_text
from workbench.runs.remedy import Part


@cache
def part() -> Part:
    """Two rows, one of which can lose winners, in a call near which times were measured."""
    random = torch.Generator().manual_seed(0)
    width = 32768
    call = wb.Call(
        k=512,
        rows=16,
        width=width,
        stride=width,
        max_seq_len=width,
        op="vllm.persistent_topk",
        release="vllm==0.31.0",
        device="h200",
    )
    rows = [torch.randn(width, generator=random), torch.rand(width, generator=random) * 0.245 + 1.0]
    (found,) = wb.advise([wb.Row(scores, width, call=call, index=at) for at, scores in enumerate(rows)]).parts
    return found


def test_every_remedy_is_a_mark_of_its_state_at_its_share_that_leads_back_to_it() -> None:
    found = part()
    figure = remedies_figure(found, found.remedies[1])
    marks = {trace.name: trace for trace in figure.data if trace.name in STATES}
    assert set(marks) == {one.state for one in found.remedies}
    assert {"keeps every winner", "does not help"} <= set(marks)
    seen = []
    for state, trace in marks.items():
        assert (trace.marker.color, trace.marker.symbol) == STATES[state][:2]
        for x, y, said in zip(trace.x, trace.y, trace.hovertext, strict=True):
            remedy = remedy_at(found, float(y))
            assert remedy is not None
            assert remedy.state == state
            assert x == 100 * remedy.rows.safe / 2
            assert said.startswith(remedy.what)
            seen.append(remedy.name)
    assert sorted(seen) == sorted(one.name for one in found.remedies)
    (outline,) = [trace for trace in figure.data if trace.name == "shown below"]
    assert remedy_at(found, outline.y[0]) == found.remedies[1]
    assert list(figure.layout.yaxis.ticktext) == [label_of(one) for one in found.remedies]
    assert any(one.text == "as it is: 50%" for one in figure.layout.annotations)
    assert remedy_at(found, 1) is None
    assert remedy_at(found, -len(found.remedies)) is None


def test_labels_that_are_cut_still_tell_remedies_apart() -> None:
    one = part().remedies[0]
    name = "sglang.fast_topk_transform_ragged_fused_with_rope in sglang-kernel==0.4"
    labels = [label_of(replace(one, what=f"{name}.{patch} to 0.4.6")) for patch in (2, 4)]
    assert labels == [f"sglang.fast_topk_transform_ragged_fuse… · 0.4.{patch} to 0.4.6" for patch in (2, 4)]
    assert label_of(replace(one, what="vllm.deep_select in vllm==0.33.0")) == "vllm.deep_select · 0.33.0"


def test_no_two_remedies_of_a_picture_look_alike_and_releases_stand_in_all() -> None:
    """Where no op is known all ops of all engines are tried, which have the longest names."""
    (part,) = wb.advise(wb.Row(torch.randn(64), 64, call=wb.Call(k=8))).parts
    labels = [label_of(one) for one in part.remedies]
    assert len(set(labels)) == len(labels)
    assert max(map(len, labels)) <= 56
    assert not any("…" in label for label in labels)  # there is room for all of them
    assert remedies_figure(part).layout.margin.l <= 340
    for one, label in zip(part.remedies, labels, strict=True):
        if one.kind == "op" and "==" in one.what:
            assert label.endswith(f" · {one.what.partition('==')[2]}")
            assert "==" not in label


def test_times_stand_where_they_were_measured_and_words_elsewhere() -> None:
    found = part()
    timed = [(lane, one.cost) for lane, one in enumerate(found.remedies) if one.cost is not None]
    assert timed
    figure = remedies_figure(found)
    (drawn,) = [trace for trace in figure.data if trace.name == "time"]
    assert [x for x in drawn.x if x is not None] == [end for _, cost in timed for end in (cost.least, cost.most)]
    assert [y for y in drawn.y if y is not None] == [-lane for lane, _ in timed for _ in range(2)]
    (words,) = [trace for trace in figure.data if trace.name == "not measured"]
    assert len(words.x) == len(found.remedies) - len(timed)
    least, most = time_range(found.remedies)
    assert all(least < end < most for _, cost in timed for end in (cost.least, cost.most))
    assert figure.layout.xaxis2.type == "log"
    assert 2 <= len(figure.layout.xaxis2.tickvals) <= 5


def test_without_any_time_there_is_no_axis_of_times() -> None:
    found = replace(part(), remedies=tuple(replace(one, cost=None) for one in part().remedies))
    figure = remedies_figure(found)
    assert not [trace for trace in figure.data if trace.name in ("time", "not measured")]
    assert figure.layout.xaxis.domain == (0, 1)


def test_symbols_tell_states_apart_without_colour() -> None:
    assert len({mark.symbol for mark in STATES.values()}) == len(STATES)


def test_any_number_of_remedies_is_bounded_and_names_are_no_markup() -> None:
    one = replace(part().remedies[0], what="<b>bold</b>", cost=Cost(0.01, 90.0, ((1, 2),), ("a", "b")))
    found = replace(part(), remedies=tuple(replace(one, what=f"{one.what} {at}") for at in range(200)))
    figure = remedies_figure(found)
    assert figure.layout.height < 1200
    assert len(figure.layout.yaxis.tickvals) == MOST
    assert figure.layout.yaxis.ticktext[0] == "&lt;b>bold&lt;/b> 0"
    assert len(remedies_figure(replace(found, remedies=found.remedies[:1])).layout.yaxis.tickvals) == 1


def test_the_table_has_a_line_for_each() -> None:
    table = remedies_table(part())
    assert table["remedy"].tolist() == [one.what for one in part().remedies]
    assert set(table["rows kept"]) <= {"0 of 2", "1 of 2", "2 of 2"}
    assert (table["time"] == "not measured").sum() == sum(one.cost is None for one in part().remedies)


def test_what_rests_on_no_model_says_so() -> None:
    """All paths that rows take then, or some of them; what a model would say of others is no evidence there."""
    one = replace(part().remedies[0], evidence="observed", paths=(("vllm.histogram_256", "stock", 2),))
    judged, new = ("vllm.filtered", "stock", 1), ("vllm.filtered", "v0.33.0", 1)
    assert evidence_text(one) == "observed"
    assert evidence_text(replace(one, paths=(new,))) == "observed, not modelled"
    assert evidence_text(replace(one, paths=(judged, new))) == "observed, not all modelled"
    assert evidence_text(replace(one, paths=(new,), evidence="model")) == "not modelled"
    assert "evidence: observed, not modelled" in str(
        remedies_figure(replace(part(), remedies=(replace(one, paths=(new,)),))).data[0].hovertext
    )


def test_what_keeps_no_row_holds_for_none() -> None:
    for one in part().remedies:
        assert (holds_for(one) == "–") == (one.rows.safe == 0)
