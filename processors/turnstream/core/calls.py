"""Whether a call may be made: rights, arguments, budgets, confidence, the customer's confirmation.

A decision model names a tool, and code fills the arguments from what the conversation knows. An
agent model writes the arguments itself, of several calls at once, and they go through the gates
(:mod:`turnstream.core.gates`). From there on both are the same.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from turnstream.core.allowed import needs_customer, permissions_lacking, unknown_tool
from turnstream.core.arguments import Filled, fill
from turnstream.core.bounds import CALL_BYTES, CALLS, QUESTION_BYTES, exceeds, shortened
from turnstream.core.business_rules import Bound, bounds_of, broken_rule
from turnstream.core.contract import HandoffCause
from turnstream.core.conversation import Conversation
from turnstream.core.definitions import MISSING_PERMISSION, Tool
from turnstream.core.envelope import NOT_CONFIRMED, NOT_MADE, CallFault, Envelope, are_usable
from turnstream.core.facts import bounding_results, results_found
from turnstream.core.gates import Rejected, Unentitled, passed
from turnstream.core.loop import may_try_again
from turnstream.core.ports import Proposal, ProposedCall
from turnstream.core.questions import confirmation_of
from turnstream.core.ruleset import Ruleset
from turnstream.core.verdicts import (
    Ask,
    Batch,
    Call,
    Fault,
    HandOff,
    Refuse,
    Verdict,
    handed_off,
    open_activation,
    unless_doubtful,
)

_NAME_CHARACTERS: Final = 64
"""Longest name of a tool that a model is told again; it may have made it up."""

_TOO_MANY: Final = Rejected(
    CallFault(NOT_MADE, f"at most {CALLS} calls of one reply are made", retryable=True)
)

_TOLD_FIRST: Final[Mapping[HandoffCause, CallFault]] = {
    "no_progress": CallFault(NOT_MADE, "made already with these arguments; nothing is new since"),
    "user_cancel": CallFault(NOT_CONFIRMED, "the customer said no"),
}
"""What ends a decision model's call, and what an agent model may still go on from."""


def call_of(proposal: Proposal, conversation: Conversation, ruleset: Ruleset) -> Verdict | Fault:
    """What becomes of a proposal to call."""
    if proposal.calls:
        return _batch(proposal, conversation, ruleset)
    name = proposal.tool or ""
    tool = ruleset.catalog.tools.get(name)
    if tool is None:
        return Fault("schema_fail", unknown_tool(conversation, ruleset))
    barred = _barred(name, tool, conversation)
    if barred is not None:
        return barred
    filled = fill(name, conversation, ruleset)
    if filled.blocked:
        return handed_off("tool_unavailable", f"{name} lacks {', '.join(filled.blocked)}")
    unknown = (*filled.missing, *filled.ambiguous)
    if unknown:
        return Fault(
            "contradiction", f"tool {name!r} cannot be called: {', '.join(unknown)} is not known"
        )
    check = ruleset.checks.get(name)
    broken = check(filled.arguments) if check is not None else None
    if broken is not None:
        return handed_off("schema_fail", f"{name} {broken.path}: {broken.keyword}")
    breach = _breach(name, filled, conversation, ruleset)
    return breach or _sound(proposal, name, filled, conversation, ruleset)


def _breach(
    name: str, filled: Filled, conversation: Conversation, ruleset: Ruleset
) -> Refuse | HandOff | Fault | None:
    """What is done instead of a call that breaks a rule, its arguments filled in by code."""
    session = conversation.session
    breach = broken_rule(
        ruleset.catalog.tools[name].rules,
        filled.arguments,
        permissions=session.permissions if session is not None else (),
        found=results_found(conversation),
        fresh=bounding_results(conversation, name, ruleset),
    )
    if breach is None:
        return None
    if breach.permission is not None:
        return _lacks_permission(breach.permission)
    if breach.unfounded:
        # Something else must be called first, and that is the decider's to see.
        return Fault("schema_fail", f"{name} /{breach.argument} {breach.message}")
    return handed_off("schema_fail", f"{name} /{breach.argument}: rule")


