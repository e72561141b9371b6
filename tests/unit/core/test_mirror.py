"""Tests of turnstream.core.mirror: a copy that follows the live side spends the same budgets."""

import pytest

from tests.agents import RULES as AGENT_RULES
from tests.agents import calling, wanting
from tests.catalogs import RULES
from tests.driving import Driver, ask, call
from turnstream.core.calls import call_fingerprint
from turnstream.core.conversation import Activation
from turnstream.core.effects import Input, Propose, Publish
from turnstream.core.mirror import follow, rested
from turnstream.core.publications import ActionEvent
from turnstream.core.step import step


def budgets(activation: Activation | None) -> tuple[int, int, set[str], set[str]]:
    """What an activation has spent."""
    assert activation is not None
    return (
        activation.steps,
        activation.questions,
        set(activation.asked),
        set(activation.called),
    )


def test_questions_and_calls_are_counted() -> None:
    """After a question, its reply and a call, mirror and live side have spent the same."""
    live, mirror = Driver(), None
    for text, proposal in (("Where is my order?", ask()), ("A-1", call())):
        live.turn(text, proposal)
        cause: Input = live.log[-2]
        outcome = step(mirror, cause, RULES)
        assert isinstance(outcome.effects[-1], Propose)
        mirror = rested(outcome.state, mirror or outcome.state)
        action = next(
            effect.event
            for effect in live.last
            if isinstance(effect, Publish) and isinstance(effect.event, ActionEvent)
        )
        mirror = follow(mirror, action, RULES)

    assert mirror is not None
    assert budgets(live.conversation.activation) == budgets(mirror.activation)
    assert live.phase == mirror.phase


def test_arguments_that_cannot_be_read_are_followed_without_them() -> None:
    """A call of a version that wrote them otherwise: it is waited for, and may be made again."""
    live = Driver()
    live.turn("Where is A-1?", call())
    outcome = step(None, live.log[-2], RULES)
    payload = live.action.call
    assert payload is not None
    odd = payload.model_copy(update={"arguments_json": "[broken"})

    mirror = follow(
        rested(outcome.state, outcome.state),
        live.action.model_copy(update={"call": odd}),
        RULES,
    )

    assert mirror.activation is not None
    assert {} == mirror.activation.called
    assert [("get_order", {})] == [(one.name, one.fields) for one in mirror.outstanding]
    assert "waiting_calls" == mirror.phase


def test_a_batch_is_followed_call_by_call() -> None:
    """The copy waits for all of them and counts them as one step."""
    live = Driver(AGENT_RULES)
    live.turn(
        "hello",
        calling(wanting("get_store_hours", {}, "a"), wanting("find_ticket", {"ticket_id": 1}, "b")),
    )
    outcome = step(None, live.log[0], AGENT_RULES)
    mirror = rested(outcome.state, outcome.state)
    for one in live.of(ActionEvent):
        mirror = follow(mirror, one, AGENT_RULES)

    assert budgets(live.conversation.activation) == budgets(mirror.activation)
    assert [one.action_id for one in live.conversation.outstanding] == [
        one.action_id for one in mirror.outstanding
    ]
    assert live.conversation.sequence == mirror.sequence


CANCELS = calling(wanting("cancel_order", {"order_id": "A-1"}))


@pytest.mark.parametrize("older", [False, True])
def test_a_confirmation_is_followed(*, older: bool) -> None:
    """The yes is for the call that was shown, once; in an older version's question for its tool."""
    live, mirror = Driver(AGENT_RULES), None
    confirming = []
    for text in ("Cancel A-1", "yes"):
        live.turn(text, CANCELS)
        outcome = step(mirror, live.log[-2], AGENT_RULES)
        mirror = rested(outcome.state, mirror or outcome.state)
        assert mirror.activation is not None
        confirming.append(dict(mirror.activation.confirming))
        action = live.action
        if older and action.question is not None:
            question = action.question.model_copy(update={"confirms": None})
            action = action.model_copy(update={"question": question})
        mirror = follow(mirror, action, AGENT_RULES)

    made = call_fingerprint("cancel_order", {"order_id": "A-1"})
    assert [{}, {"cancel_order" if older else made: True}] == confirming
    assert mirror is not None
    assert mirror.activation is not None
    assert {} == mirror.activation.confirming
    assert "waiting_calls" == mirror.phase


@pytest.mark.parametrize(
    ("order", "expected"), [("A-1", "call_tool"), ("A-2", "ask"), ("A-3", "handoff")]
)
def test_a_yes_is_worth_the_same_on_both_sides(order: str, expected: str) -> None:
    """Whatever is called after it: what was confirmed, another order, one that was never named."""
    live = Driver(AGENT_RULES)
    live.turn("Cancel A-1", CANCELS)
    mirror = step(None, live.log[0], AGENT_RULES).state
    mirror = follow(rested(mirror, mirror), live.action, AGENT_RULES)
    wanted = calling(wanting("cancel_order", {"order_id": order}))
    tries = 3 if order == "A-3" else 1
    live.turn("yes", *[wanted] * tries, record={"order_id": "A-2"} if order == "A-2" else None)

    heard, *replies = [one for one in live.log if one.offset == 1]
    outcome = step(mirror, heard, AGENT_RULES)
    for one in replies:
        outcome = step(outcome.state, one, AGENT_RULES)
    (shadowed,) = [
        effect.event
        for effect in outcome.effects
        if isinstance(effect, Publish) and isinstance(effect.event, ActionEvent)
    ]

    assert expected == live.action.decision.action
    assert live.action.decision == shadowed.decision
    assert live.action.question == shadowed.question


def test_a_question_for_a_tool_that_is_gone_is_followed() -> None:
    """The candidate's catalog may lack what the live one has."""
    live = Driver()
    live.turn("Where is my order?", ask())
    outcome = step(None, live.log[0], RULES)
    question = live.action.question
    assert question is not None
    odd = live.action.model_copy(
        update={"question": question.model_copy(update={"needed_for": "gone"})}
    )

    mirror = follow(rested(outcome.state, outcome.state), odd, RULES)

    assert mirror.open_question is not None
    assert mirror.open_question.confirms is None
