"""The shadow role: the live side's inputs in any order of arrival, compared and never acted on."""

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from prometheus_client import CollectorRegistry

from tests.agents import calling, wanting
from tests.catalogs import RULES
from tests.small_shop import ByWord
from tests.unit.roles.bench import (
    CODEC,
    EFFORT,
    NOW,
    Clock,
    FakeLane,
    action,
    asked_of,
    events,
    provider,
    publisher,
    record,
    turn,
)
from turnstream.config import Settings
from turnstream.core.conversation import Conversation
from turnstream.core.events import (
    Answer,
    ConversationControl,
    Event,
    Label,
    LiveAction,
    Timer,
    ToolResult,
    Versions,
)
from turnstream.core.ports import Decider, DeciderUnavailable, DecisionRequest, Proposal
from turnstream.core.publications import ActionEvent, ShadowComparison, ShadowProposal
from turnstream.core.ruleset import Limits
from turnstream.metrics import Metrics
from turnstream.models.scripted import ScriptedDecider, Step, answer, call, refuse
from turnstream.roles import shadow
from turnstream.roles.asking import Asking, Effort
from turnstream.roles.decide import DecideHandler
from turnstream.roles.deployment import Deployment, StreamRole
from turnstream.roles.intake import Intake
from turnstream.roles.pending import PendingQuestions
from turnstream.roles.run import stream_settings
from turnstream.roles.shadow import SOURCES, WRITES, ShadowHandler
from turnstream.roles.shadowing import Shadowed, oldest_batch, shadowed_format
from turnstream.stream import (
    Handled,
    LaneClosing,
    NullObserver,
    Publication,
    Record,
    StateTooNew,
    StateUnreadable,
    concluded,
)
from turnstream.stream.lane import Lane, UnusableOutcome
from turnstream.stream.role import Role

TURNS = "conversation.turns"
ACTIONS = "conversation.actions"
RESULTS = "tool.results"
ANSWERS = "conversation.answers"
LIMITS = Limits(conversation_ttl_ms=1_000, question_ttl_ms=3_000)
FORMAT = shadowed_format(LIMITS)

CLAIMS = {"subject_id": "customer-1"}


def every_topic() -> Intake:
    """The checks of records, on one partition."""
    return Intake(
        CODEC,
        topics={topic: topic for topic in SOURCES},
        role="shadow",
        follows="decide",
        partitions=1,
        partitioner=lambda _key, _count: 0,
        max_record_bytes=1_000_000,
    )


def metrics() -> tuple[Metrics, CollectorRegistry]:
    """Metrics and where they can be read."""
    registry = CollectorRegistry()
    return Metrics(registry, tools=RULES.catalog.tools, deciders=("model",)), registry


class Bench:
    """A shadow of one conversation that is restarted at will."""

    def __init__(
        self,
        decider: Decider | None = None,
        *,
        effort: Effort = EFFORT,
        compare_with: Literal["decide", "people"] = "decide",
        pair_within_ms: int = 60_000,
    ) -> None:
        self._decider, self._effort = decider or ByWord(), effort
        self.clock = Clock()
        self.lane: FakeLane[Shadowed] = FakeLane(self.clock)
        self._options: dict[str, Any] = {
            "compare_with": compare_with,
            "pair_within_ms": pair_within_ms,
        }
        self.state: Shadowed | None = None
        self.published: list[Event] = []
        self.topics: set[str] = set()
        self.restart()

    def restart(self) -> None:
        """Start another process on the stored state."""
        counts, self.registry = metrics()
        self.handler = ShadowHandler(
            intake=every_topic(),
            publisher=publisher("shadow"),
            ruleset=RULES,
            metrics=counts,
            candidate="bolder",
            now_ms=lambda: NOW + 500,
            provider=provider(self._decider, self.clock),
            asking=Asking(self._effort, metrics=counts, clock=self.clock),
            **self._options,
        )
        if self.state is not None:
            self.state = FORMAT.load(FORMAT.dump(self.state))

    async def take(self, *records: Record) -> None:
        """Handle records in this order."""
        for one in records:
            key, event = self.handler.admit(one)
            assert key == one.key
            handled = await self.handler.handle(one, event, self.state, self.lane)
            self.keep(one, handled)

    def keep(self, source: Record, handled: Handled[Shadowed]) -> None:
        """Take an outcome over."""
        self.state = handled.state
        self.published += events(handled)
        self.topics |= {one.topic for one in handled.publications}
        assert {one.key for one in handled.publications} <= {source.key}
        assert self.state is not None
        assert source.offset == FORMAT.watermark(self.state, source.topic)

    @property
    def kept(self) -> Shadowed:
        """The state."""
        assert self.state is not None
        return self.state

    @property
    def proposals(self) -> list[ShadowProposal]:
        """All proposals so far."""
        return [one for one in self.published if isinstance(one, ShadowProposal)]

    @property
    def comparisons(self) -> list[ShadowComparison]:
        """All comparisons so far."""
        return [one for one in self.published if isinstance(one, ShadowComparison)]

    def compared(self, verdict: str) -> float:
        """How many comparisons of a verdict this process has counted."""
        labels = {"verdict": verdict}
        return self.registry.get_sample_value("turnstream_shadow_comparisons_total", labels) or 0


