"""The model proposes; this module disposes.

:func:`judge` takes a decider's proposal and the conversation, and gives one of two things: what
will really be done, checked against the contract, the catalog, the session's rights, the
thresholds and the budgets; or a fault, when the proposal itself is broken. A fault is never
repaired into an action: the decider gets one more try that names it, then a person takes over.

Rights come from session claims only. Nothing that a customer writes, and nothing in a document or a
tool's result, grants any.
"""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, assert_never

from pydantic import JsonValue
from pydantic_core import to_json

from turnstream.core.arguments import Filled, fill, find
from turnstream.core.bounds import (
    ANSWER_CHARACTERS,
    CALL_BYTES,
    QUESTION_BYTES,
    cleaned,
    exceeds,
)
from turnstream.core.contract import (
    ACTIONS,
    HANDOFF_CAUSES,
    REASON_CODES,
    Action,
    Decision,
    HandoffCause,
    ReasonCode,
    faults,
    reason_for,
)
from turnstream.core.conversation import Activation, Conversation
from turnstream.core.definitions import FREE_TEXT, MISSING_PERMISSION, Tool
from turnstream.core.evolution import dataclass
from turnstream.core.facts import supports
from turnstream.core.ports import Proposal
from turnstream.core.questions import Offer, offer_of
from turnstream.core.ruleset import ArgumentPlan, Ruleset

_ACTIONS: Final = frozenset(ACTIONS)
_REASONS: Final = frozenset(REASON_CODES)
_CAUSES: Final = frozenset(HANDOFF_CAUSES)


@dataclass(frozen=True, slots=True)
class AnswerWith:
    """Give an approved answer, or a model's own text."""

    answer_id: str | None
    text: str | None


@dataclass(frozen=True, slots=True)
class Call:
    """Call a tool."""

    tool: str
    filled: Filled
    fingerprint: str
    """Hash of tool and arguments, for the no-progress stop."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the customer for a field."""

    field: str
    needed_for: str
    offer: Offer
    """The approved question as it will be asked."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Refuse what a rule of the catalog forbids."""

    rule: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class HandOff:
    """Bring a person in."""

    cause: HandoffCause | None
    reason: ReasonCode
    detail: str | None = None


Verdict = AnswerWith | Call | Ask | Refuse | HandOff


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a proposal cannot be acted on."""

    cause: HandoffCause
    """`contradiction` or `schema_fail`: what the handoff says if the fault remains."""
    message: str
    """Names the fault for the decider's second try: names of the catalog, no customer text."""


def action_of(verdict: Verdict) -> Action:
    """The action of the contract that a verdict is."""
    match verdict:
        case AnswerWith():
            return "answer"
        case Call():
            return "call_tool"
        case Ask():
            return "ask"
        case Refuse():
            return "refuse"
        case HandOff():
            return "handoff"
        case _ as unreachable:
            assert_never(unreachable)


def decision_of(verdict: Verdict) -> Decision:
    """The row of the contract that a verdict fills."""
    match verdict:
        case AnswerWith():
            return _ANSWER
        case Call(tool=tool):
            return _calling(tool)
        case Ask(field=field):
            return _asking(field)
        case Refuse():
            return _REFUSE
        case HandOff(reason=reason):
            return _HANDOFF[reason]
        case _ as unreachable:
            assert_never(unreachable)


# One decision per tool and per field, made once: both come from the catalog, which is finite.
@lru_cache(maxsize=1024)
def _calling(tool: str) -> Decision:
    return Decision(
        action="call_tool", tool=tool, missing_field=None, reason_code="lookup_required"
    )


@lru_cache(maxsize=1024)
def _asking(field: str) -> Decision:
    return Decision(action="ask", tool=None, missing_field=field, reason_code="missing_input")


_ANSWER: Final = Decision(
    action="answer", tool=None, missing_field=None, reason_code="context_sufficient"
)
_REFUSE: Final = Decision(
    action="refuse", tool=None, missing_field=None, reason_code="policy_block"
)
_HANDOFF: Final = {
    reason: Decision(action="handoff", tool=None, missing_field=None, reason_code=reason)
    for reason in ("unsupported", "uncertain")
}


def handed_off(cause: HandoffCause, detail: str | None = None) -> HandOff:
    """A handoff of our own, with the reason that its cause maps to."""
    return HandOff(cause, reason_for(cause), detail)


