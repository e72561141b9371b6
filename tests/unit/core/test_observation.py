"""Tests of turnstream.core.observation, requests, questions, actions and handover."""

from dataclasses import replace

import pytest

from tests.catalogs import DEFINITION, NOW, RULES, ruleset, with_limits
from tests.driving import CLAIMS, Driver, answer, ask, call, hand_off
from turnstream.core.actions import patience_ms
from turnstream.core.definitions import Tool
from turnstream.core.events import Passage, SessionClaims
from turnstream.core.identity import text_hash
from turnstream.core.publications import OutboundMessage
from turnstream.core.rendering import as_text


def test_the_history_is_cut_by_number_length_and_size() -> None:
    """The oldest messages go first; one that is too long is cut."""
    talk = Driver(with_limits(history_messages=2, message_characters=20, history_characters=30))
    talk.turn("first", hand_off())
    talk.turn("x" * 99)
    assert ["x" * 14 + " [...]"] == [one.text for one in talk.conversation.history]
    talk.turn("y" * 20)
    assert ["y" * 20] == [one.text for one in talk.conversation.history]


def test_turn_ids_are_forgotten_in_order() -> None:
    """Only so many are remembered."""
    talk = Driver(with_limits(remembered_turns=2))
    for text in ("a", "b", "c"):
        talk.turn(text, role="system")

    assert [text_hash("t2"), text_hash("t3")] == list(talk.conversation.turn_ids)


@pytest.mark.parametrize(
    ("channel", "locale", "text"),
    [
        ("web", None, "We open"),
        ("web", "fr-CA", "fr-CA"),
        ("french", None, "fr"),
        ("web", "x" * 36, "en"),
        ("web", "f\nr", "en"),
    ],
)
def test_the_customers_locale(channel: str, locale: str | None, text: str) -> None:
    """The turn's locale counts, then the channel's, then the catalog's."""
    talk = Driver()
    talk.turn("hello", answer(), channel_id=channel, locale=locale)
    expected = {"We open": "en"}.get(text, text)

    assert expected == talk.action.answer.locale  # type: ignore[union-attr]


def test_questions_speak_the_customers_language() -> None:
    """The approved question of the step is preferred, in the wanted locale if there is one."""
    talk = Driver()
    talk.turn("bonjour", ask(), locale="fr-FR")
    assert ("fr", "Quelle commande ?") == (talk.message.locale, talk.message.text)
    talk = Driver()
    talk.turn("bonjour", ask("order_id", "refund"), locale="fr")
    assert ("en", "Which order shall be refunded?") == (talk.message.locale, talk.message.text)
    talk = Driver()
    talk.turn("bonjour", ask("topic", "search_help"), locale="fr")
    assert ["Fees", "Delays"] == [one.label for one in talk.message.suggestions]
    assert talk.action.question.restricted  # type: ignore[union-attr]
    assert NOW + 1_800_000 == talk.action.question.expires_at  # type: ignore[union-attr]


def test_suggestions_are_bounded() -> None:
    """No channel is sent more suggestions than it can show; a restricted choice stays valid."""
    choices = {f"c{n}": {"label": {"en": f"c{n}"}} for n in range(150)}
    topic = {**DEFINITION["fields"]["topic"], "choices": choices}
    talk = Driver(ruleset(fields={**DEFINITION["fields"], "topic": topic}))
    talk.turn("hello", ask("topic", "search_help"))
    assert 100 == len(talk.message.suggestions)
    talk.turn("c149", call("search_help"))

    assert '{"topic":"c149"}' == talk.action.call.arguments_json  # type: ignore[union-attr]


def test_a_question_about_a_field_that_is_gone() -> None:
    """After the catalog lost the field, a reply is a message like any other."""
    talk = Driver()
    talk.turn("hello", ask("note", "close_account"))
    fields = {name: one for name, one in DEFINITION["fields"].items() if name != "note"}
    tools = {name: one for name, one in DEFINITION["tools"].items() if name != "close_account"}
    talk.rules = ruleset(fields=fields, tools=tools)
    talk.turn("none", answer())

    assert "cancelled" == talk.action.question_ended.outcome  # type: ignore[union-attr]
    assert talk.requests[-1].open_intent is None


def test_only_the_last_questions_are_remembered() -> None:
    """A reply to a question of long ago is late, not a duplicate."""
    talk = Driver()
    for number in range(17):
        talk.turn(f"Please help {number}", ask())
        talk.control("take_over")
        talk.control("hand_back")

    assert 16 == len(talk.conversation.ended_questions)


def test_passages_are_bounded_and_of_the_latest_turn() -> None:
    """Passages that do not fit are left out; a turn without any has none."""
    talk = Driver(with_limits(passages_bytes=200))
    passages = tuple(Passage(passage_id=f"p{n}", text="x" * 80) for n in range(3))
    talk.turn("hello", answer(), passages=passages)
    assert ["p0"] == [one.passage_id for one in talk.requests[-1].passages]
    assert 1 == len(talk.action.answer.passages)  # type: ignore[union-attr]
    talk.answered()
    talk.turn("hello", answer())

    assert [] == [one.passage_id for one in talk.requests[-1].passages]


@pytest.mark.parametrize("claims", [None, SessionClaims(subject_id="c2")])
def test_what_belongs_to_one_customer_is_not_shown_to_another(
    claims: SessionClaims | None,
) -> None:
    """When another customer, or nobody, is authenticated, own results are withdrawn."""
    talk = Driver()
    talk.turn("Where is A-1? Fees?", call("search_help"))
    talk.result(None, call())
    talk.turn("Hello?", claims=claims)
    assert talk.conversation.outstanding[0].superseded
    assert not talk.conversation.facts[0].superseded

    talk.result(None, answer("order_status"), answer("order_status"))
    assert "contradiction" == talk.cause
    assert [False, True] == [one.superseded for one in talk.requests[-1].facts]