class Live:
    """The live side: what `decide` does with inputs, as records."""

    def __init__(self, decider: Decider | None = None) -> None:
        counts, _ = metrics()
        self._handler = DecideHandler(
            intake=every_topic(),
            publisher=publisher("decide"),
            ruleset=RULES,
            **asked_of(decider or ByWord(), counts, clock=Clock()),
            metrics=counts,
            pending=PendingQuestions(topic=TURNS),
            now_ms=lambda: NOW + 250,
        )
        self._state: Conversation | None = None
        self.topics: dict[str, list[Record]] = {}
        self.actions: list[ActionEvent] = []

    def take(self, event: Event, topic: str) -> None:
        """Take an input; its record and those of its actions are in the topics afterwards."""
        written = self.topics.setdefault(topic, [])
        at = sum(map(len, self.topics.values())) * 10
        source = replace(record(event, len(written), topic=topic), timestamp=NOW + at)
        written.append(source)
        handled = concluded(self._handler.handle(source, event, self._state, FakeLane()))
        assert isinstance(handled, Handled)
        self._state = handled.state
        for one in events(handled):
            if isinstance(one, ActionEvent):
                self.actions.append(one)
                following = self.topics.setdefault(ACTIONS, [])
                following.append(record(one, len(following), topic=ACTIONS))

    def say(self, text: str) -> None:
        """Let the customer write."""
        number = len(self.topics.get(TURNS, ()))
        self.take(turn(text, turn_id=f"t-{number}", session_claims=CLAIMS), TURNS)

    def play(self) -> "Live":
        """A question, its reply, a call, an answer, and another turn."""
        self.say("Where is my order?")
        self.say("A-12")
        self.take(
            ToolResult(
                action_id=self.actions[-1].action_id,
                conversation_id="c-1",
                tool_call_id=self.actions[-1].action_id,
                name="get_order",
                ok=True,
                result_json='{"status":"shipped","total":3}',
                outcome="done",
                attempts=1,
                versions=Versions(decision_version="d1", presentation_version="p1", model="m"),
                arguments_hash="",
                occurred_at=NOW,
            ),
            RESULTS,
        )
        self.take(
            Answer(
                action_id=self.actions[-1].action_id,
                conversation_id="c-1",
                text="Shipped.",
                model="m",
                occurred_at=NOW,
            ),
            ANSWERS,
        )
        self.say("Hello")
        assert ["ask", "call_tool", "answer", "answer"] == [
            one.decision.action for one in self.actions
        ]
        return self


def interleaved(topics: Mapping[str, Sequence[Record]], seed: int) -> Iterator[Record]:
    """The records of several topics, each topic's in order, otherwise in any."""
    left = {topic: list(records) for topic, records in topics.items()}
    choice = random.Random(seed)
    while left:
        topic = choice.choice(sorted(left))
        yield left[topic].pop(0)
        if not left[topic]:
            del left[topic]


