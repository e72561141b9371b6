"""What `classify` keeps of a conversation: its latest messages, and what has still to be labelled.

The topics are read side by side, so an ending can arrive before the turn it belongs to: it then
waits for the turn. One whose turn has left the window does not: it is labelled without it. What is
read a second time, after a replay, says nothing new.
"""

from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from pydantic import TypeAdapter

from turnstream.core.bounds import acceptable_id
from turnstream.core.events import Answer, ConversationControl, ConversationTurn, Event, Timer
from turnstream.core.publications import ActionEvent
from turnstream.roles.records import RecordFormat
from turnstream.stream import Record, TimerDue

RECORD_VERSION: Final = 1

_MESSAGES: Final = 8
"""Messages kept: a label looks at the latest exchanges, and the record must stay small."""
_MESSAGE_CHARACTERS: Final = 2_000
"""Characters kept of each message: one pasted log must not fill the record."""
_WAITING: Final = 8
"""Endings kept until their turn arrives: a turn that never does must not hold them for ever."""
_TURN_IDS: Final = 32
"""Ids of turns kept: by them an ending is known not to wait for a turn that is here no more."""
_ACTION_IDS: Final = 8
"""Ids kept of what ended exchanges: the same answer, read again, would be labelled again."""

Speaker = Literal["customer", "agent", "assistant", "system"]


@dataclass(frozen=True, slots=True)
class Said:
    """One message of the window."""

    at: int
    """Milliseconds UTC."""
    role: Speaker
    text: str
    turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of an exchange."""

    turn_id: str
    """The customer turn that opened it."""
    handoff_summary: str | None = None


@dataclass(frozen=True, slots=True)
class Followed:
    """What is kept of one conversation."""

    watermarks: Mapping[str, int] = field(default_factory=dict)
    messages: tuple[Said, ...] = ()
    """Oldest first."""
    waiting: tuple[Ending, ...] = ()
    """Endings whose turn has not arrived, oldest first."""
    locale: str | None = None
    title: str = ""
    categories: tuple[str, ...] = ()
    """Of the latest label."""
    closed: bool = False
    updated_at: int = 0
    """Time of the latest message, milliseconds UTC; no later than that of its record, since a
    sender's clock that is ahead would keep the window for ever."""
    turn_ids: tuple[str, ...] = ()
    """Of the latest turns, those that have left the window included, oldest first."""
    action_ids: tuple[str, ...] = ()
    """Of the actions and answers that last ended an exchange, oldest first."""
    record_version: int = RECORD_VERSION


_ADAPTER: Final = TypeAdapter(Followed)


def followed(
    record: Record, event: Event, state: Followed | None
) -> tuple[Followed, Ending | None]:
    """The window with an event taken in, and the ending that can be labelled now."""
    window, ending = _followed(passed(state, record), event)
    if record.timestamp > 0 and window.updated_at > record.timestamp:
        before = state.updated_at if state is not None else 0
        window = replace(window, updated_at=max(before, record.timestamp))
    return window, ending


def _followed(window: Followed, event: Event) -> tuple[Followed, Ending | None]:
    match event:
        case ConversationTurn():
            return _heard(window, event)
        case ActionEvent():
            return _decided(window, event)
        case Answer(text=str(text), turn_id=turn_id):
            said = Said(event.occurred_at, "assistant", text)
            ending = Ending(turn_id) if turn_id else None
            return _ended(window, said, ending, action_id=event.action_id)
        case ConversationControl(kind="close" | "forget"):
            return _closed(window), None
        case Timer(kind="conversation_close") if window.updated_at <= event.due_at:
            return _closed(window), None
        case _:
            return window, None


def passed(state: Followed | None, record: Record) -> Followed:
    """The window after an input that is left out of it."""
    window = state or Followed()
    return replace(window, watermarks={**window.watermarks, record.topic: record.offset})


def _heard(window: Followed, turn: ConversationTurn) -> tuple[Followed, Ending | None]:
    """Take a turn in; the latest ending that waited for it can be labelled."""
    if (
        _has_heard(window, turn.turn_id)
        or turn.echo_of is not None
        or turn.role == "unrecognized"
        or not acceptable_id(turn.turn_id)
    ):
        return window, None
    said = Said(turn.occurred_at, turn.role, turn.text, turn.turn_id)
    window = replace(
        window,
        closed=False,
        locale=turn.locale or window.locale,
        turn_ids=(*window.turn_ids, turn.turn_id)[-_TURN_IDS:],
    )
    window = _with(window, said)
    mine = [ending for ending in window.waiting if ending.turn_id == turn.turn_id]
    if not mine:
        return window, None
    others = tuple(ending for ending in window.waiting if ending.turn_id != turn.turn_id)
    return replace(window, waiting=others), mine[-1]


def _decided(window: Followed, action: ActionEvent) -> tuple[Followed, Ending | None]:
    """Take an action in that ends its exchange by itself; a call does not, an answer will."""
    payload = action.question or action.refusal or action.handoff
    if payload is None:
        return window, None
    summary = action.handoff.summary if action.handoff is not None else None
    ending = Ending(action.turn_id, summary) if action.turn_id else None
    said = Said(action.decided_at, "assistant", payload.text)
    window = replace(window, locale=window.locale or payload.locale)
    return _ended(window, said, ending, action_id=action.action_id)


def _ended(
    window: Followed, said: Said, ending: Ending | None, *, action_id: str
) -> tuple[Followed, Ending | None]:
    """Take in what was said at the end of an exchange."""
    if window.closed or action_id in window.action_ids:
        # Read again; or a late answer to a closed conversation, which must not open a record that
        # nothing closes.
        return window, None
    action_ids = (*window.action_ids, action_id)[-_ACTION_IDS:]
    window = _with(replace(window, action_ids=action_ids), said)
    if (
        ending is None
        or _has_heard(window, ending.turn_id)
        # A turn whose id cannot be kept is not waited for, since it will not be heard.
        or not acceptable_id(ending.turn_id)
    ):
        return window, ending
    return replace(window, waiting=(*window.waiting, ending)[-_WAITING:]), None


def _has_heard(window: Followed, turn_id: str) -> bool:
    # Records of a time before ids were kept have them in their messages only.
    return turn_id in window.turn_ids or any(said.turn_id == turn_id for said in window.messages)


def _with(window: Followed, said: Said) -> Followed:
    """Put a message at its place in time, the topics being read side by side."""
    messages = list(window.messages)
    insort(messages, replace(said, text=said.text[:_MESSAGE_CHARACTERS]), key=_at)
    return replace(
        window,
        messages=tuple(messages[-_MESSAGES:]),
        updated_at=max(window.updated_at, said.at),
    )


def _at(said: Said) -> int:
    return said.at


def _closed(window: Followed) -> Followed:
    """Nothing but the watermarks."""
    return Followed(watermarks=window.watermarks, closed=True)


def window_format(*, idle_ms: int) -> RecordFormat[Followed]:
    """How followed conversations are stored.

    Args:
        idle_ms: time after the latest message when a window goes by itself. `decide` closes its
            conversations, and with them the windows; but a turn that is read after the command to
            forget, though written before it, begins a window that nothing else would end.
    """
    return RecordFormat(
        _ADAPTER,
        version=RECORD_VERSION,
        closed=_is_closed,
        timers=lambda state: (
            () if _is_closed(state) else (TimerDue("expiry", "expiry", state.updated_at + idle_ms),)
        ),
    )


def _is_closed(window: Followed) -> bool:
    """Whether only its watermarks matter: it is over, or nothing was said yet."""
    return window.closed or not window.messages
