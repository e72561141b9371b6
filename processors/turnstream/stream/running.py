"""Running the handler: one record of a key at a time, many keys at once, a stage at a time.

A record whose key is free has its turn at once; others wait behind it. Those that have their turn
go through the handler in waves: all through its first stage, then all through the second. What ends
without waiting costs no task; what waits gets a task and one of the slots.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import perf_counter
from types import GeneratorType
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar, cast

from turnstream.stream.handling import Handling
from turnstream.stream.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence

    from turnstream.stream.handler import Ending, Handled, Stages
    from turnstream.stream.lane import Lane
    from turnstream.stream.role import Role
    from turnstream.stream.source import Entry, Source

S = TypeVar("S")

_ROUND_SECONDS: Final = 0.01
"""Time for handlers in one round of the event loop, all sources together. A transaction needs some
twenty rounds: were each as long as a backlog allows, it would time out and end the process, and
the next one would meet a longer backlog."""

_ROUND_TASKS: Final = 20
"""Tasks started in one round: each does its first part in the next one."""

_CANCEL_SECONDS: Final = 1.0
"""Time for cancelled handlers to end: one that swallows the cancellation must not hold up the
rebalance; its lane is closed and takes nothing more from it."""


class Round:
    """What one round of the event loop may still take."""

    def __init__(self) -> None:
        """Begin with nothing left."""
        self._until = 0.0
        self._tasks = 0

    def begin(self) -> None:
        """A round begins."""
        self._until = perf_counter() + _ROUND_SECONDS
        self._tasks = 0

    def task(self) -> None:
        """A task was started."""
        self._tasks += 1

    def is_over(self) -> bool:
        """Tell whether its time or its tasks are used up."""
        return self._tasks >= _ROUND_TASKS or perf_counter() >= self._until


class Turn(NamedTuple, Generic[S]):
    """A record that is the first of its key."""

    lane: Lane[S]
    entry: Entry[S]


class Runner(Generic[S]):
    """Runs the handler on admitted records, for all lanes of a process."""

    def __init__(
        self, role: Role[S], *, freed: Callable[[], None], room: Callable[[Source[S]], None]
    ) -> None:
        """Prepare.

        Args:
            role: whose handler.
            freed: called when a slot is free, and something may wait for one.
            room: told a source of which one record less waits.
        """
        self._role = role
        self._settings = role.settings
        self._room = room
        self.round = Round()
        self.slots = Slots(
            role.settings.slots,
            resting=role.settings.max_resting,
            observer=role.observer,
            fill=freed,
        )
        self._handling: Handling[S] = Handling(role, self.slots)
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready: tuple[deque[tuple[Lane[S], bytes]], deque[tuple[Lane[S], bytes]]] = (
            deque(),
            deque(),
        )
        """Keys waiting for a slot: those whose first record is of a priority source, the others."""

    # Whose turn it is.

    def enter(
        self, lane: Lane[S], entry: Entry[S], *, having_turns: Mapping[bytes, object]
    ) -> bool:
        """Take a record in its order; tell whether it has its turn now.

        Args:
            lane: Its lane.
            entry: The record.
            having_turns: Keys of the lane that have their turn and are not begun: what waits behind
                them may not wait at all, and each will take a slot.
        """
        key, source = entry.key, entry.source
        if lane.states.parked and key in lane.states.parked:
            # Stays unfinished: no offset passes it until a version that reads its state runs.
            entry.release()
            return False
        waiting = lane.busy.get(key)
        if waiting is not None:
            waiting.append(entry)
            source.queued += 1
            if key not in having_turns:
                self._watch_for_flood(lane, key)
            return False
        if not self.slots.free(len(having_turns)):
            lane.busy[key] = deque((entry,))
            source.queued += 1
            self._ready[not source.priority].append((lane, key))
            return False
        lane.busy[key] = deque()
        return True

    @property
    def has_ready(self) -> bool:
        """Whether keys that waited for a slot can have their turn."""
        return bool(self._ready[0] or self._ready[1]) and self.slots.free()

    def take_ready(self, count: int) -> Sequence[Turn[S]]:
        """Give keys that waited for a slot their turn, at most `count`."""
        turns: list[Turn[S]] = []
        while len(turns) < count and self.slots.free(len(turns)):
            ready = self._ready[0] or self._ready[1]
            if not ready:
                break
            lane, key = ready.popleft()
            entry = self._following(lane, key)
            if entry is not None:
                turns.append(Turn(lane, entry))
        return turns

    def _following(self, lane: Lane[S], key: bytes) -> Entry[S] | None:
        """Return the next record of a key; forget the key after the last."""
        waiting = lane.busy[key]
        if not waiting:
            del lane.busy[key]
            lane.flooded.discard(key)
            return None
        entry = waiting.popleft()
        entry.source.queued -= 1
        self._room(entry.source)
        return entry

    def _watch_for_flood(self, lane: Lane[S], key: bytes) -> None:
        if len(lane.busy[key]) > self._settings.max_queued_per_key:
            lane.flooded.add(key)

    # Waves.

    def waves(self, turns: Sequence[Turn[S]]) -> Iterator[None]:
        """Run the handler on records that have their turn, then on those behind them.

        Yields where the round is over; to be gone on with in the next one.
        """
        while turns:
            following: list[Turn[S]] = []
            staged: list[tuple[Turn[S], Stages[S]]] = []
            for turn in turns:
                begun = self._handling.begin(turn.lane, turn.entry)
                if isinstance(begun, GeneratorType):
                    staged.append((turn, begun))
                else:
                    pending = cast("Awaitable[Handled[S]] | Exception | None", begun)
                    self._go_on(turn, pending, following)
                if self.round.is_over():
                    yield
            for turn, outcome in (yield from self._through(staged)):
                if isinstance(outcome, Exception):
                    self._go_on(turn, outcome, following)
                else:
                    taken = self._handling.take(turn.lane, turn.entry, outcome)
                    self._go_on(turn, taken, following)
                if self.round.is_over():
                    yield
            turns = following

    def _through(
        self, staged: Sequence[tuple[Turn[S], Stages[S]]]
    ) -> Generator[None, None, Sequence[tuple[Turn[S], Ending[S] | Exception]]]:
        """Take records through all their stages, one stage at a time; return how each ended."""
        ended: list[tuple[Turn[S], Ending[S] | Exception]] = []
        while staged:
            going = []
            for turn, stages in staged:
                try:
                    next(stages)
                except StopIteration as end:
                    ended.append((turn, end.value))
                except Exception as error:  # noqa: BLE001 - the handler's
                    ended.append((turn, error))
                else:
                    going.append((turn, stages))
                if self.round.is_over():
                    yield
            staged = going
        return ended

    def _go_on(
        self,
        turn: Turn[S],
        pending: Awaitable[Handled[S]] | Exception | None,
        following: list[Turn[S]],
    ) -> None:
        """Give the turn to the key's next record, or a task to one that needs time."""
        if pending is not None:
            self._spawn(turn, pending)
            return
        entry = self._following(turn.lane, turn.entry.key)
        if entry is not None:
            following.append(Turn(turn.lane, entry))

    # Tasks.

    def _spawn(self, turn: Turn[S], pending: Awaitable[Handled[S]] | Exception) -> None:
        self._watch_for_flood(turn.lane, turn.entry.key)
        self.slots.take()
        self.round.task()
        task = asyncio.create_task(self._run(turn.lane, turn.entry, pending))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._role.fail(error)
            return
        self.slots.give()

    async def _run(
        self, lane: Lane[S], entry: Entry[S], pending: Awaitable[Handled[S]] | Exception | None
    ) -> None:
        """Work off a key: its first record, then all that queued up behind it."""
        key = entry.key
        while True:
            if pending is not None and not await self._handling.settle(lane, entry, pending):
                return
            following = self._following(lane, key)
            if following is None:
                return
            if pending is None and self.round.is_over():
                await asyncio.sleep(0)
                if self.slots.closing.is_set():
                    return
            entry = following
            pending = self._handling.attempt(lane, entry)

    # Opening and closing.

    def open(self) -> None:
        """The intake opens."""
        self.slots.open()

    def close(self) -> None:
        """The intake closes: nothing begins any more, and rests end."""
        self.slots.close()
        for ready in self._ready:
            ready.clear()

    async def wait(self, seconds: float) -> int:
        """Wait for running handlers, at most `seconds`; cancel the rest and return their number."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=seconds)
        late = set(self._tasks)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_CANCEL_SECONDS)
        return len(late)
