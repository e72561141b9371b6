"""What an agent model has said and been told since the customer's turn.

An agent model goes on from its own replies: the calls that it asked for, their outcomes, and
reasoning that only its provider can read. That is kept with the activation, whole or not at all - a
provider refuses a reply with a part missing - and forgotten with it.

What a model is told of a call is settled when it is asked again, not before: a result whose value
the customer has corrected since is not shown any more, and a call that nobody answered has an
outcome all the same, since providers want one for each.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from turnstream.core.bounds import CHECKPOINT_BYTES, shortened
from turnstream.core.conversation import Activation, Conversation, Fact, LoopCall, LoopStep
from turnstream.core.envelope import (
    AWAITED,
    FAILED,
    INVALID,
    NOT_ANSWERED,
    NOT_MADE,
    SUPERSEDED,
    UNKNOWN_TOOL,
    CallFault,
    Envelope,
    are_usable,
)
from turnstream.core.evolution import evolved
from turnstream.core.json_arguments import unwritable
from turnstream.core.ports import LoopTurn, Message, Proposal, ProposedCall
from turnstream.core.publications import ActionEvent

_REPLY_DEPTH: Final = 100
"""Deepest nesting of a reply: the reader of records ends with an error at twice as much."""

_AWAITED_BYTES: Final = 1_024
"""Kept free for each outcome that is awaited: an error at least must fit when it comes."""

_NAME_CHARACTERS: Final = 64
"""Longest name of a tool that a model is told again; it may have made it up."""


def with_reply(
    state: Conversation,
    proposal: Proposal,
    *,
    spoken: int,
    made: Mapping[str, ActionEvent] | None = None,
    outcomes: Sequence[Envelope] = (),
    fault: str | None = None,
) -> Conversation | None:
    """Keep a model's reply.

    Args:
        state: its activation open.
        proposal: what the reply was read as. A decision model's leaves no trace.
        spoken: messages of the conversation when it was given.
        made: call id to the action that makes it.
        outcomes: of the calls that are not made.
        fault: why nothing of it is done, where that is so.

    Returns:
        The state, or None when the loop does not fit the record any more.
    """
    activation = state.activation
    if activation is None or (proposal.reply is None and not proposal.calls):
        return state
    if unwritable(proposal.reply, depth=_REPLY_DEPTH) is not None:
        return None
    known = {one.call_id: one for one in outcomes}
    usable = are_usable([call.call_id for call in proposal.calls])
    step = LoopStep(
        reply=proposal.reply,
        calls=tuple(
            _kept(call, (made or {}).get(call.call_id), known.get(call.call_id))
            for call in (proposal.calls if usable else ())
        ),
        fault=fault,
        spoken=spoken,
    )
    return _fitting(state, activation, (*activation.loop, step))


def _kept(call: ProposedCall, action: ActionEvent | None, outcome: Envelope | None) -> LoopCall:
    return LoopCall(
        call_id=call.call_id,
        tool=shortened(call.tool, _NAME_CHARACTERS),
        action_id=action.action_id if action is not None else None,
        outcome=outcome,
        write=action is not None and action.call is not None and action.call.effect == "write",
    )


def with_result(
    state: Conversation, fact: Fact, *, meaning: str | None = None
) -> Conversation | None:
    """Enter the outcome of a call.

    Args:
        state: with the fact in it.
        fact: what has come back.
        meaning: what the catalog says of the fact's error.

    Returns:
        The state, or None when the outcome does not fit the record any more.
    """

    def told(call: LoopCall) -> LoopCall:
        if call.action_id != fact.action_id:
            return call
        return replace(call, outcome=envelope_of(fact, call, meaning))

    activation = state.activation
    if activation is None or not activation.loop:
        return state
    loop = tuple(_with_calls(step, told) for step in activation.loop)
    return _fitting(state, activation, loop)


def with_answer_to_question(state: Conversation, field: str, text: str) -> Conversation | None:
    """Enter the customer's reply as the outcome of the call by which the model asked.

    Args:
        state: the question ended by the reply.
        field: what was asked for.
        text: what the customer wrote.

    Returns:
        The state, or None when the reply does not fit the record any more.
    """

    def told(call: LoopCall) -> LoopCall:
        if call.outcome is not None or call.action_id is not None:
            return call
        result: dict[str, JsonValue] = {"field": field, "reply": text}
        return replace(call, outcome=Envelope(call.call_id, call.tool, result))

    activation = state.activation
    if activation is None or not activation.loop or activation.loop[-1].fault is not None:
        return state
    *earlier, last = activation.loop
    return _fitting(state, activation, (*earlier, _with_calls(last, told)))


def may_try_again(envelope: Envelope, state: Conversation, *, retries: int) -> bool:
    """Whether a model may still correct a call that it has just made wrongly.

    Its tries are those of the tool, or of all tools that do not exist: replies in a row with such a
    call that passes no gate. Whether sound calls were made beside it changes nothing, for a model
    that repeats one beside others would never come to an end of its tries. A reply that calls the
    tool well ends the row, and so does a message of the customer; for tools that do not exist one
    that calls only tools which do. Replies without the tool neither count nor end the row.

    Args:
        envelope: of the call. What kept it from being made may also be no fault of the model.
        state: its activation open, the present reply not in its loop.
        retries: how often it may be made anew.
    """
    kind = _kind_of_fault(envelope)
    activation = state.activation
    if kind is None or activation is None:
        return True
    tries = 0
    for step in reversed(activation.loop):
        if step.spoken != state.spoken:
            break
        if kind in [_kind_of_fault(one.outcome) for one in step.calls if one.outcome is not None]:
            tries += 1
        elif any(one.action_id is not None and kind in ("", one.tool) for one in step.calls):
            break
    return tries < retries


def _kind_of_fault(envelope: Envelope) -> str | None:
    match envelope.error:
        case CallFault(code=code) if code == INVALID:
            return envelope.name
        case CallFault(code=code) if code == UNKNOWN_TOOL:
            return ""
    return None


def envelope_of(fact: Fact, call: LoopCall, meaning: str | None = None) -> Envelope:
    """What the model is told of a call's result."""
    if fact.superseded:
        return _withdrawn(call, done=fact.outcome == "done")
    if fact.outcome == "done" and fact.error_code is None:
        return Envelope(call.call_id, call.tool, fact.result or {})
    unknown = fact.outcome == "outcome_unknown"
    message = "nobody knows whether it was carried out" if unknown else "the call failed"
    fault = CallFault(fact.error_code or FAILED, meaning or message)
    return Envelope(call.call_id, call.tool, error=fault)


