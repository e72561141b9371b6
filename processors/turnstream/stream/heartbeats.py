"""How sure a process may be that its partitions are still its own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiokafka.client import AIOKafkaClient
    from aiokafka.consumer.group_coordinator import GroupCoordinator

_KEPT_ALIVE_BY: Final = {12: frozenset({0, 27}), 14: frozenset({0})}
"""Requests by their API key - Heartbeat, SyncGroup -, with the replies after which the coordinator
gives the member a whole session more. 27, a rebalance in progress, is one: until the member joins
again it is waited for, and its partitions stay its own."""


_UNKNOWN: Final = frozenset({25, 82})
"""Replies to those requests, and to JoinGroup (11), that say: this member has no place in the group
(UNKNOWN_MEMBER_ID), or another has taken it (FENCED_INSTANCE_ID)."""

_JOIN: Final = 11


def passed_seconds() -> float:
    """Return the seconds of a steady clock that goes on while the machine is suspended.

    Sessions end meanwhile as well. Where there is no such clock, one that stands still must do.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Heartbeats:
    """When the group's coordinator was last heard of.

    A session begins anew when the coordinator takes a heartbeat, so it has at least the time left
    since that heartbeat was sent. The reply's arrival says less: a process that was suspended in
    between reads it long after.

    Whether any broker answers at all is noted too, for who watches the process.

    The consumer's thread notes, any thread asks.
    """

    def __init__(self, *, clock: Callable[[], float] | None = None) -> None:
        """Begin without a heartbeat, as if a broker had answered just now: the start asks them.

        Args:
            clock: Seconds of a steady clock; `None` for the machine's.
        """
        self._clock = clock or passed_seconds
        # While the machine is suspended nobody asks: no broker is silent for that.
        self._awake_clock = clock or time.monotonic
        self._sent_at: float | None = None
        self._heard_at = self._awake_clock()

    def answered(self, sent_at: float) -> None:
        """Take note that a heartbeat, sent at that time of the clock, was answered."""
        self._sent_at = sent_at

    def age(self) -> float:
        """Return the seconds since the last heartbeat that was answered was sent."""
        return float("inf") if self._sent_at is None else self._clock() - self._sent_at

    def silence(self) -> float:
        """Return the seconds since a broker last answered a heartbeat, a fetch or the like."""
        return self._awake_clock() - self._heard_at

    def listen(self, client: AIOKafkaClient) -> None:
        """Watch what a consumer's brokers answer."""
        send = client.send

        async def heard(*arguments: Any, **options: Any) -> Any:
            response = await send(*arguments, **options)
            self._heard_at = self._awake_clock()
            return response

        client.send = heard

    def follow(
        self,
        coordinator: GroupCoordinator,
        *,
        session_seconds: float = 0.0,
        ousted: Callable[[], None] | None = None,
    ) -> None:
        """Watch what a group member sends to its coordinator.

        Args:
            coordinator: The member's side of it.
            session_seconds: How long a session lasts.
            ousted: Called when the member has lost its place before its session was over. A static
                member that nobody removes by hand loses it so to another process with its name;
                without the call the two would take it from each other for ever.
        """
        send = coordinator._send_req

        async def watched(request: Any) -> Any:
            at = self._clock()
            response = await send(request)
            code = getattr(response, "error_code", None)
            if code in _KEPT_ALIVE_BY.get(request.API_KEY, ()):
                self.answered(at)
            elif (
                ousted is not None
                and code in _UNKNOWN
                and (request.API_KEY in _KEPT_ALIVE_BY or request.API_KEY == _JOIN)
                and self.age() < session_seconds
            ):
                ousted()
            return response

        coordinator._send_req = watched
