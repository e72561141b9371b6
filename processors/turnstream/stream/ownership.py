"""Taking over partitions and giving them up: the order of steps that keeps every promise."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from aiokafka.structs import TopicPartition

from turnstream.stream import failpoints
from turnstream.stream.dispatch import Dispatcher
from turnstream.stream.imprint import check_imprint, check_partition, imprint_of, recreated
from turnstream.stream.lane import Lane
from turnstream.stream.liveness import Stalls
from turnstream.stream.outage import away
from turnstream.stream.restore import restore
from turnstream.stream.resuming import check_changelog, check_same, resume_at
from turnstream.stream.role import LaneFailed
from turnstream.stream.source import Source
from turnstream.stream.takeover import step
from turnstream.stream.transaction import lane_producer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from turnstream.stream.deadletter import DeadLetterTopic
    from turnstream.stream.restore import RestoredState
    from turnstream.stream.role import Role
    from turnstream.stream.settings import StreamSettings
    from turnstream.stream.topic_ids import TopicIds
    from turnstream.stream.transaction import TransactionalProducer

    Restore = Callable[..., Awaitable[Mapping[int, RestoredState]]]

S = TypeVar("S")

logger = logging.getLogger(__name__)

_TICK_SECONDS: Final = 0.1
"""Time between two looks at the timers: how late a timer may be."""

_OBSERVE_TICKS: Final = 5
"""Ticks between two readings of end offsets while a timer waits for a backlog."""

_IDLE_TICKS: Final = 300
"""Ticks between two readings of end offsets in any case: how long an idle partition's last control
marker stays uncommitted. Retention, which would make it look lost, is far longer."""

_LOOK_TICKS: Final = 10
"""Ticks between two looks at what is unfinished: far more often than metrics are scraped."""

_CLOSE_SECONDS: Final = 5.0
"""Time to disconnect the producers: a broker that is gone must not hold up the rebalance."""


class Positions(Protocol):
    """The consumer, as far as taking over partitions needs it."""

    async def topics(self, names: Sequence[str]) -> TopicIds:
        """Return which topics these are."""
        ...

    async def committed(self, tps: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        """Return the group's committed offsets, `None` where nothing was committed.

        A partition of which the broker cannot tell is left out.
        """
        ...

    async def beginnings(self, tps: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the first offsets."""
        ...

    async def ends(self, tps: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the end offsets of committed records."""
        ...

    async def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the read positions."""
        ...


class Ownership(Generic[S]):
    """The lanes that this process owns."""

    def __init__(
        self,
        role: Role[S],
        *,
        producer: Callable[..., TransactionalProducer] = lane_producer,
        restore: Restore = restore,
    ) -> None:
        self._role = role
        self._settings: StreamSettings = role.settings
        self._new_producer = producer
        self._restore = restore
        self.dispatcher: Dispatcher[S] = Dispatcher(role)
        self.dead_letter_topics: Mapping[str, DeadLetterTopic] = {}
        """Source topic to its dead-letter topic; set by the start checks."""
        self.partitions: int | None = None
        """How many each topic has; set by the start checks, before which no changelog is marked."""
        self.observe_ends = False
        """End offsets are wanted, by timers above all: the consumer reads them between two fetches.
        """
        self.epoch = 0
        """Counts releases: what was fetched in an older epoch must not be delivered."""
        self.reading = asyncio.Lock()
        """Held from the start of a fetch to its delivery. No position is sought meanwhile: the
        fetch would return what stands there, to be dropped as of an older epoch, and the next one
        would go on behind it."""
        self.stalls = Stalls(slots=role.settings.slots)
        self._lanes: dict[int, Lane[S]] = {}
        self._acquiring: asyncio.Task[None] | None = None
        self._releasing = asyncio.Lock()
        self._ticker: asyncio.Task[None] | None = None

    async def acquire(self, partitions: Iterable[int], *, positions: Positions) -> bool:
        """Take over partitions: all assigned ones, none owned before.

        Returns:
            False if they were revoked again meanwhile.

        Raises:
            StartRefused: State and topics do not belong together.
            TakeoverStalled: The broker went away meanwhile.
        """
        epoch = self.epoch
        task = self._acquiring = asyncio.create_task(
            self._acquire(sorted(partitions), positions=positions)
        )
        await asyncio.wait({task})
        if self._acquiring is task:
            self._acquiring = None
        if task.cancelled():
            return False
        task.result()
        return epoch == self.epoch

    async def _acquire(self, partitions: Sequence[int], *, positions: Positions) -> None:
        if not partitions:
            self._role.observer.lanes(0)
            return
        began = time.monotonic()
        check_partition(
            partitions[-1], changelog=self._settings.changelog, partitions=self.partitions
        )
        async with step("the ids of the topics"):
            topics = await positions.topics([*self._settings.sources, self._settings.changelog])
        # 1. Fence: open the lanes. The former owner can commit nothing from here on, and what it
        #    had open is ended, so what is committed now is all there will be.
        await failpoints.reach("before_fence")
        lanes = self._lanes = {
            partition: self._new_lane(partition, topics=topics) for partition in partitions
        }
        async with step("fencing the former owner"):
            await asyncio.gather(*(lane.fence() for lane in lanes.values()))
        await failpoints.reach("after_fence")
        # 2. Restore the committed state.
        tps = [
            TopicPartition(topic, partition)
            for partition in partitions
            for topic in self._settings.sources
        ]
        states = await self._restore(partitions, settings=self._settings)
        others: dict[int, frozenset[str]] = {}
        try:
            for partition, state in states.items():
                check_imprint(
                    state.records.imprint,
                    changelog=self._settings.changelog,
                    partition=partition,
                    partitions=self.partitions,
                )
                others[partition] = recreated(state.records.imprint, topics)
            async with step("the end offsets"):
                ends = await positions.ends(tps)
            await self._load(states, ends=ends)
        except BaseException:
            # Not all lanes have taken theirs over, which they would close.
            for state in states.values():
                state.records.close()
            raise
        await failpoints.reach("after_restore")
        # 3. Read the committed offsets. Every partition of a group that ever started has one; a
        #    topic added later starts at its beginning. A topic that was made anew has none either,
        #    or one of the former topic; but its records would pass for handled.
        async with step("the committed and first offsets"):
            committed = await positions.committed(tps)
            beginnings = await positions.beginnings(tps)
        for partition, state in states.items():
            check_changelog(
                partition,
                position=state.records.position,
                committed=committed,
                another=self._settings.changelog in others[partition],
                settings=self._settings,
            )
        for tp in tps:
            check_same(
                tp,
                committed=committed,
                handled=lanes[tp.partition].states.handled.get(tp.topic),
                another=tp.topic in others[tp.partition],
                settings=self._settings,
            )
        starts = {
            tp: resume_at(tp, committed=committed.get(tp), beginning=beginnings[tp], end=ends[tp])
            for tp in tps
        }
        # What is gone is passed over at once, or each takeover would report it again. So is what an
        # added topic begins with: no state of it must ever be without a committed offset.
        passed = {
            tp
            for tp in tps
            if self._lost(tp, committed.get(tp), beginnings[tp]) or committed.get(tp) is None
        }
        await failpoints.reach("after_committed")
        # 4. Seek every source partition, offset 0 and never-committed ones included.
        async with step("the read positions"), self.reading:
            await positions.seek(starts)
        await failpoints.reach("after_seek")
        # 5. Open the intake.
        for partition, lane in lanes.items():
            lane.start(
                {
                    topic: Source(
                        topic,
                        partition=partition,
                        priority=topic in self._settings.priority,
                        start=starts[TopicPartition(topic, partition)],
                        passed=TopicPartition(topic, partition) in passed,
                    )
                    for topic in self._settings.sources
                }
            )
        self.dispatcher.open(lanes)
        self._ticker = asyncio.create_task(self._tick(), name="timers")
        self._role.observer.lanes(len(lanes))
        await failpoints.reach("after_intake_open")
        logger.info(
            "lanes open: %s; %s keys, %s changelog records read, %.2f s",
            ", ".join(map(str, partitions)),
            sum(len(state.records) for state in states.values()),
            sum(state.read for state in states.values()),
            time.monotonic() - began,
        )

    def _lost(self, tp: TopicPartition, committed: int | None, beginning: int) -> bool:
        """Report what was deleted before it was handled; tell whether anything was.

        Offsets that the topic no longer begins with, and no others: a gap further on is what
        compaction removed, or a marker of a transaction.
        """
        if committed is None or committed >= beginning:
            return False
        logger.error(
            "records are lost: offsets %s to %s of %r partition %s were deleted before group %r "
            "had handled all of them; it goes on from %s. Retention is shorter than the group was "
            "behind, or the records were deleted by hand",
            committed,
            beginning - 1,
            tp.topic,
            tp.partition,
            self._settings.group,
            beginning,
        )
        self._role.observer.lost(tp.topic, beginning - committed)
        return True

    async def _load(
        self, states: Mapping[int, RestoredState], *, ends: Mapping[TopicPartition, int]
    ) -> None:
        """Let each lane read through its state; others get their turn in between."""
        for partition, lane in self._lanes.items():
            state = states[partition]
            ended = {tp.topic: end for tp, end in ends.items() if tp.partition == partition}
            # Closed before its records are, whatever happens in between.
            with contextlib.closing(lane.loading(state.records, ends=ended)) as loading:
                for _ in loading:
                    await asyncio.sleep(0)
            self._role.observer.restored(partition, state.read, len(state.records), state.seconds)
            await asyncio.sleep(0)

    def _new_lane(self, partition: int, *, topics: TopicIds) -> Lane[S]:
        return Lane(
            partition,
            role=self._role,
            producer=self._new_producer(partition, settings=self._settings),
            dead_letter_topics=self.dead_letter_topics,
            progressed=self.dispatcher.resume,
            imprint=None if self.partitions is None else imprint_of(self.partitions, topics),
        )

    async def release(self) -> None:
        """Give up all partitions: on revoke and on stop.

        One deadline covers the handlers; the last commit has the time of a transaction beyond it.
        """
        self.epoch += 1
        if self._acquiring is not None:
            self._acquiring.cancel()
            await asyncio.wait({self._acquiring})
        # Who is asked to stop while a rebalance takes the partitions away waits for that.
        async with self._releasing:
            if self._lanes:
                await self._release()

    async def _release(self) -> None:
        began = time.monotonic()
        # 1. Close the intake.
        self.dispatcher.close_intake()
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        self.stalls.look(())
        self.observe_ends = False
        await failpoints.reach("after_intake_closed")
        # 2. Wait for running handlers within the grace.
        late = await self.dispatcher.wait_running(self._settings.grace_seconds)
        await failpoints.reach("after_handlers")
        # 3. The last commit.
        lanes = tuple(self._lanes.values())
        try:
            async with asyncio.timeout(self._settings.transaction_timeout_ms / 1000):
                await asyncio.gather(*(lane.drain() for lane in lanes))
        except TimeoutError:
            seconds = self._settings.transaction_timeout_ms / 1000
            self._role.fail(
                LaneFailed(
                    f"the last commit before partitions were given up did not end within "
                    f"{seconds:g} s: the brokers of {self._settings.bootstrap_servers} "
                    f"(kafka.bootstrap_servers) are away or slow"
                )
            )
        await failpoints.reach("after_last_commit")
        # 4. Close the producers.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.gather(*(lane.close() for lane in lanes))
        await failpoints.reach("after_lanes_closed")
        # 5. Drop the state, forget the lanes.
        self._lanes = {}
        self.dispatcher.forget()
        self._role.observer.lanes(0)
        logger.info("lanes closed: %s handlers cancelled, %.2f s", late, time.monotonic() - began)

    async def _tick(self) -> None:
        """Fire due timers; ask for end offsets while one waits for a backlog, and now and then."""
        ticks = 0
        try:
            while True:
                await asyncio.sleep(_TICK_SECONDS)
                ticks += 1
                waiting = False
                for lane in self._lanes.values():
                    waiting |= lane.fire_timers(self._role.now_ms())
                    # Others get their turn, above all the transactions that are open meanwhile.
                    await asyncio.sleep(0)
                if ticks % (_OBSERVE_TICKS if waiting else _IDLE_TICKS) == 0:
                    self.observe_ends = True
                if ticks % _LOOK_TICKS == 0:
                    self._look()
        except Exception as error:  # noqa: BLE001 - timers must not stop unnoticed
            self._role.fail(error)

    def observed(self) -> None:
        """The consumer has read the end offsets, and fetches again after this."""
        for lane in self._lanes.values():
            lane.pass_markers()

    def _look(self) -> None:
        """Report what is unfinished: a lane that hangs commits nothing and reports nothing."""
        for lane in self._lanes.values():
            for source in lane.sources.values():
                self._role.observer.oldest_unfinished(
                    source.topic, source.partition, source.oldest()
                )
        self.stalls.look(self._lanes.values(), brokers_away=away(self._role))

    def oldest_unfinished(self) -> int | None:
        """Return the timestamp (ms) of the oldest record fetched and not finished.

        Any thread may call it.
        """
        found = [
            oldest
            for lane in tuple(self._lanes.values())
            for source in tuple(lane.sources.values())
            if (oldest := source.oldest()) is not None
        ]
        return min(found, default=None)
