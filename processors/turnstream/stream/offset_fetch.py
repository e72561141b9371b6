"""Reads what a group has committed, and never takes *not known yet* for *nothing*.

A coordinator that has just come up reads the group's offsets from its log first, and answers
meanwhile with one error for the whole group and no partitions. aiokafka looks at the errors of
partitions only: to its `committed` such a group has never committed anything. Its owner would begin
at the first offsets, and decide once more every turn of a conversation that has ended since.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from aiokafka.errors import KafkaError, NoError, NotCoordinatorForGroupError, for_code
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.structs import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aiokafka import AIOKafkaConsumer

_UNKNOWN: Final = -1
"""Stands for the offset of a partition of which nothing was committed."""

_RETRY_SECONDS: Final = 0.1


async def committed_offsets(
    consumer: AIOKafkaConsumer, tps: Iterable[TopicPartition]
) -> Mapping[TopicPartition, int | None]:
    """Return a group's committed offsets; `None` where nothing was committed.

    It is asked again until its coordinator knows: the caller bounds the time.

    Args:
        consumer: One of the group, started.
        tps: The partitions.

    Raises:
        aiokafka.errors.KafkaError: The coordinator refuses to tell.
    """
    topics: dict[str, list[int]] = {}
    for tp in tps:
        topics.setdefault(tp.topic, []).append(tp.partition)
    coordinator = consumer._coordinator
    request = OffsetFetchRequest(coordinator.group_id, list(topics.items()))
    while True:
        await coordinator.ensure_coordinator_known()
        try:
            return _read(await coordinator._send_req(request))
        except KafkaError as error:
            if not error.retriable:
                raise
            if isinstance(error, NotCoordinatorForGroupError):
                coordinator.coordinator_dead()
            await asyncio.sleep(_RETRY_SECONDS)


def _read(response: Any) -> Mapping[TopicPartition, int | None]:
    # Answers of brokers before 0.10.2 have no error of their own.
    _check(getattr(response, "error_code", NoError.errno))
    found: dict[TopicPartition, int | None] = {}
    for topic, partitions in response.topics:
        for partition, offset, _, error_code in partitions:
            _check(error_code)
            found[TopicPartition(topic, partition)] = None if offset == _UNKNOWN else offset
    return found


def _check(error_code: int) -> None:
    error = for_code(error_code)
    if error is not NoError:
        raise error
