"""Dead letters: the source record, untouched, with headers that say why it is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson

from turnstream import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

    from turnstream.stream.handler import DeadLetterReason, Headers, Record

HEADER_PREFIX: Final = "turnstream.error."

_MAX_DETAIL: Final = 512
"""Characters of detail: an exception's text may be as long as the record that caused it."""

_RECORD_OVERHEAD: Final = 256
"""Bytes of framing a broker counts beside key, value and headers when it checks the limit."""


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    """A dead-letter topic as it exists on the broker."""

    name: str
    partitions: int
    max_bytes: int
    """`max.message.bytes` of the topic."""

    def partition_for(self, partition: int) -> int:
        """Return the partition for a record of that source partition: the same if it exists."""
        return partition % self.partitions


@dataclass(frozen=True, slots=True)
class DeadRecord:
    """A record ready to be published to a dead-letter topic."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    reason: DeadLetterReason
    source_topic: str


def dead_record(
    record: Record,
    *,
    topic: DeadLetterTopic,
    reason: DeadLetterReason,
    detail: str,
    attempts: int,
) -> DeadRecord:
    """Return the dead letter of a record.

    One that the topic would not take becomes a pointer: the same error headers, and as value a
    JSON object with the topic, partition, offset and size of the record, which stays readable in
    its source topic for as long as that retains it.
    """
    marks = _error_headers(record, reason=reason, detail=detail, attempts=attempts)
    headers: Headers = (*record.headers, *marks)
    key, value = record.key, record.value
    if _size(key, value, headers=headers) > topic.max_bytes:
        pointer = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "size": _size(key, value, headers=record.headers),
        }
        value = orjson.dumps(pointer)
        headers = (*marks, (HEADER_PREFIX + "pointer", b"1"))
        if _size(key, value, headers=headers) > topic.max_bytes:
            key = None
    return DeadRecord(
        topic=topic.name,
        partition=topic.partition_for(record.partition),
        key=key,
        value=value,
        headers=headers,
        reason=reason,
        source_topic=record.topic,
    )


def _error_headers(
    record: Record, *, reason: DeadLetterReason, detail: str, attempts: int
) -> Headers:
    fields = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "timestamp": str(record.timestamp),
        "reason": reason,
        "attempts": str(attempts),
        "version": __version__,
    }
    if detail:
        fields["detail"] = detail[:_MAX_DETAIL]
    return tuple(
        (HEADER_PREFIX + name, text.encode("utf-8", "replace")) for name, text in fields.items()
    )


def _size(
    key: bytes | None, value: bytes | None, *, headers: Iterable[tuple[str, bytes | None]]
) -> int:
    # 4 bytes per character is the longest UTF-8; header names may be anyone's.
    named = sum(4 * len(name) + len(text or b"") + 10 for name, text in headers)
    return len(key or b"") + len(value or b"") + named + _RECORD_OVERHEAD
