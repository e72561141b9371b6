"""How far the consumer groups of a deployment have come, seen from outside, and what serves them.

Nothing here joins a group or commits: it can be asked while the roles run.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import IncompatibleBrokerVersion
from aiokafka.structs import TopicPartition

from turnstream.config import Settings
from turnstream.stream.clients import started
from turnstream.stream.offset_fetch import committed_offsets

logger = logging.getLogger(__name__)

_REQUEST_MS: Final = 8_000
"""A broker that accepts and does not answer must not hang who asks."""

_COUNTED: Final = 1_000
"""Offsets in one partition up to which the records among them are counted. Markers of transactions
matter where nothing goes on; of a long way they are no large part."""

_COUNT_SECONDS: Final = 1.0
_POLL_MS: Final = 100
"""Counting is one fetch per partition; it must not take the time that the whole look has."""

_MEMBERS: Final = 5
"""Place of the members in a description of a group, the same in every version of the answer."""

_TRANSACTIONS: Final = {22: "InitProducerId", 24: "AddPartitionsToTxn", 28: "TxnOffsetCommit"}
_FETCH: Final = 1
_OLDEST_FETCH: Final = 12
"""Since Kafka 2.7; of 3.0 and newer, what this project is tested with, none has less."""


@dataclass(frozen=True, slots=True)
class Brokers:
    """What a cluster's brokers offer."""

    count: int
    apis: Mapping[int, int]
    """Number of a request in Kafka's protocol to its newest version there."""

    @property
    def without(self) -> tuple[str, ...]:
        """What is needed and not offered."""
        lacking = [f"{name} ({key})" for key, name in _TRANSACTIONS.items() if key not in self.apis]
        fetch = self.apis.get(_FETCH, 0)
        old = [f"Fetch {_OLDEST_FETCH}, has {fetch}"] if fetch < _OLDEST_FETCH else []
        return (*lacking, *old)


@dataclass(frozen=True, slots=True)
class Position:
    """Where a group stands in one partition."""

    topic: str
    partition: int
    committed: int | None
    """None where the group has never committed."""
    beginning: int
    """First offset that the log still has."""
    end: int
    """One past the last committed record."""
    unread: int | None = None
    """Records that the group has not read, None where they were not counted."""

    @property
    def start(self) -> int:
        """Where the group reads on."""
        return max(self.committed or 0, self.beginning)

    @property
    def offsets(self) -> int:
        """Offsets between the group and the end; markers of transactions have some as well."""
        return max(self.end - self.start, 0)

    @property
    def lag(self) -> int:
        """Records that the group has not read; where they were not counted, at most."""
        return self.offsets if self.unread is None else self.unread

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True)
class GroupView:
    """A consumer group."""

    name: str
    members: int | None
    """Processes that are in it now; None where the broker does not tell."""
    positions: tuple[Position, ...]
    """In every partition that its topics have."""

    @property
    def known(self) -> bool:
        """Whether it has ever committed."""
        return any(one.committed is not None for one in self.positions)

    @property
    def lag(self) -> int:
        """Of all partitions together."""
        return sum(one.lag for one in self.positions)

    @property
    def counted(self) -> bool:
        """Whether the lag is records alone; else markers of transactions are among it."""
        return all(one.unread is not None or not one.offsets for one in self.positions)

    @property
    def beyond_end(self) -> tuple[Position, ...]:
        """Where it has committed what the topic does not have: the topic was made anew."""
        return tuple(p for p in self.positions if p.committed is not None and p.committed > p.end)

    @property
    def expired(self) -> tuple[Position, ...]:
        """Where records were deleted before the group had handled them."""
        return tuple(
            p for p in self.positions if p.committed is not None and p.committed < p.beginning
        )


async def brokers_of(settings: Settings) -> Brokers:
    """Ask a cluster what it offers.

    Raises:
        aiokafka.errors.KafkaError: it cannot be reached.
    """
    async with _administration(settings) as admin:
        cluster = await admin.describe_cluster()
        client = admin._client
        nodes = [broker["node_id"] for broker in cluster["brokers"]]
        # Learnt when a connection is made; the client tells nobody.
        connection = await client._get_conn(nodes[0])
        versions = {} if connection is None else connection._versions
        return Brokers(len(nodes), {key: newest for key, (_, newest) in versions.items()})


