"""The answer role, and the filling of approved answers."""

from typing import Any

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
)
from turnstream.core.definitions import ApprovedAnswer
from turnstream.core.events import Answer
from turnstream.core.publications import ActionEvent, OutboundMessage
from turnstream.core.rendering import MissingValue, render
from turnstream.roles.answer import AnswerHandler
from turnstream.stream import Handled, Progress

ACTIONS = "conversation.actions"
CATALOG = catalog()


def handler(counted: Counted | None = None) -> AnswerHandler:
    """An answer handler over the small shop."""
    return AnswerHandler(
        intake=intake(),
        publisher=publisher("answer"),
        catalog=CATALOG,
        metrics=(counted or Counted(CATALOG)).metrics,
        now_ms=lambda: NOW,
    )


def answer_action(**payload: Any) -> ActionEvent:
    """An answer action."""
    return action("answer", {"locale": "fr"} | payload)


def run(event: ActionEvent, counted: Counted | None = None) -> Handled[Progress]:
    """Handle one action from its record."""
    subject = handler(counted)
    source = record(event, 4, topic=ACTIONS)
    key, admitted = subject.admit(source)
    assert key == b"c-1"
    return subject.handle(source, admitted, Progress({ACTIONS: 1}))


def test_an_approved_answer_is_filled_and_sent() -> None:
    """The answer and the customer's message go out together, in the wanted locale."""
    counted = Counted(CATALOG)
    values = {"order_id": "A-1001", "status": "shipped"}

    handled = run(answer_action(answer_id="order_status", values=values), counted)

    answer, message = events(handled)
    assert answer == Answer(
        action_id="a-1",
        conversation_id="c-1",
        turn_id="t-1",
        text="A-1001 : expédiée.",
        model="m/1",
        occurred_at=NOW,
    )
    assert message == OutboundMessage(
        message_id="a-1",
        conversation_id="c-1",
        channel_id="web",
        kind="answer",
        text="A-1001 : expédiée.",
        locale="fr",
        sequence=NOW,
        occurred_at=NOW,
    )
    assert ["conversation.answers", "conversation.outbound"] == [
        publication.topic for publication in handled.publications
    ]
    assert handled.state == Progress({ACTIONS: 4}, NOW)
    assert counted.value("answers_total", result="published") == 1


def test_a_models_text_is_passed_through() -> None:
    """A text without an approved answer is sent as it is."""
    _, message = events(run(answer_action(text="Bonjour {name} !\n")))

    assert isinstance(message, OutboundMessage)
    assert (message.text, message.locale) == ("Bonjour {name} !", "fr")


@pytest.mark.parametrize(
    ("payload", "failure", "counted_as"),
    [
        ({"answer_id": "no_such"}, "unknown_answer", "unknown_answer"),
        (
            {"answer_id": "order_status", "values": {"status": "shipped"}},
            "missing_value: order_id",
            "missing_value",
        ),
        ({"text": "  \n"}, "empty_text", "empty_text"),
        ({}, "empty_text", "empty_text"),
        ({"answer_id": "blank", "values": {"order_id": ""}}, "empty_text", "empty_text"),
    ],
)
def test_what_cannot_be_answered_is_said_to_decide_only(
    payload: dict[str, Any], failure: str, counted_as: str
) -> None:
    """A failure reaches the conversation, never the customer."""
    counted = Counted(CATALOG)

    handled = run(answer_action(**payload), counted)

    (answer,) = events(handled)
    assert isinstance(answer, Answer)
    assert (answer.text, answer.failure) == (None, failure)
    assert handled.state == Progress({ACTIONS: 4}, NOW)
    assert counted.value("answers_total", result=counted_as) == 1


def test_other_actions_only_move_the_watermark() -> None:
    """An action that is no answer publishes nothing and keeps the order of the key."""
    refusal = {"rule": "fraud", "text": "No.", "locale": "en"}

    assert run(action("refuse", refusal)) == Handled(Progress({ACTIONS: 4}, NOW))


def test_a_flood_is_answered() -> None:
    """Too many queued actions are still answered, in order."""
    event = answer_action(text="Bonjour")

    handled = handler().flood(record(event, 4, topic=ACTIONS), event, None)

    assert len(handled.publications) == 2


def test_an_abandoned_answer_is_said_to_have_failed() -> None:
    """The conversation is told when composing fails for good."""
    event = answer_action(text="Bonjour")

    handled = handler().abandon(
        record(event, 4, topic=ACTIONS), event, None, attempts=3, error=RuntimeError()
    )

    (answer,) = events(handled)
    assert isinstance(answer, Answer)
    assert answer.failure == "handler_failed"


def approved(text: dict[str, str], **words: Any) -> ApprovedAnswer:
    """An approved answer."""
    return ApprovedAnswer.model_validate({"description": "d", "text": text, "words": words})


@pytest.mark.parametrize(
    ("locale", "expected"),
    [
        ("fr", ("fr", "état : expédiée")),
        ("fr-CA", ("fr", "état : expédiée")),
        ("de", ("en", "state: shipped")),
        (None, ("en", "state: shipped")),
    ],
)
def test_text_and_words_share_a_locale(locale: str | None, expected: tuple[str, str]) -> None:
    """The words of a value stand in the locale of the text that was found."""
    answer = approved(
        {"en": "state: {status}", "fr": "état : {status}"},
        status={"shipped": {"fr": "expédiée", "en": "shipped"}},
    )

    found = render(answer, locale=locale, values={"status": "shipped"}, default_locale="en")

    assert expected == found


@pytest.mark.parametrize(
    "value", ["{status}", "{0.__class__}", "%s", "${x}", "{{", "}", "\\1", "{a!r:>10}"]
)
def test_a_value_is_never_a_template(value: str) -> None:
    """Whatever a value looks like, it stands in the text as it is."""
    answer = approved({"en": "<{a}|{a}> {{literal}}"})

    text = render(answer, locale="en", values={"a": value, "status": "no"}, default_locale="en")[1]

    assert f"<{value}|{value}> {{literal}}" == text


def test_a_missing_value_is_named() -> None:
    """An answer with a hole in it is not rendered."""
    with pytest.raises(MissingValue, match="'a'"):
        render(approved({"en": "{a}"}), locale="en", values={}, default_locale="en")
