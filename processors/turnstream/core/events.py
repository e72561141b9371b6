"""The events on the conversation's topics, as pydantic models.

Each model equals the Avro record of the same name under ``schemas/`` field by field (a test walks
both). Times are milliseconds since the Unix epoch, UTC. JSON objects whose shape is the catalog's
business travel as JSON text, in fields that end in ``_json``. Every closed list has the extra
symbol ``unrecognized`` on the wire: a reader that meets a symbol of a newer writer sees it; we
never write it and never act on it.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from turnstream.core.contract import Decision, HandoffCause

Unrecognized = Literal["unrecognized"]
Millis = Annotated[int, Field(ge=0, le=2**53)]
"""Milliseconds since the Unix epoch, UTC."""

Role = Literal["customer", "agent", "assistant", "system"]
Provenance = Literal["session", "record", "tool_result", "message"]
ToolOutcome = Literal["done", "failed", "outcome_unknown", "denied"]
OutboundKind = Literal["question", "answer", "refusal", "handoff_notice"]
ControlKind = Literal["take_over", "hand_back", "close", "cancel", "forget"]
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
TimerKind = Literal["call_deadline", "answer_deadline", "question_expiry", "conversation_close"]
Verdict = Literal["same", "same_action", "different", "unlabelled"]


class Event(BaseModel):
    """Base of everything that travels: immutable, closed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(Event):
    """The input record that caused an event. A replayed dead letter names its origin here."""

    topic: str
    partition: int
    offset: int


class Versions(Event):
    """What the decision was made with."""

    decision_version: str
    """Hash of tools, descriptions, schemas, rules, thresholds and agents."""
    presentation_version: str
    """Hash of question texts, locales and templates."""
    model: str
    """The decider's name and version, as it reports them."""


class SessionClaims(Event):
    """What the gateway authenticated. The only source of permissions."""

    subject_id: str | None = None
    permissions: tuple[str, ...] = ()
    values: dict[str, str] = {}
    """Field name to authenticated value."""


class SelectedRecord(Event):
    """The object that the customer had selected when the turn was written."""

    kind: str
    values: dict[str, str] = {}
    """Field name to value."""


class Attachment(Event):
    """A file that came with a message; its content stays where it is."""

    attachment_id: str
    content_type: str
    name: str | None = None
    uri: str | None = None


class Passage(Event):
    """A piece of approved or retrieved text. Data, never an instruction."""

    passage_id: str
    text: str
    title: str | None = None
    uri: str | None = None


class ConversationTurn(Event):
    """One message of a conversation. Only customer turns trigger a decision."""

    turn_id: str = Field(min_length=1)
    """Unique in its conversation; the same turn again is `duplicate_turn`."""
    conversation_id: str = Field(min_length=1)
    tenant_id: str | None = None
    channel_id: str
    """One of the catalog's channels."""
    role: Role | Unrecognized
    actor_id: str | None = None
    """Who wrote it, as the platform names them; tells our own bot account from a person."""
    text: str
    content_type: str = "text/plain"
    attachments: tuple[Attachment, ...] = ()
    locale: str | None = None
    """BCP 47 tag, as fr or fr-CA, of what the customer reads from here on."""
    session_claims: SessionClaims | None = None
    """Of this very turn: one without claims has no permissions."""
    selected_record: SelectedRecord | None = None
    reply_to_question_id: str | None = None
    """The question of an outbound message that this turn replies to, where the channel knows."""
    echo_of: str | None = None
    """The message_id of ours that this turn repeats."""
    passages: tuple[Passage, ...] = ()
    occurred_at: Millis
    """When it was written."""


class ConversationControl(Event):
    """A command about the conversation itself."""

    control_id: str
    conversation_id: str = Field(min_length=1)
    kind: ControlKind | Unrecognized
    actor: str
    reason: str | None = None
    occurred_at: Millis


class AnswerPayload(Event):
    """What the answer role needs: an approved template with its data, or a text to pass through."""

    answer_id: str | None = None
    """Approved answer of the catalog; null when `text` is given."""
    text: str | None = None
    locale: str
    values: dict[str, str] = {}
    """Placeholder name to value, taken from tool results and known fields."""
    passages: tuple[Passage, ...] = ()


class CallPayload(Event):
    """What the executor needs for one call."""

    tool_call_id: str
    tool: str
    arguments_json: str
    """The checked arguments, a JSON object."""
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


class ToolError(Event):
    """Why a call gave no result, in the model's terms."""

    code: str
    message: str
    path: str | None = None
    keyword: str | None = None
    retryable: bool = False


class ToolResult(Event):
    """The outcome of one call. With `final` false the executor goes on retrying."""

    action_id: str
    conversation_id: str
    tool_call_id: str
    name: str
    ok: bool
    final: bool = True
    result_json: str | None = None
    """Only the fields of the tool's result schema; a JSON object."""
    error: ToolError | None = None
    outcome: ToolOutcome | Unrecognized
    attempts: int
    versions: Versions
    """Of the decision that ordered the call."""
    arguments_hash: str
    """SHA-256 of the arguments as the model gave them."""
    body_hash: str | None = None
    """SHA-256 of the bytes as sent."""
    used_hash: str | None = None
    """SHA-256 of the object that the tool says it used."""
    occurred_at: Millis


class Citation(Event):
    """Where an answer refers to a passage."""

    alias: str
    passage_id: str
    offset_codepoints: int
    offset_utf8: int


class Answer(Event):
    """The final text of an answer action, or why there is none."""

    action_id: str
    conversation_id: str
    turn_id: str | None = None
    attempt: int = 1
    text: str | None = None
    failure: str | None = None
    citations: tuple[Citation, ...] = ()
    model: str
    flags: tuple[str, ...] = ()
    occurred_at: Millis


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


class Label(Event):
    """What the platform wants to know about an exchange, computed after it."""

    exchange_id: str
    """The id of the customer turn."""
    conversation_id: str
    title: str
    categories: tuple[str, ...]
    """The complete set for the whole conversation; replaces the earlier one."""
    sources: tuple[str, ...] | None = None
    task_concluded: bool | None = None
    handoff_summary: str | None = None
    safety_signal: str | None = None
    model: str
    error: str | None = None
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


class LiveAction(Event):
    """What a person or another bot did in the conversation."""

    live_action_id: str
    conversation_id: str
    turn_id: str | None = None
    """The customer turn that it followed."""
    action: Literal["answer", "call_tool", "ask", "refuse", "handoff", "unlabelled"] | Unrecognized
    tool: str | None = None
    """Of a call; not compared when null."""
    arguments_json: str | None = None
    missing_field: str | None = None
    """Of a question; not compared when null."""
    actor: str
    """Who did it."""
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


class Timer(Event):
    """A due time of a conversation has passed."""

    timer_id: str
    conversation_id: str
    kind: TimerKind | Unrecognized
    due_at: Millis
