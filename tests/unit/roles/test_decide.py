"""The decide role: one input stepped until its conversation rests, whatever the decider does."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields, replace
from typing import Any, get_args, get_type_hints

import pytest
import structlog

from tests.agents import calling, wanting
from tests.catalogs import RULES
from tests.unit.roles.bench import (
    EFFORT,
    NOW,
    Clock,
    Counted,
    FakeLane,
    asked_of,
    events,
    intake,
    publisher,
    record,
    turn,
)
from turnstream.core.conversation import Conversation, TimerEntry, Value
from turnstream.core.effects import DeadLetter
from turnstream.core.events import Answer, ConversationTurn, Event, Label, Source, Timer
from turnstream.core.identity import action_id
from turnstream.core.ports import Decider, DeciderUnavailable, DecisionRequest, Proposal
from turnstream.core.publications import ActionEvent, OutboundMessage, Outcome
from turnstream.models.scripted import ScriptedDecider, Step, answer, ask, call, hand_off, refuse
from turnstream.roles.asking import Asking
from turnstream.roles.conversation_format import ConversationFormat
from turnstream.roles.decide import SOURCES, WRITES, DecideHandler
from turnstream.roles.pending import PendingQuestions
from turnstream.stream import (
    DeadLetterReason,
    Handled,
    Record,
    StateTooNew,
    StateUnreadable,
    TimerDue,
    concluded,
)

TURNS = "conversation.turns"
ANSWERS = "conversation.answers"
DOWN = DeciderUnavailable("down")
FAULTY = replace(answer("hours"), answer_id="no_such_answer")
GIVEN_UP = hand_off("schema_fail")


class Later:
    """A decider whose replies need a turn of the event loop."""

    def __init__(self, decider: ScriptedDecider) -> None:
        self._decider = decider
        self.name = decider.name

    def propose(self, request: DecisionRequest) -> Awaitable[Proposal]:
        """Reply later."""

        async def later() -> Proposal:
            await asyncio.sleep(0)
            return self._decider.propose(request)

        return later()


class Hanging:
    """A decider that never replies."""

    name = "hanging"

    def __init__(self) -> None:
        self.asked = 0

    def propose(self, request: DecisionRequest) -> Awaitable[Proposal]:
        """Never reply."""
        self.asked += 1
        return asyncio.Event().wait()  # type: ignore[return-value]


class Bench:
    """A handler with everything around it that a test looks at."""

    def __init__(self, decider: Decider, *, attempts: int = 2) -> None:
        self.counted = Counted(RULES.catalog)
        self.clock = Clock()
        self.lane: FakeLane[Conversation] = FakeLane(self.clock)
        self.now = NOW + 250
        self.pending = PendingQuestions(topic=TURNS)
        self.attempts = attempts
        asked = asked_of(decider, self.counted.metrics, clock=self.clock)
        self.provider = asked["providers"]["shop"]
        self.handler = DecideHandler(
            intake=intake(),
            publisher=publisher("decide"),
            ruleset=RULES,
            **asked,
            metrics=self.counted.metrics,
            pending=self.pending,
            now_ms=lambda: self.now,
        )
        self.state: Conversation | None = None
        self.asking_patience(EFFORT.patience)

    def asking_patience(self, seconds: float) -> None:
        """Let inputs wait as long for their decider."""
        effort = replace(EFFORT, attempts=self.attempts, patience=seconds)
        self.handler._asking = Asking(effort, metrics=self.counted.metrics, clock=self.clock)

    def begin(self, source: Record) -> Handled[Conversation] | Awaitable[Handled[Conversation]]:
        """Admit a record and begin with it."""
        _, event = self.handler.admit(source)
        return concluded(self.handler.handle(source, event, self.state, self.lane))

    async def take(self, source: Record) -> Handled[Conversation]:
        """Handle a record on the state so far."""
        handled = self.begin(source)
        if not isinstance(handled, Handled):
            handled = await handled
        self.state = handled.state
        return handled


def scripted(*replies: Proposal | DeciderUnavailable) -> ScriptedDecider:
    """A decider with these replies."""
    return ScriptedDecider([Step(reply) for reply in replies])


def value(text: str) -> Value:
    """A field's value, said by the customer."""
    return Value(candidates=(text,), turn_id="t-0", epoch=0, at_input=0, changed_at=0)


