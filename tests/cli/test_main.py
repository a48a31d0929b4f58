"""The program as a whole: help, version, errors, pipes, and what it imports."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner, Result

import workbench as wb
from tests.cli.conftest import strict
from workbench.cli.main import app

Cli = Callable[..., Result]
COMMANDS = ("info", "inspect", "paths", "route", "run", "app")
ROOT = Path(__file__).parents[2]


def program(*args: object, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m workbench`` in a process of its own."""
    command = [sys.executable, "-m", "workbench", *(str(arg) for arg in args)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | settings
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_version(cli: Cli) -> None:
    assert cli("--version").stdout == f"workbench {wb.__version__}\n"


def test_help_names_every_command_and_the_exit_codes(cli: Cli) -> None:
    text = cli("--help").stdout
    assert all(f"│ {command} " in text for command in COMMANDS)
    assert "0 nothing lost" in text
    assert "<bool>" not in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_teaches(cli: Cli, command: str) -> None:
    result = cli(command, "--help")
    assert result.exit_code == 0
    assert any(line.strip().startswith(f"workbench {command}") for line in result.stdout.splitlines()[4:])
    assert "--json" in result.stdout
    assert "Exit codes:" in result.stdout


def every_command() -> dict[str, str]:
    """What is typed for each command, and its docstring."""
    found = {}
    for name, one in get_command(app).commands.items():  # type: ignore[attr-defined]
        own = getattr(one, "commands", {})
        found |= {f"{name} {other}": two.callback.__doc__ for other, two in own.items() if other != name}
        found[name] = (own.get(name) or one).callback.__doc__
    return found


@pytest.mark.parametrize(("command", "doc"), every_command().items())
def test_examples_of_help_can_be_copied(cli: Cli, command: str, doc: str) -> None:
    """None is broken by the help's margin: a line that goes on says so, as a shell takes it."""
    text = cli(*command.split(), "--help").stdout
    shown = "\n".join(line.rstrip() for line in text[: text.index("╭")].splitlines())
    typed, meant = (re.sub(r"\\\n\s*", "", one).splitlines() for one in (shown, doc))
    examples = [line.strip() for line in meant if line.strip().startswith("workbench ")]
    assert examples
    assert [line.strip() for line in typed if line.startswith(" workbench ")] == examples
    assert max(map(len, text.splitlines())) <= 100
    assert "<bool>" not in text  # a flag takes no value


@pytest.mark.parametrize("command", ["inspect", "repeat", "run"])
def test_a_glob_over_paths_goes_by_one_name(cli: Cli, captures: Path, command: str) -> None:
    """``--path`` is taken where a command has no such option, and not shown."""
    help_ = cli(command, "--help").stdout
    assert "--paths" in help_
    assert "--path " not in help_
    file = captures / "broken.safetensors"
    given = [cli(command, file, "--row", 0, *option) for option in (("--paths", "vllm.radix"), ("--path=vllm.radix",))]
    assert given[0].stdout == given[1].stdout != ""
    assert given[0].exit_code == given[1].exit_code
    wrong = cli(command, file, "--path", "none.*")
    assert wrong.exit_code == 2
    assert "none.*" in wrong.stderr


def test_a_file_is_replaced_under_either_name(cli: Cli, tmp_path: Path) -> None:
    made = tmp_path / "x.safetensors"
    make = ("make", made, "--path", "vllm.histogram_256")
    assert cli(*make).exit_code == 0
    assert "--force" in cli(*make).stderr
    for name in ("--force", "--overwrite"):
        assert cli(*make, name).exit_code == 0
    assert "--overwrite" not in cli("make", "--help").stdout


def test_no_command_shows_the_help_and_is_a_usage_error(cli: Cli) -> None:
    result = cli()
    assert result.exit_code == 2
    assert "Usage: workbench" in result.stdout or "Usage:" in result.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("nope",), "nope"),
        (("inspect",), "FILE"),
        (("info", "--nope"), "--nope"),
        (("route", "--k", "0"), "--k"),
        (("route", "--k", "many"), "--k"),
        *(
            (("route", option, value), option)
            for option in ("--k", "--rows", "--width", "--stride", "--max-seq-len", "--next-n", "--length")
            for value in (str(-(2**31) - 1), "9" * 20, "9" * 400, "9" * 5000, "1.0", "1e3", " 5", "1_0", "５", "")
        ),
        *((("route", option, str(2**31)), option) for option in ("--k", "--width", "--length")),
        *((("route", option, str(2**63)), option) for option in ("--rows", "--stride", "--max-seq-len", "--next-n")),
        *(
            ((command, "absent", "--seed", value), "--seed")
            for command in ("run", "inspect")
            for value in ("-1", str(2**62), "9" * 400)
        ),
        *((("run", "absent", "--repeats", value), "--repeats") for value in ("0", "-1", "1000001", "9" * 400)),
        (("app", "--port", "70000"), "--port"),
        (("--nope",), "--nope"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_2(cli: Cli, args: tuple[str, ...], said: str) -> None:
    result = cli(*args)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert said in result.stderr
    assert "--help" in result.stderr
    assert len(result.stderr) < 300


def test_the_greatest_numbers_that_make_sense_are_taken(cli: Cli, captures: Path) -> None:
    file, most, long = captures / "broken.safetensors", 2**31 - 1, 2**63 - 1
    call = ("--rows", long, "--width", most, "--stride", long, "--max-seq-len", long, "--next-n", long)
    assert cli("route", file, *call).exit_code == 0
    known = ("--op", "vllm.persistent_topk", "--release", "vllm==0.26.0", "--device", "h200", "--k", most)
    assert cli("route", *known, "--length", most).exit_code == 0
    paths = ("--paths", "vllm.histogram_256", "--repeats", 2)
    assert cli("run", file, *paths, "--seed", 2**62 - 1).exit_code == 1
    too_many = cli("inspect", file, "--k", most)
    assert too_many.exit_code == 2
    assert "larger than the row width" in too_many.stderr


@pytest.mark.parametrize("command", ["info", "inspect", "route", "run"])
def test_errors_go_to_stderr_in_json_mode_too(cli: Cli, command: str, tmp_path: Path) -> None:
    result = cli(command, tmp_path / "absent.safetensors", "--json")
    assert result.exit_code == 2
    assert "no such file" in result.stderr
    if command != "info":  # which still lists the files that it could read
        assert result.stdout == ""


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Make every inspection of a row do something else."""

    def instead(work: Callable[[], object]) -> None:
        monkeypatch.setattr("workbench.runs.inspect.inspect_row", lambda *_, **__: work())

    return instead


@pytest.mark.parametrize(
    ("ask", "amount"),
    [
        (lambda: torch.empty(2**60, dtype=torch.uint8), f"{2**60} bytes"),
        (lambda: np.empty(2**60, dtype=np.uint8), "1.00 EiB"),
        (lambda: bytearray(2**62), ""),
    ],
    ids=["torch", "numpy", "python"],
)
def test_too_little_memory_is_one_line_that_names_the_capture(
    cli: Cli, captures: Path, raising: Callable[..., None], ask: Callable[[], object], amount: str
) -> None:
    raising(ask)
    file = captures / "broken.safetensors"
    result = cli("inspect", file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"workbench: {file}: not enough memory")
    assert amount in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_too_little_memory_for_one_file_does_not_hide_the_others(
    cli_json: Callable[..., tuple[int, Any]], captures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verify(capture: wb.Capture, *_: object) -> list[str]:
        if "mixed" in capture.name:
            raise MemoryError
        return []

    monkeypatch.setattr(wb.Capture, "verify", verify)
    code, document = cli_json("info", "--verify", captures / "mixed.safetensors", captures / "broken.safetensors")
    assert code == 2
    assert [about["rows"] for about in document["captures"]] == [1]
    assert document["errors"] == [f"{captures / 'mixed.safetensors'}: not enough memory"]


def test_too_little_memory_where_no_capture_is_open(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("workbench.paths.catalog"), "find_paths", lambda _: bytearray(2**62))
    result = cli("paths")
    assert (result.exit_code, result.stderr) == (2, "workbench: not enough memory\n")


def test_a_defect_is_owned_up_to_and_is_neither_a_loss_nor_bad_input(
    captures: Path, raising: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def defect() -> None:
        raise ValueError("two\nlines")

    raising(defect)
    said = "workbench: internal error: ValueError: two lines"
    for setting, expected in (("", f"{said}; set WORKBENCH_TRACEBACK=1 to see where"), ("1", said)):
        monkeypatch.setenv("WORKBENCH_TRACEBACK", setting)
        args = ["inspect", str(captures / "broken.safetensors")]
        result = CliRunner().invoke(app, args, catch_exceptions=False)
        first, *traceback = result.stderr.splitlines()
        assert (result.exit_code, result.stdout, first) == (70, "", expected)
        assert bool(traceback) is bool(setting)
    assert "in defect" in result.stderr


@pytest.mark.parametrize("where", ["workbench.runs.inspect.inspect_row", "workbench.capture.open_capture"])
def test_an_interrupt_is_one_line_and_exit_130(
    cli: Cli, captures: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(where, interrupted)
    result = cli("inspect", captures / "broken.safetensors")
    assert (result.exit_code, result.stderr) == (130, "workbench: interrupted\n")


def test_an_interrupt_while_the_command_line_is_read_gives_130(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("workbench.cli.main.Commands.make_context", interrupted)
    assert cli("paths").exit_code == 130


def test_an_interrupt_while_commands_are_imported_is_one_line_and_130() -> None:
    program = """
import sys
from workbench.cli.start import main
class Finder:
    def find_spec(self, name, *_):
        if name == "workbench.cli.diverge":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
main()
"""
    found = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "workbench: interrupted\n")


def test_no_error_is_hidden_by_one_of_the_same_class(
    captures: Path, raising: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WORKBENCH_TRACEBACK", raising=False)
    raising(lambda: torch.zeros(2) + torch.zeros(3))
    result = CliRunner().invoke(app, ["inspect", str(captures / "broken.safetensors")], catch_exceptions=False)
    assert result.exit_code == 70
    assert "RuntimeError" in result.stderr


@pytest.mark.parametrize("closed", ["stdout", "stderr", "both"])
@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("info", "broken.safetensors"), 0),
        (("info", "absent.safetensors", "--json"), 2),
        (("paths",), 0),
        (("paths", "nope"), 2),
        (("nope",), 2),
    ],
    ids=str,
)
def test_closed_streams_are_no_traceback(captures: Path, args: tuple[str, ...], code: int, closed: str) -> None:
    script = {"stdout": '"$@" >&-', "stderr": '"$@" 2>&-', "both": '"$@" <&- >&- 2>&-'}[closed]
    command = ["sh", "-c", script, "sh", sys.executable, "-m", "workbench", *args]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, cwd=captures)
    assert ended.returncode == code
    assert ended.stderr.count("workbench: ") == ended.stderr.count("\n") == (code == 2 and closed == "stdout")
    assert bool(ended.stdout) is (closed == "stderr" and (code == 0 or "--json" in args))
    if "--json" in args and closed == "stderr":
        assert len(strict(ended.stdout)["errors"]) == 1


def test_a_report_written_with_closed_streams_holds_nothing_else(captures: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    run = ["run", str(captures / "healthy.safetensors"), "--output", str(target)]
    command = ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", sys.executable, "-m", "workbench", *run]
    ended = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False)
    assert ended.returncode == 0
    assert len(strict(target.read_text())) == 2


def test_threads_of_torch_are_given_back(cli: Cli, captures: Path) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        cli("inspect", captures / "broken.safetensors")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_colour_only_where_it_is_wanted(cli: Cli, captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in cli("inspect", captures / "mixed.safetensors").stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[31mlossy" in cli("inspect", captures / "mixed.safetensors").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31mlossy" not in cli("inspect", captures / "mixed.safetensors").stdout


@pytest.mark.parametrize("command", ["paths", "--help"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_is_quiet(command: str, unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    program = [sys.executable, "-m", "workbench", command]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered}
    ended = subprocess.run(program, stdout=writing, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("args", [("paths", "--json"), ("--help",), ("--version",)])
def test_a_full_disk_is_one_line(args: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "workbench", *args]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False)
        assert (ended.returncode, ended.stderr) == (2, "workbench: No space left on device\n")
        assert subprocess.run(command, stdout=full, stderr=full, env=environment, check=False).returncode == 2


def test_a_narrow_encoding_is_no_traceback(captures: Path) -> None:
    ended = program("inspect", captures / "mixed.safetensors", "--row", 1, "--all", PYTHONIOENCODING="ascii")
    assert ended.returncode == 1
    assert ended.stderr == ""
    assert "- rows 1 > 32" in ended.stdout
    assert "+ length 20000 <= 32768" in ended.stdout
    assert re.search(r"^kept .* -[\d.]+", ended.stdout, re.MULTILINE)
    assert "\\u2212" not in ended.stdout


def test_looking_imports_nothing_heavy(captures: Path) -> None:
    file = captures / "mixed.safetensors"
    code = f"""
import sys
from workbench.cli.main import app
for args in (["info", {str(file)!r}], ["inspect", {str(file)!r}], ["paths"], ["route", {str(file)!r}]):
    app(args, standalone_mode=False)
heavy = ("pandas", "pyarrow", "streamlit", "plotly", "cupy", "vllm", "sglang")
print([name for name in heavy if name in sys.modules], file=sys.stderr)
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert ended.stderr == "[]\n"


def test_an_interrupt_that_a_library_swallowed_is_still_one() -> None:
    code = """
import os, signal
from workbench.cli import main, start

def broken() -> None:
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        pass
    raise AttributeError("half imported")

def run() -> None:
    raise SystemExit(exits.guarded(broken))

from workbench.cli import exits
main.main = run
start.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "workbench: interrupted\n")


HERE = "--op vllm.persistent_topk --release vllm==0.26.0 --device h200"


@pytest.mark.usefixtures("permissions_hold")
@pytest.mark.parametrize(
    "command",
    [
        *(f"{one} {{closed}}/a.safetensors" for one in ("info", "inspect", "advise", "run", "route", "what-if", "app")),
        *(f"{one} {{listed}}" for one in ("info", "inspect", "advise")),
        *("info {closed}", "advise {closed}", "diverge {closed} {listed}", "diverge {ours} {listed}"),
        "audit {closed}/a.safetensors -o {out}",
        "audit {ours} -o {closed}/out",
        "audit {ours} -o {sealed}/out",
        "audit report {closed}/out",
        *(f"{one} {{closed}}/x.safetensors" for one in ("make --path vllm.histogram_256", "import {ours} -o")),
        *(f"export {{ours}} {HERE} --to {{{one}}}/out" for one in ("closed", "sealed")),
        *(f"shrink {{ours}} {HERE} --output {{{one}}}/x.safetensors" for one in ("closed", "sealed")),
        *(f"run {{ours}} {HERE} --output {{{one}}}/x.json" for one in ("closed", "sealed")),
        *(f"inspect {{ours}} {HERE} --html {{{one}}}/x.html" for one in ("closed", "sealed")),
        *(f"record --to {{{one}}} -- true" for one in ("closed", "sealed")),
        "record --to {closed}/new -- true",
        "bench compare {closed}/a.json {closed}/b.json",
        "vendor list --store {closed}/store",
    ],
)
def test_what_is_forbidden_is_one_line_with_the_cure_and_leaves_nothing(
    cli: Callable[..., Result], captures: Path, tmp_path: Path, command: str
) -> None:
    """A closed folder, one whose names alone may be seen, and one that takes no file."""
    places = {name: tmp_path / name for name in ("closed", "listed", "sealed")}
    ours = captures / "broken.safetensors"
    for place in places.values():
        place.mkdir()
        shutil.copy(ours, place / "a.safetensors")
    before = sorted(tmp_path.rglob("*"))
    for place, mode in zip(places.values(), (0, 0o444, 0o555), strict=True):
        place.chmod(mode)
    try:
        result = cli(*command.format(**places, ours=ours, out=tmp_path / "out").split())
    finally:
        for place in places.values():
            place.chmod(0o755)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "permitted (chmod), or name another" in result.stderr.splitlines()[0]
    assert str(tmp_path) in result.stderr
    assert sorted(tmp_path.rglob("*")) == before


LATE = """
import sys, time
from workbench.cli import exits, main, start

def work() -> None:
    import interrupted

    end = time.monotonic() + 20
    while time.monotonic() < end:
        time.sleep(0.01)
    print("nothing came")

main.main = lambda: sys.exit(exits.guarded(work))
start.main()
"""


@pytest.mark.parametrize(("times", "told"), [(1, "imported\n"), (2, "")])
def test_an_interrupt_within_an_import_comes_after_it(tmp_path: Path, times: int, told: str) -> None:
    """torch swallows it where it imports NumPy, so that the program went on as if nothing had been pressed, and aborts
    the process at other places. Whoever presses twice does not wait."""
    (tmp_path / "interrupted.py").write_text(f"""
import os, signal
for _ in range({times}):
    os.kill(os.getpid(), signal.SIGINT)
print("imported")
""")
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, told, "workbench: interrupted\n")


def test_an_interrupt_before_the_command_line_is_understood_is_told(
    cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Typer imports what it needs then, and exits in silence."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TyperGroup, "parse_args", interrupted)
    result = cli("info", "x")
    assert (result.exit_code, result.stderr) == (130, "workbench: interrupted\n")
