"""The other side of the topics: writes turns, control events and live actions from outside.

It follows what the roles check: the key is the conversation id, the partition is the one that the
configured partitioner gives, no record is larger than they accept, and a schema is published
before the first record that uses it.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    MessageSizeTooLargeError,
    TopicAuthorizationFailedError,
)
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.structs import RecordMetadata

from turnstream.config import Settings
from turnstream.core.events import ConversationControl, ConversationTurn, LiveAction
from turnstream.stream.contracts import topic_of
from turnstream.stream.partitioner import partitioner
from turnstream.stream.reachability import why_unreachable
from turnstream.stream.registry import codec_for, publish_schemas

Written = ConversationTurn | ConversationControl | LiveAction
"""What comes from outside."""

MODELS: Final[Mapping[str, type[Written]]] = {
    "turn": ConversationTurn,
    "control": ConversationControl,
    "live-action": LiveAction,
}
"""Name to model."""

_REQUEST_MS: Final = 20_000
"""A broker that accepts and does not answer must not hang the sender for aiokafka's 40 s."""

_LINGER_MS: Final = 5
"""Lets a file's records share batches; a single turn waits no longer than a person notices."""

_BATCH_BYTES: Final = 16_384
"""Records sent together: more than a topic takes at once would be refused with every one in it."""

_ABANDON_SECONDS: Final = 5.0
"""After an error or an interrupt, a broker that is gone must not keep the process from ending."""


class WritingError(Exception):
    """Nothing can be written; the message says what to change."""


class RecordRefused(WritingError):
    """One record cannot be written; others can."""


