"""A lane: one owned partition number, its state, and the transactions that change it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from turnstream.stream import failpoints
from turnstream.stream.deadletter import dead_record
from turnstream.stream.handler import LaneClosing
from turnstream.stream.role import LaneFailed, OwnershipUncertain
from turnstream.stream.source import Entry, Work
from turnstream.stream.states import States
from turnstream.stream.transaction import Batches

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence

    from aiokafka.structs import TopicPartition

    from turnstream.stream.deadletter import DeadLetterTopic, DeadRecord
    from turnstream.stream.handler import DeadLetterReason, Handled, Publication
    from turnstream.stream.role import Role
    from turnstream.stream.slots import Slots
    from turnstream.stream.source import Source
    from turnstream.stream.store import Records
    from turnstream.stream.transaction import TransactionalProducer

S = TypeVar("S")

logger = logging.getLogger(__name__)

_SURE_PART: Final = 0.75
"""Part of the session in which a member acts outside Kafka: after a whole one somebody else may do
the same. The rest is for what clocks and networks add, and for the way from the look at the clock
to the first byte."""


class UnusableOutcome(Exception):
    """A handler's outcome cannot be committed: a fault of the handler, treated like one."""

    def __init__(self, message: str, *, reason: DeadLetterReason = "handler_failed") -> None:
        super().__init__(message)
        self.reason: DeadLetterReason = reason


