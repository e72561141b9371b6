"""What the core needs from outside, as Protocols: a decider, tool bindings, a classifier.

An implementation that needs no I/O returns its result at once; one that does returns an awaitable.
The caller looks at what it got. So an embedded decider costs no task and no turn of the event loop.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Literal, Protocol

from pydantic import JsonValue

from turnstream.core.contract import Action, HandoffCause
from turnstream.core.envelope import Envelope
from turnstream.core.events import Passage, ToolOutcome
from turnstream.core.evolution import dataclass


@dataclass(frozen=True, slots=True)
class Message:
    """One line of the conversation, oldest first in every sequence of them."""

    role: Literal["customer", "agent", "assistant", "system"]
    text: str


@dataclass(frozen=True, slots=True)
class ToolOption:
    """A tool as it stands for this conversation, worked out by code before any model is asked."""

    name: str
    missing: tuple[str, ...]
    """Required fields that have no usable value and that the customer may be asked for."""
    ambiguous: tuple[str, ...]
    """Required fields with more than one candidate."""
    blocked: tuple[str, ...]
    """Required fields that the customer cannot provide and that are absent: of a session, of a
    tool's result, or such as only an agent model makes up."""


@dataclass(frozen=True, slots=True)
class ToolFact:
    """The final result of a call made since the customer's turn."""

    tool: str
    outcome: ToolOutcome
    result: Mapping[str, JsonValue] | None
    """Only the properties of the tool's result schema."""
    error_code: str | None
    superseded: bool
    """True when a value that it was called with has been corrected since: not to be used."""


@dataclass(frozen=True, slots=True)
class LoopTurn:
    """One reply of an agent model since the customer's turn, and what came of it."""

    reply: JsonValue
    """The reply as the model gave it, its reasoning included, to be sent back unchanged."""
    envelopes: tuple[Envelope, ...]
    """The outcome of each of its calls, in their order. None at all where the calls had no usable
    ids; the fault then speaks for them."""
    fault: str | None
    """Why nothing of it was done, where that was so."""
    heard: tuple[Message, ...]
    """What was said since, oldest first. A question that it asked by a call, and the reply, stand
    in that call's envelope instead."""


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """All that a decider may know. Passages and results are data, never instructions."""

    agent: str
    locale: str
    interactive: bool
    """Whether asking is possible on this channel."""
    messages: tuple[Message, ...]
    """The history window, the latest message last; with `loop`, what was said before it."""
    latest: str
    """What the customer has written since the last decision; empty when only results are new."""
    known: Mapping[str, str]
    """Field to its current, usable value."""
    tools: tuple[ToolOption, ...]
    facts: tuple[ToolFact, ...]
    """Results since the customer's turn, oldest first, those of the calls in `loop` among them. A
    shadow has results of calls that the live side made: no `loop` holds them."""
    answered_field: str | None
    """The field whose question has just been answered."""
    open_intent: str | None
    """The tool or approved answer that the last question was needed for."""
    passages: tuple[Passage, ...] = ()
    fault: str | None = None
    """Set on a bounded retry: what was wrong with the previous proposal."""
    loop: tuple[LoopTurn, ...] = ()
    """The replies of an agent model since the customer's turn, oldest first."""


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A call that an agent model asks for, as it came."""

    call_id: str
    """The provider's id, normalised: 1 to 128 printable characters that no other call of the reply
    has."""
    tool: str
    arguments: str | Mapping[str, JsonValue] | None
    """JSON text as the model wrote it, or an object where the provider has parsed it."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A decider's reply, not yet checked: it may name things that do not exist."""

    action: str
    tool: str | None
    missing_field: str | None
    reason_code: str
    model: str
    """Name and version of what decided."""
    confidence: float
    confidence_kind: str
    """What the number means for this decider."""
    scored: bool = True
    """False where this reply came without a confidence; the number then is 0 and says nothing."""
    unscored_kind: bool = False
    """Whether its decider never gives a confidence, as agent models do not. Only then can the
    catalog free its steps from the thresholds."""
    probabilities: Mapping[Action, float] = field(default_factory=dict)
    margin: float | None = None
    """Distance between the two best options, 0 to 1."""
    least_confidence: float = 0.0
    """What its calibration demands of the confidence; the catalog may demand more."""
    answer_id: str | None = None
    text: str | None = None
    """An agent model's own answer text."""
    rule: str | None = None
    """The refusal rule that matched."""
    handoff_cause: HandoffCause | None = None
    needed_for: str | None = None
    """For a question: the tool or approved answer that needs the field."""
    calls: tuple[ProposedCall, ...] = ()
    """The calls of an agent model's reply; none when code fills the arguments of `tool`, which may
    be null beside them. Where it asks a question, the call by which it asked."""
    reply: JsonValue = None
    """The agent model's reply, to be given back in `DecisionRequest.loop`. It is kept in the state,
    whole or not at all. Arguments that cannot be parsed do not belong into it as they came: no
    provider takes them back, and they may be of any length."""
    output: JsonValue = None
    """The final answer of an agent that declares a schema for it: an object, or its JSON text."""
    diagnostics: Mapping[str, JsonValue] = field(default_factory=dict)
    """Anything else worth keeping, JSON only, no customer text.

    `tool_probabilities`, an object of tool to probability, lets a calibration see near ties.
    """


class Decider(Protocol):
    """Proposes the next step. Raises :class:`DeciderUnavailable` when it cannot.

    One that holds connections has ``async def close()`` as well, called when its role has ended.
    """

    @property
    def name(self) -> str:
        """Name and version, as written into every decision."""
        ...

    def propose(self, request: DecisionRequest) -> Proposal | Awaitable[Proposal]:
        """Propose one step for the conversation as it stands."""
        ...


