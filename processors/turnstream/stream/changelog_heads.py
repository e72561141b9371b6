"""The first record of each changelog partition: what a start reads there, and what it writes.

Each partition begins with what the changelog says of itself (`imprint`), from the transaction on in
which the group's first offsets are committed. So a group that has offsets and a changelog that is
empty do not belong together: the changelog was made anew, and what it knew would be done again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from aiokafka.structs import TopicPartition

from turnstream.stream.imprint import IMPRINT_KEY, check_imprint
from turnstream.stream.role import LaneFailed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    from turnstream.stream.settings import StreamSettings

_POLL_MS: Final = 500


async def held_partitions(
    consumer: AIOKafkaConsumer, *, partitions: int, settings: StreamSettings
) -> frozenset[int]:
    """Check what the changelog says of itself, in the first record of each partition.

    Who gets a partition looks at all of its records (`Ownership`). But a partition that was added
    has none: its owner would take up conversations whose state is in another one.

    Returns:
        Its partitions that hold records.

    Raises:
        StartRefused: It is not for this program or for this number of partitions.
        LaneFailed: It cannot be read.
    """
    held: set[int] = set()
    tps = [TopicPartition(settings.changelog, partition) for partition in range(partitions)]
    consumer.assign(tps)
    beginnings = await consumer.beginning_offsets(tps)
    ends = await consumer.end_offsets(tps)
    for tp in tps:
        consumer.seek(tp, beginnings[tp])
    unread = {tp for tp in tps if beginnings[tp] < ends[tp]}
    try:
        async with asyncio.timeout(settings.request_timeout_ms / 1000):
            while unread:
                fetched = await consumer.getmany(*unread, timeout_ms=_POLL_MS)
                held.update(tp.partition for tp in fetched)
                for tp, (first, *_) in fetched.items():
                    if first.key == IMPRINT_KEY:
                        check_imprint(
                            first.value,
                            changelog=tp.topic,
                            partition=tp.partition,
                            partitions=partitions,
                        )
                # Control markers move the position, and are no records.
                unread -= fetched.keys()
                unread = {tp for tp in unread if await consumer.position(tp) < ends[tp]}
    except TimeoutError as error:
        listed = ", ".join(str(tp.partition) for tp in sorted(unread))
        raise LaneFailed(
            f"changelog {settings.changelog!r} gave nothing of partitions {listed} within "
            f"{settings.request_timeout_ms / 1000:g} s"
        ) from error
    return frozenset(held)


async def write_imprint(
    producer: AIOKafkaProducer, imprint: bytes, *, changelog: str, partitions: Iterable[int]
) -> None:
    """Write what a changelog says of itself; returns when the broker has it in every partition."""
    await asyncio.gather(
        *(
            producer.send_and_wait(changelog, imprint, key=IMPRINT_KEY, partition=partition)
            for partition in partitions
        )
    )
