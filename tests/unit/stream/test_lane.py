"""Transactions of a lane: what commits together, and what is not written at all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiokafka.errors import InvalidProducerIdMapping, KafkaError, ProducerFenced

from turnstream.stream import committer, failpoints
from turnstream.stream.failpoints import FailpointReached, Failpoints, parse
from turnstream.stream.handler import DeadLetter, Handled, Publication, TimerDue
from turnstream.stream.imprint import IMPRINT_KEY
from turnstream.stream.lane import Lane, UnusableOutcome
from turnstream.stream.role import LaneFailed, StartRefused
from turnstream.stream.source import Entry, Source
from turnstream.stream.store import MemoryRecords, StoreFailed

from .lane_fakes import (
    CHANGELOG,
    OUT,
    RESULTS,
    TURNS,
    Bench,
    FakeProducer,
    Tally,
    TallyFormat,
    record,
    settings,
    until,
)

FORMAT = TallyFormat()

CLOSED = FORMAT.dump(Tally(is_closed=True))


@asynccontextmanager
async def running(
    bench: Bench,
    *,
    records: dict[bytes, bytes] | None = None,
    imprint: bytes | None = None,
    imprinted: bytes | None = None,
) -> AsyncIterator[Lane[Tally]]:
    """Run a lane from its opening to its closing; `imprinted` is what its changelog says."""
    lane = bench.lane(imprint=imprint)
    await lane.fence()
    committed = MemoryRecords(records)
    committed.write({}, imprint=imprinted)
    lane.load(committed, ends={TURNS: 100, RESULTS: 100})
    lane.start(bench.sources())
    try:
        yield lane
        if not bench.failures.errors:
            await lane.drain()
    finally:
        await lane.close()


def enter(
    lane: Lane[Tally],
    offset: int,
    *,
    key: bytes = b"k",
    topic: str = TURNS,
    timestamp: int = 1_000,
) -> Entry[Tally]:
    """Take a record into its source."""
    source: Source[Tally] = lane.sources[topic]
    each = record(offset, key=key, topic=topic, timestamp=timestamp)
    entry = Entry(each, source=source, key=key, event=None)
    source.order.append(entry)
    return entry


def handled(
    offset: int, *, topic: str = TURNS, closed: bool = False, out: bytes = b"o"
) -> Handled[Tally]:
    """Return an outcome for a record."""
    state = Tally((str(offset),), {topic: offset}, closed)
    return Handled(state, (Publication(OUT, b"k", out),))


async def test_one_transaction_holds_state_publications_and_offsets() -> None:
    """The last state of a key is written once, its publications in input order."""
    bench = Bench()
    async with running(bench) as lane:
        for offset in range(3):
            lane.finish(enter(lane, offset), handled(offset, out=b"%d" % offset))

    (one,) = bench.producer.committed

    assert [(b"k", b"0"), (b"k", b"1"), (b"k", b"2")] == one.records[OUT]
    assert [(b"k", FORMAT.dump(Tally(("2",), {TURNS: 2})))] == one.records[CHANGELOG]
    assert {TURNS: 3} == one.offsets


async def test_finished_behind_an_unfinished_commits_without_its_offset() -> None:
    """A slow input holds back the offset, not the work of others."""
    bench = Bench()
    async with running(bench) as lane:
        slow = enter(lane, 0, key=b"slow")
        lane.finish(enter(lane, 1), handled(1))
        await lane.drain()

        assert {} == bench.producer.offsets()
        assert 1 == len(bench.producer.sent(OUT))
        assert not lane.passed(TURNS, 0)

        lane.finish(slow, handled(0))
        await lane.drain()

        assert [True, True, False] == [lane.passed(TURNS, offset) for offset in range(3)]
        assert not lane.passed("elsewhere", 0)

    assert {TURNS: 2} == bench.producer.offsets()


async def test_transactions_are_bounded() -> None:
    """A burst is split; nothing of it is left behind."""
    bench = Bench(settings=settings(max_transaction_records=2))
    async with running(bench) as lane:
        for offset in range(5):
            lane.finish(enter(lane, offset), handled(offset))

    assert [2, 2, 1] == [len(one.records[OUT]) for one in bench.producer.committed]


def expiring(count: int) -> dict[bytes, bytes]:
    """States of which all are over at the same time."""
    state = FORMAT.dump(Tally(due=(TimerDue("t1", "expiry", 5_000),)))
    return {b"%d" % n: state for n in range(count)}


async def expire_all(lane: Lane[Tally]) -> None:
    """Let that time come."""
    for source in lane.sources.values():
        source.observe_end(0, position=0, at=6_000)
    lane.fire_timers(6_000)


async def test_removals_are_bounded_and_go_on_without_other_work() -> None:
    """Those of a role that was away longer than it keeps records, and closed keys likewise."""
    bench = Bench(settings=settings(max_transaction_records=10))
    records = expiring(25) | {b"closed %d" % n: CLOSED for n in range(25)}
    async with running(bench, records=records) as lane:
        await expire_all(lane)
        await until(lambda: not len(lane.states.store))

    sizes = [len(one.records.get(CHANGELOG, ())) for one in bench.producer.committed]
    assert [10] * 5 == sizes
    assert {(key, None) for key in records} == set(bench.producer.sent(CHANGELOG))


async def test_whoever_gives_a_lane_up_does_not_wait_for_removals() -> None:
    """The next owner goes on with them; the transaction that is open is ended, and none follows."""
    bench = Bench(settings=settings(max_transaction_records=10))
    async with running(bench, records={b"closed %d" % n: CLOSED for n in range(1_000)}) as lane:
        lane.finish(enter(lane, 0), handled(0))
        await lane.drain()
        for _ in range(10):
            await asyncio.sleep(0)

    assert 1 == len(bench.producer.committed)
    assert 9 == sum(value is None for _, value in bench.producer.sent(CHANGELOG))


async def test_transactions_full_of_work_still_remove_something() -> None:
    """Traffic that never ends would otherwise keep what is over for ever."""
    bench = Bench(settings=settings(max_transaction_records=1))
    async with running(bench, records=expiring(3)) as lane:
        for offset in range(20):
            lane.finish(enter(lane, offset), handled(offset))
        await expire_all(lane)
        await until(lambda: len(lane.states.store) == 1)
        removed_at = [
            number
            for number, one in enumerate(bench.producer.committed)
            if any(value is None for _, value in one.records.get(CHANGELOG, ()))
        ]

    assert 3 == len(removed_at)
    assert removed_at[-1] < len(bench.producer.committed) - 10


async def test_a_key_in_use_again_before_its_removal_has_its_turn_stays() -> None:
    """Its new state is committed before: the removal was of the old one."""
    bench = Bench(settings=settings(max_transaction_records=3))
    # Those go first.
    records = {b"closed %d" % n: CLOSED for n in range(30)} | expiring(9)
    async with running(bench, records=records) as lane:
        await expire_all(lane)
        lane.finish(enter(lane, 0, key=b"8"), handled(0))
        await until(lambda: len(lane.states.store) == 1)

        assert Tally(("0",), {TURNS: 0}) == lane.states.store.get(b"8")

    assert (b"8", None) not in bench.producer.sent(CHANGELOG)


async def test_an_idle_lane_is_heard_of_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the broker would forget its transactional id, and refuse what comes then."""
    monkeypatch.setattr(committer, "_IDLE_SECONDS", 0.001)
    bench = Bench()
    async with running(bench) as lane:
        await until(lambda: len(bench.producer.committed) > 1)
        lane.finish(enter(lane, 0), handled(0))
        await lane.drain()

    idle = bench.producer.committed[0]
    assert {} == idle.records
    assert {TURNS: 0, RESULTS: 0} == idle.offsets
    assert {TURNS: 1, RESULTS: 0} == bench.producer.offsets()


