"""Rows are given back as soon as they are judged: no ring of objects keeps them until Python looks for rings."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import workbench as wb
from workbench.audit.asked import Asked, located
from workbench.audit.plan import make_plan
from workbench.audit.work import Worker
from workbench.capture import Call, Row, write_capture

ROW = Row(torch.zeros(9000), 9000, call=Call(k=2048, op="vllm.persistent_topk", release="vllm==0.26.0", device="h200"))


def left_by(work: Callable[[], object]) -> Counter[str]:
    """Types of the objects that only a search for rings gives back."""
    work()  # what is made once stays
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        work()
        gc.collect()
        return Counter(type(one).__name__ for one in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize(
    "work",
    [
        lambda: wb.inspect(ROW),
        lambda: wb.run(ROW, paths="sglang.*", variants="*"),
        lambda: wb.repeat(ROW, paths="sglang.fast_topk", repeats=2),
        lambda: wb.what_if(ROW, path="sglang.fast_topk"),
        lambda: wb.compare(ROW),
        lambda: wb.advise(ROW),
    ],
    ids=["inspect", "run", "repeat", "what_if", "compare", "advise"],
)
def test_a_row_is_given_back(work: Callable[[], object]) -> None:
    assert not left_by(work)


def test_a_worker_of_an_audit_gives_rows_back(tmp_path: Path) -> None:
    selected = torch.topk(torch.randn(3, 9000, generator=torch.Generator().manual_seed(0)), 2048)
    row = Row(torch.zeros(9000), 9000, call=ROW.call, indices=selected.indices[0].to(torch.int32))
    write_capture(tmp_path / "a.safetensors", [row])
    asked = Asked(*located(tmp_path))
    (job,) = make_plan(asked).jobs()
    worker = Worker(asked)
    assert not left_by(lambda: worker(job))
