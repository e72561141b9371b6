"""Tests of turnstream.core.turns."""

from dataclasses import replace

import pytest

from tests.catalogs import DEFINITION, MINUTE, NOW, ruleset, with_limits
from tests.driving import Driver, answer, ask, call, refuse
from turnstream.core.effects import DeadLetter, Flooded
from turnstream.core.events import Attachment, ConversationTurn, SessionClaims
from turnstream.core.identity import text_hash
from turnstream.core.publications import ActionEvent, OutboundMessage, Outcome


def asked(field: str = "order_id", tool: str = "get_order", **changes: object) -> Driver:
    """A conversation with an open question."""
    talk = Driver()
    talk.turn("Please help me", ask(field, tool), **changes)  # type: ignore[arg-type]
    return talk


def question(talk: Driver) -> str:
    """The id of the open question."""
    assert talk.conversation.open_question is not None
    return talk.conversation.open_question.question_id


def test_a_repeated_turn_is_not_decided_again() -> None:
    """A turn whose id and content were seen gets an outcome, once per record."""
    talk = Driver()
    turn = talk.turn("hello", answer())
    talk.send(turn)

    assert ("turn", "duplicate_turn") == (talk.outcome.of, talk.left)


def test_a_turn_id_with_another_content_is_a_dead_letter() -> None:
    """The record is kept, a person is told, and only once."""
    talk = Driver()
    turn = talk.turn("hello", answer())
    talk.send(turn.model_copy(update={"text": "other"}))
    assert "turn_id_conflict" == talk.letter.reason
    assert "dead_letter" == talk.cause

    talk.send(turn.model_copy(update={"text": "third"}))
    assert "turn_id_conflict" == talk.letter.reason
    assert 1 == len(talk.last)


def test_a_dead_letter_ends_the_open_question() -> None:
    """The handoff of a refused turn says that the question was cancelled."""
    talk = asked()
    talk.turn("hi", channel_id="bogus")

    assert "unknown_channel" == talk.letter.reason
    assert "cancelled" == talk.action.question_ended.outcome  # type: ignore[union-attr]
    assert "web" == talk.action.channel_id
    assert "handoff_notice" == talk.message.kind
    assert talk.conversation.open_question is None


def test_nobody_is_notified_on_an_unknown_channel() -> None:
    """A first turn from an unknown channel is handed off without a message."""
    talk = Driver()
    talk.turn("hi", channel_id="bogus")

    assert "bogus" == talk.action.channel_id
    assert [] == talk.of(OutboundMessage)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"turn_id": "t" * 129}, "invalid_id"),
        ({"turn_id": "a\nb"}, "invalid_id"),
        ({"tenant_id": "t" * 129}, "invalid_id"),
        ({"role": "unrecognized"}, "unrecognized_symbol"),
    ],
)
def test_turns_that_cannot_be_taken(changes: dict[str, str], reason: str) -> None:
    """Ids that cannot be stored and roles that are not known are dead letters."""
    talk = Driver()
    talk.turn("hi", **changes)  # type: ignore[arg-type]

    assert reason == talk.letter.reason
    assert "dead_letter" == talk.cause
    assert ["assistant"] == [one.role for one in talk.conversation.history]


def test_a_person_who_writes_takes_over() -> None:
    """An agent's turn ends the open question and holds the conversation."""
    talk = asked()
    opened = question(talk)
    talk.turn("I am here", role="agent", channel_id="french")

    assert ("question", "cancelled", opened) == (
        talk.outcome.of,
        talk.left,
        talk.outcome.question_id,
    )
    assert "held" == talk.phase
    assert "web" == talk.conversation.channel_id

    talk.turn("thanks")
    assert "held_by_person" == talk.left
    assert "thanks" == talk.conversation.history[-1].text


@pytest.mark.parametrize(
    "changes",
    [
        {"echo_of": "m1"},
        {"role": "assistant"},
        {"text": "Which  order? "},
        {"actor_id": "our-bot"},
    ],
)
def test_an_echo_of_ours_is_nobody(changes: dict[str, str]) -> None:
    """Our own message coming back changes nothing but the remembered turn ids."""
    talk = asked()
    talk.rules = replace(
        talk.rules, limits=replace(talk.rules.limits, bot_actors=frozenset({"our-bot"}))
    )
    before = talk.conversation
    talk.turn(**{"text": "something", "role": "agent", **changes})  # type: ignore[arg-type]

    assert "waiting_reply" == talk.phase
    assert before.history == talk.conversation.history
    assert text_hash("t2") in talk.conversation.turn_ids
    assert () == talk.last


def test_a_repeated_turn_of_ours_is_not_mentioned() -> None:
    """Only customers' turns get outcomes."""
    talk = Driver()
    turn = talk.turn("note", role="system")
    talk.send(turn)

    assert () == talk.last
    assert "idle" == talk.phase


