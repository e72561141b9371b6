"""Partitions are taken over and given up in the order that keeps every promise."""

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

from turnstream.metrics import Metrics
from turnstream.stream import lane as lanes
from turnstream.stream import ownership, takeover
from turnstream.stream.imprint import IMPRINT_KEY, imprint_of
from turnstream.stream.lane import Lane
from turnstream.stream.observer import Observer
from turnstream.stream.ownership import Ownership
from turnstream.stream.restore import RestoredState
from turnstream.stream.role import StartRefused
from turnstream.stream.store import MemoryRecords
from turnstream.stream.takeover import TakeoverStalled
from turnstream.stream.topic_ids import TopicIds

from .lane_fakes import (
    CHANGELOG,
    LETTERS,
    RESULTS,
    TURNS,
    Bench,
    CountingObserver,
    FakeProducer,
    Tally,
    TallyFormat,
    record,
    until,
)

FORMAT = TallyFormat()


class Broker:
    """Offsets, and a log of what was asked in which order."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.offsets: dict[str, int | None] = {TURNS: 5, RESULTS: None}
        self.end = 100
        self.ids = TopicIds()
        self.sought: dict[TopicPartition, int] = {}

    async def topics(self, names: Sequence[str]) -> TopicIds:
        """Return their ids."""
        return self.ids

    async def committed(self, tps: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        """Return committed offsets."""
        self.log.append("committed")
        return {tp: self.offsets[tp.topic] for tp in tps if tp.topic in self.offsets}

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


class Followed:
    """What a role keeps per owned partition: here, how often each was given up."""

    def __init__(self) -> None:
        self.forgotten: list[int] = []

    def note(self, partition: int, key: bytes, state: Tally | None) -> None:
        """Nothing is restored here."""

    def forget(self, partition: int) -> None:
        """Keep."""
        self.forgotten.append(partition)


class Forgetting(CountingObserver):
    """Keeps which partitions' gauges have ended."""

    def __init__(self) -> None:
        super().__init__()
        self.forgotten: list[int] = []

    def forget(self, partition: int) -> None:
        """Keep."""
        self.forgotten.append(partition)


