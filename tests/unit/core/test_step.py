"""Tests of turnstream.core.step."""

from dataclasses import replace

from tests.catalogs import NOW
from tests.driving import Driver, answer, ask, call
from turnstream.core.events import Label
from turnstream.core.record import dump


def test_from_a_turn_to_an_answer() -> None:
    """A turn, a question, its reply, a call, its result and an answer are one activation."""
    talk = Driver()

    talk.turn("Where is my order?", ask())
    assert "waiting_reply" == talk.phase
    assert "Which order?" == talk.message.text
    assert 1 == talk.action.step

    talk.turn("A-1", call())
    assert "waiting_calls" == talk.phase
    assert '{"order_id":"A-1"}' == talk.action.call.arguments_json  # type: ignore[union-attr]
    assert 2 == talk.action.step
    assert "accepted" == talk.action.question_ended.outcome  # type: ignore[union-attr]

    talk.result({"status": "shipped", "total": 20.0}, answer("order_status"))
    assert "waiting_answer" == talk.phase
    assert {"order_id": "A-1", "status": "shipped", "total": "20.0"} == talk.action.answer.values  # type: ignore[union-attr]
    assert 3 == talk.action.step
    assert "t1" == talk.action.turn_id

    talk.answered()
    assert "idle" == talk.phase
    assert talk.conversation.activation is None
    assert () == talk.last


def test_every_input_counts_and_moves_its_watermark() -> None:
    """Input numbers rise by one; each topic has its own watermark, which never goes back."""
    talk = Driver()
    talk.turn("hello", answer())
    talk.answered()
    talk.send(label(), offset=7)
    talk.send(label(), offset=3)

    expected = {"conversation.turns": 0, "conversation.answers": 0, "conversation.labels": 7}
    assert expected == talk.conversation.watermarks
    assert 4 == talk.conversation.input_no
    assert {"conversation.turns": 0} == talk.actions[0].seen


def label() -> Label:
    """A label of the first exchange."""
    return Label(
        exchange_id="t1",
        conversation_id="conv-1",
        title="",
        categories=(),
        model="m",
        occurred_at=NOW,
    )


def test_same_inputs_give_the_same_bytes() -> None:
    """Two runs over the same inputs publish equal events and end in equal records."""
    runs = []
    for _ in range(2):
        talk = Driver()
        talk.turn("Where is A-1?", call())
        talk.result(None, answer("order_status"))
        runs.append((dump(talk.conversation), talk.effects))

    assert runs[0] == runs[1]


def test_sequence_starts_at_the_records_time() -> None:
    """The first action's sequence is its record's time; every later one is one more."""
    talk = Driver()
    talk.turn("Where is A-1?", call())
    talk.result(None, answer("order_status"))

    assert [NOW, NOW + 1] == [one.sequence for one in talk.actions]


def test_a_time_that_no_clock_tells_leaves_room_for_the_sequence() -> None:
    """A record's timestamp may be any number of 64 bits; so must every later sequence be."""
    talk = Driver()
    talk.send(Driver().turn("hello", answer()), answer(), timestamp=2**63 - 1)

    assert all(one.sequence < 2**62 for one in talk.actions)
    assert len(talk.actions) == 1


def test_a_conversation_at_rest_will_end() -> None:
    """Every state that is stored, except a closed one, has a timer that will close it."""
    talk = Driver()
    talk.control("take_over")
    assert ["conversation_close"] == [one.kind for one in talk.conversation.timers]

    talk.control("close")
    assert [] == [one.kind for one in talk.conversation.timers]

    talk.control("take_over")
    assert ["conversation_close"] == [one.kind for one in talk.conversation.timers]


def test_an_agent_that_is_gone_is_replaced() -> None:
    """A conversation whose agent the catalog has lost goes on with the entry agent."""
    talk = Driver()
    talk.turn("hello", ask())
    talk.state = replace(talk.conversation, agent="gone")
    talk.turn("A-1", call())

    assert "shop" == talk.action.agent