# --- beside decide ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
async def test_any_order_of_arrival_gives_the_same_comparisons(seed: int) -> None:
    """Topics are read at different speeds, and the process is restarted somewhere in between."""
    live = Live().play()
    records = list(interleaved(live.topics, seed))
    bench = Bench()
    for number, one in enumerate(records):
        if number == seed % len(records):
            bench.restart()
        await bench.take(one)

    assert [one.source for one in live.actions] == [one.source for one in bench.proposals]
    assert [one.action_id for one in live.actions] == [one.live_id for one in bench.comparisons]
    assert ["same"] * 4 == [one.verdict for one in bench.comparisons]
    assert [one.decision for one in live.actions] == [one.decision for one in bench.proposals]
    assert [None, True, None, None] == [one.arguments_equal for one in bench.comparisons]
    assert [one.turn_id for one in live.actions] == [one.turn_id for one in bench.comparisons]
    assert ((), ()) == (bench.kept.actions, bench.kept.heard)
    assert set(WRITES) == bench.topics


async def test_another_opinion_is_compared_and_not_followed() -> None:
    """The mirror goes on with what the live side did, whatever the candidate wanted."""
    live = Live().play()
    candidate = ScriptedDecider(
        [
            Step(refuse("fraud")),
            Step(call("get_order")),
            Step(refuse("fraud")),
            Step(answer("hours")),
        ]
    )
    bench = Bench(candidate)

    await bench.take(*interleaved(live.topics, 3))

    candidate.finish()
    assert ["different", "same", "different", "same"] == [one.verdict for one in bench.comparisons]
    assert (2, 2) == (bench.compared("same"), bench.compared("different"))
    # The candidate refused; the live side asked, and so the reply was one in the mirror too.
    assert "order_id" in bench.kept.mirror.values
    assert "waiting_answer" == bench.kept.mirror.phase


BOTH = calling(
    wanting("get_order", {"order_id": "A-1"}, "a"), wanting("search_help", {"topic": "fees"}, "b")
)
TURNED = calling(*reversed(BOTH.calls))
FEWER = calling(BOTH.calls[0])


def playing_calls() -> Live:
    """Two calls of one reply, their results, and an answer."""
    live = Live(ScriptedDecider([Step(BOTH), Step(answer("order_status"))]))
    live.say("Where is A-1, and the fees?")
    for one in live.actions[:2]:
        live.take(
            ToolResult(
                action_id=one.action_id,
                conversation_id="c-1",
                tool_call_id=one.action_id,
                name=one.decision.tool or "",
                ok=True,
                result_json='{"status":"shipped","total":3}',
                outcome="done",
                attempts=1,
                versions=Versions(decision_version="d1", presentation_version="p1", model="m"),
                arguments_hash="",
                occurred_at=NOW,
            ),
            RESULTS,
        )
    assert ["call_tool", "call_tool", "answer"] == [one.decision.action for one in live.actions]
    return live


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    ("proposed", "expected"),
    [
        (BOTH, ("same", True)),
        (TURNED, ("same", True)),
        (FEWER, ("same_action", False)),
        (refuse("fraud"), ("different", None)),
    ],
)
async def test_the_calls_of_one_reply_are_compared_together(
    proposed: Proposal, expected: tuple[str, bool | None], seed: int
) -> None:
    """Once for each decision, when all its actions are here; the copy waits for all results."""
    live = playing_calls()
    bench = Bench(ScriptedDecider([Step(proposed), Step(answer("order_status"))]))
    for number, one in enumerate(interleaved(live.topics, seed)):
        if number == seed % 5:
            bench.restart()
        await bench.take(one)

    assert [expected, ("same", None)] == [
        (one.verdict, one.arguments_equal) for one in bench.comparisons
    ]
    assert [live.actions[0].action_id, live.actions[2].action_id] == [
        one.live_id for one in bench.comparisons
    ]
    assert ((), ()) == (bench.kept.actions, bench.kept.heard)
    assert ["get_order", "search_help"] == [one.tool for one in bench.kept.mirror.facts]


async def test_a_shadow_that_joins_within_a_batch_goes_on() -> None:
    """The first of the calls was written before its time: it follows the others."""
    live = playing_calls()
    bench = Bench(ScriptedDecider([Step(answer("hours"))]))
    first, *others = live.topics[ACTIONS]
    await bench.take(*live.topics[TURNS], *others, *live.topics[RESULTS])

    assert 1 == len(live.topics[TURNS])
    assert ((), ["answer"]) == (
        bench.kept.actions,
        [one.live_action for one in bench.comparisons],
    )
    assert first.offset == 0
    assert "waiting_answer" == bench.kept.mirror.phase


