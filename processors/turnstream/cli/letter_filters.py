"""Which letters a command line means."""

import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from turnstream.core.errors import TurnstreamError
from turnstream.stream.contracts import EVENTS
from turnstream.stream.deadletter import Place
from turnstream.stream.letters import FOREIGN, REASONS, RECIPIENTS, Recipient, Selection
from turnstream.stream.topics import DEAD_LETTERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from turnstream.config import Settings

_AGO: Final = re.compile(r"([0-9]{1,9})([smhd])", re.ASCII)
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class FilterUnusable(TurnstreamError):
    """A filter names nothing that can be; the message says what it could be."""


def now_ms() -> int:
    """The wall clock, milliseconds UTC."""
    return time.time_ns() // 1_000_000


def selection(
    settings: "Settings",
    *,
    letters: "Iterable[str]" = (),
    topics: "Iterable[str]" = (),
    reasons: "Iterable[str]" = (),
    conversation: str | None = None,
    since: str | None = None,
    until: str | None = None,
    now: int,
) -> Selection:
    """Read the filters of a command line.

    Args:
        settings: Give the topics' names.
        letters: As ``topic/partition/offset``.
        topics: Logical or physical names of the source topics, or of their dead letters.
        reasons: Why the records were given up.
        conversation: Key of the record.
        since: A time or how long ago.
        until: As `since`.
        now: Milliseconds UTC.

    Raises:
        FilterUnusable: One of them cannot be meant.
    """
    return Selection(
        places=frozenset(place_of(text) for text in letters),
        sources=frozenset(_topic(settings, name) for name in topics),
        reasons=frozenset(_reason(name) for name in reasons),
        conversation=conversation.encode() if conversation is not None else None,
        since=time_of(since, option="--since", now=now) if since is not None else None,
        until=time_of(until, option="--until", now=now) if until is not None else None,
    )


def place_of(text: str) -> Place:
    """Read the name of a letter.

    Raises:
        FilterUnusable: It is none.
    """
    try:
        return Place.parse(text)
    except ValueError:
        raise FilterUnusable(
            f"{text!r} is no letter: expected topic/partition/offset, as `turnstream dlq list` "
            "shows it"
        ) from None


def recipient_of(name: str) -> Recipient:
    """Read for whom letters are to be replayed that do not say who gave them up.

    Raises:
        FilterUnusable: No such role.
    """
    for known in RECIPIENTS:
        if name == known:
            return known
    raise FilterUnusable(f"--for {name!r}: expected one of {', '.join(RECIPIENTS)}")


def _topic(settings: "Settings", name: str) -> str:
    wanted = name.removesuffix(DEAD_LETTERS)
    physical = {settings.topics.name(logical) for logical in EVENTS}
    if wanted in EVENTS:
        return settings.topics.name(wanted)
    if wanted in physical:
        return wanted
    raise FilterUnusable(f"--topic {name!r}: expected one of {', '.join(sorted(EVENTS))}")


def _reason(name: str) -> str:
    if name in REASONS or name == FOREIGN:
        return name
    raise FilterUnusable(f"--reason {name!r}: expected one of {', '.join((*REASONS, FOREIGN))}")


def time_of(text: str, *, option: str, now: int) -> int:
    """Read a time, or how long ago; milliseconds UTC.

    Raises:
        FilterUnusable: It is neither.
    """
    if ago := _AGO.fullmatch(text):
        return now - int(ago[1]) * _UNIT_MS[ago[2]]
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise FilterUnusable(
            f"{option} {text!r}: expected a time as 2026-01-31T12:00 (UTC unless it says "
            "otherwise), or how long ago as 90s, 30m, 2h or 7d"
        ) from None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return int(at.timestamp() * 1000)
