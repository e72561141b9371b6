"""Reading all that a run writes: every topic, and beside it what the groups have committed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from turnstream.roles import answer, classify, decide, execute, shadow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.chaos.ledger import Ledger
    from turnstream.config import Settings

SOURCES: Final[Mapping[str, Sequence[str]]] = {
    "decide": decide.SOURCES,
    "execute": execute.SOURCES,
    "answer": answer.SOURCES,
    "classify": classify.SOURCES,
    "shadow": shadow.SOURCES,
}
"""Role to the topics that it reads."""

TOPICS: Final = (
    *decide.SOURCES,
    "conversation.actions",
    "conversation.outcomes",
    "conversation.outbound",
    "shadow.proposals",
    "shadow.comparisons",
)
"""All that roles read and write, but for what people do."""

DEAD: Final = tuple(f"{source}.dlq" for source in (*shadow.SOURCES, *shadow.WRITES[:1]))
"""The dead letters of every source, and the shadow's own; of one partition each."""


class Reading:
    """Fills the ledger of a run."""

    def __init__(
        self, settings: Settings, ledger: Ledger, *, roles: Callable[[], set[str]]
    ) -> None:
        """Prepare.

        Args:
            settings: the run's.
            ledger: takes what is read.
            roles: the roles that have been started.
        """
        self._settings = settings
        self._ledger = ledger
        self._roles = roles
        self._task: asyncio.Task[None] | None = None
        self._committed: dict[str, Mapping[tuple[str, int], int]] = {}
        """Role to the offsets that its group had committed at the last look."""
        self.level = False
        """Whether all that is committed has been read, at the last look."""

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._read())

    def still_runs(self) -> None:
        """Raise what has ended the reading, if anything has."""
        if self._task is not None and self._task.done():
            self._task.result()

    async def stop(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def behind(self) -> list[str]:
        """Name what has been read and is not passed by the offsets of every role that runs."""
        ends = self._ledger.ends
        return [
            f"{role}: {topic}/{partition}"
            for role in self._roles()
            for topic in map(self._settings.topics.name, SOURCES[role])
            for partition in range(self._settings.partitions)
            if self._committed.get(role, {}).get((topic, partition), 0)
            < ends.get((topic, partition), 0)
        ]

    async def _read(self) -> None:
        names = [self._settings.topics.name(logical) for logical in TOPICS]
        tps = [
            TopicPartition(name, partition)
            for name in (*names, *self._ledger.changelogs)
            for partition in range(self._settings.partitions)
        ]
        tps += [TopicPartition(self._settings.topics.name(name), 0) for name in DEAD]
        bootstrap = self._settings.kafka.bootstrap_servers
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_partition_fetch_bytes=4 * 1024 * 1024,
        )
        admin = AIOKafkaAdminClient(
            bootstrap_servers=self._settings.kafka.bootstrap_servers, request_timeout_ms=5_000
        )
        await consumer.start()
        await admin.start()
        looked = 0.0
        # Of a transaction that ends just now, offsets may be there before its records: when all has
        # been read, the last look but one is certain.
        looks = (0, 0)
        self._ledger.whole_until = 0
        try:
            consumer.assign(tps)
            await consumer.seek_to_beginning(*tps)
            while True:
                fetched = await consumer.getmany(timeout_ms=200)
                for records in fetched.values():
                    for record in records:
                        self._ledger.add(record)
                    await asyncio.sleep(0)
                with contextlib.suppress(KafkaError, OSError, TimeoutError):
                    if time.monotonic() - looked > 0.5:
                        looked = time.monotonic()
                        await self._look(admin)
                        looks = (looks[1], time.time_ns() // 1_000_000)
                    self.level = not fetched and await _is_level(consumer, tps)
                    if self.level:
                        self._ledger.whole_until = looks[0]
        finally:
            await consumer.stop()
            await admin.close()

    async def _look(self, admin: AIOKafkaAdminClient) -> None:
        """Note which offsets are committed now."""
        for role in sorted(self._roles() | {"decide"}):
            async with asyncio.timeout(5):
                found = await admin.list_consumer_group_offsets(self._settings.group(role))
            at = time.time_ns() // 1_000_000
            # Where nothing was committed yet, a group has -1.
            offsets = {
                (tp.topic, tp.partition): one.offset for tp, one in found.items() if one.offset >= 0
            }
            self._committed[role] = offsets
            self._ledger.look(role, offsets, at=at)


async def _is_level(consumer: AIOKafkaConsumer, tps: Sequence[TopicPartition]) -> bool:
    async with asyncio.timeout(5):
        ends = await consumer.end_offsets(tps)
        return all([await consumer.position(tp) >= ends[tp] for tp in tps])
