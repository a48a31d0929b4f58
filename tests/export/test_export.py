"""What is exported and what is refused; the plain test that comes out, run by pytest itself."""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import workbench as wb
from tests.export.conftest import hot, row, run_pytest
from workbench.capture import Call, Row
from workbench.errors import CaptureError, UsageError
from workbench.export import publishing, writing
from workbench.export.fixture import Fixture, calls_needed, read_fixture
from workbench.export.losing import Losing
from workbench.export.proof import prove, run_source
from workbench.export.provenance import without_paths
from workbench.resources import samples_dir


def files(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*"))


def test_a_fixture_and_a_test_are_written(broken: Row, tmp_path: Path) -> None:
    done = wb.export(broken, to=tmp_path / "new" / "folder")
    assert [file.suffix for file in done.files] == [".safetensors", ".py"]
    assert done.fixture == done.files[0]
    assert files(tmp_path / "new" / "folder") == sorted(file.name for file in done.files)
    assert (done.path, done.variant, done.risk, done.repeats) == ("vllm.histogram_256", "stock", "at risk", 1)
    assert done.proved == (
        "passes on the exact reference",
        "passes on vllm.histogram_256 (detect_rescan)",
        "passes on vllm.histogram_256 (wide_rescan)",
        "passes on vllm.histogram_256 (deterministic)",
        "fails on the model of vllm.histogram_256 (stock)",
    )
    assert done.run == f"python -m pytest {done.files[1]}"


def test_the_row_is_read_and_not_written(broken: Row, tmp_path: Path) -> None:
    before = broken.scores.clone()
    wb.export(broken, to=tmp_path)
    assert torch.equal(before, broken.scores)


def test_the_plain_test_passes_on_an_exact_selector(broken: Row, tmp_path: Path) -> None:
    done = wb.export(broken, to=tmp_path)
    ran = run_pytest(tmp_path, str(done.files[1]))
    assert (ran.returncode, "1 passed" in ran.stdout) == (0, True), ran.stdout


def test_the_plain_test_fails_on_a_lossy_selector_of_the_users(broken: Row, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\n\n\ndef lossy(scores, k):\n    return torch.topk(scores, k + 3).indices[3:]\n"
    )
    done = wb.export(broken, to=tmp_path, selector="mine:lossy")
    ran = run_pytest(tmp_path, str(done.files[1]))
    assert ran.returncode == 1
    assert "3 of 2048 winners lost, such as [1.0005" in ran.stdout, ran.stdout


def test_the_plain_test_needs_no_workbench(broken: Row, tmp_path: Path) -> None:
    text = wb.export(broken, to=tmp_path).files[1].read_text()
    lines = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
    assert lines == [
        "from collections import Counter",
        "from pathlib import Path",
        "import torch",
        "from safetensors import safe_open",
    ]


@pytest.mark.parametrize("style", ["pytest", "vllm"])
def test_tests_are_clean_and_formatted(style: str, broken: Row, tmp_path: Path) -> None:
    wb.export(broken, to=tmp_path, style=style, selector="a.b:c" if style == "pytest" else None)
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--isolated", "--no-cache", str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
    assert all(len(line) <= 88 for file in tmp_path.glob("*.py") for line in file.read_text().splitlines())


WRONG_INDICES = {
    "short": lambda best: best[:-1],
    "values": lambda best: best.float() + 0.5,
    "repeated": lambda best: torch.cat([best[:-1], best[:1]]),
    "unwritten": lambda best: torch.cat([best[:-1], torch.tensor([-2])]),
    "empty": lambda best: torch.cat([best[:-1], torch.tensor([-1])]),
    "past the end": lambda best: torch.cat([best[:-1], torch.tensor([20_000])]),
    "not the best": lambda best: torch.cat([best[:-1], torch.topk(torch.arange(3), 1).indices]),
}


@pytest.mark.parametrize("kind", list(WRONG_INDICES))
def test_the_check_that_is_written_catches(kind: str, broken: Row, tmp_path: Path) -> None:
    test = wb.export(broken, to=tmp_path).files[1]
    best = torch.topk(broken.scores, 2048).indices
    run = run_source(test.read_text(), test)
    run(lambda: best)
    run(lambda: best.flip(0).int())
    if kind == "not the best":
        assert int(best.min()) > 2 or 2 not in best.tolist()
    with pytest.raises(AssertionError):
        run(lambda: WRONG_INDICES[kind](best))


def test_a_short_row_is_padded_with_minus_one(tmp_path: Path) -> None:
    """No path loses of such a row; the check must hold all the same for selectors that pad wrongly."""
    scores = torch.arange(5.0)
    source = wb.export(row(hot(5000)), to=tmp_path).files[1].read_text()
    names: dict[str, object] = {"__file__": "x"}
    exec(source, names)
    check = names["check"]
    bits = scores.flip(0).view(torch.int32)
    check(torch.tensor([4, 3, 2, 1, 0, -1, -1]), scores, bits, 7)  # type: ignore[operator]
    for wrong in ([4, 3, 2, 1, 0, -1, -2], [4, 3, 2, 1, -1, 0, -1], [4, 3, 2, 1, 0, 0, -1]):
        with pytest.raises(AssertionError):
            check(torch.tensor(wrong), scores, bits, 7)  # type: ignore[operator]


# What is refused


def test_a_row_that_is_safe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing for a test to catch"):
        wb.export(row(torch.randn(20_000) * 100), to=tmp_path / "out")
    with pytest.raises(UsageError, match="with equal scores only"):
        wb.export(row(torch.zeros(20_000)), to=tmp_path / "out")
    with pytest.raises(UsageError, match="loses nothing"):
        wb.export(row(hot(5000)), to=tmp_path / "out", variant="detect_rescan")
    assert files(tmp_path) == []


@pytest.mark.parametrize("above", [1500, 1900, 1991, 1992, 2047])
def test_the_rarer_a_loss_the_more_calls(above: int, tmp_path: Path) -> None:
    """4097 in a bin of 4096 drop one, which is a winner with probability need / 4097."""
    given, clean = row(hot(4097, above)), 1 - (2048 - above) / 4097
    assert (clean**1000 < 1e-6) == (above < 1992)
    if above < 1992:
        done = wb.export(given, to=tmp_path)
        assert clean**done.repeats < 1e-6 <= clean ** (done.repeats - 2)
        assert done.p_clean == pytest.approx(clean, abs=2e-6)
        assert done.p_clean >= clean
        assert f"REPEATS = {done.repeats}\n" in done.files[1].read_text()
        assert read_fixture(done.fixture).repeats == done.repeats
        return
    with pytest.raises(UsageError, match=r"too seldom .*1000 are the most; shrink the row first \(workbench shrink\)"):
        wb.export(given, to=tmp_path / "out")
    assert files(tmp_path) == []


def test_calls_needed() -> None:
    assert calls_needed(0.0) == 1
    assert calls_needed(1e-9) == 1
    assert calls_needed(0.5) == 20
    assert calls_needed(1 - 1e-15) > 1e9
    assert calls_needed(1.0) == math.inf


def test_where_warps_arrive_together_the_calls_are_counted_for_warps(tmp_path: Path) -> None:
    """A rising row: of 512 winners of 4096 in one bin, one warp in nine orders comes so that none is dropped."""
    with wb.open(samples_dir() / "public-vllm-v100.safetensors") as capture:
        given = capture[0]
        done = wb.export(given, to=tmp_path, path="vllm.histogram_2048")
    report = wb.run(given, paths="vllm.histogram_2048", repeats=300, seed=1000)
    clean = sum(line.verdict == "exact" for line in report.lines) / 300
    assert 0.03 < clean < 0.3  # one by one, scores would arrive so with a probability of 2e-24
    assert clean < done.p_clean < 2.5 * clean
    assert clean**done.repeats < 1e-6
    said = "If the warps of a row arrive in random order, a call loses nothing with a probability of at most"
    assert f"{said} {done.p_clean}" in done.why


def test_where_every_call_loses_one_is_enough(tmp_path: Path) -> None:
    scores = hot(16_300, width=20_000)
    done = wb.export(row(scores), to=tmp_path, path="vllm.cooperative_2")
    assert (done.risk, done.repeats, done.p_clean) == ("certain", 1, 0)
    assert "Every call loses" in done.files[1].read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"style": "nose"}, "unknown style 'nose'"),
        ({"path": "vllm.*"}, "more than one path"),
        ({"path": "vllm.none"}, "no path matches"),
        ({"variant": "none"}, "no variant 'none'; it has stock"),
        ({"path": "sglang.bf16_small"}, "is not run on this row.*bfloat16"),
        ({"path": "vllm.radix", "variant": "ring_reuse"}, "is not run on this row"),
        ({"op": "vllm.none"}, "unknown op"),
        ({"name": "../up"}, "no name for a fixture"),
        ({"name": ".hidden"}, "no name for a fixture"),
        ({"name": "a\nb"}, "no name for a fixture"),
        ({"selector": "module"}, "no selector"),
        ({"selector": "a.b:c; import os"}, "no selector"),
        ({"selector": "a.class:f"}, "no selector"),
        ({"selector": ":f"}, "no selector"),
        ({"selector": "a:b\n"}, "no selector"),
        ({"selector": "a:b", "style": "vllm"}, "for the style pytest"),
        ({"style": "sglang"}, "no op that this style can call sends a row to vllm.histogram_256"),
        ({"style": "vllm", "op": "vllm.cooperative_topk", "path": "vllm.histogram_256"}, "persistent_topk is"),
        ({"k": 0}, "at least 1"),
    ],
    ids=str,
)
def test_wrong_arguments_are_one_line_and_write_nothing(
    change: dict[str, object], message: str, broken: Row, tmp_path: Path
) -> None:
    with pytest.raises((UsageError, CaptureError), match=message) as caught:
        wb.export(broken, to=tmp_path / "out", **change)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    assert files(tmp_path) == []