async def test_transactions_are_bounded_in_bytes() -> None:
    """Large events and states count, too: one that passes the bound is the last of its own."""
    bench = Bench(settings=settings(max_transaction_bytes=1_000))
    async with running(bench) as lane:
        for offset in range(3):
            lane.finish(enter(lane, offset), handled(offset, out=b"x" * 1_001))
        for offset in range(3, 5):
            lane.finish(enter(lane, offset), handled(offset))
        await lane.commit(b"k", Tally(("x" * 1_001,)))
        lane.finish(enter(lane, 5), handled(5))

    sizes = [len(one.records.get(OUT, [])) for one in bench.producer.committed]
    assert [1, 1, 1, 2, 1] == sizes
    assert {TURNS: 6} == bench.producer.offsets()


async def test_full_batches_keep_the_order() -> None:
    """Records that do not fit one batch follow in the next."""
    bench = Bench(producer=FakeProducer(batch_limit=2))
    async with running(bench) as lane:
        for offset in range(5):
            lane.finish(enter(lane, offset), handled(offset, out=b"%d" % offset))

    assert [b"0", b"1", b"2", b"3", b"4"] == [value for _, value in bench.producer.sent(OUT)]


async def test_closed_state_in_order_is_never_written() -> None:
    """A role without state writes no changelog while it finishes in order."""
    bench = Bench()
    async with running(bench) as lane:
        for offset in range(3):
            lane.finish(enter(lane, offset), handled(offset, closed=True))

        await lane.drain()

        assert lane.states.store.get(b"k") is None

    assert [] == bench.producer.sent(CHANGELOG)


