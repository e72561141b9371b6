"""Tests of turnstream.core.compare."""

import pytest

from tests.catalogs import NOW
from tests.driving import Driver, call
from turnstream.core.compare import arguments_equal, live_side, verdict_of
from turnstream.core.contract import Decision
from turnstream.core.events import LiveAction

CALLS = Decision(
    action="call_tool", tool="get_order", missing_field=None, reason_code="lookup_required"
)
ASKS = Decision(action="ask", tool=None, missing_field="order_id", reason_code="missing_input")


@pytest.mark.parametrize(
    ("proposed", "action", "tool", "field", "expected"),
    [
        (CALLS, "call_tool", "get_order", None, "same"),
        (CALLS, "call_tool", None, None, "same"),
        (CALLS, "call_tool", "refund", None, "same_action"),
        (CALLS, "ask", None, "order_id", "different"),
        (CALLS, "unlabelled", None, None, "unlabelled"),
        (CALLS, "unrecognized", "get_order", None, "unlabelled"),
        (ASKS, "ask", None, "order_id", "same"),
        (ASKS, "ask", None, None, "same"),
        (ASKS, "ask", None, "topic", "same_action"),
        (ASKS, "handoff", None, None, "different"),
    ],
)
def test_verdicts(
    proposed: Decision, action: str, tool: str | None, field: str | None, expected: str
) -> None:
    """The action counts first, then what the live side says of its tool or field."""
    assert expected == verdict_of(proposed, action, tool, field)


@pytest.mark.parametrize(
    ("proposed", "live", "expected"),
    [
        ('{"a": 1, "b": [2]}', '{"b": [2], "a": 1}', True),
        ('{"a": 1}', '{"a": 2}', False),
        (None, '{"a": 1}', None),
        ('{"a": 1}', None, None),
        ('{"a": 1}', "{broken", None),
        ("[1]", "[1]", None),
    ],
)
def test_arguments(proposed: str | None, live: str | None, expected: bool | None) -> None:
    """Equal in any order of their names; not comparable where they cannot be read."""
    assert expected == arguments_equal(proposed, live)


def test_what_was_done_by_us_and_by_others() -> None:
    """Both kinds of action are compared alike."""
    talk = Driver()
    talk.turn("Where is A-1?", call())
    theirs = LiveAction(
        live_action_id="l1",
        conversation_id="conv-1",
        action="ask",
        missing_field="order_id",
        actor="desk",
        occurred_at=NOW,
    )

    assert ("call_tool", "get_order", None, '{"order_id":"A-1"}') == live_side(talk.action)
    assert ("ask", None, "order_id", None) == live_side(theirs)
