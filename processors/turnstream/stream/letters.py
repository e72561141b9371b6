"""Dead letters as they are read again: what one says of itself, which are meant, in which order."""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

import orjson

from turnstream.stream.deadletter import (
    FOR,
    HEADER_PREFIX,
    MAX_DETAIL,
    ORIGIN,
    Place,
    given_up_before,
    key_digest,
    origin_fields,
    origin_of,
    record_size,
)
from turnstream.stream.handler import DeadLetterReason
from turnstream.stream.topic_definitions import ROLES, RoleName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from turnstream.stream.handler import Record

ReadHeaders: TypeAlias = tuple[tuple[str, bytes | None], ...]
"""Headers as they are read: other clients write some without a value."""

REASONS: Final[tuple[str, ...]] = get_args(DeadLetterReason)

FOREIGN: Final = "foreign"
"""In place of a reason: the record has no error headers, somebody else has written it."""

Recipient: TypeAlias = RoleName | Literal["all"]
"""For whom a record is replayed."""

RECIPIENTS: Final[tuple[Recipient, ...]] = (*ROLES, "all")

_RECIPIENT: Final[Mapping[str, Recipient]] = {f"handling {role}": role for role in ROLES} | {
    # No role has handled it, and there is one letter for all.
    f"intake {role}": "all"
    for role in ROLES
}
"""Stage and role that a letter names, to who has not handled its record. Of what is not here,
like the letters of somebody else, a person has to say it."""

_LONGEST_NUMBER: Final = 19
"""Digits of what Kafka has room for; a longer header is not ours, and could take long to read."""


_LONGEST_KEY: Final = 4_096
"""Bytes of a key that are kept. Letters are many, and the key of a refused record may be as large
as a record: a list of them would not fit into memory."""

_LONGEST_WORD: Final = 100
"""Characters of a role, stage, reason or version: a header of somebody else's may hold a whole
message, and one that goes into the audit would make its record too large for the topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A dead letter without its value."""

    place: Place
    """Where it is; its name."""
    at: int
    """When it was written, milliseconds UTC."""
    key: bytes | None
    key_digest: str
    """In place of a key that is too long to be kept, here or beside a pointer; else empty."""
    size: int
    """Bytes of the record that was given up, with its key and headers; rather too many than too
    few. They may all be in its headers."""
    role: str
    """Who gave the record up; empty where the letter does not say it."""
    stage: str
    """A `deadletter.Stage`; empty where the letter does not say it."""
    reason: str
    """A `DeadLetterReason`, one of a newer version, or `FOREIGN`."""
    detail: str
    attempts: int
    version: str
    """Of the program that gave the record up."""
    source: Place | None
    """The record that was given up; None for a foreign one."""
    source_at: int
    """That record's time, milliseconds UTC."""
    pointer: bool
    """Whether the record was too large to be kept here: it has to be read from its source."""
    replayed_from: Place | None
    """The first place of a record that had been replayed before."""
    replays: int
    """How often it had been replayed."""
    given_up: int
    """How often it could be read and was given up, this time included: as many ids are used."""

    @property
    def origin(self) -> Place | None:
        """What its ids are made of."""
        return self.replayed_from or self.source

    @property
    def recipient(self) -> Recipient | None:
        """For whom a replay is; None: the letter does not say who gave the record up."""
        return _RECIPIENT.get(f"{self.stage} {self.role}")

    def names(self, record: Record) -> bool:
        """Whether the record at the source is the one that was given up.

        A topic that is made anew has other records in the same places.
        """
        if record.timestamp != self.source_at:
            return False
        return self.is_of(record.key)

    def is_of(self, key: bytes | None) -> bool:
        """Whether the record's key is this one."""
        if self.key_digest:
            return key is not None and key_digest(key) == self.key_digest
        return key == self.key

    @classmethod
    def of(cls, record: Record) -> Letter:
        """Read one from a dead-letter topic; whatever its headers hold."""
        headers, marks = split(record.headers)
        said = {
            name.removeprefix(HEADER_PREFIX): value[: 4 * MAX_DETAIL].decode("utf-8", "replace")
            for name, value in marks
            if value is not None
        }
        pointer = "pointer" in said
        try:
            source = Place.of(said["topic"], said["partition"], said["offset"])
        except (KeyError, ValueError):
            source = None
        reason = _word(said.get("reason", FOREIGN)) if source is not None else FOREIGN
        before = given_up_before(headers)
        key, digest = record.key, _word(said.get("key_digest", "")) if pointer else ""
        size = record_size(key, record.value, headers=headers)
        if key is not None and len(key) > _LONGEST_KEY:
            digest = key_digest(key)
            key = None
        return cls(
            place=Place(record.topic, record.partition, record.offset),
            at=record.timestamp,
            key=key,
            key_digest=digest,
            size=_pointed_size(record.value) if pointer else size,
            role=_word(said.get("role", "")),
            stage=_word(said.get("stage", "")),
            reason=reason,
            detail=said.get("detail", "")[:MAX_DETAIL],
            attempts=_number(said.get("attempts")),
            version=_word(said.get("version", "")),
            source=source,
            source_at=_number(said.get("timestamp")),
            pointer=pointer,
            replayed_from=origin_of(headers),
            replays=_number(origin_fields(headers).get("replays", b"").decode("utf-8", "replace")),
            # Nothing was published about a record that was refused before it was handled.
            given_up=before if said.get("stage") == "intake" or source is None else before + 1,
        )


