"""Partitions are taken over and given up in the order that keeps every promise."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from aiokafka.structs import TopicPartition

from turnstream.stream.ownership import Ownership
from turnstream.stream.restore import RestoredState
from turnstream.stream.role import StartRefused

from .lane_fakes import (
    CHANGELOG,
    LETTERS,
    RESULTS,
    TURNS,
    Bench,
    FakeProducer,
    Tally,
    record,
    until,
)


class Broker:
    """Offsets, and a log of what was asked in which order."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.offsets: dict[str, int | None] = {TURNS: 5, RESULTS: None}
        self.end = 100
        self.sought: dict[TopicPartition, int] = {}

    async def committed(self, tps: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        """Return committed offsets."""
        self.log.append("committed")
        return {tp: self.offsets[tp.topic] for tp in tps}

    async def beginnings(self, tps: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return first offsets."""
        return dict.fromkeys(tps, 2)

    async def ends(self, tps: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return end offsets."""
        return dict.fromkeys(tps, self.end)

    async def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Seek."""
        self.log.append("seek")
        self.sought = dict(offsets)


class Owned:
    """An ownership on fakes."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.broker = Broker()
        self.producers: dict[int, FakeProducer] = {}
        self.hold = asyncio.Event()
        self.hold.set()
        self.ownership: Ownership[Tally] = Ownership(
            self.bench.role(), producer=self._producer, restore=self._restore
        )
        self.ownership.dead_letter_topics = LETTERS

    def _producer(self, partition: int, *, settings: Any) -> FakeProducer:
        producer = self.producers[partition] = FakeProducer()
        producer.log = self.broker.log
        return producer

    async def _restore(
        self, partitions: Sequence[int], *, settings: Any
    ) -> Mapping[int, RestoredState]:
        self.broker.log.append("restore")
        await self.hold.wait()
        return {partition: RestoredState() for partition in partitions}

    async def acquire(self, *partitions: int) -> bool:
        """Take over partitions."""
        return await self.ownership.acquire(partitions, positions=self.broker)


async def test_takes_over_in_order_and_seeks_every_partition() -> None:
    """Fence, restore, committed offsets, seek; a topic never committed starts at its beginning."""
    owned = Owned()

    assert await owned.acquire(1, 0)
    assert ["start", "start", "restore", "committed", "seek"] == owned.broker.log
    assert {
        TopicPartition(topic, partition): offset
        for topic, offset in ((TURNS, 5), (RESULTS, 2))
        for partition in (0, 1)
    } == owned.broker.sought
    assert 4 == len(owned.ownership.dispatcher.fetchable())

    await owned.ownership.release()


async def test_release_commits_what_ran_and_closes() -> None:
    """The last commit comes before the producers close; nothing is owned afterwards."""
    owned = Owned()
    await owned.acquire(0)
    tp = TopicPartition(TURNS, 0)
    owned.ownership.dispatcher.deliver({tp: [record(5, value=b"wait1")]})
    await until(lambda: owned.bench.script.running == 1)
    releasing = asyncio.create_task(owned.ownership.release())
    await until(lambda: not owned.ownership.dispatcher.fetchable())
    owned.bench.script.gates["wait1"].set()
    await releasing

    assert {TURNS: 6} == owned.producers[0].offsets()
    assert 1 == len(owned.producers[0].sent(CHANGELOG))
    assert "stop" == owned.broker.log[-1]
    assert () == owned.ownership.dispatcher.sources


async def test_revoke_during_takeover_stops_it() -> None:
    """Partitions lost while their state is read are never opened."""
    owned = Owned()
    owned.hold.clear()
    acquiring = asyncio.create_task(owned.acquire(0))
    await until(lambda: "restore" in owned.broker.log)
    await owned.ownership.release()

    assert not await acquiring
    assert "seek" not in owned.broker.log
    assert frozenset() == owned.ownership.dispatcher.fetchable()
    assert "stop" == owned.broker.log[-1]


async def test_committed_offset_beyond_the_end_refuses_the_start() -> None:
    """The topic was recreated under the group."""
    owned = Owned()
    owned.broker.end = 4
    with pytest.raises(StartRefused, match="recreated"):
        await owned.acquire(0)
    await owned.ownership.release()


async def test_due_timer_asks_for_end_offsets_while_it_waits() -> None:
    """It fires after they show that no older record is left."""
    owned = Owned()
    await owned.acquire(0)
    tp = TopicPartition(TURNS, 0)
    owned.ownership.dispatcher.deliver({tp: [record(5, value=b"timer t1 5000")]})
    owned.bench.clock.now = 6_000
    await until(lambda: owned.ownership.observe_ends)

    assert [] == owned.producers[0].sent("timers")

    for source in owned.ownership.dispatcher.sources:
        source.observe_end(source.prefix, position=source.prefix, at=6_000)
    await until(lambda: owned.producers[0].sent("timers") == [(b"k", b"t1")])
    await owned.ownership.release()
