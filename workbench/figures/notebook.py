"""What a notebook shows of each kind of result; see ``workbench.rendering``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import cast

from workbench.figures import html
from workbench.figures.page import page, save
from workbench.figures.parts import Folded, Part, Picture, Said

# Where each kind of result is told: a function of this room that takes one and gives its parts.
_TOLD = {
    "workbench.capture.row.Call": "of_rows:call_parts",
    "workbench.capture.row.Row": "of_rows:row_parts",
    "workbench.capture.capture.Capture": "of_rows:capture_parts",
    "workbench.capture.about.CaptureInfo": "of_rows:info_parts",
    "workbench.capture.tokens.Token": "of_rows:token_parts",
    "workbench.paths.spec.Path": "of_paths:path_parts",
    "workbench.paths.plan.Plan": "of_paths:plan_parts",
    "workbench.paths.selection.Selection": "of_rows:selection_parts",
    "workbench.analysis.verdict.Verdict": "of_rows:verdict_parts",
    "workbench.analysis.risk.Risk": "of_rows:risk_parts",
    "workbench.analysis.repeatability.Repeatability": "of_rows:repeatability_parts",
    "workbench.paths.routing.Route": "of_rows:route_parts",
    "workbench.runs.inspect.Inspection": "of_inspection:inspection_parts",
    "workbench.runs.repeat.Repeats": "of_repeats:repeats_parts",
    "workbench.runs.repeat.Repeated": "of_repeats:repeated_parts",
    "workbench.runs.report.Report": "of_runs:report_parts",
    "workbench.runs.report.Result": "of_inspection:result_parts",
    "workbench.runs.divergence.Comparison": "of_divergence:comparison_parts",
    "workbench.runs.divergence.Divergence": "of_divergence:divergence_parts",
    "workbench.runs.divergence.Point": "of_divergence:point_parts",
    "workbench.runs.divergence.Detail": "of_divergence:detail_parts",
    "workbench.runs.matrix.Matrix": "of_runs:matrix_parts",
    "workbench.runs.matrix.Cell": "of_runs:cell_parts",
    "workbench.runs.bisect.Bisection": "of_runs:bisection_parts",
    "workbench.runs.shrink.Shrunk": "of_runs:shrunk_parts",
    "workbench.runs.bench.Bench": "of_runs:bench_parts",
    "workbench.runs.compare.Compared": "of_choices:compared_parts",
    "workbench.runs.whatif.WhatIf": "of_choices:what_if_parts",
    "workbench.analysis.curves.Curve": "of_choices:curve_parts",
    "workbench.runs.remedy.Advice": "of_choices:advice_parts",
    "workbench.runs.remedy.Part": "of_choices:part_parts",
    "workbench.runs.remedy.Remedy": "of_choices:remedy_parts",
    "workbench.runs.doctor.Doctor": "of_choices:doctor_parts",
    "workbench.audit.summary.Summary": "audit_page:audit_parts",
    "workbench.audit.front.Audited": "of_runs:audited_parts",
    "workbench.export.writing.Exported": "of_runs:exported_parts",
}
# Pages that hold more than a notebook shows.
_PAGES = {"workbench.runs.inspect.Inspection": "row_page:row_page"}
_NO_PICTURE = (
    '<div style="opacity:0.75">A picture is here where plotly is shown; to have it on an exported page, run the '
    "notebook with <code>PLOTLY_RENDERER=plotly_mimetype+notebook</code>.</div>"
)


def parts_of(result: object) -> list[Part]:
    """What is shown of a result.

    Raises:
        NotImplementedError: it is of a kind that is not told.
    """
    return list(_parts(result))


def _parts(result: object) -> Iterable[Part]:
    told = _of(result, _TOLD)
    if told is None:
        raise NotImplementedError(f"nothing tells how {type(result).__name__} is shown")
    return cast("Iterable[Part]", told(result))


def _of(result: object, table: dict[str, str]) -> Callable[[object], object] | None:
    for kind in type(result).__mro__:
        if place := table.get(f"{kind.__module__}.{kind.__qualname__}"):
            module, _, name = place.partition(":")
            return cast("Callable[[object], object]", getattr(import_module(f"workbench.figures.{module}"), name))
    return None


def as_text(result: object) -> str:
    """A result as plain text, without pictures."""
    return html.as_text(parts_of(result))


def as_line(result: object) -> str:
    """A result among others, as in a list: what it is, and its sentence where it has one."""
    first = next(iter(_parts(result)), None)
    return f"<{type(result).__name__}: {first.text}>" if isinstance(first, Said) else repr(result)


def as_html(result: object) -> str:
    """A result as a piece of HTML without scripts, so without pictures."""
    return f"<style>{html.STYLE}</style>\n{html.fragment(parts_of(result))}"


def save_page(result: object, path: str | os.PathLike[str], overwrite: bool) -> Path:
    """Write a result as a page of its own.

    Raises:
        UsageError: it cannot be written.
    """
    own = _of(result, _PAGES)
    if own is not None:
        return save(str(own(result)), path, overwrite)
    parts = parts_of(result)
    said = next((part.text for part in parts if isinstance(part, Said)), "")
    title = f"{type(result).__name__}: {said.partition('. ')[0].rstrip('.')}" if said else type(result).__name__
    return save(page(title if len(title) <= 120 else f"{title[:119]}…", parts, "the top-k workbench"), path, overwrite)


def display(result: object) -> None:
    """Show a result in the notebook that runs: HTML, and plotly's pictures as plotly is set up to show them.

    Raises:
        NotImplementedError: nothing shows HTML, as in a terminal; IPython then prints the text.
    """
    from IPython import get_ipython  # type: ignore[import-not-found,unused-ignore]

    shell = get_ipython()
    if shell is None or "text/html" not in shell.display_formatter.active_types:
        raise NotImplementedError
    for piece in _outputs(parts_of(result)):
        piece()


def _outputs(parts: Sequence[Part]) -> Iterator[Callable[[], None]]:
    """Pieces of HTML, each up to the next picture and with its title, and the pictures."""
    style, some, draws = f"<style>{html.STYLE}</style>\n", list[Part](), find_spec("plotly") is not None
    for part in (*_unfolded(parts), None):
        picture = part if isinstance(part, Picture) else None
        if part is not None and (picture is None or (draws and picture.title)):
            some.append(part)
        if some and (part is None or picture is not None):
            piece = style + html.fragment(some, lambda _: "<!-- the picture follows -->")
            text = html.as_text(some) or (picture.title if picture is not None else "")
            yield partial(_show, {"text/html": piece, "text/plain": text})
            some = []
        if picture is not None and draws:
            yield partial(_show_picture, picture)


def _unfolded(parts: Sequence[Part]) -> Iterator[Part]:
    """Parts without folds that hide a picture: it is shown by plotly, which knows of none."""
    for part in parts:
        if isinstance(part, Folded) and any(isinstance(one, Picture) for one in _unfolded(part.parts)):
            yield Said(part.title)
            yield from _unfolded(part.parts)
        else:
            yield part


def _show(bundle: dict[str, object]) -> None:
    from IPython.display import display as show  # type: ignore[import-not-found,unused-ignore]

    show(bundle, raw=True)  # type: ignore[no-untyped-call,unused-ignore]


def _show_picture(picture: Picture) -> None:
    """A picture by the renderer that plotly is set to."""
    import plotly.io as pio

    figure = picture.draw()
    if picture.title:
        figure.update_layout(meta={"title": picture.title})
    if pio.renderers.default == "plotly_mimetype":  # which exported pages leave out without a word
        _show({**pio.renderers["plotly_mimetype"].to_mimebundle(figure.to_dict()), "text/html": _NO_PICTURE})
    else:
        pio.show(figure)
