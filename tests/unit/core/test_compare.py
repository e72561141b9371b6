"""Tests of turnstream.core.compare."""

import pytest

from tests.agents import RULES, calling, wanting
from tests.catalogs import NOW
from tests.driving import Driver, ask, call
from turnstream.core.compare import (
    ComparedCall,
    Side,
    arguments_equal,
    calls_of,
    live_side,
    verdict_of,
)
from turnstream.core.contract import Decision
from turnstream.core.events import LiveAction
from turnstream.core.publications import ActionEvent

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
    calls = (ComparedCall(proposed.tool, "{}"),) if proposed.tool is not None else ()
    live = (ComparedCall(tool, None),) if action == "call_tool" else ()

    assert expected == verdict_of(proposed, calls, Side(action, field, live))


ONE, OTHER = ComparedCall("get_order", '{"a":1}'), ComparedCall("refund", '{"a":2}')


@pytest.mark.parametrize(
    ("proposed", "live", "verdict", "equal"),
    [
        ((ONE, OTHER), (OTHER, ONE), "same", True),
        ((ONE, OTHER), (ONE,), "same_action", False),
        ((ONE,), (ONE, ONE), "same_action", False),
        ((ONE, ONE), (ONE, ONE), "same", True),
        (
            (ONE, OTHER),
            (ComparedCall("get_order", '{"a":2}'), ComparedCall("refund", '{"a":1}')),
            "same",
            False,
        ),
    ],
)
def test_several_calls(
    proposed: tuple[ComparedCall, ...],
    live: tuple[ComparedCall, ...],
    verdict: str,
    equal: bool,
) -> None:
    """In any order, each with its like: as many calls, of the same tools, with equal arguments."""
    assert verdict == verdict_of(CALLS, proposed, Side("call_tool", None, live))
    assert equal == arguments_equal(proposed, live)


@pytest.mark.parametrize(
    ("proposed", "live", "expected"),
    [
        ('{"a": 1, "b": [2]}', '{"b": [2], "a": 1}', True),
        ('{"a": 1.0, "b": [2.0, {"c": 3.0}]}', '{"b": [2, {"c": 3}], "a": 1}', True),
        ('{"a": 1}', '{"a": true}', False),
        ('{"a": {"b": 1}}', '{"a": [["b", 1]]}', False),
        ('{"a": 1}', '{"a": 2}', False),
        (None, '{"a": 1}', None),
        ('{"a": 1}', None, None),
        ('{"a": 1}', "{broken", None),
        ("[1]", "[1]", None),
    ],
)
def test_arguments(proposed: str | None, live: str | None, expected: bool | None) -> None:
    """Equal in any order of their names; not comparable where they cannot be read."""
    one, other = ComparedCall("x", proposed), ComparedCall(None, live)

    assert expected is arguments_equal((one,), (other,))
    assert arguments_equal((), (other,)) is None


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
    called = theirs.model_copy(update={"action": "call_tool", "tool": "t", "arguments_json": "{}"})

    assert Side("call_tool", None, (ComparedCall("get_order", '{"order_id":"A-1"}'),)) == (
        live_side([talk.action])
    )
    assert "get_order" == live_side([talk.action]).tool
    assert Side("ask", "order_id", ()) == live_side(theirs)
    assert live_side(theirs).tool is None
    assert Side("call_tool", "order_id", (ComparedCall("t", "{}"),)) == live_side(called)


def test_the_calls_of_a_decision() -> None:
    """All of a batch; none of a question."""
    talk = Driver(RULES)
    talk.turn(
        "hello",
        calling(wanting("get_store_hours", {}, "a"), wanting("lookup_order", {"order_id": "A-1"})),
    )
    asked = Driver()
    asked.turn("hello", ask())

    assert (
        ComparedCall("get_store_hours", "{}"),
        ComparedCall("lookup_order", '{"order_id":"A-1"}'),
    ) == calls_of(talk.of(ActionEvent))
    assert () == calls_of([asked.action])