def at(
    offset: int, text: str = "Hello", *, headers: Sequence[tuple[str, Any]] = (), **changes: Any
) -> Record:
    """The record of a customer's turn."""
    event = turn(text, **{"turn_id": f"t-{offset}", **changes})
    return replace(record(event, offset, topic=TURNS), headers=tuple(headers))


def action_in(handled: Handled[Conversation]) -> ActionEvent:
    """The one action among what is published."""
    (action,) = [one for one in events(handled) if isinstance(one, ActionEvent)]
    return action


def test_an_immediate_decider_costs_no_task() -> None:
    """The state and the action come back at once, with ids of the record and a moved watermark."""
    bench = Bench(scripted(answer("hours")))

    handled = bench.begin(at(7))

    assert isinstance(handled, Handled)
    assert handled.state is not None
    assert {TURNS: 7} == handled.state.watermarks
    assert None is handled.dead_letter
    action = action_in(handled)
    source = Source(topic=TURNS, partition=0, offset=7)
    assert (source, action_id("c-1", source, 0)) == (action.source, action.action_id)
    assert ("answer", "hours") == (
        action.decision.action,
        action.answer.answer_id if action.answer else None,
    )
    assert 1 == bench.counted.value("turns_total", role="customer")
    labels = {"action": "answer", "reason_code": "context_sufficient"}
    assert 1 == bench.counted.value("decisions_total", **labels)
    assert 0.25 == bench.counted.value("decision_age_seconds_sum")


async def test_a_turn_of_the_future_is_decided_and_has_no_age() -> None:
    """A caller's clock goes before ours: the turn is new, and nothing is negative."""
    bench = Bench(scripted(answer("hours")))

    handled = await bench.take(at(0, occurred_at=bench.now + 5_000))

    assert "answer" == action_in(handled).decision.action
    assert 0 == bench.counted.value("decision_age_seconds_sum")
    assert 1 == bench.counted.value("impossible_values_total")


async def test_a_patient_decider_leads_to_the_same() -> None:
    """Awaited or not, a proposal has the same consequences."""
    at_once = await Bench(scripted(ask("order_id", needed_for="get_order"))).take(at(0))
    later = await Bench(Later(scripted(ask("order_id", needed_for="get_order")))).take(at(0))

    assert at_once == later


async def test_an_action_and_its_message_carry_their_headers() -> None:
    """CloudEvents attributes, and the input's trace, on everything that is published."""
    trace = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    bench = Bench(scripted(ask("order_id", needed_for="get_order")))

    handled = await bench.take(at(0, headers=[("traceparent", trace)]))

    action, message = events(handled)
    assert isinstance(action, ActionEvent)
    assert isinstance(message, OutboundMessage)
    assert ["conversation.actions", "conversation.outbound"] == [
        one.topic for one in handled.publications
    ]
    assert set(WRITES) >= {one.topic for one in handled.publications}
    assert [b"c-1", b"c-1"] == [one.key for one in handled.publications]
    for publication, kind in zip(
        handled.publications, ("ActionEvent", "OutboundMessage"), strict=True
    ):
        assert {
            "ce_specversion": b"1.0",
            "ce_source": b"turnstream/decide",
            "ce_type": f"turnstream.{kind}".encode(),
            "ce_id": action.action_id.encode(),
            "traceparent": trace,
        } == dict(publication.headers)


async def test_an_open_question_is_counted_until_its_reply() -> None:
    """The gauge's source follows each input."""
    bench = Bench(scripted(ask("order_id", needed_for="get_order"), call("get_order")))
    claims = {"subject_id": "s"}
    await bench.take(at(0, session_claims=claims))

    assert [(TURNS, 0, 1, NOW + 250)] == [
        (one.topic, one.partition, one.count, one.oldest_at) for one in bench.pending.report()
    ]

    await bench.take(at(1, "A-12", session_claims=claims))

    assert [(0, None)] == [(one.count, one.oldest_at) for one in bench.pending.report()]


