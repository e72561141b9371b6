"""Reads the committed state of lanes from the changelog."""

from __future__ import annotations

import importlib
import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from turnstream.stream import failpoints
from turnstream.stream.changelog import identify
from turnstream.stream.clients import stopped
from turnstream.stream.imprint import IMPRINT_KEY
from turnstream.stream.role import StartRefused, now_ms
from turnstream.stream.store import MemoryRecords, Records
from turnstream.stream.store_folder import check_data_dir, remove_abandoned
from turnstream.stream.takeover import step

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from turnstream.stream.changelog import Changelog
    from turnstream.stream.handler import Record
    from turnstream.stream.settings import StreamSettings

_POLL_MS: Final = 500

_MARKER: Final = 1
"""Offsets behind a lane's last record when nothing was written since: its transaction's marker."""


@dataclass(slots=True)
class RestoredState:
    """The committed state of one lane."""

    records: Records = field(default_factory=MemoryRecords)
    """Last value of each key alive; whoever gets them closes them."""
    read: int = 0
    """Records of keys read, older values and tombstones included."""
    seconds: float = 0.0

    def apply(self, records: Iterable[Record], *, position: int) -> None:
        """Take over changelog records in their order; the next one is at `position` or later."""
        changes: dict[bytes, bytes | None] = {}
        imprint: bytes | None = None
        for record in records:
            if record.key == IMPRINT_KEY:
                imprint = record.value or b""
                continue
            self.read += 1
            if record.key is not None:
                changes[record.key] = record.value
        self.records.write(changes, position=position, imprint=imprint)

    def resume(self, *, beginning: int, end: int) -> int:
        """Return the offset to read from; what does not fit the changelog is removed first."""
        position = self.records.position
        if position is None:
            position = beginning
        if position > end:
            self.records.clear(
                f"it knows the changelog up to offset {position}, which now ends at {end}: the "
                f"topic was recreated, or lost records"
            )
            return beginning
        if position < beginning:
            self.records.clear(
                f"it knows the changelog up to offset {position}, which now begins at "
                f"{beginning}: what lay between was deleted unread"
            )
            return beginning
        doubt = self.records.doubt
        if doubt is not None and end - position > _MARKER:
            # Ordinary for a partition that was elsewhere for long.
            self.records.clear(doubt, level=logging.WARNING)
            return beginning
        return position


def check_store(settings: StreamSettings) -> None:
    """Check that local stores can be had, before anything joins the group.

    Raises:
        StartRefused: A package is missing, or the directory cannot be used.
    """
    if settings.store == "memory":
        return
    try:
        importlib.import_module("turnstream.stream.rocks_store")
    except ImportError as error:
        raise StartRefused(
            f"stream.store is 'rocksdict': install turnstream[rocksdb] ({error})"
        ) from error
    if (problem := check_data_dir(settings.data_dir or "")) is not None:
        raise StartRefused(f"stream.data_dir {settings.data_dir!r} {problem}")


async def restore(
    partitions: Sequence[int], *, settings: StreamSettings
) -> Mapping[int, RestoredState]:
    """Read the changelog partitions to their end: from the start, or from where a store ends.

    The end is a position, not a record: control markers occupy offsets and are never delivered.
    Call it only with the lanes fenced: nobody else can then add to these partitions.

    Raises:
        StoreFailed: A local store cannot be used; see `Records`.
        TakeoverStalled: The broker gave nothing for a minute.
    """
    began = time.monotonic()
    changelog = None if settings.store == "memory" else await identify(settings)
    if changelog is not None:
        await remove_abandoned(
            settings.group,
            data_dir=settings.data_dir or "",
            but=partitions,
            kept_ms=changelog.tombstones_kept_ms,
        )
    states: dict[int, RestoredState] = {}
    try:
        for partition in partitions:
            records = await _open(partition, settings=settings, changelog=changelog)
            states[partition] = RestoredState(records)
        await _catch_up(states, settings=settings)
    except BaseException:
        for state in states.values():
            state.records.close()
        raise
    for state in states.values():
        state.seconds = time.monotonic() - began
    return states


async def _open(
    partition: int, *, settings: StreamSettings, changelog: Changelog | None
) -> Records:
    if changelog is None:
        return MemoryRecords()
    from turnstream.stream.rocks_store import open_records  # noqa: PLC0415 - of an extra

    return await open_records(
        settings.group, partition, data_dir=settings.data_dir or "", changelog=changelog
    )


async def _catch_up(states: Mapping[int, RestoredState], *, settings: StreamSettings) -> None:
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
    tps = [TopicPartition(settings.changelog, partition) for partition in states]
    try:
        async with step("the ends of the changelog"):
            await consumer.start()
            consumer.assign(tps)
            starts = await consumer.beginning_offsets(tps)
            at = now_ms()
            ends = await consumer.end_offsets(tps)
        behind: set[TopicPartition] = set()
        for tp in tps:
            state = states[tp.partition]
            start = state.resume(beginning=starts[tp], end=ends[tp])
            consumer.seek(tp, start)
            if start < ends[tp]:
                behind.add(tp)
        while behind:
            async with step("reading the changelog"):
                fetched: Mapping[TopicPartition, Sequence[Record]] = {}
                before = [await consumer.position(tp) for tp in behind]
                after = before
                while before == after:
                    fetched = await consumer.getmany(*behind, timeout_ms=_POLL_MS)
                    after = [await consumer.position(tp) for tp in behind]
                    if fetched:
                        break
                positions = {tp: await consumer.position(tp) for tp in behind}
            for tp, records in fetched.items():
                states[tp.partition].apply(records, position=records[-1].offset + 1)
            await failpoints.reach("during_restore")
            behind = {tp for tp in behind if positions[tp] < ends[tp]}
        for tp in tps:
            states[tp.partition].records.write({}, position=ends[tp], at=at)
    finally:
        async with step("closing the reader of the changelog"):
            await stopped(consumer)
