"""From a due decision to a rested conversation: budget, proposal, verdict, traces."""

from dataclasses import replace
from typing import Final

from turnstream.core.actions import Enacted, enact
from turnstream.core.calls import rejected_in
from turnstream.core.contract import HandoffCause
from turnstream.core.conversation import Activation, Conversation, move
from turnstream.core.effects import Input, Propose, Step
from turnstream.core.envelope import NOT_MADE, CallFault, Envelope
from turnstream.core.evolution import evolved
from turnstream.core.loop import with_answer_to_question, with_reply
from turnstream.core.policy import ask_for, judge
from turnstream.core.ports import Proposal
from turnstream.core.publications import ActionEvent
from turnstream.core.questions import ended
from turnstream.core.requests import request_for
from turnstream.core.ruleset import Ruleset
from turnstream.core.verdicts import (
    AnswerWith,
    Ask,
    Batch,
    Call,
    Fault,
    Verdict,
    action_of,
    handed_off,
)

LOOP: Final = "the model's replies and their results"
"""What is too large for the state."""


def activated(state: Conversation, turn_id: str) -> Conversation:
    """Begin the work on a customer's turn, with what is still waiting from before."""
    waiting = state.backlog
    if waiting is None:
        spoken = max(state.spoken - 1, 0)
        begun = Activation(turn_id, state.input_no, state.input_no, spoken=spoken)
        return evolved(state, activation=begun)
    begun = Activation(turn_id, waiting.at_input, state.input_no, spoken=waiting.spoken)
    return evolved(
        state,
        activation=begun,
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
    told = _replied(state)
    if told is None:
        return enacted(state, cause, handed_off("state_too_large", LOOP), ruleset)
    state, activation = told, told.activation
    if activation is None:
        # A copy that followed somebody else's decisions may not know how the work began.
        state = activated(state, "")
    elif activation.steps >= ruleset.catalog.agents[state.agent].max_steps:
        return enacted(state, cause, handed_off("max_steps"), ruleset)
    return Step(state, (Propose(request_for(state, ruleset)),))


def _replied(state: Conversation) -> Conversation | None:
    """Give an agent model the reply to its question as the outcome of the call it asked by."""
    ending = state.ending
    if ending is None or ending.how != "accepted":
        return state
    return with_answer_to_question(state, ending.question.field, "\n".join(state.unanswered))


def proposed(state: Conversation, cause: Input, proposal: Proposal, ruleset: Ruleset) -> Step:
    """Judge a proposal. A broken one is proposed afresh a bounded number of times."""
    verdict = judge(proposal, state, ruleset)
    taken = _taken(verdict, state, cause, proposal, ruleset)
    return Step(taken.state, taken.effects, rejected_in(proposal, verdict, state, ruleset))


def _taken(
    verdict: Verdict | Fault,
    state: Conversation,
    cause: Input,
    proposal: Proposal,
    ruleset: Ruleset,
) -> Step:
    """Act on a verdict, or ask again where there is none."""
    if not isinstance(verdict, Fault):
        return enacted(state, cause, verdict, ruleset, proposal)
    activation = state.activation
    if (
        activation is None
        or verdict.final
        or activation.proposals >= ruleset.catalog.agents[state.agent].max_retries
    ):
        return enacted(state, cause, _given_up(verdict, state, ruleset), ruleset, proposal)
    remembered = with_reply(
        state,
        proposal,
        spoken=state.spoken,
        outcomes=verdict.rejected,
        fault=verdict.message,
    )
    if remembered is None or remembered.activation is None:
        return enacted(state, cause, handed_off("state_too_large", LOOP), ruleset, proposal)
    again = evolved(remembered.activation, proposals=activation.proposals + 1)
    state = evolved(remembered, activation=again)
    return Step(state, (Propose(request_for(state, ruleset, fault=verdict.message)),))


def _given_up(fault: Fault, state: Conversation, ruleset: Ruleset) -> Verdict:
    """What is done after the last fault: the customer is asked if what lacks is theirs to say."""
    if fault.lacking is not None:
        field, tool = fault.lacking
        asking = ask_for(field, tool, state, ruleset)
        if isinstance(asking, Ask):
            return asking
    return handed_off(fault.cause, fault.message)


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
    kept = done.state
    if proposal is not None and isinstance(verdict, Batch | Ask):
        found = _with_its_reply(done, verdict, proposal, spoken=state.spoken)
        if found is None:
            return enacted(state, cause, handed_off("state_too_large", LOOP), ruleset, proposal)
        kept = found
    rested = move(kept, action)
    if action == "handoff":
        return Step(left_to_person(rested), done.effects)
    return Step(rested, done.effects)


def _with_its_reply(
    done: Enacted, verdict: Batch | Ask, proposal: Proposal, *, spoken: int
) -> Conversation | None:
    """The state with the agent model's reply, which it goes on from; None when that is too long."""
    if isinstance(verdict, Ask):
        outcomes = _unasked(verdict, proposal)
        return with_reply(done.state, proposal, spoken=spoken, outcomes=outcomes)
    actions = [one.event for one in done.effects if isinstance(one.event, ActionEvent)]
    names = [call.call_id for call in verdict.calls if call.call_id is not None]
    made = dict(zip(names, actions, strict=True))
    return with_reply(done.state, proposal, spoken=spoken, made=made, outcomes=verdict.rejected)


def _unasked(verdict: Ask, proposal: Proposal) -> list[Envelope]:
    """What a model is told of its calls when the customer is asked in their place."""
    if proposal.action == "ask":
        return []
    message = f"the customer is asked for {verdict.field} first"
    fault = CallFault(NOT_MADE, message, retryable=True)
    return [Envelope(call.call_id, call.tool, error=fault) for call in proposal.calls]


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


def subject_of(verdict: Verdict, ruleset: Ruleset, present: str | None = None) -> str | None:
    """What a verdict is about; None when it says nothing of that.

    Calls of one reply may be about several things: the present one where it is among them.
    """
    match verdict:
        case Call(tool=tool):
            return ruleset.catalog.subject_of_tool(tool)
        case Batch(calls=calls):
            subjects = [ruleset.catalog.subject_of_tool(call.tool) for call in calls]
            return present if present in subjects else subjects[0]
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
    subject = subject_of(verdict, ruleset, state.subject)
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
