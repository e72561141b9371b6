"""The real Kafka of a run: the cluster that the environment names, or one started for the run."""

import asyncio
import logging
import os
import uuid
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.structs import ConsumerRecord

from turnstream.config import Settings
from turnstream.core.events import ConversationTurn
from turnstream.demo.kafka import KafkaBroker
from turnstream.stream.codec import Codec
from turnstream.stream.partitioner import partitioner
from turnstream.stream.topics import DEAD_LETTERS, wanted_topics

# New topics have no leader for a moment; the producer says so each time it tries again.
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


@contextmanager
def kafka() -> Iterator[str]:
    """Give a broker's address."""
    named = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if named:
        yield named
        return
    with KafkaBroker() as broker:
        yield broker.bootstrap


def fresh_prefix(name: str) -> str:
    """Return a prefix that no other run has."""
    return f"bench-{name}-{uuid.uuid4().hex[:8]}."


@asynccontextmanager
async def admin(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    """Give a connected administration client."""
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def create_topics(
    settings: Settings, *, stamped: Sequence[str] = (), only: Collection[str] | None = None
) -> None:
    """Create a deployment's topics.

    Args:
        settings: The deployment.
        stamped: Physical topics whose records get the broker's time of their arrival.
        only: Physical topics that are needed, besides those of dead letters; all by default.
    """
    topics = [
        NewTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            topic_configs={
                **topic.settings,
                **({"message.timestamp.type": "LogAppendTime"} if topic.name in stamped else {}),
            },
        )
        for topic in wanted_topics(settings)
        if only is None or topic.name.removesuffix(DEAD_LETTERS) in only
    ]
    async with admin(settings.kafka.bootstrap_servers) as client:
        await client.create_topics(topics)
        wanted = {topic.name for topic in topics}
        while wanted - {one["topic"] for one in await client.describe_topics()}:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def delete_topics(bootstrap: str, prefix: str) -> None:
    """Delete every topic of a run, so that runs do not slow each other down."""
    async with admin(bootstrap) as client:
        named = [topic for topic in await client.list_topics() if prefix in topic]
        await client.delete_topics(named)


async def produce(settings: Settings, turns: Sequence[ConversationTurn]) -> None:
    """Send turns as a gateway would: Avro, keyed, on their key's partition, in order."""
    codec, choose = Codec(), partitioner(settings.turns.partitioner)
    topic = settings.topics.name("conversation.turns")
    # Idempotent: a turn sent again after a timeout would be one turn more than was checked for.
    producer = AIOKafkaProducer(
        bootstrap_servers=settings.kafka.bootstrap_servers,
        enable_idempotence=True,
        linger_ms=5,
        max_batch_size=262_144,
    )
    await producer.start()
    try:
        sent = []
        for turn in turns:
            key = turn.conversation_id.encode()
            value = codec.encode(turn)
            partition = choose(key, settings.partitions)
            sent.append(await producer.send(topic, value, key=key, partition=partition))
        await asyncio.gather(*sent)
    finally:
        await producer.stop()


async def ends(bootstrap: str, topics: Sequence[str], partitions: int) -> dict[str, int]:
    """Return the sum of the end offsets of each topic."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    try:
        places = [TopicPartition(topic, one) for topic in topics for one in range(partitions)]
        found: Mapping[TopicPartition, int] = await consumer.end_offsets(places)
        return {
            topic: sum(end for place, end in found.items() if place.topic == topic)
            for topic in topics
        }
    finally:
        await consumer.stop()


async def read_all(bootstrap: str, topic: str, partitions: int) -> list[ConsumerRecord[Any, Any]]:
    """Return every committed record of a topic, each partition in its order."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=50,
    )
    await consumer.start()
    try:
        places = [TopicPartition(topic, one) for one in range(partitions)]
        until = await consumer.end_offsets(places)
        consumer.assign(places)
        for place in places:
            consumer.seek(place, 0)
        found: list[ConsumerRecord[Any, Any]] = []
        left = {place for place in places if until[place] > 0}
        while left:
            for records in (await consumer.getmany(*left, timeout_ms=200)).values():
                found += records
            left = {place for place in left if await consumer.position(place) < until[place]}
        return found
    finally:
        await consumer.stop()
