"""``workbench inspect``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import Result

from tests.cli.conftest import ANONYMOUS, KNOWN, WIDTH, neighbours, one_dropped, spread_out
from workbench.capture import Call, Row, open_capture, write_capture
from workbench.cli.seen import summarise
from workbench.cli.several import heading
from workbench.engines.model import ModelEngine
from workbench.paths.catalog import PATHS
from workbench.runs.compare import compare
from workbench.runs.compare_words import compared_sentence
from workbench.runs.inspect import inspect_row
from workbench.words import listed

V100 = Path(__file__).parents[2] / "captures" / "public-vllm-v100.safetensors"
Cli = Callable[..., Result]
CliJson = Callable[..., tuple[int, Any]]


def section_of(text: str, title: str) -> dict[str, str]:
    """The rows of a table by path: what stands in the lines from its title to the next empty line."""
    below = text[text.index(f"\n{title}") + 1 :].split("\n\n")[0].splitlines()
    cells = [line.replace("→", " ").split() for line in below[1:]]
    return {row[0]: " ".join(row[1:]) for row in cells if "." in row[0]}


def test_a_whole_capture_is_one_table_under_one_sentence(cli: Cli, captures: Path) -> None:
    result = cli("inspect", captures / "mixed.safetensors")
    assert result.exit_code == 1
    head, *rest = result.stdout.splitlines()
    assert head.startswith("Of 3 rows, 1 lost winners (most in row 1: ")
    assert f"{head} {rest[0]}".endswith("of 2048), 2 lost none, by the models in one arrival order.")
    assert "Judged: the path that the op sends the row to (vllm.persistent_topk, vllm==0.26.0)" in rest
    rows = [line.split() for line in rest if line[:3].strip().isdigit()]
    assert [row[:4] for row in rows] == [
        ["0", "20000", "vllm.histogram_256", "exact"],
        ["1", "20000", "vllm.histogram_256", "lossy"],
        ["2", "5000", "vllm.histogram_2048", "exact"],
    ]
    assert rows[1][-3:] == ["5000", "/", "4096"]


def test_one_row_is_shown_in_full(cli: Cli, captures: Path) -> None:
    result = cli("inspect", captures / "mixed.safetensors", "--row", 1, "--all")
    assert result.exit_code == 1
    text = result.stdout
    assert text.startswith("The model of vllm.histogram_256 (stock) lost ")
    assert "✗ rows 1 > 32 (filtered kernel)" in text
    census, refusals = (section_of(text, title) for title in ("Census", "path that does not take it"))
    assert census["sglang.fast_topk"].startswith("5000 4096 904 2048 at risk ")
    assert census["sglang.fast_topk"].endswith(" 0 – 904")
    assert "\n→ vllm.histogram_256 " in text
    assert refusals["vllm.radix"] == "– – length 20000 is not above 32768"
    assert refusals["vllm.histogram_2048"] == "5000 3708 length 20000 is above 8192"
    assert not set(census) & set(refusals)
    assert {*census, *refusals} == {path.name for path in PATHS}
    lost = [line.split() for line in text.splitlines() if line.startswith("lost ")]
    assert len(lost) == 10
    assert int(lost[0][1]) <= 2048
    assert float(lost[0][3]) > 1


@pytest.mark.parametrize("name", ["mixed", "anonymous", "ordered", "tied", "healthy"])
def test_a_row_fits_a_screen(cli: Cli, captures: Path, name: str) -> None:
    """What happened first, then what is at risk; what is safe in a line. ``--all`` leaves nothing out."""
    file = captures / f"{name}.safetensors"
    text = cli("inspect", file, "--row", 0).stdout
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines())) <= 100
    assert text.endswith("\nEvery path, condition and value: --all\n")
    every = cli("inspect", file, "--row", 0, "--all").stdout
    found = inspect_row(open_capture(file)[0])
    assert every.startswith(text[: text.index("\nJudged: ")])
    assert all(risk.path in every for risk in found.census)
    judged = {result.line.path for result in found.results}
    (safe,) = re.findall(r"^Safe: ((?:.+\n)+?)(?=[A-Z0-9])", text, re.MULTILINE) or [""]
    named = {one.strip(" .\n") for one in safe.split(",")} - {""}
    reached = set() if found.route is None else {found.route.path}
    assert (
        named
        == {one.path for one in found.census if one.path in judged and one.judged and one.level == "safe"} - reached
    )
    assert f"\n{sum(bool(one.refused) for one in found.census)} paths do not take the row.\n" in text
    losing = [one.path for one in found.census if one.path in judged and one.level in ("at risk", "certain")]
    assert all(text.index(path) < text.index("Not judged") for path in losing)


def test_paths_that_are_not_judged_and_can_lose_are_counted(cli: Cli, captures: Path) -> None:
    """A handful is named, of more the number stands there, some names, and the option that names all."""
    for name in ("broken", "ordered", "unlucky"):
        file = captures / f"{name}.safetensors"
        found = inspect_row(open_capture(file)[0])
        judged = {result.line.path for result in found.results}
        able = [one.path for one in found.census if one.path not in judged and one.level in ("at risk", "certain")]
        text = " ".join(cli("inspect", file, "--row", 0).stdout.split())
        (told,) = re.findall(r"Not judged, as the row does not reach them: (.*?) can lose winners(.*?);", text)
        assert len(able) > 4
        assert told == (f"{len(able)}", f", among them {listed(able[:3])} (--all names all {len(able)})")
        every = section_of(cli("inspect", file, "--row", 0, "--all").stdout, "Census")
        assert set(able) <= set(every)
    few = " ".join(cli("inspect", V100, "--row", 0).stdout.split())
    assert (
        "Not judged: vllm.histogram_4096, sglang.v2_register, sglang.v2_cluster_8 and sglang.v2_cluster_16 can lose "
        "winners; 13 are safe."
    ) in few


def test_numbers_below_zero_have_a_minus_and_what_is_typed_a_hyphen(cli: Cli, cli_json: CliJson) -> None:
    hyphen = re.compile(r"(?<!\S)-[\d.]|\de-\d")
    for command in (
        ("inspect", V100, "--row", 0),
        ("inspect", V100, "--row", 0, "--all"),
        ("repeat", V100, "--row", 0),
    ):
        text = cli(*command, "--release", "vllm==0.26.0").stdout
        assert re.search(r" −\d", text)
        assert not hyphen.search(text)
    _, document = cli_json("inspect", V100, "--row", 0)
    assert min(value["gap"] for value in document["detail"]["difference"]["values"]) < 0
    place = ("--op", "vllm.persistent_topk", "--release", "vllm==0.26.0", "--device", "h200")
    assert "A row of length -1" in cli("route", *place, "--k", 2048, "--length", "-1", "--rows", 40).stdout


def test_json_of_one_row_has_route_census_lines_and_values(cli_json: CliJson, captures: Path) -> None:
    code, document = cli_json("inspect", captures / "mixed.safetensors", "--row", 1)
    assert (code, document["inspected"], document["findings"]) == (1, 1, 1)
    (row,), detail = document["rows"], document["detail"]
    assert (row["row"], row["worst"]["verdict"], row["worst"]["population"]) == (1, "lossy", 5000)
    assert detail["route"]["path"] == "vllm.histogram_256"
    values = detail["difference"]["values"]
    lost = [value for value in values if value["status"] == "lost"]
    assert len(lost) == row["worst"]["missing"] > 0
    assert {risk["path"] for risk in detail["census"]} >= {"vllm.filtered", "sglang.fast_topk"}


def test_json_of_many_rows_keeps_its_keys(cli_json: CliJson, captures: Path) -> None:
    _, one = cli_json("inspect", captures / "mixed.safetensors", "--row", 1)
    _, many = cli_json("inspect", captures / "mixed.safetensors")
    assert set(many) == set(one)
    assert many["detail"] is None
    assert [set(row) for row in many["rows"]] == [set(one["rows"][0])] * 3
    assert many["rows"][1] == one["rows"][0]


def test_every_path_is_judged_where_the_op_is_not_known(cli: Cli, cli_json: CliJson, captures: Path) -> None:
    result = cli("inspect", captures / "anonymous.safetensors")
    assert result.exit_code == 1
    assert "Judged: every path of vllm, sglang and flashinfer, since " in result.stdout
    assert "not known" in result.stdout
    not_run = section_of(result.stdout, "not run")
    assert not_run["vllm.radix"].startswith("0-2 length 20000 is not above 32768")
    assert not_run["sglang.kpool"] == "0-2 k is 2048, the path takes 128, 160, 192, 224, 256 or 512"
    _, document = cli_json("inspect", captures / "anonymous.safetensors")
    broken = document["rows"][1]
    assert broken["paths_judged"] > broken["paths_at_risk"] > 2
    assert broken["worst"]["path"] == "vllm.histogram_4096"
    assert f"{broken['paths_at_risk']} of {broken['paths_judged']}" in result.stdout


def test_what_is_given_decides_which_path_is_judged(cli_json: CliJson, captures: Path) -> None:
    call = ("--op", "sglang.fast_topk_v2", "--release", "sglang-kernel==0.4.6", "--device", "h200")
    code, document = cli_json("inspect", captures / "anonymous.safetensors", "--row", 1, *call)
    assert code == 1
    assert document["rows"][0]["worst"]["path"] == "sglang.fast_topk"
    # with more rows in the batch the same capture takes another path, which is large enough
    code, document = cli_json("inspect", captures / "broken.safetensors", "--rows", 40, "--release", "vllm==0.23.0")
    assert (code, document["rows"][0]["worst"]["path"]) == (0, "vllm.filtered")
    assert "rows is 40 as given; the capture says 1" in document["notes"]


def test_paths_can_be_chosen(cli: Cli, cli_json: CliJson, captures: Path) -> None:
    code, document = cli_json("inspect", captures / "broken.safetensors", "--path", "vllm.filtered")
    assert code == 0
    assert document["rows"][0]["judged_because"] == "as asked"
    assert (
        "Judged: as asked, vllm.filtered"
        in cli("inspect", captures / "broken.safetensors", "--path", "vllm.filtered").stdout
    )
    wrong = cli("inspect", captures / "broken.safetensors", "--path", "nope")
    assert wrong.exit_code == 2
    assert "vllm.filtered" in wrong.stderr


@pytest.mark.parametrize(
    ("name", "code", "verdict", "risk"),
    [
        ("healthy", 0, "exact", "safe"),
        ("tied", 0, "ties", "safe"),
        ("broken", 1, "lossy", "at risk"),
        ("unlucky", 1, "exact", "at risk"),
    ],
)
def test_exit_code_follows_verdict_and_risk(
    cli_json: CliJson, captures: Path, name: str, code: int, verdict: str, risk: str
) -> None:
    found, document = cli_json("inspect", captures / f"{name}.safetensors", "--row", 0)
    worst = document["rows"][0]["worst"]
    assert (found, worst["verdict"], worst["risk"]) == (code, verdict, risk)


def test_a_row_at_risk_that_lost_nothing_is_said_to_be(cli: Cli, cli_json: CliJson, tmp_path: Path) -> None:
    file = tmp_path / "two.safetensors"
    write_capture(file, [Row(one_dropped(), WIDTH, call=KNOWN), Row(spread_out(), WIDTH, call=KNOWN)])
    result = cli("inspect", file)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "Of 2 rows, 1 lost none but is at risk, 1 lost none."


def test_an_op_that_refuses_is_said_and_is_neither_a_loss_nor_a_clean_bill(cli: Cli, captures: Path) -> None:
    result = cli("inspect", captures / "half.safetensors")
    assert result.exit_code == 2
    assert "nothing was judged, so that this says nothing of what is lost" in result.stderr
    assert cli("run", captures / "half.safetensors").exit_code == 2
    assert result.stdout.splitlines()[0] == "Of 2 rows, 2 were not run."
    assert re.search("^the op +0-1 +the op takes float32, not bfloat16$", result.stdout, re.MULTILINE)


def test_a_recorded_selection_is_judged_beside_the_model(cli: Cli, cli_json: CliJson, tmp_path: Path) -> None:
    file = tmp_path / "recorded.safetensors"
    scores = torch.arange(16.0)
    call = Call(k=4)
    kinds = {"exact": [15, 14, 13, 12], "lossy": [15, 14, 13, 0], "invalid": [15, 15, 13, 12]}
    write_capture(
        file,
        [Row(scores, 16, call=call, indices=torch.tensor(kind, dtype=torch.int32)) for kind in kinds.values()],
    )
    code, document = cli_json("inspect", file)
    assert code == 1
    assert [row["recorded"]["verdict"] for row in document["rows"]] == list(kinds)
    text = cli("inspect", file).stdout
    assert (
        text.splitlines()[0] == "Of 3 rows, 1 has invalid slots, 1 lost winners (most in row 1: 1 of 4), 1 lost none."
    )
    assert "lossy, 1" in text
    assert cli("inspect", file, "--row", 0).exit_code == 0
    assert "Winners lost by the recorded selection" in cli("inspect", file, "--row", 1).stdout


def test_several_calls_and_ks_get_columns_of_their_own(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "calls.safetensors"
    write_capture(file, [Row(torch.rand(64), 64, call=Call(at, k=4 * at + 4)) for at in range(3)])
    rows = [line.split()[:4] for line in cli("inspect", file).stdout.splitlines() if line[:3].strip().isdigit()]
    assert rows == [["0", "0", "4", "64"], ["1", "1", "8", "64"], ["2", "2", "12", "64"]]


def test_a_foreign_file_needs_its_tensors_and_k(cli: Cli, cli_json: CliJson, captures: Path) -> None:
    foreign, names = captures / "foreign.safetensors", ("--scores", "layer.*.logits", "--lengths", "layer.*.lens")
    unknown_k = cli("inspect", foreign, *names)
    assert unknown_k.exit_code == 2
    assert "--k" in unknown_k.stderr
    code, document = cli_json("inspect", foreign, *names, "--k", 2048)
    assert code == 1
    assert [row["length"] for row in document["rows"]] == [20000, 20000, 5000]


@pytest.mark.parametrize("rows", ["3", "0-3", "x", "2-1", "-1", "1-", "9" * 30, "１"])
def test_rows_that_do_not_exist_are_errors(cli: Cli, captures: Path, rows: str) -> None:
    result = cli("inspect", captures / "mixed.safetensors", "--row", rows)
    assert result.exit_code == 2
    assert "row" in result.stderr


def test_rows_and_ranges_add_up_and_are_sorted(cli_json: CliJson, captures: Path) -> None:
    _, document = cli_json("inspect", captures / "mixed.safetensors", "--row", 2, "--row", "0-1", "--row", 1)
    assert [row["row"] for row in document["rows"]] == [0, 1, 2]


def test_the_seed_chooses_the_arrival_order(cli_json: CliJson, captures: Path) -> None:
    def lost(seed: int) -> list[int]:
        _, document = cli_json("inspect", captures / "broken.safetensors", "--seed", seed)
        return [value["index"] for value in document["detail"]["difference"]["values"]]

    assert lost(1) == lost(1)
    assert lost(1) != lost(2)


def test_numbers_json_does_not_know_are_strings(cli_json: CliJson, tmp_path: Path) -> None:
    file = tmp_path / "nan.safetensors"
    scores = torch.tensor([float("nan"), float("inf"), 3.0, 2.0, 1.0, -float("inf")])
    write_capture(file, [Row(scores, 6, call=Call(k=4), indices=torch.tensor([2, 3, 4, 5], dtype=torch.int32))])
    code, document = cli_json("inspect", file, "--path", "sglang.v1")
    assert code == 1
    values = document["detail"]["difference"]["values"]
    assert [value["score"] for value in values if value["status"] == "lost"] == ["nan", "inf"]
    assert document["detail"]["lines"][-1]["max_score_gap"] == "nan"


def test_empty_and_short_rows_are_judged(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "short.safetensors"
    write_capture(file, [Row(torch.rand(16), length, call=Call(k=4)) for length in (0, 3)])
    assert cli("inspect", file).exit_code == 0
    assert cli("inspect", file, "--row", 0).exit_code == 0


@pytest.mark.parametrize("columns", [60, 100])
def test_tables_keep_every_number(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    file = tmp_path / "wide.safetensors"
    width = 1_048_576
    calls = [KNOWN, ANONYMOUS]
    write_capture(file, [Row(neighbours(300_000, width), width, call=ANONYMOUS) for _ in calls])
    monkeypatch.setenv("COLUMNS", str(columns))
    for args in ((), ("--row", 0)):
        text = cli("inspect", file, *args).stdout
        assert "300000" in text
        assert "1048576" in text
        assert "cooperative_16" in text
        if columns == 100:
            assert max(map(len, text.splitlines())) <= 100


def test_an_op_the_workbench_does_not_know_is_said_as_text(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "[red]x.safetensors"
    call = Call(k=4, op="[bold]\x1b[31mop", release="[/]", device="two\nlines")
    write_capture(file, [Row(torch.rand(16), 16, call=call) for _ in range(2)])
    for args in ((), ("--row", 0)):
        result = cli("inspect", file, *args)
        assert result.exit_code == 0
        text = " ".join(result.stdout.split())
        assert "[red]x.safetensors" in text
        assert "Judged: every path of vllm, sglang and flashinfer, since unknown op '[bold]\\x1b[31mop'" in text
        assert "\x1b" not in text


def test_what_is_given_and_not_known_is_an_error(cli: Cli, captures: Path) -> None:
    for option, value in (("--op", "vllm.nope"), ("--release", "vllm==0.0.1"), ("--device", "tpu")):
        result = cli("inspect", captures / "anonymous.safetensors", option, value)
        assert result.exit_code == 2
        assert "known" in result.stderr or "observed" in result.stderr


def test_a_bad_row_is_one_line(cli: Cli, captures: Path) -> None:
    result = cli("inspect", captures / "damaged.safetensors")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1


def test_a_path_without_a_model_is_not_said_to_have_lost_none(cli: Cli, cli_json: CliJson, captures: Path) -> None:
    args = ("inspect", captures / "healthy.safetensors", "--op", "flashinfer.top_k_ragged_transform")
    result = cli(*args)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "Of 2 rows, 2 were not run."
    assert section_of(result.stdout, "not run") == {"flashinfer.ragged": "0-1 flashinfer.ragged stock has no model"}
    _, document = cli_json(*args)
    assert [(row["worst"]["verdict"], row["worst"]["risk"]) for row in document["rows"]] == [(None, "safe")] * 2


def test_a_row_that_was_not_run_but_is_at_risk_is_not_said_to_have_lost_none(
    cli: Cli, captures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ModelEngine, "refusals", lambda *_: ["no model here"])
    result = cli("inspect", captures / "mixed.safetensors")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "Of 3 rows, 1 was not run but is at risk, 2 were not run."
    row = next(line for line in result.stdout.splitlines() if line.startswith("  1 "))
    assert row.split()[2:6] == ["vllm.histogram_256", "refused", "–", "at"]


def test_several_paths_at_risk_that_were_not_run_show_the_worst(
    captures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ModelEngine, "refusals", lambda *_: ["no model here"])
    with open_capture(captures / "broken.safetensors") as capture:
        seen = summarise(inspect_row(capture[0], paths="vllm.*"))
    assert (seen.worst.path, seen.worst.risk, seen.worst.verdict) == ("vllm.cooperative_16", "certain", None)
    assert heading([seen]) == "Of 1 row, 1 was not run but is at risk."


def test_rows_whose_mean_is_unreliable_are_named(cli: Cli, cli_json: CliJson, captures: Path) -> None:
    result = cli("inspect", captures / "ordered.safetensors")
    warning = "Expected missing is unreliable in row 0: "
    assert [line.startswith(warning) for line in result.stdout.splitlines()].count(True) == 1
    _, document = cli_json("inspect", captures / "ordered.safetensors")
    assert [row["order_unreliable"] for row in document["rows"]] == [True, False]
    assert document["rows"][0]["worst"]["order_correlation"] == pytest.approx(-1)
    assert "unreliable" not in cli("inspect", captures / "mixed.safetensors").stdout
    assert "vllm.histogram_256 −1.00" in " ".join(
        cli("inspect", captures / "ordered.safetensors", "--row", 0).stdout.split()
    )


def test_one_row_judged_apart_is_a_row(cli: Cli, tmp_path: Path) -> None:
    """Of one call it is not known how many rows it had, so that its path is not known."""
    file = tmp_path / "two.safetensors"
    calls = [KNOWN, replace(KNOWN, index=1, rows=None)]
    write_capture(file, [Row(spread_out(), WIDTH, call=calls[at]) for at in (0, 1, 1)])
    text = cli("inspect", file).stdout
    assert "Judged in row 0: the path that the op sends the row to" in text
    assert "Judged in rows 1-2: every path that vllm.persistent_topk could take, since " in text
    assert "\nNot judged, as the row does not reach them: " in cli("inspect", file, "--row", 0).stdout
    brief = cli("inspect", file, "--row", 1).stdout
    assert "\nRoute: unknown\n" in brief
    assert "\nNot judged: " in brief


def test_the_judged_paths_are_counted_as_compare_counts_them(cli: Cli, captures: Path) -> None:
    """What no model runs is not judged: it is named apart, and a baseline is no path that may be reached."""
    file = captures / "anonymous.safetensors"
    said = " ".join(cli("inspect", file, "--row", 0).stdout.split())
    inspected = re.search(r"Of the (\d+) judged paths that take this row", said)
    shown = compared_sentence(compare(open_capture(file)[0]))
    compared = re.search(r" of the (\d+) judged paths that take this row", shown)
    assert inspected is not None
    assert compared is not None
    assert inspected[1] == compared[1]
    assert "flashinfer.ragged takes it and is not modelled." in said
    assert "flashinfer.ragged takes it and is not modelled." in shown
    (seen,) = json.loads(cli("inspect", file, "--row", 0, "--json").stdout)["rows"]
    assert (seen["paths_judged"], seen["paths_not_modelled"]) == (int(inspected[1]), 1)


def test_the_census_names_the_variant_of_the_reached_path(cli: Cli, captures: Path) -> None:
    text = cli("inspect", captures / "broken.safetensors", "--release", "vllm==0.33.0", "--all").stdout
    assert "\nCensus: risk on every path that takes this row (→ the one it reaches)\n" in text
    (reached,) = re.findall("^→ (.*)$", text, re.MULTILINE)
    assert reached.split() == ["vllm.histogram_256", *"––––", "not", "modelled", "–", "–", "–"]
    assert "\n  (v0.33.0)\n" in text
    assert max(map(len, text.splitlines())) <= 100
    assert "\n  vllm.histogram_4096 " in text
    brief = cli("inspect", captures / "broken.safetensors", "--release", "vllm==0.33.0").stdout
    assert "\nRoute: vllm.histogram_256 (v0.33.0)\n" in brief
    assert "\nNot modelled: vllm.histogram_256 (v0.33.0), flashinfer.ragged.\n" in brief
    assert "→" not in cli("inspect", captures / "anonymous.safetensors", "--row", 0).stdout


@pytest.mark.parametrize(
    "given", [(), ("--op", "vllm.persistent_topk", "--release", "vllm==0.33.0", "--device", "h200")]
)
def test_a_table_of_long_numbers_keeps_to_100_columns(cli: Cli, tmp_path: Path, given: tuple[str, ...]) -> None:
    """Twelve calls, three k, lengths up to 1.2 million, recorded selections, and a variant to be named."""
    file, width = tmp_path / "wide.safetensors", 1_200_000
    scores = neighbours(300_000, width)
    rows = []
    for at in range(12):
        k = (512, 1024, 2048)[at % 3]
        call = Call(at, k=k, rows=40, width=width, stride=width, max_seq_len=width)
        recorded = torch.zeros(k, dtype=torch.int32)
        rows.append(Row(scores, 300_000 + 75_000 * at, call=call, indices=recorded))
    write_capture(file, rows)
    for args in (("inspect", file), ("inspect", file, "--row", 11), ("run", file, "--paths", "vllm.f*")):
        text = cli(*args, *given).stdout
        assert max(map(len, text.splitlines())) <= 100, text
        if "--row" not in args and args[0] == "inspect":
            assert all(re.search(rf"\b{300_000 + 75_000 * at}\b", text) for at in range(12))
            assert "invalid," in text
        if given and args[0] == "inspect":
            assert "(v0.33.0)" in text
