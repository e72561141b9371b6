"""Reads the committed state of lanes from the changelog."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from turnstream.stream.handler import Record
    from turnstream.stream.settings import StreamSettings

_STALL_SECONDS: Final = 60.0
"""Time without a single new offset after which a restore is given up: a broker that answers with
nothing would otherwise leave the partitions without an owner that works."""

_POLL_MS: Final = 500


@dataclass(slots=True)
class RestoredState:
    """The committed state of one lane."""

    records: dict[bytes, bytes] = field(default_factory=dict)
    """Last value of each key alive."""
    read: int = 0
    """Records read, older values and tombstones included."""
    seconds: float = 0.0

    def apply(self, records: Iterable[Record]) -> None:
        """Take over changelog records in their order."""
        for record in records:
            self.read += 1
            key = record.key
            if key is None:
                continue
            if record.value is None:
                self.records.pop(key, None)
            else:
                self.records[key] = record.value


async def restore(
    partitions: Sequence[int], *, settings: StreamSettings
) -> Mapping[int, RestoredState]:
    """Read the changelog partitions from their start to their end.

    The end is a position, not a record: control markers occupy offsets and are never delivered.
    Call it only with the lanes fenced: nobody else can then add to these partitions.

    Raises:
        TimeoutError: The broker gave nothing for a minute.
    """
    began = time.monotonic()
    states = {partition: RestoredState() for partition in partitions}
    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap_servers,
        client_id=f"{settings.client_id}-{settings.group}-restore",
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        check_crcs=settings.check_crcs,
        request_timeout_ms=settings.request_timeout_ms,
        **settings.security.client_options(),
    )
    tps = [TopicPartition(settings.changelog, partition) for partition in partitions]
    await consumer.start()
    try:
        consumer.assign(tps)
        starts = await consumer.beginning_offsets(tps)
        ends = await consumer.end_offsets(tps)
        for tp in tps:
            consumer.seek(tp, starts[tp])
        behind = {tp for tp in tps if starts[tp] < ends[tp]}
        while behind:
            async with asyncio.timeout(_STALL_SECONDS):
                fetched: Mapping[TopicPartition, Sequence[Record]] = {}
                before = [await consumer.position(tp) for tp in behind]
                after = before
                while before == after:
                    fetched = await consumer.getmany(*behind, timeout_ms=_POLL_MS)
                    after = [await consumer.position(tp) for tp in behind]
                    if fetched:
                        break
            for tp, records in fetched.items():
                states[tp.partition].apply(records)
            behind = {tp for tp in behind if await consumer.position(tp) < ends[tp]}
    finally:
        await consumer.stop()
    for state in states.values():
        state.seconds = time.monotonic() - began
    return states