@pytest.mark.parametrize("wrap", [lambda one: one, Later], ids=["immediate", "patient"])
@pytest.mark.parametrize(
    ("replies", "expected", "failures"),
    [
        ((DOWN, answer("hours")), ("answer", None), {}),
        ((DOWN, DOWN), ("handoff", "budget"), {"unavailable": 1}),
        ((FAULTY, answer("hours")), ("answer", None), {"blocked": 1}),
        ((FAULTY, FAULTY), ("handoff", "schema_fail"), {"blocked": 2}),
        ((FAULTY, GIVEN_UP), ("handoff", "schema_fail"), {"blocked": 1}),
        ((FAULTY, DOWN, answer("hours")), ("answer", None), {"blocked": 1}),
        ((FAULTY, DOWN, DOWN), ("handoff", "budget"), {"blocked": 1, "unavailable": 1}),
        ((DOWN, FAULTY, answer("hours")), None, {}),
        ((refuse("fraud"),), ("refuse", None), {}),
    ],
)
async def test_a_failing_decider_is_asked_again_within_bounds(
    wrap: Callable[[ScriptedDecider], Decider],
    replies: tuple[Proposal | DeciderUnavailable, ...],
    expected: tuple[str, str | None] | None,
    failures: dict[str, int],
) -> None:
    """An unavailable one up to its attempts; a blocked proposal once, with the fault named."""
    script = scripted(*replies)
    bench = Bench(wrap(script), attempts=3 if expected is None else 2)

    handled = await bench.take(at(0))

    script.finish()
    action = action_in(handled)
    if expected is not None:
        cause = action.handoff.cause if action.handoff is not None else None
        assert expected == (action.decision.action, cause)
        assert failures == {
            failure: count
            for failure in ("blocked", "unavailable")
            if (count := bench.counted.value("decider_failures_total", failure=failure))
        }
    faulty = [number for number, reply in enumerate(replies) if reply is FAULTY]
    asked_with_fault = [number for number, one in enumerate(script.requests) if one.fault]
    assert [number > faulty[0] for number in asked_with_fault] == [True] * len(asked_with_fault)
    assert bool(faulty) == bool(asked_with_fault)


async def test_a_decider_that_hangs_is_not_waited_for() -> None:
    """After its time-outs a person takes over, who is told that there was no proposal."""
    decider = Hanging()
    bench = Bench(decider)

    action = action_in(await bench.take(at(0)))

    assert 2 == decider.asked
    assert action.handoff is not None
    assert ("unsupported", "budget") == (action.decision.reason_code, action.handoff.cause)
    assert 1 == bench.counted.value("handoffs_total", cause="budget")


@pytest.mark.parametrize("wrap", [lambda one: one, Later], ids=["immediate", "patient"])
async def test_a_rate_limit_is_kept_to_and_the_decision_counts_from_its_end(
    wrap: Callable[[ScriptedDecider], Decider],
) -> None:
    """The turn waits as long as the provider says; deadlines do not run meanwhile."""
    limited = DeciderUnavailable("429", retry_after_seconds=30.0)
    bench = Bench(wrap(scripted(limited, call("search_help"))))
    began = bench.now
    bench.state = Conversation(values={"topic": {"message": value("returns")}})
    resting = bench.lane.rest

    async def rest(seconds: float) -> None:
        bench.now += int(seconds * 1000)
        await resting(seconds)

    bench.lane.rest = rest  # type: ignore[method-assign]

    action = action_in(await bench.take(at(0)))

    assert [30.0] == bench.lane.rests
    assert began + 30_000 == action.decided_at
    assert action.call is not None
    assert action.call.deadline_at > action.decided_at + 30_000
    labels = {"decider": "model", "failure": "rate_limit"}
    assert 1 == bench.counted.value("decider_retries_total", **labels)