def test_a_decision_taken_anew_is_another_batch() -> None:
    """The first of its actions begins with the first place again."""
    payload = {
        "tool_call_id": "a",
        "tool": "t",
        "arguments_json": "{}",
        "provenance": {},
        "effect": "read",
        "deadline_at": NOW,
    }

    def made(index: int, size: int = 2, decision_id: str = "d-1") -> ActionEvent:
        return action(
            "call_tool", payload, batch_index=index, batch_size=size, decision_id=decision_id
        )

    whole = (made(0), made(1))

    assert whole == oldest_batch((*whole, made(0)))
    assert whole[:1] == oldest_batch((made(0), made(0), made(1)))
    assert whole[:1] == oldest_batch((made(0), made(1, decision_id="d-2")))
    assert whole[1:] == oldest_batch((made(1), made(0)))
    assert (made(0, 1),) == oldest_batch((made(0, 1), made(1)))


async def test_ids_depend_on_the_input_only() -> None:
    """A second shadow of the same input writes the same ids."""
    live = Live().play()
    first, second = Bench(), Bench()
    await first.take(*interleaved(live.topics, 1))
    await second.take(*interleaved(live.topics, 2))

    assert [one.proposal_id for one in first.proposals] == [
        one.proposal_id for one in second.proposals
    ]
    assert [one.comparison_id for one in first.comparisons] == [
        one.comparison_id for one in second.comparisons
    ]
    assert 8 == len({one.proposal_id for one in first.proposals}) + len(
        {one.comparison_id for one in first.comparisons}
    )


async def test_inputs_from_before_its_time_are_not_waited_for() -> None:
    """A shadow that joins a conversation midway compares from the first turn that it hears.

    That an input lies below what its partition has handled shows that it will not come.
    """
    bench = Bench()
    heard = turn("Hello", turn_id="t-5")
    live = action(
        "answer",
        {"answer_id": "hours", "locale": "en"},
        source={"topic": TURNS, "partition": 0, "offset": 5},
        seen={TURNS: 5, RESULTS: 3},
    )
    await bench.take(record(heard, 5, topic=TURNS), record(live, 0, topic=ACTIONS))

    assert 1 == len(bench.kept.actions)

    # Somebody else's result on the same partition, then anything of this conversation.
    bench.lane.handled[RESULTS] = 9
    await bench.take(record(turn("Thanks", turn_id="t-6"), 6, topic=TURNS))

    assert ["same"] == [one.verdict for one in bench.comparisons]
    assert not bench.kept.actions


async def test_a_copy_that_expired_before_its_live_action_holds_nothing_back() -> None:
    """`decide` was away for longer than a copy lasts: the next turn is compared all the same."""
    live = Live()
    live.say("Where is my order?")
    live.say("A-12")
    first, second = live.topics[TURNS]
    late, in_time = live.topics[ACTIONS]
    bench = Bench()
    await bench.take(first)
    bench.state = None
    bench.lane.handled[TURNS] = 1
    await bench.take(late, second, in_time)

    assert [live.actions[1].source] == [one.source for one in bench.proposals]
    assert ((), ()) == (bench.kept.actions, bench.kept.heard)


async def test_a_turn_that_waits_for_its_live_action_outlasts_a_close_for_silence() -> None:
    """The live side closed after it had decided, and what it decided is read last."""
    live = Live()
    live.say("Hello")
    silence = Timer(
        conversation_id="c-1",
        kind="conversation_close",
        timer_id="x",
        due_at=NOW * 2,
    )
    bench = Bench()
    await bench.take(live.topics[TURNS][0], record(silence, 0, topic="conversation.timers"))

    assert [latest_of(bench) + 2_000] == [one.due_at for one in FORMAT.timers(bench.kept)]

    await bench.take(live.topics[ACTIONS][0])

    assert ["same"] == [one.verdict for one in bench.comparisons]


def latest_of(bench: Bench) -> int:
    """The time of the latest input that waits."""
    return min(max(one.timestamp for one in bench.kept.heard), bench.kept.read_at)