def judge(proposal: Proposal, conversation: Conversation, ruleset: Ruleset) -> Verdict | Fault:
    """Check a proposal against everything that code alone may decide.

    Args:
        proposal: the decider's reply, unchecked.
        conversation: the state in phase `deciding`, its activation open.
        ruleset: the compiled catalog and limits.
    """
    action = proposal.action
    if action not in _ACTIONS:
        return Fault("schema_fail", f"unknown action; allowed: {', '.join(ACTIONS)}")
    if proposal.reason_code not in _REASONS:
        return Fault("schema_fail", f"unknown reason_code; allowed: {', '.join(REASON_CODES)}")
    known: Action = action
    reason: ReasonCode = proposal.reason_code
    broken = faults(known, proposal.tool, proposal.missing_field, reason)
    if broken:
        return Fault("contradiction", "; ".join(broken))
    if known != "handoff" and not _are_probabilities(proposal):
        return Fault("schema_fail", "confidence and margin must be numbers from 0 to 1")
    match known:
        case "answer":
            return _answer(proposal, conversation, ruleset)
        case "call_tool":
            return _call(proposal, conversation, ruleset)
        case "ask":
            return _ask(proposal, conversation, ruleset)
        case "refuse":
            return _refuse(proposal, ruleset)
        case "handoff":
            return _hand_off(proposal, reason)
        case _ as unreachable:
            assert_never(unreachable)


def _are_probabilities(proposal: Proposal) -> bool:
    # NaN fails here: it compares false with everything.
    margin = proposal.margin
    return 0 <= proposal.confidence <= 1 and (margin is None or 0 <= margin <= 1)


def _answer(proposal: Proposal, conversation: Conversation, ruleset: Ruleset) -> Verdict | Fault:
    if proposal.answer_id is None:
        text = cleaned(proposal.text or "")
        if not text.strip():
            return Fault("schema_fail", "an answer needs an approved answer or a text")
        if len(text) > ANSWER_CHARACTERS:
            return Fault(
                "schema_fail",
                f"the answer has {len(text)} characters; at most {ANSWER_CHARACTERS} are allowed",
            )
        return _unless_doubtful(proposal, AnswerWith(None, text), ruleset)
    answer_id = proposal.answer_id
    answer = ruleset.catalog.answers.get(answer_id)
    if answer is None:
        allowed = ", ".join(ruleset.catalog.answers)
        return Fault("schema_fail", f"unknown answer; allowed: {allowed}")
    if answer.of_tool is not None:
        opened = _activation(conversation).opened_at_input
        if not any(
            fact.tool == answer.of_tool
            and fact.at_input >= opened
            and supports(fact, answer_id, ruleset)
            for fact in conversation.facts
        ):
            return Fault(
                "contradiction",
                f"answer {answer_id!r} presents a result of {answer.of_tool!r}, and there is none",
            )
    return _unless_doubtful(proposal, AnswerWith(answer_id, None), ruleset)


def _call(proposal: Proposal, conversation: Conversation, ruleset: Ruleset) -> Verdict | Fault:
    name = proposal.tool or ""
    tool = ruleset.catalog.tools.get(name)
    if tool is None:
        return Fault("schema_fail", f"unknown tool; allowed: {', '.join(ruleset.catalog.tools)}")
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
    characters = sum(len(field) + len(value) + 32 for field, value in filled.fields.items())
    if exceeds(filled.fields, CALL_BYTES, characters=characters):
        return handed_off("state_too_large", f"the arguments of {name}")
    check = ruleset.checks.get(name)
    broken = check(filled.arguments) if check is not None else None
    if broken is not None:
        return handed_off("schema_fail", f"{name} {broken.path}: {broken.keyword}")
    fingerprint = call_fingerprint(name, filled.arguments)
    activation = _activation(conversation)
    if activation.called.get(fingerprint, -1) >= activation.progress:
        return handed_off("no_progress", f"{name} again with equal arguments")
    if tool.effect == "write" and tool.threshold is None:
        return handed_off("below_threshold", f"{name} has no threshold")
    return _unless_doubtful(proposal, Call(name, filled, fingerprint), ruleset)


def _barred(name: str, tool: Tool, conversation: Conversation) -> Verdict | None:
    """What is done instead of a call that the session does not allow."""
    session = conversation.session
    granted = session.permissions if session is not None else ()
    lacking = [one for one in tool.required_permissions if one not in granted]
    if lacking:
        return Refuse(MISSING_PERMISSION, ", ".join(lacking))
    if tool.data_scope == "own" and (session is None or not session.subject_id):
        return handed_off("tool_unavailable", f"{name} needs an authenticated customer")
    return None


