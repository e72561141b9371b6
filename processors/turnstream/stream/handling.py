"""Bringing one record to its end: called, called again, given up - never left."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from types import GeneratorType
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from turnstream.stream.backoff import backoff
from turnstream.stream.handler import Handled, LaneClosing, StateUnreadable, concluded
from turnstream.stream.lane import UnusableOutcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from turnstream.stream.handler import DeadLetterReason, Ending, Stages
    from turnstream.stream.lane import Lane
    from turnstream.stream.role import Role
    from turnstream.stream.slots import Slots
    from turnstream.stream.source import Entry

S = TypeVar("S")

logger = logging.getLogger(__name__)


class Handling(Generic[S]):
    """Calls the handler for an entry until it is finished.

    An attempt that fails is repeated after a wait that doubles, until the attempts are used up or
    the entry is too old: then it is given up. Meanwhile the later records of its key wait, and no
    others: the wait takes no slot. An outcome that cannot be committed is given up at once.
    """

    def __init__(
        self, role: Role[S], slots: Slots, *, clock: Callable[[], float] = monotonic
    ) -> None:
        self._role = role
        self._settings = role.settings
        self._handler = role.handler
        self._format = role.state_format
        self._slots = slots
        self._clock = clock

    def attempt(
        self, lane: Lane[S], entry: Entry[S], *, attempts: int = 1
    ) -> Awaitable[Handled[S]] | Exception | None:
        """Call the handler; return `None` if the entry is finished, else what must follow."""
        begun = self.begin(lane, entry, attempts=attempts)
        if not isinstance(begun, GeneratorType):
            return cast("Awaitable[Handled[S]] | Exception | None", begun)
        try:
            outcome = concluded(begun)
        except Exception as error:  # noqa: BLE001 - the handler's: retried, then dead-lettered
            return error
        return self.take(lane, entry, outcome, attempts=attempts)

    def begin(
        self, lane: Lane[S], entry: Entry[S], *, attempts: int = 1
    ) -> Stages[S] | Awaitable[Handled[S]] | Exception | None:
        """Call the handler; like `attempt`, but return work in stages untouched."""
        unreadable = lane.states.unreadable
        if unreadable and entry.key in unreadable:
            self._lose(lane, entry, unreadable[entry.key])
            return None
        state = lane.states.store.get(entry.key)
        source, record = entry.source, entry.record
        if state is not None and self._format.watermark(state, source.topic) >= entry.offset:
            lane.skip(entry)
            self._role.observer.skipped(source.topic)
            return None
        try:
            if lane.flooded and entry.key in lane.flooded:
                outcome: Ending[S] | Stages[S] = self._handler.flood(record, entry.event, state)
            else:
                outcome = self._handler.handle(record, entry.event, state, lane)
        except Exception as error:  # noqa: BLE001 - the handler's: retried, then dead-lettered
            return error
        if isinstance(outcome, GeneratorType):
            return outcome
        return self.take(lane, entry, cast("Ending[S]", outcome), attempts=attempts)

    def take(
        self, lane: Lane[S], entry: Entry[S], outcome: Ending[S], *, attempts: int = 1
    ) -> Awaitable[Handled[S]] | Exception | None:
        """Take what the handler has returned; return as `attempt` does."""
        if not isinstance(outcome, Handled):
            return outcome
        try:
            lane.finish(entry, outcome, attempts=attempts)
        except Exception as error:  # noqa: BLE001 - an outcome that cannot be committed
            return error
        return None

    async def settle(
        self, lane: Lane[S], entry: Entry[S], pending: Awaitable[Handled[S]] | Exception
    ) -> bool:
        """Bring an entry to its end, whatever the handler does; false if the lane closes first."""
        attempts = 1
        until = self._clock() + self._settings.retry_patience_ms / 1000
        while True:
            try:
                error = await self._finish(lane, entry, pending, attempts=attempts)
            except LaneClosing:
                return False
            if error is None:
                return True
            wait = self._wait(entry, attempts)
            if (
                attempts >= self._settings.attempts
                or isinstance(error, UnusableOutcome)
                or self._clock() + wait > until
            ):
                state = lane.states.store.get(entry.key)
                self._abandon(lane, entry, state=state, attempts=attempts, error=error)
                return True
            self._role.observer.retried(entry.source.topic)
            logger.warning(
                "handler failed at %s offset %s, attempt %s of %s: %s",
                entry.source.tp,
                entry.offset,
                attempts,
                self._settings.attempts,
                describe(error),
            )
            if not await self._slots.rest(wait):
                return False
            attempts += 1
            following = self.attempt(lane, entry, attempts=attempts)
            if following is None:
                return True
            pending = following

    async def _finish(
        self,
        lane: Lane[S],
        entry: Entry[S],
        pending: Awaitable[Handled[S]] | Exception,
        *,
        attempts: int,
    ) -> Exception | None:
        """Wait for a handler and take its outcome; return its failure instead of raising it."""
        if isinstance(pending, Exception):
            return pending
        try:
            lane.finish(entry, await pending, attempts=attempts)
        except asyncio.CancelledError as cancelled:
            if self._slots.closing.is_set() or _is_cancelled():
                raise
            # The handler let a cancellation of its own escape.
            return RuntimeError(repr(cancelled))
        except LaneClosing:
            raise
        except Exception as error:  # noqa: BLE001 - the handler's
            return error
        return None

    def _wait(self, entry: Entry[S], attempts: int) -> float:
        """Return the seconds to wait before the next attempt, the same wherever it is made."""
        source = entry.source
        return backoff(
            attempts,
            first=self._settings.retry_backoff_ms / 1000,
            longest=self._settings.retry_backoff_max_ms / 1000,
            seed=f"{source.topic}/{source.partition}/{entry.offset}",
        )

    def _lose(self, lane: Lane[S], entry: Entry[S], error: StateUnreadable) -> None:
        """Give up the first input of a key whose state cannot be read."""
        topic = entry.source.topic
        if error.watermarks.get(topic, -1) >= entry.offset:
            lane.skip(entry)
            self._role.observer.skipped(topic)
            return
        logger.error(
            "the state of %r in partition %s is given up with its next record: %s",
            entry.key.decode("utf-8", "replace"),
            lane.partition,
            error,
        )
        self._abandon(lane, entry, state=None, attempts=1, error=error)

    def _abandon(
        self, lane: Lane[S], entry: Entry[S], *, state: S | None, attempts: int, error: Exception
    ) -> None:
        """Give an input up: the handler's last word on it, and a dead letter in any case."""
        detail = describe(error)
        reason: DeadLetterReason = "handler_failed"
        if isinstance(error, StateUnreadable):
            reason = "state_unreadable"
        elif isinstance(error, UnusableOutcome):
            reason = error.reason
        logger.error(
            "record dead-lettered at %s offset %s after %s attempts: %s",
            entry.source.tp,
            entry.offset,
            attempts,
            detail,
        )
        try:
            handled = self._handler.abandon(
                entry.record, entry.event, state, attempts=attempts, error=error
            )
            lane.finish(entry, handled, attempts=attempts, failure=detail, reason=reason)
        except Exception as second:  # noqa: BLE001 - the handler's
            # No state can take the watermark; the committed prefix covers the record instead.
            logger.error(  # noqa: TRY400 - a traceback may quote the record
                "abandon failed at %s offset %s: %s",
                entry.source.tp,
                entry.offset,
                describe(second),
            )
            lane.reject(entry, reason=reason, detail=detail, attempts=attempts)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def describe(error: BaseException) -> str:
    """Name an error for a header or a log line, without text that may be a customer's."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = "" if frame is None else f" at {frame.tb_frame.f_code.co_qualname}:{frame.tb_lineno}"
    if isinstance(error, UnusableOutcome | StateUnreadable):
        return f"{error}"
    return f"{type(error).__name__}{place}"