async def test_live_actions_without_their_inputs_are_let_go_at_the_bound() -> None:
    """What never becomes complete is followed without a comparison, oldest first."""
    bench = Bench()
    payload = {"answer_id": "hours", "locale": "en"}
    for number in range(33):
        source = {"topic": TURNS, "partition": 0, "offset": 100 + number}
        one = action(
            "answer",
            payload,
            action_id=f"a-{number}",
            source=source,
            seen={TURNS: 100 + number},
            sequence=NOW + number,
        )
        await bench.take(record(one, number, topic=ACTIONS))

    assert 32 == len(bench.kept.actions)
    assert "a-1" == bench.kept.actions[0].action_id
    assert [] == bench.published


@pytest.mark.parametrize(
    ("count", "text"), [(205, "Hello"), (4, "x" * 120_000)], ids=["many", "long"]
)
async def test_inputs_without_a_live_action_are_folded_at_the_bound(count: int, text: str) -> None:
    """The record stays within its topic's limit; what was folded is known and not proposed at."""
    bench = Bench()
    for number in range(count):
        await bench.take(record(turn(text, turn_id=f"t-{number}"), number, topic=TURNS))

    kept = bench.kept
    assert (200 if text == "Hello" else 3) == len(kept.heard)
    assert count - len(kept.heard) == kept.mirror.input_no
    assert len(FORMAT.dump(kept)) < 1_000_000
    assert [] == bench.published


@pytest.mark.parametrize("kind", ["close", "forget"])
async def test_the_end_of_a_conversation_leaves_its_watermarks(kind: str) -> None:
    """Nothing that was said is kept; what arrives late opens nothing again."""
    live = Live().play()
    control = ConversationControl.model_validate(
        {
            "control_id": "x",
            "conversation_id": "c-1",
            "kind": kind,
            "actor": "desk",
            "occurred_at": NOW,
        }
    )
    late = live.topics[ACTIONS][-1]
    label = Label(
        exchange_id="t-2",
        conversation_id="c-1",
        title="",
        categories=(),
        model="m",
        occurred_at=NOW,
    )
    bench = Bench()
    early = {
        topic: [one for one in records if one is not late] for topic, records in live.topics.items()
    }
    await bench.take(*interleaved(early, 0), record(control, 0, topic="conversation.control"))

    marks = bench.kept.watermarks
    assert Shadowed(watermarks=marks, mirror=Conversation(phase="closed")) == bench.kept
    assert FORMAT.closed(bench.kept)

    await bench.take(late, record(label, 0, topic="conversation.labels"))

    assert FORMAT.closed(bench.kept)
    assert ((), ()) == (bench.kept.heard, bench.kept.actions)

    await bench.take(record(turn("Hello again", turn_id="t-9"), 9, topic=TURNS))

    assert not FORMAT.closed(bench.kept)


class Failing:
    """A candidate that gives no proposal, in one of three ways."""

    name = "failing"

    def __init__(self, how: str) -> None:
        self._how = how

    def propose(self, request: DecisionRequest) -> Awaitable[Proposal]:
        """Fail."""
        if self._how == "hangs":
            return asyncio.Event().wait()  # type: ignore[return-value]
        if self._how == "times out":
            raise TimeoutError
        return self._later()

    async def _later(self) -> Proposal:
        raise TimeoutError


@pytest.mark.parametrize("how", ["hangs", "times out", "times out later"])
async def test_a_candidate_without_a_proposal_counts_as_a_handoff(how: str) -> None:
    """It is compared as what the live side would have done with it, and holds nothing up."""
    live = Live()
    live.say("Hello")
    bench = Bench(Failing(how))

    await bench.take(*interleaved(live.topics, 0))

    (proposal,) = bench.proposals
    assert ("handoff", "budget") == (proposal.decision.action, proposal.handoff_cause)
    assert ["different"] == [one.verdict for one in bench.comparisons]
    labels = {"failure": "unavailable"}
    assert 1 == bench.registry.get_sample_value("turnstream_decider_failures_total", labels)


class Unsteady:
    """A candidate that can be told to fail."""

    name = ByWord.name

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.asked = 0

    def propose(self, request: DecisionRequest) -> Proposal:
        """Propose one step.

        Raises:
            DeciderUnavailable: it is to fail once more.
        """
        self.asked += 1
        if self.failures:
            self.failures -= 1
            raise DeciderUnavailable("no connection")
        return ByWord().propose(request)


