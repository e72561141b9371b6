"""A line is settled when the bot has said what it will say, the reason of a stop included."""

import io
from typing import Any

import pytest
from rich.console import Console

from tests.unit.demo.events import action, message, outcome, passed
from turnstream.config import Settings
from turnstream.core.contract import Decision
from turnstream.core.events import Event
from turnstream.core.publications import HandoffPayload
from turnstream.demo.talk import Speaker, Talk
from turnstream.demo.traffic import DeadLettered, Passed

HAND_OFF = Decision(action="handoff", tool=None, missing_field=None, reason_code="unsupported")


def test_a_turn_that_was_put_aside_is_unanswered() -> None:
    """The line is settled, since nobody will reply, and counts as one without its reply."""
    console = Console(file=io.StringIO(), width=300)
    talk = Talk(Settings(), Speaker("c", "console"), console)
    dead = DeadLettered("c", "conversation.turns", "unsupported")
    talk._take(Passed("conversation.turns", "conversation.turns", 0, 0, 0, dead))

    assert (1, 1) == (talk._settled, talk._put_aside)


def changed(one: Passed, **changes: Any) -> Passed:
    """The same with other fields of its event."""
    event = one.event
    assert isinstance(event, Event)
    return passed(one.topic, type(event).model_validate(event.model_dump() | changes))


def handed_off(detail: str) -> Passed:
    """The action of a handoff."""
    handoff = HandoffPayload(
        queue="all",
        cause="tool_unavailable",
        summary=f"tool_unavailable; {detail}; last message: hello",
        text="A person will reply.",
        locale="en",
    )
    stop = {"decision": HAND_OFF, "question": None, "handoff": handoff}
    return changed(action("a"), **stop)


def notice() -> Passed:
    """Its message."""
    return changed(message("a", "A person will reply."), kind="handoff_notice")


def heard(*events: Passed) -> tuple[int, str]:
    """How many lines have been settled, and what has been printed."""
    console = Console(file=io.StringIO(), width=300)
    talk = Talk(Settings(), Speaker("c", "console"), console)
    for one in events:
        talk._take(one)
    assert isinstance(console.file, io.StringIO)
    return talk._settled, console.file.getvalue()


@pytest.mark.parametrize("turned", [False, True], ids=["message first", "action first"])
def test_a_stop_for_want_of_claims_is_explained(turned: bool) -> None:
    """The hint follows the message, in whatever order the topics were read."""
    events = [notice(), handed_off("get_order needs an authenticated customer")]

    settled, said = heard(*(reversed(events) if turned else events))

    assert 1 == settled
    lines = said.splitlines()
    assert ["A person will reply.", "get_order needs a signed-in customer"] == [
        lines[0].strip().removeprefix("bot "),
        lines[1][lines[1].index("get_order") :].partition(" (")[0],
    ]
    assert "--claims" in lines[1]


def test_half_of_a_stop_settles_nothing() -> None:
    """The other half is on its way: both are written in one transaction."""
    assert 0 == heard(notice())[0]
    assert (0, "") == heard(handed_off("x"))


def test_another_stop_needs_no_explanation() -> None:
    """Its message says all."""
    settled, said = heard(handed_off("get_order does not answer"), notice())

    assert 1 == settled
    assert "!" not in said


def test_questions_and_outcomes_settle_a_line_by_themselves() -> None:
    """As do messages of other conversations not at all."""
    settled, said = heard(
        action("q"),
        message("q", "Which order?"),
        outcome("late"),
        message("q", "Other?", conversation="other"),
    )

    assert 2 == settled
    assert "Which order?" in said
    assert "Other?" not in said
