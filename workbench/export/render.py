"""Test files from templates. All that goes into them is a name of the catalogue, a number or a checked identifier."""

from __future__ import annotations

import keyword
import re
import textwrap
from pathlib import Path
from string import Template

from workbench.errors import UsageError
from workbench.export.fixture import MISSED_WORDS, Fixture
from workbench.export.launch import Launch
from workbench.export.losing import Losing
from workbench.paths.catalog import get_path
from workbench.runs.sentence import spread_words

_TEMPLATES = Path(__file__).parent / "templates"
_WIDTH = 85

CALLABLE = tuple(
    sorted(path.stem for path in _TEMPLATES.glob("*.*.txt"))
)  # ops with a template, as in vllm.persistent_topk

_OWN_SELECTOR = '''def select(scores, k):
    """Indices [k] of the k best of scores [n], -1 past n: put yours here."""
    return torch.topk(scores, k).indices


'''


def template(name: str) -> str:
    """The text of a template, without the end of its last line."""
    return (_TEMPLATES / f"{name}.txt").read_text(encoding="utf-8").removesuffix("\n")


def render_pytest(losing: Losing, fixture: Fixture, file: str, selector: str | None, stem: str) -> str:
    """A plain test: a selector of the user's on the fixture.

    Args:
        file: the fixture's name. stem: of the test's name.
        selector: ``module:function``; without it the test holds one to edit.
    """
    module, function = _selector(selector) if selector is not None else ("", "")
    name = function if function == "select" else f"{function} as select"
    imports = ["from safetensors import safe_open", *([f"from {module} import {name}"] if module else [])]
    text = Template(template("pytest")).substitute(
        _common(losing, fixture, file, stem),
        imports="\n".join(sorted(imports, key=lambda line: line.split()[1])),
        selector="" if module else _OWN_SELECTOR,
    )
    return f"{text}\n"


def render_op(losing: Losing, fixture: Fixture, file: str, launch: Launch, stem: str) -> str:
    """A test in the shape of a serving engine's own: its op on rows that all are the fixture's."""
    text = Template(template("op")).substitute(
        _common(losing, fixture, file, stem),
        call=template(launch.op),
        reached=f"{launch.release} on {launch.device} sends such a call to {losing.path.name}.",
        rows=launch.rows,
        width=launch.width,
        stride=launch.stride,
        start=launch.start,
        max_seq_len=launch.max_seq_len,
    )
    return f"{text}\n"


def summary(losing: Losing, fixture: Fixture) -> str:
    """What happens to the row, in sentences."""
    risk, wanted = losing.risk, fixture.expected.numel()
    told = [
        f"The model of {losing.named} loses winners of this row of {fixture.row.length} scores, k {fixture.k}: "
        f"{fixture.missing} of {wanted} {orders_words(losing)}."
    ]
    if risk.population is not None and risk.room is not None and risk.breach:
        told.append(f"{risk.population} scores share its threshold bin, the buffer takes {risk.room} of them.")
    return " ".join(told)


def orders_words(losing: Losing) -> str:
    """In which arrival orders the model loses so much, and what others lose."""
    risk = losing.risk
    if risk.least_missing is not None and risk.least_missing == risk.most_missing:
        return "in every arrival order"
    spread = spread_words(risk)
    return f"in one arrival order, {losing.order.words}{f' ({spread})' if spread else ''}"


def slug(stem: str) -> str:
    """A file name as part of an identifier."""
    return re.sub(r"\W", "_", stem)


def reason(level: str, p_clean: float, repeats: int, unit: str) -> str:
    """Why a test calls so often, in a sentence. ``level``: of the risk. ``unit``: what arrives together on the path."""
    if level == "certain":
        return "Every call loses: one is enough."
    if repeats == 1:
        return (
            "If arrival orders are uniformly random, a call loses nothing with a probability below "
            f"{MISSED_WORDS}: one is enough."
        )
    what = (
        "arrival orders are uniformly random" if unit == "element" else f"the {unit}s of a row arrive in random order"
    )
    return (
        f"If {what}, a call loses nothing with a probability of at most {p_clean:.6g}: so many in a row do with less "
        f"than {MISSED_WORDS}."
    )


def reason_of(fixture: Fixture) -> str:
    """Why the test of a fixture calls so often, in a sentence."""
    return reason(fixture.risk, fixture.p_clean, fixture.repeats, get_path(fixture.path).arrival_unit)


def _common(losing: Losing, fixture: Fixture, file: str, stem: str) -> dict[str, object]:
    why = textwrap.wrap(reason_of(fixture), _WIDTH, initial_indent="# ", subsequent_indent="# ")
    return {
        "summary": "\n".join(_docstring(summary(losing, fixture))),
        "fixture": file,
        "why": "\n".join(why),
        "repeats": fixture.repeats,
        "load": template("load"),
        "slug": slug(stem),
    }


def _docstring(text: str) -> list[str]:
    first = "Top-k regression test, written by workbench export with the fixture beside it."
    return [first, "", *textwrap.wrap(text, _WIDTH)]


def _selector(text: str) -> tuple[str, str]:
    module, colon, function = text.partition(":")
    parts = [*module.split("."), function]
    if not colon or not all(part.isidentifier() and part.isascii() and not keyword.iskeyword(part) for part in parts):
        raise UsageError(f"{text!r} is no selector; write module:function, as in mypackage.topk:select")
    return module, function