@pytest.mark.parametrize("side", ["decide", "people"])
async def test_a_candidate_that_fails_for_a_moment_keeps_its_comparison(
    side: Literal["decide", "people"],
) -> None:
    """It is asked again after a wait, as `decide` would ask it."""
    live = Live()
    live.say("Hello")
    bench = Bench(Unsteady(2), compare_with=side, effort=replace(EFFORT, attempts=3))

    await bench.take(*interleaved(live.topics, 0))
    if side == "people":
        await bench.take(record(done("answer"), topic="conversation.live-actions"))

    assert ["answer"] == [one.decision.action for one in bench.proposals]
    assert ["same"] == [one.verdict for one in bench.comparisons]
    assert 2 == len(bench.lane.rests)
    labels = {"decider": "model", "failure": "unavailable"}
    assert 2 == bench.registry.get_sample_value("turnstream_decider_retries_total", labels)


async def test_a_candidate_that_keeps_failing_is_left_alone_and_then_tried_again() -> None:
    """Each input waits for it no longer than its patience; one probe shows that it is back."""
    effort = replace(EFFORT, attempts=3, patience=9.0)
    first, second, third = Live(), Live(), Live()
    for live in (first, second, third):
        live.say("Hello")
    candidate = Unsteady(5)
    bench = Bench(candidate, effort=effort)
    for live in (first, second, third):
        bench.state = None  # another conversation
        await bench.take(*interleaved(live.topics, 0))
        if live is second:
            # Three attempts of the first, two of the second: then its breaker was open.
            assert (5, 2) == (candidate.asked, len(bench.proposals))
            assert "left alone" in bench.proposals[-1].diagnostics_json
            bench.clock.now += 10.0

    assert 6 == candidate.asked
    assert ["handoff", "handoff", "answer"] == [one.decision.action for one in bench.proposals]


async def test_a_proposal_that_is_waited_for_ends_with_its_partition() -> None:
    """Nothing is published or remembered; the next owner asks anew."""

    class Leaving(FakeLane[Shadowed]):
        async def rest(self, seconds: float) -> None:
            raise LaneClosing

    live = Live()
    live.say("Hello")
    bench = Bench(Unsteady(1))
    bench.lane = Leaving(bench.clock)
    with pytest.raises(LaneClosing):
        await bench.take(*interleaved(live.topics, 0))

    assert [] == bench.published


async def test_floods_and_defects_are_passed_over() -> None:
    """A shadow has nobody to hand over to; only the watermark moves."""
    bench = Bench()
    source = record(turn("Hello"), 4, topic=TURNS)
    _, event = bench.handler.admit(source)
    bench.keep(source, bench.handler.flood(source, event, bench.state))
    later = replace(source, offset=5)
    bench.keep(
        later,
        bench.handler.abandon(later, event, bench.state, attempts=3, error=RuntimeError("x")),
    )

    assert Shadowed(watermarks={TURNS: 5}) == bench.kept
    lost = StateUnreadable("?", watermarks={ACTIONS: 8})
    bench.keep(later, bench.handler.abandon(later, event, None, attempts=1, error=lost))
    assert Shadowed(watermarks={TURNS: 5, ACTIONS: 8}) == bench.kept
    assert [] == bench.published


# --- beside people ------------------------------------------------------------------------------


def done(kind: str, number: int = 0, **changes: Any) -> LiveAction:
    """What a person did."""
    fields: dict[str, Any] = {
        "live_action_id": f"live-{number}",
        "conversation_id": "c-1",
        "action": kind,
        "actor": "ann",
        "occurred_at": NOW + 1_000,
    }
    return LiveAction.model_validate(fields | changes)


def person(event: LiveAction, offset: int = 0) -> Record:
    """The record of what a person did."""
    return record(event, offset, topic="conversation.live-actions")


def asked(offset: int = 0, text: str = "Where is my order?", **changes: Any) -> Record:
    """The record of a customer's turn."""
    given = {"turn_id": f"t-{offset}", "session_claims": CLAIMS, **changes}
    return record(turn(text, **given), offset, topic=TURNS)


