"""Turning a verdict into what is published: the action, and what the customer sees of it."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypedDict, assert_never

from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, to_json

from turnstream.core.arguments import Filled
from turnstream.core.bounds import DIAGNOSTICS_CHARACTERS
from turnstream.core.contract import Decision
from turnstream.core.conversation import (
    Activation,
    Conversation,
    OpenQuestion,
    Outstanding,
    Spoken,
    TimerEntry,
)
from turnstream.core.definitions import RetryPolicy, Tool, localized
from turnstream.core.effects import Input, Publish
from turnstream.core.events import (
    ActionEvent,
    AnswerPayload,
    CallPayload,
    HandoffPayload,
    OutboundKind,
    OutboundMessage,
    QuestionEnd,
    QuestionPayload,
    RefusalPayload,
    Suggestion,
    Versions,
)
from turnstream.core.evolution import dataclass, evolved
from turnstream.core.handover import answer_values, calls_made, known_values, summary_of
from turnstream.core.identity import action_id, decision_id, text_hash
from turnstream.core.observation import remembered
from turnstream.core.policy import AnswerWith, Ask, Call, HandOff, Refuse, Verdict, decision_of
from turnstream.core.ports import Proposal
from turnstream.core.questions import expiry_timer, locale_of
from turnstream.core.ruleset import ArgumentPlan, Ruleset

BY_CODE: Final = "code"
"""What stands for the model's name in a decision that no model was asked for."""


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
    draft = _Draft(conversation, cause, ruleset, proposal)
    match verdict:
        case AnswerWith():
            return draft.answer(verdict)
        case Call():
            return draft.call(verdict)
        case Ask():
            return draft.ask(verdict)
        case Refuse():
            return draft.refuse(verdict)
        case HandOff():
            return draft.hand_off(verdict, silent=silent)
        case _ as unreachable:
            assert_never(unreachable)


def following(conversation: Conversation, cause: Input) -> int:
    """The next sequence number.

    The first is the record's own time, so that a conversation whose record is gone goes on above
    what it had.
    """
    return conversation.sequence + 1 if conversation.sequence else max(cause.timestamp, 1)


class _Traces(TypedDict):
    activation: Activation | None
    sequence: int
    ending: None
    unanswered: tuple[str, ...]
    updated_at: int


