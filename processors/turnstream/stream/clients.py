"""Kafka clients for a short while."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiokafka.admin import AIOKafkaAdminClient

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.structs import TopicPartition


@asynccontextmanager
async def started(client: AIOKafkaConsumer | AIOKafkaProducer) -> AsyncGenerator[None]:
    """Start a client and stop it at the end.

    Its own context manager leaves a client open that could not be started, and complains of that
    in the log beside the error that matters.
    """
    try:
        await client.start()
        yield
    finally:
        await stopped(client)


async def stopped(client: AIOKafkaConsumer | AIOKafkaProducer) -> None:
    """Stop a client.

    While brokers are away, aiokafka lets out the cancellation of a task of its own. It would pass
    for one of the caller, who has an error to tell.
    """
    stopping = asyncio.ensure_future(client.stop())
    try:
        await asyncio.wait({stopping})
    except asyncio.CancelledError:
        stopping.cancel()
        raise
    if not stopping.cancelled():
        stopping.result()


async def partition_counts(
    options: Mapping[str, Any], *, request_timeout_ms: int
) -> dict[str, int]:
    """Every topic of a cluster with its number of partitions.

    All are asked for: asking by name would create them where that is automatic.

    Args:
        options: Where the cluster is, and how to be let in.
        request_timeout_ms: Time for each answer.

    Raises:
        aiokafka.errors.KafkaError: The cluster cannot be reached, or does not answer.
    """
    admin = AIOKafkaAdminClient(**options, request_timeout_ms=request_timeout_ms)
    try:
        await admin.start()
        described = await admin.describe_topics()
    finally:
        await admin.close()
    return {one["topic"]: len(one["partitions"]) for one in described}


async def finds_times(
    consumer: AIOKafkaConsumer,
    *,
    beginnings: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> bool:
    """Tell whether the broker finds records by their time; the embedded one does not.

    It answers as if nothing came after any time. So where there are records, the first of them must
    be found.
    """
    filled: Sequence[TopicPartition] = [tp for tp in ends if beginnings[tp] < ends[tp]]
    if not filled:
        return True
    found = await consumer.offsets_for_times(dict.fromkeys(filled, 0))
    return all(at is not None for at in found.values())