def test_a_closed_conversation_stays_empty() -> None:
    """Only a customer or a person opens a closed conversation again."""
    talk = Driver()
    talk.control("close")
    talk.turn("note", role="system")
    talk.turn("note", role="agent", echo_of="m1")
    talk.turn(" ")
    assert "rejected" == talk.left
    assert ("closed", ()) == (talk.phase, talk.conversation.history)
    assert {} == talk.conversation.turn_ids

    talk.turn("hello", answer())
    assert "waiting_answer" == talk.phase


def test_a_stale_turn_is_handed_off() -> None:
    """A turn older than its moment enters the history, and a person gets it."""
    talk = Driver()
    talk.turn("hello", occurred_at=NOW - 15 * MINUTE - 1)

    assert "stale_turn" == talk.cause
    assert "hello" == talk.conversation.history[0].text


def test_a_stale_turn_does_not_wait_for_calls() -> None:
    """A stale turn is handed off also while a call is outstanding."""
    talk = Driver()
    talk.turn("Where is A-1?", call())
    talk.turn("hello", occurred_at=NOW - 15 * MINUTE - 1)

    assert "stale_turn" == talk.cause
    assert "pending" == talk.action.handoff.calls[0].outcome  # type: ignore[union-attr]


def test_a_turn_without_words_is_rejected() -> None:
    """Nothing is decided about an empty message, unless something is attached to it."""
    talk = Driver()
    talk.turn("  ")
    assert ("turn", "rejected") == (talk.outcome.of, talk.left)

    talk.turn("", answer(), attachments=(Attachment(attachment_id="a", content_type="x"),))
    assert "answer" == talk.action.decision.action


def test_a_reply_is_accepted() -> None:
    """A reply ends its question; the same activation goes on."""
    talk = asked()
    opened = question(talk)
    talk.turn("a-7", call())

    assert talk.action.question_ended is not None
    assert opened == talk.action.question_ended.question_id
    assert "t1" == talk.action.turn_id
    assert "order_id" == talk.requests[-1].answered_field
    assert "get_order" == talk.requests[-1].open_intent
    assert {"order_id": "A-7"} == talk.requests[-1].known


@pytest.mark.parametrize(("text", "value"), [("no", "false"), ("YES", "true"), ("Oui !", "true")])
def test_no_is_an_answer(text: str, value: str) -> None:
    """A falsy answer counts as given."""
    talk = asked("receipt", "refund")
    talk.turn(text, answer())

    assert (value,) == talk.conversation.values["receipt"]["message"].candidates


def test_zero_is_read_and_then_checked() -> None:
    """A zero is a number like any other: outside the field's bounds it is no valid reply."""
    talk = asked("copies", "refund")
    talk.turn("0", reply_to_question_id=question(talk))

    assert ("reply", "rejected") == (talk.outcome.of, talk.left)


@pytest.mark.parametrize("text", ["", "whatever"])
def test_an_invalid_reply_is_asked_again_and_counted(text: str) -> None:
    """Each invalid reply is visible; after the limit a person takes over."""
    talk = asked()
    opened, sequence = question(talk), talk.action.sequence
    for rejections in (1, 2):
        talk.turn(text, reply_to_question_id=opened)
        assert ("reply", "rejected", opened) == (
            talk.outcome.of,
            talk.left,
            talk.outcome.question_id,
        )
        assert sequence + rejections == talk.message.sequence
        assert "Which order?" == talk.message.text
        assert rejections == talk.conversation.open_question.rejections  # type: ignore[union-attr]
        assert () == talk.conversation.unanswered

    talk.turn(text, reply_to_question_id=opened)
    assert "no_progress" == talk.cause
    assert "cancelled" == talk.action.question_ended.outcome  # type: ignore[union-attr]


def test_something_else_is_decided_with_the_question_cancelled() -> None:
    """A message that is no reply is heard, and the step that was asked for is not forgotten."""
    talk = asked()
    talk.turn("What is your return address?", answer())

    assert "What is your return address?" == talk.requests[-1].latest
    assert talk.requests[-1].answered_field is None
    assert "get_order" == talk.requests[-1].open_intent
    assert "cancelled" == talk.action.question_ended.outcome  # type: ignore[union-attr]
    assert 2 == talk.action.step


def test_only_a_suggestion_answers_a_restricted_question() -> None:
    """Anything else is rejected, and no value is taken from it."""
    talk = asked("topic", "search_help")
    talk.turn("Tell me a joke")
    assert "rejected" == talk.left
    assert {} == talk.conversation.values

    talk.turn("Fees", call("search_help"))
    assert "accepted" == talk.action.question_ended.outcome  # type: ignore[union-attr]


