"""Reads a shadow's comparisons from their topic."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from turnstream.core.errors import TurnstreamError
from turnstream.core.publications import ShadowComparison
from turnstream.stream.clients import finds_times, partition_counts
from turnstream.stream.codec import MalformedValue
from turnstream.stream.handler import UnknownSchema
from turnstream.stream.reachability import why_unreachable
from turnstream.stream.registry import codec_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnstream.config import Settings
    from turnstream.stream.codec import Codec

COMPARISONS: Final = "shadow.comparisons"
"""Logical name of the topic."""

_REQUEST_MS: Final = 20_000
"""A broker that accepts and does not answer must not hang the command for aiokafka's 40 s."""

_POLL_MS: Final = 50
"""Nothing is given at the end of a transaction, and a longer wait for it would be noticed."""

_STALLED_SECONDS: Final = 30.0
"""A partition without a leader gives nothing and no error; the command must not wait for ever."""


class ComparisonsUnavailable(TurnstreamError):
    """The comparisons cannot be read; the message says what to change."""


async def read_comparisons(
    settings: Settings,
    *,
    since: int | None,
    until: int | None,
    take: Callable[[ShadowComparison], None],
) -> int:
    """Give every committed comparison that was written in a time; none is kept here.

    Args:
        settings: The deployment's.
        since: Milliseconds UTC, the first that counts; from the beginning when None.
        until: Milliseconds UTC, the first that does not; to what is there now when None.
        take: Called with each, in the order of its partition.

    Returns:
        How many records are not understood.

    Raises:
        ComparisonsUnavailable: There is no broker, no topic, or it does not answer any more.
    """
    topic = settings.topics.name(COMPARISONS)
    options: dict[str, Any] = settings.kafka.client_options()
    consumer = AIOKafkaConsumer(
        **options,
        check_crcs=settings.kafka.check_crcs,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        request_timeout_ms=_REQUEST_MS,
    )
    try:
        try:
            partitions = await _partitions(topic, options)
            await consumer.start()
        except (KafkaError, OSError) as error:
            raise ComparisonsUnavailable(str(await why_unreachable(options, error))) from error
        codec = codec_for(settings)
        return await _read(consumer, partitions, codec=codec, since=since, until=until, take=take)
    except (KafkaError, OSError) as error:
        where = settings.kafka.bootstrap_servers
        raise ComparisonsUnavailable(
            f"{topic!r} at {where} cannot be read ({error!r}): check that the broker runs, and "
            "that the user may read the topic"
        ) from error
    finally:
        await consumer.stop()


async def _partitions(topic: str, options: dict[str, Any]) -> list[TopicPartition]:
    counts = await partition_counts(options, request_timeout_ms=_REQUEST_MS)
    if not counts.get(topic):
        raise ComparisonsUnavailable(
            f"there is no topic {topic!r}; create it with `turnstream topics apply`"
        )
    return [TopicPartition(topic, partition) for partition in range(counts[topic])]


async def _read(
    consumer: AIOKafkaConsumer,
    tps: list[TopicPartition],
    *,
    codec: Codec,
    since: int | None,
    until: int | None,
    take: Callable[[ShadowComparison], None],
) -> int:
    consumer.assign(tps)
    left = await _assign(consumer, tps, since)
    unread, passed_at = 0, asyncio.get_running_loop().time()
    while left:
        batches = await consumer.getmany(timeout_ms=_POLL_MS)
        for tp, records in batches.items():
            for record in records:
                early = since is not None and record.timestamp < since
                late = until is not None and record.timestamp >= until
                if early or late or record.offset >= left[tp]:
                    continue
                comparison = await _decoded(codec, record.value)
                if comparison is None:
                    unread += 1
                else:
                    take(comparison)
        now = asyncio.get_running_loop().time()
        if batches:
            passed_at = now
        # The ends of transactions take offsets too: only the position passes them.
        for tp, end in list(left.items()):
            if await consumer.position(tp) >= end:
                del left[tp]
                consumer.pause(tp)
                passed_at = now
        if left and now - passed_at > _STALLED_SECONDS:
            where = ", ".join(f"{tp.topic}/{tp.partition}" for tp in left)
            raise ComparisonsUnavailable(f"nothing more was given of {where}")
    return unread


async def _assign(
    consumer: AIOKafkaConsumer, tps: list[TopicPartition], since: int | None
) -> dict[TopicPartition, int]:
    """Begin to read; where to stop, for the partitions with something to read."""
    first, last = await consumer.beginning_offsets(tps), await consumer.end_offsets(tps)
    # Where times are not found all are read, and the records' own times decide.
    if since is not None and await finds_times(consumer, beginnings=first, ends=last):
        found = await consumer.offsets_for_times(dict.fromkeys(tps, max(0, since)))
        first |= {tp: last[tp] if at is None else at.offset for tp, at in found.items()}
    left: dict[TopicPartition, int] = {}
    for tp in tps:
        if first[tp] < last[tp]:
            consumer.seek(tp, first[tp])
            left[tp] = last[tp]
        else:
            consumer.pause(tp)
    return left


async def _decoded(codec: Codec, value: bytes | None) -> ShadowComparison | None:
    """None for what is no comparison that we understand."""
    if value is None:
        return None
    try:
        try:
            return codec.decode_as(ShadowComparison, value)
        except UnknownSchema as unknown:
            # A newer writer's, or a registry's id: looked up once, then known.
            await codec.resolve(unknown.fingerprint)
            return codec.decode_as(ShadowComparison, value)
    except (MalformedValue, UnknownSchema):
        return None
