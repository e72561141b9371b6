"""Order per key, concurrency between keys, and bounds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiokafka.structs import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from turnstream.stream.dispatch import Dispatcher
from turnstream.stream.handler import TimerDue
from turnstream.stream.lane import Lane
from turnstream.stream.store import MemoryRecords

from .lane_fakes import (
    CHANGELOG,
    OUT,
    RESULTS,
    TURNS,
    Bench,
    Script,
    Tally,
    TallyFormat,
    record,
    settings,
    until,
)

FORMAT = TallyFormat()


class Running:
    """A dispatcher with one lane."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.dispatcher: Dispatcher[Tally] = Dispatcher(bench.role())
        self.lane: Lane[Tally] = bench.lane(progressed=self.dispatcher.resume)
        self._next = {TURNS: 0, RESULTS: 0}

    def deliver(self, *values: str, key: str = "k", topic: str = TURNS) -> None:
        """Deliver one fetch; a value `key:value` names its own key."""
        records = []
        for text in values:
            name, _, value = text.rpartition(":")
            records.append(
                record(
                    self._next[topic],
                    key=(name or key).encode(),
                    value=value.encode(),
                    topic=topic,
                )
            )
            self._next[topic] += 1
        self.dispatcher.deliver({TopicPartition(topic, 0): records})

    def open_gate(self, value: str) -> None:
        """Let a waiting handler go on."""
        self.bench.script.gates.setdefault(value, asyncio.Event()).set()

    async def committed(self, **offsets: int) -> None:
        """Wait until the committed offsets are these."""
        await until(
            lambda: bool(self.bench.failures.errors) or self.bench.producer.offsets() == offsets
        )

    @property
    def calls(self) -> list[tuple[str, str]]:
        """What the handler was asked."""
        return self.bench.script.calls

    @property
    def published(self) -> list[str]:
        """What was published."""
        return [(value or b"").decode() for _, value in self.bench.producer.sent(OUT)]


@asynccontextmanager
async def running(
    *, records: dict[bytes, bytes] | None = None, script: Script | None = None, **changes: Any
) -> AsyncIterator[Running]:
    """Run a dispatcher from its opening to its closing."""
    one = Running(Bench(settings=settings(**changes), script=script or Script()))
    one.lane.load(MemoryRecords(records), ends={TURNS: 1_000_000, RESULTS: 1_000_000})
    one.lane.start(one.bench.sources())
    one.dispatcher.open({0: one.lane})
    try:
        yield one
        assert [] == one.bench.failures.errors
    finally:
        one.dispatcher.close_intake()
        await one.dispatcher.wait_running(0)
        await one.lane.close()


async def test_answer_at_once_makes_no_task() -> None:
    """Records whose handler needs no I/O are handled where they are taken."""
    async with running() as one:
        one.deliver("a", "b")
        await one.committed(turns=2)

        assert ["a", "b"] == one.published
        assert 0 == one.dispatcher.slots.running


async def test_inputs_of_a_key_run_one_at_a_time_in_order() -> None:
    """The next sees the state of the one before, committed or not."""
    async with running() as one:
        one.deliver("wait1", "b", "wait2", "d")
        await until(lambda: one.calls == [("handle", "wait1")])
        one.open_gate("wait1")
        await until(lambda: ("handle", "wait2") in one.calls)

        assert ("handle", "d") not in one.calls

        one.open_gate("wait2")
        await one.committed(turns=4)

        assert ["wait1", "b", "wait2", "d"] == one.published
        state = FORMAT.load(one.bench.producer.sent(CHANGELOG)[-1][1] or b"")
        assert ("wait1", "b", "wait2", "d") == state.seen


async def test_one_key_spans_all_topics_of_its_partition() -> None:
    """A turn and a result of one conversation never run side by side."""
    async with running() as one:
        one.deliver("wait1")
        one.deliver("b", topic=RESULTS)
        await asyncio.sleep(0)

        assert [("handle", "wait1")] == one.calls

        one.open_gate("wait1")
        await one.committed(turns=1, results=1)


async def test_other_keys_overtake_a_slow_one() -> None:
    """A slow key holds back nothing but the offset."""
    async with running() as one:
        one.deliver("slow:wait1", "other:b")
        await until(lambda: one.published == ["b"])

        assert {} == one.bench.producer.offsets()

        one.open_gate("wait1")
        await one.committed(turns=2)


