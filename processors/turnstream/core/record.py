"""The stored form of a conversation: UTF-8 JSON, its version first."""

from typing import Final

from pydantic import ValidationError
from pydantic_core import from_json

from turnstream.core.conversation import RECORD, RECORD_VERSION, Conversation
from turnstream.core.errors import TurnstreamError

_PRESENT: Final = b'{"record_version":%d,' % RECORD_VERSION
"""How every record of this version begins, as :func:`dump` writes it."""


class RecordTooNew(TurnstreamError):
    """A newer version wrote the record: leave it untouched for a worker of that version."""

    def __init__(self, version: int) -> None:
        """Name the record's version."""
        super().__init__(f"record version {version} is newer than {RECORD_VERSION}: upgrade")
        self.version = version


class RecordUnreadable(TurnstreamError):
    """The record is no conversation of a known version: restore the changelog from a copy."""


def dump(conversation: Conversation) -> bytes:
    """Write a conversation that is at rest."""
    return RECORD.dump_json(conversation)


def load(value: bytes) -> Conversation:
    """Read what :func:`dump` wrote.

    Raises:
        RecordTooNew: its version is higher than ours.
        RecordUnreadable: it is not JSON, has no version of ours, or does not hold a conversation.
    """
    if not value.startswith(_PRESENT):
        _check_version(value)
    try:
        return RECORD.validate_json(value)
    except ValidationError as error:
        # The values are a customer's: the places alone are safe to show.
        places = ", ".join(
            sorted({".".join(str(part) for part in one["loc"][:2]) for one in error.errors()})
        )
        raise RecordUnreadable(f"not a conversation: {places}") from None


def _check_version(value: bytes) -> None:
    try:
        found = from_json(value)
    except ValueError:
        raise RecordUnreadable("not JSON") from None
    version = found.get("record_version") if isinstance(found, dict) else None
    if type(version) is not int:
        raise RecordUnreadable("no record_version")
    if version > RECORD_VERSION:
        raise RecordTooNew(version)
    if version < RECORD_VERSION:
        raise RecordUnreadable(f"record version {version} has no migration to {RECORD_VERSION}")
