"""Dead letters: the source record, untouched, with headers that say why it is there.

A record that no role can read has one dead letter, however many roles read its topic, and is
replayed for all of them. What one role gave up while handling it, the others have handled: it is
replayed for that role alone, by a header of the replayed record (`addressee`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Self

import orjson

from turnstream import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from turnstream.stream.handler import DeadLetterReason, Headers, Record

HEADER_PREFIX: Final = "turnstream.error."

ORIGIN: Final = "turnstream.origin."
"""Prefix of the headers by which a replayed dead letter names the record that it was."""

FOR: Final = ORIGIN + "for"
"""Header of a replayed record that one role alone is to handle: the role's name."""

_ORIGIN_FIELDS: Final = frozenset({"topic", "partition", "offset", "replays", "given_up", "for"})
"""All that a replay says of its origin."""

Stage = Literal["intake", "handling"]
"""How a record was given up: by the checks of form that every role makes alike, or by one role.

The reason does not tell: a role may find a record invalid that the checks of form let pass.
"""

_LARGEST_PARTITION: Final = 2**31 - 1
_LARGEST_OFFSET: Final = 2**63 - 1
"""What Kafka has room for; an event with a higher number could not be written."""

_LONGEST_TOPIC: Final = 249
"""Characters, as Kafka has it. What is longer is no topic, nor anything else that a replay says of
its origin: anybody may write headers, and these go on into events, letters and the audit."""

_COUNT_DIGITS: Final = 6
"""Anybody may write headers: a number of any length would be put into every id."""

MAX_DETAIL: Final = 512
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
            ValueError: A number is none, or out of Kafka's range, as a topic's name may be.
        """
        place = cls(topic, int(partition), int(offset))
        if not (
            len(topic) <= _LONGEST_TOPIC
            and 0 <= place.partition <= _LARGEST_PARTITION
            and 0 <= place.offset <= _LARGEST_OFFSET
        ):
            raise ValueError("no such topic, partition or offset can be")
        return place


def origin_fields(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, bytes]:
    """What the headers of a replayed record say of its origin; of repeated ones the last counts."""
    return {
        field: value
        for name, value in headers
        if name.startswith(ORIGIN)
        and (field := name.removeprefix(ORIGIN)) in _ORIGIN_FIELDS
        and value is not None
        and len(value) <= _LONGEST_TOPIC
    }


def origin_of(headers: Iterable[tuple[str, bytes | None]]) -> Place | None:
    """The first place of a replayed record; None when it was never replayed."""
    origin = origin_fields(headers)
    if not origin.keys() >= {"topic", "partition", "offset"}:
        return None
    try:
        return Place.of(origin["topic"].decode(), origin["partition"], origin["offset"])
    except ValueError:
        return None  # headers that only look like ours: the record stands for itself


def addressee(
    headers: Iterable[tuple[str, bytes | None]], *, topic: str, readers: Collection[str]
) -> str | None:
    """The one role that a replayed record is for; None: all.

    Anybody may write headers. Only a whole origin in the same topic, as a replay has it, makes a
    record one role's, and only a role that reads the topic: with any other header the record is
    handled by all, since what none of them took would be lost.

    Args:
        headers: The record's.
        topic: Physical topic of the record.
        readers: The roles that read it.
    """
    named = origin_fields(headers).get("for")
    if named is None:
        return None
    origin = origin_of(headers)
    role = named.decode("utf-8", "replace")
    return role if role in readers and origin is not None and origin.topic == topic else None


def given_up_before(headers: Iterable[tuple[str, bytes | None]]) -> int:
    """How often a replayed record was read and given up before: as many of its ids are used."""
    count = origin_fields(headers).get("given_up", b"")
    # More digits than a count of replays can have are not ours.
    return int(count) if count.isdigit() and len(count) <= _COUNT_DIGITS else 0


def key_digest(key: bytes) -> str:
    """What stands for a key that is too long to be kept beside a pointer."""
    return hashlib.blake2b(key, digest_size=16).hexdigest()


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
    size: int
    """Bytes of key, value and headers; rather too many than too few."""


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
    its source topic for as long as that retains it. Of the record's own headers it keeps those that
    name its origin: without them ids would change, and it could be replayed for ever.
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
        fields["detail"] = detail[:MAX_DETAIL]
    marks = tuple(
        (HEADER_PREFIX + name, text.encode("utf-8", "replace")) for name, text in fields.items()
    )
    headers: Headers = (*record.headers, *marks)
    key, value = record.key, record.value
    if record_size(key, value, headers=headers) > topic.max_bytes:
        pointer = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "size": record_size(key, value, headers=record.headers),
        }
        value = orjson.dumps(pointer)
        origin = tuple(
            (ORIGIN + name, said) for name, said in origin_fields(record.headers).items()
        )
        headers = (*origin, *marks, (HEADER_PREFIX + "pointer", b"1"))
        if key is not None and record_size(key, value, headers=headers) > topic.max_bytes:
            headers = (*headers, (HEADER_PREFIX + "key_digest", key_digest(key).encode()))
            key = None
    return DeadRecord(
        topic=topic.name,
        partition=topic.partition_for(record.partition),
        key=key,
        value=value,
        headers=headers,
        reason=reason,
        source_topic=record.topic,
        size=record_size(key, value, headers=headers),
    )


def record_size(
    key: bytes | None, value: bytes | None, *, headers: Iterable[tuple[str, bytes | None]]
) -> int:
    """Return the bytes of a record in a batch; rather too many than too few."""
    # 4 bytes per character is the longest UTF-8; header names may be anyone's.
    named = sum(4 * len(name) + len(text or b"") + 10 for name, text in headers)
    return len(key or b"") + len(value or b"") + named + _RECORD_OVERHEAD