async def test_seen_input_is_skipped_without_a_call() -> None:
    """What a state's watermark covers was decided and published before the crash."""
    seen = FORMAT.dump(Tally(("a", "b"), {TURNS: 1}))
    async with running(records={b"k": seen}) as one:
        one.deliver("a", "b", "c")
        await one.committed(turns=3)

        assert [("handle", "c")] == one.calls
        assert 2 == one.bench.observer.skips


@given(st.permutations([TURNS] * 7 + [RESULTS] * 4), st.booleans())
def test_inputs_that_come_back_in_another_order_are_each_known_by_their_source(
    topics: list[str], slow: bool
) -> None:
    """One watermark per source: after a crash they come back mixed otherwise than before it.

    The state has had turns up to 5 and results up to 2; the committed offsets are behind both.
    """
    word = "wait" if slow else "now"
    new = {(TURNS, f"{word}-turns-6"), (RESULTS, f"{word}-results-3")}

    async def scenario() -> None:
        seen = FORMAT.dump(Tally(("before",), {TURNS: 5, RESULTS: 2}))
        async with running(records={b"k": seen}) as one:
            counts = {TURNS: 0, RESULTS: 0}
            for topic in topics:
                one.deliver(f"{word}-{topic}-{counts[topic]}", topic=topic)
                counts[topic] += 1
                await asyncio.sleep(0)
            for _, value in new:
                one.open_gate(value)
            await one.committed(turns=7, results=4)

            assert sorted(value for _, value in new) == sorted(value for _, value in one.calls)
            assert sorted(value for _, value in new) == sorted(one.published)
            assert 9 == one.bench.observer.skips
            state = one.lane.states.store.get(b"k")
            assert state is not None
            assert {TURNS: 6, RESULTS: 3} == state.marks
            assert {"before", *(value for _, value in new)} == set(state.seen)

    asyncio.run(scenario())


async def test_slots_bound_what_runs_and_priority_goes_first() -> None:
    """A free slot is given to a result before a turn that came earlier."""
    async with running(slots=1) as one:
        one.deliver("k1:wait1", "k2:wait2")
        one.deliver("k3:wait3", topic=RESULTS)
        await until(lambda: one.bench.script.running == 1)
        one.open_gate("wait1")
        await until(lambda: len(one.calls) == 2)

        assert [("handle", "wait1"), ("handle", "wait3")] == one.calls

        one.open_gate("wait3")
        one.open_gate("wait2")
        await one.committed(turns=2, results=1)

        assert 1 == one.bench.script.most_running


async def test_full_partition_is_not_fetched_until_there_is_room() -> None:
    """Only the partition at its bound stops; the others go on."""
    async with running(max_queued_per_partition=2, slots=1) as one:
        one.deliver(*(f"k{number}:wait" for number in range(6)))
        await until(lambda: one.dispatcher.fetchable() == {TopicPartition(RESULTS, 0)})

        assert 3 == len(one.lane.sources[TURNS].order)

        one.open_gate("wait")
        await one.committed(turns=6)

        assert 2 == len(one.dispatcher.fetchable())


async def test_flooded_key_goes_to_flood() -> None:
    """Everything that waits for a key beyond its bound takes the short way, in order."""
    async with running(max_queued_per_key=2) as one:
        one.deliver("wait1", "b", "c", "d")
        await until(lambda: one.lane.flooded == {b"k"})
        one.open_gate("wait1")
        await one.committed(turns=4)
        one.deliver("e")
        await one.committed(turns=5)

        assert [
            ("handle", "wait1"),
            ("flood", "b"),
            ("flood", "c"),
            ("flood", "d"),
            ("handle", "e"),
        ] == one.calls


async def test_failure_is_retried_then_dead_lettered_and_the_key_goes_on() -> None:
    """The handler has the last word on the state; the record is kept in any case."""
    async with running() as one:
        one.deliver("fail", "b")
        await one.committed(turns=2)

        assert [("handle", "fail")] * 3 + [("abandon", "fail"), ("handle", "b")] == one.calls
        assert [(b"k", b"fail")] == one.bench.producer.sent("turns.dlq")
        assert [(TURNS, "handler_failed")] == one.bench.observer.letters
        assert 2 == one.bench.observer.retries


async def test_passing_failure_leaves_no_trace() -> None:
    """An attempt that works is all that counts."""
    async with running() as one:
        one.deliver("fail2")
        await one.committed(turns=1)

        assert ["fail2"] == one.published
        assert [] == one.bench.producer.sent("turns.dlq")