class Lane(Generic[S]):
    """One partition number of the role's source topics, from its opening to its closing.

    Everything about the partition that must commit together goes through the one transactional
    producer here. A lane commits one transaction at a time; the next fills while it commits.
    It is the `LaneContext` of the handlers that run on it.
    """

    def __init__(
        self,
        partition: int,
        *,
        role: Role[S],
        producer: TransactionalProducer,
        dead_letter_topics: Mapping[str, DeadLetterTopic],
        progressed: Callable[[Source[S]], None],
    ) -> None:
        """Make a lane, not open yet.

        Args:
            partition: The partition number.
            role: What it works for.
            producer: Its transactional producer, not started.
            dead_letter_topics: Source topic to its dead-letter topic.
            progressed: Told after each commit which sources have moved on.
        """
        self._partition = partition
        self._role = role
        self._producer = producer
        self._dead_letter_topics = dead_letter_topics
        self._progressed = progressed
        self._max_bytes = role.settings.max_record_bytes
        self._max_publication_bytes = role.settings.max_publication_bytes
        self.states = States(role.state_format, settings=role.settings)
        self.sources: dict[str, Source[S]] = {}
        self.busy: dict[bytes, deque[Entry[S]]] = {}
        """Keys with a task or waiting for a slot, each with its waiting records."""
        self.flooded: set[bytes] = set()
        self.slots: Slots | None = None
        """Those of the process, while the intake is open."""
        self._finished: deque[Work[S]] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._urgent = False
        self._committer: asyncio.Task[None] | None = None
        self.full = False
        """Whether it has as many state records as it may: nothing new is taken then."""

    @property
    def partition(self) -> int:
        """The lane's partition number, the same in every source topic."""
        return self._partition

    # Opening: fence, load, attach, start. `Ownership` calls them in this order.

    async def fence(self) -> None:
        """Take the transactional id: ends the former owner and its open transaction."""
        await self._producer.start()

    def load(self, records: Records, *, ends: Mapping[str, int]) -> None:
        """Take over the committed state at once; see `loading`."""
        for _ in self.loading(records, ends=ends):
            pass

    def loading(self, records: Records, *, ends: Mapping[str, int]) -> Generator[None]:
        """Take over the committed state in steps; see `States.loading`."""
        owned = self._role.owned
        note = None if owned is None else functools.partial(owned.note, self._partition)
        now = self._role.now_ms()
        yield from self.states.loading(
            records, partition=self._partition, ends=ends, now=now, note=note
        )
        self._role.observer.parked(self._partition, len(self.states.parked))
        self._role.observer.unreadable(self._partition, len(self.states.unreadable))

    def start(self, sources: Mapping[str, Source[S]]) -> None:
        """Take the sources, positioned at their committed offsets, and begin to commit."""
        self.sources = dict(sources)
        self._measure()
        self._committer = asyncio.create_task(
            self._commit_loop(), name=f"lane-{self._partition}-commit"
        )

    # Closing: drain, close.

    async def drain(self) -> None:
        """Wait until everything finished is committed."""
        self._urgent = True
        await self._idle.wait()

    async def close(self) -> None:
        """Stop committing and disconnect; what is not committed is given up."""
        if self._committer is not None:
            self._committer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._committer
        # Before the broker is waited for: who has the partition next may want the same files.
        self.states.close()
        self._role.observer.forget(self._partition)
        if self._role.owned is not None:
            self._role.owned.forget(self._partition)
        await self._producer.stop()

    # What handlers and the dispatcher hand in.

    async def commit(self, key: bytes, state: S, publications: Sequence[Publication] = ()) -> None:
        """Commit an intermediate state of the handler's own key; no offset moves."""
        work: Work[S] = Work(key)
        self._set_outcome(work, state=state, publications=publications)
        waiter = work.waiter = asyncio.get_running_loop().create_future()
        self._urgent = True
        self._push(work)
        await waiter

    def ensure_owned(self) -> None:
        """End the process unless the coordinator has been heard of a short while ago.

        Raises:
            OwnershipUncertain: It has not, and the end of the process is replaced by a test.
        """
        settings = self._role.settings
        limit = _SURE_PART * settings.session_timeout_ms / 1000
        age = self._role.heartbeats.age()
        if age < limit:
            return
        error = OwnershipUncertain(
            f"the last answered heartbeat of group {settings.group!r} was sent {age:.1f} s ago, "
            f"and with a session of {settings.session_timeout_ms / 1000:g} s nothing may be done "
            f"outside after {limit:g} s: partition {self._partition} may have another owner"
        )
        self._role.fail(error)
        raise error

    async def rest(self, seconds: float) -> None:
        """Wait between two attempts of a handler, without its slot."""
        if self.slots is None or not await self.slots.rest(seconds):
            message = f"partition {self._partition} is given up"
            raise LaneClosing(message)

    def finish(
        self,
        entry: Entry[S],
        handled: Handled[S],
        *,
        attempts: int = 1,
        failure: str | None = None,
        reason: DeadLetterReason = "handler_failed",
    ) -> None:
        """Take what an input led to; it goes into one of the next transactions.

        Args:
            entry: The input.
            handled: What it led to.
            attempts: Calls of the handler so far.
            failure: Why the input was given up; then its record is dead-lettered in any case.
            reason: Why, for the dead letter, where the handler asks for none.

        Raises:
            UnusableOutcome: The outcome cannot be committed. Nothing of it has been taken.
        """
        if failpoints.armed is not None:
            failpoints.armed.pass_by("after_step")
        source, record = entry.source, entry.record
        state = handled.state
        if (
            state is not None
            and self._role.state_format.watermark(state, source.topic) < entry.offset
        ):
            message = f"the new state's watermark of {source.topic!r} is below the input's offset"
            raise UnusableOutcome(message)
        letter = handled.dead_letter
        dead: DeadRecord | None = None
        if letter is not None or failure is not None:
            dead = dead_record(
                record,
                topic=self._dead_letter_topics[source.topic],
                reason=reason if letter is None else letter.reason,
                detail=failure or ("" if letter is None else letter.detail),
                attempts=attempts,
            )
        self._set_outcome(entry, state=state, publications=handled.publications)
        entry.dead_record = dead
        self._end(entry)
        if failpoints.armed is not None:
            failpoints.armed.pass_by("after_enter")

    def reject(
        self, entry: Entry[S], *, reason: DeadLetterReason, detail: str, attempts: int
    ) -> None:
        """Dead-letter an input; no state changes, only the committed offset will pass it.

        The letter goes out with that offset, and so only once.
        """
        entry.dead_record = dead_record(
            entry.record,
            topic=self._dead_letter_topics[entry.record.topic],
            reason=reason,
            detail=detail,
            attempts=attempts,
        )
        self._end(entry)

    def skip(self, entry: Entry[S]) -> None:
        """Finish an input that the state has already seen."""
        self._end(entry)

    def _set_outcome(
        self, work: Work[S], *, state: S | None, publications: Sequence[Publication]
    ) -> None:
        key = work.key
        writes = self._role.settings.writes
        for publication in publications:
            if writes is not None and publication.topic not in writes:
                message = f"this role may not write to {publication.topic!r}"
                raise UnusableOutcome(message)
            size = len(publication.key) + len(publication.value or b"")
            if size > self._max_publication_bytes:
                message = f"a publication to {publication.topic!r} has {size} bytes"
                raise UnusableOutcome(message)
        value = None if state is None else self.states.encode(state)
        if value is not None and len(key) + len(value) > self._max_bytes:
            message = f"the new state has {len(value)} bytes"
            raise UnusableOutcome(message, reason="state_too_large")
        work.stateful = True
        work.state = state
        work.value = value
        work.publications = publications
        self.states.put(key, state)

    def _end(self, entry: Entry[S]) -> None:
        entry.release()
        self._push(entry)

    def _push(self, work: Work[S]) -> None:
        self._finished.append(work)
        if not self._wake.is_set():
            self._wake.set()
            self._idle.clear()

    def _measure(self) -> bool:
        """Compare the state records with their bound; tell whether there is room again."""
        bound = self._role.settings.max_keys_per_partition
        if bound is None:
            return False
        full, count = len(self.states.store) >= bound, len(self.states.store)
        if full == self.full:
            return False
        self.full = full
        self._role.observer.full(self._partition, full)
        if full:
            logger.error(
                "partition %s has %s state records, as many as it may: nothing new is taken until "
                "some expire. Raise the bound, or let them expire sooner",
                self._partition,
                count,
            )
        else:
            logger.info("partition %s has room again: %s records", self._partition, count)
        return not full

    # Timers.

    def handled_through(self) -> int:
        """Return the time (ms) up to which everything in all sources has been handled."""
        for source in self.sources.values():
            source.settle_mark()
        return min(source.handled_through for source in self.sources.values())

    def fire_timers(self, now: int) -> bool:
        """Publish the timers that are due and not overtaken by a backlog.

        Returns:
            Whether a timer is due but records older than it may still be unhandled: the end
            offsets of the sources must be observed.
        """
        due = self.states.timers.earliest()
        if due is None or due > now:
            return False
        through = self.handled_through()
        # At the bound the backlog waits for what expires, so that must not wait for the backlog.
        for key, timer in self.states.fire(now if self.full else min(now, through)):
            work: Work[S] = Work(key)
            lost = key in self.states.unreadable
            publication = None if lost else self._role.handler.timer(key, timer)
            if publication is None:
                self.states.expire(key)
            else:
                work.publications = (publication,)
            self._push(work)
        due = self.states.timers.earliest()
        return due is not None and due <= now

    # Transactions.

    async def _commit_loop(self) -> None:
        gap = self._role.settings.commit_gap_ms / 1000
        limit = self._role.settings.request_timeout_ms / 1000
        try:
            while True:
                await self._wake.wait()
                if gap and not self._urgent:
                    await asyncio.sleep(gap)
                self._urgent = False
                async with asyncio.timeout(limit):
                    await self._transact(self._take())
                if not self._finished:
                    self._wake.clear()
                    self._idle.set()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, the process ends
            failure = LaneFailed(f"lane {self._partition} could not commit: {error!r}")
            failure.__cause__ = error
            self._role.fail(failure)

    def _take(self) -> list[Work[S]]:
        """Take finished work in order, up to the bounds of one transaction."""
        finished = self._finished
        taken: list[Work[S]] = []
        room = self._role.settings.max_transaction_records
        bytes_left = self._role.settings.max_transaction_bytes
        while finished and len(taken) < room and bytes_left > 0:
            work = finished.popleft()
            taken.append(work)
            bytes_left -= len(work.value or b"")
            for publication in work.publications:
                bytes_left -= len(publication.value or b"")
        return taken

    async def _transact(self, taken: Sequence[Work[S]]) -> None:
        """Commit what was taken, in one transaction.

        1. Mark the inputs finished and move each source's prefix over them.
        2. Batch their publications and dead letters, in input order per key; a dead letter that no
           state remembers goes with the prefix that passes its record.
        3. Batch the last state of each key, and tombstones of closed keys that were passed.
        4. Send the batches, and the prefixes as the group's offsets; wait for the broker.
        5. Commit.
        6. Update the store; release whoever waits.
        """
        began = time.monotonic()
        at = self._role.now_ms()
        batches = Batches(self._producer)
        # Step 1
        moved = self._move_prefixes(taken)
        offsets = {source.tp: source.prefix for source in moved}
        # Step 2
        letters = _letters(taken, moved=moved)
        self._batch_publications(taken, letters=letters, batches=batches)
        # Step 3
        last = {work.key: work for work in taken if work.stateful}
        prefixes = {topic: source.prefix for topic, source in self.sources.items()}
        records = self.states.records(last, prefixes=prefixes)
        for key, value in records.items():
            if value is not None or self.states.store.has_record(key):
                batches.add(
                    self._role.settings.changelog, partition=self._partition, key=key, value=value
                )
        if batches.records or offsets:
            await self._publish(batches, offsets)
        # Step 6
        position = batches.end(self._role.settings.changelog)
        self.states.commit(records, last=last, position=position, at=at)
        await failpoints.reach("after_store")
        for work in taken:
            if work.waiter is not None and not work.waiter.done():
                work.waiter.set_result(None)
        seconds = time.monotonic() - began
        self._report(taken, moved=moved, letters=letters, records=batches.records, seconds=seconds)
        for source in self.sources.values() if self._measure() else moved:
            self._progressed(source)

    async def _publish(self, batches: Batches, offsets: Mapping[TopicPartition, int]) -> None:
        """Steps 4 and 5 of a transaction."""
        await failpoints.reach("before_begin")
        await self._producer.begin_transaction()
        await failpoints.reach("after_begin")
        # Step 4
        waiting: list[Awaitable[object]] = [*await batches.send()]
        await failpoints.reach("after_send")
        if offsets:
            group = self._role.settings.group
            waiting.append(self._producer.send_offsets_to_transaction(offsets, group))
        await asyncio.gather(*waiting)
        await failpoints.reach("before_commit")
        # Step 5
        await self._producer.commit_transaction()
        await failpoints.reach("after_commit")

    def _move_prefixes(self, taken: Sequence[Work[S]]) -> list[Source[S]]:
        for work in taken:
            if isinstance(work, Entry):
                work.done = True
        return [source for source in self.sources.values() if source.advance()]

    def _batch_publications(
        self, taken: Sequence[Work[S]], *, letters: Sequence[DeadRecord], batches: Batches
    ) -> None:
        for work in taken:
            for publication in work.publications:
                batches.add(
                    publication.topic,
                    partition=self._partition,
                    key=publication.key,
                    value=publication.value,
                    headers=publication.headers,
                )
        for dead in letters:
            batches.add(
                dead.topic,
                partition=dead.partition,
                key=dead.key,
                value=dead.value,
                headers=dead.headers,
            )

    def _report(
        self,
        taken: Sequence[Work[S]],
        *,
        moved: Sequence[Source[S]],
        letters: Sequence[DeadRecord],
        records: int,
        seconds: float,
    ) -> None:
        observer = self._role.observer
        handled: dict[str, int] = {}
        for work in taken:
            if isinstance(work, Entry):
                topic = work.source.topic
                handled[topic] = handled.get(topic, 0) + 1
        for dead in letters:
            observer.dead_lettered(dead.source_topic, dead.reason)
        for topic, count in handled.items():
            observer.handled(topic, count)
        observer.committed(records, seconds)
        observer.keys(self._partition, len(self.states.store))
        observer.unreadable(self._partition, len(self.states.unreadable))
        for source in moved:
            observer.position(source.topic, source.partition, committed=source.prefix)
            oldest = source.order[0].timestamp if source.order else None
            observer.oldest_unfinished(source.topic, source.partition, oldest)


def _letters(taken: Sequence[Work[S]], *, moved: Sequence[Source[S]]) -> list[DeadRecord]:
    """Take the dead letters that a transaction makes true."""
    letters = [work.dead_record for work in taken if work.stateful and work.dead_record is not None]
    for source in moved:
        letters += source.letters
        source.letters.clear()
    return letters
