"""The classify role: what an exchange was about, told after it has ended.

It follows the conversation in a small window of its own. An exchange ends with an answer, a
question, a refusal or a handoff; then the classifier labels the conversation as it stands. The
topics are read side by side, so an ending can arrive before the turn it belongs to: it then waits
for the turn.

Nothing waits for a label, so a classifier that fails is not asked again: the label says that it
failed and keeps the categories of the one before.
"""

import asyncio
from bisect import insort
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import Final, Literal, cast

import structlog
from pydantic import TypeAdapter

from turnstream.classifiers.embedded import EmbeddedClassifier
from turnstream.config import PythonSettings
from turnstream.core.definitions import Catalog
from turnstream.core.events import (
    ActionEvent,
    Answer,
    ConversationControl,
    ConversationTurn,
    Event,
    Label,
    Timer,
)
from turnstream.core.ports import Classification, Classifier, Exchange, Message
from turnstream.metrics import Metrics
from turnstream.roles.deployment import Deployment, StreamRole, made_by
from turnstream.roles.intake import Intake
from turnstream.roles.publishing import Publisher
from turnstream.roles.records import RecordFormat
from turnstream.stream import (
    Handled,
    LaneContext,
    Publication,
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

RECORD_VERSION: Final = 1

_MESSAGES: Final = 8
"""Messages kept: a label looks at the latest exchanges, and the record must stay small."""
_MESSAGE_CHARACTERS: Final = 2_000
"""Characters kept of each message: one pasted log must not fill the record."""
_WAITING: Final = 8
"""Endings kept until their turn arrives: a turn that never does must not hold them for ever."""
_TITLE_CHARACTERS: Final = 120
"""Longest title: a classifier that repeats its input must not fill the labels' topic."""
_CATEGORIES: Final = 5
"""Most categories of a conversation."""
_CLASSIFIER_SECONDS: Final = 20.0
"""How long one classification may take: it holds a slot."""

Speaker = Literal["customer", "agent", "assistant", "system"]


@dataclass(frozen=True, slots=True)
class Said:
    """One message of the window."""

    at: int
    """Milliseconds UTC."""
    role: Speaker
    text: str
    turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of an exchange."""

    turn_id: str
    """The customer turn that opened it."""
    handoff_summary: str | None = None


@dataclass(frozen=True, slots=True)
class Followed:
    """What is kept of one conversation."""

    watermarks: Mapping[str, int] = field(default_factory=dict)
    messages: tuple[Said, ...] = ()
    """Oldest first."""
    waiting: tuple[Ending, ...] = ()
    """Endings whose turn has not arrived, oldest first."""
    locale: str | None = None
    title: str = ""
    categories: tuple[str, ...] = ()
    """Of the latest label."""
    closed: bool = False
    updated_at: int = 0
    """Time of the latest message, milliseconds UTC."""
    record_version: int = RECORD_VERSION


_ADAPTER: Final = TypeAdapter(Followed)


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
        followed, ending = self._followed(record, event, state)
        if ending is None:
            return Handled(followed)
        exchange = Exchange(
            exchange_id=ending.turn_id,
            locale=followed.locale or self._catalog.default_locale,
            messages=tuple(Message(role=said.role, text=said.text) for said in followed.messages),
        )
        try:
            reply = self._classifier.classify(exchange)
            if isawaitable(reply):
                return self._awaited(record, followed, ending, reply)
            return self._labelled(record, followed, ending, self._checked(reply))
        except Exception as error:  # noqa: BLE001 - the classifier is the other side of a port
            return self._unlabelled(record, followed, ending, error)

    def flood(self, record: Record, event: Event, state: Followed | None) -> Handled[Followed]:
        """Follow, but label nothing: labels of a flood interest nobody."""
        return Handled(self._followed(record, event, state)[0])

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
        return Handled(_passed(state or Followed(), record))

    async def resolve_schema(self, fingerprint: str) -> bool:
        """Look up a writer's schema."""
        return await self._intake.resolve_schema(fingerprint)

    def timer(self, key: bytes, timer: TimerDue) -> Publication:
        """A followed conversation holds no timers, so none is ever due."""
        raise AssertionError("a followed conversation has no timers")

    # --- following ------------------------------------------------------------------------------

    def _followed(
        self, record: Record, event: Event, state: Followed | None
    ) -> tuple[Followed, Ending | None]:
        """The window with an event taken in, and the ending that can be labelled now."""
        followed = _passed(state or Followed(), record)
        match event:
            case ConversationTurn():
                return _heard(followed, event)
            case ActionEvent():
                return _decided(followed, event)
            case Answer(text=str(text), turn_id=turn_id):
                said = Said(event.occurred_at, "assistant", text)
                return _ended(followed, said, Ending(turn_id) if turn_id else None)
            case ConversationControl(kind="close" | "forget"):
                return _closed(followed), None
            case Timer(kind="conversation_close") if followed.updated_at <= event.due_at:
                return _closed(followed), None
            case _:
                return followed, None

    # --- labelling ------------------------------------------------------------------------------

    async def _awaited(
        self,
        record: Record,
        followed: Followed,
        ending: Ending,
        reply: Awaitable[Classification],
    ) -> Handled[Followed]:
        try:
            classification = await asyncio.wait_for(reply, _CLASSIFIER_SECONDS)
            return self._labelled(record, followed, ending, self._checked(classification))
        except Exception as error:  # noqa: BLE001 - the classifier is the other side of a port
            return self._unlabelled(record, followed, ending, error)

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
        followed: Followed,
        ending: Ending,
        classification: Classification,
    ) -> Handled[Followed]:
        self._metrics.classified("labelled")
        followed = replace(
            followed, title=classification.title, categories=classification.categories
        )
        return self._published(record, followed, ending, model=classification.model)

    def _unlabelled(
        self, record: Record, followed: Followed, ending: Ending, error: Exception
    ) -> Handled[Followed]:
        self._metrics.classified("failed")
        # Only the kind of error: its text may repeat what the customer wrote.
        log.warning("classification failed", error=type(error).__name__)
        return self._published(
            record, followed, ending, model="", error=f"classifier failed: {type(error).__name__}"
        )

    def _published(
        self,
        record: Record,
        followed: Followed,
        ending: Ending,
        *,
        model: str,
        error: str | None = None,
    ) -> Handled[Followed]:
        label = Label(
            exchange_id=ending.turn_id,
            conversation_id=record.key.decode(),
            title=followed.title,
            categories=followed.categories,
            handoff_summary=ending.handoff_summary,
            model=model,
            error=error,
            occurred_at=self._now_ms(),
        )
        event_id = f"{record.topic}/{record.partition}/{record.offset}/label"
        publication = self._publisher.publication(
            label, key=record.key, event_id=event_id, record=record
        )
        return Handled(followed, (publication,))