async def test_failing_abandon_leaves_the_dead_letter() -> None:
    """The state stays, the offset passes, nothing is stranded."""
    async with running() as one:
        one.bench.script.abandon_fails = True
        one.deliver("fail", "b")
        await one.committed(turns=2)

        assert ["b"] == one.published
        assert [(b"k", b"fail")] == one.bench.producer.sent("turns.dlq")


@pytest.mark.parametrize("value", ["stale", "big", "cancel"])
async def test_unusable_outcome_is_a_failure_of_the_handler(value: str) -> None:
    """A forgotten watermark, a state too large, a stray cancellation: dead-lettered, not looped."""
    async with running(attempts=2) as one:
        one.deliver(value, "b")
        await one.committed(turns=2)

        assert [(b"k", value.encode())] == one.bench.producer.sent("turns.dlq")
        assert ["b"] == one.published


@pytest.mark.parametrize("abandon_fails", [False, True])
@pytest.mark.parametrize(
    ("value", "reason"),
    [("stale", "handler_failed"), ("big", "state_too_large"), ("long", "output_too_large")],
)
async def test_outcome_that_does_not_fit_is_not_tried_again(
    value: str, reason: str, abandon_fails: bool
) -> None:
    """The same input would lead to the same once more: it is given up at once, and says why."""
    async with running(attempts=3) as one:
        one.bench.script.abandon_fails = abandon_fails
        one.deliver(value)
        await one.committed(turns=1)

        assert [("handle", value), ("abandon", value)] == one.calls
        assert 0 == one.bench.observer.retries
        assert [(TURNS, reason)] == one.bench.observer.letters


async def test_age_ends_retries_that_attempts_would_allow() -> None:
    """Where one more attempt would begin too late, none is begun."""
    async with running(attempts=100, retry_patience_ms=0) as one:
        one.deliver("fail", "b")
        await one.committed(turns=2)

        assert [("handle", "fail"), ("abandon", "fail"), ("handle", "b")] == one.calls
        assert [(TURNS, "handler_failed")] == one.bench.observer.letters


async def test_failing_key_holds_back_no_other_and_takes_no_slot() -> None:
    """While it waits for its next attempt others run in its place; its own records wait."""
    async with running(slots=1, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000) as one:
        one.deliver("fail", "behind", "other:wait1", "third:now")
        await until(lambda: ("handle", "wait1") in one.calls)

        assert [("handle", "fail"), ("handle", "wait1")] == one.calls

        one.open_gate("wait1")
        await until(lambda: one.published == ["wait1", "now"])
        assert {} == one.bench.producer.offsets()
        assert ("handle", "behind") not in one.calls


async def test_waits_between_attempts_are_the_same_wherever_they_are_made() -> None:
    """They double, and are spread by the record's coordinates and by nothing else."""
    waits: list[list[float]] = []
    for _ in range(2):
        async with running(attempts=5, retry_backoff_ms=1_000, retry_backoff_max_ms=3_000) as one:
            waited: list[float] = []

            async def rest(seconds: float, waited: list[float] = waited) -> bool:
                waited.append(seconds)
                return True

            one.dispatcher.slots.rest = rest  # type: ignore[method-assign]
            one.deliver("a:fail", "b:fail")
            await one.committed(turns=2)
            waits.append(waited)

    first, second = waits[0][:4], waits[0][4:]
    for wait, longest in zip(first, (1.0, 2.0, 3.0, 3.0), strict=True):
        assert longest / 2 <= wait < longest
    assert waits[0] == waits[1]
    assert not set(first) & set(second)


async def test_unfinished_record_lets_a_bounded_number_ahead() -> None:
    """At the bound its partition is paused, alone; it goes on as soon as the record ends."""
    async with running(max_ahead_per_partition=3) as one:
        one.deliver("slow:wait1", "a:1", "b:2")
        await until(lambda: one.published == ["1", "2"])
        assert [] == one.bench.observer.pauses

        one.deliver("c:3", "d:4")
        one.deliver("e:5", topic=RESULTS)
        await until(lambda: one.published == ["1", "2", "5"])

        assert [(TURNS, True)] == one.bench.observer.pauses
        assert {TopicPartition(RESULTS, 0)} == one.dispatcher.fetchable()
        assert {RESULTS: 1} == one.bench.producer.offsets()

        one.open_gate("wait1")
        await one.committed(turns=5, results=1)

        assert ["1", "2", "5", "wait1", "3", "4"] == one.published
        assert [(TURNS, True), (TURNS, False)] == one.bench.observer.pauses
        assert 2 == len(one.dispatcher.fetchable())


