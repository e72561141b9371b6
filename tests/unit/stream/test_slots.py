"""Slots: who runs, who rests, who goes on."""

import asyncio

from tests.unit.stream.lane_fakes import until
from turnstream.stream.backoff import backoff
from turnstream.stream.observer import NullObserver
from turnstream.stream.slots import Slots


class Bench:
    """Slots whose free ones are taken by others at once, while that is wanted."""

    def __init__(self, limit: int, *, resting: int = 10, wanted: int = 0) -> None:
        self.wanted = wanted
        self.offered: list[int] = []
        """Tasks that rested, each time a slot was free for others."""
        self.slots = Slots(limit, resting=resting, observer=NullObserver(), fill=self._fill)

    def _fill(self) -> None:
        self.offered.append(self.slots.resting)
        if self.wanted:
            self.wanted -= 1
            self.slots.take()

    def begin(self, seconds: float) -> "asyncio.Task[bool]":
        """Take a slot, as a task that rests."""
        self.slots.take()
        return asyncio.create_task(self.slots.rest(seconds))

    async def waiting(self, count: int) -> None:
        """Wait until so many have rested and wait for a slot."""
        await until(lambda: len(self.slots._rested) == count)

    @property
    def numbers(self) -> tuple[int, int]:
        """How many run, how many rest."""
        return self.slots.running, self.slots.resting


async def test_who_rests_lends_the_slot() -> None:
    """Others may run meanwhile, and it comes back with a slot of its own."""
    bench = Bench(1)
    task = bench.begin(0.0)

    assert not bench.slots.free()
    assert await task
    assert [1] == bench.offered
    assert (1, 0) == bench.numbers


async def test_who_has_rested_waits_for_a_free_slot_before_the_others() -> None:
    """The slots stay a bound on what runs; a freed one goes to the rested, in order."""
    bench = Bench(2, wanted=2)
    first = bench.begin(0.0)
    second = bench.begin(0.0)
    await bench.waiting(2)
    assert (2, 2) == bench.numbers
    assert [1, 2] == bench.offered

    bench.slots.give()
    assert await first
    assert (2, 1, False) == (*bench.numbers, second.done())
    bench.slots.give()
    assert await second

    assert (2, 0) == bench.numbers
    assert [1, 2] == bench.offered
    bench.slots.give()
    assert (1, 0) == bench.numbers
    assert [1, 2, 0] == bench.offered


async def test_too_many_that_rest_keep_their_slots() -> None:
    """Memory is bounded, whatever fails."""
    bench = Bench(2, resting=1)
    tasks = [bench.begin(60.0), bench.begin(60.0)]
    await until(lambda: bench.slots.resting == 1)

    assert 1 == bench.slots.running

    bench.slots.close()
    assert [False, False] == await asyncio.gather(*tasks)
    assert (2, 0) == bench.numbers


async def test_closing_ends_every_rest_and_keeps_the_count() -> None:
    """Who rests, who waits for a slot: each is told, and each end gives a slot back."""
    bench = Bench(2, wanted=2)
    tasks = [bench.begin(60.0), bench.begin(0.0)]
    await bench.waiting(1)
    assert (2, 2) == bench.numbers

    bench.slots.close()

    assert [False, False] == await asyncio.gather(*tasks)
    assert not await bench.slots.rest(60.0)
    assert (4, 0) == bench.numbers

    for _ in range(4):
        bench.slots.give()
    assert (0, 0) == bench.numbers
    bench.slots.open()
    assert await bench.begin(0.0)


async def test_cancelled_rests_keep_the_count() -> None:
    """While resting, while waiting for a slot, and when one has just been handed over."""
    bench = Bench(3, wanted=3)
    resting, waiting, given = bench.begin(60.0), bench.begin(0.0), bench.begin(0.0)
    await bench.waiting(2)
    assert (3, 3) == bench.numbers
    resting.cancel()
    waiting.cancel()
    await asyncio.wait([resting, waiting])
    assert (5, 1) == bench.numbers

    bench.slots.give()
    given.cancel()
    await asyncio.wait([given])

    assert (5, 0) == bench.numbers


def test_waits_double_within_half_of_their_bound() -> None:
    """By the seed and the attempt, and by nothing else."""
    waits = [backoff(n, first=1.0, longest=8.0, seed="a") for n in range(1, 200)]

    for wait, longest in zip(waits, (1.0, 2.0, 4.0, *[8.0] * 196), strict=True):
        assert longest / 2 <= wait < longest
    assert waits == [backoff(n, first=1.0, longest=8.0, seed="a") for n in range(1, 200)]
    assert waits != [backoff(n, first=1.0, longest=8.0, seed="b") for n in range(1, 200)]
    assert len(set(waits[3:])) > 190
