"""How long the lanes of a process have had records in flight without a transaction."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from turnstream.stream.lane import Lane


class Stalls:
    """Watches that what was taken is also finished.

    It finds what no timeout does: a handler that never returns because it swallows its
    cancellation, a wake-up lost between dispatcher and lane. Only lanes that are open and have
    records in flight count, so none of these is a stall, and a restart would help none of them:

    - A rebalance, or state that is restored: no lane is open then.
    - Brokers that are away: a commit waits for them, and ends the process by itself in the end.
    - A partition held for a schema, or a key parked for a newer version: such records wait, they
      are not in flight.
    - A load that fills every slot: while keys wait for a slot, a transaction of any lane counts for
      all, for a lane may wait long until its turn comes.
    - One record that hangs while others of its lane are committed: a restart would interrupt those.
      It shows in the age of the oldest unfinished record.

    The event loop looks; any thread may ask.
    """

    def __init__(self, *, slots: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Watch.

        Args:
            slots: Handlers that run at once.
            clock: Seconds of a steady clock.
        """
        self._slots = slots
        self._clock = clock
        self._transactions: Mapping[int, int] = {}
        self._since: Mapping[int, float] = {}
        """Lane with records in flight to when it last had none, or committed, as far as looks tell.

        Replaced, never changed: other threads read it.
        """

    def look(self, lanes: Collection[Lane[Any]], *, brokers_away: bool = False) -> None:
        """Take note of how far the open lanes are; none are open before and after a rebalance."""
        now = self._clock()
        former, since = self._transactions, self._since
        transactions = {
            lane.partition: sum(source.transactions for source in lane.sources.values())
            for lane in lanes
        }
        crowded = sum(len(lane.busy) for lane in lanes) > self._slots
        any_moved = transactions != former
        found: dict[int, float] = {}
        for lane in lanes:
            number = lane.partition
            moved = (
                brokers_away
                or transactions[number] != former.get(number)
                or (crowded and any_moved)
            )
            if _in_flight(lane):
                found[number] = now if moved else since.get(number, now)
        self._transactions, self._since = transactions, found

    def longest(self) -> float:
        """Return the seconds since the stillest lane with records in flight last committed."""
        since = self._since
        return self._clock() - min(since.values()) if since else 0.0


def _in_flight(lane: Lane[Any]) -> bool:
    if lane.busy:
        return True
    # A parked key's records stay in the order; then only those that are worked on tell.
    return not lane.states.parked and any(source.order for source in lane.sources.values())
