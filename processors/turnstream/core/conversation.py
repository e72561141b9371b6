"""The state of one conversation and the table of its transitions.

Two rules hold for this file. Everything that says in which phase a conversation may be is here, as
data. And nothing here decides anything: it does not know the catalog.

A conversation *rests* in one of six phases. `idle`: nothing is under way. `waiting_reply`: one
question is open. `waiting_calls`: tools are running. `waiting_answer`: an answer is being
composed. `held`: a person has it. `closed`: it is over; only what protects against repetition is
left. Between an input and its decision it is `deciding`, a phase that is never stored.

While calls or an answer are outstanding, customer turns enter the history and wait (they are
*buffered*); one decision follows when everything is in. A person takes over by a control event, by
writing in the conversation, or because we handed off; from then on turns enter the history and
nothing is decided until the conversation is handed back.

:data:`TRANSITIONS` is the whole truth: :func:`move` refuses any pair that it does not hold. The
diagram in ``processors/ARCHITECTURE.md`` is drawn from it by :func:`diagram`.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar, Final, Literal, get_args

from pydantic import JsonValue, TypeAdapter

from turnstream.core.envelope import Envelope
from turnstream.core.events import Passage, Provenance, Role, SessionClaims, TimerKind, ToolOutcome
from turnstream.core.evolution import dataclass, evolved
from turnstream.core.publications import Suggestion

RECORD_VERSION: Final = 2
"""Version of the stored record. A higher one parks the conversation for a newer worker."""

Phase = Literal[
    "idle", "deciding", "waiting_reply", "waiting_calls", "waiting_answer", "held", "closed"
]
PHASES: Final[tuple[Phase, ...]] = get_args(Phase)
Holder = Literal["bot", "person"]
EndedHow = Literal["accepted", "cancelled", "expired", "late"]

Trigger = Literal[
    "customer_turn",
    "invalid_reply",
    "backlog",
    "results_complete",
    "answer_ready",
    "question_expired",
    "stop",
    "late_result",
    "person_takes_over",
    "handed_back",
    "close",
    "answer",
    "call_tool",
    "ask",
    "refuse",
    "handoff",
]
"""What moves a conversation: an input, or one of the five decisions.

`stop` is every reason of ours to end an activation at once with a handoff: a deadline, a stale
turn, a cancellation, a flood, an input that could not be handled.
"""

_BY_BOT: Final[tuple[Phase, ...]] = ("idle", "waiting_reply", "waiting_calls", "waiting_answer")

TRANSITIONS: Final[Mapping[tuple[Phase, Trigger], Phase]] = {
    ("idle", "customer_turn"): "deciding",
    ("closed", "customer_turn"): "deciding",
    ("waiting_reply", "customer_turn"): "deciding",
    ("waiting_calls", "customer_turn"): "waiting_calls",
    ("waiting_answer", "customer_turn"): "waiting_answer",
    ("held", "customer_turn"): "held",
    ("waiting_reply", "invalid_reply"): "waiting_reply",
    ("waiting_reply", "question_expired"): "idle",
    ("waiting_calls", "results_complete"): "deciding",
    ("waiting_answer", "answer_ready"): "idle",
    ("idle", "backlog"): "deciding",
    ("deciding", "answer"): "waiting_answer",
    ("deciding", "call_tool"): "waiting_calls",
    ("deciding", "ask"): "waiting_reply",
    ("deciding", "refuse"): "idle",
    ("deciding", "handoff"): "held",
    **{(phase, "stop"): "deciding" for phase in (*_BY_BOT, "closed")},
    **{(phase, "person_takes_over"): "held" for phase in (*_BY_BOT, "held", "closed")},
    ("held", "late_result"): "deciding",
    ("held", "handed_back"): "idle",
    **{(phase, "close"): "closed" for phase in (*_BY_BOT, "held")},
}


@dataclass(frozen=True, slots=True)
class Spoken:
    """One message of the history."""

    role: Role
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Value:
    """What one source says about a field."""

    candidates: tuple[str, ...]
    """One value, or several that the message did not decide between."""
    turn_id: str | None
    epoch: int
    """The subject epoch in which it was given."""
    at_input: int
    """The input number at which it was last given."""
    changed_at: int
    """The input number at which it became this or was confirmed; repeating changes nothing."""
    confirmed: bool = False
    """True when it was given in reply to the field's own question, which settles a doubt."""


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question that the customer has been asked and has not answered."""

    question_id: str
    field: str
    needed_for: str
    text: str
    locale: str
    suggestions: tuple[Suggestion, ...]
    restricted: bool
    asked_at: int
    expires_at: int | None
    rejections: int = 0
    confirms: str | None = None
    """The call that a yes allows: its hash, or its tool's name where no more is known of it."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The question that the present input ended; kept only while deciding."""

    question: OpenQuestion
    how: EndedHow


@dataclass(frozen=True, slots=True)
class Outstanding:
    """A call or an answer that has been ordered and has not come back."""

    action_id: str
    kind: Literal["call", "answer"]
    name: str
    """The tool, or the approved answer."""
    fields: Mapping[str, str]
    """Field to the value that it was ordered with."""
    deadline_at: int
    write: bool = False
    failures: int = 0
    """Failed attempts that the executor has reported so far."""
    superseded: bool = False
    """True once a value that it was ordered with has been corrected."""
    fingerprint: str = ""
    """Hash of tool and arguments, for the no-progress stop."""