@pytest.mark.parametrize("order", ["turn first", "person first"])
@pytest.mark.parametrize(
    ("live", "verdict"),
    [
        (done("ask", missing_field="order_id", turn_id="t-0"), "same"),
        (done("ask", missing_field="topic", turn_id="t-0"), "same_action"),
        (done("ask", turn_id="t-0"), "same"),
        (done("answer", turn_id="t-0"), "different"),
        (done("unlabelled", turn_id="t-0"), "unlabelled"),
        (done("ask", missing_field="order_id"), "same"),
    ],
)
async def test_a_proposal_is_paired_with_what_the_person_did(
    live: LiveAction, verdict: str, order: str
) -> None:
    """By the turn's id, or as the next thing done after the turn; whichever arrives first."""
    bench = Bench(compare_with="people")
    arrivals = [asked(), person(live)]

    await bench.take(*(arrivals if order == "turn first" else reversed(arrivals)))

    (proposal,) = bench.proposals
    (comparison,) = bench.comparisons
    assert ("ask", "order_id") == (proposal.decision.action, proposal.decision.missing_field)
    assert (verdict, "live-0") == (comparison.verdict, comparison.live_id)
    assert proposal.source == comparison.source
    assert ((), ()) == (bench.kept.proposals, bench.kept.early)
    assert 1 == bench.compared(verdict)


@pytest.mark.parametrize(
    "live",
    [
        done("ask", turn_id="another"),
        done("ask", occurred_at=NOW - 1),
        done("ask", occurred_at=NOW + 60_001),
    ],
    ids=["another turn's", "before the turn", "too late"],
)
async def test_what_belongs_to_no_turn_is_not_compared(live: LiveAction) -> None:
    """Nothing is guessed; a restart in between changes nothing."""
    bench = Bench(compare_with="people")
    await bench.take(asked())
    bench.restart()
    await bench.take(person(live))

    assert [] == bench.comparisons
    assert (1, 1) == (len(bench.kept.proposals), len(bench.kept.early))


async def test_the_mirror_follows_the_person() -> None:
    """After a person's question, the customer's next turn is its reply."""
    bench = Bench(compare_with="people")
    await bench.take(asked())
    bench.restart()
    live = done("ask", missing_field="order_id", turn_id="t-0")
    await bench.take(person(live))
    bench.restart()
    await bench.take(asked(1, "A-12", occurred_at=NOW + 2_000))

    assert ["ask", "call_tool"] == [one.decision.action for one in bench.proposals]
    assert '{"order_id":"A-12"}' == bench.proposals[1].arguments_json


async def test_waiting_sides_are_bounded() -> None:
    """Proposals that no person answers, and deeds without a turn, are let go, oldest first."""
    bench = Bench(compare_with="people")
    await bench.take(*(asked(number, "Hello") for number in range(40)))
    await bench.take(*(person(done("ask", n, turn_id=f"x-{n}"), n) for n in range(40)))

    assert 32 == len(bench.kept.proposals)
    assert "t-8" == bench.kept.proposals[0].turn_id
    assert 32 == len(bench.kept.early)
    assert "live-8" == bench.kept.early[0].live_action_id


# --- it cannot act ------------------------------------------------------------------------------


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    """The demo's catalog, a shadow beside it."""
    import turnstream.demo

    catalog = Path(turnstream.demo.__file__).parent / "catalog.yaml"
    return Deployment(Settings(catalog=catalog), catalog)


async def test_the_stream_refuses_any_other_topic(deployment: Deployment) -> None:
    """Whatever its handler wants to publish: only its own topics, under their own settings."""
    role: StreamRole[Shadowed, Event] = shadow.build(deployment)
    settings = stream_settings(role, deployment.settings)

    assert frozenset({"shadow.proposals", "shadow.comparisons"}) == settings.writes
    assert "shadow.proposals.dlq" == settings.dead_letter_topic

    lane: Lane[Shadowed] = Lane(
        0,
        role=Role(settings, role.handler, role.state_format, NullObserver()),
        producer=None,  # type: ignore[arg-type]
        dead_letter_topics={},
        progressed=lambda _: None,
    )
    for topic in ("conversation.actions", "conversation.outbound", "conversation.timers", TURNS):
        with pytest.raises(UnusableOutcome, match=f"may not write to '{topic}'"):
            await lane.commit(b"c-1", Shadowed(), (Publication(topic, b"c-1", b"v"),))