async def test_closed_state_out_of_order_is_written_then_removed() -> None:
    """Its watermark is kept exactly until the committed offsets pass it."""
    bench = Bench()
    async with running(bench) as lane:
        slow = enter(lane, 0, key=b"slow")
        lane.finish(enter(lane, 1), handled(1, closed=True))
        await lane.drain()
        state = FORMAT.dump(Tally(("1",), {TURNS: 1}, is_closed=True))

        assert [(b"k", state)] == bench.producer.sent(CHANGELOG)

        lane.finish(slow, handled(0, closed=True))

    assert [(b"k", state), (b"k", None)] == bench.producer.sent(CHANGELOG)
    assert 0 == len(lane.states.store)


async def test_closed_key_waits_for_every_topic() -> None:
    """The tombstone follows only when all of its topics have passed."""
    bench = Bench()
    both = Tally((), {TURNS: 0, RESULTS: 0}, is_closed=True)
    async with running(bench) as lane:
        result = enter(lane, 0, topic=RESULTS, key=b"slow")
        lane.finish(enter(lane, 0), Handled(both))
        await lane.drain()

        assert [(b"k", FORMAT.dump(both))] == bench.producer.sent(CHANGELOG)

        lane.finish(result, handled(0, topic=RESULTS, closed=True))

    assert (b"k", None) == bench.producer.sent(CHANGELOG)[-1]


async def test_restored_closed_key_is_removed_once_passed() -> None:
    """What an earlier process could not remove, this one does."""
    bench = Bench()
    closed = FORMAT.dump(Tally((), {TURNS: 1}, is_closed=True))
    async with running(bench, records={b"old": closed}) as lane:
        lane.finish(enter(lane, 0), handled(0))
        await lane.drain()

        assert (b"old", None) not in bench.producer.sent(CHANGELOG)

        lane.finish(enter(lane, 1), handled(1))

    assert (b"old", None) in bench.producer.sent(CHANGELOG)


async def test_state_none_removes_the_record() -> None:
    """A key without state has no record; one that never had any gets no tombstone."""
    bench = Bench()
    async with running(bench, records={b"k": FORMAT.dump(Tally())}) as lane:
        lane.finish(enter(lane, 0), Handled(None))
        lane.finish(enter(lane, 1, key=b"other"), Handled(None))

    assert [(b"k", None)] == bench.producer.sent(CHANGELOG)


async def test_dead_letter_goes_with_the_outcome() -> None:
    """A dead-lettered record, the state it led to and its offset commit together."""
    bench = Bench()
    async with running(bench) as lane:
        state = Tally((), {TURNS: 0})
        lane.finish(enter(lane, 0), Handled(state, dead_letter=DeadLetter("invalid", "why")))

    (one,) = bench.producer.committed

    assert [(b"k", b"v")] == one.records["turns.dlq"]
    assert {TURNS: 1} == one.offsets
    assert [(TURNS, "invalid")] == bench.observer.letters


async def test_intermediate_state_commits_before_the_handler_goes_on() -> None:
    """No offset moves with it, and it is in the changelog when the call returns."""
    bench = Bench()
    async with running(bench) as lane:
        entry = enter(lane, 0)
        await lane.commit(b"k", Tally(("started",)))

        assert [(b"k", FORMAT.dump(Tally(("started",))))] == bench.producer.sent(CHANGELOG)
        assert {} == bench.producer.offsets()

        lane.finish(entry, handled(0))

    assert {TURNS: 1} == bench.producer.offsets()


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Handled(Tally(("x",), {TURNS: -1})), "handler_failed"),
        (Handled(Tally(("x" * 2_000_000,), {TURNS: 0})), "state_too_large"),
        (
            Handled(Tally((), {TURNS: 0}), (Publication(OUT, b"k", b"x" * 2_000_000),)),
            "output_too_large",
        ),
    ],
    ids=["watermark", "state size", "publication size"],
)
async def test_outcome_that_cannot_commit_is_refused_whole(
    outcome: Handled[Tally], reason: str
) -> None:
    """Nothing of it is taken, so the handler can be asked for another."""
    bench = Bench()
    async with running(bench) as lane:
        entry = enter(lane, 0)
        with pytest.raises(UnusableOutcome) as refused:
            lane.finish(entry, outcome)

        assert reason == refused.value.reason
        assert lane.states.store.get(b"k") is None

        lane.finish(entry, handled(0))

    assert 1 == len(bench.producer.sent(OUT))


