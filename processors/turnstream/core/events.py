"""The events on the conversation's topics, as pydantic models: their base, and what comes in.

"In" is as seen from where decisions are made: a tool's result comes in, an action goes out
(:mod:`turnstream.core.publications`).

Each model equals the Avro record of the same name under ``schemas/`` field by field (a test walks
both). Times are milliseconds since the Unix epoch, UTC. JSON objects whose shape is the catalog's
business travel as JSON text, in fields that end in ``_json``. Every closed list has the extra
symbol ``unrecognized`` on the wire: a reader that meets a symbol of a newer writer sees it; we
never write it and never act on it.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Unrecognized = Literal["unrecognized"]
Millis = Annotated[int, Field(ge=0, le=2**53)]
"""Milliseconds since the Unix epoch, UTC."""

Role = Literal["customer", "agent", "assistant", "system"]
Provenance = Literal["session", "record", "tool_result", "message", "model"]
ToolOutcome = Literal["done", "failed", "outcome_unknown", "denied"]
ControlKind = Literal["take_over", "hand_back", "close", "cancel", "forget"]
TimerKind = Literal["call_deadline", "answer_deadline", "question_expiry", "conversation_close"]


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
    """`forget` erases what `decide`, `classify` and `shadow` know; the page says what it does not
    reach."""
    actor: str
    reason: str | None = None
    occurred_at: Millis


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
    """SHA-256 of the arguments as the model gave them, as JSON in one form: names sorted, no
    spaces, no fraction for a whole number; of those of the call where code filled them."""
    body_hash: str | None = None
    """SHA-256 of the arguments as they stood in the bytes that were sent, in the same form."""
    used_hash: str | None = None
    """SHA-256 of the arguments that the tool says it used, in the same form where it does so."""
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


class Label(Event):
    """What the platform wants to know about an exchange, computed after it."""

    exchange_id: str
    """The id of the customer turn that opened it. Each of its ends has a label - a question, then
    the answer to its reply; a handoff, then a decision after all - and the latest holds."""
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


class Timer(Event):
    """A due time of a conversation has passed."""

    timer_id: str
    conversation_id: str
    kind: TimerKind | Unrecognized
    due_at: Millis
