"""Reads what a group has committed, and never takes *not known yet* for *nothing*.

Two answers of a coordinator say less than they seem to, and aiokafka's `committed` takes both for
the whole truth. The owner who believed them would begin at the first offsets or at older ones, and
decide once more every turn of a conversation that has ended since:

* One that has just come up reads the group's offsets from its log first, and answers meanwhile with
  one error for the whole group and no partitions. aiokafka looks at the errors of partitions only.
* The end of a transaction is acknowledged before it has reached the group's offsets. Until then the
  former ones are told, unless one asks for settled ones. aiokafka does not have that version of the
  request; it is defined here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aiokafka.errors import KafkaError, NoError, NotCoordinatorForGroupError, for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.commit import (
    OffsetFetchRequest,
    OffsetFetchRequest_v1,
    OffsetFetchRequest_v2,
    OffsetFetchRequest_v3,
)
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)
from aiokafka.structs import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aiokafka import AIOKafkaConsumer

_UNKNOWN: Final = -1
"""Stands for the offset of a partition of which nothing was committed."""

_UNSTABLE: Final = 88
"""The error of a partition whose offset is in a transaction that has not ended everywhere yet."""

_RETRY_SECONDS: Final = 0.1


async def committed_offsets(
    consumer: AIOKafkaConsumer, tps: Iterable[TopicPartition], *, settled: bool = True
) -> Mapping[TopicPartition, int | None]:
    """Return a group's committed offsets; `None` where nothing was committed.

    It is asked again until its coordinator knows: the caller bounds the time.

    Args:
        consumer: One of the group, started.
        tps: The partitions.
        settled: Whether to wait until no transaction with an offset of one of the partitions is
            open; else the former offset is told. A broker that knows no such thing (Kafka before
            2.5, the embedded one) cannot tell that nothing was committed: there such partitions are
            left out.

    Raises:
        aiokafka.errors.KafkaError: The coordinator refuses to tell.
    """
    asked = _by_topic(tps)
    while True:
        found, unsettled = await _ask(consumer, asked, settled=settled)
        if not unsettled:
            return found
        await asyncio.sleep(_RETRY_SECONDS)


async def any_committed(
    consumer: AIOKafkaConsumer, tps: Iterable[TopicPartition], *, settled: bool
) -> bool:
    """Tell whether a group has committed any offset of these partitions.

    Args:
        consumer: One of the group, started.
        tps: The partitions.
        settled: Whether to wait for transactions that are open, as long as nothing else is
            committed: one of them may be the first to commit anything. The caller bounds the time.

    Raises:
        aiokafka.errors.KafkaError: The coordinator refuses to tell.
    """
    asked = _by_topic(tps)
    while True:
        found, unsettled = await _ask(consumer, asked, settled=settled)
        if any(offset is not None for offset in found.values()):
            return True
        if not unsettled:
            return False
        await asyncio.sleep(_RETRY_SECONDS)


def _by_topic(tps: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    topics: dict[str, list[int]] = {}
    for tp in tps:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return list(topics.items())


async def _ask(
    consumer: AIOKafkaConsumer, asked: list[tuple[str, list[int]]], *, settled: bool
) -> tuple[Mapping[TopicPartition, int | None], bool]:
    """Return the offsets, and whether some are left out that are not settled."""
    coordinator = consumer._coordinator
    kind = _SettledOffsetFetch if settled else OffsetFetchRequest
    last: KafkaError | None = None
    try:
        while True:
            await coordinator.ensure_coordinator_known()
            try:
                response = await coordinator._send_req(kind(coordinator.group_id, asked))
                return _read(response, settled=settled)
            except KafkaError as error:
                if not error.retriable:
                    raise
                if isinstance(error, NotCoordinatorForGroupError):
                    coordinator.coordinator_dead()
                last = error
            await asyncio.sleep(_RETRY_SECONDS)
    except asyncio.CancelledError as cancelled:
        # For who bounds the time, and has to say why it was not enough.
        cancelled.__cause__ = last
        raise


def _read(response: Any, *, settled: bool) -> tuple[Mapping[TopicPartition, int | None], bool]:
    # Answers of brokers before 0.10.2 have no error of their own.
    _check(getattr(response, "error_code", NoError.errno))
    tells_epochs = isinstance(response, _OffsetFetchResponse)
    found: dict[TopicPartition, int | None] = {}
    unsettled = False
    for topic, partitions, *_ in response.topics:
        for partition, offset, *more in partitions:
            error_code = more[2 if tells_epochs else 1]
            if error_code == _UNSTABLE:
                unsettled = True
                continue
            _check(error_code, topic)
            if offset != _UNKNOWN:
                found[TopicPartition(topic, partition)] = offset
            elif tells_epochs or not settled:
                found[TopicPartition(topic, partition)] = None
    return found, unsettled


def _check(error_code: int, *where: str) -> None:
    error = for_code(error_code)
    if error is not NoError:
        raise error(*where)


class _OffsetFetchResponse(Response):
    API_KEY = 9
    API_VERSION = 7
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("topic", CompactString()),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                        ("metadata", CompactString()),
                        ("error_code", Int16),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("error_code", Int16),
        ("tags", TaggedFields),
    )


class _OffsetFetchStruct(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = 9
    API_VERSION = 7
    RESPONSE_TYPE = _OffsetFetchResponse
    SCHEMA = Schema(
        ("consumer_group", CompactString()),
        (
            "topics",
            CompactArray(
                ("topic", CompactString()),
                ("partitions", CompactArray(Int32)),
                ("tags", TaggedFields),
            ),
        ),
        ("require_stable", Boolean),
        ("tags", TaggedFields),
    )


_AnyOffsetFetch: TypeAlias = (
    OffsetFetchRequest_v1 | OffsetFetchRequest_v2 | OffsetFetchRequest_v3 | _OffsetFetchStruct
)


class _SettledOffsetFetch(Request[_AnyOffsetFetch]):
    """Asks for settled offsets where the broker can tell, else as aiokafka does."""

    API_KEY = 9

    def __init__(self, group: str, topics: list[tuple[str, list[int]]]) -> None:
        self._group = group
        self._topics = topics

    def build(self, request_struct_class: type[_AnyOffsetFetch]) -> _AnyOffsetFetch:
        """Ask for the partitions of each topic."""
        if request_struct_class.API_VERSION < _OffsetFetchStruct.API_VERSION:
            return request_struct_class(self._group, self._topics)
        tags: dict[int, bytes] = {}
        topics = [(topic, partitions, tags) for topic, partitions in self._topics]
        return request_struct_class(self._group, topics, True, tags)  # noqa: FBT003 - as the wire
