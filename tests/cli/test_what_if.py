"""``workbench what-if``: what it says, its document, its exit codes, and bad input in a line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import workbench as wb

Cli = Callable[..., Any]
PATH = "vllm.histogram_256"


def test_a_buffer_that_would_have_held(cli: Cli, cli_json: Cli, captures: Path) -> None:
    file = captures / "mixed.safetensors"
    with wb.open(file) as capture:
        bad = next(
            i for i in range(len(capture)) if wb.what_if(capture[i], PATH).before.level in ("at risk", "certain")
        )
        found = wb.what_if(capture[bad], PATH)
    assert found.enough is not None
    least = found.enough.capacity
    assert cli("what-if", file, "--row", bad, "--path", PATH).exit_code == 1
    held = cli("what-if", file, "--row", bad, "--path", PATH, "--capacity", least)
    assert held.exit_code == 0
    assert held.output.replace("\n", " ").startswith(
        f"With a buffer of {least} this row would be safe on {PATH} (stock)"
    )
    assert max(map(len, held.output.splitlines())) <= 100
    code, document = cli_json("what-if", file, "--row", bad, "--path", PATH, "--capacity", least - 1, "--against", "k")
    assert code == 1
    assert document["command"] == "what-if"
    assert document["altered"] == {"capacity": least - 1}
    assert document["before"]["population"] == document["after"]["population"] == found.before.population
    assert (document["after"]["capacity"], document["enough"]["capacity"]) == (least - 1, least)
    assert document["curve"]["parameter"] == "k"
    assert len(document["curve"]["at"]) == len(document["curve"]["risks"])


def test_the_path_is_the_one_that_the_row_reaches(cli: Cli, cli_json: Cli, captures: Path) -> None:
    code, document = cli_json("what-if", captures / "mixed.safetensors", "--row", 1, "--scale", 0.5)
    with wb.open(captures / "mixed.safetensors") as capture:
        assert document["path"] == wb.inspect(capture[1]).reached
    assert code in (0, 1)
    unknown = cli("what-if", captures / "anonymous.safetensors", "--row", 1)
    assert unknown.exit_code == 2
    assert "which path the row reaches is not known" in unknown.stderr
    assert "--path" in unknown.stderr


def test_a_row_that_is_not_altered_has_no_column_for_it(cli: Cli, captures: Path) -> None:
    ask = ("what-if", captures / "mixed.safetensors", "--row", 1, "--path", PATH)
    plain, altered = (cli(*ask, *more).output.splitlines() for more in ((), ("--capacity", 5000)))
    assert [line.split() for line in plain if "as it is" in line] == [["as", "it", "is"]]
    assert ["as", "it", "is", "altered"] in [line.split() for line in altered]


def test_a_curve_over_the_capacity_names_it_once(cli: Cli, captures: Path) -> None:
    ask = ("what-if", captures / "mixed.safetensors", "--row", 1, "--path", PATH, "--against")
    assert "\ncapacity  population  risk " in cli(*ask, "capacity").output
    shifted = cli(*ask, "shift").output
    assert "−" in shifted
    assert " -" not in shifted[shifted.index("shift  population") :]


def test_a_curve_is_listed(cli: Cli, captures: Path) -> None:
    listed = cli("what-if", captures / "mixed.safetensors", "--row", 1, "--path", PATH, "--against", "key-bits")
    assert "key bits  population  capacity" in listed.output
    assert listed.output.splitlines()[-2].split()[0] == "16"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--capacity", "0"), "'0' is no integer from 1 to"),
        (("--key-bits", "17"), "'17' is no integer from 1 to 16"),
        (("--scale", "much"), "'much' is no number"),
        (("--scale", "-1"), "scale is -1; it must be above 0"),
        (("--scale", "nan"), "scale is nan; a finite number is needed"),
        (("--shift", "1e39"), "shift 1e+39 is beyond the greatest float32"),
        (("--length", "999999"), "a prefix has no more"),
        (("--k", "700"), "nothing was judged"),
        (("--rank-capacity", "5"), "rank capacity cannot be altered"),
        (("--variant", "none"), "has no variant 'none'"),
        (("--against", "speed"), "'speed' cannot be altered; what can: capacity"),
        (("--path", "vllm.radix", "--capacity", "5"), "capacity cannot be altered: vllm.radix has no candidate buffer"),
        (("--path", "nothing"), "no path matches 'nothing'"),
        (("--row", "99"), "there is no row 99"),
    ],
)
def test_what_cannot_be_asked_is_said_in_a_line(cli: Cli, captures: Path, options: tuple[str, ...], said: str) -> None:
    given = ("--row", "1", "--path", PATH)
    result = cli("what-if", captures / "mixed.safetensors", *given, *options)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_row_whose_path_is_not_known_is_told_where_it_can_lose(cli: Cli) -> None:
    result = cli("what-if", Path(__file__).parents[2] / "captures" / "smollm2-lm-head.safetensors", "--row", "2")
    assert result.exit_code == 2
    assert "or give a path (--path); the row can lose winners on " in result.stderr
    assert "sglang.fast_topk" in result.stderr.partition("--path")[2]
