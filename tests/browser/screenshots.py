"""Pictures of the app's pages for README and docs, made in Chromium.

python -m tests.browser.screenshots [NAME …]        # or: make screenshots

Each shows a page as it opens on a sample, 1280 pixels wide, in the light theme. What is of this machine and this moment
alone (folders, the address, the time) is left out, so that the same app gives the same picture, but for the fonts of
another machine.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

from tests.browser.conftest import ARGUMENTS, ROOT, chromium, serving, watch
from tests.browser.driving import SLOW_MS, open_app, settle

IMAGES = ROOT / "docs" / "images"
WIDTH, MOST_BYTES = 1280, 150_000
STILL = 40  # looks at a page until two are the same
_LM_HEAD = "capture=samples/smollm2-lm-head.safetensors&row=2"
# Elements that hold a text like these are not shown. The arguments: folders of this machine.
_LEAVE_OUT = """(folders) => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const text = texts.currentNode.data, held = texts.currentNode.parentElement;
        if (/^Looked at \\d|127\\.0\\.0\\.1/.test(text) || folders.some(one => text.includes(one)))
            (held.closest('tr') ?? held).style.visibility = 'hidden';
    }
}"""
_V100 = "capture=samples/public-vllm-v100.safetensors&row=0&release=vllm==0.26.0&device=h200"


@dataclass(frozen=True)
class Shot:
    """One picture.

    Attributes:
        name: of the file, and of the page in the app's addresses. query: what the page shows.
        ready: a text that stands there when it is done. height: in pixels.
    """

    name: str
    query: str
    ready: str
    height: int = 900


SHOTS = (
    Shot("inspect", f"{_LM_HEAD}&path=sglang.fast_topk&bin=204", "What threshold bin 204 holds"),
    Shot("overview", "scan=samples", "Look again"),
    Shot("compare", f"{_LM_HEAD}&on=sglang.fast_topk&at=stock", "sglang.fast_topk (stock): can lose"),
    Shot("what-if", f"{_LM_HEAD}&path=sglang.fast_topk&against=capacity&capacity=6144", "With a buffer of 6144"),
    Shot("remedies", f"{_V100}&scope=capture", "vllm==0.33.0: keeps every winner"),
    Shot(
        "divergence",
        "run=samples/greedy-values/exact.safetensors&run=samples/greedy-values/order-1.safetensors",
        "Step 0, layer 3, row 0: values vary",
    ),
    Shot("repeat", f"{_LM_HEAD}&path=sglang.fast_topk&engine=model&calls=20", "20 calls of sglang.fast_topk", 1020),
    Shot("export", f"{_LM_HEAD}&path=sglang.fast_topk", "a test of it makes 1 call", 600),
    Shot("releases", "source=samples/public-vllm-b300.safetensors&device=h200", "Row 3 in vllm==0.23.0", 860),
    Shot("paths", "path=sglang.fast_topk", "How a path selects", 760),
    Shot("environment", "", "Engines"),
)


def target(shot: Shot, folder: Path = IMAGES) -> Path:
    """The file of a picture."""
    return folder / f"{shot.name}.png"


def take(page: Page, url: str, shot: Shot) -> bytes:
    """A picture as PNG, of at most 256 colours."""
    page.set_viewport_size({"width": WIDTH, "height": shot.height})
    place = "" if shot.name == "inspect" else shot.name
    open_app(page, f"{url}/{place}?{shot.query}")
    expect(page.get_by_text(shot.ready).first).to_be_visible(timeout=3 * SLOW_MS)
    settle(page)
    page.mouse.move(0, 0)
    taken = _still(page)
    with Image.open(io.BytesIO(taken)) as whole:
        small = whole.convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    kept = io.BytesIO()
    small.save(kept, "PNG", optimize=True)
    return kept.getvalue()


def _still(page: Page) -> bytes:
    """The page as PNG, once it looks the same twice."""
    before = b""
    for _ in range(STILL):
        page.evaluate(_LEAVE_OUT, [str(ROOT), str(Path.home())])
        taken = page.screenshot(animations="disabled", caret="hide")
        if taken == before:
            return taken
        before = taken
        page.wait_for_timeout(300)
    raise RuntimeError(f"{page.url} does not come to rest")


def make(shots: Collection[Shot], folder: Path = IMAGES) -> None:
    """Take pictures and put them into a folder; nothing is written unless all of them came out."""
    wrong: list[str] = []
    made: dict[Path, bytes] = {}
    with tempfile.TemporaryDirectory() as own, sync_playwright() as playwright:
        os.environ["TOPK_WORKBENCH_SCANS"] = own  # a scan of the user's own is none of a picture's business
        browser = playwright.chromium.launch(executable_path=chromium(playwright), args=ARGUMENTS)
        with serving([], Path(own) / "app.log") as url:
            for shot in shots:
                context = browser.new_context(color_scheme="light", reduced_motion="reduce", locale="en-US")
                page = context.new_page()
                watch(page, wrong)
                made[target(shot, folder)] = take(page, url, shot)
                context.close()
        browser.close()
    large = [f"{file.name} has {len(data)} bytes" for file, data in made.items() if len(data) > MOST_BYTES]
    if wrong or large:
        sys.exit("\n".join((*wrong, *large)))
    folder.mkdir(exist_ok=True)
    for file, data in made.items():
        file.write_bytes(data)
        print(f"{file.relative_to(ROOT) if file.is_relative_to(ROOT) else file}  {len(data)} bytes")


if __name__ == "__main__":
    names = sys.argv[1:] or [shot.name for shot in SHOTS]
    unknown = set(names) - {shot.name for shot in SHOTS}
    if unknown:
        sys.exit(f"no such picture: {', '.join(sorted(unknown))}; there are {', '.join(one.name for one in SHOTS)}")
    make([shot for shot in SHOTS if shot.name in names])