async def test_refused_batch_ends_the_process_without_a_commit() -> None:
    """Aiokafka would commit the rest. The message names the topic that did not take it."""
    bench = Bench()
    bench.producer.refuse = RuntimeError("too large")
    async with running(bench) as lane:
        lane.finish(enter(lane, 0), handled(0))
        await until(lambda: bool(bench.failures.errors))

    assert [] == bench.producer.committed
    (error,) = bench.failures.errors
    assert isinstance(error, LaneFailed)
    assert "lane 0 could not commit: topic 'out' did not take what it was sent" in str(error)
    assert "too large" in str(error)


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        (InvalidProducerIdMapping(), "has forgotten its transactional id"),
        (ProducerFenced(), "another process has taken the partition over"),
    ],
)
async def test_what_ended_the_producer_is_named_through_its_wrappings(
    cause: Exception, told: str
) -> None:
    """Neither the topic nor its records are at fault."""
    bench = Bench()
    bench.producer.refuse = KafkaError("Unexpected error during batch delivery")
    bench.producer.refuse.__cause__ = cause
    async with running(bench) as lane:
        lane.finish(enter(lane, 0), handled(0))
        await until(lambda: bool(bench.failures.errors))

    (error,) = bench.failures.errors
    assert told in str(error)
    assert "did not take" not in str(error)


@pytest.mark.parametrize(("instance_id", "named"), [("a", True), (None, False)])
async def test_a_fenced_lane_names_the_static_id_that_may_be_used_twice(
    instance_id: str | None, named: bool
) -> None:
    """The twin's lanes are open before the coordinator tells of it."""
    bench = Bench(settings=settings(instance_id=instance_id))

    async def fenced() -> None:
        raise ProducerFenced

    bench.producer.commit_transaction = fenced  # type: ignore[method-assign]
    async with running(bench) as lane:
        lane.finish(enter(lane, 0), handled(0))
        await until(lambda: bool(bench.failures.errors))

    (error,) = bench.failures.errors
    assert "could not commit: ProducerFenced" in str(error)
    assert named == ("stream.group_instance_id 'a'" in str(error))


async def test_timer_waits_for_the_backlog() -> None:
    """It fires when its time has come and everything before it is handled, once."""
    bench = Bench()
    due = TimerDue("t1", "reminder", 5_000)
    state = FORMAT.dump(Tally(due=(due,)))
    async with running(bench, records={b"k": state}) as lane:
        assert not lane.fire_timers(4_999)
        assert lane.fire_timers(6_000)

        for source in lane.sources.values():
            source.observe_end(0, position=0, at=6_000)

        assert not lane.fire_timers(6_000)
        assert not lane.fire_timers(7_000)

    assert [(b"k", b"t1")] == bench.producer.sent("timers")


async def test_a_record_from_the_future_lets_no_timer_overtake_the_backlog() -> None:
    """Its sender's clock runs ahead; the customer's answer behind it is older than the timer."""
    bench = Bench()
    bench.clock.now = 4_000
    state = FORMAT.dump(Tally(due=(TimerDue("t1", "reminder", 5_000),)))
    async with running(bench, records={b"k": state}) as lane:
        lane.finish(enter(lane, 0, key=b"other", timestamp=10**12), handled(0))
        await lane.drain()
        answer = enter(lane, 1, timestamp=4_500)
        lane.sources[RESULTS].observe_end(0, position=0, at=6_000)
        lane.sources[TURNS].observe_end(2, position=2, at=6_000)

        assert lane.fire_timers(6_000)

        lane.finish(answer, handled(1))  # Its new state has no timer.
        await lane.drain()
        assert not lane.fire_timers(6_000)

    assert [] == bench.producer.sent("timers")


async def test_a_clock_put_forward_and_back_lets_no_timer_overtake_the_backlog() -> None:
    """The time comes a second time: what was handled through it the first time says nothing."""
    bench = Bench()
    async with running(bench) as lane:
        for source in lane.sources.values():
            source.observe_end(0, position=0, at=9_000)
        assert not lane.fire_timers(9_000)
        assert 9_000 == lane.handled_through()

        # Put back; a timer is set, and the clock comes by the other time again.
        assert not lane.fire_timers(1_000)
        due = (TimerDue("t1", "reminder", 5_000),)
        lane.finish(enter(lane, 0), Handled(Tally((), {TURNS: 0}, due=due)))
        await lane.drain()
        enter(lane, 1, timestamp=4_500)

        assert lane.fire_timers(9_500)
        await lane.drain()
        assert [] == bench.producer.sent("timers")


async def test_a_timer_fires_once_though_the_clock_is_put_back_and_comes_by_again() -> None:
    """`now` is smaller than before: nothing is due yet, and what has fired does not fire again."""
    bench = Bench()
    due = (TimerDue("t1", "reminder", 5_000), TimerDue("t2", "reminder", 7_000))
    async with running(bench, records={b"k": FORMAT.dump(Tally(due=due))}) as lane:
        for now in (6_000, 4_000, 5_500, 6_999, 7_000, 3_000, 8_000):
            # Twice: what was observed at an earlier time counts first.
            for _ in range(2):
                for source in lane.sources.values():
                    source.observe_end(0, position=0, at=now)
                lane.fire_timers(now)
            await lane.drain()

    assert [(b"k", b"t1"), (b"k", b"t2")] == bench.producer.sent("timers")