async def test_turns_are_given_up_by_age_while_their_decider_is_left_alone() -> None:
    """It is not asked for them, however many come; when it is back the next ones are decided."""
    script = scripted(*[DOWN] * 5, answer("hours"))
    bench = Bench(script, attempts=5)
    first = action_in(await bench.take(at(0)))
    assert first.handoff is not None
    assert "no proposal in 5 attempts" in first.diagnostics_json
    assert bench.provider.is_open()
    bench.state = None
    bench.asking_patience(6.0)

    second = action_in(await bench.take(at(1)))

    assert second.handoff is not None
    assert "budget" == second.handoff.cause
    assert "left alone" in second.diagnostics_json
    assert 5 == len(script.requests)
    bench.state = None
    bench.asking_patience(60.0)

    assert "answer" == action_in(await bench.take(at(2))).decision.action
    assert not bench.provider.troubled
    assert isinstance(bench.begin(at(3, turn_id="t-0")), Handled)


async def test_a_clock_that_goes_back_changes_no_order() -> None:
    """Turns are decided as ever, sequences rise, and no deadline lies before its decision."""
    bench = Bench(scripted(answer("hours"), refuse("fraud"), answer("hours")))
    actions = []
    for offset in range(3):
        actions.append(action_in(await bench.take(at(offset))))
        assert bench.state is not None
        bench.state = replace(bench.state, phase="idle", outstanding=(), activation=None)
        bench.now -= 3_600_000

    first, second, third = actions
    assert first.sequence < second.sequence < third.sequence
    assert [NOW + 250 - hours * 3_600_000 for hours in range(3)] == [
        one.decided_at for one in actions
    ]
    assert bench.state is not None
    assert {third.decided_at + RULES.limits.answer_deadline_ms} >= {
        one.due_at for one in bench.state.timers if one.timer_id.endswith(third.action_id)
    }
    assert 2 == bench.counted.value("impossible_values_total")


async def test_a_clock_that_goes_back_while_a_decider_is_asked_ages_nothing() -> None:
    """A decision is never before the input that it is about."""
    bench = Bench(scripted(DOWN, answer("hours")))
    began = bench.now

    async def rest(seconds: float) -> None:
        bench.now -= int(seconds + 60) * 1000

    bench.lane.rest = rest  # type: ignore[method-assign]

    assert began == action_in(await bench.take(at(0))).decided_at


@pytest.mark.parametrize("wrap", [lambda one: one, Later], ids=["immediate", "patient"])
async def test_an_answer_too_long_for_any_record_is_handed_off(
    wrap: Callable[[ScriptedDecider], Decider],
) -> None:
    """The model is told once, then a person takes over; nothing of its text is passed on."""
    endless = replace(answer("hours"), answer_id=None, text="SENTINEL" * 140_000)
    script = scripted(endless, endless)
    bench = Bench(wrap(script))

    handled = await bench.take(at(0))

    action = action_in(handled)
    assert action.handoff is not None
    assert "schema_fail" == action.handoff.cause
    assert "at most 16000" in (script.requests[1].fault or "")
    assert max(len(one.value or b"") for one in handled.publications) < 10_000
    assert b"SENTINEL" not in b"".join(one.value or b"" for one in handled.publications)


def test_a_defect_of_a_decider_is_the_streams_business() -> None:
    """What is not unavailability is raised: the stream retries, then asks to abandon."""
    bench = Bench(scripted())

    with pytest.raises(AssertionError, match="has no step"):
        bench.begin(at(0))

    assert 0 == bench.counted.value("turns_total", role="customer")


async def test_an_abandoned_turn_brings_a_person_in() -> None:
    """The conversation is handed off, and the log names the place, not the text."""
    bench = Bench(scripted())
    source = at(3, "my secret text")

    with structlog.testing.capture_logs() as logged:
        handled = bench.handler.abandon(
            source, bench.handler.admit(source)[1], None, attempts=3, error=RuntimeError("secret")
        )

    action = action_in(handled)
    assert action.handoff is not None
    assert "dead_letter" == action.handoff.cause
    assert handled.state is not None
    assert ({TURNS: 3}, "held") == (handled.state.watermarks, handled.state.phase)
    assert 1 == bench.counted.value("turns_total", role="customer")
    assert "secret" not in repr(logged)
    assert [(TURNS, 0, 3, "RuntimeError")] == [
        (one["topic"], one["partition"], one["offset"], one["error"]) for one in logged
    ]