@dataclass(frozen=True, slots=True)
class Fact:
    """The final result of a call."""

    action_id: str
    tool: str
    outcome: ToolOutcome
    result: Mapping[str, JsonValue] | None
    error_code: str | None
    superseded: bool
    """True when a value that it was called with has been corrected since: not to be used."""
    at_input: int
    epoch: int
    fields: Mapping[str, str]
    """Field to the value that it was called with."""
    size: int
    """Bytes that it takes in the record."""


@dataclass(frozen=True, slots=True)
class LoopCall:
    """A call of an agent model's reply."""

    call_id: str
    tool: str
    action_id: str | None
    """The action that makes it; None for one that was not made, and for a question."""
    outcome: Envelope | None
    """What the model is told of it; None while it is awaited."""
    write: bool = False
    """Whether it changes something, so that what was done must be told in any case."""


@dataclass(frozen=True, slots=True)
class LoopStep:
    """One reply of an agent model, and what came of it."""

    reply: JsonValue
    """As the model gave it. Its reasoning may be signed or encrypted: nothing here looks into it,
    and it is never published."""
    calls: tuple[LoopCall, ...]
    """Empty where they had no usable ids."""
    fault: str | None
    """Why nothing of it was done, where that was so."""
    spoken: int
    """Messages of the conversation when it was given."""


@dataclass(frozen=True)
class Activation:
    """The work from a customer's turn to the final answer; a reply does not start a new one."""

    turn_id: str
    heard_from: int
    """Input number of that turn: what was said since then needs no confirmation."""
    opened_at_input: int
    """Input number at which the work began; later than `heard_from` when the turn had to wait."""
    spoken: int = 0
    """Messages of the conversation before that turn."""
    steps: int = 0
    questions: int = 0
    progress: int = 0
    """Counts new values and new results; asking or calling the same again needs a higher one."""
    asked: Mapping[str, int] = field(default_factory=dict)
    """Field to the progress at which it was last asked."""
    called: Mapping[str, int] = field(default_factory=dict)
    """Hash of tool and arguments to the progress at which it was last called."""
    proposals: int = 0
    """Proposals of the present decision that were blocked."""
    loop: tuple[LoopStep, ...] = ()
    """The replies of an agent model, oldest first."""
    confirming: Mapping[str, bool] = field(default_factory=dict)
    """Calls not made yet to whether the customer has said yes to them; see `OpenQuestion`."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Customer turns that came while calls or an answer were outstanding and wait their turn."""

    turn_id: str
    """The first of them."""
    at_input: int
    """Its input number."""
    texts: tuple[str, ...]
    """What they say, oldest first."""
    spoken: int = 0
    """Messages of the conversation before the first of them."""


@dataclass(frozen=True, slots=True)
class TimerEntry:
    """A due time that the conversation waits for."""

    timer_id: str
    kind: TimerKind
    due_at: int

    after_backlog: ClassVar[bool] = False
    """All timers of a conversation may fire beside a backlog that is full."""


@dataclass(frozen=True)
class Conversation:
    """Everything we keep of one conversation: the value of its record in the changelog."""

    record_version: int = RECORD_VERSION
    input_no: int = 0
    watermarks: Mapping[str, int] = field(default_factory=dict)
    """Source topic to the highest offset handled."""
    phase: Phase = "idle"
    agent: str = ""
    holder: Holder = "bot"
    channel_id: str = ""
    tenant_id: str | None = None
    locale: str | None = None
    session: SessionClaims | None = None
    """Claims of the latest customer turn; a turn without claims has none."""
    history: tuple[Spoken, ...] = ()
    spoken: int = 0
    """Messages so far, those that the history does not hold any more included."""
    turn_ids: Mapping[str, str] = field(default_factory=dict)
    """Hashes of recent turns' ids to those of their content, oldest first."""
    values: Mapping[str, Mapping[Provenance, Value]] = field(default_factory=dict)
    subject: str | None = None
    epoch: int = 0
    open_question: OpenQuestion | None = None
    ending: Ending | None = None
    ended_questions: Mapping[str, EndedHow] = field(default_factory=dict)
    """Recent questions to how they ended, oldest first."""
    outstanding: tuple[Outstanding, ...] = ()
    facts: tuple[Fact, ...] = ()
    passages: tuple[Passage, ...] = ()
    activation: Activation | None = None
    unanswered: tuple[str, ...] = ()
    """Customer texts that the decision under way takes up, oldest first."""
    backlog: Backlog | None = None
    """Turns that the decision under way does not take up."""
    sent: tuple[str, ...] = ()
    """Hashes of our recent messages."""
    sequence: int = 0
    timers: tuple[TimerEntry, ...] = ()
    updated_at: int = 0


RECORD: Final = TypeAdapter(Conversation)
"""Reads a stored record."""


class IllegalTransition(Exception):
    """A trigger that its phase does not allow. Always a defect of ours."""


def move(conversation: Conversation, trigger: Trigger) -> Conversation:
    """Follow the table.

    Raises:
        IllegalTransition: the table holds no such pair.
    """
    try:
        phase = TRANSITIONS[conversation.phase, trigger]
    except KeyError:
        message = f"phase {conversation.phase!r} does not allow {trigger!r}"
        raise IllegalTransition(message) from None
    return conversation if phase == conversation.phase else evolved(conversation, phase=phase)


def diagram() -> str:
    """The transition table as a Mermaid state diagram."""
    arrows: dict[tuple[Phase, Phase], list[str]] = {}
    for (phase, trigger), following in TRANSITIONS.items():
        arrows.setdefault((phase, following), []).append(trigger)
    lines = ["stateDiagram-v2", "    [*] --> idle"]
    lines += [
        f"    {phase} --> {following}: {', '.join(triggers)}"
        for (phase, following), triggers in arrows.items()
    ]
    lines.append("    closed --> [*]")
    return "\n".join(lines)