async def test_a_state_that_has_expired_is_removed() -> None:
    """A timer without a record to publish ends the state that holds it, and nothing else."""
    bench = Bench()
    expiring = FORMAT.dump(Tally(due=(TimerDue("t1", "expiry", 5_000),)))
    records = {b"k": expiring, b"other": FORMAT.dump(Tally())}
    async with running(bench, records=records) as lane:
        for source in lane.sources.values():
            source.observe_end(0, position=0, at=6_000)
        lane.fire_timers(6_000)
        await lane.drain()

        assert lane.states.store.get(b"k") is None
        assert lane.states.store.get(b"other") is not None

    assert [(b"k", None)] == bench.producer.sent(CHANGELOG)
    assert [] == bench.producer.sent("timers")


async def test_newer_state_parks_its_key() -> None:
    """It is counted and kept."""
    bench = Bench()
    async with running(bench, records={b"k": b"new"}) as lane:
        assert {b"k"} == lane.states.parked
        assert 1 == bench.observer.parked_keys


async def test_impossible_state_refuses_the_start() -> None:
    """The message says what is wrong with which topic."""
    lane = Bench().lane()
    with pytest.raises(StartRefused, match="recreated"):
        lane.load(MemoryRecords({b"k": FORMAT.dump(Tally((), {TURNS: 100}))}), ends={TURNS: 100})


async def test_unreadable_state_is_named_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    """The start goes on; the log has the key, the partition and both versions."""
    bench = Bench()
    records = {b"k": b"bad", b"fine": FORMAT.dump(Tally(("a",)))}
    async with running(bench, records=records) as lane:
        await lane.drain()

        assert [b"k"] == list(lane.states.unreadable)
        assert [1] == bench.observer.unreadable_keys
        assert Tally(("a",)) == lane.states.store.get(b"fine")
        assert 2 == len(lane.states.store)

    assert [] == bench.producer.sent(CHANGELOG)
    (line,) = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    for part in ("'changelog'", "partition 0", "'k'", "as told", "found: 0", "known: 1"):
        assert part in line


