"""Due times: deadlines, a question's expiry, the end of an idle conversation.

A timer that comes twice, or too late to matter, is not in the state any more and changes nothing.
"""

from typing import assert_never

from turnstream.core.contract import HandoffCause
from turnstream.core.controls import closed
from turnstream.core.conversation import Conversation, TimerEntry, move
from turnstream.core.decisions import stopped
from turnstream.core.effects import Input, Step
from turnstream.core.events import Timer
from turnstream.core.evolution import evolved
from turnstream.core.questions import end_said, ended
from turnstream.core.ruleset import Ruleset


def timer_fired(state: Conversation, cause: Input, timer: Timer, ruleset: Ruleset) -> Step:
    """Take the news that a due time has passed."""
    entry = next((one for one in state.timers if one.timer_id == timer.timer_id), None)
    if entry is None:
        return Step(state)
    state = evolved(state, timers=tuple(one for one in state.timers if one is not entry))
    match entry.kind:
        case "call_deadline" | "answer_deadline":
            return _deadline(state, cause, entry, ruleset)
        case "question_expiry":
            if state.open_question is None:
                return Step(state)
            state = move(ended(state, "expired"), "question_expired")
            state, said = end_said(evolved(state, activation=None, unanswered=()), cause)
            return Step(state, said)
        case "conversation_close":
            return _idle_long_enough(state, cause, entry, ruleset)
        case _ as unreachable:
            assert_never(unreachable)


def with_close_timer(state: Conversation, due_at: int) -> Conversation:
    """Set when the conversation is looked at for its end."""
    entry = TimerEntry(f"conversation_close/{due_at}", "conversation_close", due_at)
    others = [one for one in state.timers if one.kind != "conversation_close"]
    return evolved(state, timers=(*others, entry))


def _deadline(state: Conversation, cause: Input, entry: TimerEntry, ruleset: Ruleset) -> Step:
    writes = any(one.write for one in state.outstanding if entry.timer_id.endswith(one.action_id))
    late: HandoffCause = "outcome_unknown" if writes else "tool_unavailable"
    return stopped(state, cause, late, ruleset)


def _idle_long_enough(
    state: Conversation, cause: Input, entry: TimerEntry, ruleset: Ruleset
) -> Step:
    """Close an idle conversation; one with activity since, or with work under way, is given time.

    An open question that has no expiry of its own is waited for longer, but not for ever.
    """
    limits = ruleset.limits
    patience, resting = limits.conversation_ttl_ms, state.phase in ("idle", "held")
    question = state.open_question
    if question is not None:
        patience = max(patience, limits.question_ttl_ms)
        resting = question.expires_at is None
    if resting and state.updated_at + patience <= entry.due_at:
        return closed(ended(state, "expired"), cause)
    due_at = state.updated_at + patience
    if due_at <= entry.due_at:
        due_at = entry.due_at + patience
    return Step(with_close_timer(state, due_at))
