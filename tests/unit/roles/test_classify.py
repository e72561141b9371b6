"""The classify role: when an exchange ends, what is labelled, what is kept."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from inspect import isawaitable
from typing import Any, cast

import orjson
import pytest

from tests.unit.roles.bench import (
    NOW,
    Counted,
    action,
    catalog,
    events,
    intake,
    publisher,
    record,
    turn,
)
from turnstream.core.events import Answer, ConversationControl, Event, Label, Timer
from turnstream.core.ports import Classification, Exchange
from turnstream.roles import classify
from turnstream.roles.classify import ClassifyHandler
from turnstream.roles.window import Followed, window_format
from turnstream.stream import Handled, StateUnreadable

CATALOG = catalog()
LAYOUT = window_format(idle_ms=60_000)
TOPIC = {
    "ConversationTurn": "conversation.turns",
    "ConversationControl": "conversation.control",
    "ActionEvent": "conversation.actions",
    "Answer": "conversation.answers",
    "Timer": "conversation.timers",
}
DELIVERY = Classification(title=" Where is\nmy parcel ", categories=("delivery",), model="k/1")


class ScriptedClassifier:
    """A classifier that answers as told, at once or later."""

    def __init__(self, *replies: Classification | Exception, later: bool = False) -> None:
        self.replies = list(replies)
        self.later = later
        self.asked: list[Exchange] = []

    def classify(self, exchange: Exchange) -> Classification | Awaitable[Classification]:
        """Give the next reply."""
        self.asked.append(exchange)
        reply = self.replies.pop(0)
        if self.later:
            return self._later(reply)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def _later(self, reply: Classification | Exception) -> Classification:
        await asyncio.sleep(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


class Bench:
    """A classify handler that takes events one after the other."""

    def __init__(self, *replies: Classification | Exception, later: bool = False) -> None:
        self.classifier = ScriptedClassifier(*replies, later=later)
        self.counted = Counted(CATALOG)
        self.handler = ClassifyHandler(
            intake=intake(),
            publisher=publisher("classify"),
            catalog=CATALOG,
            classifier=self.classifier,
            metrics=self.counted.metrics,
            now_ms=lambda: NOW,
        )
        self.state: Followed | None = None
        self.offset = 0

    async def take(self, *taken: Event) -> list[Label]:
        """Handle events in order; the labels that came of them."""
        labels: list[Label] = []
        for event in taken:
            source = record(event, self.offset, topic=TOPIC[type(event).__name__])
            self.offset += 1
            _, admitted = self.handler.admit(source)
            outcome = self.handler.handle(source, admitted, self.state)
            handled = await outcome if isawaitable(outcome) else outcome
            self.state = handled.state
            labels += [cast("Label", label) for label in events(handled)]
        return labels

    @property
    def texts(self) -> list[str]:
        """The texts that are kept."""
        return [said.text for said in self.state.messages] if self.state is not None else []


def answered(text: str | None = "It is on its way.", **changes: Any) -> Answer:
    """An answer to the first turn."""
    fields: dict[str, Any] = {
        "action_id": "a-1",
        "conversation_id": "c-1",
        "turn_id": "t-1",
        "text": text,
        "failure": None if text else "empty_text",
        "model": "m",
        "occurred_at": NOW + 10,
    }
    return Answer.model_validate(fields | changes)


def control(kind: str) -> ConversationControl:
    """A command about the conversation."""
    return ConversationControl(
        control_id="x",
        conversation_id="c-1",
        kind=kind,  # type: ignore[arg-type]
        actor="platform",
        occurred_at=NOW,
    )


ASK = action(
    "ask",
    {
        "question_id": "a-1",
        "field": "order_id",
        "needed_for": "get_order_status",
        "text": "Which order?",
        "locale": "en",
    },
)
REFUSE = action("refuse", {"rule": "fraud", "text": "No.", "locale": "en"})
HAND_OFF = action(
    "handoff",
    {
        "queue": "general",
        "cause": None,
        "summary": "wants a refund",
        "text": "Hold on.",
        "locale": "en",
    },
)
CALL = action(
    "call_tool",
    {
        "tool_call_id": "a-1",
        "tool": "get_order_status",
        "arguments_json": "{}",
        "provenance": {},
        "effect": "read",
        "deadline_at": NOW,
    },
)


async def test_an_answered_exchange_is_labelled() -> None:
    """A turn and its answer lead to one label with the classifier's words, tidied."""
    bench = Bench(DELIVERY)

    labels = await bench.take(turn("Où est mon colis ?"), CALL, answered())

    assert labels == [
        Label(
            exchange_id="t-1",
            conversation_id="c-1",
            title="Where is my parcel",
            categories=("delivery",),
            model="k/1",
            occurred_at=NOW,
        )
    ]
    (exchange,) = bench.classifier.asked
    assert exchange.locale == "fr"
    assert [(one.role, one.text) for one in exchange.messages] == [
        ("customer", "Où est mon colis ?"),
        ("assistant", "It is on its way."),
    ]
    assert bench.counted.value("classifications_total", result="labelled") == 1