def _batch(proposal: Proposal, conversation: Conversation, ruleset: Ruleset) -> Verdict | Fault:
    """The calls of an agent model's reply: the sound ones are made, of the others it is told.

    What the session does not allow, and what only a person or the customer may decide, decides
    about all of them. So does a call that is broken once more than the agent's `maxRetries`: the
    tries are counted for each tool, and sound calls beside it give it no new ones.
    """
    if not are_usable([call.call_id for call in proposal.calls]):
        return Fault("schema_fail", "the calls of the reply need ids that tell them apart")
    calls: list[Call] = []
    rejected: list[Envelope] = []
    first: tuple[str, Rejected] | None = None
    spent: tuple[str, Rejected] | None = None
    retries = ruleset.catalog.agents[conversation.agent].max_retries
    lacking: tuple[str, str] | None = None
    for at, proposed in enumerate(proposal.calls):
        judged = _judged(proposed, proposal, conversation, ruleset) if at < CALLS else _TOO_MANY
        if isinstance(judged, Call):
            judged = _beside(judged, calls, ruleset)
        if isinstance(judged, Call):
            calls.append(replace(judged, call_id=proposed.call_id))
        elif isinstance(judged, Rejected):
            name = shortened(proposed.tool, _NAME_CHARACTERS)
            rejected.append(Envelope(proposed.call_id, name, error=judged.fault))
            first = first or (name, judged)
            if not may_try_again(rejected[-1], conversation, retries=retries):
                spent = spent or (name, judged)
            if judged.lacking is not None and lacking is None:
                lacking = (judged.lacking, proposed.tool)
        else:
            return judged
    if spent is not None:
        first, calls = spent, []
        name, why = spent
        lacking = (why.lacking, name) if why.lacking is not None else None
    if first is not None and not calls:
        name, why = first
        message = _named(name, why.fault)
        return Fault(why.cause, message, tuple(rejected), lacking, final=spent is not None)
    return Batch(tuple(calls), tuple(rejected))


def rejected_in(
    proposal: Proposal, verdict: Verdict | Fault, conversation: Conversation, ruleset: Ruleset
) -> tuple[Envelope, ...]:
    """The calls of a reply that pass no gate, also where another of its calls decided about all."""
    if isinstance(verdict, Batch | Fault):
        return verdict.rejected
    if proposal.action != "call_tool" or len(proposal.calls) < 2:  # noqa: PLR2004 - one decided
        return ()
    judged = [
        (one, _judged(one, proposal, conversation, ruleset)) for one in proposal.calls[:CALLS]
    ]
    return tuple(
        Envelope(one.call_id, shortened(one.tool, _NAME_CHARACTERS), error=why.fault)
        for one, why in judged
        if isinstance(why, Rejected)
    )


def _judged(
    proposed: ProposedCall, proposal: Proposal, conversation: Conversation, ruleset: Ruleset
) -> Verdict | Rejected:
    """What becomes of one call, the others left aside."""
    tool = ruleset.catalog.tools.get(proposed.tool)
    barred = _barred(proposed.tool, tool, conversation) if tool is not None else None
    if barred is not None:
        return barred
    checked = passed(proposed, conversation, ruleset)
    if isinstance(checked, Unentitled):
        return _lacks_permission(checked.permission)
    if isinstance(checked, Rejected):
        return checked
    verdict = _sound(proposal, proposed.tool, checked, conversation, ruleset)
    if isinstance(verdict, HandOff) and verdict.cause is not None:
        told = _TOLD_FIRST.get(verdict.cause)
        return verdict if told is None else Rejected(told, cause=verdict.cause)
    return verdict


def _beside(call: Call, others: Sequence[Call], ruleset: Ruleset) -> Call | Rejected:
    """A call beside those of the same reply that are made."""
    if any(call.fingerprint == other.fingerprint for other in others):
        return Rejected(CallFault(NOT_MADE, "the same call is in this reply twice"))
    if len(to_json([one.filled.fields for one in (call, *others)])) > CALL_BYTES:
        message = "the calls of this reply are too large together: call again without the others"
        return Rejected(CallFault(NOT_MADE, message, retryable=True))
    waits = _waits_for(call, others, ruleset)
    if waits is not None:
        return Rejected(CallFault(NOT_MADE, waits, retryable=True))
    return call


def _waits_for(call: Call, others: Sequence[Call], ruleset: Ruleset) -> str | None:
    """Why a call must wait for the results of others, so that no bound is passed together.

    All were held against what had been found before. Which of them a service does first nobody
    knows, so a bound that is looked up beside the write may be the one that held before it.
    """
    mine = _used_up(call, ruleset)
    for other in others:
        theirs = _used_up(other, ruleset)
        if any(one.may_be(their) for one in mine for their in theirs):
            return f"{other.tool} in this reply has the same bound: look that up again afterwards"
        if other.tool in [one.tool for one in mine] or call.tool in [one.tool for one in theirs]:
            return f"{other.tool} is called first: call again after its result"
    return None