def test_without_a_route_the_path_is_asked_for(broken: Row, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"release not known; .*--path"):
        wb.export(broken.with_call(release=None), to=tmp_path / "out")
    assert wb.export(broken.with_call(release=None), to=tmp_path, path="vllm.histogram_256").missing


@pytest.mark.parametrize(
    ("length", "path", "words"),
    [
        (-1, "vllm.radix", "is not run on this row, so that no test can be checked: length -1 is read as 4294967295"),
        (20_001, "vllm.filtered", "the path reads past the row's width"),
        (-1, "sglang.v4_aot", "the row's length -1 leaves it, and a fixture holds the scores of a row that is whole"),
        (-1, "vllm.filtered", "the row's length -1 leaves it"),
    ],
)
def test_a_length_that_leaves_the_row_is_refused(length: int, path: str, words: str, tmp_path: Path) -> None:
    given = Row(torch.randn(20_000), length, call=Call(k=512))
    with pytest.raises(UsageError) as caught:
        wb.export(given, to=tmp_path / "out", path=path)
    assert words in str(caught.value)
    assert files(tmp_path) == []


def test_a_row_whose_risk_is_not_known_is_refused(tmp_path: Path) -> None:
    scores = hot(5000)
    scores[5] = math.nan
    with pytest.raises(UsageError, match="not known"):
        wb.export(row(scores), to=tmp_path, variant="detect_rescan")