def split(headers: ReadHeaders) -> tuple[ReadHeaders, ReadHeaders]:
    """The headers of the record as it was, and those that say why it is a dead letter.

    The latter come last and begin with the topic: whatever stands before the last of these was the
    record's own, even if it looks alike.
    """
    first = HEADER_PREFIX + "topic"
    begin = max((i for i, (name, _) in enumerate(headers) if name == first), default=len(headers))
    return headers[:begin], headers[begin:]


def replayed_headers(letter: Letter, own: ReadHeaders, *, recipient: Recipient) -> ReadHeaders:
    """The headers of a replayed record: its own, its origin, and for whom it is.

    Args:
        letter: What is replayed.
        own: The headers of the record as it was given up.
        recipient: Who is to handle it; every other role passes it over.

    Raises:
        ValueError: The letter is foreign.
    """
    origin = letter.origin
    if origin is None:
        raise ValueError(f"{letter.place} does not say what record it was")
    fields = {
        "topic": origin.topic,
        "partition": str(origin.partition),
        "offset": str(origin.offset),
        "replays": str(letter.replays + 1),
        "given_up": str(letter.given_up),
    }
    if recipient != "all":
        fields[FOR.removeprefix(ORIGIN)] = recipient
    kept = [(name, value) for name, value in own if not name.startswith(ORIGIN)]
    return (*kept, *((ORIGIN + name, text.encode()) for name, text in fields.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which letters are meant; what is not given is not asked for."""

    places: frozenset[Place] = frozenset()
    sources: frozenset[str] = frozenset()
    """Physical topics of the records that were given up."""
    reasons: frozenset[str] = frozenset()
    conversation: bytes | None = None
    since: int | None = None
    """Written at or after, milliseconds UTC."""
    until: int | None = None
    """Written before, milliseconds UTC."""

    @property
    def everything(self) -> bool:
        """Whether nothing is asked for."""
        return self == Selection()

    def takes(self, letter: Letter) -> bool:
        """Whether a letter is meant."""
        source = letter.source.topic if letter.source is not None else None
        return (
            (not self.places or letter.place in self.places)
            and (not self.sources or source in self.sources)
            and (not self.reasons or letter.reason in self.reasons)
            and (self.conversation is None or letter.is_of(self.conversation))
            and (self.since is None or letter.at >= self.since)
            and (self.until is None or letter.at < self.until)
        )


def in_order(letters: Iterable[Letter]) -> list[Letter]:
    """The order in which the records were: per source partition by offset, else by time.

    A conversation's records of one topic keep their order whenever each was given up. A record
    that had been replayed has the place that it had first.
    """
    queues: dict[tuple[str, int], list[Letter]] = defaultdict(list)
    for letter in letters:
        place = letter.origin or letter.place
        queues[place.topic, place.partition].append(letter)
    for queue in queues.values():
        queue.sort(key=lambda one: ((one.origin or one.place).offset, one.place))
    return list(heapq.merge(*queues.values(), key=lambda one: one.source_at or one.at))


def overtaken(chosen: Iterable[Letter], waiting: Iterable[Letter]) -> list[Letter]:
    """Those letters that wait although a later record of their conversation and topic is chosen."""
    latest: dict[tuple[bytes | None, str, str], int] = {}
    taken = set()
    for one in chosen:
        taken.add(one.place)
        if one.origin is not None:
            name = (one.key, one.key_digest, one.origin.topic)
            latest[name] = max(latest.get(name, -1), one.origin.offset)
    return [
        one
        for one in waiting
        if one.place not in taken
        and one.origin is not None
        and one.origin.offset < latest.get((one.key, one.key_digest, one.origin.topic), -1)
    ]


def _pointed_size(value: bytes | None) -> int:
    """The size that a pointer says; 0 where somebody else has written it."""
    try:
        pointer = orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        return 0
    return _number(str(pointer.get("size"))) if isinstance(pointer, dict) else 0


def _word(text: str) -> str:
    return text[:_LONGEST_WORD]


def _number(text: str | None) -> int:
    if text is None or len(text) > _LONGEST_NUMBER or not (text.isascii() and text.isdigit()):
        return 0
    return int(text)
