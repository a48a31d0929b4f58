"""A value of the session that the URL of one page carries: read when it opens, changed by widgets, written back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import streamlit as st

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    V = TypeVar("V", bound=DataclassInstance)
else:
    V = TypeVar("V")

Params = Mapping[str, Sequence[str]]
_PAGE = "workbench-page"  # the page that the session showed last


class Carried(Generic[V]):
    """What one page shows, a frozen dataclass, as the session holds it and the page's URL carries it.

    Args:
        page: its name. read: the value of query parameters, each with all its texts, and a message for every one that
            is not understood. write: the parameters of a value.
    """

    def __init__(
        self,
        page: str,
        read: Callable[[Params], tuple[V, list[str]]],
        write: Callable[[V], dict[str, list[str]]],
    ) -> None:
        self._page, self._from_params, self._to_params = page, read, write
        names = ("value", "notices", "url", "linked", "changed", "held")
        self._value, self._notices, self._url, self._linked, self._changed, self._held = (
            f"workbench-{page}-{name}" for name in names
        )

    def current(self) -> V:
        """The value of this session."""
        if self._value not in st.session_state:
            self._read()
        return cast("V", st.session_state[self._value])

    def _read(self) -> None:
        params = _params()
        value, problems = self._from_params(params)
        st.session_state[self._value], st.session_state[self._notices] = value, problems
        st.session_state[self._url], st.session_state[self._linked] = params, value

    def follow_url(self) -> bool:
        """Take the value from the URL where that is not what the session wrote last, as after a step back or forward.

        A widget that changed the value in this run goes first: the browser may not yet know what was written for the
        last one. A URL without parameters is no step where another page was shown in between, since pages drop them.
        """
        value = self.current()
        self.hold_url(False)
        changed = st.session_state.pop(self._changed, False)
        away = st.session_state.get(_PAGE, self._page) != self._page
        st.session_state[_PAGE] = self._page
        params = _params()
        if changed or params == st.session_state[self._url] or (away and not params):
            return False
        if self._from_params(params)[0] == value:
            st.session_state[self._url] = params
            return False
        self._read()
        return True

    def linked(self) -> V | None:
        """The value that the link carried, until ``forget_link``."""
        self.current()
        return cast("V | None", st.session_state[self._linked])

    def forget_link(self) -> None:
        """What the link carried no longer matters: the value is of a file that was opened."""
        st.session_state[self._linked] = None

    def change(self, **fields: Any) -> None:
        """Change fields, as a person did; what was said of the link no longer concerns what is shown."""
        value = self.current()
        if any(getattr(value, name) != new for name, new in fields.items()):
            st.session_state[self._notices] = []
            st.session_state[self._changed] = True
        self.settle(**fields)

    def settle(self, **fields: Any) -> V:
        """Fill in what a default decided; what was said of the link stays."""
        st.session_state[self._value] = replace(self.current(), **fields)
        return cast("V", st.session_state[self._value])

    def turn(self, value: V) -> None:
        """Change to another value altogether."""
        st.session_state[self._value], st.session_state[self._notices] = value, []
        st.session_state[self._linked], st.session_state[self._changed] = None, True

    def note(self, message: str) -> None:
        """Say something of the link that was followed, until the value changes."""
        self.current()
        if message not in st.session_state[self._notices]:
            st.session_state[self._notices].append(message)

    def notices(self) -> list[str]:
        """What is to be said of the link."""
        self.current()
        return list(st.session_state[self._notices])

    def bound(self, field: str, key: str, read: Callable[[Any], Any] = lambda value: value) -> Callable[[], None]:
        """A callback that takes a widget's value into a field."""

        def take() -> None:
            self.change(**{field: read(st.session_state[key])})

        return take

    def hold_url(self, held: bool) -> None:
        """Leave the URL as it is while what is shown is not settled, so that a step back does not meet it."""
        st.session_state[self._held] = held

    def write_url(self) -> None:
        """Let the URL say what is shown."""
        if st.session_state.get(self._held):
            return
        params = self._to_params(self.current())
        if _params() != params:
            st.query_params.from_dict(params)
        st.session_state[self._url], st.session_state[self._changed] = params, False


def leave_page() -> None:
    """Note that a page is shown whose URL says nothing."""
    st.session_state[_PAGE] = ""


def _params() -> dict[str, list[str]]:
    return {name: st.query_params.get_all(name) for name in st.query_params}