# What is there already


def test_again_changes_nothing(broken: Row, tmp_path: Path) -> None:
    first = wb.export(broken, to=tmp_path)
    stamps = [file.stat().st_mtime_ns for file in first.files]
    again = wb.export(broken, to=tmp_path)
    assert again.files == again.unchanged == first.files
    assert [file.stat().st_mtime_ns for file in first.files] == stamps


def test_other_content_is_kept_unless_overwriting_is_allowed(broken: Row, tmp_path: Path) -> None:
    done = wb.export(broken, to=tmp_path)
    made = done.files[1].read_text()
    done.files[1].write_text("mine")
    done.fixture.unlink()
    with pytest.raises(UsageError, match="there already; choose another name or allow overwriting"):
        wb.export(broken, to=tmp_path)
    assert files(tmp_path) == [done.files[1].name]
    assert done.files[1].read_text() == "mine"
    wb.export(broken, to=tmp_path, overwrite=True)
    assert done.files[1].read_text() == made


def test_nothing_is_left_where_the_second_file_cannot_be_written(
    broken: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, made = publishing.put_in_place, []

    def fail(*args: object, **more: object) -> object:
        if made:
            raise OSError(28, "No space left on device")
        made.append(args)
        return real(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(publishing, "put_in_place", fail)
    with pytest.raises(CaptureError, match="No space left"):
        wb.export(broken, to=tmp_path / "out")
    assert files(tmp_path) == []


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("late", [False, True])
def test_an_export_that_fails_while_it_replaces_files_puts_them_back(
    at: int, late: bool, broken: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = wb.export(broken, to=tmp_path)
    for file in done.files:
        file.write_text(f"mine: {file.name}")
    real, made = publishing.put_in_place, []

    @contextlib.contextmanager
    def fail(*args: object, **more: object) -> Iterator[Path]:
        made.append(args)
        if len(made) == at and not late:
            raise OSError(28, "No space left on device")
        with real(*args, **more) as temporary:  # type: ignore[arg-type]
            yield temporary
        if len(made) == at:
            raise KeyboardInterrupt

    monkeypatch.setattr(publishing, "put_in_place", fail)
    with pytest.raises(KeyboardInterrupt if late else CaptureError):
        wb.export(broken, to=tmp_path, overwrite=True)
    assert files(tmp_path) == sorted(file.name for file in done.files)
    assert all(file.read_text() == f"mine: {file.name}" for file in done.files)


def test_an_export_interrupted_right_after_a_file_has_its_name_leaves_nothing(
    broken: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = publishing.put_in_place

    @contextlib.contextmanager
    def interrupted(*args: object, **more: object) -> Iterator[Path]:
        with real(*args, **more) as temporary:  # type: ignore[arg-type]
            yield temporary
        raise KeyboardInterrupt

    monkeypatch.setattr(publishing, "put_in_place", interrupted)
    with pytest.raises(KeyboardInterrupt):
        wb.export(broken, to=tmp_path / "out")
    assert files(tmp_path) == []


def test_an_interrupted_export_leaves_nothing(broken: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, "prove", interrupt)
    with pytest.raises(KeyboardInterrupt):
        wb.export(broken, to=tmp_path / "out")
    assert files(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_one_line(broken: Row, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError, match="cannot be written"):
        wb.export(broken, to=tmp_path / "file" / "out")


# The proof


def test_a_test_that_cannot_fail_is_not_written(broken: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(losing: Losing, fixture: Fixture, *rest: object) -> str:
        return "def test_nothing():\n    pass\n"

    monkeypatch.setattr(writing, "render_pytest", blind)
    with pytest.raises(UsageError, match=r"not written: it passes on the model of vllm.histogram_256 \(stock\)"):
        wb.export(broken, to=tmp_path / "out")
    assert files(tmp_path) == []


def test_a_test_that_always_fails_is_not_written(broken: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "render_pytest", lambda *args: "def test_all():\n    assert False, 'no'\n")
    with pytest.raises(UsageError, match="not written: it fails on the exact reference"):
        wb.export(broken, to=tmp_path / "out")
    assert files(tmp_path) == []


def test_the_proof_runs_the_selector_of_the_model_and_never_the_users(broken: Row, tmp_path: Path) -> None:
    """``module:function`` is not imported: it need not be there, and exporting runs no code of others."""
    assert wb.export(broken, to=tmp_path, selector="not_there.at_all:select").proved


def test_the_proof_uses_as_many_calls_as_the_test_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def count(losing: Losing, test: object, **more: object) -> tuple[str, ...]:
        seen.append(losing.repeats)
        return prove(losing, test, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(writing, "prove", count)
    done = wb.export(row(hot(4097, 1500)), to=tmp_path)
    assert seen == [done.repeats]
    assert done.repeats > 90


# Names that could break the code


@pytest.mark.parametrize("style", ["pytest", "vllm", "flashinfer-trace"])
def test_names_of_the_capture_cannot_break_the_code(style: str, tmp_path: Path) -> None:
    nasty = 'x"""\n\'; raise SystemExit(1) # \\ {0} $path'
    given = row(hot(5000), model=nasty, request=nasty)
    done = wb.export(given, to=tmp_path, style=style, source=nasty, op="vllm.persistent_topk")
    for file in done.files[1:]:
        assert "SystemExit" not in file.read_text()
    assert read_fixture(done.fixture).row.call.model == without_paths(nasty)
    with wb.open(done.fixture) as capture:
        assert capture.info.source == nasty


def test_unknown_ops_and_devices_of_a_capture_do_not_matter(tmp_path: Path) -> None:
    given = row(hot(5000), op='a"""b', release="/home/alice/x", device="\n")
    done = wb.export(given, to=tmp_path, path="vllm.histogram_256", style="vllm")
    assert 'a"""b' not in done.files[1].read_text()
    assert b"alice" not in done.fixture.read_bytes()


def test_scores_on_another_row_of_the_capture_keep_their_call(tmp_path: Path) -> None:
    done = wb.export(row(hot(5000), layer=21, step=3, rank=1), to=tmp_path, name="mine")
    assert [file.name for file in done.files] == ["mine.safetensors", "test_mine.py"]
    call = read_fixture(done.fixture).row.call
    assert (call.layer, call.step, call.rank, call.stride) == (21, 3, 1, 20_000)
