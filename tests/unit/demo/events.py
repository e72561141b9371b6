"""Events of one conversation for the tests of the demo."""

from typing import Any

from turnstream.core.contract import Decision
from turnstream.core.events import ConversationTurn, Event, Source, Versions
from turnstream.core.publications import (
    ActionEvent,
    OutboundMessage,
    Outcome,
    QuestionPayload,
    RefusalPayload,
    ShadowComparison,
)
from turnstream.demo.traffic import Passed

VERSIONS = Versions(decision_version="d", presentation_version="p", model="m")
ASK = Decision(action="ask", tool=None, missing_field="order_id", reason_code="missing_input")
REFUSE = Decision(action="refuse", tool=None, missing_field=None, reason_code="policy_block")


def passed(topic: str, event: Event, *, offset: int = 0) -> Passed:
    """An event on partition 0 of a topic without a prefix."""
    return Passed(topic, topic, 0, offset, offset, event)


def source(offset: int = 0) -> Source:
    """The record of a turn."""
    return Source(topic="conversation.turns", partition=0, offset=offset)


def turn(text: str, *, conversation: str = "c", offset: int = 0) -> Passed:
    """A customer's turn."""
    event = ConversationTurn(
        turn_id=f"t{offset}",
        conversation_id=conversation,
        channel_id="console",
        role="customer",
        text=text,
        occurred_at=offset,
    )
    return passed("conversation.turns", event, offset=offset)


def action(name: str, *, conversation: str = "c", offset: int = 0, **options: Any) -> Passed:
    """A question or a refusal, decided on the turn with the same offset."""
    payload: dict[str, Any] = {
        "question": QuestionPayload(
            question_id=f"q-{name}", field="order_id", needed_for="t", text="Which?", locale="en"
        )
    }
    decision = options.get("decision", ASK)
    if decision is REFUSE:
        payload = {"refusal": RefusalPayload(rule="fraud", text="No.", locale="en")}
    event = ActionEvent(
        action_id=name,
        decision_id=name,
        conversation_id=conversation,
        channel_id="console",
        source=source(offset),
        turn_id=f"t{offset}",
        input_no=1,
        seen={},
        step=1,
        sequence=offset,
        decision=decision,
        agent="shop",
        versions=VERSIONS,
        diagnostics_json="{}",
        decided_at=offset,
        **payload,
    )
    return passed("conversation.actions", event, offset=offset)


def message(name: str, text: str, *, conversation: str = "c", offset: int = 0) -> Passed:
    """What the customer sees of an action."""
    event = OutboundMessage(
        message_id=name,
        conversation_id=conversation,
        channel_id="console",
        kind="question",
        text=text,
        locale="en",
        sequence=offset,
        occurred_at=offset,
    )
    return passed("conversation.outbound", event, offset=offset)


def outcome(kind: Any, *, conversation: str = "c", offset: int = 0) -> Passed:
    """An outcome of the turn with the same offset."""
    event = Outcome(
        of="turn",
        outcome=kind,
        conversation_id=conversation,
        source=source(offset),
        input_no=1,
        occurred_at=offset,
    )
    return passed("conversation.outcomes", event, offset=offset)


def comparison(live: str, proposed: Decision, *, live_action: Any = "ask") -> Passed:
    """The candidate beside a live action."""
    event = ShadowComparison(
        candidate="candidate",
        comparison_id=f"s-{live}",
        conversation_id="c",
        source=source(),
        proposed=proposed,
        live_action=live_action,
        live_id=live,
        verdict="same" if proposed.action == live_action else "different",
        versions=VERSIONS,
        compared_at=0,
    )
    return passed("shadow.comparisons", event)
