"""The other side of the topics: writes turns, control events and live actions, as a gateway does.

It follows what the roles check: the key is the conversation id, the partition is the one that the
configured partitioner gives, and a schema is published before the first record that uses it.
"""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from aiokafka.structs import RecordMetadata

from turnstream.config import Settings
from turnstream.core.events import ConversationControl, ConversationTurn, LiveAction
from turnstream.stream.contracts import topic_of
from turnstream.stream.partitioner import partitioner
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


class GatewayError(Exception):
    """Nothing can be written; the message says what to change."""


class Gateway:
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
        self._producer: AIOKafkaProducer | None = None

    def topic(self, model: type[Written]) -> str:
        """The physical topic of a model."""
        return self._topics[model]

    async def __aenter__(self) -> Self:
        """Connect and publish the schemas.

        Raises:
            GatewayError: The broker cannot be reached.
            SchemasUnavailable: The schemas cannot be published.
        """
        kafka = self._settings.kafka
        options: dict[str, Any] = kafka.client_options()
        producer = AIOKafkaProducer(
            **options,
            acks="all",
            enable_idempotence=True,
            linger_ms=_LINGER_MS,
            request_timeout_ms=_REQUEST_MS,
        )
        try:
            await producer.start()
        except (KafkaError, OSError) as error:
            await producer.stop()
            raise GatewayError(
                f"no Kafka at {kafka.bootstrap_servers}: check kafka.bootstrap_servers and that "
                f"the broker runs ({error})"
            ) from error
        self._producer = producer
        try:
            topics = [topic_of(model) for model in MODELS.values()]
            await publish_schemas(self._codec, topics, settings=self._settings)
        except BaseException:
            await producer.stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._producer is not None:
            await self._producer.stop()
            self._producer = None

    async def send(self, event: Written) -> RecordMetadata:
        """Write an event; returns when the broker has it.

        Raises:
            GatewayError: The topic is not as configured, or the record was not taken.
        """
        try:
            return await (await self.begin(event))
        except KafkaError as error:
            raise GatewayError(f"{self._topics[type(event)]} took no record: {error!r}") from error

    async def begin(self, event: Written) -> asyncio.Future[RecordMetadata]:
        """Hand an event over; the future ends when the broker has it.

        Raises:
            GatewayError: The topic is not as configured.
            Unencodable: The event does not fit its schema.
        """
        producer = self._producer
        if producer is None:
            raise RuntimeError("the gateway is not open: use `async with`")
        topic, key = self._topics[type(event)], event.conversation_id.encode()
        value = self._codec.encode(event)
        if topic not in self._checked:
            await self._check(producer, topic)
        sent: asyncio.Future[RecordMetadata] = await producer.send(
            topic, value=value, key=key, partition=self._partition(key, self._settings.partitions)
        )
        return sent

    async def _check(self, producer: AIOKafkaProducer, topic: str) -> None:
        try:
            found = len(await producer.partitions_for(topic))
        except KafkaError as error:
            raise GatewayError(
                f"topic {topic!r} does not exist or cannot be read ({error!r}): create it with "
                "`turnstream topics apply`"
            ) from error
        if found != self._settings.partitions:
            raise GatewayError(
                f"topic {topic!r} has {found} partitions, the configuration says "
                f"{self._settings.partitions}: set `partitions`, else every role refuses them"
            )
        self._checked.add(topic)