def test_withdrawn_results_stay_withdrawn() -> None:
    """A result is withdrawn once, however often that happens; an answer on its way is not."""
    talk = Driver()
    talk.turn("Where is A-1?", call())
    talk.result(None, answer("order_status"))
    talk.turn("Sorry, A-2", claims=CLAIMS.model_copy(update={"subject_id": "c2"}))
    talk.turn("Sorry, A-3", claims=None)

    assert [True] == [one.superseded for one in talk.conversation.facts]
    assert [False] == [one.superseded for one in talk.conversation.outstanding]


def test_a_decider_sees_what_it_may() -> None:
    """History, known values, tools as they stand, facts; no session value."""
    talk = Driver()
    talk.turn("Where is A-1?", call())
    talk.result({"status": "shipped"}, answer("order_status"))
    request = talk.requests[-1]

    assert ["Where is A-1?"] == [one.text for one in request.messages]
    assert {"order_id": "A-1"} == request.known
    assert ("get_order", "done", {"status": "shipped"}) == (
        request.facts[0].tool,
        request.facts[0].outcome,
        request.facts[0].result,
    )
    assert "c1" not in str(replace(request, facts=()))


def test_a_handoff_tells_the_person_everything() -> None:
    """Queue, cause, last message, values with their sources, calls with their outcomes."""
    talk = Driver()
    talk.turn("Refund A-1 or A-2, " + "please " * 99, hand_off(handoff_cause="user_request"))
    handoff = talk.action.handoff
    assert handoff is not None

    assert "general" == handoff.queue
    assert handoff.summary.startswith("user_request; last message: Refund A-1 or A-2, please")
    assert len(handoff.summary) < 330
    assert [("customer", "c1", "session"), ("order_id", "A-1", "message")] == [
        (one.field, one.value, one.source) for one in handoff.values
    ][:2]


def test_a_handoff_without_a_customers_word() -> None:
    """A person who takes over before anything was said gets a summary all the same."""
    talk = Driver()
    talk.turn("hi", channel_id="bogus")

    assert "dead_letter" == talk.action.handoff.summary  # type: ignore[union-attr]


def test_what_a_template_gets() -> None:
    """A placeholder without a result is filled by a known value, in no doubt only."""
    talk = Driver()
    talk.turn("hello", ask("note", "close_account"))
    talk.turn("call me", answer("greeting"))
    assert {"note": "call me"} == talk.action.answer.values  # type: ignore[union-attr]
    assert "2" == as_text(2)
    assert "a, 1.5, null" == as_text(["a", 1.5, None])


def test_diagnostics_are_beside_the_contract() -> None:
    """Numbers and notes of the decider travel as JSON; what JSON cannot hold is left out."""
    talk = Driver()
    talk.turn("hello", answer(margin=0.5, probabilities={"answer": 0.9}, diagnostics={"why": "x"}))
    assert (
        '{"confidence":0.9,"confidence_kind":"made up","probabilities":{"answer":0.9},'
        '"margin":0.5,"why":"x"}' == talk.action.diagnostics_json
    )
    talk.answered()
    talk.turn("hello", answer(diagnostics={"why": "\ud800"}))
    assert '{"unwritable":["confidence","confidence_kind","probabilities","why"]}' == (
        talk.action.diagnostics_json
    )


def test_diagnostics_without_end_are_omitted() -> None:
    """A decider's notes never make a decision too large to publish."""
    talk = Driver()
    talk.turn("hello", answer(diagnostics={"why": "x" * 16_000}))
    assert "why" in talk.action.diagnostics_json
    talk.answered()
    talk.turn("hello", answer(diagnostics={"why": "x" * 1_100_000}))
    assert '{"omitted_characters":1100074}' == talk.action.diagnostics_json


def test_how_long_a_call_may_take() -> None:
    """All attempts and the waits between them; a write that cannot be repeated has one."""
    given = {
        "description": "T.",
        "input_schema": {},
        "result_schema": {},
        "effect": "read",
        "timeout_seconds": 2,
        "retry": {"attempts": 4, "backoff_seconds": 1, "max_backoff_seconds": 2},
        "binding": {"kind": "function", "target": "a:b"},
    }

    assert 13_000 == patience_ms(Tool.model_validate(given))
    assert 2_000 == patience_ms(Tool.model_validate({**given, "effect": "write"}))
    idempotent = {**given, "effect": "write", "idempotent": True}
    assert 13_000 == patience_ms(Tool.model_validate(idempotent))


def test_sent_messages_are_remembered_for_echoes() -> None:
    """Only the last of our messages are."""
    talk = Driver(with_limits(remembered_messages=1))
    talk.turn("hello", ask())
    talk.turn("well", hand_off())

    assert (text_hash("A person will help."),) == talk.conversation.sent


def test_a_sequence_begins_above_zero() -> None:
    """A record without a time still gives an order."""
    talk = Driver()
    talk.send(Driver().turn("hello", answer()), answer(), timestamp=-1)
    talk.turns = 1
    assert 1 == talk.action.sequence
    talk.answered()
    talk.turn("hello", ask())
    assert [2, 2] == [talk.action.sequence, talk.of(OutboundMessage)[0].sequence]
    assert RULES is talk.rules
