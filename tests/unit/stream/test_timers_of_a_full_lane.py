"""Which timers of a full lane overtake the backlog that waits for them, and which do not."""

import pytest

from turnstream.stream import lane as lanes
from turnstream.stream.handler import TimerDue
from turnstream.stream.lane import Lane
from turnstream.stream.store import MemoryRecords

from .lane_fakes import CHANGELOG, RESULTS, TURNS, Bench, Tally, TallyFormat, settings

FORMAT = TallyFormat()

BEGUN = FORMAT.dump(Tally(due=(TimerDue("begun", "expiry", 5_000, after_backlog=True),)))
ENDED = FORMAT.dump(Tally(due=(TimerDue("ended", "expiry", 5_000),)))
YOUNG = FORMAT.dump(Tally(due=(TimerDue("young", "expiry", 90_000),)))


async def full(bench: Bench, **young: bytes) -> Lane[Tally]:
    """A lane that opens with as many records as it may have."""
    lane = bench.lane()
    await lane.fence()
    also = {key.encode(): value for key, value in young.items()}
    records = MemoryRecords({b"begun": BEGUN, b"ended": ENDED, **also})
    lane.load(records, ends={TURNS: 100, RESULTS: 100})
    lane.start(bench.sources())
    assert lane.full
    return lane


async def test_what_was_begun_waits_for_its_record_even_in_a_full_lane() -> None:
    """Its own record may be in the backlog; it goes once everything older has been handled."""
    bench = Bench(settings(max_keys_per_partition=1))
    lane = await full(bench, young=YOUNG)

    assert lane.fire_timers(6_000)
    await lane.drain()
    assert [(b"ended", None)] == bench.producer.sent(CHANGELOG)

    # Its time is looked at again, and the end offsets are asked for, until they tell.
    assert lane.fire_timers(7_000)
    for source in lane.sources.values():
        source.observe_end(0, position=0, at=7_000)
    assert not lane.fire_timers(7_000)
    await lane.drain()
    await lane.close()

    assert [(b"ended", None), (b"begun", None)] == bench.producer.sent(CHANGELOG)


async def test_what_was_begun_goes_from_a_lane_that_stays_full() -> None:
    """Nothing is to come that it could be of."""
    bench = Bench(settings(max_keys_per_partition=1))
    lane = await full(bench, young=YOUNG)
    for source in lane.sources.values():
        source.observe_end(0, position=0, at=6_000)

    assert not lane.fire_timers(6_000)
    await lane.drain()
    await lane.close()

    assert {(b"ended", None), (b"begun", None)} == set(bench.producer.sent(CHANGELOG))


async def test_those_that_wait_do_not_take_the_turn_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many were begun before: the lane has no room until the others have gone."""
    monkeypatch.setattr(lanes, "_FIRED_KEYS", 2)
    bench = Bench(settings(max_keys_per_partition=1))
    lane = bench.lane()
    await lane.fence()
    begun = {b"begun %d" % n: BEGUN for n in range(5)}
    late = FORMAT.dump(Tally(due=(TimerDue("ended", "expiry", 5_500),)))
    lane.load(MemoryRecords({**begun, b"ended": late}), ends={TURNS: 100, RESULTS: 100})
    lane.start(bench.sources())

    assert lane.fire_timers(6_000)
    await lane.drain()
    await lane.close()

    assert [(b"ended", None)] == bench.producer.sent(CHANGELOG)