@pytest.mark.parametrize(
    ("ending", "summary"), [(ASK, None), (REFUSE, None), (HAND_OFF, "wants a refund")]
)
async def test_questions_refusals_and_handoffs_end_an_exchange(
    ending: Event, summary: str | None
) -> None:
    """Each of them is labelled at once; a handoff carries its summary."""
    bench = Bench(DELIVERY)

    (label,) = await bench.take(turn("Où est mon colis ?"), ending)

    assert (label.exchange_id, label.handoff_summary) == ("t-1", summary)


async def test_an_ending_waits_for_its_turn() -> None:
    """The topics are read side by side: what came early is labelled when the turn is there."""
    bench = Bench(DELIVERY)

    early = await bench.take(answered())
    labels = await bench.take(turn("Où est mon colis ?"))

    assert early == []
    assert ["t-1"] == [label.exchange_id for label in labels]
    assert bench.texts == ["Où est mon colis ?", "It is on its way."]
    assert bench.state is not None
    assert bench.state.waiting == ()


async def test_failed_answers_calls_and_unopened_exchanges_end_nothing() -> None:
    """Without an end that belongs to a turn there is no label."""
    bench = Bench()

    labels = await bench.take(
        turn("Bonjour"), CALL, answered(None), HAND_OFF.model_copy(update={"turn_id": None})
    )

    assert labels == []


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(
    "failure",
    [
        RuntimeError("the customer wrote: secret"),
        replace(DELIVERY, categories=("bug",)),
        replace(DELIVERY, categories=tuple(f"c{number}" for number in range(6))),
    ],
)
async def test_a_failed_classification_keeps_the_categories(
    failure: Classification | Exception, later: bool
) -> None:
    """A failure is published as one, once, without its text; the last categories stay."""
    bench = Bench(DELIVERY, failure, later=later)

    _, label = await bench.take(
        turn("Où est mon colis ?"),
        answered(),
        turn("Merci", turn_id="t-2", occurred_at=NOW + 20),
        answered("De rien.", turn_id="t-2", action_id="a-2", occurred_at=NOW + 30),
    )

    assert label.categories == ("delivery",)
    assert label.error is not None
    assert label.error.startswith("classifier failed: ")
    assert "secret" not in label.error
    assert bench.counted.value("classifications_total", result="failed") == 1


