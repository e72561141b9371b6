"""The intake: fetched records, decoded in their order and handed to the runner in chunks.

Sources take turns, a chunk each. The records of a chunk go through the same work one after
another: all are decoded, then all go through the handler's first stage, and so on
(:mod:`turnstream.stream.running`). What a stage needs is then in the processor's cache, which saves
a quarter of the time. A chunk is put aside when the round's time is over, and gone on with in the
next.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from turnstream.stream.handler import ForAnotherRole, Rejected, UnknownSchema
from turnstream.stream.handling import describe
from turnstream.stream.running import Runner, Turn
from turnstream.stream.source import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aiokafka.structs import TopicPartition

    from turnstream.stream.handler import Record
    from turnstream.stream.lane import Lane
    from turnstream.stream.role import Role
    from turnstream.stream.slots import Slots
    from turnstream.stream.source import Source

S = TypeVar("S")

logger = logging.getLogger(__name__)

_CHUNK: Final = 64
"""Records taken from one source before the others have a turn: one fetch may hold thousands of
one partition."""


class Dispatcher(Generic[S]):
    """Takes fetched records and runs the handler on them, for all lanes of a process."""

    def __init__(self, role: Role[S]) -> None:
        self._role = role
        self._settings = role.settings
        self._handler = role.handler
        self._runner: Runner[S] = Runner(role, freed=self._schedule, room=self.resume)
        self._lanes: dict[int, Lane[S]] = {}
        self._sources: dict[TopicPartition, Source[S]] = {}
        self._resolving: set[asyncio.Task[None]] = set()
        self._due: deque[Source[S]] = deque()
        """Sources with a backlog and room, in the order of their turns."""
        self._chunk: Iterator[None] | None = None
        """The chunk that is being worked on; put aside while a round is over."""
        self._scheduled = False
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
        self._runner.open()
        for lane in self._lanes.values():
            lane.slots = self._runner.slots
        self._due.clear()
        self._chunk = None
        self._open = True

    @property
    def slots(self) -> Slots:
        """The slots of the process."""
        return self._runner.slots

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
        if not self._has_room(source):
            self._pause(source, bool(source.backlog))
        elif source.backlog and not source.held:
            source.scheduled = True
            self._due.append(source)
            self._schedule()

    def _has_room(self, source: Source[S]) -> bool:
        return (
            not self._lanes[source.partition].full
            and source.queued < self._settings.max_queued_per_partition
            and len(source.order) < self._settings.max_ahead_per_partition
            and (
                not source.letter_bytes
                or source.letter_bytes < self._settings.max_transaction_bytes
            )
        )

    # Rounds.

    def _schedule(self) -> None:
        """See to it that a round comes."""
        if not self._scheduled and self._open:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._round)

    def _round(self) -> None:
        """Work on one chunk after another until the round's time or tasks are used up."""
        self._scheduled = False
        if not self._open:
            return
        self._runner.round.begin()
        try:
            while not self._runner.round.is_over():
                if self._chunk is None:
                    self._chunk = self._next_chunk()
                    if self._chunk is None:
                        return
                for _ in self._chunk:
                    break
                else:
                    self._chunk = None
        except Exception as error:  # noqa: BLE001 - our own fault: nothing may be lost by it
            self._role.fail(error)
            return
        if self._chunk is not None or self._due or self._runner.has_ready:
            self._schedule()

    def _next_chunk(self) -> Iterator[None] | None:
        """Return the next work: keys that waited for a slot, else a source that has its turn."""
        if self._runner.has_ready:
            return self._runner.waves(self._runner.take_ready(_CHUNK))
        return self._chunk_of(self._due.popleft()) if self._due else None

    def _chunk_of(self, source: Source[S]) -> Iterator[None]:
        """Take a chunk of a source's backlog, then let the others have their turn."""
        lane = self._lanes[source.partition]
        backlog = source.backlog
        turns: dict[bytes, Turn[S]] = {}
        for _ in range(_CHUNK):
            if not backlog or source.held or not self._has_room(source):
                break
            entry = self._admit(lane, source, backlog.popleft())
            if entry is not None and self._runner.enter(lane, entry, having_turns=turns):
                turns[entry.key] = Turn(lane, entry)
            if self._runner.round.is_over():
                yield
        yield from self._runner.waves([*turns.values()])
        source.scheduled = False
        self._pause(source, bool(backlog) and not self._has_room(source))
        if not source.paused:
            self._low.set()
        self.resume(source)

    def _pause(self, source: Source[S], paused: bool) -> None:  # noqa: FBT001 - a gauge
        if paused != source.paused:
            source.paused = paused
            self._role.observer.paused(source.topic, source.partition, paused)

    def _admit(self, lane: Lane[S], source: Source[S], record: Record) -> Entry[S] | None:
        """Decode a record; return it unless it ends here."""
        if record.offset < source.cursor:
            return None
        entry: Entry[S]
        try:
            key, event = self._handler.admit(record)
        except Rejected as rejected:
            alone = rejected.by_this_role_alone
            if not alone and source.topic in self._settings.rejected_elsewhere:
                self._skip(lane, source, record)
                return None
            lane.reject(
                self._enter(source, record, key=b"", event=None),
                stage="handling" if alone else "intake",
                reason=rejected.reason,
                detail=rejected.detail,
                attempts=1,
            )
            return None
        except ForAnotherRole:
            self._skip(lane, source, record)
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

    def _skip(self, lane: Lane[S], source: Source[S], record: Record) -> None:
        lane.skip(self._enter(source, record, key=b"", event=None))
        self._role.observer.skipped(source.topic)

    def _enter(self, source: Source[S], record: Record, *, key: bytes, event: object) -> Entry[S]:
        entry: Entry[S] = Entry(record, source=source, key=key, event=event)
        source.cursor = record.offset + 1
        source.order.append(entry)
        return entry

    # Unknown schemas.

    def _hold(self, source: Source[S], fingerprint: str) -> None:
        source.held = True
        self._role.observer.held(source.topic, source.partition, True)  # noqa: FBT003 - a gauge
        logger.error(
            "%s waits at offset %s for the unknown schema %s: publish it, or deploy a version "
            "that has it, or list it in `refused_schemas` to dead-letter what names it",
            source.tp,
            source.backlog[0].offset,
            fingerprint,
        )
        task = asyncio.create_task(self._resolve(source, fingerprint))
        self._resolving.add(task)
        task.add_done_callback(self._resolver_ended)

    async def _resolve(self, source: Source[S], fingerprint: str) -> None:
        closing = self._runner.slots.closing
        while not closing.is_set():
            try:
                if await self._handler.resolve_schema(fingerprint):
                    break
            except Exception as error:  # noqa: BLE001 - looked up again
                logger.warning("looking up schema %s failed: %s", fingerprint, describe(error))
            try:
                async with asyncio.timeout(self._settings.schema_retry_ms / 1000):
                    await closing.wait()
            except TimeoutError:
                continue
        source.held = False
        self._role.observer.held(source.topic, source.partition, False)  # noqa: FBT003 - a gauge
        self.resume(source)
        self._low.set()

    def _resolver_ended(self, task: asyncio.Task[None]) -> None:
        self._resolving.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._role.fail(error)

    # Closing.

    def close_intake(self) -> None:
        """Take nothing more and drop what has not started; it will be read again."""
        self._open = False
        self._runner.close()
        self._chunk = None
        self._due.clear()
        for lane in self._lanes.values():
            for waiting in lane.busy.values():
                waiting.clear()
        for source in self._sources.values():
            source.backlog.clear()
        self._low.set()

    async def wait_running(self, seconds: float) -> int:
        """Wait for running handlers, at most `seconds`; cancel the rest and return their number."""
        late = await self._runner.wait(seconds)
        for task in self._resolving:
            task.cancel()
        return late

    def forget(self) -> None:
        """Drop everything about the lanes."""
        self._lanes = {}
        self._sources = {}


def _later(source: Source[Any]) -> bool:
    return not source.priority
