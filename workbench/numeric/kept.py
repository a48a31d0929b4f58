"""What was worked out last, kept for whoever asks again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Kept(Generic[T]):
    """The values last asked for, up to so many of them, for any number of threads."""

    def __init__(self, most: int) -> None:
        self._most, self._held, self._lock = most, OrderedDict[Hashable, T](), Lock()

    def get(self, key: Hashable) -> T | None:
        """The value held under a key; ``None`` where there is none."""
        return self._held.get(key)

    def take(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value held under a key, made if there is none."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        made = make()
        with self._lock:
            self._held[key] = made
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        return made

    def clear(self) -> None:
        """Let go of all of them."""
        with self._lock:
            self._held.clear()