async def test_a_slow_classifier_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A classification that takes too long is a failed one."""
    monkeypatch.setattr(classify, "_CLASSIFIER_SECONDS", 0.01)
    bench = Bench(DELIVERY)

    async def never() -> Classification:
        await asyncio.Event().wait()
        return DELIVERY

    monkeypatch.setattr(bench.classifier, "classify", lambda _: never())

    (label,) = await bench.take(turn("Où est mon colis ?"), answered())

    assert label.error == "classifier failed: TimeoutError"


async def test_repetitions_and_echoes_are_not_messages() -> None:
    """A repeated turn and an echo of our own message do not enter the window."""
    bench = Bench()

    await bench.take(turn("Bonjour"), turn("Bonjour"), turn("Hello", turn_id="t-2", echo_of="a-9"))

    assert bench.texts == ["Bonjour"]


async def test_the_window_is_bounded() -> None:
    """However long a conversation, its record keeps eight short messages and eight endings."""
    bench = Bench()

    for number in range(50):
        await bench.take(
            turn("x" * 10_000, turn_id=f"t-{number:0126}", occurred_at=NOW + number),
            answered(
                "y",
                turn_id=f"unseen-{number}",
                action_id=f"a-{number}",
                occurred_at=NOW + number,
            ),
        )

    assert bench.state is not None
    assert len(bench.state.messages) == 8
    assert len(bench.state.waiting) == 8
    assert len(bench.state.turn_ids) == 32
    assert len(bench.state.action_ids) == 8
    assert len(LAYOUT.dump(bench.state)) < 30_000


async def test_what_is_read_again_says_nothing_new() -> None:
    """A replayed answer is neither labelled nor kept a second time; nor are a question, a turn."""
    bench = Bench(DELIVERY, DELIVERY)
    asked = ASK.model_copy(update={"action_id": "a-2", "turn_id": "t-2"})
    second = turn("When?", turn_id="t-2", occurred_at=NOW + 20)

    labels = await bench.take(turn("Where?"), answered(), second, asked, asked, answered(), second)

    assert ["t-1", "t-2"] == [label.exchange_id for label in labels]
    assert 4 == len(bench.texts)


async def test_an_exchange_that_goes_on_after_its_end_is_labelled_again() -> None:
    """A turn that was handed off is answered after all: the latest label holds."""
    bench = Bench(DELIVERY, replace(DELIVERY, categories=("returns",)))

    labels = await bench.take(turn("Where?"), HAND_OFF, turn("Where?"), answered(action_id="a-2"))

    assert [("t-1", "wants a refund", ("delivery",)), ("t-1", None, ("returns",))] == [
        (label.exchange_id, label.handoff_summary, label.categories) for label in labels
    ]


async def test_an_ending_does_not_wait_for_a_turn_that_was_there() -> None:
    """It has left the window by the time it is answered: the label is made without it."""
    bench = Bench(*[DELIVERY] * 2)
    later = [
        turn("Hello?", turn_id=f"t-{number}", occurred_at=NOW + 100 * number)
        for number in range(2, 12)
    ]

    labels = await bench.take(
        turn("Where?"), HAND_OFF, *later, turn("Where?"), answered(action_id="a-2")
    )

    assert ["t-1", "t-1"] == [label.exchange_id for label in labels]
    assert "Where?" not in bench.texts
    assert bench.state is not None
    assert () == bench.state.waiting


async def test_a_turn_whose_id_cannot_be_kept_is_not_waited_for() -> None:
    """No record grows with an id of any length."""
    bench = Bench(DELIVERY)
    endless = "t" * 200_000

    labels = await bench.take(turn("Where?", turn_id=endless), answered(turn_id=endless))

    assert [endless] == [label.exchange_id for label in labels]
    assert bench.state is not None
    assert len(LAYOUT.dump(bench.state)) < 1_000


def test_a_window_of_a_time_before_ids_were_kept_is_read() -> None:
    """Its messages say which turns it has heard."""
    bench = Bench(DELIVERY)
    asyncio.run(bench.take(turn("Where?")))
    fields = orjson.loads(LAYOUT.dump(bench.state or Followed()))
    del fields["turn_ids"], fields["action_ids"]
    bench.state = LAYOUT.load(orjson.dumps(fields))

    labels = asyncio.run(bench.take(turn("Where?"), answered()))

    assert ["t-1"] == [label.exchange_id for label in labels]


@pytest.mark.parametrize(
    "event",
    [
        control("close"),
        control("forget"),
        Timer(timer_id="x", conversation_id="c-1", kind="conversation_close", due_at=NOW + 10),
    ],
)
async def test_the_end_of_a_conversation_empties_the_window(event: Event) -> None:
    """Closing leaves nothing but watermarks, which the stream then removes."""
    bench = Bench()

    await bench.take(turn("Bonjour"), event)

    assert bench.state is not None
    assert bench.texts == []
    assert LAYOUT.closed(bench.state)
    assert bench.state.watermarks["conversation.turns"] == 0


async def test_a_window_goes_by_itself_after_a_long_silence() -> None:
    """A turn that is read after the command to forget begins one that nothing else would end."""
    bench = Bench()

    await bench.take(control("forget"), turn("Bonjour"))

    assert bench.state is not None
    (due,) = LAYOUT.timers(bench.state)
    assert bench.state.updated_at + 60_000 == due.due_at


async def test_a_senders_clock_that_is_ahead_keeps_no_window() -> None:
    """A turn in microseconds ends with its conversation, by its record's own time."""
    bench = Bench()
    closing = Timer(
        timer_id="close/1", conversation_id="c-1", kind="conversation_close", due_at=NOW + 60_000
    )

    await bench.take(turn("My card is blue", occurred_at=NOW * 1_000))
    assert bench.state is not None
    (due,) = LAYOUT.timers(bench.state)
    await bench.take(closing)

    assert (NOW + 60_000, True) == (due.due_at, LAYOUT.closed(bench.state))


