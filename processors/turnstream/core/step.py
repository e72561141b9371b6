"""The conversation machine: ``step(state, input) -> Step(state, effects)``.

Theory of operation. An input is first *entered*: its number, its offset, what it says. Then it does
one of three things. It may only be recorded (a turn while a person holds the conversation, a result
that nobody waits for); an :class:`~turnstream.core.publications.Outcome` says so where a customer
wrote. It may open or continue an *activation* - the work from a customer's turn to the final
answer -, and then the step ends in phase `deciding` with a
:class:`~turnstream.core.effects.Propose`; the shell asks the decider and steps again with the
proposal. Or code alone decides (a deadline, a budget, an unknown outcome): always a handoff.

A step never raises for anything that a conversation, a model or a tool did. It never ends an input
without an action, an outcome or a reason why none is due.
"""

from dataclasses import replace
from typing import assert_never

from turnstream.core.controls import abandoned, controlled, flooded
from turnstream.core.conversation import Conversation
from turnstream.core.decisions import enacted, proposed
from turnstream.core.effects import Abandoned, Flooded, Input, Step, Undecided
from turnstream.core.events import (
    Answer,
    ConversationControl,
    ConversationTurn,
    Label,
    Timer,
    ToolResult,
)
from turnstream.core.evolution import evolved
from turnstream.core.ports import Proposal
from turnstream.core.results import answer_taken, result_taken
from turnstream.core.ruleset import Ruleset
from turnstream.core.timers import timer_fired, with_close_timer
from turnstream.core.turns import turn_flooded, turn_taken
from turnstream.core.verdicts import handed_off


def step(conversation: Conversation | None, cause: Input, ruleset: Ruleset) -> Step:
    """Take one input.

    Args:
        conversation: the stored state, or None for a conversation that is not known.
        cause: what has become known. A :class:`~turnstream.core.ports.Proposal` or `Undecided` is
            legal only for the state of a step that ended with a `Propose`.
        ruleset: the compiled catalog and the deployment's limits.

    Returns:
        The new state and the effects. Without a `Propose` among them the state is at rest.
    """
    state = conversation or Conversation()
    match cause.event:
        case Proposal() as proposal:
            taken = proposed(state, cause, proposal, ruleset)
        case Undecided(detail=detail, diagnostics=diagnostics):
            verdict = replace(handed_off("budget", detail), diagnostics=diagnostics)
            taken = enacted(state, cause, verdict, ruleset)
        case _:
            taken = _taken(_entered(state, cause, ruleset), cause, ruleset)
    return _certain_to_end(taken, cause, ruleset)


def _taken(state: Conversation, cause: Input, ruleset: Ruleset) -> Step:
    match cause.event:
        case ConversationTurn() as turn:
            return turn_taken(state, cause, turn, ruleset)
        case ConversationControl() as control:
            return controlled(state, cause, control, ruleset)
        case ToolResult() as result:
            return result_taken(state, cause, result, ruleset)
        case Answer() as answer:
            return answer_taken(state, cause, answer, ruleset)
        case Timer() as timer:
            return timer_fired(state, cause, timer, ruleset)
        case Abandoned(turn=turn):
            return abandoned(state, cause, turn, ruleset)
        case Flooded(turn=turn):
            if turn is None:
                return flooded(state, cause, ruleset)
            return turn_flooded(state, cause, turn, ruleset)
        case Label() | Proposal() | Undecided():
            # A label changes nothing here; the other two have been taken above.
            return Step(state)
        case _ as unreachable:
            assert_never(unreachable)


def _entered(state: Conversation, cause: Input, ruleset: Ruleset) -> Conversation:
    """Count an input and move its topic's watermark."""
    handled = max(cause.offset, state.watermarks.get(cause.topic, -1))
    known = state.agent in ruleset.catalog.agents
    return evolved(
        state,
        input_no=state.input_no + 1,
        watermarks={**state.watermarks, cause.topic: handled},
        agent=state.agent if known else ruleset.catalog.entry_agent,
        updated_at=state.updated_at or cause.now,
    )


def _certain_to_end(taken: Step, cause: Input, ruleset: Ruleset) -> Step:
    """See to it that a conversation at rest has a timer that will close it some day."""
    state = taken.state
    if state.phase in ("closed", "deciding"):
        return taken
    for timer in state.timers:
        if timer.kind == "conversation_close":
            return taken
    due_at = cause.now + ruleset.limits.conversation_ttl_ms
    return Step(with_close_timer(state, due_at), taken.effects, taken.rejected)
