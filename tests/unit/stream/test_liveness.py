"""A lane that stands still with records in flight is seen, and what only waits is not one."""

import asyncio
from collections import deque
from typing import Any

import pytest
from aiokafka.structs import TopicPartition

from turnstream.stream.lane import Lane
from turnstream.stream.liveness import Stalls
from turnstream.stream.source import Entry, Source

from .lane_fakes import LETTERS, TURNS, Bench, Tally, record, until
from .test_ownership import Owned


class Seconds:
    """A steady clock that tests set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def lane(partition: int = 0) -> tuple[Lane[Tally], Source[Tally]]:
    """Return a lane with one source, not started."""
    bench = Bench()
    made = Lane(
        partition,
        role=bench.role(),
        producer=bench.producer,
        dead_letter_topics=LETTERS,
        progressed=lambda _: None,
    )
    source: Source[Tally] = Source(TURNS, partition=partition, priority=False, start=0)
    made.sources = {TURNS: source}
    return made, source


def take(source: Source[Tally], offset: int = 0, *, key: bytes = b"k") -> Entry[Tally]:
    """Take a record of a source."""
    entry = Entry(record(offset, timestamp=offset), source=source, key=key, event=None)
    source.order.append(entry)
    return entry


@pytest.fixture
def clock() -> Seconds:
    """The clock."""
    return Seconds()


@pytest.fixture
def stalls(clock: Seconds) -> Stalls:
    """What is tested, with two slots."""
    return Stalls(slots=2, clock=clock)


def later(stalls: Stalls, clock: Seconds, *lanes: Lane[Any]) -> float:
    """Look again after a minute."""
    clock.now += 60
    stalls.look(lanes)
    return stalls.longest()


def test_records_in_flight_without_a_transaction_are_a_stall(
    stalls: Stalls, clock: Seconds
) -> None:
    """The time counts from when the lane was last seen at rest or committing."""
    one, source = lane()
    stalls.look([one])
    take(source)

    assert 0 == later(stalls, clock, one)
    assert 60 == later(stalls, clock, one)
    clock.now += 5
    assert 65 == stalls.longest()


def test_brokers_that_are_away_are_no_stall(stalls: Stalls, clock: Seconds) -> None:
    """The commit waits for them; the time counts again once they answer."""
    one, source = lane()
    take(source)
    later(stalls, clock, one)
    later(stalls, clock, one)
    clock.now += 60
    stalls.look([one], brokers_away=True)

    assert 0 == stalls.longest()
    assert 60 == later(stalls, clock, one)


def test_a_transaction_ends_a_stall(stalls: Stalls, clock: Seconds) -> None:
    """Also one that leaves the oldest record where it is."""
    one, source = lane()
    take(source)
    later(stalls, clock, one)
    later(stalls, clock, one)
    source.advance(letter_room=1)

    assert 0 == later(stalls, clock, one)
    assert 60 == later(stalls, clock, one)


def test_a_lane_at_rest_is_no_stall(stalls: Stalls, clock: Seconds) -> None:
    """Nobody writes, or everything is committed."""
    one, _ = lane()

    assert [0, 0, 0] == [later(stalls, clock, one) for _ in range(3)]


def test_a_lane_that_stands_still_beside_others_is_a_stall(stalls: Stalls, clock: Seconds) -> None:
    """What the others commit is not its."""
    (still, source), (busy, moving) = lane(0), lane(1)
    take(source)
    take(moving)
    later(stalls, clock, still, busy)
    moving.advance(letter_room=1)

    assert 60 == later(stalls, clock, still, busy)


def test_waiting_for_a_slot_is_no_stall(stalls: Stalls, clock: Seconds) -> None:
    """While keys wait for slots, a transaction of any lane counts for all; without one, none."""
    (waits, source), (busy, moving) = lane(0), lane(1)
    take(source)
    waits.busy = {b"k": deque()}
    busy.busy = {b"a": deque(), b"b": deque()}
    later(stalls, clock, waits, busy)
    moving.advance(letter_room=1)

    assert 0 == later(stalls, clock, waits, busy)
    assert 60 == later(stalls, clock, waits, busy)


def test_parked_keys_are_no_stall(stalls: Stalls, clock: Seconds) -> None:
    """Their records wait for a newer version; a hanging handler beside them still is one."""
    one, source = lane()
    one.states.parked.add(b"k")
    take(source)
    later(stalls, clock, one)

    assert 0 == later(stalls, clock, one)

    one.busy = {b"other": deque()}

    assert 0 == later(stalls, clock, one)
    assert 60 == later(stalls, clock, one)


def test_no_lane_no_stall(stalls: Stalls, clock: Seconds) -> None:
    """A rebalance ends it, and what comes after begins anew."""
    one, source = lane()
    take(source)
    later(stalls, clock, one)
    later(stalls, clock, one)

    assert 0 == later(stalls, clock)
    assert 0 == later(stalls, clock, one)


def test_the_oldest_is_taken_or_waits_to_be() -> None:
    """First what was taken, then what was fetched and not taken, then nothing."""
    _, source = lane()
    source.backlog.append(record(7, timestamp=70))

    assert 70 == source.oldest()

    take(source, 3)

    assert 3 == source.oldest()

    source.order.clear()
    source.backlog.clear()

    assert source.oldest() is None


async def test_an_ownership_looks_while_nothing_is_committed() -> None:
    """A handler that hangs shows in the gauge and in the stalls, and no more once it is given up.

    Nothing is reported by the lane itself meanwhile.
    """
    owned = Owned()
    reported: list[int | None] = []

    def keep(topic: str, partition: int, timestamp: int | None) -> None:
        if topic == TURNS:
            reported.append(timestamp)

    owned.bench.observer.oldest_unfinished = keep  # type: ignore[method-assign]
    await owned.acquire(0)
    tp = TopicPartition(TURNS, 0)
    owned.ownership.dispatcher.deliver({tp: [record(5, value=b"wait1", timestamp=4_000)]})
    await until(lambda: 4_000 in reported)

    assert 4_000 == owned.ownership.oldest_unfinished()
    await until(lambda: owned.ownership.stalls.longest() > 0)

    releasing = asyncio.create_task(owned.ownership.release())
    owned.bench.script.gates["wait1"].set()
    await releasing

    assert 0 == owned.ownership.stalls.longest()
    assert owned.ownership.oldest_unfinished() is None
