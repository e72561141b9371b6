"""Turning a verdict into what is published: the action, and what the customer sees of it."""

from collections.abc import Sequence
from typing import assert_never

from pydantic_core import to_json

from turnstream.core.arguments import Filled
from turnstream.core.conversation import (
    Conversation,
    OpenQuestion,
    Outstanding,
    TimerEntry,
)
from turnstream.core.definitions import RetryPolicy, Tool, localized
from turnstream.core.drafts import Draft
from turnstream.core.effects import Input, Publish
from turnstream.core.evolution import dataclass, evolved
from turnstream.core.handover import answer_values, calls_made, known_values, summary_of
from turnstream.core.ports import Proposal
from turnstream.core.publications import (
    AnswerPayload,
    CallPayload,
    HandoffPayload,
    QuestionPayload,
    RefusalPayload,
)
from turnstream.core.questions import expiry_timer
from turnstream.core.ruleset import ArgumentPlan, Ruleset
from turnstream.core.verdicts import AnswerWith, Ask, Batch, Call, HandOff, Refuse, Verdict


@dataclass(frozen=True, slots=True)
class Enacted:
    """A verdict carried out: the state with its traces, and the events to publish."""

    state: Conversation
    effects: tuple[Publish, ...]


def enact(
    verdict: Verdict,
    conversation: Conversation,
    cause: Input,
    ruleset: Ruleset,
    proposal: Proposal | None,
    *,
    silent: bool = False,
) -> Enacted:
    """Build the action of a verdict and enter its traces into the state.

    The phase is not touched: the caller moves it along the table.

    Args:
        verdict: what is to be done, already checked.
        conversation: the state in phase `deciding`.
        cause: the input that led to it; ids are made of its source.
        ruleset: the compiled catalog.
        proposal: the decider's reply, or None when code decided alone.
        silent: leave out the customer's notice of a handoff (a later result only updates it).
    """
    draft = Draft(conversation, cause, ruleset, proposal)
    match verdict:
        case AnswerWith():
            return _answer(verdict, draft)
        case Call():
            return _call(verdict, draft)
        case Batch():
            return _batch(verdict, draft)
        case Ask():
            return _ask(verdict, draft)
        case Refuse():
            return _refuse(verdict, draft)
        case HandOff():
            return _hand_off(verdict, draft, silent=silent)
        case _ as unreachable:
            assert_never(unreachable)


def _answer(verdict: AnswerWith, draft: Draft) -> Enacted:
    values = (
        {}
        if verdict.answer_id is None
        else answer_values(verdict.answer_id, draft.conversation, draft.ruleset)
    )
    payload = AnswerPayload(
        answer_id=verdict.answer_id,
        text=verdict.text,
        locale=draft.locale,
        values=values,
        passages=draft.conversation.passages,
        output_json=to_json(verdict.output).decode() if verdict.output is not None else None,
        output_version=verdict.output_version,
    )
    deadline = draft.cause.now + draft.ruleset.limits.answer_deadline_ms
    order = Outstanding(
        action_id=draft.id,
        kind="answer",
        name=verdict.answer_id or "",
        fields={},
        deadline_at=deadline,
    )
    state = draft.ordered(order, draft.conversation.activation, timer="answer_deadline")
    return Enacted(state, (draft.action(verdict, answer=payload),))


def _call(verdict: Call, draft: Draft) -> Enacted:
    tool = draft.ruleset.catalog.tools[verdict.tool]
    deadline = draft.cause.now + patience_ms(tool) + draft.ruleset.limits.queue_allowance_ms
    session = draft.conversation.session
    payload = CallPayload(
        tool_call_id=draft.id,
        tool=verdict.tool,
        arguments_json=to_json(verdict.filled.arguments).decode(),
        model_arguments_json=(
            to_json(verdict.filled.given).decode() if verdict.filled.given is not None else None
        ),
        provenance=dict(verdict.filled.provenance),
        effect=tool.effect,
        deadline_at=deadline,
        subject_id=session.subject_id if session is not None else None,
        permissions=tool.required_permissions,
    )
    order = Outstanding(
        action_id=draft.id,
        kind="call",
        name=verdict.tool,
        fields=_correctable(verdict.filled, draft.ruleset.plans[verdict.tool]),
        deadline_at=deadline,
        write=tool.effect == "write",
        fingerprint=verdict.fingerprint,
    )
    activation = draft.conversation.activation
    if activation is not None:
        called = {**activation.called, verdict.fingerprint: activation.progress}
        activation = evolved(activation, called=called)
        if activation.confirming:
            # A yes is for one call.
            confirming = {**activation.confirming}
            confirming.pop(verdict.fingerprint, None)
            activation = evolved(activation, confirming=confirming)
    state = draft.ordered(order, activation, timer="call_deadline")
    return Enacted(state, (draft.action(verdict, call=payload),))


