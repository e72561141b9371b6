"""Which changelog it is: what a store on disk must know of it before the two are put together.

A topic that was deleted and created again has the same name and, after a while, more records than
the store remembers.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError

from turnstream.stream.topic_ids import topic_ids

if TYPE_CHECKING:
    from turnstream.stream.settings import StreamSettings

logger = logging.getLogger(__name__)

_KEPT_MS: Final = 86_400_000
"""Kafka's default of `delete.retention.ms`, for a broker that does not tell."""


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
        found = await topic_ids(client, [topic])
    finally:
        await client.close()
    return found.cluster_id, found.ids.get(topic, "")


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
