"""Which changelog it is: what a store on disk must know of it before the two are put together.

A topic that was deleted and created again has the same name and, after a while, more records than
the store remembers. Brokers give each topic an id of its own, in a version of the metadata request
that aiokafka does not have; it is defined here.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

if TYPE_CHECKING:
    from io import BytesIO

    from turnstream.stream.settings import StreamSettings

logger = logging.getLogger(__name__)

_KEPT_MS: Final = 86_400_000
"""Kafka's default of `delete.retention.ms`, for a broker that does not tell."""

_TRIES: Final = 20
"""Metadata requests before an unknown topic is believed: a new one has no leader for a moment."""


@dataclass(frozen=True, slots=True)
class Changelog:
    """One changelog topic, told apart from all others."""

    cluster_id: str
    """Empty where the broker does not tell."""
    topic: str
    topic_id: str
    """Empty where the broker does not tell: then a topic of the same name passes for it."""
    tombstones_kept_ms: int
    """How long a removal can be read after it was written."""


class _Uuid(AbstractType[uuid.UUID]):
    @classmethod
    def encode(cls, value: uuid.UUID) -> bytes:
        return value.bytes

    @classmethod
    def decode(cls, data: BytesIO) -> uuid.UUID:
        return uuid.UUID(bytes=data.read(16))


class _MetadataResponse(Response):
    API_KEY = 3
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString()),
                ("port", Int32),
                ("rack", CompactString()),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString()),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", CompactString()),
                ("topic_id", _Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class _MetadataRequestStruct(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 10
    RESPONSE_TYPE = _MetadataResponse
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(("topic_id", _Uuid), ("name", CompactString()), ("tags", TaggedFields)),
        ),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _MetadataRequest(Request[_MetadataRequestStruct]):
    API_KEY = 3

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def build(self, request_struct_class: type[_MetadataRequestStruct]) -> _MetadataRequestStruct:
        """Ask for one topic by its name."""
        tags: dict[int, bytes] = {}
        topics = [(uuid.UUID(int=0), self._topic, tags)]
        return request_struct_class(topics, False, False, False, tags)  # noqa: FBT003 - as the wire


async def identify(settings: StreamSettings) -> Changelog:
    """Ask the cluster which topic the changelog is.

    Raises:
        KafkaError: No broker can be reached.
    """
    options: dict[str, Any] = {
        "bootstrap_servers": settings.bootstrap_servers,
        "client_id": f"{settings.client_id}-{settings.group}-changelog",
        "request_timeout_ms": settings.request_timeout_ms,
        **settings.security.client_options(),
    }
    cluster_id, topic_id = await _ids(settings.changelog, options=options)
    if not topic_id:
        logger.warning(
            "the broker tells no topic ids: a changelog that was deleted and created again is not "
            "recognised once it is longer than the local store remembers; remove %r with it",
            settings.data_dir,
        )
    kept = await _tombstones_kept_ms(settings.changelog, options=options)
    return Changelog(cluster_id, settings.changelog, topic_id, kept)


async def _ids(topic: str, *, options: dict[str, Any]) -> tuple[str, str]:
    """Return the ids of the cluster and of the topic, empty where the broker does not tell."""
    client = AIOKafkaClient(**options)
    await client.bootstrap()
    try:
        cluster_id = ""
        for _ in range(_TRIES):
            try:
                response = await client.send(client.get_random_node(), _MetadataRequest(topic))
            except (IncompatibleBrokerVersion, NotImplementedError):
                break
            cluster_id = response.cluster_id or ""
            for error_code, name, topic_id, *_ in response.topics:
                if name == topic and not error_code:
                    return cluster_id, str(topic_id) if topic_id.int else ""
            await client.force_metadata_update()
        return cluster_id, ""
    finally:
        await client.close()


async def _tombstones_kept_ms(topic: str, *, options: dict[str, Any]) -> int:
    admin = AIOKafkaAdminClient(**options)
    await admin.start()
    try:
        wanted = [ConfigResource(ConfigResourceType.TOPIC, topic)]
        for response in await admin.describe_configs(wanted):
            for resource in response.resources:
                for entry in resource[4]:
                    if not resource[0] and entry[0] == "delete.retention.ms":
                        return int(entry[1])
    except (KafkaError, NotImplementedError) as error:
        logger.info("the broker does not tell delete.retention.ms: %r", error)
    finally:
        await admin.close()
    return _KEPT_MS
