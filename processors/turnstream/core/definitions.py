"""The catalog as data: what a deployment allows its conversations to do.

These models say what a loaded catalog *is*; reading it from YAML, versioning and linting it is the
business of :mod:`turnstream.catalog`. They live in the core because every rule of the conversation
machine is a rule about them.

Texts are given per locale (BCP 47 tag to text). :func:`localized` picks one: the exact tag, then
its language, then the catalog's default locale.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from turnstream.core.agents import Agent
from turnstream.core.bindings import Binding
from turnstream.core.business_rules import BusinessRule
from turnstream.core.contract import Action, HandoffCause
from turnstream.core.definition import Definition
from turnstream.core.events import Provenance
from turnstream.core.servers import McpServer, RemoteAgent

Probability = Annotated[float, Field(ge=0, le=1)]
Texts = Annotated[dict[str, str], Field(min_length=1)]
"""Locale to text."""

MISSING_PERMISSION = "missing_permission"
"""The refusal rule that the policy applies when a session lacks a tool's permission."""

FREE_TEXT = "free_text"
"""Reserved field of an agent model's free question; no catalog field may have this name."""


class Choice(Definition):
    """One value of a choice field."""

    label: Texts
    """What the customer sees, per locale."""
    aliases: tuple[str, ...] = ()
    """Other words for it in any language, as customers write them."""


class FieldDefinition(Definition):
    """An item of information that a tool or an answer may need."""

    description: str
    type: Literal["string", "integer", "number", "boolean", "choice"] = "string"
    """What a value is; values travel as text and reach a tool as this type."""
    pattern: str | None = None
    """Regular expression that a whole string must match (ASCII classes, ``\\Z`` at the end)."""
    choices: dict[str, Choice] = {}
    """Value to its labels and aliases, for type `choice`."""
    minimum: float | None = None
    maximum: float | None = None
    max_length: int = Field(default=200, ge=1, le=2000)
    """Longest accepted value in characters."""
    question: Texts | None = None
    """The approved question: names the item and the step it is needed for."""
    question_for: dict[str, Texts] = {}
    """Tool or answer name to a more precise approved question."""
    suggestions: tuple[str, ...] = ()
    """Values offered with the question; for type `choice`, all choices when left empty."""
    restricted: bool = False
    """True when only a suggestion is a valid reply."""
    expires_after_seconds: float | None = Field(default=None, gt=0)
    """The question's expiry; none by default."""

    @model_validator(mode="after")
    def _choices_belong_to_choice_fields(self) -> Self:
        if (self.type == "choice") != bool(self.choices):
            raise ValueError("choices are required for type 'choice' and forbidden for others")
        return self


class ArgumentSource(Definition):
    """Where a tool's argument may come from, most trusted first."""

    field: str | None = None
    """The catalog field that provides it; the argument's own name by default."""
    provenance: tuple[Provenance, ...] = Field(min_length=1)
    """`session`: the claims; `record`: the record that the customer had selected; `tool_result`: an
    earlier result; `message`: the customer's words, asked for where they are absent; `model`: what
    an agent model makes up, such as the words of a search - the schema and the rules alone bound
    it."""
    from_result: str | None = None
    """``tool.property`` that provides it, for provenance `tool_result`."""


class RetryPolicy(Definition):
    """How often a call is made, and how long is waited in between."""

    attempts: int = Field(default=3, ge=1, le=10)
    """Calls in all, the first included."""
    backoff_seconds: float = Field(default=0.2, gt=0)
    """Wait before the second call; doubles each time."""
    max_backoff_seconds: float = Field(default=5.0, gt=0)
    max_retry_after_seconds: float = Field(default=10.0, ge=0, le=300)
    """Longest wait that a service may ask for (``Retry-After``); asked for more, the call ends."""


class BreakerPolicy(Definition):
    """When a tool that does not answer is left alone, in each process for itself."""

    failures: int = Field(default=5, ge=1, le=1000)
    """Calls in a row that could not be made or were not answered; business errors are answers."""
    cool_down_seconds: float = Field(default=30.0, gt=0, le=3600)
    """Calls fail at once for so long (``tool_unavailable``), then one is tried."""


