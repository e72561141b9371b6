"""When the timers of a lane's states are due.

The states hold the timers; this is only an index over them, rebuilt when a lane opens. It keeps
one time per key - the earliest of its timers not yet fired - so its size follows the number of
keys with timers, however often they are set again.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from turnstream.stream.handler import TimerDue

_SLACK: Final = 1024
"""Outdated heap entries kept beyond one per key before the heap is rebuilt: without a rebuild a
conversation that keeps setting a near timer would leave an entry for each."""


class TimerIndex:
    """The earliest due time of each key; fires each timer once."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, bytes]] = []
        self._next: dict[bytes, int] = {}
        self._fired: dict[bytes, set[tuple[str, int]]] = {}

    def __len__(self) -> int:
        """Return the number of keys with a timer to come."""
        return len(self._next)

    def update(self, key: bytes, timers: Sequence[TimerDue]) -> None:
        """Take note of a key's timers; called whenever its state changes."""
        fired = self._fired.get(key)
        if fired is not None:
            fired &= {(timer.timer_id, timer.due_at) for timer in timers}
            if not fired:
                del self._fired[key]
        if not timers:
            # The heap entry stays until its time and then finds nothing.
            self._next.pop(key, None)
            return
        self._schedule(key, timers)

    def earliest(self) -> int | None:
        """Return the earliest due time (ms), or `None`; may be one that was cancelled."""
        heap = self._heap
        while heap and self._next.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def fire(
        self, until: int, *, timers_of: Callable[[bytes], Sequence[TimerDue]], keys: int
    ) -> list[tuple[bytes, TimerDue]]:
        """Return the timers due at or before `until` (ms), each only once, the earliest keys first.

        Args:
            until: The time up to which everything has been handled.
            timers_of: The timers in a key's state now; cancelled ones are not in it.
            keys: How many keys are looked at; the timers of others stay for the next call.
        """
        due: list[tuple[bytes, TimerDue]] = []
        for _ in range(keys):
            at = self.earliest()
            if at is None or at > until:
                break
            _, key = heapq.heappop(self._heap)
            del self._next[key]
            timers = timers_of(key)
            fired = self._fired.get(key, set())
            for timer in timers:
                mark = (timer.timer_id, timer.due_at)
                if timer.due_at <= until and mark not in fired:
                    fired.add(mark)
                    due.append((key, timer))
            if fired:
                self._fired[key] = fired
            self._schedule(key, timers)
        return due

    def _schedule(self, key: bytes, timers: Sequence[TimerDue]) -> None:
        fired = self._fired.get(key)
        at = min(
            (
                timer.due_at
                for timer in timers
                if fired is None or (timer.timer_id, timer.due_at) not in fired
            ),
            default=None,
        )
        if at is None:
            self._next.pop(key, None)
            return
        known = self._next.get(key)
        # A later time is found when the known one comes; only an earlier one must be noted now.
        if known is None or at < known:
            self._next[key] = at
            heapq.heappush(self._heap, (at, key))
            if len(self._heap) > 2 * len(self._next) + _SLACK:
                self._heap = [(due, each) for each, due in self._next.items()]
                heapq.heapify(self._heap)