class Owned:
    """An ownership on fakes."""

    def __init__(self, observer: Observer | None = None) -> None:
        self.bench = Bench(observer=Forgetting())
        self.followed = Followed()
        self.broker = Broker()
        self.producers: dict[int, FakeProducer] = {}
        self.hold = asyncio.Event()
        self.hold.set()
        role = dataclasses.replace(
            self.bench.role(),
            owned=self.followed,
            observer=observer or self.bench.observer,
        )
        self.ownership: Ownership[Tally] = Ownership(
            role, producer=self._producer, restore=self._restore
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

    @property
    def forgotten(self) -> list[list[int]]:
        """The partitions that the metrics and the role were told to forget."""
        observer = cast("Forgetting", self.bench.observer)
        return [sorted(observer.forgotten), sorted(self.followed.forgotten)]


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

    assert {TURNS: 6, RESULTS: 2} == owned.producers[0].offsets()
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


async def test_no_position_is_sought_while_a_fetch_is_under_way() -> None:
    """It would return records of the new position, be dropped for its epoch, and they with it."""
    owned = Owned()
    async with owned.ownership.reading:
        taking = asyncio.create_task(owned.acquire(0))
        await until(lambda: "committed" in owned.broker.log)
        for _ in range(20):
            await asyncio.sleep(0)
        assert "seek" not in owned.broker.log

    assert await taking
    assert "seek" in owned.broker.log


@pytest.mark.parametrize("question", ["topics", "committed", "beginnings", "ends", "seek"])
async def test_a_broker_that_goes_away_during_a_takeover_ends_it(
    monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    """Kafka clients wait without a bound; partitions would have an owner that never works."""
    owned = Owned()
    monkeypatch.setattr(takeover, "STEP_SECONDS", 0.001)

    async def silent(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(owned.broker, question, silent)

    with pytest.raises(TakeoverStalled, match="no answer from the broker"):
        await owned.acquire(0)


async def test_committed_offset_beyond_the_end_refuses_the_start() -> None:
    """The topic was recreated under the group."""
    owned = Owned()
    owned.broker.end = 4
    with pytest.raises(StartRefused, match="recreated"):
        await owned.acquire(0)
    await owned.ownership.release()


def restoring(owned: Owned, *states: Tally, imprint: bytes | None = None) -> MemoryRecords:
    """Let partition 0 be found with these states, and with what its changelog says of itself."""
    records = MemoryRecords({b"k%d" % n: FORMAT.dump(each) for n, each in enumerate(states)})
    records.write({}, imprint=imprint)

    async def restored(*_: Any, **__: Any) -> Mapping[int, RestoredState]:
        return {0: RestoredState(records)}

    owned.ownership._restore = restored
    return records


async def test_states_without_a_committed_offset_refuse_the_start() -> None:
    """The topic was made anew and filled: what is in it now would pass for handled."""
    owned = Owned()
    restoring(owned, Tally((), {TURNS: 3}), Tally((), {TURNS: 50}), Tally((), {RESULTS: 9}))
    owned.broker.offsets = {TURNS: None, RESULTS: 10}
    with pytest.raises(StartRefused) as refused:
        await owned.acquire(0)

    assert "committed none of 'turns' partition 0, yet has handled its offset 50" in str(
        refused.value
    )
    assert "--reset-offsets" in str(refused.value)
    assert "seek" not in owned.broker.log
    await owned.ownership.release()


async def test_a_broker_that_cannot_tell_what_is_committed_refuses_nothing() -> None:
    """The embedded one: each assignment reads from the beginning, and the watermarks pass over."""
    owned = Owned()
    restoring(owned, Tally((), {TURNS: 50}))
    owned.broker.offsets = {}

    assert await owned.acquire(0)
    assert {TURNS: 2, RESULTS: 2} == {tp.topic: at for tp, at in owned.broker.sought.items()}
    await owned.ownership.release()


BEFORE = TopicIds("cluster", {TURNS: "id-1", RESULTS: "id-2"})
AFTER = TopicIds("cluster", {TURNS: "id-3", RESULTS: "id-2"})


@pytest.mark.parametrize(
    ("committed", "states", "known"),
    [
        (5, (), 5),  # the group's offsets outlived the topic
        (0, (Tally((), {TURNS: 50}),), 50),  # all was lost, and a new start has committed
        (None, (Tally((), {TURNS: 50}),), 50),
    ],
)
async def test_a_topic_with_another_id_refuses_the_start(
    committed: int | None, states: tuple[Tally, ...], known: int
) -> None:
    """However long it is, and whatever is committed."""
    owned = Owned()
    restoring(owned, *states, imprint=imprint_of(4, BEFORE))
    owned.broker.ids = AFTER
    owned.broker.offsets = {TURNS: committed, RESULTS: 5}
    with pytest.raises(StartRefused) as refused:
        await owned.acquire(0)

    assert "'turns' has the name and not the id of the one of which group 'group'" in str(
        refused.value
    )
    assert f"knows offset {known} in partition 0" in str(refused.value)
    assert "seek" not in owned.broker.log
    await owned.ownership.release()


@pytest.mark.parametrize(
    "ids",
    [
        TopicIds("mirror", AFTER.ids),
        TopicIds("cluster", {RESULTS: "id-2"}),
        TopicIds(),
        TopicIds("cluster", {**BEFORE.ids, "added": "id-4"}),
    ],
)
async def test_ids_that_say_nothing_refuse_nothing(ids: TopicIds) -> None:
    """In a cluster that mirrors ours all topics have other ids; not every broker tells any."""
    owned = Owned()
    restoring(owned, Tally((), {TURNS: 50}), imprint=imprint_of(4, BEFORE))
    owned.broker.ids = ids
    owned.broker.offsets = {TURNS: 51, RESULTS: 5}

    assert await owned.acquire(0)
    await owned.ownership.release()


@pytest.mark.parametrize(
    ("position", "offset", "ids", "refused"),
    [
        (0, 5, {}, True),  # made anew since the start, which has marked it
        (0, None, {}, False),
        (1, 5, {}, False),
        (None, 5, {}, False),
        (1, 5, {CHANGELOG: "id-8"}, True),  # made anew, with a copy of the former one's records
        (1, 5, {CHANGELOG: "id-9"}, False),
    ],
)
async def test_a_changelog_that_is_another_one_refuses_the_start(
    position: int | None, offset: int | None, ids: dict[str, str], refused: bool
) -> None:
    """What was handled beyond the committed offsets is in the former one alone."""
    owned = Owned()
    imprint = imprint_of(4, TopicIds("cluster", {CHANGELOG: "id-9"})) if position else None
    restoring(owned, imprint=imprint).write({}, position=position)
    owned.broker.ids = TopicIds("cluster", ids)
    owned.broker.offsets = {TURNS: offset, RESULTS: None}
    if refused:
        with pytest.raises(StartRefused, match="'changelog' was recreated or emptied"):
            await owned.acquire(0)
        assert "seek" not in owned.broker.log
    else:
        assert await owned.acquire(0)
    await owned.ownership.release()


async def test_a_topic_whose_id_is_not_told_stays_known() -> None:
    """The imprint that names it is not replaced by one that does not."""
    owned = Owned()
    owned.ownership.partitions = 4
    restoring(owned, imprint=imprint_of(4, BEFORE))
    owned.broker.ids = TopicIds("cluster", {RESULTS: "id-2"})
    await owned.acquire(0)
    owned.ownership.dispatcher.deliver({TopicPartition(TURNS, 0): [record(5)]})
    await until(lambda: owned.producers[0].offsets().get(TURNS) == 6)
    await owned.ownership.release()

    assert IMPRINT_KEY not in dict(owned.producers[0].sent(CHANGELOG))


async def test_a_new_topic_is_known_from_its_first_transaction_on() -> None:
    """Its offset is committed before any record of it, and the changelog says its id."""
    owned = Owned()
    owned.ownership.partitions = 4
    restoring(owned, imprint=imprint_of(4, BEFORE))
    owned.broker.ids = AFTER
    owned.broker.offsets = {TURNS: None, RESULTS: 5}

    assert await owned.acquire(0)
    await until(lambda: owned.producers[0].offsets() == {TURNS: 2})
    assert [(IMPRINT_KEY, imprint_of(4, AFTER))] == owned.producers[0].sent(CHANGELOG)
    await owned.ownership.release()


async def test_what_was_deleted_unhandled_is_reported_once_and_passed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By topic and range; the place to go on from is committed, for nothing may ever arrive."""
    owned = Owned()
    owned.broker.offsets = {TURNS: 0, RESULTS: 2}
    await owned.acquire(1)
    await until(lambda: owned.producers[1].offsets() == {TURNS: 2})

    assert [(TURNS, 2)] == owned.bench.observer.losses
    (line,) = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert "offsets 0 to 1 of 'turns' partition 1 were deleted" in line
    assert {TURNS: 2, RESULTS: 2} == {tp.topic: at for tp, at in owned.broker.sought.items()}

    await owned.ownership.release()
    owned.broker.offsets = {TURNS: 2, RESULTS: 2}
    await owned.acquire(1)
    await owned.ownership.release()

    assert [(TURNS, 2)] == owned.bench.observer.losses
    assert {} == owned.producers[1].offsets()


async def test_a_marker_behind_the_last_record_is_committed() -> None:
    """Retention removes it some day, and it would be taken for a record that nobody handled."""
    owned = Owned()
    owned.broker.offsets = {TURNS: 5, RESULTS: 5}
    await owned.acquire(0)
    turns, results = owned.ownership.dispatcher.sources
    if turns.topic != TURNS:
        turns, results = results, turns
    owned.ownership.dispatcher.deliver({turns.tp: [record(5)]})
    await until(lambda: owned.producers[0].offsets() == {TURNS: 6})
    for source, position in ((turns, 7), (results, 5)):
        source.observe_end(position, position=position, at=1)
    owned.ownership.observed()
    await until(lambda: owned.producers[0].offsets() == {TURNS: 7})

    owned.ownership.dispatcher.deliver({turns.tp: [record(7, value=b"wait1")]})
    turns.observe_end(9, position=9, at=2)
    owned.ownership.observed()
    await until(lambda: owned.bench.script.running == 1)
    owned.ownership.observed()
    owned.bench.script.gates["wait1"].set()
    await until(lambda: owned.producers[0].offsets() == {TURNS: 8})

    assert 3 == len(owned.producers[0].committed)

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


async def test_timers_due_at_once_fire_bit_by_bit_and_lanes_take_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An open transaction goes on in between: one line over all of them would outlast it."""
    monkeypatch.setattr(lanes, "_FIRED_KEYS", 2)
    monkeypatch.setattr(ownership, "_TICK_SECONDS", 0.001)
    owned = Owned()
    looks: list[int] = []
    between: list[int] = []
    fire_timers = Lane.fire_timers

    def look(lane: Lane[Tally], now: int) -> bool:
        looks.append(lane.partition)
        # Called by the loop at the next turn that it has.
        asyncio.get_running_loop().call_soon(lambda: between.append(len(looks)))
        return fire_timers(lane, now)

    await owned.acquire(0, 1)
    for partition in (0, 1):
        tp = TopicPartition(TURNS, partition)
        timers = [
            record(n, partition=partition, key=b"%d" % n, value=b"timer t%d 5000" % n)
            for n in range(5, 10)
        ]
        owned.ownership.dispatcher.deliver({tp: timers})
    await until(lambda: all(len(each.sent(CHANGELOG)) == 5 for each in owned.producers.values()))
    monkeypatch.setattr(Lane, "fire_timers", look)
    owned.bench.clock.now = 6_000
    for source in owned.ownership.dispatcher.sources:
        source.observe_end(source.prefix, position=source.prefix, at=6_000)
    await until(lambda: all(len(each.sent("timers")) == 5 for each in owned.producers.values()))
    await owned.ownership.release()

    assert [1, 2, 3, 4, 5, 6] == between[:6]
    for producer in owned.producers.values():
        sizes = [len(each.records.get("timers", ())) for each in producer.committed]
        assert [2, 2, 1] == [size for size in sizes if size]


async def test_whoever_gives_partitions_up_forgets_each_once() -> None:
    """The metrics and what the role keeps, at a revoke and at a stop; not before."""
    owned = Owned()
    await owned.acquire(0, 1, 3)

    assert [[], []] == owned.forgotten

    await owned.ownership.release()

    assert [[0, 1, 3], [0, 1, 3]] == owned.forgotten

    await owned.acquire(1)
    await owned.ownership.release()  # another assignment, and then the stop
    await owned.ownership.release()

    assert [[0, 1, 1, 3], [0, 1, 1, 3]] == owned.forgotten


async def test_a_stop_waits_for_partitions_that_are_being_given_up() -> None:
    """The client must not be closed while a rebalance is at it, and no lane closes twice."""
    owned = Owned()
    await owned.acquire(0)
    tp = TopicPartition(TURNS, 0)
    owned.ownership.dispatcher.deliver({tp: [record(5, value=b"wait1")]})
    await until(lambda: owned.bench.script.running == 1)
    revoked = asyncio.create_task(owned.ownership.release())
    stopped = asyncio.create_task(owned.ownership.release())
    await until(lambda: not owned.ownership.dispatcher.fetchable())
    owned.bench.script.gates["wait1"].set()
    await stopped

    assert revoked.done()
    assert [[0], [0]] == owned.forgotten
    assert 1 == owned.broker.log.count("stop")


async def test_a_takeover_that_is_revoked_forgets_too() -> None:
    """The lanes were open, though nothing was read yet."""
    owned = Owned()
    owned.hold.clear()
    acquiring = asyncio.create_task(owned.acquire(0, 2))
    await until(lambda: "restore" in owned.broker.log)
    await owned.ownership.release()

    assert not await acquiring
    assert [[0, 2], [0, 2]] == owned.forgotten


async def test_partitions_are_forgotten_though_the_broker_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who cannot say good-bye has given them up all the same: their series must end."""
    monkeypatch.setattr("turnstream.stream.ownership._CLOSE_SECONDS", 0.01)
    owned = Owned()
    await owned.acquire(0, 1)

    async def hang() -> None:
        await asyncio.Event().wait()

    for producer in owned.producers.values():
        monkeypatch.setattr(producer, "stop", hang)
    await owned.ownership.release()

    assert [[0, 1], [0, 1]] == owned.forgotten


def series(registry: CollectorRegistry) -> set[str]:
    """The partitions that have a series of their own."""
    return {
        sample.labels["partition"]
        for family in registry.collect()
        for sample in family.samples
        if "partition" in sample.labels
    }


async def test_series_of_partitions_end_with_their_ownership() -> None:
    """On a page there are the partitions owned now, whatever was owned before."""
    registry = CollectorRegistry()
    names = {TURNS: "turns", RESULTS: "results"}
    owned = Owned(cast("Observer", Metrics(registry, topics=names)))
    await owned.acquire(0, 1)

    assert {"0", "1"} == series(registry)

    await owned.ownership.release()

    assert set() == series(registry)

    await owned.acquire(1)

    assert {"1"} == series(registry)

    await owned.ownership.release()


class Tracked(MemoryRecords):
    """Records that tell whether they are closed."""

    closed = False

    def close(self) -> None:
        """Take note."""
        self.closed = True
        super().close()


async def test_stores_are_closed_however_a_takeover_ends() -> None:
    """Files that stay open in this process could not be opened at the next assignment."""
    owned = Owned()
    states = {0: RestoredState(Tracked()), 1: RestoredState(Tracked())}

    async def restored(*_: Any, **__: Any) -> Mapping[int, RestoredState]:
        return states

    owned.ownership._restore = restored
    await owned.acquire(0, 1)

    assert [False, False] == [cast("Tracked", each.records).closed for each in states.values()]

    await owned.ownership.release()

    assert [True, True] == [cast("Tracked", each.records).closed for each in states.values()]

    states.update({0: RestoredState(Tracked()), 1: RestoredState(Tracked())})
    states[0].records.write({b"k": FORMAT.dump(Tally((), {TURNS: 1_000}))})
    with pytest.raises(StartRefused, match="recreated"):
        await owned.acquire(0, 1)

    assert [True, True] == [cast("Tracked", each.records).closed for each in states.values()]

    await owned.ownership.release()


@pytest.mark.parametrize(
    ("imprint", "problem"),
    [
        (b'{"format":99}', "partition 1 has format 99"),
        (b'{"format":1,"partitions":2}', "partition 1 was written for 2 partitions"),
    ],
)
async def test_a_changelog_that_is_not_for_this_program_refuses_the_start(
    imprint: bytes, problem: str
) -> None:
    """Nothing is written to it, no input is taken, and the stores are closed."""
    owned = Owned()
    owned.ownership.partitions = 4
    states = {0: RestoredState(Tracked()), 1: RestoredState(Tracked())}
    states[1].apply([record(0, key=IMPRINT_KEY, value=imprint)], position=1)

    async def restored(*_: Any, **__: Any) -> Mapping[int, RestoredState]:
        return states

    owned.ownership._restore = restored
    with pytest.raises(StartRefused, match=problem):
        await owned.acquire(0, 1)

    assert [True, True] == [cast("Tracked", each.records).closed for each in states.values()]
    assert "seek" not in owned.broker.log
    assert frozenset() == owned.ownership.dispatcher.fetchable()

    await owned.ownership.release()


async def test_a_partition_added_since_the_start_refuses_before_anything_is_fenced() -> None:
    """Its keys have their states in other partitions."""
    owned = Owned()
    owned.ownership.partitions = 4
    with pytest.raises(StartRefused, match="migrate the state"):
        await owned.acquire(3, 4)

    assert [] == owned.broker.log


async def test_lanes_write_the_partition_count_that_the_start_found() -> None:
    """It is what another count is recognised by later."""
    owned = Owned()
    owned.ownership.partitions = 4
    await owned.acquire(0)
    owned.ownership.dispatcher.deliver({TopicPartition(TURNS, 0): [record(5)]})
    await until(lambda: bool(owned.producers[0].sent(CHANGELOG)))
    await owned.ownership.release()

    assert (IMPRINT_KEY, imprint_of(4)) == owned.producers[0].sent(CHANGELOG)[0]


async def test_revoke_while_many_states_are_read_does_not_wait_for_them() -> None:
    """A lane's state is read in steps: the process answers, and may be told to stop, in between."""
    owned = Owned()
    value = FORMAT.dump(Tally())
    states = {0: RestoredState(Tracked({b"%d" % n: value for n in range(5_000)}))}

    async def restored(*_: Any, **__: Any) -> Mapping[int, RestoredState]:
        owned.broker.log.append("restored")
        return states

    owned.ownership._restore = restored
    acquiring = asyncio.create_task(owned.acquire(0))
    await until(lambda: "restored" in owned.broker.log)

    assert not acquiring.done()

    await owned.ownership.release()

    assert not await acquiring
    assert "committed" not in owned.broker.log
    assert cast("Tracked", states[0].records).closed
