"""The transactions of a lane: what is finished goes out, one at a time, and the next one fills."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from aiokafka.errors import InvalidProducerIdMapping, ProducerFenced

from turnstream.stream import failpoints
from turnstream.stream.imprint import IMPRINT_KEY, renewed
from turnstream.stream.outage import answered_within, away
from turnstream.stream.role import LaneFailed
from turnstream.stream.source import Entry, Work
from turnstream.stream.transaction import Batches

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from aiokafka.structs import TopicPartition

    from turnstream.stream.deadletter import DeadRecord
    from turnstream.stream.role import Role
    from turnstream.stream.source import Source
    from turnstream.stream.states import States
    from turnstream.stream.transaction import TransactionalProducer

S = TypeVar("S")

_IDLE_SECONDS: Final = 86_400.0
"""An idle lane commits what it has committed before once in that time. A broker forgets the
transactional id of a producer that has not been heard of for transactional.id.expiration.ms, a week
unless set otherwise, and would then refuse the lane's next transaction."""


class Committer(Generic[S]):
    """Commits what a lane has finished: states, publications, dead letters and offsets together.

    All of it goes through the lane's one transactional producer. One transaction at a time; the
    next fills while it commits.
    """

    def __init__(
        self,
        partition: int,
        *,
        role: Role[S],
        producer: TransactionalProducer,
        states: States[S],
        imprint: bytes | None,
        committed: Callable[[Sequence[Source[S]]], None],
    ) -> None:
        """Prepare; nothing is committed before the start.

        Args:
            partition: The lane's partition number.
            role: What it works for.
            producer: Its transactional producer; started and stopped by the lane.
            states: Those of the lane.
            imprint: What the changelog must say of itself; `None` leaves it as it is.
            committed: Told after each transaction which sources have moved on.
        """
        self._partition = partition
        self._role = role
        self._producer = producer
        self._states = states
        self._imprint = imprint
        self._committed = committed
        self._sources: Mapping[str, Source[S]] = {}
        self._finished: deque[Work[S]] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._urgent = False
        self._draining = False
        self._loop: asyncio.Task[None] | None = None

    def start(self, sources: Mapping[str, Source[S]]) -> None:
        """Begin to commit.

        Args:
            sources: Those of the lane, by topic, positioned at their committed offsets.
        """
        self._sources = sources
        former = self._states.store.imprint
        if self._imprint is not None and self._imprint != former:
            self._imprint = renewed(self._imprint, former=former)
        if self._imprint == former:
            self._imprint = None
        if any(source.passed for source in sources.values()):
            self.commit_prefixes()
        self._loop = asyncio.create_task(self._commit_loop(), name=f"lane-{self._partition}-commit")

    def add(self, work: Work[S]) -> None:
        """Take finished work; it goes into one of the next transactions, in order."""
        self._finished.append(work)
        self._wake.set()
        self._idle.clear()

    def commit_prefixes(self) -> None:
        """Begin a transaction although no work has been added: a prefix has moved without any."""
        self._wake.set()
        self._idle.clear()

    def hurry(self) -> None:
        """Let the next transaction wait for no more work: somebody waits for it."""
        self._urgent = True

    async def drain(self) -> None:
        """Wait until everything finished is committed; removals are left to who comes next."""
        self._urgent = True
        self._draining = True
        await self._idle.wait()

    async def stop(self) -> None:
        """Stop committing; what is not committed is given up."""
        if self._loop is not None:
            self._loop.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._loop

    async def _commit_loop(self) -> None:
        gap = self._role.settings.commit_gap_ms / 1000
        limit = self._role.settings.request_timeout_ms / 1000
        what = f"the transaction of lane {self._partition}"
        try:
            while True:
                await self._work()
                self._idle.clear()
                if gap and not self._urgent:
                    await asyncio.sleep(gap)
                self._urgent = False
                async with answered_within(limit, role=self._role, what=what):
                    await self._transact(self._take())
                sources = self._sources.values()
                if self._finished or any(each.has_finished or each.passed for each in sources):
                    continue
                self._idle.set()
                if self._draining or not self._states.has_removable(self._prefixes()):
                    self._wake.clear()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, the process ends
            failure = LaneFailed(f"lane {self._partition} could not commit: {self._why(error)}")
            failure.__cause__ = error
            self._role.fail(failure)

    async def _work(self) -> None:
        """Wait until there is something to commit, or it is time to be heard of again."""
        if self._wake.is_set():
            return
        try:
            async with asyncio.timeout(_IDLE_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            for source in self._sources.values():
                source.passed = True
            self.commit_prefixes()

    def _prefixes(self) -> dict[str, int]:
        return {topic: source.prefix for topic, source in self._sources.items()}

    def _why(self, error: BaseException) -> str:
        settings = self._role.settings
        if (forgotten := _among_causes(error, InvalidProducerIdMapping)) is not None:
            return (
                f"{forgotten!r}: the broker has forgotten its transactional id, as it does when "
                f"nothing was committed for transactional.id.expiration.ms: the process was "
                f"suspended, or that is set to less than {_IDLE_SECONDS / 3_600:g} hours"
            )
        if (fenced := _among_causes(error, ProducerFenced)) is not None:
            name = settings.instance_id
            twin = (
                f"; if another process uses stream.group_instance_id {name!r} as well, give each "
                f"process its own"
            )
            return (
                f"{fenced!r}: another process has taken the partition over, or the broker has "
                f"ended a transaction that was open for more than "
                f"{settings.transaction_timeout_ms / 1000:g} s{twin if name is not None else ''}"
            )
        if isinstance(error, LaneFailed):
            return str(error)
        if isinstance(error, TimeoutError):
            servers = f"{settings.bootstrap_servers} (kafka.bootstrap_servers)"
            if away(self._role):
                silence = self._role.heartbeats.silence()
                return (
                    f"no broker of {servers} has answered for {silence:.0f} s; see that they run "
                    f"and can be reached"
                )
            return (
                f"the brokers of {servers} answer, but have not ended its transaction within "
                f"{settings.request_timeout_ms / 1000:g} s; look for partitions without a leader"
            )
        return repr(error)

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
            if work.stateful and work.dead_record is not None:
                bytes_left -= work.dead_record.size
            for publication in work.publications:
                bytes_left -= len(publication.value or b"")
        return taken

    async def _transact(self, taken: Sequence[Work[S]]) -> None:
        """Commit what was taken, in one transaction.

        1. Mark the inputs finished and move each source's prefix over them, as far as the dead
           letters of what was refused leave room for one another.
        2. Batch their publications and dead letters, in input order per key; a dead letter that no
           state remembers goes with the prefix that passes its record.
        3. Batch the last state of each key, and tombstones of closed keys that were passed; before
           them, once, what the changelog says of itself.
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
        letters, eased = _letters(taken, moved=moved)
        self._batch_publications(taken, letters=letters, batches=batches)
        # Step 3
        last = {work.key: work for work in taken if work.stateful}
        records = self._states.records(last, prefixes=self._prefixes())
        imprint = self._batch_states(records, batches=batches)
        if batches.records or offsets:
            await self._publish(batches, offsets)
        # Step 6
        position = batches.end(self._role.settings.changelog)
        self._states.commit(records, last=last, position=position, at=at, imprint=imprint)
        if imprint is not None:
            self._imprint = None
        await failpoints.reach("after_store")
        for work in taken:
            if work.waiter is not None and not work.waiter.done():
                work.waiter.set_result(None)
            if work.stateful:
                # It may wait long for an older one, and thousands with it.
                work.state = work.value = work.dead_record = None
                work.publications = ()
        seconds = time.monotonic() - began
        self._report(taken, moved=moved, letters=letters, records=batches.records, seconds=seconds)
        self._committed((*moved, *eased))

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
        try:
            await asyncio.gather(*waiting)
        except Exception as error:
            if (topic := batches.refused()) is None:
                raise
            message = f"topic {topic!r} did not take what it was sent: {error!r}"
            raise LaneFailed(message) from error
        await failpoints.reach("before_commit")
        # Step 5
        await self._producer.commit_transaction()
        await failpoints.reach("after_commit")

    def _move_prefixes(self, taken: Sequence[Work[S]]) -> list[Source[S]]:
        for work in taken:
            if isinstance(work, Entry):
                work.done = True
        sources = self._sources.values()
        # A share of it each, so that none waits until another has no letters any more.
        room = max(1, self._role.settings.max_transaction_bytes // len(sources))
        return [source for source in sources if source.advance(letter_room=room)]

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

    def _batch_states(
        self, records: Mapping[bytes, bytes | None], *, batches: Batches
    ) -> bytes | None:
        """Batch changelog records; return the imprint if it went before them.

        It goes out where there is no state as well: a group that never has any, for it finishes all
        in order, must be known for one that has been here.
        """
        changelog = self._role.settings.changelog
        has_record = self._states.store.has_record
        changed = [
            (key, value) for key, value in records.items() if value is not None or has_record(key)
        ]
        imprint = self._imprint
        if imprint is not None:
            changed.insert(0, (IMPRINT_KEY, imprint))
        for key, value in changed:
            batches.add(changelog, partition=self._partition, key=key, value=value)
        return imprint

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
        observer.keys(self._partition, len(self._states.store))
        observer.unreadable(self._partition, len(self._states.unreadable))
        for source in moved:
            observer.position(source.topic, source.partition, committed=source.prefix)
            oldest = source.order[0].timestamp if source.order else None
            observer.oldest_unfinished(source.topic, source.partition, oldest)


def _letters(
    taken: Sequence[Work[S]], *, moved: Sequence[Source[S]]
) -> tuple[list[DeadRecord], list[Source[S]]]:
    """Take the dead letters that a transaction makes true.

    Returns:
        The letters, and the sources that have room by them though they have not moved.
    """
    letters: list[DeadRecord] = []
    eased: list[Source[S]] = []
    for work in taken:
        if work.stateful and (dead := work.dead_record) is not None and isinstance(work, Entry):
            letters.append(dead)
            source = work.source
            source.letter_bytes -= dead.size
            if source not in moved and source not in eased:
                eased.append(source)
    for source in moved:
        for dead in source.letters:
            letters.append(dead)
            source.letter_bytes -= dead.size
        source.letters.clear()
    return letters, eased


def _among_causes(error: BaseException | None, kind: type[BaseException]) -> BaseException | None:
    """Find what aiokafka has wrapped, and who sent a batch has wrapped once more."""
    while error is not None and not isinstance(error, kind):
        error = error.__cause__
    return error
