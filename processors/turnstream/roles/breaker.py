"""A circuit breaker: what fails again and again is left alone for a while, then tried once.

    closed --failures in a row--> open --cool-down--> half open --success--> closed
                                    ^-----------failure----------'

Its state is this process's own. It is no promise, only a way to fail at once where the alternative
is to wait for another time-out.
"""

from collections.abc import Callable
from typing import Literal

BreakerState = Literal["closed", "open", "half_open"]


class CircuitBreaker:
    """Counts the failures of one thing that is called.

    Whoever was allowed to call must say how it went: `succeeded` or `failed`.
    """

    def __init__(
        self, *, failures: int, cool_down_seconds: float, now: Callable[[], float]
    ) -> None:
        """Begin closed.

        Args:
            failures: failures in a row that open it, 1 or more.
            cool_down_seconds: time from its opening to the one call that may close it, and the
                longest that this call is waited for before another may try.
            now: a clock that never goes back, in seconds.
        """
        self._limit = failures
        self._cool_down = cool_down_seconds
        self._now = now
        self._in_a_row = 0
        self._opened_at: float | None = None
        self._probed_at: float | None = None

    @property
    def state(self) -> BreakerState:
        """`half_open` from the end of the cool-down until a call has said how it went."""
        if self._opened_at is None:
            return "closed"
        return "open" if self._now() < self._opened_at + self._cool_down else "half_open"

    def allows(self) -> bool:
        """Whether a call may be made now; half open, only one may at a time."""
        match self.state:
            case "closed":
                return True
            case "open":
                return False
        now = self._now()
        # A probe whose caller vanished must not keep everybody out for ever.
        if self._probed_at is not None and now < self._probed_at + self._cool_down:
            return False
        self._probed_at = now
        return True

    def succeeded(self) -> None:
        """A call has been answered, whatever the answer was."""
        self._in_a_row = 0
        self._opened_at = self._probed_at = None

    def failed(self) -> None:
        """A call could not be made, or was not answered."""
        self._in_a_row += 1
        # A straggler's failure does not prolong the cool-down: only the probe's does.
        if self.state == "half_open" or (self._opened_at is None and self._in_a_row >= self._limit):
            self._opened_at = self._now()
            self._probed_at = None