def test_several_candidates_are_offered_back() -> None:
    """A reply that names two is not accepted; the next question offers both."""
    talk = asked()
    talk.turn("A-1 or A-2", ask())

    assert ["A-1", "A-2"] == [one.value for one in talk.message.suggestions]
    assert "cancelled" == talk.action.question_ended.outcome  # type: ignore[union-attr]

    talk.turn("A-2", call())
    assert '{"order_id":"A-2"}' == talk.action.call.arguments_json  # type: ignore[union-attr]


def test_a_second_reply_is_a_duplicate() -> None:
    """A reply to an accepted question changes nothing, also while its call is running."""
    talk = asked()
    opened = question(talk)
    talk.turn("A-1", call(), reply_to_question_id=opened)
    talk.turn("A-2", reply_to_question_id=opened)

    assert ("reply", "duplicate", opened) == (
        talk.outcome.of,
        talk.left,
        talk.outcome.question_id,
    )
    assert ("A-1",) == talk.conversation.values["order_id"]["message"].candidates
    assert talk.conversation.backlog is None
    assert not talk.conversation.outstanding[0].superseded


def test_a_reply_to_another_question_is_late() -> None:
    """Its words are not taken for the question that is open now."""
    talk = asked()
    first = question(talk)
    talk.turn("something else", ask("note", "close_account"))
    second = question(talk)
    talk.turn("A-3", reply_to_question_id=first)

    assert ("reply", "late", first) == (
        talk.outcome.of,
        talk.left,
        talk.outcome.question_id,
    )
    assert second == question(talk)
    assert {} == talk.conversation.values
    assert "A-3" == talk.conversation.history[-1].text


def test_a_stale_reply_to_another_question_is_handed_off() -> None:
    """Age comes before lateness."""
    talk = asked()
    talk.turn("A-3", reply_to_question_id="other", occurred_at=NOW - 16 * MINUTE)

    assert "stale_turn" == talk.cause


def test_a_reply_without_a_question_is_a_fresh_turn() -> None:
    """The action says that the reply was late."""
    talk = Driver()
    talk.turn("A-3", call(), reply_to_question_id="long-gone")

    assert ("long-gone", "late") == (
        talk.action.question_ended.question_id,  # type: ignore[union-attr]
        talk.action.question_ended.outcome,  # type: ignore[union-attr]
    )
    assert 1 == talk.action.step
    assert talk.requests[-1].open_intent is None


@pytest.mark.parametrize("late_by", [0, MINUTE])
def test_a_reply_at_or_after_the_expiry_is_late(late_by: int) -> None:
    """The record's time decides between answered and expired; the turn is fresh."""
    talk = asked("topic", "search_help")
    opened = question(talk)
    talk.now += 30 * MINUTE + late_by
    talk.turn("", occurred_at=talk.now)
    assert ("turn", "rejected") == (talk.outcome.of, talk.left)

    talk.turn("fees", call("search_help"), reply_to_question_id=opened)
    assert "expired" == talk.action.question_ended.outcome  # type: ignore[union-attr]
    assert ("t3", 1) == (talk.action.turn_id, talk.action.step)
    assert "search_help" == talk.requests[-1].open_intent
    assert "conversation_close,call_deadline" == ",".join(
        one.kind for one in talk.conversation.timers
    )


def test_turns_wait_for_calls() -> None:
    """Turns that come during a call get an activation of their own, together, after the answer."""
    talk = Driver()
    talk.turn("Where is A-1?", call())
    talk.turn("And when do you open?")
    assert "buffered" == talk.left
    talk.turn("On Sundays, too?", reply_to_question_id="old")
    assert ("buffered", "old") == (talk.left, talk.outcome.question_id)
    talk.turn("  ")
    assert "rejected" == talk.left

    talk.result(None, answer("order_status"))
    assert "" == talk.requests[-1].latest
    assert "t1" == talk.action.turn_id

    talk.answered(answer())
    assert "And when do you open?\nOn Sundays, too?" == talk.requests[-1].latest
    assert ("t2", 1) == (talk.action.turn_id, talk.action.step)
    assert () == talk.requests[-1].facts
    assert talk.conversation.backlog is None


def test_what_waits_is_not_lost_by_a_refusal() -> None:
    """Where the work ends without an answer, the next turn takes up what waited."""
    talk = Driver()
    talk.turn("Where is A-1?", call())
    talk.turn("And when do you open?")
    talk.result(None, refuse())
    assert "idle" == talk.phase

    talk.turn("Hello?", answer())
    assert "And when do you open?\nHello?" == talk.requests[-1].latest
    assert talk.conversation.backlog is None


