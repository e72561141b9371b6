"""Tells topics of the same name apart: by the ids that brokers give each topic anew.

They are in a version of the metadata request that aiokafka does not have; it is defined here.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aiokafka.errors import IncompatibleBrokerVersion
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
    from collections.abc import Collection, Mapping
    from io import BytesIO

    from aiokafka.client import AIOKafkaClient

_TRIES: Final = 20
"""Metadata requests before an unknown topic is believed: a new one has no leader for a moment."""

_PAUSE_SECONDS: Final = 0.25
"""Between two of them: without it all would be over before that moment is."""


@dataclass(frozen=True, slots=True)
class TopicIds:
    """The topics of one cluster, told apart from all that had or will have their names."""

    cluster_id: str = ""
    """Empty where the broker does not tell."""
    ids: Mapping[str, str] = field(default_factory=dict)
    """Topic to its id. A topic whose id the broker does not tell is not there."""


async def topic_ids(client: AIOKafkaClient, topics: Collection[str]) -> TopicIds:
    """Ask the cluster which topics these are.

    Args:
        client: One that knows brokers.
        topics: Their names.

    Raises:
        aiokafka.errors.KafkaError: The broker that was asked does not answer.
    """
    cluster_id = ""
    ids: dict[str, str] = {}
    for _ in range(_TRIES):
        try:
            response = await client.send(client.get_random_node(), _MetadataRequest(topics))
        except (IncompatibleBrokerVersion, NotImplementedError):
            break
        cluster_id = response.cluster_id or ""
        for error_code, name, topic_id, *_ in response.topics:
            if not error_code:
                ids[name] = str(topic_id) if topic_id.int else ""
        if ids.keys() >= set(topics):
            break
        await client.force_metadata_update()
        await asyncio.sleep(_PAUSE_SECONDS)
    return TopicIds(cluster_id, {topic: ids[topic] for topic in topics if ids.get(topic)})


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

    def __init__(self, topics: Collection[str]) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[_MetadataRequestStruct]) -> _MetadataRequestStruct:
        """Ask for the topics by their names."""
        tags: dict[int, bytes] = {}
        topics = [(uuid.UUID(int=0), topic, tags) for topic in self._topics]
        return request_struct_class(topics, False, False, False, tags)  # noqa: FBT003 - as the wire
