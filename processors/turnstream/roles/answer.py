"""The answer role: from an answer action to the text that the customer reads.

An approved answer is filled with the values that the decision gave; a model's own text is passed
through. The answer and the message to the customer are committed together. What cannot be filled is
not sent: the answer then says why, and `decide` brings in a person.
"""

from collections.abc import Callable
from typing import Final, Literal, cast

import structlog

from turnstream.core.definitions import Catalog
from turnstream.core.events import Answer, Event
from turnstream.core.publications import ActionEvent, AnswerPayload, OutboundMessage
from turnstream.core.rendering import MissingValue, render
from turnstream.metrics import Metrics
from turnstream.roles.deployment import Deployment, StreamRole
from turnstream.roles.intake import Intake
from turnstream.roles.publishing import Publisher
from turnstream.stream import (
    Handled,
    LaneContext,
    Progress,
    ProgressFormat,
    Publication,
    Record,
    TimerDue,
)

log = structlog.get_logger(__name__)

SOURCES: Final = ("conversation.actions",)
WRITES: Final = ("conversation.answers", "conversation.outbound")

Failure = Literal["unknown_answer", "missing_value", "empty_text", "handler_failed"]


class CannotAnswer(Exception):
    """There is no text to send."""

    def __init__(self, failure: Failure, detail: str = "") -> None:
        super().__init__(f"{failure}: {detail}" if detail else failure)
        self.failure: Failure = failure


class AnswerHandler:
    """Composes the final text of answer actions."""

    def __init__(
        self,
        *,
        intake: Intake,
        publisher: Publisher,
        catalog: Catalog,
        metrics: Metrics,
        now_ms: Callable[[], int],
    ) -> None:
        """Prepare.

        Args:
            intake: checks and decodes records.
            publisher: encodes answers and messages.
            catalog: holds the approved answers.
            metrics: where answers are counted.
            now_ms: the wall clock.
        """
        self._intake = intake
        self._publisher = publisher
        self._catalog = catalog
        self._metrics = metrics
        self._now_ms = now_ms

    def admit(self, record: Record) -> tuple[bytes, Event]:
        """Decode and check an action."""
        return self._intake.admit(record)

    def handle(
        self,
        record: Record,
        event: Event,
        state: Progress | None,
        lane: LaneContext[Progress] | None = None,
    ) -> Handled[Progress]:
        """Answer, where the action is to answer."""
        action = cast("ActionEvent", event)
        if action.answer is None:
            return Handled(self._advanced(record, state))
        try:
            locale, text = self._composed(action.answer)
        except CannotAnswer as reason:
            return self._failed(record, action, state, reason)
        self._metrics.answered("published")
        answer = self._answer(action, text=text)
        message = OutboundMessage(
            message_id=action.action_id,
            conversation_id=action.conversation_id,
            tenant_id=action.tenant_id,
            channel_id=action.channel_id,
            kind="answer",
            text=text,
            locale=locale,
            sequence=action.sequence,
            occurred_at=self._now_ms(),
        )
        publications = [
            self._publisher.publication(
                one, key=record.key, event_id=action.action_id, record=record
            )
            for one in (answer, message)
        ]
        return Handled(self._advanced(record, state), publications)

    def flood(self, record: Record, event: Event, state: Progress | None) -> Handled[Progress]:
        """Answer as always: composing a text is cheaper than refusing it."""
        return self.handle(record, event, state)

    def abandon(
        self,
        record: Record,
        event: Event,
        state: Progress | None,
        *,
        attempts: int,
        error: BaseException,
    ) -> Handled[Progress]:
        """Say that there is no answer, so that a person is brought in."""
        action = cast("ActionEvent", event)
        if action.answer is None:
            return Handled(self._advanced(record, state))
        return self._failed(record, action, state, CannotAnswer("handler_failed"))

    async def resolve_schema(self, fingerprint: str) -> bool:
        """Look up a writer's schema."""
        return await self._intake.resolve_schema(fingerprint)

    def timer(self, key: bytes, timer: TimerDue) -> Publication:
        """Progress holds no timers, so none is ever due."""
        raise AssertionError("progress has no timers")

    def _composed(self, payload: AnswerPayload) -> tuple[str, str]:
        """Locale and text.

        Raises:
            CannotAnswer: there is none.
        """
        if payload.answer_id is None:
            text = (payload.text or "").strip()
            if not text:
                raise CannotAnswer("empty_text")
            return payload.locale, text
        answer = self._catalog.answers.get(payload.answer_id)
        if answer is None:
            raise CannotAnswer("unknown_answer")
        try:
            locale, text = render(
                answer,
                locale=payload.locale,
                values=payload.values,
                default_locale=self._catalog.default_locale,
            )
        except MissingValue as error:
            raise CannotAnswer("missing_value", error.name) from error
        if not text.strip():
            raise CannotAnswer("empty_text")
        return locale, text

    def _failed(
        self, record: Record, action: ActionEvent, state: Progress | None, reason: CannotAnswer
    ) -> Handled[Progress]:
        self._metrics.answered(reason.failure)
        log.warning("no answer", failure=reason.failure)
        answer = self._answer(action, failure=str(reason))
        publication = self._publisher.publication(
            answer, key=record.key, event_id=action.action_id, record=record
        )
        return Handled(self._advanced(record, state), (publication,))

    def _answer(
        self, action: ActionEvent, *, text: str | None = None, failure: str | None = None
    ) -> Answer:
        return Answer(
            action_id=action.action_id,
            conversation_id=action.conversation_id,
            turn_id=action.turn_id,
            text=text,
            failure=failure,
            model=action.versions.model,
            occurred_at=self._now_ms(),
        )

    def _advanced(self, record: Record, state: Progress | None) -> Progress:
        return (state or Progress()).advance(record.topic, record.offset, at=self._now_ms())


def build(deployment: Deployment) -> StreamRole[Progress, Event]:
    """The answer role of a deployment."""
    return StreamRole(
        name="answer",
        handler=AnswerHandler(
            intake=deployment.intake(SOURCES, role="answer"),
            publisher=deployment.publisher("answer"),
            catalog=deployment.catalog,
            metrics=deployment.metrics,
            now_ms=deployment.now_ms,
        ),
        state_format=ProgressFormat(),
        sources=SOURCES,
        writes=WRITES,
    )