def _used_up(call: Call, ruleset: Ruleset) -> tuple[Bound, ...]:
    """The looked-up bounds that a call leaves no other call."""
    tool = ruleset.catalog.tools[call.tool]
    return bounds_of(tool.rules, call.filled.arguments) if tool.effect == "write" else ()


def _named(tool: str, fault: CallFault) -> str:
    """A fault as it is published: names of the catalog, nothing that the model wrote."""
    if fault.keyword is None:
        return fault.message
    place = "/".join(fault.path.split("/")[:2]) if fault.path else ""
    return f"{tool} {place}: {fault.keyword}" if place else f"{tool}: {fault.keyword}"


def _sound(
    proposal: Proposal,
    name: str,
    filled: Filled,
    conversation: Conversation,
    ruleset: Ruleset,
) -> Call | Ask | HandOff:
    """A call whose arguments are in order, unless something else stands against it."""
    tool = ruleset.catalog.tools[name]
    characters = sum(len(field) + len(value) + 32 for field, value in filled.fields.items())
    if exceeds(filled.fields, CALL_BYTES, characters=characters):
        return handed_off("state_too_large", f"the arguments of {name}")
    fingerprint = call_fingerprint(name, filled.arguments)
    activation = open_activation(conversation)
    if activation.called.get(fingerprint, -1) >= activation.progress:
        return handed_off("no_progress", f"{name} again with equal arguments")
    if tool.effect == "write" and tool.threshold is None:
        return handed_off("below_threshold", f"{name} has no threshold")
    verdict = unless_doubtful(proposal, Call(name, filled, fingerprint), ruleset)
    if isinstance(verdict, Call) and tool.confirm is not None:
        return _confirmed(verdict, tool.confirm, conversation, ruleset)
    return verdict


def _confirmed(
    call: Call, field: str, conversation: Conversation, ruleset: Ruleset
) -> Call | Ask | HandOff:
    """A call that the customer has said yes to; else the question, or what a no leads to.

    The yes is to this call with these arguments, after they were shown. Another call, or another
    value, takes another, and so does the same call once it has been made.
    """
    confirming = open_activation(conversation).confirming
    allowed = confirming.get(call.fingerprint, confirming.get(call.tool))
    if allowed:
        return call
    if allowed is not None:
        return handed_off("user_cancel", f"{call.tool} was not confirmed")
    offer = confirmation_of(field, call.tool, call.filled.arguments, conversation, ruleset)
    channel = ruleset.catalog.channels.get(conversation.channel_id)
    if channel is None or not channel.interactive:
        return handed_off("no_interactive_channel")
    if (
        open_activation(conversation).questions
        >= ruleset.catalog.agents[conversation.agent].max_questions
    ):
        return handed_off("budget", "max_questions")
    if not offer.text or exceeds(offer, QUESTION_BYTES, characters=offer.characters):
        return handed_off("tool_unavailable", f"{field} has no approved question that fits")
    return Ask(field, call.tool, offer, confirms=call.fingerprint)


def _lacks_permission(permission: str) -> Refuse:
    return Refuse(MISSING_PERMISSION, permission)


def _barred(name: str, tool: Tool, conversation: Conversation) -> Verdict | None:
    """What is done instead of a call that the session does not allow."""
    lacking = permissions_lacking(tool, conversation)
    if lacking:
        return _lacks_permission(", ".join(lacking))
    if needs_customer(tool, conversation):
        return handed_off("tool_unavailable", f"{name} needs an authenticated customer")
    return None


def call_fingerprint(tool: str, arguments: Mapping[str, JsonValue]) -> str:
    """16 hex digits of a tool and its arguments, the same for equal arguments in any order."""
    named = [[name, _ordered(arguments[name])] for name in sorted(arguments)]
    return hashlib.blake2b(to_json([tool, named]), digest_size=8).hexdigest()


def _ordered(value: JsonValue) -> JsonValue:
    """The same value, objects as sorted pairs, so that equal ones are written alike."""
    if isinstance(value, list):
        return [_ordered(one) for one in value]
    if not isinstance(value, Mapping):
        return value
    # Marked, so that no list is written like an object.
    return {"": [[name, _ordered(value[name])] for name in sorted(value)]}
