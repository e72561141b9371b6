"""Writes that share a looked-up bound: no two of them pass it together, in one reply or after."""

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import JsonValue

from tests.agents import ORDER_ID, TOOLS, agent_rules, calling, saying, tool, wanting
from tests.driving import Driver
from turnstream.core.business_rules import Bound
from turnstream.core.ports import ProposedCall
from turnstream.core.publications import ActionEvent

MADE = "made"
SAME = "has the same bound"
FIRST = "is called first"
UNFOUNDED = "call that first"

_ARGUMENTS: dict[str, JsonValue] = {"order_id": ORDER_ID, "amount": {"type": "number"}}


def _bounded(by: str = "list_orders", **changes: Any) -> dict[str, Any]:
    rule = {
        "kind": "looked_up_range",
        "argument": "amount",
        "tool": by,
        "maximum": "orders.total",
        "where": {"order_id": "orders.id"},
    }
    least = {"kind": "range", "argument": "amount", "minimum": 0}
    written = {"effect": "write", "threshold": 0.0, "rules": [least, rule], **changes}
    return tool(_ARGUMENTS, ["order_id"], **written)


RULES = agent_rules(
    tools={
        **TOOLS,
        "refund": _bounded(),
        "credit": _bounded(),
        "quote": _bounded(effect="read"),
        "reward": _bounded("lookup_order"),
    }
)
ORDERS: dict[str, JsonValue] = {
    "orders": [{"id": "A-1", "total": "12.50"}, {"id": "A-2", "total": 10}]
}


def paying(by: str, order: str, amount: float | None = None, call_id: str = "c1") -> ProposedCall:
    """A call that pays, or one without an amount."""
    given: dict[str, JsonValue] = {"order_id": order}
    return wanting(by, given if amount is None else {**given, "amount": amount}, call_id)


def looked_up() -> Driver:
    """A conversation for which both look-up tools have found the orders."""
    talk = Driver(RULES)
    talk.turn("Refund what I paid too much", calling(wanting("list_orders", {}, "l")))
    talk.result(ORDERS, calling(wanting("lookup_order", {"order_id": "A-1"}, "o")))
    return talk


def outcomes(talk: Driver, calls: Sequence[ProposedCall]) -> list[str]:
    """What became of the calls of the next reply."""
    talk.result(ORDERS, calling(*calls))
    made = [one.call.tool for one in talk.of(ActionEvent) if one.call is not None]
    for left in reversed(range(len(made))):
        order = talk.conversation.outstanding[0].action_id
        talk.result({}, *([] if left else [saying("Done.")]), action_id=order)
    envelopes = talk.requests[-1].loop[-1].envelopes
    return [MADE if one.error is None else one.error.message for one in envelopes]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        # Each is within the bound; both together are not.
        ((paying("refund", "A-1", 10), paying("refund", "A-1", 9, "c2")), (MADE, SAME)),
        ((paying("refund", "A-1", 10), paying("credit", "A-1", 10, "c2")), (MADE, SAME)),
        ((paying("refund", "A-1", 10), paying("refund", "A-2", 10, "c2")), (MADE, MADE)),
        ((paying("refund", "A-1", 10), paying("reward", "A-1", 10, "c2")), (MADE, MADE)),
        ((paying("refund", "A-1", 10), paying("quote", "A-1", 10, "c2")), (MADE, MADE)),
        ((paying("refund", "A-1", 10), paying("refund", "A-1", None, "c2")), (MADE, MADE)),
        ((paying("refund", "A-1", 10), wanting("list_orders", {}, "l2")), (MADE, FIRST)),
        ((wanting("list_orders", {}, "l2"), paying("refund", "A-1", 10)), (MADE, FIRST)),
        ((wanting("list_orders", {}, "l2"), paying("quote", "A-1", 10)), (MADE, MADE)),
        ((paying("refund", "A-1", 10), wanting("get_store_hours", {}, "h")), (MADE, MADE)),
        # One that passes its own bound leaves it to the next.
        ((paying("refund", "A-1", 13), paying("credit", "A-1", 12, "c2")), ("above", MADE)),
    ],
)
def test_one_write_of_a_reply_is_made_under_a_bound(
    calls: Sequence[ProposedCall], expected: Sequence[str]
) -> None:
    """The next is told to look up again what is left; so is one beside the look-up itself."""
    found = outcomes(looked_up(), calls)

    assert len(expected) == len(found)
    for part, told in zip(expected, found, strict=True):
        assert part in told


