"""What a step wants done. The shell does it; the core only says so."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from pydantic import JsonValue

from turnstream.core.conversation import Conversation
from turnstream.core.envelope import Envelope
from turnstream.core.events import (
    Answer,
    ConversationControl,
    ConversationTurn,
    Label,
    Source,
    Timer,
    ToolResult,
)
from turnstream.core.evolution import dataclass
from turnstream.core.ports import DecisionRequest, Proposal
from turnstream.core.publications import ActionEvent, OutboundMessage, Outcome


@dataclass(frozen=True, slots=True)
class Undecided:
    """The decider could not be had, after its bounded attempts."""

    detail: str
    diagnostics: Mapping[str, JsonValue] = field(default_factory=dict)
    """What the attempts took all the same, as in `Proposal.diagnostics`."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The handler of an input failed for good; the record itself goes to the dead letters."""

    turn: ConversationTurn | None = None
    """The input, where it was a turn."""


@dataclass(frozen=True, slots=True)
class Flooded:
    """Too many inputs of this conversation are queued."""

    turn: ConversationTurn | None = None
    """The input, where it was a turn."""


Happening = (
    ConversationTurn
    | ConversationControl
    | ToolResult
    | Answer
    | Label
    | Timer
    | Proposal
    | Undecided
    | Abandoned
    | Flooded
)


@dataclass(frozen=True, slots=True)
class Input:
    """One thing that has become known, with the time and the record it came by.

    A proposal comes with the source of the input that it was asked for.
    """

    conversation_id: str
    event: Happening
    source: Source
    """The record, or the origin that a replayed dead letter names: what ids are made of."""
    topic: str
    """The topic it was read from: what watermarks are kept by."""
    offset: int
    timestamp: int
    """The record's own time, milliseconds UTC."""
    now: int
    """The wall clock, milliseconds UTC."""
    given_up: int = 0
    """How often the input was given up before it was replayed: the index of its next action.

    Each time a person was told by an action of the same source.
    """

    def with_event(self, event: Happening) -> "Input":
        """What else has become known by the same record."""
        return Input(
            self.conversation_id,
            event,
            self.source,
            self.topic,
            self.offset,
            self.timestamp,
            self.now,
            self.given_up,
        )


@dataclass(frozen=True, slots=True)
class Propose:
    """Ask the decider; step again with its proposal."""

    request: DecisionRequest


@dataclass(frozen=True, slots=True)
class Publish:
    """Send an event, committed together with the state."""

    event: ActionEvent | OutboundMessage | Outcome


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Refuse the input: its record goes to the dead letters."""

    reason: Literal["turn_id_conflict", "unknown_channel", "unrecognized_symbol", "invalid_id"]
    detail: str


Effect = Propose | Publish | DeadLetter


@dataclass(frozen=True, slots=True)
class Step:
    """The state after an input, and what is to be done about it, in order.

    A :class:`Propose` is always the only effect of its step; without one the state is at rest.
    """

    state: Conversation
    effects: tuple[Effect, ...] = ()
    rejected: tuple[Envelope, ...] = ()
    """The calls of the proposal that passed no gate, as the model is told of them."""
