"""The classify role: what an exchange was about, told after it has ended.

It follows the conversation in a small window of its own (:mod:`turnstream.roles.window`). An
exchange ends with an answer, a question, a refusal or a handoff; then the classifier labels the
conversation as it stands.

Nothing waits for a label, so a classifier that fails is not asked again: the label says that it
failed and keeps the categories of the one before.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from inspect import isawaitable
from typing import Final, cast

import structlog

from turnstream.classifiers.embedded import EmbeddedClassifier
from turnstream.config import PythonSettings
from turnstream.core.definitions import Catalog
from turnstream.core.events import (
    Event,
    Label,
)
from turnstream.core.ports import Classification, Classifier, Exchange, Message
from turnstream.metrics import Metrics
from turnstream.roles.deployment import Deployment, StreamRole, made_by
from turnstream.roles.intake import Intake, source_of
from turnstream.roles.publishing import Publisher
from turnstream.roles.window import Ending, Followed, followed, passed, window_format
from turnstream.stream import (
    Handled,
    LaneContext,
    Record,
    StateUnreadable,
    TimerDue,
)

log = structlog.get_logger(__name__)

SOURCES: Final = (
    "conversation.turns",
    "conversation.control",
    "conversation.actions",
    "conversation.answers",
    "conversation.timers",
)
WRITES: Final = ("conversation.labels",)

_TITLE_CHARACTERS: Final = 120
"""Longest title: a classifier that repeats its input must not fill the labels' topic."""
_CATEGORIES: Final = 5
"""Most categories of a conversation."""
_CLASSIFIER_SECONDS: Final = 20.0
"""How long one classification may take: it holds a slot."""


class InvalidClassification(Exception):
    """A classifier broke its contract; nothing of what it said is published."""