async def test_refused_records_behind_an_unfinished_one_are_bounded_in_bytes() -> None:
    """Each is kept whole until the offset passes it: at the bound its partition pauses, alone."""
    async with running(max_transaction_bytes=5_000) as one:
        one.deliver("slow:wait1", *["reject"] * 30)
        one.deliver("a:1", topic=RESULTS)
        await until(lambda: one.published == ["1"])
        (source,) = [each for each in one.dispatcher.sources if each.topic == TURNS]
        await until(lambda: source.paused)

        assert 5_000 <= source.letter_bytes < 6_000
        assert len(source.order) < 20
        assert {TopicPartition(RESULTS, 0)} == one.dispatcher.fetchable()
        assert [(TURNS, True)] == one.bench.observer.pauses

        one.open_gate("wait1")
        await one.committed(turns=31, results=1)

        assert 30 == len(one.bench.producer.sent(f"{TURNS}.dlq"))
        assert 0 == source.letter_bytes
        assert (TURNS, False) == one.bench.observer.pauses[-1]


async def test_records_given_up_while_handled_are_bounded_in_bytes_until_they_are_out() -> None:
    """Their letters wait for no offset, only for a transaction; the partition then goes on."""
    async with running(max_transaction_bytes=2_000) as one:
        one.deliver("slow:wait1", *(f"k{number}:letter" for number in range(200)))
        await until(lambda: 200 == len(one.bench.producer.sent(f"{TURNS}.dlq")))

        assert {} == one.bench.producer.offsets()
        assert (TURNS, True) in one.bench.observer.pauses

        one.open_gate("wait1")
        await one.committed(turns=201)

        assert 0 == max(each.letter_bytes for each in one.dispatcher.sources)


async def test_record_that_fails_for_good_does_not_keep_its_partition_at_the_bound() -> None:
    """Its attempts and its age end it, and the offsets move on."""
    async with running(max_ahead_per_partition=2, attempts=3) as one:
        one.deliver("bad:fail", *(f"k{number}:{number}" for number in range(6)))
        await one.committed(turns=7)

        assert [str(number) for number in range(6)] == sorted(one.published)
        assert [(TURNS, "handler_failed")] == one.bench.observer.letters
        assert (TURNS, False) == one.bench.observer.pauses[-1]


async def test_parked_key_stops_its_partition_at_the_bound_and_shows() -> None:
    """The exception: it waits for a newer version, and nothing of it is passed or put aside."""
    async with running(records={b"parked": b"new"}, max_ahead_per_partition=2) as one:
        one.deliver("parked:x", "a:1", "b:2", "c:3")
        one.deliver("d:4", topic=RESULTS)
        await one.committed(results=1)

        assert ["1", "4"] == one.published
        assert [(TURNS, True)] == one.bench.observer.pauses
        assert 1 == one.bench.observer.parked_keys
        assert [] == one.bench.observer.letters


@pytest.mark.parametrize(
    ("value", "reason"), [("reject", "malformed"), ("admit bug", "handler_failed")]
)
async def test_inadmissible_record_is_dead_lettered(value: str, reason: str) -> None:
    """The partition goes on behind it."""
    async with running() as one:
        one.deliver(value, "b")
        await one.committed(turns=2)

        assert ["b"] == one.published
        assert [(TURNS, reason)] == one.bench.observer.letters


async def test_what_another_role_is_to_handle_is_passed_over() -> None:
    """What was replayed for it, and what it dead-letters for all; not what only this one refuses.

    No state moves, only the committed offset.
    """
    async with running(rejected_elsewhere=frozenset({TURNS})) as one:
        one.deliver("another's", "reject", "reject alone", "b")
        await one.committed(turns=4)

        assert [("handle", "b")] == one.calls
        assert [(TURNS, "invalid")] == one.bench.observer.letters
        assert [b"k"] == [key for key, _ in one.bench.producer.sent(CHANGELOG)]