def _heard(followed: Followed, turn: ConversationTurn) -> tuple[Followed, Ending | None]:
    """Take a turn in; the latest ending that waited for it can be labelled."""
    known = any(said.turn_id == turn.turn_id for said in followed.messages)
    if known or turn.echo_of is not None or turn.role == "unrecognized":
        return followed, None
    said = Said(turn.occurred_at, turn.role, turn.text, turn.turn_id)
    followed = _with(replace(followed, closed=False, locale=turn.locale or followed.locale), said)
    mine = [ending for ending in followed.waiting if ending.turn_id == turn.turn_id]
    if not mine:
        return followed, None
    others = tuple(ending for ending in followed.waiting if ending.turn_id != turn.turn_id)
    return replace(followed, waiting=others), mine[-1]


def _decided(followed: Followed, action: ActionEvent) -> tuple[Followed, Ending | None]:
    """Take an action in that ends its exchange by itself; a call does not, an answer will."""
    payload = action.question or action.refusal or action.handoff
    if payload is None:
        return followed, None
    summary = action.handoff.summary if action.handoff is not None else None
    ending = Ending(action.turn_id, summary) if action.turn_id else None
    said = Said(action.decided_at, "assistant", payload.text)
    return _ended(replace(followed, locale=followed.locale or payload.locale), said, ending)


def _ended(followed: Followed, said: Said, ending: Ending | None) -> tuple[Followed, Ending | None]:
    """Take in what was said at the end of an exchange."""
    if followed.closed:
        # A late answer to a closed conversation: it must not open a record that nothing closes.
        return followed, None
    followed = _with(followed, said)
    if ending is None or any(one.turn_id == ending.turn_id for one in followed.messages):
        return followed, ending
    return replace(followed, waiting=(*followed.waiting, ending)[-_WAITING:]), None


def _with(followed: Followed, said: Said) -> Followed:
    """Put a message at its place in time, the topics being read side by side."""
    messages = list(followed.messages)
    insort(messages, replace(said, text=said.text[:_MESSAGE_CHARACTERS]), key=_at)
    return replace(
        followed,
        messages=tuple(messages[-_MESSAGES:]),
        updated_at=max(followed.updated_at, said.at),
    )


def _at(said: Said) -> int:
    return said.at


def _closed(followed: Followed) -> Followed:
    """Nothing but the watermarks."""
    return Followed(watermarks=followed.watermarks, closed=True)


def _passed(followed: Followed, record: Record) -> Followed:
    return replace(followed, watermarks={**followed.watermarks, record.topic: record.offset})


def window_format() -> RecordFormat[Followed]:
    """How followed conversations are stored."""
    return RecordFormat(_ADAPTER, version=RECORD_VERSION, closed=lambda state: state.closed)


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
            intake=deployment.intake(SOURCES),
            publisher=deployment.publisher("classify"),
            catalog=deployment.catalog,
            classifier=_classifier(deployment),
            metrics=deployment.metrics,
            now_ms=deployment.now_ms,
        ),
        state_format=window_format(),
        sources=SOURCES,
        writes=WRITES,
    )
