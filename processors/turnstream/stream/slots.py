"""Who may run: a bounded number of handlers, without those that wait to try again."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnstream.stream.observer import Observer


class Slots:
    """The slots of a process.

    A task holds one from its start to its end, except while it rests between two attempts: then its
    slot is lent to others, so that what fails - a model that is down, say - holds back its own
    conversations and no others. A rested task runs on with the next slot that is free, before any
    record that has not begun. No rest is without end: attempts and ages bound them.
    """

    def __init__(
        self, limit: int, *, resting: int, observer: Observer, fill: Callable[[], None]
    ) -> None:
        """Begin with all of them free.

        Args:
            limit: Tasks that run at once.
            resting: Tasks that rest without a slot; more than these keep theirs.
            observer: Told of both numbers.
            fill: Called when a slot is free that no rested task waits for.
        """
        self._limit = limit
        self._most_resting = resting
        self._observer = observer
        self._fill = fill
        self._running = 0
        self._resting = 0
        self._rested: deque[asyncio.Future[bool]] = deque()
        """Tasks that have rested and wait for a slot, in that order."""
        self.closing = asyncio.Event()
        """Set when the intake closes: rests end, nothing is tried again."""

    @property
    def running(self) -> int:
        """Tasks that hold a slot."""
        return self._running

    @property
    def resting(self) -> int:
        """Tasks that have lent theirs."""
        return self._resting

    def free(self, also: int = 0) -> bool:
        """Tell whether one more task may run when `also` others have begun."""
        return self._running + also < self._limit

    def take(self) -> None:
        """A task begins."""
        self._running += 1
        self._observer.running(self._running)

    def give(self) -> None:
        """A task has ended, or rests: its slot goes to a rested one, else to whoever waits."""
        while self._rested:
            waiter = self._rested.popleft()
            if not waiter.done():
                waiter.set_result(True)
                return
        self._running -= 1
        self._observer.running(self._running)
        self._fill()

    async def rest(self, seconds: float) -> bool:
        """Wait between two attempts; false if the intake closes meanwhile."""
        if self.closing.is_set():
            return False
        if self._resting >= self._most_resting:
            return await self._slept(seconds)
        holds = False
        self._rests(1)
        self.give()
        try:
            goes_on = await self._slept(seconds)
            if goes_on and (self._rested or not self.free()):
                waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
                self._rested.append(waiter)
                try:
                    goes_on = await waiter
                finally:
                    holds = waiter.done() and not waiter.cancelled() and waiter.result()
            return goes_on
        finally:
            self._rests(-1)
            if not holds:
                # Also where it ends here: its end will give a slot back.
                self.take()

    async def _slept(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self.closing.wait()
        except TimeoutError:
            return True
        return False

    def _rests(self, change: int) -> None:
        self._resting += change
        self._observer.resting(self._resting)

    def open(self) -> None:
        """The intake opens."""
        self.closing = asyncio.Event()

    def close(self) -> None:
        """The intake closes: whoever rests is told so."""
        self.closing.set()
        while self._rested:
            waiter = self._rested.popleft()
            if not waiter.done():
                waiter.set_result(False)