class _Draft:
    """One action in the making: what all five kinds share."""

    def __init__(
        self,
        conversation: Conversation,
        cause: Input,
        ruleset: Ruleset,
        proposal: Proposal | None,
    ) -> None:
        self.conversation = conversation
        self.cause = cause
        self.ruleset = ruleset
        self.proposal = proposal
        self.id = action_id(cause.conversation_id, cause.source, cause.given_up)
        self.sequence = following(conversation, cause)

    def answer(self, verdict: AnswerWith) -> Enacted:
        values = (
            {}
            if verdict.answer_id is None
            else answer_values(verdict.answer_id, self.conversation, self.ruleset)
        )
        payload = AnswerPayload(
            answer_id=verdict.answer_id,
            text=verdict.text,
            locale=self.locale,
            values=values,
            passages=self.conversation.passages,
        )
        deadline = self.cause.now + self.ruleset.limits.answer_deadline_ms
        ordered = Outstanding(
            action_id=self.id,
            kind="answer",
            name=verdict.answer_id or "",
            fields={},
            deadline_at=deadline,
        )
        state = evolved(
            self.conversation,
            **self._traces(self.conversation.activation),
            outstanding=(*self.conversation.outstanding, ordered),
            timers=(
                *self.conversation.timers,
                TimerEntry(f"answer_deadline/{self.id}", "answer_deadline", deadline),
            ),
        )
        return Enacted(state, (self._action(verdict, answer=payload),))

    def call(self, verdict: Call) -> Enacted:
        tool = self.ruleset.catalog.tools[verdict.tool]
        deadline = self.cause.now + patience_ms(tool) + self.ruleset.limits.queue_allowance_ms
        session = self.conversation.session
        payload = CallPayload(
            tool_call_id=self.id,
            tool=verdict.tool,
            arguments_json=to_json(verdict.filled.arguments).decode(),
            provenance=dict(verdict.filled.provenance),
            effect=tool.effect,
            deadline_at=deadline,
            subject_id=session.subject_id if session is not None else None,
            permissions=tool.required_permissions,
        )
        ordered = Outstanding(
            action_id=self.id,
            kind="call",
            name=verdict.tool,
            fields=_correctable(verdict.filled, self.ruleset.plans[verdict.tool]),
            deadline_at=deadline,
            write=tool.effect == "write",
            fingerprint=verdict.fingerprint,
        )
        activation = self.conversation.activation
        if activation is not None:
            called = {**activation.called, verdict.fingerprint: activation.progress}
            activation = evolved(activation, called=called)
        state = evolved(
            self.conversation,
            **self._traces(activation),
            outstanding=(*self.conversation.outstanding, ordered),
            timers=(
                *self.conversation.timers,
                TimerEntry(f"call_deadline/{self.id}", "call_deadline", deadline),
            ),
        )
        return Enacted(state, (self._action(verdict, call=payload),))

    def ask(self, verdict: Ask) -> Enacted:
        field, offer = self.ruleset.catalog.fields[verdict.field], verdict.offer
        expires_at = (
            self.cause.now + int(field.expires_after_seconds * 1000)
            if field.expires_after_seconds is not None
            else None
        )
        question = OpenQuestion(
            question_id=self.id,
            field=verdict.field,
            needed_for=verdict.needed_for,
            text=offer.text,
            locale=offer.locale,
            suggestions=offer.suggestions,
            restricted=field.restricted,
            asked_at=self.cause.now,
            expires_at=expires_at,
        )
        payload = QuestionPayload(
            question_id=self.id,
            field=verdict.field,
            needed_for=verdict.needed_for,
            text=offer.text,
            locale=offer.locale,
            suggestions=offer.suggestions,
            restricted=field.restricted,
            expires_at=expires_at,
        )
        activation = self.conversation.activation
        if activation is not None:
            activation = evolved(
                activation,
                asked={**activation.asked, verdict.field: activation.progress},
                questions=activation.questions + 1,
            )
        timers = self.conversation.timers
        if expires_at is not None:
            timers = (
                *timers,
                TimerEntry(expiry_timer(self.id), "question_expiry", expires_at),
            )
        state = evolved(
            self.conversation,
            **self._traces(activation),
            open_question=question,
            timers=timers,
        )
        state = self._said(offer.text, state)
        message = self._message(
            "question", offer.text, offer.locale, offer.suggestions, question_id=self.id
        )
        return Enacted(state, (self._action(verdict, question=payload), message))

    def refuse(self, verdict: Refuse) -> Enacted:
        catalog = self.ruleset.catalog
        locale, text = localized(
            catalog.rules[verdict.rule].text, self.locale, catalog.default_locale
        )
        payload = RefusalPayload(rule=verdict.rule, detail=verdict.detail, text=text, locale=locale)
        state = self._said(text, evolved(self.conversation, **self._traces(None)))
        message = self._message("refusal", text, locale)
        return Enacted(state, (self._action(verdict, refusal=payload), message))

    def hand_off(self, verdict: HandOff, *, silent: bool) -> Enacted:
        catalog = self.ruleset.catalog
        name = (
            self.ruleset.queue_of.get(verdict.cause) if verdict.cause is not None else None
        ) or catalog.default_queue
        locale, text = localized(catalog.queues[name].text, self.locale, catalog.default_locale)
        payload = HandoffPayload(
            queue=name,
            cause=verdict.cause,
            summary=summary_of(verdict, self.conversation),
            values=known_values(self.conversation),
            calls=calls_made(self.conversation),
            text=text,
            locale=locale,
        )
        state = evolved(self.conversation, **self._traces(None), holder="person")
        action = self._action(verdict, handoff=payload)
        # An unknown channel has no way out to the customer; the event alone tells the people.
        if silent or self.conversation.channel_id not in catalog.channels:
            return Enacted(state, (action,))
        state = self._said(text, state)
        return Enacted(state, (action, self._message("handoff_notice", text, locale)))

    @property
    def locale(self) -> str:
        return locale_of(self.conversation, self.ruleset)

    def _action(
        self,
        verdict: Verdict,
        *,
        answer: AnswerPayload | None = None,
        call: CallPayload | None = None,
        question: QuestionPayload | None = None,
        refusal: RefusalPayload | None = None,
        handoff: HandoffPayload | None = None,
    ) -> Publish:
        conversation, proposal = self.conversation, self.proposal
        activation, ending = conversation.activation, conversation.ending
        decision: Decision = decision_of(verdict)
        return Publish(
            ActionEvent(
                action_id=self.id,
                decision_id=decision_id(self.cause.conversation_id, self.cause.source),
                conversation_id=self.cause.conversation_id,
                channel_id=conversation.channel_id,
                tenant_id=conversation.tenant_id,
                source=self.cause.source,
                turn_id=(activation.turn_id or None) if activation is not None else None,
                input_no=conversation.input_no,
                seen=dict(conversation.watermarks),
                step=activation.steps + 1 if activation is not None else 0,
                sequence=self.sequence,
                decision=decision,
                answer=answer,
                call=call,
                question=question,
                refusal=refusal,
                handoff=handoff,
                question_ended=QuestionEnd(
                    question_id=ending.question.question_id, outcome=ending.how
                )
                if ending is not None
                else None,
                agent=conversation.agent,
                versions=_versions(
                    self.ruleset.decision_version,
                    self.ruleset.presentation_version,
                    proposal.model if proposal is not None else BY_CODE,
                ),
                diagnostics_json=_diagnostics(verdict, proposal),
                decided_at=self.cause.now,
            )
        )

    def _message(
        self,
        kind: OutboundKind,
        text: str,
        locale: str,
        suggestions: tuple[Suggestion, ...] = (),
        question_id: str | None = None,
    ) -> Publish:
        return Publish(
            OutboundMessage(
                message_id=self.id,
                conversation_id=self.cause.conversation_id,
                tenant_id=self.conversation.tenant_id,
                channel_id=self.conversation.channel_id,
                kind=kind,
                text=text,
                locale=locale,
                suggestions=suggestions,
                question_id=question_id,
                sequence=self.sequence,
                occurred_at=self.cause.now,
            )
        )

    def _traces(self, activation: Activation | None) -> _Traces:
        """What every decision leaves behind in the state."""
        if activation is not None:
            activation = evolved(activation, steps=activation.steps + 1, proposals=0)
        return {
            "activation": activation,
            "sequence": self.sequence,
            "ending": None,
            "unanswered": (),
            "updated_at": self.cause.now,
        }

    def _said(self, text: str, state: Conversation) -> Conversation:
        limits = self.ruleset.limits
        return evolved(
            state,
            history=remembered(state.history, Spoken("assistant", text, self.cause.now), limits),
            sent=(*state.sent, text_hash(text))[-limits.remembered_messages :],
        )


@lru_cache(maxsize=32)
def _versions(decision_version: str, presentation_version: str, model: str) -> Versions:
    return Versions(
        decision_version=decision_version, presentation_version=presentation_version, model=model
    )


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


def _diagnostics(verdict: Verdict, proposal: Proposal | None) -> str:
    found: dict[str, JsonValue] = {}
    if isinstance(verdict, HandOff | Refuse) and verdict.detail is not None:
        found["detail"] = verdict.detail
    if proposal is not None:
        found["confidence"] = proposal.confidence
        found["confidence_kind"] = proposal.confidence_kind
        found["probabilities"] = {str(name): p for name, p in proposal.probabilities.items()}
        if proposal.margin is not None:
            found["margin"] = proposal.margin
        found.update(proposal.diagnostics)
    try:
        written = to_json(found, inf_nan_mode="null").decode()
    except PydanticSerializationError:
        # A decider's own notes are not worth a decision: keep what is certainly writable.
        written = to_json({"unwritable": sorted(found)}).decode()
    if len(written) > DIAGNOSTICS_CHARACTERS:
        written = to_json({"omitted_characters": len(written)}).decode()
    return written
