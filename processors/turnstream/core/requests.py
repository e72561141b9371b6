"""What a decider may know of a conversation."""

from turnstream.core.arguments import options, settled
from turnstream.core.conversation import Conversation, Fact
from turnstream.core.loop import laid_out
from turnstream.core.ports import DecisionRequest, ToolFact
from turnstream.core.questions import locale_of
from turnstream.core.ruleset import Ruleset


def request_for(
    state: Conversation, ruleset: Ruleset, *, fault: str | None = None
) -> DecisionRequest:
    """Lay out a conversation in phase `deciding` for its decider."""
    activation = state.activation
    opened = activation.opened_at_input if activation is not None else 0
    channel = ruleset.catalog.channels.get(state.channel_id)
    accepted = state.ending is not None and state.ending.how == "accepted"
    known = {}
    for field in state.values:
        value = settled(field, state)
        if value is not None:
            known[field] = value
    messages, loop = laid_out(state)
    return DecisionRequest(
        agent=state.agent,
        locale=locale_of(state, ruleset),
        interactive=channel is not None and channel.interactive,
        messages=messages,
        latest="\n".join(state.unanswered),
        known=known,
        tools=options(state, ruleset),
        facts=tuple(
            ToolFact(fact.tool, fact.outcome, fact.result, fact.error_code, fact.superseded)
            for fact in state.facts
            if fact.at_input >= opened
        ),
        answered_field=state.ending.question.field if state.ending and accepted else None,
        open_intent=_open_intent(state, ruleset),
        passages=state.passages,
        fault=fault,
        loop=loop,
    )


def _open_intent(state: Conversation, ruleset: Ruleset) -> str | None:
    """The tool that the ended question was needed for, or whose result has been corrected away."""
    intent = None
    if state.ending is not None:
        intent = state.ending.question.needed_for
    elif state.facts and _corrected_now(state.facts[-1], state):
        intent = state.facts[-1].tool
    return intent if intent in ruleset.plans else None


def _corrected_now(fact: Fact, state: Conversation) -> bool:
    """Whether the work under way is about a value that this result was not got for."""
    activation = state.activation
    if activation is None or not fact.superseded:
        return False
    if fact.at_input >= activation.opened_at_input:
        return True
    said = (state.values.get(field, {}).get("message") for field in fact.fields)
    return any(value is not None and value.at_input >= activation.heard_from for value in said)
