"""``workbench doctor``: what this environment has of what the workbench can use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.exits import CLEAN, FOUND
from workbench.cli.jsonout import print_json
from workbench.cli.options import Json
from workbench.cli.tables import facts, lines, progress, say

if TYPE_CHECKING:
    from workbench.runs.doctor import Doctor, Fact


def doctor(
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every library of the store and hold it against its sha256.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="What one import, or another look that may hang, may take.")
    ] = 120.0,
    json: Json = False,
) -> int:
    """Look at Python, torch, GPU, packages, engines, the store of releases, folders and settings.

    What is imported is imported in processes of their own: a package that raises, aborts or hangs is told like
    anything else. Nothing is changed or fetched. What is not there is told with the line that brings it; exit code 1
    means that something is there and does not work.

    workbench doctor
    workbench doctor --json > environment.json
    workbench doctor --verify
    """
    from workbench.runs.doctor import doctor as look

    with progress("Looking", 100) as advance:
        found = look(verify=verify, timeout=timeout, told=lambda done, total: advance(100 * done // total))
    if json:
        print_json(
            {
                "command": "doctor",
                "workbench": found.workbench,
                "sentence": found.sentence,
                "broken": len(found.broken),
                "facts": found.to_records(),
            }
        )
    else:
        _print(found)
    return FOUND if found.broken else CLEAN


def _print(found: Doctor) -> None:
    from workbench.runs.doctor import AREAS

    say(f"topk-workbench {found.workbench}")
    say("")
    for area, title in AREAS.items():
        if not found.area(area):
            continue
        say(title, "bold")
        facts(
            (f"  {one.name}", one.value if one.state == "fine" else f"{one.state}: {one.value}")
            for one in found.area(area)
        )
        say("")
    helped = [one for one in found.facts if one.why or one.cure]
    if helped:
        say("What is absent or broken, why, and what helps", "bold")
        for one in helped:
            why = f": {one.why}" if one.why else ""
            lines([f"{one.name} ({one.state}){why}"], indent="  ")
            if one.cure and one.cure not in one.why:
                lines([one.cure], indent="      ")
        say("")
    say(found.sentence, "red" if found.broken else "green")


def _said(fact: Fact) -> str:
    return fact.value if fact.state == "fine" else f"{fact.state}: {fact.value}"
