"""Recording turned on by the environment, in processes whose program knows nothing of it.

vLLM and SGLang call ``start`` in every process of theirs, through their plugin groups; ``workbench record`` has torch
call it when it is imported.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

VARIABLE = "TOPK_WORKBENCH_RECORD"
_started: dict[str, Any] = {}


def start() -> None:
    """Record as ``TOPK_WORKBENCH_RECORD`` says, until the process ends; once a process, and nothing if it is not set.

    Raises nothing: what is wrong with the variable is said on stderr, and the program goes on.
    """
    text = os.environ.get(VARIABLE)
    if not text or text in _started:
        return
    _started[text] = None
    try:
        from workbench.record.options import Options
        from workbench.record.recorder import Recorder

        recorder = Recorder(Options.parse(text))
        recorder.start()
        _started[text] = recorder
    except Exception as error:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            print(f"workbench: nothing is recorded: {error}", file=sys.stderr, flush=True)
