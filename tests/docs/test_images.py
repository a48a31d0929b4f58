"""Pictures of the app's pages: each page has one, each stands somewhere, and ``make screenshots`` makes all of them."""

from __future__ import annotations

import re
from pathlib import Path

from PIL import Image
from streamlit.testing.v1 import AppTest

from tests.browser.screenshots import IMAGES, MOST_BYTES, SHOTS, WIDTH, target
from tests.docs.blocks import PAGES

IMAGE = re.compile(r"!\[(?P<says>[^\]]*)\]\((?P<target>[^)]+)\)")


def named() -> dict[Path, str]:
    """Every picture that a page of the documentation shows, and what is said in its place."""
    found = [(page, match) for page in PAGES for match in IMAGE.finditer(page.read_text())]
    return {(page.parent / match["target"]).resolve(): match["says"] for page, match in found}


def _addresses() -> None:
    import streamlit

    from workbench.ui.pages import navigation

    streamlit.text("\n".join(page.url_path or "inspect" for page in navigation()))


def test_every_page_of_the_app_has_one() -> None:
    (listed,) = AppTest.from_function(_addresses, default_timeout=60).run().text
    assert sorted(listed.value.split()) == sorted(shot.name for shot in SHOTS)


def test_those_that_are_shown_are_those_that_are_made() -> None:
    made = {target(shot).resolve() for shot in SHOTS}
    assert set(named()) == made == {file.resolve() for file in IMAGES.iterdir()}
    assert all(len(says) > 30 for says in named().values())  # what a reader who does not see them is told


def test_they_are_small_and_as_wide_as_the_window() -> None:
    for shot in SHOTS:
        assert target(shot).stat().st_size <= MOST_BYTES
        with Image.open(target(shot)) as picture:
            assert (picture.format, picture.size) == ("PNG", (WIDTH, shot.height))
