"""From a due decision to a rested conversation: budget, proposal, verdict, traces."""

from dataclasses import replace

from turnstream.core.actions import enact
from turnstream.core.contract import HandoffCause
from turnstream.core.conversation import Activation, Conversation, move
from turnstream.core.effects import Input, Propose, Step
from turnstream.core.evolution import evolved
from turnstream.core.policy import (
    AnswerWith,
    Ask,
    Call,
    Fault,
    Verdict,
    action_of,
    handed_off,
    judge,
)
from turnstream.core.ports import Proposal
from turnstream.core.questions import ended
from turnstream.core.requests import request_for
from turnstream.core.ruleset import Ruleset


def activated(state: Conversation, turn_id: str) -> Conversation:
    """Begin the work on a customer's turn, with what is still waiting from before."""
    waiting = state.backlog
    if waiting is None:
        return evolved(state, activation=Activation(turn_id, state.input_no, state.input_no))
    return evolved(
        state,
        activation=Activation(turn_id, waiting.at_input, state.input_no),
        unanswered=(*waiting.texts, *state.unanswered),
        backlog=None,
    )


def deciding(state: Conversation, cause: Input, ruleset: Ruleset) -> Step:
    """Ask the decider, unless the activation's steps are used up.

    Args:
        state: in phase `deciding`.
        cause: the input that the decision is due to.
        ruleset: the compiled catalog and limits.
    """
    activation = state.activation
    if activation is None:
        # A copy that followed somebody else's decisions may not know how the work began.
        state = activated(state, "")
    elif activation.steps >= ruleset.catalog.agents[state.agent].max_steps:
        return enacted(state, cause, handed_off("max_steps"), ruleset)
    return Step(state, (Propose(request_for(state, ruleset)),))


def proposed(state: Conversation, cause: Input, proposal: Proposal, ruleset: Ruleset) -> Step:
    """Judge a proposal. A broken one is proposed afresh once, then a person takes over."""
    verdict = judge(proposal, state, ruleset)
    if not isinstance(verdict, Fault):
        return enacted(state, cause, verdict, ruleset, proposal)
    activation = state.activation
    if activation is None or activation.proposals > 0:
        handoff = handed_off(verdict.cause, verdict.message)
        return enacted(state, cause, handoff, ruleset, proposal)
    state = evolved(state, activation=evolved(activation, proposals=1))
    return Step(state, (Propose(request_for(state, ruleset, fault=verdict.message)),))


def enacted(
    state: Conversation,
    cause: Input,
    verdict: Verdict,
    ruleset: Ruleset,
    proposal: Proposal | None = None,
    *,
    silent: bool = False,
) -> Step:
    """Carry a verdict out and come to rest.

    Turns that waited stay waiting through answers, calls, questions and refusals; a handoff gives
    them to the person with everything else.
    """
    state = _on_subject(state, verdict, ruleset)
    done = enact(verdict, state, cause, ruleset, proposal, silent=silent)
    action = action_of(verdict)
    rested = move(done.state, action)
    if action == "handoff":
        return Step(left_to_person(rested), done.effects)
    return Step(rested, done.effects)


def left_to_person(state: Conversation) -> Conversation:
    """Drop what only we would have gone on with; a later result is still taken in."""
    return evolved(
        state,
        activation=None,
        backlog=None,
        unanswered=(),
        timers=tuple(one for one in state.timers if one.kind == "conversation_close"),
    )


def stopped(state: Conversation, cause: Input, why: HandoffCause, ruleset: Ruleset) -> Step:
    """End whatever is under way with a handoff; nothing more where a person has it already."""
    if state.phase == "held":
        return Step(state)
    state = move(ended(state, "cancelled"), "stop")
    return enacted(state, cause, handed_off(why), ruleset)


def subject_of(verdict: Verdict, ruleset: Ruleset) -> str | None:
    """What a verdict is about; None when it says nothing of that."""
    match verdict:
        case Call(tool=tool):
            return ruleset.catalog.subject_of_tool(tool)
        case Ask(needed_for=needed_for):
            return ruleset.catalog.subject_of_tool(needed_for)
        case AnswerWith(answer_id=str(answer_id)):
            answer = ruleset.catalog.answers[answer_id]
            if answer.subject is None and answer.of_tool is None:
                return None
            return ruleset.catalog.subject_of_answer(answer_id)
    return None


def _on_subject(state: Conversation, verdict: Verdict, ruleset: Ruleset) -> Conversation:
    """Note what the conversation is about now.

    Another subject starts a new epoch: values of the old one need confirmation before they are used
    again. What was said since the customer's turn belongs to the new one.
    """
    subject = subject_of(verdict, ruleset)
    if subject is None or subject == state.subject:
        return state
    if state.subject is None:
        return evolved(state, subject=subject)
    epoch = state.epoch + 1
    heard_from = state.activation.heard_from if state.activation is not None else state.input_no
    values = {
        field: {
            source: replace(value, epoch=epoch) if value.at_input >= heard_from else value
            for source, value in sources.items()
        }
        for field, sources in state.values.items()
    }
    return evolved(state, subject=subject, epoch=epoch, values=values)