class ClassifyHandler:
    """Labels exchanges when they end."""

    def __init__(
        self,
        *,
        intake: Intake,
        publisher: Publisher,
        catalog: Catalog,
        classifier: Classifier,
        metrics: Metrics,
        now_ms: Callable[[], int],
    ) -> None:
        """Prepare.

        Args:
            intake: checks and decodes records.
            publisher: encodes labels.
            catalog: holds the categories.
            classifier: gives title and categories.
            metrics: where labels are counted.
            now_ms: the wall clock.
        """
        self._intake = intake
        self._publisher = publisher
        self._catalog = catalog
        self._classifier = classifier
        self._metrics = metrics
        self._now_ms = now_ms

    def admit(self, record: Record) -> tuple[bytes, Event]:
        """Decode and check a record of any of the five sources."""
        return self._intake.admit(record)

    def handle(
        self,
        record: Record,
        event: Event,
        state: Followed | None,
        lane: LaneContext[Followed] | None = None,
    ) -> Handled[Followed] | Awaitable[Handled[Followed]]:
        """Take the event into the window; label what it ends."""
        window, ending = followed(record, event, state)
        if ending is None:
            return Handled(window)
        exchange = Exchange(
            exchange_id=ending.turn_id,
            locale=window.locale or self._catalog.default_locale,
            messages=tuple(Message(role=said.role, text=said.text) for said in window.messages),
        )
        try:
            reply = self._classifier.classify(exchange)
            if isawaitable(reply):
                return self._awaited(record, window, ending, reply)
            return self._labelled(record, window, ending, self._checked(reply))
        except Exception as error:  # noqa: BLE001 - the classifier is the other side of a port
            return self._unlabelled(record, window, ending, error)

    def flood(self, record: Record, event: Event, state: Followed | None) -> Handled[Followed]:
        """Follow, but label nothing: labels of a flood interest nobody."""
        return Handled(followed(record, event, state)[0])

    def abandon(
        self,
        record: Record,
        event: Event,
        state: Followed | None,
        *,
        attempts: int,
        error: BaseException,
    ) -> Handled[Followed]:
        """Leave the event out of the window; one that cannot be read begins anew after it."""
        if isinstance(error, StateUnreadable):
            state = Followed(watermarks=error.watermarks)
        return Handled(passed(state, record))

    async def resolve_schema(self, fingerprint: str) -> bool:
        """Look up a writer's schema."""
        return await self._intake.resolve_schema(fingerprint)

    def timer(self, key: bytes, timer: TimerDue) -> None:
        """Let a window go that has been silent for long."""

    # --- labelling ------------------------------------------------------------------------------

    async def _awaited(
        self,
        record: Record,
        window: Followed,
        ending: Ending,
        reply: Awaitable[Classification],
    ) -> Handled[Followed]:
        try:
            classification = await asyncio.wait_for(reply, _CLASSIFIER_SECONDS)
            return self._labelled(record, window, ending, self._checked(classification))
        except Exception as error:  # noqa: BLE001 - the classifier is the other side of a port
            return self._unlabelled(record, window, ending, error)

    def _checked(self, classification: Classification) -> Classification:
        categories = tuple(dict.fromkeys(classification.categories))
        if len(categories) > _CATEGORIES:
            raise InvalidClassification(f"{len(categories)} categories; at most {_CATEGORIES}")
        if any(category not in self._catalog.categories for category in categories):
            raise InvalidClassification("a category that the catalog does not list")
        title = " ".join(classification.title.split())[:_TITLE_CHARACTERS]
        return replace(classification, title=title, categories=categories)

    def _labelled(
        self,
        record: Record,
        window: Followed,
        ending: Ending,
        classification: Classification,
    ) -> Handled[Followed]:
        self._metrics.classified("labelled")
        window = replace(window, title=classification.title, categories=classification.categories)
        return self._published(record, window, ending, model=classification.model)

    def _unlabelled(
        self, record: Record, window: Followed, ending: Ending, error: Exception
    ) -> Handled[Followed]:
        self._metrics.classified("failed")
        # Only the kind of error: its text may repeat what the customer wrote.
        log.warning("classification failed", error=type(error).__name__)
        return self._published(
            record, window, ending, model="", error=f"classifier failed: {type(error).__name__}"
        )

    def _published(
        self,
        record: Record,
        window: Followed,
        ending: Ending,
        *,
        model: str,
        error: str | None = None,
    ) -> Handled[Followed]:
        label = Label(
            exchange_id=ending.turn_id,
            conversation_id=record.key.decode(),
            title=window.title,
            categories=window.categories,
            handoff_summary=ending.handoff_summary,
            model=model,
            error=error,
            occurred_at=self._now_ms(),
        )
        source = source_of(record)
        event_id = f"{source.topic}/{source.partition}/{source.offset}/label"
        publication = self._publisher.publication(
            label, key=record.key, event_id=event_id, record=record
        )
        return Handled(window, (publication,))


def _classifier(deployment: Deployment) -> Classifier:
    """Make the configured classifier.

    Raises:
        DeploymentError: its factory cannot be used.
    """
    settings = deployment.settings
    name = settings.classify.classifier
    match settings.classifiers.get(name):
        case PythonSettings() as options:
            where = f"classifiers.{name}"
            made = made_by(options, deployment.catalog, where=where, method="classify")
            return cast("Classifier", made)
        case _:
            return EmbeddedClassifier(deployment.catalog)


def build(deployment: Deployment) -> StreamRole[Followed, Event]:
    """The classify role of a deployment."""
    return StreamRole(
        name="classify",
        handler=ClassifyHandler(
            intake=deployment.intake(SOURCES, role="classify"),
            publisher=deployment.publisher("classify"),
            catalog=deployment.catalog,
            classifier=_classifier(deployment),
            metrics=deployment.metrics,
            now_ms=deployment.now_ms,
        ),
        state_format=window_format(idle_ms=deployment.ruleset.limits.conversation_ttl_ms),
        sources=SOURCES,
        writes=WRITES,
    )
