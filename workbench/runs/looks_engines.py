"""The looks of ``doctor`` at the engines, and at the recorder's place in vLLM and SGLang."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from workbench.resources import DISTRIBUTION
from workbench.runs.doctor import Fact, State
from workbench.runs.looks_common import Ask, cure_in
from workbench.runs.looks_kept import kernel_cache

AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
PLUGINS = {"vLLM": "vllm.general_plugins", "SGLang": "sglang.srt.plugins"}
RECORDER = "topk_workbench_record"


def engines(asked: Ask) -> Iterator[Fact]:
    answer = asked("engines")
    if answer.failed:
        for name in ("model", "cuda", "vendor"):
            yield Fact("engines", name, "cannot be asked", "broken", answer.failed)
        return
    yield Fact("engines", "model", "answers on this machine")
    yield Fact("engines", "recorded", "answers where a capture holds selections")
    cuda = answer.found["cuda"]
    yield Fact(
        "engines",
        "cuda",
        "cannot answer" if cuda else "answers",
        "absent" if cuda else "fine",
        "; ".join(cuda),
        cure_in("; ".join(cuda)),
    )
    yield from _vendor(answer.found["vendor"], answer.found["no_device"])
    yield kernel_cache(Path(answer.found["kernels"]))


def _vendor(packages: dict[str, dict[str, Any]], no_device: str) -> Iterator[Fact]:
    """The vendor engine as a whole, then each package's releases that it can call."""
    having = [name for name, told in packages.items() if told["stored"] or told["installed"]]
    why = "; ".join(text for text in (no_device, "" if having else "no release is in the store or installed") if text)
    state: State = "absent" if why else "fine"
    yield Fact("engines", "vendor", "cannot answer" if why else "answers", state, why)
    for name, told in packages.items():
        stored = [text.partition("==")[2] for text in told["stored"]]
        texts = [f"in the store: {', '.join(stored)}"] if stored else []
        texts += [f"installed: {told['installed'].partition('==')[2]}"] if told["installed"] else []
        missing = "" if texts else told["why"]
        yield Fact(
            "engines",
            f"vendor: {name}",
            "; ".join(texts) or "no release",
            "absent" if missing else "fine",
            missing,
            cure_in(missing),
            {"stored": told["stored"], "installed": told["installed"]},
        )


def plugins(asked: Ask) -> Iterator[Fact]:
    """What vLLM and SGLang call in each of their processes, the recorder's own among them."""
    cure = f"pip install {DISTRIBUTION}"
    for system, group in PLUGINS.items():
        entries = {one.name: one for one in metadata.entry_points(group=group)}
        own = entries.get(RECORDER)
        others = [name for name in entries if name != RECORDER]
        beside = f"; beside it: {', '.join(sorted(others))}" if others else ""
        if own is None:
            why = f"{system} calls no recorder of the workbench, which is not installed here as a package"
            yield Fact("recorder", f"{system} plugin", f"not registered{beside}", "absent", why, cure)
            continue
        failed = asked("entry", own.value).failed
        yield Fact(
            "recorder",
            f"{system} plugin",
            f"{RECORDER} in {group}{beside}",
            "broken" if failed else "fine",
            failed,
            cure if failed else "",
            {"group": group, "entry": own.value, "others": others},
        )
    if os.environ.get(AUTOLOAD, "1") == "0":
        why = "it keeps torch from turning on what `workbench record` starts"
        yield Fact("recorder", AUTOLOAD, "0", "broken", why, f"unset {AUTOLOAD}")