def test_no_executor_and_no_tool_is_in_its_process() -> None:
    """A process that builds the role has loaded nothing that could act."""
    program = """
import sys
from pathlib import Path
import turnstream.demo
from turnstream.config import Settings
from turnstream.roles.deployment import Deployment
from turnstream.roles.run import build_role, stream_settings
import turnstream.cli.run

catalog = Path(turnstream.demo.__file__).parent / "catalog.yaml"
settings = Settings(catalog=catalog)
role = build_role("shadow", Deployment(settings, catalog))
stream_settings(role, settings)
forbidden = ("turnstream.tools", "turnstream.roles.execute", "turnstream.roles.answer")
print(sorted(name for name in sys.modules if name.startswith(forbidden)))
"""
    done_ = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert "[]" == done_.stdout.strip()


# --- its records --------------------------------------------------------------------------------


async def test_a_record_comes_back_as_it_was() -> None:
    """Everything that waits is stored: inputs, live actions, proposals, what people did."""
    live = Live().play()
    decide, people = Bench(), Bench(compare_with="people")
    await decide.take(*live.topics[TURNS][:2], *live.topics[ACTIONS][2:])
    await people.take(asked(), person(done("ask", turn_id="another")))
    for bench in (decide, people):
        assert FORMAT.dump(bench.kept) == FORMAT.dump(FORMAT.load(FORMAT.dump(bench.kept)))
        assert FORMAT.load(FORMAT.dump(bench.kept)) == FORMAT.load(FORMAT.dump(bench.kept))


async def test_a_copy_goes_by_itself_after_the_silence_that_ends_a_conversation() -> None:
    """What is read after the command to forget has nothing else that ends it."""
    bench = Bench(compare_with="people")
    await bench.take(asked())
    kept = bench.kept
    latest = max(kept.mirror.updated_at, *(one.at for one in kept.proposals))

    assert [latest + 1_000] == [one.due_at for one in FORMAT.timers(kept)]


async def test_a_senders_clock_that_is_ahead_keeps_no_copy_for_ever() -> None:
    """A time in microseconds is some 55,000 years away; the record's own time counts."""
    bench = Bench(compare_with="people")
    await bench.take(asked(occurred_at=NOW * 1000))

    assert bench.kept.proposals
    assert [NOW + 1_000] == [one.due_at for one in FORMAT.timers(bench.kept)]


def test_a_copy_that_took_nothing_in_is_its_watermarks_alone() -> None:
    """The stream removes it as soon as the committed offsets have passed them."""
    passed_over = Shadowed(watermarks={TURNS: 7})

    assert FORMAT.closed(passed_over)
    assert () == FORMAT.timers(passed_over)


@pytest.mark.parametrize(
    "value", [b"x SENTINEL", b"[]", b"{}", b'{"record_version":1,"heard":"SENTINEL"}']
)
def test_what_is_no_record_is_named_without_its_content(value: bytes) -> None:
    """It goes to the log, so no customer's text is in the message."""
    with pytest.raises(StateUnreadable) as raised:
        FORMAT.load(value)

    assert "SENTINEL" not in str(raised.value)


def test_a_newer_record_is_left_for_a_newer_worker() -> None:
    """Whatever its form."""
    with pytest.raises(StateTooNew):
        FORMAT.load(b'{"record_version":3,"dreams":[]}')


async def test_a_record_of_the_first_version_is_migrated() -> None:
    """Its copy counts messages from those that are left; a proposal that waited had one call."""
    bench = Bench(compare_with="people")
    await bench.take(asked(0, "Where is my order A-12?"))
    stored = json.loads(FORMAT.dump(bench.kept))
    stored["record_version"] = stored["mirror"]["record_version"] = 1
    del stored["mirror"]["spoken"]
    assert stored["proposals"][0].pop("calls")
    bench.state = FORMAT.load(json.dumps(stored).encode())
    assert (2, 2) == (bench.state.record_version, bench.state.mirror.record_version)
    await bench.take(
        person(
            done("call_tool", tool="get_order", arguments_json='{"order_id":"A-12"}', turn_id="t-0")
        )
    )

    (comparison,) = bench.comparisons
    assert ("same", True) == (comparison.verdict, comparison.arguments_equal)
    await bench.take(asked(1, "Hello", occurred_at=NOW + 2_000))
    assert 2 == bench.kept.mirror.spoken
