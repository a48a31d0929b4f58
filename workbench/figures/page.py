"""One HTML page that can be mailed: parts, with plotly's script in it where there is a picture; nothing is fetched."""

from __future__ import annotations

import hashlib
import json
import os
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from pathlib import Path

from workbench.errors import UsageError
from workbench.figures import palette, themes
from workbench.figures.html import STYLE, dark_style, fragment
from workbench.figures.parts import Note, Part, Picture
from workbench.targets import put_in_place
from workbench.words import because

_STYLE = f"""{STYLE}
:root {{ color-scheme: light dark; background: {palette.PAPER}; color: {palette.TEXT}; }}
body {{ max-width: 1180px; margin: 2rem auto; padding: 0 1.2rem; font-family: {palette.FONT}; }}
h1 {{ font-size: 1.5rem; overflow-wrap: anywhere; }}
.wb.wb.wb h2.title {{ font-size: 1.15em; margin: 1.8rem 0 0.4rem; }}
.wb.wb.wb .said {{ font-size: 1.2em; }}
.picture {{ background: {palette.PAPER}; }}
section {{ break-inside: avoid; }}
@media screen and (prefers-color-scheme: dark) {{
  :root {{ background: {palette.DARK_PAPER}; color: {palette.DARK_TEXT}; }}
  .picture {{ background: {palette.DARK_PAPER}; }}
  {dark_style(":root")}}}
@media print {{
  :root {{ color-scheme: only light; }} body {{ margin: 0; max-width: none; padding: 0; font-size: 12px; }}
  .wb.wb.wb .wide {{ overflow: visible; }}
}}
@page {{ margin: 12mm; }}
"""
# Pictures are as wide as their place, on paper too, and in the colours of the viewer's theme; paper is white.
_SHOWN = """
const dark = matchMedia("(prefers-color-scheme: dark)"), pictures = [];
let printed = false;
function show({name, drawn, changes}) {
  const shown = structuredClone(drawn);
  for (const [place, value] of dark.matches && !printed ? changes : []) {
    const last = place.pop();
    place.reduce((part, step) => part[step], shown)[last] = value;
    place.push(last);
  }
  if (printed) shown.layout.width = 690;
  Plotly.react(name, shown.data, shown.layout, {displayModeBar: false, responsive: true});
}
const all = (now = printed) => { printed = now; pictures.forEach(show); };
function picture(name, drawn, changes) { pictures.push({name, drawn, changes}); show(pictures.at(-1)); }
dark.addEventListener("change", () => all());
addEventListener("beforeprint", () => all(true));
addEventListener("afterprint", () => all(false));
"""


def page(title: str, parts: Sequence[Part], made_by: str) -> str:
    """A whole document. Its policy lets run the scripts that it was made with and no others, and nothing be fetched.

    Args:
        made_by: what made it, told at its end.
    """
    calls: list[str] = []

    def draw(picture: Picture) -> str:
        name = f"picture-{len(calls)}"
        calls.append(_call(picture, name))
        return f'<div class="picture" id="{name}"></div>'

    body = fragment([*parts, Note(f"Made by {made_by}.")], draw, "h2")
    scripts = [_plotly(), "\n".join([_SHOWN, *calls])] if calls else []
    policy = [
        "default-src 'none'",
        "base-uri 'none'",
        "style-src 'unsafe-inline'",
        "img-src data: blob:",
        "form-action 'none'",
    ]
    policy += [f"script-src {' '.join(_hash(script) for script in scripts)}"] if scripts else []
    allowed = "; ".join(policy)
    head = "".join(f"<script>{script}</script>\n" for script in scripts[:1])
    foot = "".join(f"<script>{script}</script>\n" for script in scripts[1:])
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(allowed)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n{head}</head>\n"
        f"<body>\n<h1>{escape(title)}</h1>\n{body}{foot}</body>\n</html>\n"
    )


def save(text: str, path: str | os.PathLike[str], overwrite: bool, cure: str = "overwrite=True") -> Path:
    """Write a page whole or not at all.

    Raises:
        UsageError: it cannot be written, or would replace a file and must not.
    """
    name = os.fspath(path)
    if not isinstance(name, str) or not name or "\0" in name or name.endswith("/"):
        raise UsageError(f"{name!r} names no file; name one")
    try:
        with put_in_place(Path(name), name, overwrite=overwrite, cure=cure) as temporary:
            temporary.write_bytes(_bytes(text))
    except OSError as error:
        raise UsageError(f"{name}: cannot be written: {because(error)}") from None
    return Path(name)


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    text = str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")  # as a browser reads, and hashes, it
    return text.replace("</script", "<\\/script")


def _call(picture: Picture, name: str) -> str:
    from plotly.io.json import to_json_plotly

    figure = picture.draw()
    drawn, dark = (json.loads(to_json_plotly(one)) for one in (figure, themes.darkened(figure)))
    told = json.dumps([drawn, themes.changes(drawn, dark)], separators=(",", ":")).replace("<", "\\u003c")
    return f'picture("{name}", ...{told});'


def _hash(script: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(_bytes(script)).digest()).decode()}'"


def _bytes(text: str) -> bytes:
    """Text as bytes, whatever stood in a file's name."""
    return text.encode("utf-8", "backslashreplace")