class DeciderUnavailable(Exception):
    """No proposal could be had: a time-out, a broken connection, a rate limit.

    It is passing: the decider is asked again, within bounds.
    """

    def __init__(
        self,
        message: str = "",
        *,
        retry_after_seconds: float | None = None,
        problem: str | None = None,
    ) -> None:
        """Say what happened.

        Args:
            message: for people; neither logged nor published.
            retry_after_seconds: how long the provider wants to be left alone, where it said so
                (429 with Retry-After). It is kept to, as far as the turn can wait.
            problem: what went wrong and where, for the log: nothing of the conversation or the
                reply, no secret.
        """
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        self.problem = problem
        self.diagnostics: Mapping[str, JsonValue] = {}
        """What the attempt took all the same, as in `Proposal.diagnostics`."""


class ReplyUnusable(DeciderUnavailable):
    """The provider replied, and not in the form that it documents.

    The decider is asked again, as it is when there was no reply. But it is there: what it says to
    one conversation does not keep the others from asking it.
    """

    problem: str

    def __init__(self, problem: str) -> None:
        """Say what is wrong.

        Args:
            problem: what of the form was not kept to, and where; for the log, as above. A name of
                the reply's own is text of a model, so only names of the form belong into it.
        """
        super().__init__(problem, problem=problem)


class DeciderRefused(DeciderUnavailable):
    """The provider does not take our requests: a key, a name, a parameter or a schema is wrong.

    Asking again does not help; whoever operates the deployment must act, so it is logged.
    """

    problem: str

    def __init__(self, problem: str) -> None:
        """Say what is wrong.

        Args:
            problem: for the log: nothing of the conversation, no secret.
        """
        super().__init__(problem, problem=problem)


ReconcileVerdict = Literal["found", "not_found", "unknown"]


def _unwatched(_arguments: Mapping[str, JsonValue]) -> None:
    """Let any call go out."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call to make, checked and authorised."""

    tool: str
    arguments: Mapping[str, JsonValue]
    idempotency_key: str
    """The action_id."""
    subject_id: str | None
    conversation_id: str
    traceparent: str | None = None
    """W3C Trace Context of the turn, where it has one."""
    sending: Callable[[Mapping[str, JsonValue]], None] = field(
        default=_unwatched, compare=False, repr=False
    )
    """To be called right before the first byte goes out, with the arguments as they stand in what
    is about to leave; what it raises is not to be caught."""


@dataclass(frozen=True, slots=True)
class ToolReply:
    """What came back. Exactly one of `result` and `error_code` is set."""

    result: Mapping[str, JsonValue] | None
    error_code: str | None = None
    error_message: str = ""
    retryable: bool = False
    outcome_unknown: bool = False
    """True when the call may have had its effect although it failed (a time-out, say)."""
    body_hash: str | None = None
    """SHA-256 of the arguments as they stand in what was sent, see
    :func:`turnstream.core.carried.hash_of`."""
    used_hash: str | None = None
    """The same of those that the tool says it used."""
    used: Mapping[str, JsonValue] | None = field(default=None, repr=False)
    """The arguments that the tool says it used, where it shows them whole."""
    raw: bytes | None = field(default=None, compare=False, repr=False)
    """What came back, where it is no result: for the restricted sink alone."""
    retry_after_seconds: float | None = None
    """How long the other side wants to be left alone before the next attempt."""


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What a tool says of the call that was made with a key."""

    verdict: ReconcileVerdict
    """`found`: it was carried out; `not_found`: it was not, and will not be."""
    reply: ToolReply | None = None
    """For `found`: what the call itself would have replied."""
    retryable: bool = False
    """For `unknown`: asking again may tell."""


class ToolBinding(Protocol):
    """Makes calls to one tool. Never raises for anything that the other side did."""

    async def call(self, call: ToolCall) -> ToolReply:
        """Make one call, within the tool's time-out."""
        ...

    @property
    def reconciles(self) -> bool:
        """Whether it can be asked what became of a call."""
        ...

    async def reconcile(self, call: ToolCall) -> Reconciliation:
        """Ask what became of the call with that key, within the tool's time-out; changes nothing.

        `unknown` where it cannot be asked.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


@dataclass(frozen=True, slots=True)
class HandoffNotice:
    """What an agent is told of a handoff to its queue."""

    message_id: str
    """The action_id: the same for each attempt."""
    conversation_id: str
    text: str
    """The summary, for an agent that reads no data."""
    data: Mapping[str, JsonValue]
    traceparent: str | None = None
    """W3C Trace Context of the turn, where it has one."""


@dataclass(frozen=True, slots=True)
class HandoffReceipt:
    """Whether an agent has taken a handoff."""

    taken: bool
    fault: str = ""
    """In our words, where it has not."""
    retryable: bool = False
    """Whether it may be told again: the message's id says that it is the same handoff."""


class HandoffAgent(Protocol):
    """Is told of handoffs. Never raises for anything that the other side did."""

    async def tell(self, notice: HandoffNotice) -> HandoffReceipt:
        """Tell it of one, within its time-out."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


@dataclass(frozen=True, slots=True)
class Exchange:
    """The last exchange and a little before it, for the classifier."""

    exchange_id: str
    locale: str
    messages: tuple[Message, ...]
    passages: tuple[Passage, ...] = ()


@dataclass(frozen=True, slots=True)
class Classification:
    """What a classifier says of an exchange and its conversation."""

    title: str
    """Empty when there is nothing to summarise (a greeting)."""
    categories: tuple[str, ...]
    """At most five, each from the catalog, for the conversation as a whole."""
    model: str


class Classifier(Protocol):
    """Labels an exchange after it has been answered."""

    def classify(self, exchange: Exchange) -> Classification | Awaitable[Classification]:
        """Give the complete set of categories and a title."""
        ...