class ToolErrorRule(Definition):
    """A business error that the tool may return, and what it means for the conversation."""

    description: str
    answer: str | None = None
    """Approved answer that explains it, whose `of_tool` names this tool; without one the
    conversation is handed off."""


class Tool(Definition):
    """Something that can be called. Its name says what it does; it never does more."""

    description: str
    examples: tuple[str, ...] = ()
    """Requests that it serves, in any language."""
    subject: str | None = None
    """What it is about; one subject's tools and answers share values. The name by default."""
    input_schema: dict[str, JsonValue]
    """JSON Schema 2020-12 of the arguments, an object; `format` is enforced."""
    result_schema: dict[str, JsonValue]
    """JSON Schema 2020-12 of the result, as above; only its properties reach a model."""
    effect: Literal["read", "write"]
    """`write`: a call changes something, so it is never made twice unless that is safe."""
    idempotent: bool = False
    """True for a write that may be repeated with the same idempotency key: the service then answers
    as it did the first time, and 409 while the first is still at work. A function needs the
    parameter `idempotency_key`."""
    timeout_seconds: float = Field(default=5.0, gt=0, le=300)
    """How long one call may take. A write's is below `stream.grace_seconds` (15), which a stop
    waits; else `execute` does not start."""
    retry: RetryPolicy = RetryPolicy()
    """Applies to reads and to idempotent writes; any other call is made once."""
    breaker: BreakerPolicy = BreakerPolicy()
    data_scope: Literal["public", "own"] = "own"
    """`own`: only data of the authenticated customer; needs a subject id in the session."""
    required_permissions: tuple[str, ...] = ()
    """Permissions of the session's claims, all of them; else rule `missing_permission` refuses."""
    arguments: dict[str, ArgumentSource] = {}
    """Argument name to its sources."""
    rules: tuple[BusinessRule, ...] = ()
    """What its schema cannot say of the arguments."""
    confirm: str | None = None
    """Field of type `boolean` whose question the customer answers with yes before each call. Its
    question may name arguments: ``Cancel order {order_id}?`` Only a reply that is a yes as a whole,
    courtesies aside ("Oui, merci", "ok, go ahead"), counts; to any other it is asked again."""
    threshold: Probability | None = None
    """Least confidence for an automatic call. A write tool without one never runs automatically.
    What it means for an agent model, which gives none, is said by `unscored` of `thresholds`."""
    errors: dict[str, ToolErrorRule] = {}
    """Error code to its meaning, for codes by which nothing was done under the call's idempotency
    key, nor will be; any other code is `tool_error` and goes to a person."""
    answer: str | None = None
    """Approved answer that presents the result."""
    returns_passages: str | None = None
    """Property of the result that holds passages, for a tool that retrieves text."""
    binding: Binding

    @property
    def may_need_permissions(self) -> bool:
        """Whether any call of it may be refused for a permission."""
        return bool(self.required_permissions) or any(rule.kind == "right" for rule in self.rules)


class ApprovedAnswer(Definition):
    """A text approved for customers. ``{name}`` is replaced by a value of the tool's result."""

    description: str
    examples: tuple[str, ...] = ()
    """Requests that it answers on its own, in any language."""
    subject: str | None = None
    """What it is about; its tool's subject, or its name, by default."""
    of_tool: str | None = None
    """The tool whose result it presents; such an answer is never chosen without that result."""
    text: Texts
    words: dict[str, dict[str, Texts]] = {}
    """Placeholder to value to its words per locale (``status``: ``shipped``: ``fr``: expédiée)."""


class RefusalRule(Definition):
    """Something that is refused, and the text that says so."""

    description: str
    examples: tuple[str, ...] = ()
    text: Texts


