"""What is polled is begun as the last thing of a page's run, small, and never the same fragment twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.testing.v1 import AppTest

UI = Path(__file__).parents[2] / "workbench" / "ui"


def script() -> None:
    import streamlit as st

    from workbench.ui.watching import part, watch, watched_page

    state = st.session_state
    state.setdefault("left", 2)

    def watched() -> None:
        if state.left:
            st.button("Stop", on_click=lambda: state.update(left=0))
            watch(lambda: st.text("at work"), lambda: not state.left)
        st.caption(f"{state.left} left")

    with watched_page():
        part(watched)
        st.caption("the end of the page")


def test_it_is_begun_last_and_bears_another_name_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    enqueue = ForwardMsgQueue.enqueue

    def noted(self: ForwardMsgQueue, message: Any) -> None:
        sent.append(message)
        enqueue(self, message)

    monkeypatch.setattr(ForwardMsgQueue, "enqueue", noted)
    test, names = AppTest.from_function(script), []
    for _ in range(2):
        sent.clear()
        test.run()
        assert not test.exception
        assert [(one.label, one.disabled) for one in test.button] == [("Stop", False)]
        assert [one.value for one in test.text] == ["at work"]
        kinds = [one.WhichOneof("type") for one in sent]
        assert kinds.count("auto_rerun") == 1
        at = kinds.index("auto_rerun")
        names.append(sent[at].auto_rerun.fragment_id)
        after = [one for one in sent[at:] if one.HasField("delta")]
        assert {one.delta.fragment_id for one in after} == {names[-1]}  # nothing else of the page comes after it
        assert sum(one.ByteSize() for one in after) < 2000
    assert names[0] != names[1]
    sent.clear()
    test.button[0].click().run()
    assert not test.button
    assert [one.value for one in test.caption] == ["0 left", "the end of the page"]
    assert "auto_rerun" not in [one.WhichOneof("type") for one in sent]


def test_nothing_else_is_polled() -> None:
    assert [file.name for file in UI.glob("*.py") if "run_every" in file.read_text()] == ["watching.py"]
