"""The producer side of a lane: batches of records and the transaction they go into."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

from aiokafka import AIOKafkaProducer

from turnstream.stream.role import LaneFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiokafka.client import AIOKafkaClient
    from aiokafka.structs import TopicPartition

    from turnstream.stream.handler import Headers
    from turnstream.stream.settings import StreamSettings

MAX_BATCH_BYTES: Final = 262_144
"""Bytes per record batch: below the 1 MiB a topic takes, and few batches per transaction."""

BATCH_ROOM: Final = 1024
"""Bytes of a batch beside the key and the value of its one record: framing and headers, which are
few and short. Without it a record as large as readers accept would be refused by its topic."""

RETRY_BACKOFF_MS: Final = 5
"""Kafka 4 answers the first produce of a transaction with a retriable error while it verifies the
partition; aiokafka's default of 100 ms would then be the latency of every event."""

_NODE_LOOKS: Final = 20
_NODE_SECONDS: Final = 0.5
"""A broker that has just come back names no node until it has registered, a few seconds later. Past
ten seconds a restart finds out more than waiting does."""


class BatchBuilder(Protocol):
    """The part of aiokafka's batch builder that is used."""

    def append(
        self, *, timestamp: int | None, key: bytes | None, value: bytes | None, headers: list[Any]
    ) -> object | None:
        """Add a record; `None` if the batch is full."""
        ...

    def record_count(self) -> int:
        """Return the number of records."""
        ...


class TransactionalProducer(Protocol):
    """The part of aiokafka's transactional producer that a lane uses."""

    async def start(self) -> None:
        """Connect, fence the former owner of the transactional id, end its open transaction."""
        ...

    async def stop(self) -> None:
        """Disconnect."""
        ...

    async def begin_transaction(self) -> None:
        """Begin."""
        ...

    def create_batch(self) -> BatchBuilder:
        """Return an empty batch."""
        ...

    async def send_batch(
        self, batch: BatchBuilder, topic: str, *, partition: int
    ) -> asyncio.Future[Any]:
        """Queue a batch; the future ends when the broker has it."""
        ...

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int], group_id: str
    ) -> None:
        """Add the group's offsets to the transaction."""
        ...

    async def commit_transaction(self) -> None:
        """Commit."""
        ...


def lane_producer(partition: int, *, settings: StreamSettings) -> TransactionalProducer:
    """Return the producer of a lane, not started."""
    lane: TransactionalProducer = group_producer(str(partition), settings=settings)
    return lane


def group_producer(part: str, *, settings: StreamSettings) -> AIOKafkaProducer:
    """Return a producer with the transactional id ``<group>-<part>``, not started."""
    name = f"{settings.group}-{part}"
    producer = AIOKafkaProducer(
        bootstrap_servers=settings.bootstrap_servers,
        client_id=f"{settings.client_id}-{name}",
        transactional_id=name,
        transaction_timeout_ms=settings.transaction_timeout_ms,
        request_timeout_ms=settings.request_timeout_ms,
        retry_backoff_ms=RETRY_BACKOFF_MS,
        linger_ms=0,
        max_batch_size=MAX_BATCH_BYTES,
        max_request_size=settings.max_record_bytes + MAX_BATCH_BYTES,
        **settings.security.client_options(),
    )
    wait_for_nodes(producer.client, servers=settings.bootstrap_servers)
    return producer


def wait_for_nodes(client: AIOKafkaClient, *, servers: str) -> None:
    """Let a client's start wait until the brokers name a node.

    aiokafka takes an answer without any for a start, and then fails an assertion.

    Args:
        client: Not started; its start raises `LaneFailed` when none is named in time.
        servers: The brokers' addresses, for the message.
    """
    bootstrap = client.bootstrap

    async def named() -> None:
        await bootstrap()
        for _ in range(_NODE_LOOKS):
            if client.cluster.brokers():
                return
            await asyncio.sleep(_NODE_SECONDS)
            await client.force_metadata_update()
        if not client.cluster.brokers():
            message = f"the brokers at {servers} name no node yet; restart when they are up"
            raise LaneFailed(message)

    client.bootstrap = named


class Batches:
    """Records of one transaction, batched per topic partition in the order they were added.

    Built here and handed over whole, which costs a fraction of sending each record.
    """

    def __init__(self, producer: TransactionalProducer) -> None:
        self._producer = producer
        self._filling: dict[tuple[str, int], BatchBuilder] = {}
        self._full: list[tuple[str, int, BatchBuilder]] = []
        self._sent: list[tuple[str, BatchBuilder, asyncio.Future[Any]]] = []
        self.records = 0

    def add(
        self,
        topic: str,
        *,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
    ) -> None:
        """Add a record."""
        self.records += 1
        place = (topic, partition)
        batch = self._filling.get(place)
        fields = list(headers)
        if batch is None:
            batch = self._filling[place] = self._producer.create_batch()
        elif batch.append(timestamp=None, key=key, value=value, headers=fields) is not None:
            return
        else:
            self._full.append((topic, partition, batch))
            batch = self._filling[place] = self._producer.create_batch()
        # An empty batch takes a record of any size.
        batch.append(timestamp=None, key=key, value=value, headers=fields)

    async def send(self) -> list[asyncio.Future[Any]]:
        """Hand all batches over; return what ends when the broker has each.

        aiokafka commits a transaction although one of its batches was refused: look at every
        result before the commit.
        """
        filling = [(topic, partition, batch) for (topic, partition), batch in self._filling.items()]
        for topic, partition, batch in (*self._full, *filling):
            future = await self._producer.send_batch(batch, topic, partition=partition)
            self._sent.append((topic, batch, future))
        return [future for _, _, future in self._sent]

    def refused(self) -> str | None:
        """Return the topic of a batch that the broker did not take, of those it has answered."""
        for topic, _, future in self._sent:
            if future.done() and not future.cancelled() and future.exception() is not None:
                return topic
        return None

    def end(self, topic: str) -> int | None:
        """Return the offset after the last record sent to a topic, once all are there.

        `None` where it is not known: the broker does not tell it of a batch that it got twice.
        """
        last: int | None = None
        for to, batch, future in self._sent:
            if to == topic:
                written = future.result()
                if written is None or written.offset < 0:
                    return None
                last = max(last or 0, written.offset + batch.record_count())
        return last