@pytest.mark.parametrize(
    "stored",
    [
        b'{"record_version":0,"phase":"waiting_calls","watermarks":{"conversation.answers":2}}',
        b'{"record_version":1,"phase":"?","watermarks":{"conversation.answers":2}}',
    ],
)
@pytest.mark.parametrize("topic", [TURNS, ANSWERS])
def test_a_conversation_whose_record_cannot_be_read_goes_to_a_person(
    stored: bytes, topic: str
) -> None:
    """Whatever comes next: a turn, or an answer that nobody knows of any more."""
    bench = Bench(scripted())
    late = Answer(action_id="a-1", conversation_id="c-1", text="We do.", model="m", occurred_at=NOW)
    source = at(3) if topic == TURNS else record(late, 3, topic=ANSWERS)
    with pytest.raises(StateUnreadable) as raised:
        ConversationFormat().load(stored)

    handled = bench.handler.abandon(
        source, bench.handler.admit(source)[1], None, attempts=1, error=raised.value
    )

    action = action_in(handled)
    assert action.handoff is not None
    assert "dead_letter" == action.handoff.cause
    assert ("t-3" if topic == TURNS else None) == action.turn_id
    assert handled.state is not None
    assert "held" == handled.state.phase
    assert {ANSWERS: 2} | {topic: 3} == handled.state.watermarks


async def test_a_flood_brings_a_person_in_once() -> None:
    """The first turn of too many is handed off, the others are left to the person."""
    bench = Bench(scripted())
    for offset in range(2):
        source = at(offset)
        handled = bench.handler.flood(source, bench.handler.admit(source)[1], bench.state)
        bench.state = handled.state
        first, *_ = events(handled)
        if offset == 0:
            assert isinstance(first, ActionEvent)
            assert first.handoff is not None
            assert "flood" == first.handoff.cause
        else:
            assert isinstance(first, Outcome)
            assert "held_by_person" == first.outcome


async def test_an_answer_in_a_flood_is_taken_in() -> None:
    """What turns wait for still ends their wait, and only then is nobody asked any more."""
    bench = Bench(scripted(answer("hours")))
    ordered = action_in(await bench.take(at(0)))
    await bench.take(at(1, "And on Sundays?"))
    done = Answer(
        action_id=ordered.action_id,
        conversation_id="c-1",
        text="We open at nine.",
        model="m",
        occurred_at=NOW,
    )
    source = record(done, 0, topic="conversation.answers")

    handled = bench.handler.flood(source, done, bench.state)

    assert handled.state is not None
    assert "We open at nine." in [one.text for one in handled.state.history]
    assert "budget" == action_in(handled).handoff.cause  # type: ignore[union-attr]


def test_every_reason_to_refuse_a_turn_has_a_dead_letter_reason() -> None:
    """A reason of the core that the stream has no word for would be a defect at run time."""
    from turnstream.roles.decide import _LETTERS

    assert set(get_args(get_type_hints(DeadLetter)["reason"])) == _LETTERS.keys()
    assert set(get_args(DeadLetterReason)) >= set(_LETTERS.values())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"channel_id": "carrier-pigeon"}, "unsupported"),
        ({"turn_id": "x" * 200}, "invalid"),
        ({"turn_id": "t-0", "text": "Something else"}, "content_mismatch"),
    ],
)
async def test_a_turn_that_cannot_be_taken_is_kept_and_told(
    changes: dict[str, Any], reason: str
) -> None:
    """Its record becomes a dead letter and its conversation goes to a person, together."""
    bench = Bench(scripted(answer("hours")))
    await bench.take(at(0))

    handled = await bench.take(at(1, **changes))

    assert handled.dead_letter is not None
    assert reason == handled.dead_letter.reason
    action = action_in(handled)
    assert action.handoff is not None
    assert "dead_letter" == action.handoff.cause
    assert handled.state is not None
    assert {TURNS: 1} == handled.state.watermarks
    assert "Something else" not in handled.dead_letter.detail


