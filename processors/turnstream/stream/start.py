"""Checks before a role joins its group: topics that fit together, and offsets to start from."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from turnstream.stream.deadletter import DeadLetterTopic
from turnstream.stream.restore import check_store
from turnstream.stream.role import StartRefused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from turnstream.stream.settings import StreamSettings

logger = logging.getLogger(__name__)

_DEAD_LETTER_ROOM: Final = 64 * 1024
"""What a dead-letter topic takes beyond a source record when the broker does not tell its limit."""


async def check_start(settings: StreamSettings) -> Mapping[str, DeadLetterTopic]:
    """Check the topics and commit the offsets that a new group starts from.

    Returns:
        Source topic to its dead-letter topic.

    Raises:
        StartRefused: A topic is missing or has another partition count, the group is new and
            nothing says where it starts, or local stores cannot be had.
    """
    check_store(settings)
    dead_letters = {
        source: settings.dead_letter_topic or source + settings.dlq_suffix
        for source in settings.sources
    }
    admin = AIOKafkaAdminClient(
        bootstrap_servers=settings.bootstrap_servers,
        client_id=f"{settings.client_id}-{settings.group}-start",
        request_timeout_ms=settings.request_timeout_ms,
        **settings.security.client_options(),
    )
    await admin.start()
    try:
        topics = [*settings.sources, settings.changelog, *dead_letters.values()]
        counts = await _partition_counts(admin, topics=topics)
        partitions = _check_partition_counts(counts, settings=settings)
        limits = await _message_limits(admin, topics=list({*dead_letters.values()}))
    finally:
        await admin.close()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap_servers,
        client_id=f"{settings.client_id}-{settings.group}-start",
        group_id=settings.group,
        enable_auto_commit=False,
        isolation_level="read_committed",
        check_crcs=settings.check_crcs,
        request_timeout_ms=settings.request_timeout_ms,
        **settings.security.client_options(),
    )
    await consumer.start()
    try:
        await _check_offsets(consumer, partitions=partitions, settings=settings)
    finally:
        await consumer.stop()
    room = settings.max_record_bytes + _DEAD_LETTER_ROOM
    return {
        source: DeadLetterTopic(name, counts[name], limits.get(name, room))
        for source, name in dead_letters.items()
    }


async def _partition_counts(
    admin: AIOKafkaAdminClient, *, topics: Sequence[str]
) -> Mapping[str, int]:
    """Return the partition count of each topic, 0 for one that does not exist."""
    described = await admin.describe_topics(list(topics))
    return {topic["topic"]: len(topic["partitions"]) for topic in described}


def _check_partition_counts(counts: Mapping[str, int], *, settings: StreamSettings) -> int:
    missing = [topic for topic, count in counts.items() if not count]
    if missing:
        listed = ", ".join(missing)
        message = f"topics do not exist: {listed}; create them with `turnstream topics apply`"
        raise StartRefused(message)
    sources = {topic: counts[topic] for topic in settings.sources}
    if len(set(sources.values())) > 1:
        listed = ", ".join(f"{topic} has {count}" for topic, count in sources.items())
        message = f"source topics must have the same number of partitions: {listed}"
        raise StartRefused(message)
    partitions = counts[settings.sources[0]]
    if counts[settings.changelog] != partitions:
        message = (
            f"changelog {settings.changelog!r} was made for {counts[settings.changelog]} "
            f"partitions, the source topics have {partitions}: keys have moved. Migrate the state: "
            f"stop the group, copy the changelog into a topic with {partitions} partitions by key, "
            f"and name it here"
        )
        raise StartRefused(message)
    return partitions


async def _check_offsets(
    consumer: AIOKafkaConsumer, *, partitions: int, settings: StreamSettings
) -> None:
    """Commit where a new group starts, for every source partition, before anything is read."""
    tps = [
        TopicPartition(topic, partition)
        for topic in settings.sources
        for partition in range(partitions)
    ]
    if await _any_committed(consumer, tps):
        return
    if settings.start_from is None:
        message = (
            f"group {settings.group!r} has no committed offsets: set start_from to `latest`, "
            f"`earliest` or a time such as `2026-01-31T12:00:00Z`; nobody wants old turns answered "
            f"by accident"
        )
        raise StartRefused(message)
    consumer.assign(tps)
    offsets = await _resolve(consumer, tps, start_from=settings.start_from)
    try:
        await consumer.commit(offsets)
    except KafkaError as error:
        # Another process was first: its members make the group refuse a commit from outside.
        if not await _any_committed(consumer, tps):
            message = f"cannot commit where group {settings.group!r} starts: {error!r}"
            raise StartRefused(message) from error
        return
    logger.info("group %s starts from %s: %s", settings.group, settings.start_from, offsets)


async def _any_committed(consumer: AIOKafkaConsumer, tps: Sequence[TopicPartition]) -> bool:
    for tp in tps:
        if await consumer.committed(tp) is not None:
            return True
    return False


async def _resolve(
    consumer: AIOKafkaConsumer, tps: Sequence[TopicPartition], *, start_from: str
) -> Mapping[TopicPartition, int]:
    if start_from == "earliest":
        found: Mapping[TopicPartition, int] = await consumer.beginning_offsets(tps)
        return found
    ends: Mapping[TopicPartition, int] = await consumer.end_offsets(tps)
    if start_from == "latest":
        return ends
    at = start_time_ms(start_from)
    after = await consumer.offsets_for_times(dict.fromkeys(tps, at))
    return {tp: ends[tp] if (hit := after.get(tp)) is None else hit.offset for tp in tps}


def start_time_ms(text: str) -> int:
    """Return the time a `start_from` names, milliseconds since the epoch; UTC if it has no zone.

    Raises:
        StartRefused: It is not a time.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        message = f"start_from is {text!r}: use `latest`, `earliest` or an ISO 8601 time"
        raise StartRefused(message) from error
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return int(at.timestamp() * 1000)


async def _message_limits(
    admin: AIOKafkaAdminClient, *, topics: Sequence[str]
) -> Mapping[str, int]:
    """Return `max.message.bytes` of the topics, as far as the broker tells."""
    limits: dict[str, int] = {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
    try:
        for response in await admin.describe_configs(resources):
            for resource in response.resources:
                error_code, topic, entries = resource[0], resource[3], resource[4]
                for entry in entries:
                    if not error_code and entry[0] == "max.message.bytes":
                        limits[topic] = int(entry[1])
    except Exception as error:  # noqa: BLE001 - a broker without the request: the default holds
        logger.info("the broker does not tell max.message.bytes: %r", error)
    return limits
