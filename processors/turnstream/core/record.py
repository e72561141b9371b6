"""The stored form of a conversation: UTF-8 JSON, its version first.

A record is read by the version that wrote it and by later ones. Version 1 knew no replies of agent
models and did not count the messages. One of a newer version is left untouched for a worker of that
version. One that cannot be read - of a version without a migration, or no conversation at all -
never becomes a conversation that starts afresh: :func:`lost` is what remains of it, and whatever
happens next in it ends in a handoff.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pydantic import JsonValue, ValidationError
from pydantic_core import from_json

from turnstream.core.conversation import RECORD, RECORD_VERSION, Activation, Conversation
from turnstream.core.errors import TurnstreamError
from turnstream.core.evolution import evolved

_PRESENT: Final = b'{"record_version":%d,' % RECORD_VERSION
"""How every record of this version begins, as :func:`dump` writes it."""

_FIRST: Final = 1
"""The oldest version with a migration."""

_BEFORE: Final = b'{"record_version":%d,' % _FIRST


class RecordTooNew(TurnstreamError):
    """A newer version wrote the record: leave it untouched for a worker of that version."""

    def __init__(self, version: int) -> None:
        """Name the record's version."""
        super().__init__(f"record version {version} is newer than {RECORD_VERSION}: upgrade")
        self.version = version


class RecordUnreadable(TurnstreamError):
    """The record is no conversation of this version: it can only be handed off, see :func:`lost`.

    To keep it, run the version that wrote it, or restore the changelog from a copy.
    """

    def __init__(self, why: str, content: JsonValue = None) -> None:
        """Keep what can be made out of the record.

        Args:
            why: what is wrong with it; never one of its values.
            content: its JSON, where it is any.
        """
        super().__init__(why)
        self.version = version_in(content)
        """The record's version; None where it names none."""
        self.watermarks = watermarks_in(content)
        """Source topic to the highest offset handled, as far as the record tells."""


def dump(conversation: Conversation) -> bytes:
    """Write a conversation that is at rest."""
    return RECORD.dump_json(conversation)


def load(value: bytes) -> Conversation:
    """Read what :func:`dump` wrote.

    Raises:
        RecordTooNew: its version is higher than ours.
        RecordUnreadable: it is not JSON, has no version of ours, or does not hold a conversation.
    """
    before = value.startswith(_BEFORE)
    if not before and not value.startswith(_PRESENT):
        before = _checked_version(value) == _FIRST
    try:
        found = RECORD.validate_json(value)
        return migrated(found) if before else found
    except ValidationError as error:
        # The values are a customer's: the places alone are safe to show.
        places = ", ".join(
            sorted({".".join(str(part) for part in one["loc"][:2]) for one in error.errors()})
        )
        raise RecordUnreadable(f"not a conversation: {places}", content_of(value)) from None


def lost(watermarks: Mapping[str, int], turn_id: str = "") -> Conversation:
    """What is left of a conversation whose record cannot be read.

    A call, an answer or a question may be under way that nobody can see any more. So it counts as
    work under way: an input that is given up on it hands it off, whatever the input is.

    Args:
        watermarks: source topic to the highest offset handled, as far as the record told.
        turn_id: the turn that comes next, where it is one.
    """
    return Conversation(watermarks=watermarks, activation=Activation(turn_id, 0, 0))


def content_of(value: bytes) -> JsonValue:
    """The JSON of a record that may be anything; None where it is no JSON."""
    try:
        content: JsonValue = from_json(value)
    except ValueError:
        return None
    return content


def version_in(content: JsonValue) -> int | None:
    """The version that a record of unknown form names, if it names one."""
    version = content.get("record_version") if isinstance(content, dict) else None
    return version if type(version) is int else None


def watermarks_in(content: JsonValue) -> dict[str, int]:
    """The watermarks that a record of unknown form holds, or as much as looks like them.

    They keep a record that was handled already from being handled again as if it came next.
    """
    found = content.get("watermarks") if isinstance(content, dict) else None
    if not isinstance(found, dict):
        return {}
    return {topic: offset for topic, offset in found.items() if type(offset) is int and offset >= 0}


def migrated(found: Conversation) -> Conversation:
    """A conversation that was stored under version 1, as one of the present version.

    Only the messages that are left can be counted. Which of them were written since the work began
    is not known, so none counts as if it was.
    """
    spoken = len(found.history)
    activation, backlog = found.activation, found.backlog
    return evolved(
        found,
        record_version=RECORD_VERSION,
        spoken=spoken,
        activation=evolved(activation, spoken=spoken) if activation is not None else None,
        backlog=replace(backlog, spoken=spoken) if backlog is not None else None,
    )


def _checked_version(value: bytes) -> int:
    content = content_of(value)
    if content is None:
        raise RecordUnreadable("not JSON")
    version = version_in(content)
    if version is None:
        raise RecordUnreadable("no record_version", content)
    if version > RECORD_VERSION:
        raise RecordTooNew(version)
    if version < _FIRST:
        raise RecordUnreadable(
            f"record version {version} has no migration to {RECORD_VERSION}", content
        )
    return version
