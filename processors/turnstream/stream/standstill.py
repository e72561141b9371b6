"""Which groups stand before a record that names a schema nobody has published."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from turnstream.config import Settings
from turnstream.core.errors import TurnstreamError
from turnstream.stream.clients import started
from turnstream.stream.codec import Codec
from turnstream.stream.contracts import EVENTS
from turnstream.stream.groups import GroupView, Position
from turnstream.stream.handler import UnknownSchema
from turnstream.stream.registry import codec_for

_READ_SECONDS: Final = 2.0
"""For the next records of one group. Behind markers alone there is none to wait for."""

_POLL_MS: Final = 100


@dataclass(frozen=True, slots=True)
class Standstill:
    """A partition that waits for a schema."""

    position: Position
    schema: str
    """Fingerprint, or `id:` and a registry's number, as `refused_schemas` takes it."""


async def standstills_of(
    settings: Settings, views: Sequence[GroupView]
) -> Mapping[str, tuple[Standstill, ...]]:
    """Look at the record that each group reads next; name of a group to where it stands.

    Raises:
        aiokafka.errors.KafkaError: The cluster cannot be reached, or does not allow the question.
    """
    codec = codec_for(settings)
    events = {settings.topics.name(topic): topic for topic in EVENTS}
    found: dict[str, tuple[Standstill, ...]] = {}
    consumer = AIOKafkaConsumer(
        **settings.kafka.client_options(),
        isolation_level="read_committed",
        enable_auto_commit=False,
        check_crcs=settings.kafka.check_crcs,
    )
    async with started(consumer):
        for view in views:
            behind = {
                TopicPartition(one.topic, one.partition): one
                for one in view.positions
                if one.committed is not None and one.lag and one.topic in events
            }
            values = await _next_values(consumer, behind) if behind else {}
            stands = [
                Standstill(behind[tp], schema)
                for tp, value in values.items()
                if (schema := await _unknown(codec, events[tp.topic], value)) is not None
            ]
            if stands:
                found[view.name] = tuple(stands)
    return found


async def _next_values(
    consumer: AIOKafkaConsumer, behind: Mapping[TopicPartition, Position]
) -> Mapping[TopicPartition, bytes]:
    values: dict[TopicPartition, bytes] = {}
    left = set(behind)
    consumer.assign(list(behind))
    for tp, one in behind.items():
        consumer.seek(tp, one.start)
    try:
        async with asyncio.timeout(_READ_SECONDS):
            while left:
                batches: Mapping[TopicPartition, Sequence[Any]] = await consumer.getmany(
                    *left, timeout_ms=_POLL_MS
                )
                for tp, records in batches.items():
                    values[tp] = records[0].value or b""
                    left.discard(tp)
    except TimeoutError:
        pass
    return values


async def _unknown(codec: Codec, topic: str, value: bytes) -> str | None:
    """The schema that a value names, if it is known nowhere."""
    try:
        codec.decode(topic, value)
    except UnknownSchema as unknown:
        return None if await codec.resolve(unknown.fingerprint) else unknown.fingerprint
    except TurnstreamError:
        # A dead letter, which holds nobody up.
        return None
    return None
