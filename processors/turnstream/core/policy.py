"""The model proposes; this module disposes.

:func:`judge` takes a decider's proposal and the conversation, and gives one of two things: what
will really be done, checked against the contract, the catalog, the session's rights, the
thresholds and the budgets; or a fault, when the proposal itself is broken. A fault is never
repaired into an action: the decider gets a bounded number of tries that name it, then a person
takes over.

Rights come from session claims only. Nothing that a customer writes, and nothing in a document or a
tool's result, grants any.
"""

from typing import Final, assert_never

from turnstream.core.agents import FinalAnswer
from turnstream.core.allowed import listed
from turnstream.core.arguments import find
from turnstream.core.bounds import (
    ANSWER_CHARACTERS,
    OUTPUT_BYTES,
    QUESTION_BYTES,
    cleaned,
    exceeds,
)
from turnstream.core.calls import call_of
from turnstream.core.contract import (
    ACTIONS,
    HANDOFF_CAUSES,
    REASON_CODES,
    Action,
    ReasonCode,
    faults,
    reason_for,
)
from turnstream.core.conversation import Conversation
from turnstream.core.definitions import FREE_TEXT
from turnstream.core.facts import supports
from turnstream.core.json_arguments import Unparsed, parsed
from turnstream.core.ports import Proposal
from turnstream.core.questions import Offer, offer_of
from turnstream.core.ruleset import ArgumentPlan, Ruleset
from turnstream.core.verdicts import (
    AnswerWith,
    Ask,
    Fault,
    HandOff,
    Refuse,
    Verdict,
    handed_off,
    open_activation,
    unless_doubtful,
)

_ACTIONS: Final = frozenset(ACTIONS)
_REASONS: Final = frozenset(REASON_CODES)
_CAUSES: Final = frozenset(HANDOFF_CAUSES)

_NAMED_BY_CALLS: Final = "the tools of the calls"


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
    broken = (*_faults_of_calls(proposal, known), *_faults_of_row(proposal, known, reason))
    if broken:
        return Fault("contradiction", "; ".join(broken))
    if known != "handoff" and not _are_probabilities(proposal):
        return Fault("schema_fail", "confidence and margin must be numbers from 0 to 1")
    match known:
        case "answer":
            return _answer(proposal, conversation, ruleset)
        case "call_tool":
            return call_of(proposal, conversation, ruleset)
        case "ask":
            return _ask(proposal, conversation, ruleset)
        case "refuse":
            return _refuse(proposal, ruleset)
        case "handoff":
            return _hand_off(proposal, reason)
        case _ as unreachable:
            assert_never(unreachable)


def _faults_of_row(proposal: Proposal, action: Action, reason: ReasonCode) -> tuple[str, ...]:
    tool = proposal.tool
    if action == "call_tool" and proposal.calls:
        # The calls name their tools themselves, existing ones or not.
        tool = tool or _NAMED_BY_CALLS
    return faults(action, tool, proposal.missing_field, reason)


def _faults_of_calls(proposal: Proposal, action: Action) -> tuple[str, ...]:
    """How an agent model's calls contradict the step that its reply is."""
    if not proposal.calls:
        return ()
    match action:
        case "call_tool":
            named = proposal.tool is None or any(
                call.tool == proposal.tool for call in proposal.calls
            )
            return () if named else ("the tool is none of those that are called",)
        case "ask":
            alone = len(proposal.calls) == 1
            return () if alone else ("a question is asked alone: call tools first, or ask",)
    return (f"action {action!r} makes no call",)


def _are_probabilities(proposal: Proposal) -> bool:
    # NaN fails here: it compares false with everything.
    margin = proposal.margin
    return 0 <= proposal.confidence <= 1 and (margin is None or 0 <= margin <= 1)


