"""Checks before a role joins its group: topics that fit together, and offsets to start from."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, ProducerFenced, TopicAuthorizationFailedError
from aiokafka.structs import TopicPartition

from turnstream.stream import failpoints
from turnstream.stream.changelog_heads import held_partitions, write_imprint
from turnstream.stream.clients import finds_times, started, stopped
from turnstream.stream.deadletter import DeadLetterTopic
from turnstream.stream.imprint import imprint_of, moved
from turnstream.stream.offset_fetch import any_committed
from turnstream.stream.outage import is_outage
from turnstream.stream.permissions import missing_right, refusing
from turnstream.stream.reachability import why_unreachable
from turnstream.stream.restore import check_store
from turnstream.stream.resuming import changelog_lost
from turnstream.stream.role import LaneFailed, StartRefused
from turnstream.stream.topic_ids import topic_ids
from turnstream.stream.transaction import (
    BATCH_ROOM,
    MAX_BATCH_BYTES,
    group_producer,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping, Sequence

    from turnstream.stream.settings import StreamSettings

logger = logging.getLogger(__name__)

_DEAD_LETTER_ROOM: Final = 64 * 1024
"""What a dead-letter topic takes beyond a source record when the broker does not tell its limit."""

_FIRST_BYTES: Final = 16 * 1024
"""Of each changelog partition, to see its first record; the broker gives a whole batch all the
same. With Kafka's default, the start of a role would fetch a MiB of each."""

_NOT_ALLOWED: Final = TopicAuthorizationFailedError.errno
"""Said of a topic that this user may not see, whether there is one or not."""

_ATTEMPTS: Final = 10
_ATTEMPT_SECONDS: Final = 0.2
"""Processes that start together fence one another; each waits a little longer every time, up to
nine seconds in all. That none gets through is a fault that must not go on unnoticed."""


@dataclass(frozen=True, slots=True)
class Found:
    """The topics of a stream, as they are."""

    dead_letters: Mapping[str, DeadLetterTopic]
    """Source topic to its dead-letter topic."""
    partitions: int
    """How many each source topic and the changelog have."""