def laid_out(state: Conversation) -> tuple[tuple[Message, ...], tuple[LoopTurn, ...]]:
    """The history up to the first reply, and each reply with what came of it."""
    messages = [Message(one.role, one.text) for one in state.history]
    activation = state.activation
    if activation is None or not activation.loop:
        return tuple(messages), ()
    first = state.spoken - len(messages)
    """Number of the oldest message that is still there."""
    superseded = {fact.action_id for fact in state.facts if fact.superseded}
    loop = activation.loop
    ends = [*(step.spoken for step in loop[1:]), state.spoken]
    turns = []
    for step, end in zip(loop, ends, strict=True):
        heard = messages[max(step.spoken - first, 0) : max(end - first, 0)]
        if any(_is_reply(call) for call in step.calls):
            heard = _beside_question(heard, whole=step.spoken >= first)
        turns.append(
            LoopTurn(
                reply=step.reply,
                envelopes=tuple(_told(call, step, superseded) for call in step.calls),
                fault=step.fault,
                heard=tuple(heard),
            )
        )
    return tuple(messages[: max(loop[0].spoken - first, 0)]), tuple(turns)


def _told(call: LoopCall, step: LoopStep, superseded: set[str]) -> Envelope:
    outcome = call.outcome
    if outcome is not None:
        stale = outcome.error is None and call.action_id in superseded
        return _withdrawn(call, done=True) if stale else outcome
    if step.fault is not None:
        fault = CallFault(NOT_MADE, step.fault, retryable=True)
    elif call.action_id is not None:
        fault = CallFault(AWAITED, "its result is not there yet")
    else:
        fault = CallFault(NOT_ANSWERED, "the customer did not answer the question")
    return Envelope(call.call_id, call.tool, error=fault)


def _withdrawn(call: LoopCall, *, done: bool) -> Envelope:
    message = "the customer has corrected a value since: call again with the new one"
    if done and call.write:
        message = "it was carried out, with a value that the customer has corrected since"
    return Envelope(call.call_id, call.tool, error=CallFault(SUPERSEDED, message, retryable=True))


def _is_reply(call: LoopCall) -> bool:
    """Whether a call asked the customer and was answered."""
    return call.action_id is None and call.outcome is not None and call.outcome.error is None


def _beside_question(heard: Sequence[Message], *, whole: bool) -> list[Message]:
    """What was said beside a question, which came first, and its reply, which came last."""
    rest = list(heard[1:] if whole else heard)
    said = [at for at, one in enumerate(rest) if one.role == "customer"]
    reply = said[-1] if said else len(rest)
    return rest[:reply] + rest[reply + 1 :]


def _with_calls(step: LoopStep, told: Callable[[LoopCall], LoopCall]) -> LoopStep:
    return replace(step, calls=tuple(told(call) for call in step.calls))


def _fitting(
    state: Conversation, activation: Activation, loop: tuple[LoopStep, ...]
) -> Conversation | None:
    """The state with a loop, if all that it goes on from is within the checkpoint's bound."""
    awaited = sum(call.outcome is None for step in loop for call in step.calls)
    suspended = (loop, activation.called, activation.confirming, state.outstanding, state.timers)
    if len(to_json(suspended)) + awaited * _AWAITED_BYTES > CHECKPOINT_BYTES:
        return None
    return evolved(state, activation=evolved(activation, loop=loop))
