"""Tests of turnstream.core.controls and turnstream.core.timers."""

from dataclasses import replace

import pytest

from tests.catalogs import NOW, RULES
from tests.driving import Driver, answer, ask, call
from turnstream.core.conversation import Conversation
from turnstream.core.effects import Abandoned, Flooded
from turnstream.core.events import ConversationTurn, Timer

DAY = 24 * 3600 * 1000


def test_take_over_and_hand_back() -> None:
    """While a person holds the conversation nothing is decided; afterwards it is."""
    talk = Driver()
    talk.turn("Where is A-1?", call())
    talk.turn("Hello?")
    talk.control("take_over")
    assert ("held", "person") == (talk.phase, talk.conversation.holder)
    assert talk.conversation.backlog is None

    talk.control("hand_back")
    assert ("idle", "bot") == (talk.phase, talk.conversation.holder)
    assert () == talk.conversation.outstanding
    talk.control("hand_back")
    assert "idle" == talk.phase

    talk.turn("hello", answer())
    assert "answer" == talk.action.decision.action


def test_cancel() -> None:
    """A customer who cancels gets a person; without work under way nothing happens."""
    talk = Driver()
    talk.control("cancel")
    assert () == talk.last
    talk.turn("help", ask())
    talk.control("cancel")

    assert "user_cancel" == talk.cause
    assert "cancelled" == talk.action.question_ended.outcome  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["close", "forget"])
def test_closing_leaves_only_what_protects(kind: str) -> None:
    """Watermarks, sequence and input number are left; the open question ends visibly, once."""
    talk = Driver()
    talk.turn("help", ask())
    sequence = talk.action.sequence
    turn_ids = talk.conversation.turn_ids
    talk.control(kind)

    assert "cancelled" == talk.left
    expected = Conversation(
        input_no=2,
        watermarks={"conversation.turns": 0, "conversation.control": 0},
        phase="closed",
        sequence=sequence,
        turn_ids={} if kind == "forget" else turn_ids,
        updated_at=NOW,
    )
    assert expected == talk.conversation
    talk.control(kind)
    assert () == talk.last


def test_to_forget_a_closed_conversation_takes_the_ids_of_its_turns() -> None:
    """They protect against repetition until the record is removed; forgetting goes further."""
    talk = Driver()
    talk.turn("help", ask())
    talk.control("close")
    talk.control("forget")

    assert {} == talk.conversation.turn_ids
    assert "closed" == talk.phase


def test_a_command_of_a_newer_writer() -> None:
    """A command that is not known is kept in the dead letters and changes nothing."""
    talk = Driver()
    talk.control("unrecognized")

    assert "unrecognized_symbol" == talk.letter.reason
    assert "idle" == talk.phase


def test_deadlines() -> None:
    """A read that does not come back is an outage, a write an unknown outcome."""
    talk = Driver()
    talk.turn("Where is A-1?", call())
    talk.timer("call_deadline")
    assert "tool_unavailable" == talk.cause
    assert talk.conversation.activation is None

    talk = Driver()
    talk.turn("Refund A-1", call())
    talk.result({"total": 20}, call("refund"))
    talk.timer("call_deadline")
    assert "outcome_unknown" == talk.cause

    talk = Driver()
    talk.turn("hello", answer())
    talk.timer("answer_deadline")
    assert "tool_unavailable" == talk.cause


def test_a_timer_of_the_past_is_harmless() -> None:
    """A timer that is not in the state changes nothing."""
    talk = Driver()
    talk.turn("help", ask("topic", "search_help"))
    timer = Timer(
        timer_id=next(t.timer_id for t in talk.conversation.timers if t.kind == "question_expiry"),
        conversation_id="conv-1",
        kind="question_expiry",
        due_at=NOW,
    )
    talk.turn("fees", call("search_help"))
    talk.send(timer)

    assert "waiting_calls" == talk.phase
    assert () == talk.last


def test_a_question_expires() -> None:
    """Expiry ends question and activation, and an outcome says so; never does it consent."""
    talk = Driver()
    talk.turn("help", ask("topic", "search_help"))
    talk.timer("question_expiry")

    assert ("question", "expired") == (talk.outcome.of, talk.left)
    assert "idle" == talk.phase
    assert talk.conversation.activation is None


def test_an_expiry_without_a_question() -> None:
    """A copy that has lost its question ignores the expiry."""
    talk = Driver()
    talk.turn("help", ask("topic", "search_help"))
    talk.state = replace(talk.conversation, open_question=None, phase="idle")
    talk.timer("question_expiry")

    assert () == talk.last


def test_an_idle_conversation_closes() -> None:
    """After the time to live without activity the conversation ends."""
    talk = Driver()
    talk.turn("hello", answer())
    talk.answered()
    talk.timer("conversation_close")

    assert "closed" == talk.phase


def test_activity_gives_time() -> None:
    """A conversation that was active since its timer was set is looked at again later."""
    talk = Driver()
    talk.turn("hello", answer())
    talk.now += DAY
    talk.answered()
    talk.timer("conversation_close")
    assert "idle" == talk.phase
    assert NOW + 8 * DAY == talk.conversation.timers[0].due_at

    talk.timer("conversation_close")
    assert "closed" == talk.phase


def test_work_under_way_gives_time() -> None:
    """A conversation is never closed while a call is outstanding."""
    talk = Driver()
    talk.turn("Where is A-1?", call())
    talk.timer("conversation_close")

    assert "waiting_calls" == talk.phase
    assert NOW + 14 * DAY == talk.conversation.timers[-1].due_at


def test_an_open_question_gives_more_time_but_not_for_ever() -> None:
    """A question without an expiry is waited for 30 days; its end is said."""
    talk = Driver()
    talk.turn("help", ask())
    talk.timer("conversation_close")
    assert "waiting_reply" == talk.phase
    assert NOW + 30 * DAY == talk.conversation.timers[0].due_at

    talk.timer("conversation_close")
    assert "closed" == talk.phase
    assert "expired" == talk.left


def test_a_question_with_an_expiry_ends_by_that() -> None:
    """The closing timer leaves it alone."""
    talk = Driver()
    talk.turn("help", ask("topic", "search_help"))
    talk.timer("conversation_close")

    assert "waiting_reply" == talk.phase


def turn(**changes: str) -> ConversationTurn:
    """A customer's turn."""
    given = {
        "turn_id": "x1",
        "conversation_id": "conv-1",
        "channel_id": "web",
        "role": "customer",
        "text": "hi",
        **changes,
    }
    return ConversationTurn(**given, occurred_at=NOW)  # type: ignore[arg-type]


def test_an_abandoned_turn_is_handed_off() -> None:
    """A turn that could not be handled brings a person in, on its channel."""
    talk = Driver()
    talk.send(Abandoned(turn()))
    assert ("dead_letter", "x1", "web") == (
        talk.cause,
        talk.action.turn_id,
        talk.action.channel_id,
    )
    talk.send(Abandoned(turn()))
    assert () == talk.last

    talk = Driver()
    talk.send(Abandoned(turn(channel_id="bogus")))
    assert "" == talk.action.channel_id


def test_other_lost_inputs_matter_only_to_work_under_way() -> None:
    """A lost label of an idle conversation is no reason for a person; a lost result is."""
    talk = Driver()
    for lost in (Abandoned(), Flooded()):
        talk.send(lost)
        assert () == talk.last
    talk.turn("Where is A-1?", call())
    talk.send(Abandoned())
    assert "dead_letter" == talk.cause

    talk = Driver()
    talk.turn("Where is A-1?", call())
    talk.send(Flooded())
    assert "flood" == talk.cause
    assert RULES is talk.rules
