"""The events that go out: actions, what the customer sees of them, outcomes, and the shadow's.

They are models as those of :mod:`turnstream.core.events` are, field by field the Avro records under
``schemas/``.
"""

from typing import Literal, Self

from pydantic import model_validator

from turnstream.core.contract import Decision, HandoffCause
from turnstream.core.events import (
    Citation,
    Event,
    Millis,
    Passage,
    Provenance,
    Source,
    ToolOutcome,
    Unrecognized,
    Versions,
)

OutboundKind = Literal["question", "answer", "refusal", "handoff_notice"]
OutcomeOf = Literal["turn", "reply", "question"]
OutcomeKind = Literal[
    "accepted",
    "rejected",
    "duplicate",
    "late",
    "cancelled",
    "expired",
    "over_budget",
    "second_in_batch",
    "state_too_large",
    "redaction_conflict",
    "duplicate_turn",
    "stale_turn",
    "buffered",
    "held_by_person",
]
Verdict = Literal["same", "same_action", "different", "unlabelled"]


class AnswerPayload(Event):
    """What the answer role needs: an approved template with its data, or a text to pass through."""

    answer_id: str | None = None
    """Approved answer of the catalog; null when `text` is given."""
    text: str | None = None
    locale: str
    values: dict[str, str] = {}  # noqa: RUF012 - pydantic gives each model its own
    """Placeholder name to value, taken from tool results and known fields."""
    passages: tuple[Passage, ...] = ()
    output_json: str | None = None
    """The whole final answer of an agent that declares a schema for it; a JSON object, of which
    `text` is a part."""
    output_version: str | None = None
    """The version of that schema, as the agent declares it."""


class CallPayload(Event):
    """What the executor needs for one call."""

    tool_call_id: str
    tool: str
    arguments_json: str
    """The checked arguments, a JSON object."""
    model_arguments_json: str | None = None
    """The arguments as an agent model gave them, where it gave them; what code dropped or filled in
    is the difference."""
    provenance: dict[str, Provenance | Unrecognized]
    """Argument name to where its value came from."""
    effect: Literal["read", "write"] | Unrecognized
    deadline_at: Millis
    subject_id: str | None = None
    """The authenticated customer on whose behalf the call is made."""
    permissions: tuple[str, ...] = ()
    """The permissions of the session that the tool required, as checked."""


class Suggestion(Event):
    """A reply that is offered with a question."""

    label: str
    value: str


class QuestionPayload(Event):
    """What is asked of the customer, and how it may be answered."""

    question_id: str
    field: str
    needed_for: str
    """The step that needs the item: the name of a tool or of an approved answer."""
    text: str
    locale: str
    suggestions: tuple[Suggestion, ...] = ()
    restricted: bool = False
    """True when only a suggestion is a valid reply."""
    expires_at: Millis | None = None
    confirms: str | None = None
    """The call that a yes allows, where the question is for that: a hash of tool and arguments."""


class RefusalPayload(Event):
    """Which rule was broken, and the approved text that says so."""

    rule: str
    """The catalog rule that was broken; `missing_permission` is one."""
    detail: str | None = None
    text: str
    locale: str


class KnownValue(Event):
    """What a conversation knows of a field, for the person who takes over."""

    field: str
    value: str
    source: Provenance | Unrecognized
    turn_id: str | None = None
    epoch: int


class CallMade(Event):
    """A call of the conversation, for the person who takes over."""

    action_id: str
    tool: str
    outcome: ToolOutcome | Literal["pending"] | Unrecognized


class HandoffPayload(Event):
    """Everything that the person who takes over needs to go on."""

    queue: str
    cause: HandoffCause | Unrecognized | None
    """Null when the decider itself proposed the handoff."""
    summary: str
    values: tuple[KnownValue, ...] = ()
    calls: tuple[CallMade, ...] = ()
    text: str
    locale: str


class QuestionEnd(Event):
    """How an open question ended, when the same input also led to an action."""

    question_id: str
    outcome: Literal["accepted", "cancelled", "expired", "late"] | Unrecognized