async def test_unknown_schema_holds_its_partition_alone() -> None:
    """It is looked up until it is known; nothing is dead-lettered."""
    async with running(schema_retry_ms=1) as one:
        one.deliver("schema1", "b")
        one.deliver("other:c", topic=RESULTS)
        await one.committed(turns=2, results=1)

        assert ["c", "schema1", "b"] == one.published
        assert [True, False] == one.bench.observer.holds
        assert [] == one.bench.observer.letters


async def test_parked_key_is_left_untouched() -> None:
    """Its records stay unfinished, other keys are handled."""
    async with running(records={b"parked": b"new"}) as one:
        one.deliver("a", "parked:b", "c")
        await until(lambda: one.published == ["a", "c"])

        assert {TURNS: 1} == one.bench.producer.offsets()


async def test_unreadable_state_is_given_up_with_the_next_record() -> None:
    """That one is a dead letter, what follows is handled on what was made of it; others go on."""
    async with running(records={b"k": b"bad"}) as one:
        one.deliver("other:a")
        await one.committed(turns=1)
        assert [] == [each for each in one.bench.producer.sent(CHANGELOG) if each[0] == b"k"]

        one.deliver("b", "c")
        await one.committed(turns=3)

        assert [("handle", "a"), ("abandon", "b"), ("handle", "c")] == one.calls
        assert ["a", "c"] == one.published
        assert [(b"k", b"b")] == one.bench.producer.sent(f"{TURNS}.dlq")
        assert [(TURNS, "state_unreadable")] == one.bench.observer.letters
        assert [1, 0] == one.bench.observer.unreadable_keys
        state = one.lane.states.store.get(b"k")
        assert state is not None
        assert ("lost", "b", "c") == state.seen


async def test_what_an_unreadable_state_has_seen_is_passed_over() -> None:
    """Its watermark holds, as far as it can be made out: nothing is given up twice."""
    async with running(records={b"k": b"bad 1"}) as one:
        one.deliver("a", "b")
        await one.committed(turns=2)
        assert 2 == one.bench.observer.skips
        assert [] == one.calls

        one.deliver("r", topic=RESULTS)
        await one.committed(turns=2, results=1)
        assert [("abandon", "r")] == one.calls
        state = one.lane.states.store.get(b"k")
        assert state is not None
        assert {TURNS: 1, RESULTS: 0} == state.marks


async def test_unreadable_state_stays_where_it_cannot_be_given_up() -> None:
    """The record is a dead letter all the same, and the state is no fresh one."""
    async with running(records={b"k": b"bad"}) as one:
        one.bench.script.abandon_fails = True
        one.deliver("a", "b")
        await one.committed(turns=2)

        assert [("abandon", "a"), ("abandon", "b")] == one.calls
        assert [(TURNS, "state_unreadable")] * 2 == one.bench.observer.letters
        assert [] == one.bench.producer.sent(CHANGELOG)
        assert [b"k"] == list(one.lane.states.unreadable)


async def test_intermediate_state_is_what_a_retry_sees() -> None:
    """The handler goes on only when it is committed."""
    async with running() as one:
        one.deliver("interim")
        await one.committed(turns=1)

        assert [("handle", "interim"), ("committed", "started")] == one.calls
        first = one.bench.producer.committed[0]
        assert {} == first.offsets
        assert ["started"] == orjson.loads(first.records[CHANGELOG][0][1] or b"")["seen"]


async def test_closing_drops_what_has_not_started_and_waits_for_what_has() -> None:
    """Dropped records are read again by the next owner: no offset passes them."""
    async with running() as one:
        one.deliver("wait1", "b")
        await until(lambda: one.bench.script.running == 1)
        one.dispatcher.close_intake()
        waiting = asyncio.create_task(one.dispatcher.wait_running(5))
        one.open_gate("wait1")

        assert 0 == await waiting

        await one.lane.drain()

        assert {TURNS: 1} == one.bench.producer.offsets()
        assert [("handle", "wait1")] == one.calls


async def test_handler_beyond_the_grace_is_cancelled_and_not_finished() -> None:
    """Its input is handled again by the next owner."""
    async with running() as one:
        one.deliver("wait1")
        await until(lambda: one.bench.script.running == 1)
        one.dispatcher.close_intake()

        assert 1 == await one.dispatcher.wait_running(0)

        await one.lane.drain()

        assert [] == one.bench.producer.committed