async def test_a_repeated_turn_is_an_outcome_with_an_id_of_its_own() -> None:
    """It is acknowledged and counted, not decided again."""
    bench = Bench(scripted(answer("hours")))
    await bench.take(at(0))

    handled = await bench.take(at(1, turn_id="t-0"))

    (outcome,) = events(handled)
    assert isinstance(outcome, Outcome)
    assert ("turn", "duplicate_turn", 1) == (outcome.of, outcome.outcome, outcome.source.offset)
    (publication,) = handled.publications
    assert "conversation.outcomes" == publication.topic
    assert f"{TURNS}/0/1/duplicate_turn".encode() == dict(publication.headers)["ce_id"]
    assert 1 == bench.counted.value("outcomes_total", of="turn", outcome="duplicate_turn")


async def test_other_inputs_only_move_their_watermark() -> None:
    """A label changes nothing and is not forgotten."""
    label = Label(
        exchange_id="t-1",
        conversation_id="c-1",
        title="",
        categories=(),
        model="m",
        occurred_at=NOW,
    )
    bench = Bench(scripted())

    handled = await bench.take(record(label, 5, topic="conversation.labels"))

    assert [] == list(handled.publications)
    assert handled.state is not None
    assert {"conversation.labels": 5} == handled.state.watermarks


async def test_odd_headers_change_nothing() -> None:
    """No value, a repeated name, raw bytes, a trace that is none: the turn is decided as ever."""
    odd = [
        ("trace", None),
        ("tenant", b"a"),
        ("tenant", b"b"),
        ("event_id", bytes.fromhex("0191f0a37c2b7d3e9a4b5c6d7e8f9012")),
        ("x", b"\xff\x00\xfe"),
        ("traceparent", None),
        ("traceparent", b"x" * 500),
        ("turnstream.origin.topic", None),
    ]
    plain = await Bench(scripted(answer("hours"))).take(at(0))

    handled = await Bench(scripted(answer("hours"))).take(at(0, headers=odd))

    assert plain == handled


async def test_a_replayed_record_keeps_its_ids() -> None:
    """The origin that a replay names stands for the record in every id."""
    origin = [
        ("turnstream.origin.topic", TURNS.encode()),
        ("turnstream.origin.partition", b"3"),
        ("turnstream.origin.offset", b"41"),
    ]
    bench = Bench(scripted(answer("hours")))

    handled = await bench.take(at(9, headers=origin))

    source = Source(topic=TURNS, partition=3, offset=41)
    action = action_in(handled)
    assert (source, action_id("c-1", source, 0)) == (action.source, action.action_id)
    assert handled.state is not None
    assert {TURNS: 9} == handled.state.watermarks


async def test_a_replay_after_a_handoff_has_an_id_of_its_own() -> None:
    """The handoff of the time when the turn was given up has the first id of the same source."""
    headers = [
        ("turnstream.origin.topic", TURNS.encode()),
        ("turnstream.origin.partition", b"3"),
        ("turnstream.origin.offset", b"41"),
        ("turnstream.origin.given_up", b"1"),
    ]
    bench = Bench(scripted(answer("hours")))

    action = action_in(await bench.take(at(9, headers=headers)))

    source = Source(topic=TURNS, partition=3, offset=41)
    assert (source, action_id("c-1", source, 1)) == (action.source, action.action_id)


def test_a_due_timer_becomes_an_event_of_its_conversation() -> None:
    """It is written to the timers' topic, from where it is read like any input."""
    due = TimerDue(timer_id="tm-1", kind="question_expiry", due_at=NOW)

    publication = Bench(scripted()).handler.timer(b"c-1", due)

    assert ("conversation.timers", b"c-1") == (publication.topic, publication.key)
    expected: list[Event] = [
        Timer(timer_id="tm-1", conversation_id="c-1", kind="question_expiry", due_at=NOW)
    ]
    assert expected == events([publication])


def test_the_role_reads_and_writes_disjoint_topics_but_for_its_timers() -> None:
    """It hears its own timers; everything else it writes is for others."""
    assert {"conversation.timers"} == set(SOURCES) & set(WRITES)


# --- stored conversations -----------------------------------------------------------------------