class ActionEvent(Event):
    """One step of a conversation, decided. `action_id` is the idempotency key of its effect.

    Raises:
        pydantic.ValidationError: not exactly one payload, or not the one of the decision's action.
    """

    action_id: str
    decision_id: str
    conversation_id: str
    channel_id: str
    tenant_id: str | None = None
    source: Source
    turn_id: str | None = None
    """The customer turn that opened the exchange."""
    input_no: int
    """Inputs of this conversation so far, this one included."""
    seen: dict[str, int]
    """Highest offset read per source topic when the decision was made."""
    step: int
    """Decisions made since the customer's turn, this one included."""
    batch_index: int = 0
    """Position among the actions of the same decision, from 0."""
    batch_size: int = 1
    """Actions of the same decision, this one included: the calls of one reply of a model."""
    sequence: int
    """Increases over the actions of a conversation."""
    decision: Decision
    answer: AnswerPayload | None = None
    call: CallPayload | None = None
    question: QuestionPayload | None = None
    refusal: RefusalPayload | None = None
    handoff: HandoffPayload | None = None
    question_ended: QuestionEnd | None = None
    """The question that this input ended, and how; an Outcome says it where no action follows."""
    agent: str
    versions: Versions
    diagnostics_json: str
    """Probabilities, confidence and what it means; a JSON object."""
    decided_at: Millis

    @model_validator(mode="after")
    def _has_the_payload_of_its_action(self) -> Self:
        given = {
            name
            for name in ("answer", "call", "question", "refusal", "handoff")
            if getattr(self, name) is not None
        }
        expected = PAYLOAD_OF[self.decision.action]
        if given != {expected}:
            message = f"action {self.decision.action!r} carries exactly {expected!r}, got {given!r}"
            raise ValueError(message)
        return self


PAYLOAD_OF = {
    "answer": "answer",
    "call_tool": "call",
    "ask": "question",
    "refuse": "refusal",
    "handoff": "handoff",
}
"""Action to the name of its payload field in :class:`ActionEvent`."""


class OutboundMessage(Event):
    """Something that the customer sees. `message_id` is the action's id."""

    message_id: str
    """A channel sends each once, however often it reads it."""
    conversation_id: str
    tenant_id: str | None = None
    channel_id: str
    kind: OutboundKind | Unrecognized
    text: str
    locale: str
    suggestions: tuple[Suggestion, ...] = ()
    question_id: str | None = None
    citations: tuple[Citation, ...] = ()
    sequence: int
    """Increases over what a conversation shows; gaps are no fault."""
    occurred_at: Millis


class Outcome(Event):
    """What became of a turn, a reply or a question that led to no action of its own."""

    of: OutcomeOf | Unrecognized
    outcome: OutcomeKind | Unrecognized
    conversation_id: str
    source: Source
    turn_id: str | None = None
    question_id: str | None = None
    input_no: int
    detail: str | None = None
    occurred_at: Millis


class ShadowProposal(Event):
    """What the shadow model would have done. Nothing acts on it."""

    proposal_id: str
    candidate: str
    """What the deployment calls the shadow's configuration."""
    conversation_id: str
    source: Source
    turn_id: str | None = None
    decision: Decision
    arguments_json: str | None = None
    handoff_cause: HandoffCause | Unrecognized | None = None
    versions: Versions
    diagnostics_json: str
    decided_at: Millis


class ShadowComparison(Event):
    """A proposal beside what was really done."""

    comparison_id: str
    candidate: str
    conversation_id: str
    source: Source
    turn_id: str | None = None
    proposed: Decision
    live_action: (
        Literal["answer", "call_tool", "ask", "refuse", "handoff", "unlabelled"] | Unrecognized
    )
    live_tool: str | None = None
    live_missing_field: str | None = None
    live_id: str
    """action_id of ours, or live_action_id of a person or another bot."""
    arguments_equal: bool | None = None
    verdict: Verdict | Unrecognized
    versions: Versions
    compared_at: Millis
