"""A worker with one protection switched off, to see the checker find what that does.

Usage: ``python -m tests.chaos.unprotected PROTECTION ROLE -c CONFIG``. Nothing of this can be
reached from the program itself: each protection is replaced in this process alone, by what one
would write without thinking of the fault that it prevents.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition

from turnstream.cli import main
from turnstream.stream import restore, transaction
from turnstream.stream.consumer import LaneConsumerThread
from turnstream.stream.dispatch import Dispatcher
from turnstream.stream.handling import Handling
from turnstream.stream.lane import Lane
from turnstream.stream.ownership import Ownership
from turnstream.stream.restore import RestoredState
from turnstream.stream.source import Source


class Apart:
    """A lane's producer whose records and offsets each commit by themselves.

    The changelog comes last, as where state is kept after the fact.
    """

    def __init__(self, inner: Any, *, changelog: str) -> None:
        self._inner = inner
        self._changelog = changelog
        self._one = asyncio.Lock()

    def __getattr__(self, name: str) -> Any:
        """Give what is as it was."""
        return getattr(self._inner, name)

    async def begin_transaction(self) -> None:
        """Begin nothing."""

    async def commit_transaction(self) -> None:
        """Commit nothing more."""

    async def send_batch(self, batch: Any, topic: str, *, partition: int) -> asyncio.Future[Any]:
        """Write a batch and commit it."""
        task = asyncio.ensure_future(self._alone(batch, topic, partition))
        if topic != self._changelog:
            await asyncio.wait({task})
        return task

    async def _alone(self, batch: Any, topic: str, partition: int) -> Any:
        async with self._one, self._inner.transaction():
            return await (await self._inner.send_batch(batch, topic, partition=partition))

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int], group: str
    ) -> None:
        """Commit offsets."""
        async with self._one, self._inner.transaction():
            await self._inner.send_offsets_to_transaction(offsets, group)


def without_transactions() -> None:
    """Records and offsets are written one after another."""
    lane_producer = transaction.lane_producer

    def apart(partition: int, *, settings: Any) -> Any:
        return Apart(lane_producer(partition, settings=settings), changelog=settings.changelog)

    _use(producer=apart)


def without_stable_transactional_id() -> None:
    """Each process has transactional ids of its own: no owner fences the one before."""

    def producer(*, transactional_id: str, **options: Any) -> Any:
        own = f"{transactional_id}-{uuid.uuid4().hex}"
        return AIOKafkaProducer(transactional_id=own, **options)

    setattr(transaction, "AIOKafkaProducer", producer)  # noqa: B010 - it exports no such name


def without_offset_prefix() -> None:
    """The highest finished offset is committed, whatever is unfinished below it."""

    def advance(self: Source[Any], **_: int) -> bool:
        self.transactions += 1
        done = [entry for entry in self.order if entry.done]
        self.order = deque(entry for entry in self.order if not entry.done)
        if not done or done[-1].offset < self.prefix:
            return False
        self.prefix = done[-1].offset + 1
        return True

    Source.advance = advance  # type: ignore[method-assign]


def without_deferred_resume() -> None:
    """Records flow while the state is still being restored."""
    restored = restore.restore

    async def later(partitions: Sequence[int], **options: Any) -> Mapping[int, RestoredState]:
        async def load() -> None:
            await restored(partitions, **options)

        _background.add(asyncio.create_task(load()))
        return {partition: RestoredState() for partition in partitions}

    _use(restore=later)


_background: Final[set[asyncio.Task[None]]] = set()


def without_explicit_seek() -> None:
    """The consumer goes on from where it is, and what it read before the lanes opened is gone."""

    async def seek(self: LaneConsumerThread, offsets: Mapping[TopicPartition, int]) -> None:
        consumer = self._ensure_consumer()
        consumer.pause(*(tp for tp in consumer.assignment() if tp not in offsets))
        # Of the sources alone: the changelog has no offset that a group could go on from.
        await consumer.getmany(*offsets, timeout_ms=3_000)

    LaneConsumerThread._seek = seek  # type: ignore[method-assign]


def without_watermark() -> None:
    """Nobody asks whether the state has seen an input."""
    init = Handling.__init__

    class Blind:
        def watermark(self, _state: object, _topic: str) -> int:
            return -1

    def blind(self: Handling[Any], *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **options)
        self._format = Blind()  # type: ignore[assignment]

    Handling.__init__ = blind  # type: ignore[method-assign]


class Contiguous(AIOKafkaConsumer):
    """A consumer for which a partition ends where offsets are not contiguous."""

    _ended: frozenset[TopicPartition] = frozenset()

    async def getmany(self, *tps: TopicPartition, **options: Any) -> Any:
        """Fetch up to the first gap."""
        fetched = await super().getmany(*tps, **options)
        found = {}
        for tp, records in fetched.items():
            if tp in self._ended:
                continue
            self._ended |= {tp}
            first = records[0].offset
            found[tp] = [
                each for number, each in enumerate(records) if each.offset == first + number
            ]
        return found

    async def position(self, tp: TopicPartition) -> int:
        """Tell the position."""
        return sys.maxsize if tp in self._ended else int(await super().position(tp))


def without_restore_by_position() -> None:
    """State is restored up to a control marker, taken for the end."""
    setattr(restore, "AIOKafkaConsumer", Contiguous)  # noqa: B010 - it exports no such name


def without_journal() -> None:
    """Nothing is written down before a call."""

    async def commit(self: Lane[Any], *_: Any, **__: Any) -> None:
        """Forget it."""

    Lane.commit = commit  # type: ignore[method-assign]


def without_heartbeat_check() -> None:
    """A call is made however long ago the group was heard of."""

    def sure(self: Lane[Any]) -> None:
        """Be sure of it."""

    Lane.ensure_owned = sure  # type: ignore[method-assign]


def without_quiesce() -> None:
    """Partitions are given up at once, in the middle of calls."""
    wait_running = Dispatcher.wait_running

    async def at_once(self: Dispatcher[Any], _seconds: float) -> int:
        return await wait_running(self, 0)

    setattr(Dispatcher, "wait_running", at_once)  # noqa: B010 - a method of a generic class


def _use(**parts: Any) -> None:
    init = Ownership.__init__

    def replaced(self: Ownership[Any], role: Any, **options: Any) -> None:
        init(self, role, **{**options, **parts})

    Ownership.__init__ = replaced  # type: ignore[method-assign]


PROTECTIONS: Final[Mapping[str, Callable[[], None]]] = {
    "transactions": without_transactions,
    "stable_transactional_id": without_stable_transactional_id,
    "offset_prefix": without_offset_prefix,
    "deferred_resume": without_deferred_resume,
    "explicit_seek": without_explicit_seek,
    "watermark": without_watermark,
    "restore_by_position": without_restore_by_position,
    "journal": without_journal,
    "heartbeat_check": without_heartbeat_check,
    "quiesce": without_quiesce,
}
"""Name of each protection to what switches it off."""


if __name__ == "__main__":
    PROTECTIONS[sys.argv[1]]()
    sys.argv[1:2] = ["run"]
    main()
