"""Commands about the conversation, and inputs that could not be handled."""

from typing import assert_never

from turnstream.core.conversation import Conversation, move
from turnstream.core.decisions import activated, left_to_person, stopped
from turnstream.core.effects import DeadLetter, Input, Step
from turnstream.core.events import ConversationControl, ConversationTurn
from turnstream.core.evolution import evolved
from turnstream.core.facts import with_lost_writes
from turnstream.core.questions import end_said, ended
from turnstream.core.ruleset import Ruleset


def controlled(
    state: Conversation, cause: Input, control: ConversationControl, ruleset: Ruleset
) -> Step:
    """Obey a command."""
    state = evolved(state, updated_at=cause.now)
    match control.kind:
        case "take_over":
            return taken_over(state, cause)
        case "hand_back":
            if state.phase != "held":
                return Step(state)
            # What was ordered before has been told to the person; nobody else waits for it.
            facts = with_lost_writes(state, ruleset.limits)
            handed = move(state, "handed_back")
            return Step(evolved(handed, holder="bot", outstanding=(), facts=facts))
        case "close" | "forget":
            forgotten = control.kind == "forget"
            return closed(ended(state, "cancelled"), cause, forgotten=forgotten)
        case "cancel":
            agent = ruleset.catalog.agents[state.agent]
            if state.activation is None or "user_cancel" not in agent.stop_when:
                return Step(state)
            return stopped(state, cause, "user_cancel", ruleset)
        case "unrecognized":
            return Step(state, (DeadLetter("unrecognized_symbol", "kind of a control event"),))
        case _ as unreachable:
            assert_never(unreachable)


def taken_over(state: Conversation, cause: Input) -> Step:
    """A person has the conversation now; an open question ends."""
    state, said = end_said(ended(state, "cancelled"), cause)
    state = evolved(left_to_person(move(state, "person_takes_over")), holder="person")
    return Step(state, said)


def closed(state: Conversation, cause: Input, *, forgotten: bool = False) -> Step:
    """End the conversation. Only what protects against repetition and keeps the order is left.

    That goes too, with the record, as soon as the committed offsets have passed it.
    """
    if state.phase == "closed":
        return Step(evolved(state, turn_ids={}) if forgotten else state)
    state, said = end_said(state, cause)
    left = Conversation(
        input_no=state.input_no,
        watermarks=state.watermarks,
        phase=move(state, "close").phase,
        sequence=state.sequence,
        turn_ids={} if forgotten else state.turn_ids,
        updated_at=cause.now,
    )
    return Step(left, said)


def abandoned(
    state: Conversation, cause: Input, turn: ConversationTurn | None, ruleset: Ruleset
) -> Step:
    """An input that could not be handled: its record is kept elsewhere, and a person is told."""
    if turn is None:
        # Nobody waits for what a lost input would have said, unless something is under way.
        return Step(state) if state.activation is None else _lost(state, cause, ruleset)
    if state.phase != "held" and state.activation is None:
        state = activated(state, turn.turn_id)
    if not state.channel_id and turn.channel_id in ruleset.catalog.channels:
        state = evolved(state, channel_id=turn.channel_id)
    return _lost(state, cause, ruleset)


def flooded(state: Conversation, cause: Input, ruleset: Ruleset) -> Step:
    """Too many inputs other than turns are queued."""
    return Step(state) if state.activation is None else stopped(state, cause, "flood", ruleset)


def _lost(state: Conversation, cause: Input, ruleset: Ruleset) -> Step:
    return stopped(state, cause, "dead_letter", ruleset)
