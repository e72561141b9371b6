"""An action in the making: what the five kinds share, in the state and in what is published."""

from functools import lru_cache
from typing import Final, Literal, TypedDict

from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, to_json

from turnstream.core.bounds import DIAGNOSTICS_CHARACTERS
from turnstream.core.contract import Decision
from turnstream.core.conversation import (
    Activation,
    Conversation,
    Outstanding,
    Spoken,
    TimerEntry,
)
from turnstream.core.effects import Input, Publish
from turnstream.core.events import Versions
from turnstream.core.evolution import evolved
from turnstream.core.identity import action_id, decision_id, text_hash
from turnstream.core.observation import with_message
from turnstream.core.ports import Proposal
from turnstream.core.publications import (
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
)
from turnstream.core.questions import locale_of
from turnstream.core.ruleset import Ruleset
from turnstream.core.verdicts import AnswerWith, Ask, Call, HandOff, Refuse, Verdict, decision_of

_LATEST: Final = 253_402_300_799_999
"""The end of the year 9999, milliseconds UTC: numbers after it still fit 64 bits."""

BY_CODE: Final = "code"
"""What stands for the model's name in a decision that no model was asked for."""


def following(conversation: Conversation, cause: Input) -> int:
    """The next sequence number.

    The first is the record's own time, so that a conversation whose record is gone goes on above
    what it had. A time that no clock tells is not believed: nothing could come after it.
    """
    if conversation.sequence:
        return conversation.sequence + 1
    return min(max(cause.timestamp, 1), _LATEST)


DeadlineKind = Literal["answer_deadline", "call_deadline"]


class Traces(TypedDict):
    """Fields of the state that every decision sets."""

    activation: Activation | None
    sequence: int
    ending: None
    unanswered: tuple[str, ...]
    updated_at: int


class Draft:
    """One action in the making.

    Args:
        conversation: the state in phase `deciding`.
        cause: the input that led to it; ids are made of its source.
        ruleset: the compiled catalog.
        proposal: the decider's reply, or None when code decided alone.
        index: position among the actions of the same decision, from 0.
        size: actions of the same decision.
    """

    def __init__(
        self,
        conversation: Conversation,
        cause: Input,
        ruleset: Ruleset,
        proposal: Proposal | None,
        *,
        index: int = 0,
        size: int = 1,
    ) -> None:
        self.conversation = conversation
        self.cause = cause
        self.ruleset = ruleset
        self.proposal = proposal
        self.index = index
        self.size = size
        self.id = action_id(cause.conversation_id, cause.source, cause.given_up + index)
        self.sequence = following(conversation, cause)

    @property
    def locale(self) -> str:
        """The language that the customer is written to in."""
        return locale_of(self.conversation, self.ruleset)

    def action(
        self,
        verdict: AnswerWith | Call | Ask | Refuse | HandOff,
        *,
        answer: AnswerPayload | None = None,
        call: CallPayload | None = None,
        question: QuestionPayload | None = None,
        refusal: RefusalPayload | None = None,
        handoff: HandoffPayload | None = None,
    ) -> Publish:
        """The action as it is published, with the payload of its kind."""
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
                batch_index=self.index,
                batch_size=self.size,
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

    def message(
        self,
        kind: OutboundKind,
        text: str,
        locale: str,
        suggestions: tuple[Suggestion, ...] = (),
        question_id: str | None = None,
    ) -> Publish:
        """What the customer sees of the action."""
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

    def traces(self, activation: Activation | None) -> Traces:
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

    def ordered(
        self, order: Outstanding, activation: Activation | None, *, timer: DeadlineKind
    ) -> Conversation:
        """The state with an order that is waited for until its deadline."""
        entry = TimerEntry(f"{timer}/{self.id}", timer, order.deadline_at)
        return evolved(
            self.conversation,
            **self.traces(activation),
            outstanding=(*self.conversation.outstanding, order),
            timers=(*self.conversation.timers, entry),
        )

    def said(self, text: str, state: Conversation) -> Conversation:
        """Enter into the state what the customer is told."""
        limits = self.ruleset.limits
        return evolved(
            state,
            **with_message(state, Spoken("assistant", text, self.cause.now), limits),
            sent=(*state.sent, text_hash(text))[-limits.remembered_messages :],
        )


@lru_cache(maxsize=32)
def _versions(decision_version: str, presentation_version: str, model: str) -> Versions:
    return Versions(
        decision_version=decision_version, presentation_version=presentation_version, model=model
    )


def _diagnostics(verdict: Verdict, proposal: Proposal | None) -> str:
    found: dict[str, JsonValue] = {}
    if isinstance(verdict, HandOff | Refuse) and verdict.detail is not None:
        found["detail"] = verdict.detail
    if isinstance(verdict, HandOff):
        found.update(verdict.diagnostics)
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
