"""What to record, how much and where to: checked options, and the text that carries them in the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from workbench.capture.values import check_text, parse_count, parse_size, path_text
from workbench.errors import UsageError
from workbench.record.autostart import VARIABLE
from workbench.record.interfaces import known_ops, matches

ROWS = "bad, all, first:N or sample:P"
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True)
class Options:
    """What ``wb.record`` was asked for; see there. ``first`` and ``sample`` are what ``rows`` says in numbers."""

    folder: str
    ops: str = "*"
    rows: str = "bad"
    seed: int = 0
    padding: bool = True
    max_rows: int | None = None
    max_calls: int | None = None
    max_bytes: int | None = None
    file_bytes: int = 64 * 2**20
    flush: float = 10.0
    rank: int | None = None
    release: str | None = None
    device: str | None = None
    model: str | None = None
    request: str | None = None
    first: int | None = None
    sample: float | None = None

    @classmethod
    def checked(cls, *, folder: str | os.PathLike[str], **given: Any) -> Options:
        """Options of one type each, whatever numbers or text they were given as.

        Raises:
            UsageError: one that cannot be, named with what is needed.
        """
        values: dict[str, Any] = {"folder": path_text(folder)}
        if not values["folder"]:
            raise UsageError("no folder to record into is named")
        for name, value in given.items():
            if value is None and name not in ("ops", "rows", "file_bytes", "flush", "seed", "padding"):
                values[name] = None
            else:
                values[name] = _CHECKS[name](name, value)
        rows = values.get("rows", "bad")
        kind, _, number = rows.partition(":")
        values["first"] = parse_count("first", number) if kind == "first" else None
        values["sample"] = _share(number) if kind == "sample" else None
        if rows not in ("bad", "all") and kind not in ("first", "sample"):
            raise UsageError(f"rows is {rows!r}; it is {ROWS}")
        pattern = values.get("ops", "*")
        if not any(matches(op, pattern) for op in known_ops()):
            raise UsageError(f"no op matches {pattern!r}; known ops: {', '.join(known_ops())}")
        return cls(**values)

    @classmethod
    def parse(cls, text: str) -> Options:
        """Read ``folder,name=value,…``, as the environment variable holds it.

        Raises:
            UsageError: another spelling, or an option that cannot be.
        """
        folder, *pairs = text.split(",")
        if folder.partition("=")[0].strip() in _CHECKS:
            raise UsageError(
                f"{VARIABLE}: the folder comes first, before {folder.strip()!r}; write folder,name=value,…"
            )
        given: dict[str, Any] = {}
        for pair in pairs:
            name, separator, value = (part.strip() for part in pair.partition("="))
            if not separator or name not in _CHECKS:
                raise UsageError(
                    f"{VARIABLE}: {pair!r} is no option; write folder,name=value,… with the names {', '.join(_CHECKS)}"
                )
            if name in given:
                raise UsageError(f"{VARIABLE}: {name} is given twice, as {given[name]!r} and as {value!r}; leave one")
            given[name] = value
        return cls.checked(folder=folder.strip(), **given)

    def text(self) -> str:
        """What ``parse`` reads as these options, the folder as an absolute path.

        Raises:
            UsageError: a text with a comma in it, which the variable cannot carry.
        """
        parts = [str(Path(self.folder).absolute())]
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name in _CHECKS and value != one.default:
                parts.append(f"{one.name}={value}")
        if any("," in part or "\0" in part for part in parts):
            bad = next(part for part in parts if "," in part or "\0" in part)
            raise UsageError(f"{bad!r}: a comma cannot be carried in {VARIABLE}; choose another name")
        return ",".join(parts)


def _whole(name: str, value: Any) -> int:
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**63:
        raise UsageError(f"{name} is {value!r}; an integer of at least 0 is needed")
    return number


def _share(value: Any) -> float:
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = -1.0
    if not 0 < share <= 1:
        raise UsageError(f"rows is 'sample:{value}'; a share above 0 and at most 1 is needed, as in sample:0.01")
    return share


def _seconds(name: str, value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1.0
    if not seconds >= 0 or isinstance(value, bool):
        raise UsageError(f"{name} is {value!r}; seconds of at least 0 are needed")
    return seconds


def _flag(name: str, value: Any) -> bool:
    if isinstance(value, str) and value.lower() in (*_TRUE, *_FALSE):
        return value.lower() in _TRUE
    if not isinstance(value, bool):
        raise UsageError(f"{name} is {value!r}; it is true or false")
    return value


def _text(name: str, value: Any) -> str:
    try:
        check_text(value, name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return str(value)


# How each option is checked, in the order in which messages list them.
_CHECKS = {
    "ops": _text,
    "rows": _text,
    "seed": _whole,
    "padding": _flag,
    "max_rows": parse_count,
    "max_calls": parse_count,
    "max_bytes": parse_size,
    "file_bytes": parse_size,
    "flush": _seconds,
    "rank": _whole,
    "release": _text,
    "device": _text,
    "model": _text,
    "request": _text,
}