async def test_records_below_the_cursor_are_ignored() -> None:
    """What was fetched before a seek is not taken twice; gaps are no alarm."""
    async with running() as one:
        tp = TopicPartition(TURNS, 0)
        one.dispatcher.deliver({tp: [record(0, value=b"a"), record(4, value=b"b")]})
        one.dispatcher.deliver({tp: [record(0, value=b"a"), record(4, value=b"b")]})
        one.dispatcher.deliver({tp: [record(9, value=b"c")]})
        await one.committed(turns=10)

        assert ["a", "b", "c"] == one.published


async def test_fault_of_our_own_ends_the_process() -> None:
    """A key is never left with records that wait."""
    one = Running(Bench())
    one.lane.start(one.bench.sources())
    one.dispatcher.open({0: one.lane})
    one.lane.states.store.get = None  # type: ignore[method-assign, assignment]
    one.deliver("a")
    await until(lambda: bool(one.bench.failures.errors))
    await one.lane.close()

    assert 1 == len(one.bench.failures.errors)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
    st.integers(1, 3),
)
def test_any_order_of_completion_keeps_each_keys_order(
    inputs: list[tuple[str, bool]], random: Any, slots: int
) -> None:
    """Every input is published once, in order per key, and all offsets are committed."""

    async def scenario() -> None:
        async with running(slots=slots) as one:
            values = [
                f"{key}:{'wait' if slow else 'now'}-{number}"
                for number, (key, slow) in enumerate(inputs)
            ]
            one.deliver(*values)
            gates = [value.partition(":")[2] for value in values]
            random.shuffle(gates)
            for gate in gates:
                one.open_gate(gate)
                await asyncio.sleep(0)
            await one.committed(turns=len(inputs))
            sent = one.bench.producer.sent(OUT)
            for key in {key for key, _ in inputs}:
                expected = [each.partition(":")[2] for each in values if each.startswith(key)]
                assert expected == [
                    (value or b"").decode() for name, value in sent if name == key.encode()
                ]
            assert len(inputs) == len(sent)

    asyncio.run(scenario())


async def test_a_full_lane_takes_nothing_new_until_states_expire() -> None:
    """Nothing younger is removed; expiries do not wait for the backlog that waits for them."""
    async with running(max_keys_per_partition=2) as on:
        on.deliver("a:expire 5000", "b:expire 9000")
        await on.committed(turns=2)
        await until(lambda: on.lane.full)
        on.deliver("c:one", "d:two")

        assert {TopicPartition(RESULTS, 0)} == on.dispatcher.fetchable()
        assert [True] == on.bench.observer.fulls
        assert not on.lane.fire_timers(4_999)
        assert {TURNS: 2} == on.bench.producer.offsets()

        on.lane.fire_timers(5_000)
        await on.committed(turns=4)

        assert [True, False] == on.bench.observer.fulls[:2]
        assert None is on.lane.states.store.get(b"a")
        assert None is not on.lane.states.store.get(b"b")


@pytest.mark.parametrize(
    "found",
    [
        FORMAT.dump(Tally(due=(TimerDue("begun", "lost", 5_000, after_backlog=True),))),
        b"brief 5000",
        b"bad",
    ],
    ids=["begun", "unreadable, of use for a while", "unreadable"],
)
async def test_what_only_the_backlog_ends_does_not_close_a_lane(found: bytes) -> None:
    """Nothing would ever be taken again; once it has ended it counts like any other."""
    records = {b"a": found, b"b": found}
    async with running(max_keys_per_partition=2, records=records) as on:
        on.deliver("c:one", "a:expire 9000", "b:expire 9000", "d:two")
        await on.committed(turns=4)

        assert on.lane.full
        assert not on.lane.states.unsettled


async def test_a_parked_state_does_not_close_a_lane() -> None:
    """Other keys go on, however few records there may be."""
    async with running(max_keys_per_partition=1, records={b"parked": b"new"}) as on:
        on.deliver("a:expire 9000")
        await on.committed(turns=1)
        await until(lambda: on.lane.full)


async def test_a_lane_that_opens_full_waits_as_well() -> None:
    """What a former owner has left counts."""
    kept = FORMAT.dump(Tally(("x",), {}, due=(TimerDue("end", "expiry", 5_000),)))
    async with running(max_keys_per_partition=1, records={b"old": kept}) as on:
        on.deliver("c:one")

        assert on.lane.full
        assert [True] == on.bench.observer.fulls
        assert {TopicPartition(RESULTS, 0)} == on.dispatcher.fetchable()

        on.lane.fire_timers(5_000)
        await on.committed(turns=1)
