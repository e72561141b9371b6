"""What the shadow keeps of a conversation: its copy, and what still waits for the other side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pydantic import TypeAdapter
from pydantic_core import to_json

from turnstream.core.compare import ComparedCall
from turnstream.core.contract import Decision
from turnstream.core.conversation import Conversation
from turnstream.core.events import (
    Answer,
    ConversationControl,
    ConversationTurn,
    Event,
    Label,
    LiveAction,
    Source,
    Timer,
    ToolResult,
)
from turnstream.core.publications import ActionEvent
from turnstream.core.record import migrated
from turnstream.core.ruleset import Limits
from turnstream.roles.intake import source_of
from turnstream.roles.records import RecordFormat
from turnstream.stream import Record, TimerDue

RECORD_VERSION: Final = 2
"""Version of the stored record. Version 1 held a copy of the first version of conversations."""

MAX_HEARD: Final = 200
"""Inputs kept until their live decision arrives; older ones are folded without a proposal."""
MAX_HEARD_BYTES: Final = 400_000
"""Bounds the same in size: the record must fit its topic's 1 MiB."""
MAX_WAITING: Final = 32
"""Live actions kept until all their inputs have arrived, and proposals until a person acts."""

Heard = ConversationTurn | ConversationControl | ToolResult | Answer | Label | Timer


@dataclass(frozen=True, slots=True)
class HeardInput:
    """An input that the live side may decide about."""

    source: Source
    topic: str
    offset: int
    timestamp: int
    event: Heard


@dataclass(frozen=True, slots=True)
class OpenProposal:
    """A proposal that waits for what a person does."""

    source: Source
    turn_id: str
    decision: Decision
    arguments_json: str | None
    at: int
    calls: tuple[ComparedCall, ...] = ()
    """All calls of it, where it is to call."""

    @property
    def compared(self) -> tuple[ComparedCall, ...]:
        """Its calls, also those of an older record, which knew of one."""
        if self.calls or self.arguments_json is None:
            return self.calls
        return (ComparedCall(self.decision.tool, self.arguments_json),)


@dataclass(frozen=True, slots=True)
class Shadowed:
    """What the shadow keeps of one conversation."""

    record_version: int = RECORD_VERSION
    watermarks: Mapping[str, int] = field(default_factory=dict)
    mirror: Conversation = field(default_factory=Conversation)
    heard: tuple[HeardInput, ...] = ()
    actions: tuple[ActionEvent, ...] = ()
    """Live actions whose inputs have not all arrived."""
    proposals: tuple[OpenProposal, ...] = ()
    early: tuple[LiveAction, ...] = ()
    """Live actions of people that arrived before their turn."""
    read_at: int = 0
    """The latest time of a record that was taken in, milliseconds UTC."""


_RECORD: Final = TypeAdapter(Shadowed)


def heard_from(record: Record, event: Heard) -> HeardInput:
    """An input as its record brought it."""
    return HeardInput(source_of(record), record.topic, record.offset, record.timestamp, event)


def oldest_batch(actions: Sequence[ActionEvent]) -> tuple[ActionEvent, ...]:
    """The actions of the oldest live decision, as far as they are there.

    The calls of one reply stand one after another; a decision that was taken anew about the same
    input begins with the first again.
    """
    first = actions[0]
    length = 1
    for one in actions[1 : first.batch_size - first.batch_index]:
        if (one.decision_id, one.batch_index) != (first.decision_id, first.batch_index + length):
            break
        length += 1
    return tuple(actions[:length])


def is_afterthought(event: Event, state: Shadowed) -> bool:
    """Whether an input comes after the end and opens nothing: kept, it would never go away."""
    ended = state.mirror.phase == "closed" and not state.heard
    return ended and isinstance(event, Label | Timer | Answer | ToolResult)


def size_of(one: HeardInput) -> int:
    """The bytes of an input as it is stored, the small constant parts left out."""
    return len(to_json(one.event))


def shadowed_format(limits: Limits) -> RecordFormat[Shadowed]:
    """How the shadow's copies are stored, for the stream.

    A copy goes by itself after the silence that ends a conversation, or twice that while inputs
    wait for a live decision: `decide` may be away. The live side's end does the same, sooner; but
    what is read after the command to forget, though written before it, begins a copy that nothing
    else would end.
    """

    def expiry(state: Shadowed) -> Sequence[TimerDue]:
        if _is_closed(state):
            return ()
        patience = limits.conversation_ttl_ms
        if state.mirror.open_question is not None:
            patience = max(patience, limits.question_ttl_ms)
        if state.heard:
            patience *= 2
        return (TimerDue("expiry", "expiry", _latest(state) + patience),)

    return RecordFormat(
        _RECORD,
        version=RECORD_VERSION,
        migrations={1: _from_first},
        closed=_is_closed,
        timers=expiry,
    )


def _from_first(state: Shadowed) -> Shadowed:
    return replace(state, record_version=RECORD_VERSION, mirror=migrated(state.mirror))


def _is_closed(state: Shadowed) -> bool:
    """Whether only its watermarks matter: it is over, or nothing was taken in yet."""
    if state.mirror.phase == "closed":
        return not state.heard
    return not (
        state.mirror.updated_at or state.heard or state.actions or state.proposals or state.early
    )


def _latest(state: Shadowed) -> int:
    """The time of the latest that was taken in, milliseconds UTC."""
    times = [state.mirror.updated_at, *(one.timestamp for one in state.heard)]
    times += [one.decided_at for one in state.actions]
    times += [one.at for one in state.proposals]
    times += [one.occurred_at for one in state.early]
    # A sender's clock that is ahead would keep the copy for ever.
    return min(max(times), state.read_at) if state.read_at else max(times)
