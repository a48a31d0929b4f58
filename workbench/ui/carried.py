"""A value of the session that the URL of one page carries: read when it opens, changed by widgets, written back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import streamlit as st

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    V = TypeVar("V", bound=DataclassInstance)
else:
    V = TypeVar("V")

Params = Mapping[str, Sequence[str]]
_PAGE = "workbench-page"  # the page that the session showed last
# A parameter of links that turn to a page as the session has it; what else they say is for a session that has it not
# yet, as that of another tab. No page writes it.
KEPT = "kept"


@dataclass(frozen=True)
class Beside:
    """What a page's URL carries beside the page's own value: fields of a value that several pages share.

    Attributes:
        shared: the value. names: of those fields, which are those of their parameters as well; the other fields of the
            value stay as they are on such a page.
    """

    shared: Carried[Any]
    names: tuple[str, ...]


class Carried(Generic[V]):
    """What one page shows, a frozen dataclass, as the session holds it and the page's URL carries it.

    Args:
        page: its name. read: the value of query parameters, each with all its texts, and a message for every one that
            is not understood. write: the parameters of a value. beside: what the page's URL carries as well.
    """

    def __init__(
        self,
        page: str,
        read: Callable[[Params], tuple[V, list[str]]],
        write: Callable[[V], dict[str, list[str]]],
        beside: Beside | None = None,
    ) -> None:
        self._page, self._from_params, self._to_params, self._beside = page, read, write, beside
        names = ("value", "notices", "url", "linked", "changed", "held")
        self._value, self._notices, self._url, self._linked, self._changed, self._held = (
            f"workbench-{page}-{name}" for name in names
        )

    @property
    def _parts(self) -> list[Carried[Any]]:
        """The values that the page's URL carries."""
        return [self] if self._beside is None else [self._beside.shared, self]

    def current(self) -> V:
        """The value of this session; that of the URL where the session has none yet and shows this page."""
        if self._value not in st.session_state:
            mine = st.session_state.get(_PAGE, self._page) == self._page
            self._take(*self._from_params(self._own(_params() if mine else {})))
        return cast("V", st.session_state[self._value])

    def _take(self, value: V, problems: list[str]) -> None:
        st.session_state[self._value], st.session_state[self._notices] = value, problems
        st.session_state[self._linked] = value

    def _own(self, params: Params) -> Params:
        """The parameters of the page's own value."""
        shared = () if self._beside is None else self._beside.names
        return {name: texts for name, texts in params.items() if name not in shared}

    def _read(self, params: Params) -> list[tuple[Carried[Any], Any, list[str]]]:
        """What parameters make of each value, with a message for every one that is not understood."""
        found: list[tuple[Carried[Any], Any, list[str]]] = [(self, *self._from_params(self._own(params)))]
        if self._beside is not None:
            shared, names = self._beside.shared, self._beside.names
            read, problems = shared._from_params({name: params[name] for name in params if name in names})
            value = replace(shared.current(), **{name: getattr(read, name) for name in names})
            found.insert(0, (shared, value, problems))
        return found

    def follow_url(self) -> bool:
        """Take the value from the URL where that is not what the session wrote last, as after a step back or forward.

        A widget that changed the value in this run goes first: the browser may not yet know what was written for the
        last one. A URL without parameters is no step where another page was shown in between, and one of the bar's
        is none; others are a step or a link, for another page may have changed what both show.
        """
        away = st.session_state.get(_PAGE, self._page) != self._page
        st.session_state[_PAGE] = self._page
        self.hold_url(False)
        params = _params()
        changed = [st.session_state.pop(part._changed, False) for part in self._parts]
        if any(changed):
            return False
        if KEPT in st.query_params and self._parts[0]._value in st.session_state:
            self.current()
            return False
        if not params if away else params == st.session_state.get(self._url):
            return False
        st.session_state[self._url] = params
        read = self._read(params)
        if all(part.current() == value and not problems for part, value, problems in read):
            return False
        for part, value, problems in read:
            part._take(value, problems)
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
            for part in self._parts:
                st.session_state[part._notices] = []
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

    def own_notices(self) -> list[str]:
        """What is to be said of this value's own parameters."""
        self.current()
        return list(st.session_state[self._notices])

    def notices(self) -> list[str]:
        """What is to be said of the link."""
        self.current()
        return [text for part in self._parts for text in st.session_state.get(part._notices, ())]

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
        for part in self._parts:
            part.current()
        params = self.params()
        if _params() != params or KEPT in st.query_params:
            st.query_params.from_dict(params)
        st.session_state[self._url] = params
        for part in self._parts:
            st.session_state[part._changed] = False

    def params(self) -> Params:
        """What the page's URL says when it shows what the session has now; nothing of values that it has not yet."""
        found = dict(self._held_params())
        if self._beside is not None:
            carried = self._beside.shared._held_params()
            found = {name: carried[name] for name in self._beside.names if name in carried} | found
        return found

    def _held_params(self) -> dict[str, list[str]]:
        return self._to_params(st.session_state[self._value]) if self._value in st.session_state else {}


def leave_page() -> None:
    """Note that a page is shown whose URL says nothing."""
    st.session_state[_PAGE] = ""


def _params() -> dict[str, list[str]]:
    return {name: st.query_params.get_all(name) for name in st.query_params if name != KEPT}
