"""Where a row came from, without saying whose it is."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from workbench.capture.format import STRINGS
from workbench.capture.row import Call

# A word that begins as a path does, names a home, or has more than the one slash of an "owner/model".
_PATH = re.compile(
    r"^(?:file:|[A-Za-z]:[\\/]|[\\/~]|\.{1,2}[\\/]|[\w.-]+@[\w.-]+:.*[\\/])"
    r"|[\\/](?:home|users|root|mnt|tmp)[\\/]|[\\/].*[\\/]",
    re.I,
)
_ENDS = "\"'()[]<>,;"
# A home and what leads to it. Its name may hold spaces, so that it is cut before the words are.
_ENDED = re.escape(_ENDS)
_HOME = re.compile(rf"[^\s{_ENDED}]*[\\/](?:home|users)[\\/]+(?:[^\\/\n{_ENDED}]*(?=[\\/])|[^\s{_ENDED}]*)", re.I)


def without_paths(text: str) -> str:
    """A text in which every path is replaced by its last part, as in ``/home/someone/models/glm`` → ``glm``.

    Nothing is left of a path that ends with a home, since its last part is the name of a user.
    """
    return re.sub(r"\S+", lambda word: _shortened(word[0]), _HOME.sub("", text))


def _shortened(word: str) -> str:
    bare = word.strip(_ENDS)
    if not _PATH.search(bare):
        return word
    parts = [part for part in re.split(r"[\\/]+", bare) if part.strip(".") and not part.startswith("~")]
    begin = word.index(bare)
    return word[:begin] + (parts[-1] if parts else "") + word[begin + len(bare) :]


def anonymous(call: Call) -> Call:
    """A call that tells op, release, device and model as captured, without paths and without the request."""
    texts: dict[str, str | None] = {name: getattr(call, name) for name in STRINGS}
    kept: dict[str, Any] = {name: text and (without_paths(text).strip() or None) for name, text in texts.items()}
    return replace(call, index=0, **{**kept, "request": None})
