"""``audit.json`` of an audit's folder: what was asked, and once it is finished what was found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workbench.capture.strictjson import strict_json
from workbench.capture.values import shown
from workbench.errors import CaptureError, UsageError
from workbench.runs.members import content_of

FORMAT = "workbench audit 1"
AUDIT = "audit.json"
ELSEWHERE = "choose another folder"
COUNTED = ("files", "failed_files", "rows", "failed_rows", "judged_rows", "found_rows", "lines")  # of a finished one


def read_audit(folder: Path) -> dict[str, Any]:
    """What ``audit.json`` of a folder says.

    Raises:
        UsageError: there is none, or it is no audit's.
    """
    path = folder / AUDIT
    content: object
    try:
        if not path.exists():
            raise UsageError(f"{shown(folder)}: holds no {AUDIT}, so that it is no audit's folder")
        held = content_of(path, shown(path))
    except CaptureError as error:
        raise UsageError(str(error)) from None
    try:
        content = strict_json(held, "the audit", shown(path))
    except CaptureError:
        content = None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UsageError(f"{shown(path)}: is not the {AUDIT} of an audit")
    for name, kind in (("finished", bool), ("asked", dict), ("versions", dict)):
        if not isinstance(content.get(name), kind):
            raise UsageError(f"{shown(path)}: {name} is missing or damaged; {ELSEWHERE}")
    if content["finished"]:
        found = content.get("found")
        if not isinstance(found, dict) or list(found) != list(COUNTED) or not all(map(_is_count, found.values())):
            raise UsageError(f"{shown(path)}: found is missing or damaged; {ELSEWHERE}")
    return content


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0
