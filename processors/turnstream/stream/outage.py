"""Brokers that are away: which errors say so, and a limit that runs only while they answer."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from aiokafka.errors import KafkaError, KafkaTimeoutError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from turnstream.stream.role import Role

logger = logging.getLogger(__name__)

LONGEST_SECONDS: Final = 600.0
"""Silence of the brokers after which a process ends though a restart may not help: should they be
at other addresses by now, a client that only knows the former ones would wait for ever."""

_LOOK_SECONDS: Final = 1.0
"""Time between two looks at brokers that are away: how late their return is noticed."""


def is_outage(error: BaseException | None) -> bool:
    """Tell whether an error says that the brokers cannot be used now, but may be later.

    aiokafka does not call it retriable when it has given up waiting for them.
    """
    return isinstance(error, KafkaTimeoutError) or (
        isinstance(error, KafkaError) and bool(error.retriable)
    )


def away(role: Role[Any]) -> bool:
    """Tell whether the brokers are away: half a session without an answer to anything.

    A consumer asks at least three times as often, also where there is nothing to fetch.
    """
    return role.heartbeats.silence() >= role.settings.session_timeout_ms / 2_000


@asynccontextmanager
async def answered_within(seconds: float, *, role: Role[Any], what: str) -> AsyncIterator[None]:
    """Bound what is done inside and needs the brokers.

    Clients try again by themselves until the brokers are back. Meanwhile nothing may be done
    anyway, and a process that ended could not start before.

    Args:
        seconds: the limit; it begins anew when the brokers answer again.
        role: whose brokers.
        what: what is done inside, for the log.

    Raises:
        TimeoutError: the limit is over while the brokers answer, or they have been away for
            `LONGEST_SECONDS`.
    """
    loop = asyncio.get_running_loop()
    waits = False
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal waits, timer
        silence = role.heartbeats.silence()
        if not away(role):
            if not waits:
                scope.reschedule(loop.time())
                return
            waits = False
            logger.warning("%s goes on: the brokers answer again", what)
            timer = loop.call_later(seconds, look)
            return
        if silence >= LONGEST_SECONDS:
            scope.reschedule(loop.time())
            return
        if not waits:
            waits = True
            logger.warning(
                "%s waits: no broker of %s has answered for %.0f s; it goes on when one does, and "
                "the process ends after %g s",
                what,
                role.settings.bootstrap_servers,
                silence,
                LONGEST_SECONDS,
            )
        timer = loop.call_later(_LOOK_SECONDS, look)

    async with asyncio.timeout(None) as scope:
        timer = loop.call_later(seconds, look)
        try:
            yield
        finally:
            timer.cancel()