async def test_a_stored_conversation_comes_back() -> None:
    """With its watermarks, its timers and whether it is over."""
    bench = Bench(scripted(ask("order_id", needed_for="get_order")))
    state = (await bench.take(at(4))).state
    assert state is not None
    stored = ConversationFormat()

    again = stored.load(stored.dump(state))

    assert stored.dump(state) == stored.dump(again)
    assert (4, -1) == (stored.watermark(again, TURNS), stored.watermark(again, "tool.results"))
    assert {TURNS: 4} == stored.watermarks(again)
    assert not stored.closed(again)
    assert stored.closed(Conversation(phase="closed"))
    timer = TimerEntry("tm-1", "conversation_close", NOW)
    due = stored.timers(Conversation(timers=(timer,)))
    assert [("tm-1", "conversation_close", NOW)] == [
        (one.timer_id, one.kind, one.due_at) for one in due
    ]
    # They stand in for the stream's own, which asks for all of its fields.
    assert [] == [each.name for each in fields(TimerDue) if not hasattr(timer, each.name)]


@pytest.mark.parametrize(
    "value",
    [
        b"not json SENTINEL",
        b"[]",
        b"{}",
        b'{"record_version":0,"text":"SENTINEL"}',
        b'{"record_version":1,"phase":"SENTINEL"}',
        b'{"record_version":true}',
    ],
)
def test_what_is_no_record_is_named_without_its_content(value: bytes) -> None:
    """An older version without a migration, and anything else: the stream names the key."""
    with pytest.raises(StateUnreadable) as raised:
        ConversationFormat().load(value)

    assert "SENTINEL" not in str(raised.value)
    assert str(raised.value)


def test_a_newer_record_is_left_for_a_newer_worker() -> None:
    """Whatever it holds: it is not even looked at."""
    with pytest.raises(StateTooNew):
        ConversationFormat().load(b'{"record_version":3,"phase":"dreaming","more":[1]}')


def test_turns_of_others_are_counted_by_their_role() -> None:
    """An agent's turn is read, and nobody decides."""
    bench = Bench(scripted())
    event: ConversationTurn = turn("I take this", role="agent")

    handled = bench.begin(record(event, 0, topic=TURNS))

    assert isinstance(handled, Handled)
    assert handled.state is not None
    assert "person" == handled.state.holder
    assert 1 == bench.counted.value("turns_total", role="agent")


@pytest.mark.parametrize("patient", [False, True])
@pytest.mark.parametrize("retries", [0, 1, 5])
async def test_as_many_proposals_are_asked_for_as_the_agent_allows(
    retries: int,
    patient: bool,
) -> None:
    """Every one that is blocked is counted, the last included; then a person is told."""
    faulty = [call("no_such_tool")] * (retries + 1)
    script = scripted(*faulty)
    bench = Bench(Later(script) if patient else script)
    shop = RULES.catalog.agents["shop"].model_copy(update={"max_retries": retries})
    catalog = RULES.catalog.model_copy(update={"agents": {"shop": shop}})
    bench.handler._ruleset = replace(RULES, catalog=catalog)

    handled = await bench.take(at(0))

    script.finish()
    assert "schema_fail" == action_in(handled).handoff.cause  # type: ignore[union-attr]
    assert retries + 1 == bench.counted.value("decider_failures_total", failure="blocked")


async def test_the_calls_of_one_reply_are_published_together() -> None:
    """With ids of their own, counted each, in the order of the reply."""
    bench = Bench(
        scripted(
            calling(
                wanting("get_order", {"order_id": "A-1"}, "a"),
                wanting("search_help", {"topic": "fees"}, "b"),
            )
        )
    )

    claims = {"subject_id": "customer-1"}
    handled = await bench.take(at(0, "Where is A-1, and the fees?", session_claims=claims))

    actions = [one for one in events(handled) if isinstance(one, ActionEvent)]
    assert ["get_order", "search_help"] == [one.decision.tool for one in actions]
    assert [action_id("c-1", actions[0].source, n) for n in (0, 1)] == [
        one.action_id for one in actions
    ]
    labels = {"action": "call_tool", "reason_code": "lookup_required"}
    assert 2 == bench.counted.value("decisions_total", **labels)
