"""Tests of turnstream.core.mirror: a copy that follows the live side spends the same budgets."""

from tests.catalogs import RULES
from tests.driving import Driver, ask, call
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
