"""Drives one conversation through the machine: every event is an input with its own offset."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from tests.catalogs import NOW, RULES
from turnstream.core.carried import undeclared_changes
from turnstream.core.conversation import Conversation, Outstanding
from turnstream.core.effects import (
    Abandoned,
    DeadLetter,
    Effect,
    Flooded,
    Happening,
    Input,
    Propose,
    Publish,
    Undecided,
)
from turnstream.core.events import (
    Answer,
    ConversationControl,
    ConversationTurn,
    Label,
    SelectedRecord,
    SessionClaims,
    Source,
    Timer,
    ToolError,
    ToolResult,
)
from turnstream.core.ports import DecisionRequest, Proposal
from turnstream.core.publications import ActionEvent, OutboundMessage, Outcome
from turnstream.core.ruleset import Ruleset
from turnstream.core.step import step

T = TypeVar("T")

TOPICS: Mapping[type, str] = {
    ConversationTurn: "conversation.turns",
    Flooded: "conversation.turns",
    Abandoned: "conversation.turns",
    ConversationControl: "conversation.control",
    ToolResult: "tool.results",
    Answer: "conversation.answers",
    Label: "conversation.labels",
    Timer: "conversation.timers",
}

CLAIMS = SessionClaims(subject_id="c1", permissions=("refunds:write",), values={"customer": "c1"})


def answer(answer_id: str | None = "hours", **changes: Any) -> Proposal:
    """A proposal to answer."""
    return proposal("answer", "context_sufficient", answer_id=answer_id, **changes)


def call(tool: str = "get_order", **changes: Any) -> Proposal:
    """A proposal to call a tool."""
    return proposal("call_tool", "lookup_required", tool=tool, **changes)


def ask(missing_field: str = "order_id", needed_for: str | None = "get_order") -> Proposal:
    """A proposal to ask."""
    return proposal("ask", "missing_input", missing_field=missing_field, needed_for=needed_for)


def refuse(rule: str | None = "fraud", **changes: Any) -> Proposal:
    """A proposal to refuse."""
    return proposal("refuse", "policy_block", rule=rule, **changes)


def hand_off(**changes: Any) -> Proposal:
    """A proposal to bring a person in."""
    return proposal("handoff", "unsupported", **changes)


def proposal(action: str, reason_code: str, **changes: Any) -> Proposal:
    """Any proposal, sure of itself."""
    given: dict[str, Any] = {
        "action": action,
        "tool": None,
        "missing_field": None,
        "reason_code": reason_code,
        "model": "scripted-1",
        "confidence": 0.9,
        "confidence_kind": "made up",
        **changes,
    }
    return Proposal(**given)


def changed(action: ActionEvent, rules: Ruleset) -> tuple[str, ...]:
    """Where a call differs from what its model wrote, and nothing declared explains it."""
    call = action.call
    if call is None or call.model_arguments_json is None:
        return ()
    return undeclared_changes(
        call.model_arguments_json,
        from_json(call.arguments_json),
        tool=call.tool,
        provenance=call.provenance,
        ruleset=rules,
    )


@dataclass
class Driver:
    """A conversation on its way, with everything that its steps wanted done."""

    rules: Ruleset = RULES
    state: Conversation | None = None
    now: int = NOW
    effects: list[Effect] = field(default_factory=list)
    """All effects since the start."""
    last: tuple[Effect, ...] = ()
    """Effects of the last input, those of its proposals included."""
    requests: list[DecisionRequest] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    turns: int = 0
    decide: Callable[[DecisionRequest], Proposal | Undecided] | None = None
    """Proposes where no proposal is given."""
    proposed: Proposal | Undecided | None = None
    """The last proposal of the last input."""
    log: list[Input] = field(default_factory=list)
    """Everything that the machine was given."""

    @property
    def conversation(self) -> Conversation:
        """The state after the last input."""
        assert self.state is not None
        return self.state

    def send(self, event: Happening, *proposals: Proposal | Undecided, **changes: Any) -> None:
        """Take an input; each question to the decider is answered by the next proposal."""
        topic = TOPICS[type(event)]
        offset = self.offsets.get(topic, -1) + 1
        self.offsets[topic] = offset
        given: dict[str, Any] = {
            "conversation_id": "conv-1",
            "event": event,
            "source": Source(topic=topic, partition=0, offset=offset),
            "topic": topic,
            "offset": offset,
            "timestamp": self.now,
            "now": self.now,
            **changes,
        }
        self.log.append(Input(**given))
        taken = step(self.state, self.log[-1], self.rules)
        self.last, self.proposed = (), None
        waiting = list(proposals)
        while taken.effects and isinstance(taken.effects[-1], Propose):
            assert len(taken.effects) == 1
            self.requests.append(taken.effects[0].request)  # type: ignore[union-attr]
            if self.decide is not None:
                waiting.append(self.decide(self.requests[-1]))
            assert waiting, "the decider was asked once more than expected"
            self.proposed = waiting.pop(0)
            self.log.append(Input(**{**given, "event": self.proposed}))
            taken = step(taken.state, self.log[-1], self.rules)
        assert not waiting, "the decider was asked less often than expected"
        self.state, self.last = taken.state, taken.effects
        self.effects += taken.effects
        for effect in taken.effects:
            if isinstance(effect, Publish) and isinstance(effect.event, ActionEvent):
                assert () == changed(effect.event, self.rules)

    def turn(
        self,
        text: str = "Where is my order?",
        *proposals: Proposal | Undecided,
        claims: SessionClaims | None = CLAIMS,
        record: Mapping[str, str] | None = None,
        **changes: Any,
    ) -> ConversationTurn:
        """Let the customer write."""
        self.turns += 1
        selected = SelectedRecord(kind="order", values=dict(record)) if record else None
        given: dict[str, Any] = {
            "turn_id": f"t{self.turns}",
            "conversation_id": "conv-1",
            "channel_id": "web",
            "role": "customer",
            "text": text,
            "session_claims": claims,
            "selected_record": selected,
            "occurred_at": self.now,
            **changes,
        }
        turn = ConversationTurn(**given)
        self.send(turn, *proposals)
        return turn

    def result(
        self,
        body: Mapping[str, JsonValue] | None = None,
        *proposals: Proposal | Undecided,
        **changes: Any,
    ) -> None:
        """Let the outstanding call come back."""
        ordered = self._ordered("call")
        action_id = ordered.action_id if ordered is not None else "unknown"
        given: dict[str, Any] = {
            "action_id": action_id,
            "conversation_id": "conv-1",
            "tool_call_id": action_id,
            "name": ordered.name if ordered is not None else "unknown",
            "ok": True,
            "result_json": to_json({"status": "shipped"} if body is None else body).decode(),
            "outcome": "done",
            "attempts": 1,
            "versions": {"decision_version": "d1", "presentation_version": "p1", "model": "m"},
            "arguments_hash": "",
            "occurred_at": self.now,
            **changes,
        }
        self.send(ToolResult(**given), *proposals)

    def failure(self, code: str = "down", *proposals: Proposal | Undecided, **changes: Any) -> None:
        """Let the outstanding call fail."""
        given: dict[str, Any] = {
            "ok": False,
            "result_json": None,
            "outcome": "failed",
            "error": ToolError(code=code, message="no"),
            **changes,
        }
        self.result(None, *proposals, **given)

    def answered(self, *proposals: Proposal | Undecided, **changes: Any) -> None:
        """Let the outstanding answer be composed."""
        ordered = self._ordered("answer")
        given: dict[str, Any] = {
            "action_id": ordered.action_id if ordered is not None else "unknown",
            "conversation_id": "conv-1",
            "text": "We open at nine.",
            "model": "templates",
            "occurred_at": self.now,
            **changes,
        }
        self.send(Answer(**given), *proposals)

    def _ordered(self, kind: str) -> Outstanding | None:
        outstanding = self.state.outstanding if self.state is not None else ()
        return next((one for one in outstanding if one.kind == kind), None)

    def control(self, kind: str) -> None:
        """Give a command."""
        control = ConversationControl(
            control_id=f"c{len(self.effects)}",
            conversation_id="conv-1",
            kind=kind,  # type: ignore[arg-type]
            actor="desk",
            occurred_at=self.now,
        )
        self.send(control)

    def timer(self, kind: str, *proposals: Proposal) -> None:
        """Let the timer of a kind fire when it is due."""
        entry = next(one for one in self.conversation.timers if one.kind == kind)
        self.now = max(self.now, entry.due_at)
        timer = Timer(
            timer_id=entry.timer_id,
            conversation_id="conv-1",
            kind=entry.kind,
            due_at=entry.due_at,
        )
        self.send(timer, *proposals)

    def of(self, kind: type[T], effects: Sequence[Effect] | None = None) -> list[T]:
        """The events of a kind that the last input published."""
        return [
            one.event
            for one in (self.last if effects is None else effects)
            if isinstance(one, Publish) and isinstance(one.event, kind)
        ]

    @property
    def actions(self) -> list[ActionEvent]:
        """All actions since the start."""
        return self.of(ActionEvent, self.effects)

    @property
    def action(self) -> ActionEvent:
        """The one action of the last input."""
        (action,) = self.of(ActionEvent)
        return action

    @property
    def outcome(self) -> Outcome:
        """The one outcome of the last input, which led to no action."""
        (outcome,) = self.of(Outcome)
        assert not self.of(ActionEvent)
        return outcome

    @property
    def phase(self) -> str:
        """The phase after the last input."""
        return self.conversation.phase

    @property
    def left(self) -> str:
        """Why the last input was left without an action."""
        return self.outcome.outcome

    @property
    def message(self) -> OutboundMessage:
        """The one message of the last input."""
        (message,) = self.of(OutboundMessage)
        return message

    @property
    def letter(self) -> DeadLetter:
        """The one dead letter of the last input."""
        (letter,) = [one for one in self.last if isinstance(one, DeadLetter)]
        return letter

    @property
    def cause(self) -> str | None:
        """Why the last input handed the conversation off."""
        assert self.action.handoff is not None
        return self.action.handoff.cause