def test_what_waits_for_its_bound_may_be_called_again() -> None:
    """After the look-up: the model is told so, and keeps its tries."""
    talk = looked_up()
    talk.result(ORDERS, calling(paying("refund", "A-1", 10), paying("credit", "A-1", 9, "c2")))
    talk.result({}, calling(wanting("list_orders", {}, "l2")))
    (fault,) = [one.error for one in talk.requests[-1].loop[-1].envelopes if one.error is not None]
    left: dict[str, JsonValue] = {"orders": [{"id": "A-1", "total": 2.5}]}

    assert ("not_made", True) == (fault.code, fault.retryable)
    talk.result(left, calling(paying("credit", "A-1", 2.5, "c3")))
    assert "credit" == talk.action.decision.tool


@pytest.mark.parametrize(
    ("tool_name", "expected"),
    [("refund", UNFOUNDED), ("credit", UNFOUNDED), ("reward", MADE), ("quote", MADE)],
)
def test_a_write_uses_up_the_bounds_of_others_as_well(tool_name: str, expected: str) -> None:
    """Whatever was looked up by the tool that bounded it; what another found is as good as ever."""
    talk = looked_up()
    talk.result(ORDERS, calling(paying("refund", "A-1", 10)))
    talk.result({}, calling(paying(tool_name, "A-2", 5), wanting("get_store_hours", {}, "h")))
    for order in talk.conversation.outstanding:
        last = len(talk.conversation.outstanding) == 1
        talk.result({}, *([saying("Done.")] if last else []), action_id=order.action_id)

    first = talk.requests[-1].loop[-1].envelopes[0]
    assert expected in (MADE if first.error is None else first.error.message)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (Bound("t", {"id": "A"}), Bound("t", {"id": "A"}), True),
        (Bound("t", {"id": "A"}), Bound("t", {"id": "B"}), False),
        (Bound("t", {"id": "A"}), Bound("u", {"id": "A"}), False),
        (Bound("t", {"id": 1}), Bound("t", {"id": 1.0}), True),
        (Bound("t", {"id": 1}), Bound("t", {"id": True}), False),
        (Bound("t", {"id": "A"}), Bound("t", {}), True),
        (Bound("t", {"id": "A"}), Bound("t", {"number": "7"}), True),
        (Bound("t", {"id": "A", "n": 1}), Bound("t", {"id": "A", "n": 2}), False),
    ],
)
def test_bounds_that_nothing_tells_apart_may_be_the_same(
    one: Bound, other: Bound, *, expected: bool
) -> None:
    """Picked by different things, or by nothing, an item may be the same one."""
    assert expected == one.may_be(other) == other.may_be(one)


def test_a_write_that_nobody_waits_for_any_more_has_used_up_its_bound() -> None:
    """It may have been carried out while a person had the conversation; its result comes late."""
    talk = looked_up()
    talk.result(ORDERS, calling(paying("refund", "A-1", 10)))
    (late,) = talk.conversation.outstanding
    talk.control("take_over")
    talk.control("hand_back")
    talk.result({}, action_id=late.action_id)
    talk.turn("And?", calling(paying("credit", "A-1", 10)), saying("Sorry."))

    (fault,) = [one.error for one in talk.requests[-1].loop[-1].envelopes if one.error is not None]
    assert UNFOUNDED in fault.message
