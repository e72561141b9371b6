"""The executor's journal: one record per action, so that no call is made twice.

A record is kept for the journal's retention, counted from the decision, and never shorter than the
action may still be carried out. From then on the action itself is refused as expired, so it needs
no record any more. Nothing is removed earlier, however many records there are: at the configured
number of them the partition takes no new action until older ones expire. A minute is added for
clocks that are put back; it protects against no more than that.

A call that was begun normally ends in its own action's handling, after a crash in that of the next
owner. Its record goes by age only when everything that was in the partition by then has been
handled: the action is not there any more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import TypeAdapter

from turnstream.core.publications import ActionEvent, CallPayload
from turnstream.roles.records import RecordFormat
from turnstream.stream import TimerDue

RECORD_VERSION: Final = 1

_CLOCK_SLACK_MS: Final = 60_000
"""Kept beyond the expiry: a clock that is put back must not bring an action back to life.

Whether an action has expired is asked of this process's clock, and this is all that stands between
a clock put back and a second call: by a minute its record is still there. By more, an action whose
record is gone may count as fresh again.
"""

LOST: Final = "lost"
"""Kind of the timer of a call that was begun and whose action never came back, deleted by retention
or passed over by whoever moved the group's offsets. Its id is the tool's name."""

Phase = Literal["started", "done", "outcome_unknown"]


@dataclass(frozen=True, slots=True)
class Execution:
    """The journal record of one call."""

    action_id: str
    tool: str
    phase: Phase
    attempts: int
    """Calls begun, or about to be."""
    updated_at: int
    """Milliseconds UTC."""
    expires_at: int
    """Milliseconds UTC: from then on the action is refused, record or no record."""
    result_hash: str | None = None
    """SHA-256 of the result as published."""
    watermarks: Mapping[str, int] = field(default_factory=dict)
    record_version: int = RECORD_VERSION


_ADAPTER: Final = TypeAdapter(Execution)


def is_expired(action: ActionEvent, call: CallPayload, *, retention_ms: int, now: int) -> bool:
    """Whether an action is too old to be carried out: its record may be gone.

    Args:
        action: the action.
        call: its call.
        retention_ms: how long records are kept.
        now: milliseconds UTC.
    """
    return now >= min(call.deadline_at, action.decided_at + retention_ms)


def expires_at(action: ActionEvent, call: CallPayload, *, retention_ms: int) -> int:
    """When the record of an action is of no use any more, milliseconds UTC."""
    return max(call.deadline_at, action.decided_at + retention_ms)


def journal_format(*, retention_ms: int) -> RecordFormat[Execution]:
    """How executions are stored: until the action itself is refused as expired.

    So the same action, however it comes back - a replay, a mirrored topic -, is never called twice.
    A record that cannot be read goes with the last action that it may be of: the next record of its
    key would normally never come.

    Args:
        retention_ms: how long after its decision an action may still be carried out.
    """
    return RecordFormat(
        _ADAPTER,
        version=RECORD_VERSION,
        closed=lambda _: False,
        timers=_expiry,
        kept_ms=retention_ms + _CLOCK_SLACK_MS,
    )


def _expiry(state: Execution) -> Sequence[TimerDue]:
    due_at = state.expires_at + _CLOCK_SLACK_MS
    if state.phase == "started":
        # Its action may still be to come again, and would pass for one that was never begun.
        return (TimerDue(state.tool, LOST, due_at, after_backlog=True),)
    return (TimerDue("expiry", "expiry", due_at),)
