"""One log line in a while instead of a flood: which is due, and how many have been left out."""

import time
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

_KEPT: Final = 500
"""Kinds of lines remembered: a text that holds a value each time must not fill memory."""

K = TypeVar("K", bound=Hashable)


class LogSuppression(Generic[K]):
    """Lets one line of a kind pass in each window."""

    def __init__(
        self, *, window_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Remember nothing yet.

        Args:
            window_seconds: How long lines of a kind are left out after one that has passed.
            clock: Seconds that never go back.
        """
        self._window = window_seconds
        self._clock = clock
        self._seen: dict[K, tuple[float, int]] = {}
        """Kind to when a line passed, and how many have been left out since."""

    def due(self, kind: K) -> int | None:
        """Take note of a line.

        Returns:
            How many of its kind have been left out before it; `None` where it is left out as well.
        """
        now = self._clock()
        since, left_out = self._seen.get(kind, (None, 0))
        if since is not None and now - since < self._window:
            self._seen[kind] = (since, left_out + 1)
            return None
        self._seen.pop(kind, None)  # so that the order is that of the latest line
        self._seen[kind] = (now, 0)
        if len(self._seen) > _KEPT:
            del self._seen[next(iter(self._seen))]
        return left_out
