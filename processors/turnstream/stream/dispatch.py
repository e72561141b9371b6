"""Ordered dispatch: one record of a key at a time, other keys concurrently.

Records come in as fetched, are taken in order, and go to the handler under their key. A handler
that answers at once is called in place; only one that waits gets a task and one of the slots. The
records of a chunk go through the same work one after another - all decoded, then all through the
handler's first stage, then all through its second -, which costs a quarter less than one whole
record after another: what a stage needs is in the processor's cache.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from time import perf_counter
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from turnstream.stream.handler import Rejected, UnknownSchema
from turnstream.stream.handling import Handling, describe
from turnstream.stream.source import Entry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from aiokafka.structs import TopicPartition

    from turnstream.stream.handler import Ending, Handled, Record, Stages
    from turnstream.stream.lane import Lane
    from turnstream.stream.role import Role
    from turnstream.stream.source import Source

S = TypeVar("S")

logger = logging.getLogger(__name__)

_CHUNK: Final = 20
"""Records taken from one source before the others have a turn: one fetch may hold thousands of
one partition. Slow ones are taken in smaller chunks, none of which takes longer than a round."""

_ROUND_SECONDS: Final = 0.01
"""Time for handlers in one round of the event loop, all sources together. A transaction needs some
twenty rounds: were each as long as a backlog allows, it would time out and end the process, and
the next one would meet a longer backlog."""

_ROUND_TASKS: Final = 20
"""Tasks started in one round: each does its first part in the next one."""


class Dispatcher(Generic[S]):
    """Takes fetched records and runs the handler on them, for all lanes of a process."""

    def __init__(self, role: Role[S]) -> None:
        self._role = role
        self._settings = role.settings
        self._handler = role.handler
        self._handling: Handling[S] = Handling(role)
        self._lanes: dict[int, Lane[S]] = {}
        self._sources: dict[TopicPartition, Source[S]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = 0
        self._ready: tuple[deque[tuple[Lane[S], bytes]], deque[tuple[Lane[S], bytes]]] = (
            deque(),
            deque(),
        )
        """Keys waiting for a slot: those whose first record is of a priority source, the others."""
        self._due: deque[Source[S]] = deque()
        """Sources with a backlog and room, in the order of their turns."""
        self._pumping = False
        self._until = 0.0
        self._started = 0
        self._chunk = _CHUNK
        self._open = False
        self._low = asyncio.Event()
        """Set when a source may be fetched again."""

    # Intake.

    def open(self, lanes: Mapping[int, Lane[S]]) -> None:
        """Open the intake for these lanes, started and positioned."""
        self._lanes = dict(lanes)
        self._sources = {
            source.tp: source for lane in lanes.values() for source in lane.sources.values()
        }
        self._handling.closing = asyncio.Event()
        self._due.clear()
        self._open = True

    @property
    def sources(self) -> Sequence[Source[S]]:
        """The sources that are open now."""
        return tuple(self._sources.values())

    def fetchable(self) -> frozenset[TopicPartition]:
        """Return the partitions to fetch from: open, and without a backlog."""
        if not self._open:
            return frozenset()
        low = self._settings.max_poll_records // 4
        return frozenset(
            tp
            for tp, source in self._sources.items()
            if len(source.backlog) <= low and not source.paused and not source.held
        )

    async def wait_fetchable(self, seconds: float) -> None:
        """Wait until a partition can be fetched again, at most `seconds`."""
        self._low.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._low.wait()
        except TimeoutError:
            return

    def deliver(self, fetched: Mapping[TopicPartition, Sequence[Record]]) -> None:
        """Take over a fetch; records of priority sources are submitted first."""
        if not self._open:
            return
        touched = []
        for tp, records in fetched.items():
            source = self._sources.get(tp)
            if source is not None:
                source.backlog.extend(records)
                touched.append(source)
        touched.sort(key=_later)
        for source in touched:
            self.resume(source)

    def resume(self, source: Source[S]) -> None:
        """Go on with a source's backlog if there is one and there is room."""
        if source.scheduled or not self._open:
            return
        if source.backlog and not source.held and self._has_room(source):
            source.scheduled = True
            self._due.append(source)
            if not self._pumping:
                self._pumping = True
                asyncio.get_running_loop().call_soon(self._round)

    def _has_room(self, source: Source[S], admitted: int = 0) -> bool:
        return (
            source.queued + admitted < self._settings.max_queued_per_partition
            and len(source.order) < self._settings.max_ahead_per_partition
        )

    def _round(self) -> None:
        """Let sources have their turns until the round's time or tasks are used up."""
        self._until = perf_counter() + _ROUND_SECONDS
        self._started = 0
        while self._due:
            self._pump(self._due.popleft())
            if self._is_over():
                break
        self._pumping = bool(self._due)
        if self._pumping:
            asyncio.get_running_loop().call_soon(self._round)

    def _is_over(self) -> bool:
        return self._started >= _ROUND_TASKS or perf_counter() >= self._until

    def _pump(self, source: Source[S]) -> None:
        """Take a chunk of a source's backlog, then let the others have their turn."""
        source.scheduled = False
        if not self._open or self._sources.get(source.tp) is not source:
            return
        lane = self._lanes[source.partition]
        backlog = source.backlog
        began = perf_counter()
        try:
            admitted: list[Entry[S]] = []
            for _ in range(min(self._chunk, _ROUND_TASKS - self._started)):
                if not backlog or source.held or not self._has_room(source, len(admitted)):
                    break
                entry = self._admit(lane, source, backlog.popleft())
                if entry is not None:
                    admitted.append(entry)
            self._begin(lane, admitted)
            if admitted:
                each = (perf_counter() - began) / len(admitted)
                self._chunk = max(1, min(_CHUNK, int(_ROUND_SECONDS / each)))
        except Exception as error:  # noqa: BLE001 - our own fault: nothing may be lost by it
            self._role.fail(error)
            return
        paused = bool(backlog) and not self._has_room(source)
        if paused != source.paused:
            source.paused = paused
            self._role.observer.paused(source.topic, source.partition, paused)
        if not source.paused:
            self._low.set()
        self.resume(source)

    def _admit(self, lane: Lane[S], source: Source[S], record: Record) -> Entry[S] | None:
        """Decode a record; return it unless it ends here."""
        if record.offset < source.cursor:
            return None
        entry: Entry[S]
        try:
            key, event = self._handler.admit(record)
        except Rejected as rejected:
            entry = self._enter(source, record, key=b"", event=None)
            if source.topic in self._settings.rejected_elsewhere:
                lane.skip(entry)
                self._role.observer.skipped(source.topic)
                return None
            lane.reject(entry, reason=rejected.reason, detail=rejected.detail, attempts=1)
            return None
        except UnknownSchema as unknown:
            source.backlog.appendleft(record)
            self._hold(source, unknown.fingerprint)
            return None
        except Exception as error:  # noqa: BLE001 - the handler's
            detail = describe(error)
            logger.error(  # noqa: TRY400 - a traceback may quote the record
                "admit failed at %s offset %s: %s", source.tp, record.offset, detail
            )
            entry = self._enter(source, record, key=b"", event=None)
            lane.reject(entry, reason="handler_failed", detail=detail, attempts=1)
            return None
        return self._enter(source, record, key=key, event=event)

    def _enter(self, source: Source[S], record: Record, *, key: bytes, event: object) -> Entry[S]:
        entry: Entry[S] = Entry(record, source=source, key=key, event=event)
        source.cursor = record.offset + 1
        source.order.append(entry)
        return entry

    def _begin(self, lane: Lane[S], admitted: Sequence[Entry[S]]) -> None:
        """Start the handler on each record whose key is free, as far as there are slots."""
        staged: list[tuple[Entry[S], Stages[S]]] = []
        for entry in admitted:
            key, source = entry.key, entry.source
            if lane.states.parked and key in lane.states.parked:
                # Stays unfinished: no offset passes it until a version that reads its state runs.
                entry.release()
                continue
            waiting = lane.busy.get(key)
            if waiting is not None:
                waiting.append(entry)
                source.queued += 1
                if len(waiting) > self._settings.max_queued_per_key:
                    lane.flooded.add(key)
            elif self._running + len(staged) >= self._settings.slots:
                lane.busy[key] = deque((entry,))
                source.queued += 1
                self._ready[not source.priority].append((lane, key))
            else:
                begun = self._handling.begin(lane, entry)
                if isinstance(begun, GeneratorType):
                    lane.busy[key] = deque()
                    staged.append((entry, begun))
                elif begun is not None:
                    lane.busy[key] = deque()
                    pending = cast("Awaitable[Handled[S]] | Exception", begun)
                    self._spawn(lane, key, entry=entry, pending=pending)
        if staged:
            self._stage(lane, staged)

    def _stage(self, lane: Lane[S], staged: Sequence[tuple[Entry[S], Stages[S]]]) -> None:
        """Take records through all their stages, one stage at a time; then take the outcomes."""
        ended: list[tuple[Entry[S], Ending[S] | Exception]] = []
        while staged:
            going = []
            for entry, stages in staged:
                try:
                    next(stages)
                except StopIteration as end:
                    ended.append((entry, end.value))
                except Exception as error:  # noqa: BLE001 - the handler's
                    ended.append((entry, error))
                else:
                    going.append((entry, stages))
            staged = going
        for entry, outcome in ended:
            pending: Awaitable[Handled[S]] | Exception | None
            if isinstance(outcome, Exception):
                pending = outcome
            else:
                pending = self._handling.take(lane, entry, outcome)
            following = self._next(lane, entry.key) if pending is None else (entry, pending)
            if following is not None:
                self._spawn(lane, entry.key, entry=following[0], pending=following[1])

    # One key.

    def _spawn(
        self,
        lane: Lane[S],
        key: bytes,
        *,
        entry: Entry[S],
        pending: Awaitable[Handled[S]] | Exception,
    ) -> None:
        self._running += 1
        self._started += 1
        self._role.observer.running(self._running)
        task = asyncio.create_task(self._run(lane, key, entry=entry, pending=pending))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._running -= 1
        self._role.observer.running(self._running)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._role.fail(error)
            return
        self._fill_slots()

    async def _run(
        self,
        lane: Lane[S],
        key: bytes,
        *,
        entry: Entry[S],
        pending: Awaitable[Handled[S]] | Exception,
    ) -> None:
        """Work off a key: its first record, then all that queued up behind it."""
        while True:
            if not await self._handling.settle(lane, entry, pending):
                return
            following = self._next(lane, key)
            if following is None:
                return
            entry, pending = following

    def _next(
        self, lane: Lane[S], key: bytes
    ) -> tuple[Entry[S], Awaitable[Handled[S]] | Exception] | None:
        """Start a key's waiting records until one needs time; forget the key after the last."""
        waiting = lane.busy[key]
        while waiting:
            entry = waiting.popleft()
            entry.source.queued -= 1
            self.resume(entry.source)
            pending = self._handling.attempt(lane, entry)
            if pending is not None:
                return entry, pending
        del lane.busy[key]
        lane.flooded.discard(key)
        return None

    def _fill_slots(self) -> None:
        """Give free slots to the keys that wait for one."""
        try:
            while self._open and self._running < self._settings.slots:
                ready = self._ready[0] or self._ready[1]
                if not ready:
                    return
                lane, key = ready.popleft()
                following = self._next(lane, key)
                if following is not None:
                    self._spawn(lane, key, entry=following[0], pending=following[1])
        except Exception as error:  # noqa: BLE001 - our own fault: a key must not be stranded
            self._role.fail(error)

    # Unknown schemas.

    def _hold(self, source: Source[S], fingerprint: str) -> None:
        source.held = True
        self._role.observer.held(source.topic, source.partition, True)  # noqa: FBT003 - a gauge
        logger.error(
            "%s waits at offset %s for the unknown schema %s: publish it, or deploy a version "
            "that has it",
            source.tp,
            source.backlog[0].offset,
            fingerprint,
        )
        task = asyncio.create_task(self._resolve(source, fingerprint))
        self._tasks.add(task)
        task.add_done_callback(self._resolver_ended)

    async def _resolve(self, source: Source[S], fingerprint: str) -> None:
        while not self._handling.closing.is_set():
            try:
                if await self._handler.resolve_schema(fingerprint):
                    break
            except Exception as error:  # noqa: BLE001 - looked up again
                logger.warning("looking up schema %s failed: %s", fingerprint, describe(error))
            try:
                async with asyncio.timeout(self._settings.schema_retry_ms / 1000):
                    await self._handling.closing.wait()
            except TimeoutError:
                continue
        source.held = False
        self._role.observer.held(source.topic, source.partition, False)  # noqa: FBT003 - a gauge
        self.resume(source)
        self._low.set()

    def _resolver_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._role.fail(error)

    # Closing.

    def close_intake(self) -> None:
        """Take nothing more and drop what has not started; it will be read again."""
        self._open = False
        self._handling.closing.set()
        for ready in self._ready:
            ready.clear()
        for lane in self._lanes.values():
            for waiting in lane.busy.values():
                waiting.clear()
        for source in self._sources.values():
            source.backlog.clear()
        self._low.set()

    async def wait_running(self, seconds: float) -> int:
        """Wait for running handlers, at most `seconds`; cancel the rest and return their number."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=seconds)
        late = set(self._tasks)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_CANCEL_SECONDS)
        return len(late)

    def forget(self) -> None:
        """Drop everything about the lanes."""
        self._lanes = {}
        self._sources = {}


_CANCEL_SECONDS: Final = 1.0
"""Time for cancelled handlers to end: one that swallows the cancellation must not hold up the
rebalance; its lane is closed and takes nothing more from it."""


def _later(source: Source[Any]) -> bool:
    return not source.priority
