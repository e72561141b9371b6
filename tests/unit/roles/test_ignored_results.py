"""Results that change nothing: they are counted, by why nobody waits for them."""

from typing import Any

import pytest

from tests.unit.roles.bench import NOW, record
from tests.unit.roles.test_decide import Bench, scripted
from turnstream.core.conversation import Conversation, Fact, Outstanding
from turnstream.core.events import ToolOutcome, ToolResult, Versions

REASONS = ("late", "duplicate", "unknown")


def result(action_id: str, **changes: Any) -> ToolResult:
    """The result of a call of an order."""
    fields: dict[str, Any] = {
        "action_id": action_id,
        "conversation_id": "c-1",
        "tool_call_id": "tc-1",
        "name": "get_order",
        "ok": True,
        "result_json": "{}",
        "outcome": "done",
        "attempts": 1,
        "versions": Versions(decision_version="d", presentation_version="p", model="m/1"),
        "arguments_hash": "",
        "occurred_at": NOW,
    }
    return ToolResult.model_validate(fields | changes)


def fact(action_id: str, outcome: ToolOutcome) -> Fact:
    """What is remembered of a call that has ended."""
    return Fact(action_id, "get_order", outcome, None, None, False, 1, 0, {}, 100)


REMEMBERED = Conversation(
    phase="held",
    holder="person",
    outstanding=(
        Outstanding("waited", "call", "get_order", {}, NOW + 1_000),
        Outstanding("answered", "answer", "hours", {}, NOW + 1_000),
    ),
    facts=(fact("ended", "done"), fact("given-up", "outcome_unknown")),
)


@pytest.mark.parametrize(
    ("taken", "reason"),
    [
        (result("waited"), None),
        (result("waited", final=False, outcome="failed", ok=False), None),
        (result("ended"), "duplicate"),
        (result("ended", outcome="failed", ok=False), "duplicate"),
        (result("given-up"), "late"),
        (result("given-up", outcome="outcome_unknown", ok=False), "duplicate"),
        (result("nobodys"), "unknown"),
        (result("answered"), "unknown"),
    ],
)
@pytest.mark.parametrize("flooded", [False, True])
async def test_what_nobody_waits_for_is_counted(
    taken: ToolResult, reason: str | None, *, flooded: bool
) -> None:
    """Once, by what the conversation remembers of the call; what is waited for is not."""
    bench = Bench(scripted())
    bench.state = REMEMBERED
    source = record(taken, 0, topic="tool.results")

    if flooded:
        bench.handler.flood(source, taken, bench.state)
    else:
        await bench.take(source)

    assert {one: int(one == reason) for one in REASONS} == {
        one: bench.counted.value("results_ignored_total", reason=one) for one in REASONS
    }


async def test_a_conversation_that_is_not_known_waits_for_nothing() -> None:
    """The result of another deployment, or of a conversation that is over and forgotten."""
    bench = Bench(scripted())

    await bench.take(record(result("a-1"), 0, topic="tool.results"))

    assert 1 == bench.counted.value("results_ignored_total", reason="unknown")