def _batch(verdict: Batch, draft: Draft) -> Enacted:
    """Each call is an action of its own; together they are one step."""
    state = draft.conversation
    published: list[Publish] = []
    steps = state.activation.steps if state.activation is not None else 0
    size = len(verdict.calls)
    for index, call in enumerate(verdict.calls):
        activation = state.activation
        same_step = evolved(activation, steps=steps) if activation is not None else None
        state = evolved(state, activation=same_step)
        one = Draft(state, draft.cause, draft.ruleset, draft.proposal, index=index, size=size)
        done = _call(call, one)
        published += done.effects
        state = done.state
    return Enacted(state, tuple(published))


def _ask(verdict: Ask, draft: Draft) -> Enacted:
    field, offer = draft.ruleset.catalog.fields[verdict.field], verdict.offer
    expires_at = (
        draft.cause.now + int(field.expires_after_seconds * 1000)
        if field.expires_after_seconds is not None
        else None
    )
    question = OpenQuestion(
        question_id=draft.id,
        field=verdict.field,
        needed_for=verdict.needed_for,
        text=offer.text,
        locale=offer.locale,
        suggestions=offer.suggestions,
        restricted=field.restricted,
        asked_at=draft.cause.now,
        expires_at=expires_at,
        confirms=verdict.confirms,
    )
    payload = QuestionPayload(
        question_id=draft.id,
        field=verdict.field,
        needed_for=verdict.needed_for,
        text=offer.text,
        locale=offer.locale,
        suggestions=offer.suggestions,
        restricted=field.restricted,
        expires_at=expires_at,
        confirms=verdict.confirms,
    )
    activation = draft.conversation.activation
    if activation is not None:
        activation = evolved(
            activation,
            asked={**activation.asked, verdict.field: activation.progress},
            questions=activation.questions + 1,
        )
    timers = draft.conversation.timers
    if expires_at is not None:
        timers = (
            *timers,
            TimerEntry(expiry_timer(draft.id), "question_expiry", expires_at),
        )
    state = evolved(
        draft.conversation,
        **draft.traces(activation),
        open_question=question,
        timers=timers,
    )
    state = draft.said(offer.text, state)
    message = draft.message(
        "question", offer.text, offer.locale, offer.suggestions, question_id=draft.id
    )
    return Enacted(state, (draft.action(verdict, question=payload), message))


def _refuse(verdict: Refuse, draft: Draft) -> Enacted:
    catalog = draft.ruleset.catalog
    locale, text = localized(catalog.rules[verdict.rule].text, draft.locale, catalog.default_locale)
    payload = RefusalPayload(rule=verdict.rule, detail=verdict.detail, text=text, locale=locale)
    state = draft.said(text, evolved(draft.conversation, **draft.traces(None)))
    message = draft.message("refusal", text, locale)
    return Enacted(state, (draft.action(verdict, refusal=payload), message))


def _hand_off(verdict: HandOff, draft: Draft, *, silent: bool) -> Enacted:
    catalog = draft.ruleset.catalog
    name = (
        draft.ruleset.queue_of.get(verdict.cause) if verdict.cause is not None else None
    ) or catalog.default_queue
    locale, text = localized(catalog.queues[name].text, draft.locale, catalog.default_locale)
    payload = HandoffPayload(
        queue=name,
        cause=verdict.cause,
        summary=summary_of(verdict, draft.conversation),
        values=known_values(draft.conversation),
        calls=calls_made(draft.conversation),
        text=text,
        locale=locale,
    )
    state = evolved(draft.conversation, **draft.traces(None), holder="person")
    action = draft.action(verdict, handoff=payload)
    # An unknown channel has no way out to the customer; the event alone tells the people.
    if silent or draft.conversation.channel_id not in catalog.channels:
        return Enacted(state, (action,))
    state = draft.said(text, state)
    return Enacted(state, (action, draft.message("handoff_notice", text, locale)))


def _correctable(filled: Filled, plans: Sequence[ArgumentPlan]) -> dict[str, str]:
    """The values that another word of the customer would replace: not those of the session."""
    return {
        plan.field: filled.fields[plan.field]
        for plan in plans
        if filled.provenance.get(plan.name) in ("record", "message")
    }


def patience_ms(tool: Tool) -> int:
    """How long all attempts of a call may take, waits between them included, in milliseconds."""
    policy: RetryPolicy = tool.retry
    attempts = policy.attempts if tool.effect == "read" or tool.idempotent else 1
    waits = sum(
        min(policy.backoff_seconds * 2**attempt, policy.max_backoff_seconds)
        for attempt in range(attempts - 1)
    )
    return int((tool.timeout_seconds * attempts + waits) * 1000)