async def test_many_unreadable_states_are_counted_after_the_first_hundred(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An upgrade that can read nothing does not hold up the rebalance with its log."""
    bench = Bench()
    async with running(bench, records={f"k{n}".encode(): b"bad" for n in range(150)}):
        assert [150] == bench.observer.unreadable_keys

    lines = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert 101 == len(lines)
    assert "150 states cannot be read, 50 of them not named here" in lines[-1]


async def test_unreadable_state_goes_when_it_is_of_no_use_any_more() -> None:
    """Its time must be over, and all that was there before handled; the others stay."""
    bench = Bench()
    bench.clock.now = 1_000
    records = {b"k": b"brief 4000", b"late": b"brief 9000", b"other": b"bad"}
    async with running(bench, records=records) as lane:
        assert not lane.fire_timers(4_999)
        assert lane.fire_timers(6_000)
        assert 3 == len(lane.states.unreadable)

        for source in lane.sources.values():
            source.observe_end(0, position=0, at=6_000)
        lane.fire_timers(6_000)
        await lane.drain()

        assert {b"late", b"other"} == lane.states.unreadable.keys()
        assert [3, 2] == bench.observer.unreadable_keys
        assert 2 == len(lane.states.store)

    assert [(b"k", None)] == bench.producer.sent(CHANGELOG)
    assert [] == bench.producer.sent("timers")


async def test_unreadable_state_in_use_again_is_not_removed() -> None:
    """The key's next record comes before its time is over: what that leads to stays."""
    bench = Bench()
    async with running(bench, records={b"k": b"brief 4000"}) as lane:
        lane.finish(enter(lane, 5), handled(5))
        await lane.drain()
        for source in lane.sources.values():
            source.observe_end(6, position=6, at=6_000)

        assert not lane.fire_timers(6_000)
        assert lane.states.store.get(b"k") is not None

    assert {} == lane.states.unreadable


async def test_nothing_is_kept_of_a_key_that_has_expired() -> None:
    """A role makes a key for each of its inputs: a mark of each would fill the memory."""
    bench = Bench()
    expiring = FORMAT.dump(Tally(due=(TimerDue("t1", "expiry", 5_000),)))
    async with running(bench, records={b"k": expiring}) as lane:
        for source in lane.sources.values():
            source.observe_end(0, position=0, at=6_000)
        lane.fire_timers(6_000)
        await lane.drain()

        assert {} == lane.states.timers._fired


@pytest.mark.parametrize(
    ("value", "expected"),
    [(b"bad", {}), (b"bad 99", {TURNS: 99}), (b"bad 100", {}), (b"bad -5", {})],
)
async def test_a_watermark_that_cannot_be_is_not_believed(
    value: bytes, expected: dict[str, int]
) -> None:
    """One beyond the topic's end would pass over all that comes, and say nothing."""
    lane = Bench().lane()

    lane.load(MemoryRecords({b"k": value}), ends={TURNS: 100})

    assert expected == lane.states.unreadable[b"k"].watermarks


async def test_next_transaction_fills_while_one_commits() -> None:
    """A lane commits one transaction at a time."""
    bench = Bench()
    gate = bench.producer.gate = asyncio.Event()
    async with running(bench) as lane:
        lane.finish(enter(lane, 0), handled(0))
        await until(lambda: bench.producer._open is not None)
        lane.finish(enter(lane, 1), handled(1))
        lane.finish(enter(lane, 2), handled(2))
        gate.set()

    assert [1, 2] == [len(one.records[OUT]) for one in bench.producer.committed]
    assert ["2"] == orjson.loads(bench.producer.sent(CHANGELOG)[-1][1] or b"")["seen"]


async def test_store_is_written_after_the_commit_with_the_offset_behind_it() -> None:
    """Records and position go into the store together, and only once they are committed."""
    bench = Bench(producer=FakeProducer(batch_limit=1))
    records = MemoryRecords()
    lane = bench.lane()
    lane.load(records, ends={TURNS: 100, RESULTS: 100})
    lane.start(bench.sources())
    bench.producer.gate = asyncio.Event()
    lane.finish(enter(lane, 0), handled(0))
    lane.finish(enter(lane, 1, key=b"other"), handled(1))
    await until(lambda: bench.producer._open is not None)

    assert (0, None) == (len(records), records.position)

    bench.producer.gate.set()
    await lane.drain()

    assert {b"k", b"other"} == dict(records.items()).keys()
    assert 2 == records.position
    assert 3 == bench.producer.ends[CHANGELOG]

    lane.finish(enter(lane, 2), handled(2))
    await lane.drain()

    assert 4 == records.position

    await lane.close()


async def test_position_stays_where_the_broker_does_not_tell_an_offset() -> None:
    """After a batch that the broker got twice the store reads a little more at its next start."""
    bench = Bench()
    records = MemoryRecords()
    lane = bench.lane()
    lane.load(records, ends={TURNS: 100, RESULTS: 100})
    lane.start(bench.sources())
    bench.producer.offsets_told = False
    lane.finish(enter(lane, 0), handled(0))
    await lane.drain()

    assert [b"k"] == [key for key, _ in records.items()]
    assert records.position is None

    await lane.close()


async def test_refused_transaction_leaves_the_store_as_it_was() -> None:
    """The store never has what the changelog has not."""
    bench = Bench()
    records = MemoryRecords({b"k": FORMAT.dump(Tally(("before",)))})
    lane = bench.lane()
    lane.load(records, ends={TURNS: 100, RESULTS: 100})
    lane.start(bench.sources())
    bench.producer.refuse = RuntimeError("refused")
    lane.finish(enter(lane, 0), handled(0))
    await until(lambda: bool(bench.failures.errors))

    assert {b"k": FORMAT.dump(Tally(("before",)))} == dict(records.items())

    await lane.close()


class FullDisk(MemoryRecords):
    """Records that cannot be written."""

    def write(self, changes: Any, **_: Any) -> None:
        """Fail as a full disk does."""
        raise StoreFailed("no space left")


async def test_store_that_cannot_be_written_ends_the_process() -> None:
    """The transaction stays committed; the next start reads it from the changelog."""
    bench = Bench()
    lane = bench.lane()
    lane.load(FullDisk(), ends={TURNS: 100, RESULTS: 100})
    lane.start(bench.sources())
    lane.finish(enter(lane, 0), handled(0))
    await until(lambda: bool(bench.failures.errors))

    (error,) = bench.failures.errors
    assert isinstance(error, LaneFailed)
    assert "no space left" in str(error)
    assert {TURNS: 1} == bench.producer.offsets()

    await lane.close()


async def test_a_refused_record_is_dead_lettered_with_the_offset_that_passes_it() -> None:
    """No state remembers it: a letter that goes out earlier goes out again after a crash."""
    bench = Bench()
    async with running(bench) as lane:
        slow = enter(lane, 0)
        lane.reject(enter(lane, 1), reason="malformed", detail="", attempts=1)
        lane.finish(enter(lane, 2, key=b"other"), handled(2))
        await lane.drain()

        assert all(f"{TURNS}.dlq" not in one.records for one in bench.producer.committed)

        lane.finish(slow, handled(0))

    last = bench.producer.committed[-1]

    assert 1 == len(last.records[f"{TURNS}.dlq"])
    assert {TURNS: 3} == last.offsets
    assert 1 == sum(f"{TURNS}.dlq" in one.records for one in bench.producer.committed)


async def test_letters_of_refused_records_are_bounded_in_each_transaction() -> None:
    """However many waited for one slow record: the offsets follow in as many transactions."""
    bench = Bench(settings=settings(max_transaction_bytes=4_000))
    async with running(bench) as lane:
        slow = enter(lane, 0)
        for offset in range(1, 8):
            large = enter(lane, offset)
            large.record = record(offset, value=b"x" * 900)
            lane.reject(large, reason="malformed", detail="", attempts=1)
        await lane.drain()
        source = lane.sources[TURNS]

        assert 7 * 900 < source.letter_bytes < 7 * 3_000
        assert [] == bench.producer.sent(f"{TURNS}.dlq")

        lane.finish(slow, handled(0))
        await lane.drain()

        assert 0 == source.letter_bytes

    letters = [len(one.records.get(f"{TURNS}.dlq", [])) for one in bench.producer.committed]
    assert 7 == sum(letters)
    assert 2 >= max(letters)
    assert {TURNS: 8} == bench.producer.offsets()


async def test_letters_of_what_was_handled_count_among_the_bytes_of_a_transaction() -> None:
    """They go out with their states, and each is as large as its record."""
    bench = Bench(settings=settings(max_transaction_bytes=1_000))
    async with running(bench) as lane:
        for offset in range(3):
            large = enter(lane, offset)
            large.record = record(offset, value=b"x" * 1_001)
            outcome = Handled(Tally((), {TURNS: offset}), dead_letter=DeadLetter("invalid"))
            lane.finish(large, outcome)
        assert 3_003 < lane.sources[TURNS].letter_bytes

    assert [1, 1, 1] == [len(one.records[f"{TURNS}.dlq"]) for one in bench.producer.committed]
    assert 0 == lane.sources[TURNS].letter_bytes


async def test_what_is_committed_waits_for_an_older_record_without_its_outcome() -> None:
    """Tens of thousands may wait: their states, publications and letters would fill the memory."""
    bench = Bench()
    async with running(bench) as lane:
        slow = enter(lane, 0, key=b"slow")
        behind = enter(lane, 1)
        outcome = handled(1)
        letter = DeadLetter("invalid")
        lane.finish(behind, Handled(outcome.state, outcome.publications, letter))
        await lane.drain()

        assert behind is lane.sources[TURNS].order[1]
        held = (behind.state, behind.value, behind.publications, behind.dead_record)
        assert (None, None, (), None) == held

        lane.finish(slow, handled(0))

    assert 1 == len(bench.producer.sent(f"{TURNS}.dlq"))


async def test_timers_of_others_fire_beside_a_parked_conversation() -> None:
    """Its record waits for a newer version, perhaps for weeks; no other key waits with it."""
    bench = Bench()
    due = FORMAT.dump(Tally(due=(TimerDue("t1", "reminder", 5_000),)))
    async with running(bench, records={b"parked": b"new", b"k": due}) as lane:
        enter(lane, 0, key=b"parked")
        behind = enter(lane, 1, key=b"other")
        for source in lane.sources.values():
            source.observe_end(2, position=2, at=6_000)

        assert lane.fire_timers(6_000)

        lane.finish(behind, handled(1))
        await lane.drain()
        assert not lane.fire_timers(6_000)

    assert [(b"k", b"t1")] == bench.producer.sent("timers")
    assert {} == bench.producer.offsets()


async def test_a_state_that_has_expired_stays_while_a_restart_would_need_it() -> None:
    """Behind an unfinished record it alone says that its key's record was handled."""
    bench = Bench()
    due = (TimerDue("t1", "expiry", 5_000),)
    async with running(bench, records={b"parked": b"new"}) as lane:
        slow = enter(lane, 0, key=b"slow")
        lane.finish(enter(lane, 1), Handled(Tally((), {TURNS: 1}, due=due)))
        lane.finish(enter(lane, 2, key=b"again"), Handled(Tally((), {TURNS: 2}, due=due)))
        await lane.drain()
        for source in lane.sources.values():
            source.observe_end(0, position=0, at=6_000)
        lane.fire_timers(6_000)
        await lane.drain()

        assert lane.states.store.get(b"k") is not None

        lane.finish(enter(lane, 3, key=b"again"), Handled(Tally((), {TURNS: 3})))
        await lane.drain()
        lane.finish(slow, handled(0))
        await lane.drain()

        assert lane.states.store.get(b"k") is None
        assert lane.states.store.get(b"again") is not None

    assert (b"k", None) in bench.producer.sent(CHANGELOG)


async def test_unreadable_state_beside_a_parked_one_is_not_removed() -> None:
    """How far its key was handled is not known, and the parked record holds the offsets back."""
    bench = Bench()
    bench.clock.now = 1_000
    async with running(bench, records={b"k": b"brief 4000", b"parked": b"new"}) as lane:
        for source in lane.sources.values():
            source.observe_end(0, position=0, at=6_000)
        assert not lane.fire_timers(6_000)
        await lane.drain()

        assert {b"k"} == lane.states.unreadable.keys()

    assert [] == bench.producer.sent(CHANGELOG)


async def test_a_failure_once_the_outcome_is_taken_ends_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is none of the handler's, which would be asked for an outcome again."""
    bench = Bench()
    monkeypatch.setattr(failpoints, "armed", Failpoints(parse("after_enter=raise")))
    async with running(bench) as lane:
        lane.finish(enter(lane, 0), handled(0))

    (error,) = bench.failures.errors
    assert isinstance(error, FailpointReached)


async def test_the_first_state_comes_with_what_the_changelog_says_of_itself() -> None:
    """Once, in the same transaction; it is no record of the lane's."""
    bench = Bench()
    async with running(bench, imprint=b"said") as lane:
        lane.finish(enter(lane, 0), handled(0))
        await lane.drain()
        lane.finish(enter(lane, 1), handled(1))
        await lane.drain()

        assert b"said" == lane.states.store.imprint
        assert 1 == len(lane.states.store)

    first, second = bench.producer.committed

    assert [IMPRINT_KEY, b"k"] == [key for key, _ in first.records[CHANGELOG]]
    assert (IMPRINT_KEY, b"said") == first.records[CHANGELOG][0]
    assert [b"k"] == [key for key, _ in second.records[CHANGELOG]]


@pytest.mark.parametrize(
    ("imprinted", "expected"),
    [(b"said", []), (b'{"format":0}', [(IMPRINT_KEY, b"said")])],
)
async def test_a_changelog_says_it_once_however_often_its_lane_opens(
    imprinted: bytes, expected: list[tuple[bytes, bytes]]
) -> None:
    """Only what an older version wrote is replaced."""
    bench = Bench()
    async with running(bench, imprint=b"said", imprinted=imprinted) as lane:
        lane.finish(enter(lane, 0), handled(0))

    assert expected == [each for each in bench.producer.sent(CHANGELOG) if each[0] == IMPRINT_KEY]


async def test_a_changelog_without_states_says_it_too() -> None:
    """A role that finishes in order writes no state: it must still be known to have been here."""
    bench = Bench()
    async with running(bench, imprint=b"said") as lane:
        for offset in range(3):
            lane.finish(enter(lane, offset), handled(offset, closed=True))
            await lane.drain()

    assert [(IMPRINT_KEY, b"said")] == bench.producer.sent(CHANGELOG)
    assert [[1], [], []] == [
        [*one.offsets.values()] if CHANGELOG in one.records else []
        for one in bench.producer.committed
    ]


async def test_no_state_has_the_key_of_the_changelog_itself() -> None:
    """A handler that makes one is at fault; what it says is not taken."""
    bench = Bench()
    async with running(bench, imprint=b"said") as lane:
        entry = enter(lane, 0, key=IMPRINT_KEY)
        with pytest.raises(UnusableOutcome, match="the changelog's own"):
            lane.finish(entry, handled(0))
        lane.reject(entry, reason="handler_failed", detail="", attempts=1)

    assert [(IMPRINT_KEY, b"said")] == bench.producer.sent(CHANGELOG)


async def test_a_key_that_expires_before_it_is_committed_is_looked_at_again() -> None:
    """A time that is over when its state is made: the tick comes before the transaction."""
    bench = Bench()
    async with running(bench) as lane:
        entry = enter(lane, 0)
        state = Tally().after(entry.record, due=(TimerDue("end", "expiry", 5_000),))
        for source in lane.sources.values():
            source.observe_end(0, position=0, at=6_000)
        lane.handled_through()
        lane.finish(entry, Handled(state))

        assert not lane.fire_timers(6_000)

        await lane.drain()

        assert lane.states.store.has_record(b"k")

        for source in lane.sources.values():
            source.observe_end(1, position=1, at=7_000)

        assert not lane.fire_timers(7_000)

        await lane.drain()

    assert [(b"k", FORMAT.dump(state)), (b"k", None)] == bench.producer.sent(CHANGELOG)