async def test_a_window_in_which_nothing_was_said_is_its_watermarks_alone() -> None:
    """The stream removes it as soon as the committed offsets have passed them."""
    bench = Bench()

    await bench.take(control("take_over"))

    assert bench.state is not None
    assert LAYOUT.closed(bench.state)
    assert () == LAYOUT.timers(bench.state)


@pytest.mark.parametrize(
    "event",
    [
        control("take_over"),
        Timer(timer_id="x", conversation_id="c-1", kind="call_deadline", due_at=NOW + 10),
        Timer(timer_id="x", conversation_id="c-1", kind="conversation_close", due_at=NOW - 1),
    ],
)
async def test_anything_else_closes_nothing(event: Event) -> None:
    """Other commands, other timers and an outdated timer change nothing."""
    bench = Bench()

    await bench.take(turn("Bonjour"), event)

    assert bench.texts == ["Bonjour"]


async def test_a_late_answer_does_not_reopen_a_conversation() -> None:
    """After the end only a new turn opens the window again."""
    bench = Bench()

    await bench.take(turn("Bonjour"), control("forget"), answered())
    late = bench.state
    await bench.take(turn("Rebonjour", turn_id="t-2"))

    assert late is not None
    assert late.closed
    assert bench.texts == ["Rebonjour"]


def test_the_window_is_stored_and_read() -> None:
    """A state survives storage."""
    bench = Bench()
    asyncio.run(bench.take(turn("Bonjour"), answered(turn_id="t-9")))
    assert bench.state is not None
    layout = LAYOUT

    assert layout.load(layout.dump(bench.state)) == bench.state


def test_a_flood_and_an_abandoned_event_make_no_label() -> None:
    """Both move the watermark; a flood is still followed."""
    bench = Bench()
    event = turn("Bonjour")
    source = record(event, 3, topic="conversation.turns")

    flooded = bench.handler.flood(source, event, None)
    abandoned = bench.handler.abandon(source, event, None, attempts=3, error=RuntimeError())

    assert flooded.state is not None
    assert ["Bonjour"] == [said.text for said in flooded.state.messages]
    assert abandoned == Handled(Followed(watermarks={"conversation.turns": 3}))
    lost = StateUnreadable("?", watermarks={"conversation.actions": 8})
    begun = bench.handler.abandon(source, event, None, attempts=1, error=lost)
    marks = {"conversation.turns": 3, "conversation.actions": 8}
    assert begun == Handled(Followed(watermarks=marks))


def test_the_id_of_a_label_is_made_of_the_record_that_was_first() -> None:
    """An ending that is replayed after it was given up has the id that it would have had."""
    bench = Bench(DELIVERY)
    asyncio.run(bench.take(turn("Bonjour")))
    fields = {"topic": "conversation.answers", "partition": "0", "offset": "4"}
    origin = tuple((f"turnstream.origin.{name}", one.encode()) for name, one in fields.items())
    source = replace(record(answered(), 9, topic="conversation.answers"), headers=origin)

    handled = bench.handler.handle(source, answered(), bench.state)

    assert isinstance(handled, Handled)
    (label,) = handled.publications
    assert b"conversation.answers/0/4/label" == dict(label.headers)["ce_id"]