def _ask(proposal: Proposal, conversation: Conversation, ruleset: Ruleset) -> Verdict | Fault:
    field = proposal.missing_field or ""
    if field == FREE_TEXT or field not in ruleset.catalog.fields:
        return Fault("schema_fail", f"unknown field; allowed: {', '.join(ruleset.catalog.fields)}")
    needed_for = proposal.needed_for or _step_that_needs(field, conversation, ruleset)
    if needed_for is None or needed_for not in ruleset.plans:
        return Fault("contradiction", f"no step needs field {field!r}")
    plan = next((plan for plan in ruleset.plans[needed_for] if plan.field == field), None)
    if plan is None:
        return Fault("contradiction", f"{needed_for!r} does not need field {field!r}")
    if _known(plan, conversation, needed_for, ruleset):
        return Fault("contradiction", f"field {field!r} is known already")
    offer = offer_of(field, needed_for, conversation, ruleset)
    stopped = _unaskable(plan, offer, conversation, ruleset)
    if stopped is not None:
        return stopped
    return _unless_doubtful(proposal, Ask(field, needed_for, offer), ruleset)


def _unaskable(
    plan: ArgumentPlan, offer: Offer, conversation: Conversation, ruleset: Ruleset
) -> HandOff | None:
    """Why a field that is wanted may not be asked for now, if so."""
    if not plan.askable:
        return handed_off("tool_unavailable", f"{plan.field} cannot be asked for")
    if not offer.text:
        return handed_off("tool_unavailable", f"{plan.field} has no approved question")
    channel = ruleset.catalog.channels.get(conversation.channel_id)
    if channel is None or not channel.interactive:
        return handed_off("no_interactive_channel")
    activation = _activation(conversation)
    if activation.asked.get(plan.field, -1) >= activation.progress:
        return handed_off("no_progress", f"{plan.field} asked again without a new value")
    if activation.questions >= ruleset.catalog.agents[conversation.agent].max_questions:
        return handed_off("budget", "max_questions")
    if exceeds(offer, QUESTION_BYTES, characters=offer.characters):
        return handed_off("state_too_large", f"the question for {plan.field}")
    return None


def _step_that_needs(field: str, conversation: Conversation, ruleset: Ruleset) -> str | None:
    """The first tool that requires the field and lacks it, or the first that requires it."""
    needing = [
        (tool, plan)
        for tool, plans in ruleset.plans.items()
        for plan in plans
        if plan.field == field and plan.required
    ]
    for tool, plan in needing:
        if not _known(plan, conversation, tool, ruleset):
            return tool
    return needing[0][0] if needing else None


def _known(plan: ArgumentPlan, conversation: Conversation, tool: str, ruleset: Ruleset) -> bool:
    subject = ruleset.catalog.subject_of_tool(tool)
    return find(plan, conversation, subject).status == "known"


def _refuse(proposal: Proposal, ruleset: Ruleset) -> Verdict | Fault:
    if proposal.rule not in ruleset.catalog.rules or proposal.rule is None:
        return Fault("schema_fail", f"unknown rule; allowed: {', '.join(ruleset.catalog.rules)}")
    return _unless_doubtful(proposal, Refuse(proposal.rule), ruleset)


def _hand_off(proposal: Proposal, reason: ReasonCode) -> Verdict | Fault:
    cause = proposal.handoff_cause
    if cause is None:
        return HandOff(None, reason)
    if cause not in _CAUSES:
        return Fault("schema_fail", f"unknown cause; allowed: {', '.join(HANDOFF_CAUSES)}")
    return HandOff(cause, reason_for(cause))


def _unless_doubtful(proposal: Proposal, verdict: Verdict, ruleset: Ruleset) -> Verdict:
    """Hold an action back when its confidence or margin is below what is demanded of it.

    The catalog and a calibration may both demand something; the greater counts.
    """
    thresholds = ruleset.catalog.thresholds
    action = action_of(verdict)
    least = max(thresholds.of(action), proposal.least_confidence)
    if isinstance(verdict, Call):
        least = max(least, ruleset.catalog.tools[verdict.tool].threshold or 0.0)
    if proposal.confidence < least:
        return handed_off("below_threshold", f"{action} at {proposal.confidence:.3f}")
    if proposal.margin is not None and proposal.margin < thresholds.near_tie_margin:
        return handed_off("near_tie", f"{action} with margin {proposal.margin:.3f}")
    return verdict


def call_fingerprint(tool: str, arguments: Mapping[str, JsonValue]) -> str:
    """16 hex digits of a tool and its arguments, the same for equal arguments in any order."""
    return hashlib.blake2b(to_json([tool, _ordered(arguments)]), digest_size=8).hexdigest()


def _ordered(value: JsonValue | Mapping[str, JsonValue]) -> JsonValue:
    """The same value, objects as sorted pairs, so that equal ones are written alike."""
    if isinstance(value, Mapping):
        return [[name, _ordered(value[name])] for name in sorted(value)]
    if isinstance(value, list):
        return [_ordered(one) for one in value]
    return value


def _activation(conversation: Conversation) -> Activation:
    if conversation.activation is None:
        raise AssertionError("a proposal is judged only while an activation is open")
    return conversation.activation
