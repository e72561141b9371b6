"""The audit topic: what people did with dead letters.

One record per action and letter, keyed by the letter's place. It holds no word of a customer,
and no conversation id. Which letters are done with is read from here, so there is no other state.
"""

from __future__ import annotations

from typing import Final, Literal, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from turnstream.core.errors import TurnstreamError
from turnstream.stream.deadletter import Place
from turnstream.stream.letters import Letter

AUDIT: Final = "turnstream.audit"
"""Logical name of the topic."""

Action = Literal["replayed", "discarded", "revealed"]
"""After the first two a letter is done with; the third says who has read what a customer wrote."""

_VERSION: Final = 1

LONGEST_NOTE: Final = 500
"""Characters of a name or a reason in the audit: a file given by mistake would not fit a record."""


class AuditUnreadable(TurnstreamError):
    """An audit record is not understood, so which letters are done with is not known."""


class AuditRecord(BaseModel):
    """One action about one letter."""

    # A newer version may say more; what it says about the letter is understood all the same.
    model_config = ConfigDict(frozen=True, extra="ignore")

    version: Literal[1] = _VERSION
    action: Action
    at: int
    """Milliseconds UTC."""
    actor: str = Field(max_length=LONGEST_NOTE)
    """The user of the operating system, or the name that was given."""
    because: str | None = Field(default=None, max_length=LONGEST_NOTE)
    letter: str
    """The letter's place."""
    letter_at: int
    """When the letter was written: another one may have its place in a topic made anew."""
    reason: str
    """Why the record was given up."""
    source: str | None = None
    """Place of the record that was given up."""
    origin: str | None = None
    """What its ids are made of."""
    replay: int | None = None
    """Which replay of the origin it was, from 1."""
    sent_to: str | None = None
    """Topic and partition of the replayed record."""
    sent_for: str | None = None
    """The role that was to handle it, or `all`."""

    @classmethod
    def about(
        cls,
        letter: Letter,
        *,
        action: Action,
        at: int,
        actor: str,
        because: str | None,
        sent_to: str | None = None,
        sent_for: str | None = None,
    ) -> Self:
        """The record of an action."""
        return cls(
            action=action,
            at=at,
            actor=actor,
            because=because,
            letter=str(letter.place),
            letter_at=letter.at,
            reason=letter.reason,
            source=str(letter.source) if letter.source is not None else None,
            origin=str(letter.origin) if letter.origin is not None else None,
            replay=letter.replays + 1 if action == "replayed" else None,
            sent_to=sent_to,
            sent_for=sent_for,
        )

    @property
    def name(self) -> tuple[str, int]:
        """Which letter it is about; see `name_of`."""
        return self.letter, self.letter_at

    def encode(self) -> tuple[bytes, bytes]:
        """Key and value of the record."""
        fields = self.model_dump(exclude_none=True)
        return self.letter.encode(), orjson.dumps(fields)


_RECORD: Final = TypeAdapter(AuditRecord)


def name_of(letter: Letter) -> tuple[str, int]:
    """What tells a letter from every other one."""
    return str(letter.place), letter.at


def read_audit(value: bytes | None, *, place: Place) -> AuditRecord:
    """Read a record.

    Args:
        value: Its bytes.
        place: Where it is, for messages.

    Raises:
        AuditUnreadable: It is none that this version knows.
    """
    try:
        return _RECORD.validate_json(value or b"")
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"])) or "the record"
        raise AuditUnreadable(
            f"{place} is no audit record that this version knows ({where}: {fault['msg']}); a "
            "letter that it is about could be replayed twice: use the version that wrote it"
        ) from None