async def check_start(settings: StreamSettings) -> Found:
    """Check the topics and commit the offsets that a new group starts from.

    Raises:
        StartRefused: The broker refuses this client, a topic is missing or has another partition
            count, a topic does not take what this role may write to it, the changelog is of a newer
            version, for another partition count, or empty though the group is not new, the group is
            new and nothing says where it starts, the broker does not allow this user what it takes,
            or local stores cannot be had.
        LaneFailed: The brokers are away, or the changelog cannot be read.
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
    await _reached(admin.start(), settings)
    try:
        topics = [*settings.sources, settings.changelog, *dead_letters.values()]
        with refusing(settings):
            counts = await _partition_counts(admin, topics=topics)
        partitions = _check_partition_counts(counts, settings=settings)
        largest = _largest_batches(settings, dead_letters=dead_letters.values())
        limits = await _message_limits(admin, topics=list(largest))
        _check_limits(limits, largest=largest)
    finally:
        await admin.close()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap_servers,
        client_id=f"{settings.client_id}-{settings.group}-start",
        group_id=settings.group,
        enable_auto_commit=False,
        isolation_level="read_committed",
        check_crcs=settings.check_crcs,
        max_partition_fetch_bytes=_FIRST_BYTES,
        request_timeout_ms=settings.request_timeout_ms,
        **settings.security.client_options(),
    )
    await _reached(consumer.start(), settings)
    try:
        with refusing(settings):
            held = await held_partitions(consumer, partitions=partitions, settings=settings)
            await _check_offsets(consumer, partitions=partitions, held=held, settings=settings)
    finally:
        await stopped(consumer)
    room = settings.max_record_bytes + _DEAD_LETTER_ROOM
    letters = {
        source: DeadLetterTopic(name, counts[name], limits.get(name, room))
        for source, name in dead_letters.items()
    }
    return Found(letters, partitions)


async def _reached(starting: Awaitable[None], settings: StreamSettings) -> None:
    try:
        await starting
    except (KafkaError, OSError) as error:
        options = {"bootstrap_servers": settings.bootstrap_servers}
        why = await why_unreachable(options | settings.security.client_options(), error)
        raise (StartRefused if why.lasting else LaneFailed)(str(why)) from error


async def _partition_counts(
    admin: AIOKafkaAdminClient, *, topics: Sequence[str]
) -> Mapping[str, int]:
    """Return the partition count of each topic, 0 for one that does not exist."""
    described = await admin.describe_topics(list(topics))
    hidden = [one["topic"] for one in described if one["error_code"] == _NOT_ALLOWED]
    if hidden:
        raise TopicAuthorizationFailedError(hidden)
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
            f"changelog {settings.changelog!r} was made for {counts[settings.changelog]} partitions"
        )
        raise StartRefused(moved(message, partitions))
    return partitions


async def _check_offsets(
    consumer: AIOKafkaConsumer,
    *,
    partitions: int,
    held: frozenset[int],
    settings: StreamSettings,
) -> None:
    """Commit where a new group starts, for every source partition, before anything is read.

    A group that had partitions before and has no offsets has lost them: brokers forget those of a
    group that was away for long (`offsets.retention.minutes`, a week by default). To start at the
    ends would pass over what came meanwhile; from earlier, the watermarks tell what was handled.
    """
    tps = [
        TopicPartition(topic, partition)
        for topic in settings.sources
        for partition in range(partitions)
    ]
    # Open transactions are not waited for: one of a process that crashed would only time out. To
    # commit where the group starts ends it.
    known = await _any_committed(consumer, tps, settled=False, settings=settings)
    if known and len(held) == partitions:
        return
    if not known:
        _start_from(settings, held=held)
    for attempt in range(_ATTEMPTS):
        try:
            await _commit_first(consumer, tps, partitions=partitions, settings=settings)
        except ProducerFenced:
            # Another process of the group starts at the same time, and goes first.
            await asyncio.sleep(attempt * _ATTEMPT_SECONDS)
            held = await held_partitions(consumer, partitions=partitions, settings=settings)
            if len(held) == partitions and await _any_committed(
                consumer, tps, settled=False, settings=settings
            ):
                return
        except KafkaError as error:
            message = f"cannot commit where group {settings.group!r} starts: {error!r}"
            if (remedy := missing_right(error, settings=settings)) is not None:
                message = f"{message}: {remedy}"
            kind = LaneFailed if is_outage(error) else StartRefused
            raise kind(message) from error
        else:
            return
    raise LaneFailed(
        f"other processes of group {settings.group!r} kept starting: none could commit where the "
        f"group starts"
    )


def _start_from(settings: StreamSettings, *, held: frozenset[int]) -> str:
    """Return where a group without offsets starts.

    Raises:
        StartRefused: Nothing says where, or what came since its last commit would be passed over.
    """
    if settings.start_from is None:
        message = (
            f"group {settings.group!r} has no committed offsets: set start_from to `latest`, "
            f"`earliest` or a time such as `2026-01-31T12:00:00Z`; nobody wants old turns answered "
            f"by accident"
        )
        raise StartRefused(message)
    if held and settings.start_from == "latest":
        message = (
            f"group {settings.group!r} has no committed offsets, yet its changelog "
            f"{settings.changelog!r} holds records: the offsets expired (offsets.retention.minutes "
            f"of the broker) or were deleted, and `start_from: latest` would pass over what came "
            f"since. Set start_from to `earliest` or to a time before that; what was handled "
            f"already is passed over. To begin anew instead, delete the changelog and run "
            f"`turnstream topics apply`"
        )
        raise StartRefused(message)
    return settings.start_from


async def _commit_first(
    consumer: AIOKafkaConsumer,
    tps: Sequence[TopicPartition],
    *,
    partitions: int,
    settings: StreamSettings,
) -> None:
    """Commit where the group starts and mark its changelog, unless another process has done it.

    In a transaction, because of two processes that start at the same time: each looks, finds
    nothing and commits, and what was sent between the two commits would be passed over. The
    transactional id fences whoever has looked before and has not committed yet, and its producer
    starts only when what was committed under it can be read in every partition. The commit may take
    a moment to get to the group's offsets: who takes a partition over asks for settled ones.

    Partitions that are empty although others are not are those of a group of an earlier version,
    which marked each with its first record.

    Raises:
        StartRefused: The group has committed offsets, and nothing is in its changelog.
    """
    producer = group_producer("start", settings=settings)
    async with started(producer):
        known = await _any_committed(consumer, tps, settled=True, settings=settings)
        held = await held_partitions(consumer, partitions=partitions, settings=settings)
        if known and not held:
            raise StartRefused(changelog_lost(settings))
        unmarked = frozenset(range(partitions)) - held
        offsets: Mapping[TopicPartition, int] = {}
        if not known:
            start_from = _start_from(settings, held=held)
            consumer.assign(tps)
            offsets = await _resolve(consumer, tps, start_from=start_from)
        elif not unmarked:
            return
        topics = await topic_ids(consumer._client, [*settings.sources, settings.changelog])
        async with producer.transaction():
            # Before any record: aiokafka complains in the log of those that a fenced producer has.
            if offsets:
                await producer.send_offsets_to_transaction(offsets, settings.group)
            await write_imprint(
                producer,
                imprint_of(partitions, topics),
                changelog=settings.changelog,
                partitions=sorted(unmarked),
            )
            await failpoints.reach("before_first_commit")
        await failpoints.reach("after_first_commit")
    if offsets:
        logger.info("group %s starts from %s: %s", settings.group, settings.start_from, offsets)


async def _any_committed(
    consumer: AIOKafkaConsumer,
    tps: Sequence[TopicPartition],
    *,
    settled: bool,
    settings: StreamSettings,
) -> bool:
    try:
        async with asyncio.timeout(settings.request_timeout_ms / 1000):
            return await any_committed(consumer, tps, settled=settled)
    except TimeoutError as error:
        # The last answer that it was asked again after, if there was any: see `any_committed`.
        last = error.__cause__ and error.__cause__.__cause__
        raise LaneFailed(
            f"the coordinator of group {settings.group!r} did not tell what the group has "
            f"committed within {settings.request_timeout_ms / 1000:g} s"
            f"{'' if last is None else f', and said last: {last!r}'}"
        ) from error


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
    beginnings = await consumer.beginning_offsets(tps)
    if not await finds_times(consumer, beginnings=beginnings, ends=ends):
        # The embedded broker: "nothing after that time" would pass over all that is there.
        raise StartRefused(
            f"start_from is {start_from!r}, but the broker does not find records by their time: "
            "use `latest` or `earliest`"
        )
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


def _largest_batches(settings: StreamSettings, *, dead_letters: Iterable[str]) -> Mapping[str, int]:
    """Return the topics that are written, each with the largest batch (bytes) it may be sent.

    A dead letter that does not fit becomes a pointer, but letters share batches like all records.
    """
    largest = dict.fromkeys(settings.writes or (), settings.max_publication_bytes + BATCH_ROOM)
    largest[settings.changelog] = settings.max_record_bytes + BATCH_ROOM
    for topic in dead_letters:
        largest.setdefault(topic, 0)
    return {topic: max(each, MAX_BATCH_BYTES) for topic, each in largest.items()}


def _check_limits(limits: Mapping[str, int], *, largest: Mapping[str, int]) -> None:
    """Refuse the start where a topic takes less than it may be sent.

    The broker would refuse the transaction, and with it every one that tries again.
    """
    small = [
        f"topic {topic} takes {limits[topic]:,} bytes, this role writes up to {needed:,}"
        for topic, needed in largest.items()
        if limits.get(topic, needed) < needed
    ]
    if small:
        message = f"{'; '.join(small)}: raise max.message.bytes of each"
        raise StartRefused(message)


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
