"""Whole conversations with the demo shop lead to exactly the actions that its catalog calls for."""

from typing import cast

import pytest
from pydantic import JsonValue

from tests.cases.playing import WRITER, Player, cases, compared
from turnstream.core.events import ToolOutcome
from turnstream.core.publications import ActionEvent

CONVERSATIONS = {str(case["id"]): case for case in cases("shop_conversations.yaml")}

Step = dict[str, JsonValue]


def played(player: Player, step: Step) -> list[ActionEvent]:
    """What follows from one step of a case."""
    if "customer" in step:
        record = cast("dict[str, str] | None", step.get("record"))
        return player.customer(
            str(step["customer"]), record=record, reply=step.get("reply") is True
        )
    if "result" in step:
        return player.result(cast("dict[str, JsonValue]", step["result"]))
    return player.error(
        str(step["error"]),
        outcome=cast("ToolOutcome", step.get("outcome", "failed")),
        final=step.get("final") is not False,
    )


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_conversation(name: str) -> None:
    """Each line of the customer and each result leads to the expected actions, and to no other."""
    case = CONVERSATIONS[name]
    player = Player(
        locale=str(case["locale"]),
        channel=str(case.get("channel", "web")),
        permissions=cast("list[str]", case.get("permissions", list(WRITER))),
    )
    expected: list[list[Step]] = []
    actual: list[list[Step]] = []
    for step in cast("list[Step]", case["steps"]):
        wanted = cast("list[Step]", step["expect"])
        expected.append(wanted)
        actual.append(compared(wanted, played(player, step)))
        if [one["action"] for one in wanted] != [one["action"] for one in actual[-1]]:
            break  # what follows would be another conversation

    assert expected == actual, str(case["proves"])


def test_conversations_cover_what_goes_wrong() -> None:
    """Four tools of the shop and all five actions occur among the expectations."""
    steps = [
        action
        for case in CONVERSATIONS.values()
        for step in cast("list[Step]", case["steps"])
        for action in cast("list[Step]", step["expect"])
    ]

    assert {"answer", "call_tool", "ask", "refuse", "handoff"} == {one["action"] for one in steps}
    assert {
        "get_order_status",
        "cancel_order",
        "check_store_availability",
        "create_return_label",
    } <= {one["tool"] for one in steps if "tool" in one}