class Queue(Definition):
    """Where conversations are handed off to."""

    description: str
    text: Texts
    """What the customer reads at the handoff."""
    causes: tuple[HandoffCause, ...] = ()
    """Handoff causes that lead here; every other cause leads to the default queue."""
    agent: RemoteAgent | None = None
    """The agent that is told of each handoff to this queue. People keep the conversation: where it
    cannot be told, nothing else changes."""


class Channel(Definition):
    """Where conversations take place, and what is possible there."""

    type: Literal["console", "webchat", "api", "other"]
    """Questions are asked on every type but `other`."""
    publication: bool = True
    """False where nothing reaches the customer at once; no question is asked there."""
    deferred_output_validation: bool = False
    """True where somebody reads messages before they go out; no question is asked there."""
    default_locale: str | None = None
    """Locale of turns that name none."""

    @property
    def interactive(self) -> bool:
        """Whether a question can be asked here: the channel's type decides, never the turn."""
        return self.type != "other" and self.publication and not self.deferred_output_validation


class Category(Definition):
    """A label for conversations."""

    description: str
    examples: tuple[str, ...] = ()


class Thresholds(Definition):
    """Least confidence per action for going on automatically; below it the step is handed off."""

    answer: Probability = 0.0
    call_tool: Probability = 0.0
    ask: Probability = 0.0
    refuse: Probability = 0.0
    near_tie_margin: Probability = 0.05
    """Least distance between the two best options; nearer is a tie."""
    unscored: Literal["handoff", "accept"] = "handoff"
    """What becomes of a step whose decider gives no confidence, as agent models do, where a
    threshold above 0 applies to it, a tool's own included. `handoff`: a person takes over.
    `accept`: thresholds are for deciders that have a confidence; only the checks of code hold such
    a step back. A write tool without a threshold never runs by itself in either case, and a reply
    without the confidence that its decider gives otherwise stays below every threshold."""

    def of(self, action: Action) -> float:
        """The least confidence of an action, 0 to 1; a handoff needs none."""
        value: float = 0.0 if action == "handoff" else getattr(self, action)
        return value


class Catalog(Definition):
    """Everything a deployment defines for its conversations."""

    default_locale: str = "en"
    """Every text must have it; shown where no text has the customer's."""
    entry_agent: str
    default_queue: str
    """The queue of every handoff cause that no other queue names."""
    tools: dict[str, Tool] = {}
    """Name to tool: a letter, then A-Z a-z 0-9 _ -, 64 characters at most, as all names here."""
    servers: dict[str, McpServer] = {}
    """Name to MCP server, for bindings of kind `mcp`."""
    fields: dict[str, FieldDefinition] = {}
    """Name to item of information; an argument takes the field of its name."""
    answers: dict[str, ApprovedAnswer] = {}
    rules: dict[str, RefusalRule] = {}
    queues: dict[str, Queue]
    channels: dict[str, Channel]
    """Channel id, as turns carry it, to what is possible there; turns of any other are refused."""
    categories: dict[str, Category] = {}
    agents: dict[str, Agent]
    thresholds: Thresholds = Thresholds()

    def subject_of_tool(self, name: str) -> str:
        """The subject of a tool."""
        return self.tools[name].subject or name

    def subject_of_answer(self, name: str) -> str:
        """The subject of an approved answer: its own, its tool's, or its name."""
        answer = self.answers[name]
        if answer.subject:
            return answer.subject
        return self.subject_of_tool(answer.of_tool) if answer.of_tool else name


def localized(texts: Mapping[str, str], locale: str | None, default_locale: str) -> tuple[str, str]:
    """Pick a text.

    Args:
        texts: locale to text, not empty.
        locale: the wanted BCP 47 tag, or None.
        default_locale: the catalog's.

    Returns:
        The locale that was found and its text. The exact tag wins, then its language, then the
        default locale and its language, then the first text.
    """
    for wanted in (locale, default_locale):
        if wanted is None:
            continue
        for tag in (wanted, wanted.split("-", 1)[0]):
            if tag in texts:
                return tag, texts[tag]
    return next(iter(texts.items()))
