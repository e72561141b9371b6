"""Faust's consumer, changed where it stands between the broker and the lanes.

Faust keeps group membership, co-partitioned assignment and the worker's life cycle. Records of
the sources never enter a Faust stream, offsets are never committed by Faust, and its table
recovery is replaced by the lanes' own. Everything overridden or relied on here is listed in
`turnstream.stream.pins` and checked by a test.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final, cast

import aiokafka
from aiokafka.errors import (
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
)
from aiokafka.structs import TopicPartition
from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from mode import Service

from turnstream.stream.fetched import mended, read_what_the_broker_took
from turnstream.stream.offset_fetch import committed_offsets
from turnstream.stream.role import LaneFailed
from turnstream.stream.topic_ids import topic_ids

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mode.types import ServiceT

    from turnstream.stream.app import StreamApp
    from turnstream.stream.handler import Record
    from turnstream.stream.ownership import Ownership
    from turnstream.stream.settings import StreamSettings
    from turnstream.stream.topic_ids import TopicIds

logger = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.2
"""Longest wait of one fetch: how late a partition with room again, or an observation of end
offsets, is when nothing else arrives."""


class LaneConsumerThread(driver.AIOKafkaConsumerThread):
    """Faust's consumer thread, with the consumer this stream needs."""

    app: StreamApp

    def _create_worker_consumer(self, transport: driver.Transport) -> aiokafka.AIOKafkaConsumer:
        """Create the consumer; Faust would read uncommitted records."""
        settings: StreamSettings = self.app.stream_settings
        self._assignor = self.app.assignor
        read_what_the_broker_took(settings.sources, max_record_bytes=settings.max_record_bytes)
        return aiokafka.AIOKafkaConsumer(
            bootstrap_servers=settings.bootstrap_servers,
            client_id=f"{settings.client_id}-{settings.group}",
            group_id=settings.group,
            group_instance_id=settings.instance_id,
            partition_assignment_strategy=[self._assignor],
            isolation_level="read_committed",
            enable_auto_commit=False,
            # Every partition is sought explicitly. An offset that the broker no longer has must
            # not be left for another one without a word.
            auto_offset_reset="none",
            max_poll_records=settings.max_poll_records,
            max_poll_interval_ms=_NO_POLL_LIMIT_MS,
            max_partition_fetch_bytes=2 * settings.max_record_bytes,
            fetch_max_wait_ms=settings.fetch_max_wait_ms,
            request_timeout_ms=settings.request_timeout_ms,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            check_crcs=settings.check_crcs,
            metadata_max_age_ms=_METADATA_AGE_MS,
            **settings.security.client_options(),
        )

    async def on_start(self) -> None:
        """Start the consumer; it has not joined the group yet, so no heartbeat is missed."""
        await super().on_start()
        consumer = self._ensure_consumer()
        settings = self.app.stream_settings
        self.app.role.heartbeats.follow(
            consumer._coordinator,
            session_seconds=settings.session_timeout_ms / 1000,
            ousted=None if settings.instance_id is None else self._end_beside_a_twin,
        )
        self.app.role.heartbeats.listen(consumer._client)

    async def on_thread_stop(self) -> None:
        """Leave the group; a coordinator that keeps this waiting must not keep the process.

        One that is away, or that waits for other members to join again, answers late or never.
        """
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await super().on_thread_stop()
        except TimeoutError:
            logger.warning(
                "group %s is left in the middle of a rebalance, or its coordinator does not answer",
                self.app.stream_settings.group,
            )
            with contextlib.suppress(TimeoutError, KafkaError):
                async with asyncio.timeout(_LAST_SECONDS):
                    await self._ensure_consumer()._coordinator._maybe_leave_group()

    def _end_beside_a_twin(self) -> None:
        settings = self.app.stream_settings
        message = (
            f"another process uses stream.group_instance_id {settings.instance_id!r} in group "
            f"{settings.group!r} and has taken this one's place: give each process its own"
        )
        self.app.role.fail(LaneFailed(message))

    # `Positions`: each runs on the consumer's own thread and loop.

    async def topics(self, names: Sequence[str]) -> TopicIds:
        """Return which topics these are."""
        found: TopicIds = await self.call_thread(self._topics, names)
        return found

    async def _topics(self, names: Sequence[str]) -> TopicIds:
        client = self._ensure_consumer()._client
        while True:
            try:
                return await topic_ids(client, names)
            except KafkaError as error:
                if not error.retriable:
                    raise
                await asyncio.sleep(_RETRY_SECONDS)

    async def committed(self, tps: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        """Return the group's committed offsets; `None` where nothing was committed."""
        found: Mapping[TopicPartition, int | None] = await self.call_thread(self._committed, tps)
        return found

    async def _committed(
        self, tps: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, int | None]:
        return await committed_offsets(self._ensure_consumer(), tps)

    async def beginnings(self, tps: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the first offsets."""
        consumer = self._ensure_consumer()
        found: Mapping[TopicPartition, int] = await self.call_thread(
            consumer.beginning_offsets, list(tps)
        )
        return found

    async def ends(self, tps: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the end offsets of committed records."""
        consumer = self._ensure_consumer()
        found: Mapping[TopicPartition, int] = await self.call_thread(
            consumer.end_offsets, list(tps)
        )
        return found

    async def seek(self, offsets: Mapping[TopicPartition, int]) -> None:  # type: ignore[override]
        """Set the read positions; stop reading the changelog, which Faust subscribes to as well."""
        await self.call_thread(self._seek, offsets)

    async def _seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        consumer = self._ensure_consumer()
        consumer.pause(*(tp for tp in consumer.assignment() if tp not in offsets))
        for tp, offset in offsets.items():
            consumer.seek(tp, offset)

    async def positions(self, tps: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return how far the consumer has read; call it between two fetches only."""
        found: Mapping[TopicPartition, int] = await self.call_thread(self._positions, tps)
        return found

    async def _positions(self, tps: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        consumer = self._ensure_consumer()
        return {tp: await consumer.position(tp) for tp in tps}


_METADATA_AGE_MS: Final = 10_000
"""How long a look at the cluster is taken for true. A broker that has just come back may not know
its topics yet, and a leader that assigns by that look gives nobody anything. The next look shows
the topics, and makes the group assign anew; the client's own five minutes would be an outage."""

_LEAVE_SECONDS: Final = 3.0
"""Time to leave the group at the end. By then all that was finished is committed, and who is told
to stop may be killed soon: a rebalance under way can last for as long as a member may take for it.
"""

_LAST_SECONDS: Final = 1.0
"""Time to say so where that was not enough. Else the others wait until the session is over."""

_RETRY_SECONDS: Final = 0.1
"""Time between two tries of a question that every broker can answer."""

_NO_POLL_LIMIT_MS: Final = 86_400_000
"""A worker without partitions does not poll; with Kafka's default it would leave the group after
five minutes and never come back."""


class LaneConsumer(driver.Consumer):
    """Faust's consumer, handing fetched batches to the dispatcher."""

    app: StreamApp
    _thread: LaneConsumerThread
    _mended: Mapping[str, int] = {}

    def _new_consumer_thread(self) -> LaneConsumerThread:
        return LaneConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def _report_mended(self) -> None:
        """Count what the consumer's thread had to mend; here, for observers know one thread."""
        now = dict(mended)
        for topic, count in now.items():
            if topic in self.app.stream_settings.sources:
                self.app.role.observer.mended(topic, count - self._mended.get(topic, 0))
        self._mended = now

    @property
    def positions(self) -> LaneConsumerThread:
        """The consumer, as `Ownership` uses it."""
        return self._thread

    async def _drain_messages(self, fetcher: ServiceT) -> None:
        """Fetch from the partitions that have room and deliver, until the fetcher stops."""
        ownership: Ownership[Any] = self.app.ownership
        dispatcher = ownership.dispatcher
        try:
            while not (self.should_stop or fetcher.should_stop):
                if not self.flow_active:
                    await self.wait(self.can_resume_flow.wait())
                    continue
                if ownership.observe_ends:
                    ownership.observe_ends = False
                    await self._observe_ends(ownership)
                fetchable = dispatcher.fetchable()
                if not fetchable:
                    # aiokafka takes an empty set for all partitions.
                    await dispatcher.wait_fetchable(_POLL_SECONDS)
                    continue
                async with ownership.reading:
                    epoch = ownership.epoch
                    fetched = await self._fetch(set(fetchable), ownership)
                    if fetched and epoch == ownership.epoch:
                        dispatcher.deliver(fetched)
                if mended != self._mended:
                    self._report_mended()
                if fetched:
                    await asyncio.sleep(0)
        except self.consumer_stopped_errors:
            if not self.app.should_stop:
                raise
        except asyncio.CancelledError:
            if not self.app.should_stop:
                raise

    async def _fetch(
        self, fetchable: set[TopicPartition], ownership: Ownership[Any]
    ) -> Mapping[TopicPartition, Sequence[Record]]:
        epoch = ownership.epoch
        fetched: Mapping[TopicPartition, Sequence[Record]] = {}
        try:
            fetched = await self._getmany(fetchable, timeout=_POLL_SECONDS)
        except OffsetOutOfRangeError as error:
            if epoch == ownership.epoch:
                await self._end_at_a_gap(error.args[0])
        return fetched

    async def _end_at_a_gap(self, expected: Mapping[TopicPartition, int]) -> None:
        """End the process: what was to be read next is not there.

        The takeover that follows finds the same offset committed or an older one. There the loss is
        counted, and reading goes on; here what has been read is still being handled.
        """
        beginnings = await self._thread.beginnings(list(expected))
        missing = "; ".join(
            f"{tp.topic!r} partition {tp.partition}: expected offset {offset}, the first one there "
            f"is {beginnings[tp]}"
            for tp, offset in expected.items()
        )
        message = (
            f"records were deleted before they were read, or the topic was recreated: {missing}; "
            f"the next start counts what is lost and goes on from what is there"
        )
        self.app.role.fail(LaneFailed(message))

    async def _observe_ends(self, ownership: Ownership[Any]) -> None:
        """Read end offsets, then positions; no fetched record is under way in between."""
        sources = {source.tp: source for source in ownership.dispatcher.sources}
        if not sources:
            return
        at = self.app.role.now_ms()
        epoch = ownership.epoch
        try:
            ends = await self._thread.ends(list(sources))
        except KafkaTimeoutError:
            # The brokers are away. Timers wait for the next look, and nothing is lost by that.
            return
        try:
            positions = await self._thread.positions(list(sources))
        except IllegalStateError:
            if epoch == ownership.epoch:
                raise
            # The partitions have been given up since the ends were read.
            return
        if epoch == ownership.epoch:
            for tp, source in sources.items():
                source.observe_end(ends[tp], position=positions[tp], at=at)
            ownership.observed()

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Give the lanes up before Faust forgets the assignment."""
        self.stop_flow()
        await self.app.ownership.release()
        await super().on_partitions_revoked(revoked)

    async def commit(self, *_args: Any, **_kwargs: Any) -> bool:
        """Do nothing: offsets travel in the lanes' transactions."""
        return True

    async def perform_seek(self) -> None:
        """Do nothing: `Ownership` seeks, once, between restoring and opening the intake."""

    @Service.task
    async def _commit_handler(self) -> None:
        """Do nothing: there is nothing to commit here."""

    @Service.task
    async def _commit_livelock_detector(self) -> None:
        """Do nothing: it looks for Faust's own commits and would report their absence."""


class LaneTransport(driver.Transport):
    """Faust's transport, with our consumer."""

    Consumer = LaneConsumer


class LaneRecovery(Recovery):
    """Takes over the partitions where Faust would restore its tables."""

    app: StreamApp

    @Service.task
    async def _restart_recovery(self) -> None:
        """After each rebalance: take over the lanes, then let records flow."""
        while not self.should_stop:
            if await self.wait_for_stopped(self.signal_recovery_start.wait()):
                self.signal_recovery_start.clear()
                return
            self.signal_recovery_start.clear()
            if not await self.app.take_over(self._generation_id):
                continue
            self._set_recovery_ended()
            self.completed.set()

    @Service.task
    async def _slurp_changelogs(self) -> None:
        """Do nothing: changelog partitions are never fetched through Faust."""

    @Service.task
    async def _publish_stats(self) -> None:
        """Do nothing: the observer reports restores."""


class LaneTables(TableManager):
    """Faust's table manager, with our recovery."""

    app: StreamApp

    @property
    def recovery(self) -> LaneRecovery:
        """The recovery service."""
        if self._recovery is None:
            self._recovery = LaneRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return cast("LaneRecovery", self._recovery)