async def groups_of(
    settings: Settings, groups: Mapping[str, Sequence[str]]
) -> tuple[GroupView, ...]:
    """Look at consumer groups.

    Args:
        settings: The deployment's.
        groups: Name of each group to the physical topics that it reads; those that do not exist
            are left out.

    Raises:
        aiokafka.errors.KafkaError: the cluster cannot be reached, or does not allow the question.
    """
    async with _administration(settings) as admin:
        names = {topic for topics in groups.values() for topic in topics}
        tps = [
            TopicPartition(one["topic"], part["partition"])
            # All are asked for: asking by name would create them where that is automatic.
            for one in await admin.describe_topics()
            if one["topic"] in names
            for part in one["partitions"]
        ]
        views: list[GroupView] = []
        for name, topics in groups.items():
            mine = [tp for tp in tps if tp.topic in topics]
            positions = await _positions(settings, name, mine) if mine else ()
            members = await _members(admin, name) if positions else 0
            views.append(GroupView(name, members, positions))
        return tuple(views)


@asynccontextmanager
async def _administration(settings: Settings) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(**_options(settings))
    try:
        await admin.start()
        yield admin
    finally:
        await admin.close()


def _options(settings: Settings) -> dict[str, Any]:
    return {**settings.kafka.client_options(), "request_timeout_ms": _REQUEST_MS}


async def _positions(
    settings: Settings, group: str, tps: Sequence[TopicPartition]
) -> tuple[Position, ...]:
    """Where a group stands; partitions are assigned by hand, so that it is not joined."""
    consumer = AIOKafkaConsumer(
        **_options(settings),
        group_id=group,
        isolation_level="read_committed",
        enable_auto_commit=False,
        check_crcs=settings.kafka.check_crcs,
    )
    async with started(consumer):
        consumer.assign(list(tps))
        beginnings = await consumer.beginning_offsets(tps)
        ends = await consumer.end_offsets(tps)
        # To look on at a group that works: some of its transactions are always open.
        committed = await committed_offsets(consumer, tps, settled=False)
        positions = [
            Position(tp.topic, tp.partition, committed.get(tp), beginnings[tp], ends[tp])
            for tp in tps
        ]
        unread = await _unread(consumer, positions)
        return tuple(
            replace(one, unread=unread.get((one.topic, one.partition))) for one in positions
        )


async def _unread(
    consumer: AIOKafkaConsumer, positions: Sequence[Position]
) -> Mapping[tuple[str, int], int]:
    """Count the records that a group has not read, where that is quickly done."""
    short = {
        TopicPartition(one.topic, one.partition): one
        for one in positions
        if 0 < one.offsets <= _COUNTED
    }
    if not short:
        return {}
    counts = dict.fromkeys(short, 0)
    left = set(short)
    consumer.assign(list(short))
    for tp, one in short.items():
        consumer.seek(tp, one.start)
    try:
        async with asyncio.timeout(_COUNT_SECONDS):
            while left:
                for tp, records in (await consumer.getmany(*left, timeout_ms=_POLL_MS)).items():
                    counts[tp] += sum(record.offset < short[tp].end for record in records)
                # Past a marker too, which is no record.
                left = {tp for tp in left if await consumer.position(tp) < short[tp].end}
    except Exception as error:  # noqa: BLE001 - what cannot be read is not counted
        logger.debug("counting was given up: %r", error)
    return {(tp.topic, tp.partition): counts[tp] for tp in counts if tp not in left}


async def _members(admin: AIOKafkaAdminClient, group: str) -> int | None:
    try:
        described = await admin.describe_consumer_groups([group])
    except IncompatibleBrokerVersion:
        return None
    return sum(len(one[_MEMBERS]) for answer in described for one in answer.groups)
