"""How dead letters are shown: a customer's words only to who asks for them."""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import orjson
from pydantic import JsonValue

from turnstream.stream.audit import AuditRecord, name_of
from turnstream.stream.letters import Letter, split
from turnstream.stream.topics import DEAD_LETTERS

if TYPE_CHECKING:
    from rich.table import Table

    from turnstream.core.events import Event
    from turnstream.stream.handler import Record

_SHOWN: Final = frozenset(
    {
        # Ids.
        "action_id",
        "attachment_id",
        "comparison_id",
        "control_id",
        "conversation_id",
        "decision_id",
        "echo_of",
        "exchange_id",
        "live_action_id",
        "live_id",
        "message_id",
        "passage_id",
        "proposal_id",
        "question_id",
        "reply_to_question_id",
        "tenant_id",
        "timer_id",
        "tool_call_id",
        "turn_id",
        # Closed lists.
        "action",
        "cause",
        "effect",
        "handoff_cause",
        "kind",
        "live_action",
        "of",
        "outcome",
        "reason_code",
        "role",
        "verdict",
        # What the deployment names.
        "agent",
        "answer_id",
        "candidate",
        "channel_id",
        "code",
        "content_type",
        "decision_version",
        "field",
        "keyword",
        "live_missing_field",
        "live_tool",
        "locale",
        "missing_field",
        "model",
        "needed_for",
        "presentation_version",
        "queue",
        "rule",
        "tool",
        "topic",
    }
)
"""Fields whose text is shown. A list of what may be: a new field is hidden until it is added."""

_FREE: Final = "values"
"""The fields that map names which the catalog gives to what a customer gave."""

_SHOWN_HEADERS: Final = ("turnstream.", "ce_", "traceparent")
"""Beginnings of header names whose values are shown; others may hold a token as well as a name."""

_LONGEST_SHOWN: Final = 200
"""Characters of an id or name: somebody may have put a whole message into it."""


def shown_time(at: int) -> str:
    """A time for people: UTC, to the second."""
    try:
        return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError):
        return f"{at} ms"  # a header may hold any number


def printable(text: str) -> str:
    """Text that cannot steer a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def hidden(content: str | bytes) -> str:
    """What is said of a text in its place: how long it is, and which."""
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    unit = "characters" if isinstance(content, str) else "bytes"
    digest = hashlib.blake2b(raw, digest_size=6).hexdigest()
    return f"<{len(content):,} {unit}, {digest}>"


def redacted(value: JsonValue, *, name: str = "") -> JsonValue:
    """A decoded event without what a customer or a tool said."""
    match value:
        case str():
            return value if name in _SHOWN and len(value) <= _LONGEST_SHOWN else hidden(value)
        case dict():
            # The names in a map of values are the catalog's, and may be any of those above.
            free = name == _FREE
            return {_key(k): redacted(one, name="" if free else k) for k, one in value.items()}
        case list():
            return [redacted(one, name=name if isinstance(one, str) else "") for one in value]
        case _:
            return value


def _key(key: str) -> str:
    """Keys of an event are names; those of a map that it carries may be anything."""
    return key if len(key) <= _LONGEST_SHOWN and key.replace("_", "").isalnum() else hidden(key)


def shown_key(key: bytes | None) -> str:
    """A record's key: a conversation id, if all is well."""
    if key is None:
        return "-"
    text = printable(key.decode("utf-8", "backslashreplace"))
    return text if len(text) <= _LONGEST_SHOWN else hidden(key)


def key_of(letter: Letter) -> str:
    """A letter's key as it is shown; of one that is too long to be kept, which it was."""
    return (
        f"<long key, {printable(letter.key_digest)}>"
        if letter.key_digest
        else shown_key(letter.key)
    )


def state_of(done: AuditRecord | None) -> str:
    """What has become of a letter."""
    return "open" if done is None else done.action


def letter_as_json(
    letter: Letter, done: AuditRecord | None, *, reveal: bool = False
) -> dict[str, Any]:
    """A letter for programs; times are milliseconds UTC."""
    key = None if letter.key is None and not letter.key_digest else key_of(letter)
    if reveal and letter.key is not None:
        key = letter.key.decode("utf-8", "backslashreplace")
    return {
        "letter": str(letter.place),
        "at": letter.at,
        "topic": letter.source.topic if letter.source is not None else None,
        "partition": letter.source.partition if letter.source is not None else None,
        "offset": letter.source.offset if letter.source is not None else None,
        "timestamp": letter.source_at,
        "key": key,
        "role": letter.role or None,
        "stage": letter.stage or None,
        "for": letter.recipient,
        "reason": letter.reason,
        "detail": letter.detail,
        "attempts": letter.attempts,
        "version": letter.version,
        "size": letter.size,
        "pointer": letter.pointer,
        "origin": str(letter.origin) if letter.origin is not None else None,
        "replays": letter.replays,
        "state": state_of(done),
        "done": done.model_dump(exclude_none=True) if done is not None else None,
    }


def letters_table(
    letters: Iterable[Letter], done: Mapping[tuple[str, int], AuditRecord]
) -> "Table":
    """Letters for people."""
    from rich.box import SIMPLE
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=SIMPLE, pad_edge=False)
    # A name is typed again: cut in two it is of no use.
    for column in ("time (UTC)", "letter", "record"):
        table.add_column(column, no_wrap=True)
    for column in ("key", "role", "reason"):
        table.add_column(column, overflow="fold")
    for column in ("attempts", "replays", "letter bytes"):
        table.add_column(column, justify="right")
    table.add_column("state")
    for one in letters:
        table.add_row(
            shown_time(one.at),
            escape(str(one.place)),
            escape(_record_of(one)),
            escape(key_of(one)),
            escape(printable(one.role or "-")),
            escape(printable(one.reason)),
            str(one.attempts),
            str(one.replays),
            f"{one.size:,}",
            state_of(done.get(name_of(one))),
        )
    return table


def _record_of(letter: Letter) -> str:
    """Where the record was: its topic only if the letter's name does not say it."""
    place = letter.source
    if place is None:
        return "-"
    if letter.place.topic == place.topic + DEAD_LETTERS:
        return f"{place.partition}/{place.offset}"
    return printable(str(place))


def headers_as_json(record: "Record", *, reveal: bool) -> list[list[str | None]]:
    """The headers of a record as it was, in their order; those of ours are said elsewhere."""
    own, _ = split(record.headers)
    shown: list[list[str | None]] = []
    for name, value in own:
        text: str | None = None
        if value is None:
            pass
        elif reveal or (name.startswith(_SHOWN_HEADERS) and len(value) <= _LONGEST_SHOWN):
            text = value.decode("utf-8", "backslashreplace")
        else:
            text = hidden(value)
        shown.append([name if reveal or len(name) <= _LONGEST_SHOWN else hidden(name), text])
    return shown


def event_as_json(event: "Event", *, reveal: bool) -> JsonValue:
    """A decoded event."""
    fields: JsonValue = orjson.loads(event.model_dump_json())
    return fields if reveal else redacted(fields)


def value_as_json(value: bytes | None, *, reveal: bool) -> str | None:
    """A value that does not decode."""
    if value is None:
        return None
    return value.decode("utf-8", "backslashreplace") if reveal else hidden(value)
