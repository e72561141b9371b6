"""The checks that every record passes before a role sees it.

A record that fails one can never be handled: it goes to the dead letters with its bytes
untouched, and the partition goes on. Everything here is a check of form; what an event *means* is
the core's business.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from turnstream.core.bounds import ID_CHARACTERS
from turnstream.core.events import Event, Source
from turnstream.core.publications import ActionEvent
from turnstream.stream import ForAnotherRole, Record, Rejected
from turnstream.stream.codec import Codec, MalformedValue
from turnstream.stream.contracts import EVENTS
from turnstream.stream.deadletter import addressee, origin_of
from turnstream.stream.partitioner import Partitioner
from turnstream.stream.topic_definitions import RoleName, readers_of

_LONGEST_KEY: Final = 512
"""Longest conversation id in bytes of UTF-8: it is the key of every record and in every event."""

_source: Final = Source.__pydantic_validator__.validate_python
"""The constructor without its keyword arguments: every record has a source."""

_REMEMBERED_KEYS: Final = 65_536
"""Keys whose partition is remembered: hashing each key again would cost more than decoding it."""


class InConversation(Protocol):
    """An event that belongs to a conversation."""

    @property
    def conversation_id(self) -> str:
        """The key of its record."""
        ...


class Intake:
    """Decodes the records of a role's source topics and refuses what does not belong there."""

    def __init__(
        self,
        codec: Codec,
        *,
        topics: Mapping[str, str],
        role: RoleName,
        follows: RoleName | None = None,
        partitions: int,
        partitioner: Partitioner,
        max_record_bytes: int,
    ) -> None:
        """Prepare.

        Args:
            codec: decodes values.
            topics: physical name of each source topic to its logical name.
            role: who reads; what was replayed for another role is none of its records.
            follows: another role whose replayed records it has to know as well.
            partitions: the shared partition count.
            partitioner: how the producers of turns choose a partition.
            max_record_bytes: largest accepted value, uncompressed.
        """
        self._codec = codec
        self._models = {physical: EVENTS[logical] for physical, logical in topics.items()}
        self._readers = {physical: readers_of(logical) for physical, logical in topics.items()}
        self._role = role
        self._follows = follows
        self._partitions = partitions
        self._partitioner = partitioner
        self._max_record_bytes = max_record_bytes
        self._partition_of: dict[bytes, int] = {}

    def admit(self, record: Record) -> tuple[bytes, Event]:
        """The record's key and its event.

        Raises:
            ForAnotherRole: it was replayed for another role.
            Rejected: no key, no value, too large, not decodable, another key than its
                conversation id, an action's id that is too long, or another partition than its
                key's.
            UnknownSchema: it was written with a schema that is not known yet.
        """
        alone = bool(record.headers) and self._is_for_this_role_alone(record)
        key, value = record.key, record.value
        try:
            if not key:
                raise Rejected("missing_key", "expected the conversation id as the key")
            if value is None:
                raise Rejected("missing_value", "a tombstone means nothing on this topic")
            if len(key) > _LONGEST_KEY:
                raise Rejected("invalid", f"the key has {len(key)} bytes; at most {_LONGEST_KEY}")
            if len(value) > self._max_record_bytes:
                limit = self._max_record_bytes
                raise Rejected("oversized", f"{len(value)} bytes; at most {limit} are accepted")
            try:
                event = self._codec.decode_as(self._models[record.topic], value)
            except MalformedValue as error:
                raise Rejected(error.reason, error.detail) from error
            belongs: InConversation = event  # type: ignore[assignment]
            if belongs.conversation_id.encode() != key:
                raise Rejected("wrong_partition", "the key is not the event's conversation_id")
            if isinstance(event, ActionEvent) and len(event.action_id) > ID_CHARACTERS:
                # It becomes a header of what follows, and no size that is checked counts those.
                at_most = f"at most {ID_CHARACTERS}"
                raise Rejected(
                    "invalid", f"action_id has {len(event.action_id)} characters; {at_most}"
                )
            expected = self._partition_of.get(key)
            if expected is None:
                expected = self._partition(key)
            if expected != record.partition:
                raise Rejected("wrong_partition", f"the key belongs to partition {expected}")
        except Rejected as rejected:
            # The others pass it over, so none of them writes the dead letter.
            rejected.by_this_role_alone = alone
            raise
        return key, event

    async def resolve_schema(self, fingerprint: str) -> bool:
        """Look up a writer's schema that :meth:`admit` did not know."""
        return await self._codec.resolve(fingerprint)

    def _is_for_this_role_alone(self, record: Record) -> bool:
        """Whether it was replayed for this role.

        Raises:
            ForAnotherRole: it was for another.
        """
        role = addressee(record.headers, topic=record.topic, readers=self._readers[record.topic])
        if role is None or role == self._follows:
            return False
        if role != self._role:
            raise ForAnotherRole(role)
        return True

    def _partition(self, key: bytes) -> int:
        if len(self._partition_of) >= _REMEMBERED_KEYS:
            self._partition_of.clear()
        found = self._partition_of[key] = self._partitioner(key, self._partitions)
        return found


def source_of(record: Record) -> Source:
    """The record that ids are made of: its own coordinates, or its origin if it was replayed."""
    if record.headers and (origin := origin_of(record.headers)) is not None:
        return Source(topic=origin.topic, partition=origin.partition, offset=origin.offset)
    coordinates = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
    source: Source = _source(coordinates)
    return source