class EventWriter:
    """Writes events from outside, each conversation's in the order of the calls."""

    def __init__(
        self, settings: Settings, *, topics: Mapping[type[Written], str] | None = None
    ) -> None:
        """Prepare.

        Args:
            settings: The deployment's.
            topics: Physical topic to use instead of the configured one, per model.
        """
        self._settings = settings
        self._codec = codec_for(settings)
        self._partition = partitioner(settings.turns.partitioner)
        self._topics: dict[type[Written], str] = {
            model: settings.topics.name(topic_of(model)) for model in MODELS.values()
        }
        self._topics |= topics or {}
        self._checked: set[str] = set()
        self._limits: Mapping[str, int] = {}
        self._followed: set[tuple[str, int]] = set()
        self._producer: AIOKafkaProducer | None = None

    def topic(self, model: type[Written]) -> str:
        """The physical topic of a model."""
        return self._topics[model]

    async def __aenter__(self) -> Self:
        """Connect and publish the schemas.

        Raises:
            WritingError: The broker cannot be reached.
            SchemasUnavailable: The schemas cannot be published.
        """
        self._limits = await _batch_limits(self._settings, topics=self._topics.values())
        producer = self._producer = await self._started()
        try:
            topics = [topic_of(model) for model in MODELS.values()]
            await publish_schemas(self._codec, topics, settings=self._settings)
        except BaseException:
            self._producer = None
            await producer.stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        producer, self._producer = self._producer, None
        if producer is None:
            return
        if kind is None:
            await producer.stop()
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ABANDON_SECONDS):
                await producer.stop()

    async def send(self, event: Written) -> RecordMetadata:
        """Write an event; returns when the broker has it.

        Raises:
            RecordRefused: It is too large, or the broker did not take it; see :meth:`renew`.
            WritingError: The topic is not as configured, or must not be written.
        """
        topic = self._topics[type(event)]
        try:
            return await (await self.begin(event))
        except (ClusterAuthorizationFailedError, TopicAuthorizationFailedError) as error:
            raise WritingError(
                f"{topic!r} must not be written by this user ({error!r}): allow it, or set "
                "kafka.sasl_username to one who may"
            ) from error
        except KafkaError as error:
            raise RecordRefused(f"the broker did not take it: {error!r}") from error

    async def begin(self, event: Written) -> asyncio.Future[RecordMetadata]:
        """Hand an event over; the future ends when the broker has it.

        The first of a partition is waited for: from then on the broker refuses all that follow a
        record that it did not take.

        Raises:
            RecordRefused: It is larger than the roles or the topic accept.
            WritingError: The topic is not as configured.
            Unencodable: The event does not fit its schema.
            KafkaError: An earlier record was refused, and this one cannot follow it.
        """
        producer = self._open()
        topic, key = self._topics[type(event)], event.conversation_id.encode()
        value = self._codec.encode(event)
        self._check_size(topic, key=key, value=value)
        if topic not in self._checked:
            await self._check(producer, topic)
        partition = self._partition(key, self._settings.partitions)
        try:
            sent: asyncio.Future[RecordMetadata] = await producer.send(
                topic, value=value, key=key, partition=partition
            )
        except MessageSizeTooLargeError as error:
            raise RecordRefused(f"too large: {error}") from error
        if (topic, partition) not in self._followed:
            # A broker that has taken nothing from a producer takes its second batch after it has
            # refused the first, and would bring a conversation out of its order.
            await asyncio.wait((sent,))
            if sent.exception() is None:
                self._followed.add((topic, partition))
        return sent

    async def renew(self) -> None:
        """Begin a new sequence of records, after a refusal.

        The broker counts each producer's records and refuses all that follow one that it did not
        take. What has been handed over must have been confirmed or refused before.

        Raises:
            WritingError: The broker cannot be reached.
        """
        await self._open().stop()
        self._followed.clear()
        self._producer = await self._started()

    def _open(self) -> AIOKafkaProducer:
        if self._producer is None:
            raise RuntimeError("the writer is not open: use `async with`")
        return self._producer

    async def _started(self) -> AIOKafkaProducer:
        kafka = self._settings.kafka
        options: dict[str, Any] = kafka.client_options()
        producer = AIOKafkaProducer(
            **options,
            acks="all",
            enable_idempotence=True,
            linger_ms=_LINGER_MS,
            max_batch_size=min((_BATCH_BYTES, *self._limits.values())),
            request_timeout_ms=_REQUEST_MS,
        )
        try:
            await producer.start()
        except (KafkaError, OSError) as error:
            await producer.stop()
            raise WritingError(str(await why_unreachable(options, error))) from error
        return producer

    def _check_size(self, topic: str, *, key: bytes, value: bytes) -> None:
        accepted = self._settings.stream.max_record_bytes
        if len(value) > accepted:
            raise RecordRefused(
                f"too large: {len(value):,} bytes as a record; the roles accept {accepted:,} "
                "(stream.max_record_bytes)"
            )
        limit = self._limits.get(topic)
        if limit is None:
            return
        needed = DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, [])
        if needed > limit:
            raise RecordRefused(
                f"too large: {needed:,} bytes as a record; topic {topic!r} takes {limit:,} "
                "(max.message.bytes)"
            )

    async def _check(self, producer: AIOKafkaProducer, topic: str) -> None:
        try:
            found = len(await producer.partitions_for(topic))
        except KafkaError as error:
            raise WritingError(
                f"topic {topic!r} does not exist or cannot be read ({error!r}): create it with "
                "`turnstream topics apply`"
            ) from error
        if found != self._settings.partitions:
            raise WritingError(
                f"topic {topic!r} has {found} partitions, the configuration says "
                f"{self._settings.partitions}: set `partitions`, else every role refuses them"
            )
        self._checked.add(topic)


async def _batch_limits(settings: Settings, *, topics: Iterable[str]) -> Mapping[str, int]:
    """Bytes that each topic takes at once, for the topics of which the broker tells it.

    Raises:
        WritingError: The broker cannot be reached.
    """
    options: dict[str, Any] = {**settings.kafka.client_options(), "request_timeout_ms": _REQUEST_MS}
    admin = AIOKafkaAdminClient(**options)
    limits: dict[str, int] = {}
    try:
        try:
            await admin.start()
        except (KafkaError, OSError) as error:
            raise WritingError(str(await why_unreachable(options, error))) from error
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
        # A broker without the request, or a user who may not ask: the settings' limit is left.
        with contextlib.suppress(KafkaError, OSError):
            for response in await admin.describe_configs(resources):
                for code, _, _, topic, entries in response.resources:
                    if not code:
                        values = {name: value for name, value, *_ in entries}
                        limits[topic] = int(values["max.message.bytes"])
    finally:
        await admin.close()
    return limits