def _answer(proposal: Proposal, conversation: Conversation, ruleset: Ruleset) -> Verdict | Fault:
    if proposal.answer_id is None:
        final = ruleset.catalog.agents[conversation.agent].final_answer
        if final is not None or proposal.output is not None:
            return _final_answer(final, proposal, conversation, ruleset)
        text = cleaned(proposal.text or "")
        if not text.strip():
            return Fault("schema_fail", "an answer needs an approved answer or a text")
        if len(text) > ANSWER_CHARACTERS:
            return Fault(
                "schema_fail",
                f"the answer has {len(text)} characters; at most {ANSWER_CHARACTERS} are allowed",
            )
        return unless_doubtful(proposal, AnswerWith(None, text), ruleset)
    answer_id = proposal.answer_id
    answer = ruleset.catalog.answers.get(answer_id)
    if answer is None:
        return Fault("schema_fail", f"unknown answer; allowed: {listed(ruleset.catalog.answers)}")
    if answer.of_tool is not None:
        opened = open_activation(conversation).opened_at_input
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
    return unless_doubtful(proposal, AnswerWith(answer_id, None), ruleset)


def _final_answer(
    final: FinalAnswer | None, proposal: Proposal, conversation: Conversation, ruleset: Ruleset
) -> Verdict | Fault:
    """An answer in the form that its agent declares for it."""
    if final is None:
        return Fault("contradiction", "the agent declares no schema for its final answer")
    given = proposal.output
    if not isinstance(given, str | dict):
        return Fault("schema_fail", "final answer: expected a JSON object")
    output = parsed(given)
    if isinstance(output, Unparsed):
        return Fault("schema_fail", f"final answer: {output.message}")
    check = ruleset.answer_checks.get(conversation.agent)
    broken = check(output) if check is not None else None
    if broken is not None:
        return Fault("schema_fail", f"final answer {_place(broken.path, final)}: {broken.keyword}")
    said = output.get(final.text)
    text = cleaned(said) if isinstance(said, str) else ""
    if not text.strip() or len(text) > ANSWER_CHARACTERS:
        return Fault(
            "schema_fail",
            f"final answer /{final.text}: expected a text of 1 to {ANSWER_CHARACTERS} characters",
        )
    if exceeds(output, OUTPUT_BYTES, characters=OUTPUT_BYTES):
        return Fault("schema_fail", f"final answer: more than {OUTPUT_BYTES} bytes of JSON")
    return unless_doubtful(proposal, AnswerWith(None, text, output, final.version), ruleset)


def _place(path: str, final: FinalAnswer) -> str:
    """Where an answer breaks its schema: a property that the schema names, or nothing."""
    declared = final.content.get("properties")
    name = path.split("/")[1] if path else ""
    return f"/{name}" if isinstance(declared, dict) and name in declared else "/"


def ask_for(
    field: str, tool: str, conversation: Conversation, ruleset: Ruleset
) -> Ask | HandOff | None:
    """The question for a field that a call lacks; None where it is none, or known already."""
    plan = next((plan for plan in ruleset.plans.get(tool, ()) if plan.field == field), None)
    if plan is None or field not in ruleset.catalog.fields:
        return None
    if _known(plan, conversation, tool, ruleset):
        return None
    offer = offer_of(field, tool, conversation, ruleset)
    return _unaskable(plan, offer, conversation, ruleset) or Ask(field, tool, offer)


def _ask(proposal: Proposal, conversation: Conversation, ruleset: Ruleset) -> Verdict | Fault:
    field = proposal.missing_field or ""
    if field == FREE_TEXT or field not in ruleset.catalog.fields:
        return Fault("schema_fail", f"unknown field; allowed: {listed(ruleset.catalog.fields)}")
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
    return unless_doubtful(proposal, Ask(field, needed_for, offer), ruleset)


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
    activation = open_activation(conversation)
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
        return Fault("schema_fail", f"unknown rule; allowed: {listed(ruleset.catalog.rules)}")
    return unless_doubtful(proposal, Refuse(proposal.rule), ruleset)


def _hand_off(proposal: Proposal, reason: ReasonCode) -> Verdict | Fault:
    cause = proposal.handoff_cause
    if cause is None:
        return HandOff(None, reason)
    if cause not in _CAUSES:
        return Fault("schema_fail", f"unknown cause; allowed: {', '.join(HANDOFF_CAUSES)}")
    return HandOff(cause, reason_for(cause))
