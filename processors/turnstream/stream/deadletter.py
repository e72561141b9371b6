"""Dead letters: the source record, untouched, with headers that say why it is there.

A record that no role can read has one dead letter, however many roles read its topic, and is
replayed for all of them. What one role gave up while handling it, the others have handled: it is
replayed for that role alone, by a header of the replayed record (`addressee`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Self

import orjson

from turnstream import __version__
from turnstream.stream.topic_definitions import ROLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from turnstream.stream.handler import DeadLetterReason, Headers, Record

HEADER_PREFIX: Final = "turnstream.error."

ORIGIN: Final = "turnstream.origin."
"""Prefix of the headers by which a replayed dead letter names the record that it was."""

FOR: Final = ORIGIN + "for"
"""Header of a replayed record that one role alone is to handle: the role's name."""

Stage = Literal["intake", "handling"]
"""How a record was given up: by the checks of form that every role makes alike, or by one role.

The reason does not tell: a role may find a record invalid that the checks of form let pass.
"""

_LARGEST_PARTITION: Final = 2**31 - 1
_LARGEST_OFFSET: Final = 2**63 - 1
"""What Kafka has room for; an event with a higher number could not be written."""

_COUNT_DIGITS: Final = 6
"""Anybody may write headers: a number of any length would be put into every id."""

_MAX_DETAIL: Final = 512
"""Characters of detail: an exception's text may be as long as the record that caused it."""

_RECORD_OVERHEAD: Final = 256
"""Bytes of framing a broker counts beside key, value and headers when it checks the limit."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a record is."""

    topic: str
    """Physical name."""
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``topic/partition/offset``.

        Raises:
            ValueError: It is none, or a number is out of Kafka's range.
        """
        topic, partition, offset = text.rsplit("/", 2)
        return cls.of(topic, partition, offset)

    @classmethod
    def of(cls, topic: str, partition: str | bytes, offset: str | bytes) -> Self:
        """Read its parts.

        Raises:
            ValueError: A number is none, or out of Kafka's range.
        """
        place = cls(topic, int(partition), int(offset))
        if not (
            0 <= place.partition <= _LARGEST_PARTITION and 0 <= place.offset <= _LARGEST_OFFSET
        ):
            raise ValueError("no such partition or offset can be")
        return place


def origin_of(headers: Iterable[tuple[str, bytes | None]]) -> Place | None:
    """The first place of a replayed record; None when it was never replayed."""
    origin = {
        name.removeprefix(ORIGIN): value
        for name, value in headers
        if name.startswith(ORIGIN) and value is not None
    }
    if not origin.keys() >= {"topic", "partition", "offset"}:
        return None
    try:
        return Place.of(origin["topic"].decode(), origin["partition"], origin["offset"])
    except ValueError:
        return None  # headers that only look like ours: the record stands for itself


def addressee(headers: Iterable[tuple[str, bytes | None]], *, topic: str) -> str | None:
    """The one role that a replayed record is for; None: all.

    Anybody may write headers. Only a whole origin in the same topic, as a replay has it, makes a
    record one role's, and only a role that there is: with any other header the record is handled
    by all, since what none of them took would be lost.

    Args:
        headers: The record's.
        topic: Physical topic of the record.
    """
    named = [value for name, value in headers if name == FOR and value is not None]
    if not named:
        return None
    origin = origin_of(headers)
    role = named[-1].decode("utf-8", "replace")
    return role if role in ROLES and origin is not None and origin.topic == topic else None


def given_up_before(headers: Iterable[tuple[str, bytes | None]]) -> int:
    """How often a replayed record was read and given up before: as many of its ids are used."""
    for name, value in headers:
        if name == ORIGIN + "given_up" and value is not None and value.isdigit():
            # More digits than a count of replays can have are not ours.
            return int(value) if len(value) <= _COUNT_DIGITS else 0
    return 0


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
    role: str,
    stage: Stage,
    reason: DeadLetterReason,
    detail: str,
    attempts: int,
) -> DeadRecord:
    """Return the dead letter of a record that a role gave up.

    One that the topic would not take becomes a pointer: the same error headers, and as value a
    JSON object with the topic, partition, offset and size of the record, which stays readable in
    its source topic for as long as that retains it.
    """
    fields = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "timestamp": str(record.timestamp),
        "role": role,
        "stage": stage,
        "reason": reason,
        "attempts": str(attempts),
        "version": __version__,
    }
    if detail:
        fields["detail"] = detail[:_MAX_DETAIL]
    marks = tuple(
        (HEADER_PREFIX + name, text.encode("utf-8", "replace")) for name, text in fields.items()
    )
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


def _size(
    key: bytes | None, value: bytes | None, *, headers: Iterable[tuple[str, bytes | None]]
) -> int:
    # 4 bytes per character is the longest UTF-8; header names may be anyone's.
    named = sum(4 * len(name) + len(text or b"") + 10 for name, text in headers)
    return len(key or b"") + len(value or b"") + named + _RECORD_OVERHEAD