def test_a_correction_during_a_call() -> None:
    """The call's result is not used; the call is made again with the new value."""
    talk = Driver()
    talk.turn("Where is A-1?", call())
    talk.turn("Sorry, A-2")
    talk.turn("No, A-3")
    assert "buffered" == talk.left
    assert talk.conversation.backlog is None
    assert talk.conversation.outstanding[0].superseded

    talk.result(None, call())
    assert talk.requests[-1].facts[0].superseded
    assert "get_order" == talk.requests[-1].open_intent
    assert '{"order_id":"A-3"}' == talk.action.call.arguments_json  # type: ignore[union-attr]


def test_a_correction_after_the_answer() -> None:
    """The next decision knows which tool the corrected value was for."""
    talk = Driver()
    talk.turn("Where is A-1?", call())
    talk.result(None, answer("order_status"))
    talk.answered()
    talk.turn("Sorry, I meant A-2", call())
    assert "get_order" == talk.requests[-1].open_intent
    talk.result(None, answer("order_status"))
    talk.answered()

    talk.turn("When do you open?", answer())
    assert talk.requests[-1].open_intent is None


def test_a_flooding_customer_gets_a_person() -> None:
    """The turn enters the history, nothing is decided about it, and it is said once."""
    talk = asked()
    turn = ConversationTurn(
        turn_id="f1",
        conversation_id="conv-1",
        channel_id="web",
        role="customer",
        text="hello?",
        occurred_at=NOW,
    )
    talk.send(Flooded(turn))
    assert "flood" == talk.cause
    assert "hello?" == talk.conversation.history[-2].text
    assert "cancelled" == talk.action.question_ended.outcome  # type: ignore[union-attr]

    talk.send(Flooded(turn))
    assert "duplicate_turn" == talk.left
    talk.send(Flooded(turn.model_copy(update={"turn_id": "f2"})))
    assert "held_by_person" == talk.left
    talk.send(Flooded(turn.model_copy(update={"text": "other"})))
    assert [DeadLetter] == [type(one) for one in talk.last]
    talk.send(Flooded(turn.model_copy(update={"turn_id": "f3", "role": "agent"})))
    assert () == talk.last


def test_a_flood_on_a_new_conversation() -> None:
    """The handoff names the turn."""
    talk = Driver()
    turn = Driver().turn("hello", answer())
    talk.send(Flooded(turn))

    assert ("flood", "t1") == (talk.cause, talk.action.turn_id)


def test_claims_that_do_not_fit_are_an_explicit_error() -> None:
    """Too many claims are no claims, and a person is brought in."""
    talk = Driver()
    permissions = tuple(f"right-{number}" for number in range(3000))
    talk.turn("hello", claims=SessionClaims(subject_id="c1", permissions=permissions))

    assert "state_too_large" == talk.cause
    assert talk.conversation.session is None


def test_rejections_are_configured() -> None:
    """Without any rejection allowed, the first invalid reply is handed off."""
    talk = Driver(with_limits(max_rejections=0))
    talk.turn("Please help", ask())
    talk.turn("what?", reply_to_question_id=question(talk))

    assert "no_progress" == talk.cause
    assert [] == talk.of(Outcome)
    assert 1 == len(talk.of(ActionEvent))


def test_another_request_while_asked_borrows_no_value_of_the_one_before() -> None:
    """A number given for one subject is not used for another without asking, question or not."""
    order = DEFINITION["tools"]["get_order"]
    detailed = {
        **order,
        "input_schema": {
            "type": "object",
            "required": ["order_id", "topic"],
            "properties": {"order_id": {"type": "string"}, "topic": {"type": "string"}},
        },
        "arguments": {**order["arguments"], "topic": {"provenance": ["message"]}},
    }
    tools = {
        **DEFINITION["tools"],
        "explain_order": detailed,
        "track": {**order, "subject": "parcel"},
    }
    topic = {**DEFINITION["fields"]["topic"], "restricted": False}
    fields = {**DEFINITION["fields"], "topic": topic}
    talk = Driver(ruleset(tools=tools, fields=fields))
    talk.turn("Explain A-1 to me", ask("topic", "explain_order"))

    talk.turn("By the way, where is my parcel?", call("track"), ask("order_id", "track"))

    assert "ask" == talk.action.decision.action
    assert ("order_id", "track") == (
        talk.action.question.field,  # type: ignore[union-attr]
        talk.action.question.needed_for,  # type: ignore[union-attr]
    )


def test_a_turn_sent_again_after_the_close_is_still_a_repetition() -> None:
    """A producer's retry does not know that the conversation has ended meanwhile."""
    talk = Driver()
    talk.turn("hello", answer(), turn_id="t-again")
    talk.answered()
    talk.control("close")

    talk.turn("hello", turn_id="t-again")

    assert "duplicate_turn" == talk.left
    assert "closed" == talk.phase
